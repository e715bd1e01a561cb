//! What `apply` changed: who, when, why, with which version, and how far it came. Written before the first
//! change and after each, so that an apply that was killed is on record too.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::{Ledger, Result};
use crate::clock::Time;

/// Made where it is missing: a ledger of an earlier version has none, and reads the same with one.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS applies (
    n INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    ended INTEGER,
    who TEXT NOT NULL,
    tool TEXT NOT NULL,
    broker TEXT NOT NULL,
    place TEXT NOT NULL,
    reason TEXT,
    planned TEXT NOT NULL,
    accepted TEXT NOT NULL,
    made TEXT NOT NULL DEFAULT '[]',
    error TEXT
)";

/// An apply as it begins.
#[derive(Debug, Clone)]
pub struct NewApply {
    /// When.
    pub at: Time,
    /// User and host.
    pub who: String,
    /// Broker, by its name.
    pub broker: String,
    /// Where that is, without secrets.
    pub place: String,
    /// Why, if it was said.
    pub reason: Option<String>,
    /// What is about to be made, in order: `create orders.dlq`.
    pub planned: Vec<String>,
    /// Names whose loss was accepted.
    pub accepted: Vec<String>,
}

/// An apply as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApplyRow {
    /// When it began.
    pub at: Time,
    /// When it ended; `None`: it runs, or was killed.
    pub ended: Option<Time>,
    /// User and host.
    pub by: String,
    /// Version of redrive.
    pub version: String,
    /// Broker, by its name.
    pub broker: String,
    /// Where that was.
    pub place: String,
    /// Why, if it was said.
    pub reason: Option<String>,
    /// What it was about to make.
    pub planned: Vec<String>,
    /// Names whose loss was accepted.
    pub accepted_loss: Vec<String>,
    /// What it made.
    pub made: Vec<String>,
    /// Why it ended before its end.
    pub error: Option<String>,
}

/// Bounded and without surprises, as everything that is read back.
fn list(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    Ok(serde_json::from_str(&row.get::<_, String>(column)?).unwrap_or_default())
}

fn text(list: &[String]) -> String {
    serde_json::json!(list).to_string()
}

fn there(sql: &Connection) -> rusqlite::Result<bool> {
    let table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'applies'";
    Ok(sql.query_row(table, [], |_| Ok(())).optional()?.is_some())
}

impl Ledger {
    /// Records that an apply begins; gives its number.
    ///
    /// # Errors
    /// The database's: then nothing may be changed.
    pub fn begin_apply(&mut self, new: &NewApply) -> Result<i64> {
        self.durable(true)?;
        self.sql.execute_batch(TABLE)?;
        self.sql.execute(
            "INSERT INTO applies (at, who, tool, broker, place, reason, planned, accepted) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                new.at.millis(),
                new.who,
                env!("CARGO_PKG_VERSION"),
                new.broker,
                new.place,
                new.reason,
                text(&new.planned),
                text(&new.accepted),
            ],
        )?;
        Ok(self.sql.last_insert_rowid())
    }

    /// Records how far it came.
    ///
    /// # Errors
    /// The database's.
    pub fn applied(&mut self, number: i64, made: &[String]) -> Result<()> {
        self.sql.execute("UPDATE applies SET made = ?2 WHERE n = ?1", params![number, text(made)])?;
        Ok(())
    }

    /// Records its end.
    ///
    /// # Errors
    /// The database's.
    pub fn end_apply(&mut self, number: i64, at: Time, error: Option<&str>) -> Result<()> {
        self.sql.execute(
            "UPDATE applies SET ended = ?2, error = ?3 WHERE n = ?1",
            params![number, at.millis(), error],
        )?;
        Ok(())
    }

    /// The latest, the last one first: on this broker, or on all.
    ///
    /// # Errors
    /// The database's.
    pub fn applies(&self, broker: Option<&str>, most: usize) -> Result<Vec<ApplyRow>> {
        if !there(&self.sql)? {
            return Ok(Vec::new());
        }
        let mut query = self.sql.prepare(
            "SELECT at, ended, who, tool, broker, place, reason, planned, accepted, made, error \
             FROM applies WHERE ?1 IS NULL OR broker = ?1 ORDER BY n DESC LIMIT ?2",
        )?;
        let rows = query.query_map(params![broker, i64::try_from(most).unwrap_or(i64::MAX)], |row| {
            Ok(ApplyRow {
                at: Time::from_millis(row.get(0)?),
                ended: row.get::<_, Option<i64>>(1)?.map(Time::from_millis),
                by: row.get(2)?,
                version: row.get(3)?,
                broker: row.get(4)?,
                place: row.get(5)?,
                reason: row.get(6)?,
                planned: list(row, 7)?,
                accepted_loss: list(row, 8)?,
                made: list(row, 9)?,
                error: row.get(10)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many letters runs of `channel` on `broker` that began since `since` have moved, and how many of them had died
    /// again when their run ended: `None` if one of these runs does not say, or goes on.
    ///
    /// # Errors
    /// The database's.
    pub fn moved_since(&self, channel: &str, broker: &str, since: Time) -> Result<(u64, Option<u64>)> {
        Ok(self.sql.query_row(
            "SELECT coalesce(sum(moved), 0), \
             CASE WHEN count(*) FILTER (WHERE moved > 0 AND refailed IS NULL) = 0 THEN coalesce(sum(refailed), 0) END FROM runs \
             WHERE channel = ?1 AND broker = ?2 AND started >= ?3",
            params![channel, broker, since.millis()],
            |row| {
                let refailed: Option<i64> = row.get(1)?;
                Ok((row.get::<_, i64>(0)?.unsigned_abs(), refailed.map(i64::unsigned_abs)))
            },
        )?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn an_apply_is_on_record_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("ledger.db")).unwrap();
        assert!(ledger.applies(None, 9).unwrap().is_empty());
        let new = NewApply {
            at: Time::from_seconds(1),
            who: "mira@ops-2".to_owned(),
            broker: "kafka".to_owned(),
            place: "k1:9092".to_owned(),
            reason: Some("PAY-310".to_owned()),
            planned: vec!["create orders.dlq".to_owned(), "change orders".to_owned()],
            accepted: vec!["orders".to_owned()],
        };
        let first = ledger.begin_apply(&new).unwrap();
        ledger.applied(first, &["created orders.dlq".to_owned()]).unwrap();
        let killed = ledger.applies(None, 9).unwrap().remove(0);
        assert_eq!((killed.ended, killed.made.len(), killed.planned.len()), (None, 1, 2));
        let second = ledger.begin_apply(&NewApply { reason: None, ..new }).unwrap();
        ledger.end_apply(second, Time::from_seconds(9), Some("no")).unwrap();
        let rows = ledger.applies(None, 9).unwrap();
        assert_eq!((rows.len(), rows[0].error.as_deref(), rows[0].reason.as_deref()), (2, Some("no"), None));
        assert_eq!(
            (rows[1].by.as_str(), rows[1].version.as_str(), &rows[1].accepted_loss),
            ("mira@ops-2", env!("CARGO_PKG_VERSION"), &vec!["orders".to_owned()])
        );
        assert_eq!(ledger.applies(None, 1).unwrap().len(), 1);
    }
}
