//! Brighter, when it rejects a message: its own bag of headers, and the reason.

use super::{Buried, Dialect, Look, Mark, Testimony, x_death};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

/// See the file's head.
pub(super) struct Brighter;

impl Dialect for Brighter {
    fn name(&self) -> &'static str {
        "brighter"
    }

    fn about(&self) -> &'static str {
        "messages that Brighter rejected"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("HandledCount"), Mark::Header("RejectionReason")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        let own = ["Topic", "MessageType", "MessageId"].iter().all(|name| headers.has(name));
        let counted = ["HandledCount", "RejectionReason"].into_iter().find(|name| headers.has(name));
        let counted = counted.filter(|_| own)?;
        Some((Sureness::Likely, format!("headers Topic, MessageType, MessageId, {counted}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.event_id = headers.last_text("MessageId").map(str::to_owned);
        // On RabbitMQ the topic is the routing key.
        let topic = headers.last_text("Topic").map(str::to_owned);
        says.origin = topic.map(|topic| match letter.facts.route {
            Some(_) => Origin { routing_key: Some(topic), ..Origin::default() },
            None => Origin { topic: Some(topic), ..Origin::default() },
        });
        if headers.has(x_death::NAME) {
            says.buried = Buried::ByBroker;
        }
        if let Some(reason) = headers.last_text("RejectionReason").filter(|reason| !reason.is_empty()) {
            says.deaths = vec![Death { message: Some(reason.to_owned()), count: 1, ..Death::default() }];
        }
    }

    fn owns(&self, header: &Header) -> bool {
        matches!(
            header.name.as_str(),
            "HandledCount" | "RejectionReason" | "RejectionMessage" | "RejectionTimestamp"
        )
    }
}
