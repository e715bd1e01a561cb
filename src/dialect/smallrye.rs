//! SmallRye Reactive Messaging (Quarkus): `dead-letter-queue` and `delayed-retry-topic`. All numbers are
//! text. Sets written per failure stand BEFORE the record's own headers, the newest FIRST; single values
//! (`delayed-retry-count`, …) and `deserialization-failure-*` stand behind them.
//!
//! - There is no group, no time of the failure, no stack trace; the cause is the direct one, not the root,
//!   and left out if there is none (K10). An exception without a message has its class as the reason.
//! - `delayed-retry-count` begins at 0: failed deliveries are one more. A verbatim redrive does not raise it:
//!   more sets than it counts mean an earlier life, and the number of tries is unknown.

use super::{Dialect, Form, Look, Mark, Testimony};
use crate::failure::{Death, Origin, Stage, Sureness};
use crate::letter::{Header, Headers, Value};

/// More hops than anybody has.
const MOST_DEATHS: usize = 100;
const COUNT: &str = "delayed-retry-count";
const ORIGINAL_TIMESTAMP: &str = "delayed-retry-original-timestamp";
const DESERIALIZATION: &str = "deserialization-failure-";

struct Family {
    class: &'static str,
    reason: &'static str,
    cause_class: &'static str,
    cause: &'static str,
    topic: &'static str,
    partition: &'static str,
    offset: &'static str,
}

macro_rules! family {
    ($prefix:literal) => {
        Family {
            class: concat!($prefix, "exception-class-name"),
            reason: concat!($prefix, "reason"),
            cause_class: concat!($prefix, "cause-class-name"),
            cause: concat!($prefix, "cause"),
            topic: concat!($prefix, "topic"),
            partition: concat!($prefix, "partition"),
            offset: concat!($prefix, "offset"),
        }
    };
}

static DEAD_LETTER: Family = family!("dead-letter-");
static DELAYED_RETRY: Family = family!("delayed-retry-");

/// `failure-strategy=dead-letter-queue`.
pub(super) struct SmallRye;

/// `failure-strategy=delayed-retry-topic`.
pub(super) struct SmallRyeRetry;

impl Dialect for SmallRye {
    fn name(&self) -> &'static str {
        "smallrye"
    }

    fn about(&self) -> &'static str {
        "SmallRye Reactive Messaging, Quarkus: failure-strategy=dead-letter-queue on Kafka"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Header("dead-letter-topic"),
            Mark::Header("dead-letter-reason"),
            Mark::Header("dead-letter-exception-class-name"),
            Mark::Header("dead-letter-cause"),
            Mark::Header("dead-letter-cause-class-name"),
            Mark::Header("dead-letter-partition"),
            Mark::Header("dead-letter-offset"),
            Mark::Prefix(DESERIALIZATION),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        recognise(&DEAD_LETTER, letter.headers())
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        sets(&DEAD_LETTER, letter.headers(), says);
    }

    fn owns(&self, header: &Header) -> bool {
        owns(&header.name)
    }
}

impl Dialect for SmallRyeRetry {
    fn name(&self) -> &'static str {
        "smallrye-retry"
    }

    fn about(&self) -> &'static str {
        "SmallRye Reactive Messaging, Quarkus: failure-strategy=delayed-retry-topic on Kafka"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix("delayed-retry-")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        recognise(&DELAYED_RETRY, headers)
            .or_else(|| headers.has(COUNT).then(|| (Sureness::Sure, format!("header {COUNT}"))))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let found = sets(&DELAYED_RETRY, headers, says);
        let count: Option<u32> = says.number("attempts", COUNT, headers.last(COUNT), Form::Integer);
        match count.map(|count| count.saturating_add(1)) {
            Some(attempts) if found == 0 || attempts as usize == found => says.attempts = Some(attempts),
            Some(attempts) => says.doubt(
                "attempts",
                format!("{COUNT} tells of {attempts} failed tries, but {found} are noted: an earlier life is among them"),
            ),
            None => {}
        }
        let at = says.millis(
            "origin.timestamp",
            ORIGINAL_TIMESTAMP,
            headers.first(ORIGINAL_TIMESTAMP),
            Form::Integer,
        );
        if let Some(origin) = &mut says.origin {
            origin.timestamp = at;
        }
        if let Some(place) = says.deaths.first_mut().and_then(|death| death.place.as_mut()) {
            place.timestamp = at;
        }
    }

    fn owns(&self, header: &Header) -> bool {
        owns(&header.name)
    }
}

/// Its own names only: `dead-letter-x` of somebody else travels.
fn owns(name: &str) -> bool {
    let tail = match name.strip_prefix("dead-letter-") {
        Some(tail) => tail,
        None => return name.starts_with("delayed-retry-") || name.starts_with(DESERIALIZATION),
    };
    matches!(
        tail,
        "exception-class-name" | "reason" | "cause-class-name" | "cause" | "topic" | "partition" | "offset"
    )
}

fn recognise(family: &Family, headers: &Headers) -> Option<(Sureness, String)> {
    if headers.has(family.topic) && (headers.has(family.offset) || headers.has(family.reason)) {
        return Some((Sureness::Sure, format!("header {}", family.topic)));
    }
    let found = [family.class, family.reason].into_iter().find(|name| headers.has(name))?;
    Some((Sureness::Likely, format!("header {found}")))
}

/// One death for each set, the newest set first in the list; gives how many there are.
fn sets(family: &Family, headers: &Headers, says: &mut Testimony) -> usize {
    // Causes and reasons may be missing in single sets, so each set is read from its own stretch of headers:
    // it ends where the exception's class comes again.
    let mut found: Vec<Vec<(&str, &Value)>> = Vec::new();
    let mut count = 0usize;
    for header in headers {
        let name = header.name.as_str();
        let known = [
            family.class,
            family.reason,
            family.cause_class,
            family.cause,
            family.topic,
            family.partition,
            family.offset,
        ];
        if !known.contains(&name) {
            continue;
        }
        let again = found.last().is_none_or(|set| set.iter().any(|(seen, _)| *seen == name));
        if again {
            count += 1;
            // The newest first: the oldest is the last one read.
            if found.len() == MOST_DEATHS {
                found.pop();
            }
            found.push(Vec::new());
        }
        if let Some(set) = found.last_mut() {
            set.push((name, &header.value));
        }
    }
    let deserialization = headers.iter().any(|header| header.name.starts_with(DESERIALIZATION));
    for set in found.iter().rev() {
        let value = |name: &str| set.iter().find(|(seen, _)| *seen == name).map(|(_, value)| *value);
        let place = Origin {
            topic: says.text("origin.topic", family.topic, value(family.topic)),
            partition: says.number(
                "origin.partition",
                family.partition,
                value(family.partition),
                Form::Integer,
            ),
            offset: says.number("origin.offset", family.offset, value(family.offset), Form::Integer),
            ..Origin::default()
        };
        let class = says.text("error", family.class, value(family.class));
        let reason = says.text("message", family.reason, value(family.reason));
        let cause = says.text("cause", family.cause_class, value(family.cause_class));
        // An exception without a message: its class stands for it, and versions that write no class name the
        // class there alone.
        let (class, message) = match (class, reason) {
            (None, Some(reason)) if is_class(&reason) => (Some(reason), None),
            (class, reason) => (class.clone(), reason.filter(|reason| Some(reason) != class.as_ref())),
        };
        // No cause recorded means that there was none. Where reading the record failed, the cause is in the
        // reason's text instead.
        let root = if cause.is_none() && !deserialization && value(family.cause).is_none() {
            class.clone()
        } else {
            None
        };
        let key = headers.has("deserialization-failure-key-data")
            && !headers.has("deserialization-failure-value-data");
        let root_message = says.text("cause", family.cause, value(family.cause));
        says.deaths.push(Death {
            place: (!place.is_empty()).then_some(place),
            root_class: root,
            error_class: class,
            message,
            root_message,
            stage: match (deserialization, key) {
                (true, true) => Some(Stage::Key),
                (true, false) => Some(Stage::Value),
                _ => Some(Stage::Handler),
            },
            count: 1,
            ..Death::default()
        });
    }
    says.origin = says.deaths.first().and_then(|death| death.place.clone());
    count
}

/// `java.lang.NullPointerException`: packages in small letters, then a class.
fn is_class(text: &str) -> bool {
    let mut parts = text.split('.');
    let class = parts.next_back().unwrap_or_default();
    let word = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$');
    let packages: Vec<&str> = parts.collect();
    packages.len() >= 2
        && packages.iter().all(|part| part.starts_with(|c: char| c.is_ascii_lowercase()) && word(part))
        && class.starts_with(|c: char| c.is_ascii_uppercase())
        && word(class)
}
