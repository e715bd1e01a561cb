//! What a failure leaves on a letter: one more entry in its history, its counters, and where it goes next
//! (protocol §10: by the tool's own header, never by receive counts, r06).

use serde_json::{Map, Value as Json};

use super::letters::stamp as set;
use crate::clock::Time;
use crate::letter::{Headers, Value};
use crate::proof::mutation::mutated;
use crate::stamp;

/// How a consumer failed, in its own words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// Class of the error: `java.net.SocketTimeoutException`.
    pub class: Option<String>,
    /// Class of its innermost cause, where it is another one.
    pub root_class: Option<String>,
    /// What it says.
    pub message: Option<String>,
    /// What the innermost cause says.
    pub root_message: Option<String>,
    /// Stack trace.
    pub stack: Option<String>,
    /// Trace id.
    pub trace: Option<String>,
    /// A word for how it died: `rejected`, `max_receives`.
    pub reason: Option<String>,
    /// Who failed.
    pub consumer: Option<String>,
}

/// Failed tries so far by the header; unreadable counts as none.
pub fn attempts(headers: &Headers) -> u32 {
    headers
        .last(stamp::ATTEMPT)
        .and_then(Value::integer_or_digits)
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(0)
}

/// Counts one more failed try: gives its number.
pub fn count(headers: &mut Headers, now: Time) -> u32 {
    let tries = attempts(headers).saturating_add(1);
    if mutated("r07") {
        // Counted in the memory of a process, which begins anew.
        return 1;
    }
    set(headers, stamp::ATTEMPT, tries.to_string());
    if !headers.has(stamp::FIRST_FAILED_AT) {
        set(headers, stamp::FIRST_FAILED_AT, now.rfc3339());
    }
    tries
}

/// Appends a death to the history, within [`stamp::DEATHS_MAX`]: over it the middle goes, never the first
/// or the last (R5, r10), and the entry after the gap says how many in `omitted`.
pub fn append(headers: &mut Headers, queue: &str, failure: &Failure, now: Time) {
    let before =
        headers.last_text(stamp::DEATHS).and_then(|text| serde_json::from_str::<Vec<Json>>(text).ok());
    match before {
        Some(mut entries) => {
            if mutated("r10") {
                entries.clear();
            }
            entries.push(entry(queue, failure, now));
            set(headers, stamp::DEATHS, bounded(entries));
        }
        // A history that is none stays where it is, and a new one begins after it.
        None => headers.push(stamp::DEATHS, Value::from_text(bounded(vec![entry(queue, failure, now)]))),
    }
}

fn entry(queue: &str, failure: &Failure, now: Time) -> Json {
    let mut entry = Map::new();
    entry.insert("at".to_owned(), now.rfc3339().into());
    entry.insert("queue".to_owned(), queue.into());
    let Failure { class, root_class, message, root_message, stack, trace, reason, consumer } = failure;
    for (name, value) in [
        ("consumer", consumer),
        ("class", class),
        ("root_class", root_class),
        ("message", message),
        ("root_message", root_message),
        ("stack", stack),
        ("trace", trace),
        ("reason", reason),
    ] {
        if let Some(value) = value {
            entry.insert(name.to_owned(), value.as_str().into());
        }
    }
    Json::Object(entry)
}

/// Text of at most [`stamp::DEATHS_MAX`] bytes.
fn bounded(mut entries: Vec<Json>) -> String {
    let text = |entries: &[Json]| Json::from(entries.to_vec()).to_string();
    let mut out = text(&entries);
    while out.len() > stamp::DEATHS_MAX && entries.len() > 2 {
        let middle = entries.len() / 2;
        let gone = entries.remove(middle);
        let already = gone.get("omitted").and_then(Json::as_u64).unwrap_or(0);
        if let Some(Json::Object(next)) = entries.get_mut(middle) {
            let there = next.get("omitted").and_then(Json::as_u64).unwrap_or(0);
            next.insert("omitted".to_owned(), (there + already + 1).into());
        }
        out = text(&entries);
    }
    // First and last alone can be too long: their long texts are cut, the stack from its middle, because
    // the innermost cause stands at one of its ends.
    let mut most = stamp::DEATHS_MAX / 2;
    while out.len() > stamp::DEATHS_MAX && most > 16 {
        most /= 2;
        for entry in &mut entries {
            if let Json::Object(fields) = entry {
                for (_, value) in fields.iter_mut() {
                    if let Json::String(value) = value {
                        shorten(value, most);
                    }
                }
            }
        }
        out = text(&entries);
    }
    out
}

/// Cuts a text in its middle to about `most` bytes.
fn shorten(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let half = most / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    *text = format!("{} … {}", &text[..head], &text[tail..]);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn failure(message: &str, stack: usize) -> Failure {
        Failure {
            class: Some("E".to_owned()),
            message: Some(message.to_owned()),
            stack: Some("at \"x\"\n".repeat(stack / 7)),
            ..Failure::default()
        }
    }

    fn entries(headers: &Headers) -> Vec<Json> {
        serde_json::from_str(headers.last_text(stamp::DEATHS).unwrap()).unwrap()
    }

    #[test]
    fn r10_over_the_bound_the_middle_goes_and_first_and_last_stay() {
        let mut headers = Headers::new();
        for n in 0..40 {
            append(&mut headers, "orders", &failure(&format!("no {n}"), 1_000), Time::from_seconds(n));
            assert!(headers.last_text(stamp::DEATHS).unwrap().len() <= stamp::DEATHS_MAX);
        }
        let entries = entries(&headers);
        assert_eq!(entries.first().unwrap()["message"], "no 0");
        assert_eq!(entries.last().unwrap()["message"], "no 39");
        let omitted: u64 = entries.iter().filter_map(|entry| entry.get("omitted")?.as_u64()).sum();
        assert_eq!(omitted as usize + entries.len(), 40, "the gap is counted");
    }

    #[test]
    fn one_enormous_death_is_cut_in_its_middle() {
        let mut headers = Headers::new();
        for _ in 0..3 {
            append(&mut headers, "orders", &failure(&"ü\u{0}".repeat(40_000), 100_000), Time::from_millis(0));
        }
        let text = headers.last_text(stamp::DEATHS).unwrap();
        assert!(text.len() <= stamp::DEATHS_MAX, "{}", text.len());
        assert_eq!(entries(&headers).len(), 2);
    }

    #[test]
    fn a_history_that_is_none_stays_and_a_new_one_follows() {
        let mut headers = Headers::new();
        headers.push(stamp::DEATHS, Value::from_text("{nonsense"));
        append(&mut headers, "orders", &failure("x", 10), Time::from_millis(0));
        append(&mut headers, "orders", &failure("y", 10), Time::from_millis(0));
        assert_eq!(headers.first_text(stamp::DEATHS), Some("{nonsense"));
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn the_counter_is_the_headers_own() {
        let mut headers = Headers::new();
        assert_eq!(count(&mut headers, Time::from_seconds(5)), 1);
        assert_eq!(count(&mut headers, Time::from_seconds(9)), 2);
        assert_eq!(headers.last_text(stamp::FIRST_FAILED_AT), Some("1970-01-01T00:00:05Z"));
        assert_eq!(headers.len(), 2);
    }
}
