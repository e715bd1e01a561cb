//! SNS: the notification as a JSON envelope around the message, which a consumer of the queue expects as it is
//! (a redrive to the queue sends it unchanged). And the dead-letter queue of a subscription, where AWS may add
//! three attributes about the failed delivery.
//!
//! With raw delivery nothing tells that SNS was there.

use super::{Dialect, Layer, Look, Mark, Testimony, lambda};
use crate::failure::{Death, Origin, Sureness};
use crate::letter::Header;

/// Name of [`SnsSubscription`].
pub(super) const SUBSCRIPTION: &str = "sns-subscription";

/// The envelope.
pub(super) struct Sns;
/// A subscription's dead-letter queue.
pub(super) struct SnsSubscription;

impl Dialect for Sns {
    fn name(&self) -> &'static str {
        "sns"
    }

    fn about(&self) -> &'static str {
        "an SNS notification; it goes back to a queue as it is"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Field("TopicArn")]
    }

    fn layer(&self) -> Layer {
        Layer::Envelope
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        is_notification(letter).then(|| (Sureness::Sure, "body fields Type, TopicArn, MessageId".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        says.event_id = letter.field("MessageId").map(str::to_owned);
        says.origin = topic(letter);
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

impl Dialect for SnsSubscription {
    fn name(&self) -> &'static str {
        SUBSCRIPTION
    }

    fn about(&self) -> &'static str {
        "the dead-letter queue of an SNS subscription"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Field("TopicArn")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        if !is_notification(letter) || letter.properties().has("DeadLetterQueueSourceArn") {
            return None;
        }
        if lambda::has_error_attributes(letter) {
            return Some((
                Sureness::Sure,
                "an SNS notification with attributes ErrorCode, ErrorMessage".to_owned(),
            ));
        }
        letter
            .properties()
            .has("SentTimestamp")
            .then(|| (Sureness::Maybe, "an SNS notification that no queue's redrive policy moved".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        says.origin = topic(letter);
        if !lambda::has_error_attributes(letter) {
            return says.doubt("message", "SNS wrote nothing of the failed delivery");
        }
        let text = |name: &str| {
            let value = headers.last(name)?;
            value.text().map(str::to_owned).or_else(|| value.integer().map(|n| n.to_string()))
        };
        says.deaths = vec![Death {
            at: letter.facts.written_at.map(|(at, _)| at),
            place: says.origin.clone(),
            error_class: text("ErrorCode"),
            message: text("ErrorMessage"),
            count: 1,
            ..Death::default()
        }];
        says.doubt("origin.subscription", "the letter does not name the subscription");
    }

    fn owns(&self, header: &Header) -> bool {
        lambda::is_error_attribute(&header.name)
    }
}

fn is_notification(letter: &Look<'_>) -> bool {
    letter.has_field("TopicArn")
        && letter.has_field("MessageId")
        && letter.field("Type") == Some("Notification")
}

/// The text inside a notification.
pub(super) fn message<'a>(letter: &'a Look<'_>) -> Option<&'a str> {
    if is_notification(letter) { letter.field("Message") } else { None }
}

fn topic(letter: &Look<'_>) -> Option<Origin> {
    let arn = letter.field("TopicArn")?;
    Some(Origin { named: vec![("topic_arn", arn.to_owned())], ..Origin::default() })
}
