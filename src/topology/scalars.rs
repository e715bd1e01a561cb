//! One value as text, read by its kind: strict where YAML readers disagree (booleans, numbers), with the
//! right spelling in the help line.

use std::ops::Range;
use std::time::Duration;

use super::keys::{self, Key, Kind, Takes, Variant};
use super::read::Checked;
use super::{At, Rate, codes, nearest::nearest};
use crate::clock;
use crate::diagnostic::Diagnostic;

type Read = Result<Checked, Box<Diagnostic>>;

/// Reads `text` as the kind of `key`. `plain`: written without quotes.
pub(super) fn read(key: &Key, text: &str, plain: bool, span: Range<usize>) -> Read {
    match &key.kind {
        Kind::Version => version(text, span),
        Kind::Word(words) => word(key, words, text, span),
        Kind::Bool => boolean(key, text, plain, span),
        Kind::Count { min, max } => count(key, text, plain, (*min, *max), span),
        Kind::Duration { min } => duration(key, text, *min, span),
        Kind::Rate => rate(key, text, span),
        _ => Ok(Checked::Text(At { value: text.to_owned(), span })),
    }
}

fn version(text: &str, span: Range<usize>) -> Read {
    if text == "1" {
        return Ok(Checked::Count(At { value: 1, span }));
    }
    Err(Box::new(
        Diagnostic::error(codes::VERSION, format!("version `{text}` of the format is not known"))
            .at(span, "this build reads version 1")
            .help("write version: 1; a newer file needs a newer redrive"),
    ))
}

fn word(key: &Key, words: &'static [&'static str], text: &str, span: Range<usize>) -> Read {
    if let Some(word) = words.iter().find(|word| **word == text) {
        return Ok(Checked::Choice(At { value: (word, String::new()), span }));
    }
    let problem = Diagnostic::error(codes::WORD, format!("`{}` cannot be `{text}`", key.name))
        .at(span, "not one of the words");
    Err(Box::new(match nearest(text, words.iter().copied()) {
        Some(near) => problem.help(format!("did you mean {near}?")),
        None => problem.help(format!("words: {}", words.join(", "))),
    }))
}

/// Words that YAML 1.1 readers take for booleans, and spellings of today's.
const OTHER_BOOLEANS: [(&str, &str); 8] = [
    ("yes", "true"),
    ("on", "true"),
    ("y", "true"),
    ("true", "true"),
    ("no", "false"),
    ("off", "false"),
    ("n", "false"),
    ("false", "false"),
];

fn boolean(key: &Key, text: &str, plain: bool, span: Range<usize>) -> Read {
    match (text, plain) {
        ("true", true) => return Ok(Checked::Bool(At { value: true, span })),
        ("false", true) => return Ok(Checked::Bool(At { value: false, span })),
        _ => {}
    }
    let problem = Diagnostic::error(codes::BOOLEAN, format!("`{}` is true or false", key.name));
    let lower = text.to_ascii_lowercase();
    Err(Box::new(match OTHER_BOOLEANS.iter().find(|(other, _)| *other == lower) {
        Some((_, meant)) if plain => {
            problem.at(span, "a boolean to some readers, a word to others").help(format!("write {meant}"))
        }
        Some((_, meant)) => problem.at(span, "text in quotes").help(format!("write {meant}, without quotes")),
        None => problem.at(span, "neither").help("write true or false"),
    }))
}

fn count(key: &Key, text: &str, plain: bool, (min, max): (i64, i64), span: Range<usize>) -> Read {
    let problem = |title: String, label: &str, help: String, span: Range<usize>| {
        Box::new(Diagnostic::error(codes::NUMBER, title).at(span, label).help(help))
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let range = if max > 1_000_000 {
        format!("a whole number from {min}")
    } else {
        format!("a whole number from {min} to {max}")
    };
    if !plain {
        let help = if text.parse::<i64>().is_ok() {
            format!("write {text}, without quotes")
        } else {
            format!("write {range}")
        };
        return Err(problem(format!("`{}` is a number", key.name), "text in quotes", help, span));
    }
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let plain_digits: String = digits.chars().filter(|c| *c != '_').collect();
        let help = match plain_digits.parse::<i64>() {
            Ok(number) if digits.contains('_') => format!("write {number}"),
            _ => format!("write {range}, in digits only"),
        };
        return Err(problem(format!("`{}` is not a whole number", key.name), "not only digits", help, span));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        let help = format!("write {}", digits.trim_start_matches('0'));
        return Err(problem(
            format!("`{}` begins with a zero", key.name),
            "octal to some readers",
            help,
            span,
        ));
    }
    match text.parse::<i64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(Checked::Count(At { value: number, span })),
        _ => Err(problem(
            format!("`{}` is out of range", key.name),
            "out of range",
            format!("write {range}"),
            span,
        )),
    }
}

fn duration(key: &Key, text: &str, min: Duration, span: Range<usize>) -> Read {
    match clock::parse_duration(text) {
        Some(duration) if duration >= min => Ok(Checked::Duration(At { value: duration, span })),
        Some(_) => Err(Box::new(
            Diagnostic::error(codes::DURATION_RANGE, format!("`{}` is too short", key.name))
                .at(span, format!("at least {}", clock::exact(min)))
                .help(format!("write {} or more", clock::exact(min))),
        )),
        None => Err(Box::new(not_a_duration(key.name, text, span))),
    }
}

/// Says what is wrong with a duration, and how it is written.
pub(super) fn not_a_duration(name: &str, text: &str, span: Range<usize>) -> Diagnostic {
    if let Ok(number) = text.parse::<u64>() {
        let problem =
            Diagnostic::error(codes::DURATION, format!("`{name}` has no unit")).at(span, "a number alone");
        let seconds = format!("{number}s");
        let whole = clock::exact(Duration::from_secs(number)).replace(' ', "");
        let whole_ms = clock::exact(Duration::from_millis(number)).replace(' ', "");
        return problem.help(match number {
            0 => "a wait of nothing is no wait".to_owned(),
            1_000.. if number % 1_000 == 0 => format!("write {whole_ms} or {number}ms"),
            _ if whole == seconds => format!("write {seconds}"),
            _ => format!("write {seconds} or {whole}"),
        });
    }
    let problem =
        Diagnostic::error(codes::DURATION, format!("`{name}` is not a duration")).at(span, "cannot be read");
    let upper = text.to_ascii_uppercase();
    problem.help(if text.starts_with('-') {
        "a duration is not negative"
    } else if upper.starts_with('P') {
        "not in ISO 8601: write 10m for PT10M, 1d for P1D"
    } else if text.contains(['.', ',']) {
        "no fractions: write 1m30s for 1.5m"
    } else if text.contains(':') {
        "no clock times: write 1m30s or 1h30m"
    } else if text.contains('M') {
        "units are small letters: m is minutes, months do not exist; write 30d"
    } else if text != text.to_ascii_lowercase() {
        "units are small letters: ms, s, m, h, d"
    } else if text.contains(['w', 'y']) {
        "the largest unit is d: write 7d for 1w"
    } else {
        "numbers with units, the largest first: 250ms, 5s, 1m30s, 14d; units: ms, s, m, h, d"
    })
}

fn rate(key: &Key, text: &str, span: Range<usize>) -> Read {
    if let Some(rate) = Rate::parse(text) {
        return Ok(Checked::Rate(At { value: rate, span }));
    }
    let problem =
        Diagnostic::error(codes::RATE, format!("`{}` is not a rate", key.name)).at(span, "cannot be read");
    Err(Box::new(if text.parse::<u64>().is_ok() {
        problem.help(format!("write {text}/s"))
    } else {
        problem.help("write letters per time: 50/s, 600/m, 1000/h; or unlimited")
    }))
}

/// Is it a JSON pointer to a place inside a body (RFC 6901)?
pub(super) fn is_pointer(text: &str) -> bool {
    let escapes =
        text.match_indices('~').all(|(at, _)| matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1')));
    text.starts_with('/') && escapes
}

/// The forms of a choice, for a help line.
pub(super) fn forms(variants: &[Variant]) -> String {
    let forms: Vec<String> = variants
        .iter()
        .map(|variant| match variant.takes {
            Takes::Nothing => variant.word.to_owned(),
            _ => format!("{{{}: {}}}", variant.word, sample(variant)),
        })
        .collect();
    forms.join(", ")
}

/// What a form of a choice takes, for a help line.
pub(super) fn sample(variant: &Variant) -> &'static str {
    match variant.takes {
        Takes::Nothing => "",
        Takes::Text => "NAME",
        Takes::Pointer => "/POINTER",
    }
}

/// Where in the table a key of this name stands: "`retry`", "a channel".
pub(super) fn tables_with(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    search(keys::FILE, "the file", name, &mut found);
    found
}

fn search(table: &'static [Key], place: &str, name: &str, found: &mut Vec<String>) {
    if table.iter().any(|key| key.name == name) && !found.iter().any(|known| known == place) {
        found.push(place.to_owned());
    }
    for key in table.iter().filter(|key| key.name != "defaults") {
        match &key.kind {
            Kind::Table(inner) | Kind::List(inner) => search(inner, &format!("`{}`", key.name), name, found),
            Kind::Named { what, keys } => search(keys, &format!("a {what}"), name, found),
            _ => {}
        }
    }
}
