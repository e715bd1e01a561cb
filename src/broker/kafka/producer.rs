//! Producing and being sure: delivery reports counted, awaited without spinning before a commit
//! (kafka-real §2), and the rules of what may be tried again after which failure (§5). A lane without the right to
//! transactions is an idempotent producer alone: each record counts by its own answer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

use super::client::{Client, Heard};
use super::raw;
use crate::broker::{BrokerError, ErrorKind, Result};
use crate::letter::{Headers, Value};

/// The broker aborts a transaction that is older than this: a dead run holds readers of the target up no longer.
pub(super) const TRANSACTION: Duration = Duration::from_secs(20);
/// How long a record may take.
pub(super) const DELIVERY: Duration = Duration::from_secs(15);
/// How long a commit is tried before its outcome is left to the marks.
const COMMIT: Duration = Duration::from_secs(60);

/// How long a record waits for others of its partition where nobody asks for them to go ([`raw::flush`]): at the end
/// of a batch somebody always does, and until then a request is worth its price only with many records in it.
const LINGER: Duration = Duration::from_millis(1_000);
/// Bytes of one partition that go without waiting for more. A request with many records costs both sides little.
const REQUEST: u32 = 1_000_000;
/// How long it is asked at a time that all goes. The client lets one request of a partition be on its way, and while
/// it is asked to hurry and more waits behind that one, its thread turns without rest.
const HURRY: Duration = Duration::from_millis(10);
/// First and longest wait for an answer between two such times.
const PATIENT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(20));

/// Delivery reports of one batch.
#[derive(Debug, Default)]
struct Reports {
    /// Number of the batch's first record: a report that comes after its batch was given up belongs to none.
    first: usize,
    count: usize,
    missing: usize,
    /// Somebody waits for the next one.
    awaited: bool,
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
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Self::DeliveryOpaque) {
        let outcome = match result {
            Ok(record) => Ok((record.partition(), record.offset())),
            Err((error, record)) => Err(Undelivered {
                code: error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown),
                perhaps: raw::perhaps_there(record),
            }),
        };
        let mut reports = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = opaque.wrapping_sub(reports.first);
        if number >= reports.count {
            return;
        }
        reports.done.push((number, outcome));
        reports.missing = reports.missing.saturating_sub(1);
        if reports.missing == 0 || reports.awaited {
            reports.awaited = false;
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

impl Record {
    /// As it is handed over.
    pub(super) fn sent(&self) -> Sent<'_> {
        Sent {
            topic: &self.topic,
            partition: self.partition,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &self.headers,
            timestamp: self.timestamp,
        }
    }
}

/// A record that belongs to somebody else, as it is handed over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a Headers,
    pub(super) timestamp: Option<i64>,
}

/// Why a record has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Undelivered {
    pub(super) code: RDKafkaErrorCode,
    /// It may be there all the same: it was handed over, and no answer came.
    pub(super) perhaps: bool,
}

impl Undelivered {
    /// Never handed to the broker, because the transaction had failed already.
    pub(super) fn purged(&self) -> bool {
        matches!(self.code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)
    }

    /// A refusal of the record itself.
    pub(super) fn refused(&self) -> bool {
        use RDKafkaErrorCode as C;
        matches!(
            self.code,
            C::MessageSizeTooLarge
                | C::InvalidMessage
                | C::InvalidMessageSize
                | C::InvalidTimestamp
                | C::InvalidRecord
                | C::PolicyViolation
        )
    }
}

/// What became of one record of a batch.
pub(super) type Report = std::result::Result<(i32, i64), Undelivered>;

/// One producer: transactional, or without the right to that an idempotent one.
pub(super) struct Lane {
    client: Client,
    /// Its transactional id; `None`: it has no transactions.
    id: Option<String>,
    max_bytes: u64,
    producer: ThreadedProducer<Delivery>,
    context: Delivery,
    begun: Mutex<Instant>,
}

impl Lane {
    /// Makes the producer and inits its transactions, which fences whoever had this id. Blocks.
    pub(super) fn open(client: &Client, id: &str, max_bytes: u64) -> Result<Self> {
        let lane = Self::producer(client, Some(id), max_bytes)?;
        let action = format!("begin transactions as {id}");
        lane.producer.init_transactions(Duration::from_secs(30)).map_err(|error| {
            let mut ours = client.error(&action, &error);
            if error.rdkafka_error_code() == Some(RDKafkaErrorCode::TransactionalIdAuthorizationFailed) {
                ours.kind = ErrorKind::Denied;
                ours.hint =
                    Some(format!("the user needs Write on TransactionalId {id} (docs/kafka.md, Rights)"));
            }
            ours
        })?;
        Ok(lane)
    }

    /// An idempotent producer without transactions: nothing fences it, and it fences nobody.
    pub(super) fn plain(client: &Client, max_bytes: u64) -> Result<Self> {
        Self::producer(client, None, max_bytes)
    }

    fn producer(client: &Client, id: Option<&str>, max_bytes: u64) -> Result<Self> {
        let mut config = client.config();
        if let Some(id) = id {
            config
                .set("transactional.id", id)
                .set("transaction.timeout.ms", TRANSACTION.as_millis().to_string());
        }
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", DELIVERY.as_millis().to_string())
            .set("message.max.bytes", max_bytes.clamp(1_000, 1_000_000_000).to_string())
            .set("partitioner", "murmur2_random")
            // The broker may be busy with the end of the last transaction when the next one begins: a moment is enough.
            .set("retry.backoff.ms", "20")
            .set("linger.ms", LINGER.as_millis().to_string())
            .set("batch.size", REQUEST.to_string())
            .set("queue.buffering.max.kbytes", "16384")
            .set("queue.buffering.max.messages", "20000");
        let context = Delivery { heard: client.heard.clone(), ..Delivery::default() };
        let producer: ThreadedProducer<Delivery> = config
            .create_with_context(context.clone())
            .map_err(|error| client.error("set up a producer", &error))?;
        Ok(Self {
            client: client.clone(),
            id: id.map(str::to_owned),
            max_bytes,
            producer,
            context,
            begun: Mutex::new(Instant::now()),
        })
    }

    /// The same lane on a new producer, after an abort that left sequence numbers behind. Blocks.
    pub(super) fn renewed(&self) -> Result<Self> {
        match &self.id {
            Some(id) => Self::open(&self.client, id, self.max_bytes),
            None => Self::plain(&self.client, self.max_bytes),
        }
    }

    /// Has it no transactions?
    pub(super) fn is_plain(&self) -> bool {
        self.id.is_none()
    }

    /// Begins a transaction, produces all and waits for each report: one per record, in order. The transaction is
    /// open afterwards: the caller commits or aborts. Without transactions it only produces. Blocks.
    ///
    /// # Errors
    /// The transaction is aborted already. `Fenced`: somebody took over, or it grew too old.
    pub(super) fn write(&self, records: &[Sent<'_>]) -> Result<Vec<Report>> {
        if self.is_plain() {
            return self.produce(records);
        }
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.producer.begin_transaction().map_err(|error| self.told("begin a transaction", &error))?;
        let reports = self.produce(records).and_then(|reports| {
            match self.fatal().or_else(|| {
                let topics: std::collections::BTreeSet<&str> = records.iter().map(|one| one.topic).collect();
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
        if !failed.all(Undelivered::purged) {
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
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= TRANSACTION
    }

    /// Will no later call succeed?
    pub(super) fn is_over(&self) -> bool {
        self.producer.client().fatal_error().is_some()
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

    fn produce(&self, records: &[Sent<'_>]) -> Result<Vec<Report>> {
        let mut reports: Vec<Option<Report>> = records.iter().map(|_| None).collect();
        let first = self.expect(records.len());
        let mut refused = 0;
        for (number, record) in records.iter().enumerate() {
            if let Err(code) = self.send(first.wrapping_add(number), record)? {
                if let Some(slot) = reports.get_mut(number) {
                    *slot = Some(Err(Undelivered { code, perhaps: false }));
                }
                refused += 1;
            }
        }
        let (done, complete) = self.reports(refused);
        if !complete {
            return Err(BrokerError::new(ErrorKind::Unknown, "produce", "delivery reports are missing"));
        }
        for (number, report) in done {
            if let Some(slot) = reports.get_mut(number) {
                *slot = Some(report);
            }
        }
        let silent = Undelivered { code: RDKafkaErrorCode::Unknown, perhaps: true };
        Ok(reports.into_iter().map(|report| report.unwrap_or(Err(silent))).collect())
    }

    /// Produces each by itself and waits for its answer: `Ok` is where it surely lies, an error of kind `Unknown` says
    /// that it may be there, any other that it surely is not. Blocks.
    pub(super) fn send_each(&self, records: &[Sent<'_>]) -> Vec<Result<(i32, i64)>> {
        let mut answers: Vec<Option<Result<(i32, i64)>>> = records.iter().map(|_| None).collect();
        let first = self.expect(records.len());
        let (mut refused, mut over) = (0, None::<BrokerError>);
        for (number, record) in records.iter().enumerate() {
            let answer = match &over {
                Some(error) => error.clone(),
                None => match self.send(first.wrapping_add(number), record) {
                    Ok(Ok(())) => continue,
                    Ok(Err(code)) => self.undelivered(record, Undelivered { code, perhaps: false }),
                    // The client takes no more of them: neither this one nor those behind it were handed over.
                    Err(error) => over.insert(not_handed_over(error)).clone(),
                },
            };
            answers[number] = Some(Err(answer));
            refused += 1;
        }
        for (number, report) in self.reports(refused).0 {
            answers[number] = Some(report.map_err(|why| self.undelivered(&records[number], why)));
        }
        let silent = |record: &Sent<'_>| {
            let action = format!("send to {}", record.topic);
            BrokerError::new(ErrorKind::Unknown, action, "no answer came in time")
        };
        let answers = answers.into_iter().zip(records);
        answers.map(|(answer, record)| answer.unwrap_or_else(|| Err(silent(record)))).collect()
    }

    fn undelivered(&self, record: &Sent<'_>, why: Undelivered) -> BrokerError {
        let action = format!("send to {}", record.topic);
        let error = match self.fatal() {
            Some(fatal) if why.code == RDKafkaErrorCode::Fatal => BrokerError { action, ..fatal },
            _ => self.client.error(&action, &KafkaError::MessageProduction(why.code)),
        };
        match why.perhaps {
            true => BrokerError { kind: ErrorKind::Unknown, ..error },
            false => not_handed_over(error),
        }
    }

    /// Reports of how many records are waited for from now on; gives the number of the first.
    fn expect(&self, records: usize) -> usize {
        let mut shared = self.context.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = shared.first.wrapping_add(shared.count);
        let done = Vec::with_capacity(records);
        *shared = Reports { first, count: records, missing: records, awaited: false, done };
        first
    }

    /// Waits for the reports of a batch of which so many records will have none. Are they all here?
    fn reports(&self, refused: usize) -> (Vec<(usize, Report)>, bool) {
        let until = Instant::now() + DELIVERY + Duration::from_secs(5);
        let locked = || self.context.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shared = locked();
        shared.missing = shared.missing.saturating_sub(refused);
        let mut wait = PATIENT.0;
        while shared.missing > 0 {
            let here = shared.done.len();
            drop(shared);
            self.hurry();
            shared = locked();
            if shared.missing == 0 {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // What comes later belongs to no batch.
                shared.first = shared.first.wrapping_add(shared.count);
                shared.count = 0;
                return (std::mem::take(&mut shared.done), false);
            }
            if shared.done.len() == here {
                shared.awaited = true;
                let told = self.context.shared.1.wait_timeout(shared, wait.min(left));
                shared = told.unwrap_or_else(PoisonError::into_inner).0;
            }
            // An answer makes room for what waits behind it.
            wait = if shared.done.len() > here { PATIENT.0 } else { (wait * 2).min(PATIENT.1) };
        }
        (std::mem::take(&mut shared.done), true)
    }

    /// Asks for everything to go that was handed over.
    fn hurry(&self) {
        raw::flush(self.producer.client().native_ptr(), HURRY);
    }

    /// Hands one record to the client; waits while its queue is full. The inner error is the record's own.
    fn send(&self, number: usize, record: &Sent<'_>) -> Result<std::result::Result<(), RDKafkaErrorCode>> {
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
        let mut base: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(record.topic, number).headers(headers);
        base.partition = record.partition;
        base.key = record.key;
        base.payload = record.value;
        base.timestamp = record.timestamp;
        let until = Instant::now() + DELIVERY;
        loop {
            match self.producer.send(base) {
                Ok(()) => return Ok(Ok(())),
                Err((error, back)) => match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::QueueFull) if Instant::now() < until => {
                        // What waits for company may be all that is in it.
                        self.hurry();
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
        if self.is_plain() {
            return Ok(());
        }
        let until = Instant::now() + COMMIT;
        self.all_served();
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

    /// The last report is told just before its record counts as served; a commit that finds one unserved sleeps for
    /// 100 ms.
    fn all_served(&self) {
        let until = Instant::now() + Duration::from_millis(50);
        while self.producer.in_flight_count() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Aborts; bounded, and what fails here is aborted by the broker in time.
    pub(super) fn abort(&self) {
        if self.is_plain() {
            return;
        }
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

/// A record that was surely not taken: what says nothing of the record itself may be tried again.
fn not_handed_over(error: BrokerError) -> BrokerError {
    use ErrorKind as E;
    match error.kind {
        E::Rejected | E::NotFound | E::Denied | E::Throttled | E::Unreachable | E::Unsupported => error,
        _ => BrokerError { kind: E::Unreachable, ..error },
    }
}
