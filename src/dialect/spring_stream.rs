//! Spring Cloud Stream, Kafka binder with `enableDlq`: `x-original-*` and `x-exception-*`, a whole set
//! appended at each death. The exception's class is always a wrapper; the application's own stands in the
//! stack trace alone. There is no group, but the default name of the dead-letter topic,
//! `error.<destination>.<group>`, may hold one: a name is no fact, so it is not read.
//!
//! In header mode `embeddedHeaders` there are no record headers: the value is `0xff`, a count, the headers as
//! name and JSON text, then the payload.

use super::spring::Exception;
use super::{Dialect, Form, Look, Mark, Testimony, last_index};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Headers, Message, Value};

const TOPIC: &str = "x-original-topic";
const PARTITION: &str = "x-original-partition";
const OFFSET: &str = "x-original-offset";
const TIMESTAMP: &str = "x-original-timestamp";
const TIMESTAMP_TYPE: &str = "x-original-timestamp-type";
const CLASS: &str = "x-exception-fqcn";
const MESSAGE: &str = "x-exception-message";
const STACK: &str = "x-exception-stacktrace";
/// All that it writes.
const OWN: [&str; 8] = [TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, CLASS, MESSAGE, STACK];
/// More sets than anybody has.
const MOST_DEATHS: usize = 100;

/// See the file's head.
pub(super) struct SpringStream;

impl Dialect for SpringStream {
    fn name(&self) -> &'static str {
        "spring-cloud-stream"
    }

    fn about(&self) -> &'static str {
        "Spring Cloud Stream, Kafka binder with enableDlq; headers on the record or embedded in the value"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Header(TOPIC),
            Mark::Header(OFFSET),
            Mark::Header(CLASS),
            Mark::Other("a value of embedded headers: 0xff, a count, names and JSON values"),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        // The names are plain words that home-made writers use too: but those write their numbers as text.
        let home_made = [PARTITION, OFFSET].iter().any(|name| headers.last(name).is_some_and(is_digits));
        if headers.has(TOPIC) && !home_made && (headers.has(OFFSET) || headers.has(CLASS)) {
            return Some((Sureness::Sure, format!("header {TOPIC}")));
        }
        if headers.has(CLASS) && headers.has(STACK) && !home_made && letter.facts.place.is_some() {
            return Some((Sureness::Likely, format!("header {CLASS}")));
        }
        let (embedded, _) = embedded(letter.body()?)?;
        embedded.has(TOPIC).then(|| (Sureness::Sure, format!("{TOPIC} embedded in the value")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        if letter.headers().has(CLASS) || letter.headers().has(TOPIC) {
            says.newest_at = last_index(letter.headers(), |name| OWN.contains(&name));
            sets(letter.headers(), Form::Int32, Form::Int64, says);
        } else if let Some((headers, _)) = letter.body().and_then(embedded) {
            sets(&headers, Form::Integer, Form::Integer, says);
        }
    }

    fn owns(&self, header: &Header) -> bool {
        OWN.contains(&header.name.as_str())
    }

    fn restore(&self, letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        let Some((headers, payload)) =
            letter.body().and_then(embedded).filter(|(headers, _)| headers.has(TOPIC))
        else {
            return Ok(());
        };
        // The consumer expects its own headers embedded: only the failure's go, and the second contentType
        // that the binder adds.
        let mut kept: Vec<(&str, &[u8])> = Vec::new();
        for header in &headers {
            let name = header.name.as_str();
            let again = name == "contentType" && kept.iter().any(|(kept, _)| *kept == name);
            if !OWN.contains(&name) && !again {
                kept.push((name, header.value.bytes().map(AsRef::as_ref).unwrap_or_default()));
            }
        }
        let mut value = vec![0xff, u8::try_from(kept.len()).unwrap_or(u8::MAX)];
        for (name, text) in kept {
            value.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            value.extend_from_slice(name.as_bytes());
            value.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            value.extend_from_slice(text);
        }
        value.extend_from_slice(payload);
        message.body = Some(value.into());
        Ok(())
    }
}

fn sets(headers: &Headers, narrow: Form, wide: Form, says: &mut Testimony) {
    let all = |name: &'static str| headers.all(name).collect::<Vec<&Value>>();
    let (topics, partitions, offsets, times) = (all(TOPIC), all(PARTITION), all(OFFSET), all(TIMESTAMP));
    let (classes, messages, stacks) = (all(CLASS), all(MESSAGE), all(STACK));
    let sets = topics.len().max(offsets.len()).max(classes.len()).max(1);
    for set in 0..sets {
        if sets > MOST_DEATHS && set != 0 && set + MOST_DEATHS <= sets {
            continue;
        }
        // Sets are whole and appended; if some are missing, only the last is known to be of the last.
        let of = |values: &[&'_ Value]| -> Option<Value> {
            let at = if values.len() == sets {
                set
            } else if set + 1 == sets {
                values.len().checked_sub(1)?
            } else {
                return None;
            };
            values.get(at).map(|value| (*value).clone())
        };
        let place = Origin {
            topic: unquoted(says.text("origin.topic", TOPIC, of(&topics).as_ref())),
            partition: says.number("origin.partition", PARTITION, of(&partitions).as_ref(), narrow),
            offset: says.number("origin.offset", OFFSET, of(&offsets).as_ref(), wide),
            timestamp: says.millis("origin.timestamp", TIMESTAMP, of(&times).as_ref(), wide),
            ..Origin::default()
        };
        let class = unquoted(says.text("error", CLASS, of(&classes).as_ref()));
        let message = unquoted(says.text("message", MESSAGE, of(&messages).as_ref()));
        let stack = unquoted(says.text("stack", STACK, of(&stacks).as_ref()));
        let mut death = Death { place: (!place.is_empty()).then_some(place), count: 1, ..Death::default() };
        let exception = Exception {
            class: class.as_deref(),
            cause: None,
            message: message.as_deref(),
            stack: stack.as_deref(),
        };
        exception.fill(&mut death);
        says.deaths.push(death);
    }
    says.origin = says.deaths.first().and_then(|death| death.place.clone());
}

/// A number as text: no partition or offset in binary consists of the bytes of digits alone.
fn is_digits(value: &Value) -> bool {
    value.bytes().is_some_and(|bytes| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit))
}

/// A JSON text in quotes, as embedded headers have it, or the text as it is.
fn unquoted(text: Option<String>) -> Option<String> {
    let text = text?;
    if text.starts_with('"')
        && let Ok(inner) = serde_json::from_str::<String>(&text)
    {
        return Some(inner);
    }
    Some(text)
}

/// The headers embedded in a value, as texts, and the payload behind them.
fn embedded(value: &[u8]) -> Option<(Headers, &[u8])> {
    let (first, rest) = value.split_first()?;
    if *first != 0xff {
        return None;
    }
    let (count, mut rest) = rest.split_first()?;
    let mut headers = Headers::new();
    for _ in 0..*count {
        let (len, tail) = rest.split_first()?;
        let name = std::str::from_utf8(tail.get(..usize::from(*len))?).ok()?;
        let tail = &tail[usize::from(*len)..];
        let len = u32::from_be_bytes(tail.get(..4)?.try_into().ok()?) as usize;
        let text = tail.get(4..)?.get(..len)?;
        headers.push(name, Value::Text(text.to_vec().into()));
        rest = &tail[4 + len..];
    }
    (*count > 0).then_some((headers, rest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::embedded;

    #[test]
    fn embedded_headers_never_run_over() {
        assert!(embedded(&[]).is_none());
        assert!(embedded(&[0xff]).is_none());
        assert!(embedded(&[0xff, 1, 200, b'a']).is_none());
        assert!(embedded(&[0xff, 1, 1, b'a', 0xff, 0xff, 0xff, 0xff, b'x']).is_none());
        let (headers, rest) = embedded(&[0xff, 1, 1, b'a', 0, 0, 0, 1, b'1', b'p']).unwrap();
        assert_eq!((headers.first_text("a"), rest), (Some("1"), &b"p"[..]));
    }
}
