//! Files of the ledger: mode 0600 in folders of mode 0700, and no symlink followed. What is no ledger is told by
//! looking alone, so that a slip of `--ledger` never changes the file of another program.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{APPLICATION_ID, LedgerError, Result};

/// What lies where the ledger is said to be. Anything else than these is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Missing,
    /// A file without anything in it.
    Empty,
    /// A ledger, of whichever version.
    Ledger,
}

/// Looks at what lies at `path`; changes nothing, there or beside it.
pub(super) fn kind(path: &Path) -> Result<Kind> {
    let fault = |what: &str| LedgerError::File(path.to_owned(), what.to_owned());
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kind::Missing),
        Err(error) => return Err(fault(&error.to_string())),
        Ok(meta) if meta.file_type().is_symlink() => return Err(fault("a symlink is not followed")),
        Ok(meta) if !meta.is_file() => return Err(fault("this is no file")),
        Ok(meta) if meta.len() == 0 => return Ok(Kind::Empty),
        Ok(_) => {}
    }
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(100).read_to_end(&mut head));
    read.map_err(|error| fault(&error.to_string()))?;
    // The head of a database: 16 bytes of magic, at 18 how it is written, at 68 whose it is.
    let foreign = || LedgerError::Foreign(path.to_owned());
    let (Some(magic), Some(written), Some(id)) = (head.get(..16), head.get(18), head.get(68..72)) else {
        return Err(foreign());
    };
    let id = id.iter().fold(0_i32, |id, byte| (id << 8) | i32::from(*byte));
    match id {
        _ if magic != b"SQLite format 3\0" => Err(foreign()),
        APPLICATION_ID => Ok(Kind::Ledger),
        // Nobody's, or nobody's yet: its tables say it.
        0 => by_tables(path, *written == 2),
        _ => Err(foreign()),
    }
}

fn by_tables(path: &Path, wal: bool) -> Result<Kind> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    // Without a log the file is whole, and is read as it lies: an ordinary reader would put a log beside it.
    let whole = wal && !PathBuf::from(log).exists();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = match whole {
        false => Connection::open_with_flags(path, flags)?,
        true => Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI)?,
    };
    sql.busy_timeout(std::time::Duration::from_secs(10))?;
    let ours = "SELECT count(*), count(*) FILTER (WHERE type = 'table' AND name IN \
                ('runs', 'states', 'opened', 'notes', 'events', 'locks')) FROM sqlite_schema";
    match sql.query_row(ours, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))? {
        (0, _) => Ok(Kind::Empty),
        (_, 6) => Ok(Kind::Ledger),
        _ => Err(LedgerError::Foreign(path.to_owned())),
    }
}

/// The file as an address that promises SQLite that nobody writes it.
fn immutable(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                address.push(char::from(*byte))
            }
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address + "?immutable=1"
}

/// Makes sure that `path` is a ledger, or one in the making, that only we may read.
pub(super) fn private_file(path: &Path) -> Result<()> {
    let fault = |error: io::Error| LedgerError::File(path.to_owned(), error.to_string());
    match kind(path)? {
        Kind::Ledger | Kind::Empty => {
            let mode = fs::metadata(path).map_err(fault)?.permissions().mode();
            if mode & 0o077 != 0 {
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(fault)?;
            }
            Ok(())
        }
        Kind::Missing => {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
                && !folder.exists()
            {
                private_folder(folder)?;
            }
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(_) => Ok(()),
                // Another process of ours was quicker.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(fault(error)),
            }
        }
    }
}

/// Makes a folder that only we may enter, and those above it that are missing.
pub(super) fn private_folder(path: &Path) -> Result<()> {
    let fault = |what: String| LedgerError::File(path.to_owned(), what);
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_symlink() => Err(fault("a symlink is not followed".to_owned())),
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(fault("this is no folder".to_owned())),
        Err(_) => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| fault(error.to_string())),
    }
}
