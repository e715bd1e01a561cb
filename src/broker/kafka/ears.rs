//! Partitions of a tier that a relay was given and hears nothing of, although messages lie there: the client can lose
//! sight of one without a word, most of all while a broker comes back, and its group is well meanwhile. A reader of
//! its own proves that something lies there; if the relay still hears nothing, its consumer is made anew.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Topic and number.
pub(super) type Partition = (String, i32);

/// After so long without a message another reader looks, if the group's offsets leave any behind.
const QUIET: Duration = Duration::from_secs(5);
/// So long a message is known to lie there before the consumer counts as deaf. A client that has lost its broker may
/// wait for ten seconds before it tries again.
pub(super) const DEAF: Duration = Duration::from_secs(15);

/// What is known of one partition.
#[derive(Debug, Default)]
struct Ear {
    /// Since when everything that had come was taken, and nothing came after it.
    quiet: Option<Instant>,
    /// When another reader first found something, and the first offset.
    proof: Option<(Instant, i64)>,
}

/// The partitions that this relay has.
#[derive(Debug, Default)]
pub(super) struct Ears(BTreeMap<Partition, Ear>);

impl Ears {
    /// A partition came: nothing is known of it.
    pub(super) fn given(&mut self, partition: Partition) {
        self.0.insert(partition, Ear::default());
    }

    /// A partition went.
    pub(super) fn lost(&mut self, partition: &Partition) {
        self.0.remove(partition);
    }

    /// A message came.
    pub(super) fn heard(&mut self, partition: &Partition) {
        if let Some(ear) = self.0.get_mut(partition) {
            *ear = Ear::default();
        }
    }

    /// Nothing that has come waits any more: silence begins where it has not begun.
    pub(super) fn silence(&mut self) {
        let now = Instant::now();
        for ear in self.0.values_mut() {
            ear.quiet.get_or_insert(now);
        }
    }

    /// They are read from another place on.
    pub(super) fn anew(&mut self) {
        self.0.values_mut().for_each(|ear| *ear = Ear::default());
    }

    /// Every one of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Partition> {
        self.0.keys()
    }

    /// Of which nothing came for a while.
    pub(super) fn quiet(&self) -> impl Iterator<Item = &Partition> {
        let quiet = |ear: &Ear| ear.quiet.is_some_and(|since| since.elapsed() >= QUIET);
        self.0.iter().filter(move |(_, ear)| quiet(ear)).map(|(partition, _)| partition)
    }

    /// What another reader found first behind the group's offset, beginning at `looked`: if anything.
    pub(super) fn found(&mut self, partition: &Partition, offset: Option<i64>, looked: Instant) {
        let Some(ear) = self.0.get_mut(partition) else { return };
        // What came meanwhile may be what was found.
        if ear.quiet.is_none_or(|since| since > looked) {
            return;
        }
        match offset {
            None => ear.proof = None,
            // Of several looks the first counts.
            Some(offset) => _ = ear.proof.get_or_insert((looked, offset)),
        }
    }

    /// One that is deaf, and the offset that should have come.
    pub(super) fn deaf(&self) -> Option<(&Partition, i64)> {
        let proof = |ear: &Ear| ear.proof.filter(|(since, _)| since.elapsed() >= DEAF);
        self.0.iter().find_map(|(partition, ear)| proof(ear).map(|(_, offset)| (partition, offset)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// As if it had all been so much longer ago.
    fn later(ears: &mut Ears, by: Duration) {
        for ear in ears.0.values_mut() {
            ear.quiet = ear.quiet.and_then(|at| at.checked_sub(by));
            ear.proof = ear.proof.and_then(|(at, offset)| Some((at.checked_sub(by)?, offset)));
        }
    }

    fn two() -> (Ears, Partition, Partition) {
        let (a, b) = (("t".to_owned(), 0), ("t".to_owned(), 1));
        let mut ears = Ears::default();
        ears.given(a.clone());
        ears.given(b.clone());
        ears.silence();
        (ears, a, b)
    }

    #[test]
    fn a_partition_is_deaf_once_something_was_known_to_lie_there_for_long_enough() {
        let (mut ears, a, b) = two();
        assert_eq!(ears.quiet().count(), 0);
        later(&mut ears, QUIET);
        assert_eq!(ears.quiet().collect::<Vec<_>>(), [&a, &b]);
        ears.found(&a, Some(7), Instant::now());
        ears.found(&b, None, Instant::now());
        later(&mut ears, DEAF / 2);
        // A later look finds the same, and changes nothing.
        ears.found(&a, Some(7), Instant::now());
        assert_eq!(ears.deaf(), None);
        later(&mut ears, DEAF / 2);
        assert_eq!(ears.deaf(), Some((&a, 7)));
    }

    #[test]
    fn what_is_heard_of_again_is_not_deaf_whatever_a_look_that_began_before_it_found() {
        let (mut ears, a, b) = two();
        later(&mut ears, QUIET);
        let looked = Instant::now();
        ears.heard(&a);
        ears.silence();
        ears.found(&a, Some(7), looked);
        ears.found(&b, Some(3), looked);
        ears.lost(&b);
        later(&mut ears, 2 * DEAF);
        assert_eq!(ears.deaf(), None);
        ears.found(&a, Some(8), Instant::now());
        ears.anew();
        later(&mut ears, 2 * DEAF);
        assert_eq!(ears.deaf(), None);
        assert_eq!(ears.quiet().count(), 0);
    }
}
