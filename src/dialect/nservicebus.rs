//! NServiceBus: one central error queue for many endpoints, so every letter names its own target. Headers on
//! RabbitMQ; on SQS in an envelope around the body, or for native messages in one attribute. ServiceControl
//! sends letters back from the same queue and takes the same headers off.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{Dialect, Look, Mark, Testimony, splice, text_of, thrown, when};
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Message, Value};

/// The attribute of native messages on SQS.
const ATTRIBUTE: &str = "NServiceBus.AmazonSQS.Headers";
const FAILED: &str = "NServiceBus.FailedQ";
const INFO: &str = "NServiceBus.ExceptionInfo.";
const RETRIES: &str = "NServiceBus.Retries";

/// See the file's head.
pub(super) struct NServiceBus;

impl Dialect for NServiceBus {
    fn name(&self) -> &'static str {
        "nservicebus"
    }

    fn about(&self) -> &'static str {
        "NServiceBus's error queue on RabbitMQ and SQS, also after ServiceControl"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix("NServiceBus."), Mark::Field("Headers")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let words = Words::of(letter)?;
        if words.has(FAILED) {
            return Some((Sureness::Sure, format!("{} {FAILED}", words.kind)));
        }
        let sureness =
            if words.has("NServiceBus.EnclosedMessageTypes") { Sureness::Likely } else { Sureness::Maybe };
        Some((sureness, format!("{} NServiceBus.*", words.kind)))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some(words) = Words::of(letter) else { return };
        says.event_id = words.get("NServiceBus.MessageId");
        let queue = words.get(FAILED).map(|address| queue_of(&address).to_owned());
        says.origin = queue.clone().map(|queue| Origin { queue: Some(queue), ..Origin::default() });
        if words.has(FAILED) || words.has("NServiceBus.TimeOfFailure") {
            says.deaths = vec![death(&words, says)];
            says.doubt("attempts", "immediate retries leave no trace");
        }
        if let Some(queue) = queue {
            says.prospect(Prospect::ToQueue {
                queue,
                why: "one error queue serves many endpoints".to_owned(),
            });
        }
        if words.has("ServiceControl.Retry.UniqueMessageId") {
            says.doubt("prospects", "ServiceControl sent it back before and still holds that retry open");
        }
        if let Some(key) = words.body_elsewhere.clone() {
            says.prospect(Prospect::Pointer { at: key });
        }
        let retries = words.get(RETRIES).and_then(|text| text.trim().parse::<u32>().ok());
        if words.in_body
            && let Some(retries) = retries.filter(|n| *n > 0)
        {
            says.prospect(Prospect::OneTry {
                why: format!("{RETRIES} inside the body is {retries}: no delayed retries are left"),
            });
        }
    }

    fn owns(&self, header: &Header) -> bool {
        is_own(&header.name)
    }

    fn restore(&self, _letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        let Some(kept) = message
            .headers
            .last(ATTRIBUTE)
            .and_then(Value::bytes)
            .and_then(|bytes| splice::without(bytes, is_own))
        else {
            return Ok(());
        };
        let in_place = |header: Header| {
            let value =
                if header.name == ATTRIBUTE { Value::Text(kept.clone().into()) } else { header.value };
            (header.name, value)
        };
        message.headers = std::mem::take(&mut message.headers).into_iter().map(in_place).collect();
        Ok(())
    }
}

fn is_own(name: &str) -> bool {
    name.starts_with(INFO)
        || name.starts_with("NServiceBus.Retries")
        || matches!(
            name,
            FAILED
                | "NServiceBus.TimeOfFailure"
                | "NServiceBus.FLRetries"
                | "NServiceBus.ProcessingEndpoint"
                | "NServiceBus.ProcessingMachine"
                | "NServiceBus.Transport.RabbitMQ.ConfirmationId"
        )
}

fn death(words: &Words<'_>, says: &mut Testimony) -> Death {
    let info = |name: &str| words.get(&format!("{INFO}{name}"));
    let at = words.get("NServiceBus.TimeOfFailure").and_then(|text| when::text(&text));
    if at.is_none() {
        says.doubt("deaths.at", "NServiceBus.TimeOfFailure is missing or no time with a zone");
    }
    let mut death = Death {
        at,
        place: says.origin.clone(),
        error_class: info("ExceptionType"),
        message: info("Message"),
        count: 1,
        ..Death::default()
    };
    let inner = info("InnerExceptionType");
    if let Some(trace) = info("StackTrace") {
        thrown::put(&mut death, Language::DotNet, &trace, |_| false);
    }
    // InnerExceptionType is one level; the trace may go deeper. Without either there is no inner one.
    if death.root_class == death.error_class {
        death.root_class = inner;
    }
    death
}

/// `Shop.Orders`, `Shop.Orders@machine`, or the URL of a queue.
fn queue_of(address: &str) -> &str {
    let name = address.rsplit('/').next().unwrap_or(address);
    name.split('@').next().unwrap_or(name)
}

/// NServiceBus's headers, wherever they stand.
struct Words<'a> {
    kind: &'static str,
    headers: Option<&'a crate::letter::Headers>,
    json: Option<Cow<'a, Json>>,
    in_body: bool,
    body_elsewhere: Option<String>,
}

impl<'a> Words<'a> {
    fn of(letter: &'a Look<'_>) -> Option<Self> {
        let headers = letter.headers();
        if let Some(text) = headers.last_text(ATTRIBUTE) {
            let json = serde_json::from_str(text).ok()?;
            return Some(Self {
                kind: "attribute",
                headers: None,
                json: Some(Cow::Owned(json)),
                in_body: false,
                body_elsewhere: headers.last_text("S3BodyKey").map(str::to_owned),
            });
        }
        if letter.has_field("Headers")
            && let Some(body) = letter.json()
            && let Some(Json::Object(inner)) = body.get("Headers")
            && inner.keys().any(|name| name.starts_with("NServiceBus."))
        {
            return Some(Self {
                kind: "envelope header",
                headers: None,
                json: Some(Cow::Borrowed(&body["Headers"])),
                in_body: true,
                body_elsewhere: body["S3BodyKey"].as_str().filter(|key| !key.is_empty()).map(str::to_owned),
            });
        }
        headers.iter().any(|header| header.name.starts_with("NServiceBus.")).then_some(Self {
            kind: "header",
            headers: Some(headers),
            json: None,
            in_body: false,
            body_elsewhere: None,
        })
    }

    fn has(&self, name: &str) -> bool {
        match (&self.headers, &self.json) {
            (Some(headers), _) => headers.has(name),
            (None, Some(json)) => json.get(name).is_some(),
            (None, None) => false,
        }
    }

    /// A text that is not empty.
    fn get(&self, name: &str) -> Option<String> {
        let text = match (&self.headers, &self.json) {
            // What is not UTF-8 is better read in part than not at all.
            (Some(headers), _) => text_of(headers.last(name)?)?,
            (None, Some(json)) => Cow::Borrowed(json.get(name)?.as_str()?),
            (None, None) => return None,
        };
        (!text.is_empty()).then(|| text.into_owned())
    }
}
