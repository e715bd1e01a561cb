//! Letters for the next transactions, read and made into copies while one is on its way: where the broker can do that
//! beside its session ([`Looker`]), nothing waits for it.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

use super::super::machine::Absent;
use super::copies::{Copy, Original, frozen, make};
use super::{Cause, Engine, EngineError, InHand};
use crate::broker::{BrokerError, Claimed, ErrorKind, Looker, Missing, Outgoing, Receipt, Result};
use crate::ledger::LedgerError;
use crate::letter::Position;
use crate::manifest::Line;
use crate::proof::failpoint;

/// The one who looks, at rest or at work.
pub(super) enum Looks {
    /// This broker has none.
    None,
    Idle(Box<dyn Looker>),
    Busy(JoinHandle<(Box<dyn Looker>, Look)>),
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
    /// Is every letter there that was got, and no other missing?
    fn is_plain(&self) -> bool {
        self.result.as_ref().is_ok_and(|seen| seen.missing.is_empty())
    }
}

impl Looks {
    pub(super) fn of(looker: Option<Box<dyn Looker>>) -> Self {
        looker.map_or(Self::None, Self::Idle)
    }

    pub(super) fn are_there(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// What the look that goes on has come to, when it has; `None` if none goes on.
    async fn end(&mut self) -> Option<Look> {
        let Self::Busy(handle) = self else { return None };
        let ended = handle.await;
        let (idle, look) = match ended {
            Ok((looker, look)) => (Self::Idle(looker), Some(look)),
            // Only a bug ends it so; the letters are claimed as on any other broker.
            Err(_) => (Self::None, None),
        };
        *self = idle;
        look
    }
}

impl Engine<'_> {
    /// Begins to look at these, and to free what was sent.
    pub(super) fn begin_look(&mut self, asked: Vec<u64>) {
        let next = self.wanted(&asked);
        let at = self.job.clock.elapsed();
        let mut looker = match std::mem::replace(&mut self.looks, Looks::None) {
            Looks::Idle(looker) if !next.is_empty() => looker,
            // What is in hand goes first.
            other => {
                self.looks = other;
                return self.machine.claimed(&asked, &[], &[], false);
            }
        };
        let hashes: Vec<(u64, Option<[u8; 32]>)> = next
            .iter()
            .map(|wanted| {
                let line = self.lines.get(&wanted.seq);
                (wanted.seq, frozen(line.and_then(|line| line.body.as_deref())))
            })
            .collect();
        let all = next.len() == asked.len();
        let trash = std::mem::take(&mut self.trash);
        let pack = looker.packer();
        let (channel, run) = self.copies.by();
        self.looks = Looks::Busy(tokio::spawn(async move {
            let made = match looker.look(next).await {
                Err(error) => Err(error),
                Ok(claims) => {
                    let make = move || {
                        // Freeing a batch costs time too, least where it was made.
                        drop(trash);
                        let mut hashes = hashes.into_iter();
                        let copy = |Claimed { seq, receipt, letter }| {
                            let position = letter.position.clone();
                            let copy = match hashes.find(|(of, _)| *of == seq) {
                                Some((_, frozen)) => {
                                    make(Original { seq, claim: 0, frozen, letter }, &channel, &run, pack)
                                }
                                None => Copy::Changed,
                            };
                            (seq, receipt, position, copy)
                        };
                        let got = claims.got.into_iter().map(copy).collect();
                        Seen { got, missing: claims.missing, exhausted: claims.exhausted }
                    };
                    spawn_blocking(make).await.map_err(|_| {
                        BrokerError::new(ErrorKind::Other, "make the copies", "the work was cut off")
                    })
                }
            };
            (looker, Look { asked, all, at, result: made })
        }));
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
        for (seq, receipt, position, copy) in seen {
            self.hand.insert(seq, InHand { receipt, position, copy, until, claim });
            got.push(seq);
        }
        let missing: Vec<(u64, Absent)> = match missing.is_empty() {
            true => Vec::new(),
            false => self.what_is_missing(&missing).await,
        };
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
            failpoint::hit("before_commit");
            match self.record(&writes, sync) {
                Err(EngineError::Ledger(LedgerError::LockLost)) => self.stop(Cause::LockLost),
                other => other?,
            }
            failpoint::hit("after_commit");
            self.machine.committed();
        }
        // Of a resume a line may hold its group, which is not for the middle of a transaction.
        let room = if self.job.resume.is_none() && !self.no_more_lines { self.machine.room() } else { 0 };
        if room > 0 {
            self.offer(room).await?;
        }
        if let Looks::Busy(handle) = &self.looks
            && handle.is_finished()
        {
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
