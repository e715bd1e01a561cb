//! The words that the machine and its driver talk in: what is known, what is to be done, what came of it.

#[cfg(doc)]
use super::Machine;
use crate::run::lanes::Seq;

/// What does not change during a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Copy and mark are one transaction (path T), or publish, record, settle (path P).
    pub transaction: bool,
    /// Consecutive letters of a group may go in one batch; only where it is taken whole.
    pub ordered_batch: bool,
    /// Most letters in the window.
    pub window: usize,
    /// Most letters in a batch.
    pub batch: usize,
    /// Most claims held at once.
    pub claims: usize,
    /// Most tries of sending one letter after transient refusals.
    pub attempts: u32,
    /// Errors in a row that stop the run; 0 is never.
    pub max_errors: u32,
    /// A letter that is gone is skipped, and its group goes on (`--allow-stale`).
    pub allow_gone: bool,
    /// A person says that what is not visible is gone (`--accept-gone`): without that it is not (m15).
    pub accept_gone: bool,
    /// Keep order within groups; false with `--order none`.
    pub ordered: bool,
}

/// What the ledger says of a letter when its line is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// To be sent. `attempt` tries were recorded before; `open`: one of them never got an answer, and
    /// sending again is idempotent.
    Send {
        /// Tries recorded so far.
        attempt: u32,
        /// One of them has no answer.
        open: bool,
    },
    /// Its copy has arrived, the original may still be there: claim by identity, settle, never send.
    Published,
    /// Holds its group.
    InDoubt,
    /// Holds its group.
    Failed,
    /// The copy of an equal letter: settled unsent once that one has arrived.
    Twin {
        /// The letter that is sent for both.
        of: Seq,
    },
    /// Not sent by a rule known before; those behind it have their own lines saying so.
    Barred(Bar),
    /// Another run has left it open since: whether it arrived is not ours to say. Holds its group (m17).
    LeftOpen,
    /// Through in an earlier part of the run.
    Done {
        /// Did it arrive, or was it skipped?
        moved: bool,
    },
}

/// A letter that a rule keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bar {
    /// For its own sake.
    Skipped,
    /// Because of its group.
    Held,
}

/// One entry for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Write {
    /// About to be sent for the `attempt`th time. Durable before the send (m25).
    Intended {
        /// From 1.
        attempt: u32,
    },
    /// Not sent after all, or refused for a while.
    Planned,
    /// The copy is there. Written before the original is settled (m02).
    Published,
    /// The original is gone too.
    Settled,
    /// The original is not visible, and a person says that it is gone.
    TakenAsGone,
    /// Refused for good; the driver has the code.
    Failed,
    /// Sent, and nobody can say whether it arrived.
    InDoubt,
    /// Not in the queue any more, and the broker can tell.
    Gone,
    /// Another run has moved it since it was selected.
    MovedBefore,
    /// Settled unsent: an equal letter was sent.
    Twin,
    /// Not sent because another run has left it open since.
    LeftOpen,
    /// Not sent because of `behind`.
    Held {
        /// The letter that holds the group.
        behind: Seq,
    },
    /// Not there when it was wanted: left as it is for a person to decide.
    NotSeen {
        /// The broker can tell that it is gone; else perhaps somebody else holds it.
        gone: bool,
    },
}

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read more lines of the manifest and [`Machine::offer`] them, at most this many.
    Offer(usize),
    /// Claim these; answer with [`Machine::claimed`].
    Claim(Vec<Seq>),
    /// Write these in one transaction; durable before returning if `sync`. Then [`Machine::committed`].
    Commit {
        /// In order; a later entry of a letter replaces an earlier one.
        writes: Vec<(Seq, Write)>,
        /// Must be durable before the next step.
        sync: bool,
    },
    /// Settle and publish side by side; answer with [`Machine::sent`].
    Send {
        /// To publish; all intended, and asked again just now.
        publish: Vec<Seq>,
        /// To settle; all recorded as published.
        settle: Vec<Seq>,
    },
    /// Copy and mark in one transaction; answer with [`Machine::transferred`].
    Transfer(Vec<Seq>),
    /// A transaction's outcome is unknown: ask the broker. Answer with [`Machine::proved`].
    Prove(Vec<Seq>),
    /// Put these back as they were; answer with [`Machine::released`].
    Release(Vec<Seq>),
    /// A pause after this many transient failures in a row.
    Backoff(u32),
    /// Nothing may go at present: no permits, or claims that give nothing yet.
    Wait,
    /// Over.
    End(Stop),
}

/// Why a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Nothing is left to do.
    Finished,
    /// A signal, `runs pause`, `runs stop`, or a breaker outside.
    Asked,
    /// `--max-errors` in a row.
    Errors,
    /// The broker will not serve this run any more: fenced, denied, no such queue.
    Session,
}

/// The answer to one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The copy is surely there.
    Ack,
    /// Surely not there; worth another try.
    Transient,
    /// Surely not there; this letter will never be taken.
    Permanent,
    /// Surely not there; no letter will be taken: the queue is gone, the right is missing.
    Session,
    /// Nobody knows. `resend`: sending again is idempotent.
    Unknown {
        /// Sending again is idempotent.
        resend: bool,
    },
}

/// What came of settling one letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettleReply {
    /// The original is gone.
    Settled,
    /// The claim had ended; the original is still there.
    Stale,
    /// Did not work.
    Failed,
}

/// What became of one letter of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FateOf {
    /// Both done.
    Moved,
    /// Refused for good.
    Refused,
    /// The claim was lost.
    Lost,
    /// Not tried, because of an earlier letter of its group.
    Withdrawn,
}

/// Why a letter that was asked for was not claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Absent {
    /// Not in the queue, surely.
    Gone,
    /// Not in the queue, and a mark of this run says that it was moved.
    Moved,
    /// A mark of another run says that it was moved.
    MovedBefore,
    /// Not visible.
    NotSeen,
    /// Seen, but not as what was asked for.
    Other,
}

/// What the driver knows at the moment of asking.
pub struct Now<'a> {
    /// Takes permits from the pace: for as many as may go now of those that could.
    pub permits: &'a mut dyn FnMut(usize) -> usize,
    /// The lock and its lease hold for long enough to send (m19).
    pub lock: bool,
    /// May a letter whose earlier try has no answer be sent again at this moment (m06)?
    pub may_resend: &'a dyn Fn(Seq) -> bool,
    /// Claims that have run out, or will within the time a send may take.
    pub stale: &'a [Seq],
    /// The manifest has more lines.
    pub more: bool,
    /// It is time to write down what is pending.
    pub flush: bool,
}

/// Letters by outcome so far. `planned` is known elsewhere: it must be the sum (rule 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tally {
    /// Copies surely in the target.
    pub moved: u64,
    /// Of those, originals not removed.
    pub unsettled: u64,
    /// Kept by a rule for their own sake, or gone.
    pub skipped: u64,
    /// Refused by the broker.
    pub failed: u64,
    /// Kept because of their group.
    pub held: u64,
    /// Sent, outcome unknown.
    pub in_doubt: u64,
    /// Not seen.
    pub not_seen: u64,
    /// Of those, gone as the broker says.
    pub gone: u64,
    /// Of the unsettled, originals that were looked for and not seen.
    pub unseen: u64,
    /// Of the moved, originals that were not seen and a person says are gone.
    pub taken_as_gone: u64,
}
