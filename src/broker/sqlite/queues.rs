//! Queues as the file has them: their properties, and finding one by its name.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::file::Doing;
use crate::broker::{BrokerError, ErrorKind, Result};

/// Default time that a reader holds a letter.
pub const LEASE: Duration = Duration::from_secs(30);

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Its incarnation: made anew under the same name it has another one.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its part, in the file's words.
    pub role: String,
    /// The channel that it was made for.
    pub channel: Option<String>,
    /// How long a reader holds a letter, in milliseconds.
    pub lease: i64,
    /// Handed out so often without an answer: dead.
    pub max_receives: Option<i64>,
    /// Names of the tiers, by failed tries.
    pub tiers: Vec<String>,
    /// Name of the queue after the last tier.
    pub dead_letter: Option<String>,
    /// Of a tier: how long a letter waits, in milliseconds.
    pub delay: Option<i64>,
    /// Of a tier: where its letters go when due.
    pub return_to: Option<String>,
    /// How long letters are kept, in milliseconds.
    pub retention: Option<i64>,
}

const COLUMNS: &str =
    "id, name, role, channel, lease, max_receives, tiers, dead_letter, delay, return_to, retention";

fn of_row(row: &Row<'_>) -> rusqlite::Result<Queue> {
    let tiers: String = row.get(6)?;
    Ok(Queue {
        id: row.get(0)?,
        name: row.get(1)?,
        role: row.get(2)?,
        channel: row.get(3)?,
        lease: row.get(4)?,
        max_receives: row.get(5)?,
        tiers: serde_json::from_str(&tiers).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(6, rusqlite::types::Type::Text, Box::new(error))
        })?,
        dead_letter: row.get(7)?,
        delay: row.get(8)?,
        return_to: row.get(9)?,
        retention: row.get(10)?,
    })
}

/// The queue of this name, if there is one.
pub fn find(db: &Connection, name: &str) -> Result<Option<Queue>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM queue WHERE name = ?1"))
        .and_then(|mut query| query.query_row([name], of_row).optional())
        .doing(|| format!("look up {name}"))
}

/// The queue of this name.
///
/// # Errors
/// `NotFound`, with a name that looks like it.
pub fn get(db: &Connection, name: &str, shown: &str) -> Result<Queue> {
    if let Some(queue) = find(db, name)? {
        return Ok(queue);
    }
    let near = all(db)?.into_iter().find(|queue| looks_like(&queue.name, name));
    let mut message = format!("no queue `{name}` in {shown}");
    if let Some(near) = near {
        message.push_str(&format!("; near: `{}`", near.name));
    }
    Err(BrokerError::new(ErrorKind::NotFound, format!("open {name}"), message).hint("redrive plan"))
}

/// Every queue, by name.
pub fn all(db: &Connection) -> Result<Vec<Queue>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM queue ORDER BY name"))
        .and_then(|mut query| query.query_map([], of_row)?.collect())
        .doing(|| "list the queues".to_owned())
}

/// A count out of a column.
pub fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// How many letters a queue holds.
pub fn depth(db: &Connection, queue: i64) -> Result<u64> {
    db.prepare_cached("SELECT count(*) FROM letter WHERE queue = ?1")
        .and_then(|mut query| query.query_row([queue], |row| number(row, 0)))
        .doing(|| "count letters".to_owned())
}

/// How many letters came in before `time`.
pub fn older(db: &Connection, queue: i64, time: i64) -> Result<u64> {
    db.prepare_cached("SELECT count(*) FROM letter WHERE queue = ?1 AND entered_at < ?2")
        .and_then(|mut query| query.query_row(params![queue, time], |row| number(row, 0)))
        .doing(|| "count letters".to_owned())
}

/// Most letters that retention takes in one transaction of somebody else.
const SWEEP: i64 = 500;

/// Takes letters whose retention has ended, a bounded number from the oldest on, none that is held.
pub fn sweep(db: &Connection, queue: &Queue, now: i64) -> Result<usize> {
    let Some(retention) = queue.retention else { return Ok(0) };
    let action = || format!("keep the retention of {}", queue.name);
    let before = now.saturating_sub(retention);
    let oldest: Option<i64> = db
        .prepare_cached("SELECT entered_at FROM letter WHERE queue = ?1 ORDER BY id LIMIT 1")
        .and_then(|mut query| query.query_row([queue.id], |row| row.get(0)).optional())
        .doing(action)?;
    if oldest.is_none_or(|oldest| oldest >= before) {
        return Ok(0);
    }
    // Not below a run: it works on a snapshot, and its letters are about to leave.
    let held: bool = db
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM lock WHERE queue = ?1 AND owner IS NOT NULL AND until > ?2)",
        )
        .and_then(|mut query| query.query_row(params![queue.id, now], |row| row.get(0)))
        .doing(action)?;
    if held {
        return Ok(0);
    }
    db.prepare_cached(
        "DELETE FROM letter WHERE id IN (
             SELECT id FROM (SELECT id, entered_at FROM letter WHERE queue = ?1 ORDER BY id LIMIT ?4)
             WHERE entered_at < ?2
               AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.letter = id AND lease.until > ?3))",
    )
    .and_then(|mut delete| delete.execute(params![queue.id, before, now, SWEEP]))
    .doing(action)
}

/// Equal but for case, dots and dashes, or one letter apart.
fn looks_like(a: &str, b: &str) -> bool {
    let bare = |text: &str| -> Vec<char> {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let (a, b) = (bare(a), bare(b));
    let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail = a[common..].iter().rev().zip(b[common..].iter().rev()).take_while(|(x, y)| x == y).count();
    // Two swapped letters count as one slip.
    a.len().abs_diff(b.len()) <= 1 && a.len().max(b.len()) - common - tail <= 2
}

#[cfg(test)]
mod tests {
    use super::looks_like;

    #[test]
    fn near_names() {
        assert!(looks_like("orders.dlq", "orders-dlq"));
        assert!(looks_like("orders.dlq", "ordres.dlq"));
        assert!(looks_like("orders.dlq", "order.dlq"));
        assert!(!looks_like("orders.dlq", "payments.dlq"));
        assert!(!looks_like("", "payments.dlq"));
    }
}
