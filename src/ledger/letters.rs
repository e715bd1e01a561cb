//! The letters of a run: a byte each, a row for each that is open, a note for each that does not move.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{Counts, Ledger, LedgerError, LetterState, Lock, Result};
use crate::clock::Time;
use crate::manifest::Line;
use crate::proof::mutation::mutated;

/// Letters to a row of states.
const CHUNK: u64 = 4096;
/// Rows of states kept in memory.
const KEPT: usize = 32;

/// One entry to write.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The letter.
    pub line: &'a Line,
    /// Its new state; `None`: only a note.
    pub state: Option<LetterState>,
    /// Which try, for an intent.
    pub attempt: u32,
    /// Hash of what is sent, for an intent.
    pub hash: Option<&'a str>,
    /// Why it did not move: outcome, code, more words, the letter it waits for.
    pub note: Option<(&'static str, &'a str, Option<&'a str>, Option<&'a str>)>,
}

/// An open letter: intended, published or in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLetter {
    /// Its number.
    pub seq: u64,
    /// Its state.
    pub state: LetterState,
    /// Tries so far.
    pub attempt: u32,
    /// When the first intent was written.
    pub first_at: Time,
    /// Its id.
    pub letter: String,
    /// Where it lay.
    pub position: String,
    /// Its event id.
    pub event_id: Option<String>,
    /// Its group.
    pub group: Option<String>,
}

/// The states of one run, with the rows in use kept in memory.
#[derive(Debug, Default)]
pub struct Writes {
    run: i64,
    chunks: BTreeMap<u64, Chunk>,
    turn: u64,
}

#[derive(Debug)]
struct Chunk {
    body: Vec<u8>,
    dirty: bool,
    used: u64,
}

impl Writes {
    /// Of a run, by its number.
    pub fn of(run: i64) -> Self {
        Self { run, chunks: BTreeMap::new(), turn: 0 }
    }

    fn chunk(&mut self, sql: &Connection, number: u64) -> Result<&mut Chunk> {
        self.turn += 1;
        if !self.chunks.contains_key(&number) {
            if self.chunks.len() >= KEPT {
                let oldest =
                    self.chunks.iter().filter(|(_, c)| !c.dirty).min_by_key(|(_, c)| c.used).map(|(n, _)| *n);
                if let Some(oldest) = oldest {
                    self.chunks.remove(&oldest);
                }
            }
            let body = load(sql, self.run, number)?;
            self.chunks.insert(number, Chunk { body, dirty: false, used: self.turn });
        }
        let turn = self.turn;
        let chunk = self.chunks.entry(number).or_insert_with(|| Chunk {
            body: vec![0; CHUNK as usize],
            dirty: false,
            used: turn,
        });
        chunk.used = turn;
        Ok(chunk)
    }

    /// The state of one letter.
    ///
    /// # Errors
    /// The database's.
    pub fn state(&mut self, ledger: &Ledger, seq: u64) -> Result<LetterState> {
        let chunk = self.chunk(&ledger.sql, seq / CHUNK)?;
        let byte = chunk.body.get((seq % CHUNK) as usize).copied().unwrap_or(0);
        Ok(LetterState::of(byte).unwrap_or_default())
    }

    fn set(&mut self, sql: &Connection, seq: u64, state: LetterState) -> Result<()> {
        let chunk = self.chunk(sql, seq / CHUNK)?;
        if let Some(byte) = chunk.body.get_mut((seq % CHUNK) as usize) {
            *byte = state.byte();
            chunk.dirty = true;
        }
        Ok(())
    }

    fn store(&mut self, sql: &Connection) -> Result<()> {
        let mut statement =
            sql.prepare_cached("INSERT OR REPLACE INTO states (run, chunk, body) VALUES (?1, ?2, ?3)")?;
        for (number, chunk) in self.chunks.iter_mut().filter(|(_, chunk)| chunk.dirty) {
            statement.execute(params![self.run, number, chunk.body])?;
            chunk.dirty = false;
        }
        Ok(())
    }
}

fn load(sql: &Connection, run: i64, number: u64) -> Result<Vec<u8>> {
    let body: Option<Vec<u8>> = sql
        .prepare_cached("SELECT body FROM states WHERE run = ?1 AND chunk = ?2")?
        .query_row(params![run, number], |row| row.get(0))
        .optional()?;
    let mut body = body.unwrap_or_default();
    body.resize(CHUNK as usize, 0);
    Ok(body)
}

impl Ledger {
    /// Writes entries in one transaction, on condition that `lock` still holds (m20). `sync`: durable when
    /// it returns.
    ///
    /// # Errors
    /// [`LedgerError::LockLost`]: nothing was written. Or the database's.
    pub fn write(
        &mut self,
        writes: &mut Writes,
        lock: &Lock,
        entries: &[Entry<'_>],
        now: Time,
        sync: bool,
    ) -> Result<()> {
        self.put(writes, lock, entries, now, sync, None)
    }

    /// What a part of a run that was ousted by another run still knows of its own letters: what came of sends that it
    /// had begun. The lock keeps the dead-letter queue for one run; whose part it is, the rows of a run belong to.
    /// Nothing new is intended, and nothing is written once another process goes on with this run: that one asks the
    /// broker, and what it finds must stay (m20).
    ///
    /// # Errors
    /// [`LedgerError::LockLost`]: nothing was written. Or the database's.
    pub fn last_words(
        &mut self,
        writes: &mut Writes,
        lock: &Lock,
        part: u32,
        entries: &[Entry<'_>],
        now: Time,
    ) -> Result<()> {
        let known: Vec<Entry<'_>> =
            entries.iter().filter(|entry| entry.state != Some(LetterState::Intended)).cloned().collect();
        self.put(writes, lock, &known, now, true, Some(part))
    }

    fn put(
        &mut self,
        writes: &mut Writes,
        lock: &Lock,
        entries: &[Entry<'_>],
        now: Time,
        sync: bool,
        part: Option<u32>,
    ) -> Result<()> {
        self.durable(sync)?;
        let run = writes.run;
        let transaction = self.sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let may: Option<i64> = match part {
            None => transaction
                .prepare_cached("SELECT 1 FROM locks WHERE dlq = ?1 AND owner = ?2 AND epoch = ?3")?
                .query_row(params![lock.dlq, lock.owner, lock.epoch], |row| row.get(0))
                .optional()?,
            // Who resumes a run takes the lock in its name first and counts its part up then.
            Some(part) => transaction
                .prepare_cached(
                    "SELECT 1 FROM runs WHERE n = ?1 AND parts = ?2 AND state = 'running' AND NOT EXISTS \
                     (SELECT 1 FROM locks WHERE locks.dlq = ?3 AND locks.run = runs.id)",
                )?
                .query_row(params![run, part, lock.dlq], |row| row.get(0))
                .optional()?,
        };
        if may.is_none() && !mutated("m20") {
            return Err(LedgerError::LockLost);
        }
        {
            let mut open = transaction.prepare_cached(
                "INSERT INTO opened (run, seq, state, attempt, epoch, first_at, at, letter, position, event_id, \
                 grp, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11) \
                 ON CONFLICT (run, seq) DO UPDATE SET state = ?3, attempt = ?4, epoch = ?5, at = ?6, hash = ?11",
            )?;
            let mut mark = transaction
                .prepare_cached("UPDATE opened SET state = ?3, at = ?4 WHERE run = ?1 AND seq = ?2")?;
            let mut close = transaction.prepare_cached("DELETE FROM opened WHERE run = ?1 AND seq = ?2")?;
            let mut note = transaction.prepare_cached(
                "INSERT OR REPLACE INTO notes (run, seq, outcome, code, text, behind, letter, event_id, grp, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?;
            let mut unnote = transaction.prepare_cached("DELETE FROM notes WHERE run = ?1 AND seq = ?2")?;
            let at = now.millis();
            for entry in entries {
                let line = entry.line;
                if let Some(state) = entry.state {
                    let before = writes.state_in(&transaction, line.seq)?;
                    writes.set(&transaction, line.seq, state)?;
                    match state {
                        LetterState::Intended => {
                            open.execute(params![
                                run,
                                line.seq,
                                state.byte(),
                                entry.attempt,
                                lock.epoch,
                                at,
                                line.letter.as_str(),
                                line.position.as_str(),
                                line.event_id,
                                line.group,
                                entry.hash
                            ])?;
                        }
                        LetterState::Published | LetterState::InDoubt => {
                            mark.execute(params![run, line.seq, state.byte(), at])?;
                        }
                        LetterState::Planned
                        | LetterState::Settled
                        | LetterState::Failed
                        | LetterState::Gone
                        | LetterState::Twin => {
                            if matches!(
                                before,
                                LetterState::Intended | LetterState::Published | LetterState::InDoubt
                            ) {
                                close.execute(params![run, line.seq])?;
                            }
                        }
                    }
                    let had_note = matches!(before, LetterState::InDoubt | LetterState::Failed);
                    if had_note && entry.note.is_none() {
                        unnote.execute(params![run, line.seq])?;
                    }
                }
                if let Some((outcome, code, text, behind)) = entry.note {
                    note.execute(params![
                        run,
                        line.seq,
                        outcome,
                        code,
                        text,
                        behind,
                        line.letter.as_str(),
                        line.event_id,
                        line.group,
                        at
                    ])?;
                }
            }
        }
        writes.store(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    /// Letters of a run that are open, by number, at most `most` after `after`.
    ///
    /// # Errors
    /// The database's.
    pub fn open_letters(&self, run: i64, after: u64, most: usize) -> Result<Vec<OpenLetter>> {
        let mut query = self.sql.prepare_cached(
            "SELECT seq, state, attempt, first_at, letter, position, event_id, grp FROM opened \
             WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?;
        let rows = query.query_map(params![run, after, most], |row| {
            Ok(OpenLetter {
                seq: row.get(0)?,
                state: LetterState::of(row.get(1)?).unwrap_or_default(),
                attempt: row.get(2)?,
                first_at: Time::from_millis(row.get(3)?),
                letter: row.get(4)?,
                position: row.get(5)?,
                event_id: row.get(6)?,
                group: row.get(7)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The open letter of this number.
    ///
    /// # Errors
    /// The database's.
    pub fn open_letter(&self, run: i64, seq: u64) -> Result<Option<OpenLetter>> {
        Ok(self.open_letters(run, seq.saturating_sub(1), 1)?.into_iter().find(|letter| letter.seq == seq))
    }

    /// Positions in a dead-letter queue that some run left open: `(position, run)` (m17).
    ///
    /// # Errors
    /// The database's.
    pub fn open_elsewhere(&self, dlq: &str) -> Result<Vec<(String, String)>> {
        let mut query = self.sql.prepare(
            "SELECT opened.position, runs.id FROM opened JOIN runs ON runs.n = opened.run WHERE runs.dlq = ?1",
        )?;
        let rows = query.query_map([dlq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many letters of a run are in each state; letters that were never written about are planned and
    /// not counted here.
    ///
    /// # Errors
    /// The database's.
    pub fn tally(&self, run: i64) -> Result<BTreeMap<LetterState, u64>> {
        let mut tally = BTreeMap::new();
        let mut query = self.sql.prepare_cached("SELECT body FROM states WHERE run = ?1")?;
        let mut rows = query.query([run])?;
        while let Some(row) = rows.next()? {
            let body = row.get_ref(0)?.as_blob().unwrap_or_default();
            for byte in body.iter().filter(|byte| **byte != 0) {
                *tally.entry(LetterState::of(*byte).unwrap_or_default()).or_default() += 1;
            }
        }
        Ok(tally)
    }

    /// The six counts of a run whose process ended without a word, from its letters: what the run last said
    /// of itself is older than what it did.
    ///
    /// # Errors
    /// The database's.
    pub fn counts_found(&self, run: i64, planned: u64) -> Result<Counts> {
        let tally = self.tally(run)?;
        let of = |state| tally.get(&state).copied().unwrap_or(0);
        let mut noted = BTreeMap::new();
        for (outcome, _, letters) in self.note_counts(run)? {
            *noted.entry(outcome).or_insert(0) += letters;
        }
        let noted = |outcome: &str| noted.get(outcome).copied().unwrap_or(0);
        let mut counts = Counts {
            planned,
            moved: of(LetterState::Settled) + of(LetterState::Published),
            skipped: noted("skipped").max(of(LetterState::Gone) + of(LetterState::Twin)),
            failed: of(LetterState::Failed),
            held: 0,
            in_doubt: of(LetterState::InDoubt) + of(LetterState::Intended),
            untouched: 0,
        };
        let rest = planned.saturating_sub(counts.moved + counts.skipped + counts.failed + counts.in_doubt);
        counts.held = noted("held").min(rest);
        counts.untouched = rest - counts.held;
        Ok(counts)
    }

    /// Notes of letters that a rule keeps from the start, in one transaction: `(outcome, code)` of each.
    ///
    /// # Errors
    /// The database's.
    pub fn note_kept<'a>(
        &mut self,
        run: i64,
        lines: impl Iterator<Item = &'a Line>,
        now: Time,
    ) -> Result<()> {
        self.durable(false)?;
        let transaction = self.sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut note = transaction.prepare_cached(
                "INSERT OR REPLACE INTO notes (run, seq, outcome, code, text, behind, letter, event_id, grp, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?;
            for line in lines {
                let Some(kept) = &line.kept else { continue };
                note.execute(params![
                    run,
                    line.seq,
                    if kept.why.holds() { "held" } else { "skipped" },
                    kept.why.word(),
                    kept.detail,
                    kept.letter.as_ref().map(|letter| letter.as_str().to_owned()),
                    line.letter.as_str(),
                    line.event_id,
                    line.group,
                    now.millis()
                ])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

impl Writes {
    fn state_in(&mut self, sql: &Connection, seq: u64) -> Result<LetterState> {
        let chunk = self.chunk(sql, seq / CHUNK)?;
        let byte = chunk.body.get((seq % CHUNK) as usize).copied().unwrap_or(0);
        Ok(LetterState::of(byte).unwrap_or_default())
    }
}
