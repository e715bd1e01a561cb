//! Why a letter of a run did not move, as kept for people.

use rusqlite::{Row, params};
use serde::Serialize;

use super::{Ledger, Result};
use crate::clock::Time;

/// Code of a letter that moved and whose original was not seen when it was to be removed: a person says it is gone.
pub const TAKEN_AS_GONE: &str = "taken_as_gone";

/// Code of a letter that a resume did not send because another run had left it open by then.
pub const LEFT_OPEN: &str = "left_open";

/// One letter that did not move, or moved in a way that is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Its number.
    pub seq: u64,
    /// `failed`, `held`, `skipped`, `in_doubt`, `untouched`; `moved` only with [`TAKEN_AS_GONE`].
    pub outcome: String,
    /// The broker's code, or our word for the rule.
    pub code: String,
    /// More, in words; may hold text from outside.
    pub text: Option<String>,
    /// The letter it waits for.
    pub behind: Option<String>,
    /// The letter.
    pub letter: String,
    /// Its event id.
    pub event_id: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// When it was written down.
    pub at: Time,
}

impl Note {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            outcome: row.get(1)?,
            code: row.get(2)?,
            text: row.get(3)?,
            behind: row.get(4)?,
            letter: row.get(5)?,
            event_id: row.get(6)?,
            group: row.get(7)?,
            at: Time::from_millis(row.get(8)?),
        })
    }
}

impl Ledger {
    /// Letters of a run that did not move, by number, at most `most` after `after`.
    ///
    /// # Errors
    /// The database's.
    pub fn notes(&self, run: i64, after: u64, most: usize) -> Result<Vec<Note>> {
        let mut query = self.sql.prepare_cached(
            "SELECT seq, outcome, code, text, behind, letter, event_id, grp, at FROM notes \
             WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?;
        let rows = query.query_map(params![run, after, most], Note::of)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The first letters of one outcome.
    ///
    /// # Errors
    /// The database's.
    pub fn notes_of(&self, run: i64, outcome: &str, most: usize) -> Result<Vec<Note>> {
        let mut query = self.sql.prepare_cached(
            "SELECT seq, outcome, code, text, behind, letter, event_id, grp, at FROM notes \
             WHERE run = ?1 AND outcome = ?2 ORDER BY seq LIMIT ?3",
        )?;
        let rows = query.query_map(params![run, outcome, most], Note::of)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many letters of each outcome and code a run has.
    ///
    /// # Errors
    /// The database's.
    pub fn note_counts(&self, run: i64) -> Result<Vec<(String, String, u64)>> {
        let mut query = self
            .sql
            .prepare_cached("SELECT outcome, code, count(*) FROM notes WHERE run = ?1 GROUP BY 1, 2")?;
        let rows = query.query_map([run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
