//! Dramatiq on AMQP and SQS (there in base64). Everything is in the JSON body; `options.retries` and
//! `options.traceback` are written when a RETRY is enqueued, so the traceback is of the try before the last,
//! and a letter without retries says nothing.

use serde_json::Value as Json;

use super::x_death::Deaths;
use super::{Buried, Dialect, Look, Mark, Testimony, thrown};
use crate::clock::Time;
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, base64};

/// See the file's head.
pub(super) struct Dramatiq;

impl Dialect for Dramatiq {
    fn name(&self) -> &'static str {
        "dramatiq"
    }

    fn about(&self) -> &'static str {
        "Dramatiq's `<queue>.XQ` on RabbitMQ, `<namespace>_<queue>_dlq` on SQS"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Field("actor_name"), Mark::Start("eyJ")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        message(letter).map(|_| (Sureness::Sure, "body fields queue_name, actor_name, options".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some(message) = message(letter) else { return };
        says.buried = Buried::ByBroker;
        says.event_id = message["message_id"].as_str().map(str::to_owned);
        let deaths = Deaths::of(letter.headers()).unwrap_or_default();
        says.origin = match (deaths.origin(), message["queue_name"].as_str()) {
            (Some(record), _) => Some(record.place()),
            (None, Some(queue)) if letter.facts.route.is_some() => {
                Some(Origin { queue: Some(queue.to_owned()), ..Origin::default() })
            }
            // On SQS the name lacks the namespace: it is no queue's name.
            (None, Some(queue)) => {
                Some(Origin { named: vec![("channel", queue.to_owned())], ..Origin::default() })
            }
            (None, None) => None,
        };
        let options = &message["options"];
        let retries = options["retries"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        if let Some(traceback) = options["traceback"].as_str() {
            let mut death = Death { count: 1, ..Death::default() };
            thrown::put(&mut death, Language::Python, traceback, |_| false);
            says.deaths = vec![death];
            says.doubt("message", "the traceback is of the try before the last");
        }
        let died = deaths.failures().last().and_then(|record| record.at);
        says.attempts = if retries > 0 {
            says.prospect(Prospect::OneTry { why: format!("`options.retries` in the body is {retries}") });
            retries.checked_add(1)
        } else {
            first_try(&message, died, says)
        };
        if options["max_age"].is_u64() {
            says.doubt("prospects", "`options.max_age` is set: an old message is put away without a try");
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

/// Without a retry the letter of a failed try and of one that was too old for a try look the same. One that
/// died in the very second in which it was enqueued was not too old.
fn first_try(message: &Json, died: Option<Time>, says: &mut Testimony) -> Option<u32> {
    let enqueued = message["message_timestamp"].as_i64();
    match (enqueued, died) {
        (Some(enqueued), Some(died)) if died.millis() / 1000 <= enqueued / 1000 => Some(1),
        _ => {
            says.doubt("attempts", "1, or 0 if the age limit struck: the letter looks the same");
            None
        }
    }
}

fn message(letter: &Look<'_>) -> Option<Json> {
    let is_one = |json: &Json| {
        json["queue_name"].is_string() && json["actor_name"].is_string() && json["options"].is_object()
    };
    if letter.has_field("actor_name") {
        return letter.json().filter(|json| is_one(json)).cloned();
    }
    let text = letter.body_text().filter(|text| text.starts_with("eyJ") && text.len() <= 2 << 20)?;
    let json = serde_json::from_slice(&base64::decode(text)?).ok()?;
    is_one(&json).then_some(json)
}
