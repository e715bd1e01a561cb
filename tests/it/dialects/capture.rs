//! A fixture as the raw letter that its broker's adapter would give.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use redrive::clock::Time;
use redrive::letter::{
    Facts, Headers, LetterId, Message, Place, Position, RawLetter, Route, TimeSource, Value,
};
use serde_json::Value as Json;

/// One file.
pub struct Capture {
    /// File name without `.json`.
    pub name: String,
    /// The file.
    pub json: Json,
    /// The letter in it.
    pub letter: RawLetter,
}

impl Capture {
    /// Reads a file.
    pub fn load(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Self::of(name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    }

    /// Reads a file that holds several, each with its own `name`.
    pub fn load_several(path: &Path) -> Vec<Self> {
        let several: Vec<Json> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        several.into_iter().map(|json| Self::of(text(&json["name"]), json)).collect()
    }

    fn of(name: String, json: Json) -> Self {
        let letter = match json["broker"].as_str().unwrap() {
            "kafka" => kafka(&json),
            "rabbitmq" => rabbitmq(&json),
            "sqs" => sqs(&json),
            other => panic!("{name}: broker {other}"),
        };
        Self { name, json, letter }
    }
}

fn base64_of(json: &Json) -> Option<bytes::Bytes> {
    json.as_str().map(|text| STANDARD.decode(text).unwrap().into())
}

/// A body or key: base64 under `<name>_b64`, or text under `<name>`.
fn payload(json: &Json, name: &str) -> Option<bytes::Bytes> {
    base64_of(&json[format!("{name}_b64")])
        .or_else(|| json[name].as_str().map(|text| bytes::Bytes::from(text.to_owned())))
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn letter(json: &Json, message: Message, facts: Facts) -> RawLetter {
    let queue: Arc<str> = text(&json["destination"]).into();
    let body_len = message.body.as_ref().map(|body| body.len() as u64);
    RawLetter {
        id: LetterId::new("l1"),
        position: Position::new("1"),
        arrival: 1,
        message,
        body_len,
        facts: Facts { queue, ..facts },
    }
}

fn kafka(json: &Json) -> RawLetter {
    let headers = json["headers"].as_array().unwrap().iter().map(|header| {
        let value = if let Some(n) = header["i32"].as_i64() {
            Some(i32::try_from(n).unwrap().to_be_bytes().to_vec().into())
        } else if let Some(n) = header["i64"].as_i64() {
            Some(n.to_be_bytes().to_vec().into())
        } else {
            payload(header, "value")
        };
        (text(&header["name"]), value.map_or(Value::Null, Value::Bytes))
    });
    let message = Message {
        key: payload(json, "key"),
        body: payload(json, "value"),
        headers: headers.collect(),
        properties: Headers::new(),
    };
    let source =
        if json["timestamp_type"] == "LogAppendTime" { TimeSource::Broker } else { TimeSource::Producer };
    let facts = Facts {
        place: Some(Place {
            partition: json["partition"].as_i64().unwrap().try_into().unwrap(),
            offset: json["offset"].as_i64().unwrap(),
        }),
        written_at: json["timestamp"].as_i64().map(|at| (Time::from_millis(at), source)),
        ..Facts::default()
    };
    letter(json, message, facts)
}

/// A value with its wire type.
fn typed(json: &Json) -> Value {
    if let Some(text) = json.as_str() {
        return Value::from_text(text.to_owned());
    }
    let value = &json["v"];
    let n = value.as_i64();
    match json["t"].as_str().unwrap() {
        "longstr" => Value::from_text(text(value)),
        "bytes" => Value::Bytes(base64_of(value).unwrap()),
        "void" => Value::Null,
        "bool" => Value::Bool(value.as_bool().unwrap()),
        "int8" => Value::I8(n.unwrap().try_into().unwrap()),
        "uint8" => Value::U8(n.unwrap().try_into().unwrap()),
        "int16" => Value::I16(n.unwrap().try_into().unwrap()),
        "uint16" => Value::U16(n.unwrap().try_into().unwrap()),
        "int32" => Value::I32(n.unwrap().try_into().unwrap()),
        "uint32" => Value::U32(n.unwrap().try_into().unwrap()),
        "int64" => Value::I64(n.unwrap()),
        "float" => Value::F32(value.as_f64().unwrap() as f32),
        "double" => Value::F64(value.as_f64().unwrap()),
        "timestamp" => Value::Timestamp(value.as_u64().unwrap()),
        "decimal" => Value::Decimal {
            scale: value["scale"].as_u64().unwrap().try_into().unwrap(),
            value: value["value"].as_u64().unwrap().try_into().unwrap(),
        },
        "array" => Value::List(value.as_array().unwrap().iter().map(typed).collect()),
        "table" => Value::Table(
            value.as_object().unwrap().iter().map(|(name, value)| (name.clone(), typed(value))).collect(),
        ),
        other => panic!("wire type {other}"),
    }
}

/// `x-death` in short: each entry as `[queue, reason, count, seconds, exchange, routing key]`.
fn deaths(json: &Json) -> Value {
    let entry = |entry: &Json| {
        let at = |name: &str, value: Value| (name.to_owned(), value);
        Value::Table(vec![
            at("count", Value::I64(entry[2].as_i64().unwrap())),
            at("reason", Value::from_text(text(&entry[1]))),
            at("queue", Value::from_text(text(&entry[0]))),
            at("time", Value::Timestamp(entry[3].as_u64().unwrap())),
            at("exchange", Value::from_text(text(&entry[4]))),
            at("routing-keys", Value::List(vec![Value::from_text(text(&entry[5]))])),
        ])
    };
    Value::List(json.as_array().unwrap().iter().map(entry).collect())
}

fn rabbitmq(json: &Json) -> RawLetter {
    let mut headers = Headers::new();
    let mut properties = Headers::new();
    for (name, value) in json["properties"].as_object().unwrap() {
        match name.as_str() {
            "headers" => {
                for (name, value) in value.as_object().unwrap() {
                    let is_short = name == "x-death" && value.is_array();
                    headers.push(name, if is_short { deaths(value) } else { typed(value) });
                }
            }
            "delivery_mode" | "priority" => {
                properties.push(name, Value::U8(value.as_u64().unwrap().try_into().unwrap()));
            }
            "timestamp" => properties.push(name, Value::Timestamp(value.as_u64().unwrap())),
            _ => properties.push(name, Value::from_text(text(value))),
        }
    }
    let message = Message { key: None, body: payload(json, "body"), headers, properties };
    let facts = Facts {
        route: Some(Route { exchange: text(&json["exchange"]), routing_key: text(&json["routing_key"]) }),
        redelivered: json["redelivered"].as_bool(),
        ..Facts::default()
    };
    letter(json, message, facts)
}

fn sqs(json: &Json) -> RawLetter {
    let headers = json["message_attributes"].as_object().unwrap().iter().map(|(name, attribute)| {
        if attribute.is_string() {
            return (name.clone(), typed(attribute));
        }
        let value = match attribute["t"].as_str().unwrap() {
            "String" => Value::from_text(text(&attribute["v"])),
            "Binary" => binary(attribute),
            label => {
                let value = if label.starts_with("Binary") {
                    binary(attribute)
                } else {
                    Value::from_text(text(&attribute["v"]))
                };
                Value::Labelled { label: label.to_owned(), value: Box::new(value) }
            }
        };
        (name.clone(), value)
    });
    let properties: Headers = json["attributes"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), Value::from_text(text(value))))
        .collect();
    let sent = properties.first_text("SentTimestamp").and_then(|text| text.parse().ok());
    let received = properties.first_text("ApproximateReceiveCount").and_then(|text| text.parse().ok());
    let facts = Facts {
        written_at: sent.map(|millis| (Time::from_millis(millis), TimeSource::Broker)),
        deliveries: received,
        ..Facts::default()
    };
    let body = Some(bytes::Bytes::from(text(&json["body"])));
    letter(json, Message { key: None, body, headers: headers.collect(), properties }, facts)
}

/// Binary attributes stand under `v_b64` in files whose `v` is text only.
fn binary(attribute: &Json) -> Value {
    Value::Bytes(base64_of(&attribute["v_b64"]).or_else(|| base64_of(&attribute["v"])).unwrap())
}
