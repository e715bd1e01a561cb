//! Letters as rows: writing a message, reading it back, and the names that a row goes by.

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, params};

use super::encoding;
use super::file::Doing;
use super::queues::Queue;
use crate::broker::{BrokerError, ErrorKind, Result};
use crate::letter::{Headers, LetterId, Message, Position, Value};

/// The pseudo header under which a list shows that is not what it should be. A letter with it is looked at,
/// never sent.
pub const UNREADABLE: &str = "redrive-unreadable";

/// A message as it goes into a row; can be made where the borrowed message is, and written elsewhere.
#[derive(Debug, Clone)]
pub struct Written {
    key: Option<Bytes>,
    body: Option<Bytes>,
    headers: String,
    properties: Option<String>,
}

impl Written {
    /// Of a message.
    ///
    /// # Errors
    /// `Rejected`: a value is nested too deeply.
    pub fn of(message: &Message) -> Result<Self> {
        let list = |headers: &Headers| {
            encoding::write(headers)
                .map_err(|why| BrokerError::new(ErrorKind::Rejected, "write the headers", why))
        };
        Ok(Self {
            key: message.key.clone(),
            body: message.body.clone(),
            headers: list(&message.headers)?,
            properties: match message.properties.is_empty() {
                true => None,
                false => Some(list(&message.properties)?),
            },
        })
    }

    /// Inserts it; gives the row's id.
    pub fn insert(&self, db: &Connection, queue: i64, due: i64, now: i64) -> Result<i64> {
        self.insert_row(db, queue, due, now).doing(|| "write a letter".to_owned())
    }

    /// As [`Written::insert`], with SQLite's own error.
    pub fn insert_row(&self, db: &Connection, queue: i64, due: i64, now: i64) -> rusqlite::Result<i64> {
        let [headers, properties, key, body] = self.values();
        db.prepare_cached(
            "INSERT INTO letter (queue, due, entered_at, sent_at, headers, properties, key, body)
             VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7)",
        )?
        .insert(params![queue, due, now, headers, properties, key, body])
    }

    /// Headers, properties, key and body as columns.
    pub fn values(&self) -> [ToSqlOutput<'_>; 4] {
        fn text(text: &str) -> ToSqlOutput<'_> {
            ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
        }
        fn blob(bytes: Option<&Bytes>) -> ToSqlOutput<'_> {
            ToSqlOutput::Borrowed(bytes.map_or(ValueRef::Null, |bytes| ValueRef::Blob(bytes)))
        }
        [
            text(&self.headers),
            text(self.properties.as_deref().unwrap_or("[]")),
            blob(self.key.as_ref()),
            blob(self.body.as_ref()),
        ]
    }
}

/// Moves a row to another queue under a new id, with other headers if given; body and key are not touched.
pub fn move_row(
    db: &Connection,
    id: i64,
    to: &Queue,
    due: i64,
    now: i64,
    headers: Option<&str>,
) -> Result<i64> {
    let action = || format!("move {} to {}", letter_id(id), to.name);
    let copy = copy_row(db, id, to, due, now, headers)?;
    let gone = db
        .prepare_cached("DELETE FROM letter WHERE id = ?1")
        .and_then(|mut delete| delete.execute([id]))
        .doing(action)?;
    if gone == 1 { Ok(copy) } else { Err(BrokerError::new(ErrorKind::Stale, action(), "it is gone")) }
}

/// Copies a row into another queue under a new id, with other headers if given.
pub fn copy_row(
    db: &Connection,
    id: i64,
    to: &Queue,
    due: i64,
    now: i64,
    headers: Option<&str>,
) -> Result<i64> {
    db.prepare_cached(
        "INSERT INTO letter (queue, due, entered_at, sent_at, headers, properties, key, body)
         SELECT ?2, ?3, ?4, sent_at, coalesce(?5, headers), properties, key, body FROM letter WHERE id = ?1",
    )
    .and_then(|mut insert| insert.insert(params![id, to.id, due, now, headers]))
    .doing(|| format!("copy {} to {}", letter_id(id), to.name))
}

/// Reads a list out of a column. What is not readable stays visible as it is, under one pseudo header.
pub fn list(row: &Row<'_>, column: usize) -> rusqlite::Result<Headers> {
    let json = row.get_ref(column)?.as_bytes()?;
    Ok(if json == b"[]" { Headers::new() } else { read_list(&Bytes::copy_from_slice(json)) })
}

/// The same out of what a column held.
pub fn read_list(json: &Bytes) -> Headers {
    read_list_among(json, &mut encoding::Room::default())
}

/// The same of one of many lists, see [`encoding::read_among`].
pub fn read_list_among(json: &Bytes, room: &mut encoding::Room) -> Headers {
    encoding::read_among(json, room)
        .unwrap_or_else(|_| Headers::from_iter([(UNREADABLE, Value::Text(json.clone()))]))
}

/// Can the lists of this message be trusted to be what its producer wrote?
pub fn readable(message: &Message) -> bool {
    !message.headers.has(UNREADABLE) && !message.properties.has(UNREADABLE)
}

/// Bytes out of a column.
pub fn blob(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Bytes>> {
    Ok(row.get_ref(column)?.as_bytes_or_null()?.map(Bytes::copy_from_slice))
}

/// What people type: `m41`.
pub fn letter_id(id: i64) -> LetterId {
    on_stack(&[("m", id)], LetterId::new)
}

/// Queue incarnation and row: `q3m41`.
pub fn position(queue: i64, id: i64) -> Position {
    on_stack(&[("q", queue), ("m", id)], |text| Position::new(text))
}

/// Puts a short name together without the heap, from letters and numbers: a look makes two for each of a million
/// letters.
fn on_stack<T>(parts: &[(&str, i64)], then: impl FnOnce(&str) -> T) -> T {
    // Two numbers of 64 bits and two letters always fit. Filled from the end.
    let mut buffer = [0u8; 48];
    let mut at = buffer.len();
    let mut put = |byte: u8| {
        at -= 1;
        buffer[at] = byte;
    };
    for (letters, number) in parts.iter().rev() {
        let mut left = number.unsigned_abs();
        loop {
            put(b'0' + (left % 10) as u8);
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if *number < 0 {
            put(b'-');
        }
        letters.bytes().rev().for_each(&mut put);
    }
    then(std::str::from_utf8(&buffer[at..]).unwrap_or_default())
}

/// Incarnation and row of a position.
pub fn parse_position(position: &Position) -> Option<(i64, i64)> {
    let (queue, id) = position.as_str().strip_prefix('q')?.split_once('m')?;
    Some((queue.parse().ok()?, id.parse().ok()?))
}

/// Replaces the last header of this name where it stands, else appends one: readers take the last.
pub fn stamp(headers: &mut Headers, name: &str, text: impl Into<String>) {
    let mut value = Some(Value::from_text(text));
    let last = headers.iter().rposition(|header| header.name == name);
    *headers = std::mem::take(headers)
        .into_iter()
        .enumerate()
        .map(|(at, header)| {
            let new = if Some(at) == last { value.take() } else { None };
            (header.name, new.unwrap_or(header.value))
        })
        .collect();
    if let Some(value) = value {
        headers.push(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_row() {
        assert_eq!(letter_id(41).as_str(), "m41");
        let longest = position(i64::MIN, i64::MAX);
        assert_eq!(parse_position(&longest), Some((i64::MIN, i64::MAX)));
        assert_eq!(longest.as_str(), format!("q{}m{}", i64::MIN, i64::MAX));
        assert_eq!((position(3, 41).as_str(), position(0, -1).as_str()), ("q3m41", "q0m-1"));
        for bad in ["", "q", "q3", "m41", "q3m", "q3m41x", "3/41"] {
            assert_eq!(parse_position(&Position::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn a_stamp_takes_the_place_of_the_last_of_its_name() {
        let mut headers: Headers =
            ["a", "n", "b", "n", "c"].map(|name| (name.to_owned(), Value::Null)).into_iter().collect();
        stamp(&mut headers, "n", "1");
        stamp(&mut headers, "new", "2");
        let texts: Vec<_> = headers.iter().map(|h| (h.name.as_str(), h.value.text())).collect();
        let expected =
            [("a", None), ("n", None), ("b", None), ("n", Some("1")), ("c", None), ("new", Some("2"))];
        assert_eq!(texts, expected);
    }
}
