//! How the depth of dead-letter queues changed since earlier looks. What is remembered is small, bounded,
//! and hostile when read back: whatever does not fit is dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Time;

/// Most queues that are remembered.
const MOST_QUEUES: usize = 500;
/// Most looks per queue.
const MOST_LOOKS: usize = 64;
/// Looks closer to the one before are not remembered, so that `--watch` does not push out the hour.
const LEAST_BETWEEN: Duration = Duration::from_secs(60);
/// What a change is told against, if it is remembered.
const HOUR: Duration = Duration::from_secs(3_600);

/// Depths as they were looked at before, by queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Looks {
    /// Queue → looks, oldest first: when, and how many.
    #[serde(default)]
    queues: BTreeMap<String, Vec<(Time, u64)>>,
    /// Queue → letters that were received so often that the next receive moves them on: when, and how often.
    #[serde(default)]
    spent: BTreeMap<String, (Time, u64, u32)>,
}

/// A change since a look before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// When that was.
    pub since: Time,
    /// More, or fewer, letters than then.
    pub change: i64,
}

impl Looks {
    /// The change of `queue`, now `depth` deep: since the oldest look of the past hour, else since the last
    /// look before that.
    pub fn growth(&self, queue: &str, depth: u64, now: Time) -> Option<Growth> {
        let looks = self.queues.get(queue)?;
        let hour_ago = now.minus(HOUR + LEAST_BETWEEN);
        let in_hour = looks.iter().find(|(at, _)| *at >= hour_ago && *at < now);
        let (since, before) = in_hour.or_else(|| looks.iter().rev().find(|(at, _)| *at < now))?;
        let change = i64::try_from(depth).ok()?.checked_sub(i64::try_from(*before).ok()?)?;
        Some(Growth { since: *since, change })
    }

    /// Remembers a look.
    pub fn note(&mut self, queue: &str, depth: u64, now: Time) {
        if !self.queues.contains_key(queue) && self.queues.len() >= MOST_QUEUES {
            let stalest = self.queues.iter().min_by_key(|(_, looks)| looks.last().map(|(at, _)| *at));
            if let Some(name) = stalest.map(|(name, _)| name.clone()) {
                self.queues.remove(&name);
            }
        }
        let looks = self.queues.entry(queue.to_owned()).or_default();
        // A clock that was set back leaves looks of the future behind.
        looks.retain(|(at, _)| *at <= now);
        if looks.last().is_some_and(|(at, _)| now.since(*at) < LEAST_BETWEEN) {
            return;
        }
        looks.push((now, depth));
        let over = looks.len().saturating_sub(MOST_LOOKS);
        looks.drain(..over);
    }

    /// Remembers that a look has brought so many letters of `queue` to `receives`, after which the broker moves
    /// them on; none is worth no memory.
    pub fn note_spent(&mut self, queue: &str, letters: u64, receives: u32, now: Time) {
        self.spent.remove(queue);
        if letters > 0 {
            while self.spent.len() >= MOST_QUEUES {
                let stalest = self.spent.iter().min_by_key(|(_, (at, ..))| *at).map(|(name, _)| name.clone());
                self.spent.remove(&stalest.unwrap_or_default());
            }
            self.spent.insert(queue.to_owned(), (now, letters, receives));
        }
    }

    /// Letters of `queue` that the next receive moves on, if it still does so after as few receives.
    pub fn spent(&self, queue: &str, after: u32) -> Option<u64> {
        self.spent.get(queue).filter(|(_, _, receives)| *receives >= after).map(|(_, letters, _)| *letters)
    }

    /// Reads what [`Looks::to_text`] wrote; anything else is an empty memory.
    pub fn from_text(text: &str) -> Self {
        let mut looks: Self = serde_json::from_str(text).unwrap_or_default();
        for kept in looks.queues.values_mut() {
            kept.sort_unstable();
            let over = kept.len().saturating_sub(MOST_LOOKS);
            kept.drain(..over);
        }
        while looks.queues.len() > MOST_QUEUES {
            looks.queues.pop_last();
        }
        while looks.spent.len() > MOST_QUEUES {
            looks.spent.pop_last();
        }
        looks
    }

    /// As text to keep.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_seconds(1_000_000_000);

    fn ago(seconds: u64) -> Time {
        NOW.minus(Duration::from_secs(seconds))
    }

    #[test]
    fn growth_is_told_against_the_hour_and_else_against_the_last_look() {
        let mut looks = Looks::default();
        assert_eq!(looks.growth("q", 5, NOW), None);
        looks.note("q", 200, ago(9_000));
        assert_eq!(looks.growth("q", 59, NOW), Some(Growth { since: ago(9_000), change: -141 }));
        looks.note("q", 213, ago(3_600));
        looks.note("q", 100, ago(600));
        looks.note("q", 101, ago(590));
        assert_eq!(looks.growth("q", 59, NOW), Some(Growth { since: ago(3_600), change: -154 }));
        assert_eq!(Looks::from_text(&looks.to_text()), looks);
    }

    #[test]
    fn s24_letters_at_their_last_receive_are_remembered_until_the_limit_is_raised_or_they_are_gone() {
        let mut looks = Looks::default();
        looks.note_spent("q@1", 4, 3, NOW);
        assert_eq!(
            (looks.spent("q@1", 3), looks.spent("q@1", 4), looks.spent("q@2", 3)),
            (Some(4), None, None)
        );
        assert_eq!(Looks::from_text(&looks.to_text()), looks);
        looks.note_spent("q@1", 0, 3, NOW);
        assert_eq!(looks, Looks::default());
        for n in 0..1_000 {
            looks.note_spent(&format!("q{n}"), 1, 3, ago(1_000 - n));
        }
        assert_eq!(
            (looks.spent.len(), looks.spent("q999", 3), looks.spent("q0", 3)),
            (MOST_QUEUES, Some(1), None)
        );
    }

    #[test]
    fn memory_is_bounded_and_hostile_text_is_forgotten() {
        let mut looks = Looks::default();
        for n in 0..1_000u64 {
            looks.note(&format!("q{n}"), n, NOW);
            looks.note("q", n, ago(1_000_000 - n * 100));
        }
        assert!(looks.queues.len() <= MOST_QUEUES && looks.queues["q"].len() <= MOST_LOOKS);
        for text in ["", "{", "[]", "{\"queues\":3}", "{\"queues\":{\"q\":[[\"x\",1]]}}"] {
            assert_eq!(Looks::from_text(text), Looks::default(), "{text}");
        }
    }
}
