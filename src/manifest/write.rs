//! Writing a manifest: streamed, mode 0600, no symlink followed, in place only when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::Digest;

use super::{Fault, Foot, HEAD_TEXT_MAX, Head, LINE_MAX, Line, Reader, SCHEMA, check_of, hex};

/// A manifest being written, under `<path>.part` until [`Writer::finish`].
pub struct Writer {
    out: BufWriter<File>,
    hash: sha2::Sha256,
    part: PathBuf,
    path: PathBuf,
    count: u64,
    line: Vec<u8>,
    done: bool,
}

impl Writer {
    /// Begins a manifest at `path`, which must not exist.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the system says.
    pub fn create(path: &Path, head: &Head) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists already"));
        }
        if !head.fits() {
            let what = format!("a text of its head is longer than {HEAD_TEXT_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        // A part that a dead process left is nobody's.
        if fs::symlink_metadata(&part).is_ok_and(|meta| meta.is_file()) {
            fs::remove_file(&part)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let mut writer = Self {
            out: BufWriter::with_capacity(256 * 1024, file),
            hash: sha2::Sha256::new(),
            part,
            path: path.to_owned(),
            count: 0,
            line: Vec::with_capacity(512),
            done: false,
        };
        serde_json::to_writer(&mut writer.line, head)?;
        writer.put(true)?;
        Ok(writer)
    }

    /// Begins one at `path` with the head and the letters of `old`: more are appended to it.
    ///
    /// # Errors
    /// The fault of `old`, or what the system says.
    pub fn extend(old: &Path, path: &Path) -> Result<Self, Fault> {
        let mut reader = Reader::open(old)?;
        let mut writer = Self::create(path, &reader.head().clone())?;
        while let Some(line) = reader.next_line()? {
            writer.line(&line)?;
        }
        Ok(writer)
    }

    /// Where it will lie.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Letters so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends a letter. The caller numbers them from 1.
    ///
    /// # Errors
    /// What the system says: nothing is in place then.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.line, line)?;
        self.count += 1;
        self.put(true)
    }

    /// Writes the foot, makes it durable and puts it in place. Gives the number of letters.
    ///
    /// # Errors
    /// What the system says: nothing is in place then.
    pub fn finish(mut self) -> io::Result<u64> {
        let sha256 = hex(&self.hash.clone().finalize());
        let foot = Foot { end: SCHEMA.to_owned(), count: self.count, sha256 };
        serde_json::to_writer(&mut self.line, &foot)?;
        self.put(false)?;
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.part, &self.path)?;
        self.done = true;
        // Its name too: a row of the ledger that tells of it may be durable at once. A file system that cannot do that
        // for a folder has nothing more to give.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(self.count)
    }

    fn put(&mut self, checked: bool) -> io::Result<()> {
        if checked {
            let check = check_of(&self.line);
            self.line.pop();
            self.line.extend_from_slice(b",\"check\":\"");
            self.line.extend_from_slice(&check);
            self.line.extend_from_slice(b"\"}");
        }
        self.line.push(b'\n');
        // What is written can be read again.
        if self.line.len() > LINE_MAX {
            let what = format!("a line of it is longer than {LINE_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.hash.update(&self.line);
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.part);
        }
    }
}
