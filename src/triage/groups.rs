//! Counting groups, and in how many buckets each has letters, in bounded memory.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// Most groups that are told apart. Just under a doubling of the table, which is what memory goes by.
const MOST: usize = 900_000;
/// Most pairs of a group and a further bucket.
const MOST_PAIRS: usize = 400_000;

/// Groups by 64 bits of a keyed hash: of a million, two look the same once in thirty million looks.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    hasher: RandomState,
    /// Group → the first bucket it was seen in.
    first: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    /// Group and bucket, for buckets after the first.
    pairs: HashSet<(u64, u32)>,
    /// Groups that are in more than one bucket.
    shared: HashSet<u64, BuildHasherDefault<Hashed>>,
    /// Is a group in more than two?
    more_than_two: bool,
    full: bool,
}

/// What is a keyed hash already is not hashed again.
#[derive(Debug, Clone, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Groups {
    /// Notes a letter of `group` in `bucket`. Is the group new to that bucket?
    pub fn note(&mut self, group: &str, bucket: u32) -> bool {
        let group = self.hasher.hash_one(group);
        let room = self.first.len() < MOST;
        match self.first.entry(group) {
            Entry::Occupied(first) if *first.get() == bucket => false,
            Entry::Occupied(_) => {
                if self.pairs.len() >= MOST_PAIRS && !self.pairs.contains(&(group, bucket)) {
                    self.full = true;
                    return false;
                }
                let new = self.pairs.insert((group, bucket));
                if !self.shared.insert(group) && new {
                    self.more_than_two = true;
                }
                new
            }
            Entry::Vacant(vacant) if room => {
                vacant.insert(bucket);
                true
            }
            Entry::Vacant(_) => {
                self.full = true;
                false
            }
        }
    }

    /// How many groups were seen; at least that many, once [`Groups::is_full`].
    pub fn count(&self) -> u64 {
        self.first.len() as u64
    }

    /// How many of them are in more than one bucket, and whether one is in more than two.
    pub fn shared(&self) -> (u64, bool) {
        (self.shared.len() as u64, self.more_than_two)
    }

    /// Were there more than could be told apart?
    pub fn is_full(&self) -> bool {
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_once_per_bucket_and_once_in_all() {
        let mut groups = Groups::default();
        assert!(groups.note("a", 0) && !groups.note("a", 0) && groups.note("a", 1) && !groups.note("a", 1));
        assert!(groups.note("b", 1));
        assert_eq!((groups.count(), groups.shared()), (2, (1, false)));
        assert!(groups.note("a", 2));
        assert_eq!((groups.shared(), groups.is_full()), ((1, true), false));
    }
}
