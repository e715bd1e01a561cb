//! Apache Camel. Its dead letter channel filters all its own headers out on the way to Kafka, so as a rule
//! nothing of the failure is there (use `failure:` for home-made headers). With a permissive header filter
//! the exchange's own headers come along: counters and Longs as big-endian bytes, the rest as text.

use super::{Dialect, Form, Look, Mark, Testimony};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

const REDELIVERIES: &str = "CamelRedeliveryCounter";
const CAUGHT: &str = "CamelExceptionCaught";
const ENDPOINT: &str = "CamelFailureEndpoint";
const ROUTE: &str = "CamelFailureRouteId";
const TOPIC: &str = "kafka.TOPIC";
const PARTITION: &str = "kafka.PARTITION";
const OFFSET: &str = "kafka.OFFSET";
const TIMESTAMP: &str = "kafka.TIMESTAMP";

/// See the file's head.
pub(super) struct Camel;

impl Dialect for Camel {
    fn name(&self) -> &'static str {
        "camel"
    }

    fn about(&self) -> &'static str {
        "Apache Camel's dead letter channel, where its header filter lets the exchange's headers pass"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix("CamelFailure"), Mark::Header(CAUGHT), Mark::Header(REDELIVERIES)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let found =
            [CAUGHT, ENDPOINT, ROUTE, REDELIVERIES].into_iter().find(|name| letter.headers().has(name))?;
        Some((Sureness::Likely, format!("header {found}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let origin = Origin {
            topic: says.text("origin.topic", TOPIC, headers.first(TOPIC)),
            partition: says.number("origin.partition", PARTITION, headers.first(PARTITION), Form::Int32),
            offset: says.number("origin.offset", OFFSET, headers.first(OFFSET), Form::Int64),
            timestamp: says.millis("origin.timestamp", TIMESTAMP, headers.first(TIMESTAMP), Form::Int64),
            ..Origin::default()
        };
        let redeliveries: Option<u32> =
            says.number("attempts", REDELIVERIES, headers.last(REDELIVERIES), Form::Int32);
        says.attempts = redeliveries.map(|n| n.saturating_add(1));
        // The exception is written as its text: `class: message`.
        let caught = says.text("error", CAUGHT, headers.last(CAUGHT));
        let (class, message) = match caught.as_deref().and_then(|text| text.split_once(": ")) {
            Some((class, message)) if !class.contains(' ') => {
                (Some(class.to_owned()), Some(message.to_owned()))
            }
            _ => (None, caught),
        };
        let place = (!origin.is_empty()).then(|| origin.clone());
        says.deaths.push(Death { error_class: class, message, place, count: 1, ..Death::default() });
        says.origin = (!origin.is_empty()).then_some(origin);
        says.doubt(
            "headers",
            "Camel carries headers in a map without case: of several of one name only the last is left",
        );
    }

    fn owns(&self, header: &Header) -> bool {
        let name = header.name.as_str();
        [
            "CamelFailure",
            "CamelException",
            "CamelRedeliver",
            "CamelErrorHandler",
            "CamelToEndpoint",
            "CamelMessageTimestamp",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
            || name.starts_with("kafka.") && name[6..].bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    }
}
