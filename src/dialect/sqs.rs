//! Amazon SQS itself: a redrive policy moves a message after so many receives and writes down nothing but the
//! queue that it came from. Receives include every look at the dead-letter queue, so tries cannot be counted.
//!
//! In a FIFO dead-letter queue the deduplication id is the old message id, set by SQS: never an event id
//! (S03).

use super::{Dialect, Layer, Look, Mark, Testimony};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

const SOURCE: &str = "DeadLetterQueueSourceArn";
/// Set by SQS on every message, or made anew by every sender: a copy has its own.
const OWN: &[&str] = &[
    SOURCE,
    "MessageId",
    "MessageDeduplicationId",
    "SenderId",
    "SentTimestamp",
    "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp",
    "SequenceNumber",
];

/// See the file's head.
pub(super) struct Sqs;

impl Dialect for Sqs {
    fn name(&self) -> &'static str {
        "sqs"
    }

    fn about(&self) -> &'static str {
        "moved by the redrive policy of an SQS queue, standard or FIFO"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Property(SOURCE), Mark::Property("SentTimestamp"), Mark::Property("ApproximateReceiveCount")]
    }

    fn layer(&self) -> Layer {
        Layer::Broker
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let properties = letter.properties();
        if properties.has(SOURCE) {
            return Some((Sureness::Sure, format!("system attribute {SOURCE}")));
        }
        let why = format!("no {SOURCE}: somebody sent it here, SQS did not move it");
        (properties.has("SentTimestamp") || properties.has("ApproximateReceiveCount"))
            .then_some((Sureness::Maybe, why))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let properties = letter.properties();
        let Some(arn) = properties.last_text(SOURCE) else {
            return says.doubt("origin", "SQS did not move it here, so it names no queue");
        };
        let place = Origin {
            queue: queue_of(arn).map(str::to_owned),
            named: vec![("queue_arn", arn.to_owned())],
            ..Origin::default()
        };
        if place.queue.is_none() {
            says.doubt("origin.queue", format!("{SOURCE} is no queue's ARN"));
        }
        says.origin = Some(place.clone());
        says.deaths = vec![Death {
            place: Some(place),
            reason: Some("max_receive".to_owned()),
            count: 1,
            ..Death::default()
        }];
        says.doubt("attempts", "the receive count includes looks at the dead-letter queue");
        if arn.ends_with(".fifo") {
            says.doubt("event_id", "MessageDeduplicationId was set by SQS; the producer's is lost");
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }

    fn owns_property(&self, property: &Header) -> bool {
        OWN.contains(&property.name.as_str())
    }
}

/// The name in `arn:aws:sqs:eu-west-1:012345678901:orders`; it is untrusted, so it must be one.
pub(super) fn queue_of(arn: &str) -> Option<&str> {
    let mut parts = arn.splitn(6, ':');
    if parts.next()? != "arn" {
        return None;
    }
    let service = parts.nth(1)?;
    let name = parts.nth(2)?;
    let is_name = !name.is_empty()
        && name.len() <= 80
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    (service == "sqs" && is_name).then_some(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_taken_from_its_arn_only() {
        assert_eq!(queue_of("arn:aws:sqs:eu-west-1:012345678901:orders.fifo"), Some("orders.fifo"));
        assert_eq!(queue_of("arn:aws-cn:sqs:cn-north-1:012345678901:o"), Some("o"));
        for bad in [
            "",
            "orders",
            "arn:aws:sns:r:a:t",
            "arn:aws:sqs:r:a:",
            "arn:aws:sqs:r:a:x y",
            "arn:aws:sqs:r:a:x:y",
        ] {
            assert_eq!(queue_of(bad), None, "{bad}");
        }
    }
}
