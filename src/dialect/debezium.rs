//! Debezium's outbox: the event's id is a header `id` (a UUID), the aggregate's is the key. Without the
//! router's transformation the event is a change of the outbox table in the body. Says nothing of a failure.

use super::{Dialect, Layer, Look, Mark, Testimony};
use crate::failure::Sureness;
use crate::letter::Header;

const ID: &str = "id";

/// See the file's head.
pub(super) struct Debezium;

impl Dialect for Debezium {
    fn name(&self) -> &'static str {
        "debezium-outbox"
    }

    fn about(&self) -> &'static str {
        "Debezium's outbox event router: event id and aggregate key"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(ID), Mark::Field("payload"), Mark::Field("source")]
    }

    fn layer(&self) -> Layer {
        Layer::Envelope
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if letter.facts.place.is_some() && headers.last_text(ID).is_some_and(|text| is_uuid(unquoted(text))) {
            let more = ["eventType", "aggregateType", "aggregateId", "__debezium.newkey"];
            let sure =
                if more.iter().any(|name| headers.has(name)) { Sureness::Likely } else { Sureness::Maybe };
            return Some((sure, "header id, a UUID".to_owned()));
        }
        let row = row(letter)?;
        (row.get("aggregateid").is_some() && row.get("id").is_some())
            .then(|| (Sureness::Likely, "body: a change of an outbox table".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let header = letter.facts.place.and(letter.headers().last_text(ID)).map(unquoted);
        if let Some(id) = header.filter(|id| is_uuid(id)) {
            says.event_id = Some(id.to_owned());
        } else if let Some(row) = row(letter) {
            let text = |name: &str| match row.get(name)? {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            says.event_id = text("id");
            says.group = text("aggregateid");
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

/// The new row of a change event, with or without its schema.
fn row<'a>(letter: &'a Look<'_>) -> Option<&'a serde_json::Value> {
    if !(letter.has_field("payload") || letter.has_field("source") && letter.has_field("op")) {
        return None;
    }
    let json = letter.json()?;
    let change = json.get("payload").filter(|payload| payload.get("source").is_some()).unwrap_or(json);
    change.get("source")?.get("connector")?;
    change.get("after")
}

/// Connect's JSON header converter puts texts into quotes.
fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, b)| if matches!(at, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}
