//! Producing and being sure: delivery reports counted, awaited without spinning before a commit
//! (kafka-real §2), and the rules of what may be tried again after which failure (§5).

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

use super::client::{Client, Heard};
use crate::broker::{BrokerError, ErrorKind, Result};
use crate::letter::{Headers, Value};

/// The broker aborts a transaction that is older than this: a dead run holds readers of the target up no longer.
pub(super) const TRANSACTION: Duration = Duration::from_secs(20);
/// How long a record may take.
const DELIVERY: Duration = Duration::from_secs(15);
/// How long a commit is tried before its outcome is left to the marks.
const COMMIT: Duration = Duration::from_secs(60);

/// Delivery reports of one batch.
#[derive(Debug, Default)]
struct Reports {
    /// Which batch: a report that comes after its batch was given up belongs to none.
    batch: u64,
    missing: usize,
    /// By number in the batch: where it arrived, or why not.
    done: Vec<(usize, Report)>,
}

/// Counts the reports and wakes who waits for the last.
#[derive(Clone, Default)]
pub(super) struct Delivery {
    heard: Heard,
    shared: Arc<(Mutex<Reports>, Condvar)>,
}

impl ClientContext for Delivery {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.heard.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.heard.error(error, reason);
    }
}

impl ProducerContext for Delivery {
    type DeliveryOpaque = Box<(u64, usize)>;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Self::DeliveryOpaque) {
        let (batch, number) = *opaque;
        let outcome = match result {
            Ok(record) => Ok((record.partition(), record.offset())),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)),
        };
        let mut reports = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.batch != batch {
            return;
        }
        reports.done.push((number, outcome));
        reports.missing = reports.missing.saturating_sub(1);
        if reports.missing == 0 {
            self.shared.1.notify_all();
        }
    }
}

/// One record to be produced.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) topic: Arc<str>,
    /// `None`: by key, as Java does it.
    pub(super) partition: Option<i32>,
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) headers: Headers,
    /// Milliseconds; `None`: now.
    pub(super) timestamp: Option<i64>,
}

/// What became of one record of a batch.
pub(super) type Report = std::result::Result<(i32, i64), RDKafkaErrorCode>;

/// Never handed to the broker, because the transaction had failed already.
pub(super) fn purged(code: &RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)
}

/// A transactional producer: one lane.
pub(super) struct Lane {
    client: Client,
    id: String,
    max_bytes: u64,
    producer: ThreadedProducer<Delivery>,
    context: Delivery,
    begun: Cell<Instant>,
}

impl Lane {
    /// Makes the producer and inits its transactions, which fences whoever had this id. Blocks.
    pub(super) fn open(client: &Client, id: &str, max_bytes: u64) -> Result<Self> {
        let mut config = client.config();
        config
            .set("transactional.id", id)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("transaction.timeout.ms", TRANSACTION.as_millis().to_string())
            .set("message.timeout.ms", DELIVERY.as_millis().to_string())
            .set("message.max.bytes", max_bytes.clamp(1_000, 1_000_000_000).to_string())
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "0")
            .set("queue.buffering.max.kbytes", "16384")
            .set("queue.buffering.max.messages", "20000");
        let context = Delivery { heard: client.heard.clone(), ..Delivery::default() };
        let producer: ThreadedProducer<Delivery> = config
            .create_with_context(context.clone())
            .map_err(|error| client.error("set up a producer", &error))?;
        let action = format!("begin transactions as {id}");
        producer.init_transactions(Duration::from_secs(30)).map_err(|error| {
            let mut ours = client.error(&action, &error);
            if error.rdkafka_error_code() == Some(RDKafkaErrorCode::TransactionalIdAuthorizationFailed) {
                ours.kind = ErrorKind::Denied;
                ours.hint =
                    Some(format!("the user needs Write on TransactionalId {id} (docs/kafka.md, Rights)"));
            }
            ours
        })?;
        Ok(Self {
            client: client.clone(),
            id: id.to_owned(),
            max_bytes,
            producer,
            context,
            begun: Cell::new(Instant::now()),
        })
    }

    /// The same lane on a new producer, after an abort that left sequence numbers behind. Blocks.
    pub(super) fn renewed(&self) -> Result<Self> {
        Self::open(&self.client, &self.id, self.max_bytes)
    }

    /// Begins a transaction, produces all and waits for each report: one per record, in order. The transaction is
    /// open afterwards: the caller commits or aborts. Blocks.
    ///
    /// # Errors
    /// The transaction is aborted already. `Fenced`: somebody took over, or it grew too old.
    pub(super) fn write(&self, records: &[&Record]) -> Result<Vec<Report>> {
        self.begun.set(Instant::now());
        self.producer.begin_transaction().map_err(|error| self.told("begin a transaction", &error))?;
        let reports = self.produce(records).and_then(|reports| {
            match self.fatal().or_else(|| {
                let topics: std::collections::BTreeSet<&str> =
                    records.iter().map(|one| &*one.topic).collect();
                self.withheld(&reports, &topics.into_iter().collect::<Vec<_>>().join(" and "))
            }) {
                Some(error) => Err(error),
                None => Ok(reports),
            }
        });
        if reports.is_err() {
            self.abort();
        }
        reports
    }

    /// Records that the client never handed over, because the transaction had failed already, say nothing of why:
    /// the transaction does, when it is asked to commit, which it cannot any more (kafka-real §5).
    fn withheld(&self, reports: &[Report], topics: &str) -> Option<BrokerError> {
        let mut failed = reports.iter().filter_map(|report| report.as_ref().err()).peekable();
        failed.peek()?;
        if !failed.all(purged) {
            return None;
        }
        let action = format!("write to {topics}");
        Some(match self.producer.commit_transaction(Duration::from_secs(5)) {
            Err(error) => self.told(&action, &error),
            // It cannot be; if it is, only the marks tell what of it is there.
            Ok(()) => {
                BrokerError::new(ErrorKind::Unknown, action, "records were withheld from a transaction")
            }
        })
    }

    /// May the broker have ended the last transaction for its age?
    pub(super) fn too_old(&self) -> bool {
        self.begun.get().elapsed() >= TRANSACTION
    }

    /// An error that no later call gets over, in our words: calls after it say only that it happened.
    fn fatal(&self) -> Option<BrokerError> {
        let (code, text) = self.producer.client().fatal_error()?;
        let mut error = self.client.error("write", &KafkaError::MessageProduction(code));
        error.message = text;
        Some(error)
    }

    fn told(&self, action: &str, error: &KafkaError) -> BrokerError {
        match self.fatal() {
            Some(fatal) => BrokerError { action: action.to_owned(), ..fatal },
            None => self.client.error(action, error),
        }
    }

    fn produce(&self, records: &[&Record]) -> Result<Vec<Report>> {
        let mut reports: Vec<Option<Report>> = records.iter().map(|_| None).collect();
        let batch = {
            let mut shared = self.context.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            let batch = shared.batch + 1;
            *shared = Reports { batch, missing: records.len(), done: Vec::with_capacity(records.len()) };
            batch
        };
        let mut refused = 0;
        for (number, record) in records.iter().enumerate() {
            if let Err(code) = self.send((batch, number), record)? {
                if let Some(slot) = reports.get_mut(number) {
                    *slot = Some(Err(code));
                }
                refused += 1;
            }
        }
        let until = Instant::now() + DELIVERY + Duration::from_secs(5);
        let mut shared = self.context.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.missing = shared.missing.saturating_sub(refused);
        while shared.missing > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(BrokerError::new(ErrorKind::Unknown, "produce", "delivery reports are missing"));
            }
            shared =
                self.context.shared.1.wait_timeout(shared, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        for (number, report) in shared.done.drain(..) {
            if let Some(slot) = reports.get_mut(number) {
                *slot = Some(report);
            }
        }
        Ok(reports.into_iter().map(|report| report.unwrap_or(Err(RDKafkaErrorCode::Unknown))).collect())
    }

    /// Hands one record to the client; waits while its queue is full. The inner error is the record's own.
    fn send(
        &self,
        number: (u64, usize),
        record: &Record,
    ) -> Result<std::result::Result<(), RDKafkaErrorCode>> {
        let headers = record.headers.iter().fold(
            OwnedHeaders::new_with_capacity(record.headers.len()),
            |list, header| {
                let value = match &header.value {
                    Value::Null => None,
                    value => value.bytes().map(|bytes| bytes.as_ref()),
                };
                list.insert(Header { key: &header.name, value })
            },
        );
        let mut base: BaseRecord<'_, [u8], [u8], Box<(u64, usize)>> =
            BaseRecord::with_opaque_to(&record.topic, Box::new(number)).headers(headers);
        base.partition = record.partition;
        base.key = record.key.as_deref();
        base.payload = record.value.as_deref();
        base.timestamp = record.timestamp;
        let until = Instant::now() + DELIVERY;
        loop {
            match self.producer.send(base) {
                Ok(()) => return Ok(Ok(())),
                Err((error, back)) => match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::QueueFull) if Instant::now() < until => {
                        std::thread::sleep(Duration::from_millis(2));
                        base = back;
                    }
                    Some(
                        code @ (RDKafkaErrorCode::MessageSizeTooLarge
                        | RDKafkaErrorCode::UnknownPartition
                        | RDKafkaErrorCode::UnknownTopic
                        | RDKafkaErrorCode::UnknownTopicOrPartition),
                    ) => return Ok(Err(code)),
                    _ => return Err(self.told(&format!("produce to {}", record.topic), &error)),
                },
            }
        }
    }

    /// Commits. After a commit that timed out only committing again is right (t05). Blocks.
    ///
    /// # Errors
    /// `Fenced`: somebody took over, or the transaction grew too old: only the marks tell what was committed.
    /// `Unknown`: the same. Anything else: aborted.
    pub(super) fn commit(&self) -> Result<()> {
        let until = Instant::now() + COMMIT;
        loop {
            let error = match self.producer.commit_transaction(Duration::from_secs(10)) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let (retriable, abortable) = match &error {
                KafkaError::Transaction(inner) => (inner.is_retriable(), inner.txn_requires_abort()),
                _ => (false, false),
            };
            let ours = self.told("commit a transaction", &error);
            if ours.kind == ErrorKind::Fenced {
                return Err(ours);
            }
            if abortable {
                self.abort();
                return Err(ours);
            }
            if !retriable || Instant::now() >= until {
                return Err(BrokerError { kind: ErrorKind::Unknown, ..ours });
            }
        }
    }

    /// Aborts; bounded, and what fails here is aborted by the broker in time.
    pub(super) fn abort(&self) {
        if let Err(error) = self.producer.abort_transaction(Duration::from_secs(10)) {
            tracing::debug!(target: "kafka", "abort: {error}");
        }
    }

    /// Offsets of a consumer, inside the transaction.
    pub(super) fn send_offsets(
        &self,
        offsets: &rdkafka::TopicPartitionList,
        group: &rdkafka::consumer::ConsumerGroupMetadata,
    ) -> Result<()> {
        self.producer
            .send_offsets_to_transaction(offsets, group, Duration::from_secs(10))
            .map_err(|error| self.told("record how far a tier was carried", &error))
    }
}
