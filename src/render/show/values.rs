//! Header values on one line, and as JSON.

use base64::Engine;
use serde_json::{Value as Json, json};

use super::super::escape_bytes;
use super::super::units::{bytes, second};
use crate::clock::Time;
use crate::letter::Value;

/// Longest value shown as it is; longer ones by their size.
const LONGEST: usize = 512;

/// A header's value on one line.
pub(super) fn value_words(value: &Value, full: bool) -> String {
    if let Some(bytes_) = value.bytes() {
        let lines = bytes_.iter().filter(|byte| **byte == b'\n').count() + 1;
        return match std::str::from_utf8(bytes_) {
            Ok(text) if full || (text.len() <= LONGEST && lines == 1) => text.to_owned(),
            Ok(text) => {
                let lines = if lines > 1 { format!(", {lines} lines") } else { String::new() };
                format!("{}{lines}", bytes(text.len() as u64))
            }
            Err(_) if full || bytes_.len() <= 32 => escape_bytes(bytes_),
            Err(_) => format!("{}, binary", bytes(bytes_.len() as u64)),
        };
    }
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(yes) => yes.to_string(),
        Value::F32(n) => n.to_string(),
        Value::F64(n) => n.to_string(),
        Value::Timestamp(seconds) => i64::try_from(*seconds)
            .map_or_else(|_| seconds.to_string(), |seconds| second(Time::from_seconds(seconds))),
        Value::Decimal { scale, value } => format!("{value}e-{scale}"),
        Value::List(items) => {
            let shown: Vec<String> = items.iter().take(8).map(|item| value_words(item, full)).collect();
            let more = if items.len() > 8 { ", …" } else { "" };
            format!("[{}{more}]", shown.join(", "))
        }
        Value::Table(entries) => {
            let one = |(name, value): &(String, Value)| format!("{name}: {}", value_words(value, full));
            let shown: Vec<String> = entries.iter().take(8).map(one).collect();
            let more = if entries.len() > 8 { ", …" } else { "" };
            format!("{{{}{more}}}", shown.join(", "))
        }
        Value::Labelled { value, .. } => value_words(value, full),
        other => other.integer().map_or_else(String::new, |number| number.to_string()),
    }
}

/// Bytes with how they are written: as text if they are UTF-8, else as base64 (O07).
pub(super) fn bytes_json(content: &[u8]) -> Json {
    match std::str::from_utf8(content) {
        Ok(text) => json!({"encoding": "utf-8", "text": text}),
        Err(_) => {
            json!({"encoding": "base64", "base64": base64::engine::general_purpose::STANDARD.encode(content)})
        }
    }
}

/// A value as JSON; what it is called stands beside it.
pub(super) fn value_json(value: &Value) -> Json {
    match value {
        Value::Text(content) | Value::Bytes(content) => bytes_json(content),
        Value::Null => Json::Null,
        Value::Bool(yes) => json!(yes),
        Value::F32(n) => json!(n),
        Value::F64(n) => json!(n),
        Value::Timestamp(seconds) => json!(seconds),
        Value::Decimal { scale, value } => json!({"scale": scale, "value": value}),
        Value::List(items) => items.iter().map(value_json).collect(),
        Value::Table(entries) => entries
            .iter()
            .map(|(name, value)| json!({"name": name, "type": value.type_name(), "value": value_json(value)}))
            .collect(),
        Value::Labelled { value, .. } => value_json(value),
        other => json!(other.integer()),
    }
}
