//! Runs: who, when, why, what, and how they ended.

use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use super::{Ledger, Lock, Result};
use crate::clock::Time;

/// How a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Begun; whether its process lives, the lock says.
    Running,
    /// All moved.
    Done,
    /// Ended; something failed, is held, in doubt or skipped.
    Partial,
    /// Ended early; can be resumed.
    Stopped,
    /// Stopped by `runs pause`.
    Paused,
    /// Nothing moved, something failed.
    Failed,
}

impl RunState {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Failed => "failed",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "done" => Self::Done,
            "partial" => Self::Partial,
            "stopped" => Self::Stopped,
            "paused" => Self::Paused,
            "failed" => Self::Failed,
            _ => Self::Running,
        }
    }
}

/// What another process wishes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Stop, to be resumed.
    Pause,
    /// Stop.
    Stop,
}

/// Letters of a run by outcome: `planned = moved + skipped + failed + held + in doubt + untouched`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// All of the manifest.
    pub planned: u64,
    /// Copies surely in the target.
    pub moved: u64,
    /// Kept by a rule for their own sake, or gone.
    pub skipped: u64,
    /// Refused by the broker.
    pub failed: u64,
    /// Kept because of their group.
    pub held: u64,
    /// Sent, outcome unknown.
    pub in_doubt: u64,
    /// As they were.
    pub untouched: u64,
}

impl Counts {
    /// Rule 7.
    pub fn add_up(&self) -> bool {
        self.planned == self.moved + self.skipped + self.failed + self.held + self.in_doubt + self.untouched
    }
}

/// Something that happened to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunEvent {
    /// When.
    pub at: Time,
    /// Who.
    pub who: String,
    /// `begun`, `resumed`, `pause`, `stop`, `ended`, and the like.
    pub what: String,
    /// More, in words: the reason given.
    pub text: Option<String>,
}

/// A run as it begins.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// `r` and letters and digits, ordered by time.
    pub id: String,
    /// Channel.
    pub channel: String,
    /// Broker, by its name.
    pub broker: String,
    /// Key of the dead-letter queue for the lock.
    pub dlq: String,
    /// The queue's name.
    pub queue: String,
    /// Where to.
    pub target: String,
    /// `transaction` or `publish_then_settle`.
    pub path: &'static str,
    /// As typed: `50/s`.
    pub rate: String,
    /// Ramp in milliseconds.
    pub ramp_ms: u64,
    /// What a resume needs to go on as begun, JSON.
    pub settings: String,
    /// The selection as flags.
    pub selection: String,
    /// Why.
    pub reason: String,
    /// `mira@ops-2`.
    pub who: String,
    /// Version of the tool.
    pub tool: String,
    /// Letters.
    pub planned: u64,
    /// When.
    pub started: Time,
}

/// A run as recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// Its number in this ledger.
    #[serde(skip)]
    pub n: i64,
    /// Its id.
    pub id: String,
    /// Channel.
    pub channel: String,
    /// Broker.
    pub broker: String,
    /// Key of the dead-letter queue.
    #[serde(skip)]
    pub dlq: String,
    /// The queue's name.
    pub queue: String,
    /// Where to.
    pub target: String,
    /// How letters were moved.
    pub path: String,
    /// Rate as typed.
    pub rate: String,
    /// Ramp.
    pub ramp_ms: u64,
    /// What a resume needs.
    #[serde(skip)]
    pub settings: String,
    /// Selection as flags.
    pub selection: String,
    /// Why.
    pub reason: String,
    /// Who.
    pub who: String,
    /// Version of the tool.
    pub tool: String,
    /// When it began.
    pub started: Time,
    /// Last sign of it.
    pub seen: Time,
    /// When it ended, if it did.
    pub ended: Option<Time>,
    /// Time that it ran, all parts together, in milliseconds.
    pub took_ms: u64,
    /// Once, and once more for each resume.
    pub parts: u32,
    /// How it is doing.
    pub state: RunState,
    /// Exit code of its last part.
    pub exit: Option<i32>,
    /// Counts so far.
    pub counts: Counts,
    /// Moved, and the original is still there.
    pub unsettled: u64,
    /// Died again, where that was counted.
    pub refailed: Option<u64>,
}

const COLUMNS: &str = "n, id, channel, broker, dlq, queue, target, path, rate, ramp_ms, settings, selection, \
    reason, who, tool, planned, started, seen, ended, took_ms, parts, state, exit, moved, unsettled, skipped, \
    failed, held, in_doubt, refailed";

impl RunRow {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let planned: u64 = row.get(15)?;
        let (moved, skipped, failed): (u64, u64, u64) = (row.get(23)?, row.get(25)?, row.get(26)?);
        let (held, in_doubt): (u64, u64) = (row.get(27)?, row.get(28)?);
        let untouched = planned.saturating_sub(moved + skipped + failed + held + in_doubt);
        Ok(Self {
            n: row.get(0)?,
            id: row.get(1)?,
            channel: row.get(2)?,
            broker: row.get(3)?,
            dlq: row.get(4)?,
            queue: row.get(5)?,
            target: row.get(6)?,
            path: row.get(7)?,
            rate: row.get(8)?,
            ramp_ms: row.get(9)?,
            settings: row.get(10)?,
            selection: row.get(11)?,
            reason: row.get(12)?,
            who: row.get(13)?,
            tool: row.get(14)?,
            started: Time::from_millis(row.get(16)?),
            seen: Time::from_millis(row.get(17)?),
            ended: row.get::<_, Option<i64>>(18)?.map(Time::from_millis),
            took_ms: row.get(19)?,
            parts: row.get(20)?,
            state: RunState::of(&row.get::<_, String>(21)?),
            exit: row.get(22)?,
            counts: Counts { planned, moved, skipped, failed, held, in_doubt, untouched },
            unsettled: row.get(24)?,
            refailed: row.get(29)?,
        })
    }
}

impl Ledger {
    /// Records a new run. Gives its number.
    ///
    /// # Errors
    /// The database's.
    pub fn begin_run(&mut self, run: &NewRun) -> Result<i64> {
        self.durable(true)?;
        self.sql.execute(
            "INSERT INTO runs (id, channel, broker, dlq, queue, target, path, rate, ramp_ms, settings, selection, \
             reason, who, tool, planned, started, seen, state) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, 'running')",
            params![
                run.id,
                run.channel,
                run.broker,
                run.dlq,
                run.queue,
                run.target,
                run.path,
                run.rate,
                run.ramp_ms,
                run.settings,
                run.selection,
                run.reason,
                run.who,
                run.tool,
                run.planned,
                run.started.millis()
            ],
        )?;
        Ok(self.sql.last_insert_rowid())
    }

    /// A run goes on: another part of it. Its held and unseen letters are open again.
    ///
    /// # Errors
    /// The database's.
    pub fn continue_run(&mut self, run: i64, now: Time) -> Result<()> {
        self.durable(true)?;
        // A part that was killed could not say how long it took: until the last sign of it, as far as it began at all.
        self.sql.execute(
            "UPDATE runs SET took_ms = took_ms + coalesce((SELECT max(0, runs.seen - max(at)) FROM events \
             WHERE run = ?1 AND what IN ('begun', 'resumed') AND runs.state = 'running' \
             HAVING count(*) = runs.parts), 0) WHERE n = ?1",
            [run],
        )?;
        self.sql.execute(
            "UPDATE runs SET state = 'running', parts = parts + 1, seen = ?2, ended = NULL, exit = NULL, \
             wish = NULL WHERE n = ?1",
            params![run, now.millis()],
        )?;
        self.sql.execute(
            "DELETE FROM notes WHERE run = ?1 AND outcome IN ('untouched', 'unsettled') \
             OR (run = ?1 AND outcome = 'held' AND code IN ('behind_in_run', 'twin_stays', 'left_open'))",
            [run],
        )?;
        Ok(())
    }

    /// A run goes on with letters that could not be seen when it began: `planned` is the new number of all.
    ///
    /// # Errors
    /// The database's.
    pub fn extend_run(&mut self, run: i64, planned: u64, settings: &str, now: Time) -> Result<()> {
        self.durable(true)?;
        self.sql.execute(
            "UPDATE runs SET planned = ?2, settings = ?3, seen = ?4 WHERE n = ?1",
            params![run, planned, settings, now.millis()],
        )?;
        // Those behind a letter that stays are judged again, as in another part of a run.
        self.sql.execute(
            "DELETE FROM notes WHERE run = ?1 AND (outcome = 'untouched' OR outcome = 'unsettled' \
             OR outcome = 'held' AND code IN ('behind_in_run', 'twin_stays', 'left_open'))",
            [run],
        )?;
        Ok(())
    }

    /// How the parts of a run go: what a resume changed is kept beside how it was begun.
    ///
    /// # Errors
    /// The database's.
    pub fn keep_settings(&mut self, run: i64, settings: &str) -> Result<()> {
        self.durable(true)?;
        self.sql.execute("UPDATE runs SET settings = ?2 WHERE n = ?1", params![run, settings])?;
        Ok(())
    }

    /// Counts so far, and a sign of life.
    ///
    /// # Errors
    /// The database's.
    pub fn note_progress(&mut self, run: i64, counts: &Counts, unsettled: u64, now: Time) -> Result<()> {
        self.durable(false)?;
        self.sql.prepare_cached(
            "UPDATE runs SET seen = ?2, moved = ?3, unsettled = ?4, skipped = ?5, failed = ?6, held = ?7, \
             in_doubt = ?8 WHERE n = ?1",
        )?.execute(
            params![
                run,
                now.millis(),
                counts.moved,
                unsettled,
                counts.skipped,
                counts.failed,
                counts.held,
                counts.in_doubt
            ],
        )?;
        Ok(())
    }

    /// The end of a part of a run.
    ///
    /// # Errors
    /// The database's.
    #[allow(clippy::too_many_arguments)]
    pub fn end_run(
        &mut self,
        run: i64,
        state: RunState,
        exit: i32,
        counts: &Counts,
        unsettled: u64,
        refailed: Option<u64>,
        took_ms: u64,
        now: Time,
    ) -> Result<()> {
        self.note_progress(run, counts, unsettled, now)?;
        self.durable(true)?;
        self.sql.execute(
            "UPDATE runs SET state = ?2, exit = ?3, ended = ?4, took_ms = took_ms + ?5, refailed = ?6 WHERE n = ?1",
            params![run, state.word(), exit, now.millis(), took_ms, refailed],
        )?;
        Ok(())
    }

    /// Every run whose id begins with `prefix`, at most three.
    ///
    /// # Errors
    /// The database's.
    pub fn runs_like(&self, prefix: &str) -> Result<Vec<RunRow>> {
        if !prefix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            return Ok(Vec::new());
        }
        let mut query = self.sql.prepare(&format!(
            "SELECT {COLUMNS} FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY n DESC LIMIT 3"
        ))?;
        let rows = query.query_map([prefix], RunRow::of)?;
        let rows: Vec<RunRow> = rows.collect::<rusqlite::Result<_>>()?;
        Ok(match rows.iter().position(|row| row.id == prefix) {
            Some(exact) => vec![rows[exact].clone()],
            None => rows,
        })
    }

    /// Runs, the latest first: of this channel, of this broker, or of all.
    ///
    /// # Errors
    /// The database's.
    pub fn runs(&self, channel: Option<&str>, broker: Option<&str>, most: usize) -> Result<Vec<RunRow>> {
        let mut query = self.sql.prepare(&format!(
            "SELECT {COLUMNS} FROM runs WHERE (?1 IS NULL OR channel = ?1) AND (?2 IS NULL OR broker = ?2) \
             ORDER BY n DESC LIMIT ?3"
        ))?;
        let rows = query.query_map(params![channel, broker, most], RunRow::of)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Channels and brokers of which runs are recorded, the latest first.
    ///
    /// # Errors
    /// The database's.
    pub fn ran(&self) -> Result<Vec<(String, String)>> {
        let mut query = self
            .sql
            .prepare("SELECT channel, broker FROM runs GROUP BY 1, 2 ORDER BY max(n) DESC LIMIT 10")?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Runs of a dead-letter queue that gave a sign of life since `since`, the earliest first.
    ///
    /// # Errors
    /// The database's.
    pub fn runs_of(&self, dlq: &str, since: Time) -> Result<Vec<RunRow>> {
        let mut query = self
            .sql
            .prepare(&format!("SELECT {COLUMNS} FROM runs WHERE dlq = ?1 AND seen >= ?2 ORDER BY n"))?;
        let rows = query.query_map(params![dlq, since.millis()], RunRow::of)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Writes down what somebody wishes of a run.
    ///
    /// # Errors
    /// The database's.
    pub fn wish(&mut self, run: i64, wish: Wish) -> Result<()> {
        self.durable(true)?;
        let word = match wish {
            Wish::Pause => "pause",
            Wish::Stop => "stop",
        };
        self.sql.execute("UPDATE runs SET wish = ?2 WHERE n = ?1", params![run, word])?;
        Ok(())
    }

    /// What somebody wishes of this run.
    ///
    /// # Errors
    /// The database's.
    pub fn wished(&self, run: i64) -> Result<Option<Wish>> {
        let word: Option<Option<String>> = self
            .sql
            .prepare_cached("SELECT wish FROM runs WHERE n = ?1")?
            .query_row([run], |row| row.get(0))
            .optional()?;
        Ok(word.flatten().map(|word| if word == "pause" { Wish::Pause } else { Wish::Stop }))
    }

    /// Something that happened to a run: its parts, pauses, changes of pace, orders of people.
    ///
    /// # Errors
    /// The database's.
    pub fn event(&mut self, run: i64, at: Time, who: &str, what: &str, text: Option<&str>) -> Result<()> {
        self.durable(false)?;
        self.sql.execute(
            "INSERT INTO events (run, at, who, what, text) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![run, at.millis(), who, what, text],
        )?;
        Ok(())
    }

    /// What happened to a run, in order.
    ///
    /// # Errors
    /// The database's.
    pub fn events(&self, run: i64) -> Result<Vec<RunEvent>> {
        let mut query =
            self.sql.prepare("SELECT at, who, what, text FROM events WHERE run = ?1 ORDER BY rowid")?;
        let rows = query.query_map([run], |row| {
            Ok(RunEvent {
                at: Time::from_millis(row.get(0)?),
                who: row.get(1)?,
                what: row.get(2)?,
                text: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The rate of the last part.
    ///
    /// # Errors
    /// The database's.
    pub fn last_rate(&self, row: &RunRow) -> Result<String> {
        let events = self.events(row.n)?;
        let changed = events.iter().rev().find(|event| event.what == "rate changed");
        let rate = changed.and_then(|event| event.text.as_deref()?.rsplit_once(" to "));
        Ok(rate.map_or_else(|| row.rate.clone(), |(_, to)| to.to_owned()))
    }

    /// Is this still the holder? For writes that are not of letters.
    ///
    /// # Errors
    /// The database's.
    pub fn holds(&self, lock: &Lock) -> Result<bool> {
        let held: Option<i64> = self
            .sql
            .prepare_cached("SELECT 1 FROM locks WHERE dlq = ?1 AND owner = ?2 AND epoch = ?3")?
            .query_row(params![lock.dlq, lock.owner, lock.epoch], |row| row.get(0))
            .optional()?;
        Ok(held.is_some())
    }

    /// Which part of a run the holder of `lock` is; `None`: it holds it no more.
    ///
    /// # Errors
    /// The database's.
    pub fn part_held(&self, run: i64, lock: &Lock) -> Result<Option<u32>> {
        let part = self
            .sql
            .prepare_cached(
                "SELECT parts FROM runs WHERE n = ?1 AND EXISTS \
                 (SELECT 1 FROM locks WHERE dlq = ?2 AND owner = ?3 AND epoch = ?4)",
            )?
            .query_row(params![run, lock.dlq, lock.owner, lock.epoch], |row| row.get(0))
            .optional()?;
        Ok(part)
    }
}
