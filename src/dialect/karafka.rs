//! Karafka Pro's enhanced dead letters: `source_*` as text, nothing of the error. The open-source one writes
//! the payload alone, which nobody can recognise. Older versions replaced the key by the source's partition
//! number: such a key is not the event's (K10).

use super::{Dialect, Form, Look, Mark, Testimony};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

const TOPIC: &str = "source_topic";
const PARTITION: &str = "source_partition";
const OFFSET: &str = "source_offset";
const GROUP: &str = "source_consumer_group";
const ATTEMPTS: &str = "source_attempts";
const TRACE: &str = "source_trace_id";

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
            Mark::Header(TOPIC),
            Mark::Header(PARTITION),
            Mark::Header(OFFSET),
            Mark::Header(GROUP),
            Mark::Header(ATTEMPTS),
            Mark::Header(TRACE),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        let known = [TOPIC, PARTITION, OFFSET].iter().filter(|name| headers.has(name)).count();
        if known < 2 {
            return None;
        }
        let sure =
            if headers.has(GROUP) || headers.has(ATTEMPTS) { Sureness::Sure } else { Sureness::Likely };
        Some((sure, "headers source_*".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let origin = Origin {
            topic: says.text("origin.topic", TOPIC, headers.last(TOPIC)),
            partition: says.number("origin.partition", PARTITION, headers.last(PARTITION), Form::Integer),
            offset: says.number("origin.offset", OFFSET, headers.last(OFFSET), Form::Integer),
            ..Origin::default()
        };
        says.attempts = says.number("attempts", ATTEMPTS, headers.last(ATTEMPTS), Form::Integer);
        let consumer = says.text("consumer", GROUP, headers.last(GROUP));
        says.trace = says.text("trace", TRACE, headers.last(TRACE));
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
        matches!(header.name.as_str(), TOPIC | PARTITION | OFFSET | GROUP | ATTEMPTS | TRACE)
    }
}
