//! Why a run ended, as its last part left it on record; who was killed left nothing.

use rusqlite::params;

use super::{Counts, Ledger, Result, RunEvent, RunRow, RunState};
use crate::clock::Time;

/// What is said of a run whose last part is over and left no word.
pub const WITHOUT_A_WORD: &str = "without a word: killed?";

impl Ledger {
    /// How a part of a run ended, and why: what `runs show` tells later.
    ///
    /// # Errors
    /// The database's.
    pub fn say_ended(&mut self, run: i64, at: Time, who: &str, state: RunState, why: &str) -> Result<()> {
        self.event(run, at, who, "ended", Some(&format!("{}, {why}", state.word())))
    }

    /// The end of a part whose lock was lost. What it knew of its letters is written by now ([`Ledger::last_words`]);
    /// it has no say about the run if another part of that has begun. That it was ousted is history all the same.
    ///
    /// # Errors
    /// The database's.
    #[allow(clippy::too_many_arguments)]
    pub fn ousted(
        &mut self,
        run: &RunRow,
        exit: i32,
        (counts, unsettled): (&Counts, u64),
        took_ms: u64,
        who: &str,
        why: &str,
        now: Time,
    ) -> Result<()> {
        self.durable(true)?;
        self.sql.execute(
            "UPDATE runs SET state = 'stopped', exit = ?3, ended = ?4, seen = ?4, took_ms = took_ms + ?5, \
             moved = ?6, skipped = ?7, failed = ?8, held = ?9, in_doubt = ?10, unsettled = ?11 \
             WHERE n = ?1 AND parts = ?2 AND state = 'running'",
            params![
                run.n,
                run.parts,
                exit,
                now.millis(),
                took_ms,
                counts.moved,
                counts.skipped,
                counts.failed,
                counts.held,
                counts.in_doubt,
                unsettled
            ],
        )?;
        self.event(run.n, now, who, "ousted", Some(&format!("{}, {why}", RunState::Stopped.word())))
    }

    /// Why the last part of a run ended. `None`: it has not ended, or an older version recorded it. Who was killed
    /// could not say so.
    ///
    /// # Errors
    /// The database's.
    pub fn why_ended(&self, row: &RunRow, alive: bool) -> Result<Option<String>> {
        let events = self.events(row.n)?;
        let part = events.iter().rposition(|event| matches!(event.what.as_str(), "begun" | "resumed"));
        let last = part.map_or(&events[..], |part| &events[part..]);
        let said = |event: &RunEvent| Some(event.text.as_deref()?.split_once(", ")?.1.to_owned());
        let ended = last.iter().rev().find(|event| matches!(event.what.as_str(), "ended" | "ousted"));
        Ok(match ended {
            Some(event) => said(event),
            None if alive || row.state != RunState::Running => None,
            None => Some(WITHOUT_A_WORD.to_owned()),
        })
    }

    /// Who asked a run from outside to stop, and with which reason: `runs pause by mira@ops-2, lunch`.
    ///
    /// # Errors
    /// The database's.
    pub fn who_asked(&self, run: i64) -> Result<Option<String>> {
        let events = self.events(run)?;
        let asked = events.iter().rev().find(|event| matches!(event.what.as_str(), "pause" | "stop"));
        Ok(asked.map(|event| {
            let reason = event.text.as_deref().map(|reason| format!(", {reason}")).unwrap_or_default();
            format!("runs {} by {}{reason}", event.what, event.who)
        }))
    }
}
