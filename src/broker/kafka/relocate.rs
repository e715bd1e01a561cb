//! Moving letters on Kafka: copies and marks in one transaction (protocol §4, path T). Nothing of a batch is in
//! doubt: after an unknown commit only the marks tell, and they are read behind a fence.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rdkafka::Message as _;
use rdkafka::error::RDKafkaErrorCode;

use super::browse::{self, Extent, Reading, Step, Topic};
use super::client::{Client, PATIENCE};
use super::marks::{self, Lock, Marks};
use super::producer::{Lane, Record, Report};
use crate::broker::{
    Ask, BrokerError, Claimed, Claims, ErrorKind, Fate, Intent, Missing, Mover, Outgoing, Proof, Published,
    Receipt, Result, Settled, Task, Want,
};
use crate::letter::{Message, Place, Value};
use crate::stamp;

/// How long a lock counts without a heartbeat.
const LEASE: Duration = Duration::from_secs(60);
/// A gap of at most this many records between two wanted letters is read over; a longer one is jumped.
const READ_OVER: i64 = 2_000;
/// How long the target's answer to a claim may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes that a record takes beside key, value and headers (kafka-real §6: 82 with a 10 B key), with room.
const OVERHEAD: u64 = 200;

/// Facts of the topic that copies go to.
#[derive(Debug, Clone)]
struct Target {
    name: String,
    partitions: i32,
    max_bytes: u64,
    compacted: bool,
}

/// What blocks and therefore goes from thread to thread.
struct Inner {
    client: Client,
    source: Topic,
    target: Target,
    marks_topic: String,
    task: Task,
    lane: Lane,
    marks: Marks,
    lock: Lock,
    /// One reader a partition, where its next record comes from.
    readers: BTreeMap<i32, (Reading, i64)>,
    ends: BTreeMap<i32, Extent>,
    /// From where letters of this run that died again are looked for.
    seen: Vec<Extent>,
    refailed: u64,
}

/// The session of one run.
pub(super) struct Session {
    inner: Option<Box<Inner>>,
}

impl Session {
    pub(super) async fn begin(
        client: &Client,
        dead_letters: &str,
        marks_topic: &str,
        task: &Task,
    ) -> Result<Self> {
        let source = Topic::read(client, dead_letters).await?;
        let action = format!("move letters of {dead_letters}");
        if task.snapshot.split('/').next() != Some(source.id.as_str()) {
            return Err(BrokerError::new(
                ErrorKind::NotFound,
                action,
                "the topic was deleted and made anew since the letters were selected: these are other letters",
            )
            .hint("select again"));
        }
        let target = target(client, &task.target).await?;
        let extents = source.extents(client).await?;
        let (client, marks_topic, task) = (client.clone(), marks_topic.to_owned(), task.clone());
        let opened =
            tokio::task::spawn_blocking(move || open(client, source, target, marks_topic, task, extents));
        let inner =
            opened.await.map_err(|error| BrokerError::new(ErrorKind::Other, action, error.to_string()))??;
        Ok(Self { inner: Some(Box::new(inner)) })
    }

    /// Runs a blocking step on a thread for such.
    async fn step<T: Send + 'static>(
        &mut self,
        step: impl FnOnce(&mut Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let lost = || BrokerError::new(ErrorKind::Other, "move letters", "an earlier step did not end");
        let mut inner = self.inner.take().ok_or_else(lost)?;
        let done = tokio::task::spawn_blocking(move || {
            let result = step(&mut inner);
            (inner, result)
        });
        let (inner, result) = done
            .await
            .map_err(|error| BrokerError::new(ErrorKind::Other, "move letters", error.to_string()))?;
        self.inner = Some(inner);
        result
    }
}

async fn target(client: &Client, name: &str) -> Result<Target> {
    let topic = Topic::read(client, name).await?;
    let asked = name.to_owned();
    let settings = client
        .admin(&format!("read the settings of {name}"), move |handle| {
            handle.describe_configs(&asked, PATIENCE)
        })
        .await?;
    let value =
        |key: &str| settings.iter().find(|entry| entry.name == key).and_then(|entry| entry.value.clone());
    Ok(Target {
        name: name.to_owned(),
        partitions: topic.partitions,
        max_bytes: value("max.message.bytes").and_then(|text| text.parse().ok()).unwrap_or(1_048_588),
        compacted: value("cleanup.policy").is_some_and(|text| text.contains("compact")),
    })
}

/// The transactional id of a lane: of the dead-letter topic, not of the process (t06).
fn lane_id(topic_id: &str, lane: u32) -> String {
    format!("redrive.{topic_id}.{lane}")
}

/// Lock, fence, then read the marks to the high watermark (protocol §4.1). Blocks.
fn open(
    client: Client,
    source: Topic,
    target: Target,
    marks_topic: String,
    task: Task,
    extents: Vec<Extent>,
) -> Result<Inner> {
    let action = format!("lock {}", source.name);
    let before = marks::read(&client, &marks_topic, &source.id, None, false)?;
    let now = client.clock.now();
    if let Some(lock) = &before.lock
        && lock.alive(now)
        && lock.owner != task.owner
        && !task.take_over
    {
        let seen = crate::clock::rough(now.since(lock.at));
        let message =
            format!("{} is held by run {} of {}, last seen {seen} ago", source.name, lock.run, lock.who);
        return Err(BrokerError::new(ErrorKind::Locked, action, message));
    }
    let lanes = before.lock.as_ref().map_or(1, |lock| lock.lanes.max(1));
    let max_bytes = target.max_bytes.max(1_048_588) + OVERHEAD;
    let lane = Lane::open(&client, &lane_id(&source.id, 0), max_bytes)?;
    // t12: a lane that a predecessor had and that nobody inits would go on committing.
    for other in 1..lanes {
        drop(Lane::open(&client, &lane_id(&source.id, other), max_bytes)?);
    }
    let lock = Lock::new(&task.run, &task.owner, &task.who, lanes, now, LEASE);
    lane.begin()?;
    write_all(&client, &lane, &[marks::lock(&marks_topic, &source.id, &lock)])?;
    lane.commit()?;
    let marks = marks::read(&client, &marks_topic, &source.id, Some(&task.run), true)?;
    let ends = extents.iter().map(|extent| (extent.partition, *extent)).collect();
    let seen = extents.iter().map(|extent| Extent { low: extent.end, ..*extent }).collect();
    Ok(Inner {
        client,
        source,
        target,
        marks_topic,
        task,
        lane,
        marks,
        lock,
        readers: BTreeMap::new(),
        ends,
        seen,
        refailed: 0,
    })
}

/// Produces records that must not be refused.
fn write_all(client: &Client, lane: &Lane, records: &[Record]) -> Result<()> {
    for (report, record) in lane.produce(records)?.into_iter().zip(records) {
        if let Err(code) = report {
            lane.abort();
            let error = rdkafka::error::KafkaError::MessageProduction(code);
            return Err(client.error(&format!("write to {}", record.topic), &error));
        }
    }
    Ok(())
}

impl Inner {
    /// Reads the wanted letters; on Kafka a claim is nothing but that.
    fn claim(&mut self, next: &[(u64, crate::letter::Position)], limit: usize) -> Result<Claims> {
        let mut claims = Claims::default();
        let mut by_partition: BTreeMap<i32, Vec<(i64, u64)>> = BTreeMap::new();
        for (seq, position) in next.iter().take(limit) {
            match browse::place_of(position) {
                Some((id, place)) if id == self.source.id && !self.marks.has(place) => {
                    by_partition.entry(place.partition).or_default().push((place.offset, *seq));
                }
                // Marked: moved before, by whatever run. Another topic's: not here.
                Some((id, _)) if id == self.source.id => claims.missing.push((*seq, Missing::Gone)),
                _ => claims.missing.push((*seq, Missing::NotSeen)),
            }
        }
        for (partition, mut wanted) in by_partition {
            wanted.sort_unstable();
            self.read(partition, &wanted, &mut claims)?;
        }
        claims.got.sort_by_key(|claimed| claimed.seq);
        Ok(claims)
    }

    /// Reads wanted offsets of one partition, in ascending order.
    fn read(&mut self, partition: i32, wanted: &[(i64, u64)], claims: &mut Claims) -> Result<()> {
        let mut left = wanted.iter().copied().peekable();
        while let Some(&(offset, seq)) = left.peek() {
            let Some(extent) = self.ends.get(&partition).copied() else {
                claims.missing.push((seq, Missing::NotSeen));
                left.next();
                continue;
            };
            if offset >= extent.end {
                claims.missing.push((seq, Missing::NotSeen));
                left.next();
                continue;
            }
            let near =
                self.readers.get(&partition).is_some_and(|(_, at)| offset >= *at && offset - at <= READ_OVER);
            if !near {
                let from = Extent { low: offset, ..extent };
                match Reading::begin(&self.client, &self.source.name, &[from], "read_committed") {
                    Ok(reading) => self.readers.insert(partition, (reading, offset)),
                    Err(error) => return Err(error),
                };
            }
            let Some((reading, at)) = self.readers.get_mut(&partition) else { continue };
            let silent = Instant::now();
            let found = loop {
                match reading.step(Duration::from_millis(50)) {
                    Ok(Step::Record(record)) => {
                        let here = record.offset();
                        *at = here + 1;
                        if here < offset {
                            continue;
                        }
                        let want = Want { bodies: true, moved: true };
                        break Some((here, browse::letter(&self.source, &record, want)));
                    }
                    Ok(Step::End) => break None,
                    Ok(Step::Nothing) if silent.elapsed() > SILENCE => {
                        return Err(BrokerError::new(
                            ErrorKind::Unreachable,
                            format!("read {}", self.source.name),
                            "nothing comes, and records are missing",
                        ));
                    }
                    Ok(Step::Nothing) => {}
                    // Retention took the offset: the letter is gone, and others may be too.
                    Err(error) if error.kind == ErrorKind::Other => break None,
                    Err(error) => return Err(error),
                }
            };
            match found {
                Some((here, letter)) => {
                    while let Some(&(offset, seq)) = left.peek().filter(|(offset, _)| *offset <= here) {
                        if offset == here {
                            let receipt = Receipt(letter.position.as_str().to_owned());
                            claims.got.push(Claimed { seq, receipt, letter: letter.clone() });
                        } else {
                            claims.missing.push((seq, Missing::Gone));
                        }
                        left.next();
                    }
                }
                None => {
                    // The end of the partition, or its beginning moved past: ask where it begins now.
                    self.readers.remove(&partition);
                    let low = self.low(partition)?;
                    let gone = offset < low || offset >= extent.low;
                    claims.missing.push((seq, if gone { Missing::Gone } else { Missing::NotSeen }));
                    left.next();
                }
            }
        }
        Ok(())
    }

    fn low(&self, partition: i32) -> Result<i64> {
        use rdkafka::consumer::Consumer;
        let marks = self.client.asking.fetch_watermarks(&self.source.name, partition, PATIENCE);
        marks
            .map(|(low, _)| low)
            .map_err(|error| self.client.error(&format!("read the offsets of {}", self.source.name), &error))
    }

    /// The record that a copy becomes, or why the target would refuse it, which would fail its whole batch.
    fn record(&self, outgoing: &Outgoing, place: Place) -> std::result::Result<Record, BrokerError> {
        let message = &outgoing.message;
        let refuse = |code: &str, why: String| {
            Err(BrokerError::new(ErrorKind::Rejected, format!("send to {}", self.target.name), why)
                .code(code))
        };
        let size = size(message);
        if size + OVERHEAD > self.target.max_bytes {
            let why =
                format!("the record takes about {} B, the topic {}", size + OVERHEAD, self.target.max_bytes);
            return refuse("MESSAGE_TOO_LARGE", why);
        }
        if self.target.compacted && message.key.is_none() {
            return refuse("INVALID_RECORD", "it has no key, and the topic is compacted".to_owned());
        }
        let strange = message
            .headers
            .iter()
            .find(|header| !matches!(header.value, Value::Null | Value::Bytes(_) | Value::Text(_)));
        if let Some(header) = strange {
            return refuse(
                "INVALID_RECORD",
                format!("header {} is a {}, Kafka has bytes only", header.name, header.value.type_name()),
            );
        }
        if let Some(header) = message.headers.iter().find(|header| header.name.contains('\u{FFFD}')) {
            return refuse(
                "INVALID_RECORD",
                format!("the name of header {} is no UTF-8 and would change", header.name),
            );
        }
        // By key as Java does it; without a key the partition it lay in, which keeps the order among such.
        let partition = match message.key {
            Some(_) => None,
            None => (place.partition < self.target.partitions).then_some(place.partition),
        };
        Ok(Record {
            topic: self.target.name.clone(),
            partition,
            key: message.key.as_ref().map(|key| key.to_vec()),
            value: message.body.as_ref().map(|body| body.to_vec()),
            headers: message.headers.clone(),
            // K16: never the old time, which retention would act on; it stands in a header.
            timestamp: None,
        })
    }

    /// One transaction; a refused record is left out with what stands behind it, and the rest tried again.
    fn transfer(&mut self, batch: &[Outgoing]) -> Result<Vec<Fate>> {
        let mut fates: Vec<Option<Fate>> = batch.iter().map(|_| None).collect();
        let mut stopped: HashSet<String> = HashSet::new();
        let mut places = Vec::with_capacity(batch.len());
        for (index, outgoing) in batch.iter().enumerate() {
            let place = browse::place_of(&outgoing.position).map(|(_, place)| place);
            places.push(place.unwrap_or(Place { partition: 0, offset: -1 }));
            let lost = place.is_none_or(|place| self.marks.has(place));
            let record = if lost { None } else { Some(self.record(outgoing, places[index])) };
            match record {
                None => fates[index] = Some(Fate::Lost),
                Some(Err(error)) => fates[index] = Some(Fate::Refused(error)),
                Some(Ok(_)) => continue,
            }
            stopped.extend(outgoing.group.clone());
            self.withdraw(batch, &mut fates, index, &mut stopped);
        }
        // Each round leaves at least one record out, so this ends.
        loop {
            let open: Vec<usize> = (0..batch.len()).filter(|index| fates[*index].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let now = self.client.clock.now();
            let mut records = Vec::with_capacity(open.len() * 2);
            for index in &open {
                records.push(self.record(&batch[*index], places[*index])?);
            }
            for index in &open {
                let (outgoing, place) = (&batch[*index], places[*index]);
                records.push(marks::mark(
                    &self.marks_topic,
                    &self.source.id,
                    place,
                    &self.task.run,
                    outgoing.seq,
                    now,
                ));
            }
            self.lane.begin()?;
            let reports = match self.lane.produce(&records) {
                Ok(reports) => reports,
                Err(error) => {
                    self.lane.abort();
                    return Err(self.fenced_or(error));
                }
            };
            let (copies, notes) = reports.split_at(open.len());
            if let Some(Err(code)) = notes.iter().find(|report| report.is_err()) {
                self.lane.abort();
                let error = rdkafka::error::KafkaError::MessageProduction(*code);
                return Err(self.client.error(&format!("write to {}", self.marks_topic), &error));
            }
            let refused: Vec<(usize, RDKafkaErrorCode)> = open
                .iter()
                .zip(copies)
                .filter_map(|(index, report)| report.as_ref().err().map(|code| (*index, *code)))
                .collect();
            if refused.is_empty() {
                self.lane.commit()?;
                for (index, report) in open.iter().zip(copies) {
                    self.marks.add(places[*index]);
                    fates[*index] = Some(Fate::Moved(Published { at: at(report) }));
                }
                break;
            }
            self.lane.abort();
            // The next transaction on this producer would fail for its sequence numbers (kafka-real §5).
            self.lane = self.lane.renewed()?;
            self.refuse(batch, &mut fates, &refused, &mut stopped)?;
        }
        Ok(fates.into_iter().map(|fate| fate.unwrap_or(Fate::Lost)).collect())
    }

    /// Records that the broker refused: which of them for good. A broker refuses a whole batch for one of its
    /// records, so that a refusal is believed only of a record that went alone.
    fn refuse(
        &mut self,
        batch: &[Outgoing],
        fates: &mut [Option<Fate>],
        refused: &[(usize, RDKafkaErrorCode)],
        stopped: &mut HashSet<String>,
    ) -> Result<()> {
        for (index, _) in refused {
            if fates[*index].is_some() {
                continue;
            }
            let outgoing = &batch[*index];
            let place = browse::place_of(&outgoing.position)
                .map_or(Place { partition: 0, offset: -1 }, |(_, place)| place);
            let record = self.record(outgoing, place)?;
            self.lane.begin()?;
            let reports = self.lane.produce(&[record])?;
            self.lane.abort();
            if let Some(Err(code)) = reports.first() {
                let error = self.client.error(
                    &format!("send to {}", self.target.name),
                    &rdkafka::error::KafkaError::MessageProduction(*code),
                );
                if error.kind != ErrorKind::Rejected {
                    return Err(error);
                }
                self.lane = self.lane.renewed()?;
                fates[*index] = Some(Fate::Refused(error));
                stopped.extend(outgoing.group.clone());
                self.withdraw(batch, fates, *index, stopped);
            }
        }
        Ok(())
    }

    /// Whatever stands behind a letter of its group is not sent in this batch (t08).
    fn withdraw(
        &self,
        batch: &[Outgoing],
        fates: &mut [Option<Fate>],
        from: usize,
        stopped: &mut HashSet<String>,
    ) {
        for index in from + 1..batch.len() {
            let behind = batch[index].group.as_ref().is_some_and(|group| stopped.contains(group));
            if behind && fates[index].is_none() {
                fates[index] = Some(Fate::Withdrawn);
            }
        }
    }

    fn fenced_or(&self, error: BrokerError) -> BrokerError {
        if error.kind == ErrorKind::Fenced {
            return BrokerError {
                message: "another run took over this dead-letter queue".to_owned(),
                ..error
            };
        }
        error
    }

    fn heartbeat(&mut self, free: bool) -> Result<()> {
        self.lock.at = self.client.clock.now();
        self.lock.free = free;
        self.lane.begin().map_err(|error| self.fenced_or(error))?;
        write_all(&self.client, &self.lane, &[marks::lock(&self.marks_topic, &self.source.id, &self.lock)])
            .map_err(|error| self.fenced_or(error))?;
        self.lane.commit().map_err(|error| self.fenced_or(error))
    }

    /// Counts letters of this run that came to the dead-letter topic since it began.
    fn count_refailed(&mut self, ends: &[Extent]) -> Result<u64> {
        let news: Vec<Extent> = self
            .seen
            .iter()
            .filter_map(|seen| {
                let now = ends.iter().find(|now| now.partition == seen.partition)?;
                Some(Extent { end: now.end, ..*seen })
            })
            .collect();
        let mut reading = Reading::begin(&self.client, &self.source.name, &news, "read_committed")?;
        let mine = format!("{}/", self.task.run);
        let silent = Instant::now();
        while !reading.at_end() && silent.elapsed() < Duration::from_secs(10) {
            if let Step::Record(record) = reading.step(Duration::from_millis(50))? {
                let letter = browse::letter(&self.source, &record, Want::default());
                if letter.message.headers.last_text(stamp::RUN).is_some_and(|text| text.starts_with(&mine)) {
                    self.refailed += 1;
                }
            }
        }
        self.seen = news.into_iter().map(|extent| Extent { low: extent.end, ..extent }).collect();
        Ok(self.refailed)
    }
}

/// Bytes of a record's own parts.
fn size(message: &Message) -> u64 {
    let key = message.key.as_ref().map_or(0, bytes::Bytes::len) as u64;
    let body = message.body.as_ref().map_or(0, bytes::Bytes::len) as u64;
    let headers: u64 =
        message.headers.iter().map(|header| header.name.len() as u64 + header.value.size() + 4).sum();
    key + body + headers
}

fn at(report: &Report) -> Option<String> {
    report.as_ref().ok().map(|(partition, offset)| format!("p{partition}o{offset}"))
}

#[async_trait]
impl Mover for Session {
    async fn claim(&mut self, ask: &Ask<'_>) -> Result<Claims> {
        let next: Vec<_> = ask.next.iter().map(|wanted| (wanted.seq, wanted.position.clone())).collect();
        let limit = ask.limit;
        self.step(move |inner| inner.claim(&next, limit)).await
    }

    async fn transfer(&mut self, batch: &[Outgoing]) -> Result<Vec<Fate>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch: Arc<[Outgoing]> = batch.into();
        self.step(move |inner| inner.transfer(&batch)).await
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        let batch: Arc<[Outgoing]> = batch.into();
        let count = batch.len();
        let sent = self.step(move |inner| inner.publish(&batch)).await;
        match sent {
            Ok(answers) => answers,
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        }
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        let receipts: Vec<Receipt> = batch.to_vec();
        let count = receipts.len();
        match self.step(move |inner| inner.settle(&receipts)).await {
            Ok(()) => (0..count).map(|_| Settled::Settled).collect(),
            Err(error) => (0..count).map(|_| Settled::Failed(error.clone())).collect(),
        }
    }

    async fn release(&mut self, _batch: &[Receipt]) -> Result<()> {
        // Reading took nothing out.
        Ok(())
    }

    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        let asked: Vec<(u64, Option<Place>)> = intents
            .iter()
            .map(|intent| (intent.seq, browse::place_of(&intent.position).map(|(_, place)| place)))
            .collect();
        self.step(move |inner| {
            // Behind the fence of init_transactions nothing of a predecessor can arrive any more.
            Ok(asked
                .into_iter()
                .map(|(seq, place)| match place {
                    Some(_) if inner.marks.by_run(seq) => Proof::Arrived(Published::default()),
                    _ => Proof::Absent,
                })
                .collect())
        })
        .await
    }

    async fn renew(&mut self, _held: &[Receipt]) -> Result<()> {
        self.step(|inner| inner.heartbeat(false)).await
    }

    async fn refailed(&mut self) -> Result<Option<u64>> {
        let Some(inner) = &self.inner else { return Ok(None) };
        let (client, source) = (inner.client.clone(), inner.source.clone());
        let ends = source.extents(&client).await?;
        self.step(move |inner| inner.count_refailed(&ends)).await.map(Some)
    }

    async fn end(mut self: Box<Self>) -> Result<()> {
        self.step(|inner| inner.heartbeat(true)).await
    }
}

impl Inner {
    /// Copies without marks, in a transaction of their own: the path for a broker wrapper that forbids transfers.
    fn publish(&mut self, batch: &[Outgoing]) -> Result<Vec<Result<Published>>> {
        let mut answers = Vec::with_capacity(batch.len());
        for outgoing in batch {
            let place = browse::place_of(&outgoing.position)
                .map_or(Place { partition: 0, offset: -1 }, |(_, place)| place);
            let record = match self.record(outgoing, place) {
                Ok(record) => record,
                Err(error) => {
                    answers.push(Err(error));
                    continue;
                }
            };
            self.lane.begin()?;
            match self.lane.produce(&[record])?.pop() {
                Some(Ok((partition, offset))) => {
                    self.lane.commit()?;
                    answers.push(Ok(Published { at: Some(format!("p{partition}o{offset}")) }));
                }
                Some(Err(code)) => {
                    self.lane.abort();
                    self.lane = self.lane.renewed()?;
                    let error = rdkafka::error::KafkaError::MessageProduction(code);
                    answers.push(Err(self.client.error(&format!("send to {}", self.target.name), &error)));
                }
                None => {
                    let error = BrokerError::new(ErrorKind::Unknown, "produce", "no report");
                    answers.push(Err(error));
                }
            }
        }
        Ok(answers)
    }

    /// Marks letters as moved.
    fn settle(&mut self, receipts: &[Receipt]) -> Result<()> {
        let now = self.client.clock.now();
        let places: Vec<Place> = receipts
            .iter()
            .filter_map(|receipt| {
                browse::place_of(&crate::letter::Position::new(receipt.0.clone())).map(|(_, place)| place)
            })
            .collect();
        let records: Vec<Record> = places
            .iter()
            .map(|place| marks::mark(&self.marks_topic, &self.source.id, *place, &self.task.run, 0, now))
            .collect();
        self.lane.begin()?;
        write_all(&self.client, &self.lane, &records)?;
        self.lane.commit()?;
        for place in places {
            self.marks.add(place);
        }
        Ok(())
    }
}
