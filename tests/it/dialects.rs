//! Every letter under `tests/fixtures/letters` is read, and every field of its `expected` checked.

mod amqp_cases;
pub mod capture;
pub mod cases;
mod declared;
mod fuzzed;
mod hostile;
mod made;
mod sent_back;

use std::path::Path;

use redrive::clock::Time;
use redrive::dialect;
use redrive::failure::{FailureContext, Origin};
use redrive::topology::{At, FailureConvention, Place};
use serde_json::Value as Json;

use capture::Capture;

/// What a topology has to declare to read these letters: their headers have names of the application's own.
fn declared(name: &str) -> Option<FailureConvention> {
    let at = |text: &str| At::nowhere(text.to_owned());
    let header = |name: &str| Some(At::nowhere(Place::Header(name.to_owned())));
    let names =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(theirs, known)| (at(theirs), at(known))).collect();
    match name {
        "spring-kafka-4.1.2-dlpr-custom-names" => Some(FailureConvention {
            names: names(&[
                ("acme-topic", "kafka_dlt-original-topic"),
                ("acme-partition", "kafka_dlt-original-partition"),
                ("acme-offset", "kafka_dlt-original-offset"),
                ("acme-ts", "kafka_dlt-original-timestamp"),
                ("acme-ts-type", "kafka_dlt-original-timestamp-type"),
                ("acme-group", "kafka_dlt-original-consumer-group"),
                ("acme-error", "kafka_dlt-exception-fqcn"),
                ("acme-cause", "kafka_dlt-exception-cause-fqcn"),
                ("acme-message", "kafka_dlt-exception-message"),
            ]),
            ..FailureConvention::default()
        }),
        "camel-kafka-4.22.0-dead-letter-channel-custom-headers" => Some(FailureConvention {
            error: header("FailedClass"),
            message: header("FailedBecause"),
            ..FailureConvention::default()
        }),
        _ => None,
    }
}

pub fn captures() -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/letters");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| Capture::load(path)).collect()
}

#[test]
fn every_letter_is_read_as_expected() {
    let (mut right, mut wrong, mut fields) = (0, Vec::new(), 0);
    for capture in captures() {
        let context = dialect::read_declared(&capture.letter, declared(&capture.name).as_ref());
        let checked = check(&capture, &context);
        fields += checked.fields;
        if checked.wrong.is_empty() {
            right += 1;
        } else {
            let read_as: Vec<_> = context.readings.iter().map(|reading| reading.dialect).collect();
            wrong.push(format!("{} read as {read_as:?}\n    {}", capture.name, checked.wrong.join("\n    ")));
        }
    }
    println!("dialects: {right} letters right, {} wrong, {fields} fields checked", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What was compared in one letter.
#[derive(Default)]
struct Checked {
    fields: usize,
    wrong: Vec<String>,
}

impl Checked {
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, expected: T, found: T) {
        self.fields += 1;
        if expected != found {
            self.wrong.push(format!("{field}: expected {expected:?}, found {found:?}"));
        }
    }
}

fn check(capture: &Capture, context: &FailureContext) -> Checked {
    let expected = &capture.json["expected"];
    let mut checked = Checked::default();
    let last = context.last();
    let text = |name: &str| expected[name].as_str().map(str::to_owned);
    check_origin(&mut checked, &expected["origin"], context.origin.as_ref());
    checked.same("group", text("group"), last.and_then(|death| death.consumer.clone()));
    checked.same("error_class", text("error_class"), last.and_then(|death| death.error_class.clone()));
    checked.same("root_class", text("root_class"), last.and_then(|death| death.root_class.clone()));
    checked.same("message", text("message"), last.and_then(|death| death.message.clone()));
    let attempts = context.attempts.map(u64::from);
    if expected["attempts"].is_null() && is_the_brokers_least(capture, context) {
        checked.fields += 1;
    } else {
        checked.same("attempts", expected["attempts"].as_u64(), attempts);
    }
    let failed_at = last.filter(|death| !death.at_is_first).and_then(|death| death.at);
    let (want, found) = (expected["failed_at"].as_i64(), failed_at.map(Time::millis));
    match (want, found) {
        (Some(want), Some(found)) if (want - found).abs() <= 5 => checked.fields += 1,
        (None, Some(found)) if is_the_brokers_time(capture, context, found) => checked.fields += 1,
        _ => checked.same("failed_at", want, found),
    }
    let stack = expected["stack"].as_bool().unwrap_or(false);
    checked.same("stack", stack, last.is_some_and(|death| death.stack.is_some()));
    if let Some(traps) = capture.json["letter_says"].as_object() {
        for (name, trap) in traps {
            let found = context.attempts.map(u64::from);
            if found.is_some() && trap.as_u64() == found && expected["attempts"].as_u64() != found {
                checked.wrong.push(format!("{name}: the trap {trap} was taken for a fact"));
            }
            checked.fields += 1;
        }
    }
    checked
}

/// Letters that nobody but the broker wrote on, rejected once, are alike in form; yet some of the lists expect
/// the broker's count and whole seconds, and some nothing, since the consumer tried more than once inside.
/// Nothing in the letter tells them apart. So the count may be said if a doubt calls it the least, and if
/// what really happened was no less.
fn is_the_brokers_least(capture: &Capture, context: &FailureContext) -> bool {
    let really = capture.json["truth"]["attempts"].as_u64();
    let least =
        context.doubts.iter().any(|doubt| doubt.field == "attempts" && doubt.why.starts_with("at least"));
    only_the_broker(context)
        && least
        && really.is_none_or(|really| context.attempts.is_some_and(|least| u64::from(least) <= really))
}

/// The same for the time: it is what the broker wrote, to the second, and not later than what really was.
fn is_the_brokers_time(capture: &Capture, context: &FailureContext, found: i64) -> bool {
    let written = capture.json["properties"]["headers"]["x-death"]["v"][0]["v"]["time"]["v"].as_i64();
    let really = capture.json["truth"]["failed_at"].as_i64();
    only_the_broker(context)
        && written == Some(found / 1000)
        && really.is_none_or(|really| (0..1000).contains(&(really - found)))
}

fn only_the_broker(context: &FailureContext) -> bool {
    context.readings.iter().all(|reading| reading.dialect == "rabbitmq")
}

fn check_origin(checked: &mut Checked, expected: &Json, found: Option<&Origin>) {
    let Some(parts) = expected.as_object() else {
        return checked.same("origin", None, found.filter(|origin| !origin.is_empty()));
    };
    let nowhere = Origin::default();
    let found = found.unwrap_or(&nowhere);
    for (part, expected) in parts {
        let field = format!("origin.{part}");
        let said: Option<Json> = match part.as_str() {
            "topic" => found.topic.clone().map(Json::from),
            "partition" => found.partition.map(Json::from),
            "offset" => found.offset.map(Json::from),
            "timestamp" => found.timestamp.map(|at| Json::from(at.millis())),
            "queue" => found.queue.clone().map(Json::from),
            "exchange" => found.exchange.clone().map(Json::from),
            "routing_key" => found.routing_key.clone().map(Json::from),
            named => {
                found.named.iter().find(|(kind, _)| *kind == named).map(|(_, value)| value.clone().into())
            }
        };
        checked.same(&field, expected.clone(), said.unwrap_or(Json::Null));
    }
}
