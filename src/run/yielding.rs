//! A run yields to the relay of its own target (rule 3): live retries drain before dead letters go back. Pure.
//!
//! While messages are overdue in the tiers that return to the run's target, the run sends nothing, for
//! [`LONGEST`] at a time; then it has a turn of its own, so that it always ends. Where nothing was carried
//! meanwhile, nobody serves the tiers, and the run does not wait for nobody.

use std::time::Duration;

/// A message that is overdue for less than this is on its way: a relay that keeps up is not waited for.
pub const GRACE: Duration = Duration::from_millis(100);
/// How often the tiers are asked.
pub const EVERY: Duration = Duration::from_millis(250);
/// The longest that a run stands back at a time.
pub const LONGEST: Duration = Duration::from_secs(5);
/// Its own turn after that.
const TURN: Duration = Duration::from_secs(1);
/// Its own turn where nobody carried anything meanwhile.
const UNSERVED: Duration = Duration::from_secs(60);

/// Whether a run stands back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Yielding {
    /// Since when, and how many were overdue then.
    since: Option<(Duration, u64)>,
    /// Its own turn lasts until then.
    turn_until: Duration,
    /// Time that it stood back before.
    before: Duration,
}

impl Yielding {
    /// So many messages are overdue now. Does the run stand back?
    pub fn told(&mut self, now: Duration, overdue: u64) -> bool {
        match self.since {
            _ if overdue == 0 => {
                self.end(now);
                self.turn_until = Duration::ZERO;
                false
            }
            None if now < self.turn_until => false,
            None => {
                self.since = Some((now, overdue));
                true
            }
            Some((since, _)) if now.saturating_sub(since) < LONGEST => true,
            Some((_, first)) => {
                self.end(now);
                self.turn_until = now + if overdue < first { TURN } else { UNSERVED };
                false
            }
        }
    }

    /// Does it stand back?
    pub fn yields(&self) -> bool {
        self.since.is_some()
    }

    /// How long it has stood back in all.
    pub fn total(&self, now: Duration) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |(since, _)| now.saturating_sub(since))
    }

    fn end(&mut self, now: Duration) {
        self.before = self.total(now);
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn stands_back_while_the_relay_has_work_and_goes_on_at_once_after_it() {
        let mut yielding = Yielding::default();
        assert!(!yielding.told(at(0), 0));
        assert!(yielding.told(at(250), 40) && yielding.told(at(500), 10));
        assert!(!yielding.told(at(750), 0), "nothing is left to wait for");
        assert!(yielding.told(at(1_000), 1), "and again");
        assert_eq!(yielding.total(at(1_250)), at(750));
    }

    #[test]
    fn has_a_turn_of_its_own_so_that_it_ends() {
        let mut yielding = Yielding::default();
        let (mut sends, mut overdue) = (0, 1_000);
        for step in 0..240 {
            overdue -= 1;
            sends += u32::from(!yielding.told(at(step * 250), overdue));
        }
        // A minute: a turn of one second in six.
        assert!((40..=60).contains(&sends), "{sends} of 240 looks were its own");
    }

    #[test]
    fn does_not_wait_for_nobody() {
        let mut yielding = Yielding::default();
        let waits = (0..240).filter(|step| yielding.told(at(step * 250), 7)).count();
        assert_eq!(waits, 20, "five seconds, then never within the minute");
    }
}
