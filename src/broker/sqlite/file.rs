//! Opening the file, for reading or for writing, and SQLite's errors in the port's words.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::schema::{self, Found};
use crate::broker::{BrokerError, ErrorKind, OpenContext, Result};
use crate::clock::Clock;
use crate::topology::BrokerDecl;

/// Where the file is and how it may be used; connections are opened from it.
#[derive(Clone)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// As people see it.
    pub shown: String,
    /// Name of the broker in the topology.
    pub broker: String,
    /// May it be written?
    pub writes: bool,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Opened already, to see whether the file can be used, and not read with yet. Only where nothing is
    /// written: a reader that stays would keep the log from being folded at the end.
    pub idle: Arc<Mutex<Option<Connection>>>,
}

/// Bytes of a page in a file that is made here. Letters are often a KiB or more, and four times SQLite's usual page
/// means a quarter of the system calls for the log, for folding it and for reading: an eighth of a run's CPU time.
const PAGE: i64 = 16 * 1024;
/// Bytes written before the log is folded into the file, so many that folding is rare in a run.
pub const FOLD_AFTER: i64 = 40 << 20;
/// The same for somebody who writes little at a time and waits in between: folding more would make them late.
pub const FOLD_AFTER_AT_EASE: i64 = 4 << 20;

/// After how many bytes the log is folded by this connection; 0: never.
pub fn fold_after(db: &Connection, bytes: i64) -> rusqlite::Result<()> {
    let pages = in_pages(db, bytes)?;
    db.pragma_update(None, "wal_autocheckpoint", pages)
}

/// So many bytes in pages of this file, which may have been made with others.
pub fn in_pages(db: &Connection, bytes: i64) -> rusqlite::Result<i64> {
    let page: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(bytes / page.max(1))
}

impl Place {
    /// From a url: `sqlite:redrive.db`, beside the topology file, or `sqlite:/var/lib/redrive.db`.
    pub fn of(broker: &BrokerDecl, context: &OpenContext) -> Result<Self> {
        let Some(path) = path_of(&broker.url) else {
            return Err(BrokerError::new(
                ErrorKind::Unsupported,
                format!("open {}", broker.url.value),
                "the url names no file",
            )
            .hint("write `url: \"sqlite:redrive.db\"`"));
        };
        Ok(Self {
            path: context.base.join(&path),
            shown: path,
            broker: broker.name.value.clone(),
            writes: context.writes,
            clock: context.clock.clone(),
            idle: Arc::default(),
        })
    }

    /// Milliseconds since the epoch.
    pub fn now(&self) -> i64 {
        self.clock.now().millis()
    }

    /// Opens for reading; `None` if there is nothing yet. Creates nothing (K36).
    pub fn read(&self) -> Result<Option<Connection>> {
        if !self.path.exists() {
            return Ok(None);
        }
        if let Some(db) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(Some(db));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // A look goes through once: more would only be filled, page by page, and never asked again.
        let db = self.connect(flags, 400)?;
        match schema::inspect(&db, &self.shown)? {
            Found::Empty => Ok(None),
            Found::Current => Ok(Some(db)),
            Found::Older(version) => Err(BrokerError::new(
                ErrorKind::Version,
                format!("open {}", self.shown),
                format!("it has schema version {version} and has to be migrated first"),
            )
            .hint(format!("redrive apply --broker {}", self.broker))),
        }
    }

    /// Opens for writing; makes the file or migrates it where needed.
    pub fn write(&self) -> Result<Connection> {
        let action = || format!("open {}", self.shown);
        if !self.writes {
            return Err(BrokerError::new(ErrorKind::Denied, action(), "it was opened for reading only"));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // Enough for the upper levels of the trees and a batch.
        let mut db = self.connect(flags, 8_000)?;
        let found = schema::inspect(&db, &self.shown)?;
        if found == Found::Empty {
            db.pragma_update(None, "page_size", PAGE).doing(action)?;
            self.log_ahead(&db)?;
        }
        db.pragma_update(None, "synchronous", "FULL").doing(action)?;
        fold_after(&db, FOLD_AFTER).doing(action)?;
        if found != Found::Current {
            schema::migrate(&mut db, &self.shown, self.now())?;
        }
        Ok(db)
    }

    /// As [`Place::write`], but the file has to be there already.
    pub fn write_existing(&self) -> Result<Connection> {
        if self.path.exists() { self.write() } else { Err(self.absent()) }
    }

    /// There is no such file.
    pub fn absent(&self) -> BrokerError {
        BrokerError::new(ErrorKind::NotFound, format!("open {}", self.shown), "there is no such file yet")
            .hint(format!("redrive apply --broker {}", self.broker))
    }

    /// Opens with so many KiB of cache.
    fn connect(&self, flags: OpenFlags, cache: i64) -> Result<Connection> {
        let action = || format!("open {}", self.shown);
        let mut db = Connection::open_with_flags(&self.path, flags).doing(action)?;
        db.busy_handler(Some(wait)).doing(action)?;
        db.set_prepared_statement_cache_capacity(64);
        db.pragma_update(None, "cache_size", -cache).doing(action)?;
        Ok(db)
    }

    /// Write-ahead logging is a property of the file. Another process may be making the same file, and
    /// this statement does not wait by itself.
    fn log_ahead(&self, db: &Connection) -> Result<()> {
        let mut tries = 0;
        loop {
            match db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
                Err(error) if is_busy(&error) && tries < 200 => std::thread::sleep(Duration::from_millis(5)),
                other => {
                    return other.map(|_| ()).doing(|| format!("open {}", self.shown));
                }
            }
            tries += 1;
        }
    }
}

/// The path that a url names.
pub fn path_of(url: &str) -> Option<String> {
    let rest = url.strip_prefix("sqlite:")?;
    // `sqlite:///var/x` is written by habit; `sqlite://host/x` has no meaning.
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => return None,
        None => rest,
    };
    let names_a_file = !path.is_empty() && !path.starts_with(':') && Path::new(path).file_name().is_some();
    names_a_file.then(|| path.to_owned())
}

/// Begins a transaction that may write: it waits for other writers here, and never in the middle.
pub fn begin(db: &Connection, action: impl FnOnce() -> String) -> Result<Transaction<'_>> {
    Transaction::new_unchecked(db, TransactionBehavior::Immediate).doing(action)
}

/// As [`begin`], for a change that need not be on the disk before the next one that has to: a claim. If
/// power fails before, the claim never was, and its letter is free.
pub fn begin_unsynced(db: &Connection, action: impl FnOnce() -> String) -> Result<Unsynced<'_>> {
    let set = db.pragma_update(None, "synchronous", "NORMAL");
    let begun = set.and_then(|()| Transaction::new_unchecked(db, TransactionBehavior::Immediate));
    // Made before anything can fail, so that full durability comes back in every case.
    let guard = FullAgain(db);
    Ok(Unsynced { tx: begun.doing(action)?, _guard: guard })
}

/// See [`begin_unsynced`]. The fields are dropped in this order.
pub struct Unsynced<'db> {
    tx: Transaction<'db>,
    _guard: FullAgain<'db>,
}

impl Unsynced<'_> {
    /// Commits without waiting for the disk.
    pub fn commit(self, action: impl FnOnce() -> String) -> Result<()> {
        commit(self.tx, action)
    }
}

impl std::ops::Deref for Unsynced<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.tx
    }
}

/// Sets full durability when it goes out of scope, after its transaction.
struct FullAgain<'db>(&'db Connection);

impl Drop for FullAgain<'_> {
    fn drop(&mut self) {
        // Cannot fail outside a transaction; if it could, `begin` would say so at the next change.
        let _ = self.0.pragma_update(None, "synchronous", "FULL");
    }
}

/// Commits. An error here leaves open whether it happened, unless SQLite only was busy.
pub fn commit(tx: Transaction<'_>, action: impl FnOnce() -> String) -> Result<()> {
    tx.commit().doing(action).map_err(|mut error| {
        if error.kind != ErrorKind::Throttled {
            error.kind = ErrorKind::Unknown;
        }
        error
    })
}

/// Waits for another writer, in short steps so that nobody starves, for about ten seconds.
fn wait(tried: i32) -> bool {
    std::thread::sleep(Duration::from_millis(if tried < 100 { 1 } else { 5 }));
    tried < 2_000
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Turns SQLite's errors into the port's.
pub trait Doing<T> {
    /// With what was being done.
    fn doing(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| translate(&error, action()))
    }
}

fn translate(error: &rusqlite::Error, action: String) -> BrokerError {
    let (kind, message) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Throttled, "another program has held the file for 10s".to_owned())
        }
        Some(ErrorCode::CannotOpen) => (ErrorKind::Unreachable, error.to_string()),
        Some(
            ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::AuthorizationForStatementDenied,
        ) => (ErrorKind::Denied, error.to_string()),
        Some(ErrorCode::NotADatabase) => (ErrorKind::Version, "it is not a SQLite database".to_owned()),
        Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {
            (ErrorKind::Rejected, error.to_string())
        }
        _ => (ErrorKind::Other, error.to_string()),
    };
    let mut translated = BrokerError::new(kind, action, message);
    if let rusqlite::Error::SqliteFailure(failure, _) = error {
        translated = translated.code(format!("SQLITE {}", failure.extended_code));
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file_beside_the_topology_or_an_absolute_one() {
        assert_eq!(path_of("sqlite:redrive.db").as_deref(), Some("redrive.db"));
        assert_eq!(path_of("sqlite:../a b?c%20.db").as_deref(), Some("../a b?c%20.db"));
        assert_eq!(path_of("sqlite:/var/x.db").as_deref(), Some("/var/x.db"));
        assert_eq!(path_of("sqlite:///var/x.db").as_deref(), Some("/var/x.db"));
        for bad in ["sqlite:", "sqlite://host/x", "sqlite::memory:", "sqlite:/", "sqlite:..", "amqp://x"] {
            assert_eq!(path_of(bad), None, "{bad}");
        }
    }
}
