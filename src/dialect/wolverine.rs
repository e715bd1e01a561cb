//! Wolverine's dead-letter queue. Its header names are plain words, so several have to be there.

use super::{Dialect, Look, Mark, Testimony, thrown, when};
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::Header;

const OWN: &[&str] = &[
    "exception-type",
    "exception-message",
    "exception-stack",
    "failed-at",
    "original-destination",
    "original-partition",
    "original-offset",
    "attempts",
];
/// Hung on a trace that was cut.
const CUT: &str = "... (truncated)";

/// See the file's head.
pub(super) struct Wolverine;

impl Dialect for Wolverine {
    fn name(&self) -> &'static str {
        "wolverine"
    }

    fn about(&self) -> &'static str {
        "Wolverine's dead-letter queue"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("exception-type"), Mark::Header("original-destination")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if !headers.has("exception-type") || !headers.has("exception-message") {
            return None;
        }
        let more = ["original-destination", "failed-at", "exception-stack", "message-type"];
        let count = more.iter().filter(|name| headers.has(name)).count();
        let sureness = match count {
            0 => return None,
            1 => Sureness::Likely,
            _ => Sureness::Sure,
        };
        Some((sureness, "headers exception-type and exception-message".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.origin = headers.last_text("original-destination").and_then(place_of).map(|origin| Origin {
            partition: says.number(
                "origin.partition",
                "original-partition",
                headers.last("original-partition"),
                super::Form::Integer,
            ),
            offset: says.number(
                "origin.offset",
                "original-offset",
                headers.last("original-offset"),
                super::Form::Integer,
            ),
            ..origin
        });
        says.event_id = headers.last_text("id").map(str::to_owned);
        says.attempts = says.number("attempts", "attempts", headers.last("attempts"), super::Form::Integer);
        let at = headers.last("failed-at").and_then(when::of);
        if at.is_none() && headers.has("failed-at") {
            says.doubt("deaths.at", "failed-at is no time with a zone");
        }
        if let Some(expires) = headers.last("deliver-by").and_then(when::of) {
            let why = "Wolverine discards an expired message without handling it";
            says.expires(expires, at, why, "send the message anew from the application");
        }
        let mut text = |field: &'static str, name: &str| says.words(field, name, headers);
        let (class, message) = (text("error", "exception-type"), text("message", "exception-message"));
        let stack = text("stack", "exception-stack");
        let mut death = Death {
            at,
            place: says.origin.clone(),
            error_class: class,
            message,
            count: 1,
            ..Death::default()
        };
        if let Some(stack) = stack {
            if stack.ends_with(CUT) {
                says.doubt("stack", "cut by Wolverine to 8,192 characters");
            }
            thrown::put(&mut death, Language::DotNet, &stack, |_| false);
        }
        if death.root_class.is_none() {
            death.root_class = death.error_class.clone();
        }
        says.deaths = vec![death];
        if let Some(queue) = says.origin.as_ref().and_then(|origin| origin.queue.clone()) {
            says.prospect(Prospect::ToQueue {
                queue,
                why: "one dead-letter queue serves many endpoints".to_owned(),
            });
        }
    }

    fn owns(&self, header: &Header) -> bool {
        OWN.contains(&header.name.as_str())
    }
}

/// `rabbitmq://queue/orders`, `sqs://orders`, `kafka://topic/orders`: the queue or topic, if it is one.
fn place_of(address: &str) -> Option<Origin> {
    let (transport, rest) = address.split_once("://")?;
    let path = rest.split(['?', '#']).next()?;
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let kind = parts.next()?;
    let name = parts.next_back();
    let named = match (kind, name) {
        ("topic", Some(topic)) if transport == "kafka" => {
            return Some(Origin { topic: Some(topic.to_owned()), ..Origin::default() });
        }
        // Where it was sent through, not where it was read.
        ("exchange" | "topic", _) => return None,
        (_, Some(name)) => name,
        (name, None) => name,
    };
    Some(Origin { queue: Some(named.to_owned()), ..Origin::default() })
}
