//! Karafka Pro's enhanced dead letters: `source_*` as text, nothing of the error; before 2.5 the same words
//! began with `original_`. The open-source one writes the payload alone, which nobody can recognise. Versions
//! before 2.5 replaced the key by the source's partition number: such a key is not the event's (K10).

use super::{Dialect, Form, Look, Mark, Testimony};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

/// Names of one age.
struct Names {
    topic: &'static str,
    partition: &'static str,
    offset: &'static str,
    group: &'static str,
    attempts: &'static str,
    trace: &'static str,
}

macro_rules! names {
    ($prefix:literal) => {
        Names {
            topic: concat!($prefix, "topic"),
            partition: concat!($prefix, "partition"),
            offset: concat!($prefix, "offset"),
            group: concat!($prefix, "consumer_group"),
            attempts: concat!($prefix, "attempts"),
            trace: concat!($prefix, "trace_id"),
        }
    };
}

/// Since 2.5.
const SOURCE: Names = names!("source_");
/// Before.
const ORIGINAL: Names = names!("original_");

/// See the file's head.
pub(super) struct Karafka;

impl Dialect for Karafka {
    fn name(&self) -> &'static str {
        "karafka"
    }

    fn about(&self) -> &'static str {
        "Karafka Pro's enhanced dead-letter queue"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Header(SOURCE.topic),
            Mark::Header(SOURCE.partition),
            Mark::Header(SOURCE.offset),
            Mark::Header(SOURCE.group),
            Mark::Header(SOURCE.attempts),
            Mark::Header(SOURCE.trace),
            Mark::Header(ORIGINAL.topic),
            Mark::Header(ORIGINAL.group),
            Mark::Header(ORIGINAL.attempts),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        let names = names(letter)?;
        let group = headers.has(names.group);
        if names.topic == ORIGINAL.topic {
            // Plain words: without the group they may be anybody's.
            return group.then(|| (Sureness::Likely, "headers original_*".to_owned()));
        }
        let sure = if group || headers.has(names.attempts) { Sureness::Sure } else { Sureness::Likely };
        Some((sure, "headers source_*".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some(names) = names(letter) else { return };
        let headers = letter.headers();
        let origin = Origin {
            topic: says.text("origin.topic", names.topic, headers.last(names.topic)),
            partition: says.number(
                "origin.partition",
                names.partition,
                headers.last(names.partition),
                Form::Integer,
            ),
            offset: says.number("origin.offset", names.offset, headers.last(names.offset), Form::Integer),
            ..Origin::default()
        };
        says.attempts = says.number("attempts", names.attempts, headers.last(names.attempts), Form::Integer);
        let consumer = says.text("consumer", names.group, headers.last(names.group));
        says.trace = says.text("trace", names.trace, headers.last(names.trace));
        let dispatch_key = letter.message.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        if let (Some(partition), Some(key)) = (origin.partition, dispatch_key)
            && key == partition.to_string()
        {
            says.key_unavailable = true;
            says.doubt("key", "it is the source's partition number, not the event's key: ordering unknown");
        }
        says.deaths.push(Death { place: Some(origin.clone()), consumer, count: 1, ..Death::default() });
        says.origin = Some(origin);
    }

    fn owns(&self, header: &Header) -> bool {
        [SOURCE, ORIGINAL].iter().any(|names| {
            let own = [names.topic, names.partition, names.offset, names.group, names.attempts, names.trace];
            own.contains(&header.name.as_str())
        })
    }
}

/// The names that this letter uses: two of its place have to be there.
fn names(letter: &Look<'_>) -> Option<&'static Names> {
    let place = |names: &Names| {
        let own = [names.topic, names.partition, names.offset];
        own.iter().filter(|name| letter.headers().has(name)).count()
    };
    [&SOURCE, &ORIGINAL].into_iter().find(|names| place(names) >= 2)
}
