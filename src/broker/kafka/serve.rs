//! Carrying messages from tiers back: consume, produce, and offsets in one transaction (protocol §10). The head of
//! a partition holds the rest, since all of a tier wait equally long; due = append time + delay, never earlier.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Timestamp;
use rdkafka::{Offset, TopicPartitionList};
use tokio::task::JoinHandle;

use super::assigned::Watch;
use super::client::{self, Client, PATIENCE};
use super::counting::{Counted, Counting};
use super::ears::{DEAF, Ears, Partition};
use super::producer::{Lane, Record};
use super::raw;
use crate::broker::{BrokerError, Carried, Carrier, ErrorKind, Result, TierState};
use crate::clock::{Time, rough};
use crate::letter::Message;
use crate::proof::failpoint;

/// Records of one partition that are held in memory while they wait, and their bytes.
const HELD: (usize, usize) = (2_000, 4 * 1024 * 1024);
/// How long an error that may pass is tried again, if nothing ends well in between.
const STRANGE: Duration = Duration::from_secs(60);
/// Most time a step spends on fetching.
const FETCH: Duration = Duration::from_millis(40);
/// How long a consumer that is given up may take to leave its group.
const LEAVE: Duration = Duration::from_secs(5);

/// A tier and where it returns.
#[derive(Debug, Clone)]
pub(super) struct Tier {
    pub(super) topic: String,
    pub(super) delay: Duration,
    pub(super) target: Arc<str>,
    /// Partitions of the target.
    pub(super) partitions: i32,
    pub(super) retention: Option<Duration>,
    pub(super) append_time: bool,
}

/// A fetched record.
struct Waiting {
    offset: i64,
    due: Time,
    record: Record,
    bytes: usize,
}

/// What was fetched of one partition, in order.
#[derive(Default)]
struct Held {
    queue: VecDeque<Waiting>,
    bytes: usize,
}

impl Held {
    fn full(&self) -> bool {
        self.queue.len() >= HELD.0 || self.bytes >= HELD.1
    }

    fn low(&self) -> bool {
        self.queue.len() < HELD.0 / 2 && self.bytes < HELD.1 / 2
    }

    fn take_first(&mut self, count: usize) -> impl Iterator<Item = Waiting> + '_ {
        let first = self.queue.drain(..count.min(self.queue.len()));
        let bytes = &mut self.bytes;
        first.inspect(|waiting| *bytes -= waiting.bytes)
    }
}

struct Inner {
    client: Client,
    tiers: Vec<Tier>,
    consumer: BaseConsumer<Watch>,
    watch: Watch,
    lane: Lane,
    held: BTreeMap<Partition, Held>,
    paused: HashSet<Partition>,
    /// Of which partitions something is heard.
    ears: Ears,
    /// What the last transaction left behind.
    broken: Option<Broken>,
    /// Since when nothing ended well.
    strange: Option<Instant>,
}

/// A transaction failed, and this is still to be done about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// Its producer is of no use any more.
    Producer,
    /// What was fetched is not what comes next.
    Place,
}

/// A relay's hold on the tiers of some channels.
pub(super) struct Tiers {
    inner: Option<Box<Inner>>,
    counting: Arc<Counting>,
    /// A count that is on its way, beside which messages are carried.
    asked: Option<JoinHandle<Result<Counted>>>,
    /// Of each tier, as it was counted last; empty before the first time.
    waiting: Vec<u64>,
}

fn not_ended() -> BrokerError {
    BrokerError::new(ErrorKind::Other, "serve the tiers", "an earlier step did not end")
}

fn lost(error: tokio::task::JoinError) -> BrokerError {
    BrokerError::new(ErrorKind::Other, "serve the tiers", error.to_string())
}

impl Tiers {
    pub(super) async fn open(client: &Client, tiers: Vec<Tier>, group: &str, owner: &str) -> Result<Self> {
        for tier in &tiers {
            if tier.retention.is_some_and(|kept| kept < tier.delay + Duration::from_secs(86_400)) {
                return Err(BrokerError::new(
                    ErrorKind::Rejected,
                    format!("serve {}", tier.topic),
                    "its retention is under its delay and a day: a relay that is down over a night would lose messages",
                )
                .hint("redrive apply sets it"));
            }
            if !tier.append_time {
                return Err(BrokerError::new(
                    ErrorKind::Rejected,
                    format!("serve {}", tier.topic),
                    "its messages carry their producers' times, which must not decide when they are due",
                )
                .hint("redrive apply sets message.timestamp.type=LogAppendTime"));
            }
        }
        let (client, of, owner) = (client.clone(), group.to_owned(), owner.to_owned());
        let opened = tokio::task::spawn_blocking(move || Inner::open(&client, tiers, &of, &owner));
        let inner = opened.await.map_err(lost)??;
        let topics = inner.tiers.iter().map(|tier| tier.topic.clone()).collect();
        let counting = Arc::new(Counting::new(&inner.client, topics)?);
        Ok(Self { inner: Some(Box::new(inner)), counting, asked: None, waiting: Vec::new() })
    }

    fn states(&self) -> Result<Vec<TierState>> {
        let inner = self.inner.as_ref().ok_or_else(not_ended)?;
        Ok(inner.states(&self.waiting))
    }

    async fn step<T: Send + 'static>(
        &mut self,
        step: impl FnOnce(&mut Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut inner = self.inner.take().ok_or_else(not_ended)?;
        let done = tokio::task::spawn_blocking(move || {
            let result = step(&mut inner);
            (inner, result)
        });
        let (inner, result) = done.await.map_err(lost)?;
        self.inner = Some(inner);
        result
    }
}

impl Inner {
    fn open(of_none: &Client, tiers: Vec<Tier>, group: &str, owner: &str) -> Result<Self> {
        // One id per relay: the group's generation fences a relay that lost its partitions.
        let id: String = format!("redrive.relay.{group}.{owner}").chars().take(200).collect();
        let client = of_none.of_group(group);
        let (consumer, watch) = Self::consumer(&client, &tiers)?;
        // A producer is of no group.
        let lane = Lane::open(of_none, &id, 10_000_000)?;
        Ok(Self {
            client,
            tiers,
            consumer,
            watch,
            lane,
            held: BTreeMap::new(),
            paused: HashSet::new(),
            ears: Ears::default(),
            broken: None,
            strange: None,
        })
    }

    /// A consumer of the tiers in the group of `client`.
    fn consumer(client: &Client, tiers: &[Tier]) -> Result<(BaseConsumer<Watch>, Watch)> {
        let mut config = client.config();
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", "10000")
            .set("heartbeat.interval.ms", "2000")
            .set("fetch.wait.max.ms", "50")
            .set("queued.max.messages.kbytes", "4096")
            .set("fetch.message.max.bytes", "131072")
            .set("fetch.queue.backoff.ms", "5");
        let watch = Watch::of(client);
        let consumer: BaseConsumer<Watch> = config
            .create_with_context(watch.clone())
            .map_err(|error| client.error("set up a consumer", &error))?;
        let topics: Vec<&str> = tiers.iter().map(|tier| tier.topic.as_str()).collect();
        consumer.subscribe(&topics).map_err(|error| client.error("subscribe to the tiers", &error))?;
        Ok((consumer, watch))
    }

    /// A new consumer, which begins at the committed offsets. The one before leaves its group beside that, if it can.
    fn hear_anew(&mut self) -> Result<()> {
        let (consumer, watch) = Self::consumer(&self.client, &self.tiers)?;
        self.watch = watch;
        self.held.clear();
        self.paused.clear();
        self.ears = Ears::default();
        let before = std::mem::replace(&mut self.consumer, consumer);
        let (tell, left) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(before);
            let _ = tell.send(());
        });
        if left.recv_timeout(LEAVE).is_err() {
            tracing::debug!(target: "kafka", "a consumer takes long to leave its group");
        }
        Ok(())
    }

    /// Those of which nothing waits here: where something does, more need not have come.
    fn without_a_message<'a>(&self, of: impl Iterator<Item = &'a Partition>) -> Vec<Partition> {
        let waits =
            |partition: &Partition| self.held.get(partition).is_some_and(|held| !held.queue.is_empty());
        of.filter(|partition| !waits(partition)).cloned().collect()
    }

    /// A consumer that hears nothing of a partition, although something lies there, is given up.
    fn not_deaf(&mut self) -> Result<()> {
        let Some(((topic, partition), offset)) = self.ears.deaf() else { return Ok(()) };
        let (action, deaf) = (format!("read {topic}"), rough(DEAF));
        let message = format!(
            "nothing came of partition {partition} for {deaf}, though a message lies at offset {offset}: its consumer \
             is made anew"
        );
        self.hear_anew()?;
        Err(BrokerError::new(ErrorKind::Unreachable, action, message))
    }

    /// Fetches for a while, or until so many are due: then they need not wait for others.
    fn fetch(&mut self, enough: usize) -> Result<()> {
        let until = Instant::now() + FETCH;
        let now = self.client.clock.now();
        let is_due = |held: &Held| held.queue.iter().take_while(|waiting| waiting.due <= now).count();
        let mut due: usize = self.held.values().map(is_due).sum();
        loop {
            let left = match due >= enough {
                true => Duration::ZERO,
                false => until.saturating_duration_since(Instant::now()),
            };
            self.rebalanced()?;
            match self.consumer.poll(left.max(Duration::from_millis(1))) {
                // Nothing came, or only a word about the group.
                None => self.ears.silence(),
                Some(Ok(record)) => {
                    let topic = record.topic();
                    let Some(tier) = self.tiers.iter().find(|tier| tier.topic == topic) else { continue };
                    let at = match record.timestamp() {
                        Timestamp::LogAppendTime(ms) | Timestamp::CreateTime(ms) => Time::from_millis(ms),
                        Timestamp::NotAvailable => self.client.clock.now(),
                    };
                    let Message { key, body, headers, .. } = raw::message(&record);
                    let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
                    let of_headers = usize::try_from(headers.size()).unwrap_or(0);
                    let bytes = length(&key) + length(&body) + of_headers + 200;
                    let waiting = Waiting {
                        bytes,
                        offset: record.offset(),
                        due: at.plus(tier.delay),
                        record: Record {
                            topic: Arc::clone(&tier.target),
                            // Without a key the partition is kept: order among such records is by partition.
                            partition: (key.is_none() && record.partition() < tier.partitions)
                                .then(|| record.partition()),
                            key,
                            value: body,
                            headers,
                            timestamp: None,
                        },
                    };
                    due += usize::from(waiting.due <= now);
                    let key = (topic.to_owned(), record.partition());
                    self.ears.heard(&key);
                    let held = self.held.entry(key.clone()).or_default();
                    held.queue.push_back(waiting);
                    held.bytes += bytes;
                    if held.full() && self.paused.insert(key.clone()) {
                        self.flow(&key, false)?;
                    }
                }
                // The client tells of a broker that is away again and again, and what it tells of the group afterwards
                // stands in line behind that: none of it may cost time.
                Some(Err(error)) if client::passes(&error) => {}
                // What was fetched before it stays in hand, and whatever is behind it comes again.
                Some(Err(error)) => return Err(self.client.error("read the tiers", &error)),
            }
            if due >= enough || Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Lets a partition flow again, or stops it while enough of it waits here.
    fn flow(&self, key: &Partition, on: bool) -> Result<()> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&key.0, key.1);
        let done = if on { self.consumer.resume(&list) } else { self.consumer.pause(&list) };
        done.map_err(|error| self.client.error("hold a tier's partition", &error))
    }

    fn rebalanced(&mut self) -> Result<()> {
        let moved = self.watch.moved();
        let mut flowed = Ok(());
        for (key, came) in moved {
            self.held.remove(&key);
            self.paused.remove(&key);
            match came {
                false => self.ears.lost(&key),
                true => {
                    // What fails for one must not leave the others as they were before.
                    flowed = flowed.and(self.flow(&key, true));
                    self.ears.given(key);
                }
            }
        }
        flowed
    }

    /// What nobody knows to be for good is tried again for a while: a broker that has just come back knows topics,
    /// groups and producers one after the other, and says of what it does not know yet that it is not there.
    fn carry(&mut self, limit: usize) -> Result<Carried> {
        let error = match self.try_to_carry(limit) {
            Ok(carried) => {
                self.strange = None;
                return Ok(carried);
            }
            Err(error) => error,
        };
        let since = *self.strange.get_or_insert_with(Instant::now);
        match error.kind {
            // Of this relay's own name and group's generation nobody else is: its next producer goes on.
            ErrorKind::Fenced => Err(BrokerError { kind: ErrorKind::Unreachable, ..error }),
            ErrorKind::Other | ErrorKind::NotFound if since.elapsed() < STRANGE => {
                Err(BrokerError { kind: ErrorKind::Unreachable, ..error })
            }
            _ => Err(error),
        }
    }

    fn try_to_carry(&mut self, limit: usize) -> Result<Carried> {
        if self.broken == Some(Broken::Producer) {
            // Nothing of it was committed, or the group's offsets tell: once nothing of it can be any more, begin
            // again from there.
            self.lane = self.lane.renewed()?;
            self.broken = Some(Broken::Place);
        }
        if self.broken.is_some() {
            self.listen()?;
            self.rewind()?;
            self.broken = None;
        }
        self.not_deaf()?;
        self.fetch(limit)?;
        self.rebalanced()?;
        let now = self.client.clock.now();
        let mut carried = Carried::default();
        let mut batch: Vec<Record> = Vec::new();
        let mut offsets = TopicPartitionList::new();
        let mut taken: Vec<Partition> = Vec::new();
        let mut late: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for (key, held) in &mut self.held {
            let queue = &held.queue;
            let due = queue.iter().take_while(|waiting| waiting.due <= now).count();
            let count = due.min(limit - batch.len());
            if let Some(next) = queue.get(count) {
                carried.more |= next.due <= now;
                carried.next_due = Some(carried.next_due.map_or(next.due, |earliest| earliest.min(next.due)));
            }
            if count == 0 {
                continue;
            }
            if let Some(last) = queue.get(count - 1) {
                let added = offsets.add_partition_offset(&key.0, key.1, Offset::Offset(last.offset + 1));
                added.map_err(|error| self.client.error("record how far a tier was carried", &error))?;
            }
            let late = late.entry(key.0.clone()).or_default();
            for waiting in held.take_first(count) {
                late.push(now.since(waiting.due));
                batch.push(waiting.record);
            }
            taken.push(key.clone());
        }
        if batch.is_empty() {
            return Ok(carried);
        }
        if let Err(error) = self.send(&batch, &offsets) {
            self.broken = Some(Broken::Producer);
            self.held.clear();
            return Err(error);
        }
        for key in taken {
            if self.held.get(&key).is_some_and(Held::low) && self.paused.remove(&key) {
                self.flow(&key, true)?;
            }
        }
        // What was fetched is through; whether more is due, the next fetch tells: it waits by itself for what comes.
        carried.more = true;
        carried.moved = late.into_iter().collect();
        Ok(carried)
    }

    fn send(&self, batch: &[Record], offsets: &TopicPartitionList) -> Result<()> {
        let group = self.consumer.group_metadata().ok_or_else(|| {
            BrokerError::new(ErrorKind::Unreachable, "carry due messages", "the group has not met yet")
        })?;
        let begun = Instant::now();
        let all: Vec<_> = batch.iter().map(Record::sent).collect();
        for (report, record) in self.lane.write(&all)?.into_iter().zip(batch) {
            if let Err(why) = report {
                self.lane.abort();
                let error = KafkaError::MessageProduction(why.code);
                return Err(self.client.error(&format!("send to {}", record.topic), &error));
            }
        }
        let produced = begun.elapsed();
        if let Err(error) = self.lane.send_offsets(offsets, &group) {
            self.lane.abort();
            return Err(error);
        }
        let recorded = begun.elapsed();
        failpoint::hit("relay_before_commit");
        self.lane.commit()?;
        failpoint::hit("relay_after_commit");
        let (count, whole) = (batch.len(), begun.elapsed());
        tracing::debug!(target: "kafka", "{count} carried: produced in {produced:?}, offsets after {recorded:?}, committed after {whole:?}");
        Ok(())
    }

    /// Hears what the group has to say. While nobody does, partitions that were lost stay where they are and those
    /// that come do not come, and no place in them can be taken. Records that come meanwhile come again.
    fn listen(&mut self) -> Result<()> {
        let until = Instant::now() + FETCH;
        while Instant::now() < until {
            let _ = self.consumer.poll(Duration::from_millis(5));
            self.rebalanced()?;
        }
        Ok(())
    }

    /// Forgets what was fetched and reads on from the committed offsets.
    fn rewind(&mut self) -> Result<()> {
        self.held.clear();
        self.ears.anew();
        let paused: Vec<_> = self.paused.drain().collect();
        for key in &paused {
            self.flow(key, true)?;
        }
        let assigned =
            self.consumer.assignment().map_err(|error| self.client.error("rewind the tiers", &error))?;
        let committed = self
            .consumer
            .committed_offsets(assigned, PATIENCE)
            .map_err(|error| self.client.error("rewind the tiers", &error))?;
        for one in committed.elements() {
            // A partition of which the broker did not tell is not one of which nothing was carried.
            one.error().map_err(|error| self.client.error("rewind the tiers", &error))?;
            let offset = match one.offset() {
                Offset::Offset(offset) => Offset::Offset(offset),
                _ => Offset::Beginning,
            };
            self.consumer
                .seek(one.topic(), one.partition(), offset, Duration::from_secs(5))
                .map_err(|error| self.client.error("rewind the tiers", &error))?;
        }
        Ok(())
    }

    /// The tiers, so many of whose messages are not carried yet.
    fn states(&self, waiting: &[u64]) -> Vec<TierState> {
        let now = self.client.clock.now();
        let state = |(tier, waiting): (&Tier, &u64)| {
            let mine = || {
                self.held
                    .iter()
                    .filter(|((topic, _), _)| *topic == tier.topic)
                    .flat_map(|(_, held)| &held.queue)
            };
            TierState {
                queue: tier.topic.clone(),
                waiting: *waiting,
                due: mine().filter(|one| one.due <= now).count() as u64,
                overdue: mine().map(|one| now.since(one.due)).max().unwrap_or_default(),
            }
        };
        self.tiers.iter().zip(waiting).map(state).collect()
    }
}

#[async_trait]
impl Carrier for Tiers {
    async fn carry(&mut self, limit: usize) -> Result<Carried> {
        self.step(move |inner| inner.carry(limit)).await
    }

    async fn tiers(&mut self) -> Result<Vec<TierState>> {
        let waiting = match self.asked.take() {
            // Its answer may be older than this question.
            Some(asked) => asked.await.map(drop),
            None => Ok(()),
        };
        waiting.map_err(lost)?;
        let counting = Arc::clone(&self.counting);
        self.waiting = tokio::task::spawn_blocking(move || counting.waiting()).await.map_err(lost)??;
        self.states()
    }

    async fn tiers_lately(&mut self) -> Result<Vec<TierState>> {
        if self.waiting.is_empty() {
            return self.tiers().await;
        }
        let counted = match self.asked.take() {
            Some(asked) if !asked.is_finished() => {
                self.asked = Some(asked);
                return self.states();
            }
            Some(asked) => asked.await.map_err(lost)?.map(Some),
            None => Ok(None),
        };
        let (counting, inner) = (Arc::clone(&self.counting), self.inner.as_mut().ok_or_else(not_ended)?);
        let counted = counted.map(|counted| {
            let Some(counted) = counted else { return };
            self.waiting = counted.waiting;
            for (partition, offset) in counted.found {
                inner.ears.found(&partition, offset, counted.at);
            }
        });
        let quiet = inner.without_a_message(inner.ears.quiet());
        self.asked = Some(tokio::task::spawn_blocking(move || counting.count(&quiet)));
        counted?;
        self.states()
    }

    async fn drained(&mut self) -> Result<bool> {
        let inner = self.inner.as_ref().ok_or_else(not_ended)?;
        if !inner.watch.has_met() {
            return Ok(false);
        }
        let silent = inner.without_a_message(inner.ears.all());
        let counting = Arc::clone(&self.counting);
        tokio::task::spawn_blocking(move || counting.is_nothing_left(&silent)).await.map_err(lost)?
    }

    async fn close(mut self: Box<Self>) -> Result<()> {
        self.step(|inner| {
            inner.consumer.unsubscribe();
            Ok(())
        })
        .await
    }
}
