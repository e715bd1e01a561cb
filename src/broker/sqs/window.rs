//! How many letters of a FIFO queue are worth holding at once. Calls side by side bring more, unless the queue takes the
//! longer for each receive the more is held, as ElasticMQ's does: with 80 held three times as long as with ten. So a run
//! begins with few, and doubles them as long as a letter then takes no longer than before.

use std::time::Duration;

use super::kind::{FIFO_CLAIMS, IN_A_CALL};

/// Held at the start: two answers.
const FIRST: usize = 2 * IN_A_CALL;
/// Letters received per step before it is judged, in multiples of what the step holds.
const ENOUGH: usize = 3;

/// Times as long as before that a letter takes where holding more does harm; less is chance.
const SLOWER: f64 = 1.05;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Window {
    most: usize,
    /// Letters that came while so many were held, and how long they took.
    came: usize,
    took: Duration,
    /// How long a letter took in the step before, in seconds.
    before: Option<f64>,
    found: bool,
}

impl Window {
    /// Of a queue; others than FIFO queues have no window.
    pub(super) fn of(fifo: bool) -> Self {
        let most = if fifo { FIRST } else { usize::MAX };
        Self { most, came: 0, took: Duration::ZERO, before: None, found: !fifo }
    }

    /// Letters to hold at most.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// So many were asked for and came in one go.
    pub(super) fn told(&mut self, asked: usize, came: usize, took: Duration) {
        // Fewer than the window allows say nothing about it.
        if self.found || came == 0 || 2 * asked < self.most {
            return;
        }
        (self.came, self.took) = (self.came + came, self.took + took);
        if self.came < ENOUGH * self.most {
            return;
        }
        let each = self.took.as_secs_f64() / self.came as f64;
        (self.came, self.took) = (0, Duration::ZERO);
        if self.before.is_some_and(|before| each > before * SLOWER) {
            self.most = (self.most / 2).max(FIRST);
            self.found = true;
        } else if self.most >= FIFO_CLAIMS {
            self.found = true;
        } else {
            self.before = Some(each);
            self.most = (2 * self.most).min(FIFO_CLAIMS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run ends with on a queue whose receives of ten take so many milliseconds each, eight at once.
    fn found(milliseconds: impl Fn(usize) -> f64) -> usize {
        let mut window = Window::of(true);
        for _ in 0..100 {
            let held = window.most();
            window.told(held, held, Duration::from_secs_f64(milliseconds(held) / 1e3));
        }
        window.most()
    }

    #[test]
    fn few_are_held_where_holding_slows_receives_down_and_many_where_calls_go_side_by_side() {
        // One receive after the other, each the longer the more is held.
        assert_eq!(found(|held| (held / 10) as f64 * (2.0 + 0.2 * held as f64)), FIRST);
        // Eight at once, in 20 ms whatever is held.
        assert_eq!(found(|held| held.div_ceil(80) as f64 * 20.0), FIFO_CLAIMS);
        assert_eq!(Window::of(false).most(), usize::MAX);
    }
}
