//! From what the broker gave to what people and the engine need: identity, group, cause, times, and what is
//! unknown. Pure; the dialects do the reading.
//!
//! A million of these are made in one look: nothing is put into words before somebody asks, and a body is
//! parsed at most once, and only if a rule or a filter needs it.

use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;
use sha2::Digest;

use crate::clock::Time;
use crate::dialect;
use crate::failure::{Cause, FailureContext, fingerprint};
use crate::letter::{Headers, RawLetter, Value, push_hex};
use crate::stamp;
use crate::topology::{Channel, EventIdRule, GroupRule};

/// A fact, and where it comes from or why it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The fact.
    pub value: Option<String>,
    /// Its source; without a value, what is wrong with that source.
    pub whence: Whence,
}

/// Where a fact was looked for, and what was found there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// Taken from where the topology says.
    AsDeclared,
    /// The topology names no place.
    NotDeclared,
    /// An envelope or convention that a dialect read names it.
    Dialect,
    /// Nothing is there.
    Absent,
    /// A null value is there.
    Null,
    /// A value of this type is there, which is neither text nor a whole number.
    WrongType(&'static str),
    /// The body was not read in this look.
    BodyNotRead,
    /// The body is null.
    NoBody,
    /// The body is no JSON.
    NotJson,
    /// The key was lost when the letter was buried (K09, K10, K17).
    Lost,
}

impl Known {
    fn some(value: String, whence: Whence) -> Self {
        Self { value: Some(value), whence }
    }

    fn none(whence: Whence) -> Self {
        Self { value: None, whence }
    }

    /// In words, `place` being what the topology declares: `header event-id`, `no header event-id`.
    fn words(&self, place: &str) -> String {
        match self.whence {
            Whence::AsDeclared => place.to_owned(),
            Whence::NotDeclared => place.to_owned(),
            Whence::Dialect => "read from the failure context".to_owned(),
            Whence::Absent => format!("no {place}"),
            Whence::Null => format!("{place} is null"),
            Whence::WrongType(name) => format!("{place} is {name}"),
            Whence::BodyNotRead => format!("{place} was not read in this look"),
            Whence::NoBody => "the body is null".to_owned(),
            Whence::NotJson => "the body is no JSON".to_owned(),
            Whence::Lost => "the key was lost when it was buried".to_owned(),
        }
    }
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
    pub cause: Arc<Cause>,
    /// When it died, and whose word that is.
    pub died_at: Option<(Time, &'static str)>,
    /// How often redrive has sent it back before.
    pub redriven: u32,
    /// The run that sent it last and its number there.
    pub sent_by: Option<(String, u64)>,
    json: OnceLock<Option<Json>>,
}

impl DeadLetter {
    /// Reads a letter of `channel`.
    pub fn of(raw: RawLetter, channel: &Channel) -> Self {
        let context = dialect::read_declared(&raw, channel.failure.as_ref());
        let own_code: Vec<String> =
            channel.failure.iter().flat_map(|it| &it.own_code).map(|at| at.value.clone()).collect();
        let cause = fingerprint(&context, &own_code);
        let json = OnceLock::new();
        // Inside an envelope are the producer's headers and body, and what an earlier redrive wrote.
        let inner = dialect::original(&raw, &context).map(|message| RawLetter { message, ..raw.clone() });
        let inner_json = OnceLock::new();
        let (own, own_json) = inner.as_ref().map_or((&raw, &json), |inner| (inner, &inner_json));
        let event_id = event_id(own, &context, &channel.event_id.value, own_json);
        let group = group(own, &context, &channel.group.value, own_json);
        let died_at = died_at(&raw, &context);
        let (redriven, sent) = sent_before(&own.message.headers);
        Self { raw, context, event_id, group, cause, died_at, redriven, sent_by: sent, json }
    }

    /// Does reading letters of `channel` need their bodies, for the rules of its topology?
    pub fn needs_bodies(channel: &Channel) -> bool {
        matches!(channel.event_id.value, EventIdRule::Body(_))
            || matches!(channel.group.value, GroupRule::Body(_))
    }

    /// SHA-256 of the body, in hex; a null body has none.
    pub fn body_hash(&self) -> Option<String> {
        let body = self.raw.message.body.as_ref()?;
        let mut text = String::with_capacity(64);
        push_hex(&mut text, &sha2::Sha256::digest(body));
        Some(text)
    }

    /// The body as JSON, if it is some and was read.
    pub fn json(&self) -> Option<&Json> {
        parsed(&self.raw, &self.json)
    }

    /// What a JSON pointer finds in the body.
    pub fn body_at(&self, pointer: &str) -> Option<&Json> {
        self.json()?.pointer(pointer)
    }

    /// The innermost error class of the last death.
    pub fn error_class(&self) -> Option<&str> {
        let last = self.context.last()?;
        last.root_class.as_deref().or(last.error_class.as_deref())
    }

    /// The innermost message of the last death.
    pub fn error_message(&self) -> Option<&str> {
        let last = self.context.last()?;
        last.root_message.as_deref().or(last.message.as_deref())
    }

    /// Where the event id stands, or why there is none.
    pub fn event_id_from(&self, channel: &Channel) -> String {
        let place = match &channel.event_id.value {
            EventIdRule::None => "the topology names no event id".to_owned(),
            EventIdRule::Header(name) => format!("header {name}"),
            EventIdRule::Property(name) => format!("property {name}"),
            EventIdRule::Body(pointer) => format!("body {pointer}"),
        };
        self.event_id.words(&place)
    }

    /// Where the group stands, or why there is none.
    pub fn group_from(&self, channel: &Channel) -> String {
        let place = match &channel.group.value {
            GroupRule::None => "the topology names no group".to_owned(),
            GroupRule::Key => "key".to_owned(),
            GroupRule::Header(name) => format!("header {name}"),
            GroupRule::Body(pointer) => format!("body {pointer}"),
        };
        self.group.words(&place)
    }

    /// When retention takes it; `None`: nobody says.
    pub fn expires_at(&self) -> Option<Time> {
        self.raw.facts.expires_at
    }
}

/// Group and event id of a message that lives, by the channel's rules.
pub fn of_the_living(raw: &RawLetter, channel: &Channel) -> (Option<String>, Option<String>) {
    let (context, json) = (FailureContext::default(), OnceLock::new());
    let group = group(raw, &context, &channel.group.value, &json).value;
    (group, event_id(raw, &context, &channel.event_id.value, &json).value)
}

/// How often redrive has sent a letter with these headers back, and the run that did last with its number there.
pub fn sent_before(headers: &Headers) -> (u32, Option<(String, u64)>) {
    let (mut redriven, mut sent) = (0, None);
    for header in headers {
        if header.name == stamp::COUNT {
            redriven = counted(&header.value);
        } else if header.name == stamp::RUN {
            sent = header.value.text().and_then(sent_by).or(sent);
        }
    }
    (redriven, sent)
}

/// A count of redrives. What no count can be, a number that is negative or huge, a word, is over every limit: it was
/// written by somebody else, and who cannot tell how often a letter was sent does not send it once more.
fn counted(value: &Value) -> u32 {
    value.integer_or_digits().and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)
}

/// The broker's own word first, then the letter's, then the record's time, which a producer may have set.
fn died_at(raw: &RawLetter, context: &FailureContext) -> Option<(Time, &'static str)> {
    if let Some(at) = raw.facts.dead_at {
        return Some((at, "the broker"));
    }
    // R05: a time that is that of the first of several deaths says nothing about the last one.
    let told = context.last().filter(|death| !death.at_is_first).and_then(|death| death.at);
    match told {
        Some(at) => Some((at, "the letter")),
        None => raw.facts.written_at.map(|(at, _)| (at, "the record")),
    }
}

/// Reads `<run>/<seq>`.
fn sent_by(text: &str) -> Option<(String, u64)> {
    let (run, seq) = text.rsplit_once('/')?;
    Some((run.to_owned(), seq.parse().ok()?))
}

fn event_id(
    raw: &RawLetter,
    context: &FailureContext,
    rule: &EventIdRule,
    json: &OnceLock<Option<Json>>,
) -> Known {
    match rule {
        EventIdRule::Header(name) => in_headers(&raw.message.headers, name),
        EventIdRule::Property(name) => in_headers(&raw.message.properties, name),
        EventIdRule::Body(pointer) => in_body(raw, pointer, json),
        EventIdRule::None => match &context.event_id {
            Some(id) => Known::some(id.clone(), Whence::Dialect),
            None => Known::none(Whence::NotDeclared),
        },
    }
}

fn group(
    raw: &RawLetter,
    context: &FailureContext,
    rule: &GroupRule,
    json: &OnceLock<Option<Json>>,
) -> Known {
    match rule {
        GroupRule::None => Known::none(Whence::NotDeclared),
        GroupRule::Header(name) => in_headers(&raw.message.headers, name),
        GroupRule::Body(pointer) => in_body(raw, pointer, json),
        GroupRule::Key if context.key_unavailable => match &context.group {
            Some(group) => Known::some(group.clone(), Whence::Dialect),
            None => Known::none(Whence::Lost),
        },
        GroupRule::Key => match &raw.message.key {
            Some(key) => Known::some(printable(key), Whence::AsDeclared),
            None => Known::none(Whence::Absent),
        },
    }
}

fn in_headers(headers: &Headers, name: &str) -> Known {
    let Some(value) = headers.first(name) else { return Known::none(Whence::Absent) };
    if let Some(bytes) = value.bytes() {
        return Known::some(printable(bytes), Whence::AsDeclared);
    }
    match (value, value.integer()) {
        (_, Some(number)) => Known::some(number.to_string(), Whence::AsDeclared),
        (Value::Null, _) => Known::none(Whence::Null),
        (Value::Bool(_), _) => Known::none(Whence::WrongType("a bool")),
        (Value::List(_) | Value::Table(_), _) => Known::none(Whence::WrongType("a list or table")),
        (Value::Labelled { .. }, _) => Known::none(Whence::WrongType("under a label, and no text")),
        _ => Known::none(Whence::WrongType("a fraction or a time")),
    }
}

fn in_body(raw: &RawLetter, pointer: &str, json: &OnceLock<Option<Json>>) -> Known {
    match (raw.body_len, &raw.message.body) {
        (None, None) => return Known::none(Whence::NoBody),
        (Some(_), None) => return Known::none(Whence::BodyNotRead),
        _ => {}
    }
    let Some(json) = parsed(raw, json) else { return Known::none(Whence::NotJson) };
    match json.pointer(pointer) {
        None => Known::none(Whence::Absent),
        Some(Json::Null) => Known::none(Whence::Null),
        Some(Json::String(text)) => Known::some(text.clone(), Whence::AsDeclared),
        // A double may stand for several numbers of the text: two ids must never look the same.
        Some(Json::Number(number)) if number.is_f64() => {
            Known::none(Whence::WrongType("no whole number of 64 bits"))
        }
        Some(Json::Number(number)) => Known::some(number.to_string(), Whence::AsDeclared),
        Some(Json::Bool(_)) => Known::none(Whence::WrongType("a bool")),
        Some(Json::Array(_) | Json::Object(_)) => Known::none(Whence::WrongType("a list or table")),
    }
}

fn parsed<'a>(raw: &RawLetter, json: &'a OnceLock<Option<Json>>) -> Option<&'a Json> {
    json.get_or_init(|| serde_json::from_slice(raw.message.body.as_ref()?).ok()).as_ref()
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
