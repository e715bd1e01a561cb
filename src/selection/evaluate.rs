//! Asking a letter. The answer to a question about a fact that the letter does not carry is neither yes nor
//! no: `not` does not make a yes of it, and such a letter is not selected.

use super::expression::{Compare, Decimal, Expression, Field, Test, TextTest};
use crate::clock::Time;
use crate::dead_letter::DeadLetter;
use crate::failure::Origin;
use crate::letter::{Headers, Value};

impl Expression {
    /// Does it hold for `letter`? `None`: the letter lacks a fact that would decide it.
    pub fn holds(&self, letter: &DeadLetter, now: Time) -> Option<bool> {
        match self {
            Self::Test(test) => test.holds(letter, now),
            Self::Not(inner) => inner.holds(letter, now).map(|yes| !yes),
            Self::And(parts) => all(parts.iter().map(|part| part.holds(letter, now)), false),
            Self::Or(parts) => all(parts.iter().map(|part| part.holds(letter, now)), true),
        }
    }

    /// Can it be answered only with bodies in hand?
    pub fn needs_bodies(&self) -> bool {
        match self {
            Self::Test(test) => test.field().is_of_body(),
            Self::Not(inner) => inner.needs_bodies(),
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::needs_bodies),
        }
    }
}

/// One answer that decides, else unknown if there is an unknown one, else the other answer.
fn all(answers: impl Iterator<Item = Option<bool>>, decides: bool) -> Option<bool> {
    let mut unknown = false;
    for answer in answers {
        match answer {
            Some(yes) if yes == decides => return Some(decides),
            Some(_) => {}
            None => unknown = true,
        }
    }
    (!unknown).then_some(!decides)
}

impl Test {
    fn field(&self) -> &Field {
        match self {
            Self::Exists(field)
            | Self::Text(field, _)
            | Self::Number(field, ..)
            | Self::Dynamic(field, ..) => field,
            Self::Size(..) => &Field::Size,
            Self::Age(..) => &Field::Age,
            Self::Died(..) => &Field::Died,
        }
    }

    fn holds(&self, letter: &DeadLetter, now: Time) -> Option<bool> {
        match self {
            Self::Exists(field) => Some(exists(field, letter)),
            Self::Size(compare, bytes) => Some(compare.holds(letter.raw.size().cmp(bytes))),
            Self::Age(compare, age) => {
                let (died, _) = letter.died_at?;
                Some(compare.holds(now.since(died).cmp(age)))
            }
            Self::Died(compare, at) => Some(compare.holds(letter.died_at?.0.cmp(at))),
            Self::Number(field, compare, number) => {
                let value = match field {
                    Field::Attempts => letter.context.attempts?,
                    _ => letter.redriven,
                };
                Some(compare.holds(i64::from(value).cmp(number)))
            }
            Self::Text(field, test) => text(field, test, letter),
            Self::Dynamic(field, compare, number) => dynamic(field, *compare, number, letter),
        }
    }
}

fn exists(field: &Field, letter: &DeadLetter) -> bool {
    match field {
        Field::Age | Field::Died => letter.died_at.is_some(),
        Field::Attempts => letter.context.attempts.is_some(),
        Field::Redriven | Field::Size => true,
        Field::Header(name) => letter.raw.message.headers.has(name),
        Field::Property(name) => letter.raw.message.properties.has(name),
        Field::Body => letter.raw.body_len.is_some(),
        Field::BodyAt(pointer) => letter.body_at(pointer).is_some(),
        Field::Cause => letter.cause.id.as_str() != "none",
        text => {
            let mut any = false;
            each(text, letter, true, &mut |_| any = true);
            any
        }
    }
}

/// Asks every value of the field: the negative questions are the opposite of the positive ones, not "some
/// value differs".
fn text(field: &Field, test: &TextTest, letter: &DeadLetter) -> Option<bool> {
    let (negated, searches) = match test {
        TextTest::Is(_) => (false, false),
        TextTest::IsNot(_) => (true, false),
        TextTest::Matches(_) => (false, true),
        TextTest::MatchesNot(_) => (true, true),
    };
    let (mut known, mut found) = (false, false);
    each(field, letter, searches, &mut |value| {
        known = true;
        found |= match test {
            TextTest::Is(wanted) | TextTest::IsNot(wanted) => is(field, value, wanted.as_bytes()),
            TextTest::Matches(pattern) | TextTest::MatchesNot(pattern) => !found && pattern.occurs_in(value),
        };
    });
    known.then_some(found != negated)
}

/// Is this value of the field the wanted one?
fn is(field: &Field, value: &[u8], wanted: &[u8]) -> bool {
    match field {
        // Ids of ours go by any prefix.
        Field::Cause | Field::Letter => !wanted.is_empty() && value.starts_with(wanted),
        Field::Error => is_class(value, wanted),
        _ => value == wanted,
    }
}

/// `SocketTimeoutException` names `java.net.SocketTimeoutException`, and so does `net.SocketTimeoutException`.
fn is_class(value: &[u8], wanted: &[u8]) -> bool {
    match value.strip_suffix(wanted) {
        Some([]) => true,
        Some([.., separator]) => !wanted.is_empty() && matches!(separator, b'.' | b':' | b'\\' | b'/' | b'$'),
        None => false,
    }
}

/// Hands out every value of a field as bytes. `searches`: `error` then has the messages too.
fn each(field: &Field, letter: &DeadLetter, searches: bool, take: &mut dyn FnMut(&[u8])) {
    let mut put = |text: Option<&str>| {
        if let Some(text) = text {
            take(text.as_bytes());
        }
    };
    let last = letter.context.last();
    match field {
        Field::Cause => put(Some(letter.cause.id.as_str())),
        Field::Letter => put(Some(letter.raw.id.as_str())),
        Field::Id => put(letter.event_id.value.as_deref()),
        Field::Group => put(letter.group.value.as_deref()),
        Field::Trace => letter.context.traces().for_each(|trace| put(Some(trace))),
        Field::Dialect => letter.context.readings.iter().for_each(|reading| put(Some(reading.dialect))),
        Field::Reason => put(last.and_then(|death| death.reason.as_deref())),
        Field::Consumer => put(last.and_then(|death| death.consumer.as_deref())),
        Field::Error | Field::Message => {
            let Some(death) = last else { return };
            if *field == Field::Error {
                put(death.root_class.as_deref());
                put(death.error_class.as_deref());
            }
            if *field == Field::Message || searches {
                put(death.root_message.as_deref());
                put(death.message.as_deref());
            }
        }
        Field::Origin => {
            if let Some(origin) = &letter.context.origin {
                origin_names(origin, &mut put);
            }
        }
        Field::Header(name) => values(&letter.raw.message.headers, name, take),
        Field::Property(name) => values(&letter.raw.message.properties, name, take),
        Field::Body => {
            if let Some(body) = &letter.raw.message.body {
                take(body);
            }
        }
        Field::BodyAt(pointer) => match letter.body_at(pointer) {
            Some(serde_json::Value::String(text)) => put(Some(text)),
            Some(serde_json::Value::Null) | None => {}
            Some(value) => put(Some(&value.to_string())),
        },
        Field::Age | Field::Died | Field::Attempts | Field::Redriven | Field::Size => {}
    }
}

fn origin_names(origin: &Origin, put: &mut dyn FnMut(Option<&str>)) {
    for name in [&origin.topic, &origin.queue, &origin.exchange, &origin.routing_key] {
        put(name.as_deref());
    }
    for (_, name) in &origin.named {
        put(Some(name));
    }
}

fn values(headers: &Headers, name: &str, take: &mut dyn FnMut(&[u8])) {
    for value in headers.all(name) {
        if let Some(bytes) = value.bytes() {
            take(bytes);
        } else if let Some(text) = plain(value) {
            take(text.as_bytes());
        }
    }
}

/// A value that is neither text nor bytes, as people write it; a null, list or table has no such form.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Bool(yes) => Some(yes.to_string()),
        Value::F32(number) => Some(number.to_string()),
        Value::F64(number) => Some(number.to_string()),
        Value::Timestamp(seconds) => Some(seconds.to_string()),
        Value::Decimal { scale, value } => {
            let digits = format!("{value:0>width$}", width = usize::from(*scale) + 1);
            let (whole, part) = digits.split_at(digits.len() - usize::from(*scale));
            Some(if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") })
        }
        Value::Labelled { value, .. } => plain(value),
        other => other.integer().map(|number| number.to_string()),
    }
}

/// A value against a number: text counts if it reads as one.
fn dynamic(field: &Field, compare: Compare, number: &Decimal, letter: &DeadLetter) -> Option<bool> {
    let (mut known, mut found) = (false, false);
    // `!=` is the opposite of `=`, as for text.
    let (compare, negated) = match compare {
        Compare::NotEqual => (Compare::Equal, true),
        other => (other, false),
    };
    each(field, letter, false, &mut |value| {
        let value = std::str::from_utf8(value).ok().and_then(|text| Decimal::parse(text.trim()));
        match value.and_then(|value| number.compare(&value)) {
            Some(ordering) => {
                known = true;
                found |= compare.holds(ordering);
            }
            // A value that is no number is surely not equal to one; less or greater it is neither.
            None if compare == Compare::Equal => known = true,
            None => {}
        }
    });
    known.then_some(found != negated)
}
