//! Time: one type for instants, one trait for clocks, and the text forms of both.
//!
//! The only file that knows the calendar crate. Times are UTC milliseconds since the epoch: no broker
//! here keeps more.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant in UTC, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

impl Time {
    /// The instant `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The instant `seconds` seconds after the epoch; saturates.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is before it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This instant moved forward; saturates.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This instant moved back; saturates.
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// RFC 3339 in UTC with `Z`, milliseconds only if there are any: `2026-11-30T02:03:59Z`.
    ///
    /// An instant outside the calendar's range is given as `@<millis>ms`.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => at.to_string(),
            Err(_) => format!("@{}ms", self.0),
        }
    }

    /// By `format` in the manner of strftime, in UTC.
    pub fn format(self, format: &str) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => at.strftime(format).to_string(),
            Err(_) => format!("@{}ms", self.0),
        }
    }

    /// Reads RFC 3339 with a zone (`Z` or an offset). A time without a zone is refused: whose would it be?
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(at) = Self::plain(text.as_bytes()) {
            return Some(at);
        }
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_millisecond()))
    }

    /// `2026-11-29T02:03:59Z`, with or without milliseconds, as redrive itself writes times: a look reads a
    /// million of them. `None`: in another form, or no such time.
    fn plain(text: &[u8]) -> Option<Self> {
        const FORM: &[u8; 20] = b"0000-00-00T00:00:00Z";
        let (whole, millis) = match text.split_last_chunk::<5>() {
            Some((whole, [b'.', millis @ .., b'Z'])) if text.len() == 24 => (whole, number(millis)?),
            _ => (text.strip_suffix(b"Z")?, 0),
        };
        let fits =
            |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
        if whole.len() != 19 || !whole.iter().zip(FORM).all(fits) {
            return None;
        }
        let part = |from: usize, to: usize| number(&whole[from..to]);
        let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
        let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if leap { 29 } else { 28 };
        let days = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let longest = *days.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
        if year < 1970 || !(1..=longest).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        // Days of whole years: leap days of the years before this one.
        let before = year - 1;
        let leaps = |year: i64| year / 4 - year / 100 + year / 400;
        let of_years = 365 * (year - 1970) + leaps(before) - leaps(1969);
        let of_months: i64 = days.iter().take(usize::try_from(month).ok()? - 1).sum();
        let seconds = (of_years + of_months + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second;
        Some(Self(seconds * 1_000 + millis))
    }
}

/// Decimal digits, a few of them.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, byte| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0')))
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.rfc3339())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time with a zone"))
    }
}

/// Units of a duration as text, largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `5s`, `1m`, `1h30m`, `13d 22h`, `250ms`. A number without a unit is refused: 60 is milliseconds to
/// one broker and seconds to another.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0u64;
    let mut last = u64::MAX;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        if *scale >= last {
            return None;
        }
        last = *scale;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*scale)?)?;
        rest = match tail.strip_prefix(' ') {
            Some("") => return None,
            Some(next) => next,
            None => tail,
        };
    }
    Some(Duration::from_millis(total))
}

/// A duration exactly, as YAML takes it: `1m 5s`, `13d 22h`, `250ms`.
pub fn exact(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for (unit, scale) in UNITS {
        if left >= scale {
            parts.push(format!("{}{unit}", left / scale));
            left %= scale;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// A duration as people decide by it, cut to its two largest units: `13d 22h`, `4m`, `1h 9m`.
pub fn rough(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if left < 1_000 {
        return if left == 0 { "0s".to_owned() } else { format!("{left}ms") };
    }
    let mut parts = Vec::new();
    for (unit, scale) in UNITS.into_iter().take(4) {
        let count = left / scale;
        left %= scale;
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    parts.join(" ")
}

/// A future that a clock hands out.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Where the time comes from. Rates, leases and tiers ask it, never the system, so that tests need not wait.
pub trait Clock: Send + Sync {
    /// Now, by the wall.
    fn now(&self) -> Time;
    /// Since some fixed moment; never goes back, and goes on while the machine is suspended, so that a
    /// lease that ran out in the meantime is seen to have run out.
    fn elapsed(&self) -> Duration;
    /// Returns after `by` on this clock.
    fn sleep(&self, by: Duration) -> Sleep<'_>;
}

/// The system's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        Time(jiff::Timestamp::now().as_millisecond())
    }

    fn elapsed(&self) -> Duration {
        let at = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), u32::try_from(at.tv_nsec).unwrap_or(0))
    }

    fn sleep(&self, by: Duration) -> Sleep<'_> {
        Box::pin(tokio::time::sleep(by))
    }
}

/// A clock that stands still until it is moved; sleeping moves it. For tests and `REDRIVE_NOW`.
#[derive(Debug, Default)]
pub struct VirtualClock {
    start: i64,
    passed: AtomicI64,
}

impl VirtualClock {
    /// Stands at `now`.
    pub fn new(now: Time) -> Self {
        Self { start: now.0, passed: AtomicI64::new(0) }
    }

    /// Moves forward by `by` (kept in microseconds).
    pub fn advance(&self, by: Duration) {
        self.passed.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(self.start + self.passed.load(Ordering::SeqCst) / 1000)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.passed.load(Ordering::SeqCst)).unwrap_or(0))
    }

    fn sleep(&self, by: Duration) -> Sleep<'_> {
        self.advance(by);
        Box::pin(async { tokio::task::yield_now().await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn y_durations_carry_a_unit_and_units_descend() {
        assert_eq!(parse_duration("5s"), Some(Duration::from_secs(5)));
        assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("13d 22h"), Some(Duration::from_secs(334 * 3600)));
        for bad in [
            "",
            "60",
            "1.5s",
            "5 s",
            "-1s",
            "1m1h",
            "1s1s",
            "5 m s",
            "5s ",
            "5s  1ms",
            "5x",
            "s",
            "99999999999999999999d",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn plain_times_are_read_as_a_whole_parser_reads_them() {
        let whole = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond());
        let plain = |text: &str| Time::plain(text.as_bytes()).map(Time::millis);
        // Each day of five hundred years, and each second of the day once.
        let forms = ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%3fZ"];
        for (day, form) in (0..500 * 366).zip(forms.into_iter().cycle()) {
            let text = Time::from_millis(day * 86_400_000 + day % 86_400 * 1_000 + day % 1_000).format(form);
            assert!(plain(&text).is_some(), "{text}");
            assert_eq!(plain(&text), whole(&text), "{text}");
        }
        for text in [
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00+00:00",
            "2026-01-01T00:00:00.1Z",
            "2026-01-01T00:00:00.1x3Z",
            "2026-01-01 00:00:00Z",
            "1969-12-31T23:59:59Z",
            "+026-01-01T00:00:00Z",
            ".000Z",
            "Z",
            "",
        ] {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn durations_as_text() {
        assert_eq!(exact(Duration::from_secs(65)), "1m 5s");
        assert_eq!(exact(Duration::ZERO), "0s");
        assert_eq!(rough(Duration::from_secs(13 * 86_400 + 22 * 3600 + 59)), "13d 22h");
        assert_eq!(rough(Duration::from_secs(3600 + 5)), "1h");
        assert_eq!(rough(Duration::from_secs(240)), "4m");
    }

    #[test]
    fn t01_z_means_utc() {
        assert_eq!(Time::parse("2025-07-21T23:28:00Z"), Some(Time::from_millis(1_753_140_480_000)));
        assert_eq!(Time::parse("2025-07-21T23:28:00"), None);
        assert_eq!(Time::parse("2025-07-21T23:28:00+00:00Z"), None);
        assert_eq!(Time::from_millis(1_753_140_480_000).rfc3339(), "2025-07-21T23:28:00Z");
    }
}
