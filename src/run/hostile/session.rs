//! One run's session at the hostile broker; it may die at any call.

use std::collections::BTreeSet;
use std::sync::MutexGuard;
use std::time::Duration;

use async_trait::async_trait;

use super::broker::{Copy, Hostile, Plant, Shape, State, raw};
use crate::broker::{
    Ask, Claimed, Claims, ErrorKind, Fate, Intent, Missing, Mover, Outgoing, Proof, Published, Receipt,
    Result, Settled,
};
use crate::clock::Clock;
use crate::proof::mutation::mutated;
use crate::stamp;

pub(super) struct Session {
    pub(super) hostile: Hostile,
    pub(super) owner: String,
}

impl Session {
    /// The process dies here, now and then: the driver never hears of what was done.
    async fn perhaps_die(&self) {
        let dies = {
            let mut state = self.hostile.state();
            let dies = state.crashes_left > 0 && state.chance > 0.0 && state.roll() < 0.05;
            if dies {
                state.crashes_left -= 1;
            }
            dies
        };
        if dies {
            self.hostile.crash.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// The broker, if it is to be reached and takes orders from this session still.
    fn reached(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.hostile.state();
        state.pass();
        state.fenced(&self.owner)?;
        if state.unlucky() { Err(state.error(ErrorKind::Unreachable)) } else { Ok(state) }
    }

    fn holds(state: &State, receipt: &Receipt) -> Option<u64> {
        let (seq, token) = receipt.0.split_once('/')?;
        let seq: u64 = seq.parse().ok()?;
        let (mine, until) = state.dlq.get(&seq)?.claim.as_ref()?;
        (mine == token && *until > state.clock.elapsed()).then_some(seq)
    }
}

#[async_trait]
impl Mover for Session {
    async fn claim(&mut self, ask: &Ask<'_>) -> Result<Claims> {
        self.perhaps_die().await;
        let result = (|| {
            let mut state = self.reached()?;
            let now = state.clock.elapsed();
            let mut claims = Claims::default();
            for wanted in ask.next.iter().take(ask.limit) {
                let position: u64 = wanted.position.as_str().parse().unwrap();
                let hidden = state.unlucky() && state.unlucky();
                let blind = state.shape == Shape::NoProof;
                state.claims += 1;
                let token = format!("t{}", state.claims);
                let until = now + Duration::from_secs(60);
                match state.dlq.get_mut(&position) {
                    None if blind => claims.missing.push((wanted.seq, Missing::NotSeen)),
                    None => claims.missing.push((wanted.seq, Missing::Gone)),
                    Some(_) if hidden => claims.missing.push((wanted.seq, Missing::NotSeen)),
                    Some(held) => {
                        held.claim = Some((token.clone(), until));
                        claims.got.push(Claimed {
                            seq: wanted.seq,
                            receipt: Receipt(format!("{position}/{token}")),
                            letter: raw(position, &held.message),
                        });
                    }
                }
            }
            Ok(claims)
        })();
        self.perhaps_die().await;
        result
    }

    async fn transfer(&mut self, batch: &[Outgoing]) -> Result<Vec<Fate>> {
        self.perhaps_die().await;
        let result = (|| {
            let mut state = self.reached()?;
            let mut stopped = BTreeSet::new();
            let mut fates = Vec::new();
            for outgoing in batch {
                if outgoing.group.as_ref().is_some_and(|group| stopped.contains(group)) {
                    fates.push(Fate::Withdrawn);
                    continue;
                }
                let fate = match Self::holds(&state, &outgoing.receipt) {
                    None => Fate::Lost,
                    Some(_) if state.unlucky() => Fate::Refused(state.error(ErrorKind::Rejected)),
                    Some(position) => {
                        state.dlq.remove(&position);
                        let group = outgoing.group.clone().unwrap_or_default();
                        state.arrive(Copy { seq: outgoing.seq, group, message: outgoing.message.clone() });
                        Fate::Moved(Published::default())
                    }
                };
                if !matches!(fate, Fate::Moved(_)) {
                    stopped.extend(outgoing.group.clone());
                }
                fates.push(fate);
            }
            if state.unlucky() {
                return Err(state.error(ErrorKind::Unknown));
            }
            Ok(fates)
        })();
        self.perhaps_die().await;
        result
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        self.perhaps_die().await;
        let answers = {
            let mut state = self.hostile.state();
            state.pass();
            let mut order: Vec<usize> = (0..batch.len()).collect();
            if state.plant == Plant::SwapsTwo {
                order.reverse();
                let swapped = state.originals.len();
                state.target.sort_by_key(|copy| std::cmp::Reverse(copy.seq));
                debug_assert!(swapped > 0);
            }
            let mut answers: Vec<Option<Result<Published>>> = batch.iter().map(|_| None).collect();
            for at in order {
                let outgoing = &batch[at];
                let answer = match state.fenced(&self.owner) {
                    Err(error) => Err(error),
                    Ok(()) => state.send(outgoing),
                };
                answers[at] = Some(answer);
            }
            if state.plant == Plant::SwapsTwo {
                state.target.sort_by_key(|copy| std::cmp::Reverse(copy.seq));
            }
            answers.into_iter().map(Option::unwrap).collect()
        };
        self.perhaps_die().await;
        answers
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        self.perhaps_die().await;
        let answers = {
            let mut state = self.hostile.state();
            state.pass();
            batch
                .iter()
                .map(|receipt| match Self::holds(&state, receipt) {
                    _ if state.plant == Plant::SettlesNothing => Settled::Settled,
                    None => Settled::Stale,
                    Some(_) if state.unlucky() => Settled::Failed(state.error(ErrorKind::Unreachable)),
                    Some(position) => {
                        state.dlq.remove(&position);
                        match state.unlucky() {
                            true => Settled::Failed(state.error(ErrorKind::Unknown)),
                            false => Settled::Settled,
                        }
                    }
                })
                .collect()
        };
        self.perhaps_die().await;
        answers
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        let mut state = self.hostile.state();
        for receipt in batch {
            if let Some(position) = Self::holds(&state, receipt)
                && let Some(held) = state.dlq.get_mut(&position)
            {
                held.claim = None;
            }
        }
        Ok(())
    }

    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        let state = self.hostile.state();
        let id =
            |seq: u64| state.originals[seq as usize - 1].headers.first_text("event-id").map(str::to_owned);
        Ok(intents
            .iter()
            .map(|intent| {
                let found = state.target.iter().any(|copy| {
                    let stamped =
                        copy.message.headers.last_text(stamp::RUN) == Some(&format!("r1/{}", intent.seq));
                    stamped || (mutated("m26") && id(copy.seq) == id(intent.seq))
                });
                match state.shape {
                    Shape::Transaction | Shape::Finds if found => Proof::Arrived(Published::default()),
                    Shape::Transaction | Shape::Finds => Proof::Absent,
                    Shape::RunAndSeq => Proof::ResendSafe,
                    Shape::Window
                        if state.clock.now() < intent.first_intent.plus(Duration::from_secs(240)) =>
                    {
                        Proof::ResendSafe
                    }
                    Shape::Window if mutated("m06") => Proof::ResendSafe,
                    Shape::Window | Shape::NoProof => Proof::Unknown,
                }
            })
            .collect())
    }

    async fn renew(&mut self, held: &[Receipt]) -> Result<()> {
        let mut state = self.hostile.state();
        state.fenced(&self.owner)?;
        let until = state.clock.elapsed() + Duration::from_secs(60);
        for receipt in held {
            if let Some(position) = Self::holds(&state, receipt)
                && let Some(claim) = state.dlq.get_mut(&position).and_then(|held| held.claim.as_mut())
            {
                claim.1 = until;
            }
        }
        Ok(())
    }

    async fn overdue(&mut self, _grace: Duration) -> Result<Option<u64>> {
        let mut state = self.hostile.state();
        let Plant::RelayBusy { until, served } = state.plant else { return Ok(None) };
        state.looks += 1;
        let busy = state.clock.elapsed() < Duration::from_millis(until);
        Ok(Some(if busy { 1_000 - if served { state.looks } else { 0 } } else { 0 }))
    }

    async fn end(self: Box<Self>) -> Result<()> {
        let mut state = self.hostile.state();
        for held in state.dlq.values_mut() {
            held.claim = None;
        }
        Ok(())
    }
}
