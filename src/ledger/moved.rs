//! What earlier runs have moved out of a dead-letter queue, by position: their frozen selections and the states
//! of their letters say it. Asked where a broker may hand a letter out again that it deleted, and when a
//! manifest is found to be stale.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Ledger, LetterState, Result, RunRow, TAKEN_AS_GONE, Writes};
use crate::clock::Time;
use crate::manifest::Reader;

/// What the audit calls a resume with `--accept-gone`.
pub const ACCEPT_GONE: &str = "accept gone";

/// Positions by hash, each with the run that moved it: twelve bytes a letter.
#[derive(Debug, Clone, Default)]
pub struct MovedBefore {
    by: HashMap<u64, u32>,
    runs: Vec<String>,
}

fn hash(position: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    position.hash(&mut hasher);
    hasher.finish()
}

impl MovedBefore {
    /// The run that moved what lay here.
    pub fn by(&self, position: &str) -> Option<&str> {
        if self.by.is_empty() {
            return None;
        }
        let run = self.by.get(&hash(position))?;
        self.runs.get(*run as usize).map(String::as_str)
    }

    /// `run` moved what lay here.
    pub fn add(&mut self, run: &str, position: &str) {
        if self.runs.last().is_none_or(|last| last != run) {
            self.runs.push(run.to_owned());
        }
        let run = u32::try_from(self.runs.len() - 1).unwrap_or(u32::MAX);
        self.by.insert(hash(position), run);
    }
}

impl Ledger {
    /// What runs of a dead-letter queue that were seen since `since` have moved.
    ///
    /// # Errors
    /// The database's. A run whose selection cannot be read says nothing.
    pub fn moved_before(&self, dlq: &str, since: Time) -> Result<MovedBefore> {
        let mut moved = MovedBefore::default();
        for row in self.runs_of(dlq, since)? {
            self.moved_by(&row, |position| moved.add(&row.id, position))?;
        }
        Ok(moved)
    }

    /// Adds what runs of a dead-letter queue moved without seeing the original again, where a person said that it
    /// is gone: should it turn up all the same, it is not sent a second time.
    ///
    /// # Errors
    /// The database's. A run whose selection cannot be read says nothing.
    pub fn taken_as_gone(&self, dlq: &str, moved: &mut MovedBefore) -> Result<()> {
        let mut query = self.sql.prepare(
            "SELECT n, id FROM runs WHERE dlq = ?1 AND EXISTS (SELECT 1 FROM events WHERE run = n AND what = ?2) \
             ORDER BY n",
        )?;
        let runs: Vec<(i64, String)> = query
            .query_map([dlq, ACCEPT_GONE], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (run, id) in runs {
            let mut query = self.sql.prepare_cached("SELECT seq FROM notes WHERE run = ?1 AND code = ?2")?;
            let seqs: HashSet<u64> = query
                .query_map(rusqlite::params![run, TAKEN_AS_GONE], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let reader = match seqs.is_empty() {
                true => continue,
                false => Reader::open(&self.manifest_path(&id)?),
            };
            let Ok(mut reader) = reader else { continue };
            while let Ok(Some(line)) = reader.next_line() {
                if seqs.contains(&line.seq) {
                    moved.add(&id, line.position.as_str());
                }
            }
        }
        Ok(())
    }

    /// What other runs have moved out of a run's dead-letter queue since it began.
    ///
    /// # Errors
    /// The database's. A run whose selection cannot be read says nothing.
    pub fn moved_by_others(&self, run: &str) -> Result<MovedBefore> {
        let mut moved = MovedBefore::default();
        let Some(own) = self.runs_like(run)?.into_iter().find(|row| row.id == run) else { return Ok(moved) };
        for row in self.runs_of(&own.dlq, own.started)? {
            if row.id != own.id {
                self.moved_by(&row, |position| moved.add(&row.id, position))?;
            }
        }
        Ok(moved)
    }

    fn moved_by(&self, row: &RunRow, mut each: impl FnMut(&str)) -> Result<()> {
        let Ok(mut reader) = Reader::open(&self.manifest_path(&row.id)?) else { return Ok(()) };
        let mut writes = Writes::of(row.n);
        while let Ok(Some(line)) = reader.next_line() {
            let state = writes.state(self, line.seq)?;
            if matches!(state, LetterState::Published | LetterState::Settled) {
                each(line.position.as_str());
            }
        }
        Ok(())
    }
}
