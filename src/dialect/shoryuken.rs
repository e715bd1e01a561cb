//! Shoryuken and ActiveJob on SQS: the redrive policy moves the job; `executions` in the body stays 0.

use super::{Buried, Dialect, Look, Mark, Testimony};
use crate::failure::{Prospect, Sureness};
use crate::letter::Header;

/// See the file's head.
pub(super) struct Shoryuken;

impl Dialect for Shoryuken {
    fn name(&self) -> &'static str {
        "shoryuken"
    }

    fn about(&self) -> &'static str {
        "Shoryuken workers and ActiveJob on SQS"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("shoryuken_class"), Mark::Field("job_class")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        if letter.headers().has("shoryuken_class") {
            return Some((Sureness::Sure, "attribute shoryuken_class".to_owned()));
        }
        ["job_class", "job_id", "queue_name", "arguments"]
            .iter()
            .all(|name| letter.has_field(name))
            .then(|| (Sureness::Likely, "body fields job_class, job_id, queue_name, arguments".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        says.buried = Buried::ByBroker;
        says.event_id = letter.field("job_id").map(str::to_owned);
        says.doubt("message", "the job's error is not in the letter");
        let executions = letter.json().and_then(|body| body["executions"].as_u64()).unwrap_or(0);
        if executions > 0 {
            says.prospect(Prospect::OneTry { why: format!("`executions` in the body is {executions}") });
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}
