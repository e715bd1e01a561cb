//! A model of everything outside the machine: a ledger that can lose what was not synced, a broker whose
//! answers get lost, a process that can die anywhere, and another one that may hold the lock.

mod broker;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::broker::Proof;
use crate::ledger::LetterState;
use crate::run::lanes::{GroupKey, Seq};
use crate::run::machine::{Absent, Action, Machine, Now, Rules, Start, Stop, Write};
use crate::run::recovery::{Orders, start_of};

/// What the broker can say about a send without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proofs {
    /// Nothing.
    None,
    /// It can find a copy, and a miss is behind a fence.
    Find,
    /// Nothing, but sending again is idempotent.
    Resend,
}

/// What the person who resumes says of letters that the queue does not show (`--accept-gone`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    /// Nothing.
    Nothing,
    /// That they are gone, and it is so: somebody took them.
    Rightly,
    /// That they are gone, and some are only held by somebody else.
    Mistakenly,
}

#[derive(Debug, Clone)]
pub(super) struct Config {
    pub groups: Vec<Option<GroupKey>>,
    pub transaction: bool,
    pub batch: usize,
    pub faults: u8,
    pub proofs: Proofs,
    pub tells_gone: bool,
    /// Crashes lose what was not synced.
    pub power: bool,
    pub attempts: u32,
    /// Letters that are equal to an earlier one, and that one: settled unsent once it has arrived.
    pub twins: Vec<(Seq, Seq)>,
    pub accepts: Accepts,
}

impl Config {
    fn twin_of(&self, seq: Seq) -> Option<Seq> {
        self.twins.iter().find(|(twin, _)| *twin == seq).map(|(_, of)| *of)
    }

    fn rules(&self, resumed: bool) -> Rules {
        Rules {
            transaction: self.transaction,
            ordered_batch: self.transaction,
            window: 8,
            batch: self.batch,
            claims: 2 * self.batch,
            attempts: self.attempts,
            max_errors: 0,
            allow_gone: true,
            accept_gone: resumed && self.accepts != Accepts::Nothing,
            ordered: true,
        }
    }
}

type Ledger = BTreeMap<Seq, (LetterState, u32)>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    machine: Machine,
    offered: usize,
    resumed: bool,
    lock: bool,
    ended: Option<Stop>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    process: Option<Process>,
    ledger: Ledger,
    durable: Ledger,
    dlq: BTreeSet<Seq>,
    /// Copies in order of arrival.
    target: Vec<Seq>,
    /// Sent, and on its way for an unknown time.
    late: Vec<Seq>,
    /// Refused for good, as the broker told.
    refused: BTreeSet<Seq>,
    /// Taken out of the queue by somebody else.
    taken: BTreeSet<Seq>,
    named: BTreeSet<Seq>,
    /// Still in the queue, and gone as a person said by mistake.
    mistaken: BTreeSet<Seq>,
    may_be_mistaken: bool,
    faults: u8,
    crashes: u8,
}

impl World {
    pub(super) fn start(config: &Config) -> Self {
        let mut world = Self {
            process: None,
            ledger: Ledger::new(),
            durable: Ledger::new(),
            dlq: (0..config.groups.len() as Seq).collect(),
            target: Vec::new(),
            late: Vec::new(),
            refused: BTreeSet::new(),
            taken: BTreeSet::new(),
            named: BTreeSet::new(),
            mistaken: BTreeSet::new(),
            may_be_mistaken: false,
            faults: config.faults,
            crashes: 0,
        };
        world.process = Some(world.new_process(config, false));
        world
    }

    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.ended.is_some())
    }

    /// Did it end with a letter of which only a person knows that it is gone?
    pub(super) fn accepted(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.machine.tally().taken_as_gone > 0)
    }

    fn new_process(&self, config: &Config, resumed: bool) -> Process {
        Process { machine: Machine::new(config.rules(resumed)), offered: 0, resumed, lock: true, ended: None }
    }

    /// The invariants that hold at every instant, and those of an end.
    pub(super) fn check(&self, config: &Config) -> Result<(), String> {
        for seq in 0..config.groups.len() as Seq {
            let copies = self.target.iter().filter(|copy| **copy == seq).count();
            let state = self.state(seq);
            if !self.dlq.contains(&seq) && !self.is_there(config, seq) && !self.taken.contains(&seq) {
                return Err(format!("I1: letter {seq} is nowhere"));
            }
            if copies > 0 && config.twin_of(seq).is_some() {
                return Err(format!("I3: letter {seq} was sent, and is equal to one that was"));
            }
            if copies > 1 && !self.named.contains(&seq) {
                return Err(format!("I2: {copies} copies of letter {seq}, never named"));
            }
            let mistaken = self.mistaken.contains(&seq);
            if state == LetterState::Settled && self.dlq.contains(&seq) && !mistaken {
                return Err(format!("I8: letter {seq} is settled and still in the queue"));
            }
            if state == LetterState::Failed && (copies > 0 || self.late.contains(&seq)) {
                return Err(format!("I6: letter {seq} failed and has a copy"));
            }
            if matches!(state, LetterState::Published | LetterState::Settled) && copies == 0 {
                return Err(format!("I6: letter {seq} is moved and has no copy"));
            }
            if state == LetterState::Gone && (copies > 0 || self.late.contains(&seq)) {
                return Err(format!("I6: letter {seq} is skipped as gone and was sent"));
            }
            if state == LetterState::Gone && self.dlq.contains(&seq) && !mistaken {
                return Err(format!("I6: letter {seq} is skipped as gone and is there"));
            }
            if config.transaction && copies > 0 && self.dlq.contains(&seq) {
                return Err(format!("I10: letter {seq} has a copy and no mark"));
            }
            if config.transaction && copies > 1 {
                return Err(format!("I10: two committed copies of letter {seq}"));
            }
        }
        // Where sending again is idempotent a try without an answer stays intended until its next one.
        let intended = self.ledger.values().filter(|(state, _)| *state == LetterState::Intended).count();
        if intended > config.batch && config.proofs != Proofs::Resend {
            return Err(format!(
                "§2: {intended} letters would be in doubt after a crash, a batch has {}",
                config.batch
            ));
        }
        if let Some(Process { ended: Some(stop), machine, .. }) = &self.process {
            self.check_end(config, *stop, machine)?;
        }
        Ok(())
    }

    fn check_end(&self, config: &Config, stop: Stop, machine: &Machine) -> Result<(), String> {
        let tally = machine.tally();
        let sum = tally.moved
            + tally.skipped
            + tally.failed
            + tally.held
            + tally.in_doubt
            + tally.not_seen
            + machine.open_letters();
        let process = self.process.as_ref().unwrap();
        let unread = (config.groups.len() - process.offered) as u64;
        if sum + unread != config.groups.len() as u64 {
            return Err(format!("I7: the counts do not add up: {tally:?} at {stop:?}"));
        }
        for seq in 0..config.groups.len() as Seq {
            let state = self.state(seq);
            // A process that lost its lock may write nothing more: not a regular end.
            if state == LetterState::Intended && process.lock {
                return Err(format!("I7: letter {seq} is intended after the end"));
            }
            let copies = self.target.iter().filter(|copy| **copy == seq).count();
            if state == LetterState::Planned && (copies > 0 || self.late.contains(&seq)) {
                return Err(format!("I6: letter {seq} is untouched or held and was sent"));
            }
        }
        if stop == Stop::Finished && process.lock && machine.open_letters() > 0 {
            return Err(format!("I9: it ended as if all were done, and letters have no outcome: {tally:?}"));
        }
        let accepted = process.resumed && process.lock && config.accepts != Accepts::Nothing;
        if stop == Stop::Finished && accepted && tally.not_seen + tally.unseen > 0 {
            return Err(format!("I7: what is not seen was said to be gone, and has no outcome: {tally:?}"));
        }
        let no_fault = self.faults == config.faults && self.crashes == 0;
        let through = tally.moved + config.twins.len() as u64;
        let twins = tally.skipped == config.twins.len() as u64;
        if no_fault && (through != config.groups.len() as u64 || !twins || tally.unsettled > 0) {
            return Err(format!("I9: without a fault not all is moved: {tally:?}"));
        }
        Ok(())
    }

    /// Is a copy of it, or of the one that it is equal to, in the target?
    fn is_there(&self, config: &Config, seq: Seq) -> bool {
        self.target.contains(&seq) || config.twin_of(seq).is_some_and(|of| self.target.contains(&of))
    }

    fn state(&self, seq: Seq) -> LetterState {
        self.ledger.get(&seq).map_or(LetterState::Planned, |(state, _)| *state)
    }

    /// Every state that can follow this one.
    pub(super) fn step(&self, config: &Config) -> Result<Vec<World>, String> {
        let mut next = Vec::new();
        for at in 0..self.late.len() {
            let mut world = self.clone();
            let seq = world.late.remove(at);
            world.arrive(config, seq)?;
            next.push(world);
        }
        let Some(process) = &self.process else {
            let mut world = self.clone();
            world.resume(config);
            next.push(world);
            return Ok(next);
        };
        if process.ended.is_some() {
            return Ok(next);
        }
        if self.faults > 0 {
            next.push(self.crash(config));
            if process.lock {
                // The lease ends, and another process takes over and sends what is left.
                let mut world = self.clone();
                world.faults -= 1;
                world.process.as_mut().unwrap().lock = false;
                next.push(world);
            }
            for seq in &self.dlq {
                // Where a person finds out what became of letters, one may go whatever was done with it.
                let planned = config.tells_gone && self.state(*seq) == LetterState::Planned;
                if (planned || config.accepts != Accepts::Nothing) && !config.transaction {
                    let claimed = process.machine.in_hand().any(|held| held == *seq);
                    if !claimed {
                        let mut world = self.clone();
                        world.faults -= 1;
                        world.dlq.remove(seq);
                        world.taken.insert(*seq);
                        next.push(world);
                    }
                }
            }
        }
        let mut world = self.clone();
        let action = world.next_action(config);
        world.carry_out(config, action, &mut next)?;
        Ok(next)
    }

    fn next_action(&mut self, config: &Config) -> Action {
        let process = self.process.as_mut().unwrap();
        let more = process.offered < config.groups.len();
        let mut permits = |could: usize| could;
        let mut now = Now {
            permits: &mut permits,
            may_resend: &|_| true,
            lock: process.lock,
            stale: &[],
            more,
            flush: config.transaction,
        };
        if !process.lock && !crate::proof::mutation::mutated("m19") {
            process.machine.stop(Stop::Session);
        }
        process.machine.next(&mut now)
    }

    fn carry_out(&mut self, config: &Config, action: Action, next: &mut Vec<World>) -> Result<(), String> {
        match action {
            Action::Offer(most) => {
                self.offer(config, most);
                next.push(self.clone());
            }
            Action::Claim(asked) => self.claim(config, &asked, next),
            Action::Commit { writes, sync } => {
                self.write(&writes);
                if sync {
                    self.durable = self.ledger.clone();
                }
                self.process.as_mut().unwrap().machine.committed();
                next.push(self.clone());
            }
            Action::Send { publish, settle } => self.send(config, &publish, &settle, next)?,
            Action::Transfer(batch) => {
                self.transfer(config, &batch, next)?;
                self.transfer_two(config, &batch, next)?;
                self.transfer_reading_on(config, &batch, next)?;
            }
            Action::Prove(batch) => {
                let proofs: Vec<_> = batch.iter().map(|seq| (*seq, Some(!self.dlq.contains(seq)))).collect();
                self.process.as_mut().unwrap().machine.proved(&proofs);
                next.push(self.clone());
            }
            Action::Release(seqs) => {
                self.process.as_mut().unwrap().machine.released(&seqs);
                next.push(self.clone());
            }
            Action::Backoff(_) | Action::Wait => next.push(self.clone()),
            Action::End(stop) => {
                // An end closes what the resume had found intended and never came to.
                let offered = self.process.as_ref().unwrap().offered as Seq;
                for seq in offered..config.groups.len() as Seq {
                    if self.state(seq) == LetterState::Intended {
                        self.write(&[(seq, Write::InDoubt)]);
                    }
                }
                self.process.as_mut().unwrap().ended = Some(stop);
                self.durable = self.ledger.clone();
                next.push(self.clone());
                // An end that leaves something is followed by a resume as long as there are faults to try.
                if stop != Stop::Finished && self.crashes < 2 {
                    let mut world = self.clone();
                    world.crashes += 1;
                    world.process = None;
                    next.push(world);
                }
            }
        }
        Ok(())
    }

    fn crash(&self, config: &Config) -> World {
        let mut world = self.clone();
        world.faults -= 1;
        world.crashes += 1;
        world.process = None;
        if config.power {
            world.ledger = world.durable.clone();
        }
        world
    }

    fn resume(&mut self, config: &Config) {
        // Whatever was on its way cannot arrive behind a fence.
        if config.proofs == Proofs::Find {
            self.late.clear();
        }
        // The broker's marks are the truth of path T: the ledger's copy is rebuilt from them first.
        if config.transaction && !crate::proof::mutation::mutated("t02") {
            for seq in self.target.clone() {
                self.ledger.insert(seq, (LetterState::Settled, 1));
            }
        }
        self.may_be_mistaken = config.accepts == Accepts::Mistakenly;
        self.process = Some(self.new_process(config, true));
        for seq in 0..config.groups.len() as Seq {
            let (state, attempt) = self.ledger.get(&seq).copied().unwrap_or_default();
            let proof = self.proof(config, seq);
            if let (_, Some(write)) = start_of(state, attempt, Some(&proof), Orders::default()) {
                self.write(&[(seq, write)]);
            }
        }
        self.durable = self.ledger.clone();
    }

    fn offer(&mut self, config: &Config, most: usize) {
        for _ in 0..most {
            let process = self.process.as_mut().unwrap();
            if process.offered == config.groups.len() {
                break;
            }
            let seq = process.offered as Seq;
            process.offered += 1;
            let resumed = process.resumed;
            let (state, attempt) = self.ledger.get(&seq).copied().unwrap_or_default();
            let twin = config.twin_of(seq).filter(|_| state == LetterState::Planned);
            let start = match resumed {
                _ if twin.is_some() => Start::Twin { of: twin.unwrap_or_default() },
                true => {
                    let proof = self.proof(config, seq);
                    start_of(state, attempt, Some(&proof), Orders::default()).0
                }
                false => Start::Send { attempt: 0, open: false },
            };
            let machine = &mut self.process.as_mut().unwrap().machine;
            let twins = config.twins.iter().any(|(_, of)| *of == seq);
            machine.offer(seq, config.groups[seq as usize], start, twins);
        }
    }

    fn proof(&self, config: &Config, seq: Seq) -> Proof {
        match config.proofs {
            Proofs::None => Proof::Unknown,
            Proofs::Resend => Proof::ResendSafe,
            Proofs::Find if self.target.contains(&seq) => Proof::Arrived(crate::broker::Published::default()),
            Proofs::Find => Proof::Absent,
        }
    }

    fn claim(&mut self, config: &Config, asked: &[Seq], next: &mut Vec<World>) {
        let gone = |world: &World, seq: Seq| match (config.transaction, config.tells_gone) {
            (true, _) if world.target.contains(&seq) => Absent::Moved,
            (_, true) => Absent::Gone,
            (_, false) => Absent::NotSeen,
        };
        let got: Vec<Seq> = asked.iter().filter(|seq| self.dlq.contains(seq)).copied().collect();
        let missing: Vec<_> =
            asked.iter().filter(|seq| !self.dlq.contains(seq)).map(|seq| (*seq, gone(self, *seq))).collect();
        let mut world = self.clone();
        world.process.as_mut().unwrap().machine.claimed(asked, &got, &missing, false);
        next.push(world);
        // Who has found out that letters are gone was not shown less than there is.
        let found_out = self.process.as_ref().unwrap().resumed && config.accepts == Accepts::Rightly;
        if self.faults > 0 && !found_out {
            for hidden in &got {
                let mut world = self.clone();
                world.faults -= 1;
                let got: Vec<Seq> = got.iter().filter(|seq| *seq != hidden).copied().collect();
                let mut missing = missing.clone();
                missing.push((*hidden, Absent::NotSeen));
                world.process.as_mut().unwrap().machine.claimed(asked, &got, &missing, false);
                next.push(world);
            }
        }
    }

    /// A person may say so of one that is there.
    fn take_for_gone(&mut self, seq: Seq) {
        if self.may_be_mistaken && self.dlq.contains(&seq) {
            self.mistaken.insert(seq);
        }
    }

    fn write(&mut self, writes: &[(Seq, Write)]) {
        for (seq, write) in writes {
            let (_, attempt) = self.ledger.get(seq).copied().unwrap_or_default();
            let entry = match write {
                Write::Intended { attempt } => (LetterState::Intended, *attempt),
                Write::Planned => (LetterState::Planned, 0),
                Write::Published => (LetterState::Published, attempt),
                Write::TakenAsGone => {
                    self.take_for_gone(*seq);
                    (LetterState::Settled, attempt)
                }
                Write::Settled => (LetterState::Settled, attempt),
                Write::Failed => (LetterState::Failed, attempt),
                Write::InDoubt => {
                    self.named.insert(*seq);
                    (LetterState::InDoubt, attempt)
                }
                Write::Gone => {
                    self.take_for_gone(*seq);
                    (LetterState::Gone, attempt)
                }
                Write::MovedBefore => (LetterState::Gone, attempt),
                Write::Twin => (LetterState::Twin, attempt),
                Write::Held { .. } | Write::NotSeen { .. } | Write::LeftOpen => continue,
            };
            self.ledger.insert(*seq, entry);
        }
    }

    /// A copy comes in.
    fn arrive(&mut self, config: &Config, seq: Seq) -> Result<(), String> {
        let again = self.target.contains(&seq);
        if again && config.proofs == Proofs::Resend {
            return Ok(());
        }
        let group = config.groups[seq as usize];
        if !again && group.is_some() {
            for earlier in 0..seq {
                let passed = config.groups[earlier as usize] == group
                    && !self.is_there(config, earlier)
                    && !self.taken.contains(&earlier)
                    && !self.mistaken.contains(&earlier);
                if passed {
                    return Err(format!("I5: letter {seq} passes letter {earlier} of its group"));
                }
            }
        }
        self.target.push(seq);
        Ok(())
    }

    fn remove_original(&mut self, config: &Config, seq: Seq) -> Result<(), String> {
        // A twin is removed for the one that was sent for both.
        let (twin, seq_sent) = (config.twin_of(seq), config.twin_of(seq).unwrap_or(seq));
        let state = self.state(seq_sent);
        if twin.is_some() && !self.is_there(config, seq) {
            return Err(format!("I1: letter {seq} is settled unsent, and the one like it has not arrived"));
        }
        if !config.transaction && !matches!(state, LetterState::Published | LetterState::Settled) {
            return Err(format!("I4: letter {seq} is settled while the ledger says {state:?}"));
        }
        self.dlq.remove(&seq);
        Ok(())
    }
}
