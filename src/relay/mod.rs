//! The relay: carries due messages from the tiers of a channel back to where the channel returns
//! (protocol §10), until it is told to stop. The broker's [`Carrier`] does the moving; this decides when.

pub mod lateness;
pub mod metrics;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::broker::{BrokerError, Carrier, ErrorKind, Result};
use crate::clock::Clock;
use crate::proof::failpoint;
use crate::run::pace::Pace;
use crate::topology::Rate;
use metrics::Metrics;

/// Most messages in one step; also the most that are in flight at once.
pub const BATCH: usize = 1_000;
/// Longest wait between two steps. A message enters a tier at least its delay before it is due, so looking
/// twice per delay always sees it in time; this bounds the price of a wrong clock.
const LONGEST_IDLE: Duration = Duration::from_secs(1);
/// First and longest wait after a broker that did not answer.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// How often the tiers are counted for the screen and the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(2);

/// How a channel is served.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The shortest delay of its tiers.
    pub shortest_delay: Duration,
    /// Most messages per second; unlimited unless declared, since live retries must drain.
    pub rate: Rate,
    /// Return once nothing is due.
    pub once: bool,
}

/// Serves one channel until `stop` turns true. Transient errors are waited out and counted.
///
/// # Errors
/// The first permanent error of the broker; what was in flight is as protocol §10 says.
pub async fn serve(
    mut carrier: Box<dyn Carrier>,
    settings: &Settings,
    clock: Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    let idle = LONGEST_IDLE.min(settings.shortest_delay / 2).max(Duration::from_millis(10));
    let mut back_off = BACK_OFF.0;
    let mut pace = Pace::new(settings.rate, Duration::ZERO, Arc::clone(&clock));
    let mut counted: Option<Duration> = None;
    let place = metrics.joined();
    failpoint::hit("relay_opened");
    let outcome = loop {
        if *stop.borrow() {
            break Ok(());
        }
        let allowed = pace.take(BATCH);
        let step = if allowed == 0 { Ok(None) } else { carrier.carry(allowed).await.map(Some) };
        let wait = match step {
            Err(error) if error.kind.transient() || error.kind == ErrorKind::Unknown => {
                metrics.failed(&error);
                let wait = back_off;
                back_off = (back_off * 2).min(BACK_OFF.1);
                wait
            }
            Err(error) => break Err(error),
            Ok(None) => pace.pause(1),
            Ok(Some(carried)) => {
                let moved = carried.moved.iter().map(|(_, late)| late.len()).sum::<usize>();
                metrics.carried(place, &carried, clock.now());
                if moved > 0 || carried.refused.is_none() {
                    back_off = BACK_OFF.0;
                }
                if let Some(error) = &carried.refused {
                    metrics.failed(error);
                }
                if let Some(error) = carried.refused.as_ref().filter(|_| moved == 0) {
                    if settings.once {
                        break Err(error.clone());
                    }
                    let wait = back_off;
                    back_off = (back_off * 2).min(BACK_OFF.1);
                    wait
                } else if carried.more && (moved > 0 || !carried.maybe_twice.is_empty()) {
                    Duration::ZERO
                } else if settings.once && !carried.more {
                    match carrier.drained().await {
                        Ok(true) => break Ok(()),
                        // It is on its way.
                        Ok(false) => Duration::from_millis(10),
                        Err(error) if error.kind.transient() || error.kind == ErrorKind::Unknown => {
                            metrics.failed(&error);
                            BACK_OFF.0
                        }
                        Err(error) => break Err(error),
                    }
                } else {
                    carried
                        .next_due
                        .map_or(idle, |due| due.since(clock.now()).min(idle))
                        .max(Duration::from_millis(1))
                }
            }
        };
        if counted.is_none_or(|at| clock.elapsed().saturating_sub(at) >= COUNT_EVERY) {
            counted = Some(clock.elapsed());
            match carrier.tiers_lately().await {
                Ok(tiers) => metrics.counted(tiers),
                // A count that is not answered in time says no more than one that cannot be asked for.
                Err(error) if error.kind.transient() || error.kind == ErrorKind::Unknown => {
                    metrics.failed(&error);
                }
                Err(error) => break Err(error),
            }
        }
        if !wait.is_zero() {
            tokio::select! {
                () = clock.sleep(wait) => {}
                _ = stop.changed() => {}
            }
        }
    };
    if let Ok(tiers) = carrier.tiers().await {
        metrics.counted(tiers);
    }
    failpoint::hit("relay_closing");
    let closed = carrier.close().await;
    outcome.and(closed)
}

/// An error that a broker gives when it serves its tiers by itself.
pub fn serves_itself(error: &BrokerError) -> bool {
    error.kind == ErrorKind::Unsupported
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::broker::{Carried, TierState};
    use crate::clock::{Time, VirtualClock};

    /// Messages with a due time each; carries what is due by the clock.
    struct Fake {
        clock: Arc<VirtualClock>,
        due: Vec<Time>,
        errors: usize,
        log: Arc<Mutex<Vec<(Time, usize)>>>,
        closed: Arc<AtomicBool>,
    }

    #[async_trait]
    impl Carrier for Fake {
        async fn carry(&mut self, limit: usize) -> Result<Carried> {
            if self.errors > 0 {
                self.errors -= 1;
                return Err(BrokerError::new(ErrorKind::Unreachable, "carry", "nobody answers"));
            }
            let now = self.clock.now();
            let take = self.due.iter().take_while(|due| **due <= now).count().min(limit);
            let late: Vec<_> = self.due.drain(..take).map(|due| now.since(due)).collect();
            self.log.lock().unwrap().push((now, take));
            let next_due = self.due.first().copied();
            Ok(Carried {
                moved: vec![("orders.retry-5s".to_owned(), late)],
                next_due,
                more: next_due.is_some_and(|due| due <= now),
                ..Carried::default()
            })
        }

        async fn tiers(&mut self) -> Result<Vec<TierState>> {
            Ok(vec![])
        }

        async fn close(self: Box<Self>) -> Result<()> {
            self.closed.store(true, Ordering::SeqCst);
            Ok(())
        }
    }

    struct Run {
        log: Vec<(Time, usize)>,
        metrics: Arc<Metrics>,
        result: Result<()>,
        closed: bool,
    }

    async fn run(due: Vec<i64>, errors: usize, rate: Option<f64>, until: i64) -> Run {
        let clock = Arc::new(VirtualClock::new(Time::from_millis(0)));
        let log = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(AtomicBool::new(false));
        let fake = Fake {
            clock: Arc::clone(&clock),
            due: due.into_iter().map(Time::from_millis).collect(),
            errors,
            log: Arc::clone(&log),
            closed: Arc::clone(&closed),
        };
        let metrics = Arc::new(Metrics::default());
        let (tell, stop) = watch::channel(false);
        let rate = rate.map_or(Rate::Unlimited, Rate::PerSecond);
        let settings = Settings { shortest_delay: Duration::from_secs(5), rate, once: false };
        let serving = serve(Box::new(fake), &settings, Arc::clone(&clock) as Arc<dyn Clock>, &metrics, stop);
        let stopping = async {
            while clock.now().millis() < until {
                tokio::task::yield_now().await;
            }
            tell.send(true).unwrap();
        };
        let (result, ()) = tokio::join!(serving, stopping);
        let log = log.lock().unwrap().clone();
        Run { log, metrics, result, closed: closed.load(Ordering::SeqCst) }
    }

    #[tokio::test]
    async fn carries_at_the_due_time_and_never_before() {
        let run = run(vec![3_000, 3_001, 7_500], 0, None, 10_000).await;
        run.result.unwrap();
        assert!(run.closed);
        let moved: Vec<_> = run.log.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(moved.iter().map(|(_, count)| count).sum::<usize>(), 3);
        assert_eq!(moved[0].0, Time::from_millis(3_000));
        assert!(run.metrics.snapshot().iter().all(|tier| tier.late_p99 <= Some(Duration::from_millis(2))));
    }

    #[tokio::test]
    async fn waits_out_a_broker_that_does_not_answer() {
        let run = run(vec![100], 3, None, 10_000).await;
        run.result.unwrap();
        assert_eq!(run.metrics.errors(), 3);
        assert_eq!(run.log.iter().map(|(_, count)| count).sum::<usize>(), 1);
        // 250 ms, 500 ms and 1 s of back-off come first.
        assert!(run.log[0].0 >= Time::from_millis(1_750));
    }

    #[tokio::test]
    async fn l03_a_bound_holds_in_every_second() {
        let run = run(vec![0; 1_000], 0, Some(100.0), 8_000).await;
        run.result.unwrap();
        for (start, _) in &run.log {
            let window =
                run.log.iter().filter(|(at, _)| *at >= *start && at.since(*start) < Duration::from_secs(1));
            let sum: usize = window.map(|(_, count)| count).sum();
            assert!(sum <= 102, "{sum} in the second after {start}");
        }
        let total: usize = run.log.iter().map(|(_, count)| count).sum();
        assert!((780..=803).contains(&total), "{total} in 8 s at 100/s");
    }
}
