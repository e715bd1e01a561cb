//! `--since`, `--until`: a span before now, or an instant with its zone. Nothing is resolved by guessing.

use crate::clock::{Time, parse_duration};

/// Reads `2h` as two hours before `now`, `2026-11-30T02:00:00Z` as that instant.
///
/// # Errors
/// In words that fit after the flag's name: what is wrong, and how to write it (T02).
pub fn moment(text: &str, now: Time) -> Result<Time, String> {
    if let Some(span) = parse_duration(text) {
        return Ok(now.minus(span));
    }
    instant(text)
}

/// Reads RFC 3339 with one zone.
///
/// # Errors
/// What is wrong, and how to write it.
pub fn instant(text: &str) -> Result<Time, String> {
    if text.is_empty() {
        return Err("no time is given; for instance `2h` or `2026-11-30T02:00:00Z`".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let meant = text.parse::<i64>().ok().and_then(|number| {
            let at = if text.len() > 11 { Time::from_millis(number) } else { Time::from_seconds(number) };
            (text.len() >= 9).then_some(at)
        });
        return Err(match meant {
            Some(at) => format!(
                "`{text}` is a number without a unit; as {} since 1970 it would be written `{at}`",
                if text.len() > 11 { "milliseconds" } else { "seconds" }
            ),
            None => format!("`{text}` is a number without a unit; for instance `{text}m` or `{text}h`"),
        });
    }
    let Some((date, rest)) = text.split_at_checked(10).filter(|(date, _)| is_date(date)) else {
        return Err(format!(
            "`{}` is neither a span nor a time; for instance `2h` or `2026-11-30T02:00:00Z`",
            text.escape_default()
        ));
    };
    if rest.is_empty() {
        return Err(format!("`{text}` has no time of day and no zone; for instance `{date}T00:00:00Z`"));
    }
    let clock = rest.get(1..).filter(|_| rest.starts_with(['T', 't', ' '])).unwrap_or_default();
    let zone_at = clock.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.' | ','));
    match zone_at.map(|at| &clock[at..]) {
        None if !clock.is_empty() => {
            return Err(format!(
                "`{text}` has no zone; `{date}T{clock}Z` is UTC, `{date}T{clock}+01:00` an hour ahead"
            ));
        }
        Some("Z" | "z") => {}
        Some(zone) if zone.len() > 1 && zone.ends_with(['Z', 'z']) => {
            return Err(format!("`{text}` has two zones, an offset and Z; keep one of them"));
        }
        _ => {}
    }
    let plain = !text.contains(['[', ' ']);
    Time::parse(text).filter(|_| plain).ok_or_else(|| {
        format!("`{}` is no time of the calendar; for instance `2026-11-30T02:00:00Z`", text.escape_default())
    })
}

fn is_date(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    })
}
