//! Which letters of a dead-letter queue other runs have moved, by their marks: asked only where a letter that a
//! run wants is not in its row any more. While a run has the queue's lock nobody else moves letters of it, so
//! they are read once, and kept as rows from where to where: runs move most letters in their order.

use rusqlite::{Connection, params};

use super::super::queues::Queue;
use crate::broker::Missing;

/// Rows that other runs have moved, from and to; ascending.
#[derive(Debug, Default)]
pub(super) struct Moved(Option<Vec<(i64, i64)>>);

impl Moved {
    /// Why the letter of this row is not there: moved by another run, or taken away by whom nobody knows.
    pub(super) fn why(
        &mut self,
        db: &Connection,
        queue: &Queue,
        run: &str,
        id: i64,
    ) -> rusqlite::Result<Missing> {
        let moved = match self.0.take() {
            Some(moved) => moved,
            None => read(db, queue, run)?,
        };
        let after = moved.partition_point(|(first, _)| *first <= id);
        let there = after.checked_sub(1).and_then(|at| moved.get(at)).is_some_and(|(_, last)| id <= *last);
        self.0 = Some(moved);
        Ok(if there { Missing::Moved } else { Missing::Gone })
    }
}

fn read(db: &Connection, queue: &Queue, run: &str) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut moved: Vec<(i64, i64)> = Vec::new();
    let mut query = db.prepare(
        "SELECT letter FROM mark WHERE run IN (SELECT run FROM run WHERE queue = ?1 AND run <> ?2) ORDER BY letter",
    )?;
    let mut rows = query.query(params![queue.id, run])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match moved.last_mut() {
            Some((_, last)) if id - *last <= 1 => *last = id,
            _ => moved.push((id, id)),
        }
    }
    Ok(moved)
}
