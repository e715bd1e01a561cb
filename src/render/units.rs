//! Numbers, sizes and times as people read them.

use std::time::Duration;

use crate::clock::{Time, rough};

/// `1,204`.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 letter`, `1,204 letters`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if n == 1 { one } else { many })
}

/// `55 B`, `6.1 KiB`, `11.5 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1,023.95 and more would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A part of a whole: `61%`, `<1%`.
pub fn share(part: u64, whole: u64) -> String {
    let percent = (part * 100 + whole / 2).checked_div(whole).unwrap_or(0);
    match percent {
        0 if part > 0 => "<1%".to_owned(),
        100 if part < whole => ">99%".to_owned(),
        percent => format!("{percent}%"),
    }
}

/// An age: two units, seconds only below a minute: `2d 14h`, `30m`, `9s`.
pub fn age(of: Duration) -> String {
    match of.as_secs() {
        0 => "0s".to_owned(),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds => rough(Duration::from_secs(seconds - seconds % 60)),
    }
}

/// How long ago: `4m ago`; `now` for what is not past yet by this machine's clock.
pub fn ago(at: Time, now: Time) -> String {
    match now.since(at) {
        past if past < Duration::from_secs(1) => "now".to_owned(),
        past => format!("{} ago", age(past)),
    }
}

/// `2026-11-30 03:12Z`.
pub fn minute(at: Time) -> String {
    at.format("%Y-%m-%d %H:%MZ")
}

/// A moment by which one decides: to the minute for a person, as RFC 3339 where no terminal is (`columns`).
pub fn moment(at: Time, columns: Option<usize>) -> String {
    if columns.is_some() { minute(at) } else { at.rfc3339() }
}

/// Likewise to the second.
pub fn when(at: Time, columns: Option<usize>) -> String {
    if columns.is_some() { second(at) } else { at.rfc3339() }
}

/// `2026-11-30 03:12:08Z`.
pub fn second(at: Time) -> String {
    at.format("%Y-%m-%d %H:%M:%SZ")
}

/// The time of day if it is on the day of `now`, else with its date: `02:03:59Z`, `29 Nov 02:03:59Z`.
pub fn short_second(at: Time, now: Time) -> String {
    if same_day(at, now) { at.format("%H:%M:%SZ") } else { dated(at, now, "%-d %b %H:%M:%SZ") }
}

/// The time of day if it is on the day of `now`, else its date: `02:03Z`, `17 Nov`, `17 Nov 2025`.
pub fn short_minute(at: Time, now: Time) -> String {
    if same_day(at, now) { at.format("%H:%MZ") } else { dated(at, now, "%-d %b") }
}

fn dated(at: Time, now: Time, format: &str) -> String {
    if at.format("%Y") == now.format("%Y") { at.format(format) } else { second(at) }
}

fn same_day(at: Time, now: Time) -> bool {
    at.format("%Y-%m-%d") == now.format("%Y-%m-%d")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn units_read_as_people_write_them() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1_023, 6_246, 12_110_282].map(bytes), ["0 B", "1023 B", "6.1 KiB", "11.5 MiB"]);
        assert_eq!(bytes(1_048_575), "1.0 MiB");
        assert_eq!(share(131, 214), "61%");
        assert_eq!([share(1, 1_000), share(999, 1_000), share(0, 0)], ["<1%", ">99%", "0%"]);
        assert_eq!(count(1, "letter", "letters"), "1 letter");
    }

    #[test]
    fn times_carry_their_date_only_when_it_is_another_day() {
        let now = Time::parse("2026-11-30T03:12:08Z").unwrap();
        let at = |text| Time::parse(text).unwrap();
        assert_eq!(short_minute(at("2026-11-30T02:03:59Z"), now), "02:03Z");
        assert_eq!(short_minute(at("2026-11-17T02:03:59Z"), now), "17 Nov");
        assert_eq!(short_second(at("2026-11-07T02:03:59Z"), now), "7 Nov 02:03:59Z");
        assert_eq!(short_second(at("2025-11-07T02:03:59Z"), now), "2025-11-07 02:03:59Z");
        assert_eq!(ago(at("2026-11-30T02:03:08Z"), now), "1h 9m ago");
        assert_eq!(ago(at("2026-11-30T02:31:59Z"), now), "40m ago");
        assert_eq!(ago(at("2026-11-30T04:03:08Z"), now), "now");
    }
}
