//! The usual batch, in which every letter is ours, new and taken: many rows in few statements. Any other is
//! left to those who look at each letter by itself; nothing of it is changed here.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::super::bulk;
use super::super::file::{Doing, begin, commit};
use super::super::letters::Written;
use super::super::lock::still_ours;
use super::{LOOKED, Sending, Session, arrived, number, parse_receipt};
use crate::broker::{Fate, Published, Receipt, Result, Settled};

impl Session {
    /// Moves a batch of which every letter is ours and has no copy yet, the usual one, in few statements.
    /// `None`, and nothing is changed, if it is another.
    pub(super) fn move_together(&self, batch: &[Sending<'_>]) -> Result<Option<Vec<Fate>>> {
        let letters = if batch.len() == 1 { "letter" } else { "letters" };
        let action = || format!("move {} {letters} to {}", batch.len(), self.target.name);
        let mut rows = Vec::with_capacity(batch.len());
        let mut copies = Vec::with_capacity(batch.len());
        for sending in batch {
            let (Ok(written), Some(row)) = (&*sending.written, parse_receipt(&sending.receipt)) else {
                return Ok(None);
            };
            rows.push(row);
            copies.push(written);
        }
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        self.holds(&tx)?;
        if self.any_copied(&tx, batch).doing(action)? {
            return Ok(None);
        }
        for run in bulk::runs(&rows, |(id, _)| *id, |a, b| a.1 == b.1, usize::MAX) {
            if !self.remove_run(&tx, &rows[run], now).doing(action)? {
                return Ok(None);
            }
        }
        let Some(first) = bulk::insert(&tx, &copies, self.target.id, now).doing(action)? else {
            return Ok(None);
        };
        let marks: Vec<(i64, i64, i64)> = batch
            .iter()
            .zip(&rows)
            .zip(first..)
            .map(|((sending, (id, _)), copy)| (number(sending.seq), *id, copy))
            .collect();
        bulk::mark(&tx, &self.run, &marks, now).doing(action)?;
        commit(tx, action)?;
        Ok(Some(marks.into_iter().map(|(.., copy)| Fate::Moved(arrived(copy))).collect()))
    }

    /// Removes originals whose rows follow each other, with their claims. False unless every one of them is there
    /// and held by exactly this claim, neither by a newer one nor by another reader's (t10), or, if they were only
    /// looked at, by nobody else. Nothing may be committed then.
    fn remove_run(&self, tx: &Connection, run: &[(i64, &str)], now: i64) -> rusqlite::Result<bool> {
        let (Some((first, token)), Some((last, _))) = (run.first(), run.last()) else { return Ok(true) };
        let mine = match *token == LOOKED {
            true => !self.anybody_else(tx, *first, *last, now)?,
            false => {
                let leases = "SELECT count(*) FROM lease WHERE letter BETWEEN ?1 AND ?2 AND token = ?3 AND +queue = ?4";
                bulk::count(tx, leases, params![first, last, token, self.queue.id])? == run.len()
            }
        };
        if !mine {
            return Ok(false);
        }
        match self.delete(tx, *first, *last)? {
            gone if gone == run.len() => Ok(true),
            _ if *token == LOOKED => Ok(false),
            // A claim without its letter cannot be: both go together.
            gone => Err(rusqlite::Error::StatementChangedRows(gone)),
        }
    }

    /// Has one of these numbers a copy already?
    fn any_copied(&self, db: &Connection, batch: &[Sending<'_>]) -> rusqlite::Result<bool> {
        let seqs: HashSet<i64> = batch.iter().map(|sending| number(sending.seq)).collect();
        let (Some(first), Some(last)) = (seqs.iter().min(), seqs.iter().max()) else { return Ok(false) };
        let mut query = db.prepare_cached("SELECT seq FROM mark WHERE run = ?1 AND seq BETWEEN ?2 AND ?3")?;
        let mut rows = query.query(params![self.run, first, last])?;
        while let Some(row) = rows.next()? {
            if seqs.contains(&row.get(0)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends a batch of which no letter has a copy yet, the usual one, in few statements. `None`, and nothing
    /// is changed, if it is another.
    pub(super) fn publish_together(&self, batch: &[Sending<'_>]) -> Result<Option<Vec<Result<Published>>>> {
        let action = || format!("send {} letters to {}", batch.len(), self.target.name);
        let copies: Option<Vec<&Written>> =
            batch.iter().map(|sending| (*sending.written).as_ref().ok()).collect();
        let Some(copies) = copies else { return Ok(None) };
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        self.holds(&tx)?;
        if self.any_copied(&tx, batch).doing(action)? {
            return Ok(None);
        }
        let Some(first) = bulk::insert(&tx, &copies, self.target.id, now).doing(action)? else {
            return Ok(None);
        };
        let marks: Vec<(i64, i64, i64)> = batch
            .iter()
            .zip(first..)
            .map(|(sending, copy)| (number(sending.seq), sending.letter, copy))
            .collect();
        bulk::mark(&tx, &self.run, &marks, now).doing(action)?;
        // The originals are not open any more, for whoever looks, though they are still there.
        let sent: Vec<(i64, i64)> = marks.iter().map(|(seq, letter, _)| (*seq, *letter)).collect();
        bulk::sent(&tx, &self.run, &sent).doing(action)?;
        commit(tx, action)?;
        Ok(Some(marks.into_iter().map(|(.., copy)| Ok(arrived(copy))).collect()))
    }

    pub(super) fn settle(&mut self, batch: &[Receipt]) -> Result<Vec<Settled>> {
        let action = || format!("settle {} letters of {}", batch.len(), self.queue.name);
        let now = self.place.now();
        let tx = begin(&self.db, action)?;
        still_ours(&tx, &self.queue, self.epoch)?;
        let rows: Vec<Option<(i64, &str)>> = batch.iter().map(parse_receipt).collect();
        let mut settled = Vec::with_capacity(batch.len());
        let row = |row: &Option<(i64, &str)>| row.map_or(0, |(id, _)| id);
        let same = |a: &Option<(i64, &str)>, b: &Option<(i64, &str)>| {
            a.zip(*b).is_some_and(|((_, a), (_, b))| a == b)
        };
        for run in bulk::runs(&rows, row, same, usize::MAX) {
            let known: Vec<(i64, &str)> = rows[run.clone()].iter().flatten().copied().collect();
            // A lease is not without its letter, so what is not removed together was not touched.
            let together = known.len() == run.len() && known.len() > 1 && known[0].1 != LOOKED;
            if together && self.remove_run(&tx, &known, now).doing(action)? {
                settled.extend(known.iter().map(|_| Settled::Settled));
                continue;
            }
            for row in &rows[run] {
                settled.push(match row {
                    Some((id, token)) if self.remove_one(&tx, *id, token, now).doing(action)? => {
                        Settled::Settled
                    }
                    _ => Settled::Stale,
                });
            }
        }
        commit(tx, action)?;
        Ok(settled)
    }

    /// Removes one original if it is ours under this receipt.
    fn remove_one(&self, tx: &Connection, id: i64, token: &str, now: i64) -> rusqlite::Result<bool> {
        Ok(self.is_mine(tx, id, token, now)? && self.delete(tx, id, id)? == 1)
    }
}
