//! EventBridge: the dead-letter queues of a rule's target and of a schedule (the event or input itself, the
//! failure in attributes), and of a custom event bus's subscriber (a record about events, not an event). And
//! the event itself, which a rule put into a queue whose consumer failed: it says nothing of a failure.

use super::{Dialect, Layer, Look, Mark, Testimony, trace};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Headers};

const OWN: &[&str] = &[
    "RULE_ARN",
    "SCHEDULE_ARN",
    "TARGET_ARN",
    "ERROR_CODE",
    "ERROR_MESSAGE",
    "RETRY_ATTEMPTS",
    "EXHAUSTED_RETRY_CONDITION",
    "EXECUTION_ID",
    "SCHEDULED_TIME",
    "IS_PAYLOAD_TRUNCATED",
];

/// A rule's target.
pub(super) struct EventBridge;
/// A schedule's target.
pub(super) struct Scheduler;
/// A custom event bus's subscriber.
pub(super) struct EventBus;
/// An event.
pub(super) struct Event;

impl Dialect for EventBridge {
    fn name(&self) -> &'static str {
        "eventbridge"
    }

    fn about(&self) -> &'static str {
        "the dead-letter queue of an EventBridge rule's target"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("RULE_ARN")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        (headers.has("RULE_ARN") && headers.has("ERROR_CODE"))
            .then(|| (Sureness::Sure, "attributes RULE_ARN and ERROR_CODE".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        read(letter, ("rule_arn", "RULE_ARN"), says);
        says.event_id = letter.field("id").map(str::to_owned);
        says.trace = letter.field("trace-header").and_then(trace::of_xray);
    }

    fn owns(&self, header: &Header) -> bool {
        OWN.contains(&header.name.as_str())
    }
}

impl Dialect for Scheduler {
    fn name(&self) -> &'static str {
        "eventbridge-scheduler"
    }

    fn about(&self) -> &'static str {
        "the dead-letter queue of an EventBridge schedule"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("SCHEDULE_ARN")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        (headers.has("SCHEDULE_ARN") && headers.has("ERROR_CODE"))
            .then(|| (Sureness::Sure, "attributes SCHEDULE_ARN and ERROR_CODE".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        read(letter, ("schedule_arn", "SCHEDULE_ARN"), says);
        says.event_id = text(letter.headers(), "EXECUTION_ID");
        if text(letter.headers(), "IS_PAYLOAD_TRUNCATED").is_some_and(|is| is.eq_ignore_ascii_case("true")) {
            says.value_unavailable = true;
            says.prospect(Prospect::Refused {
                why: "Scheduler has cut the payload: it is not the whole message".to_owned(),
                way_round: "run the schedule's target again with the schedule's own input".to_owned(),
            });
        }
    }

    fn owns(&self, header: &Header) -> bool {
        OWN.contains(&header.name.as_str())
    }
}

impl Dialect for EventBus {
    fn name(&self) -> &'static str {
        "eventbridge-bus"
    }

    fn about(&self) -> &'static str {
        "the dead-letter queue of a subscriber of a custom event bus: a record, not the event"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Field("failedMessages")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let own = ["busArn", "subscriberArn", "failedMessages"];
        own.iter()
            .all(|name| letter.has_field(name))
            .then(|| (Sureness::Sure, "body fields busArn, subscriberArn, failedMessages".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some(body) = letter.json() else { return };
        let mut place = Origin::default();
        for (kind, name) in
            [("bus_arn", "busArn"), ("subscriber_arn", "subscriberArn"), ("target_arn", "targetArn")]
        {
            place.named.extend(body[name].as_str().map(|arn| (kind, arn.to_owned())));
        }
        let field = |name: &str| body[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        says.attempts = body["retryAttempts"].as_u64().and_then(|n| u32::try_from(n).ok()?.checked_add(1));
        says.deaths = vec![Death {
            at: letter.facts.written_at.map(|(at, _)| at),
            place: Some(place.clone()),
            error_class: field("errorCode"),
            message: field("errorMessage"),
            reason: field("exhaustedRetryCondition"),
            count: 1,
            ..Death::default()
        }];
        says.origin = Some(place);
        if let Some([one]) = body["failedMessages"].as_array().map(Vec::as_slice) {
            says.event_id = one["eventId"].as_str().map(str::to_owned);
        }
        says.value_unavailable = true;
        says.prospect(Prospect::Refused {
            why: "the letter is a record about events and does not hold them".to_owned(),
            way_round: "replay the events by their ids from the bus's archive".to_owned(),
        });
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

impl Dialect for Event {
    fn name(&self) -> &'static str {
        "eventbridge-event"
    }

    fn about(&self) -> &'static str {
        "an EventBridge event in a queue; it goes back as it is"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Field("detail-type")]
    }

    fn layer(&self) -> Layer {
        Layer::Envelope
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let own = ["detail-type", "detail", "source", "id", "account", "time"];
        own.iter()
            .all(|name| letter.has_field(name))
            .then(|| (Sureness::Likely, "body fields id, source, detail-type, detail".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        says.event_id = letter.field("id").map(str::to_owned);
        says.trace = letter.field("trace-header").and_then(trace::of_xray);
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

fn read(letter: &Look<'_>, (kind, name): (&'static str, &str), says: &mut Testimony) {
    let headers = letter.headers();
    let mut place = Origin::default();
    place.named.extend(text(headers, name).map(|arn| (kind, arn)));
    place.named.extend(text(headers, "TARGET_ARN").map(|arn| ("target_arn", arn)));
    let retries: Option<u32> =
        says.number("attempts", "RETRY_ATTEMPTS", headers.last("RETRY_ATTEMPTS"), super::Form::Integer);
    says.attempts = retries.and_then(|n| n.checked_add(1));
    says.deaths = vec![Death {
        at: letter.facts.written_at.map(|(at, _)| at),
        place: Some(place.clone()),
        error_class: text(headers, "ERROR_CODE"),
        message: text(headers, "ERROR_MESSAGE"),
        reason: text(headers, "EXHAUSTED_RETRY_CONDITION"),
        count: 1,
        ..Death::default()
    }];
    says.origin = Some(place);
}

fn text(headers: &Headers, name: &str) -> Option<String> {
    let value = headers.last(name)?;
    let text = value.text().map(str::to_owned).or_else(|| value.integer().map(|n| n.to_string()))?;
    (!text.is_empty()).then_some(text)
}
