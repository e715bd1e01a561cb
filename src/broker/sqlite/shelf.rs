//! A tier carried by hand: leases for what is taken, the copy and the removal in two transactions. The relay
//! of this broker moves in one ([`super::serve`]); this is the path of brokers that cannot, kept whole here
//! so that it is tested where every copy can be counted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::blocking;
use super::file::{Doing, Place, begin, commit};
use super::letters;
use super::queues::{self, Queue};
use super::serve::{Route, next_due, stamped, tier_state};
use crate::broker::by_hand::{Due, Shelf, all_failed};
use crate::broker::{BrokerError, ErrorKind, Outgoing, Published, Receipt, Result, Settled, TierState};
use crate::clock::Time;
use crate::letter::{Headers, Message, Value};
use crate::proof::mutation::mutated;

/// How long a message that was taken is hidden from others.
const HIDE: i64 = 30_000;

/// One tier, in the hands of one relay.
pub(super) struct Tier {
    place: Place,
    db: Connection,
    route: Route,
    owner: String,
}

/// A letter under a receipt.
fn parse(receipt: &Receipt) -> Option<(i64, &str)> {
    let (id, token) = receipt.0.strip_prefix('m')?.split_once('.')?;
    Some((id.parse().ok()?, token))
}

impl Tier {
    pub(super) fn open(place: &Place, route: Route, owner: &str) -> Result<Self> {
        let db = place.write_existing()?;
        queues::get(&db, &route.tier, &place.shown)?;
        queues::get(&db, &route.to, &place.shown)?;
        // New at every start: a stable name would take the claims of another self for its own (r12).
        let owner = if mutated("r12") { "relay".to_owned() } else { owner.to_owned() };
        Ok(Self { place: place.clone(), db, route, owner })
    }

    fn queue(&self, db: &Connection) -> Result<Queue> {
        queues::get(db, &self.route.tier, &self.place.shown)
    }

    pub(super) fn take(&mut self, limit: usize) -> Result<Vec<Due>> {
        let action = || format!("take what is due in {}", self.route.tier);
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        let tier = self.queue(&tx)?;
        let (mut busy, mut held) = (HashSet::<Vec<u8>>::new(), HashSet::<i64>::new());
        {
            let mut leases = tx
                .prepare_cached("SELECT letter, key, owner FROM lease WHERE queue = ?1 AND until > ?2")
                .doing(action)?;
            let mut rows = leases.query(params![tier.id, now]).doing(action)?;
            while let Some(row) = rows.next().doing(action)? {
                if mutated("r12")
                    && row.get::<_, Option<String>>(2).doing(action)?.as_ref() == Some(&self.owner)
                {
                    continue;
                }
                held.insert(row.get(0).doing(action)?);
                if !mutated("r03") {
                    busy.extend(row.get::<_, Option<Vec<u8>>>(1).doing(action)?);
                }
            }
        }
        let token: String =
            tx.query_row("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0)).doing(action)?;
        let mut taken = Vec::new();
        {
            let mut query = tx
                .prepare_cached(
                    "SELECT letter.id, letter.key, letter.due, letter.entered_at, letter.headers,
                            coalesce(lease.receives, 0)
                     FROM letter LEFT JOIN lease ON lease.letter = letter.id
                     WHERE letter.queue = ?1 AND letter.due > 0 AND letter.due <= ?2
                     ORDER BY letter.due, letter.id",
                )
                .doing(action)?;
            let mut rows = query.query(params![tier.id, now]).doing(action)?;
            while let Some(row) = rows.next().doing(action)?
                && taken.len() < limit
            {
                let id: i64 = row.get(0).doing(action)?;
                let key: Option<Vec<u8>> = row.get(1).doing(action)?;
                if held.contains(&id) || key.as_ref().is_some_and(|key| busy.contains(key)) {
                    continue;
                }
                let json = row.get_ref(4).and_then(|value| Ok(value.as_bytes()?)).doing(action)?;
                let mut headers = Headers::new();
                if let Some(json) = stamped(json, &self.route, row.get(3).doing(action)?) {
                    // What the copy's headers are to be, as the row has them: no other part of it is touched.
                    headers.push("json", Value::from_text(json));
                }
                let outgoing = Outgoing {
                    packed: None,
                    seq: u64::try_from(id).unwrap_or_default(),
                    receipt: Receipt(format!("m{id}.{token}")),
                    position: letters::position(tier.id, id),
                    attempt: 1,
                    first_intent: Time::from_millis(now),
                    message: Message { headers, ..Message::default() },
                    group: key.map(|key| String::from_utf8_lossy(&key).into_owned()),
                };
                let at = Some(Time::from_millis(row.get(2).doing(action)?));
                taken.push(Due { outgoing, at, again: row.get::<_, i64>(5).doing(action)? > 0 });
            }
        }
        for due in &taken {
            let Some((id, token)) = parse(&due.outgoing.receipt) else { continue };
            tx.prepare_cached(
                "INSERT INTO lease (letter, queue, key, token, owner, until, receives)
                 SELECT id, queue, key, ?2, ?3, ?4, 1 FROM letter WHERE id = ?1
                 ON CONFLICT (letter) DO UPDATE SET token = ?2, owner = ?3, until = ?4, receives = receives + 1",
            )
            .and_then(|mut take| take.execute(params![id, token, self.owner, now + HIDE]))
            .doing(action)?;
        }
        commit(tx, action)?;
        Ok(taken)
    }

    pub(super) fn publish(&mut self, batch: &[Outgoing]) -> Result<Vec<Result<Published>>> {
        let action = || format!("send {} from {} to {}", batch.len(), self.route.tier, self.route.to);
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        let target = queues::get(&tx, &self.route.to, &self.place.shown)?;
        let mut answers = Vec::with_capacity(batch.len());
        for outgoing in batch {
            // The moment of sending: is it still ours?
            let ours = match parse(&outgoing.receipt) {
                Some((id, token)) => tx
                    .prepare_cached(
                        "SELECT EXISTS (SELECT 1 FROM lease WHERE letter = ?1 AND token = ?2 AND until > ?3)",
                    )
                    .and_then(|mut query| query.query_row(params![id, token, now], |row| row.get(0)))
                    .doing(action)
                    .map(|ours: bool| ours.then_some(id))?,
                None => None,
            };
            let Some(id) = ours else {
                answers.push(Err(BrokerError::new(ErrorKind::Stale, action(), "its claim has ended")));
                continue;
            };
            let headers = outgoing.message.headers.first_text("json");
            let copy = letters::copy_row(&tx, id, &target, 0, now, headers)?;
            answers.push(Ok(Published { at: Some(letters::letter_id(copy).as_str().to_owned()) }));
        }
        commit(tx, action)?;
        Ok(answers)
    }

    pub(super) fn settle(&mut self, batch: &[Receipt]) -> Result<Vec<Settled>> {
        let action = || format!("settle {} of {}", batch.len(), self.route.tier);
        let tx = begin(&self.db, action)?;
        let mut settled = Vec::with_capacity(batch.len());
        for receipt in batch {
            let gone = match parse(receipt) {
                Some((id, token)) => tx
                    .prepare_cached(
                        "DELETE FROM letter WHERE id = ?1
                         AND EXISTS (SELECT 1 FROM lease WHERE letter = ?1 AND token = ?2)",
                    )
                    .and_then(|mut delete| delete.execute(params![id, token]))
                    .doing(action)?,
                None => 0,
            };
            settled.push(if gone == 1 { Settled::Settled } else { Settled::Stale });
        }
        commit(tx, action)?;
        Ok(settled)
    }

    /// Ends claims. `less` is 1 for what counts as never taken, 0 for what the next one has to know of.
    fn give_back(&mut self, batch: &[Receipt], less: i64) -> Result<()> {
        let action = || format!("give back {} of {}", batch.len(), self.route.tier);
        let tx = begin(&self.db, action)?;
        for (id, token) in batch.iter().filter_map(parse) {
            tx.prepare_cached(
                "UPDATE lease SET token = NULL, owner = NULL, until = 0, receives = receives - ?3
                 WHERE letter = ?1 AND token = ?2",
            )
            .and_then(|mut update| update.execute(params![id, token, less]))
            .doing(action)?;
        }
        commit(tx, action)
    }
}

/// The tier behind a lock: see the mover.
pub(super) struct Locked {
    tier: Arc<Mutex<Tier>>,
    name: String,
}

impl Locked {
    pub(super) fn new(tier: Tier) -> Self {
        let name = tier.route.tier.clone();
        Self { tier: Arc::new(Mutex::new(tier)), name }
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tier) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let tier = self.tier.clone();
        blocking(move || work(&mut tier.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

#[async_trait]
impl Shelf for Locked {
    fn tier(&self) -> &str {
        &self.name
    }

    async fn take(&mut self, limit: usize) -> Result<Vec<Due>> {
        self.with(move |tier| tier.take(limit)).await
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        let (count, batch) = (batch.len(), batch.to_vec());
        match self.with(move |tier| tier.publish(&batch)).await {
            Ok(answers) => answers,
            Err(error) => all_failed(count, &error),
        }
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        let (count, batch) = (batch.len(), batch.to_vec());
        match self.with(move |tier| tier.settle(&batch)).await {
            Ok(settled) => settled,
            Err(error) => (0..count).map(|_| Settled::Failed(error.clone())).collect(),
        }
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        let batch = batch.to_vec();
        self.with(move |tier| tier.give_back(&batch, 1)).await
    }

    async fn leave(&mut self, batch: &[Receipt]) -> Result<()> {
        let batch = batch.to_vec();
        self.with(move |tier| tier.give_back(&batch, 0)).await
    }

    async fn next_due(&mut self) -> Result<Option<Time>> {
        self.with(|tier| {
            let now = tier.place.now();
            next_due(&tier.db, &tier.route, now).map(|due| due.map(Time::from_millis))
        })
        .await
    }

    async fn state(&mut self) -> Result<TierState> {
        self.with(|tier| tier_state(&tier.db, &tier.route, tier.place.now())).await
    }

    async fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
