//! How late messages were: a histogram of fixed size with 1.6 % resolution, for percentiles.

use std::time::Duration;

/// Values below this are kept to the millisecond; above, to a 64th of themselves.
const EXACT: u64 = 64;
/// One row of 32 buckets for each power of two above `EXACT`, up to about 50 days.
const ROWS: usize = 27;

/// Counts by lateness in milliseconds.
#[derive(Debug, Clone)]
pub struct Lateness {
    buckets: Box<[u64]>,
    count: u64,
    sum: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { buckets: vec![0; 64 + ROWS * 32].into_boxed_slice(), count: 0, sum: Duration::ZERO }
    }
}

impl Lateness {
    /// Counts one message.
    pub fn add(&mut self, late: Duration) {
        let index = bucket(u64::try_from(late.as_millis()).unwrap_or(u64::MAX)).min(self.buckets.len() - 1);
        self.buckets[index] += 1;
        self.count += 1;
        self.sum += late;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The lateness that `share` (0 to 1) of the messages did not exceed; zero if there were none.
    pub fn percentile(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among counts, not money"
        )]
        let rank = ((self.count as f64) * share).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Duration::from_millis(upper(index));
            }
        }
        Duration::ZERO
    }

    /// How many were at most this late, for cumulative buckets.
    pub fn at_most(&self, late: Duration) -> u64 {
        let limit = bucket(u64::try_from(late.as_millis()).unwrap_or(u64::MAX)).min(self.buckets.len() - 1);
        self.buckets[..=limit].iter().sum()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.count = 0;
        self.sum = Duration::ZERO;
    }
}

fn bucket(millis: u64) -> usize {
    if millis < EXACT {
        return usize::try_from(millis).unwrap_or(0);
    }
    let power = 63 - millis.leading_zeros();
    let row = power - 6;
    let step = (millis >> (power - 5)) & 31;
    64 + (row as usize) * 32 + usize::try_from(step).unwrap_or(0)
}

/// Largest value of a bucket.
fn upper(index: usize) -> u64 {
    if index < 64 {
        return index as u64;
    }
    let row = (index - 64) / 32;
    let step = ((index - 64) % 32) as u64;
    let power = row + 6;
    ((32 + step + 1) << (power - 5)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_thirty_second() {
        let mut lateness = Lateness::default();
        for millis in 1..=10_000u64 {
            lateness.add(Duration::from_millis(millis));
        }
        for (share, exact) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let got = lateness.percentile(share).as_millis() as f64;
            assert!((exact..=exact * 1.033).contains(&got), "{share}: {got}");
        }
        assert_eq!(lateness.count(), 10_000);
    }

    #[test]
    fn every_value_lies_in_its_bucket() {
        for millis in (0..5_000).chain([1 << 20, (1 << 31) + 7, 1 << 32]) {
            let index = bucket(millis);
            assert!(millis <= upper(index), "{millis} > {}", upper(index));
            assert!(index == 0 || millis > upper(index - 1), "{millis} in bucket {index}");
        }
    }

    #[test]
    fn none_is_zero() {
        assert_eq!(Lateness::default().percentile(0.99), Duration::ZERO);
    }
}
