//! Carrying due messages without a transaction (protocol §10, path P): take, publish, settle, a group one by
//! one. No ledger: nobody is there to ask, so after an answer that was lost, or when a message was handed out
//! before, it is sent again and reported as perhaps there twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    BrokerError, Carried, Carrier, ErrorKind, Outgoing, Published, Receipt, Result, Settled, TierState,
};
use crate::clock::{Clock, Time};
use crate::proof::failpoint;
use crate::proof::mutation::mutated;

/// A due message in our hands.
#[derive(Debug, Clone)]
pub struct Due {
    /// As it is sent.
    pub outgoing: Outgoing,
    /// When it was due, where the broker tells.
    pub at: Option<Time>,
    /// Somebody had it before and left no answer: its copy may be there already.
    pub again: bool,
}

/// One tier whose due messages are taken, published and settled one after the other.
#[async_trait]
pub trait Shelf: Send {
    /// The tier's queue.
    fn tier(&self) -> &str;

    /// Most messages worth taking at once.
    fn most(&self) -> usize {
        usize::MAX
    }

    /// Takes due messages, in due order. Of a group only its head, or the head and its followers, and none
    /// while somebody else holds one of it (r03).
    async fn take(&mut self, limit: usize) -> Result<Vec<Due>>;

    /// As [`super::Mover::publish`]: one answer per message, `Ok` is a copy surely there.
    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>>;

    /// As [`super::Mover::settle`].
    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled>;

    /// Gives messages back as they were.
    async fn release(&mut self, batch: &[Receipt]) -> Result<()>;

    /// Ends claims of messages whose sending got no answer: whoever takes them next has to know ([`Due::again`]),
    /// also if this process dies before it could report them.
    async fn leave(&mut self, batch: &[Receipt]) -> Result<()> {
        self.release(batch).await
    }

    /// Puts messages that the target refuses for good aside for a while: taken again at once they would be all that
    /// is ever taken.
    async fn rest(&mut self, batch: &[Receipt]) -> Result<()> {
        self.release(batch).await
    }

    /// When the next one is due, where the broker tells.
    async fn next_due(&mut self) -> Result<Option<Time>> {
        Ok(None)
    }

    /// The tier now.
    async fn state(&mut self) -> Result<TierState>;

    /// Gives back what is held and leaves.
    async fn close(self: Box<Self>) -> Result<()>;
}

/// A relay's hold on tiers that are carried by hand.
pub struct ByHand {
    clock: Arc<dyn Clock>,
    shelves: Vec<Box<dyn Shelf>>,
    /// Taken, and reported before they are sent: a process that dies right after the send reports nothing.
    reported: Option<(usize, Vec<Due>)>,
    /// The tier that is asked first next time, so that a full one does not starve the others.
    turn: usize,
    told: Told,
}

/// Names that were reported as perhaps there twice: each is, once.
#[derive(Default)]
struct Told(HashSet<String>);

impl Told {
    /// Names that are remembered; over it the memory begins anew, and a name may be reported again.
    const MOST: usize = 100_000;

    /// Reports a message, unless it was before.
    fn tell(&mut self, outgoing: &Outgoing, carried: &mut Carried) {
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        let name = name(outgoing);
        if self.0.insert(name.clone()) {
            carried.maybe_twice.push(name);
        }
    }

    fn forget(&mut self, names: &[String]) {
        for name in names {
            self.0.remove(name);
        }
    }
}

fn name(outgoing: &Outgoing) -> String {
    outgoing.position.to_string()
}

impl ByHand {
    /// Over these tiers.
    pub fn new(clock: Arc<dyn Clock>, shelves: Vec<Box<dyn Shelf>>) -> Self {
        Self { clock, shelves, reported: None, turn: 0, told: Told::default() }
    }
}

impl ByHand {
    async fn step(&mut self, limit: usize, carried: &mut Carried) -> Result<()> {
        let mut left = limit;
        let count = self.shelves.len();
        if let Some((at, due)) = self.reported.take()
            && let Some(shelf) = self.shelves.get_mut(at)
        {
            let moved = carry(&mut **shelf, due, &*self.clock, &mut self.told, carried).await?;
            left = left.saturating_sub(moved);
            carried.more = true;
        }
        for step in 0..count {
            let at = (self.turn + step) % count;
            let Some(shelf) = self.shelves.get_mut(at) else { continue };
            if left == 0 {
                carried.more = true;
                break;
            }
            let most = left.min(shelf.most());
            let due = shelf.take(most).await?;
            if due.is_empty() {
                continue;
            }
            failpoint::hit("relay_taken");
            for due in due.iter().filter(|due| due.again) {
                self.told.tell(&due.outgoing, carried);
            }
            // What this very step reports is known to nobody before it ends.
            let unheard = |due: &Due| due.again && carried.maybe_twice.contains(&name(&due.outgoing));
            if due.iter().any(unheard) {
                carried.more = true;
                self.reported = Some((at, due));
                return Ok(());
            }
            let moved = carry(&mut **shelf, due, &*self.clock, &mut self.told, carried).await?;
            left = left.saturating_sub(moved);
            carried.more |= moved > 0;
        }
        self.turn = (self.turn + 1) % count.max(1);
        for shelf in &mut self.shelves {
            let due = shelf.next_due().await?;
            carried.next_due = carried.next_due.into_iter().chain(due).min();
        }
        Ok(())
    }
}

#[async_trait]
impl Carrier for ByHand {
    async fn carry(&mut self, limit: usize) -> Result<Carried> {
        let mut carried = Carried::default();
        let outcome = self.step(limit, &mut carried).await;
        if outcome.is_err() {
            // Nobody hears of this step.
            self.told.forget(&carried.maybe_twice);
        }
        outcome.map(|()| carried)
    }

    async fn tiers(&mut self) -> Result<Vec<TierState>> {
        let mut states = Vec::with_capacity(self.shelves.len());
        for shelf in &mut self.shelves {
            states.push(shelf.state().await?);
        }
        Ok(states)
    }

    async fn close(self: Box<Self>) -> Result<()> {
        let mut outcome = Ok(());
        let mut reported = self.reported;
        for (at, mut shelf) in self.shelves.into_iter().enumerate() {
            if let Some((_, due)) = reported.take_if(|(of, _)| *of == at) {
                let back: Vec<Receipt> = due.into_iter().map(|due| due.outgoing.receipt).collect();
                outcome = outcome.and(shelf.leave(&back).await);
            }

            outcome = outcome.and(shelf.close().await);
        }
        outcome
    }
}

/// Carries what was taken from one shelf; gives how many were carried.
async fn carry(
    shelf: &mut dyn Shelf,
    mut pending: Vec<Due>,
    clock: &dyn Clock,
    told: &mut Told,
    carried: &mut Carried,
) -> Result<usize> {
    let mut late = Vec::with_capacity(pending.len());
    let mut lasting = None;
    let mut stopped: HashSet<String> = HashSet::new();
    // One of a group and round: entries of a batch fail alone (m10), and the next waits for the answer (r04).
    while !pending.is_empty() {
        let mut groups: HashSet<String> = HashSet::new();
        let (mut round, mut rest, mut back) = (Vec::new(), Vec::new(), Vec::new());
        for due in pending {
            match &due.outgoing.group {
                // What stands behind one that was not carried goes back: its claim may end before ours (r11).
                Some(group) if stopped.contains(group) && !mutated("r11") => back.push(due.outgoing.receipt),
                Some(group) if !groups.insert(group.clone()) && !mutated("r04") => rest.push(due),
                _ => round.push(due),
            }
        }
        pending = rest;
        if !back.is_empty() {
            shelf.release(&back).await?;
        }
        if round.is_empty() {
            continue;
        }
        let outgoing: Vec<Outgoing> = round.iter().map(|due| due.outgoing.clone()).collect();
        let all: Vec<Receipt> = outgoing.iter().map(|outgoing| outgoing.receipt.clone()).collect();
        if mutated("r05") {
            shelf.settle(&all).await;
        }
        failpoint::hit("relay_before_send");
        let answers = shelf.publish(&outgoing).await;
        failpoint::hit("relay_after_send");
        let (mut done, mut again, mut unknown) = (Vec::<Due>::new(), Vec::new(), Vec::new());
        let mut refused = Vec::new();
        for (due, answer) in round.into_iter().zip(answers) {
            match answer {
                Ok(_) => done.push(due),
                Err(error) if error.kind == ErrorKind::Unknown && mutated("r02") => done.push(due),
                Err(error) => {
                    if error.kind == ErrorKind::Unknown {
                        told.tell(&due.outgoing, carried);
                    }
                    match error.kind {
                        ErrorKind::Unknown => unknown.push(due.outgoing.receipt),
                        ErrorKind::Rejected => refused.push(due.outgoing.receipt),
                        _ => again.push(due.outgoing.receipt),
                    }
                    stopped.extend(due.outgoing.group);
                    match error.kind {
                        // Whoever has it now carries it.
                        ErrorKind::Stale => {}
                        ErrorKind::Denied | ErrorKind::NotFound | ErrorKind::Unsupported => {
                            lasting.get_or_insert(error);
                        }
                        _ => {
                            carried.refused.get_or_insert(error);
                        }
                    }
                }
            }
        }
        if !again.is_empty() {
            shelf.release(&again).await?;
        }
        if !unknown.is_empty() {
            shelf.leave(&unknown).await?;
        }
        if !refused.is_empty() {
            shelf.rest(&refused).await?;
        }
        let receipts: Vec<Receipt> = match mutated("r01") {
            true => all,
            false => done.iter().map(|due| due.outgoing.receipt.clone()).collect(),
        };
        let settled: HashMap<Receipt, Settled> =
            receipts.iter().cloned().zip(shelf.settle(&receipts).await).collect();
        failpoint::hit("relay_after_settle");
        let now = clock.now();
        for due in done {
            if !matches!(settled.get(&due.outgoing.receipt), Some(Settled::Settled)) {
                told.tell(&due.outgoing, carried);
                // It comes again, and nothing behind it may pass it then.
                stopped.extend(due.outgoing.group);
            }
            late.push(due.at.map_or(Duration::ZERO, |at| now.since(at)));
        }
    }
    let moved = late.len();
    if moved > 0 {
        carried.moved.push((shelf.tier().to_owned(), late));
    }
    match lasting {
        // No message will get through: the relay ends with the broker's word.
        Some(error) if moved == 0 => Err(error),
        other => {
            carried.refused = carried.refused.take().or(other);
            Ok(moved)
        }
    }
}

/// The answer of every message of a batch that failed as a whole.
pub fn all_failed<T>(count: usize, error: &BrokerError) -> Vec<Result<T>> {
    (0..count).map(|_| Err(error.clone())).collect()
}

#[cfg(test)]
mod tests;
