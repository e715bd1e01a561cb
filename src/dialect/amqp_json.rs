//! AMQP properties and headers as .NET and Ruby clients write them into JSON: back into properties, as far as
//! JSON tells their types.

use serde_json::{Map, Value as Json};

use super::when;
use crate::letter::{Headers, Value};

/// The basic properties that may travel: not `user_id`, which must be the sender's own, nor `expiration`, nor
/// `cluster_id`, which nothing uses.
const NAMES: &[&str] = &[
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "message_id",
    "timestamp",
    "type",
    "app_id",
];
/// Values nested deeper than this are left out. (JSON itself is read to 128.)
const DEEPEST: usize = 32;

/// Properties by their AMQP names (`content_type`), from a table with names in `spelled` form. Flags of their
/// presence, as EasyNetQ writes them, are heeded.
pub(super) fn properties(table: &Map<String, Json>, spelled: fn(&str) -> String) -> Headers {
    let mut found = Headers::new();
    for name in NAMES {
        let key = spelled(name);
        if table.get(&format!("{key}Present")) == Some(&Json::Bool(false)) {
            continue;
        }
        let Some(json) = table.get(&key) else { continue };
        let value = match *name {
            "delivery_mode" | "priority" => number(json).and_then(|n| u8::try_from(n).ok()).map(Value::U8),
            "timestamp" => when::of_json(json)
                .and_then(|at| u64::try_from(at.millis() / 1000).ok())
                .map(Value::Timestamp),
            _ => json.as_str().map(Value::from_text),
        };
        if let Some(value) = value {
            found.push(*name, value);
        }
    }
    found
}

fn number(json: &Json) -> Option<i64> {
    json.as_i64().or_else(|| json.as_str()?.parse().ok())
}

/// Headers, without those for which `is_own` holds.
pub(super) fn headers(table: &Map<String, Json>, is_own: impl Fn(&str) -> bool) -> Headers {
    table
        .iter()
        .filter(|(name, _)| !is_own(name))
        .map(|(name, json)| (name.clone(), value(json, DEEPEST)))
        .collect()
}

/// A JSON value as an AMQP one: whole numbers as int64, the rest as it comes.
pub(super) fn value(json: &Json, deepest: usize) -> Value {
    match json {
        Json::Bool(is) => Value::Bool(*is),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| number.as_f64().map_or(Value::Null, Value::F64), Value::I64)
        }
        Json::String(text) => Value::from_text(text.as_str()),
        Json::Array(items) if deepest > 0 => {
            Value::List(items.iter().map(|item| value(item, deepest - 1)).collect())
        }
        Json::Object(entries) if deepest > 0 => Value::Table(
            entries.iter().map(|(name, entry)| (name.clone(), value(entry, deepest - 1))).collect(),
        ),
        _ => Value::Null,
    }
}
