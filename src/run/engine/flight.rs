//! Batches that are one transaction each. While the broker works on one, the answers of the one before it are
//! taken in and the next one is made ready, so that neither waits for the other. The machine picks ahead only
//! letters of other groups; whatever the answers are but plain success, what was made ready goes back unsent
//! before anything else is decided.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::super::machine::{FateOf, Reply};
use super::record::words_of;
use super::{Cause, Engine, EngineError};
use crate::broker::{
    Ask, BrokerError, Claims, ErrorKind, Fate, Intent, Mover, Outgoing, Proof, Published, Receipt, Result,
    Settled,
};
use crate::proof::failpoint;
use crate::topology::Rate;

/// Longest between picking a batch and handing it over: lock and claims were asked for with a margin.
const LONGEST_READY: Duration = Duration::from_secs(1);

/// A batch as it is handed over, and what is known of the rest of it already.
struct Flight {
    go: Arc<Vec<Outgoing>>,
    fates: Vec<(u64, FateOf)>,
    picked: Duration,
}

impl Engine<'_> {
    /// Sends a batch, and those that can be made ready meanwhile.
    pub(super) async fn transfer(&mut self, batch: Vec<u64>) -> std::result::Result<(), EngineError> {
        let mut flight = self.make_ready(batch).await;
        let mut before: Option<(Flight, Vec<Fate>)> = None;
        loop {
            failpoint::hit("before_transfer");
            let mut mover = std::mem::replace(&mut self.job.mover, Box::new(Away));
            let send = async {
                match flight.go.is_empty() {
                    true => Ok(Vec::new()),
                    false => mover.transfer_shared(&flight.go).await,
                }
            };
            let (result, ahead) = tokio::join!(send, self.meanwhile(before.take()));
            self.job.mover = mover;
            failpoint::hit("after_transfer");
            let moved = |fates: &Vec<Fate>| {
                fates.len() == flight.go.len() && fates.iter().all(|fate| matches!(fate, Fate::Moved(_)))
            };
            match (result, ahead) {
                (Ok(fates), Some(next)) if flight.fates.is_empty() && moved(&fates) && self.may_go(&next) => {
                    before = Some((std::mem::replace(&mut flight, next), fates));
                }
                (result, ahead) => {
                    self.take_in(flight, result);
                    if let Some(next) = ahead {
                        self.give_up(Arc::unwrap_or_clone(next.go));
                    }
                    return self.end_looks().await;
                }
            }
        }
    }

    /// What can be done while the broker works: the answers before, and the next batch.
    async fn meanwhile(&mut self, before: Option<(Flight, Vec<Fate>)>) -> Option<Flight> {
        if let Some((flight, fates)) = before {
            self.take_in(flight, Ok(fates));
        }
        // Permits are for the moment of sending, and this is before it.
        if self.job.settings.rate != Rate::Unlimited || self.cause.is_some() {
            return None;
        }
        self.tell(self.job.clock.elapsed());
        let (lock, stale) = self.holds();
        if !lock || !stale.is_empty() || self.is_due() {
            return None;
        }
        self.read_on().await;
        let mut batch = self.machine.ahead();
        while batch.is_empty() && self.fault.is_none() && self.take_plain_look().await {
            self.read_on().await;
            batch = self.machine.ahead();
        }
        if batch.is_empty() {
            return None;
        }
        let picked = self.job.clock.elapsed();
        self.copies_of(&batch).await;
        let (go, unfit) = self.outgoing(&batch);
        if unfit.is_empty() {
            return Some(Flight { go: Arc::new(go), fates: Vec::new(), picked });
        }
        // Not a usual batch: it is picked again when everything else is known.
        self.still_in_hand(go);
        self.machine.withdrawn(&batch);
        None
    }

    /// May a batch that was made ready be handed over now?
    fn may_go(&self, flight: &Flight) -> bool {
        let ready_for = self.job.clock.elapsed().saturating_sub(flight.picked);
        self.cause.is_none()
            && self.fault.is_none()
            && !*self.job.stopping.borrow()
            && ready_for < LONGEST_READY
    }

    fn give_up(&mut self, go: Vec<Outgoing>) {
        let batch: Vec<u64> = go.iter().map(|outgoing| outgoing.seq).collect();
        self.still_in_hand(go);
        self.machine.withdrawn(&batch);
    }

    async fn make_ready(&mut self, batch: Vec<u64>) -> Flight {
        let picked = self.job.clock.elapsed();
        self.copies_of(&batch).await;
        let (ready, unfit) = self.outgoing(&batch);
        let mut fates: Vec<(u64, FateOf)> = Vec::new();
        let mut barred: Vec<String> = Vec::new();
        for (seq, why) in unfit {
            if let Some(group) = self.lines.get(&seq).and_then(|line| line.group.clone()) {
                barred.push(group);
            }
            self.refusals.insert(seq, why.words());
            fates.push((seq, FateOf::Refused));
        }
        // A batch whose first letter dropped out is not sent without it (m23).
        let (go, stay): (Vec<Outgoing>, Vec<Outgoing>) = ready.into_iter().partition(|outgoing| {
            outgoing.group.as_ref().is_none_or(|group| !barred.contains(group)) || super::mutated("m23")
        });
        fates.extend(stay.iter().map(|outgoing| (outgoing.seq, FateOf::Withdrawn)));
        self.still_in_hand(stay);
        Flight { go: Arc::new(go), fates, picked }
    }

    fn take_in(&mut self, flight: Flight, result: Result<Vec<Fate>>) {
        let Flight { go, mut fates, .. } = flight;
        let go = Arc::unwrap_or_clone(go);
        match result {
            Ok(answers) => {
                self.last_success = self.job.clock.elapsed();
                for (outgoing, fate) in go.iter().zip(answers) {
                    let fate = match fate {
                        Fate::Moved(published) => {
                            self.arrived(outgoing.seq, &published);
                            FateOf::Moved
                        }
                        Fate::Refused(error) => {
                            self.refusals.insert(outgoing.seq, words_of(&error));
                            self.last_doubt = Some(error);
                            FateOf::Refused
                        }
                        Fate::Lost => FateOf::Lost,
                        Fate::Withdrawn => FateOf::Withdrawn,
                    };
                    if matches!(fate, FateOf::Moved | FateOf::Lost) {
                        self.hand.remove(&outgoing.seq);
                    }
                    fates.push((outgoing.seq, fate));
                }
                fates.sort_by_key(|(seq, _)| *seq);
                self.still_in_hand(go);
                self.machine.transferred(&fates);
            }
            Err(error) => {
                let reply = match error.kind {
                    ErrorKind::Unknown => Reply::Unknown { resend: false },
                    kind if kind.transient() => Reply::Transient,
                    _ => Reply::Session,
                };
                self.last_doubt = Some(error.clone());
                if reply == Reply::Session {
                    self.stop(Cause::Broker(error));
                }
                self.machine.transferred(&fates);
                let tried: Vec<u64> = go.iter().map(|outgoing| outgoing.seq).collect();
                self.still_in_hand(go);
                self.machine.transfer_failed(&tried, reply);
            }
        }
    }
}

/// Stands where the session is while it is lent to a transaction.
struct Away;

fn away() -> BrokerError {
    BrokerError::new(ErrorKind::Unreachable, "use the session", "a transaction has it")
}

#[async_trait]
impl Mover for Away {
    async fn claim(&mut self, _ask: &Ask<'_>) -> Result<Claims> {
        Err(away())
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        batch.iter().map(|_| Err(away())).collect()
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        batch.iter().map(|_| Settled::Failed(away())).collect()
    }

    async fn release(&mut self, _batch: &[Receipt]) -> Result<()> {
        Err(away())
    }

    async fn prove(&mut self, _intents: &[Intent]) -> Result<Vec<Proof>> {
        Err(away())
    }

    async fn renew(&mut self, _held: &[Receipt]) -> Result<()> {
        Err(away())
    }

    async fn end(self: Box<Self>) -> Result<()> {
        Err(away())
    }
}
