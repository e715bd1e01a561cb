//! Reading a manifest as hostile input: bounded lines, known schema, every line by its checksum, texts that
//! can be what they say they are.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha2::Digest;

use super::{Foot, Head, LINE_MAX, Line, SCHEMA, check_of, hex};

/// What is wrong with a manifest.
#[derive(Debug)]
pub enum Fault {
    /// The system's word.
    Io(io::Error),
    /// Written by a newer version: its schema.
    Newer(String),
    /// Line number from 1, and what is wrong with it; fits after "line N: ".
    Line(u64, String),
    /// It has no foot: it was cut off, or is still being written.
    CutOff,
    /// Every line fits its checksum, and the whole does not: lines were taken out or put in.
    Altered,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Newer(schema) => {
                write!(f, "its schema is `{}`; this version reads {SCHEMA}", schema.escape_default())
            }
            Self::Line(number, what) => write!(f, "line {number}: {what}"),
            Self::CutOff => f.write_str("it has no last line: it was cut off"),
            Self::Altered => f.write_str("its lines are not those that were frozen: some came or went"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A manifest being read, line by line, in bounded memory.
pub struct Reader<R> {
    input: R,
    head: Head,
    hash: sha2::Sha256,
    number: u64,
    last_seq: u64,
    buffer: Vec<u8>,
    foot: Option<Foot>,
}

impl Reader<BufReader<File>> {
    /// Opens a file; a symlink is not followed.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn open(path: &Path) -> Result<Self, Fault> {
        // Not to wait for a pipe's writer: it is read twice, so a pipe is no manifest.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if path.is_symlink() => {
                return Err(io::Error::new(error.kind(), "a symlink is not followed").into());
            }
            opened => opened?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("this is no file; pipe it in with `redrive run -`").into());
        }
        Self::new(BufReader::with_capacity(256 * 1024, file))
    }

    /// Reads the whole file once: every line and the foot. Gives the head and the number of letters.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn verify(path: &Path) -> Result<(Head, u64), Fault> {
        let mut reader = Self::open(path)?;
        let mut count = 0;
        while reader.next_line()?.is_some() {
            count += 1;
        }
        Ok((reader.head, count))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn new(input: R) -> Result<Self, Fault> {
        let empty = Head {
            schema: String::new(),
            tool: String::new(),
            channel: String::new(),
            broker: String::new(),
            queue: String::new(),
            snapshot: String::new(),
            target: String::new(),
            rate: String::new(),
            order: super::OrderPolicy::Group,
            judged: super::Judged::default(),
            reason: String::new(),
            by: String::new(),
            at: crate::clock::Time::default(),
            selection: String::new(),
        };
        let mut reader = Self {
            input,
            head: empty,
            hash: sha2::Sha256::new(),
            number: 0,
            last_seq: 0,
            buffer: Vec::with_capacity(1024),
            foot: None,
        };
        if !reader.fill()? {
            return Err(Fault::CutOff);
        }
        // Before anything else of it is believed: a later version may check its lines otherwise.
        #[derive(serde::Deserialize)]
        struct Schema {
            schema: String,
        }
        let schema: Schema = reader.parse("this is no manifest of redrive")?;
        if schema.schema != SCHEMA {
            return match schema.schema.starts_with("redrive.manifest.v") {
                true => Err(Fault::Newer(super::bounded(&schema.schema).to_owned())),
                false => Err(reader.fault("this is no manifest of redrive")),
            };
        }
        reader.checked()?;
        reader.head = reader.parse("this is no head of a manifest")?;
        if !reader.head.fits() {
            return Err(reader.fault("a text of the head is too long"));
        }
        Ok(reader)
    }

    /// The head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next letter; `None` behind the foot, which has then been checked.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn next_line(&mut self) -> Result<Option<Line>, Fault> {
        if self.foot.is_some() {
            return Ok(None);
        }
        let before = self.hash.clone();
        if !self.fill()? {
            return Err(Fault::CutOff);
        }
        if self.buffer.starts_with(b"{\"end\":") {
            let foot: Foot = self.parse("this is no last line")?;
            if foot.end != SCHEMA
                || foot.count != self.last_seq
                || foot.sha256 != hex(&before.finalize())
                || self.fill()?
            {
                return Err(Fault::Altered);
            }
            self.foot = Some(foot);
            return Ok(None);
        }
        self.checked()?;
        let line: Line = self.parse("this is no line of a letter")?;
        self.believable(&line)?;
        self.last_seq = line.seq;
        Ok(Some(line))
    }

    fn believable(&self, line: &Line) -> Result<(), Fault> {
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let id = |text: &str| {
            !text.is_empty()
                && text.len() <= 64
                && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let what = if line.seq != self.last_seq + 1 {
            "its number does not follow the one before"
        } else if !id(line.letter.as_str()) {
            "`letter` is no letter's id"
        } else if !printable(line.position.as_str()) || line.position.as_str().len() > 200 {
            "`position` is none"
        } else if line.twin_of.is_some_and(|of| of == 0 || of >= line.seq) {
            "`twin_of` is no earlier letter"
        } else if line.kept.as_ref().is_some_and(|kept| kept.letter.as_ref().is_some_and(|l| !id(l.as_str())))
        {
            "`kept.letter` is no letter's id"
        } else if line.body.as_ref().is_some_and(|body| body.len() != 64 || !printable(body)) {
            "`body` is no SHA-256"
        } else {
            return Ok(());
        };
        Err(self.fault(what))
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::Line(self.number, what.to_owned())
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, what: &str) -> Result<T, Fault> {
        serde_json::from_slice(&self.buffer).map_err(|_| self.fault(what))
    }

    /// Compares the line's own checksum.
    fn checked(&self) -> Result<(), Fault> {
        const TAIL: usize = ",\"check\":\"00000000\"}".len();
        let changed = || self.fault("it was changed after it was frozen");
        let split = self.buffer.len().checked_sub(TAIL).ok_or_else(changed)?;
        let (body, tail) = self.buffer.split_at(split);
        let mut whole = body.to_vec();
        whole.push(b'}');
        let expected = check_of(&whole);
        match tail.strip_prefix(b",\"check\":\"").and_then(|rest| rest.strip_suffix(b"\"}")) {
            Some(check) if check == expected => Ok(()),
            _ => Err(changed()),
        }
    }

    /// Reads one line, hashed with its line feed; false at the end of the input.
    fn fill(&mut self) -> Result<bool, Fault> {
        self.buffer.clear();
        self.number += 1;
        let most = LINE_MAX as u64 + 1;
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(false);
        }
        if self.buffer.len() > LINE_MAX {
            return Err(self.fault("it is too long"));
        }
        self.hash.update(&self.buffer);
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        }
        Ok(true)
    }
}
