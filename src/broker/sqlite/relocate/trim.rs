//! `run --trim`: originals that a run copied and never removed, because it was killed and its ledger is lost, or
//! nobody resumed it. The mark of each, written with the copy, proves that it arrived; what has none stays.

use rusqlite::params;

use super::super::file::{Doing, begin, commit};
use super::super::lock::still_ours;
use super::Session;
use crate::broker::Result;

/// Letters of one transaction.
const BATCH: usize = 1_000;

/// Moved and still there, as far as this row's mark proves it, and in nobody else's hands.
const PROVED: &str = "SELECT sent.letter FROM sent
    JOIN letter ON letter.id = sent.letter
    JOIN mark ON mark.run = sent.run AND mark.seq = sent.seq AND mark.letter = sent.letter
    WHERE letter.queue = ?1 AND NOT EXISTS (
        SELECT 1 FROM lease WHERE lease.letter = sent.letter AND lease.until > ?2 AND lease.owner IS NOT ?3)
    ORDER BY sent.letter LIMIT ?4";

impl Session {
    /// Removes what its mark proves to be moved; says how much that was, and what stays.
    pub(super) fn trim(&mut self) -> Result<String> {
        let name = self.queue.name.clone();
        let action = || format!("remove moved letters of {name}");
        let mut removed = 0;
        loop {
            let now = self.place.now();
            let tx = begin(&self.db, action)?;
            still_ours(&tx, &self.queue, self.epoch)?;
            let letters: Vec<i64> = tx
                .prepare_cached(PROVED)
                .and_then(|mut query| {
                    let rows =
                        query.query_map(params![self.queue.id, now, self.owner, BATCH], |row| row.get(0))?;
                    rows.collect()
                })
                .doing(action)?;
            for id in &letters {
                removed += self.delete(&tx, *id, *id).doing(action)?;
            }
            commit(tx, action)?;
            if letters.len() < BATCH {
                break;
            }
        }
        let stay: u64 = self
            .db
            .prepare_cached(
                "SELECT count(*) FROM sent JOIN letter ON letter.id = sent.letter WHERE letter.queue = ?1",
            )
            .and_then(|mut query| query.query_row([self.queue.id], |row| row.get(0)))
            .doing(action)?;
        let said = match removed {
            0 => format!("nothing to trim: no letter of {name} is there that a mark proves to be moved"),
            1 => format!("trimmed {name}: 1 letter that its mark proves to be moved is removed"),
            many => format!("trimmed {name}: {many} letters that their marks prove to be moved are removed"),
        };
        Ok(match stay {
            0 => said,
            stay => format!("{said}; {stay} hidden stay: no mark proves them, or somebody holds them"),
        })
    }
}
