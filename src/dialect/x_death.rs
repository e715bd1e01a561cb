//! The header `x-death`: what RabbitMQ notes each time it dead-letters a message, in the forms of all its
//! versions. Read as untrusted (R08): a client may have written it, or kept a stale one.
//!
//! Since 2015 there is one entry per queue and reason, with a count; its time, exchange and keys are those of
//! the FIRST death of that pair (R05). Before, each death added an entry (R03). 4.x lists newest first, 3.x
//! only promises that of the first element. So entries are joined by queue and reason and ordered by time,
//! then by position.

use std::collections::HashMap;

use super::when;
use crate::clock::Time;
use crate::failure::{Death, Origin};
use crate::letter::{Headers, Value};

/// The header's name.
pub(super) const NAME: &str = "x-death";
/// AMQP short strings, names of queues among them, have at most so many bytes.
const LONGEST_NAME: usize = 255;
/// Pairs of queue and reason that are kept: the oldest and the newest half. More are a forgery or a loop.
const MOST_RECORDS: usize = 64;
/// Routing keys of one entry that are looked at.
const MOST_KEYS: usize = 16;

/// All deaths of one queue for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The queue that it died in.
    pub(super) queue: String,
    /// `rejected`, `expired`, `maxlen`, `delivery_limit`.
    pub(super) reason: String,
    /// How often; at least 1.
    pub(super) count: u32,
    /// Time of the first.
    pub(super) at: Option<Time>,
    /// Exchange of the first; `""` is the default one. `None`: the entry has no such field.
    pub(super) exchange: Option<String>,
    /// Routing keys of the first: the key, then those of `CC`.
    pub(super) keys: Vec<String>,
    /// Position in the list of the entry that was written first.
    position: usize,
}

impl Record {
    /// A wait in a tier or delay queue, if the message died otherwise too.
    pub(super) fn expired(&self) -> bool {
        self.reason == "expired"
    }

    /// Published straight to its queue, as a client, a shovel or redrive does when it sends a message back:
    /// then this may be a later life.
    pub(super) fn straight_to_queue(&self) -> bool {
        self.exchange.as_deref().is_some_and(str::is_empty) && self.keys.first() == Some(&self.queue)
    }

    /// The place, with exchange and key as first published there.
    pub(super) fn place(&self) -> Origin {
        Origin {
            queue: Some(self.queue.clone()),
            exchange: Some(self.exchange.clone().unwrap_or_default()),
            routing_key: self.keys.first().cloned(),
            ..Origin::default()
        }
    }

    /// As one line of the history.
    pub(super) fn death(&self) -> Death {
        Death {
            at: self.at,
            at_is_first: self.count > 1,
            place: Some(self.place()),
            reason: Some(self.reason.clone()),
            count: self.count,
            ..Death::default()
        }
    }
}

/// What the header says.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    /// Oldest first.
    pub(super) records: Vec<Record>,
    /// Index of the record that died last, if that is known.
    pub(super) newest: Option<usize>,
    /// Entries that were no entries.
    pub(super) skipped: usize,
    /// Records left out in the middle.
    pub(super) left_out: usize,
}

impl Deaths {
    /// Reads the header, if it is there.
    pub(super) fn of(headers: &Headers) -> Option<Self> {
        headers.last(NAME).map(|value| Self::read(value, headers.has("x-last-death-queue")))
    }

    /// Reads the value of the header. `newest_first`: it is known that the broker is one that lists so.
    pub(super) fn read(value: &Value, newest_first: bool) -> Self {
        let Some(entries) = value.list() else { return Self { skipped: 1, ..Self::default() } };
        let mut skipped = 0;
        let mut parsed: Vec<Record> = Vec::with_capacity(entries.len().min(256));
        for (position, entry) in entries.iter().enumerate() {
            match record(entry, position) {
                Some(record) => parsed.push(record),
                None => skipped += 1,
            }
        }
        let newest = parsed.first().filter(|first| first.position == 0);
        let newest = newest.map(|first| (first.queue.clone(), first.reason.clone()));
        let descending = newest_first || lists_newest_first(&parsed);
        let mut records = joined(parsed);
        // Element 0 is the newest on every version; of the others the list's direction tells.
        records.sort_by(|a, b| {
            let rank = |record: &Record| match record.position {
                0 => usize::MAX,
                position if descending => usize::MAX - position,
                position => position,
            };
            a.at.cmp(&b.at).then(rank(a).cmp(&rank(b)))
        });
        let left_out = records.len().saturating_sub(MOST_RECORDS);
        if left_out > 0 {
            records.drain(MOST_RECORDS / 2..MOST_RECORDS / 2 + left_out);
        }
        let newest = newest.and_then(|(queue, reason)| {
            records.iter().position(|record| record.queue == queue && record.reason == reason)
        });
        Self { records, newest, skipped, left_out }
    }

    /// Failures without waits in tiers, oldest first, the newest last; all records if there is nothing else.
    pub(super) fn failures(&self) -> Vec<&Record> {
        if self.only_waits() {
            return self.records.iter().collect();
        }
        let mut failures: Vec<&Record> =
            self.records.iter().enumerate().filter(|(_, r)| !r.expired()).map(|(_, r)| r).collect();
        if let Some(newest) = self.newest.and_then(|at| self.records.get(at)).filter(|r| !r.expired()) {
            failures.retain(|record| *record != newest);
            failures.push(newest);
        }
        failures
    }

    /// Where the message was first that a consumer read: the oldest record that is no wait. `x-first-death-*`
    /// would name a delay queue that it passed before.
    pub(super) fn origin(&self) -> Option<&Record> {
        self.records.iter().find(|record| !record.expired()).or(self.records.first())
    }

    /// Did it do nothing but expire?
    pub(super) fn only_waits(&self) -> bool {
        self.records.iter().all(Record::expired)
    }

    /// How often it died in this way; `queue` `None`: anywhere.
    pub(super) fn count(&self, queue: Option<&str>, reason: &str) -> u32 {
        self.records
            .iter()
            .filter(|record| record.reason == reason && queue.is_none_or(|queue| record.queue == queue))
            .fold(0, |sum, record| sum.saturating_add(record.count))
    }
}

/// Do the elements after the first fall in time? Equal times tell nothing; two elements are newest first.
fn lists_newest_first(parsed: &[Record]) -> bool {
    let rest = parsed.get(1..).unwrap_or_default();
    let step = rest.windows(2).find_map(|pair| match (pair[0].at, pair[1].at) {
        (Some(a), Some(b)) if a != b => Some(a > b),
        _ => None,
    });
    // Entries without counts come from brokers before 2015, which put the newest in front.
    step.unwrap_or(rest.len() < 2)
}

/// One record per queue and reason, the counts summed up (R03).
fn joined(parsed: Vec<Record>) -> Vec<Record> {
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut records: Vec<Record> = Vec::new();
    for record in parsed {
        let index = *places.entry((record.queue.clone(), record.reason.clone())).or_insert(records.len());
        match records.get_mut(index) {
            None => records.push(record),
            Some(known) => {
                let count = known.count.saturating_add(record.count);
                // The one that was written first has the first time, exchange and keys. In a list without
                // times that is the one further back.
                let is_older = match (record.at, known.at) {
                    (Some(theirs), Some(ours)) => theirs <= ours,
                    _ => record.at.is_some() || known.at.is_none(),
                };
                let position = known.position;
                if is_older {
                    *known = record;
                    if position == 0 {
                        known.position = 0;
                    }
                }
                known.count = count;
            }
        }
    }
    records
}

/// One entry, if it is one: a table with a queue and a reason.
fn record(entry: &Value, position: usize) -> Option<Record> {
    let queue = name(entry.get("queue")?)?;
    if queue.is_empty() {
        return None;
    }
    let reason = name(entry.get("reason")?)?;
    let exchange = match entry.get("exchange") {
        Some(exchange) => Some(name(exchange)?),
        None => None,
    };
    let keys = match entry.get("routing-keys") {
        Some(Value::List(keys)) => keys.iter().take(MOST_KEYS).map_while(name).collect(),
        Some(key) => name(key).into_iter().collect(),
        None => Vec::new(),
    };
    let count = match entry.get("count") {
        Some(Value::Null) | None => 1,
        Some(count) => u32::try_from(count.integer_or_digits()?.clamp(1, i64::from(u32::MAX))).ok()?,
    };
    let at = entry.get("time").and_then(when::of);
    Some(Record { queue, reason, count, at, exchange, keys, position })
}

fn name(value: &Value) -> Option<String> {
    value.text().filter(|text| text.len() <= LONGEST_NAME).map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn entry(queue: &str, reason: &str, count: Option<i64>, at: Option<u64>) -> Value {
        let mut fields = vec![
            ("queue".to_owned(), Value::from_text(queue)),
            ("reason".to_owned(), Value::from_text(reason)),
            ("exchange".to_owned(), Value::from_text("ev")),
            ("routing-keys".to_owned(), Value::List(vec![Value::from_text("k")])),
        ];
        fields.extend(count.map(|n| ("count".to_owned(), Value::I64(n))));
        fields.extend(at.map(|n| ("time".to_owned(), Value::Timestamp(n))));
        Value::Table(fields)
    }

    fn read(entries: Vec<Value>) -> Deaths {
        Deaths::read(&Value::List(entries), false)
    }

    #[test]
    fn r03_old_brokers_repeat_entries_instead_of_counting() {
        let repeated = read(vec![
            entry("orders", "rejected", None, None),
            entry("orders.retry", "expired", None, None),
            entry("orders", "rejected", None, None),
        ]);
        assert_eq!(repeated.count(Some("orders"), "rejected"), 2);
        assert_eq!(repeated.failures().len(), 1);
        let counted = read(vec![entry("orders", "rejected", Some(4), Some(1))]);
        assert_eq!(counted.count(Some("orders"), "rejected"), 4);
        // Both forms in one list.
        let both = read(vec![
            entry("orders", "rejected", Some(4), Some(9)),
            entry("orders", "rejected", None, Some(3)),
        ]);
        assert_eq!(both.count(Some("orders"), "rejected"), 5);
        assert_eq!(both.records[0].at, Some(Time::from_seconds(3)));
    }

    #[test]
    fn r05_the_time_is_of_the_first_death_and_in_seconds() {
        let deaths = read(vec![entry("orders", "rejected", Some(5), Some(1_745_575_728))]);
        let death = deaths.failures()[0].death();
        assert_eq!(death.at.unwrap().rfc3339(), "2025-04-25T10:08:48Z");
        assert!(death.at_is_first);
    }

    #[test]
    fn both_orders_of_tiers_give_one_history() {
        let names = |deaths: &Deaths| deaths.records.iter().map(|r| r.queue.clone()).collect::<Vec<_>>();
        let three = read(vec![
            entry("q", "rejected", Some(4), Some(10)),
            entry("5s", "expired", Some(1), Some(11)),
            entry("1m", "expired", Some(1), Some(12)),
            entry("10m", "expired", Some(1), Some(13)),
        ]);
        let four = read(vec![
            entry("q", "rejected", Some(4), Some(10)),
            entry("10m", "expired", Some(1), Some(13)),
            entry("1m", "expired", Some(1), Some(12)),
            entry("5s", "expired", Some(1), Some(11)),
        ]);
        assert_eq!(names(&three), ["q", "5s", "1m", "10m"]);
        assert_eq!(names(&four), names(&three));
        assert_eq!(three.failures()[0].queue, "q");
        assert_eq!(three.newest, Some(0));
    }

    #[test]
    fn the_newest_death_is_last_even_if_its_pair_began_early() {
        let deaths =
            read(vec![entry("a", "rejected", Some(2), Some(10)), entry("b", "rejected", Some(1), Some(20))]);
        let queues: Vec<_> = deaths.failures().iter().map(|r| r.queue.as_str()).collect();
        assert_eq!(queues, ["b", "a"]);
        assert_eq!(deaths.origin().unwrap().queue, "a");
    }

    #[test]
    fn r08_bad_entries_are_skipped_and_counted() {
        let mut entries = vec![
            Value::from_text("x"),
            Value::Table(vec![("reason".to_owned(), Value::from_text("rejected"))]),
            entry(&"q".repeat(300), "rejected", Some(1), None),
            entry("", "rejected", Some(1), None),
            entry("q", "rejected", Some(-3), None),
            Value::Table(vec![
                ("queue".to_owned(), Value::from_text("q")),
                ("reason".to_owned(), Value::from_text("rejected")),
                ("count".to_owned(), Value::from_text("many")),
            ]),
        ];
        let deaths = read(entries.clone());
        assert_eq!(deaths.skipped, 5);
        assert_eq!(deaths.records.len(), 1);
        assert_eq!(deaths.records[0].count, 1);
        assert_eq!(Deaths::read(&Value::from_text("x"), false).skipped, 1);

        let started = std::time::Instant::now();
        entries.extend((0..10_000).map(|n| entry(&format!("q{n}"), "rejected", Some(1), Some(n))));
        let deaths = read(entries);
        assert_eq!(deaths.records.len(), MOST_RECORDS);
        assert_eq!(deaths.left_out, 10_001 - MOST_RECORDS);
        let one = read((0..10_000).map(|n| entry("q", "rejected", Some(1), Some(n))).collect());
        assert_eq!(one.records[0].count, 10_000);
        assert!(started.elapsed().as_secs() < 2, "time must not grow with the square");
    }

    #[test]
    fn any_integer_width_counts() {
        for count in
            [Value::I8(3), Value::U8(3), Value::I16(3), Value::I32(3), Value::U32(3), Value::from_text("3")]
        {
            let entry = Value::Table(vec![
                ("queue".to_owned(), Value::from_text("q")),
                ("reason".to_owned(), Value::from_text("rejected")),
                ("count".to_owned(), count),
            ]);
            assert_eq!(read(vec![entry]).records[0].count, 3);
        }
    }
}
