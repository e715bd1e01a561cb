//! What an application does with the embedded broker: send, receive, ack, fail. `redrive dev` plays an
//! application with it, and so do tests; programs in other languages do the same in SQL
//! (`docs/embedded-broker.md`).

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::deaths::{self, Failure};
use super::encoding;
use super::file::{Doing, Place, begin, commit};
use super::letters::{self, Written};
use super::queues::{self, Queue};
use crate::broker::{BrokerError, ErrorKind, OpenContext, Result};
use crate::clock::Time;
use crate::letter::{LetterId, Message};
use crate::proof::mutation::mutated;
use crate::stamp;
use crate::topology::BrokerDecl;

/// An application at the file: its own connection. Its calls block for as long as a disk write takes.
pub struct Application {
    place: Place,
    db: Connection,
    owner: String,
}

/// A message that was handed out, and for how long.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its id in this queue.
    pub id: LetterId,
    /// What settles it: [`Application::ack`], [`Application::fail`]. Dead once another one was handed out.
    pub receipt: String,
    /// How often it was handed out from this queue, this time included.
    pub receives: u32,
    /// When another reader may get it.
    pub until: Time,
    /// When its producer sent it.
    pub sent_at: Time,
    /// The message.
    pub message: Message,
}

/// Where a failed message went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The queue: a tier or the dead-letter queue.
    pub queue: String,
    /// Its new id there.
    pub id: LetterId,
    /// Failed tries so far, this one included.
    pub attempt: u32,
    /// When it is handed out again; `None` in the dead-letter queue.
    pub due: Option<Time>,
}

/// A letter that somebody holds, found by a receipt.
struct Held {
    id: i64,
    queue: Queue,
}

impl Application {
    /// Opens the file that a broker's url names. It has to be there: queues are made by `apply`.
    pub fn open(broker: &BrokerDecl, context: &OpenContext) -> Result<Self> {
        let place = Place::of(broker, context)?;
        let db = place.write_existing()?;
        let owner = db
            .query_row("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0))
            .doing(|| format!("open {}", place.shown))?;
        Ok(Self { place, db, owner })
    }

    /// Sends messages in one transaction, all or none, each handed out after `delay` at the earliest.
    pub fn send(&mut self, queue: &str, messages: &[Message], delay: Duration) -> Result<Vec<LetterId>> {
        let action = || format!("send to {queue}");
        let now = self.place.now();
        let due = if delay.is_zero() { 0 } else { Time::from_millis(now).plus(delay).millis() };
        let tx = begin(&self.db, action)?;
        let target = queues::get(&tx, queue, &self.place.shown)?;
        let mut ids = Vec::with_capacity(messages.len());
        for message in messages {
            ids.push(letters::letter_id(Written::of(message)?.insert(&tx, target.id, due, now)?));
        }
        queues::sweep(&tx, &target, now)?;
        commit(tx, action)?;
        Ok(ids)
    }

    /// Hands out up to `max` messages, oldest first, for `lease` (the queue's own without). While one of a
    /// group is held, nobody gets a later one of that group, so a batch holds one of each.
    ///
    /// A message that was handed out `max_receives` times without an answer goes to the dead-letter queue
    /// here: whoever held it is dead.
    pub fn receive(&mut self, queue: &str, max: usize, lease: Option<Duration>) -> Result<Vec<Delivery>> {
        let action = || format!("receive from {queue}");
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        let queue = queues::get(&tx, queue, &self.place.shown)?;
        queues::sweep(&tx, &queue, now)?;
        let lease = lease.map_or(queue.lease, |lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
        let until = now.saturating_add(lease);
        let token: String =
            tx.query_row("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0)).doing(action)?;
        let (chosen, worn_out) = choose(&tx, &queue, max, now)?;
        for (id, receives) in worn_out {
            bury(&tx, &queue, &self.place.shown, id, receives, now)?;
        }
        let mut deliveries = Vec::with_capacity(chosen.len());
        for (id, receives) in chosen {
            tx.prepare_cached(
                "INSERT INTO lease (letter, queue, key, token, owner, until, receives)
                 SELECT id, queue, key, ?2, ?3, ?4, ?5 FROM letter WHERE id = ?1
                 ON CONFLICT (letter) DO UPDATE SET token = ?2, owner = ?3, until = ?4, receives = ?5",
            )
            .and_then(|mut take| take.execute(params![id, token, self.owner, until, receives]))
            .doing(action)?;
            let delivery = tx
                .prepare_cached("SELECT sent_at, headers, properties, key, body FROM letter WHERE id = ?1")
                .and_then(|mut query| {
                    query.query_row([id], |row| {
                        Ok(Delivery {
                            id: letters::letter_id(id),
                            receipt: format!("m{id}.{token}"),
                            receives: u32::try_from(receives).unwrap_or(u32::MAX),
                            until: Time::from_millis(until),
                            sent_at: Time::from_millis(row.get(0)?),
                            message: Message {
                                headers: letters::list(row, 1)?,
                                properties: letters::list(row, 2)?,
                                key: letters::blob(row, 3)?,
                                body: letters::blob(row, 4)?,
                            },
                        })
                    })
                })
                .doing(action)?;
            deliveries.push(delivery);
        }
        commit(tx, action)?;
        Ok(deliveries)
    }

    /// The message is done: removes it.
    ///
    /// # Errors
    /// `Stale`: somebody else got it meanwhile, or it is gone.
    pub fn ack(&mut self, receipt: &str) -> Result<()> {
        let action = || format!("ack {receipt}");
        let tx = begin(&self.db, action)?;
        let held = held(&tx, receipt, "ack")?;
        tx.execute("DELETE FROM letter WHERE id = ?1", [held.id]).doing(action)?;
        commit(tx, action)
    }

    /// The message failed: writes down why, counts, and sends it to the tier that is next, or after the
    /// last one to the dead-letter queue, in one transaction.
    ///
    /// # Errors
    /// `Stale` as [`Application::ack`]. `NotFound`: the queue's routing names a queue that is not there.
    pub fn fail(&mut self, receipt: &str, failure: &Failure) -> Result<Routed> {
        let action = || format!("fail {receipt}");
        let now = self.place.now();
        let at = Time::from_millis(now);
        let tx = begin(&self.db, action)?;
        let held = held(&tx, receipt, "fail")?;
        let mut headers = headers_of(&tx, held.id)?;
        let attempt = deaths::count(&mut headers, at);
        deaths::append(&mut headers, &held.queue.name, failure, at);
        let tries = match (mutated("r06"), mutated("r09")) {
            (true, _) => receives_of(&tx, held.id)?,
            (_, true) => attempt.saturating_sub(1).max(1),
            _ => attempt,
        };
        let tier = held.queue.tiers.get(tries as usize - 1);
        let Some(name) = tier.or(held.queue.dead_letter.as_ref()) else {
            return Err(BrokerError::new(
                ErrorKind::NotFound,
                action(),
                format!("`{}` has no tier and no dead-letter queue to go to", held.queue.name),
            )
            .hint("redrive apply"));
        };
        let target = queues::get(&tx, name, &self.place.shown)?;
        let mut due = None;
        if tier.is_some() {
            letters::stamp(&mut headers, stamp::TIER, target.name.as_str());
            due = Some(now.saturating_add(target.delay.unwrap_or(0)));
        }
        let id = rewrite(&tx, held.id, &target, due.unwrap_or(0), now, &headers)?;
        queues::sweep(&tx, &target, now)?;
        commit(tx, action)?;
        Ok(Routed {
            queue: target.name,
            id: letters::letter_id(id),
            attempt,
            due: due.map(Time::from_millis),
        })
    }

    /// Holds the message for `by` from now.
    ///
    /// # Errors
    /// `Stale` as [`Application::ack`].
    pub fn extend(&mut self, receipt: &str, by: Duration) -> Result<Time> {
        let action = || format!("extend {receipt}");
        let until = Time::from_millis(self.place.now()).plus(by);
        let tx = begin(&self.db, action)?;
        let held = held(&tx, receipt, "extend")?;
        tx.execute("UPDATE lease SET until = ?2 WHERE letter = ?1", params![held.id, until.millis()])
            .doing(action)?;
        commit(tx, action)?;
        Ok(until)
    }

    /// Gives the message back unfinished: it may be handed out again at once. The count of receives stays.
    ///
    /// # Errors
    /// `Stale` as [`Application::ack`].
    pub fn release(&mut self, receipt: &str) -> Result<()> {
        let action = || format!("release {receipt}");
        let tx = begin(&self.db, action)?;
        let held = held(&tx, receipt, "release")?;
        tx.execute("UPDATE lease SET token = NULL, owner = NULL, until = 0 WHERE letter = ?1", [held.id])
            .doing(action)?;
        commit(tx, action)
    }
}

/// Which letters to hand out, and which were handed out too often; each with its count of receives.
type Choice = (Vec<(i64, i64)>, Vec<(i64, i64)>);

fn choose(db: &Connection, queue: &Queue, max: usize, now: i64) -> Result<Choice> {
    let action = || format!("receive from {}", queue.name);
    let mut busy: HashSet<Vec<u8>> = db
        .prepare_cached("SELECT key FROM lease WHERE queue = ?1 AND until > ?2 AND key IS NOT NULL")
        .and_then(|mut query| query.query_map(params![queue.id, now], |row| row.get(0))?.collect())
        .doing(action)?;
    let mut query = db
        .prepare_cached(
            "SELECT letter.id, letter.key, coalesce(lease.until, 0), coalesce(lease.receives, 0)
             FROM letter LEFT JOIN lease ON lease.letter = letter.id
             WHERE letter.queue = ?1 AND letter.due <= ?2 ORDER BY letter.id",
        )
        .doing(action)?;
    let mut rows = query.query(params![queue.id, now]).doing(action)?;
    let (mut chosen, mut worn_out) = (Vec::new(), Vec::new());
    while chosen.len() < max
        && let Some(row) = rows.next().doing(action)?
    {
        let mut look = || -> rusqlite::Result<()> {
            let receives: i64 = row.get(3)?;
            if row.get::<_, i64>(2)? > now {
                return Ok(());
            }
            let key = row.get_ref(1)?.as_bytes_or_null()?;
            if key.is_some_and(|key| busy.contains(key)) {
                return Ok(());
            }
            if queue.dead_letter.is_some() && queue.max_receives.is_some_and(|most| receives >= most) {
                worn_out.push((row.get(0)?, receives));
                return Ok(());
            }
            if let Some(key) = key {
                busy.insert(key.to_owned());
            }
            chosen.push((row.get(0)?, receives + 1));
            Ok(())
        };
        look().doing(action)?;
    }
    Ok((chosen, worn_out))
}

/// Sends a letter to the dead-letter queue whose readers never answered.
fn bury(db: &Connection, queue: &Queue, shown: &str, id: i64, receives: i64, now: i64) -> Result<()> {
    let Some(dead_letter) = &queue.dead_letter else { return Ok(()) };
    let target = queues::get(db, dead_letter, shown)?;
    let mut headers = headers_of(db, id)?;
    let failure = Failure {
        reason: Some("max_receives".to_owned()),
        message: Some(format!("handed out {receives} times and never answered")),
        ..Failure::default()
    };
    deaths::append(&mut headers, &queue.name, &failure, Time::from_millis(now));
    rewrite(db, id, &target, 0, now, &headers).map(|_| ())
}

/// Moves a letter with other headers. Headers that could not be read stay as they are, in silence: there
/// is nothing that could be added to them.
fn rewrite(
    db: &Connection,
    id: i64,
    target: &Queue,
    due: i64,
    now: i64,
    headers: &crate::letter::Headers,
) -> Result<i64> {
    if headers.has(letters::UNREADABLE) {
        return letters::move_row(db, id, target, due, now, None);
    }
    let json = encoding::write(headers)
        .map_err(|why| BrokerError::new(ErrorKind::Rejected, "write the headers", why))?;
    letters::move_row(db, id, target, due, now, Some(&json))
}

/// How often it was handed out: no count of tries (r06).
fn receives_of(db: &Connection, id: i64) -> Result<u32> {
    db.query_row("SELECT max(receives, 1) FROM lease WHERE letter = ?1", [id], |row| row.get(0))
        .doing(|| format!("read {}", letters::letter_id(id)))
}

fn headers_of(db: &Connection, id: i64) -> Result<crate::letter::Headers> {
    db.prepare_cached("SELECT headers FROM letter WHERE id = ?1")
        .and_then(|mut query| query.query_row([id], |row| letters::list(row, 0)))
        .doing(|| format!("read {}", letters::letter_id(id)))
}

/// The letter that a receipt holds. A receipt is good until the letter is handed out again or gone, so a
/// late answer counts as long as nobody else was given the letter.
fn held(db: &Connection, receipt: &str, verb: &str) -> Result<Held> {
    let stale = || {
        BrokerError::new(
            ErrorKind::Stale,
            format!("{verb} {receipt}"),
            "the receipt is not valid any more: the message was handed out again, or is gone",
        )
    };
    let (id, token) = receipt
        .strip_prefix('m')
        .and_then(|rest| rest.split_once('.'))
        .and_then(|(id, token)| Some((id.parse::<i64>().ok()?, token)))
        .ok_or_else(stale)?;
    let queue: Option<String> = db
        .prepare_cached(
            "SELECT queue.name FROM lease JOIN queue ON queue.id = lease.queue
             WHERE lease.letter = ?1 AND lease.token = ?2",
        )
        .and_then(|mut query| query.query_row(params![id, token], |row| row.get(0)).optional())
        .doing(|| format!("{verb} {receipt}"))?;
    let queue = queues::find(db, &queue.ok_or_else(stale)?)?.ok_or_else(stale)?;
    Ok(Held { id, queue })
}
