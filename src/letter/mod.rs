//! What a message is, and what a letter in a dead-letter queue is, whatever the broker.
//!
//! Null, empty and missing are three things; header lists keep order, types and duplicates. Nothing here
//! interprets: that is `dialect/`'s and `failure`'s work.

pub mod base64;
mod headers;
mod plain_json;
mod short;
mod value;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use headers::{Header, Headers};
pub use plain_json::{PlainJson, end_of_text};
pub use short::Short;
pub use value::Value;

use crate::clock::Time;

/// A message as its producer wrote it: what must travel byte for byte (rule 4).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// Kafka key; `None` is a null key, or a broker without keys.
    pub key: Option<Bytes>,
    /// `None` is a null body (a tombstone), which is not an empty one.
    pub body: Option<Bytes>,
    /// User and framework headers, in order, duplicates kept.
    pub headers: Headers,
    /// What the broker keeps beside the headers and a producer can set, by the broker's own name
    /// (`message_id`, `content_type`, `MessageGroupId`), in order.
    pub properties: Headers,
}

/// Where a letter lies, in the words of its broker: what finds it again, and its full identity
/// (protocol §7). Only the adapter that made it understands it; it is never an event id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(Short);

impl Position {
    /// Wraps an adapter's own words: printable ASCII without spaces, at most 200 bytes.
    pub fn new(text: impl Into<Short>) -> Self {
        Self(text.into())
    }

    /// The adapter's own words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The short name of a letter that people type: `[a-z0-9]`, from its position. `p3o41` on Kafka.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LetterId(Short);

impl LetterId {
    /// Takes `text` as the id; anything but `[a-z0-9]` is left out.
    pub fn new(text: &str) -> Self {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if text.chars().all(allowed) {
            return Self(text.into());
        }
        Self(text.chars().filter(|c| allowed(*c)).collect::<String>().into())
    }

    /// The id of a letter whose broker has no short names: ten letters and digits of a hash.
    pub fn hashed(identity: &[u8]) -> Self {
        use sha2::Digest;
        const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let hash = sha2::Sha256::digest(identity);
        Self(
            hash.iter()
                .take(10)
                .map(|byte| char::from(ALPHABET[usize::from(byte & 31)]))
                .collect::<String>()
                .into(),
        )
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose clock a time is by, which decides what may be concluded from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// The broker's, when it took the letter in.
    Broker,
    /// The broker's, when the message was first sent, however often it moved since: SQS standard queues.
    FirstSend,
    /// The producer's: Kafka `CreateTime`, AMQP `timestamp`. May be anything.
    Producer,
}

/// How a message came into its queue on a broker that routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// `""` is the default exchange.
    pub exchange: String,
    /// Routing key as published.
    pub routing_key: String,
}

/// Partition and offset of a letter on a broker that has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
}

/// What the broker itself says about a letter, beside the message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// The queue or topic it lies in.
    pub queue: Arc<str>,
    /// Partition and offset, where there are any.
    pub place: Option<Place>,
    /// The time that the broker shows for it, and whose clock that is.
    pub written_at: Option<(Time, TimeSource)>,
    /// When it came into the dead-letter queue, where the broker itself recorded that.
    pub dead_at: Option<Time>,
    /// When retention takes it.
    pub expires_at: Option<Time>,
    /// How often it was handed out from this queue, looks included.
    pub deliveries: Option<u32>,
    /// How it came into the queue.
    pub route: Option<Route>,
    /// The broker's redelivered mark.
    pub redelivered: Option<bool>,
    /// Already moved by a run, kept by a broker that cannot delete (`--all` shows it).
    pub moved_by: Option<String>,
    /// Held by somebody's claim at the time of the look.
    pub claimed: bool,
}

/// Appends bytes as lower-case hex.
pub fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// A letter as an adapter found it: nothing read out of it yet.
#[derive(Debug, Clone, PartialEq)]
pub struct RawLetter {
    /// What people type.
    pub id: LetterId,
    /// What finds it again.
    pub position: Position,
    /// Order in the dead-letter queue as its broker keeps it: among letters of one queue (on Kafka, of one
    /// partition) a smaller one came earlier.
    pub arrival: u64,
    /// The message. Its body is `None` also when the look did not ask for bodies: see `body_len`.
    pub message: Message,
    /// Bytes of the body, also if it was not fetched; `None` is a null body.
    pub body_len: Option<u64>,
    /// What the broker says.
    pub facts: Facts,
}

impl RawLetter {
    /// Bytes of key, body and headers together, about what the broker stores.
    pub fn size(&self) -> u64 {
        let key = self.message.key.as_ref().map_or(0, Bytes::len) as u64;
        key + self.body_len.unwrap_or(0) + self.message.headers.size() + self.message.properties.size()
    }
}
