//! Kafka Connect sink connectors with `errors.deadletterqueue.context.headers.enable=true`: ten text headers,
//! a whole set appended at each failure (first: origin, last: latest failure). With the default, false,
//! nothing is written but the record itself, and nobody can know where it came from (K12).
//!
//! The dead letter keeps the SOURCE record's own time: after one failure it is the origin's, after a redrive
//! that stamps anew it is not. There is no group, no count, no time of the failure.

use super::{Dialect, Form, Look, Mark, Testimony, last_index};
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Stage, Sureness, stack};
use crate::letter::{Header, TimeSource, Value};

const PREFIX: &str = "__connect.errors.";
const TOPIC: &str = "__connect.errors.topic";
const PARTITION: &str = "__connect.errors.partition";
const OFFSET: &str = "__connect.errors.offset";
const STAGE: &str = "__connect.errors.stage";
const CLASS: &str = "__connect.errors.exception.class.name";
const MESSAGE: &str = "__connect.errors.exception.message";
const STACK: &str = "__connect.errors.exception.stacktrace";
const CONNECTOR: &str = "__connect.errors.connector.name";
/// More sets than anybody has.
const MOST_DEATHS: usize = 100;

/// See the file's head.
pub(super) struct KafkaConnect;

impl Dialect for KafkaConnect {
    fn name(&self) -> &'static str {
        "kafka-connect"
    }

    fn about(&self) -> &'static str {
        "Kafka Connect sink connectors, dead-letter queue with context headers on"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix(PREFIX)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let found = [TOPIC, CLASS, STAGE, CONNECTOR].into_iter().find(|name| letter.headers().has(name))?;
        Some((Sureness::Sure, format!("header {found}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.newest_at = last_index(headers, |name| name.starts_with(PREFIX));
        let all = |name: &'static str| headers.all(name).collect::<Vec<&Value>>();
        let (topics, partitions, offsets) = (all(TOPIC), all(PARTITION), all(OFFSET));
        let (classes, messages, stacks, stages) = (all(CLASS), all(MESSAGE), all(STACK), all(STAGE));
        let sets = topics.len().max(classes.len()).max(offsets.len()).max(1);
        for set in 0..sets {
            if sets > MOST_DEATHS && set != 0 && set + MOST_DEATHS <= sets {
                continue;
            }
            let of = |values: &[_]| pick(values, set, sets);
            let place = Origin {
                topic: says.text("origin.topic", TOPIC, of(&topics)),
                partition: says.number("origin.partition", PARTITION, of(&partitions), Form::Integer),
                offset: says.number("origin.offset", OFFSET, of(&offsets), Form::Integer),
                ..Origin::default()
            };
            let trace = says.text("stack", STACK, of(&stacks));
            let root = trace.as_deref().and_then(|text| stack::root_in(Language::Java, text));
            let class = says.text("error", CLASS, of(&classes));
            let message = says.text("message", MESSAGE, of(&messages));
            let stage = says.text("stage", STAGE, of(&stages));
            let inner = root.filter(|root| root.class != class.as_deref()).and_then(|root| root.message);
            says.deaths.push(Death {
                place: (!place.is_empty()).then_some(place),
                root_class: root.and_then(|root| root.class).map(str::to_owned),
                root_message: inner.map(str::to_owned),
                error_class: class,
                message,
                stack: trace,
                stage: stage.as_deref().and_then(stage_of),
                count: 1,
                ..Death::default()
            });
        }
        says.origin = says.deaths.first().and_then(|death| death.place.clone());
        if sets == 1
            && let Some((written, TimeSource::Producer)) = letter.facts.written_at
            && let Some(origin) = &mut says.origin
        {
            origin.timestamp = Some(written);
        }
    }

    fn owns(&self, header: &Header) -> bool {
        header.name.starts_with(PREFIX)
    }
}

/// Sets are whole: the nth value of a name belongs to the nth set. If some are missing, only the last is
/// known to be of the last.
fn pick<'a>(values: &[&'a Value], set: usize, sets: usize) -> Option<&'a Value> {
    if values.len() == sets {
        values.get(set).copied()
    } else if set + 1 == sets {
        values.last().copied()
    } else {
        None
    }
}

fn stage_of(stage: &str) -> Option<Stage> {
    Some(match stage {
        "KEY_CONVERTER" => Stage::Key,
        "VALUE_CONVERTER" => Stage::Value,
        "HEADER_CONVERTER" | "TRANSFORMATION" => Stage::Transform,
        "TASK_PUT" | "TASK_POLL" => Stage::Handler,
        "KAFKA_PRODUCE" | "KAFKA_CONSUME" => Stage::Output,
        _ => return None,
    })
}
