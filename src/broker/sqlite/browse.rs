//! Looking: pages by row id up to the last row of the snapshot, each its own short read, so that a look
//! neither keeps writers waiting nor the log from being folded in. Pages are read ahead on a thread of their
//! own, while others are worked on.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};

use super::encoding::Room;
use super::file::{Doing, Place};
use super::queues::{self, Queue};
use super::{Sqlite, blocking, kind, letters};
use crate::broker::ahead::{Ahead, Asked};
use crate::broker::{Browse, Count, Depth, Depths, LookCost, Pages, Result, Snapshot, Want};
use crate::clock::Time;
use crate::letter::{Facts, LetterId, Message, RawLetter, TimeSource};
use crate::topology::Channel;

/// Most letters of a page.
const PAGE: usize = 250;
/// Letters of the first page. Each later one may have twice as many, so that work on the first begins at once.
const FIRST_PAGE: usize = 30;
/// A page ends once it holds this many bytes: three are in flight at a time, and small ones stay in a cache.
const PAGE_BYTES: usize = 1 << 20;
/// Pieces of memory in which texts of a page lie that had escapes.
const ROOM: usize = 64 << 10;

#[async_trait]
impl Browse for Sqlite {
    async fn snapshot(&self, channel: &Channel, want: Want) -> Result<Box<dyn Pages>> {
        let place = self.place.clone();
        let name = kind::names(channel).dead_letter;
        blocking(move || {
            let Some(db) = place.read()? else { return Err(place.absent()) };
            let queue = queues::get(&db, &name, &place.shown)?;
            let extent = Extent::take(&db, &queue, &place)?;
            let pages = Reader::new(db, queue, &extent, want).pages();
            Ok(Box::new(Look { snapshot: extent.snapshot, read: 0, hidden: 0, pages }) as Box<dyn Pages>)
        })
        .await
    }

    async fn find(&self, channel: &Channel, prefix: &LetterId) -> Result<Option<Vec<RawLetter>>> {
        let place = self.place.clone();
        let name = kind::names(channel).dead_letter;
        let prefix = prefix.clone();
        blocking(move || {
            let Some(db) = place.read()? else { return Err(place.absent()) };
            let queue = queues::get(&db, &name, &place.shown)?;
            find(&db, &queue, prefix.as_str()).map(Some)
        })
        .await
    }

    async fn depths(&self, channel: &Channel) -> Result<Depths> {
        let place = self.place.clone();
        let names = kind::names(channel);
        blocking(move || {
            let db = place.read()?;
            let now = place.now();
            let depth = |name: &str| depth(db.as_ref(), name, now);
            Ok(Depths {
                source: depth(&names.source)?,
                readers: Vec::new(),
                tiers: names.tiers.iter().map(|name| depth(name)).collect::<Result<_>>()?,
                dead_letter: depth(&names.dead_letter)?,
                notes: Vec::new(),
            })
        })
        .await
    }
}

/// What a look will cover.
struct Extent {
    snapshot: Snapshot,
    first: i64,
    last: i64,
    /// Is at least every other row between them one of this queue?
    dense: bool,
}

impl Extent {
    fn take(db: &Connection, queue: &Queue, place: &Place) -> Result<Self> {
        let action = || format!("read {}", queue.name);
        let end = |which: &str| -> Result<i64> {
            let sql = format!("SELECT coalesce({which}(id), 0) FROM letter WHERE queue = ?1");
            db.query_row(&sql, [queue.id], |row| row.get(0)).doing(action)
        };
        let (first, last) = (end("min")?, end("max")?);
        let count = queues::depth(db, queue.id)?;
        let rows = u64::try_from(last.saturating_sub(first)).unwrap_or(u64::MAX);
        Ok(Self {
            snapshot: Snapshot {
                queue: queue.name.clone(),
                identity: format!("{}/{last}", place_of(db, queue)?),
                place: place_of(db, queue)?,
                taken_at: place.clock.now(),
                count: Count::Exact(count),
                unseen: Some(0),
            },
            first,
            last,
            dense: count.saturating_mul(2) > rows,
        })
    }
}

/// File, incarnation of the queue; with the last row the identity of a snapshot.
pub fn place_of(db: &Connection, queue: &Queue) -> Result<String> {
    Ok(format!("{}/q{}", file_id(db)?, queue.id))
}

/// What tells this file from another.
fn file_id(db: &Connection) -> Result<String> {
    db.query_row("SELECT id FROM file", [], |row| row.get(0)).doing(|| "read the file's id".to_owned())
}

/// Reads pages.
struct Reader {
    db: Connection,
    queue: Queue,
    after: i64,
    last: i64,
    dense: bool,
    want: Want,
    /// Most letters of the next page.
    page_letters: usize,
    /// What the last page held: the next one will hold about as much.
    page_bytes: usize,
}

/// One page, and how many letters of it are hidden.
#[derive(Default)]
struct Page {
    letters: Vec<RawLetter>,
    hidden: u64,
}

impl Reader {
    fn new(db: Connection, queue: Queue, extent: &Extent, want: Want) -> Self {
        let (after, last, dense) = (extent.first.saturating_sub(1).max(0), extent.last, extent.dense);
        Self { db, queue, after, last, dense, want, page_letters: FIRST_PAGE, page_bytes: 0 }
    }

    /// The next page; empty only at the end of the extent.
    fn page(&mut self, asked: &Asked<'_, Page>) -> Result<Page> {
        let mut page = Page::default();
        // Of many letters all may be hidden: nobody may want to hear that any more.
        while page.letters.is_empty() && self.after < self.last && asked.still() {
            self.fill(&mut page).doing(|| format!("read {}", self.queue.name))?;
        }
        Ok(page)
    }

    fn pages(mut self) -> Ahead<Page> {
        Ahead::of(format!("read {}", self.queue.name), move |asked| {
            let page = self.page(&asked)?;
            Ok((!page.letters.is_empty() || page.hidden > 0).then_some(page))
        })
    }

    fn fill(&mut self, page: &mut Page) -> rusqlite::Result<()> {
        // One read transaction, so that a page and what is said about its letters belong together.
        let tx = self.db.unchecked_transaction()?;
        let body = if self.want.bodies { "body" } else { "NULL" };
        // Row after row, where most are of this queue: finding each by the index costs half as much again. The
        // plus sign keeps the index out of it.
        let queue = if self.dense { "+queue" } else { "queue" };
        let sql = format!(
            "SELECT {COLUMNS}, {body} FROM letter WHERE {queue} = ?1 AND id > ?2 AND id <= ?3 ORDER BY id"
        );
        let first = self.after;
        // What all rows hold, behind one another: one piece of memory for a page instead of four for a letter.
        let mut held = Vec::with_capacity(self.page_bytes);
        let mut found: Vec<Found> = Vec::with_capacity(self.page_letters);
        {
            let mut query = tx.prepare_cached(&sql)?;
            let mut rows = query.query(params![self.queue.id, self.after, self.last])?;
            loop {
                let Some(row) = rows.next()? else {
                    self.after = self.last;
                    break;
                };
                let row = Found::read(row, &mut held)?;
                self.after = row.id;
                found.push(row);
                if found.len() >= self.page_letters || held.len() >= PAGE_BYTES {
                    break;
                }
            }
        }
        let grown = (self.page_letters * 2).min(PAGE);
        self.page_bytes = held.len() * grown / self.page_letters;
        self.page_letters = grown;
        let held = Bytes::from(held);
        // Its own for each page: the letters of the last one are dropped on another thread meanwhile, and two
        // threads that count the same name wait for each other.
        let name: Arc<str> = self.queue.name.as_str().into();
        let mut room = Room::of(ROOM);
        page.letters.extend(found.into_iter().map(|row| row.letter(&held, &mut room, &self.queue, &name)));
        let states = states(&tx, first, self.after, self.queue.id)?;
        if !states.is_empty() {
            for letter in &mut page.letters {
                if let Some(state) = states.get(&(letter.arrival as i64)) {
                    state.tell(&mut letter.facts);
                }
            }
            if !self.want.moved {
                let before = page.letters.len();
                page.letters.retain(|letter| letter.facts.moved_by.is_none());
                page.hidden += (before - page.letters.len()) as u64;
            }
        }
        tx.commit()
    }
}

/// What other tables say about a letter.
#[derive(Default)]
struct State {
    receives: Option<i64>,
    claimed: bool,
    moved_by: Option<String>,
}

impl State {
    fn tell(&self, facts: &mut Facts) {
        if let Some(receives) = self.receives {
            facts.deliveries = Some(u32::try_from(receives).unwrap_or(u32::MAX));
        }
        facts.claimed = self.claimed;
        facts.moved_by.clone_from(&self.moved_by);
    }
}

/// Leases and unsettled copies of a range of rows. Both are few, so they are read beside the letters.
fn states(db: &Connection, after: i64, last: i64, queue: i64) -> rusqlite::Result<HashMap<i64, State>> {
    let mut states: HashMap<i64, State> = HashMap::new();
    let mut leases = db.prepare_cached(
        "SELECT letter, receives, token IS NOT NULL FROM lease WHERE letter > ?1 AND letter <= ?2 AND +queue = ?3",
    )?;
    let mut rows = leases.query(params![after, last, queue])?;
    while let Some(row) = rows.next()? {
        let state = states.entry(row.get(0)?).or_default();
        state.receives = Some(row.get(1)?);
        state.claimed = row.get(2)?;
    }
    let mut sent = db.prepare_cached("SELECT letter, run FROM sent WHERE letter > ?1 AND letter <= ?2")?;
    let mut rows = sent.query(params![after, last])?;
    while let Some(row) = rows.next()? {
        states.entry(row.get(0)?).or_default().moved_by = Some(row.get(1)?);
    }
    Ok(states)
}

/// Columns of [`raw`], the body after them.
pub const COLUMNS: &str = "id, entered_at, sent_at, headers, properties, key, length(body)";

/// A letter out of a row of [`COLUMNS`] and a body.
pub fn raw(row: &Row<'_>, queue: &Queue, name: &Arc<str>) -> rusqlite::Result<(i64, RawLetter)> {
    let mut held = Vec::new();
    let found = Found::read(row, &mut held)?;
    Ok((found.id, found.letter(&Bytes::from(held), &mut Room::default(), queue, name)))
}

/// Letters out of rows of [`COLUMNS`] and a body, until they hold `most` bytes: what all of them hold is one piece of
/// memory, for which `about` bytes are a good guess. Gives the bytes too.
pub fn letters_of(
    rows: &mut Rows<'_>,
    queue: &Queue,
    name: &Arc<str>,
    about: usize,
    most: usize,
) -> rusqlite::Result<(Vec<(i64, RawLetter)>, usize)> {
    let mut held = Vec::with_capacity(about);
    let mut found: Vec<Found> = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Found::read(row, &mut held)?);
        if held.len() >= most {
            break;
        }
    }
    let held = Bytes::from(held);
    let (bytes, mut escaped) = (held.len(), Room::of(ROOM));
    let letter = |row: Found| (row.id, row.letter(&held, &mut escaped, queue, name));
    Ok((found.into_iter().map(letter).collect(), bytes))
}

/// A row of [`COLUMNS`] and a body; its bytes lie among those of others.
struct Found {
    id: i64,
    entered_at: i64,
    sent_at: i64,
    headers: Range<usize>,
    properties: Range<usize>,
    key: Option<Range<usize>>,
    body: Option<Range<usize>>,
    body_len: Option<u64>,
}

impl Found {
    /// Takes a row; its bytes go behind those that `held` holds.
    fn read(row: &Row<'_>, held: &mut Vec<u8>) -> rusqlite::Result<Self> {
        let mut put = |bytes: &[u8]| {
            let start = held.len();
            held.extend_from_slice(bytes);
            start..held.len()
        };
        Ok(Self {
            id: row.get(0)?,
            entered_at: row.get(1)?,
            sent_at: row.get(2)?,
            headers: put(row.get_ref(3)?.as_bytes()?),
            properties: put(row.get_ref(4)?.as_bytes()?),
            key: row.get_ref(5)?.as_bytes_or_null()?.map(&mut put),
            body: row.get_ref(7)?.as_bytes_or_null()?.map(&mut put),
            body_len: row.get::<_, Option<i64>>(6)?.map(|len| u64::try_from(len).unwrap_or(0)),
        })
    }

    /// The letter, out of what was held.
    fn letter(self, held: &Bytes, room: &mut Room, queue: &Queue, name: &Arc<str>) -> RawLetter {
        RawLetter {
            id: letters::letter_id(self.id),
            position: letters::position(queue.id, self.id),
            arrival: u64::try_from(self.id).unwrap_or(0),
            message: Message {
                headers: letters::read_list_among(&held.slice(self.headers), room),
                properties: letters::read_list_among(&held.slice(self.properties), room),
                key: self.key.map(|key| held.slice(key)),
                body: self.body.map(|body| held.slice(body)),
            },
            body_len: self.body_len,
            facts: Facts {
                queue: name.clone(),
                written_at: Some((Time::from_millis(self.sent_at), TimeSource::Broker)),
                dead_at: Some(Time::from_millis(self.entered_at)),
                expires_at: queue
                    .retention
                    .map(|kept| Time::from_millis(self.entered_at.saturating_add(kept))),
                deliveries: Some(0),
                ..Facts::default()
            },
        }
    }
}

struct Look {
    snapshot: Snapshot,
    read: u64,
    hidden: u64,
    pages: Ahead<Page>,
}

#[async_trait]
impl Pages for Look {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    async fn next(&mut self) -> Result<Vec<RawLetter>> {
        let Some(page) = self.pages.next().await? else { return Ok(Vec::new()) };
        self.hidden += page.hidden;
        self.read += page.letters.len() as u64 + page.hidden;
        Ok(page.letters)
    }

    fn reads_ahead(&self) -> bool {
        true
    }

    async fn close(mut self: Box<Self>) -> Result<LookCost> {
        self.pages.end().await;
        Ok(LookCost { read: self.read, hidden: self.hidden, ..LookCost::default() })
    }
}

/// Letters whose id begins with `prefix`: itself first, then by length, at most three.
fn find(db: &Connection, queue: &Queue, prefix: &str) -> Result<Vec<RawLetter>> {
    let action = || format!("look for {prefix} in {}", queue.name);
    let mut found: Vec<(i64, RawLetter)> = Vec::new();
    // `m` alone is every letter; anything else than digits is none.
    let digits = match prefix.strip_prefix('m') {
        Some("") => None,
        Some(digits) => match digits.parse::<i64>() {
            Ok(number) if !digits.starts_with('0') => Some(number),
            _ => return Ok(Vec::new()),
        },
        None => return Ok(Vec::new()),
    };
    let name: Arc<str> = queue.name.as_str().into();
    let sql = format!(
        "SELECT {COLUMNS}, body FROM letter WHERE queue = ?1 AND id >= ?2 AND id <= ?3 ORDER BY id LIMIT 3"
    );
    let mut query = db.prepare_cached(&sql).doing(action)?;
    let mut ranges = Vec::new();
    match digits {
        None => ranges.push((0, i64::MAX)),
        Some(number) => {
            // 4, 40 to 49, 400 to 499, …
            let mut range = Some((number, number));
            // What was an id once names that letter and no other, also when it is gone.
            let was_one = number <= last_id(db).doing(action)?;
            let there = "SELECT 1 FROM letter WHERE queue = ?1 AND id = ?2";
            if was_one
                && !db.prepare_cached(there).and_then(|mut it| it.exists([queue.id, number])).doing(action)?
            {
                range = None;
            }
            while let Some((from, to)) = range {
                ranges.push((from, to));
                range = from.checked_mul(10).zip(to.checked_mul(10).and_then(|to| to.checked_add(9)));
            }
        }
    }
    for (from, to) in ranges {
        let mut rows = query.query(params![queue.id, from, to]).doing(action)?;
        while found.len() < 3
            && let Some(row) = rows.next().doing(action)?
        {
            found.push(raw(row, queue, &name).doing(action)?);
        }
    }
    let mut letters = Vec::with_capacity(found.len());
    for (id, mut letter) in found {
        if let Some(state) = states(db, id - 1, id, queue.id).doing(action)?.get(&id) {
            state.tell(&mut letter.facts);
        }
        letters.push(letter);
    }
    Ok(letters)
}

/// The last id that was given out in this file.
fn last_id(db: &Connection) -> rusqlite::Result<i64> {
    let last = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'letter'";
    db.prepare_cached(last)?.query_row([], |row| row.get(0))
}

fn depth(db: Option<&Connection>, name: &str, now: i64) -> Result<Depth> {
    let none = Depth {
        queue: name.to_owned(),
        count: Count::Exact(0),
        due: None,
        in_flight: None,
        oldest: None,
        oldest_expires: None,
        exists: false,
    };
    let Some(db) = db else { return Ok(none) };
    let Some(queue) = queues::find(db, name)? else { return Ok(none) };
    let action = || format!("count {name}");
    let oldest: Option<i64> = db
        .prepare_cached("SELECT entered_at FROM letter WHERE queue = ?1 ORDER BY id LIMIT 1")
        .and_then(|mut query| query.query_row([queue.id], |row| row.get(0)).optional())
        .doing(action)?;
    let in_flight: u64 = db
        .prepare_cached("SELECT count(*) FROM lease WHERE queue = ?1 AND until > ?2")
        .and_then(|mut query| query.query_row(params![queue.id, now], |row| queues::number(row, 0)))
        .doing(action)?;
    let due = match queue.delay {
        None => None,
        Some(_) => Some(
            db.prepare_cached("SELECT count(*) FROM letter WHERE queue = ?1 AND due > 0 AND due <= ?2")
                .and_then(|mut query| query.query_row(params![queue.id, now], |row| queues::number(row, 0)))
                .doing(action)?,
        ),
    };
    Ok(Depth {
        count: Count::Exact(queues::depth(db, queue.id)?),
        due,
        in_flight: Some(in_flight),
        oldest: oldest.map(Time::from_millis),
        oldest_expires: oldest
            .zip(queue.retention)
            .map(|(oldest, kept)| Time::from_millis(oldest.saturating_add(kept))),
        exists: true,
        ..none
    })
}
