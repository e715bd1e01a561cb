//! Redpanda Connect (Benthos). It has no convention of its own: a failed output leaves the metadata
//! `fallback_error`, and pipelines that pass all metadata on carry `kafka_topic`, `kafka_partition`,
//! `kafka_offset` and others as text headers.

use super::{Dialect, Form, Look, Mark, Testimony};
use crate::failure::{Death, Origin, Stage, Sureness};
use crate::letter::Header;

const ERROR: &str = "fallback_error";
const TOPIC: &str = "kafka_topic";
const PARTITION: &str = "kafka_partition";
const OFFSET: &str = "kafka_offset";
const TIMESTAMP_MS: &str = "kafka_timestamp_ms";
const TIMESTAMP_S: &str = "kafka_timestamp_unix";

/// See the file's head.
pub(super) struct RedpandaConnect;

impl Dialect for RedpandaConnect {
    fn name(&self) -> &'static str {
        "redpanda-connect"
    }

    fn about(&self) -> &'static str {
        "Redpanda Connect (Benthos) pipelines that pass their metadata on"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(ERROR), Mark::Header(TOPIC), Mark::Header(PARTITION), Mark::Header(OFFSET)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if headers.has(ERROR) {
            return Some((Sureness::Likely, format!("header {ERROR}")));
        }
        // Numbers as text: others write these names in binary.
        let text = |name| headers.last_text(name).is_some_and(|text| text.parse::<i64>().is_ok());
        (headers.has(TOPIC) && text(PARTITION) && text(OFFSET))
            .then(|| (Sureness::Maybe, format!("headers {TOPIC}, {PARTITION}, {OFFSET}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let ms = says.millis("origin.timestamp", TIMESTAMP_MS, headers.last(TIMESTAMP_MS), Form::Integer);
        let seconds: Option<i64> =
            says.number("origin.timestamp", TIMESTAMP_S, headers.last(TIMESTAMP_S), Form::Integer);
        let origin = Origin {
            topic: says.text("origin.topic", TOPIC, headers.last(TOPIC)),
            partition: says.number("origin.partition", PARTITION, headers.last(PARTITION), Form::Integer),
            offset: says.number("origin.offset", OFFSET, headers.last(OFFSET), Form::Integer),
            timestamp: ms.or_else(|| seconds.filter(|s| *s >= 0).map(crate::clock::Time::from_seconds)),
            ..Origin::default()
        };
        let message = says.text("message", ERROR, headers.last(ERROR));
        says.deaths.push(Death {
            place: (!origin.is_empty()).then(|| origin.clone()),
            stage: message.as_ref().map(|_| Stage::Output),
            message,
            count: 1,
            ..Death::default()
        });
        says.origin = (!origin.is_empty()).then_some(origin);
    }

    fn owns(&self, header: &Header) -> bool {
        matches!(
            header.name.as_str(),
            ERROR
                | TOPIC
                | PARTITION
                | OFFSET
                | TIMESTAMP_MS
                | TIMESTAMP_S
                | "kafka_key"
                | "kafka_lag"
                | "kafka_tombstone_message"
        )
    }
}
