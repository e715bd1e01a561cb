//! Letters for transactions, read beside them on a connection of its own. Nothing is claimed: a transaction of ours
//! is the only thing that happens to the file while it lasts, so it is early enough to ask there whether a letter is
//! still in its row and nobody else's.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::super::bulk;
use super::super::file::{Doing, Place};
use super::super::letters::{Written, parse_position, readable};
use super::super::queues::Queue;
use super::claim::{CLAIM_BYTES, CLAIM_RUN, rows_of};
use super::moved::Moved;
use super::{Form, LOOKED, Session};
use crate::broker::{Claimed, Claims, Looker, Missing, Packed, Receipt, Result, Wanted};
use crate::letter::Message;

/// See the file's head.
pub(super) struct Beside {
    place: Place,
    db: Connection,
    queue: Queue,
    name: Arc<str>,
    owner: String,
    run: String,
    moved: Moved,
}

impl Beside {
    /// For the letters of a session; `None` if the file cannot be opened once more.
    pub(super) fn of(session: &Session) -> Option<Self> {
        let db = session.place.read().ok()??;
        Some(Self {
            place: session.place.clone(),
            db,
            name: session.queue.name.as_str().into(),
            queue: session.queue.clone(),
            owner: session.owner.clone(),
            run: session.run.clone(),
            moved: Moved::default(),
        })
    }
}

impl Looker for Beside {
    fn look(&mut self, next: &[Wanted]) -> Result<Claims> {
        let action = || format!("read from {}", self.name);
        let now = self.place.now();
        let mut claims = Claims { exhausted: next.is_empty(), ..Claims::default() };
        let mut rows: Vec<(u64, i64)> = Vec::with_capacity(next.len());
        for wanted in next {
            match parse_position(&wanted.position) {
                Some((queue, id)) if queue == self.queue.id => rows.push((wanted.seq, id)),
                _ => claims.missing.push((wanted.seq, Missing::Gone)),
            }
        }
        claims.got.reserve(rows.len());
        // One state of the file for letters and leases.
        let tx = self.db.unchecked_transaction().doing(action)?;
        let mut away = Vec::new();
        let mut bytes = 0;
        for run in bulk::runs(&rows, |(_, id)| *id, |_, _| true, CLAIM_RUN) {
            if bytes >= CLAIM_BYTES {
                break;
            }
            bytes += self.look_at(&tx, &rows[run], now, &mut claims, &mut away).doing(action)?;
        }
        for (seq, id) in away {
            let why = self.moved.why(&tx, &self.queue, &self.run, id).doing(action)?;
            claims.missing.push((seq, why));
        }
        tx.commit().doing(action)?;
        Ok(claims)
    }

    fn packer(&self) -> Option<fn(Message) -> Packed> {
        Some(|message| Packed::new::<Form>(Written::of(&message)))
    }
}

impl Beside {
    /// Letters whose rows follow each other, as far as [`CLAIM_BYTES`] reach; gives the bytes.
    fn look_at(
        &self,
        db: &Connection,
        run: &[(u64, i64)],
        now: i64,
        claims: &mut Claims,
        away: &mut Vec<(u64, i64)>,
    ) -> rusqlite::Result<usize> {
        let (Some(&(_, first)), Some(&(_, end))) = (run.first(), run.last()) else { return Ok(0) };
        let (found, bytes) = rows_of(db, &self.queue, &self.name, (first, end))?;
        let last = if bytes >= CLAIM_BYTES { found.last().map_or(end, |(id, _)| *id) } else { end };
        let theirs: HashSet<i64> = db
            .prepare_cached(
                "SELECT letter FROM lease WHERE letter BETWEEN ?1 AND ?2 AND until > ?3 AND owner IS NOT ?4",
            )?
            .query_map(params![first, last, now, self.owner], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut found = found.into_iter().peekable();
        for (seq, id) in run.iter().filter(|(_, id)| *id <= last) {
            match found.next_if(|(found, _)| found == id) {
                None => away.push((*seq, *id)),
                // Headers that nobody can read cannot be copied as they are: left for people to look at.
                Some((_, letter)) if theirs.contains(id) || !readable(&letter.message) => {
                    claims.missing.push((*seq, Missing::NotSeen));
                }
                Some((_, letter)) => {
                    let receipt = Receipt(format!("m{id}.{LOOKED}"));
                    claims.got.push(Claimed { seq: *seq, receipt, letter });
                }
            }
        }
        Ok(bytes)
    }
}
