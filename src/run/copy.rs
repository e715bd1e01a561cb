//! The copy of a letter as it is sent: bookkeeping off as its dialects say, redrive's own stamps on.

use crate::clock::Time;
use crate::dead_letter::{DeadLetter, sent_before};
use crate::dialect;
use crate::failure::{FailureContext, Prospect};
use crate::letter::{Message, RawLetter, Value};
use crate::stamp;
use crate::topology::Channel;

/// Most bytes of one stamp.
const STAMP_MAX: usize = 400;
/// Most bytes of an origin: a name of 255 bytes with what is around it.
const ORIGIN_MAX: usize = 340;

/// The copy of `letter` that run `run` sends as number `seq`.
///
/// # Errors
/// The prospect that forbids it.
pub fn outgoing(letter: &DeadLetter, run: &str, seq: u64) -> Result<Message, Prospect> {
    stamped(&letter.raw, &letter.context, letter.redriven, run, seq)
}

/// The same of a letter of which nothing else is asked, as late as `now`: its cause, event id and group are not
/// looked for. A long run comes to letters that expired since they were selected.
///
/// # Errors
/// The prospect that forbids it.
pub fn of_raw(
    letter: &RawLetter,
    channel: &Channel,
    (run, seq): (&str, u64),
    now: Time,
) -> Result<Message, Prospect> {
    let context = dialect::read_declared(letter, channel.failure.as_ref());
    if let Some(expired) = context.expired(now) {
        return Err(expired.clone());
    }
    let inner = dialect::original(letter, &context);
    let (redriven, _) = sent_before(&inner.as_ref().unwrap_or(&letter.message).headers);
    stamped(letter, &context, redriven, run, seq)
}

fn stamped(
    letter: &RawLetter,
    context: &FailureContext,
    redriven: u32,
    run: &str,
    seq: u64,
) -> Result<Message, Prospect> {
    let mut message = dialect::outgoing(letter, context)?;
    let headers = &mut message.headers;
    headers.replace(stamp::RUN, Value::from_text(format!("{run}/{seq}")));
    headers.replace(stamp::COUNT, Value::from_text((redriven.saturating_add(1)).to_string()));
    let from = [&*letter.facts.queue, "/", letter.id.as_str()].concat();
    headers.replace(stamp::FROM, Value::from_text(plain(from)));
    if !headers.has(stamp::ORIGIN)
        && !headers.has(stamp::DEATHS)
        && let Some(place) = origin(context)
    {
        headers.push(stamp::ORIGIN, Value::from_text(place));
    }
    if !headers.has(stamp::ORIGINAL_TIME)
        && let Some(at) = first_published(letter, context)
    {
        headers.push(stamp::ORIGINAL_TIME, Value::from_text(at.rfc3339()));
    }
    Ok(message)
}

/// Bytes that the stamps add at most, for the size check before a run.
pub const STAMPS_SIZE: u64 = 1024;

/// Where a message first lived, as it stands in a header.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Place<'a> {
    Topic { topic: &'a str, partition: Option<i32>, offset: Option<i64> },
    Queue { queue: &'a str },
}

/// The parts of the origin that name a place to read from, as JSON. One that is too long is left out whole.
fn origin(context: &FailureContext) -> Option<String> {
    let origin = context.origin.as_ref()?;
    let place = match (&origin.topic, &origin.queue) {
        (Some(topic), _) => Place::Topic { topic, partition: origin.partition, offset: origin.offset },
        (None, Some(queue)) => Place::Queue { queue },
        (None, None) => return None,
    };
    let text = serde_json::to_string(&place).ok()?;
    (text.len() <= ORIGIN_MAX).then_some(text)
}

fn first_published(letter: &RawLetter, context: &FailureContext) -> Option<Time> {
    let origin = context.origin.as_ref().and_then(|origin| origin.timestamp);
    origin.or_else(|| letter.facts.written_at.map(|(at, _)| at))
}

/// `[A-Za-z0-9._:/-]` only, bounded.
fn plain(text: String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    // As a rule it is so already.
    if text.len() <= STAMP_MAX && text.bytes().all(is_plain) {
        return text;
    }
    let plain = |c: char| if u8::try_from(c).is_ok_and(is_plain) { c } else { '-' };
    text.chars().map(plain).take(STAMP_MAX).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::letter::{Facts, LetterId, Position};

    #[test]
    fn a_letter_that_expired_since_it_was_selected_is_refused() {
        let event = r#"{"specversion":"1.0","id":"e","topic":"shop","pubsubname":"p","expiration":"2026-12-01T00:00:00Z"}"#;
        let letter = RawLetter {
            id: LetterId::hashed(b"1"),
            position: Position::new("1"),
            arrival: 1,
            message: Message { body: Some(event.into()), ..Message::default() },
            body_len: Some(event.len() as u64),
            facts: Facts::default(),
        };
        let expires = Time::parse("2026-12-01T00:00:00Z").unwrap();
        let at = |now| of_raw(&letter, &Channel::default(), ("r1", 1), now);
        assert!(at(expires.minus(std::time::Duration::from_secs(1))).is_ok());
        let refused = at(expires).unwrap_err().refusal();
        assert!(refused.contains("it expired at 2026-12-01T00:00:00Z"), "{refused}");
    }
}
