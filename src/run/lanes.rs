//! Order within groups (rule 5, protocol §3): a pure state machine that knows only numbers.
//!
//! A letter may go when every earlier letter of its group that the run knows of is through, nothing of the
//! group is in flight, and the group is not held. A held group stays held for the rest of the run.

use std::collections::VecDeque;

use super::numbered::Numbered;
use crate::proof::mutation::mutated;

/// A letter's number in the manifest; within a group a smaller one goes first.
pub type Seq = u64;

/// A group, by a hash of its key. Two keys of one hash share a lane, which costs speed and never order.
pub type GroupKey = u64;

/// The lanes of the letters that are in the engine's window.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Lanes {
    lanes: Numbered<Lane>,
    held: Numbered<Seq>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Lane {
    /// In order; a letter enters behind the others and leaves at the front, but for rare cases.
    waiting: VecDeque<Seq>,
    flying: u32,
}

impl Lane {
    fn enter(&mut self, seq: Seq) {
        if self.waiting.back().is_none_or(|last| *last < seq) {
            self.waiting.push_back(seq);
        } else if let Err(at) = self.waiting.binary_search(&seq) {
            self.waiting.insert(at, seq);
        }
    }

    fn leave(&mut self, seq: Seq) -> bool {
        let place = match self.waiting.front() {
            Some(first) if *first == seq => Ok(0),
            _ => self.waiting.binary_search(&seq),
        };
        place.is_ok_and(|at| self.waiting.remove(at).is_some())
    }
}

impl Lanes {
    /// A letter enters behind those of its group that are there. `Err` names the letter that holds the group.
    pub fn join(&mut self, group: GroupKey, seq: Seq) -> Result<(), Seq> {
        if let Some(behind) = self.held_behind(group) {
            return Err(behind);
        }
        self.lanes.entry(group).or_default().enter(seq);
        Ok(())
    }

    /// The letter that a group is held behind, if it is held.
    pub fn held_behind(&self, group: GroupKey) -> Option<Seq> {
        self.held.get(&group).copied()
    }

    /// How many groups are held.
    pub fn held_groups(&self) -> usize {
        self.held.len()
    }

    /// May this letter go now?
    pub fn open(&self, group: GroupKey, seq: Seq) -> bool {
        self.follows(group, seq, 0)
    }

    /// May this letter go right behind `in_batch` letters of its group, which go in the same atomic batch
    /// and are all of the group that is in flight?
    pub fn follows(&self, group: GroupKey, seq: Seq, in_batch: u32) -> bool {
        self.lanes.get(&group).is_some_and(|lane| {
            lane.waiting.front() == Some(&seq) && lane.flying == in_batch && !self.held.contains_key(&group)
        })
    }

    /// The next letter of a group.
    pub fn first(&self, group: GroupKey) -> Option<Seq> {
        self.lanes.get(&group)?.waiting.front().copied()
    }

    /// The letter at `depth` places from the front, from 0.
    pub fn at(&self, group: GroupKey, depth: usize) -> Option<Seq> {
        self.lanes.get(&group)?.waiting.get(depth).copied()
    }

    /// The letters of a group that wait, in order.
    pub fn iter_waiting(&self, group: GroupKey) -> impl Iterator<Item = Seq> + '_ {
        self.lanes.get(&group).into_iter().flat_map(|lane| lane.waiting.iter().copied())
    }

    /// A letter leaves the front and is in flight.
    pub fn depart(&mut self, group: GroupKey, seq: Seq) {
        if let Some(lane) = self.lanes.get_mut(&group)
            && lane.leave(seq)
        {
            lane.flying += 1;
        }
    }

    /// A letter in flight is where it was before: it was not sent, or was refused for a while.
    pub fn back(&mut self, group: GroupKey, seq: Seq) {
        if let Some(lane) = self.lanes.get_mut(&group) {
            lane.flying = lane.flying.saturating_sub(1);
            lane.enter(seq);
        }
    }

    /// A letter in flight has arrived: the next of its group may go.
    pub fn arrived(&mut self, group: GroupKey) {
        if let Some(lane) = self.lanes.get_mut(&group) {
            lane.flying = lane.flying.saturating_sub(1);
            self.sweep(group);
        }
    }

    /// A letter that waits is through without having been sent: it is gone, or it has arrived before.
    pub fn leave(&mut self, group: GroupKey, seq: Seq) {
        if let Some(lane) = self.lanes.get_mut(&group) {
            lane.leave(seq);
            self.sweep(group);
        }
    }

    /// Holds a group from `behind` on; gives its waiting letters, which will not be sent in this run. A
    /// letter in flight is done with by its own answer.
    pub fn hold(&mut self, group: GroupKey, behind: Seq) -> Vec<Seq> {
        if mutated("m09") {
            self.leave(group, behind);
            self.arrived(group);
            return Vec::new();
        }
        self.held.entry(group).or_insert(behind);
        let Some(lane) = self.lanes.remove(&group) else { return Vec::new() };
        lane.waiting.into_iter().filter(|seq| *seq != behind).collect()
    }

    fn sweep(&mut self, group: GroupKey) {
        if self.lanes.get(&group).is_some_and(|lane| lane.waiting.is_empty() && lane.flying == 0) {
            self.lanes.remove(&group);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn one_in_flight_and_in_order() {
        let mut lanes = Lanes::default();
        for seq in [3, 1, 2] {
            lanes.join(7, seq).unwrap();
        }
        assert!(lanes.open(7, 1) && !lanes.open(7, 2));
        lanes.depart(7, 1);
        assert!(!lanes.open(7, 2), "one unit in flight");
        assert!(lanes.follows(7, 2, 1), "but behind it in one atomic batch");
        lanes.back(7, 1);
        assert!(lanes.open(7, 1) && !lanes.open(7, 2));
        lanes.depart(7, 1);
        lanes.arrived(7);
        assert!(lanes.open(7, 2));
    }

    #[test]
    fn a_held_group_stays_held_and_names_the_letter() {
        let mut lanes = Lanes::default();
        lanes.join(7, 1).unwrap();
        lanes.join(7, 2).unwrap();
        lanes.join(8, 3).unwrap();
        lanes.depart(7, 1);
        assert_eq!(lanes.hold(7, 1), vec![2]);
        assert_eq!(lanes.join(7, 4), Err(1));
        assert!(lanes.open(8, 3), "other groups go on");
        assert_eq!(lanes.held_groups(), 1);
    }
}
