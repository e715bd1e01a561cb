//! The retry handlers of Sneakers and kicks: `<queue>-error`. Kicks leaves the body alone and puts everything,
//! the original properties and headers too, into one header `retry_info`, JSON, or a list of those, newest
//! first. Old Sneakers puts the message itself, in base64 with line breaks, into a JSON body (R21).
//!
//! Hutch only rejects: then the broker's `x-death` tells.

use serde_json::Value as Json;

use super::{Dialect, Look, Mark, Testimony, amqp_json, rabbitmq, when, x_death::Deaths};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Message, Value, base64};

const INFO: &str = "retry_info";
/// Deaths that are read of one list.
const MOST: usize = 64;

/// See the file's head.
pub(super) struct Kicks;

impl Dialect for Kicks {
    fn name(&self) -> &'static str {
        "sneakers"
    }

    fn about(&self) -> &'static str {
        "Sneakers' and kicks' Maxretry: `<queue>-error`"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(INFO), Mark::Field("num_attempts")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        if let Some(text) = letter.headers().last_text(INFO) {
            // The word alone could be anybody's, and what is recognised does not travel.
            let read = entries(letter).first().is_some_and(|entry| entry.get("num_attempts").is_some());
            let sureness = if read { Sureness::Sure } else { Sureness::Maybe };
            return text.contains("\"num_attempts\"").then(|| (sureness, format!("header {INFO}")));
        }
        ["error", "num_attempts", "failed_at", "payload"]
            .iter()
            .all(|name| letter.has_field(name))
            .then(|| (Sureness::Sure, "body fields error, num_attempts, failed_at, payload".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let entries = entries(letter);
        let Some(newest) = entries.first() else {
            return says.doubt("deaths", format!("{INFO} is not readable"));
        };
        let tries = newest["num_attempts"].as_u64().or_else(|| newest["num_attempts"].as_str()?.parse().ok());
        says.attempts = tries.and_then(|tries| u32::try_from(tries).ok());
        let properties = properties(newest);
        says.event_id = properties.as_ref().and_then(|inner| inner["message_id"].as_str()).map(str::to_owned);
        let place = properties.as_ref().and_then(died_in);
        says.origin = letter
            .facts
            .route
            .as_ref()
            .map(|route| Origin { routing_key: Some(route.routing_key.clone()), ..Origin::default() });
        if let Some(queue) = place.as_ref().and_then(|place| place.queue.clone()) {
            says.prospect(Prospect::ToQueue {
                queue,
                why: format!(
                    "the x-death inside {} names it",
                    if letter.headers().has(INFO) { INFO } else { "the body" }
                ),
            });
        }
        says.deaths = entries.iter().rev().map(|entry| death(entry, place.clone())).collect();
        if properties.as_ref().is_some_and(|inner| inner["headers"].is_object()) {
            says.doubt("headers", "their types come out of JSON: whole numbers go back as int64");
        }
    }

    fn owns(&self, header: &Header) -> bool {
        header.name == INFO
    }

    fn unwraps(&self) -> bool {
        true
    }

    fn restore(&self, letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        let entries = entries(letter);
        let Some(newest) = entries.first() else {
            if letter.headers().has(INFO) {
                return Ok(());
            }
            return Err(Prospect::Refused {
                why: "the envelope around the message cannot be read".to_owned(),
                way_round: "take `payload` out by hand".to_owned(),
            });
        };
        if !letter.headers().has(INFO) {
            let payload = newest["payload"].as_str().and_then(base64::decode);
            let Some(payload) = payload else {
                return Err(Prospect::Refused {
                    why: "the message inside the envelope is no base64".to_owned(),
                    way_round: "take `payload` out by hand".to_owned(),
                });
            };
            message.body = Some(payload.into());
        }
        if let Some(Json::Object(inner)) = properties(newest) {
            message.properties = amqp_json::properties(&inner, str::to_owned);
            if let Some(Json::Object(headers)) = inner.get("headers") {
                message.headers = amqp_json::headers(headers, |name| {
                    let header = Header { name: name.into(), value: Value::Null };
                    name == INFO || rabbitmq::RabbitMq.owns(&header)
                });
            }
        }
        Ok(())
    }
}

/// Newest first.
fn entries(letter: &Look<'_>) -> Vec<Json> {
    let parsed = match letter.headers().last_text(INFO) {
        Some(text) => serde_json::from_str(text).ok(),
        None => letter.json().cloned(),
    };
    match parsed {
        Some(Json::Array(mut entries)) => {
            let older = of_pairs(&entries);
            entries.retain(Json::is_object);
            entries.extend(older);
            entries.truncate(MOST);
            entries
        }
        Some(one @ Json::Object(_)) => vec![one],
        _ => Vec::new(),
    }
}

/// Ruby's `Array(hash)` makes pairs of a hash: an older entry comes so, its pairs spread over the list.
fn of_pairs(entries: &[Json]) -> Option<Json> {
    let pairs = entries.iter().filter_map(|entry| match entry.as_array()?.as_slice() {
        [Json::String(name), value] => Some((name.clone(), value.clone())),
        _ => None,
    });
    let older: serde_json::Map<String, Json> = pairs.collect();
    older.contains_key("num_attempts").then_some(Json::Object(older))
}

/// The original properties: a table, or its JSON in base64.
fn properties(entry: &Json) -> Option<Json> {
    match &entry["properties"] {
        table @ Json::Object(_) => Some(table.clone()),
        Json::String(text) => {
            let parsed = serde_json::from_str(text).ok();
            parsed.or_else(|| serde_json::from_slice(&base64::decode(text)?).ok()).filter(Json::is_object)
        }
        _ => None,
    }
}

/// The queue of the worker, by the x-death that the message had.
fn died_in(properties: &Json) -> Option<Origin> {
    let deaths = Deaths::read(&amqp_json::value(properties["headers"].get("x-death")?, 8), false);
    deaths.origin().filter(|record| !record.expired()).map(|record| record.place())
}

fn death(entry: &Json, place: Option<Origin>) -> Death {
    let text = |name: &str| entry[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let stack = match &entry["backtrace"] {
        Json::String(text) => Some(text.clone()),
        Json::Array(lines) => Some(lines.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("\n")),
        _ => None,
    };
    let error_class = text("error_class");
    Death {
        at: when::of_json(&entry["failed_at"]),
        place,
        // Ruby's error names no cause.
        root_class: error_class.clone(),
        error_class,
        message: text("error_message"),
        stack: stack.filter(|stack| !stack.is_empty()),
        reason: text("error"),
        count: 1,
        ..Death::default()
    }
}
