//! What a run tells those who watch it. Nothing of it is needed for a resume: that is the ledger's.

use std::time::Duration;

use crate::ledger::Counts;
use crate::manifest::Line;

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A letter came to an outcome.
    Letter {
        /// Its line.
        line: &'a Line,
        /// `moved`, `failed`, `held`, `skipped`, `in_doubt`, `not_seen`.
        outcome: &'static str,
        /// Where its copy is, or the code of its failure, or the letter it waits for.
        detail: Option<&'a str>,
    },
    /// The state of things; some ten times a second at most.
    Progress(Progress),
    /// The run stands back for the relay of its target, or has its turn again.
    Yielding {
        /// Messages overdue in the tiers.
        overdue: u64,
        /// Does it stand back?
        yields: bool,
    },
    /// Something went wrong and is tried again.
    Trouble {
        /// What the broker said.
        what: &'a str,
        /// How long the run waits.
        wait: Duration,
    },
    /// The run is stopping in order; this many letters are in flight.
    Stopping {
        /// Letters in flight.
        in_flight: usize,
    },
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Counts so far; `untouched` is what is still to come.
    pub counts: Counts,
    /// Moved in this part of the run.
    pub moved_now: u64,
    /// Letters a second, over this part of the run.
    pub rate: f64,
    /// Letters a second that the pace allows at present.
    pub allowed: f64,
    /// Letters of this run that died again.
    pub refailed: Option<u64>,
    /// Messages overdue in the tiers, for which the run stands back at present.
    pub yields_to: Option<u64>,
    /// For how long nothing that is wanted has been handed out, though it is not the end: somebody hides it.
    pub dry: Option<Duration>,
    /// How long this part has run.
    pub took: Duration,
    /// Letters in hand: claimed, and not settled or given back yet.
    pub in_hand: usize,
}

/// Who watches.
pub trait Observer: Send {
    /// Takes notice. Must not block for long: the run waits.
    fn see(&mut self, event: &Event<'_>);

    /// Does it want every letter? Without, only [`Event::Progress`] and what is rare is told.
    fn wants_letters(&self) -> bool {
        false
    }
}

/// Nobody.
pub struct Nobody;

impl Observer for Nobody {
    fn see(&mut self, _event: &Event<'_>) {}
}
