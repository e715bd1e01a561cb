//! AMQP 1.0 clients on RabbitMQ 4.x, as an AMQP 0-9-1 reader sees them. Annotations arrive as headers
//! `x-opt-*`: the publisher's, and those that a consumer left with the outcome *modified*, perhaps the only
//! reason there is. They are user data and travel. The error condition of *rejected* is dropped by the broker.

use super::{Dialect, Layer, Look, Mark, Testimony};
use crate::failure::Sureness;
use crate::letter::Header;

/// See the file's head.
pub(super) struct Amqp10;

impl Dialect for Amqp10 {
    fn name(&self) -> &'static str {
        "amqp-1.0"
    }

    fn about(&self) -> &'static str {
        "published or settled by an AMQP 1.0 client"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix("x-opt-"), Mark::Property("type")]
    }

    fn layer(&self) -> Layer {
        Layer::Envelope
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        letter.facts.route.as_ref()?;
        if letter.properties().last_text("type") == Some("amqp-1.0") {
            return Some((Sureness::Sure, "property type is amqp-1.0".to_owned()));
        }
        let annotation = letter.headers().iter().find(|header| header.name.starts_with("x-opt-"))?;
        Some((Sureness::Likely, format!("annotation {}", annotation.name)))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        if letter.properties().last_text("type") == Some("amqp-1.0") {
            says.doubt("body", "encoded in AMQP 1.0 types; it travels as it is");
        }
        if letter.headers().iter().any(|header| header.name.starts_with("x-opt-")) {
            says.doubt("message", "the annotations x-opt-* may hold the consumer's own reason; they travel");
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}
