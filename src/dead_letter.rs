//! From what the broker gave to what people and the engine need: identity, group, cause, times, and what is
//! unknown. Pure; the dialects do the reading.

use sha2::Digest;

use crate::clock::Time;
use crate::dialect;
use crate::failure::{Cause, FailureContext, fingerprint};
use crate::letter::{Headers, RawLetter};
use crate::stamp;
use crate::topology::{Channel, EventIdRule, GroupRule};

/// A fact with where it comes from, or why it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The fact.
    pub value: Option<String>,
    /// `header event-id`, `Kafka key`; or why there is no value.
    pub from: String,
}

/// A letter with everything that can be said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// As the broker gave it.
    pub raw: RawLetter,
    /// As the dialects read it.
    pub context: FailureContext,
    /// Business identity.
    pub event_id: Known,
    /// Ordering key.
    pub group: Known,
    /// Fingerprint of the failure.
    pub cause: Cause,
    /// When it died, and whose word that is.
    pub died_at: Option<(Time, &'static str)>,
    /// How often redrive has sent it back before.
    pub redriven: u32,
    /// The run that sent it last and its number there.
    pub sent_by: Option<(String, u64)>,
}

impl DeadLetter {
    /// Reads a letter of `channel`.
    pub fn of(raw: RawLetter, channel: &Channel) -> Self {
        let context = dialect::read(&raw);
        let cause = fingerprint(&context);
        let event_id = event_id(&raw, &context, &channel.event_id.value);
        let group = group(&raw, &context, &channel.group.value);
        let died_at = raw
            .facts
            .dead_at
            .map(|at| (at, "the broker"))
            .or_else(|| context.last().filter(|death| !death.at_is_first)?.at.map(|at| (at, "the letter")))
            .or_else(|| raw.facts.written_at.map(|(at, _)| (at, "the record")));
        let headers = &raw.message.headers;
        let redriven = headers
            .last(stamp::COUNT)
            .and_then(crate::letter::Value::integer_or_digits)
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0);
        let sent_by = headers.last_text(stamp::RUN).and_then(sent_by);
        Self { raw, context, event_id, group, cause, died_at, redriven, sent_by }
    }

    /// SHA-256 of the body, in hex; a null body has none.
    pub fn body_hash(&self) -> Option<String> {
        let body = self.raw.message.body.as_ref()?;
        Some(sha2::Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Reads `<run>/<seq>`.
fn sent_by(text: &str) -> Option<(String, u64)> {
    let (run, seq) = text.rsplit_once('/')?;
    Some((run.to_owned(), seq.parse().ok()?))
}

fn event_id(raw: &RawLetter, context: &FailureContext, rule: &EventIdRule) -> Known {
    match rule {
        EventIdRule::Header(name) => in_headers(&raw.message.headers, name, "header"),
        EventIdRule::Property(name) => in_headers(&raw.message.properties, name, "property"),
        EventIdRule::Body(pointer) => in_body(raw, pointer),
        EventIdRule::None => match &context.event_id {
            Some(id) => Known { value: Some(id.clone()), from: "the envelope".to_owned() },
            None => Known { value: None, from: "the topology names no event id".to_owned() },
        },
    }
}

fn group(raw: &RawLetter, context: &FailureContext, rule: &GroupRule) -> Known {
    match rule {
        GroupRule::None => Known { value: None, from: "the topology names no group".to_owned() },
        GroupRule::Header(name) => in_headers(&raw.message.headers, name, "header"),
        GroupRule::Body(pointer) => in_body(raw, pointer),
        GroupRule::Key if context.key_unavailable => match &context.group {
            Some(group) => Known { value: Some(group.clone()), from: "the failure context".to_owned() },
            None => Known { value: None, from: "the key was lost when it was buried".to_owned() },
        },
        GroupRule::Key => match &raw.message.key {
            Some(key) => Known { value: Some(printable(key)), from: "key".to_owned() },
            None => Known { value: None, from: "it has no key".to_owned() },
        },
    }
}

fn in_headers(headers: &Headers, name: &str, word: &str) -> Known {
    let from = format!("{word} {name}");
    match headers.first(name) {
        None => Known { value: None, from: format!("no {from}") },
        Some(value) => {
            match value.text().map(str::to_owned).or_else(|| value.integer().map(|n| n.to_string())) {
                Some(text) => Known { value: Some(text), from },
                None => match value.bytes() {
                    Some(bytes) => Known { value: Some(printable(bytes)), from },
                    None => Known { value: None, from: format!("{from} is a {}", value.type_name()) },
                },
            }
        }
    }
}

fn in_body(raw: &RawLetter, pointer: &str) -> Known {
    let from = format!("body {pointer}");
    let parsed = raw.message.body.as_ref().map(|body| serde_json::from_slice::<serde_json::Value>(body));
    match parsed {
        Some(Ok(json)) => match json.pointer(pointer) {
            Some(serde_json::Value::String(text)) => Known { value: Some(text.clone()), from },
            Some(serde_json::Value::Number(number)) => Known { value: Some(number.to_string()), from },
            Some(_) => Known { value: None, from: format!("{from} is neither text nor number") },
            None => Known { value: None, from: format!("no {from}") },
        },
        Some(Err(_)) => Known { value: None, from: "the body is no JSON".to_owned() },
        None => Known { value: None, from: "the body is null".to_owned() },
    }
}

/// Bytes as a group or id: UTF-8 as it is, else hex, so that two keys never look the same.
fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("0x".to_owned(), |mut hex, byte| {
            use std::fmt::Write;
            let _ = write!(hex, "{byte:02x}");
            hex
        }),
    }
}
