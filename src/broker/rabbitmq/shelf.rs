//! Letters that a look keeps for the run that goes on from it, packed: a little in memory, more in a file without a
//! name. So a letter is fetched from the server once, and a queue of any size takes no memory.
//!
//! The file is readable by its owner alone, loses its name before the first byte is written, and is gone when the
//! process is. What cannot be written to it is read anew from the queue.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use bytes::Bytes;

use super::letters::Held;
use super::wire;
use crate::broker::{BrokerError, ErrorKind, Result};
use crate::clock::Time;
use crate::letter::{Facts, Headers, LetterId, Message, RawLetter, Route, TimeSource, Value};

/// Most bytes in memory, and about as many are written and read at once.
const IN_MEMORY: usize = 512 * 1024;
/// Most bytes in all: some 20 seconds of sending. Nobody else sees what is held.
const MOST: u64 = 256 * 1024 * 1024;
/// Tables in tables of a value; the client library reads no deeper.
const DEEPEST: usize = 64;

/// Where letters are put, in order.
#[derive(Default)]
pub(super) struct Shelf {
    packed: Vec<u8>,
    file: Option<File>,
    bytes: u64,
}

impl Shelf {
    /// Puts one there; `false` if there is no room for it.
    pub fn put(&mut self, held: &Held) -> bool {
        let from = self.packed.len();
        self.packed.extend_from_slice(&[0; 4]);
        if pack(held, &mut self.packed).is_none() {
            return false;
        }
        let Ok(length) = u32::try_from(self.packed.len() - from - 4) else { return false };
        if let Some(place) = self.packed.get_mut(from..from + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        self.bytes += u64::from(length) + 4;
        if self.bytes > MOST {
            return false;
        }
        self.packed.len() < IN_MEMORY || self.write().is_ok()
    }

    /// Nothing there?
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn write(&mut self) -> std::io::Result<()> {
        if self.file.is_none() {
            self.file = Some(nameless()?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.packed)?;
        }
        self.packed.clear();
        Ok(())
    }

    /// To be taken from it, in the same order.
    ///
    /// # Errors
    /// The system's word on the file.
    pub fn taken(mut self, queue: &str) -> std::io::Result<Kept> {
        let in_file = self.bytes - self.packed.len() as u64;
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0))?;
        }
        Ok(Kept {
            queue: queue.into(),
            file: self.file,
            in_file,
            here: Bytes::new(),
            last: self.packed.into(),
        })
    }
}

/// A file for this process alone.
fn nameless() -> std::io::Result<File> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| std::io::Error::other(error.to_string()))?;
    let mut name = "redrive-".to_owned();
    crate::letter::push_hex(&mut name, &random);
    let path = std::env::temp_dir().join(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// What was put there and is not taken yet.
#[derive(Default)]
pub(super) struct Kept {
    queue: Arc<str>,
    file: Option<File>,
    /// Bytes of the file that are not read yet: whole letters.
    in_file: u64,
    /// Read and not taken.
    here: Bytes,
    /// Comes behind the file.
    last: Bytes,
}

impl Kept {
    /// The next letter.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next(&mut self) -> Result<Option<Held>> {
        loop {
            if let Some(length) = self.here.first_chunk::<4>().map(|four| u32::from_le_bytes(*four) as usize)
                && self.here.len() >= length + 4
            {
                let packed = self.here.split_to(length + 4).slice(4..);
                return unpack(&packed, &self.queue)
                    .ok_or_else(|| self.broken("it is not what was written"))
                    .map(Some);
            }
            match self.in_file {
                0 if self.here.is_empty() && self.last.is_empty() => return Ok(None),
                0 if self.here.is_empty() => self.here = std::mem::take(&mut self.last),
                0 => return Err(self.broken("it is shorter than what was written")),
                _ => self.read().map_err(|error| self.broken(&error.to_string()))?,
            }
        }
    }

    /// Reads on, behind what is here.
    fn read(&mut self) -> std::io::Result<()> {
        let most = usize::try_from(self.in_file).unwrap_or(usize::MAX).min(IN_MEMORY);
        let mut here = vec![0; self.here.len() + most];
        let (before, room) = here.split_at_mut(self.here.len());
        before.copy_from_slice(&self.here);
        match &mut self.file {
            Some(file) => file.read_exact(room)?,
            None => return Err(std::io::ErrorKind::NotFound.into()),
        }
        self.in_file -= most as u64;
        self.here = here.into();
        Ok(())
    }

    fn broken(&self, why: &str) -> BrokerError {
        BrokerError::new(
            ErrorKind::Other,
            format!("take the letters of {} from a temporary file", self.queue),
            why.to_owned(),
        )
        .hint("`redrive resume` reads them from the queue")
    }
}

/// Is there something of it that is not packed? Then it is not kept.
fn pack(held: &Held, to: &mut Vec<u8>) -> Option<()> {
    let Held { tag, returned, equal, letter, packed: _ } = held;
    let RawLetter { id, position: _, arrival, message, body_len: _, facts } = letter;
    let Facts {
        queue: _,
        place: None,
        written_at,
        dead_at: None,
        expires_at: None,
        deliveries,
        route,
        redelivered,
        moved_by: None,
        claimed: false,
    } = facts
    else {
        return None;
    };
    let (identity, occurrence) = (*equal)?;
    to.extend_from_slice(&tag.to_le_bytes());
    to.extend_from_slice(&returned.to_le_bytes());
    to.extend_from_slice(&identity);
    to.extend_from_slice(&occurrence.to_le_bytes());
    to.extend_from_slice(&arrival.to_le_bytes());
    put(to, id.as_str().as_bytes())?;
    match written_at {
        None => to.push(0),
        Some((at, TimeSource::Producer)) => {
            to.push(1);
            to.extend_from_slice(&at.millis().to_le_bytes());
        }
        Some(_) => return None,
    }
    match deliveries {
        None => to.push(0),
        Some(count) => {
            to.push(1);
            to.extend_from_slice(&count.to_le_bytes());
        }
    }
    match route {
        None => to.push(0),
        Some(Route { exchange, routing_key }) => {
            to.push(1);
            put(to, exchange.as_bytes())?;
            put(to, routing_key.as_bytes())?;
        }
    }
    to.push(match redelivered {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    });
    let Message { key: None, body, headers, properties } = message else { return None };
    for list in [headers, properties] {
        to.extend_from_slice(&u32::try_from(list.len()).ok()?.to_le_bytes());
        for header in list {
            put(to, header.name.as_bytes())?;
            put_value(to, &header.value, 0)?;
        }
    }
    match body {
        None => to.push(0),
        Some(body) => {
            to.push(1);
            to.extend_from_slice(body);
        }
    }
    Some(())
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    to.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
    to.extend_from_slice(bytes);
    Some(())
}

fn put_value(to: &mut Vec<u8>, value: &Value, depth: usize) -> Option<()> {
    to.push(wire::tag(value));
    match value {
        Value::Null => {}
        Value::Bytes(v) | Value::Text(v) => put(to, v)?,
        Value::Bool(v) => to.push(u8::from(*v)),
        Value::I8(v) => to.extend_from_slice(&v.to_le_bytes()),
        Value::U8(v) => to.push(*v),
        Value::I16(v) => to.extend_from_slice(&v.to_le_bytes()),
        Value::U16(v) => to.extend_from_slice(&v.to_le_bytes()),
        Value::I32(v) => to.extend_from_slice(&v.to_le_bytes()),
        Value::U32(v) => to.extend_from_slice(&v.to_le_bytes()),
        Value::I64(v) => to.extend_from_slice(&v.to_le_bytes()),
        Value::F32(v) => to.extend_from_slice(&v.to_bits().to_le_bytes()),
        Value::F64(v) => to.extend_from_slice(&v.to_bits().to_le_bytes()),
        Value::Decimal { scale, value } => {
            to.push(*scale);
            to.extend_from_slice(&value.to_le_bytes());
        }
        Value::Timestamp(v) => to.extend_from_slice(&v.to_le_bytes()),
        Value::List(_) | Value::Table(_) if depth >= DEEPEST => return None,
        Value::List(items) => {
            to.extend_from_slice(&u32::try_from(items.len()).ok()?.to_le_bytes());
            for item in items {
                put_value(to, item, depth + 1)?;
            }
        }
        Value::Table(entries) => {
            to.extend_from_slice(&u32::try_from(entries.len()).ok()?.to_le_bytes());
            for (name, value) in entries {
                put(to, name.as_bytes())?;
                put_value(to, value, depth + 1)?;
            }
        }
        // AMQP has none.
        Value::Labelled { .. } => return None,
    }
    Some(())
}

/// What is left of a packed letter.
struct Rest<'a> {
    packed: &'a Bytes,
    at: usize,
}

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let found = *self.packed.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(found)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Without copying them.
    fn bytes(&mut self) -> Option<Bytes> {
        let length = self.number()? as usize;
        let until = self.at.checked_add(length).filter(|until| *until <= self.packed.len())?;
        let found = self.packed.slice(self.at..until);
        self.at = until;
        Some(found)
    }

    fn text(&mut self) -> Option<&str> {
        let length = self.number()? as usize;
        let found = self.packed.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        std::str::from_utf8(found).ok()
    }

    fn headers(&mut self) -> Option<Headers> {
        let count = self.number()?;
        let mut headers = Headers::new();
        for _ in 0..count {
            let name = self.text()?.into();
            let name: crate::letter::Short = name;
            headers.push(name, self.value(0)?);
        }
        Some(headers)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        Some(match self.byte()? {
            0 => Value::Null,
            1 => Value::Bytes(self.bytes()?),
            2 => Value::Text(self.bytes()?),
            3 => Value::Bool(self.byte()? != 0),
            4 => Value::I8(i8::from_le_bytes(self.array()?)),
            5 => Value::U8(self.byte()?),
            6 => Value::I16(i16::from_le_bytes(self.array()?)),
            7 => Value::U16(u16::from_le_bytes(self.array()?)),
            8 => Value::I32(i32::from_le_bytes(self.array()?)),
            9 => Value::U32(self.number()?),
            10 => Value::I64(i64::from_le_bytes(self.array()?)),
            11 => Value::F32(f32::from_bits(self.number()?)),
            12 => Value::F64(f64::from_bits(u64::from_le_bytes(self.array()?))),
            13 => Value::Decimal { scale: self.byte()?, value: self.number()? },
            14 => Value::Timestamp(u64::from_le_bytes(self.array()?)),
            15 | 16 if depth >= DEEPEST => return None,
            15 => {
                let count = self.number()?;
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.value(depth + 1)?);
                }
                Value::List(items)
            }
            16 => {
                let count = self.number()?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    entries.push((self.text()?.to_owned(), self.value(depth + 1)?));
                }
                Value::Table(entries)
            }
            _ => return None,
        })
    }
}

/// What was packed.
pub(super) fn unpack(packed: &Bytes, queue: &Arc<str>) -> Option<Held> {
    let mut rest = Rest { packed, at: 0 };
    let tag = u64::from_le_bytes(rest.array()?);
    let returned = rest.number()?;
    let (identity, occurrence) = (rest.array()?, rest.number()?);
    let arrival = u64::from_le_bytes(rest.array()?);
    let id = LetterId::new(rest.text()?);
    let written_at = match rest.byte()? {
        0 => None,
        _ => Some((Time::from_millis(i64::from_le_bytes(rest.array()?)), TimeSource::Producer)),
    };
    let deliveries = match rest.byte()? {
        0 => None,
        _ => Some(rest.number()?),
    };
    let route = match rest.byte()? {
        0 => None,
        _ => Some(Route { exchange: rest.text()?.to_owned(), routing_key: rest.text()?.to_owned() }),
    };
    let redelivered = match rest.byte()? {
        0 => None,
        known => Some(known == 2),
    };
    let (headers, properties) = (rest.headers()?, rest.headers()?);
    let body = match rest.byte()? {
        0 => None,
        _ => Some(packed.slice(rest.at..)),
    };
    let letter = RawLetter {
        id,
        position: wire::position(&identity, occurrence),
        arrival,
        body_len: body.as_ref().map(|body| body.len() as u64),
        message: Message { key: None, body, headers, properties },
        facts: Facts {
            queue: Arc::clone(queue),
            written_at,
            deliveries,
            route,
            redelivered,
            ..Facts::default()
        },
    };
    Some(Held { tag, returned, equal: Some((identity, occurrence)), letter, packed: Some(packed.clone()) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn letter(n: u64, body: Option<usize>) -> Held {
        let mut message = Message { body: body.map(|size| vec![n as u8; size].into()), ..Message::default() };
        for value in wire::tests::every_type() {
            message.headers.push("h".repeat(n as usize % 60), value);
        }
        message.properties.push("message_id", Value::from_text(format!("m{n}")));
        let identity = wire::identity(&message);
        let occurrence = 1 + n as u32 % 3;
        let position = wire::position(&identity, occurrence);
        let facts = Facts {
            queue: "orders.dlq".into(),
            written_at: n.is_multiple_of(2).then(|| (Time::from_seconds(n as i64), TimeSource::Producer)),
            deliveries: n.is_multiple_of(3).then_some(4),
            route: n
                .is_multiple_of(5)
                .then(|| Route { exchange: "é".to_owned(), routing_key: "k".to_owned() }),
            redelivered: [None, Some(false), Some(true)][n as usize % 3],
            ..Facts::default()
        };
        let letter = RawLetter {
            id: LetterId::hashed(position.as_str().as_bytes()),
            position,
            arrival: n,
            body_len: body.map(|size| size as u64),
            message,
            facts,
        };
        Held { tag: n << 20, returned: n as u32, equal: Some((identity, occurrence)), letter, packed: None }
    }

    #[test]
    fn r18_letters_come_back_in_order_as_they_were_from_memory_and_from_the_file() {
        for count in [0, 1, 7, 5_000] {
            let size = |n: u64| {
                [None, Some(0), Some(1), Some(900), Some(700_000)]
                    [if n == 3_000 { 4 } else { n as usize % 4 }]
            };
            let mut shelf = Shelf::default();
            assert!(shelf.is_empty());
            for n in 0..count {
                assert!(shelf.put(&letter(n, size(n))), "{n}");
            }
            assert_eq!(shelf.file.is_some(), count == 5_000);
            let mut kept = shelf.taken("orders.dlq").unwrap();
            for n in 0..count {
                let (found, put) = (kept.next().unwrap().unwrap(), letter(n, size(n)));
                assert_eq!((found.tag, found.returned, found.equal), (put.tag, put.returned, put.equal));
                assert_eq!(found.letter, put.letter);
            }
            assert!(kept.next().unwrap().is_none());
        }
    }

    #[test]
    fn what_is_cut_short_or_changed_never_panics() {
        let mut packed = Vec::new();
        pack(&letter(30, Some(3)), &mut packed).unwrap();
        for cut in 0..packed.len() {
            let _ = unpack(&Bytes::copy_from_slice(&packed[..cut]), &"q".into());
            let mut changed = packed.clone();
            changed[cut] ^= 0xff;
            let _ = unpack(&changed.into(), &"q".into());
        }
    }

    #[test]
    fn what_would_not_come_back_whole_is_not_kept() {
        let mut held = letter(1, Some(1));
        held.equal = None;
        assert!(!Shelf::default().put(&held));
        let mut held = letter(1, Some(1));
        held.letter.facts.claimed = true;
        assert!(!Shelf::default().put(&held));
        let full = Shelf { bytes: MOST - 10, ..Shelf::default() };
        assert!(!{ full }.put(&letter(1, Some(1))));
    }
}
