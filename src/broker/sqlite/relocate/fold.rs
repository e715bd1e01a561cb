//! Folding the write-ahead log into the file beside a run that moves much: copying its pages, and waiting for the
//! disk after it, took an eighth of a move. The run itself only folds the little that is left when the log has grown
//! long: SQLite begins a log anew only when all of it is folded and nobody has written since.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use rusqlite::Connection;

use super::super::file::{Doing, Place, in_pages};
use crate::broker::Result;

/// Bytes in the log from which on the run folds what is left of it.
const LONG: i64 = 64 << 20;
/// Bytes that are worth a turn: what a batch or two write.
const WORTH: i64 = 8 << 20;
/// Bytes at which SQLite itself folds the log with each transaction, should nobody else have done it.
pub(super) const AT_LAST: i64 = 2 * LONG;

/// Who folds, on a thread and a connection of its own, both of which end when this is dropped.
pub(super) struct Fold {
    go: SyncSender<()>,
    busy: Arc<AtomicBool>,
    /// See [`LONG`] and [`WORTH`], in pages.
    long: i64,
    worth: i64,
}

impl Fold {
    /// `None` if the file cannot be opened once more: its writers fold then, as always.
    pub(super) fn start(place: &Place) -> Option<Self> {
        Self::start_with(place, LONG, WORTH)
    }

    fn start_with(place: &Place, long: i64, worth: i64) -> Option<Self> {
        let db = place.write_existing().ok()?;
        let (long, worth) = (in_pages(&db, long).ok()?, in_pages(&db, worth).ok()?);
        let (go, turns) = sync_channel::<()>(1);
        let busy = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&busy);
        std::thread::Builder::new()
            .name("fold".to_owned())
            .spawn(move || {
                while turns.recv().is_ok() {
                    // What could not be folded now is with the next turn.
                    if let Err(error) = checkpoint(&db, "PASSIVE") {
                        tracing::debug!(%error, "the log was not folded");
                    }
                    flag.store(false, Ordering::Release);
                }
            })
            .ok()?;
        Some(Self { go, busy, long, worth })
    }

    /// After a transaction on `db`.
    pub(super) fn after(&self, db: &Connection, place: &Place) -> Result<()> {
        if self.busy.load(Ordering::Acquire) {
            return Ok(());
        }
        let action = || format!("fold the log of {}", place.shown);
        let (pages, folded) = checkpoint(db, "NOOP").doing(action)?;
        if pages >= self.long {
            checkpoint(db, "PASSIVE").doing(action)?;
        } else if pages - folded >= self.worth {
            self.busy.store(true, Ordering::Release);
            if self.go.try_send(()).is_err() {
                self.busy.store(false, Ordering::Release);
            }
        }
        Ok(())
    }
}

/// Pages in the log, and how many of them are folded.
fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<(i64, i64)> {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| Ok((row.get(1)?, row.get(2)?)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn a_log_that_is_folded_beside_stays_short_and_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            path: folder.path().join("x.db"),
            shown: "x.db".to_owned(),
            broker: "local".to_owned(),
            writes: true,
            clock: Arc::new(SystemClock),
            idle: Arc::default(),
        };
        let db = place.write().unwrap();
        super::super::super::file::fold_after(&db, 0).unwrap();
        db.execute_batch("CREATE TABLE t (b BLOB)").unwrap();
        let fold = Fold::start_with(&place, 1_600_000, 200_000).unwrap();
        let write = |times: u32| {
            let (mut longest, mut beside) = (0, 0);
            for _ in 0..times {
                db.execute("INSERT INTO t VALUES (zeroblob(200000))", []).unwrap();
                fold.after(&db, &place).unwrap();
                beside += u32::from(fold.busy.load(Ordering::Acquire));
                longest = longest.max(checkpoint(&db, "NOOP").unwrap().0);
                while fold.busy.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
            (longest, beside)
        };
        let (longest, beside) = write(20);
        assert!(longest < 50 && beside > 5, "{longest} {beside}");
        // Somebody who reads keeps SQLite from beginning anew; when he is gone the run itself folds the rest.
        let reader = place.read().unwrap().unwrap();
        let looks = reader.unchecked_transaction().unwrap();
        let _: i64 = looks.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert!(write(20).0 > 225);
        drop(looks);
        let _ = write(1);
        assert!(write(1).0 < 50);
    }
}
