//! Brighter, when it rejects a message: its own bag of headers, and the reason.
//!
//! Where the broker buries (RabbitMQ) the bag says why and no more. Where Brighter itself does (Kafka, since 10),
//! it writes where the message was, when and why it was rejected, and puts the dead-letter topic into the
//! header that names the topic: a consumer that defers such a message would send it there.

use super::{Buried, Dialect, Look, Mark, Testimony, x_death};
use crate::failure::{Death, Origin, Prospect, Stage, Sureness};
use crate::letter::{Header, Message, Value};

const TOPIC: &str = "Topic";
const TYPE: &str = "MessageType";
const HANDLED: &str = "HandledCount";
const REASON: &str = "RejectionReason";
const WORDS: &str = "RejectionMessage";
const REJECTED_AT: &str = "RejectionTimestamp";
const FROM_TOPIC: &str = "OriginalTopic";
const FROM_TYPE: &str = "OriginalType";
/// What Brighter calls a message that it cannot read.
const UNREADABLE: &str = "MT_UNACCEPTABLE";

/// See the file's head.
pub(super) struct Brighter;

impl Dialect for Brighter {
    fn name(&self) -> &'static str {
        "brighter"
    }

    fn about(&self) -> &'static str {
        "messages that Brighter rejected: by the broker on RabbitMQ, by itself on Kafka (10)"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(HANDLED), Mark::Header(REASON), Mark::Header(FROM_TOPIC)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if [TYPE, "MessageId", FROM_TOPIC, REJECTED_AT].iter().all(|name| headers.has(name)) {
            return Some((Sureness::Sure, format!("headers {FROM_TOPIC}, {REJECTED_AT}")));
        }
        let own = [TOPIC, TYPE, "MessageId"].iter().all(|name| headers.has(name));
        let counted = [HANDLED, REASON].into_iter().find(|name| headers.has(name));
        let counted = counted.filter(|_| own)?;
        Some((Sureness::Likely, format!("headers {TOPIC}, {TYPE}, MessageId, {counted}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.event_id = headers.last_text("MessageId").map(str::to_owned);
        if let Some(topic) = headers.last_text(FROM_TOPIC) {
            says.origin = Some(Origin { topic: Some(topic.to_owned()), ..Origin::default() });
            let at = headers.last(REJECTED_AT);
            let at = says.rfc3339("failed_at", REJECTED_AT, at);
            let reason = says.text("reason", REASON, headers.last(REASON));
            // Which of the two it was; the handler's own words, if it gave any, are the message.
            let stage = match reason.as_deref() {
                Some("Unacceptable") => Some(Stage::Value),
                Some("DeliveryError") => Some(Stage::Handler),
                _ => None,
            };
            let message = says.text("message", WORDS, headers.last(WORDS)).filter(|words| !words.is_empty());
            says.deaths = vec![Death { at, reason, message, stage, count: 1, ..Death::default() }];
            return;
        }
        // On RabbitMQ the topic is the routing key.
        let topic = headers.last_text(TOPIC).map(str::to_owned);
        says.origin = topic.map(|topic| match letter.facts.route {
            Some(_) => Origin { routing_key: Some(topic), ..Origin::default() },
            None => Origin { topic: Some(topic), ..Origin::default() },
        });
        if headers.has(x_death::NAME) {
            says.buried = Buried::ByBroker;
        }
        if let Some(told) = headers.last_text(REASON).filter(|told| !told.is_empty()) {
            let (reason, message) = pump_words(told);
            let own = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            says.deaths = vec![Death {
                // The broker's own word is the reason, where it buried.
                reason: reason.filter(|_| says.buried == Buried::ByFramework).and_then(own),
                message: own(message),
                count: 1,
                ..Death::default()
            }];
        }
    }

    fn owns(&self, header: &Header) -> bool {
        [HANDLED, REASON, WORDS, REJECTED_AT, FROM_TOPIC, FROM_TYPE].contains(&header.name.as_str())
    }

    /// The topic and the type are again what they were: each stands where it stood.
    fn restore(&self, letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        let headers = letter.headers();
        let kind = headers.last_text(FROM_TYPE).filter(|kind| *kind != UNREADABLE);
        for (name, was) in [(TOPIC, headers.last_text(FROM_TOPIC)), (TYPE, kind)] {
            let Some(was) = was.filter(|was| headers.last_text(name).is_some_and(|is| is != *was)) else {
                continue;
            };
            let written = |header: &Header| match header.value {
                Value::Bytes(_) => Value::from_bytes(was.as_bytes().to_vec()),
                _ => Value::from_text(was),
            };
            message.headers = message
                .headers
                .iter()
                .map(|header| {
                    let value = if header.name == name { written(header) } else { header.value.clone() };
                    (header.name.clone(), value)
                })
                .collect();
        }
        Ok(())
    }
}

/// `Message rejected reason: DeliveryError Description: card declined`, as the message pump writes it: the
/// reason, and the handler's own words. Anything else is somebody's own words.
fn pump_words(told: &str) -> (Option<&str>, &str) {
    let Some(rest) = told.strip_prefix("Message rejected reason: ") else { return (None, told) };
    let (reason, words) = rest.split_once(" Description: ").unwrap_or((rest, ""));
    (Some(reason.trim()), words.trim())
}
