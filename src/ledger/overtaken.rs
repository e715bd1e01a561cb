//! What came to the source behind the letters of a snapshot (K38): indexed beside them, so that it takes no memory.

use rusqlite::params;

use super::Result;
use super::scratch::{Scratch, code, hash};
use crate::manifest::Why;

/// Letters that are named.
const NAMED: u64 = 3;

/// A message of the source that lives.
#[derive(Debug, Clone, Copy)]
pub struct After<'a> {
    /// Its stream, as that of a letter's origin.
    pub stream: u64,
    /// Its number there.
    pub order: i64,
    /// Ordering key.
    pub group: &'a str,
    /// Business identity.
    pub event_id: Option<&'a str>,
}

impl Scratch {
    /// For each stream the first number there of a letter that would be sent and has a group.
    ///
    /// # Errors
    /// The database's.
    pub fn first_origins(&self) -> Result<Vec<(u64, i64)>> {
        let mut query = self.sql.prepare(
            "SELECT stream, min(ord) FROM l WHERE sel = 1 AND kept IS NULL AND grp IS NOT NULL AND stream IS NOT NULL \
             GROUP BY stream",
        )?;
        let rows = query.query_map([], |row| {
            let stream: i64 = row.get(0)?;
            Ok((u64::from_ne_bytes(stream.to_ne_bytes()), row.get(1)?))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Takes in a message of the source.
    ///
    /// # Errors
    /// No room.
    pub fn after(&mut self, message: &After<'_>) -> Result<()> {
        if !self.any_later {
            self.any_later = true;
            self.sql.execute_batch(
                "CREATE TABLE later (stream INTEGER, ord INTEGER, grp INTEGER, ev INTEGER);",
            )?;
        }
        self.sql
            .prepare_cached("INSERT INTO later (stream, ord, grp, ev) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![
                i64::from_ne_bytes(message.stream.to_ne_bytes()),
                message.order,
                hash(message.group),
                message.event_id.map(hash),
            ])?;
        Ok(())
    }

    /// Letters that would be sent and have a message of their group behind them that is neither dead nor their own
    /// retry: how many, of how many groups, and the first ones' ids. `keep`: they stay for it.
    ///
    /// # Errors
    /// The database's.
    pub fn overtaken(&mut self, keep: bool) -> Result<(u64, u64, Vec<String>)> {
        if !self.any_later {
            return Ok((0, 0, Vec::new()));
        }
        self.sql.execute_batch(
            "CREATE INDEX later_place ON later (stream, ord); \
             DELETE FROM later WHERE rowid IN (SELECT later.rowid FROM l JOIN later \
               ON later.stream = l.stream AND later.ord = l.ord); \
             CREATE INDEX later_grp ON later (stream, grp, ord); \
             CREATE TABLE over AS SELECT n, grp FROM l WHERE sel = 1 AND kept IS NULL AND grp IS NOT NULL AND EXISTS \
               (SELECT 1 FROM later WHERE later.stream = l.stream AND later.grp = l.grp AND later.ord > l.ord \
                AND (later.ev IS NULL OR l.ev IS NULL OR later.ev <> l.ev));",
        )?;
        let (letters, groups) =
            self.sql.query_row("SELECT count(*), count(DISTINCT grp) FROM over", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let mut query =
            self.sql.prepare("SELECT l.letter FROM over JOIN l ON l.n = over.n ORDER BY l.n LIMIT ?1")?;
        let named = query.query_map([NAMED], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        drop(query);
        if keep && letters > 0 {
            self.any_kept = true;
            self.sql
                .execute("UPDATE l SET kept = ?1 WHERE n IN (SELECT n FROM over)", [code(Why::Overtaken)])?;
        }
        Ok((letters, groups, named))
    }
}
