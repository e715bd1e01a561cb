//! Celery: message protocols 1 and 2, on AMQP and on SQS (kombu's envelope in base64). It writes nothing of
//! the error: that is in its result backend.
//!
//! Each retry is a new publish with the same id, so `x-death` counts 1 and the header `retries` tells. Celery
//! reads that header, so it goes back as 0. In kombu's envelope it is inside the body and stays.

use serde_json::Value as Json;

use super::x_death::{Deaths, Record};
use super::{Buried, Dialect, Look, Mark, Testimony, rabbitmq, when};
use crate::clock::Time;
use crate::failure::{Origin, Prospect, Sureness};
use crate::letter::{Header, Headers, Message, Value, base64};

/// How Celery's own delay queues and exchanges begin.
const DELAY: &str = "celery_delayed";

/// See the file's head.
pub(super) struct Celery;

impl Dialect for Celery {
    fn name(&self) -> &'static str {
        "celery"
    }

    fn about(&self) -> &'static str {
        "Celery tasks that a worker rejected, native delays too; on SQS kombu's envelope"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Header("task"),
            Mark::Header("argsrepr"),
            Mark::Field("task"),
            Mark::Field("properties"),
            Mark::Start("eyJ"),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if is_protocol_2(headers) {
            return Some((Sureness::Sure, "headers task, id and argsrepr or root_id".to_owned()));
        }
        if ["task", "id", "args", "kwargs"].iter().all(|name| letter.has_field(name)) {
            return Some((Sureness::Likely, "body fields task, id, args, kwargs".to_owned()));
        }
        envelope(letter).map(|_| (Sureness::Sure, "kombu's envelope in the body".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        says.buried = Buried::ByBroker;
        if is_protocol_2(letter.headers()) {
            amqp(letter, says);
        } else if let Some(envelope) = envelope(letter) {
            let inner = &envelope["headers"];
            says.event_id = inner["id"].as_str().map(str::to_owned);
            in_body(inner, died_at(letter), says);
        } else if let Some(body) = letter.json() {
            says.event_id = body["id"].as_str().map(str::to_owned);
            in_body(body, died_at(letter), says);
        }
        says.doubt("message", "Celery keeps the error in its result backend, not in the letter");
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }

    fn restore(&self, _letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        if !is_protocol_2(&message.headers) {
            return Ok(());
        }
        let reset = |header: Header| {
            let value = if header.name == "retries" { zero(header.value) } else { header.value };
            (header.name, value)
        };
        message.headers = std::mem::take(&mut message.headers).into_iter().map(reset).collect();
        Ok(())
    }
}

/// Headers that together nobody else writes: one of them is changed on the way back.
fn is_protocol_2(headers: &Headers) -> bool {
    headers.first_text("task").is_some()
        && headers.first_text("id").is_some()
        && (headers.has("argsrepr") || headers.has("root_id"))
}

/// The same type with nothing in it.
fn zero(value: Value) -> Value {
    match value {
        Value::I8(_) => Value::I8(0),
        Value::U8(_) => Value::U8(0),
        Value::I16(_) => Value::I16(0),
        Value::U16(_) => Value::U16(0),
        Value::I32(_) => Value::I32(0),
        Value::U32(_) => Value::U32(0),
        Value::I64(_) => Value::I64(0),
        Value::Text(_) => Value::from_text("0"),
        other => other,
    }
}

fn amqp(letter: &Look<'_>, says: &mut Testimony) {
    let headers = letter.headers();
    says.event_id = headers.first_text("id").map(str::to_owned);
    let retries: Option<u32> =
        says.number("attempts", "retries", headers.last("retries"), super::Form::Integer);
    let deaths = Deaths::of(headers).unwrap_or_default();
    let failures = deaths.failures();
    let rejected = deaths.count(None, "rejected");
    says.attempts = attempts(letter, retries, rejected, failures.last().copied(), says);
    if let Some(first) = deaths.origin() {
        says.origin = Some(place(first));
        if deaths.records.iter().any(is_delay) {
            says.overrules.push((rabbitmq::NAME, "x-death is about Celery's own delay queues"));
            says.deaths = failures
                .iter()
                .map(|record| crate::failure::Death { place: Some(place(record)), ..record.death() })
                .collect();
            says.prospect(Prospect::ToQueue {
                queue: first.queue.clone(),
                why: "exchange and key in x-death lead through Celery's delay queues".to_owned(),
            });
        }
    }
    expiry(headers.last("expires").and_then(when::of), died_at(letter), says);
}

/// Tries that failed: those before this publish, and each rejection of this one.
fn attempts(
    letter: &Look<'_>,
    retries: Option<u32>,
    rejected: u32,
    last: Option<&Record>,
    says: &mut Testimony,
) -> Option<u32> {
    let retries = retries?;
    match last.map(|record| record.reason.as_str()) {
        Some("expired" | "maxlen") => return (retries > 0).then_some(retries),
        Some("delivery_limit") => {
            says.doubt("attempts", format!("{retries} tries failed; the last died more than once"));
            return None;
        }
        _ => {}
    }
    // Sent by name only: the sender did not know the task, and perhaps no worker does either.
    if retries == 0 && rejected < 2 && letter.headers().last("ignore_result") == Some(&Value::Null) {
        says.doubt("attempts", "sent by name: if no worker knows the task, it was rejected without a try");
        return None;
    }
    retries.checked_add(rejected.max(1))
}

fn is_delay(record: &Record) -> bool {
    record.queue.starts_with(DELAY) || record.exchange.as_deref().is_some_and(|name| name.starts_with(DELAY))
}

fn place(record: &Record) -> Origin {
    let mut place = record.place();
    if is_delay(record) {
        place.exchange = None;
        place.routing_key = None;
    }
    place
}

/// It lies here at least since it was written, or since the broker moved it here: an expiry before that is
/// past, whoever asks when.
fn died_at(letter: &Look<'_>) -> Option<Time> {
    let deaths = Deaths::of(letter.headers()).unwrap_or_default();
    let died = deaths.failures().last().and_then(|record| record.at);
    died.max(letter.facts.written_at.map(|(at, _)| at))
}

/// Celery acknowledges a task that is past its expiry without running it.
fn expiry(expires: Option<Time>, died: Option<Time>, says: &mut Testimony) {
    let Some(expires) = expires else { return };
    says.expires(
        expires,
        died,
        "Celery drops an expired task without running it",
        "send the task anew from the application, with a new expiry",
    );
}

/// Protocol 1, or kombu's envelope: counter and expiry stand in the body.
fn in_body(fields: &Json, died: Option<Time>, says: &mut Testimony) {
    let retries = fields["retries"].as_u64().unwrap_or(0);
    if retries > 0 {
        says.prospect(Prospect::OneTry { why: format!("`retries` in the body is {retries}") });
        says.doubt("attempts", format!("at least {retries}: receives leave no trace in the body"));
    }
    expiry(when::of_json(&fields["expires"]), died, says);
}

/// Kombu's envelope for brokers without headers: JSON, by default in base64.
fn envelope(letter: &Look<'_>) -> Option<Json> {
    let is_one = |json: &Json| {
        json["headers"]["task"].is_string()
            && json["properties"].is_object()
            && json.get("body").is_some_and(Json::is_string)
    };
    if letter.has_field("properties") && letter.has_field("headers") {
        return letter.json().filter(|json| is_one(json)).cloned();
    }
    let text = letter.body_text().filter(|text| text.starts_with("eyJ") && text.len() <= 2 << 20)?;
    let json = serde_json::from_slice(&base64::decode(text)?).ok()?;
    is_one(&json).then_some(json)
}
