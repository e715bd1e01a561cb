//! redrive's own headers on SQS: all of them in one attribute named `redrive`, a JSON object, because a
//! message may have ten attributes and the producer's are never dropped (S12).

use crate::letter::{Headers, Value};
use crate::stamp;

/// The attribute.
pub(super) const NAME: &str = "redrive";

/// A stamp's name inside the object: without the prefix that the attribute's own name says already.
fn short(name: &str) -> &str {
    name.strip_prefix("redrive-").unwrap_or(name)
}

/// Puts the stamps of `headers` into the object; `None` if there are none. Everything else is in the second
/// list, in order.
pub(super) fn pack(headers: &Headers) -> (Option<String>, Vec<(&str, &Value)>) {
    let mut object = serde_json::Map::new();
    let mut others = Vec::new();
    for header in headers {
        if !stamp::ALL.contains(&header.name.as_str()) {
            others.push((header.name.as_str(), &header.value));
            continue;
        }
        let text =
            header.value.text().map(str::to_owned).or_else(|| header.value.integer().map(|n| n.to_string()));
        let Some(text) = text else { continue };
        // The deaths are JSON themselves; as text inside JSON they would be quoted twice.
        let value = match header.name.as_str() {
            stamp::DEATHS => serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text)),
            _ => serde_json::Value::String(text),
        };
        object.insert(short(&header.name).to_owned(), value);
    }
    let packed = (!object.is_empty()).then(|| serde_json::Value::Object(object).to_string());
    (packed, others)
}

/// The headers that an attribute named `redrive` stands for; `None` if it is not ours.
pub(super) fn unpack(text: &str) -> Option<Vec<(String, Value)>> {
    let serde_json::Value::Object(object) = serde_json::from_str(text).ok()? else { return None };
    let mut headers = Vec::new();
    for (key, value) in object {
        let name = stamp::ALL.iter().find(|name| short(name) == key)?;
        let text = match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        headers.push(((*name).to_owned(), Value::from_text(text)));
    }
    Some(headers)
}

/// Replaces our attribute among `headers` by the headers that it stands for.
pub(super) fn open(headers: &mut Headers) {
    let Some(opened) = headers.first_text(NAME).and_then(unpack) else { return };
    headers.remove(NAME);
    for (name, value) in opened {
        headers.push(name, value);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn s12_stamps_take_one_attribute_and_come_back_whole() {
        let mut headers = Headers::new();
        headers.push("tenant", Value::from_text("acme"));
        headers.push(stamp::RUN, Value::from_text("r7d2f9/17"));
        headers.push(stamp::COUNT, Value::from_text("2"));
        headers.push(stamp::DEATHS, Value::from_text(r#"[{"class":"E","message":"a \"b\""}]"#));
        let (packed, others) = pack(&headers);
        assert_eq!(others.len(), 1);
        let back: Headers = unpack(&packed.unwrap()).unwrap().into_iter().collect();
        assert_eq!(back.first_text(stamp::RUN), Some("r7d2f9/17"));
        assert_eq!(back.first_text(stamp::COUNT), Some("2"));
        let deaths: serde_json::Value =
            serde_json::from_str(back.first_text(stamp::DEATHS).unwrap()).unwrap();
        assert_eq!(deaths[0]["message"], "a \"b\"");
    }

    #[test]
    fn a_users_attribute_of_that_name_stays_the_users() {
        assert_eq!(unpack("yes"), None);
        assert_eq!(unpack(r#"{"mine": 1}"#), None);
    }
}
