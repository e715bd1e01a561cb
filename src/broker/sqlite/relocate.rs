//! Moving letters: the lock of a dead-letter queue, claims as leases, and both paths of the protocol.
//!
//! Every transaction of a run first asks whether its epoch still holds (protocol §8): after a takeover a
//! predecessor cannot send or remove anything, so what has no mark did not arrive and never will.

mod claim;
mod fold;
mod look;
mod moved;
mod together;
mod trim;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::file::{Doing, FOLD_AFTER, FOLD_AFTER_AT_EASE, Place, begin, commit, fold_after};
use super::letters::{self, Written};
use super::lock::{self, same_queue, still_ours};
use super::queues::{self, Queue};
use super::{Sqlite, blocking, kind};
use crate::broker::{
    Ask, BrokerError, Claims, ErrorKind, Fate, Intent, Looker, Mover, Outgoing, Packed, Proof, Published,
    Receipt, Relocate, Result, Settled, Task, Wanted,
};
use crate::clock::Time;
use crate::letter::Value;
use crate::proof::mutation::mutated;
use crate::stamp;
use crate::topology::Channel;

use fold::Fold;

/// A batch of fewer letters is a small one.
const SMALL: usize = 500;

#[async_trait]
impl Relocate for Sqlite {
    async fn begin(&self, channel: &Channel, task: &Task) -> Result<Box<dyn Mover>> {
        let place = self.place.clone();
        let name = kind::names(channel).dead_letter;
        let task = task.clone();
        blocking(move || {
            let session = Session::begin(place, &name, &task)?;
            Ok(Box::new(Held(Arc::new(Mutex::new(session)))) as Box<dyn Mover>)
        })
        .await
    }

    async fn target(&self, channel: &Channel) -> Result<()> {
        let place = self.place.clone();
        let target = kind::names(channel).return_to;
        blocking(move || {
            let Some(db) = place.read()? else { return Err(place.absent()) };
            queues::get(&db, &target, &place.shown).map(drop)
        })
        .await
    }
}

/// The session behind a lock: a call whose future was dropped still ends before the next one begins.
struct Held(Arc<Mutex<Session>>);

impl Held {
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let session = self.0.clone();
        blocking(move || work(&mut session.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

/// How large the batches of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batches {
    Unknown,
    Small,
    Large,
}

struct Session {
    place: Place,
    db: Connection,
    queue: Queue,
    target: Queue,
    run: String,
    owner: String,
    epoch: i64,
    claim_for: i64,
    /// Who folds the log of a run that moves much; it is folded often, and each time soon done, where there is none.
    fold: Option<Fold>,
    batches: Batches,
    /// Letters up to here have been asked whether they are of this run and died again.
    seen_again: i64,
    refailed: u64,
    moved: moved::Moved,
}

impl Session {
    fn begin(place: Place, name: &str, task: &Task) -> Result<Self> {
        let action = || format!("begin run {} on {name}", task.run);
        let db = place.write_existing()?;
        let now = place.now();
        let claim_for = i64::try_from(task.claim_for.as_millis()).unwrap_or(i64::MAX);
        let tx = begin(&db, action)?;
        let queue = queues::get(&tx, name, &place.shown)?;
        let target = queues::get(&tx, &task.target, &place.shown)?;
        same_queue(&tx, &queue, &task.snapshot)?;
        let epoch = lock::acquire(&tx, &queue, task, now)?;
        // A resume counts what died again since its run first began.
        tx.execute(
            "INSERT INTO run SELECT ?1, ?2, (SELECT coalesce(max(id), 0) FROM letter), ?3
             ON CONFLICT (run) DO NOTHING",
            params![task.run, queue.id, now],
        )
        .doing(action)?;
        let seen_again = tx
            .query_row("SELECT after FROM run WHERE run = ?1", [&task.run], |row| row.get(0))
            .doing(action)?;
        commit(tx, action)?;
        // The tier's own trigger lets a letter wait there.
        if target.delay.is_none() {
            only_ours(&db).doing(action)?;
        }
        Ok(Self {
            place,
            db,
            queue,
            target,
            run: task.run.clone(),
            owner: task.owner.clone(),
            epoch,
            claim_for,
            fold: None,
            batches: Batches::Unknown,
            seen_again,
            refailed: 0,
            moved: moved::Moved::default(),
        })
    }

    fn transfer(&mut self, batch: &[Sending<'_>]) -> Result<Vec<Fate>> {
        self.fold_as_fits(batch.len())?;
        match self.move_together(batch) {
            Ok(Some(fates)) => {
                self.fold();
                return Ok(fates);
            }
            // Not all alike, or one of them is refused: nothing was changed, each is looked at by itself.
            Ok(None) => {}
            Err(error) if error.kind == ErrorKind::Rejected => {}
            Err(error) => return Err(error),
        }
        let letters = if batch.len() == 1 { "letter" } else { "letters" };
        let action = || format!("move {} {letters} to {}", batch.len(), self.target.name);
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        self.holds(&tx)?;
        let mut fates = Vec::with_capacity(batch.len());
        let mut stopped: HashSet<&str> = HashSet::new();
        for sending in batch {
            let follows = sending.group.as_deref().is_some_and(|group| stopped.contains(group));
            if follows && !mutated("t11") {
                fates.push(Fate::Withdrawn);
                continue;
            }
            let fate = self.move_one(&tx, sending, now)?;
            if !matches!(fate, Fate::Moved(_))
                && let Some(group) = &sending.group
            {
                stopped.insert(group);
            }
            fates.push(fate);
        }
        commit(tx, action)?;
        self.fold();
        Ok(fates)
    }

    /// Fails unless the lock is ours still and the target is there.
    fn holds(&self, tx: &Connection) -> Result<()> {
        still_ours(tx, &self.queue, self.epoch)?;
        let action = || format!("send to {}", self.target.name);
        let there = tx
            .prepare_cached("SELECT 1 FROM queue WHERE id = ?1")
            .and_then(|mut query| query.exists([self.target.id]))
            .doing(action)?;
        if there {
            return Ok(());
        }
        Err(BrokerError::new(ErrorKind::NotFound, action(), "the queue was removed under the run")
            .hint(format!("redrive apply --broker {}", self.place.broker)))
    }

    /// Small batches are those of a run that keeps a rate, and each of them is waited for.
    fn fold_as_fits(&mut self, batch: usize) -> Result<()> {
        let batches = if batch < SMALL { Batches::Small } else { Batches::Large };
        if batches != self.batches {
            self.batches = batches;
            self.fold = match batches {
                Batches::Large => Fold::start(&self.place),
                _ => None,
            };
            let bytes = match (batches, &self.fold) {
                (Batches::Large, Some(_)) => fold::AT_LAST,
                (Batches::Large, None) => FOLD_AFTER,
                _ => FOLD_AFTER_AT_EASE,
            };
            fold_after(&self.db, bytes).doing(|| format!("move letters to {}", self.target.name))?;
        }
        Ok(())
    }

    /// What is committed is committed, whether or not the log of it can be folded.
    fn fold(&self) {
        if let Some(fold) = &self.fold
            && let Err(error) = fold.after(&self.db, &self.place)
        {
            tracing::debug!(%error, "the log was not folded");
        }
    }

    /// Copy, removal and mark of one letter; on a refusal nothing of it stays.
    fn move_one(&self, tx: &Transaction<'_>, sending: &Sending<'_>, now: i64) -> Result<Fate> {
        let written = match &*sending.written {
            Ok(written) => written,
            Err(error) => return Ok(Fate::Refused(error.clone())),
        };
        let Some((id, token)) = parse_receipt(&sending.receipt) else { return Ok(Fate::Lost) };
        let action = || format!("move {}", letters::letter_id(id));
        // Exactly this claim: neither a newer one nor another reader's (t10).
        if !self.is_mine(tx, id, token, now).doing(action)? && !mutated("t10") {
            return Ok(Fate::Lost);
        }
        // A copy of this number is there already: what is left to do is to remove the original.
        let copy = match self.copied(tx, sending.seq)? {
            Some(copy) => copy,
            None => match written.insert(tx, self.target.id, 0, now) {
                Ok(copy) => {
                    self.mark(tx, sending.seq, id, copy, now)?;
                    copy
                }
                Err(error) if error.kind == ErrorKind::Rejected => return Ok(Fate::Refused(error)),
                Err(error) => return Err(error),
            },
        };
        if self.delete(tx, id, id).doing(action)? != 1 && !mutated("t10") {
            // A lease without its letter cannot be: both go together. Nothing may be committed.
            return Err(BrokerError::new(ErrorKind::Other, action(), "its row is gone, its lease is not"));
        }
        Ok(Fate::Moved(arrived(copy)))
    }

    /// May this letter be moved or removed under this receipt: is it there, and by a lease ours, or, if it was
    /// only looked at, nobody else's?
    fn is_mine(&self, tx: &Connection, id: i64, token: &str, now: i64) -> rusqlite::Result<bool> {
        let leased = if token == LOOKED {
            !self.anybody_else(tx, id, id, now)?
        } else {
            tx.prepare_cached("SELECT 1 FROM lease WHERE letter = ?1 AND token = ?2")?
                .exists(params![id, token])?
        };
        Ok(leased
            && tx
                .prepare_cached("SELECT 1 FROM letter WHERE id = ?1 AND queue = ?2")?
                .exists([id, self.queue.id])?)
    }

    /// Does somebody else hold one of the letters of these rows?
    fn anybody_else(&self, db: &Connection, first: i64, last: i64, now: i64) -> rusqlite::Result<bool> {
        db.prepare_cached(
            "SELECT 1 FROM lease WHERE letter BETWEEN ?1 AND ?2 AND until > ?3 AND owner IS NOT ?4",
        )?
        .exists(params![first, last, now, self.owner])
    }

    /// Deletes the letters of this queue in these rows, with what other tables say about them; gives their
    /// number. If that is not the number of rows, nothing may be committed.
    fn delete(&self, tx: &Connection, first: i64, last: i64) -> rusqlite::Result<usize> {
        let gone = tx
            .prepare_cached("DELETE FROM letter WHERE id BETWEEN ?1 AND ?2 AND +queue = ?3")?
            .execute([first, last, self.queue.id])?;
        // As `letter_gone` has it, in one go.
        tx.prepare_cached("DELETE FROM lease WHERE letter BETWEEN ?1 AND ?2")?.execute([first, last])?;
        tx.prepare_cached("DELETE FROM sent WHERE letter BETWEEN ?1 AND ?2")?.execute([first, last])?;
        Ok(gone)
    }

    fn copied(&self, db: &Connection, seq: u64) -> Result<Option<i64>> {
        db.prepare_cached("SELECT copy FROM mark WHERE run = ?1 AND seq = ?2")
            .and_then(|mut query| {
                query.query_row(params![self.run, number(seq)], |row| row.get(0)).optional()
            })
            .doing(|| format!("look for the mark of {}/{seq}", self.run))
    }

    fn mark(&self, db: &Connection, seq: u64, letter: i64, copy: i64, now: i64) -> Result<()> {
        if mutated("t01") {
            // Left to a second transaction, which a kill prevents.
            return Ok(());
        }
        db.prepare_cached("INSERT INTO mark (run, seq, letter, copy, at) VALUES (?1, ?2, ?3, ?4, ?5)")
            .and_then(|mut insert| insert.execute(params![self.run, number(seq), letter, copy, now]))
            .doing(|| format!("mark {}/{seq}", self.run))?;
        Ok(())
    }

    fn publish(&mut self, batch: &[Sending<'_>]) -> Vec<Result<Published>> {
        match self.try_publish(batch) {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn try_publish(&mut self, batch: &[Sending<'_>]) -> Result<Vec<Result<Published>>> {
        self.fold_as_fits(batch.len())?;
        match self.publish_together(batch) {
            Ok(Some(answers)) => {
                self.fold();
                return Ok(answers);
            }
            Ok(None) => {}
            Err(error) if error.kind == ErrorKind::Rejected => {}
            Err(error) => return Err(error),
        }
        let action = || format!("send {} letters to {}", batch.len(), self.target.name);
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        self.holds(&tx)?;
        let mut answers = Vec::with_capacity(batch.len());
        for sending in batch {
            let answer = match (self.copied(&tx, sending.seq)?, &*sending.written) {
                // Sent before, by an attempt whose answer was lost: once is enough, for ever.
                (Some(copy), _) => Ok(arrived(copy)),
                (None, Err(error)) => Err(error.clone()),
                (None, Ok(written)) => match written.insert(&tx, self.target.id, 0, now) {
                    Ok(copy) => {
                        self.mark(&tx, sending.seq, sending.letter, copy, now)?;
                        // The original is not open any more, for whoever looks, though it is still there.
                        tx.prepare_cached(
                            "INSERT OR REPLACE INTO sent (letter, run, seq) VALUES (?1, ?2, ?3)",
                        )
                        .and_then(|mut insert| {
                            insert.execute(params![sending.letter, self.run, number(sending.seq)])
                        })
                        .doing(action)?;
                        Ok(arrived(copy))
                    }
                    Err(error) if error.kind == ErrorKind::Rejected => Err(error),
                    Err(error) => return Err(error),
                },
            };
            answers.push(answer);
        }
        commit(tx, action)?;
        self.fold();
        Ok(answers)
    }

    fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        intents
            .iter()
            .map(|intent| {
                Ok(match self.copied(&self.db, intent.seq)? {
                    Some(copy) => Proof::Arrived(arrived(copy)),
                    // Behind the fence of our epoch.
                    None => Proof::Absent,
                })
            })
            .collect()
    }

    /// Reads only what came into the dead-letter queue since the last call.
    fn refailed(&mut self) -> Result<u64> {
        let action = || format!("count what died again in {}", self.queue.name);
        let tx = self.db.unchecked_transaction().doing(action)?;
        let last: i64 = tx
            .prepare_cached("SELECT coalesce(max(id), 0) FROM letter WHERE queue = ?1")
            .and_then(|mut query| query.query_row([self.queue.id], |row| row.get(0)))
            .doing(action)?;
        let mut query = tx
            .prepare_cached(
                "SELECT headers FROM letter
                 WHERE queue = ?1 AND id > ?2 AND id <= ?3 AND instr(headers, ?4) > 0",
            )
            .doing(action)?;
        let mut rows =
            query.query(params![self.queue.id, self.seen_again, last, stamp::RUN]).doing(action)?;
        let mut again = 0;
        while let Some(row) = rows.next().doing(action)? {
            let headers = letters::list(row, 0).doing(action)?;
            let of = headers.last(stamp::RUN).and_then(Value::text).and_then(|text| text.rsplit_once('/'));
            again += u64::from(of.is_some_and(|(run, _)| run == self.run));
        }
        drop(rows);
        drop(query);
        tx.commit().doing(action)?;
        self.seen_again = self.seen_again.max(last);
        self.refailed += again;
        Ok(self.refailed)
    }

    /// What a relay of our target is late with; more than a thousand are counted as a thousand.
    fn overdue(&self, grace: Duration) -> Result<u64> {
        let before = Time::from_millis(self.place.now()).minus(grace).millis();
        self.db
            .prepare_cached(
                "SELECT count(*) FROM (
                     SELECT 1 FROM queue JOIN letter ON letter.queue = queue.id
                     WHERE queue.return_to = ?1 AND letter.due > 0 AND letter.due <= ?2 LIMIT 1000)",
            )
            .and_then(|mut query| {
                query.query_row(params![self.target.name, before], |row| queues::number(row, 0))
            })
            .doing(|| format!("ask what is overdue for {}", self.target.name))
    }

    fn end(&mut self) -> Result<()> {
        let action = || format!("end run {} on {}", self.run, self.queue.name);
        let tx = begin(&self.db, action)?;
        match still_ours(&tx, &self.queue, self.epoch) {
            // Somebody took over and has freed what was ours.
            Err(error) if error.kind == ErrorKind::Fenced => return Ok(()),
            other => other?,
        }
        lock::give_up(&tx, &self.queue, &self.owner, self.epoch).doing(action)?;
        commit(tx, action)
    }
}

/// What triggers, checks and references do for rows of any program costs a third of a move, and this session does
/// by itself what ours do: it deletes what belongs to a letter, writes lists with [`super::encoding`], and asks in
/// each transaction whether its queues are there ([`Session::holds`]). With a reference to look after, SQLite would
/// also copy each page that a statement of many rows changes, to be able to undo that statement alone. A file into
/// which somebody put triggers of his own keeps all of them.
fn only_ours(db: &Connection) -> rusqlite::Result<()> {
    let others: bool = db
        .prepare(
            "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name NOT IN ('letter_gone', 'letter_waits')",
        )?
        .exists([])?;
    if !others {
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        db.pragma_update(None, "ignore_check_constraints", true)?;
        db.pragma_update(None, "foreign_keys", false)?;
    }
    Ok(())
}

/// Token of a receipt without a lease: the letter was only looked at.
const LOOKED: &str = "";

fn parse_receipt(receipt: &Receipt) -> Option<(i64, &str)> {
    let (id, token) = receipt.0.strip_prefix('m')?.split_once('.')?;
    Some((id.parse().ok()?, token))
}

/// A manifest's number as a column.
fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn arrived(copy: i64) -> Published {
    Published { at: Some(letters::letter_id(copy).as_str().to_owned()) }
}

/// A copy as rows need it.
struct Sending<'o> {
    seq: u64,
    receipt: Cow<'o, Receipt>,
    letter: i64,
    group: Option<Cow<'o, str>>,
    written: Cow<'o, Result<Written>>,
}

/// What [`look::Beside`] packs.
type Form = Result<Written>;

impl<'o> Sending<'o> {
    fn of(outgoing: &'o Outgoing) -> Self {
        Self {
            seq: outgoing.seq,
            receipt: Cow::Borrowed(&outgoing.receipt),
            letter: letters::parse_position(&outgoing.position).map_or(0, |(_, id)| id),
            group: outgoing.group.as_deref().map(Cow::Borrowed),
            written: match outgoing.packed.as_ref().and_then(Packed::as_form::<Form>) {
                Some(packed) => Cow::Borrowed(packed),
                None => Cow::Owned(Written::of(&outgoing.message)),
            },
        }
    }

    fn owned(self) -> Sending<'static> {
        Sending {
            seq: self.seq,
            receipt: Cow::Owned(self.receipt.into_owned()),
            letter: self.letter,
            group: self.group.map(|group| Cow::Owned(group.into_owned())),
            written: Cow::Owned(self.written.into_owned()),
        }
    }
}

fn sending(batch: &[Outgoing]) -> Vec<Sending<'static>> {
    batch.iter().map(|outgoing| Sending::of(outgoing).owned()).collect()
}

#[async_trait]
impl Mover for Held {
    async fn claim(&mut self, ask: &Ask<'_>) -> Result<Claims> {
        let next: Vec<Wanted> = ask.next.to_vec();
        let limit = ask.limit;
        self.with(move |session| session.claim(&next, limit)).await
    }

    async fn looker(&mut self) -> Option<Box<dyn Looker>> {
        let beside = self.with(|session| Ok(look::Beside::of(session))).await.ok()??;
        Some(Box::new(beside))
    }

    async fn transfer(&mut self, batch: &[Outgoing]) -> Result<Vec<Fate>> {
        let batch = sending(batch);
        self.with(move |session| session.transfer(&batch)).await
    }

    async fn transfer_shared(&mut self, batch: &Arc<Vec<Outgoing>>) -> Result<Vec<Fate>> {
        let batch = Arc::clone(batch);
        self.with(move |session| {
            let batch: Vec<Sending<'_>> = batch.iter().map(Sending::of).collect();
            session.transfer(&batch)
        })
        .await
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        let count = batch.len();
        let batch = sending(batch);
        match self.with(move |session| Ok(session.publish(&batch))).await {
            Ok(answers) => answers,
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        }
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        let count = batch.len();
        let batch = batch.to_vec();
        match self.with(move |session| session.settle(&batch)).await {
            Ok(settled) => settled,
            Err(error) => (0..count).map(|_| Settled::Failed(error.clone())).collect(),
        }
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        let batch = batch.to_vec();
        self.with(move |session| session.release(&batch)).await
    }

    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        let intents = intents.to_vec();
        self.with(move |session| session.prove(&intents)).await
    }

    async fn renew(&mut self, held: &[Receipt]) -> Result<()> {
        let held = held.to_vec();
        self.with(move |session| session.renew(&held)).await
    }

    async fn refailed(&mut self) -> Result<Option<u64>> {
        self.with(|session| session.refailed().map(Some)).await
    }

    async fn overdue(&mut self, grace: Duration) -> Result<Option<u64>> {
        self.with(move |session| session.overdue(grace).map(Some)).await
    }

    async fn trim(&mut self) -> Result<Option<String>> {
        self.with(|session| session.trim().map(Some)).await
    }

    async fn end(self: Box<Self>) -> Result<()> {
        self.with(Session::end).await
    }
}
