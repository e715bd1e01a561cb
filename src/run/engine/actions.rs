//! One action of the machine each, carried out at the ledger, the broker or the clock.

use std::collections::HashSet;
use std::time::Duration;

use super::super::event::Event;
use super::super::machine::{Absent, Action, Reply, SettleReply};
use super::copies::{Copy, Original, Ready, frozen};
use super::record::words_of;
use super::{CLAIM_BYTES, Cause, Engine, EngineError, InHand};
use crate::broker::{
    Ask, BrokerError, Claimed, ErrorKind, Intent, Missing, Outgoing, Proof, Published, Receipt, Settled,
    Wanted,
};
use crate::letter::Position;
use crate::proof::failpoint;

/// Why a letter of a batch is not sent.
pub(super) enum Unfit {
    /// There can be no copy of it.
    Refused(String),
    /// It is not what was frozen.
    Changed,
}

impl Unfit {
    /// As a refusal has it: code and words.
    pub(super) fn words(self) -> (String, String) {
        match self {
            Self::Refused(why) => ("refused".to_owned(), why),
            Self::Changed => {
                ("changed".to_owned(), "its body is not what it was when it was selected".to_owned())
            }
        }
    }
}

impl Engine<'_> {
    pub(super) async fn carry_out(&mut self, action: Action) -> Result<(), EngineError> {
        match action {
            Action::Offer(most) => self.offer(most).await?,
            Action::Claim(asked) => self.claim(asked).await?,
            Action::Commit { writes, sync } => self.commit(&writes, sync)?,
            Action::Send { publish, settle } => self.send(publish, settle).await,
            Action::Transfer(batch) => self.transfer(batch).await?,
            Action::Prove(batch) => self.prove(batch).await,
            Action::Release(seqs) => {
                failpoint::hit("before_release");
                let receipts: Vec<Receipt> =
                    seqs.iter().filter_map(|seq| self.hand.remove(seq)).map(|hand| hand.receipt).collect();
                self.give_back(&receipts).await;
                self.machine.released(&seqs);
            }
            Action::Backoff(times) => self.back_off(times).await,
            Action::Wait => {
                failpoint::hit("pause");
                let pause = match self.yielding.yields() {
                    true => crate::run::yielding::EVERY,
                    false => self.pace.pause(self.machine.could_send().max(1)),
                };
                self.sleep(pause).await;
            }
            Action::End(_) => {}
        }
        Ok(())
    }

    /// Sleeps, unless somebody asks to stop.
    async fn sleep(&mut self, by: Duration) {
        let clock = std::sync::Arc::clone(&self.job.clock);
        let stopping = &mut self.job.stopping;
        if *stopping.borrow_and_update() {
            tokio::task::yield_now().await;
            return clock.sleep(by.min(Duration::from_millis(5))).await;
        }
        tokio::select! {
            () = clock.sleep(by) => {}
            _ = stopping.changed() => {}
        }
    }

    /// Waits longer with every failure in a row, never the same time twice, and gives up after a bound.
    async fn back_off(&mut self, times: u32) {
        let away = self.job.clock.elapsed().saturating_sub(self.last_success);
        if away >= self.job.settings.reconnect_for {
            let error = self.last_doubt.take().unwrap_or_else(|| {
                BrokerError::new(ErrorKind::Unreachable, "reach the broker", "it did not come back")
            });
            return self.stop(Cause::Broker(error));
        }
        let base = 100u64.saturating_mul(1 << times.min(7)).min(10_000);
        let mut random = [0u8; 2];
        let _ = getrandom::fill(&mut random);
        let jitter = u64::from(u16::from_le_bytes(random)) * (base / 2) / 65_536;
        let wait = Duration::from_millis(base / 2 + jitter);
        let what = self.last_doubt.as_ref().map(ToString::to_string).unwrap_or_default();
        self.job.observer.see(&Event::Trouble { what: &what, wait });
        self.sleep(wait).await;
    }

    /// As many of these as memory allows, letters being as large as the broker takes them: the first always, if
    /// nothing is in hand.
    pub(super) fn wanted(&self, asked: &[u64]) -> Vec<Wanted> {
        let mut bytes: u64 =
            self.hand.keys().filter_map(|seq| self.lines.get(seq)).map(|line| line.size).sum();
        let mut next = Vec::with_capacity(asked.len());
        for seq in asked {
            let Some(line) = self.lines.get(seq) else { continue };
            bytes += line.size;
            if bytes > CLAIM_BYTES && !(next.is_empty() && self.hand.is_empty()) {
                break;
            }
            next.push(Wanted { seq: *seq, position: line.position.clone() });
        }
        next
    }

    async fn claim(&mut self, asked: Vec<u64>) -> Result<(), EngineError> {
        if self.looks.are_there() {
            self.begin_look(asked);
            return self.end_looks().await;
        }
        let next = self.wanted(&asked);
        // Only a broker that hands letters out in its own order asks; then every letter of the window counts.
        let (places, lines, machine) = (&self.places, &self.lines, &self.machine);
        let wanted = |position: &Position| places.wanted(position, lines, machine);
        if next.is_empty() {
            // What is in hand goes first.
            self.machine.claimed(&asked, &[], &[], false);
            return Ok(());
        }
        let asked_at = self.job.clock.elapsed();
        let result = self.job.mover.claim(&Ask { next: &next, wanted: &wanted, limit: next.len() }).await;
        failpoint::hit("claimed");
        let claims = match result {
            Ok(claims) => claims,
            Err(error) => {
                self.machine.claimed(&asked, &[], &[], false);
                self.session_error(error).await;
                return Ok(());
            }
        };
        self.last_success = asked_at;
        let mut got = Vec::with_capacity(claims.got.len());
        let mut missing = Vec::new();
        let mut changed = Vec::new();
        let mut originals = Vec::with_capacity(claims.got.len());
        self.claims_made += 1;
        for Claimed { seq, receipt, letter } in claims.got {
            let position = letter.position.clone();
            let copy = match self.lines.get(&seq) {
                None => Copy::Changed,
                Some(line) => {
                    let original = Original {
                        seq,
                        claim: self.claims_made,
                        frozen: frozen(line.body.as_deref()),
                        letter,
                    };
                    match self.transaction || self.machine.is_to_send(seq) {
                        // Asked whether it is what was frozen before it is sent.
                        true => {
                            originals.push(original);
                            Copy::InTheMaking
                        }
                        false => self.copies.make(original),
                    }
                }
            };
            if matches!(copy, Copy::Changed) && !self.machine.is_to_send(seq) {
                // Not what is to be taken out of the queue unsent: given back, and named.
                changed.push(receipt);
                missing.push((seq, Absent::Other));
                continue;
            }
            let until = asked_at + self.job.settings.claim_for;
            self.hand.insert(seq, InHand { receipt, position, copy, until, claim: self.claims_made });
            got.push(seq);
        }
        if !originals.is_empty() {
            self.copies.begin(originals);
        }
        self.give_back(&changed).await;
        missing.extend(self.what_is_missing(&claims.missing).await);
        let reached = next.len();
        let exhausted = claims.exhausted && reached == asked.len();
        if exhausted && self.job.resume.is_some() {
            // Not handed out, and nobody says why: another run of ours may have moved it.
            let told: HashSet<u64> = got.iter().copied().chain(missing.iter().map(|(seq, _)| *seq)).collect();
            for wanted in next.iter().filter(|wanted| !told.contains(&wanted.seq)) {
                if self.moved_elsewhere(wanted.seq) {
                    missing.push((wanted.seq, Absent::MovedBefore));
                }
            }
        }
        let dry = got.is_empty() && missing.is_empty() && !exhausted;
        self.dry = dry.then(|| self.dry.unwrap_or(asked_at));
        self.machine.claimed(&asked, &got, &missing, exhausted);
        Ok(())
    }

    /// A letter that is gone was perhaps moved by this run, before a crash: the marks tell.
    pub(super) async fn what_is_missing(&mut self, missing: &[(u64, Missing)]) -> Vec<(u64, Absent)> {
        let gone: Vec<u64> =
            missing.iter().filter(|(_, why)| *why != Missing::NotSeen).map(|(seq, _)| *seq).collect();
        let intents: Vec<Intent> = gone.iter().filter_map(|seq| self.intent(*seq)).collect();
        let proofs = match intents.is_empty() || self.job.settings.without_lookup {
            true => Vec::new(),
            false => self.job.mover.prove(&intents).await.unwrap_or_default(),
        };
        let moved: Vec<u64> = intents
            .iter()
            .zip(&proofs)
            .filter(|(_, proof)| matches!(proof, Proof::Arrived(_)))
            .map(|(intent, _)| intent.seq)
            .collect();
        missing
            .iter()
            .map(|(seq, why)| match why {
                Missing::Gone | Missing::Moved if moved.contains(seq) => (*seq, Absent::Moved),
                Missing::Moved => (*seq, Absent::MovedBefore),
                Missing::Gone | Missing::NotSeen if self.moved_elsewhere(*seq) => (*seq, Absent::MovedBefore),
                Missing::Gone => (*seq, Absent::Gone),
                Missing::NotSeen => (*seq, Absent::NotSeen),
            })
            .collect()
    }

    /// Does the ledger know another run that moved a letter since this one began? Only a resume need ask: before
    /// that the look and the lock of the queue tell. On a broker that keeps no marks this is all there is.
    fn moved_elsewhere(&mut self, seq: u64) -> bool {
        if self.job.resume.is_none() {
            return false;
        }
        let Some(position) = self.lines.get(&seq).map(|line| line.position.clone()) else { return false };
        let (ledger, run) = (&*self.job.ledger, &self.job.run);
        let moved = self.elsewhere.get_or_insert_with(|| ledger.moved_by_others(run).unwrap_or_default());
        moved.by(position.as_str()).is_some()
    }

    pub(super) fn intent(&self, seq: u64) -> Option<Intent> {
        let line = self.lines.get(&seq)?;
        Some(Intent {
            seq,
            id: line.letter.clone(),
            position: line.position.clone(),
            first_intent: self.first_intent.get(&seq).copied().unwrap_or_default(),
        })
    }

    /// A failed release changes no outcome: the claim ends by itself (protocol §3).
    pub(super) async fn give_back(&mut self, receipts: &[Receipt]) {
        if receipts.is_empty() {
            return;
        }
        if let Err(error) = self.job.mover.release(receipts).await {
            tracing::warn!(%error, "claims could not be given back; they end by themselves");
        }
    }

    /// Waits until the copies of a batch are made.
    pub(super) async fn copies_of(&mut self, batch: &[u64]) {
        let in_the_making = |hand: &InHand| matches!(hand.copy, Copy::InTheMaking);
        while batch.iter().any(|seq| self.hand.get(seq).is_some_and(in_the_making)) {
            let Some(made) = self.copies.made().await else { break };
            for (seq, claim, copy) in made {
                // A letter that was given back meanwhile and claimed anew gets its copy of the new claim.
                if let Some(hand) = self.hand.get_mut(&seq)
                    && hand.claim == claim
                {
                    hand.copy = copy;
                }
            }
        }
    }

    /// The batch as the broker takes it, and what cannot be made into a copy.
    pub(super) fn outgoing(&mut self, batch: &[u64]) -> (Vec<Outgoing>, Vec<(u64, Unfit)>) {
        let now = self.job.clock.now();
        let mut ready = Vec::with_capacity(batch.len());
        let mut unfit = Vec::new();
        for seq in batch {
            let Some(hand) = self.hand.get_mut(seq) else {
                unfit.push((*seq, Unfit::Refused("its claim is lost".to_owned())));
                continue;
            };
            match &mut hand.copy {
                Copy::InTheMaking => {
                    unfit.push((*seq, Unfit::Refused("its copy could not be made".to_owned())));
                }
                Copy::Changed => unfit.push((*seq, Unfit::Changed)),
                Copy::Made(Err(why)) => unfit.push((*seq, Unfit::Refused(why.clone()))),
                Copy::Made(Ok(copy)) => {
                    let line = self.lines.get(seq);
                    ready.push(Outgoing {
                        seq: *seq,
                        receipt: hand.receipt.clone(),
                        position: hand.position.clone(),
                        attempt: self.machine.attempt(*seq),
                        first_intent: *self.first_intent.entry(*seq).or_insert(now),
                        // Lent: what is not moved comes back by `still_in_hand`.
                        message: std::mem::take(&mut copy.message),
                        packed: copy.packed.take(),
                        group: line.and_then(|line| line.group.clone()),
                    });
                }
            }
        }
        (ready, unfit)
    }

    /// Copies that may be sent again go back to where they were lent from.
    pub(super) fn still_in_hand(&mut self, batch: Vec<Outgoing>) {
        let mut moved = batch;
        for outgoing in &mut moved {
            if let Some(hand) = self.hand.get_mut(&outgoing.seq) {
                let (message, packed) = (std::mem::take(&mut outgoing.message), outgoing.packed.take());
                hand.copy = Copy::Made(Ok(Ready { message, packed }));
            }
        }
        if self.looks.are_there() {
            self.trash.copies.push(moved);
        } else {
            self.copies.forget(moved);
        }
    }

    async fn send(&mut self, publish: Vec<u64>, settle: Vec<u64>) {
        failpoint::hit("before_send");
        let receipts: Vec<(u64, Receipt)> =
            settle.iter().filter_map(|seq| Some((*seq, self.hand.get(seq)?.receipt.clone()))).collect();
        let mut settled: Vec<(u64, SettleReply)> = settle
            .iter()
            .filter(|seq| !self.hand.contains_key(seq))
            .map(|seq| (*seq, SettleReply::Stale))
            .collect();
        self.copies_of(&publish).await;
        let (ready, unfit) = self.outgoing(&publish);
        let only: Vec<Receipt> = receipts.iter().map(|(_, receipt)| receipt.clone()).collect();
        let (answers, settles) = self.job.mover.step(&ready, &only).await;
        failpoint::hit("after_send");
        for ((seq, _), answer) in receipts.iter().zip(settles) {
            self.hand.remove(seq);
            settled.push((
                *seq,
                match answer {
                    Settled::Settled => SettleReply::Settled,
                    Settled::Stale => SettleReply::Stale,
                    Settled::Failed(error) => {
                        self.last_doubt = Some(error);
                        SettleReply::Failed
                    }
                },
            ));
        }
        let mut replies: Vec<(u64, Reply)> = Vec::with_capacity(publish.len());
        for (seq, why) in unfit {
            self.refusals.insert(seq, why.words());
            replies.push((seq, Reply::Permanent));
        }
        let mut answers = answers.into_iter();
        for outgoing in &ready {
            let reply = match answers.next() {
                Some(Ok(published)) => {
                    self.last_success = self.job.clock.elapsed();
                    self.arrived(outgoing.seq, &published);
                    Reply::Ack
                }
                Some(Err(error)) => self.reply(outgoing.seq, error),
                // An adapter that answers for fewer letters than it was given has said nothing about them.
                None => Reply::Unknown { resend: self.resend_is_idempotent(outgoing.seq) },
            };
            replies.push((outgoing.seq, reply));
        }
        replies.sort_by_key(|(seq, _)| *seq);
        self.still_in_hand(ready);
        self.machine.sent(&replies, &settled);
    }

    /// What an error on one letter's send means for that letter.
    fn reply(&mut self, seq: u64, error: BrokerError) -> Reply {
        let reply = match error.kind {
            ErrorKind::Unknown => Reply::Unknown { resend: self.resend_is_idempotent(seq) },
            ErrorKind::Unreachable | ErrorKind::Throttled => Reply::Transient,
            ErrorKind::Rejected | ErrorKind::Other | ErrorKind::Stale => Reply::Permanent,
            ErrorKind::Denied
            | ErrorKind::NotFound
            | ErrorKind::Fenced
            | ErrorKind::Locked
            | ErrorKind::Version
            | ErrorKind::Unsupported => Reply::Session,
        };
        if reply == Reply::Session {
            self.cause.get_or_insert(Cause::Broker(error.clone()));
        }
        self.refusals.insert(seq, words_of(&error));
        self.last_doubt = Some(error);
        reply
    }

    /// An error that is about no letter: claims, whole transactions.
    pub(super) async fn session_error(&mut self, error: BrokerError) {
        if error.kind.transient() || error.kind == ErrorKind::Unknown {
            self.last_doubt = Some(error);
            self.back_off(1).await;
        } else {
            self.stop(Cause::Broker(error));
        }
    }

    async fn prove(&mut self, batch: Vec<u64>) {
        let intents: Vec<Intent> = batch.iter().filter_map(|seq| self.intent(*seq)).collect();
        match self.job.mover.prove(&intents).await {
            Ok(proofs) => {
                let answers: Vec<(u64, Option<bool>)> = intents
                    .iter()
                    .zip(proofs)
                    .map(|(intent, proof)| {
                        let arrived = match proof {
                            Proof::Arrived(published) => {
                                self.arrived(intent.seq, &published);
                                self.hand.remove(&intent.seq);
                                Some(true)
                            }
                            Proof::Absent => Some(false),
                            Proof::ResendSafe | Proof::Unknown => None,
                        };
                        (intent.seq, arrived)
                    })
                    .collect();
                self.machine.proved(&answers);
            }
            Err(error) if error.kind.transient() || error.kind == ErrorKind::Unknown => {
                self.last_doubt = Some(error);
                self.back_off(2).await;
                if self.cause.is_some() {
                    let unknown: Vec<_> = batch.iter().map(|seq| (*seq, None)).collect();
                    self.machine.proved(&unknown);
                }
            }
            Err(error) => {
                let unknown: Vec<_> = batch.iter().map(|seq| (*seq, None)).collect();
                self.stop(Cause::Broker(error));
                self.machine.proved(&unknown);
            }
        }
    }

    pub(super) fn arrived(&mut self, seq: u64, published: &Published) {
        if self.job.observer.wants_letters()
            && let Some(line) = self.lines.get(&seq)
        {
            let event = Event::Letter { line, outcome: "moved", detail: published.at.as_deref() };
            self.job.observer.see(&event);
        }
    }
}
