//! Moving letters: a session per run, with the two paths of protocol §1 (publish, then settle) and §4
//! (one transaction), in batches.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{BrokerError, Holding, Result};
use crate::clock::Time;
use crate::letter::{LetterId, Message, Position, RawLetter};
use crate::topology::Channel;

/// What a run tells the broker when it begins.
#[derive(Debug, Clone)]
pub struct Task {
    /// Full id of the run.
    pub run: String,
    /// Random per process start (protocol §8.1, r12).
    pub owner: String,
    /// For people who are refused: `mira@ops-2`.
    pub who: String,
    /// Queue or topic to send to, already validated against the topology.
    pub target: String,
    /// Take the lock from a holder that may be alive; typed out by a person.
    pub take_over: bool,
    /// The snapshot identity of the manifest: a queue made anew is not the same (kafka-real §7).
    pub snapshot: String,
    /// How long a claim must last before it has to be renewed.
    pub claim_for: Duration,
}

/// A letter wanted next, by its manifest line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Number in the manifest.
    pub seq: u64,
    /// Where it lies, and its identity.
    pub position: Position,
}

/// What to claim.
pub struct Ask<'a> {
    /// The next letters in the engine's order: a broker with random access takes just these.
    pub next: &'a [Wanted],
    /// For a broker that hands letters out in its own order: is this one wanted, and as which seq?
    pub wanted: &'a (dyn Fn(&Position) -> Option<u64> + Sync),
    /// Most letters to claim.
    pub limit: usize,
}

/// A letter in our hands.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Its number in the manifest.
    pub seq: u64,
    /// The adapter's handle for settle and release; dies with the session.
    pub receipt: Receipt,
    /// The letter, with its body.
    pub letter: RawLetter,
}

/// An adapter's own handle: delivery tag, receipt handle, lease token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

/// Why a wanted letter was not claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Not in the queue any more, and the broker can tell (protocol §1: "gone").
    Gone,
    /// A mark says that it was moved, by whatever run: gone where it should be. Its group goes on.
    Moved,
    /// Not visible: perhaps held by somebody else. Holds its group.
    NotSeen,
}

/// What a claim gave.
#[derive(Debug, Default)]
pub struct Claims {
    /// Claimed.
    pub got: Vec<Claimed>,
    /// Asked for in `next` and not there.
    pub missing: Vec<(u64, Missing)>,
    /// The broker has handed out all that it will: a pass without a wanted letter.
    pub exhausted: bool,
}

/// A copy ready to be sent: bookkeeping off, stamps on.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Its number in the manifest.
    pub seq: u64,
    /// Of the claim it was made of.
    pub receipt: Receipt,
    /// Where the original lies.
    pub position: Position,
    /// Which try of sending this is, from 1.
    pub attempt: u32,
    /// When the first intent was written, for windows that count from there (FIFO dedup).
    pub first_intent: Time,
    /// The copy; nothing if it is packed.
    pub message: Message,
    /// The copy as the adapter packed it, by [`Looker::packer`].
    pub packed: Option<Packed>,
    /// Its group, where the broker needs it to place or lock (partition, MessageGroupId).
    pub group: Option<String>,
}

/// A copy in the form in which its adapter writes it.
#[derive(Clone)]
pub struct Packed(Arc<dyn Any + Send + Sync>);

impl Packed {
    /// In an adapter's own form.
    pub fn new<T: Any + Send + Sync>(form: T) -> Self {
        Self(Arc::new(form))
    }

    /// The form, if it is this one.
    pub fn as_form<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packed")
    }
}

/// What became of one letter of a transaction.
#[derive(Debug, Clone)]
pub enum Fate {
    /// Copy there, original gone or marked: both committed.
    Moved(Published),
    /// Refused for good; neither copy nor mark.
    Refused(BrokerError),
    /// Claim lost or letter changed meanwhile; neither copy nor mark.
    Lost,
    /// Not tried: an earlier letter of its group was refused in this batch.
    Withdrawn,
}

/// Where a copy arrived, as far as the broker tells: `p3o91904`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Published {
    /// In the broker's words.
    pub at: Option<String>,
}

/// What came of settling one letter.
#[derive(Debug, Clone)]
pub enum Settled {
    /// Gone from the dead-letter queue for good.
    Settled,
    /// The receipt had expired: the original is still there. Not settled (m21).
    Stale,
    /// Failed; try again or say so.
    Failed(BrokerError),
}

/// What an intent without an answer is looked up by.
#[derive(Debug, Clone)]
pub struct Intent {
    /// Its number in the manifest.
    pub seq: u64,
    /// The letter's id, for messages.
    pub id: LetterId,
    /// Where the original lay.
    pub position: Position,
    /// When the first intent was written.
    pub first_intent: Time,
}

/// What a broker can say about an intent without an answer (protocol §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// A copy with this run and seq is, or was, there.
    Arrived(Published),
    /// It did not arrive and cannot any more: behind a fence.
    Absent,
    /// Sending again is idempotent.
    ResendSafe,
    /// Nothing can be said: in doubt.
    Unknown,
}

/// Opening a run on a dead-letter queue.
#[async_trait]
pub trait Relocate: Send + Sync {
    /// Takes the lock across machines, fences predecessors, and opens the session of one run.
    ///
    /// # Errors
    /// `Locked` names the holder.
    async fn begin(&self, channel: &Channel, task: &Task) -> Result<Box<dyn Mover>>;

    /// As [`Self::begin`], from what the look before has left; what is not taken out of `held` is the caller's to
    /// give back.
    ///
    /// # Errors
    /// As there.
    async fn go_on(
        &self,
        channel: &Channel,
        task: &Task,
        held: &mut Option<Box<dyn Holding>>,
    ) -> Result<Box<dyn Mover>> {
        if let Some(held) = held.take() {
            held.give_back().await?;
        }
        self.begin(channel, task).await
    }

    /// Where copies go and who gets them, if that is more than the one queue that they return to; shown before
    /// anything is sent (design, rule 9).
    ///
    /// # Errors
    /// The broker does not tell.
    async fn reach(&self, _channel: &Channel) -> Result<Option<String>> {
        Ok(None)
    }

    /// Looks whether a session could send to where copies go, as [`Self::begin`] will: a dry run promises no run that
    /// cannot begin, and nobody is asked about one. Changes nothing.
    ///
    /// # Errors
    /// `NotFound`: it is not there. `Denied`: whoever asks may not know.
    async fn target(&self, channel: &Channel) -> Result<()>;

    /// May whoever asks send there? Asked before a letter is in hand, by a way that leaves nothing behind; where there is
    /// none, the first letter tells.
    ///
    /// # Errors
    /// `Denied`, with the right that is missing.
    async fn may_send(&self, _channel: &Channel) -> Result<()> {
        Ok(())
    }

    /// Does no other run hold the dead-letter queue at the broker, as far as can be seen without taking its lock? Asked
    /// before anybody is; [`Self::begin`] has the last word.
    ///
    /// # Errors
    /// `Locked` names the holder.
    async fn is_free(&self, _channel: &Channel, _take_over: bool) -> Result<()> {
        Ok(())
    }

    /// Why the broker would not move this dead-letter queue by its own means, in words, all reasons: asked before anybody
    /// is, and before anything is recorded.
    async fn bulk_refusals(&self, _channel: &Channel) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Starts moving all of the dead-letter queue to where the channel returns, by the broker's own means and at
    /// most at this rate; only with [`super::BulkMoves::All`].
    ///
    /// # Errors
    /// What the broker, or the adapter before it, refuses: nothing was begun.
    async fn bulk(&self, _channel: &Channel, _per_second: Option<u32>) -> Result<Box<dyn super::BulkMover>> {
        Err(super::bulk::none())
    }
}

/// Reads letters for [`Mover::transfer`] beside the session, also while a transaction is on its way. Nothing is
/// claimed, so a letter may be gone or somebody else's by the time of the transaction, which asks: that letter is
/// then [`Fate::Lost`].
pub trait Looker: Send {
    /// As [`Mover::claim`], on a thread that may wait; the receipts are good for the session that this looker is of.
    ///
    /// # Errors
    /// As there.
    fn look(&mut self, next: &[Wanted]) -> Result<Claims>;

    /// What packs a copy so that less is left to do while the transaction is open.
    fn packer(&self) -> Option<fn(Message) -> Packed> {
        None
    }
}

/// The session of one run on one dead-letter queue.
#[async_trait]
pub trait Mover: Send {
    /// Takes letters for sending. Steps over what is not wanted.
    async fn claim(&mut self, ask: &Ask<'_>) -> Result<Claims>;

    /// Reads letters instead of [`Mover::claim`], for a run of transactions, where that can be done beside them.
    async fn looker(&mut self) -> Option<Box<dyn Looker>> {
        None
    }

    /// Copy and mark in one transaction; only with `Atomicity::Transaction`. Never waits for a rate inside.
    /// Letters of one group stand in order; after a refused one its followers are withdrawn (t08).
    ///
    /// # Errors
    /// Nothing of the batch was committed, or (`Unknown`) only [`Mover::prove`] can tell.
    async fn transfer(&mut self, _batch: &[Outgoing]) -> Result<Vec<Fate>> {
        Err(BrokerError::new(super::ErrorKind::Unsupported, "move in one transaction", "not on this broker"))
    }

    /// As [`Mover::transfer`], for an adapter that keeps the batch until it is through.
    ///
    /// # Errors
    /// As there.
    async fn transfer_shared(&mut self, batch: &Arc<Vec<Outgoing>>) -> Result<Vec<Fate>> {
        self.transfer(batch).await
    }

    /// Sends copies and waits for each answer: an `Ok` is a copy surely there. One answer per letter, in
    /// the batch's order. An answer of kind `Unknown` is not a refusal; every other kind says that the copy
    /// is surely not there, `Unreachable` and `Throttled` too: what may have left is `Unknown`. No hidden
    /// retries (m13).
    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>>;

    /// Removes originals for good, behind the broker's barrier (m22). One answer per receipt, in order.
    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled>;

    /// Settles one batch and publishes the next, side by side where the broker can. `settle` is recorded as
    /// published already; neither half depends on the other.
    async fn step(
        &mut self,
        publish: &[Outgoing],
        settle: &[Receipt],
    ) -> (Vec<Result<Published>>, Vec<Settled>) {
        let settled = if settle.is_empty() { Vec::new() } else { self.settle(settle).await };
        let published = if publish.is_empty() { Vec::new() } else { self.publish(publish).await };
        (published, settled)
    }

    /// Letters that it is worth to hold at once, as far as the session has found out by now.
    fn most_held(&self) -> usize {
        usize::MAX
    }

    /// Puts originals back as they were, in order.
    async fn release(&mut self, batch: &[Receipt]) -> Result<()>;

    /// What can be said about intents without an answer, one each, in order.
    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>>;

    /// Keeps the lock and the claims alive; the engine calls it at a third of `claim_for`. An error of kind
    /// `Fenced` stops the run.
    async fn renew(&mut self, held: &[Receipt]) -> Result<()>;

    /// Letters of this run that died again by now, where looking costs nothing; `None`: it would. Those of its parts
    /// before may be among them: then the first answer, before anything was sent, has them all.
    async fn refailed(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Copies from now on keep the time at which their message was first published, where the broker lets a
    /// sender set it.
    ///
    /// # Errors
    /// It does not, or the target would not keep it.
    async fn keep_times(&mut self) -> Result<()> {
        let why = "a copy has the time at which the broker takes it";
        Err(BrokerError::new(super::ErrorKind::Unsupported, "keep the times of letters", why))
    }

    /// Deletes moved letters that a mark hides; up to the first one that is open, where the broker cannot delete
    /// single ones. Only what a mark proves. Says what it did; only with [`Capabilities::trims`](super::Capabilities).
    async fn trim(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// May letters be moved by [`Mover::transfer`], where the broker can do that at all? Rights may not reach so far:
    /// then copies are published and settled one after the other.
    fn transactional(&self) -> bool {
        true
    }

    /// Messages that are overdue by `grace` in tiers that return to this run's target, where counting them
    /// costs nothing (a few hundred are as good as more); `None`: it would, or the broker serves its tiers
    /// itself.
    async fn overdue(&mut self, _grace: Duration) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Remarks for the report: a lock that could not be taken, and the like.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends the session: gives back claims, the lock last.
    async fn end(self: Box<Self>) -> Result<()>;
}
