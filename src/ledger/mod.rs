//! The operator's record of runs: intended, published, settled, in doubt, who, why; and of what was applied.
//!
//! One SQLite file, mode 0600. Per letter it holds a byte (4,096 to a row), a row for each letter that is
//! open, and a row for each that did not move. Every write is conditional on the epoch of the lock on the
//! dead-letter queue (protocol §8.1). Where the marks live with the broker, it is a copy and is rebuilt.

mod applies;
mod files;
mod letters;
mod lock;
mod moved;
mod note;
mod overtaken;
mod runs;
mod scratch;
mod state;
mod why;

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

pub use applies::{ApplyRow, NewApply};
pub use letters::{Entry, OpenLetter, Writes};
pub use lock::{Holder, Lock, process_start, this_host};
pub use moved::{ACCEPT_GONE, MovedBefore};
pub use note::{LEFT_OPEN, Note, TAKEN_AS_GONE};
pub use overtaken::After;
pub use runs::{Counts, NewRun, RunEvent, RunRow, RunState, Wish};
pub use scratch::{Found, Group, Judged, NAMED_MAX, Scratch, Seen, Summary};
pub use state::LetterState;
pub use why::WITHOUT_A_WORD;

/// Version of the file's layout.
const VERSION: i64 = 1;

/// Says whose file it is: "rdLG". Files of before it was written are known by their tables.
const APPLICATION_ID: i32 = 0x7264_4c47;

/// What can go wrong with a ledger.
#[derive(Debug)]
pub enum LedgerError {
    /// A newer version of redrive wrote it.
    Newer(i64),
    /// Something else lies there. It is left as it is.
    Foreign(PathBuf),
    /// The file, its folder or a lock on it.
    File(PathBuf, String),
    /// Somebody else has taken the dead-letter queue over: stop at once (m20).
    LockLost,
    /// The database's word.
    Sql(rusqlite::Error),
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer(version) => {
                write!(f, "a newer redrive wrote it (layout {version}, this one knows {VERSION})")
            }
            Self::Foreign(_) => f.write_str("it is no ledger of redrive; nothing in it was changed"),
            Self::File(path, what) => write!(f, "{}: {what}", path.display()),
            Self::LockLost => f.write_str("another process has taken the dead-letter queue over"),
            Self::Sql(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for LedgerError {}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Result of the ledger.
pub type Result<T> = std::result::Result<T, LedgerError>;

/// An open ledger.
pub struct Ledger {
    sql: Connection,
    path: PathBuf,
    synced: bool,
}

impl Ledger {
    /// Opens or makes the ledger at `path`.
    ///
    /// # Errors
    /// A newer layout, a symlink, a file of something else, a file that cannot be used.
    pub fn open(path: &Path) -> Result<Self> {
        files::private_file(path)?;
        let (ledger, version) = Self::opened(path)?;
        ledger.sql.pragma_update(None, "journal_mode", "WAL")?;
        if version < VERSION {
            ledger.sql.execute_batch(include_str!("schema.sql"))?;
        }
        let id: i32 = ledger.sql.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        if id != APPLICATION_ID {
            ledger.sql.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        Ok(ledger)
    }

    /// Opens a ledger to look at it, or to leave a wish in it; `None` if there is none. Makes nothing, and leaves
    /// the file's mode and layout as they are.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn look(path: &Path) -> Result<Option<Self>> {
        match files::kind(path)? {
            files::Kind::Missing | files::Kind::Empty => Ok(None),
            files::Kind::Ledger => Ok(Some(Self::opened(path)?.0)),
        }
    }

    fn opened(path: &Path) -> Result<(Self, i64)> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sql = Connection::open_with_flags(path, flags)?;
        sql.busy_timeout(std::time::Duration::from_secs(10))?;
        let version: i64 = sql.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version > VERSION {
            return Err(LedgerError::Newer(version));
        }
        sql.pragma_update(None, "synchronous", "FULL")?;
        sql.pragma_update(None, "cache_size", -4096)?;
        Ok((Self { sql, path: path.to_owned(), synced: true }, version))
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the frozen selection of a run lies.
    ///
    /// # Errors
    /// The folder cannot be made or is not ours.
    pub fn manifest_path(&self, run: &str) -> Result<PathBuf> {
        let mut folder = self.path.as_os_str().to_owned();
        folder.push(".runs");
        let folder = PathBuf::from(folder);
        files::private_folder(&folder)?;
        Ok(folder.join(format!("{run}.jsonl")))
    }

    /// Whether commits are durable when they return. Off only for what may be lost (protocol §2).
    fn durable(&mut self, durable: bool) -> Result<()> {
        if self.synced != durable {
            self.sql.pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })?;
            self.synced = durable;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
