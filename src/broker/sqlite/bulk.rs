//! Many rows in few statements. What a run moves mostly lies in a row, one row behind the other, and beginning
//! a statement costs as much as a row or two. A statement that fails leaves the rows before the one that it
//! failed at (`OR FAIL`: else SQLite copies every page for undoing it), so its transaction must be undone.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::LazyLock;

use rusqlite::{Connection, ToSql};

use super::letters::Written;
use crate::proof::mutation::mutated;

/// Rows of one statement.
const ROWS: usize = 25;

/// A statement that inserts [`ROWS`] rows: `shared` parameters first, then `own` new ones in each row, which
/// stand in `row` as `#1`, `#2`.
fn many(into: &str, shared: usize, own: usize, row: &str) -> String {
    let mut sql = format!("{into} VALUES ");
    for at in 0..ROWS {
        let mut values = row.to_owned();
        for number in 1..=own {
            let parameter = format!("?{}", shared + at * own + number);
            values = values.replace(&format!("#{number}"), &parameter);
        }
        let _ = write!(sql, "{}({values})", if at > 0 { ", " } else { "" });
    }
    sql
}

static LETTERS: LazyLock<String> = LazyLock::new(|| {
    let into = "INSERT OR FAIL INTO letter (queue, due, entered_at, sent_at, headers, properties, key, body)";
    many(into, 2, 4, "?1, 0, ?2, ?2, #1, #2, #3, #4")
});

static MARKS: LazyLock<String> = LazyLock::new(|| {
    many("INSERT OR FAIL INTO mark (run, seq, letter, copy, at)", 2, 3, "?1, #1, #2, #3, ?2")
});

static SENT: LazyLock<String> =
    LazyLock::new(|| many("INSERT OR REPLACE INTO sent (letter, run, seq)", 1, 2, "#1, ?1, #2"));

/// Where in `rows` such runs lie that each row's number is one more than that of the row before it, and
/// `same` holds between the two.
pub fn runs<T>(
    rows: &[T],
    number: impl Fn(&T) -> i64,
    same: impl Fn(&T, &T) -> bool,
    most: usize,
) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in 0..rows.len() {
        let follows = at > 0
            && number(&rows[at - 1]).checked_add(1) == Some(number(&rows[at]))
            && same(&rows[at - 1], &rows[at]);
        match found.last_mut() {
            Some(run) if follows && run.len() < most => run.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// Inserts letters in order into a queue, due at once; gives the row of the first, the others follow it.
/// `None`: they would not follow each other, and the transaction must not be committed.
pub fn insert(db: &Connection, letters: &[&Written], queue: i64, now: i64) -> rusqlite::Result<Option<i64>> {
    let last: Option<i64> = db
        .prepare_cached("SELECT max(seq) FROM sqlite_sequence WHERE name = 'letter'")?
        .query_row([], |row| row.get(0))?;
    let before = last.unwrap_or(0);
    let mut there = before;
    let (chunks, rest) = letters.as_chunks::<ROWS>();
    if !chunks.is_empty() {
        let mut statement = db.prepare_cached(&LETTERS)?;
        statement.raw_bind_parameter(1, queue)?;
        statement.raw_bind_parameter(2, now)?;
        for chunk in chunks {
            for (letter, at) in chunk.iter().zip((3..).step_by(4)) {
                for (value, offset) in letter.values().into_iter().zip(0..) {
                    statement.raw_bind_parameter(at + offset, value)?;
                }
            }
            statement.raw_execute()?;
            there += ROWS as i64;
            if db.last_insert_rowid() != there {
                return Ok(None);
            }
        }
    }
    for letter in rest {
        there += 1;
        if letter.insert_row(db, queue, 0, now)? != there {
            return Ok(None);
        }
    }
    Ok(Some(before + 1))
}

/// Inserts marks of a run: number, original and copy of each letter.
pub fn mark(db: &Connection, run: &str, marks: &[(i64, i64, i64)], at: i64) -> rusqlite::Result<()> {
    if mutated("t01") {
        // Left to a second transaction, which a kill prevents.
        return Ok(());
    }
    let (chunks, rest) = marks.as_chunks::<ROWS>();
    if !chunks.is_empty() {
        let mut statement = db.prepare_cached(&MARKS)?;
        statement.raw_bind_parameter(1, run)?;
        statement.raw_bind_parameter(2, at)?;
        for chunk in chunks {
            for ((seq, letter, copy), first) in chunk.iter().zip((3..).step_by(3)) {
                statement.raw_bind_parameter(first, seq)?;
                statement.raw_bind_parameter(first + 1, letter)?;
                statement.raw_bind_parameter(first + 2, copy)?;
            }
            statement.raw_execute()?;
        }
    }
    let mut one =
        db.prepare_cached("INSERT INTO mark (run, seq, letter, copy, at) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (seq, letter, copy) in rest {
        one.execute(rusqlite::params![run, seq, letter, copy, at])?;
    }
    Ok(())
}

/// Says of originals that a run has copied them and not removed them yet: number and original of each letter.
pub fn sent(db: &Connection, run: &str, letters: &[(i64, i64)]) -> rusqlite::Result<()> {
    let (chunks, rest) = letters.as_chunks::<ROWS>();
    if !chunks.is_empty() {
        let mut statement = db.prepare_cached(&SENT)?;
        statement.raw_bind_parameter(1, run)?;
        for chunk in chunks {
            for ((seq, letter), first) in chunk.iter().zip((2..).step_by(2)) {
                statement.raw_bind_parameter(first, letter)?;
                statement.raw_bind_parameter(first + 1, seq)?;
            }
            statement.raw_execute()?;
        }
    }
    let mut one = db.prepare_cached("INSERT OR REPLACE INTO sent (letter, run, seq) VALUES (?1, ?2, ?3)")?;
    for (seq, letter) in rest {
        one.execute(rusqlite::params![letter, run, seq])?;
    }
    Ok(())
}

/// How many rows `sql` counts.
pub fn count(db: &Connection, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
    let count: i64 = db.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_consecutive_numbers_and_bounded() {
        let numbers = [4, 5, 6, 9, 8, 9, 10, 10, 11];
        let same = |_: &i64, _: &i64| true;
        let found = runs(&numbers, |n| *n, same, 100);
        assert_eq!(found, [0..3, 3..4, 4..7, 7..9]);
        assert_eq!(runs(&numbers[..3], |n| *n, same, 2), [0..2, 2..3]);
        assert_eq!(runs(&numbers[..3], |n| *n, |a, _| *a != 5, 9), [0..2, 2..3]);
        assert_eq!(runs(&[i64::MAX, i64::MIN], |n| *n, same, 9), [0..1, 1..2]);
    }

    #[test]
    fn a_statement_of_many_rows_numbers_its_parameters() {
        let sql = many("INSERT INTO t (a, b, c)", 1, 2, "#2, ?1, #1");
        assert!(sql.starts_with("INSERT INTO t (a, b, c) VALUES (?3, ?1, ?2), (?5, ?1, ?4), (?7, ?1, ?6)"));
        assert!(sql.ends_with(&format!("(?{}, ?1, ?{})", 1 + 2 * ROWS, 2 * ROWS)), "{sql}");
    }
}
