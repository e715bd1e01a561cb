//! Kafka Streams (KIP-1034, 4.2 and later): six text headers behind those of the record. Early builds wrote
//! the whole `class: message` text as the exception and dropped the record's own headers (K14).
//!
//! The record's time is the source record's. A produce error leaves key and value null (K15); behind a
//! repartition topic the origin is the internal topic, and the user's own record is named nowhere.

use super::{Dialect, Form, Look, Mark, Testimony, last_index};
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Prospect, Sureness, stack};
use crate::letter::{Header, TimeSource};

const PREFIX: &str = "__streams.errors.";
const EXCEPTION: &str = "__streams.errors.exception";
const MESSAGE: &str = "__streams.errors.message";
const STACK: &str = "__streams.errors.stacktrace";
const TOPIC: &str = "__streams.errors.topic";
const PARTITION: &str = "__streams.errors.partition";
const OFFSET: &str = "__streams.errors.offset";

/// See the file's head.
pub(super) struct KafkaStreams;

impl Dialect for KafkaStreams {
    fn name(&self) -> &'static str {
        "kafka-streams"
    }

    fn about(&self) -> &'static str {
        "Kafka Streams 4.2 and later, errors.dead.letter.queue.topic.name"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix(PREFIX)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let found = [EXCEPTION, TOPIC, STACK].into_iter().find(|name| letter.headers().has(name))?;
        Some((Sureness::Sure, format!("header {found}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.newest_at = last_index(headers, |name| name.starts_with(PREFIX));
        let laps = headers.all(OFFSET).count();
        let mut origin = Origin {
            topic: says.text("origin.topic", TOPIC, headers.first(TOPIC)),
            partition: says.number("origin.partition", PARTITION, headers.first(PARTITION), Form::Integer),
            offset: says.number("origin.offset", OFFSET, headers.first(OFFSET), Form::Integer),
            ..Origin::default()
        };
        if laps == 1
            && origin.topic.is_some()
            && let Some((written, TimeSource::Producer)) = letter.facts.written_at
        {
            origin.timestamp = Some(written);
        }
        let last_place = Origin {
            topic: says.text("deaths", TOPIC, headers.last(TOPIC)),
            partition: says.number("deaths", PARTITION, headers.last(PARTITION), Form::Integer),
            offset: says.number("deaths", OFFSET, headers.last(OFFSET), Form::Integer),
            ..Origin::default()
        };
        if laps > 1 {
            says.deaths.push(Death { place: Some(origin.clone()), count: 1, ..Death::default() });
        }
        let exception = says.text("error", EXCEPTION, headers.last(EXCEPTION));
        let (class, early) = match exception.as_deref().and_then(|text| text.split_once(": ")) {
            Some((class, rest)) if !class.contains(' ') => (Some(class.to_owned()), Some(rest.to_owned())),
            _ => (exception, None),
        };
        let message = says.text("message", MESSAGE, headers.last(MESSAGE)).or(early);
        let trace = says.text("stack", STACK, headers.last(STACK));
        let root = trace.as_deref().and_then(|text| stack::root_in(Language::Java, text));
        let inner = root.filter(|root| root.class != class.as_deref()).and_then(|root| root.message);
        let death = Death {
            place: (!last_place.is_empty()).then_some(last_place),
            root_class: root.and_then(|root| root.class).map(str::to_owned),
            root_message: inner.map(str::to_owned),
            error_class: class,
            message,
            count: 1,
            ..Death::default()
        };
        says.deaths.push(Death { stack: trace, ..death });
        if origin.topic.is_none() {
            // A punctuator has no source record: the place is written as null, -1, -1.
            origin = Origin::default();
            says.doubt("origin", "the letter names no source record, as when a punctuator failed");
        }
        prospects(letter, &origin, says);
        says.origin = (!origin.is_empty()).then_some(origin);
    }

    fn owns(&self, header: &Header) -> bool {
        header.name.starts_with(PREFIX)
    }
}

fn prospects(letter: &Look<'_>, origin: &Origin, says: &mut Testimony) {
    let own_headers = letter.headers().iter().any(|header| !header.name.starts_with(PREFIX));
    if !own_headers {
        // K14: it may also have had none; nobody can tell.
        says.doubt("headers", "the record's own headers are not in the letter: it had none, or the first release of this writer dropped them");
    }
    let internal = origin
        .topic
        .as_deref()
        .filter(|topic| topic.ends_with("-repartition") || topic.ends_with("-changelog"));
    if let Some(topic) = internal {
        says.key_unavailable = true;
        says.doubt(
            "origin",
            "an internal topic of the application: the user's own record and key are named nowhere",
        );
        says.prospect(Prospect::Refused {
            why: format!("it died behind {topic}, an internal topic: as it is it would enter in the middle of the application"),
            way_round: "send the source record again, to the topic that the application reads".to_owned(),
        });
    } else if letter.message.key.is_none() && letter.body_len.is_none() {
        says.key_unavailable = true;
        says.value_unavailable = true;
        let at = match (&origin.topic, origin.partition, origin.offset) {
            (Some(topic), Some(partition), Some(offset)) => format!("{topic} p{partition} offset {offset}"),
            _ => {
                says.prospect(Prospect::Refused {
                    why: "it carries neither key nor value: it would be a tombstone".to_owned(),
                    way_round: "send the event again from its producer".to_owned(),
                });
                return;
            }
        };
        says.prospect(Prospect::Pointer { at });
    }
}
