//! What a relay has done and what waits, for its screen, its log lines and Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::lateness::Lateness;
use crate::broker::{BrokerError, Carried, TierState};
use crate::clock::Time;

/// Upper bounds of the lateness buckets in `/metrics`, in seconds.
const BOUNDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// One tier for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TierReport {
    /// Queue or topic.
    pub queue: String,
    /// Messages in it.
    pub waiting: u64,
    /// Whose time has come.
    pub due: u64,
    /// How long the most overdue one is overdue.
    pub overdue: Duration,
    /// 99 of 100 messages were at most this late since the last report; `None` if none was moved.
    pub late_p99: Option<Duration>,
    /// Moved since the last report.
    pub moved: u64,
    /// Moved since the start.
    pub total: u64,
}

#[derive(Debug, Default)]
struct Tier {
    state: TierState,
    recent: Lateness,
    all: Lateness,
}

#[derive(Debug, Default)]
struct Inner {
    tiers: BTreeMap<String, Tier>,
    order: Vec<String>,
    errors: u64,
    last_error: Option<String>,
    maybe_twice: u64,
    last_step: Option<Time>,
    last_moved: Option<Time>,
    /// Of each channel served: when its next message is due, as far as its last step knew.
    next: Vec<Option<Time>>,
}

/// Shared by the channels of one relay.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Inner>);

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more channel is served; gives its place.
    pub(crate) fn joined(&self) -> usize {
        let mut inner = self.lock();
        inner.next.push(None);
        inner.next.len() - 1
    }

    /// When the next message of any channel is due; `None` if none waits, or no broker knows.
    pub fn next_due(&self) -> Option<Time> {
        self.lock().next.iter().flatten().min().copied()
    }

    /// A step of the channel at this place ended.
    pub(crate) fn carried(&self, place: usize, carried: &Carried, now: Time) {
        let mut inner = self.lock();
        if let Some(next) = inner.next.get_mut(place) {
            *next = carried.next_due;
        }
        inner.last_step = Some(now);
        if carried.moved.iter().any(|(_, late)| !late.is_empty()) {
            inner.last_moved = Some(now);
        }
        inner.maybe_twice += carried.maybe_twice.len() as u64;
        for (queue, late) in &carried.moved {
            let tier = inner.tier(queue);
            for one in late {
                tier.recent.add(*one);
                tier.all.add(*one);
            }
        }
    }

    /// The tiers were counted.
    pub(crate) fn counted(&self, states: Vec<TierState>) {
        let mut inner = self.lock();
        for state in states {
            let queue = state.queue.clone();
            inner.tier(&queue).state = state;
        }
    }

    /// The broker did not answer.
    pub(super) fn failed(&self, error: &BrokerError) {
        let mut inner = self.lock();
        inner.errors += 1;
        inner.last_error = Some(error.to_string());
    }

    /// Errors since the start.
    pub fn errors(&self) -> u64 {
        self.lock().errors
    }

    /// The newest error since the last call.
    pub fn take_error(&self) -> Option<String> {
        self.lock().last_error.take()
    }

    /// Messages that may have been carried twice, since the start.
    pub fn maybe_twice(&self) -> u64 {
        self.lock().maybe_twice
    }

    /// In the tier that was latest, 99 of 100 messages were at most this late, since the start; `None` if none was moved.
    pub fn late_p99(&self) -> Option<Duration> {
        self.lock().tiers.values().filter_map(|tier| p99(&tier.all)).max()
    }

    /// How long the most overdue message is overdue, as far as the tiers were counted, and when one was last moved.
    pub fn behind(&self) -> (Duration, Option<Time>) {
        let inner = self.lock();
        let overdue = inner.tiers.values().map(|tier| tier.state.overdue).max().unwrap_or_default();
        (overdue, inner.last_moved)
    }

    /// When a step last ended.
    pub fn last_step(&self) -> Option<Time> {
        self.lock().last_step
    }

    /// The tiers as they stand, in the order in which they were first seen.
    pub fn snapshot(&self) -> Vec<TierReport> {
        let inner = self.lock();
        inner
            .order
            .iter()
            .filter_map(|queue| inner.tiers.get(queue).map(|tier| report(queue, tier)))
            .collect()
    }

    /// The same, and begins a new period.
    pub fn report(&self) -> Vec<TierReport> {
        let reports = self.snapshot();
        for tier in self.lock().tiers.values_mut() {
            tier.recent.clear();
        }
        reports
    }

    /// Prometheus text format, version 0.0.4.
    pub fn prometheus(&self) -> String {
        let inner = self.lock();
        let mut text = String::new();
        gauge(&mut text, &inner, "redrive_relay_waiting", "Messages in a tier.", |tier| {
            tier.state.waiting.to_string()
        });
        gauge(&mut text, &inner, "redrive_relay_due", "Messages of a tier whose time has come.", |tier| {
            tier.state.due.to_string()
        });
        gauge(
            &mut text,
            &inner,
            "redrive_relay_overdue_seconds",
            "Lateness of the most overdue message.",
            |tier| tier.state.overdue.as_secs_f64().to_string(),
        );
        head(&mut text, "redrive_relay_lateness_seconds", "histogram", "How late messages were carried.");
        for queue in &inner.order {
            let Some(tier) = inner.tiers.get(queue) else { continue };
            let name = label(queue);
            for bound in BOUNDS {
                let count = tier.all.at_most(Duration::from_secs_f64(bound));
                let _ = writeln!(
                    text,
                    "redrive_relay_lateness_seconds_bucket{{tier=\"{name}\",le=\"{bound}\"}} {count}"
                );
            }
            let count = tier.all.count();
            let sum = tier.all.sum().as_secs_f64();
            let _ = writeln!(
                text,
                "redrive_relay_lateness_seconds_bucket{{tier=\"{name}\",le=\"+Inf\"}} {count}"
            );
            let _ = writeln!(text, "redrive_relay_lateness_seconds_sum{{tier=\"{name}\"}} {sum}");
            let _ = writeln!(text, "redrive_relay_lateness_seconds_count{{tier=\"{name}\"}} {count}");
        }
        head(&mut text, "redrive_relay_errors_total", "counter", "Steps that the broker did not answer.");
        let _ = writeln!(text, "redrive_relay_errors_total {}", inner.errors);
        head(
            &mut text,
            "redrive_relay_maybe_twice_total",
            "counter",
            "Messages that may have been carried twice.",
        );
        let _ = writeln!(text, "redrive_relay_maybe_twice_total {}", inner.maybe_twice);
        text
    }
}

impl Inner {
    fn tier(&mut self, queue: &str) -> &mut Tier {
        if !self.tiers.contains_key(queue) {
            self.order.push(queue.to_owned());
        }
        self.tiers.entry(queue.to_owned()).or_default()
    }
}

fn report(queue: &str, tier: &Tier) -> TierReport {
    TierReport {
        queue: queue.to_owned(),
        waiting: tier.state.waiting,
        due: tier.state.due,
        overdue: tier.state.overdue,
        late_p99: p99(&tier.recent),
        moved: tier.recent.count(),
        total: tier.all.count(),
    }
}

fn p99(lateness: &Lateness) -> Option<Duration> {
    (lateness.count() > 0).then(|| lateness.percentile(0.99))
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn gauge(text: &mut String, inner: &Inner, name: &str, help: &str, value: impl Fn(&Tier) -> String) {
    head(text, name, "gauge", help);
    for queue in &inner.order {
        if let Some(tier) = inner.tiers.get(queue) {
            let _ = writeln!(text, "{name}{{tier=\"{}\"}} {}", label(queue), value(tier));
        }
    }
}

/// A label value as the format wants it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text_is_whole_and_escaped() {
        let metrics = Metrics::default();
        let place = metrics.joined();
        let state =
            TierState { queue: "a\"b".to_owned(), waiting: 3, due: 1, overdue: Duration::from_millis(1500) };
        metrics.counted(vec![state]);
        let moved = vec![("a\"b".to_owned(), vec![Duration::from_millis(7), Duration::from_millis(300)])];
        metrics.carried(place, &Carried { moved, ..Carried::default() }, Time::from_millis(1));
        let text = metrics.prometheus();
        for line in [
            "redrive_relay_waiting{tier=\"a\\\"b\"} 3",
            "redrive_relay_overdue_seconds{tier=\"a\\\"b\"} 1.5",
            "redrive_relay_lateness_seconds_bucket{tier=\"a\\\"b\",le=\"0.01\"} 1",
            "redrive_relay_lateness_seconds_bucket{tier=\"a\\\"b\",le=\"+Inf\"} 2",
            "redrive_relay_lateness_seconds_count{tier=\"a\\\"b\"} 2",
            "redrive_relay_errors_total 0",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
    }

    #[test]
    fn a_report_begins_a_new_period() {
        let metrics = Metrics::default();
        let place = metrics.joined();
        let moved = vec![("t".to_owned(), vec![Duration::from_millis(7)])];
        metrics.carried(place, &Carried { moved, ..Carried::default() }, Time::from_millis(1));
        assert_eq!(metrics.report()[0].moved, 1);
        assert_eq!(metrics.report()[0].moved, 0);
        assert_eq!(metrics.snapshot()[0].total, 1);
    }
}
