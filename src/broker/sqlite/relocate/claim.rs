//! Claims: leases of a run, taken a row of letters at a time, renewed, and given back.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::super::file::{Doing, begin_unsynced};
use super::super::lock::{give_back, still_ours};
use super::super::queues::Queue;
use super::super::{browse, bulk, letters};
use super::{Session, parse_receipt};
use crate::broker::{Claimed, Claims, Missing, Receipt, Result, Wanted};
use crate::letter::RawLetter;

/// A claim ends early once it holds this many bytes.
pub(super) const CLAIM_BYTES: usize = 32 << 20;
/// Most letters that are claimed in one statement.
pub(super) const CLAIM_RUN: usize = 500;
/// What a letter holds, about.
const ABOUT: usize = 2 << 10;

impl Session {
    pub(super) fn claim(&mut self, next: &[Wanted], limit: usize) -> Result<Claims> {
        let action = || format!("claim from {}", self.queue.name);
        let now = self.place.now();
        let mut claims = Claims { exhausted: next.is_empty(), ..Claims::default() };
        let tx = begin_unsynced(&self.db, action)?;
        still_ours(&tx, &self.queue, self.epoch)?;
        let token: String =
            tx.query_row("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0)).doing(action)?;
        let until = now.saturating_add(self.claim_for);
        let mut rows: Vec<(u64, i64)> = Vec::with_capacity(next.len().min(limit));
        for wanted in next.iter().take(limit) {
            match letters::parse_position(&wanted.position) {
                Some((queue, id)) if queue == self.queue.id => rows.push((wanted.seq, id)),
                _ => claims.missing.push((wanted.seq, Missing::Gone)),
            }
        }
        let mut away = Vec::new();
        let mut bytes = 0;
        for run in bulk::runs(&rows, |(_, id)| *id, |_, _| true, CLAIM_RUN) {
            if bytes >= CLAIM_BYTES {
                break;
            }
            bytes += self
                .claim_run(&tx, &rows[run], (&token, until, now), &mut claims, &mut away)
                .doing(action)?;
        }
        for (seq, id) in away {
            let why = self.moved.why(&tx, &self.queue, &self.run, id).doing(action)?;
            claims.missing.push((seq, why));
        }
        tx.commit(action)?;
        Ok(claims)
    }

    /// Claims letters whose rows follow each other, as far as [`CLAIM_BYTES`] reach; gives the bytes, and
    /// which are not in their rows.
    fn claim_run(
        &self,
        tx: &Connection,
        run: &[(u64, i64)],
        (token, until, now): (&str, i64, i64),
        claims: &mut Claims,
        away: &mut Vec<(u64, i64)>,
    ) -> rusqlite::Result<usize> {
        let (Some(&(_, first)), Some(&(_, end))) = (run.first(), run.last()) else { return Ok(0) };
        let name: Arc<str> = self.queue.name.as_str().into();
        let (found, bytes) = rows_of(tx, &self.queue, &name, (first, end))?;
        let last = if bytes >= CLAIM_BYTES { found.last().map_or(end, |(id, _)| *id) } else { end };
        let taken = self.take(tx, (first, last), (token, until, now))?;
        let ours: Option<HashSet<i64>> = match taken == found.len() {
            true => None,
            false => Some(
                tx.prepare_cached("SELECT letter FROM lease WHERE letter BETWEEN ?1 AND ?2 AND token = ?3")?
                    .query_map(params![first, last, token], |row| row.get(0))?
                    .collect::<rusqlite::Result<_>>()?,
            ),
        };
        let mut found = found.into_iter().peekable();
        for (seq, id) in run.iter().filter(|(_, id)| *id <= last) {
            let Some((_, letter)) = found.next_if(|(found, _)| found == id) else {
                away.push((*seq, *id));
                continue;
            };
            let mine = ours.as_ref().is_none_or(|ours| ours.contains(id));
            // Headers that nobody can read cannot be copied as they are: left for people to look at.
            if mine && !letters::readable(&letter.message) {
                give_back(tx, "letter = ?1 AND token = ?2", params![id, token])?;
                claims.missing.push((*seq, Missing::NotSeen));
            } else if mine {
                let receipt = Receipt(format!("m{id}.{token}"));
                claims.got.push(Claimed { seq: *seq, receipt, letter });
            } else {
                claims.missing.push((*seq, Missing::NotSeen));
            }
        }
        Ok(bytes)
    }

    /// Leases the letters of these rows but for those that another reader holds; gives their number. Does not
    /// count as a receive: a letter comes back as it was.
    fn take(
        &self,
        tx: &Connection,
        (first, last): (i64, i64),
        (token, until, now): (&str, i64, i64),
    ) -> rusqlite::Result<usize> {
        tx.prepare_cached(
            "INSERT INTO lease (letter, queue, key, token, owner, until, receives)
             SELECT id, queue, key, ?3, ?4, ?5, 0 FROM letter WHERE id BETWEEN ?1 AND ?2 AND +queue = ?7
             ON CONFLICT (letter) DO UPDATE SET token = ?3, owner = ?4, until = ?5
                 WHERE lease.until <= ?6 OR lease.owner = ?4",
        )?
        .execute(params![first, last, token, self.owner, until, now, self.queue.id])
    }

    pub(super) fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        let action = || format!("give back {} letters of {}", batch.len(), self.queue.name);
        let tx = begin_unsynced(&self.db, action)?;
        for (id, token) in batch.iter().filter_map(parse_receipt) {
            give_back(&tx, "letter = ?1 AND token = ?2", params![id, token]).doing(action)?;
        }
        tx.commit(action)
    }

    pub(super) fn renew(&mut self, held: &[Receipt]) -> Result<()> {
        let action = || format!("renew the lock of {}", self.queue.name);
        let now = self.place.now();
        let until = now.saturating_add(self.claim_for);
        let tx = begin_unsynced(&self.db, action)?;
        still_ours(&tx, &self.queue, self.epoch)?;
        tx.prepare_cached("UPDATE lock SET seen_at = ?2, until = ?3 WHERE queue = ?1")
            .and_then(|mut update| update.execute(params![self.queue.id, now, until]))
            .doing(action)?;
        for (id, token) in held.iter().filter_map(parse_receipt) {
            tx.prepare_cached("UPDATE lease SET until = ?3 WHERE letter = ?1 AND token = ?2")
                .and_then(|mut update| update.execute(params![id, token, until]))
                .doing(action)?;
        }
        tx.commit(action)
    }
}

/// The letters of a queue in these rows, as far as [`CLAIM_BYTES`] reach, and their bytes.
pub(super) fn rows_of(
    db: &Connection,
    queue: &Queue,
    name: &Arc<str>,
    (first, last): (i64, i64),
) -> rusqlite::Result<(Vec<(i64, RawLetter)>, usize)> {
    let sql = format!(
        "SELECT {}, body FROM letter WHERE id BETWEEN ?1 AND ?2 AND +queue = ?3 ORDER BY id",
        browse::COLUMNS
    );
    let about = usize::try_from(last - first + 1).unwrap_or(1).saturating_mul(ABOUT).min(CLAIM_BYTES);
    let mut query = db.prepare_cached(&sql)?;
    browse::letters_of(&mut query.query(params![first, last, queue.id])?, queue, name, about, CLAIM_BYTES)
}
