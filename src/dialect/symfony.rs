//! Symfony Messenger's failure transport on AMQP and SQS. With the JSON serializer there is one header per
//! class of stamp, a JSON list, oldest first (on SQS all of them in the attribute `X-Symfony-Messenger`). With
//! PHP's serializer they are inside the body: read by pattern, never unserialised.
//!
//! The listener does not send a message on that already carries SentToFailureTransportStamp: a letter that goes
//! back with it and fails again is GONE. So it stays behind, or the letter is refused.

use serde_json::Value as Json;

use super::symfony_php as php;
use super::{Buried, Dialect, Look, Mark, Testimony, rabbitmq, splice, when, x_death::Deaths};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Message, Value};

/// How headers of stamps begin.
const STAMP: &str = "X-Message-Stamp-";
/// The attribute that holds them on SQS.
const ATTRIBUTE: &str = "X-Symfony-Messenger";
/// Messenger's own stamps.
const NAMESPACE: &str = "Symfony\\Component\\Messenger\\Stamp\\";
/// Stamps of one failed life. Others are the application's or choose the bus, and `HandledStamp` keeps
/// handlers that were done from being called again.
const OWN: &[&str] = &[
    "ErrorDetailsStamp",
    "RedeliveryStamp",
    "SentToFailureTransportStamp",
    "DelayStamp",
    "ReceivedStamp",
    "SentStamp",
    "SentForRetryStamp",
    "TransportMessageIdStamp",
];
/// Links of a chain of exceptions that are followed.
const DEEPEST: usize = 32;

/// See the file's head.
pub(super) struct Symfony;

impl Dialect for Symfony {
    fn name(&self) -> &'static str {
        "symfony-messenger"
    }

    fn about(&self) -> &'static str {
        "Symfony Messenger's failure transport on RabbitMQ and SQS"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix(STAMP), Mark::Header(ATTRIBUTE), Mark::Start("O:36:"), Mark::Start(php::IN_BASE64)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if headers.has(ATTRIBUTE) {
            return Some((Sureness::Sure, format!("attribute {ATTRIBUTE}")));
        }
        if let Some(stamp) = headers.iter().find(|header| header.name.starts_with(STAMP)) {
            return Some((Sureness::Sure, format!("header {}", stamp.name)));
        }
        php::is_envelope(letter).then(|| (Sureness::Sure, "a serialised Envelope in the body".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        match php::envelope(letter) {
            Some(text) => php::read(&text, says),
            None if php::is_envelope(letter) => says.prospect(php::unreadable()),
            None => Stamps::of(letter).read(says),
        }
        let deaths = Deaths::of(letter.headers()).unwrap_or_default();
        let is_delay = |queue: &str| queue.starts_with("delay_");
        if deaths.failures().iter().any(|record| !record.expired() && !is_delay(&record.queue)) {
            says.buried = Buried::ByBroker;
        } else if !deaths.records.is_empty() {
            says.overrules.push((rabbitmq::NAME, "x-death is about Messenger's own delay queues"));
        }
    }

    fn owns(&self, header: &Header) -> bool {
        is_own(&header.name)
    }

    fn restore(&self, _letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        let Some(attribute) = message.headers.last(ATTRIBUTE) else { return Ok(()) };
        let kept = attribute.bytes().and_then(|bytes| splice::without(bytes, is_own));
        let Some(kept) = kept else {
            return Err(Prospect::Refused {
                why: format!(
                    "{ATTRIBUTE} is not readable: if it holds SentToFailureTransportStamp, the \
                              message is lost when it fails again"
                ),
                way_round: "messenger:failed:retry".to_owned(),
            });
        };
        let in_place = |header: Header| {
            let value =
                if header.name == ATTRIBUTE { Value::Text(kept.clone().into()) } else { header.value };
            (header.name, value)
        };
        message.headers = std::mem::take(&mut message.headers).into_iter().map(in_place).collect();
        if kept == b"{}" {
            message.headers.remove(ATTRIBUTE);
        }
        Ok(())
    }
}

fn is_own(name: &str) -> bool {
    name.strip_prefix(STAMP)
        .and_then(|class| class.strip_prefix(NAMESPACE))
        .is_some_and(|class| OWN.contains(&class))
}

/// The stamps that are read, as JSON.
#[derive(Default)]
struct Stamps {
    errors: Vec<Json>,
    redeliveries: Vec<Json>,
    sent_to_failure: Vec<Json>,
}

impl Stamps {
    fn of(letter: &Look<'_>) -> Self {
        let mut stamps = Self::default();
        let headers = letter.headers();
        if let Some(text) = headers.last_text(ATTRIBUTE) {
            if let Ok(Json::Object(all)) = serde_json::from_str(text) {
                for (name, value) in &all {
                    stamps.take(name, value.as_str().unwrap_or_default());
                }
            }
        } else {
            for header in headers {
                if header.name.starts_with(STAMP) {
                    stamps.take(&header.name, header.value.text().unwrap_or_default());
                }
            }
        }
        stamps
    }

    fn take(&mut self, name: &str, text: &str) {
        let list = match name.strip_prefix(STAMP).and_then(|class| class.strip_prefix(NAMESPACE)) {
            Some("ErrorDetailsStamp") => &mut self.errors,
            Some("RedeliveryStamp") => &mut self.redeliveries,
            Some("SentToFailureTransportStamp") => &mut self.sent_to_failure,
            _ => return,
        };
        match serde_json::from_str(text) {
            Ok(Json::Array(stamps)) => *list = stamps,
            Ok(one @ Json::Object(_)) => list.push(one),
            _ => {}
        }
    }

    fn read(&self, says: &mut Testimony) {
        let receiver = self.sent_to_failure.last().and_then(|stamp| stamp["originalReceiverName"].as_str());
        says.origin = receiver.map(transport);
        // The last one belongs to the hop into the failure transport and says 0; its time is the death's.
        let tries = self.redeliveries.iter().filter_map(|stamp| stamp["retryCount"].as_u64()).max();
        says.attempts = tries.and_then(|tries| u32::try_from(tries).ok()?.checked_add(1));
        let at = self.redeliveries.last().and_then(|stamp| when::of_json(&stamp["redeliveredAt"]));
        let mut death = Death { at, place: says.origin.clone(), count: 1, ..Death::default() };
        match self.errors.last() {
            Some(error) => failure(error, &mut death),
            None if self.sent_to_failure.is_empty() && self.redeliveries.is_empty() => return,
            None => says.doubt("message", "there is no ErrorDetailsStamp"),
        }
        says.deaths = vec![death];
    }
}

/// A transport of the application's configuration: no exchange, no queue.
pub(super) fn transport(name: &str) -> Origin {
    Origin { named: vec![("transport", name.to_owned())], ..Origin::default() }
}

fn failure(stamp: &Json, death: &mut Death) {
    let text = |json: &Json| json.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    death.error_class = text(&stamp["exceptionClass"]);
    death.message = text(&stamp["exceptionMessage"]);
    let outer = &stamp["flattenException"];
    if !outer.is_object() {
        return;
    }
    let mut root = outer;
    for _ in 0..DEEPEST {
        match &root["previous"] {
            deeper @ Json::Object(_) => root = deeper,
            _ => break,
        }
    }
    death.root_class = text(&root["class"]).or_else(|| death.error_class.clone());
    death.root_message = text(&root["message"]).filter(|words| Some(words) != death.message.as_ref());
    // The innermost first, as PHP prints it: where the root was thrown.
    death.stack = trace(root).or_else(|| trace(outer));
}

fn trace(exception: &Json) -> Option<String> {
    if let Some(text) = exception["trace_as_string"].as_str().filter(|text| !text.is_empty()) {
        return Some(text.to_owned());
    }
    let frames = exception["trace"].as_array().filter(|frames| !frames.is_empty())?;
    let mut lines = String::new();
    for (number, frame) in frames.iter().enumerate().take(256) {
        use std::fmt::Write;
        let text = |name: &str| frame[name].as_str().unwrap_or_default();
        let _ = writeln!(
            lines,
            "#{number} {}({}): {}{}{}()",
            text("file"),
            frame["line"].as_u64().unwrap_or(0),
            text("class"),
            text("type"),
            text("function")
        );
    }
    Some(lines)
}
