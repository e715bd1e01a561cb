//! EasyNetQ's error queue: the body is an envelope with the message as text, its properties and headers, and
//! where it came from. A redrive takes both out.

use serde_json::Value as Json;

use super::{Dialect, Look, Mark, Testimony, amqp_json, rabbitmq, thrown, when};
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Message, Value, base64};

const TYPE: &str = "EasyNetQ.SystemMessages.Error";

/// See the file's head.
pub(super) struct EasyNetQ;

impl Dialect for EasyNetQ {
    fn name(&self) -> &'static str {
        "easynetq"
    }

    fn about(&self) -> &'static str {
        "EasyNetQ's default error queue: an envelope, unwrapped on redrive"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Property("type"), Mark::Field("BasicProperties")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let fields = ["RoutingKey", "Exchange", "Exception", "Message", "BasicProperties"];
        if !fields.iter().all(|name| letter.has_field(name)) {
            return None;
        }
        let typed = letter.properties().last_text("type").is_some_and(|name| name.starts_with(TYPE));
        let (sureness, why) = if typed {
            (Sureness::Sure, "property type is EasyNetQ's Error")
        } else {
            (Sureness::Likely, "body fields Exchange, RoutingKey, Exception, Message, BasicProperties")
        };
        Some((sureness, why.to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let text = |name: &str| letter.field(name).map(str::to_owned);
        let place = Origin {
            queue: text("Queue").filter(|queue| !queue.is_empty()),
            exchange: text("Exchange"),
            routing_key: text("RoutingKey"),
            ..Origin::default()
        };
        let at = letter.json().and_then(|body| when::of_json(&body["DateTime"]));
        if at.is_none() {
            says.doubt("deaths.at", "DateTime is no time with a zone");
        }
        let mut death = Death { at, place: Some(place.clone()), count: 1, ..Death::default() };
        match letter.field("Exception") {
            Some(exception) => thrown::put(&mut death, Language::DotNet, exception, |_| false),
            None => says.doubt("message", "Exception is no text"),
        }
        says.deaths = vec![death];
        says.event_id =
            letter.json().and_then(|body| body["BasicProperties"]["MessageId"].as_str()).map(str::to_owned);
        if let Some(queue) = place.queue.clone() {
            says.prospect(Prospect::ToQueue { queue, why: "one error queue serves all queues".to_owned() });
        }
        says.origin = Some(place);
        if let Err(refused) = letter.json().map_or_else(|| Err(lost()), body) {
            says.prospect(refused);
        }
        says.doubt("headers", "their types come out of JSON: whole numbers go back as int64");
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }

    fn unwraps(&self) -> bool {
        true
    }

    fn restore(&self, letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        message.body = Some(body(letter.json().ok_or_else(lost)?)?.into());
        let Some(Json::Object(inner)) = letter.json().map(|body| &body["BasicProperties"]) else {
            return Ok(());
        };
        message.properties = amqp_json::properties(inner, pascal);
        let headers = match inner.get("Headers") {
            Some(Json::Object(headers)) => headers.clone(),
            _ => serde_json::Map::new(),
        };
        message.headers = amqp_json::headers(&headers, |name| {
            rabbitmq::RabbitMq.owns(&Header { name: name.into(), value: Value::Null })
        });
        Ok(())
    }
}

/// The message: as text, or in base64 with EasyNetQ's other serializer; the envelope does not say which.
fn body(envelope: &Json) -> Result<Vec<u8>, Prospect> {
    let text = envelope["Message"].as_str().ok_or_else(lost)?;
    if text.contains('\u{fffd}') {
        return Err(Prospect::Refused {
            why: "the body was no UTF-8 and EasyNetQ's envelope has lost bytes of it".to_owned(),
            way_round: "send the message anew from its source".to_owned(),
        });
    }
    let is_json = |bytes: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    let kind = envelope["BasicProperties"]["ContentType"].as_str().unwrap_or_default();
    let plain = || Ok(text.as_bytes().to_vec());
    if text.is_empty() || is_json(text.as_bytes()) {
        return plain();
    }
    let Some(decoded) = base64::decode(text) else { return plain() };
    if is_json(&decoded) {
        return Ok(decoded);
    }
    // Words and ids in letters and digits alone could be either; so could base64 of a text.
    match (kind.starts_with("text/"), std::str::from_utf8(&decoded)) {
        (true, Err(_)) => return plain(),
        (false, _) if text.contains(['+', '/', '=']) => return Ok(decoded),
        _ => {}
    }
    Err(Prospect::Refused {
        why: "the message in EasyNetQ's envelope may be text or base64, which the envelope does not say"
            .to_owned(),
        way_round: "look at `Message` in the body and send what it is from the application".to_owned(),
    })
}

fn lost() -> Prospect {
    Prospect::Refused {
        why: "the envelope holds no message".to_owned(),
        way_round: "send the message anew from its source".to_owned(),
    }
}

/// `content_type` as `ContentType`.
fn pascal(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut chars = word.chars();
            chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars)
        })
        .collect()
}
