//! Dapr's dead-letter topic: the CloudEvents envelope as it was first published, unchanged, with Dapr's own
//! fields `pubsubname` and `topic`. Nothing of the failure is added, and the key is dropped (K17).

use super::{Dialect, Look, Mark, Testimony, when};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

/// See the file's head.
pub(super) struct Dapr;

impl Dialect for Dapr {
    fn name(&self) -> &'static str {
        "dapr"
    }

    fn about(&self) -> &'static str {
        "Dapr pub/sub with deadLetterTopic, on any broker"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Field("pubsubname")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let envelope =
            letter.has_field("pubsubname") && letter.has_field("topic") && letter.has_field("specversion");
        envelope.then(|| (Sureness::Likely, "body fields pubsubname, topic, specversion".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let topic = letter.field("topic").map(str::to_owned);
        // Where the letter lies is not where it came from: an envelope that names this very queue was
        // published to it directly.
        let origin = topic.filter(|topic| *topic != *letter.facts.queue);
        let origin = origin.map(|topic| {
            if letter.facts.place.is_some() {
                Origin { topic: Some(topic), ..Origin::default() }
            } else {
                Origin { named: vec![("channel", topic)], ..Origin::default() }
            }
        });
        if letter.facts.place.is_some() && letter.message.key.is_none() {
            says.key_unavailable = true;
            says.doubt("key", "no key: Dapr drops it, so group order cannot be kept by it");
        }
        if let Some(at) = letter.field("expiration").and_then(when::text) {
            let written = letter.facts.written_at.map(|(at, _)| at);
            says.expires(
                at,
                written,
                "Dapr drops an expired event without delivering it",
                "publish the event anew",
            );
        }
        says.deaths.push(Death { place: origin.clone(), count: 1, ..Death::default() });
        says.origin = origin;
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}
