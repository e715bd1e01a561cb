//! Moleculer channels, on Kafka and AMQP. Retries on Kafka are new records on the SOURCE topic, so the
//! partition is that of the last try and the offset is in no header. On AMQP every header of the message is
//! dropped, and the channel is the exchange's name; the queue, `<group>.<channel>`, is a convention and not
//! read. Later versions add `x-error-*`.

use base64::Engine;

use super::{Dialect, Form, Look, Mark, Testimony};
use crate::clock::Time;
use crate::failure::{Death, Origin, Sureness, stack};
use crate::letter::Header;

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
        let trace = says.text("stack", ERROR_STACK, headers.last(ERROR_STACK)).map(plain);
        let root = trace.as_deref().and_then(stack::root);
        let class = says.text("error", ERROR_NAME, headers.last(ERROR_NAME));
        let time = headers.last(ERROR_TIME);
        let at = match time.and_then(|value| value.text()).and_then(Time::parse) {
            Some(at) => Some(at),
            None => says.millis("failed_at", ERROR_TIME, time, Form::Integer),
        };
        let root_class = root.and_then(|root| root.class).map(str::to_owned).or_else(|| class.clone());
        let death = Death {
            at,
            place: Some(origin.clone()),
            consumer: says.text("consumer", GROUP, headers.last(GROUP)),
            root_class: class.as_ref().and(root_class),
            error_class: class,
            message: says.text("message", ERROR_MESSAGE, headers.last(ERROR_MESSAGE)),
            reason: says.text("reason", ERROR_CODE, headers.last(ERROR_CODE)),
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

/// Stacks are base64 in later versions.
fn plain(text: String) -> String {
    if text.contains([' ', '\n']) {
        return text;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(text.as_bytes()).ok();
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(text)
}
