//! The single steps of the machine: picking, sending, answers, holding.

use super::{
    Absent, Action, DEPTH, HELD_GROUPS, Kind, LOST, Letter, Machine, Now, Phase, Reply, Seq, SettleReply,
    Stop, Write,
};
use crate::proof::mutation::mutated;
use crate::run::lanes::GroupKey;

impl Machine {
    /// Does a batch go whole or not at all, so that a group's letters may follow each other in it (m10)?
    pub(super) fn whole_batches(&self) -> bool {
        (self.rules.transaction && self.rules.ordered_batch) || mutated("m10")
    }

    /// Asks everything again at the moment of sending: lock, claim, lane (protocol §1, "moment of sending").
    /// What is not true any more goes back, with every unsent letter of its group behind it.
    pub(super) fn send(&mut self, now: &Now<'_>) -> Option<Action> {
        let staged = std::mem::take(&mut self.staged);
        let mut go = Vec::with_capacity(staged.len());
        let mut dropped = Vec::new();
        for seq in staged {
            let group = self.letters.get(&seq).and_then(|letter| letter.group);
            let behind_dropped = group.is_some()
                && dropped.iter().any(|d| self.letters.get(d).and_then(|letter| letter.group) == group);
            let held = group.is_some_and(|group| self.lanes.held_behind(group).is_some());
            let lock = now.lock || mutated("m19");
            if !lock || now.stale.contains(&seq) || held || behind_dropped || self.stop.is_some() {
                dropped.push(seq);
            } else {
                go.push(seq);
            }
        }
        for seq in dropped.iter().rev() {
            self.withdraw(*seq);
        }
        if go.is_empty() && self.to_settle.is_empty() {
            return None;
        }
        for seq in &go {
            self.set_phase(*seq, Phase::Flying);
        }
        Some(self.settle_with(go))
    }

    /// A send of `publish` with everything that may be settled.
    pub(super) fn settle_with(&mut self, publish: Vec<Seq>) -> Action {
        let mut settle: Vec<Seq> = std::mem::take(&mut self.to_settle).iter().collect();
        for seq in &settle {
            self.set_phase(*seq, Phase::Settling);
        }
        if mutated("m01") {
            settle.extend(&publish);
        }
        if mutated("m22") {
            // Written down when it is asked for, not when the broker's answer is in.
            self.pending.extend(settle.iter().map(|seq| (*seq, Write::Settled)));
        }
        Action::Send { publish, settle }
    }

    /// Most letters with an intent whose outcome is not written down: so many may be in doubt after a crash.
    pub(super) fn most_at_once(&self) -> usize {
        if mutated("m29") { usize::MAX } else { self.rules.batch }
    }

    /// Takes the next batch: claimed letters in order whose lane is open.
    pub(super) fn pick(&mut self, permits: &mut dyn FnMut(usize) -> usize) -> Option<Action> {
        if self.backoff || !self.to_prove.is_empty() {
            return None;
        }
        let could = self.could_send();
        let most = if could == 0 { 0 } else { permits(could).min(self.most_at_once()) };
        let mut batch = Vec::new();
        let mut in_batch = std::collections::BTreeMap::<GroupKey, u32>::new();
        while batch.len() < most {
            let Some(seq) = self.ready.pop_first() else { break };
            let Some(letter) = self.letters.get(&seq) else { continue };
            if let Some(group) = letter.group {
                let before = in_batch.entry(group).or_default();
                if !self.lanes.follows(group, seq, *before) {
                    continue;
                }
                *before += 1;
                self.lanes.depart(group, seq);
                if self.whole_batches() {
                    self.consider_ready(group);
                }
            }
            batch.push(seq);
        }
        if batch.is_empty() {
            return None;
        }
        if self.rules.transaction {
            for seq in &batch {
                self.set_phase(*seq, Phase::Flying);
            }
            return Some(Action::Transfer(batch));
        }
        for seq in batch {
            if let Some(letter) = self.letters.get_mut(&seq) {
                letter.phase = Phase::Intending;
                letter.attempt += 1;
                let attempt = letter.attempt;
                self.pending.push((seq, Write::Intended { attempt }));
            }
        }
        Some(self.commit())
    }

    /// Everything that waits to be written.
    pub(super) fn commit(&mut self) -> Action {
        self.committing = std::mem::take(&mut self.pending);
        let sync =
            self.committing.iter().any(|(_, write)| matches!(write, Write::Intended { .. } | Write::InDoubt))
                && !mutated("m25");
        let writes = match mutated("m04") {
            true => self
                .committing
                .iter()
                .filter(|(_, write)| !matches!(write, Write::Intended { .. }))
                .copied()
                .collect(),
            false => self.committing.clone(),
        };
        Action::Commit { writes, sync }
    }

    pub(super) fn answer(&mut self, seq: Seq, reply: Reply) {
        let Some(letter) = self.letters.get(&seq) else { return };
        let (group, open, attempt) = (letter.group, letter.open, letter.attempt);
        let reply = match reply {
            Reply::Unknown { .. } if mutated("m14") => Reply::Permanent,
            other => other,
        };
        match reply {
            Reply::Ack => {
                self.errors = 0;
                self.tally.moved += 1;
                self.tally.unsettled += 1;
                self.pending.push((seq, Write::Published));
                if mutated("m02") {
                    self.set_phase(seq, Phase::Published);
                    self.to_settle.insert(seq);
                } else {
                    self.set_phase(seq, Phase::Recording);
                }
                self.arrived(seq, group);
            }
            // An earlier try has no answer: a refusal of this one says nothing about it.
            Reply::Transient | Reply::Permanent | Reply::Session if open => {
                if reply == Reply::Session {
                    self.stop(Stop::Session);
                }
                self.doubt(seq);
            }
            Reply::Session => {
                self.stop(Stop::Session);
                self.pending.push((seq, Write::Planned));
                self.back_to_claimed(seq);
            }
            Reply::Transient if attempt.max(1) < self.rules.attempts => {
                self.one_more_transient();
                self.pending.push((seq, Write::Planned));
                self.back_to_claimed(seq);
            }
            Reply::Transient | Reply::Permanent => {
                self.error();
                self.tally.failed += 1;
                self.finish(seq, Write::Failed);
                self.hold(group, seq);
            }
            Reply::Unknown { resend: true } if attempt < self.rules.attempts => {
                self.one_more_transient();
                if let Some(letter) = self.letters.get_mut(&seq) {
                    letter.open = true;
                }
                self.back_to_claimed(seq);
            }
            Reply::Unknown { .. } => self.doubt(seq),
        }
    }

    pub(super) fn settle_answer(&mut self, seq: Seq, reply: SettleReply) {
        let reply = if reply == SettleReply::Stale && mutated("m21") { SettleReply::Settled } else { reply };
        self.hand.remove(seq);
        let Some(letter) = self.letters.get_mut(&seq) else { return };
        if mutated("m01") && letter.phase == Phase::Flying {
            return;
        }
        let twin = matches!(letter.kind, Kind::Twin { .. });
        match reply {
            SettleReply::Settled if twin => {
                self.tally.skipped += 1;
                self.finish(seq, Write::Twin);
            }
            SettleReply::Settled => {
                self.tally.unsettled -= 1;
                self.finish(seq, Write::Settled);
            }
            SettleReply::Stale | SettleReply::Failed => {
                letter.lost += 1;
                letter.phase = Phase::Planned;
                if !twin {
                    letter.kind = Kind::Published;
                }
                if letter.lost < LOST {
                    self.claimable.insert(seq);
                } else {
                    self.give_up_settling(seq);
                }
            }
        }
    }

    /// Moved by a transaction: nothing is left to settle.
    pub(super) fn moved(&mut self, seq: Seq) {
        let group = self.letters.get(&seq).and_then(|letter| letter.group);
        self.errors = 0;
        self.tally.moved += 1;
        self.finish(seq, Write::Settled);
        self.arrived(seq, group);
    }

    /// The claim was lost inside a transaction; nothing happened.
    pub(super) fn lost(&mut self, seq: Seq) {
        self.hand.remove(seq);
        let Some(letter) = self.letters.get_mut(&seq) else { return };
        letter.lost += 1;
        letter.phase = Phase::Planned;
        let (group, over) = (letter.group, letter.lost >= LOST);
        if let Some(group) = group {
            self.lanes.back(group, seq);
        }
        if over {
            self.missing(seq, Absent::Other);
        } else {
            self.claimable.insert(seq);
        }
    }

    /// Back before the send: what it was before the intent.
    fn withdraw(&mut self, seq: Seq) {
        let Some(letter) = self.letters.get_mut(&seq) else { return };
        letter.attempt = letter.attempt.saturating_sub(1);
        if letter.open {
            self.doubt(seq);
        } else {
            self.pending.push((seq, Write::Planned));
            self.back_to_claimed(seq);
        }
    }

    /// In flight before, in our hands now; or held, if its group is by now.
    pub(super) fn back_to_claimed(&mut self, seq: Seq) {
        let Some(letter) = self.letters.get(&seq) else { return };
        let (group, open) = (letter.group, letter.open);
        if let Some(group) = group {
            if let Some(behind) = self.lanes.held_behind(group) {
                self.letters.remove(&seq);
                self.give_back(seq);
                self.bar(seq, behind, open);
                return;
            }
            self.lanes.back(group, seq);
        }
        self.set_phase(seq, Phase::Claimed);
        if group.is_none_or(|group| self.lanes.open(group, seq)) {
            self.ready.insert(seq);
        }
    }

    pub(super) fn all_back(&mut self, batch: &[Seq]) {
        for seq in batch.iter().rev() {
            self.back_to_claimed(*seq);
        }
        // Only the first of each group may go; its followers came back before it.
        let ready: Vec<Seq> = self.ready.iter().collect();
        for seq in ready {
            let group = self.letters.get(&seq).and_then(|letter| letter.group);
            if group.is_some_and(|group| !self.lanes.open(group, seq)) {
                self.ready.remove(seq);
            }
        }
        let groups: Vec<GroupKey> =
            batch.iter().filter_map(|seq| self.letters.get(seq).and_then(|l| l.group)).collect();
        for group in groups {
            self.consider_ready(group);
        }
    }

    /// Nobody can say whether it arrived: named, and its group is held.
    pub(super) fn doubt(&mut self, seq: Seq) {
        let group = self.letters.get(&seq).and_then(|letter| letter.group);
        self.error();
        self.tally.in_doubt += 1;
        self.finish(seq, Write::InDoubt);
        self.hold(group, seq);
    }

    /// The letter has an outcome: out of the window, its claim given back unless it is settled.
    pub(super) fn finish(&mut self, seq: Seq, write: Write) {
        self.pending.push((seq, write));
        self.letters.remove(&seq);
        self.ready.remove(seq);
        self.claimable.remove(seq);
        self.to_settle.remove(seq);
        let left = [Write::Settled, Write::TakenAsGone, Write::Twin, Write::Gone, Write::MovedBefore];
        if left.contains(&write) {
            self.hand.remove(seq);
        } else {
            self.give_back(seq);
        }
        if self.with_twins.contains(&seq) && !self.arrived_twins.contains(&seq) && write != Write::Settled {
            self.with_twins.remove(&seq);
        }
    }

    fn give_back(&mut self, seq: Seq) {
        if self.hand.contains(seq) {
            self.release.push(seq);
        }
    }

    /// Moved, but its original could not be removed: said so, and the run stays resumable.
    pub(super) fn give_up_settling(&mut self, seq: Seq) {
        let twin = self.letters.get(&seq).is_some_and(|letter| matches!(letter.kind, Kind::Twin { .. }));
        self.letters.remove(&seq);
        self.claimable.remove(seq);
        self.to_settle.remove(seq);
        if twin {
            self.tally.not_seen += 1;
            self.pending.push((seq, Write::NotSeen { gone: false }));
        }
    }

    fn arrived(&mut self, seq: Seq, group: Option<GroupKey>) {
        if let Some(group) = group {
            self.lanes.arrived(group);
            self.lane_moved_on(group);
        }
        self.note_arrived(seq);
    }

    pub(super) fn leave(&mut self, seq: Seq, group: Option<GroupKey>) {
        if let Some(group) = group {
            self.lanes.leave(group, seq);
            self.lane_moved_on(group);
        }
    }

    fn lane_moved_on(&mut self, group: GroupKey) {
        self.consider_ready(group);
        if !self.whole_batches() {
            for depth in 0..DEPTH {
                let Some(seq) = self.lanes.at(group, depth) else { break };
                self.consider_claim(seq);
            }
        }
    }

    fn consider_ready(&mut self, group: GroupKey) {
        if let Some(first) = self.lanes.first(group)
            && self.letters.get(&first).is_some_and(|letter| letter.phase == Phase::Claimed)
        {
            self.ready.insert(first);
        }
    }

    /// Twins of a letter that has arrived may be settled, and what stands behind them may follow.
    pub(super) fn note_arrived(&mut self, seq: Seq) {
        if !self.with_twins.contains(&seq) {
            return;
        }
        self.arrived_twins.insert(seq);
        for (twin, of) in self.waiting_twins() {
            if of == seq {
                self.claimable.insert(twin);
                let group = self.letters.get_mut(&twin).and_then(|letter| letter.group.take());
                self.leave(twin, group);
            }
        }
    }

    /// In order.
    fn waiting_twins(&self) -> Vec<(Seq, Seq)> {
        let waits =
            |letter: &Letter| letter.phase == Phase::Planned && matches!(letter.kind, Kind::Twin { .. });
        let of = |seq: Seq| match self.letters.get(&seq)?.kind {
            Kind::Twin { of } => Some((seq, of)),
            _ => None,
        };
        self.letters.sorted(waits).into_iter().filter_map(of).collect()
    }

    /// Twins of letters that did not arrive: held, for nothing was sent for them, with what stands behind them.
    pub(super) fn bar_twins(&mut self) {
        for (seq, of) in self.waiting_twins() {
            if self.arrived_twins.contains(&of) {
                continue;
            }
            // One behind another of them is held by now.
            let Some(letter) = self.letters.remove(&seq) else { continue };
            self.write_held(seq, of);
            self.hold(letter.group, seq);
        }
    }

    /// A run that stops will not send again what has no answer: in doubt (I7: none stays intended).
    pub(super) fn doubt_open_tries(&mut self) {
        let open = self
            .letters
            .sorted(|letter| letter.open && matches!(letter.phase, Phase::Planned | Phase::Claimed));
        for seq in open {
            if self.letters.contains_key(&seq) {
                self.doubt(seq);
            }
        }
    }

    /// Holds a group from `behind` on; those that wait get their outcome now.
    pub(super) fn hold(&mut self, group: Option<GroupKey>, behind: Seq) {
        let Some(group) = group else { return };
        for seq in self.lanes.hold(group, behind) {
            let open = self.letters.remove(&seq).is_some_and(|letter| letter.open);
            self.ready.remove(seq);
            self.claimable.remove(seq);
            self.give_back(seq);
            self.bar(seq, behind, open);
        }
        if mutated("m09") {
            self.lane_moved_on(group);
        }
        if self.lanes.held_groups() > HELD_GROUPS {
            self.stop(Stop::Errors);
        }
    }

    pub(super) fn hold_from_earlier_part(&mut self, group: Option<GroupKey>, seq: Seq) {
        if !mutated("m16") {
            self.hold(group, seq);
        }
    }

    /// A letter that may not go because of `behind`. With a try that has no answer it is in doubt (protocol
    /// §1: "or an earlier letter of its group open").
    pub(super) fn bar(&mut self, seq: Seq, behind: Seq, open: bool) {
        if open {
            self.tally.in_doubt += 1;
            self.pending.push((seq, Write::InDoubt));
        } else {
            self.write_held(seq, behind);
        }
    }

    pub(super) fn write_held(&mut self, seq: Seq, behind: Seq) {
        self.tally.held += 1;
        self.pending.push((seq, Write::Held { behind }));
    }

    pub(super) fn set_phase(&mut self, seq: Seq, phase: Phase) -> bool {
        self.letters.get_mut(&seq).map(|letter| letter.phase = phase).is_some()
    }

    pub(super) fn error(&mut self) {
        self.errors += 1;
        if self.rules.max_errors > 0 && self.errors >= self.rules.max_errors {
            self.stop(Stop::Errors);
        }
    }

    pub(super) fn one_more_transient(&mut self) {
        if !self.backoff {
            self.transient += 1;
        }
        self.backoff = true;
    }
}
