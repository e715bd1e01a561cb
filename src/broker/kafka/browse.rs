//! Looking at a topic: assigned without a group, nothing committed, nothing left behind (K40). The extent of
//! each partition ends at its last stable offset, known by three conditions and never by silence
//! (kafka-real §4).

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Timestamp;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{self, Client, Heard, PATIENCE};
use super::raw;
use super::unjoined::Unjoined;
use crate::broker::{BrokerError, ErrorKind, Result, Want};
use crate::clock::Time;
use crate::letter::{Facts, LetterId, Place, Position, RawLetter, TimeSource};

/// A broker that sends nothing for this long while records are missing.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// One partition's extent: from its first record to its last stable offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) partition: i32,
    pub(super) low: i64,
    pub(super) end: i64,
}

/// What is known of a topic before it is read.
#[derive(Debug, Clone)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) partitions: i32,
    pub(super) retention: Option<Duration>,
    pub(super) append_time: bool,
}

impl Topic {
    /// Asks for a topic; a missing one, with near names, and a forbidden one are told apart.
    pub(super) async fn read(client: &Client, name: &str) -> Result<Self> {
        let action = format!("read {name}");
        let asked = vec![name.to_owned()];
        let described = client.admin(&action, move |handle| handle.describe_topics(&asked, PATIENCE)).await?;
        let described = match described.into_iter().next().map(|(_, one)| one) {
            Some(Ok(described)) => described,
            Some(Err(error)) if error.code == RDKafkaErrorCode::UnknownTopicOrPartition => {
                return Err(client.missing(&action, name).await);
            }
            Some(Err(error)) => return Err(client.raw_error(&action, &error)),
            None => return Err(client.missing(&action, name).await),
        };
        if described.id.bytes().all(|byte| byte == b'A') {
            // Without one a topic that was made anew could not be told from the one before.
            return Err(BrokerError::new(ErrorKind::Unsupported, action, "this broker has no ids of topics")
                .hint(super::client::OLD));
        }
        let topic = name.to_owned();
        let settings = client.admin(&action, move |handle| handle.describe_configs(&topic, PATIENCE)).await?;
        let value =
            |key: &str| settings.iter().find(|entry| entry.name == key).and_then(|entry| entry.value.clone());
        let retention = value("retention.ms").and_then(|text| text.parse::<i64>().ok());
        Ok(Self {
            name: name.to_owned(),
            id: described.id,
            partitions: described.partitions,
            retention: retention.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
            append_time: value("message.timestamp.type").as_deref() == Some("LogAppendTime"),
        })
    }

    /// Is the topic of this name still this one? Blocks.
    pub(super) fn same(client: &Client, known: &Self) -> Result<()> {
        let action = format!("read {}", known.name);
        let native: &rdkafka::client::Client<Heard> = client.asking.client();
        let described = raw::Handle::of(native.native_ptr())
            .describe_topics(std::slice::from_ref(&known.name), PATIENCE)
            .map_err(|error| client.raw_error(&action, &error))?;
        match described.into_iter().next().map(|(_, one)| one) {
            Some(Ok(now)) if now.id == known.id => Ok(()),
            Some(Err(error)) if error.code != RDKafkaErrorCode::UnknownTopicOrPartition => {
                Err(client.raw_error(&action, &error))
            }
            Some(Ok(_)) => Err(BrokerError::new(ErrorKind::NotFound, action, "the topic was deleted and made anew since the letters were selected: these are other letters").hint("select again")),
            _ => Err(BrokerError::new(ErrorKind::NotFound, action, "the topic is not there any more")),
        }
    }

    /// Where each partition ends for those who read uncommitted records: beyond the last stable offset while a
    /// transaction is open.
    pub(super) async fn high_watermarks(&self, client: &Client) -> Result<Vec<i64>> {
        let (client, name, partitions) = (client.clone(), self.name.clone(), self.partitions);
        super::roles::blocking(move || {
            let action = format!("read the offsets of {name}");
            let probe = reader(&client, "read_uncommitted", AHEAD)?;
            let ask = || {
                let mut list = TopicPartitionList::new();
                for partition in 0..partitions {
                    list.add_partition_offset(&name, partition, Offset::End)?;
                }
                probe.offsets_for_times(list, PATIENCE)
            };
            let ends = ask().map_err(|error| client.error(&action, &error))?;
            let end = |partition| ends.find_partition(&name, partition)?.offset().to_raw();
            Ok((0..partitions).map(|partition| end(partition).unwrap_or(0)).collect())
        })
        .await
    }

    /// First and last stable offset of each partition, all in one call each.
    pub(super) async fn extents(&self, client: &Client) -> Result<Vec<Extent>> {
        let (topic, partitions) = (self.name.clone(), self.partitions);
        client
            .ask(&format!("read the offsets of {}", self.name), move |consumer| {
                let ask = |at: Offset| {
                    let mut list = TopicPartitionList::new();
                    for partition in 0..partitions {
                        list.add_partition_offset(&topic, partition, at)?;
                    }
                    consumer.offsets_for_times(list, PATIENCE)
                };
                let (lows, ends) = (ask(Offset::Beginning)?, ask(Offset::End)?);
                let offset = |list: &TopicPartitionList, partition| {
                    list.find_partition(&topic, partition).and_then(|one| one.offset().to_raw()).unwrap_or(0)
                };
                Ok((0..partitions)
                    .map(|partition| Extent {
                        partition,
                        low: offset(&lows, partition),
                        end: offset(&ends, partition),
                    })
                    .collect())
            })
            .await
    }
}

impl Client {
    /// A missing topic, with the names that are near.
    pub(super) async fn missing(&self, action: &str, name: &str) -> BrokerError {
        let known = self.ask(action, |consumer| {
            let all = consumer.fetch_metadata(None, PATIENCE)?;
            Ok(all.topics().iter().map(|topic| topic.name().to_owned()).collect::<Vec<_>>())
        });
        let near = known.await.ok().and_then(|names| {
            crate::topology::nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
        });
        let near = near.map(|near| format!("; near: {near}")).unwrap_or_default();
        BrokerError::new(ErrorKind::NotFound, action, format!("no topic {name}{near}"))
    }
}

/// A letter's position: topic id, partition and offset.
pub(super) fn position(topic_id: &str, place: Place) -> Position {
    let mut text = String::with_capacity(topic_id.len() + 24);
    text.push_str(topic_id);
    for number in [i64::from(place.partition), place.offset] {
        text.push(':');
        push(&mut text, number);
    }
    Position::new(text)
}

/// Appends a number in decimal: a look makes four of them for each of a million letters.
fn push(text: &mut String, number: i64) {
    let (mut digits, mut at, mut left) = ([b'0'; 20], 20, number.unsigned_abs());
    while left > 0 || at == 20 {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    if number < 0 {
        text.push('-');
    }
    text.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Reads a position back.
pub(super) fn place_of(position: &Position) -> Option<(&str, Place)> {
    place_in(position.as_str())
}

/// Reads the text of a position back.
pub(super) fn place_in(position: &str) -> Option<(&str, Place)> {
    let (rest, offset) = position.rsplit_once(':')?;
    let (id, partition) = rest.rsplit_once(':')?;
    Some((id, Place { partition: partition.parse().ok()?, offset: offset.parse().ok()? }))
}

/// The id that people type: `p3o41`.
pub(super) fn letter_id(place: Place) -> LetterId {
    let mut text = String::with_capacity(24);
    text.push('p');
    push(&mut text, i64::from(place.partition));
    text.push('o');
    push(&mut text, place.offset);
    LetterId::new(&text)
}

/// Reads `p3o41`, also without the offset or with its beginning only.
pub(super) fn parse_id(text: &str) -> Option<(i32, Option<i64>)> {
    let (partition, offset) = text.strip_prefix('p')?.split_once('o')?;
    Some((partition.parse().ok()?, offset.parse().ok()))
}

/// A record as a letter.
pub(super) fn letter(topic: &Topic, record: &raw::Record<'_>, want: Want) -> RawLetter {
    let place = Place { partition: record.partition(), offset: record.offset() };
    let body = record.payload();
    let written_at = match record.timestamp() {
        Timestamp::NotAvailable => None,
        Timestamp::CreateTime(ms) => Some((Time::from_millis(ms), TimeSource::Producer)),
        Timestamp::LogAppendTime(ms) => Some((Time::from_millis(ms), TimeSource::Broker)),
    };
    RawLetter {
        id: letter_id(place),
        position: position(&topic.id, place),
        // Only letters of one partition have an order; partitions are told apart by the upper bits.
        arrival: u64::try_from(place.offset).unwrap_or(0),
        body_len: body.map(|bytes| bytes.len() as u64),
        message: record.message(want.bodies),
        facts: Facts {
            queue: topic.name.as_str().into(),
            place: Some(place),
            written_at,
            dead_at: written_at.filter(|_| topic.append_time).map(|(at, _)| at),
            expires_at: written_at.and_then(|(at, _)| Some(at.plus(topic.retention?))),
            ..Facts::default()
        },
    }
}

/// KiB that a reader fetches ahead of who asks for them.
const AHEAD: u32 = 4_096;

/// A consumer that reads given extents: small queues, since the default holds 64 MiB a partition, and the back-off
/// that such queues need (kafka-real §3).
pub(super) fn reader(client: &Client, isolation: &str, ahead: u32) -> Result<Unjoined> {
    let mut config = client.config();
    if config.get("group.id").is_none() {
        config.set("group.id", "redrive");
    }
    config
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .set("isolation.level", isolation)
        .set("fetch.wait.max.ms", "10")
        .set("queued.max.messages.kbytes", ahead.to_string())
        .set("fetch.message.max.bytes", "131072")
        .set("fetch.queue.backoff.ms", "5");
    Unjoined::of(&config, client.heard.clone()).map_err(|error| client.error("set up a reader", &error))
}

/// Where each partition of a read has come to.
pub(super) struct Reading {
    /// Before its consumer, which has to outlive it.
    fetched: raw::Fetched,
    consumer: Unjoined,
    client: Client,
    topic: String,
    /// Partitions that are not at their end, with the end.
    open: BTreeMap<i32, i64>,
}

/// One step of a read.
pub(super) enum Step<'a> {
    /// A record inside the extent.
    Record(raw::Record<'a>),
    /// Nothing now.
    Nothing,
    /// Every partition is at its end.
    End,
}

impl Reading {
    /// Begins at the lower end of each extent that is not empty.
    pub(super) fn begin(client: &Client, topic: &str, extents: &[Extent], isolation: &str) -> Result<Self> {
        Self::with(reader(client, isolation, AHEAD)?, client, topic, extents)
    }

    /// One partition alone, beside `readers` others that are open at the same time.
    pub(super) fn beside(client: &Client, topic: &str, extent: Extent, readers: usize) -> Result<Self> {
        let ahead = (2 * AHEAD / u32::try_from(readers).unwrap_or(u32::MAX).max(1)).clamp(512, AHEAD);
        Self::with(reader(client, "read_committed", ahead)?, client, topic, &[extent])
    }

    fn with(consumer: Unjoined, client: &Client, topic: &str, extents: &[Extent]) -> Result<Self> {
        let mut list = TopicPartitionList::new();
        let mut open = BTreeMap::new();
        for extent in extents.iter().filter(|extent| extent.low < extent.end) {
            list.add_partition_offset(topic, extent.partition, Offset::Offset(extent.low))
                .map_err(|error| client.error("begin to read", &error))?;
            open.insert(extent.partition, extent.end);
        }
        if !open.is_empty() {
            consumer.assign(&list).map_err(|error| client.error("begin to read", &error))?;
        }
        let fetched = raw::Fetched::of(consumer.client().native_ptr());
        Ok(Self { fetched, consumer, client: client.clone(), topic: topic.to_owned(), open })
    }

    /// Waits up to `wait` for the next record. Blocks: call it on a thread for such.
    pub(super) fn step(&mut self, wait: Duration) -> Result<Step<'_>> {
        if self.open.is_empty() {
            return Ok(Step::End);
        }
        let next = match self.fetched.take() {
            None => self.consumer.poll(wait).map(|polled| polled.map(raw::Record::Polled)),
            here => here,
        };
        match next {
            None => Ok(Step::Nothing),
            Some(Ok(record)) => {
                let (partition, offset) = (record.partition(), record.offset());
                let Some(end) = self.open.get(&partition).copied() else { return Ok(Step::Nothing) };
                if offset >= end - 1 {
                    self.open.remove(&partition);
                    quiet(&self.consumer, &self.topic, partition);
                }
                // Written after the snapshot: not in its extent.
                if offset >= end { Ok(Step::Nothing) } else { Ok(Step::Record(record)) }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.open.remove(&partition);
                Ok(Step::Nothing)
            }
            // Unreachable brokers come back by themselves; the silence is bounded by the caller. The client tells of them
            // again and again, so none of it may cost time.
            Some(Err(error)) if client::away(&error, &self.client.heard) => Ok(Step::Nothing),
            Some(Err(error)) => {
                let mut ours = self.client.error(&format!("read {}", self.topic), &error);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
                    ours = BrokerError::new(
                        ErrorKind::Other,
                        ours.action,
                        "records that this look began with are gone: retention or a deletion took them",
                    )
                    .hint("look again; if the topic was deleted and made anew, its letters are other ones");
                }
                // The callbacks may have told what is behind it.
                if ours.kind == ErrorKind::Unreachable { Ok(Step::Nothing) } else { Err(ours) }
            }
        }
    }
}

impl Reading {
    /// Where the next record of a partition will be, markers and aborted records counted.
    pub(super) fn position(&self, partition: i32) -> i64 {
        let position = self.consumer.position().ok();
        position.and_then(|list| list.find_partition(&self.topic, partition)?.offset().to_raw()).unwrap_or(0)
    }

    /// Reads no more of a partition: what follows would only fill the queue that the others wait in.
    pub(super) fn close(&mut self, partition: i32) {
        self.open.remove(&partition);
        quiet(&self.consumer, &self.topic, partition);
    }

    /// Is every partition at its end?
    pub(super) fn at_end(&self) -> bool {
        self.open.is_empty()
    }

    /// Goes on reading a partition that came to its stable end before its end.
    pub(super) fn reopen(&mut self, partition: i32, end: i64) {
        self.open.insert(partition, end);
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.topic, partition);
        let _ = self.consumer.resume(&list);
    }
}

/// Stops fetching a partition.
fn quiet(consumer: &BaseConsumer<Heard>, topic: &str, partition: i32) {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    // What comes all the same is stepped over.
    let _ = consumer.pause(&list);
}
