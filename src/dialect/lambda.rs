//! AWS Lambda, for asynchronous invocations: the function's dead-letter queue (the event itself, with three
//! attributes) and its on-failure destination (an invocation record around the event, which a redrive takes
//! out with its bytes as they stand there). Either may be an SNS topic, the destination an event bus too: then
//! the record is inside the notification or the event that comes into the queue.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{Dialect, Look, Mark, Testimony, sns, splice, when};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Message};

const ATTRIBUTES: &[&str] = &["RequestID", "ErrorCode", "ErrorMessage"];
/// Partitions of one batch that are named.
const MOST_PARTITIONS: usize = 8;
/// Causes of a Java error that are followed.
const DEEPEST: usize = 32;

/// The function's dead-letter queue.
pub(super) struct LambdaDlq;
/// The on-failure destination.
pub(super) struct LambdaDestination;

impl Dialect for LambdaDlq {
    fn name(&self) -> &'static str {
        "lambda-dlq"
    }

    fn about(&self) -> &'static str {
        "the dead-letter queue of an AWS Lambda function"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("ErrorCode"), Mark::Header("ErrorMessage"), Mark::Field("TopicArn")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if in_notification(letter).is_some() {
            let why = "an SNS notification with attributes RequestID, ErrorCode, ErrorMessage inside";
            return Some((Sureness::Likely, why.to_owned()));
        }
        if !has_error_attributes(letter)
            || !headers.has("RequestID")
            || letter.has_field("TopicArn")
            || letter.properties().has("DeadLetterQueueSourceArn")
        {
            return None;
        }
        // SNS may write the same three beside the publisher's own.
        let sureness = if headers.len() == ATTRIBUTES.len() { Sureness::Likely } else { Sureness::Maybe };
        Some((sureness, "attributes RequestID, ErrorCode, ErrorMessage".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let message = match in_notification(letter) {
            Some(words) => {
                says.overrules.push((sns::SUBSCRIPTION, INSIDE));
                words["ErrorMessage"]["Value"].as_str().map(str::to_owned)
            }
            None => says.text("message", "ErrorMessage", letter.headers().last("ErrorMessage")),
        };
        says.deaths = vec![Death {
            at: letter.facts.written_at.map(|(at, _)| at),
            message: message.filter(|words| !words.is_empty()),
            count: 1,
            ..Death::default()
        }];
        says.doubt("origin", "the letter does not name the function");
        says.doubt("error_class", "ErrorCode is only an HTTP status; ErrorMessage is cut at 1 KiB");
    }

    fn owns(&self, header: &Header) -> bool {
        is_error_attribute(&header.name)
    }
}

impl Dialect for LambdaDestination {
    fn name(&self) -> &'static str {
        "lambda-destination"
    }

    fn about(&self) -> &'static str {
        "the on-failure destination of an AWS Lambda function: an envelope, unwrapped on redrive"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Field("requestContext"), Mark::Field("detail"), Mark::Field("TopicArn")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let (bytes, json) = record(letter)?;
        let why = match (&bytes, letter.has_field("detail")) {
            (Cow::Owned(_), _) => "requestContext.functionArn in an SNS notification",
            (Cow::Borrowed(_), true) => "requestContext.functionArn in an event's detail",
            (Cow::Borrowed(_), false) => "body field requestContext.functionArn",
        };
        let context = &json["requestContext"];
        (context["functionArn"].is_string() && context["condition"].is_string())
            .then(|| (Sureness::Sure, why.to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some((bytes, body)) = record(letter) else { return };
        let body = body.as_ref();
        if matches!(bytes, Cow::Owned(_)) {
            says.overrules.push((sns::SUBSCRIPTION, INSIDE));
        }
        let context = &body["requestContext"];
        let arn = context["functionArn"].as_str().unwrap_or_default();
        let place = Origin { named: vec![("function_arn", arn.to_owned())], ..Origin::default() };
        says.attempts = context["approximateInvokeCount"].as_u64().and_then(|n| u32::try_from(n).ok());
        if context["condition"].as_str() != Some("Success") {
            says.deaths = vec![death(body, place.clone())];
        }
        says.origin = Some(place);
        if splice::field(&bytes, "requestPayload").is_none() {
            let batch = body.as_object().and_then(|fields| {
                fields
                    .iter()
                    .find(|(name, _)| name.ends_with("BatchInfo"))
                    .map(|(name, info)| batch(name, info))
            });
            if let Some(at) = batch {
                says.prospect(Prospect::Pointer { at });
            }
            says.prospect(no_payload());
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }

    fn unwraps(&self) -> bool {
        true
    }

    fn restore(&self, letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        let (bytes, _) = record(letter).ok_or_else(no_payload)?;
        // Byte for byte as it stands in the record.
        message.body = Some(splice::field(&bytes, "requestPayload").ok_or_else(no_payload)?.to_vec().into());
        Ok(())
    }
}

/// Why SNS has no say: it only carried the letter.
const INSIDE: &str = "SNS delivered it; what failed was the function";

/// The invocation record and its bytes: the body, the detail of an event, or (owned) the message of a
/// notification.
fn record<'a>(letter: &'a Look<'_>) -> Option<(Cow<'a, [u8]>, Cow<'a, Json>)> {
    const NAME: &str = "requestContext";
    if letter.has_field(NAME) {
        return Some((Cow::Borrowed(letter.body()?), Cow::Borrowed(letter.json()?)));
    }
    if letter.has_field("detail-type") {
        let detail = letter.json()?.get("detail").filter(|detail| detail.get(NAME).is_some())?;
        return Some((Cow::Borrowed(splice::field(letter.body()?, "detail")?), Cow::Borrowed(detail)));
    }
    let text = sns::message(letter)?;
    if !text.trim_start().starts_with('{') || !text.contains(NAME) {
        return None;
    }
    let json: Json = serde_json::from_str(text).ok()?;
    json.get(NAME)?;
    Some((Cow::Owned(text.as_bytes().to_vec()), Cow::Owned(json)))
}

/// The attributes that Lambda gives a message for an SNS topic.
fn in_notification<'a>(letter: &'a Look<'_>) -> Option<&'a Json> {
    sns::message(letter)?;
    let attributes = letter.json()?.get("MessageAttributes")?;
    ATTRIBUTES.iter().all(|name| attributes.get(name).is_some()).then_some(attributes)
}

/// Where the events are that the record is about: of a stream, or of a Kafka topic.
fn batch(name: &str, info: &Json) -> String {
    let text = |json: &Json| match json {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        _ => "?".to_owned(),
    };
    let source = info["streamArn"].as_str().or_else(|| info["eventSourceArn"].as_str());
    let source = source.or_else(|| info["bootstrapServers"].as_str()).unwrap_or("an unnamed source");
    let records: Vec<String> = match (&info["recordsInfo"], &info["recordInfo"]) {
        (Json::Object(partitions), _) => {
            let span = |(partition, info): (&String, &Json)| {
                let (from, to) = (text(&info["firstRecordOffset"]), text(&info["lastRecordOffset"]));
                format!("{partition} offsets {from} to {to}")
            };
            partitions.iter().take(MOST_PARTITIONS).map(span).collect()
        }
        (_, one @ Json::Object(_)) => vec![format!("offset {}", text(&one["offset"]))],
        _ => {
            let (from, to) = (text(&info["startSequenceNumber"]), text(&info["endSequenceNumber"]));
            vec![format!("shard {} from {from} to {to}", text(&info["shardId"]))]
        }
    };
    format!("{name}: {} of {source}", records.join(", "))
}

fn no_payload() -> Prospect {
    Prospect::Refused {
        why: "the record does not hold the event: what would be sent is not the message".to_owned(),
        way_round: "read the records from the stream again, where the record says".to_owned(),
    }
}

fn death(body: &Json, place: Origin) -> Death {
    let text = |json: &Json| json.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let response = &body["responsePayload"];
    let mut root = response;
    for _ in 0..DEEPEST {
        match &root["cause"] {
            deeper @ Json::Object(_) => root = deeper,
            _ => break,
        }
    }
    let is_deeper = !std::ptr::eq(root, response);
    Death {
        at: when::of_json(&body["timestamp"]),
        place: Some(place),
        error_class: text(&response["errorType"]),
        root_class: if is_deeper { text(&root["errorType"]) } else { None },
        message: text(&response["errorMessage"]),
        root_message: if is_deeper { text(&root["errorMessage"]) } else { None },
        stack: trace(response),
        reason: text(&body["requestContext"]["condition"]),
        count: 1,
        ..Death::default()
    }
}

/// `stackTrace` (Python, Java, Ruby, .NET) or `trace` (Node): a list of lines, or one text.
fn trace(response: &Json) -> Option<String> {
    let text = ["stackTrace", "trace"].iter().find_map(|name| match &response[*name] {
        Json::String(text) => Some(text.clone()),
        Json::Array(lines) => {
            let mut whole = String::new();
            for line in lines.iter().take(1024) {
                match line {
                    Json::String(line) => whole.push_str(line),
                    // Old runtimes: file, line, function, text.
                    Json::Array(parts) => {
                        let parts: Vec<String> = parts
                            .iter()
                            .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
                            .collect();
                        whole.push_str(&parts.join(" "));
                    }
                    _ => continue,
                }
                if !whole.ends_with('\n') {
                    whole.push('\n');
                }
            }
            Some(whole)
        }
        _ => None,
    })?;
    (!text.trim().is_empty()).then_some(text)
}

/// The attributes that Lambda and SNS add about a failure.
pub(super) fn has_error_attributes(letter: &Look<'_>) -> bool {
    letter.headers().has("ErrorCode") && letter.headers().has("ErrorMessage")
}

pub(super) fn is_error_attribute(name: &str) -> bool {
    ATTRIBUTES.contains(&name)
}
