//! sentry-arroyo: appends `original_partition` and `original_offset` (text) behind the record's own headers;
//! no topic, group, time or reason. On another lap it appends another pair: the first is the origin.

use super::{Dialect, Form, Look, Mark, Testimony, last_index};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::{Header, Value};

const PARTITION: &str = "original_partition";
const OFFSET: &str = "original_offset";
/// More laps than anybody has.
const MOST_DEATHS: usize = 100;

/// See the file's head.
pub(super) struct Arroyo;

impl Dialect for Arroyo {
    fn name(&self) -> &'static str {
        "sentry-arroyo"
    }

    fn about(&self) -> &'static str {
        "sentry-arroyo's dead-letter policy on Kafka"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(PARTITION), Mark::Header(OFFSET)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        let digits = |name| {
            headers
                .last_text(name)
                .is_some_and(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        };
        // With a topic beside them they are another writer's: this one names none.
        (digits(PARTITION) && digits(OFFSET) && !headers.has("original_topic"))
            .then(|| (Sureness::Likely, format!("headers {PARTITION}, {OFFSET}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.newest_at = last_index(headers, |name| name == OFFSET);
        let partitions: Vec<&Value> = headers.all(PARTITION).collect();
        let offsets: Vec<&Value> = headers.all(OFFSET).collect();
        let laps = offsets.len();
        for lap in 0..laps {
            if laps > MOST_DEATHS && lap != 0 && lap + MOST_DEATHS <= laps {
                continue;
            }
            let place = Origin {
                partition: says.number(
                    "origin.partition",
                    PARTITION,
                    partitions.get(lap).copied(),
                    Form::Integer,
                ),
                offset: says.number("origin.offset", OFFSET, offsets.get(lap).copied(), Form::Integer),
                ..Origin::default()
            };
            says.deaths.push(Death { place: Some(place), count: 1, ..Death::default() });
        }
        says.origin = says.deaths.first().and_then(|death| death.place.clone());
        says.doubt("origin.topic", "this writer names no topic: the topology's source is taken");
    }

    fn owns(&self, header: &Header) -> bool {
        matches!(header.name.as_str(), PARTITION | OFFSET)
    }
}
