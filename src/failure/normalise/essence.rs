//! What of a normalised message is compared.

/// The part of a normalised message that is compared: every placeholder alike, neighbours as one, so that an
/// id of digits alone and one with letters, `3 s` and `1m 2s`, `1.234,5` and `1,234.5` are the same; and words
/// of the machine's own language in English.
pub fn essence(normalised: &str) -> String {
    let normalised = super::tongues::in_english(normalised);
    let mut kept = String::with_capacity(normalised.len());
    for word in normalised.split([' ', '\u{a0}']) {
        let id = is_prefixed_id(word);
        for piece in word.split(['-', '_', ',', '.', ':', ';', '/', '+', '#']) {
            if piece.is_empty() {
                continue;
            }
            let piece = placeholders_to_stars(piece);
            let variable = id
                || piece.contains('*') && piece.bytes().all(|b| b == b'*' || !b.is_ascii_alphanumeric())
                || kept.ends_with('*') && is_unit_or_month(&piece);
            if variable {
                if !kept.ends_with('*') {
                    kept.push('*');
                }
            } else {
                if !kept.is_empty() {
                    kept.push(' ');
                }
                kept.push_str(&piece);
            }
        }
    }
    kept
}

/// `o-<n>`, `ORD_<id>`, `ev#<n>`: a few letters and a number, in one word.
fn is_prefixed_id(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '<' && c != '>');
    let letters = word.bytes().take_while(u8::is_ascii_alphabetic).count();
    let rest = &word[letters..];
    (1..=5).contains(&letters)
        && rest.starts_with(['-', '_', '#', ':', '/'])
        && !rest[1..].contains(|c: char| c.is_whitespace())
        && ["<n>", "<id>", "<t>"].iter().any(|placeholder| rest[1..].starts_with(placeholder))
}

fn placeholders_to_stars(piece: &str) -> String {
    let mut text = String::with_capacity(piece.len());
    let mut rest = piece;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        match rest[open..].find('>') {
            Some(close) if PLACEHOLDERS.contains(&&rest[open..=open + close]) => {
                if !text.ends_with('*') {
                    text.push('*');
                }
                rest = &rest[open + close + 1..];
            }
            _ => {
                text.push('<');
                rest = &rest[open + 1..];
            }
        }
    }
    text.push_str(rest);
    text
}

const PLACEHOLDERS: [&str; 9] =
    ["<n>", "<q>", "<id>", "<t>", "<url>", "<email>", "<addr>", "<json>", "<fields>"];

pub(super) fn is_unit_or_month(word: &str) -> bool {
    const WORDS: [&str; 49] = [
        "ms",
        "s",
        "sec",
        "secs",
        "seconds",
        "second",
        "m",
        "min",
        "mins",
        "minutes",
        "minute",
        "h",
        "hours",
        "hour",
        "hr",
        "hrs",
        "d",
        "day",
        "days",
        "week",
        "weeks",
        "us",
        "ns",
        "millis",
        "milliseconds",
        "b",
        "kb",
        "mb",
        "gb",
        "kib",
        "mib",
        "gib",
        "tb",
        "tib",
        "bytes",
        "byte",
        "jan",
        "feb",
        "mar",
        "apr",
        "may",
        "jun",
        "jul",
        "aug",
        "sep",
        "oct",
        "nov",
        "dec",
        "utc",
    ];
    WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
}
