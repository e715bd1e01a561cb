//! The engine's decisions, without any input or output: what to do next, given what is known (protocol §1 to
//! §4). The driver in `engine.rs` carries out each [`Action`] and reports what came of it; the exhaustive
//! walk in `walk.rs` does the same with a model of a ledger and a broker, and with every crash.
//!
//! Between two commits of the ledger lies one step: commit *n* holds what was settled after batch n−2, the
//! answers of batch n−1 and the intents of batch n; then n−1 is settled and n is sent (protocol §2).

use std::collections::BTreeSet;

use super::lanes::{GroupKey, Lanes, Seq};
use super::numbered::{Lined, Numbers};
use crate::proof::mutation::mutated;

mod claims;
mod steps;
mod words;

pub use words::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Planned,
    Claiming,
    Claimed,
    Intending,
    Unsent,
    Flying,
    Recording,
    Published,
    Settling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Send,
    Published,
    Twin { of: Seq },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Letter {
    group: Option<GroupKey>,
    phase: Phase,
    kind: Kind,
    attempt: u32,
    open: bool,
    lost: u8,
}

/// How many letters of one lane are claimed ahead where they go one by one.
const DEPTH: usize = 4;
/// How often a lost claim or a failed settle is tried again.
const LOST: u8 = 3;
/// Most groups that may be held by what happened in the run, so that its memory stays bounded.
const HELD_GROUPS: usize = 250_000;
/// Most entries that wait for a commit on the path whose truth lies with the broker.
const PENDING: usize = 4_096;

/// The state of a run in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    rules: Rules,
    /// Most claims held at once for now, at most those of the rules.
    claims: usize,
    lanes: Lanes,
    letters: Lined<Letter>,
    claimable: Numbers,
    ready: Numbers,
    hand: Numbers,
    staged: Vec<Seq>,
    to_settle: Numbers,
    to_prove: Vec<Seq>,
    release: Vec<Seq>,
    pending: Vec<(Seq, Write)>,
    committing: Vec<(Seq, Write)>,
    with_twins: BTreeSet<Seq>,
    arrived_twins: BTreeSet<Seq>,
    tally: Tally,
    errors: u32,
    transient: u32,
    backoff: bool,
    dry_claims: bool,
    stop: Option<Stop>,
}

impl Machine {
    /// Before the first line.
    pub fn new(rules: Rules) -> Self {
        Self {
            claims: rules.claims,
            rules,
            lanes: Lanes::default(),
            letters: Lined::default(),
            claimable: Numbers::default(),
            ready: Numbers::default(),
            hand: Numbers::default(),
            staged: Vec::new(),
            to_settle: Numbers::default(),
            to_prove: Vec::new(),
            release: Vec::new(),
            pending: Vec::new(),
            committing: Vec::new(),
            with_twins: BTreeSet::new(),
            arrived_twins: BTreeSet::new(),
            tally: Tally::default(),
            errors: 0,
            transient: 0,
            backoff: false,
            dry_claims: false,
            stop: None,
        }
    }

    /// What has happened so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Letters in the window that have no outcome yet.
    pub fn open_letters(&self) -> u64 {
        self.letters
            .values()
            .filter(|letter| !matches!(letter.phase, Phase::Recording | Phase::Published | Phase::Settling))
            .filter(|letter| letter.kind != Kind::Published)
            .count() as u64
    }

    /// From now on so many claims are held at most, within the rules.
    pub fn hold_at_most(&mut self, claims: usize) {
        self.claims = claims.clamp(1, self.rules.claims);
    }

    /// Claims in our hands, for renewing them.
    pub fn in_hand(&self) -> impl Iterator<Item = Seq> + '_ {
        self.hand.iter()
    }

    /// Which try of sending this letter is.
    pub fn attempt(&self, seq: Seq) -> u32 {
        self.letters.get(&seq).map_or(1, |letter| letter.attempt.max(1))
    }

    /// Is this letter in the window and wanted by a claim?
    pub fn wants(&self, seq: Seq) -> bool {
        self.letters.get(&seq).is_some_and(|letter| matches!(letter.phase, Phase::Planned | Phase::Claiming))
    }

    /// Does its claim still stand for a send that is to come, or is on its way? One that ran out is claimed anew then.
    pub fn sends(&self, seq: Seq) -> bool {
        let phases = [Phase::Claimed, Phase::Intending, Phase::Unsent, Phase::Flying];
        self.letters.get(&seq).is_some_and(|letter| phases.contains(&letter.phase))
    }

    /// Is it one that is to be sent, and was never tried: no original of a moved letter, no equal one, and no earlier try
    /// may have arrived?
    pub fn is_to_send(&self, seq: Seq) -> bool {
        self.letters.get(&seq).is_some_and(|letter| letter.kind == Kind::Send && !letter.open)
    }

    /// How many letters could go at once: what to ask the pace for.
    pub fn could_send(&self) -> usize {
        if self.stop.is_some() || self.backoff || !self.staged.is_empty() {
            return 0;
        }
        // Each that is ready goes itself.
        if !self.whole_batches() || self.ready.len() >= self.rules.batch {
            return self.ready.len().min(self.most_at_once());
        }
        let mut count = 0;
        for seq in self.ready.iter() {
            let run = self.letters.get(&seq).and_then(|letter| letter.group).map_or(1, |group| {
                self.lanes
                    .iter_waiting(group)
                    .take(self.rules.batch)
                    .take_while(|seq| self.letters.get(seq).is_some_and(|l| l.phase == Phase::Claimed))
                    .count()
            });
            count += run;
            if count >= self.rules.batch {
                return self.rules.batch;
            }
        }
        count
    }

    /// Nothing more is begun; what is in flight is brought to its end. The first reason stays.
    pub fn stop(&mut self, why: Stop) {
        self.stop.get_or_insert(why);
    }

    /// Takes a line of the manifest into the window. `twins`: another line is settled with this one.
    pub fn offer(&mut self, seq: Seq, group: Option<GroupKey>, start: Start, twins: bool) {
        let group = group.filter(|_| self.rules.ordered);
        if twins {
            self.with_twins.insert(seq);
        }
        match start {
            Start::Done { moved: true } => {
                self.tally.moved += 1;
                self.note_arrived(seq);
            }
            Start::Done { moved: false } | Start::Barred(Bar::Skipped) => self.tally.skipped += 1,
            Start::Barred(Bar::Held) => self.tally.held += 1,
            Start::LeftOpen => {
                self.tally.held += 1;
                self.pending.push((seq, Write::LeftOpen));
                self.hold(group, seq);
            }
            Start::InDoubt => {
                self.tally.in_doubt += 1;
                self.hold_from_earlier_part(group, seq);
            }
            Start::Failed => {
                self.tally.failed += 1;
                self.hold_from_earlier_part(group, seq);
            }
            Start::Published => {
                self.tally.moved += 1;
                self.tally.unsettled += 1;
                self.note_arrived(seq);
                self.letters.insert(seq, Letter::new(None, Kind::Published, 0, false));
                self.claimable.insert(seq);
            }
            Start::Twin { of } if self.arrived_twins.contains(&of) => {
                self.letters.insert(seq, Letter::new(None, Kind::Twin { of }, 0, false));
                self.claimable.insert(seq);
            }
            // The other one is before it, still open, or it did not arrive. Until that is known this one may stay, and
            // nothing of its group passes it.
            Start::Twin { of } => {
                if let Some(group) = group
                    && let Err(behind) = self.lanes.join(group, seq)
                {
                    self.write_held(seq, behind);
                    return;
                }
                self.letters.insert(seq, Letter::new(group, Kind::Twin { of }, 0, false));
            }
            Start::Send { attempt, open } => {
                if let Some(group) = group
                    && let Err(behind) = self.lanes.join(group, seq)
                {
                    self.bar(seq, behind, open);
                    return;
                }
                self.letters.insert(seq, Letter::new(group, Kind::Send, attempt, open));
                self.consider_claim(seq);
            }
        }
    }

    /// What to do next.
    pub fn next(&mut self, now: &mut Now<'_>) -> Action {
        if !self.staged.is_empty()
            && let Some(action) = self.send(now)
        {
            return action;
        }
        if self.stop.is_none() {
            for seq in now.stale {
                self.claim_ran_out(*seq);
            }
            // Before the next batch, or a run that never has to wait would never write anything down.
            let due = self.pending.len() >= PENDING || now.flush && !self.pending.is_empty();
            if due && self.rules.transaction {
                return self.commit();
            }
            if self.release.len() >= self.rules.batch {
                return Action::Release(std::mem::take(&mut self.release));
            }
            let room = self.room();
            if now.more && room > 0 {
                return Action::Offer(room);
            }
            if let Some(action) = self.claim(now.more) {
                return action;
            }
            if now.lock
                && let Some(action) = self.pick(&mut *now.permits)
            {
                return action;
            }
        }
        if !self.to_prove.is_empty() {
            return Action::Prove(self.to_prove.clone());
        }
        let waits_for_record =
            !mutated("m02") && self.pending.iter().any(|(_, write)| *write == Write::Published);
        if waits_for_record || self.pending.len() >= PENDING || (now.flush && !self.pending.is_empty()) {
            return self.commit();
        }
        if !self.to_settle.is_empty() {
            return self.settle_with(Vec::new());
        }
        if !self.release.is_empty() {
            return Action::Release(std::mem::take(&mut self.release));
        }
        if self.stop.is_none() {
            if self.backoff {
                self.backoff = false;
                return Action::Backoff(self.transient);
            }
            let idle = self.letters.is_empty();
            if now.more && idle {
                return Action::Offer(self.rules.window);
            }
            if !self.ready.is_empty() || self.dry_claims && !self.claimable.is_empty() {
                // What is done is on record before a pause: a process that dies in it, as slow runs mostly would, leaves
                // no originals behind that a resume looks for and nobody can show it.
                if !self.pending.is_empty() && !self.rules.transaction {
                    return self.commit();
                }
                self.dry_claims = false;
                return Action::Wait;
            }
            if let Some(action) = self.make_room() {
                return action;
            }
            self.bar_twins();
        } else {
            self.doubt_open_tries();
        }
        if !self.pending.is_empty() {
            return self.commit();
        }
        if self.stop.is_some() && !self.hand.is_empty() {
            let held: Vec<Seq> = self.hand.iter().collect();
            self.ready.clear();
            return Action::Release(held);
        }
        Action::End(self.stop.unwrap_or(Stop::Finished))
    }

    /// What a claim gave. `exhausted`: whatever was asked for and is in neither list cannot be seen.
    pub fn claimed(&mut self, asked: &[Seq], got: &[Seq], missing: &[(Seq, Absent)], exhausted: bool) {
        for seq in got {
            self.take_in_hand(*seq);
        }
        for (seq, why) in missing {
            self.missing(*seq, *why);
        }
        for seq in asked {
            if self.letters.get(seq).is_some_and(|letter| letter.phase == Phase::Claiming) {
                if exhausted {
                    self.missing(*seq, Absent::NotSeen);
                } else {
                    self.set_phase(*seq, Phase::Planned);
                    self.claimable.insert(*seq);
                }
            }
        }
        self.dry_claims = got.is_empty() && missing.is_empty() && !exhausted;
    }

    /// The commit is done, and durable if it had to be.
    pub fn committed(&mut self) {
        for (seq, write) in std::mem::take(&mut self.committing) {
            match write {
                Write::Intended { .. } if self.set_phase(seq, Phase::Unsent) => self.staged.push(seq),
                Write::Published if self.letters.get(&seq).is_some_and(|l| l.phase == Phase::Recording) => {
                    self.set_phase(seq, Phase::Published);
                    self.to_settle.insert(seq);
                }
                _ => {}
            }
        }
    }

    /// Answers to a [`Action::Send`], all of them at once (m24).
    pub fn sent(&mut self, answers: &[(Seq, Reply)], settled: &[(Seq, SettleReply)]) {
        for (seq, reply) in settled {
            self.settle_answer(*seq, *reply);
        }
        for (seq, reply) in answers {
            self.answer(*seq, *reply);
        }
        if let Some(last) = answers.last()
            && !matches!(last.1, Reply::Transient | Reply::Unknown { .. })
        {
            self.transient = 0;
        }
    }

    /// What became of each letter of a transaction, in the batch's order.
    pub fn transferred(&mut self, fates: &[(Seq, FateOf)]) {
        // What a letter of its own kept back says nothing about the broker: pauses between tries still grow.
        if fates.iter().any(|(_, fate)| matches!(fate, FateOf::Moved | FateOf::Lost)) {
            self.transient = 0;
        }
        for (seq, fate) in fates {
            match fate {
                FateOf::Moved => self.moved(*seq),
                FateOf::Refused => self.answer(*seq, Reply::Permanent),
                FateOf::Lost => self.lost(*seq),
                FateOf::Withdrawn => self.back_to_claimed(*seq),
            }
        }
    }

    /// A transaction failed as a whole: nothing of it was done, or (`Unknown`) nobody knows yet.
    pub fn transfer_failed(&mut self, batch: &[Seq], reply: Reply) {
        match reply {
            Reply::Unknown { .. } if !mutated("t05") => self.to_prove = batch.to_vec(),
            Reply::Session => {
                self.stop(Stop::Session);
                self.all_back(batch);
            }
            _ => {
                self.one_more_transient();
                self.error();
                self.all_back(batch);
            }
        }
    }

    /// One more full batch, picked while a transaction is on its way: of other groups only, since those of the
    /// transaction have letters in flight. Empty if there is none. If that transaction does anything but move
    /// every letter, this batch is not sent: [`Machine::withdrawn`], after the transaction's own answer.
    pub fn ahead(&mut self) -> Vec<Seq> {
        let usual = self.rules.transaction && self.stop.is_none() && self.staged.is_empty();
        // What is in hand and on its way is counted too: counting those that may go costs more.
        if !usual || self.hand.len() < self.rules.batch || self.could_send() < self.rules.batch {
            return Vec::new();
        }
        match self.pick(&mut |could| could) {
            Some(Action::Transfer(batch)) => batch,
            _ => Vec::new(),
        }
    }

    /// How many lines to read into the window now, if there are more: none until a quarter of it is free. Also
    /// while a transaction is on its way.
    pub fn room(&self) -> usize {
        let room = self.rules.window.saturating_sub(self.letters.len());
        if self.stop.is_none() && room > self.rules.window / 4 { room } else { 0 }
    }

    /// The next letters to claim while a transaction is on its way, if it is time to; [`Machine::claimed`] takes
    /// the answer, before that of the transaction only if every letter that was got is there.
    pub fn claim_ahead(&mut self, more: bool) -> Vec<Seq> {
        match self.stop.is_none().then(|| self.claim(more)).flatten() {
            Some(Action::Claim(asked)) => asked,
            _ => Vec::new(),
        }
    }

    /// What waits to be written, if it is much, while a transaction is on its way. Then [`Machine::committed`].
    pub fn commit_ahead(&mut self) -> Option<(Vec<(Seq, Write)>, bool)> {
        let due = self.rules.transaction && self.pending.len() >= PENDING && self.committing.is_empty();
        match due.then(|| self.commit()) {
            Some(Action::Commit { writes, sync }) => Some((writes, sync)),
            _ => None,
        }
    }

    /// A batch that was picked ahead is not sent.
    pub fn withdrawn(&mut self, batch: &[Seq]) {
        self.all_back(batch);
    }

    /// The broker's word on a transaction without an answer: did each letter's part of it happen?
    pub fn proved(&mut self, proofs: &[(Seq, Option<bool>)]) {
        self.to_prove.clear();
        let mut back = Vec::new();
        for (seq, arrived) in proofs {
            match arrived {
                Some(true) => self.moved(*seq),
                Some(false) => back.push(*seq),
                None => self.answer(*seq, Reply::Unknown { resend: false }),
            }
        }
        // What undid it may last, as a full disk does: tried again after a pause, whose cause is told.
        if !back.is_empty() {
            self.one_more_transient();
        }
        // Together: of several letters of a group the first may go again, once none of them is in flight any more.
        self.all_back(&back);
    }

    /// Given back; what does not work ends by itself with its claim.
    pub fn released(&mut self, seqs: &[Seq]) {
        for seq in seqs {
            self.hand.remove(*seq);
        }
    }
}

impl Letter {
    fn new(group: Option<GroupKey>, kind: Kind, attempt: u32, open: bool) -> Self {
        Self { group, phase: Phase::Planned, kind, attempt, open, lost: 0 }
    }
}
