//! AMQP 0-9-1 values, headers and properties to ours and back, with every type and width kept (R18), and
//! the identity of a letter.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable, LongString, ShortString};
use sha2::Digest;

use crate::letter::{Headers, Message, Position, Value};
use crate::proof::mutation::mutated;

/// Header that a quorum queue counts deliveries in; changes with every look.
pub(super) const DELIVERY_COUNT: &str = "x-delivery-count";
/// The same for handing out without a failure, since 4.3.
pub(super) const ACQUIRED_COUNT: &str = "x-acquired-count";
/// Position in a stream.
pub(super) const STREAM_OFFSET: &str = "x-stream-offset";

/// Headers that belong to the broker: what is left of them on a copy makes old brokers drop it as a cycle
/// (R10), fans it out (`CC`, `BCC`: R13) or counts against it. `x-opt-*` is not among them: that is user
/// data which an AMQP 1.0 client wrote.
pub(super) fn brokers_own(name: &str) -> bool {
    matches!(name, "x-death" | "CC" | "BCC" | DELIVERY_COUNT | ACQUIRED_COUNT | STREAM_OFFSET)
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
}

/// Properties of a message that must not travel: the broker checks `user_id` against the login (R12), and
/// an `expiration` would kill the copy again (R17).
pub(super) const LEFT_BEHIND: &[&str] = &["user_id", "expiration", "cluster_id"];

/// Label of the deprecated short string inside a table; no server sends it.
const SHORT: &str = "shortstr";

/// A value as it came in.
pub(super) fn read_value(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(v) => Value::Bool(*v),
        AMQPValue::ShortShortInt(v) => Value::I8(*v),
        AMQPValue::ShortShortUInt(v) => Value::U8(*v),
        AMQPValue::ShortInt(v) => Value::I16(*v),
        AMQPValue::ShortUInt(v) => Value::U16(*v),
        AMQPValue::LongInt(v) => Value::I32(*v),
        AMQPValue::LongUInt(v) => Value::U32(*v),
        AMQPValue::LongLongInt(v) => Value::I64(*v),
        AMQPValue::Float(v) => Value::F32(*v),
        AMQPValue::Double(v) => Value::F64(*v),
        AMQPValue::DecimalValue(v) => Value::Decimal { scale: v.scale, value: v.value },
        AMQPValue::ShortString(v) => {
            Value::Labelled { label: SHORT.to_owned(), value: Box::new(Value::from_text(v.as_str())) }
        }
        AMQPValue::LongString(v) => Value::Text(Bytes::copy_from_slice(v.as_bytes())),
        AMQPValue::FieldArray(v) => Value::List(v.as_slice().iter().map(read_value).collect()),
        AMQPValue::Timestamp(v) => Value::Timestamp(*v),
        AMQPValue::FieldTable(v) => Value::Table(
            v.inner().iter().map(|(name, value)| (name.as_str().to_owned(), read_value(value))).collect(),
        ),
        AMQPValue::ByteArray(v) => Value::Bytes(Bytes::copy_from_slice(v.as_slice())),
        AMQPValue::Void => Value::Null,
    }
}

/// A value as it goes out.
///
/// # Errors
/// What cannot be said in AMQP, in words; nothing is rounded or cut.
pub(super) fn write_value(value: &Value) -> Result<AMQPValue, String> {
    Ok(match value {
        Value::Null => AMQPValue::Void,
        Value::Bytes(v) => AMQPValue::ByteArray(ByteArray::from(v.to_vec())),
        Value::Text(v) => AMQPValue::LongString(LongString::from(v.to_vec())),
        Value::Bool(v) => AMQPValue::Boolean(*v),
        Value::I8(v) => AMQPValue::ShortShortInt(*v),
        Value::U8(v) => AMQPValue::ShortShortUInt(*v),
        Value::I16(v) => AMQPValue::ShortInt(*v),
        Value::U16(v) => AMQPValue::ShortUInt(*v),
        Value::I32(v) => AMQPValue::LongInt(*v),
        Value::U32(v) => AMQPValue::LongUInt(*v),
        Value::I64(v) => AMQPValue::LongLongInt(*v),
        Value::F32(v) => AMQPValue::Float(*v),
        Value::F64(v) => AMQPValue::Double(*v),
        Value::Decimal { scale, value } => {
            AMQPValue::DecimalValue(DecimalValue { scale: *scale, value: *value })
        }
        Value::Timestamp(v) => AMQPValue::Timestamp(*v),
        Value::List(items) => {
            let mut array = FieldArray::default();
            for item in items {
                array.push(write_value(item)?);
            }
            AMQPValue::FieldArray(array)
        }
        Value::Table(entries) => {
            AMQPValue::FieldTable(write_table(entries.iter().map(|(name, value)| (name.as_str(), value)))?)
        }
        Value::Labelled { label, .. } => return Err(format!("a value of type {label}, which AMQP has not")),
    })
}

fn write_table<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> Result<FieldTable, String> {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        if table.contains_key(name) {
            return Err(format!("`{name}` twice, which an AMQP table cannot hold"));
        }
        table.insert(short(name)?, write_value(value)?);
    }
    Ok(table)
}

/// A short string: at most 255 bytes.
pub(super) fn short(text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text)
        .map_err(|_| format!("a name or property of {} bytes; 255 are the most", text.len()))
}

/// Headers as they came in, by name: AMQP tables are not ordered for RabbitMQ's clients.
pub(super) fn read_headers(properties: &BasicProperties) -> Headers {
    properties.headers().as_ref().map_or_else(Headers::new, |table| {
        table.inner().iter().map(|(name, value)| (name.as_str().to_owned(), read_value(value))).collect()
    })
}

/// Properties as they came in, in one fixed order.
pub(super) fn read_properties(properties: &BasicProperties) -> Headers {
    let mut read = Headers::new();
    let mut text = |name: &str, value: &Option<ShortString>| {
        if let Some(value) = value {
            read.push(name, Value::from_text(value.as_str()));
        }
    };
    text("content_type", properties.content_type());
    text("content_encoding", properties.content_encoding());
    text("correlation_id", properties.correlation_id());
    text("reply_to", properties.reply_to());
    text("expiration", properties.expiration());
    text("message_id", properties.message_id());
    text("type", properties.kind());
    text("user_id", properties.user_id());
    text("app_id", properties.app_id());
    text("cluster_id", properties.cluster_id());
    if let Some(mode) = properties.delivery_mode() {
        read.push("delivery_mode", Value::U8(*mode));
    }
    if let Some(priority) = properties.priority() {
        read.push("priority", Value::U8(*priority));
    }
    if let Some(at) = properties.timestamp() {
        read.push("timestamp", Value::Timestamp(*at));
    }
    read
}

/// What is published of a message: properties and headers, without what belongs to the broker.
///
/// # Errors
/// What of it AMQP cannot carry unchanged.
pub(super) fn write_properties(message: &Message) -> Result<BasicProperties, String> {
    let mut out = BasicProperties::default();
    for property in &message.properties {
        let name = property.name.as_str();
        if LEFT_BEHIND.contains(&name) {
            continue;
        }
        let wrong = || format!("property {name} as a {}", property.value.type_name());
        let text = || property.value.text().ok_or_else(wrong).and_then(short);
        let byte = || property.value.integer_or_digits().and_then(|n| u8::try_from(n).ok()).ok_or_else(wrong);
        out = match name {
            "content_type" => out.with_content_type(text()?),
            "content_encoding" => out.with_content_encoding(text()?),
            "correlation_id" => out.with_correlation_id(text()?),
            "reply_to" => out.with_reply_to(text()?),
            "message_id" => out.with_message_id(text()?),
            "type" => out.with_type(text()?),
            "app_id" => out.with_app_id(text()?),
            "delivery_mode" => out.with_delivery_mode(byte()?),
            "priority" => out.with_priority(byte()?),
            "timestamp" => match property.value {
                Value::Timestamp(at) => out.with_timestamp(at),
                _ => return Err(wrong()),
            },
            _ => return Err(format!("property {name}, which AMQP has not")),
        };
    }
    let own = message.headers.iter().filter(|header| !brokers_own(&header.name));
    let table = write_table(own.map(|header| (header.name.as_str(), &header.value)))?;
    Ok(if table.inner().is_empty() { out } else { out.with_headers(table) })
}

/// Bytes that properties and headers take in the one frame that must hold them.
pub(super) fn header_frame_size(properties: &BasicProperties) -> usize {
    // Class, weight, body size and property flags; then every property.
    let mut size = 14;
    let short = |value: &Option<ShortString>| value.as_ref().map_or(0, |text| 1 + text.as_str().len());
    for text in [
        properties.content_type(),
        properties.content_encoding(),
        properties.correlation_id(),
        properties.reply_to(),
        properties.expiration(),
        properties.message_id(),
        properties.kind(),
        properties.user_id(),
        properties.app_id(),
        properties.cluster_id(),
    ] {
        size += short(text);
    }
    size += usize::from(properties.delivery_mode().is_some());
    size += usize::from(properties.priority().is_some());
    size += if properties.timestamp().is_some() { 8 } else { 0 };
    size + properties.headers().as_ref().map_or(0, table_size)
}

fn table_size(table: &FieldTable) -> usize {
    4 + table.inner().iter().map(|(name, value)| 1 + name.as_str().len() + value_size(value)).sum::<usize>()
}

fn value_size(value: &AMQPValue) -> usize {
    1 + match value {
        AMQPValue::Void => 0,
        AMQPValue::Boolean(_) | AMQPValue::ShortShortInt(_) | AMQPValue::ShortShortUInt(_) => 1,
        AMQPValue::ShortInt(_) | AMQPValue::ShortUInt(_) => 2,
        AMQPValue::LongInt(_) | AMQPValue::LongUInt(_) | AMQPValue::Float(_) => 4,
        AMQPValue::LongLongInt(_) | AMQPValue::Double(_) | AMQPValue::Timestamp(_) => 8,
        AMQPValue::DecimalValue(_) => 5,
        AMQPValue::ShortString(text) => 1 + text.as_str().len(),
        AMQPValue::LongString(text) => 4 + text.as_bytes().len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.len(),
        AMQPValue::FieldArray(items) => 4 + items.as_slice().iter().map(value_size).sum::<usize>(),
        AMQPValue::FieldTable(table) => table_size(table),
    }
}

/// The identity of a letter (protocol §7): body, properties and all headers, `x-death` included, without
/// what a look changes. Equal letters have one identity and are interchangeable.
pub(super) type Identity = [u8; 16];

/// Computes it.
pub(super) fn identity(message: &Message) -> Identity {
    let mut hash = sha2::Sha256::new();
    if let Some(event) = message.headers.first_text("event-id").filter(|_| mutated("m11")) {
        put(&mut hash, event.as_bytes());
        let mut identity = [0; 16];
        identity.copy_from_slice(&hash.finalize()[..16]);
        return identity;
    }
    put(&mut hash, message.body.as_deref().unwrap_or_default());
    for (kind, list) in [(b'p', &message.properties), (b'h', &message.headers)] {
        for entry in list {
            if [DELIVERY_COUNT, ACQUIRED_COUNT].contains(&entry.name.as_str()) {
                continue;
            }
            hash.update([kind]);
            put(&mut hash, entry.name.as_bytes());
            put_value(&mut hash, &entry.value);
        }
    }
    let mut identity = [0; 16];
    identity.copy_from_slice(&hash.finalize()[..16]);
    identity
}

/// The position of the `occurrence`th letter of this identity, from 1, in the queue's order.
pub(super) fn position(identity: &Identity, occurrence: u32) -> Position {
    use std::fmt::Write;
    let mut text = String::with_capacity(38);
    crate::letter::push_hex(&mut text, identity);
    if occurrence > 1 {
        let _ = write!(text, ".{occurrence}");
    }
    Position::new(text)
}

fn put(hash: &mut sha2::Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

fn put_value(hash: &mut sha2::Sha256, value: &Value) {
    hash.update([tag(value)]);
    match value {
        Value::Null => {}
        Value::Bytes(v) | Value::Text(v) => put(hash, v),
        Value::Bool(v) => hash.update([u8::from(*v)]),
        Value::I8(v) => hash.update(v.to_be_bytes()),
        Value::U8(v) => hash.update(v.to_be_bytes()),
        Value::I16(v) => hash.update(v.to_be_bytes()),
        Value::U16(v) => hash.update(v.to_be_bytes()),
        Value::I32(v) => hash.update(v.to_be_bytes()),
        Value::U32(v) => hash.update(v.to_be_bytes()),
        Value::I64(v) => hash.update(v.to_be_bytes()),
        Value::F32(v) => hash.update(v.to_bits().to_be_bytes()),
        Value::F64(v) => hash.update(v.to_bits().to_be_bytes()),
        Value::Decimal { scale, value } => {
            hash.update([*scale]);
            hash.update(value.to_be_bytes());
        }
        Value::Timestamp(v) => hash.update(v.to_be_bytes()),
        Value::List(items) => {
            hash.update((items.len() as u64).to_be_bytes());
            for item in items {
                put_value(hash, item);
            }
        }
        Value::Table(entries) => {
            hash.update((entries.len() as u64).to_be_bytes());
            for (name, value) in entries {
                put(hash, name.as_bytes());
                put_value(hash, value);
            }
        }
        Value::Labelled { label, value } => {
            put(hash, label.as_bytes());
            put_value(hash, value);
        }
    }
}

/// One byte per type, so that 1 as a byte and 1 as a long are two things.
pub(super) fn tag(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bytes(_) => 1,
        Value::Text(_) => 2,
        Value::Bool(_) => 3,
        Value::I8(_) => 4,
        Value::U8(_) => 5,
        Value::I16(_) => 6,
        Value::U16(_) => 7,
        Value::I32(_) => 8,
        Value::U32(_) => 9,
        Value::I64(_) => 10,
        Value::F32(_) => 11,
        Value::F64(_) => 12,
        Value::Decimal { .. } => 13,
        Value::Timestamp(_) => 14,
        Value::List(_) => 15,
        Value::Table(_) => 16,
        Value::Labelled { .. } => 17,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
pub(super) mod tests {
    use super::*;
    use crate::proof::mutation::planted;

    pub fn every_type() -> Vec<Value> {
        let mut values = vec![
            Value::Null,
            Value::from_bytes(vec![0xff, 0xfe, 0]),
            Value::Text(Bytes::from_static(&[0xff, 0xfe])),
            Value::from_text(""),
            Value::Bool(true),
            Value::I8(-5),
            Value::U8(200),
            Value::I16(-300),
            Value::U16(60_000),
            Value::I32(-70_000),
            Value::U32(4_000_000_000),
            Value::I64(-5),
            Value::F32(1.5),
            Value::F64(-0.0),
            Value::Decimal { scale: 2, value: 12_990 },
            Value::Timestamp(1_745_575_728),
        ];
        values.push(Value::List(values.clone()));
        values.push(Value::Table(vec![("a".to_owned(), Value::I64(-5)), ("b".to_owned(), Value::Null)]));
        values
    }

    #[test]
    fn r18_every_amqp_type_comes_back_with_tag_width_and_bytes() {
        for value in every_type() {
            assert_eq!(read_value(&write_value(&value).unwrap()), value);
        }
    }

    #[test]
    fn r18_what_amqp_cannot_carry_is_said_before_publishing() {
        let label = Value::Labelled { label: "Number".to_owned(), value: Box::new(Value::from_text("1")) };
        assert!(write_value(&label).unwrap_err().contains("Number"));
        let twice = Value::Table(vec![("a".to_owned(), Value::Null), ("a".to_owned(), Value::Null)]);
        assert!(write_value(&twice).unwrap_err().contains("twice"));
        let long = Value::Table(vec![("n".repeat(256), Value::Null)]);
        assert!(write_value(&long).unwrap_err().contains("255"));
    }

    #[test]
    fn protocol_7_identity_ignores_what_a_look_changes_and_nothing_else() {
        let mut message = Message { body: Some(Bytes::from_static(b"b")), ..Message::default() };
        message.headers.push("x-death", Value::List(vec![Value::I64(1)]));
        let before = identity(&message);
        message.headers.push(DELIVERY_COUNT, Value::I64(3));
        message.headers.push(ACQUIRED_COUNT, Value::I64(3));
        assert_eq!(identity(&message), before);
        let changes: [fn(&mut Message); 5] = [
            |m| m.headers.replace("x-death", Value::List(vec![Value::I32(1)])),
            |m| m.headers.push("k", Value::Null),
            |m| m.properties.push("message_id", Value::from_text("1")),
            |m| m.body = Some(Bytes::from_static(b"c")),
            |m| m.headers.remove("x-death"),
        ];
        for change in changes {
            let mut other = message.clone();
            change(&mut other);
            assert_ne!(identity(&other), before);
        }
    }

    /// A letter was moved, its original not removed yet, and its copy died again: which of the two does a
    /// resume that looks for the original find first, the copy lying before it?
    fn found_by_the_resume() -> &'static str {
        let mut original = Message { body: Some(Bytes::from_static(b"{}")), ..Message::default() };
        original.headers.push("event-id", Value::from_text("ev-7"));
        original.headers.push("x-death", Value::List(vec![Value::I64(1)]));
        let mut again = original.clone();
        again.headers.push(crate::stamp::RUN, Value::from_text("r1/0"));
        again.headers.replace("x-death", Value::List(vec![Value::I64(2)]));
        let wanted = position(&identity(&original), 1);
        let queue = [("its copy", &again), ("the original", &original)];
        let found = queue.iter().find(|(_, letter)| position(&identity(letter), 1) == wanted);
        found.map_or("nothing", |(name, _)| name)
    }

    #[test]
    fn m11_identity_is_the_event_id() {
        assert_eq!(found_by_the_resume(), "the original", "I3: what is settled was never sent");
        assert_eq!(planted::with("m11", found_by_the_resume), "its copy", "m11 was not caught");
    }

    #[test]
    fn r10_r12_r17_the_brokers_own_stays_behind_and_user_annotations_travel() {
        let mut message = Message::default();
        for name in ["x-death", "x-first-death-queue", "x-last-death-reason", "x-delivery-count", "CC", "BCC"]
        {
            message.headers.push(name, Value::from_text("v"));
        }
        message.headers.push("x-opt-reason", Value::from_text("mine"));
        message.properties.push("user_id", Value::from_text("billing-svc"));
        message.properties.push("expiration", Value::from_text("1000"));
        message.properties.push("delivery_mode", Value::U8(2));
        let properties = write_properties(&message).unwrap();
        let names: Vec<_> = properties
            .headers()
            .as_ref()
            .unwrap()
            .inner()
            .keys()
            .map(|key| key.as_str().to_owned())
            .collect();
        assert_eq!(names, ["x-opt-reason"]);
        assert_eq!((properties.user_id(), properties.expiration()), (&None, &None));
        assert_eq!(properties.delivery_mode(), &Some(2));
    }
}
