//! MassTransit on RabbitMQ and SQS: `<queue>_error` and `<queue>_skipped`. The body is the untouched message;
//! all about the failure is in headers `MT-…`.

use std::borrow::Cow;

use super::{Dialect, Form, Look, Mark, Testimony, amqp_json, thrown, when};
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Headers};

/// See the file's head.
pub(super) struct MassTransit;

impl Dialect for MassTransit {
    fn name(&self) -> &'static str {
        "masstransit"
    }

    fn about(&self) -> &'static str {
        "MassTransit's `<queue>_error` and `<queue>_skipped` on RabbitMQ and SQS"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix("MT-"), Mark::Field("messageType")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = words(letter)?;
        if headers.has("MT-Reason") {
            return Some((Sureness::Sure, "header MT-Reason".to_owned()));
        }
        let fault = headers.iter().find(|header| header.name.starts_with("MT-Fault-"))?;
        Some((Sureness::Sure, format!("header {}", fault.name)))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some(headers) = words(letter) else { return };
        let headers = headers.as_ref();
        let reason = says.words("reason", "MT-Reason", headers);
        let queue = headers.last_text("MT-Fault-InputAddress").and_then(queue_of);
        says.origin = queue.clone().map(|queue| Origin { queue: Some(queue), ..Origin::default() });
        says.event_id = letter
            .properties()
            .last_text("message_id")
            .map(str::to_owned)
            .or_else(|| letter.field("messageId").map(str::to_owned));
        if reason.as_deref() == Some("dead-letter") {
            // Nothing failed: no consumer of the endpoint takes this type.
            says.doubt("message", "skipped: no consumer of the endpoint takes its type");
            says.deaths = vec![Death { reason: Some("skipped".to_owned()), count: 1, ..Death::default() }];
            by_name(letter, "_skipped", says);
            return;
        }
        let at = headers.last("MT-Fault-Timestamp").and_then(when::of);
        let mut place = says.origin.clone();
        if let Some(consumer) = says.words("handler", "MT-Fault-ConsumerType", headers) {
            place.get_or_insert_default().named.push(("handler", consumer));
        }
        let mut death = Death {
            at,
            place,
            error_class: says.words("error", "MT-Fault-ExceptionType", headers),
            message: says.words("message", "MT-Fault-Message", headers),
            reason,
            count: 1,
            ..Death::default()
        };
        if let Some(stack) = says.words("stack", "MT-Fault-StackTrace", headers) {
            thrown::put(&mut death, Language::DotNet, &stack, |_| false);
        }
        // MassTransit writes the base exception, the innermost.
        if death.root_class.is_none() {
            death.root_class = death.error_class.clone();
        }
        says.deaths = vec![death];
        says.attempts = attempts(headers, says);
        match queue {
            Some(queue) => says.prospect(Prospect::ToQueue {
                queue,
                why: "its exchange may hand it to other endpoints too".to_owned(),
            }),
            None => by_name(letter, "_error", says),
        }
    }

    fn owns(&self, header: &Header) -> bool {
        let name = header.name.as_str();
        name == "MT-Reason"
            || name == "MT-Redelivery-Count"
            || name.starts_with("MT-Fault-")
            || name.starts_with("MT-Host-")
    }
}

/// The headers: on the letter, or where they found no room there (SQS takes ten attributes), in the body.
fn words<'a>(letter: &'a Look<'_>) -> Option<Cow<'a, Headers>> {
    let headers = letter.headers();
    if headers.iter().any(|header| header.name.starts_with("MT-")) {
        return Some(Cow::Borrowed(headers));
    }
    if !letter.has_field("messageType") || !letter.has_field("headers") {
        return None;
    }
    let inner = letter.json()?.get("headers")?.as_object()?;
    inner.keys().any(|name| name.starts_with("MT-")).then(|| Cow::Owned(amqp_json::headers(inner, |_| false)))
}

/// Retries of this delivery and its first try. Redeliveries before it had retries of their own.
fn attempts(headers: &Headers, says: &mut Testimony) -> Option<u32> {
    let count = |says: &mut Testimony, name: &str| -> Option<u32> {
        says.number("attempts", name, headers.last(name), Form::Integer)
    };
    let redelivered = count(says, "MT-Fault-RedeliveryCount").or_else(|| count(says, "MT-Redelivery-Count"));
    let retries = count(says, "MT-Fault-RetryCount");
    match (retries, redelivered.filter(|n| *n > 0)) {
        (Some(retries), None) => retries.checked_add(1),
        (retries, Some(redelivered)) => {
            let least = retries.unwrap_or(0).saturating_add(1).saturating_add(redelivered);
            says.doubt("attempts", format!("at least {least}: it was redelivered {redelivered} times"));
            None
        }
        (None, None) => {
            says.doubt("attempts", "at least 1: there is no MT-Fault-RetryCount");
            None
        }
    }
}

fn by_name(letter: &Look<'_>, ending: &str, says: &mut Testimony) {
    let name = &letter.facts.queue;
    if let Some(queue) = name.strip_suffix(ending) {
        says.doubt("origin.queue", format!("not in the letter; by the name of its queue, `{queue}`"));
    }
}

/// `rabbitmq://host/vhost/orders?durable=true`, `amazonsqs://region/orders`, `queue:orders`.
fn queue_of(address: &str) -> Option<String> {
    if let Some(name) = address.strip_prefix("queue:") {
        return (!name.is_empty()).then(|| name.to_owned());
    }
    let (_, rest) = address.split_once("://")?;
    let path = rest.split(['?', '#']).next()?;
    let (_, name) = path.rsplit_once('/')?;
    let name = unescaped(name)?;
    (!name.is_empty()).then_some(name)
}

/// Without percent escapes.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%').then(|| std::str::from_utf8(tail.get(..2)?).ok()).flatten();
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_the_addresss_last_part() {
        for address in [
            "rabbitmq://host/orders",
            "rabbitmq://host:5672/vhost/orders?durable=true",
            "amazonsqs://us-east-1/scope/orders",
            "queue:orders",
        ] {
            assert_eq!(queue_of(address).as_deref(), Some("orders"), "{address}");
        }
        assert_eq!(queue_of("rabbitmq://host/a%20b%").as_deref(), Some("a b%"));
        for bad in ["", "orders", "rabbitmq://host", "rabbitmq://host/", "queue:"] {
            assert_eq!(queue_of(bad), None, "{bad}");
        }
    }
}
