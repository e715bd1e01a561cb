//! Marks: which letters were moved, kept with the broker in a compacted topic of one partition, so that a
//! letter moved from one machine is not open on another. The lock of a dead-letter queue lives there too.
//!
//! The format is documented in `docs/kafka.md`; version 1. Keys are text:
//! `mark/<topic id>/<partition>/<offset>` (moved), `sent/…` the same (copied, not yet marked),
//! `lock/<topic id>`, and `began/<topic id>/<run>` of a run without transactions. Values are JSON objects with `v`; a tombstone takes a mark back once its letter is gone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::browse::{Extent, Reading, Step};
use super::client::{Client, PATIENCE};
use super::producer::{Record, TRANSACTION};
use crate::broker::{BrokerError, ErrorKind, Result, holder};
use crate::clock::Time;
use crate::letter::{Headers, Place};

/// Version of what is written; a newer one is refused.
const VERSION: u32 = 1;

/// A moved letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    v: u32,
    /// Full id of the run.
    pub(super) run: String,
    /// Number in its manifest.
    pub(super) seq: u64,
    /// When.
    pub(super) at: Time,
}

/// Who moves letters of a topic now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lock {
    v: u32,
    pub(super) run: String,
    pub(super) owner: String,
    pub(super) who: String,
    /// Lanes that runs of this topic have had, most so far: a successor inits every one (t12).
    pub(super) lanes: u32,
    /// Last heartbeat.
    pub(super) at: Time,
    /// How long it counts.
    pub(super) lease_ms: u64,
    /// Given back in order.
    pub(super) free: bool,
    /// It has no transactions: nothing fences it, it has to look whether it still holds the lock.
    #[serde(default)]
    pub(super) plain: bool,
    /// Which process, where it can be seen whether that lives.
    #[serde(default)]
    process: Option<String>,
}

/// Where a run without transactions began: copies that have no mark are looked for from there on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Began {
    v: u32,
    pub(super) run: String,
    pub(super) target: String,
    /// Partition and first offset of the target that was not written yet.
    pub(super) ends: Vec<(i32, i64)>,
    pub(super) at: Time,
}

impl Began {
    pub(super) fn new(run: &str, target: &str, ends: Vec<(i32, i64)>, at: Time) -> Self {
        Self { v: VERSION, run: run.to_owned(), target: target.to_owned(), ends, at }
    }
}

impl Lock {
    pub(super) fn new(run: &str, owner: &str, who: &str, lanes: u32, at: Time, lease: Duration) -> Self {
        Self {
            v: VERSION,
            run: run.to_owned(),
            owner: owner.to_owned(),
            who: who.to_owned(),
            lanes,
            at,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
            free: false,
            plain: false,
            process: holder::this_process(),
        }
    }

    /// When it ends without a heartbeat.
    pub(super) fn until(&self) -> Time {
        self.at.plus(Duration::from_millis(self.lease_ms))
    }

    /// Does it hold others back at `now`?
    pub(super) fn alive(&self, now: Time) -> bool {
        !self.free && now < self.until() && !self.process.as_deref().is_some_and(holder::surely_dead)
    }
}

/// Offsets in one block of bits.
const BLOCK: i64 = 64 * 64;

/// A set of places: a bit per offset, so that a million take 125 KB.
#[derive(Debug, Clone, Default)]
struct Bits(BTreeMap<i32, BTreeMap<i64, [u64; 64]>>);

impl Bits {
    fn at(place: Place) -> (i64, usize, u64) {
        let within = usize::try_from(place.offset.rem_euclid(BLOCK)).unwrap_or(0);
        (place.offset.div_euclid(BLOCK), within / 64, 1 << (within % 64))
    }

    fn has(&self, place: Place) -> bool {
        let (block, word, bit) = Self::at(place);
        let bits = self.0.get(&place.partition).and_then(|blocks| blocks.get(&block));
        bits.is_some_and(|bits| bits[word] & bit != 0)
    }

    fn add(&mut self, place: Place) {
        let (block, word, bit) = Self::at(place);
        self.0.entry(place.partition).or_default().entry(block).or_insert([0; 64])[word] |= bit;
    }

    fn remove(&mut self, place: Place) {
        let (block, word, bit) = Self::at(place);
        if let Some(bits) = self.0.get_mut(&place.partition).and_then(|blocks| blocks.get_mut(&block)) {
            bits[word] &= !bit;
        }
    }

    /// Places of one partition within these offsets, in order.
    fn within(&self, partition: i32, offsets: Range<i64>) -> impl Iterator<Item = Place> + '_ {
        let blocks = self.0.get(&partition).into_iter();
        let (first, last) = (offsets.start.div_euclid(BLOCK), offsets.end.div_euclid(BLOCK));
        blocks.flat_map(move |blocks| blocks.range(first..=last.max(first))).flat_map(move |(block, bits)| {
            let (block, offsets) = (*block, offsets.clone());
            bits.iter().enumerate().filter(|(_, bits)| **bits != 0).flat_map(move |(word, bits)| {
                let base = block * BLOCK + i64::try_from(word).unwrap_or(0) * 64;
                let (bits, offsets) = (*bits, offsets.clone());
                (0..64)
                    .filter(move |bit| bits & (1 << bit) != 0)
                    .map(move |bit| base + bit)
                    .filter(move |offset| offsets.contains(offset))
                    .map(move |offset| Place { partition, offset })
            })
        })
    }
}

/// The marks of one dead-letter topic in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    moved: Bits,
    /// Copied or moved by the run that was asked for.
    mine: Bits,
    pub(super) lock: Option<Lock>,
    /// Where the run that was asked for began, if it had no transactions.
    pub(super) began: Option<Began>,
    /// Up to which offset of the marks topic they were read.
    pub(super) end: i64,
}

impl Marks {
    /// Was it moved?
    pub(super) fn has(&self, place: Place) -> bool {
        self.moved.has(place)
    }

    /// Was it copied by the run that was asked for?
    pub(super) fn by_run(&self, place: Place) -> bool {
        self.mine.has(place)
    }

    /// Notes a letter that the run moved.
    pub(super) fn add(&mut self, place: Place) {
        self.moved.add(place);
        self.mine.add(place);
    }

    /// How many letters of these extents were moved.
    pub(super) fn within(&self, extents: &[Extent]) -> u64 {
        let count = |extent: &Extent| self.moved.within(extent.partition, extent.low..extent.end).count();
        extents.iter().map(count).sum::<usize>() as u64
    }

    /// Marks of letters that are not in the topic any more, at most `limit`.
    pub(super) fn outlived(&self, extents: &[Extent], limit: usize) -> Vec<Place> {
        let below = |extent: &Extent| self.moved.within(extent.partition, 0..extent.low);
        extents.iter().flat_map(below).take(limit).collect()
    }
}

/// Writes marks of one run at one time: what is the same in all of them is made once.
pub(super) struct Marker<'a> {
    topic: &'a Arc<str>,
    topic_id: &'a str,
    /// A value up to its number, and from there on.
    value: (String, String),
}

impl<'a> Marker<'a> {
    pub(super) fn new(topic: &'a Arc<str>, topic_id: &'a str, run: &str, at: Time) -> Self {
        let whole = Mark { v: VERSION, run: run.to_owned(), seq: 0, at };
        let whole = serde_json::to_string(&whole).unwrap_or_default();
        // The time has neither quotes nor names in it, so the last number is the letter's.
        let (head, tail) = whole.rsplit_once("\"seq\":0").unwrap_or_default();
        Self { topic, topic_id, value: (format!("{head}\"seq\":"), tail.to_owned()) }
    }

    /// The record that marks a letter as moved.
    pub(super) fn mark(&self, place: Place, seq: u64) -> Record {
        self.record("mark", place, seq)
    }

    /// The record that says that a copy was made, before its letter is marked: what proves an answer that was lost.
    pub(super) fn sent(&self, place: Place, seq: u64) -> Record {
        self.record("sent", place, seq)
    }

    fn record(&self, kind: &str, place: Place, seq: u64) -> Record {
        let (head, tail) = &self.value;
        let value = [head.as_str(), &seq.to_string(), tail].concat();
        record(
            self.topic,
            format!("{kind}/{}/{}/{}", self.topic_id, place.partition, place.offset),
            Some(value.into()),
        )
    }
}

/// Takes both back: the letter is not in the topic any more.
pub(super) fn tombstones(topic: &Arc<str>, topic_id: &str, place: Place) -> [Record; 2] {
    ["mark", "sent"]
        .map(|kind| record(topic, format!("{kind}/{topic_id}/{}/{}", place.partition, place.offset), None))
}

/// The record that holds the lock.
pub(super) fn lock(topic: &Arc<str>, topic_id: &str, lock: &Lock) -> Record {
    record(topic, format!("lock/{topic_id}"), Some(serde_json::to_vec(lock).unwrap_or_default()))
}

/// The record that says where a run without transactions began.
pub(super) fn began(topic: &Arc<str>, topic_id: &str, began: &Began) -> Record {
    record(
        topic,
        format!("began/{topic_id}/{}", began.run),
        Some(serde_json::to_vec(began).unwrap_or_default()),
    )
}

fn record(topic: &Arc<str>, key: String, value: Option<Vec<u8>>) -> Record {
    Record {
        topic: Arc::clone(topic),
        partition: Some(0),
        key: Some(key.into_bytes().into()),
        value: value.map(Into::into),
        headers: Headers::new(),
        timestamp: None,
    }
}

/// Reads the marks of a dead-letter topic. A topic of marks that is not there is an empty one.
///
/// `to_high_watermark`: waits for open transactions before the high watermark instead of stopping at the last
/// stable offset (t03): what a run does behind its own fence. Bounded by the longest such transaction. Blocks.
pub(super) fn read(
    client: &Client,
    marks_topic: &str,
    topic_id: &str,
    of_run: Option<&str>,
    to_high_watermark: bool,
) -> Result<Marks> {
    let mut marks = Marks::default();
    read_on(client, marks_topic, topic_id, of_run, to_high_watermark, &mut marks)?;
    Ok(marks)
}

/// Reads on from where these marks end. Blocks.
pub(super) fn read_on(
    client: &Client,
    marks_topic: &str,
    topic_id: &str,
    of_run: Option<&str>,
    to_high_watermark: bool,
    marks: &mut Marks,
) -> Result<()> {
    use rdkafka::consumer::Consumer;
    let action = format!("read {marks_topic}");
    let metadata = client
        .asking
        .fetch_metadata(Some(marks_topic), PATIENCE)
        .map_err(|error| client.error(&action, &error))?;
    if metadata.topics().first().is_none_or(|topic| topic.error().is_some() || topic.partitions().is_empty())
    {
        return Ok(());
    }
    // The reader sees committed records only, and these in their order; the end is where it has to come.
    let (low, end) = match to_high_watermark {
        true => {
            let probe = super::browse::reader(client, "read_uncommitted", 512)?;
            probe.fetch_watermarks(marks_topic, 0, PATIENCE)
        }
        false => client.asking.fetch_watermarks(marks_topic, 0, PATIENCE),
    }
    .map_err(|error| client.error(&action, &error))?;
    let low = low.max(marks.end);
    let mut reading =
        Reading::begin(client, marks_topic, &[Extent { partition: 0, low, end }], "read_committed")?;
    let until = Instant::now() + TRANSACTION * 2;
    loop {
        if reading.at_end() {
            // Before the high watermark the end of what is stable is not the end: somebody's transaction is open.
            if !to_high_watermark || reading.position(0) >= end || low >= end {
                marks.end = marks.end.max(end);
                return Ok(());
            }
            if Instant::now() > until {
                return Err(BrokerError::new(
                    ErrorKind::Unreachable,
                    action,
                    "a transaction of another run in the marks topic stays open",
                ));
            }
            reading.reopen(0, end);
        }
        match reading.step(Duration::from_millis(100))? {
            Step::End => {}
            Step::Nothing => {
                if Instant::now() > until + Duration::from_secs(60) {
                    return Err(client.silence(&action));
                }
            }
            Step::Record(record) => {
                if let Some(key) = record.key().and_then(|key| std::str::from_utf8(key).ok()) {
                    take(marks, topic_id, of_run, key, record.payload(), marks_topic)?;
                }
            }
        }
    }
}

fn take(
    marks: &mut Marks,
    topic_id: &str,
    of_run: Option<&str>,
    key: &str,
    value: Option<&[u8]>,
    topic: &str,
) -> Result<()> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let mut parts = key.split('/');
    let (kind, id) = (parts.next(), parts.next());
    if id != Some(topic_id) {
        return Ok(());
    }
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let (partition, offset) = (number(parts.next()), number(parts.next()));
    let partition = partition.and_then(|partition| i32::try_from(partition).ok());
    let place = partition.zip(offset).map(|(partition, offset)| Place { partition, offset });
    let Some(value) = value else {
        if let (Some("mark"), Some(place)) = (kind, place) {
            marks.moved.remove(place);
        }
        return Ok(());
    };
    match serde_json::from_slice::<Version>(value) {
        Ok(Version { v }) if v > VERSION => {
            return Err(BrokerError::new(
                ErrorKind::Version,
                format!("read {topic}"),
                format!("a mark has version {v}, this build knows {VERSION}"),
            )
            .hint("use the version of redrive that wrote it, or a newer one"));
        }
        Ok(_) => {}
        // Not ours: anybody may write into a topic.
        Err(_) => return Ok(()),
    }
    let ours = || {
        of_run.is_some()
            && serde_json::from_slice::<Mark>(value).is_ok_and(|mark| Some(mark.run.as_str()) == of_run)
    };
    match (kind, place) {
        (Some("mark"), Some(place)) => {
            marks.moved.add(place);
            if ours() {
                marks.mine.add(place);
            }
        }
        (Some("sent"), Some(place)) if ours() => marks.mine.add(place),
        (Some("lock"), None) => marks.lock = serde_json::from_slice(value).ok(),
        (Some("began"), None) => {
            let began = serde_json::from_slice::<Began>(value).ok();
            marks.began = began.filter(|began| Some(began.run.as_str()) == of_run).or(marks.began.take());
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_bits_and_survive_their_form() {
        let mut marks = Marks::default();
        let place = Place { partition: 3, offset: 4_097 };
        assert!(!marks.has(place));
        let topic: Arc<str> = "m".into();
        let record = Marker::new(&topic, "id", "r1", Time::from_millis(5)).mark(place, 7);
        let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
        take(&mut marks, "id", Some("r1"), &key, record.value.as_deref(), "m").unwrap();
        assert!(marks.has(place) && marks.by_run(place));
        let before = Place { partition: 3, offset: 4_096 };
        assert!(!marks.has(before));
        let extent = |low, end| [Extent { partition: 3, low, end }];
        assert_eq!(marks.within(&extent(0, 4_098)), 1);
        assert_eq!(marks.within(&extent(0, 4_097)), 0);
        assert_eq!(marks.outlived(&extent(4_097, 5_000), 9), []);
        assert_eq!(marks.outlived(&extent(4_098, 5_000), 9), [place]);
        // A copy without a mark proves itself to its own run only, and hides nothing.
        let record = Marker::new(&topic, "id", "r1", Time::from_millis(5)).sent(before, 8);
        let (copied, value) = (String::from_utf8(record.key.unwrap().to_vec()).unwrap(), record.value);
        take(&mut marks, "id", Some("r2"), &copied, value.as_deref(), "m").unwrap();
        assert!(!marks.by_run(before));
        take(&mut marks, "id", Some("r1"), &copied, value.as_deref(), "m").unwrap();
        assert!(marks.by_run(before) && !marks.has(before));
        let record = Marker::new(&topic, "id", "r1", Time::from_millis(5)).mark(place, 7);
        take(&mut marks, "other", Some("r1"), &key, record.value.as_deref(), "m").unwrap();
        take(&mut marks, "id", None, "mark/id/x/y", Some(b"{\"v\":1}"), "m").unwrap();
        take(&mut marks, "id", None, "mark/id/1/2", Some(b"nonsense"), "m").unwrap();
        assert_eq!(marks.within(&extent(0, 9_000)), 1);
        assert!(take(&mut marks, "id", None, "mark/id/1/2", Some(b"{\"v\":2}"), "m").is_err());
        take(&mut marks, "id", None, &key, None, "m").unwrap();
        assert!(!marks.has(place), "a tombstone takes it back");
    }

    #[test]
    fn a_lock_lives_by_its_heartbeat() {
        let lock = Lock::new("r1", "o", "mira@ops-2", 1, Time::from_millis(1_000), Duration::from_secs(60));
        assert!(lock.alive(Time::from_millis(60_999)));
        assert!(!lock.alive(Time::from_millis(61_000)));
        assert!(!Lock { free: true, ..lock }.alive(Time::from_millis(1_001)));
    }
}
