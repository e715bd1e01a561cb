//! Laravel's queues on RabbitMQ (`<queue>.failed`) and SQS. The exception is in the application's table
//! `failed_jobs`; the job itself is PHP-serialised inside the JSON body and is never looked into.

use super::{Buried, Dialect, Look, Mark, Testimony};
use crate::failure::{Prospect, Sureness};
use crate::letter::Header;

/// See the file's head.
pub(super) struct Laravel;

impl Dialect for Laravel {
    fn name(&self) -> &'static str {
        "laravel"
    }

    fn about(&self) -> &'static str {
        "Laravel jobs: `<queue>.failed` on RabbitMQ, a redrive policy on SQS"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("laravel"), Mark::Field("displayName"), Mark::Field("job")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let has_job = letter.has_field("job") && letter.has_field("data");
        if letter.headers().last("laravel").is_some_and(|table| table.table().is_some()) {
            return Some((Sureness::Sure, "header laravel".to_owned()));
        }
        let job = if has_job { letter.field("job") } else { None };
        job.filter(|job| job.contains('@') && letter.has_field("displayName"))
            .map(|_| (Sureness::Sure, "body fields job, displayName, data".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        says.event_id = letter.field("uuid").or_else(|| letter.field("id")).map(str::to_owned);
        if letter.properties().has("DeadLetterQueueSourceArn") {
            says.buried = Buried::ByBroker;
            says.doubt("message", "a job that throws goes to failed_jobs; here the worker died or timed out");
        } else {
            says.doubt("message", "Laravel keeps the exception in failed_jobs, not in the letter");
        }
        if let Some(attempts) = letter.headers().last("laravel").and_then(|table| table.get("attempts")) {
            let counted = attempts.integer_or_digits().unwrap_or_default();
            says.doubt("attempts", format!("{counted} or one more: `laravel.attempts` counts releases"));
        }
        if let Some(attempts) = letter.json().and_then(|body| body["attempts"].as_u64()).filter(|n| *n > 0) {
            says.prospect(Prospect::OneTry { why: format!("`attempts` in the body is {attempts}") });
        }
    }

    fn owns(&self, header: &Header) -> bool {
        // It holds the counter and nothing else.
        header.name == "laravel"
    }
}
