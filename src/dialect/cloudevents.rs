//! CloudEvents 1.0. Binary mode: one header an attribute, `ce_id` on Kafka, `cloudEvents:id` on AMQP.
//! Structured mode: `content-type: application/cloudevents+json`, attributes in the body. The id, with the
//! source, names the event. Says nothing of a failure.

use super::{Dialect, Layer, Look, Mark, Testimony};
use crate::failure::Sureness;
use crate::letter::Header;

/// Prefixes of attributes in the bindings.
const PREFIXES: [&str; 4] = ["ce_", "cloudEvents:", "cloudEvents_", "ce-"];

/// See the file's head.
pub(super) struct CloudEvents;

impl Dialect for CloudEvents {
    fn name(&self) -> &'static str {
        "cloudevents"
    }

    fn about(&self) -> &'static str {
        "CloudEvents, binary and structured mode"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix("ce_"), Mark::Prefix("ce-"), Mark::Prefix("cloudEvents"), Mark::Field("specversion")]
    }

    fn layer(&self) -> Layer {
        Layer::Envelope
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        if let Some(prefix) = prefix(letter) {
            return Some((Sureness::Sure, format!("header {prefix}id")));
        }
        if !(letter.has_field("specversion") && letter.has_field("id") && letter.has_field("source")) {
            return None;
        }
        let declared = letter.headers().iter().chain(letter.properties()).any(|header| {
            let name = header.name.as_str();
            (name.eq_ignore_ascii_case("content-type") || name == "content_type" || name == "contentType")
                && header.value.text().is_some_and(|text| text.starts_with("application/cloudevents"))
        });
        let sure = if declared { Sureness::Sure } else { Sureness::Likely };
        Some((sure, "body fields specversion, id, source".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        if let Some(prefix) = prefix(letter) {
            let value =
                |name: &str| letter.headers().first_text(&format!("{prefix}{name}")).map(str::to_owned);
            says.event_id = value("id");
            says.group = value("partitionkey");
            says.trace = value("traceparent").as_deref().and_then(super::trace::of_traceparent);
        } else {
            says.event_id = letter.field("id").map(str::to_owned);
            says.group = letter.field("partitionkey").map(str::to_owned);
            says.trace = letter.field("traceparent").and_then(super::trace::of_traceparent);
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

/// The prefix of a letter in binary mode: it needs the attributes that an event must have.
fn prefix(letter: &Look<'_>) -> Option<&'static str> {
    PREFIXES.into_iter().find(|prefix| {
        let has = |name: &str| {
            letter.headers().iter().any(|h| h.name.strip_prefix(prefix).is_some_and(|tail| tail == name))
        };
        has("id") && (has("specversion") || has("source") || has("type"))
    })
}
