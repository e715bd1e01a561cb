//! Uber's uForwarder: value and headers are the record's own, but the KEY is a protobuf message with the
//! original key as field 6: `retry_count` 1, `topic` 2, `partition` 3, `offset` 4, `timestamp_ns` 5, `data`
//! 6, `timeout_count` 7. Sent on as it is, consumers get a protobuf as key, and order and compaction break.

use bytes::Bytes;

use super::{Dialect, Look, Mark, Testimony};
use crate::clock::Time;
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Message};

/// See the file's head.
pub(super) struct UForwarder;

/// What the key holds.
#[derive(Default)]
struct Metadata<'a> {
    retries: u64,
    topic: Option<&'a str>,
    partition: u64,
    offset: u64,
    timestamp_ns: Option<u64>,
    key: Option<&'a [u8]>,
}

impl Dialect for UForwarder {
    fn name(&self) -> &'static str {
        "uforwarder"
    }

    fn about(&self) -> &'static str {
        "Uber's uForwarder consumer proxy, dead-letter and retry topics"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Other("the key is a protobuf DLQMetadata with the original topic, place and key")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let metadata = parse(letter.message.key.as_deref()?)?;
        metadata.topic.map(|_| (Sureness::Likely, "key: protobuf with topic and offset".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some(metadata) = letter.message.key.as_deref().and_then(parse) else { return };
        let origin = Origin {
            topic: metadata.topic.map(str::to_owned),
            partition: i32::try_from(metadata.partition).ok(),
            offset: i64::try_from(metadata.offset).ok(),
            timestamp: metadata
                .timestamp_ns
                .and_then(|ns| i64::try_from(ns / 1_000_000).ok())
                .map(Time::from_millis),
            ..Origin::default()
        };
        says.group = metadata.key.and_then(|key| std::str::from_utf8(key).ok()).map(str::to_owned);
        // The key that the letter has is not the event's: the original comes back only on a redrive.
        says.key_unavailable = true;
        if metadata.key.is_none() {
            says.doubt("key", "the original was null or empty: the writer does not tell which");
        }
        says.doubt(
            "attempts",
            format!("retried {} times by its own count, which may leave out the last", metadata.retries),
        );
        says.deaths.push(Death { place: Some(origin.clone()), count: 1, ..Death::default() });
        says.origin = Some(origin);
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }

    fn restore(&self, letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        if let Some(metadata) = letter.message.key.as_deref().and_then(parse) {
            message.key = metadata.key.map(Bytes::copy_from_slice);
        }
        Ok(())
    }
}

/// The whole key has to be such a message, with a topic's name in it: anything else is a key.
fn parse(mut key: &[u8]) -> Option<Metadata<'_>> {
    let mut found = Metadata::default();
    if key.len() < 4 || key.len() > 1 << 20 {
        return None;
    }
    let mut last = 0;
    while !key.is_empty() {
        let tag = varint(&mut key)?;
        let (field, wire) = (tag >> 3, tag & 7);
        if field <= last || field > 7 {
            return None;
        }
        last = field;
        match (field, wire) {
            (1, 0) => found.retries = varint(&mut key)?,
            (3, 0) => found.partition = varint(&mut key)?,
            (4, 0) => found.offset = varint(&mut key)?,
            (5, 0) => found.timestamp_ns = Some(varint(&mut key)?),
            (7, 0) => {
                varint(&mut key)?;
            }
            (2, 2) => found.topic = Some(topic(bytes(&mut key)?)?),
            (6, 2) => found.key = Some(bytes(&mut key)?),
            _ => return None,
        }
    }
    found.topic.is_some().then_some(found)
}

fn topic(bytes: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(bytes).ok()?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (!name.is_empty() && name.len() <= 249 && name.bytes().all(legal)).then_some(name)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for at in 0..10 {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(at * 7)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint(rest)?).ok()?;
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::parse;

    #[test]
    fn only_whole_messages_are_read() {
        let key = b"\x08\x03\x12\x06orders\x18\x02\x20\x2a\x32\x04C-17";
        let found = parse(key).unwrap();
        assert_eq!((found.topic, found.partition, found.offset), (Some("orders"), 2, 42));
        assert_eq!(found.key, Some(&b"C-17"[..]));
        for no in [
            &b"C-17"[..],
            b"order-5001",
            b"\x08\x03",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x",
            &key[..7],
        ] {
            assert!(parse(no).is_none(), "{no:?}");
        }
    }
}
