//! Where `status` remembers depths: a small file in the user's state folder, mode 0600 in a folder of 0700.
//! No symlink is followed, and a file that cannot be read or written only means that growth is not told.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::OFlags;

use crate::triage::Looks;

/// Most bytes that are read back.
const MOST: u64 = 1 << 20;

/// What is remembered, and where.
#[derive(Debug, Default)]
pub(super) struct Memory {
    path: Option<PathBuf>,
    looks: Looks,
}

impl std::ops::Deref for Memory {
    type Target = Looks;

    fn deref(&self) -> &Looks {
        &self.looks
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut Looks {
        &mut self.looks
    }
}

/// `$XDG_STATE_HOME/redrive`, else `~/.local/state/redrive`; `None` without a home.
fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("redrive"))
}

impl Memory {
    /// Reads it back; nothing is created.
    pub(super) fn read() -> Self {
        let Some(path) = folder().map(|folder| folder.join("looks.json")) else { return Self::default() };
        let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut text = String::new();
        let read = OpenOptions::new()
            .read(true)
            .custom_flags(no_follow)
            .open(&path)
            .and_then(|file| file.take(MOST).read_to_string(&mut text));
        let looks = if read.is_ok() { Looks::from_text(&text) } else { Looks::default() };
        Self { path: Some(path), looks }
    }

    /// Keeps it: a new file is put in the place of the old one, whole or not at all.
    pub(super) fn write(&self) {
        let Some(path) = &self.path else { return };
        let Some(folder) = path.parent() else { return };
        // Not being able to remember is no reason to fail: the depths were told.
        let _ = self.put(path, folder);
    }

    fn put(&self, path: &std::path::Path, folder: &std::path::Path) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let scratch = folder.join(format!("looks.{}.new", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&scratch)
            .and_then(|mut file| file.write_all(self.looks.to_text().as_bytes()))
            .and_then(|()| fs::rename(&scratch, path));
        if written.is_err() {
            let _ = fs::remove_file(&scratch);
        }
        written
    }
}
