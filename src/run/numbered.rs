//! Maps and sets by a letter's number or a group's. The letters in hand are asked for a dozen times each on their
//! way, so these find them in one step where the tree of the standard library needs several, and letters that
//! follow each other lie beside each other.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

/// A map by number, in no order.
#[derive(Debug, Clone)]
pub struct Numbered<T, S = Spread>(HashMap<u64, T, S>);

/// The same by a letter's number in the manifest: these are given out one after another, and handled in that order.
pub type Lined<T> = Numbered<T, Beside>;

/// Spreads numbers, from a beginning that nobody outside knows, so that nobody can choose numbers that collide.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread;

/// What has been spread so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spreading(u64);

/// Leaves numbers that follow each other beside each other: the next one is in the same line of the cache, or the
/// next. The map finds a place by the lowest bits, and tells those in it apart by the highest ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside;

/// A number and where it lies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Placed(u64);

static BEGINNING: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// 2^64 by the golden ratio: numbers that follow each other lie far apart.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl BuildHasher for Spread {
    type Hasher = Spreading;

    fn build_hasher(&self) -> Spreading {
        Spreading(*BEGINNING)
    }
}

impl Hasher for Spreading {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Both halves of the product together depend on every bit of both.
        let product = u128::from(self.0 ^ number) * u128::from(GOLDEN);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl BuildHasher for Beside {
    type Hasher = Placed;

    fn build_hasher(&self) -> Placed {
        Placed(0)
    }
}

impl Hasher for Placed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        const TOLD_APART: u64 = 0x7f << 57;
        let number = self.0 ^ number;
        self.0 = number & !TOLD_APART | number.wrapping_mul(GOLDEN) & TOLD_APART;
    }
}

impl<T, S: Default> Default for Numbered<T, S> {
    fn default() -> Self {
        Self(HashMap::with_hasher(S::default()))
    }
}

impl<T: PartialEq, S: BuildHasher> PartialEq for Numbered<T, S> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: Eq, S: BuildHasher> Eq for Numbered<T, S> {}

impl<T, S> std::ops::Deref for Numbered<T, S> {
    type Target = HashMap<u64, T, S>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T, S> std::ops::DerefMut for Numbered<T, S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T: Hash, S> Hash for Numbered<T, S> {
    /// Of what is in it, in whatever order it lies.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sum = self.0.iter().fold(0u64, |sum, entry| {
            let mut hasher = DefaultHasher::new();
            entry.hash(&mut hasher);
            sum.wrapping_add(hasher.finish())
        });
        (self.0.len(), sum).hash(state);
    }
}

impl<T, S> Numbered<T, S> {
    /// The numbers whose values are meant, in order.
    pub fn sorted(&self, meant: impl Fn(&T) -> bool) -> Vec<u64> {
        let mut numbers: Vec<u64> =
            self.0.iter().filter(|(_, value)| meant(value)).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// A set of numbers, in order; those near each other share a word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Numbers {
    words: BTreeMap<u64, u64>,
    len: usize,
}

impl Numbers {
    fn place(number: u64) -> (u64, u64) {
        (number / 64, 1 << (number % 64))
    }

    /// Puts one in; false if it is there.
    pub fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        let bits = self.words.entry(word).or_default();
        let new = *bits & bit == 0;
        *bits |= bit;
        self.len += usize::from(new);
        new
    }

    /// Takes one out; false if it is not there.
    pub fn remove(&mut self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        let Some(bits) = self.words.get_mut(&word) else { return false };
        let there = *bits & bit != 0;
        *bits &= !bit;
        if *bits == 0 {
            self.words.remove(&word);
        }
        self.len -= usize::from(there);
        there
    }

    /// Is it there?
    pub fn contains(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.words.get(&word).is_some_and(|bits| bits & bit != 0)
    }

    /// Takes the smallest one out.
    pub fn pop_first(&mut self) -> Option<u64> {
        let mut entry = self.words.first_entry()?;
        let number = entry.key() * 64 + u64::from(entry.get().trailing_zeros());
        let bits = entry.get_mut();
        *bits &= *bits - 1;
        if *bits == 0 {
            entry.remove();
        }
        self.len -= 1;
        Some(number)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// In order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.words.iter().flat_map(|(word, bits)| {
            let (word, bits) = (*word, *bits);
            (0..64).filter(move |at| bits & (1 << at) != 0).map(move |at| word * 64 + at)
        })
    }
}

impl Extend<u64> for Numbers {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, numbers: I) {
        for number in numbers {
            self.insert(number);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn digest(value: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        hasher.finish()
    }

    proptest! {
        #[test]
        fn a_set_is_what_the_tree_is(steps in prop::collection::vec((0..3u8, 0..200u64), 0..300)) {
            let (mut ours, mut tree) = (Numbers::default(), BTreeSet::new());
            for (step, number) in steps {
                match step {
                    0 => prop_assert_eq!(ours.insert(number), tree.insert(number)),
                    1 => prop_assert_eq!(ours.remove(number), tree.remove(&number)),
                    _ => prop_assert_eq!(ours.pop_first(), tree.pop_first()),
                }
                prop_assert_eq!(ours.len(), tree.len());
                prop_assert_eq!(ours.contains(number), tree.contains(&number));
            }
            prop_assert!(ours.iter().eq(tree.iter().copied()));
            prop_assert!(ours.iter().rev().eq(tree.iter().rev().copied()));
        }
    }

    #[test]
    fn two_maps_of_the_same_are_the_same_however_they_came_about() {
        let (mut one, mut other) = (Numbered::<u64>::default(), Numbered::default());
        for n in 0..100u64 {
            one.insert(n << 40, n);
            other.insert((99 - n) << 40, 99 - n);
        }
        other.insert(1, 1);
        assert_ne!(digest(&one), digest(&other));
        other.remove(&1);
        assert_eq!(one, other);
        assert_eq!(digest(&one), digest(&other));
        assert_eq!(one.sorted(|n| *n < 2), [0, 1 << 40]);
    }
}
