//! Claims: which letters to take next, what a claim gave, and what it did not.

use super::{Absent, Action, DEPTH, Kind, Machine, Phase, Seq, Write};
use crate::proof::mutation::mutated;

impl Machine {
    /// The next claim, if there is room for one and the batch is not full without it.
    pub(super) fn claim(&mut self, more: bool) -> Option<Action> {
        let room = self.claims.saturating_sub(self.hand.len());
        let enough = self.ready.len() >= self.rules.batch.max(self.claims / 2);
        if self.claimable.is_empty() || room == 0 || enough || self.dry_claims {
            return None;
        }
        // A handful of claims is not worth a round trip while there is something to send.
        if more && !self.ready.is_empty() && room < self.rules.batch / 2 {
            return None;
        }
        let mut asked = Vec::new();
        while asked.len() < room {
            let Some(seq) = self.claimable.pop_first() else { break };
            if self.set_phase(seq, Phase::Claiming) {
                asked.push(seq);
            }
        }
        (!asked.is_empty()).then_some(Action::Claim(asked))
    }

    pub(super) fn missing(&mut self, seq: Seq, why: Absent) {
        let Some(letter) = self.letters.get(&seq) else { return };
        let (group, kind, open) = (letter.group, letter.kind, letter.open);
        let accepted = why == Absent::NotSeen && self.rules.accept_gone;
        let gone =
            matches!(why, Absent::Gone | Absent::MovedBefore) || (why == Absent::NotSeen && mutated("m15"));
        match kind {
            // Moved before; the original is gone, or is not shown to us.
            Kind::Published if gone || why == Absent::Moved => {
                self.tally.unsettled -= 1;
                self.finish(seq, Write::Settled);
            }
            Kind::Published if accepted => {
                self.tally.unsettled -= 1;
                self.tally.taken_as_gone += 1;
                self.finish(seq, Write::TakenAsGone);
            }
            Kind::Published => {
                self.tally.unseen += u64::from(why == Absent::NotSeen);
                self.give_up_settling(seq);
            }
            Kind::Twin { .. } if gone || accepted || why == Absent::Moved => {
                self.tally.skipped += 1;
                self.finish(seq, Write::Gone);
            }
            Kind::Send if why == Absent::Moved => {
                self.tally.moved += 1;
                self.finish(seq, Write::Settled);
                self.leave(seq, group);
                self.note_arrived(seq);
            }
            Kind::Send if open && !mutated("m28") => self.doubt(seq),
            // Where it should be, by another run: those behind it may follow.
            Kind::Send if why == Absent::MovedBefore => {
                self.tally.skipped += 1;
                self.finish(seq, Write::MovedBefore);
                self.leave(seq, group);
            }
            Kind::Send if accepted || gone && (self.rules.allow_gone || mutated("m15")) => {
                self.tally.skipped += 1;
                self.finish(seq, Write::Gone);
                self.leave(seq, group);
            }
            Kind::Send | Kind::Twin { .. } => {
                let gone = why == Absent::Gone;
                self.tally.not_seen += 1;
                self.tally.gone += u64::from(gone);
                self.finish(seq, Write::NotSeen { gone });
                self.hold(group, seq);
            }
        }
    }

    pub(super) fn take_in_hand(&mut self, seq: Seq) {
        self.hand.insert(seq);
        let Some(letter) = self.letters.get(&seq) else {
            self.release.push(seq);
            return;
        };
        if !matches!(letter.phase, Phase::Planned | Phase::Claiming) {
            return;
        }
        let (kind, group) = (letter.kind, letter.group);
        self.claimable.remove(seq);
        match kind {
            // What came again under a new receipt is no new letter (m18).
            Kind::Published if mutated("m18") => {
                self.set_phase(seq, Phase::Claimed);
                self.ready.insert(seq);
            }
            Kind::Published | Kind::Twin { .. } => {
                self.set_phase(seq, Phase::Published);
                self.to_settle.insert(seq);
            }
            Kind::Send => {
                self.set_phase(seq, Phase::Claimed);
                if group.is_none_or(|group| self.lanes.open(group, seq)) {
                    self.ready.insert(seq);
                }
            }
        }
    }

    /// A claim that is not good for a send any more is claimed again.
    pub(super) fn claim_ran_out(&mut self, seq: Seq) {
        if self.letters.get(&seq).is_some_and(|letter| letter.phase == Phase::Claimed) {
            self.set_phase(seq, Phase::Planned);
            self.ready.remove(seq);
            self.hand.remove(seq);
            self.claimable.insert(seq);
        }
    }

    /// May be claimed now, if it is near enough to the front of its lane.
    pub(super) fn consider_claim(&mut self, seq: Seq) {
        let Some(letter) = self.letters.get(&seq) else { return };
        // A twin is claimed once the other one has arrived, whatever its place.
        if letter.phase != Phase::Planned || matches!(letter.kind, Kind::Twin { .. }) {
            return;
        }
        let near = match letter.group {
            Some(group) if !self.whole_batches() => {
                (0..DEPTH).any(|depth| self.lanes.at(group, depth) == Some(seq))
            }
            _ => true,
        };
        if near {
            self.claimable.insert(seq);
        }
    }

    /// All our claims are of letters that wait for one that we could not claim: give some back for it.
    pub(super) fn make_room(&mut self) -> Option<Action> {
        if self.claimable.is_empty() || self.dry_claims {
            return None;
        }
        let back: Vec<Seq> = self
            .hand
            .iter()
            .rev()
            .filter(|seq| self.letters.get(seq).is_some_and(|letter| letter.phase == Phase::Claimed))
            .take(self.claims.div_ceil(2))
            .collect();
        for seq in &back {
            self.set_phase(*seq, Phase::Planned);
            self.consider_claim(*seq);
        }
        (!back.is_empty()).then_some(Action::Release(back))
    }
}
