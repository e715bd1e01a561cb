//! Moving letters on Kafka: copies and marks in one transaction (protocol §4, path T). Nothing of a batch is in
//! doubt: after an unknown commit only the marks tell, and they are read behind a fence. A user who may not use
//! transactions publishes, then marks (`plain`).

mod claim;
mod look;
mod open;
mod plain;
mod transfer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::browse::{self, Extent, Reading, Step, Topic};
use super::client::{Client, PATIENCE};
use super::marks::{self, Lock, Marks};
use super::pointer::Pointers;
use super::producer::{Lane, Record, Report, Sent};
use crate::broker::{
    Ask, BrokerError, Claims, ErrorKind, Fate, Intent, Looker, Mover, Names, Outgoing, Proof, Published,
    Receipt, Result, Settled, Task, Want,
};
use crate::letter::{Place, Position};
use crate::stamp;
use open::{Begin, Target};

/// Marks of letters that are gone are taken back at a run's end, at most this many.
const TOMBSTONES: usize = 5_000;

/// What blocks and therefore goes from thread to thread.
struct Inner {
    client: Client,
    source: Topic,
    target: Target,
    marks_topic: Arc<str>,
    task: Task,
    lane: Lane,
    /// Of a channel with several lanes, the others.
    more_lanes: Vec<Lane>,
    marks: Marks,
    lock: Lock,
    letters: claim::Letters,
    names: Names,
    /// Copies keep their messages' first times (`--keep-timestamp`).
    keeps_times: bool,
    /// Claimed and neither moved nor released.
    held: BTreeMap<Place, Held>,
    claims: u64,
    /// The last transaction did not end as it should: fence and read the marks before the next.
    broken: bool,
    /// Somebody took over, who has perhaps not written the lock yet: a fence of ours would hit them.
    lost: bool,
    /// From where letters of this run that died again are looked for.
    seen: Vec<Extent>,
    refailed: u64,
    /// What only a run without transactions needs.
    watch: plain::Watch,
}

/// A letter in our hands.
#[derive(Debug, Clone, Copy)]
struct Held {
    claim: u64,
    seq: u64,
}

/// How long a successor takes from its fence to its lock, with room.
const SUCCESSOR: Duration = Duration::from_secs(1);

/// The claim of letters that were only looked at: good as long as no mark hides the letter.
const LOOKED: u64 = 0;

fn receipt(position: &Position, claim: u64) -> Receipt {
    Receipt(format!("{claim}/{}", position.as_str()))
}

fn place_of_receipt(receipt: &Receipt, topic_id: &str) -> Option<(u64, Place)> {
    let (claim, position) = receipt.0.split_once('/')?;
    let (id, place) = browse::place_in(position)?;
    (id == topic_id).then_some((claim.parse().ok()?, place))
}

/// What a channel says of its runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Transactions side by side.
    pub(super) lanes: u32,
    /// Copies go to the partition that their message first lay in, where it is known.
    pub(super) by_origin: bool,
}

/// The session of one run.
pub(super) struct Session {
    inner: Option<Box<Inner>>,
    plain: bool,
}

impl Session {
    pub(super) async fn begin(
        client: &Client,
        names: &Names,
        marks_topic: &str,
        task: &Task,
        how: How,
    ) -> Result<Self> {
        let dead_letters = names.dead_letter.as_str();
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
        let (target, goes_to) = open::target(client, names, &task.target, &source, how.by_origin).await?;
        let begin = Begin {
            extents: source.extents(client).await?,
            ends: goes_to.extents(client).await?,
            pointers: Pointers::new(client, names),
            names: names.clone(),
            client: client.clone(),
            marks_topic: Arc::from(marks_topic),
            task: task.clone(),
            source,
            target,
            lanes: how.lanes,
        };
        let opened = tokio::task::spawn_blocking(move || open::open(begin));
        let inner =
            opened.await.map_err(|error| BrokerError::new(ErrorKind::Other, action, error.to_string()))??;
        Ok(Self { plain: inner.lane.is_plain(), inner: Some(Box::new(inner)) })
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

/// A transaction of records that must not be refused; on a plain lane each of them by itself.
fn write_all(client: &Client, lane: &Lane, records: &[Record]) -> Result<()> {
    let all: Vec<_> = records.iter().map(Record::sent).collect();
    for (report, record) in lane.write(&all)?.into_iter().zip(records) {
        if let Err(why) = report {
            lane.abort();
            let error = rdkafka::error::KafkaError::MessageProduction(why.code);
            return Err(client.error(&format!("write to {}", record.topic), &error));
        }
    }
    lane.commit()
}

impl Inner {
    /// Writes in a transaction that stays open; what fails is aborted, and the next one is fenced first.
    fn write(&mut self, records: &[Sent<'_>]) -> Result<Vec<Report>> {
        let written = self.lane.write(records);
        written.map_err(|error| self.went_wrong(fenced(&self.lane, error)))
    }

    fn write_all(&mut self, records: &[Record]) -> Result<()> {
        let written = write_all(&self.client, &self.lane, records);
        self.watch.wrote(records.len());
        written.map_err(|error| self.went_wrong(fenced(&self.lane, error)))
    }

    /// A transaction did not end as it should.
    fn went_wrong(&mut self, error: BrokerError) -> BrokerError {
        self.broken = true;
        self.lost |= error.kind == ErrorKind::Fenced;
        error
    }

    /// After a transaction that did not end as it should.
    fn mend(&mut self) -> Result<()> {
        match (self.lost, self.broken) {
            (true, _) => Err(self.is_taken_over()),
            (false, true) => self.fence(),
            (false, false) => Ok(()),
        }
    }

    fn is_taken_over(&self) -> BrokerError {
        let action = format!("move letters of {}", self.source.name);
        taken_over(BrokerError::new(ErrorKind::Fenced, action, String::new()))
    }

    /// New producers under the same ids, behind which nothing sent before can be committed, and the marks as they
    /// then are (protocol §4.1). Not if somebody took over: that would fence the successor.
    fn fence(&mut self) -> Result<()> {
        self.broken = true;
        // Fenced, and taken for too old: a successor may be about to write its lock, in a transaction that is open yet.
        // Otherwise the open transaction is perhaps our own, which must not wait for itself (t13).
        let aged = self.lane.is_over();
        if aged {
            std::thread::sleep(SUCCESSOR);
        }
        self.read_marks(aged)?;
        self.lane = self.lane.renewed()?;
        for lane in &mut self.more_lanes {
            *lane = lane.renewed()?;
        }
        self.read_marks(true)?;
        self.broken = false;
        Ok(())
    }

    /// What was marked since the marks were read last; an error if somebody took over.
    fn read_marks(&mut self, to_high_watermark: bool) -> Result<()> {
        let (topic, id, run) = (&self.marks_topic, &self.source.id, Some(self.task.run.as_str()));
        marks::read_on(&self.client, topic, id, run, to_high_watermark, &mut self.marks)?;
        self.watch.read();
        self.mine()
    }

    fn mine(&self) -> Result<()> {
        match &self.marks.lock {
            Some(lock) if lock.owner != self.task.owner => Err(self.is_taken_over()),
            _ => Ok(()),
        }
    }

    fn heartbeat(&mut self, free: bool) -> Result<()> {
        self.mend()?;
        self.look_at_lock(Duration::ZERO)?;
        let now = self.client.clock.now();
        // Silent for so long that a successor without transactions, who fences nobody, may have it by now.
        if now >= self.lock.until() {
            self.read_marks(false)?;
        }
        self.lock.at = now;
        self.lock.free = free;
        let mut records = vec![marks::lock(&self.marks_topic, &self.source.id, &self.lock)];
        if free {
            records.extend(self.outlived());
        }
        self.write_all(&records)
    }

    /// Marks whose letters retention took since the run began: nobody asks for them any more.
    fn outlived(&self) -> Vec<Record> {
        let gone = self.marks.outlived(&self.letters.ends(), TOMBSTONES);
        gone.into_iter()
            .flat_map(|place| marks::tombstones(&self.marks_topic, &self.source.id, place))
            .collect()
    }

    /// Of each partition what lies before its lowest open letter: moved letters, markers, aborted records.
    fn lowest_open(&mut self, extents: &[Extent]) -> Result<Vec<Extent>> {
        self.mend()?;
        let mut reading = Reading::begin(&self.client, &self.source.name, extents, "read_committed")?;
        let mut free: BTreeMap<i32, Extent> =
            extents.iter().filter(|one| one.low < one.end).map(|one| (one.partition, *one)).collect();
        let mut heard = Instant::now();
        while !reading.at_end() {
            let found = match reading.step(Duration::from_millis(50))? {
                Step::End => break,
                Step::Nothing if heard.elapsed() > PATIENCE => {
                    let action = format!("read {}", self.source.name);
                    return Err(self.client.silence(&action));
                }
                Step::Nothing => continue,
                Step::Record(record) => Place { partition: record.partition(), offset: record.offset() },
            };
            heard = Instant::now();
            if !self.marks.has(found) {
                if let Some(extent) = free.get_mut(&found.partition) {
                    extent.end = found.offset;
                }
                reading.close(found.partition);
            }
        }
        Ok(free.into_values().filter(|one| one.low < one.end).collect())
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
        // Most often nothing came; a reader of nothing costs what one of something does.
        if news.iter().all(|extent| extent.low >= extent.end) {
            return Ok(self.refailed);
        }
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

/// Fenced: by a successor, or because the transaction grew too old, which the marks tell apart (protocol §4.4).
fn fenced(lane: &Lane, error: BrokerError) -> BrokerError {
    match error.kind {
        ErrorKind::Fenced if lane.too_old() => BrokerError {
            kind: ErrorKind::Unknown,
            message: "the broker ended a transaction that took too long".to_owned(),
            ..error
        },
        _ => taken_over(error),
    }
}

fn taken_over(error: BrokerError) -> BrokerError {
    if error.kind != ErrorKind::Fenced {
        return error;
    }
    BrokerError { message: "another run took over this dead-letter queue".to_owned(), ..error }
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
        self.transfer_shared(&Arc::new(batch.to_vec())).await
    }

    async fn transfer_shared(&mut self, batch: &Arc<Vec<Outgoing>>) -> Result<Vec<Fate>> {
        let batch = Arc::clone(batch);
        self.step(move |inner| inner.transfer(&batch)).await
    }

    async fn looker(&mut self) -> Option<Box<dyn Looker>> {
        Some(Box::new(look::Beside::of(self)?))
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        let (batch, count) = (batch.to_vec(), batch.len());
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
            Ok(settled) => settled,
            Err(error) => (0..count).map(|_| Settled::Failed(error.clone())).collect(),
        }
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        // Reading took nothing out; only the receipts end.
        if let Some(inner) = &mut self.inner {
            for receipt in batch {
                if let Some((claim, place)) = place_of_receipt(receipt, &inner.source.id)
                    && inner.held.get(&place).is_some_and(|held| held.claim == claim)
                {
                    inner.held.remove(&place);
                }
            }
        }
        Ok(())
    }

    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        let asked: Vec<(u64, Option<Place>)> = intents
            .iter()
            .map(|intent| (intent.seq, browse::place_of(&intent.position).map(|(_, place)| place)))
            .collect();
        let ends = self.ends_of_target().await?;
        self.step(move |inner| {
            // Behind the fence of init_transactions nothing sent before can arrive any more.
            inner.mend()?;
            inner.prove(&asked, &ends)
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

    async fn keep_times(&mut self) -> Result<()> {
        self.step(|inner| {
            if inner.target.append_time {
                return Err(BrokerError::new(
                    ErrorKind::Unsupported,
                    format!("keep the times of letters in {}", inner.target.name),
                    "its message.timestamp.type is LogAppendTime: the broker replaces every time",
                )
                .hint("without --keep-timestamp the first time stands in a header"));
            }
            inner.keeps_times = true;
            Ok(())
        })
        .await
    }

    async fn trim(&mut self) -> Result<Option<String>> {
        let Some(inner) = &self.inner else { return Ok(None) };
        let (client, source) = (inner.client.clone(), inner.source.clone());
        let extents = source.extents(&client).await?;
        let open = self.step(move |inner| inner.lowest_open(&extents)).await?;
        let records: i64 = open.iter().map(|extent| extent.end - extent.low).sum();
        if records == 0 {
            return Ok(Some(format!("nothing to trim: the first letter of {} is open", source.name)));
        }
        crate::broker::kafka::provision::delete_below(&client, &source.name, &open).await?;
        let (offsets, are) = if records == 1 { ("offset", "is") } else { ("offsets", "are") };
        Ok(Some(format!(
            "trimmed {}: {records} {offsets} before the lowest open letter {are} gone",
            source.name
        )))
    }

    fn transactional(&self) -> bool {
        !self.plain
    }

    fn notes(&self) -> Vec<String> {
        let words = "this user may not use transactions (Write on TransactionalId redrive.*): each copy is sent, then \
                     its letter is marked. Copies whose answer is lost are looked for, else they are in doubt; a run of \
                     another machine may send again what was sent and not marked";
        if self.plain { vec![words.to_owned()] } else { Vec::new() }
    }

    async fn end(mut self: Box<Self>) -> Result<()> {
        match self.step(|inner| inner.heartbeat(true)).await {
            // Somebody else has the lock: there is nothing to give back.
            Err(error) if error.kind == ErrorKind::Fenced => Ok(()),
            other => other,
        }
    }
}
