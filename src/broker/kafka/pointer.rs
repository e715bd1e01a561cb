//! Letters that are no message but point at one: the broker's own dead-letter queue of share groups (KIP-1191)
//! writes key and value null unless copying is on, and sending such a letter would write a tombstone (K15). What it
//! points at is fetched and stands in its place; what cannot be fetched stays a pointer, which is never sent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;

use super::browse::{Extent, Reading, Step};
use super::client::{Client, Heard, PATIENCE};
use super::raw;
use crate::broker::{ErrorKind, Names, Result, Want};
use crate::letter::{Message, RawLetter};

/// What the broker names the record by.
const TOPIC: &str = "__dlq.errors.topic";
const PARTITION: &str = "__dlq.errors.partition";
const OFFSET: &str = "__dlq.errors.offset";
/// A gap of at most this many records is read over.
const READ_OVER: i64 = 2_000;

/// Fetches what letters of one channel point at. Only the channel's own topics are read: a letter's header is
/// anybody's word.
pub(super) struct Pointers {
    client: Client,
    topics: Vec<String>,
    /// By id, asked for at the first pointer that names none: a broker that cannot resolve a name writes the id.
    ids: Option<BTreeMap<String, String>>,
    readers: BTreeMap<(String, i32), (Reading, i64)>,
    gone: u64,
}

impl Pointers {
    pub(super) fn new(client: &Client, names: &Names) -> Self {
        let mut topics = vec![names.source.clone(), names.return_to.clone()];
        topics.extend(names.tiers.iter().cloned());
        Self { client: client.clone(), topics, ids: None, readers: BTreeMap::new(), gone: 0 }
    }

    /// Pointers at records that are not there any more.
    pub(super) fn gone(&self) -> u64 {
        self.gone
    }

    /// Puts the record that a letter points at in its place. Blocks.
    pub(super) fn follow(&mut self, letter: &mut RawLetter, want: Want) -> Result<()> {
        let Some((named, partition, offset)) = pointer(letter) else { return Ok(()) };
        let Some(topic) = self.topic(&named)? else { return Ok(()) };
        match self.fetch(&topic, partition, offset)? {
            // A tombstone is no payload either: the letter stays a pointer, and is not sent.
            Some(message) if message.body.is_some() => {
                letter.body_len = message.body.as_ref().map(|body| body.len() as u64);
                let told = std::mem::take(&mut letter.message.headers);
                let mut headers = message.headers;
                for header in told.iter() {
                    headers.push(header.name.clone(), header.value.clone());
                }
                let body = if want.bodies { message.body } else { None };
                letter.message =
                    Message { key: message.key, body, headers, ..std::mem::take(&mut letter.message) };
            }
            _ => self.gone += 1,
        }
        Ok(())
    }

    /// One of the channel's topics, by its name or its id.
    fn topic(&mut self, named: &str) -> Result<Option<String>> {
        if self.topics.iter().any(|topic| topic == named) {
            return Ok(Some(named.to_owned()));
        }
        if self.ids.is_none() {
            let native: &rdkafka::client::Client<Heard> = self.client.asking.client();
            let described = raw::Handle::of(native.native_ptr())
                .describe_topics(&self.topics, PATIENCE)
                .map_err(|error| self.client.raw_error("look up what a letter points at", &error))?;
            let known = described.into_iter().filter_map(|(topic, one)| Some((one.ok()?.id, topic)));
            self.ids = Some(known.collect());
        }
        Ok(self.ids.as_ref().and_then(|ids| ids.get(named)).cloned())
    }

    fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> Result<Option<Message>> {
        let action = format!("read {topic}, where a letter points");
        let key = (topic.to_owned(), partition);
        let near = self.readers.get(&key).is_some_and(|(_, at)| offset >= *at && offset - at <= READ_OVER);
        if !near {
            let ends = self.client.asking.fetch_watermarks(topic, partition, PATIENCE);
            let (low, end) = match ends {
                Ok(ends) => ends,
                // No such partition: the pointer points nowhere.
                Err(error) => {
                    let error = self.client.error(&action, &error);
                    return if error.kind == ErrorKind::NotFound { Ok(None) } else { Err(error) };
                }
            };
            if offset < low || offset >= end {
                return Ok(None);
            }
            let extent = Extent { partition, low: offset, end };
            let reading = Reading::beside(&self.client, topic, extent, 8)?;
            self.readers.insert(key.clone(), (reading, offset));
        }
        let Some((reading, at)) = self.readers.get_mut(&key) else { return Ok(None) };
        let begun = Instant::now();
        let found = loop {
            match reading.step(Duration::from_millis(50))? {
                Step::Record(record) => {
                    let here = record.offset();
                    *at = here + 1;
                    if here >= offset {
                        break (here == offset).then(|| record.message(true));
                    }
                }
                Step::End => break None,
                Step::Nothing if begun.elapsed() > PATIENCE => {
                    return Err(self.client.silence(&action));
                }
                Step::Nothing => {}
            }
        };
        if found.is_none() {
            // Read past: the next pointer may point in between.
            self.readers.remove(&key);
        }
        Ok(found)
    }
}

/// What a letter without key and value points at.
fn pointer(letter: &RawLetter) -> Option<(String, i32, i64)> {
    if letter.message.key.is_some() || letter.body_len.is_some() {
        return None;
    }
    let text = |name: &str| letter.message.headers.last_text(name);
    let topic = text(TOPIC)?.to_owned();
    Some((topic, text(PARTITION)?.parse().ok()?, text(OFFSET)?.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::letter::{Headers, Value};

    fn letter(headers: &[(&str, &str)]) -> RawLetter {
        let headers: Headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), Value::from_text(*value))).collect();
        let message = Message { headers, ..Message::default() };
        RawLetter {
            id: crate::letter::LetterId::new("p0o1"),
            position: crate::letter::Position::new("t:0:1"),
            arrival: 1,
            message,
            body_len: None,
            facts: crate::letter::Facts::default(),
        }
    }

    #[test]
    fn k15_only_a_letter_without_key_and_value_is_a_pointer() {
        let whole = [(TOPIC, "orders"), (PARTITION, "2"), (OFFSET, "1041")];
        assert_eq!(pointer(&letter(&whole)), Some(("orders".to_owned(), 2, 1_041)));
        let mut copied = letter(&whole);
        copied.body_len = Some(0);
        assert_eq!(pointer(&copied), None, "an empty value is a value");
        let mut keyed = letter(&whole);
        keyed.message.key = Some(bytes::Bytes::new());
        assert_eq!(pointer(&keyed), None);
        assert_eq!(pointer(&letter(&whole[..2])), None);
        assert_eq!(pointer(&letter(&[(TOPIC, "orders"), (PARTITION, "two"), (OFFSET, "1")])), None);
    }
}
