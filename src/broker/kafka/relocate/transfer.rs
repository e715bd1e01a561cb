//! One transaction: copies and their marks. A record that the target refuses is left out with what stands behind
//! it; nothing of a batch is ever half done.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::open::Target;
use super::{Inner, LOOKED, fenced, place_of_receipt};
use crate::broker::kafka::browse;
use crate::broker::kafka::marks::Marker;
use crate::broker::kafka::producer::{Lane, Record, Report, Sent, Undelivered};
use crate::broker::{BrokerError, ErrorKind, Fate, Outgoing, Published, Receipt, Result, Settled};
use crate::clock::Time;
use crate::letter::{Message, Place, Value};
use crate::stamp;

/// Bytes that a record takes beside key, value and headers (kafka-real §6: 82 with a 10 B key), with room.
const OVERHEAD: u64 = 200;

/// Letters of a lane below which a batch goes in one transaction: two would only cost another commit.
const SIDE_BY_SIDE: usize = 500;

/// What came of one transaction.
enum Part {
    /// Where each record lies.
    Committed(Vec<Report>),
    /// Records were refused; it was aborted.
    Refused(Vec<Report>),
    /// It did not happen, or (`Unknown`) only the marks tell.
    Failed(BrokerError),
}

/// One transaction of these records.
fn attempt(lane: &Lane, records: &[Sent<'_>]) -> Part {
    let begun = std::time::Instant::now();
    let reports = match lane.write(records) {
        Ok(reports) => reports,
        Err(error) => return Part::Failed(fenced(lane, error)),
    };
    if reports.iter().any(std::result::Result::is_err) {
        lane.abort();
        return Part::Refused(reports);
    }
    let produced = begun.elapsed();
    match lane.commit() {
        Ok(()) => {
            let (count, whole) = (records.len(), begun.elapsed());
            tracing::debug!(target: "kafka", "{count} records: produced in {produced:?}, committed after {whole:?}");
            Part::Committed(reports)
        }
        Err(error) => Part::Failed(fenced(lane, error)),
    }
}

/// The lane of a letter: that of its group; without one, that of its partition.
fn lane_of(group: Option<&str>, place: Place, lanes: usize) -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    match group {
        Some(group) => group.hash(&mut hasher),
        None => place.partition.hash(&mut hasher),
    }
    usize::try_from(hasher.finish() % lanes.max(1) as u64).unwrap_or(0)
}

/// How a copy is placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    partition: Option<i32>,
    timestamp: Option<i64>,
}

impl Fit {
    /// The record that a copy becomes.
    pub(super) fn sent<'a>(&self, topic: &'a str, message: &'a Message) -> Sent<'a> {
        Sent {
            topic,
            partition: self.partition,
            key: message.key.as_deref(),
            value: message.body.as_deref(),
            headers: &message.headers,
            timestamp: self.timestamp,
        }
    }
}

/// A batch on its way.
struct Batch<'a> {
    letters: &'a [Outgoing],
    topic: Arc<str>,
    /// What goes: how, and of which letter of the dead-letter topic.
    fits: Vec<Option<(Fit, Place)>>,
    fates: Vec<Option<Fate>>,
}

impl Batch<'_> {
    /// The copies of a part, then their marks.
    fn together<'b>(&'b self, part: &[usize], notes: &'b [Record]) -> Vec<Sent<'b>> {
        let copy = |index: &usize| {
            let (fit, _) = self.fits[*index].as_ref()?;
            Some(fit.sent(&self.topic, &self.letters[*index].message))
        };
        part.iter().filter_map(copy).chain(notes.iter().map(Record::sent)).collect()
    }

    /// This letter does not go: whatever stands behind it in its group does not either (t08, m23).
    fn drop_out(&mut self, index: usize, fate: Fate) {
        self.fates[index] = Some(fate);
        self.fits[index] = None;
        let Some(group) = self.letters[index].group.as_deref() else { return };
        for behind in index + 1..self.letters.len() {
            if self.fates[behind].is_none() && self.letters[behind].group.as_deref() == Some(group) {
                self.fates[behind] = Some(Fate::Withdrawn);
                self.fits[behind] = None;
            }
        }
    }
}

impl Inner {
    /// One transaction; in halves if a record is refused, until the one is known.
    pub(super) fn transfer(&mut self, letters: &[Outgoing]) -> Result<Vec<Fate>> {
        self.mend()?;
        if self.lane.is_plain() {
            let why = "this user may not use transactions";
            return Err(BrokerError::new(ErrorKind::Denied, "move in one transaction", why));
        }
        let count = letters.len();
        let mut batch = Batch {
            fits: letters.iter().map(|_| None).collect(),
            fates: letters.iter().map(|_| None).collect(),
            topic: Arc::clone(&self.target.name),
            letters,
        };
        for (index, letter) in letters.iter().enumerate() {
            if batch.fates[index].is_some() {
                continue;
            }
            match self.held_place(&letter.receipt) {
                Some(place) if !self.marks.has(place) => match self.fit(&letter.message, place) {
                    Ok(fit) => batch.fits[index] = Some((fit, place)),
                    Err(error) => batch.drop_out(index, Fate::Refused(error)),
                },
                _ => batch.drop_out(index, Fate::Lost),
            }
        }
        let all: Vec<usize> = (0..count).collect();
        if let Err(error) = self.commit_in_lanes(&mut batch, &all) {
            // What was committed before stays so: only the marks can say what that was.
            let some = batch.fates.iter().any(|fate| matches!(fate, Some(Fate::Moved(_))));
            let error = self.went_wrong(error);
            let kind = if some && error.kind != ErrorKind::Fenced { ErrorKind::Unknown } else { error.kind };
            return Err(BrokerError { kind, ..error });
        }
        Ok(batch.fates.into_iter().map(|fate| fate.unwrap_or(Fate::Withdrawn)).collect())
    }

    /// A large batch goes in a transaction per lane, side by side; a group stays in one of them. What a lane commits
    /// is moved, whatever becomes of the others.
    fn commit_in_lanes(&mut self, batch: &mut Batch<'_>, all: &[usize]) -> Result<()> {
        let lanes = 1 + self.more_lanes.len();
        if lanes == 1 || all.len() < SIDE_BY_SIDE * lanes {
            return self.commit(batch, all);
        }
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); lanes];
        for index in all {
            if let Some((_, place)) = &batch.fits[*index] {
                parts[lane_of(batch.letters[*index].group.as_deref(), *place, lanes)].push(*index);
            }
        }
        let notes: Vec<Vec<Record>> = parts.iter().map(|part| self.notes(batch, part)).collect();
        let done: Vec<Part> = {
            let records: Vec<Vec<Sent<'_>>> =
                parts.iter().zip(&notes).map(|(p, n)| batch.together(p, n)).collect();
            let lanes = std::iter::once(&mut self.lane).chain(&mut self.more_lanes);
            std::thread::scope(|scope| {
                let running: Vec<_> = lanes
                    .zip(&records)
                    .map(|(lane, records)| scope.spawn(move || attempt(lane, records)))
                    .collect();
                let ended = |one: std::thread::ScopedJoinHandle<'_, Part>| {
                    one.join().unwrap_or_else(|_| {
                        Part::Failed(BrokerError::new(ErrorKind::Unknown, "send", "a lane ended early"))
                    })
                };
                running.into_iter().map(ended).collect()
            })
        };
        let mut failed = None;
        let mut again = Vec::new();
        for (part, done) in parts.into_iter().zip(done) {
            match done {
                Part::Committed(reports) => self.take_moved(batch, &part, &reports),
                // By itself, so that the one that is refused is known.
                Part::Refused(_) => again.push(part),
                Part::Failed(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if again.is_empty() {
            return Ok(());
        }
        self.fence()?;
        again.iter().try_for_each(|part| self.commit(batch, part))
    }

    fn marker(&self) -> Marker<'_> {
        Marker::new(&self.marks_topic, &self.source.id, &self.task.run, self.client.clock.now())
    }

    /// The marks of a part of a batch.
    fn notes(&self, batch: &Batch<'_>, part: &[usize]) -> Vec<Record> {
        let marker = self.marker();
        let note = |index: &usize| {
            let (_, place) = batch.fits[*index].as_ref()?;
            Some(marker.mark(*place, batch.letters[*index].seq))
        };
        part.iter().filter_map(note).collect()
    }

    fn take_moved(&mut self, batch: &mut Batch<'_>, part: &[usize], reports: &[Report]) {
        for (index, report) in part.iter().zip(reports) {
            if let Some((_, place)) = batch.fits[*index].take() {
                self.marks.add(place);
                self.held.remove(&place);
            }
            batch.fates[*index] = Some(Fate::Moved(Published { at: at(report) }));
        }
    }

    fn commit(&mut self, batch: &mut Batch<'_>, indexes: &[usize]) -> Result<()> {
        let open: Vec<usize> = indexes.iter().copied().filter(|index| batch.fits[*index].is_some()).collect();
        if open.is_empty() {
            return Ok(());
        }
        let notes = self.notes(batch, &open);
        let reports = match attempt(&self.lane, &batch.together(&open, &notes)) {
            Part::Committed(reports) => {
                self.take_moved(batch, &open, &reports);
                return Ok(());
            }
            Part::Refused(reports) => reports,
            Part::Failed(error) => {
                self.broken = true;
                return Err(error);
            }
        };
        let (copies, notes) = reports.split_at(open.len());
        let refusals = || notes.iter().chain(copies).filter_map(|report| report.as_ref().err().copied());
        // The client purges what waits behind a refused record: that says nothing of the purged ones.
        let refusal = refusals().find(|why| !why.purged()).or_else(|| refusals().next());
        let code = refusal.map_or(RDKafkaErrorCode::Unknown, |why| why.code);
        let noted = notes.iter().all(|report| report.as_ref().err().is_none_or(Undelivered::purged));
        let topic = if noted { &self.target.name } else { &self.marks_topic };
        let error = self.client.error(&format!("send to {topic}"), &KafkaError::MessageProduction(code));
        // A broker refuses a whole batch for one of its records: a refusal is believed only of a record that went
        // alone. Anything else is about the connection or the rights, and the transaction is aborted.
        let permanent = noted && copies.iter().any(|report| report.as_ref().is_err_and(Undelivered::refused));
        if !permanent {
            // The broker had ended the transaction for its age while it was written (K32): nothing of it is there.
            let ended = code == RDKafkaErrorCode::InvalidTransactionalState;
            self.broken |= ended;
            let kind =
                if ended || error.kind == ErrorKind::Unknown { ErrorKind::Unreachable } else { error.kind };
            return Err(BrokerError { kind, ..error });
        }
        // The next transaction on this producer would fail for its sequence numbers (kafka-real §5).
        self.fence()?;
        match open.as_slice() {
            [one] => {
                batch.drop_out(*one, Fate::Refused(error));
                Ok(())
            }
            more => {
                let (first, second) = more.split_at(more.len() / 2);
                self.commit(batch, first)?;
                self.commit(batch, second)
            }
        }
    }

    /// Copies without marks, each in a transaction of its own with a note that it was made: what proves it.
    pub(super) fn publish(&mut self, batch: &[Outgoing]) -> Result<Vec<Result<Published>>> {
        self.mend()?;
        if self.lane.is_plain() {
            return self.publish_plain(batch);
        }
        let mut answers = Vec::with_capacity(batch.len());
        for letter in batch {
            answers.push(self.publish_one(letter));
        }
        Ok(answers)
    }

    fn publish_one(&mut self, letter: &Outgoing) -> Result<Published> {
        let place = browse::place_of(&letter.position).map(|(_, place)| place);
        let Some(place) = place else {
            return Err(BrokerError::new(ErrorKind::Other, "send a copy", "the letter has no place"));
        };
        self.mend()?;
        let fit = self.fit(&letter.message, place)?;
        let note = self.marker().sent(place, letter.seq);
        let target = Arc::clone(&self.target.name);
        let reports = self.write(&[fit.sent(&target, &letter.message), note.sent()])?;
        if let Some(why) = reports.iter().find_map(|report| report.as_ref().err().copied()) {
            self.lane.abort();
            self.broken = true;
            let action = format!("send to {}", self.target.name);
            let error = self.client.error(&action, &KafkaError::MessageProduction(why.code));
            // Aborted: the copy is surely not there.
            let ended = why.code == RDKafkaErrorCode::InvalidTransactionalState;
            let kind =
                if ended || error.kind == ErrorKind::Unknown { ErrorKind::Unreachable } else { error.kind };
            return Err(BrokerError { kind, ..error });
        }
        if let Err(error) = self.lane.commit() {
            let error = fenced(&self.lane, error);
            return Err(self.went_wrong(error));
        }
        Ok(Published { at: reports.first().and_then(at) })
    }

    /// Marks letters as moved.
    pub(super) fn settle(&mut self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        self.mend()?;
        let places: Vec<Option<Place>> = receipts.iter().map(|receipt| self.held_place(receipt)).collect();
        let marker = self.marker();
        let mark = |place: &Place| marker.mark(*place, self.held.get(place).map_or(0, |held| held.seq));
        let records: Vec<Record> = places.iter().flatten().map(mark).collect();
        if !records.is_empty() {
            self.write_all(&records)?;
        }
        for place in places.iter().flatten() {
            self.marks.add(*place);
            self.held.remove(place);
        }
        Ok(places
            .iter()
            .map(|place| if place.is_some() { Settled::Settled } else { Settled::Stale })
            .collect())
    }

    /// How a copy is placed at the target, or why that would refuse it.
    pub(super) fn fit(&self, message: &Message, place: Place) -> Result<Fit> {
        let partition = partition(&self.target, message, place)?;
        let timestamp = match self.keeps_times {
            true => kept_time(&self.target, message, self.client.clock.now())?,
            // K16: never the old time, which retention would act on; it stands in a header.
            false => None,
        };
        Ok(Fit { partition, timestamp })
    }

    /// Where a claimed letter lies, if this claim of it still holds.
    fn held_place(&self, receipt: &Receipt) -> Option<Place> {
        let (claim, place) = place_of_receipt(receipt, &self.source.id)?;
        if claim == LOOKED {
            return Some(place);
        }
        self.held.get(&place).filter(|held| held.claim == claim).map(|_| place)
    }
}

/// Where a copy goes, by key if nowhere; or why the target would refuse it, which would fail its whole batch.
fn partition(target: &Target, message: &Message, place: Place) -> Result<Option<i32>> {
    let refuse = |code: &str, why: String| {
        Err(BrokerError::new(ErrorKind::Rejected, format!("send to {}", target.name), why).code(code))
    };
    let size = size(message);
    if size + OVERHEAD > target.max_bytes {
        let why = format!("the record takes about {} B, the topic {}", size + OVERHEAD, target.max_bytes);
        return refuse("MESSAGE_TOO_LARGE", why);
    }
    if target.compacted && message.key.is_none() {
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
    // By key as Java does it; without a key the partition it lay in, which keeps the order among such, where the
    // number means the same in both topics (K20).
    let first = || {
        let place: serde_json::Value =
            serde_json::from_str(message.headers.last_text(stamp::ORIGIN)?).ok()?;
        let known = target.origins.iter().any(|topic| place["topic"] == topic.as_str());
        let partition = i32::try_from(place["partition"].as_i64().filter(|_| known)?).ok()?;
        (0..target.partitions).contains(&partition).then_some(partition)
    };
    if !target.origins.is_empty()
        && let Some(partition) = first()
    {
        return Ok(Some(partition));
    }
    Ok(match message.key {
        Some(_) => None,
        None => target.same_partitions.then_some(place.partition),
    })
}

/// The message's first time, if the target would take it and keep it (K33).
fn kept_time(target: &Target, message: &Message, now: Time) -> Result<Option<i64>> {
    let Some(at) = message.headers.last_text(stamp::ORIGINAL_TIME).and_then(Time::parse) else {
        return Ok(None);
    };
    let age = now.since(at);
    let refuse = |setting: &str, bound: Duration| {
        let why = format!(
            "its time {} is older than {setting} of {}, {}",
            at.rfc3339(),
            target.name,
            crate::clock::rough(bound)
        );
        let error = BrokerError::new(ErrorKind::Rejected, format!("send to {}", target.name), why);
        Err(error.code("INVALID_TIMESTAMP").hint("without --keep-timestamp it is sent with the time of now"))
    };
    match (target.before_max, target.retention) {
        (Some(bound), _) if age > bound => refuse("message.timestamp.before.max.ms", bound),
        (_, Some(bound)) if age > bound => refuse("retention.ms", bound),
        // An hour ahead is what brokers allow; before 1970 there is no time.
        _ if at.millis() <= 0 || at > now.plus(Duration::from_secs(3_000)) => {
            let why = format!("its time {} cannot be kept", at.rfc3339());
            let error = BrokerError::new(ErrorKind::Rejected, format!("send to {}", target.name), why);
            Err(error.code("INVALID_TIMESTAMP"))
        }
        _ => Ok(Some(at.millis())),
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
