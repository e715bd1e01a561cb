//! Watermill's poison queue, on Kafka and AMQP. Headers come in random order, duplicates collapsed. There is
//! no offset, time, group or count; `handler_poisoned` is a name in its router, not a consumer group. Go
//! errors have no class. A recovered panic has its stack trace inside the reason.

use super::{Dialect, Look, Mark, Testimony};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

const REASON: &str = "reason_poisoned";
const TOPIC: &str = "topic_poisoned";
const HANDLER: &str = "handler_poisoned";
const SUBSCRIBER: &str = "subscriber_poisoned";
const UUID: &str = "_watermill_message_uuid";
/// Between the message of a panic and its trace.
const STACK: &str = ", stacktrace: ";

/// See the file's head.
pub(super) struct Watermill;

impl Dialect for Watermill {
    fn name(&self) -> &'static str {
        "watermill"
    }

    fn about(&self) -> &'static str {
        "Watermill's poison queue middleware, on Kafka and RabbitMQ"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(REASON), Mark::Header(TOPIC), Mark::Header(HANDLER), Mark::Header(SUBSCRIBER)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let found = [REASON, TOPIC].into_iter().find(|name| letter.headers().has(name))?;
        let sure = if letter.headers().has(HANDLER) { Sureness::Sure } else { Sureness::Likely };
        Some((sure, format!("header {found}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let topic = says.text("origin.topic", TOPIC, headers.last(TOPIC));
        // On AMQP its topic is the queue and the routing key of the default exchange.
        let queue = letter.facts.route.as_ref().and(topic.clone());
        let origin = Origin { topic, queue, ..Origin::default() };
        let reason = says.text("message", REASON, headers.last(REASON));
        let (message, stack) = match reason.as_deref().and_then(|text| text.split_once(STACK)) {
            Some((message, stack)) => (Some(message.to_owned()), Some(stack.trim_start().to_owned())),
            None => (reason, None),
        };
        says.event_id = says.text("event id", UUID, headers.last(UUID));
        if letter.facts.place.is_some() {
            says.key_unavailable = letter.message.key.is_none();
            let why = if says.key_unavailable {
                "Watermill's default marshaler drops the key"
            } else {
                "Watermill drops the key and its publisher makes a new one from the metadata: it may not be the event's"
            };
            says.doubt("key", why);
        }
        says.deaths.push(Death {
            place: (!origin.is_empty()).then(|| origin.clone()),
            message,
            stack,
            count: 1,
            ..Death::default()
        });
        says.origin = (!origin.is_empty()).then_some(origin);
    }

    fn owns(&self, header: &Header) -> bool {
        matches!(
            header.name.as_str(),
            REASON | TOPIC | HANDLER | SUBSCRIBER | "_watermill_delayed_until" | "_watermill_delayed_for"
        )
    }
}
