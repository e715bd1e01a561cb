//! The end of a run: nothing stays intended, six counts that add up, claims and locks given back (I7).

use std::time::Duration;

use super::super::event::Event;
use super::super::machine::Stop;
use super::{Engine, EngineError};
use crate::broker::BrokerError;
use crate::ledger::{Counts, Entry, LedgerError, LetterState};
use crate::proof::failpoint;

/// Why a run ended before all was done.
#[derive(Debug, Clone)]
pub enum Cause {
    /// A signal.
    Asked,
    /// `runs pause`.
    Paused,
    /// `runs stop`.
    StoppedFromOutside,
    /// So many errors in a row; the last one, if the broker said something.
    Errors(Option<BrokerError>),
    /// So many of the moved letters died again.
    Refailed {
        /// Died again since the part began.
        count: u64,
        /// Of so many moved in it.
        of: u64,
        /// The limit, as a part of one.
        limit: f64,
    },
    /// The broker will not, or cannot be reached.
    Broker(BrokerError),
    /// Another process took over.
    LockLost,
}

impl Cause {
    /// In words for the record: what kind it was, then what is known of it.
    pub fn words(&self) -> String {
        let said = |error: &BrokerError| {
            let code = error.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
            format!("could not {}: {}{code}", error.action, error.message)
        };
        match self {
            Self::Asked => "signal".to_owned(),
            Self::Paused | Self::StoppedFromOutside => "asked from outside".to_owned(),
            Self::Errors(None) => "errors in a row".to_owned(),
            Self::Errors(Some(last)) => format!("errors in a row: the last, {}", said(last)),
            Self::Refailed { count, of, limit } => {
                let limit = (limit * 1e10).round() / 1e8;
                format!("re-failed over the limit: {count} of {of}, limit {limit}%")
            }
            Self::Broker(error) => format!("the broker: {}", said(error)),
            Self::LockLost => "lock lost: another process took the dead-letter queue over".to_owned(),
        }
    }
}

/// How a part of a run ended.
#[derive(Debug, Clone)]
pub struct End {
    /// Why, if not because all was done.
    pub cause: Option<Cause>,
    /// The six counts, over all parts.
    pub counts: Counts,
    /// Moved, and the original is still there.
    pub unsettled: u64,
    /// Of those, looked for and not visible to the broker.
    pub unseen: u64,
    /// Moved, not visible, and gone as a person says.
    pub taken_as_gone: u64,
    /// Not visible to the broker when they were wanted.
    pub not_seen: u64,
    /// Gone when they were wanted, as the broker can tell, and nobody has said that they may be passed.
    pub gone: u64,
    /// Died again by now, where looking costs nothing.
    pub refailed: Option<u64>,
    /// Why nobody knows, if looking for them failed.
    pub refailed_fault: Option<BrokerError>,
    /// How long this part took.
    pub took: Duration,
    /// Moved in this part.
    pub moved_now: u64,
    /// What came of trimming, if that was asked for.
    pub trimmed: Option<String>,
    /// Of the time it took, spent at the ledger.
    pub recording: Duration,
    /// Of that time, how long it stood back for the relay.
    pub yielded: Duration,
}

impl Engine<'_> {
    pub(super) async fn close(mut self, result: Result<Stop, EngineError>) -> Result<End, EngineError> {
        self.looks.close().await;
        match result {
            Ok(Stop::Errors) => {
                self.cause.get_or_insert(Cause::Errors(self.last_doubt.clone()));
            }
            Ok(_) => {}
            Err(EngineError::Ledger(LedgerError::LockLost)) => {
                self.cause = Some(Cause::LockLost);
            }
            Err(error) => {
                let _ = self.job.mover.end().await;
                return Err(error);
            }
        }
        // Who was ousted may hear of it from the broker first, or while it ends for another cause: why is that the
        // other one took over.
        if !self.job.ledger.holds(&self.job.lock)? {
            self.cause = Some(Cause::LockLost);
        }
        let lost = matches!(self.cause, Some(Cause::LockLost));
        failpoint::hit("before_end");
        if !lost {
            self.close_intents()?;
        }
        self.look_at_refailed().await;
        let tally = self.machine.tally();
        // Who was ousted by another part of this run may not write its last words down: it knows of them all the same.
        let counts = if lost { self.counts_so_far() } else { self.count().await? };
        let progress = self.progress();
        self.job.observer.see(&Event::Progress(progress));
        let took = self.job.clock.elapsed().saturating_sub(self.begun);
        let yielded = self.yielding.total(self.job.clock.elapsed());
        let moved_now = self.moved_now();
        // Only behind a run that came to its end by itself: whatever stopped it may be what a person looks at next.
        let trimmed = match self.job.settings.trim && self.cause.is_none() {
            false => None,
            true => match self.job.mover.trim().await {
                Ok(said) => said,
                Err(error) => {
                    let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
                    Some(format!("moved letters were not trimmed: could not {error}{hint}"))
                }
            },
        };
        if let Err(error) = self.job.mover.end().await {
            tracing::warn!(%error, "the session could not be closed; its claims and lock end by themselves");
        }
        failpoint::hit("after_end");
        if !counts.add_up() && !lost {
            return Err(EngineError::Counts(format!("the counts do not add up: {counts:?}, {tally:?}")));
        }
        Ok(End {
            cause: self.cause,
            counts,
            unsettled: tally.unsettled,
            unseen: tally.unseen,
            taken_as_gone: tally.taken_as_gone,
            not_seen: tally.not_seen.saturating_sub(tally.gone),
            gone: tally.gone,
            refailed: self.refailed.all,
            refailed_fault: self.refailed.fault,
            took,
            moved_now,
            trimmed,
            recording: self.recording,
            yielded,
        })
    }

    /// What a resume found intended and never came to is in doubt, by name.
    fn close_intents(&mut self) -> Result<(), EngineError> {
        let mut after = 0;
        loop {
            let page = self.job.ledger.open_letters(self.job.number, after, 1000)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            let lines: Vec<_> = page
                .iter()
                .filter(|open| open.state == LetterState::Intended)
                .map(super::recover::line_of)
                .collect();
            let entries: Vec<Entry<'_>> = lines
                .iter()
                .map(|line| Entry {
                    line,
                    state: Some(LetterState::InDoubt),
                    attempt: 0,
                    hash: None,
                    note: Some(("in_doubt", "no_answer", None, None)),
                })
                .collect();
            if !entries.is_empty() {
                let now = self.job.clock.now();
                self.job.ledger.write(&mut self.writes, &self.job.lock, &entries, now, true)?;
            }
        }
    }

    /// The six counts from the ledger, each counted by itself: what the machine says must be the same.
    async fn count(&mut self) -> Result<Counts, EngineError> {
        let ledger = self.job.ledger.tally(self.job.number)?;
        let of = |state| ledger.get(&state).copied().unwrap_or(0);
        let tally = self.machine.tally();
        // Lines that were never come to: those an earlier part did not bring to an end are untouched.
        let mut unread = 0;
        while let Some(line) = self.job.manifest.next().await? {
            if line.kept.is_none() && self.writes.state(self.job.ledger, line.seq)? == LetterState::Planned {
                unread += 1;
            }
        }
        Ok(Counts {
            planned: self.job.planned,
            moved: of(LetterState::Settled) + of(LetterState::Published),
            skipped: of(LetterState::Gone) + of(LetterState::Twin) + self.job.kept.0,
            failed: of(LetterState::Failed),
            held: tally.held + self.job.kept.1,
            in_doubt: of(LetterState::InDoubt) + of(LetterState::Intended),
            untouched: tally.not_seen + self.machine.open_letters() + unread,
        })
    }
}
