//! Letters as bytes: what fuzz targets, the stored corpus and the plain test over it share.
//!
//! `kind`, key, body, then headers and properties. Lengths are big-endian; all ones is a null value; what
//! is cut off is read as far as it goes.

use redrive::clock::Time;
use redrive::letter::{
    Facts, Headers, LetterId, Message, Place, Position, RawLetter, Route, TimeSource, Value,
};

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(len.min(self.0.len()));
        self.0 = tail;
        head
    }

    fn number(&mut self, width: usize) -> Option<usize> {
        let bytes = self.take(width);
        let number = bytes.iter().fold(0usize, |n, byte| n << 8 | usize::from(*byte));
        (bytes.len() == width && number != (1 << (width * 8)) - 1).then_some(number)
    }

    fn field(&mut self, width: usize) -> Option<bytes::Bytes> {
        let len = self.number(width)?;
        Some(bytes::Bytes::copy_from_slice(self.take(len)))
    }
}

/// The letter that `data` stands for; every input is one.
pub fn letter_of(data: &[u8]) -> RawLetter {
    letter_of_kind(data.first().copied().unwrap_or_default(), data)
}

/// The same, of this kind whatever the first byte says: `k` Kafka, `r` RabbitMQ, any other neither.
pub fn letter_of_kind(kind: u8, data: &[u8]) -> RawLetter {
    let mut bytes = Bytes(data.get(1..).unwrap_or_default());
    let key = bytes.field(2);
    let body = bytes.field(4);
    let (mut headers, mut properties) = (Headers::new(), Headers::new());
    while !bytes.0.is_empty() {
        let name = bytes.field(2).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).into_owned();
        let tag = bytes.take(1).first().copied().unwrap_or_default();
        let value = bytes.field(4);
        let value = match (tag & 0x7f, value) {
            (0, _) | (_, None) => Value::Null,
            (1, Some(value)) => Value::Bytes(value),
            (3, Some(value)) => {
                Value::I64(value.iter().take(8).fold(0i64, |n, byte| n << 8 | i64::from(*byte)))
            }
            (5, Some(value)) => serde_json::from_slice(&value).map_or(Value::Null, |json| typed(&json, 0)),
            (_, Some(value)) => Value::Text(value),
        };
        if tag & 0x80 == 0 { headers.push(name, value) } else { properties.push(name, value) }
    }
    let mut facts = Facts { queue: "orders.dlq".into(), ..Facts::default() };
    facts.written_at = Some((Time::from_millis(1_795_975_000_000), TimeSource::Producer));
    match kind {
        b'k' => facts.place = Some(Place { partition: 1, offset: 2 }),
        b'r' => facts.route = Some(Route { exchange: "x".into(), routing_key: "k".into() }),
        _ => {}
    }
    RawLetter {
        id: LetterId::new("l1"),
        position: Position::new("1"),
        arrival: 1,
        body_len: body.as_ref().map(|body| body.len() as u64),
        message: Message { key, body, headers, properties },
        facts,
    }
}

/// Typed AMQP values, as JSON: good enough to reach every branch.
fn typed(json: &serde_json::Value, depth: usize) -> Value {
    use serde_json::Value as Json;
    match json {
        _ if depth > 32 => Value::Null,
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => number.as_i64().map_or(Value::F64(0.5), Value::I64),
        Json::String(text) => Value::from_text(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(|item| typed(item, depth + 1)).collect()),
        Json::Object(entries) => Value::Table(
            entries.iter().map(|(name, value)| (name.clone(), typed(value, depth + 1))).collect(),
        ),
    }
}

/// Reads, fingerprints and takes out: what a target and the plain test do with each input.
pub fn handle(letter: &RawLetter) {
    let context = redrive::dialect::read(letter);
    let _ = redrive::failure::fingerprint(&context, &["com.example".to_owned()]);
    let _ = redrive::dialect::outgoing(letter, &context);
    for header in &letter.message.headers {
        let _ = redrive::dialect::stays_behind(header, &context);
    }
}
