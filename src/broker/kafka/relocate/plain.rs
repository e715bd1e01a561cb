//! Moving without transactions: copies by an idempotent producer, each counted by its own answer, then the marks
//! (protocol §6, "Kafka without"). Nothing fences such a run, so it looks whether it still holds the lock; and a copy
//! whose answer was lost is looked for in the target, from where the run began.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;

use super::{Inner, Session};
use crate::broker::kafka::browse::{self, Extent, Reading, Step, Topic};
use crate::broker::kafka::client::PATIENCE;
use crate::broker::kafka::producer::Sent;
use crate::broker::{BrokerError, ErrorKind, Outgoing, Proof, Published, Result, Want};
use crate::letter::Place;
use crate::stamp;

/// How often it is asked whether the lock is still ours.
pub(super) const WATCH: Duration = Duration::from_secs(1);

/// What tells a run without a fence that it was taken over, and where its copies are.
#[derive(Default)]
pub(super) struct Watch {
    /// When the marks were last looked at.
    looked: Option<Instant>,
    /// Records that we have written into them since they were read.
    own: usize,
    /// Copies of this run that were found in the target, by number.
    found: BTreeMap<u64, Place>,
    /// From where on the target was not searched yet.
    searched: BTreeMap<i32, i64>,
}

impl Watch {
    /// So many records went into the marks.
    pub(super) fn wrote(&mut self, records: usize) {
        self.own += records;
    }

    /// The marks were read to their end.
    pub(super) fn read(&mut self) {
        self.own = 0;
        self.looked = Some(Instant::now());
    }
}

impl Session {
    /// How far the target is written, where copies may have to be looked for.
    pub(super) async fn ends_of_target(&self) -> Result<Vec<Extent>> {
        let Some(inner) = self.inner.as_ref().filter(|inner| inner.marks.began.is_some()) else {
            return Ok(Vec::new());
        };
        let (client, target) = (inner.client.clone(), inner.target.name.to_string());
        Topic::read(&client, &target).await?.extents(&client).await
    }
}

impl Inner {
    /// Does this run still hold the lock? Asked at most every `every`, and only where nothing fences it.
    pub(super) fn look_at_lock(&mut self, every: Duration) -> Result<()> {
        if !self.lane.is_plain() {
            return Ok(());
        }
        if self.watch.looked.is_some_and(|looked| looked.elapsed() < every) {
            return self.mine();
        }
        let topic = &self.marks_topic;
        let (_, end) = self
            .client
            .asking
            .fetch_watermarks(topic, 0, PATIENCE)
            .map_err(|error| self.client.error(&format!("read {topic}"), &error))?;
        // Whatever was written there since is ours: nobody took over.
        if i64::try_from(self.watch.own).is_ok_and(|own| end - self.marks.end == own) {
            self.marks.end = end;
            self.watch.read();
            return self.mine();
        }
        self.read_marks(false)
    }

    /// Sends copies, each counted by its own answer.
    pub(super) fn publish_plain(&mut self, batch: &[Outgoing]) -> Result<Vec<Result<Published>>> {
        self.look_at_lock(WATCH)?;
        let mut answers: Vec<Option<Result<Published>>> = batch.iter().map(|_| None).collect();
        let mut copies: Vec<(usize, Sent<'_>)> = Vec::with_capacity(batch.len());
        let topic = Arc::clone(&self.target.name);
        for (index, letter) in batch.iter().enumerate() {
            match browse::place_of(&letter.position) {
                Some((_, place)) => match self.fit(&letter.message, place) {
                    Ok(fit) => copies.push((index, fit.sent(&topic, &letter.message))),
                    Err(error) => answers[index] = Some(Err(error)),
                },
                None => {
                    let why = "the letter has no place";
                    answers[index] = Some(Err(BrokerError::new(ErrorKind::Other, "send a copy", why)));
                }
            }
        }
        let records: Vec<Sent<'_>> = copies.iter().map(|(_, copy)| *copy).collect();
        let sent = self.lane.send_each(&records);
        let rejected = |answer: &Result<(i32, i64)>| {
            answer.as_ref().is_err_and(|error| error.kind == ErrorKind::Rejected)
        };
        // A broker refuses a whole batch for one of its records: each is believed only of a record that went alone.
        let together = sent.iter().filter(|answer| rejected(answer)).count() > 1;
        for ((index, copy), answer) in copies.iter().zip(sent) {
            let answer = match together && rejected(&answer) {
                true => self.lane.send_each(&[*copy]).pop().unwrap_or(answer),
                false => answer,
            };
            let at = |(partition, offset)| Published { at: Some(format!("p{partition}o{offset}")) };
            answers[*index] = Some(answer.map(at));
        }
        self.broken |= self.lane.is_over();
        let silent = || BrokerError::new(ErrorKind::Unknown, "send a copy", "no answer came");
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(silent()))).collect())
    }

    /// What can be said of these letters of this run.
    pub(super) fn prove(&mut self, asked: &[(u64, Option<Place>)], ends: &[Extent]) -> Result<Vec<Proof>> {
        let marked = |inner: &Self, place: &Option<Place>| {
            place.as_ref().is_some_and(|place| inner.marks.by_run(*place))
        };
        // A part of this run had no transactions: a copy may be there without a mark, and no fence keeps it out.
        let search = self.marks.began.is_some();
        if search && asked.iter().any(|(_, place)| !marked(self, place)) {
            self.search(ends)?;
        }
        let proof = |(seq, place): &(u64, Option<Place>)| match place {
            _ if marked(self, place) => Proof::Arrived(Published::default()),
            Some(_) if search => match self.watch.found.get(seq) {
                Some(at) => {
                    Proof::Arrived(Published { at: Some(browse::letter_id(*at).as_str().to_owned()) })
                }
                None => Proof::Unknown,
            },
            Some(_) => Proof::Absent,
            None => Proof::Unknown,
        };
        Ok(asked.iter().map(proof).collect())
    }

    /// Looks for copies of this run in the target, from where it began or the last search ended (m26: by run and
    /// number, never by event id).
    fn search(&mut self, ends: &[Extent]) -> Result<()> {
        let Some(began) = &self.marks.began else { return Ok(()) };
        let action = format!("look for copies in {}", self.target.name);
        let from = |extent: &Extent| {
            let began = began.ends.iter().find(|(partition, _)| *partition == extent.partition);
            let searched = self.watch.searched.get(&extent.partition).copied();
            // A partition that was added since is searched from its beginning.
            let low = searched.or(began.map(|(_, offset)| *offset)).unwrap_or(extent.low).max(extent.low);
            Extent { low, ..*extent }
        };
        let extents: Vec<Extent> = ends.iter().map(from).collect();
        let mine = format!("{}/", self.task.run);
        let mut reading = Reading::begin(&self.client, &self.target.name, &extents, "read_committed")?;
        let topic = Topic { name: self.target.name.to_string(), ..self.source.clone() };
        let mut heard = Instant::now();
        while !reading.at_end() {
            match reading.step(Duration::from_millis(50))? {
                Step::End => break,
                Step::Nothing if heard.elapsed() > PATIENCE => {
                    return Err(self.client.silence(&action));
                }
                Step::Nothing => {}
                Step::Record(record) => {
                    heard = Instant::now();
                    let copy = browse::letter(&topic, &record, Want::default());
                    let number = copy.message.headers.last_text(stamp::RUN);
                    let number = number.and_then(|text| text.strip_prefix(&mine)?.parse().ok());
                    if let (Some(number), Some(place)) = (number, copy.facts.place) {
                        self.watch.found.insert(number, place);
                    }
                }
            }
        }
        self.watch.searched = extents.iter().map(|extent| (extent.partition, extent.end)).collect();
        Ok(())
    }
}
