//! The lock of a dead-letter queue: one run at a time, across processes and machines that share the file
//! (protocol §8). Every holder has a higher epoch than the one before.

use rusqlite::{Connection, OptionalExtension, params};

use super::browse;
use super::file::Doing;
use super::queues::Queue;
use crate::broker::{BrokerError, ErrorKind, Result, Task, holder};
use crate::clock::{self, Time};
use crate::proof::mutation::mutated;

/// A lock row.
struct Row {
    epoch: i64,
    owner: Option<String>,
    run: Option<String>,
    who: Option<String>,
    process: Option<String>,
    seen_at: i64,
    until: i64,
}

fn lock_row(db: &Connection, queue: i64) -> rusqlite::Result<Option<Row>> {
    db.prepare_cached("SELECT epoch, owner, run, who, process, seen_at, until FROM lock WHERE queue = ?1")?
        .query_row([queue], |row| {
            Ok(Row {
                epoch: row.get(0)?,
                owner: row.get(1)?,
                run: row.get(2)?,
                who: row.get(3)?,
                process: row.get(4)?,
                seen_at: row.get(5)?,
                until: row.get(6)?,
            })
        })
        .optional()
}

/// Takes the lock, or refuses by naming its holder; gives the new epoch. What a predecessor had claimed is
/// free again: its receipts are dead with its epoch.
pub fn acquire(db: &Connection, queue: &Queue, task: &Task, now: i64) -> Result<i64> {
    let action = || format!("lock {}", queue.name);
    let before = lock_row(db, queue.id).doing(action)?;
    if let Some(row) = &before {
        refuse_held(row, queue, task, now)?;
        if let Some(owner) = &row.owner {
            free(db, queue.id, owner).doing(action)?;
        }
    }
    let epoch = before.map_or(0, |row| row.epoch) + 1;
    let claim_for = i64::try_from(task.claim_for.as_millis()).unwrap_or(i64::MAX);
    db.execute(
        "INSERT INTO lock (queue, epoch, owner, run, who, process, seen_at, until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (queue) DO UPDATE SET
             epoch = ?2, owner = ?3, run = ?4, who = ?5, process = ?6, seen_at = ?7, until = ?8",
        params![
            queue.id,
            epoch,
            task.owner,
            task.run,
            task.who,
            holder::this_process(),
            now,
            now.saturating_add(claim_for)
        ],
    )
    .doing(action)?;
    Ok(epoch)
}

/// Gives the lock and every claim of its holder back.
pub fn give_up(db: &Connection, queue: &Queue, owner: &str, epoch: i64) -> rusqlite::Result<()> {
    free(db, queue.id, owner)?;
    db.execute(
        "UPDATE lock SET owner = NULL, process = NULL, until = 0 WHERE queue = ?1 AND epoch = ?2",
        params![queue.id, epoch],
    )?;
    Ok(())
}

/// Is the snapshot of this file and this incarnation of the queue?
pub fn same_queue(db: &Connection, queue: &Queue, snapshot: &str) -> Result<()> {
    let ours = format!("{}/", browse::place_of(db, queue)?);
    if snapshot.is_empty() || snapshot.starts_with(&ours) {
        return Ok(());
    }
    Err(BrokerError::new(
        ErrorKind::Stale,
        format!("open {}", queue.name),
        "it was made anew since the selection was frozen: its letters are other ones",
    ))
}

/// Refuses a lock that somebody holds who may be alive.
fn refuse_held(row: &Row, queue: &Queue, task: &Task, now: i64) -> Result<()> {
    let Some(owner) = &row.owner else { return Ok(()) };
    let free = *owner == task.owner
        || task.take_over
        || row.until <= now
        || row.process.as_deref().is_some_and(holder::surely_dead);
    if free {
        return Ok(());
    }
    let run = row.run.as_deref().unwrap_or("unknown");
    let ago = clock::rough(Time::from_millis(now).since(Time::from_millis(row.seen_at)));
    let left = clock::rough(Time::from_millis(row.until).since(Time::from_millis(now)));
    Err(BrokerError::new(
        ErrorKind::Locked,
        format!("lock {}", queue.name),
        format!(
            "{} is held by run {run} of {}, last seen {ago} ago; a dead holder loses it in {left}",
            queue.name,
            row.who.as_deref().unwrap_or("unknown"),
        ),
    )
    .hint(format!("redrive runs show {run}")))
}

/// Fails if another session took the lock.
pub fn still_ours(db: &Connection, queue: &Queue, epoch: i64) -> Result<()> {
    let row = lock_row(db, queue.id).doing(|| format!("ask for the lock of {}", queue.name))?;
    match row {
        Some(row) if row.epoch == epoch || mutated("t07") || mutated("t10") => Ok(()),
        other => {
            let by = other.and_then(|row| Some(format!("run {} of {}", row.run?, row.who?)));
            let by = by.unwrap_or_else(|| "another run".to_owned());
            Err(BrokerError::new(
                ErrorKind::Fenced,
                format!("work on {}", queue.name),
                format!("{by} has taken it over"),
            ))
        }
    }
}

/// Ends every lease of an owner in a queue.
fn free(db: &Connection, queue: i64, owner: &str) -> rusqlite::Result<()> {
    give_back(db, "queue = ?1 AND owner = ?2", params![queue, owner])
}

/// Ends leases as if they had never been: a count of receives from before stays.
pub fn give_back(db: &Connection, which: &str, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("DELETE FROM lease WHERE receives = 0 AND {which}"))?.execute(values)?;
    db.prepare_cached(&format!("UPDATE lease SET token = NULL, owner = NULL, until = 0 WHERE {which}"))?
        .execute(values)?;
    Ok(())
}
