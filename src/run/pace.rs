//! How fast letters may go (rule 3): governor behind our clock, and a ramp before it.
//!
//! Any window of one second holds at most rate + burst, burst = max(2, rate / 50). A unit is half a burst, so
//! that a steady run waits for no more than half of what may pile up: what a claim, a commit or a late timer
//! takes of the time is made up for with the next unit, which is then larger, up to a burst (20 ms of the
//! rate). The only home of the governor crate.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::clock::Clock;
use crate::topology::Rate;

/// Our clock as governor sees it: time since this pace was made, so that a clock that started long ago
/// (or stands at zero) makes no difference.
#[derive(Clone)]
struct Ours {
    clock: Arc<dyn Clock>,
    origin: Duration,
}

impl governor::clock::Clock for Ours {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.clock.elapsed().saturating_sub(self.origin)
    }
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, Ours, NoOpMiddleware<Duration>>;

/// The pace of one run.
pub struct Pace {
    clock: Arc<dyn Clock>,
    limiter: Option<Limiter>,
    burst: u32,
    per_second: f64,
    ramp: Option<Ramp>,
    waiting: Option<Duration>,
    origin: Duration,
    /// When the unit that was asked for last will fit.
    fits_at: Option<Duration>,
}

/// The longest that a batch waits to become fuller.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

struct Ramp {
    began: Duration,
    over: Duration,
    sent: u64,
}

/// The burst of a rate: at most 20 ms of it, and never under 2.
pub fn burst_of(per_second: f64) -> u32 {
    // A rate beyond 2^31 is no bound at all; saturating is what `as` does.
    ((per_second / 50.0) as u32).max(2)
}

impl Pace {
    /// A pace of `rate`, reached over `ramp` from 1/s (or the rate, if that is less).
    pub fn new(rate: Rate, ramp: Duration, clock: Arc<dyn Clock>) -> Self {
        let origin = clock.elapsed();
        match rate {
            Rate::Unlimited => Self {
                clock,
                limiter: None,
                burst: u32::MAX,
                per_second: f64::INFINITY,
                ramp: None,
                waiting: None,
                origin,
                fits_at: None,
            },
            Rate::PerSecond(per_second) => {
                let burst = burst_of(per_second);
                let period = Duration::from_secs_f64((1.0 / per_second).clamp(1e-9, 1e9));
                let limiter = Quota::with_period(period).map(|quota| {
                    let quota = quota.allow_burst(NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN));
                    RateLimiter::direct_with_clock(quota, Ours { clock: Arc::clone(&clock), origin })
                });
                let ramp = (!ramp.is_zero()).then_some(Ramp { began: origin, over: ramp, sent: 0 });
                Self { clock, limiter, burst, per_second, ramp, waiting: None, origin, fits_at: None }
            }
        }
    }

    /// Permits for as many of `most` letters as may go now, taken at once.
    pub fn take(&mut self, most: usize) -> usize {
        let most = self.under_ramp(most);
        let taken = match &self.limiter {
            None => most,
            Some(limiter) => {
                // The largest number that fits; a burst is small, so halving finds it in a few steps.
                let mut taken = 0usize;
                let mut step = most.min(self.burst as usize);
                while step > 0 {
                    let n = u32::try_from(step).ok().and_then(NonZeroU32::new);
                    let fits = n.is_some_and(|n| matches!(limiter.check_n(n), Ok(Ok(()))));
                    if fits {
                        taken += step;
                        step = step.min(most - taken);
                    } else {
                        step /= 2;
                    }
                }
                taken
            }
        };
        if let Some(ramp) = &mut self.ramp {
            ramp.sent += taken as u64;
        }
        taken
    }

    /// Permits for a unit of `could` letters and for what has piled up beyond it, or for what there is once a
    /// batch has waited 50 ms for them (protocol §2).
    pub fn take_full(&mut self, could: usize) -> usize {
        let now = self.clock.elapsed();
        let since = *self.waiting.get_or_insert(now);
        let unit = self.take_unit(could.min(self.unit()));
        let taken = match unit {
            // And what has piled up beyond it, if the run was late.
            1.. => unit + self.take(could - unit),
            _ if now.saturating_sub(since) >= LONGEST_WAIT => self.take(could),
            _ => 0,
        };
        if taken > 0 {
            self.waiting = None;
        }
        taken
    }

    /// All of `unit` or none of it; then it is known when it will fit.
    fn take_unit(&mut self, unit: usize) -> usize {
        self.fits_at = None;
        if self.under_ramp(unit) < unit {
            return 0;
        }
        if let Some(limiter) = &self.limiter {
            let Some(n) = u32::try_from(unit).ok().and_then(NonZeroU32::new) else { return 0 };
            match limiter.check_n(n) {
                Ok(Ok(())) => {}
                Ok(Err(until)) => {
                    self.fits_at = Some(self.origin.saturating_add(until.earliest_possible()));
                    return 0;
                }
                Err(_) => return 0,
            }
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.sent += unit as u64;
        }
        unit
    }

    /// What a steady run waits for: half a burst. The other half is room for being late.
    fn unit(&self) -> usize {
        (self.burst / 2).max(1) as usize
    }

    /// How long until a unit of `want` letters may go: what to sleep before asking again; never over 50 ms,
    /// which is the longest that a batch waits to become fuller.
    pub fn pause(&self, want: usize) -> Duration {
        let shortest = Duration::from_micros(500);
        if let Some(at) = self.fits_at {
            return at.saturating_sub(self.clock.elapsed()).clamp(shortest, LONGEST_WAIT);
        }
        let want = want.clamp(1, self.unit());
        let per_second = self.now_per_second().max(0.001);
        Duration::from_secs_f64((want as f64 / per_second).clamp(0.0005, 0.05))
    }

    /// The rate at this moment, the ramp counted in.
    pub fn now_per_second(&self) -> f64 {
        match &self.ramp {
            None => self.per_second,
            Some(ramp) => {
                let t = self.clock.elapsed().saturating_sub(ramp.began).as_secs_f64();
                let over = ramp.over.as_secs_f64();
                let first = self.per_second.min(1.0);
                (first + (self.per_second - first) * (t / over).min(1.0)).min(self.per_second)
            }
        }
    }

    /// Letters that may go in one instant.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// While the ramp lasts no more has been sent than the area under it, and one.
    fn under_ramp(&mut self, most: usize) -> usize {
        let Some(ramp) = &self.ramp else { return most };
        let t = self.clock.elapsed().saturating_sub(ramp.began).as_secs_f64();
        let over = ramp.over.as_secs_f64();
        if t >= over {
            self.ramp = None;
            return most;
        }
        let first = self.per_second.min(1.0);
        let area = first * t + (self.per_second - first) * t * t / (2.0 * over);
        let allowed = (area as u64 + 1).saturating_sub(ramp.sent);
        most.min(usize::try_from(allowed).unwrap_or(usize::MAX))
    }
}

/// How long a run of `letters` takes at `rate`, ramp counted in; `None` without a bound.
pub fn time_for(letters: u64, rate: Rate, ramp: Duration) -> Option<Duration> {
    let Rate::PerSecond(per_second) = rate else { return None };
    let over = ramp.as_secs_f64();
    let first = per_second.min(1.0);
    let in_ramp = (first + per_second) / 2.0 * over;
    let letters = letters as f64;
    let seconds = if letters >= in_ramp {
        over + (letters - in_ramp) / per_second
    } else {
        let slope = (per_second - first) / over;
        ((first * first + 2.0 * slope * letters).sqrt() - first) / slope
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::clock::{Time, VirtualClock};

    /// Times at which letters went, asked for in batches of up to `batch`, `per_step` between two asks.
    fn times(rate: f64, ramp: Duration, seconds: f64, step: Duration, batch: usize) -> Vec<f64> {
        let clock = Arc::new(VirtualClock::new(Time::from_millis(0)));
        let mut pace = Pace::new(Rate::PerSecond(rate), ramp, Arc::clone(&clock) as Arc<dyn Clock>);
        let mut times = Vec::new();
        while clock.elapsed().as_secs_f64() < seconds {
            let now = clock.elapsed().as_secs_f64();
            times.extend(std::iter::repeat_n(now, pace.take(batch)));
            clock.advance(step);
        }
        times
    }

    fn most_in_a_second(times: &[f64]) -> usize {
        let mut first = 0;
        let mut most = 0;
        for last in 0..times.len() {
            while times[last] - times[first] >= 1.0 {
                first += 1;
            }
            most = most.max(last - first + 1);
        }
        most
    }

    #[test]
    fn rates_are_exact_on_a_virtual_clock_and_late_wake_ups_are_made_up_for() {
        for (rate, step) in
            [(50.0, 7), (1000.0, 3), (5000.0, 11), (20_000.0, 19), (2.0, 400), (1.0 / 6.0, 900)]
        {
            let seconds = 60.0;
            let times = times(rate, Duration::ZERO, seconds, Duration::from_millis(step), 100_000);
            let burst = f64::from(burst_of(rate));
            let sent = times.len() as f64;
            assert!(sent <= rate * seconds + burst + 1.0, "{rate}/s: {sent} in {seconds}s");
            assert!(sent >= rate * (seconds - 1.0), "{rate}/s: {sent} in {seconds}s");
            let most = most_in_a_second(&times) as f64;
            assert!(most <= rate + burst, "{rate}/s: {most} in one second");
        }
    }

    /// As the engine goes: a unit is asked for, sending it takes `work`, the claim and the record every so often
    /// take `stall` more, and a timer wakes up to a millisecond late.
    fn as_the_engine_goes(rate: f64, seconds: f64, work: Duration, stall: Duration) -> Vec<f64> {
        let clock = Arc::new(VirtualClock::new(Time::from_millis(0)));
        let mut pace = Pace::new(Rate::PerSecond(rate), Duration::ZERO, Arc::clone(&clock) as Arc<dyn Clock>);
        let (mut times, mut since_stall) = (Vec::new(), 0);
        while clock.elapsed().as_secs_f64() < seconds {
            let could = 1000;
            let taken = pace.take_full(could);
            if taken == 0 {
                let wake = clock.elapsed() + pace.pause(could);
                clock.advance(
                    Duration::from_millis(wake.as_micros().div_ceil(1000) as u64 + 1) - clock.elapsed(),
                );
                continue;
            }
            assert!(taken <= burst_of(rate) as usize, "{rate}/s: a unit of {taken}");
            let now = clock.elapsed().as_secs_f64();
            times.extend(std::iter::repeat_n(now, taken));
            since_stall += taken;
            clock.advance(work);
            if since_stall >= 500 {
                since_stall = 0;
                clock.advance(stall);
            }
        }
        times
    }

    #[test]
    fn the_rate_is_kept_though_sending_takes_time_and_timers_are_late() {
        let ms = |n: f64| Duration::from_secs_f64(n / 1e3);
        for rate in [2.0, 50.0, 333.0, 1000.0, 5000.0, 20_000.0] {
            for work in [0.0, 1.5, 4.0, 8.0, 13.0] {
                for stall in [0.0, 6.0] {
                    let stall = if work + stall > 13.0 { 0.0 } else { stall };
                    let seconds = 20.0;
                    let times = as_the_engine_goes(rate, seconds, ms(work), ms(stall));
                    let burst = f64::from(burst_of(rate));
                    let got = (times.len() as f64 - burst) / seconds;
                    let off = (got / rate - 1.0).abs();
                    let allowed = 0.01 + burst / (rate * seconds);
                    assert!(
                        off <= allowed,
                        "{rate}/s with {work} ms of work and {stall} ms at times: {got}/s"
                    );
                    let most = most_in_a_second(&times) as f64;
                    assert!(most <= rate + burst, "{rate}/s: {most} in one second");
                }
            }
        }
    }

    #[test]
    fn a_run_that_was_late_does_not_catch_up_more_than_a_burst() {
        let clock = Arc::new(VirtualClock::new(Time::from_millis(0)));
        let mut pace =
            Pace::new(Rate::PerSecond(5000.0), Duration::ZERO, Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(pace.take_full(1000), 100);
        clock.advance(Duration::from_secs(3));
        assert_eq!(pace.take_full(1000), 100, "20 ms of it, not 3 s");
        assert_eq!(pace.take_full(1000), 0);
        assert_eq!(pace.pause(1000), Duration::from_millis(10), "half a burst is what is waited for");
        clock.advance(Duration::from_millis(9));
        assert_eq!((pace.take_full(1000), pace.pause(1000)), (0, Duration::from_millis(1)));
        clock.advance(Duration::from_millis(4));
        assert_eq!(pace.take_full(1000), 65, "and what has piled up beyond it");
        assert_eq!(pace.take_full(7), 0);
        clock.advance(Duration::from_micros(1_400));
        assert_eq!(pace.take_full(7), 7, "a small batch waits for its own size");
    }

    #[test]
    fn a_unit_is_never_more_than_the_burst() {
        let clock = Arc::new(VirtualClock::new(Time::from_millis(0)));
        let mut pace = Pace::new(Rate::PerSecond(2.0), Duration::ZERO, Arc::clone(&clock) as Arc<dyn Clock>);
        clock.advance(Duration::from_secs(100));
        assert_eq!(pace.take(10), 2, "L03: never ten in one instant at 2/s");
        assert_eq!(pace.take(10), 0);
        clock.advance(Duration::from_millis(500));
        assert_eq!(pace.take(10), 1);
    }

    #[test]
    fn l03_thirty_letters_at_two_a_second() {
        let times = times(2.0, Duration::ZERO, 30.0, Duration::from_millis(10), 10);
        let took = times[29];
        assert!((13.9..=16.0).contains(&took), "{took}");
        let after_5s = times.iter().filter(|at| **at <= 5.0).count();
        assert!((10..=12).contains(&after_5s), "{after_5s}");
    }

    #[test]
    fn a_ramp_starts_at_one_a_second_and_ends_at_the_rate() {
        let ramp = Duration::from_secs(30);
        let times = times(5.0, ramp, 60.0, Duration::from_millis(10), 100);
        let in_first_5s = times.iter().filter(|at| **at < 5.0).count();
        assert!((5..=8).contains(&in_first_5s), "{in_first_5s}");
        let in_ramp = times.iter().filter(|at| **at < 30.0).count();
        assert!((88..=92).contains(&in_ramp), "the area is 90: {in_ramp}");
        let after = times.iter().filter(|at| **at >= 30.0).count();
        assert!((148..=153).contains(&after), "{after}");
        let about = time_for(times.len() as u64, Rate::PerSecond(5.0), ramp).unwrap().as_secs_f64();
        assert!((59.0..=61.5).contains(&about), "{about}");
    }

    #[test]
    fn unlimited_is_no_bound() {
        let clock = Arc::new(VirtualClock::new(Time::from_millis(0)));
        let mut pace = Pace::new(Rate::Unlimited, Duration::ZERO, clock);
        assert_eq!(pace.take(5000), 5000);
        assert_eq!(time_for(10, Rate::Unlimited, Duration::ZERO), None);
    }
}
