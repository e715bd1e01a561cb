//! Letters for the next transactions, read and made into copies while one is on its way: where the broker can do that
//! beside its session ([`Looker`]), nothing waits for it.

use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinHandle, spawn_blocking};

use super::super::machine::Absent;
use super::copies::{Copies, Copy, Maker, Original, frozen};
use super::{Engine, EngineError, InHand};
use crate::broker::{Claimed, Looker, Missing, Outgoing, Receipt, Result, Wanted};
use crate::letter::Position;
use crate::manifest::Line;
use crate::proof::failpoint;

/// The one who looks, on a thread of its own: what it reads, what it makes of it and what is freed in the end stays
/// with one thread, which memory likes best.
pub(super) enum Looks {
    /// This broker has none.
    None,
    Idle(Worker),
    Busy(Worker),
}

pub(super) struct Worker {
    work: mpsc::Sender<Work>,
    done: UnboundedReceiver<Look>,
    thread: JoinHandle<()>,
}

struct Work {
    asked: Vec<u64>,
    all: bool,
    at: Duration,
    next: Vec<Wanted>,
    /// What the letters were when they were frozen, in the order of `next`.
    frozen: Vec<Option<[u8; 32]>>,
    trash: Trash,
}

/// What one look came to.
pub(super) struct Look {
    asked: Vec<u64>,
    /// Were all of them looked for?
    all: bool,
    at: Duration,
    result: Result<Seen>,
}

struct Seen {
    got: Vec<(u64, Receipt, Position, Copy)>,
    missing: Vec<(u64, Missing)>,
    exhausted: bool,
}

impl Look {
    /// Is every letter as it was frozen that was got, and no other missing?
    fn is_plain(&self) -> bool {
        let as_frozen = |(.., copy): &(u64, Receipt, Position, Copy)| !matches!(copy, Copy::Changed);
        self.result.as_ref().is_ok_and(|seen| seen.missing.is_empty() && seen.got.iter().all(as_frozen))
    }
}

impl Worker {
    /// Ends when the engine does and drops its end.
    fn start(mut looker: Box<dyn Looker>, by: Maker) -> Self {
        let (work, inbox) = mpsc::channel::<Work>();
        let (outbox, done) = unbounded_channel();
        let thread = spawn_blocking(move || {
            while let Ok(work) = inbox.recv() {
                // Freeing a batch costs time too, least where it was made.
                drop(work.trash);
                let Work { asked, all, at, next, frozen, .. } = work;
                let result = looker.look(&next).map(|claims| {
                    let mut frozen = next.iter().map(|wanted| wanted.seq).zip(frozen);
                    let copy = |Claimed { seq, receipt, letter }| {
                        let position = letter.position.clone();
                        let copy = match frozen.find(|(of, _)| *of == seq) {
                            Some((_, frozen)) => {
                                let original = Original { seq, claim: 0, frozen, letter };
                                by.make(original, looker.packer())
                            }
                            None => Copy::Changed,
                        };
                        (seq, receipt, position, copy)
                    };
                    let got = claims.got.into_iter().map(copy).collect();
                    Seen { got, missing: claims.missing, exhausted: claims.exhausted }
                });
                if outbox.send(Look { asked, all, at, result }).is_err() {
                    return;
                }
            }
        });
        Self { work, done, thread }
    }
}

impl Looks {
    pub(super) fn of(looker: Option<Box<dyn Looker>>, copies: &Copies) -> Self {
        looker.map_or(Self::None, |looker| Self::Idle(Worker::start(looker, copies.by())))
    }

    pub(super) fn are_there(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// What the look that goes on has come to, when it has; `None` if none goes on.
    async fn end(&mut self) -> Option<Look> {
        let Self::Busy(worker) = self else { return None };
        let look = worker.done.recv().await;
        *self = match std::mem::replace(self, Self::None) {
            Self::Busy(worker) if look.is_some() => Self::Idle(worker),
            // Only a bug ends it so; letters are claimed as on any other broker then.
            _ => Self::None,
        };
        look
    }

    /// Waits until nobody looks any more and what was opened for it is closed.
    pub(super) async fn close(&mut self) {
        if let Self::Idle(worker) | Self::Busy(worker) = std::mem::replace(self, Self::None) {
            let Worker { work, done, thread } = worker;
            drop((work, done));
            let _ = thread.await;
        }
    }

    /// Has the look that goes on come to its end?
    fn has_ended(&self) -> bool {
        matches!(self, Self::Busy(worker) if !worker.done.is_empty() || worker.done.is_closed())
    }
}

impl Engine<'_> {
    /// Begins to look at these, and to free what was sent.
    pub(super) fn begin_look(&mut self, asked: Vec<u64>) {
        let next = self.wanted(&asked);
        let worker = match std::mem::replace(&mut self.looks, Looks::None) {
            Looks::Idle(worker) if !next.is_empty() => worker,
            // What is in hand goes first.
            other => {
                self.looks = other;
                return self.machine.claimed(&asked, &[], &[], false);
            }
        };
        let body = |wanted: &Wanted| self.lines.get(&wanted.seq).and_then(|line| line.body.as_deref());
        let work = Work {
            all: next.len() == asked.len(),
            asked,
            at: self.job.clock.elapsed(),
            frozen: next.iter().map(|wanted| frozen(body(wanted))).collect(),
            next,
            trash: std::mem::take(&mut self.trash),
        };
        // If nobody is there to take it, `end` says so.
        let _ = worker.work.send(work);
        self.looks = Looks::Busy(worker);
    }

    /// Waits for the look that goes on, and takes in what was set aside.
    pub(super) async fn end_looks(&mut self) -> std::result::Result<(), EngineError> {
        if let Some(look) = self.set_aside.take() {
            self.take_look(look).await;
        }
        if let Some(look) = self.looks.end().await {
            self.take_look(look).await;
        }
        Ok(())
    }

    async fn take_look(&mut self, look: Look) {
        failpoint::hit("claimed");
        let Look { asked, all, at, result } = look;
        let Seen { got: seen, missing, exhausted } = match result {
            Ok(seen) => seen,
            Err(error) => {
                self.machine.claimed(&asked, &[], &[], false);
                return self.session_error(error).await;
            }
        };
        self.last_success = self.last_success.max(at);
        self.claims_made += 1;
        let (claim, until) = (self.claims_made, at + self.job.settings.claim_for);
        let mut got = Vec::with_capacity(seen.len());
        let mut changed = Vec::new();
        for (seq, receipt, position, copy) in seen {
            if matches!(copy, Copy::Changed) && !self.machine.is_to_send(seq) {
                // Not what is to be taken out of the queue unsent.
                changed.push((seq, Absent::Other));
                continue;
            }
            self.hand.insert(seq, InHand { receipt, position, copy, until, claim });
            got.push(seq);
        }
        let mut missing: Vec<(u64, Absent)> = match missing.is_empty() {
            true => Vec::new(),
            false => self.what_is_missing(&missing).await,
        };
        missing.extend(changed);
        self.machine.claimed(&asked, &got, &missing, exhausted && all);
    }

    /// While a transaction is on its way: writes down what is much, reads lines, and looks for letters.
    pub(super) async fn read_on(&mut self) {
        if let Err(error) = self.try_read_on().await {
            self.fault.get_or_insert(error);
        }
    }

    async fn try_read_on(&mut self) -> std::result::Result<(), EngineError> {
        if let Some((writes, sync)) = self.machine.commit_ahead() {
            self.commit(&writes, sync)?;
        }
        // Of a resume a line may hold its group, which is not for the middle of a transaction.
        let room = if self.job.resume.is_none() && !self.no_more_lines { self.machine.room() } else { 0 };
        if room > 0 {
            self.offer(room).await?;
        }
        if self.looks.has_ended() {
            self.take_plain_look().await;
        }
        if matches!(self.looks, Looks::Idle(_)) && self.set_aside.is_none() {
            let asked = self.machine.claim_ahead(!self.no_more_lines);
            if !asked.is_empty() {
                self.begin_look(asked);
            }
        }
        Ok(())
    }

    /// Waits for the look that goes on; false if there is none, or it brought what has to wait for the answer of the
    /// transaction.
    pub(super) async fn take_plain_look(&mut self) -> bool {
        match self.looks.end().await {
            Some(look) if look.is_plain() => {
                self.take_look(look).await;
                true
            }
            other => {
                self.set_aside = self.set_aside.take().or(other);
                false
            }
        }
    }
}

/// What is to be freed, least where others wait for it.
#[derive(Default)]
pub(super) struct Trash {
    /// Copies that were sent.
    pub(super) copies: Vec<Vec<Outgoing>>,
    /// Lines whose letters are through, as they are kept: moving the boxes is less than moving the lines.
    #[allow(clippy::vec_box)]
    pub(super) lines: Vec<Box<Line>>,
}
