//! The scratch index of a snapshot: where each letter lies, its group, order, identity, cause, hash; no
//! bodies. A private database on disk that is gone when it is closed, so that a million letters take no
//! memory. It answers what needs the whole snapshot: order within groups, what a selection leaves behind,
//! and equal event ids.

use std::path::PathBuf;

use rusqlite::{Connection, Row, params};

use super::Result;
use crate::clock::Time;
use crate::letter::{LetterId, Position};
use crate::manifest::{Kept, Line, Why, hex};

/// A letter as indexed.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// Its id.
    pub letter: &'a str,
    /// Where it lies.
    pub position: &'a str,
    /// Business identity.
    pub event_id: Option<&'a str>,
    /// Ordering key.
    pub group: Option<&'a str>,
    /// Its place in the origin, where that gives an order: a hash of the stream, and the number in it.
    pub origin: Option<(u64, i64)>,
    /// Cause.
    pub cause: &'a str,
    /// SHA-256 of the body.
    pub body: Option<[u8; 32]>,
    /// Bytes.
    pub size: u64,
    /// When it died.
    pub died: Option<Time>,
    /// Selected?
    pub selected: bool,
    /// Kept for its own sake.
    pub kept: Option<(Why, Option<String>)>,
}

/// A line of a manifest looked up in the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// There as frozen.
    pub same: u64,
    /// There, with another body.
    pub changed: u64,
    /// Not there.
    pub gone: u64,
}

/// How the letters were judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// Keep order within groups.
    pub ordered: bool,
    /// Send one of equal letters and settle the rest.
    pub dedupe: bool,
}

/// What the whole snapshot says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Letters of the snapshot.
    pub letters: u64,
    /// Selected: the sum of the next ones.
    pub planned: u64,
    /// To be sent.
    pub send: u64,
    /// Equal letters that are settled unsent.
    pub twins: u64,
    /// Kept, by reason: how many, and in how many groups.
    pub kept: Vec<(Why, u64, u64)>,
    /// Groups of the letters to be sent.
    pub groups: u64,
    /// Groups of the selected letters.
    pub groups_selected: u64,
    /// Letters to be sent whose event id another letter to be sent has too, with the same body.
    pub repeated: u64,
    /// The first of those, [`NAMED_MAX`] at most, with their event ids.
    pub repeated_named: Vec<(String, String)>,
    /// The first of those that are settled unsent, [`NAMED_MAX`] at most.
    pub twins_named: Vec<String>,
    /// The first letters that are kept for each reason, [`NAMED_MAX`] at most.
    pub kept_named: Vec<(Why, Vec<String>)>,
    /// Held groups with most letters, [`NAMED_MAX`] at most: group, letters, the letter waited for and its cause.
    pub waiting: Vec<Group>,
    /// Held groups that are not among them.
    pub waiting_more: u64,
    /// Bytes to be sent.
    pub bytes: u64,
}

/// Letters, and groups, that are named one by one; of more only the number is told.
pub const NAMED_MAX: usize = 100;

impl Summary {
    /// The first letters that are kept for a reason.
    pub fn named(&self, why: Why) -> &[String] {
        self.kept_named.iter().find(|(kept, _)| *kept == why).map_or(&[], |(_, named)| named)
    }
}

/// A group that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its key.
    pub group: String,
    /// Letters held.
    pub letters: u64,
    /// The letter waited for.
    pub waits_for: String,
    /// That letter's cause.
    pub cause: String,
}

/// The index. Filled by [`Scratch::add`], judged once, then read in order.
pub struct Scratch {
    pub(super) sql: Connection,
    count: u64,
    selected: u64,
    any_group: bool,
    pub(super) any_kept: bool,
    /// Messages of the source are indexed too.
    pub(super) any_later: bool,
    any_origin: bool,
    any_event: bool,
    from_manifest: bool,
    judged: bool,
}

/// 64 bits of a text, for joins.
pub(super) fn hash(text: &str) -> i64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    i64::from_ne_bytes(hasher.finish().to_ne_bytes())
}

impl Scratch {
    /// An empty index.
    ///
    /// # Errors
    /// No room, or no folder for temporary files.
    pub fn new() -> Result<Self> {
        // An empty name is a private file that SQLite deletes by itself.
        let sql = Connection::open("")?;
        sql.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8192; \
             PRAGMA temp_store = FILE; PRAGMA locking_mode = EXCLUSIVE; \
             CREATE TABLE l (n INTEGER PRIMARY KEY, letter TEXT, position TEXT, event TEXT, ev INTEGER, grp INTEGER, \
               gtext TEXT, stream INTEGER, ord INTEGER, cause TEXT, body BLOB, size INTEGER, died INTEGER, \
               sel INTEGER, kept INTEGER, detail TEXT, behind INTEGER, twin INTEGER, slot INTEGER, twins INTEGER); \
             CREATE TABLE m (position TEXT PRIMARY KEY, line TEXT, body TEXT, found INTEGER) WITHOUT ROWID; \
             BEGIN;",
        )?;
        Ok(Self {
            sql,
            count: 0,
            selected: 0,
            any_group: false,
            any_kept: false,
            any_later: false,
            any_origin: false,
            any_event: false,
            from_manifest: false,
            judged: false,
        })
    }

    /// The folder in which SQLite makes its private files: the first of its places that it may write to.
    pub fn folder() -> Option<PathBuf> {
        use rustix::fs::{Access, access};
        let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let usual = ["/var/tmp", "/usr/tmp", "/tmp", "."].map(PathBuf::from);
        let fits =
            |folder: &PathBuf| folder.is_dir() && access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        named.chain(usual).find(fits)
    }

    /// Indexes one letter. Letters come in the order of the dead-letter queue.
    ///
    /// # Errors
    /// No room.
    pub fn add(&mut self, seen: &Seen<'_>) -> Result<()> {
        self.count += 1;
        self.selected += u64::from(seen.selected);
        self.any_group |= seen.group.is_some();
        self.any_origin |= seen.origin.is_some() && seen.group.is_some();
        self.any_kept |= !seen.selected || seen.kept.is_some();
        self.any_event |= seen.event_id.is_some();
        let mut insert = self.sql.prepare_cached(
            "INSERT INTO l (n, letter, position, event, ev, grp, gtext, stream, ord, cause, body, size, died, sel, \
             kept, detail, slot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?1)",
        )?;
        insert.execute(params![
            self.count,
            seen.letter,
            seen.position,
            seen.event_id,
            seen.event_id.map(hash),
            seen.group.map(hash),
            seen.group,
            seen.origin.map(|(stream, _)| i64::from_ne_bytes(stream.to_ne_bytes())),
            seen.origin.map(|(_, order)| order),
            seen.cause,
            seen.body.as_ref().map(<[u8; 32]>::as_slice),
            seen.size,
            seen.died.map(Time::millis),
            seen.selected,
            seen.kept.as_ref().map(|(why, _)| code(*why)),
            seen.kept.as_ref().and_then(|(_, detail)| detail.as_deref()),
        ])?;
        Ok(())
    }

    /// Takes in a line of a manifest, before the snapshot is read.
    ///
    /// # Errors
    /// No room.
    pub fn expect(&mut self, line: &Line) -> Result<()> {
        self.from_manifest = true;
        let text = serde_json::to_string(line).unwrap_or_default();
        self.sql
            .prepare_cached("INSERT OR IGNORE INTO m (position, line, body, found) VALUES (?1, ?2, ?3, 0)")?
            .execute(params![line.position.as_str(), text, line.body])?;
        Ok(())
    }

    /// Is the letter at this position in the manifest, and is its body the frozen one?
    ///
    /// # Errors
    /// The database's.
    pub fn expected(&mut self, position: &str, body: Option<&[u8; 32]>) -> Result<Option<bool>> {
        use rusqlite::OptionalExtension;
        let frozen: Option<Option<String>> = self
            .sql
            .prepare_cached("SELECT body FROM m WHERE position = ?1")?
            .query_row([position], |row| row.get(0))
            .optional()?;
        let Some(frozen) = frozen else { return Ok(None) };
        let same = frozen == body.map(|body| hex(body));
        self.sql
            .prepare_cached("UPDATE m SET found = ?2 WHERE position = ?1")?
            .execute(params![position, if same { 1 } else { 2 }])?;
        Ok(Some(same))
    }

    /// Was the line of the manifest at this position looked for in vain?
    ///
    /// # Errors
    /// The database's.
    pub fn was_gone(&self, position: &str) -> Result<bool> {
        let mut query = self.sql.prepare_cached("SELECT 1 FROM m WHERE position = ?1 AND found = 0")?;
        Ok(query.exists([position])?)
    }

    /// How the manifest's lines were found; those that are gone become lines of the index, kept as gone.
    ///
    /// # Errors
    /// The database's.
    pub fn settle_expected(&mut self) -> Result<Found> {
        let count = |found: i64| -> Result<u64> {
            Ok(self.sql.query_row("SELECT count(*) FROM m WHERE found = ?1", [found], |row| row.get(0))?)
        };
        let found = Found { gone: count(0)?, same: count(1)?, changed: count(2)? };
        if found.gone > 0 {
            let mut lines = self.sql.prepare("SELECT line FROM m WHERE found = 0")?;
            let mut rows = lines.query([])?;
            let mut n = self.count;
            let mut insert = self.sql.prepare(
                "INSERT INTO l (n, letter, position, event, gtext, cause, body, size, sel, kept, slot) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, 1, ?8, ?1)",
            )?;
            while let Some(row) = rows.next()? {
                let text: String = row.get(0)?;
                let Ok(line) = serde_json::from_str::<Line>(&text) else { continue };
                n += 1;
                insert.execute(params![
                    n,
                    line.letter.as_str(),
                    line.position.as_str(),
                    line.event_id,
                    line.group,
                    line.cause,
                    line.size,
                    code(Why::Gone)
                ])?;
            }
            self.count = n;
        }
        Ok(found)
    }

    /// How many letters at these positions would be sent.
    ///
    /// # Errors
    /// No room.
    pub fn to_send_at<'p>(&self, positions: impl Iterator<Item = &'p str>) -> Result<u64> {
        self.sql.execute_batch(
            "DROP TABLE IF EXISTS asked; CREATE TABLE asked (position TEXT PRIMARY KEY) WITHOUT ROWID;",
        )?;
        let mut insert = self.sql.prepare("INSERT OR IGNORE INTO asked VALUES (?1)")?;
        for position in positions {
            insert.execute([position])?;
        }
        let count = "SELECT count(*) FROM l WHERE sel = 1 AND kept IS NULL AND position IN (SELECT position FROM asked)";
        Ok(self.sql.query_row(count, [], |row| row.get(0))?)
    }

    /// Letters indexed.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Letters selected.
    pub fn selected(&self) -> u64 {
        self.selected
    }

    /// Finds out, over the whole snapshot, which selected letters must stay, and why.
    ///
    /// # Errors
    /// No room.
    pub fn judge(&mut self, how: Judged) -> Result<()> {
        self.judged = true;
        if self.any_origin && how.ordered {
            self.origin_order()?;
        }
        if self.any_event {
            self.any_kept |= self.equal_ids(how)?;
        }
        if self.any_group && how.ordered && self.any_kept {
            self.left_behind()?;
        }
        Ok(())
    }

    /// Gives the letters of each group whose origin order is not their order of arrival the places of that
    /// group in origin order: within a group a smaller slot goes first.
    fn origin_order(&self) -> Result<()> {
        self.sql.execute_batch(
            "CREATE TABLE inverted AS \
               SELECT DISTINCT grp FROM (SELECT grp, stream, ord, \
                 lag(ord) OVER w AS before, lag(stream) OVER w AS sbefore FROM l WHERE grp IS NOT NULL \
                 WINDOW w AS (PARTITION BY grp ORDER BY n)) \
               WHERE ord < before AND stream = sbefore \
               AND grp NOT IN (SELECT grp FROM l WHERE grp IS NOT NULL GROUP BY grp \
                 HAVING count(ord) < count(*) OR count(DISTINCT stream) > 1); \
             CREATE TABLE places AS \
               SELECT a.n AS n, b.n AS slot FROM \
                 (SELECT n, grp, row_number() OVER (PARTITION BY grp ORDER BY ord, n) AS k FROM l \
                  WHERE grp IN (SELECT grp FROM inverted)) AS a JOIN \
                 (SELECT n, grp, row_number() OVER (PARTITION BY grp ORDER BY n) AS k FROM l \
                  WHERE grp IN (SELECT grp FROM inverted)) AS b ON a.grp = b.grp AND a.k = b.k; \
             CREATE INDEX places_n ON places (n); \
             UPDATE l SET slot = (SELECT slot FROM places WHERE places.n = l.n) \
               WHERE grp IN (SELECT grp FROM inverted);",
        )?;
        Ok(())
    }

    /// Same event id: with another body a conflict; with the same one a repetition. Gives whether a letter stays for it.
    fn equal_ids(&self, how: Judged) -> Result<bool> {
        self.sql.execute_batch(
            // `n` is that of the row with the smallest slot: SQLite promises it of a query with one `min`. To look it
            // up for each letter would read the whole table for each.
            "CREATE TABLE same AS SELECT ev, count(DISTINCT ifnull(body, x'')) AS bodies, min(slot), n AS first \
               FROM l WHERE ev IS NOT NULL GROUP BY ev HAVING count(*) > 1; \
             CREATE UNIQUE INDEX same_ev ON same (ev);",
        )?;
        let any: i64 = self.sql.query_row("SELECT count(*) FROM same", [], |row| row.get(0))?;
        if any == 0 {
            return Ok(false);
        }
        let conflicts = self.sql.execute(
            "UPDATE l SET kept = ?1, behind = same.first FROM same \
             WHERE l.ev = same.ev AND same.bodies > 1 AND l.sel = 1 AND l.kept IS NULL",
            [code(Why::Conflict)],
        )?;
        self.sql.execute_batch(
            "CREATE TABLE firsts AS SELECT ev, min(slot) AS slot FROM l \
               WHERE sel = 1 AND kept IS NULL AND ev IN (SELECT ev FROM same WHERE bodies = 1) \
               GROUP BY ev HAVING count(*) > 1; \
             CREATE UNIQUE INDEX firsts_ev ON firsts (ev); \
             UPDATE l SET twins = 1 FROM firsts WHERE l.ev = firsts.ev AND sel = 1 AND kept IS NULL;",
        )?;
        if how.dedupe {
            self.sql.execute_batch(
                "UPDATE l SET twin = firsts.slot FROM firsts \
                   WHERE l.ev = firsts.ev AND l.sel = 1 AND l.kept IS NULL AND l.slot > firsts.slot;",
            )?;
        }
        Ok(conflicts > 0)
    }

    /// A selected letter behind one of its group that stays is held (rule 5, m27).
    fn left_behind(&self) -> Result<()> {
        self.sql.execute_batch(&format!(
            "CREATE TABLE stays AS SELECT grp, min(slot) AS slot, n AS first FROM l \
               WHERE grp IS NOT NULL AND (sel = 0 OR kept IS NOT NULL) AND kept IS NOT {moved} GROUP BY grp; \
             CREATE UNIQUE INDEX stays_grp ON stays (grp);",
            // What has arrived bars nobody.
            moved = code(Why::MovedBefore)
        ))?;
        self.sql.execute(
            "UPDATE l SET kept = ?1, twin = NULL, behind = stays.first \
             FROM stays WHERE l.grp = stays.grp AND l.slot > stays.slot AND l.sel = 1 AND l.kept IS NULL",
            [code(Why::Behind)],
        )?;
        Ok(())
    }

    /// The numbers for the screen before the prompt.
    ///
    /// # Errors
    /// The database's.
    pub fn summary(&self) -> Result<Summary> {
        let mut summary = Summary { letters: self.count, ..Summary::default() };
        let one = |query: &str| -> Result<u64> { Ok(self.sql.query_row(query, [], |row| row.get(0))?) };
        (summary.planned, summary.send, summary.twins, summary.repeated, summary.bytes) =
            self.sql.query_row(
                "SELECT count(*), count(*) FILTER (WHERE kept IS NULL AND twin IS NULL), count(twin), \
             count(*) FILTER (WHERE kept IS NULL AND twins IS NOT NULL), \
             ifnull(sum(size) FILTER (WHERE kept IS NULL AND twin IS NULL), 0) FROM l WHERE sel = 1",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
            )?;
        if self.any_group {
            summary.groups = one(
                "SELECT count(*) FROM (SELECT DISTINCT grp FROM l WHERE sel = 1 AND kept IS NULL AND grp IS NOT NULL)",
            )?;
            summary.groups_selected =
                one("SELECT count(*) FROM (SELECT DISTINCT grp FROM l WHERE sel = 1 AND grp IS NOT NULL)")?;
        }
        let mut kept = self.sql.prepare(
            "SELECT kept, count(*), count(DISTINCT grp) FROM l WHERE sel = 1 AND kept IS NOT NULL GROUP BY kept",
        )?;
        let rows = kept.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?)))?;
        for row in rows {
            let (kept, letters, groups) = row?;
            summary.kept.extend(why(kept).map(|why| (why, letters, groups)));
        }
        let mut waiting = self.sql.prepare(
            "SELECT l.gtext, count(*), other.letter, other.cause FROM l JOIN l AS other ON other.n = l.behind \
             WHERE l.sel = 1 AND l.kept = ?1 GROUP BY l.grp ORDER BY count(*) DESC, l.n LIMIT ?2",
        )?;
        let rows = waiting.query_map(params![code(Why::Behind), NAMED_MAX], |row| {
            Ok(Group {
                group: row.get::<_, Option<String>>(0)?.unwrap_or_default(),
                letters: row.get(1)?,
                waits_for: row.get(2)?,
                cause: row.get(3)?,
            })
        })?;
        summary.waiting = rows.collect::<rusqlite::Result<_>>()?;
        let behind =
            summary.kept.iter().find(|(why, ..)| *why == Why::Behind).map_or(0, |(.., groups)| *groups);
        summary.waiting_more = behind.saturating_sub(summary.waiting.len() as u64);
        self.names(&mut summary)?;
        Ok(summary)
    }

    /// Names the first letters of each kind that is told apart.
    fn names(&self, summary: &mut Summary) -> Result<()> {
        let first = |which: &str| -> Result<Vec<(String, Option<String>)>> {
            // In the order of the queue, so that a scan ends with the last one that is named.
            let query =
                format!("SELECT letter, event FROM l WHERE sel = 1 AND {which} ORDER BY n LIMIT {NAMED_MAX}");
            let mut query = self.sql.prepare(&query)?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        let letters = |which: &str| -> Result<Vec<String>> {
            Ok(first(which)?.into_iter().map(|(letter, _)| letter).collect())
        };
        if summary.twins > 0 {
            summary.twins_named = letters("twin IS NOT NULL")?;
        }
        if summary.repeated > 0 {
            let named = first("kept IS NULL AND twins IS NOT NULL")?;
            summary.repeated_named =
                named.into_iter().map(|(letter, event)| (letter, event.unwrap_or_default())).collect();
        }
        for (why, ..) in &summary.kept {
            summary.kept_named.push((*why, letters(&format!("kept = {}", code(*why)))?));
        }
        Ok(())
    }

    /// Calls `each` for every selected letter in order, numbered from 1.
    ///
    /// # Errors
    /// The database's, or what `each` gives.
    pub fn lines<E: From<super::LedgerError>>(
        &self,
        mut each: impl FnMut(Line) -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        let sql = |error| E::from(super::LedgerError::Sql(error));
        // Numbers in order of slot, known before the lines so that a twin can name its other half.
        let straight: bool = self
            .sql
            .query_row("SELECT NOT EXISTS (SELECT 1 FROM l WHERE slot <> n)", [], |row| row.get(0))
            .map_err(sql)?;
        let order = if straight { "l.n" } else { "l.slot" };
        let twins: bool = self
            .sql
            .query_row("SELECT EXISTS (SELECT 1 FROM l WHERE twin IS NOT NULL)", [], |row| row.get(0))
            .map_err(sql)?;
        if twins {
            self.sql
                .execute_batch(
                    "DROP TABLE IF EXISTS numbers; CREATE TABLE numbers AS \
                     SELECT slot, row_number() OVER (ORDER BY slot) AS seq FROM l WHERE sel = 1; \
                     CREATE UNIQUE INDEX numbers_slot ON numbers (slot);",
                )
                .map_err(sql)?;
        }
        let twin_of = if twins { "(SELECT seq FROM numbers WHERE numbers.slot = l.twin)" } else { "NULL" };
        let is_first = if twins {
            "EXISTS (SELECT 1 FROM firsts WHERE firsts.slot = l.slot AND firsts.ev = l.ev)"
        } else {
            "0"
        };
        let mut query = self
            .sql
            .prepare(&format!(
                "SELECT l.letter, l.position, l.event, l.gtext, l.cause, l.body, l.size, l.kept, l.detail, \
                 (SELECT letter FROM l AS other WHERE other.n = l.behind), {twin_of}, {is_first} \
                 FROM l WHERE l.sel = 1 ORDER BY {order}"
            ))
            .map_err(sql)?;
        let mut rows = query.query([]).map_err(sql)?;
        let mut seq = 0;
        while let Some(row) = rows.next().map_err(sql)? {
            seq += 1;
            each(line_of(seq, row).map_err(sql)?)?;
        }
        Ok(seq)
    }
}

fn line_of(seq: u64, row: &Row<'_>) -> rusqlite::Result<Line> {
    let kept: Option<i64> = row.get(7)?;
    let behind: Option<String> = row.get(9)?;
    let kept = match kept.and_then(why) {
        Some(why) => {
            Some(Kept { why, letter: behind.map(|letter| LetterId::new(&letter)), detail: row.get(8)? })
        }
        None => None,
    };
    let body: Option<Vec<u8>> = row.get(5)?;
    Ok(Line {
        seq,
        letter: LetterId::new(row.get_ref(0)?.as_str().unwrap_or_default()),
        position: Position::new(row.get_ref(1)?.as_str().unwrap_or_default()),
        event_id: row.get(2)?,
        group: row.get(3)?,
        cause: row.get(4)?,
        body: body.map(|body| hex(&body)),
        size: row.get(6)?,
        kept,
        twin_of: row.get(10)?,
        twins: row.get(11)?,
    })
}

pub(super) fn code(why: Why) -> i64 {
    Why::ALL.iter().position(|known| *known == why).map_or(0, |at| at as i64 + 1)
}

fn why(code: i64) -> Option<Why> {
    Why::ALL.get(usize::try_from(code - 1).ok()?).copied()
}
