//! Moleculer channels, on Kafka and AMQP. Retries on Kafka are new records on the SOURCE topic, so the
//! partition is that of the last try and the offset is in no header. On AMQP every header of the message is
//! dropped, and the channel is the exchange's name; the queue, `<group>.<channel>`, is a convention and not
//! read. Later versions add `x-error-*`, each value in base64 (NATS allows no line breaks in headers).

use base64::Engine;

use super::{Dialect, Form, Look, Mark, Testimony, raw_of, when};
use crate::failure::{Death, Origin, Sureness, stack};
use crate::letter::{Header, Headers, Value};

const CHANNEL: &str = "x-original-channel";
const GROUP: &str = "x-original-group";
const PARTITION: &str = "x-original-partition";
const COUNT: &str = "x-redelivered-count";
const ERROR_NAME: &str = "x-error-name";
const ERROR_MESSAGE: &str = "x-error-message";
const ERROR_STACK: &str = "x-error-stack";
const ERROR_TIME: &str = "x-error-timestamp";
const ERROR_CODE: &str = "x-error-code";

/// See the file's head.
pub(super) struct Moleculer;

impl Dialect for Moleculer {
    fn name(&self) -> &'static str {
        "moleculer"
    }

    fn about(&self) -> &'static str {
        "Moleculer channels (@moleculer/channels), on Kafka and RabbitMQ"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Header(CHANNEL),
            Mark::Header(GROUP),
            Mark::Header(PARTITION),
            Mark::Header(COUNT),
            Mark::Header(ERROR_NAME),
            Mark::Header(ERROR_MESSAGE),
            Mark::Header(ERROR_STACK),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        headers.has(CHANNEL).then(|| {
            let sure = if headers.has(GROUP) { Sureness::Sure } else { Sureness::Likely };
            (sure, format!("header {CHANNEL}"))
        })
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let channel = says.text("origin", CHANNEL, headers.last(CHANNEL));
        let on_log = letter.facts.place.is_some() || headers.has(PARTITION);
        let origin = if on_log {
            Origin {
                topic: channel,
                partition: says.number("origin.partition", PARTITION, headers.last(PARTITION), Form::Integer),
                ..Origin::default()
            }
        } else {
            Origin { named: channel.map(|name| ("channel", name)).into_iter().collect(), ..Origin::default() }
        };
        let count: Option<u32> = says.number("attempts", COUNT, headers.last(COUNT), Form::Integer);
        says.attempts = count.map(|count| count.saturating_add(1));
        let encoded = is_encoded(headers);
        let mut text = |field: &'static str, name: &str| {
            let text = says.text(field, name, headers.last(name))?;
            Some(if encoded { plain(text) } else { text })
        };
        let trace = text("stack", ERROR_STACK);
        let root = trace.as_deref().and_then(stack::root);
        let class = text("error", ERROR_NAME);
        let message = text("message", ERROR_MESSAGE);
        let code = text("reason", ERROR_CODE);
        let time = text("failed_at", ERROR_TIME);
        let at = time.as_deref().and_then(when::text);
        if let Some(time) = time.filter(|_| at.is_none()) {
            says.doubt("failed_at", format!("{ERROR_TIME} is no time: {}", raw_of(&Value::from_text(time))));
        }
        let root_class = root.and_then(|root| root.class).map(str::to_owned).or_else(|| class.clone());
        let death = Death {
            at,
            place: Some(origin.clone()),
            consumer: says.text("consumer", GROUP, headers.last(GROUP)),
            root_class: class.as_ref().and(root_class),
            error_class: class,
            message,
            reason: code,
            count: 1,
            ..Death::default()
        };
        says.deaths.push(Death { stack: trace, ..death });
        says.origin = (!origin.is_empty()).then_some(origin);
        if !on_log {
            says.doubt("headers", "Moleculer keeps the body alone: all headers of the message are lost");
        }
    }

    fn owns(&self, header: &Header) -> bool {
        let name = header.name.as_str();
        matches!(name, CHANNEL | GROUP | PARTITION | COUNT | "x-group") || name.starts_with("x-error-")
    }
}

/// Are the values of the error in base64? The time tells, which is digits only; without it the stack, which
/// has blanks in plain text.
fn is_encoded(headers: &Headers) -> bool {
    let decoded = |name: &str| headers.last_text(name).and_then(decoded);
    match headers.last_text(ERROR_TIME) {
        Some(time) if time.bytes().all(|b| b.is_ascii_digit()) => false,
        Some(_) => decoded(ERROR_TIME).is_some_and(|time| time.bytes().all(|b| b.is_ascii_digit())),
        None => decoded(ERROR_STACK).is_some(),
    }
}

fn plain(text: String) -> String {
    decoded(&text).unwrap_or(text)
}

/// What the base64 holds, if it is some and holds text.
fn decoded(text: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_bytes()).ok()?;
    String::from_utf8(bytes).ok()
}
