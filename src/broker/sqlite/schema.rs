//! The file's schema, its version and its migrations. `docs/embedded-broker.md` explains it to programs in
//! other languages and is compared with it by a test.

use rusqlite::{Connection, TransactionBehavior};

use super::file::Doing;
use crate::broker::{BrokerError, ErrorKind, Result};

/// `RDRV`: marks a SQLite file as a broker of redrive.
pub const APPLICATION_ID: i32 = 0x5244_5256;

/// One entry per version: what leads from the version before to it. Never edited once released.
pub const MIGRATIONS: &[&str] = &[VERSION_1];

/// The first version. Times are milliseconds since the epoch, UTC.
const VERSION_1: &str = "
CREATE TABLE file (
    id      TEXT NOT NULL,                 -- random; tells one file from another
    made_at INTEGER NOT NULL
) STRICT;

CREATE TABLE queue (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,  -- its incarnation: never used again
    name         TEXT NOT NULL UNIQUE,
    role         TEXT NOT NULL CHECK (role IN ('source', 'return_to', 'tier', 'dead_letter')),
    channel      TEXT,
    made_at      INTEGER NOT NULL,
    lease        INTEGER NOT NULL DEFAULT 30000,     -- how long a reader holds a letter
    max_receives INTEGER,                            -- handed out so often without an answer: dead
    tiers        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tiers)),  -- names, by failed tries
    dead_letter  TEXT,                               -- name of the queue after the last tier
    delay        INTEGER,                            -- of a tier
    return_to    TEXT,                               -- of a tier: where its letters go when due
    retention    INTEGER                             -- NULL: kept until settled
) STRICT;

CREATE TABLE letter (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,    -- never used again, smaller came earlier
    queue      INTEGER NOT NULL REFERENCES queue (id),
    due        INTEGER NOT NULL DEFAULT 0,           -- not handed out before; 0: at once
    entered_at INTEGER NOT NULL,                     -- when it came into this queue
    sent_at    INTEGER NOT NULL,                     -- when its producer sent it
    headers    TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(headers)),
    properties TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(properties)),
    key        BLOB,                                 -- the group: one letter of it in flight; NULL: none
    body       BLOB                                  -- NULL is not empty; last, so that a look may skip it
) STRICT;
CREATE INDEX letter_queue ON letter (queue);
CREATE INDEX letter_due ON letter (queue, due) WHERE due > 0;

CREATE TABLE lease (
    letter   INTEGER PRIMARY KEY,
    queue    INTEGER NOT NULL,
    key      BLOB,
    token    TEXT,                                   -- NULL: given back
    owner    TEXT,
    until    INTEGER NOT NULL,                       -- in the past: free again
    receives INTEGER NOT NULL                        -- how often it was handed out from this queue
) STRICT;
CREATE INDEX lease_queue ON lease (queue, key);
CREATE TRIGGER letter_gone AFTER DELETE ON letter BEGIN
    DELETE FROM lease WHERE letter = OLD.id;
    DELETE FROM sent WHERE letter = OLD.id;
END;

-- In a tier every letter waits, whoever put it there.
CREATE TRIGGER letter_waits AFTER INSERT ON letter
WHEN NEW.due = 0 AND (SELECT delay FROM queue WHERE id = NEW.queue) IS NOT NULL BEGIN
    UPDATE letter SET due = NEW.entered_at + (SELECT delay FROM queue WHERE id = NEW.queue) WHERE id = NEW.id;
END;

CREATE TABLE lock (                                  -- one run at a time on a dead-letter queue
    queue   INTEGER PRIMARY KEY,
    epoch   INTEGER NOT NULL,                        -- grows with every holder
    owner   TEXT,                                    -- NULL: free
    run     TEXT,
    who     TEXT,
    process TEXT,                                    -- where it can be seen whether the holder lives
    seen_at INTEGER NOT NULL,
    until   INTEGER NOT NULL
) STRICT;

CREATE TABLE run (
    run   TEXT PRIMARY KEY,
    queue INTEGER NOT NULL,
    after INTEGER NOT NULL,                          -- last letter of the file when the run began
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mark (                                  -- what runs have moved; unique for ever
    run    TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    letter INTEGER NOT NULL,                         -- the original
    copy   INTEGER NOT NULL,                         -- the letter that was made of it
    at     INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE sent (                                  -- copied by a run, original not removed yet
    letter INTEGER PRIMARY KEY,
    run    TEXT NOT NULL,
    seq    INTEGER NOT NULL
) STRICT;
";

/// What a file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing in it yet.
    Empty,
    /// Of the version that this build writes.
    Current,
    /// Of an earlier version: has to be migrated first.
    Older(usize),
}

/// Looks at application id and version; changes nothing.
///
/// # Errors
/// `Version`: made by another program, or by a newer redrive. Such a file is never written to.
pub fn inspect(db: &Connection, shown: &str) -> Result<Found> {
    let action = || format!("open {shown}");
    let id: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0)).doing(action)?;
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).doing(action)?;
    let objects: i64 =
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).doing(action)?;
    if id == 0 && version == 0 && objects == 0 {
        return Ok(Found::Empty);
    }
    if id != APPLICATION_ID {
        return Err(BrokerError::new(ErrorKind::Version, action(), "it is a database of another program")
            .hint("name a file of its own in the broker's `url`"));
    }
    match usize::try_from(version) {
        Ok(version) if version == MIGRATIONS.len() => Ok(Found::Current),
        Ok(version) if version < MIGRATIONS.len() => Ok(Found::Older(version)),
        _ => Err(BrokerError::new(
            ErrorKind::Version,
            action(),
            format!("it has schema version {version}; this redrive knows up to {}", MIGRATIONS.len()),
        )
        .hint("use the redrive that wrote it, or a newer one")),
    }
}

/// Leads a file to the current version, each version in a transaction of its own.
pub fn migrate(db: &mut Connection, shown: &str, now: i64) -> Result<()> {
    migrate_by(db, shown, now, MIGRATIONS)
}

/// As [`migrate`], by a given list.
fn migrate_by(db: &mut Connection, shown: &str, now: i64, migrations: &[&str]) -> Result<()> {
    let action = || format!("migrate {shown}");
    loop {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).doing(action)?;
        // Asked again inside: another process may have been faster.
        let version: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0)).doing(action)?;
        let done = usize::try_from(version).unwrap_or(usize::MAX);
        let Some(step) = migrations.get(done) else { return Ok(()) };
        tx.execute_batch(step).doing(action)?;
        if done == 0 {
            tx.pragma_update(None, "application_id", APPLICATION_ID).doing(action)?;
            tx.execute("INSERT INTO file VALUES (lower(hex(randomblob(8))), ?1)", [now]).doing(action)?;
        }
        tx.pragma_update(None, "user_version", version + 1).doing(action)?;
        tx.commit().doing(action)?;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn migrations_lead_an_old_file_to_the_current_version_and_keep_what_is_in_it() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate_by(&mut db, "x", 7, MIGRATIONS).unwrap();
        db.execute("INSERT INTO queue (name, role, made_at) VALUES ('orders', 'source', 1)", []).unwrap();
        let next: Vec<&str> =
            MIGRATIONS.iter().copied().chain(["ALTER TABLE queue ADD COLUMN colour TEXT"]).collect();
        migrate_by(&mut db, "x", 8, &next).unwrap();
        let (name, colour): (String, Option<String>) =
            db.query_row("SELECT name, colour FROM queue", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!((name.as_str(), colour), ("orders", None));
        let made: i64 = db.query_row("SELECT made_at FROM file", [], |row| row.get(0)).unwrap();
        assert_eq!(made, 7, "the file keeps its identity");
        // Now this build's list is the shorter one: the file is newer than the build.
        let refused = inspect(&db, "x").unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Version);
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db, "x", 0).unwrap();
        let broken: Vec<&str> = MIGRATIONS.iter().copied().chain(["CREATE TABLE a (b); nonsense"]).collect();
        migrate_by(&mut db, "x", 0, &broken).unwrap_err();
        assert_eq!(inspect(&db, "x").unwrap(), Found::Current);
        let there: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'a'", [], |r| r.get(0)).unwrap();
        assert_eq!(there, 0);
    }

    #[test]
    fn files_of_other_programs_are_refused() {
        let db = Connection::open_in_memory().unwrap();
        assert_eq!(inspect(&db, "x").unwrap(), Found::Empty);
        db.execute_batch("CREATE TABLE theirs (a)").unwrap();
        assert_eq!(inspect(&db, "x").unwrap_err().kind, ErrorKind::Version);
    }
}
