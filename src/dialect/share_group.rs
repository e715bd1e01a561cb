//! Share groups (KIP-1191, Kafka 4.4): the broker writes the letter. Key and value are null unless
//! `errors.deadletterqueue.copy.record.enable` is on, headers never come along: a letter without them is a
//! POINTER at the source record, and sending it on would write a tombstone (K15).

use super::{Dialect, Form, Look, Mark, Testimony, last_index};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::Header;

const PREFIX: &str = "__dlq.errors.";
const TOPIC: &str = "__dlq.errors.topic";
const PARTITION: &str = "__dlq.errors.partition";
const OFFSET: &str = "__dlq.errors.offset";
const GROUP: &str = "__dlq.errors.group";
const COUNT: &str = "__dlq.errors.delivery.count";
const MESSAGE: &str = "__dlq.errors.message";

/// See the file's head.
pub(super) struct ShareGroup;

impl Dialect for ShareGroup {
    fn name(&self) -> &'static str {
        "kafka-share-group"
    }

    fn about(&self) -> &'static str {
        "Kafka 4.4 brokers, dead-letter queue of a share group"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix(PREFIX)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let found = [TOPIC, GROUP, OFFSET].into_iter().find(|name| letter.headers().has(name))?;
        Some((Sureness::Sure, format!("header {found}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.newest_at = last_index(headers, |name| name.starts_with(PREFIX));
        let origin = Origin {
            topic: says.text("origin.topic", TOPIC, headers.first(TOPIC)),
            partition: says.number("origin.partition", PARTITION, headers.first(PARTITION), Form::Integer),
            offset: says.number("origin.offset", OFFSET, headers.first(OFFSET), Form::Integer),
            ..Origin::default()
        };
        says.attempts = says.number("attempts", COUNT, headers.last(COUNT), Form::Integer);
        let message = says.text("message", MESSAGE, headers.last(MESSAGE));
        let reason = match message.as_deref() {
            Some(text) if text.contains("rejected") => Some("rejected"),
            Some(text) if text.contains("delivery count") => Some("delivery_limit"),
            _ => None,
        };
        let death = Death {
            place: Some(origin.clone()),
            consumer: says.text("consumer", GROUP, headers.last(GROUP)),
            message,
            reason: reason.map(str::to_owned),
            count: 1,
            ..Death::default()
        };
        says.deaths.push(death);
        let topic = origin.topic.clone().unwrap_or_default();
        let by_id = is_topic_id(&topic);
        if by_id {
            says.doubt(
                "origin.topic",
                format!("{topic} is a topic's id, not its name: the broker could not resolve it"),
            );
        }
        let own_headers = headers.iter().any(|header| !header.name.starts_with(PREFIX));
        if !own_headers {
            says.doubt("headers", "a share group never copies the record's own headers");
        }
        if letter.message.key.is_none() && letter.body_len.is_none() {
            says.key_unavailable = true;
            says.value_unavailable = true;
            match (by_id, origin.partition, origin.offset) {
                (false, Some(partition), Some(offset)) if !topic.is_empty() => {
                    says.prospect(Prospect::Pointer { at: format!("{topic} p{partition} offset {offset}") });
                }
                _ => says.prospect(Prospect::Refused {
                    why: "it only points at a record, and does not name the record's place: it would be a tombstone".to_owned(),
                    way_round: "look the topic's id up and send the event again from its producer".to_owned(),
                }),
            }
        }
        says.origin = (!origin.is_empty()).then_some(origin);
    }

    fn owns(&self, header: &Header) -> bool {
        header.name.starts_with(PREFIX)
    }
}

/// Kafka's topic ids: 22 characters of URL-safe base64; also as a UUID.
fn is_topic_id(topic: &str) -> bool {
    let base64 = topic.len() == 22
        && topic.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && topic.bytes().any(|b| b.is_ascii_uppercase())
        && topic.bytes().any(|b| b.is_ascii_digit())
        && topic.bytes().any(|b| b.is_ascii_lowercase());
    let uuid = topic.len() == 36
        && topic
            .bytes()
            .enumerate()
            .all(|(at, b)| if matches!(at, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() });
    base64 || uuid
}
