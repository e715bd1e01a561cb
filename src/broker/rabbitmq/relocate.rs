//! One run on one dead-letter queue: the lock, letters held in order, copies sent, originals removed behind
//! the queue's own answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind};

use super::connect::{Link, close_channel};
use super::feed::{self, Feed};
use super::letters::{Held, Letters};
use super::lock;
use super::look::Look;
use super::management::Management;
use super::publish::Publisher;
use super::reading::{Again, Left, Out, Reading};
use super::refused::answer;
use super::routes;
use super::settings::Settings;
use super::version::Version;
use super::wire;
use crate::broker::{
    Ask, BrokerError, Claimed, Claims, ErrorKind, Holding, Intent, Missing, Mover, Outgoing, Proof,
    Published, Receipt, Result, Settled, Task,
};
use crate::letter::{Position, RawLetter};

/// The session of one run.
pub(super) struct Run {
    settings: Settings,
    version: Version,
    task: Task,
    queue: String,
    limit: Option<u32>,
    /// Holds the lock: without it nothing can be published.
    sending: Link,
    publisher: Publisher,
    reading: Option<Reading>,
    /// Counts the readings: a receipt of an earlier one is worth nothing.
    generation: u32,
    /// Counts the claims: a receipt of before a release is worth nothing either (m21).
    claims: u64,
    /// Most equal letters that the manifest was seen to name.
    equal: u32,
    refailed: HashSet<u64>,
    /// Letters of which this session sent a copy: what died of those before is met late, where it lies in the queue.
    sent: HashSet<u64>,
    notes: Vec<String>,
}

/// What a run starts from.
pub(super) struct Start<'a> {
    pub settings: &'a Settings,
    pub version: Version,
    pub management: Option<&'a Management>,
    pub task: &'a Task,
    pub queue: &'a str,
    /// An exchange that copies go to, if that was asked for.
    pub exchange: Option<&'a str>,
    /// Delivery limit that counts, if any.
    pub limit: Option<u32>,
}

impl Run {
    /// Takes the lock, and looks whether dead-letter queue and target are there. Goes on with what a look has left,
    /// if that is still held.
    ///
    /// # Errors
    /// `Locked` with the holder, `NotFound`, `Denied`.
    pub async fn begin(start: Start<'_>, held: &mut Option<Box<dyn Holding>>) -> Result<Self> {
        let Start { settings, version, management, task, queue, exchange, limit } = start;
        let same = Look::identity(&settings.address.vhost, queue);
        if !task.snapshot.is_empty() && task.snapshot != same {
            return Err(BrokerError::new(
                ErrorKind::Stale,
                format!("run on {queue}"),
                format!("the letters were selected in {}, and this is {same}", task.snapshot),
            ));
        }
        let sending = Link::open(settings, &format!("redrive run {} of {}", task.run, task.who)).await?;
        let mut notes = Vec::new();
        if let Err(error) = lock::take(&sending, queue, task, management).await {
            if error.kind != ErrorKind::Denied {
                sending.close().await;
                return Err(error);
            }
            notes.push(format!(
                "no lock on {queue}: the user may not create {}; see to it that no other run works on it",
                lock::name(queue)
            ));
        }
        let checking = sending.channel().await?;
        match exchange {
            None => is_there(&checking, &task.target).await?,
            Some(exchange) => exists(&checking, exchange).await?,
        }
        close_channel(&checking).await?;
        let wait = settings.publish_timeout;
        let publisher = Publisher::open(&sending, &task.target, exchange, version, wait).await?;
        let mut run = Self {
            settings: settings.clone(),
            version,
            task: task.clone(),
            queue: queue.to_owned(),
            limit,
            sending,
            publisher,
            reading: None,
            generation: 0,
            claims: 0,
            equal: 1,
            refailed: HashSet::new(),
            sent: HashSet::new(),
            notes,
        };
        match Left::take(held, queue).await {
            Some(reading) => {
                run.generation += 1;
                run.reading = Some(reading);
            }
            None => run.read_anew().await?,
        }
        Ok(run)
    }

    async fn read_anew(&mut self) -> Result<()> {
        let link = Link::open(&self.settings, &format!("redrive run {} reads", self.task.run)).await?;
        let link = Arc::new(link);
        let feed = Feed::open(&link, &self.queue, false).await?;
        self.generation += 1;
        self.reading = Some(Reading::of(link, feed, Letters::of(&self.queue)));
        Ok(())
    }

    /// The reading, opened anew if its connection broke: what it held is in the queue again.
    async fn reading(&mut self) -> Result<&mut Reading> {
        if self.reading.as_ref().is_none_or(|reading| !reading.feed.alive()) {
            if !self.sending.alive() {
                return Err(self.lock_lost());
            }
            if let Some(broken) = self.reading.take() {
                broken.abandon().await;
            }
            self.read_anew().await?;
        }
        self.reading.as_mut().ok_or_else(|| {
            BrokerError::new(ErrorKind::Unreachable, format!("read {}", self.queue), "not connected")
        })
    }

    fn lock_lost(&self) -> BrokerError {
        BrokerError::new(
            ErrorKind::Fenced,
            format!("hold {}", self.queue),
            "the connection that held its lock is gone",
        )
        .hint(format!("redrive resume {}", self.task.run))
    }

    /// This letter's number, if it is wanted: by its own place among equal letters, or by another's that is
    /// still open, for they are interchangeable.
    fn wanted(
        ask: &Ask<'_>,
        next: &HashMap<&Position, u64>,
        held: &Held,
        most: u32,
        claimed: &HashSet<u64>,
    ) -> Option<u64> {
        let open = |seq: u64| (!claimed.contains(&seq)).then_some(seq);
        // Letters come in the order in which they are asked for, as long as none was skipped: so those are
        // looked at before all that is wanted.
        if let Some(seq) = next.get(&held.letter.position).copied().and_then(open) {
            return Some(seq);
        }
        if let Some(seq) = (ask.wanted)(&held.letter.position).and_then(open) {
            return Some(seq);
        }
        let (identity, occurrence) = held.equal?;
        (1..=most.max(occurrence))
            .filter(|other| *other != occurrence)
            .find_map(|other| (ask.wanted)(&wire::position(&identity, other)).and_then(open))
    }

    /// The delivery tag, if the receipt is of this reading, not given back since, and still held.
    fn tag(&self, receipt: &Receipt) -> Option<u64> {
        let mut parts = receipt.0.split('.').map(|part| part.parse::<u64>().ok());
        let (generation, claim, tag) = (parts.next()??, parts.next()??, parts.next()??);
        let reading = self.reading.as_ref()?;
        let out = reading.out.get(&tag)?;
        let valid = generation == u64::from(self.generation) && out.claim == claim && reading.feed.holds(tag);
        valid.then_some(tag)
    }
}

#[async_trait]
impl Mover for Run {
    async fn claim(&mut self, ask: &Ask<'_>) -> Result<Claims> {
        for wanted in ask.next {
            let occurrence = wanted.position.as_str().split_once('.').and_then(|(_, n)| n.parse().ok());
            self.equal = self.equal.max(occurrence.unwrap_or(1));
        }
        let (most, limit) = (self.equal, self.limit);
        let own = format!("{}/", self.task.run);
        let mut claims = Claims::default();
        let mut refailed: Vec<u64> = Vec::new();
        let mut got: Vec<(u64, u64, RawLetter)> = Vec::with_capacity(ask.limit);
        self.claims += 1;
        let claim = self.claims;
        let next: HashMap<&Position, u64> =
            ask.next.iter().map(|wanted| (&wanted.position, wanted.seq)).collect();
        let queue: Arc<str> = self.queue.as_str().into();
        let reading = self.reading().await?;
        for wanted in ask.next.iter().take(ask.limit) {
            let again = reading.released.iter().find(|(_, out)| out.seq == wanted.seq).map(|(tag, _)| *tag);
            if let Some(tag) = again
                && let Some(Out { seq, again, .. }) = reading.released.remove(&tag)
                && let Some(letter) = again.letter(&queue)
            {
                let again = Again::Whole(Box::new(letter.clone()));
                reading.out.insert(tag, Out { seq, claim, again });
                got.push((seq, tag, letter));
            }
        }
        while got.len() < ask.limit {
            let mut held = match reading.at_hand()? {
                Some(held) => held,
                None => {
                    let Some(delivery) = reading.feed.next().await? else {
                        claims.exhausted = true;
                        break;
                    };
                    let held = reading.letters.take(delivery);
                    if let Some(seq) = reading.note(&held, &own, limit) {
                        refailed.push(seq);
                        continue;
                    }
                    held
                }
            };
            if let Some(seq) = Self::wanted(ask, &next, &held, most, &reading.claimed) {
                reading.claimed.insert(seq);
                reading.out.insert(held.tag, Out { seq, claim, again: Again::from(&mut held) });
                got.push((seq, held.tag, held.letter));
            }
        }
        if claims.exhausted {
            let open = ask.next.iter().filter(|wanted| !reading.claimed.contains(&wanted.seq));
            claims.missing = open.map(|wanted| (wanted.seq, Missing::NotSeen)).collect();
        }
        for (seq, _, letter) in &got {
            self.publisher.learn(*seq, letter);
        }
        let generation = self.generation;
        claims.got = got
            .into_iter()
            .map(|(seq, tag, letter)| Claimed {
                seq,
                receipt: Receipt(format!("{generation}.{claim}.{tag}")),
                letter,
            })
            .collect();
        self.refailed.extend(refailed);
        Ok(claims)
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        self.step(batch, &[]).await.0
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        self.step(&[], batch).await.1
    }

    /// Side by side: copies go out on one connection; on the other one letters are settled, and those that have
    /// come are made ready for the next claim while the confirms are waited for.
    async fn step(
        &mut self,
        publish: &[Outgoing],
        settle: &[Receipt],
    ) -> (Vec<Result<Published>>, Vec<Settled>) {
        let tags: Vec<Option<u64>> = settle.iter().map(|receipt| self.tag(receipt)).collect();
        let lost = (!self.sending.alive()).then(|| self.lock_lost());
        let (own, limit) = (format!("{}/", self.task.run), self.limit);
        self.sent.extend(publish.iter().map(|copy| copy.seq));
        let Self { publisher, sending, reading, refailed, .. } = self;
        let mut settled = Vec::new();
        let settling = async {
            let held: Vec<u64> = tags.iter().copied().flatten().collect();
            let Some(reading) = reading.as_mut() else { return Ok(()) };
            for tag in &held {
                reading.at_limit.remove(tag);
                settled.extend(reading.out.remove(tag).map(|out| out.seq));
            }
            if !held.is_empty() {
                reading.feed.settle(&held).await?;
            }
            // A broken channel is noticed by the next claim: what is settled is settled.
            let mut taken = 0u32;
            while let Ok(Some(delivery)) = reading.feed.arrived_by_now() {
                let held = reading.letters.take(delivery);
                match reading.note(&held, &own, limit) {
                    Some(seq) => {
                        refailed.insert(seq);
                    }
                    None => reading.waiting.push_back(held),
                }
                taken += 1;
                if taken.is_multiple_of(64) {
                    tokio::task::yield_now().await;
                }
            }
            while reading.unpack_ahead() {
                taken += 1;
                if taken.is_multiple_of(64) {
                    tokio::task::yield_now().await;
                }
            }
            Ok::<(), BrokerError>(())
        };
        let publishing = async {
            match lost {
                _ if publish.is_empty() => Vec::new(),
                Some(lost) => publish.iter().map(|_| Err(lost.clone())).collect(),
                None => publisher.send(sending, publish).await,
            }
        };
        let (published, outcome) = tokio::join!(publishing, settling);
        settled.into_iter().for_each(|seq| self.publisher.forget(seq));
        let settled = tags.iter().map(|tag| match (tag, &outcome) {
            (None, _) => Settled::Stale,
            (Some(_), Ok(())) => Settled::Settled,
            (Some(_), Err(error)) => Settled::Failed(error.clone()),
        });
        (published, settled.collect())
    }

    /// Stays held until the end: giving single letters back puts them to the tail on some queue types, and
    /// closing gives all of them back in order.
    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        for receipt in batch {
            if let Some(tag) = self.tag(receipt)
                && let Some(reading) = self.reading.as_mut()
                && let Some(out) = reading.out.remove(&tag)
            {
                reading.released.insert(tag, out);
            }
        }
        Ok(())
    }

    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        Ok(intents
            .iter()
            .map(|intent| {
                if self.refailed.contains(&intent.seq) {
                    Proof::Arrived(Published::default())
                } else {
                    // Browsing the target disturbs it, and a miss says nothing: consumers take letters out.
                    Proof::Unknown
                }
            })
            .collect())
    }

    async fn renew(&mut self, _held: &[Receipt]) -> Result<()> {
        if self.sending.alive() { Ok(()) } else { Err(self.lock_lost()) }
    }

    async fn refailed(&mut self) -> Result<Option<u64>> {
        let own = format!("{}/", self.task.run);
        let limit = self.limit;
        if let Some(reading) = self.reading.as_mut().filter(|reading| reading.feed.alive()) {
            for delivery in reading.feed.newly().await? {
                let held = reading.letters.take(delivery);
                let seq = reading.note(&held, &own, limit);
                match seq {
                    Some(seq) => {
                        self.refailed.insert(seq);
                    }
                    // Somebody else's, or one of ours that came back late: the next claim sees it.
                    None => reading.waiting.push_back(held),
                }
            }
        }
        Ok(Some(self.refailed.intersection(&self.sent).count() as u64))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    async fn end(mut self: Box<Self>) -> Result<()> {
        let ended = match self.reading.take() {
            Some(reading) => reading.end(&self.queue, self.limit, self.version).await,
            None => Ok(()),
        };
        self.publisher.close().await;
        self.sending.close().await;
        ended
    }
}

/// Looks whether the queue that copies go to is there, by a passive declare.
pub(super) async fn is_there(channel: &Channel, target: &str) -> Result<()> {
    let sending = |error| BrokerError { action: format!("send to {target}"), ..error };
    feed::ready(channel, target).await.map(drop).map_err(sending)
}

/// Looks whether an exchange is there, by a passive declare.
pub(super) async fn exists(channel: &Channel, exchange: &str) -> Result<()> {
    let action = || format!("send to exchange {exchange}");
    let name = wire::short(exchange).map_err(|why| BrokerError::new(ErrorKind::NotFound, action(), why))?;
    let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
    let declare = channel.exchange_declare(name, ExchangeKind::Direct, options, FieldTable::default());
    match answer(action(), exchange, declare).await {
        Err(error) if error.kind == ErrorKind::NotFound => Err(routes::no_exchange(exchange)),
        other => other,
    }
}
