//! Times as dead letters spell them: epoch in any unit, RFC 3339 with any number of digits, and the form of
//! NServiceBus. One without a zone is refused: whose would it be?

use crate::clock::Time;
use crate::letter::Value;

/// The time in a header or property, whatever its type.
pub(super) fn of(value: &Value) -> Option<Time> {
    match value {
        Value::Timestamp(seconds) => epoch(i64::try_from(*seconds).ok()?),
        Value::F64(seconds) => fraction(*seconds),
        Value::F32(seconds) => fraction(f64::from(*seconds)),
        _ => value.integer().map_or_else(|| text(value.text()?), epoch),
    }
}

/// The time in a JSON value.
pub(super) fn of_json(value: &serde_json::Value) -> Option<Time> {
    match value {
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| fraction(number.as_f64()?), epoch)
        }
        serde_json::Value::String(words) => text(words),
        _ => None,
    }
}

/// The time in a text.
pub(super) fn text(words: &str) -> Option<Time> {
    let words = words.trim();
    if words.len() > 64 || words.is_empty() {
        return None;
    }
    if words.bytes().all(|byte| byte.is_ascii_digit()) {
        return epoch(words.parse().ok()?);
    }
    if words.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return fraction(words.parse().ok()?);
    }
    Time::parse(words).or_else(|| nservicebus(words))
}

/// Seconds, milli-, micro- or nanoseconds since the epoch: by size, which tells them apart from 1973 to
/// 5138.
fn epoch(number: i64) -> Option<Time> {
    match number {
        1..100_000_000_000 => Some(Time::from_seconds(number)),
        100_000_000_000..100_000_000_000_000 => Some(Time::from_millis(number)),
        100_000_000_000_000..100_000_000_000_000_000 => Some(Time::from_millis(number / 1_000)),
        100_000_000_000_000_000.. => Some(Time::from_millis(number / 1_000_000)),
        _ => None,
    }
}

/// Seconds with a fraction, as Python's `time.time()` has them; larger numbers as in [`epoch`].
#[allow(clippy::cast_possible_truncation)]
fn fraction(number: f64) -> Option<Time> {
    if !number.is_finite() || !(1.0..9e18).contains(&number) {
        return None;
    }
    if number < 1e11 {
        return Some(Time::from_millis((number * 1000.0).round() as i64));
    }
    epoch(number as i64)
}

/// `2026-03-01 12:00:00:123000 Z`: a blank for the `T`, a colon before the microseconds, a blank before the
/// zone.
fn nservicebus(words: &str) -> Option<Time> {
    let (date, rest) = words.split_once(' ')?;
    let (clock, zone) = rest.split_once(' ').unwrap_or((rest.strip_suffix('Z')?, "Z"));
    let mut parts = clock.splitn(4, ':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let micros = parts.next().unwrap_or("0");
    Time::parse(&format!("{date}T{hour}:{minute}:{second}.{micros}{zone}"))
        .or_else(|| Time::parse(&format!("{date}T{clock}{zone}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    const AT: i64 = 1_772_366_400_123;

    #[test]
    fn every_spelling_of_one_instant() {
        for words in [
            "1772366400123",
            "1772366400123000",
            "1772366400123000000",
            "1772366400.123",
            "2026-03-01T12:00:00.123Z",
            "2026-03-01T12:00:00.1230000Z",
            "2026-03-01T12:00:00.123000+00:00",
            "2026-03-01T13:00:00.123+01:00",
            "2026-03-01 12:00:00:123000 Z",
            "2026-03-01 12:00:00:123999 Z",
        ] {
            assert_eq!(text(words).map(Time::millis), Some(AT), "{words}");
        }
        assert_eq!(text("1772366400").map(Time::millis), Some(1_772_366_400_000));
        assert_eq!(of(&Value::Timestamp(1_772_366_400)).map(Time::millis), Some(1_772_366_400_000));
        assert_eq!(of(&Value::I64(AT)).map(Time::millis), Some(AT));
        assert_eq!(of(&Value::F64(1_772_366_400.123)).map(Time::millis), Some(AT));
    }

    #[test]
    fn what_is_no_time_is_none() {
        let digits = "9".repeat(400);
        for words in
            ["", "soon", "2026-03-01T12:00:00", "-5", "0", "1.2.3", digits.as_str(), "2026-03-01 Z", " "]
        {
            assert_eq!(text(words), None, "{words}");
        }
        for value in [Value::F64(f64::NAN), Value::F64(f64::INFINITY), Value::I64(i64::MIN), Value::Null] {
            assert_eq!(of(&value), None);
        }
        assert!(of(&Value::Timestamp(u64::MAX)).is_none());
        assert!(of(&Value::I64(i64::MAX)).is_some());
    }
}
