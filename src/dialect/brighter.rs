//! Brighter, when it rejects a message: its own bag of headers, and the reason.
//!
//! Where the broker buries (RabbitMQ) the bag says why and no more. Where Brighter itself does (Kafka, since 10),
//! it writes where the message was, when and why it was rejected, and puts the dead-letter topic into the
//! header that names the topic: a consumer that defers such a message would send it there.
//!
//! On SQS ten attributes have to do, so all of this is in one, `bag`, a JSON object, in another spelling.

use serde_json::Value as Json;

use super::{Buried, Dialect, Look, Mark, Testimony, splice, when, x_death};
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
/// The attribute on SQS, and what it holds about a rejection; its own name for the type's header is one of two.
const BAG: &str = "bag";
const BAG_TYPES: [&str; 2] = ["message-type", "messageType"];
const BAG_TOPIC: &str = "topic";
const BAG_OWN: &[&str] = &[
    "handled-count",
    "handledCount",
    HANDLED,
    "originalTopic",
    "originalMessageType",
    "originalType",
    "rejectionReason",
    "rejectionMessage",
    "rejectionTimestamp",
    REASON,
];
/// What Brighter calls a message that it cannot read.
const UNREADABLE: &str = "MT_UNACCEPTABLE";

/// See the file's head.
pub(super) struct Brighter;

impl Dialect for Brighter {
    fn name(&self) -> &'static str {
        "brighter"
    }

    fn about(&self) -> &'static str {
        "messages that Brighter rejected: by the broker on RabbitMQ, by itself on Kafka and SQS (10)"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(HANDLED), Mark::Header(REASON), Mark::Header(FROM_TOPIC), Mark::Header(BAG)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if [TYPE, "MessageId", FROM_TOPIC, REJECTED_AT].iter().all(|name| headers.has(name)) {
            return Some((Sureness::Sure, format!("headers {FROM_TOPIC}, {REJECTED_AT}")));
        }
        if let Some(bag) = bag(letter) {
            let sureness =
                if bag["rejectionTimestamp"].is_string() { Sureness::Sure } else { Sureness::Likely };
            return Some((sureness, "attributes bag and message-type".to_owned()));
        }
        let own = [TOPIC, TYPE, "MessageId"].iter().all(|name| headers.has(name));
        let counted = [HANDLED, REASON].into_iter().find(|name| headers.has(name));
        let counted = counted.filter(|_| own)?;
        Some((Sureness::Likely, format!("headers {TOPIC}, {TYPE}, MessageId, {counted}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        if let Some(bag) = bag(letter) {
            return read_bag(letter, &bag, says);
        }
        says.event_id = headers.last_text("MessageId").map(str::to_owned);
        if let Some(topic) = headers.last_text(FROM_TOPIC) {
            says.origin = Some(Origin { topic: Some(topic.to_owned()), ..Origin::default() });
            let at = headers.last(REJECTED_AT);
            let at = says.rfc3339("failed_at", REJECTED_AT, at);
            let reason = says.text("reason", REASON, headers.last(REASON));
            // Which of the two it was; the handler's own words, if it gave any, are the message.
            let stage = reason.as_deref().and_then(stage);
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
        if let Some(told) = says.words("message", REASON, headers) {
            let (reason, message) = pump_words(&told);
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
        let known = |kind: &&str| *kind != UNREADABLE;
        if let Some(bag) = bag(letter) {
            let kind = bag["originalMessageType"].as_str().filter(known);
            for (name, was) in BAG_TYPES.map(|name| (name, kind)) {
                put_back(message, name, was);
            }
            put_back(message, BAG_TOPIC, bag["originalTopic"].as_str());
            let kept = headers.last(BAG).and_then(Value::bytes);
            let kept = kept.and_then(|bytes| splice::without(bytes, |name| BAG_OWN.contains(&name)));
            let kept = kept.and_then(|bytes| String::from_utf8(bytes).ok());
            put_back(message, BAG, kept.as_deref());
            return Ok(());
        }
        put_back(message, TOPIC, headers.last_text(FROM_TOPIC));
        put_back(message, TYPE, headers.last_text(FROM_TYPE).filter(known));
        Ok(())
    }
}

/// Gives a header that is there the value that it had, in its own type.
fn put_back(message: &mut Message, name: &str, was: Option<&str>) {
    let is = message.headers.last_text(name);
    let Some(was) = was.filter(|was| is.is_some_and(|is| is != *was)) else { return };
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

fn stage(reason: &str) -> Option<Stage> {
    match reason {
        "Unacceptable" => Some(Stage::Value),
        "DeliveryError" => Some(Stage::Handler),
        _ => None,
    }
}

/// The bag of a message on SQS, if it is Brighter's.
fn bag(letter: &Look<'_>) -> Option<Json> {
    let headers = letter.headers();
    let text = headers.last_text(BAG).filter(|text| text.starts_with('{'))?;
    if !BAG_TYPES.iter().any(|name| headers.last_text(name).is_some_and(|kind| kind.starts_with("MT_"))) {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn read_bag(letter: &Look<'_>, bag: &Json, says: &mut Testimony) {
    let text = |name: &str| bag[name].as_str().filter(|text| !text.is_empty());
    says.event_id = letter.headers().last_text("id").map(str::to_owned);
    let (told_reason, told) = text(REASON).map(pump_words).unwrap_or_default();
    let at = text("rejectionTimestamp").and_then(when::text);
    let topic = text("originalTopic");
    if topic.is_none() && at.is_none() && text(REASON).is_none() && text("rejectionReason").is_none() {
        // A message of Brighter's that its queue moved: the bag tells of no rejection.
        says.buried = Buried::ByBroker;
        return;
    }
    // A name of Brighter's routing, which need not be a queue's.
    says.origin = topic.map(|topic| Origin { named: vec![("topic", topic.to_owned())], ..Origin::default() });
    let reason = text("rejectionReason").or(told_reason).map(str::to_owned);
    let message = text("rejectionMessage").or(Some(told)).filter(|words| !words.is_empty());
    says.deaths = vec![Death {
        at,
        stage: reason.as_deref().and_then(stage),
        reason,
        message: message.map(str::to_owned),
        count: 1,
        ..Death::default()
    }];
}

/// `Message rejected reason: DeliveryError Description: card declined`, as the message pump writes it: the
/// reason, and the handler's own words. Anything else is somebody's own words.
fn pump_words(told: &str) -> (Option<&str>, &str) {
    let Some(rest) = told.strip_prefix("Message rejected reason: ") else { return (None, told) };
    let (reason, words) = rest.split_once(" Description: ").unwrap_or((rest, ""));
    (Some(reason.trim()), words.trim())
}
