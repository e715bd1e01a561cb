//! A Symfony envelope in PHP's serialisation, as text: a few values are found by the pattern around them.
//! Nothing is unserialised. What stands in the body a tool must not change, so such a letter is refused.

use std::borrow::Cow;

use super::symfony::transport;
use super::{Look, Testimony};
use crate::failure::{Death, Prospect};
use crate::letter::base64;

/// `O:36:` in base64, which Messenger uses when the text is not UTF-8.
pub(super) const IN_BASE64: &str = "TzozNj";
const CLASS: &str = "Symfony\\Component\\Messenger\\Envelope";
/// With it a message that fails again is dropped.
const STAMP: &str = "SentToFailureTransportStamp";
const WAY_ROUND: &str = "messenger:failed:retry in the application, which takes the stamp off";
/// Bodies over this are not looked into.
const LARGEST: usize = 1 << 20;
/// How many stamps of a kind are counted.
const MOST: usize = 1024;

/// Is the body a serialised envelope, of any size?
pub(super) fn is_envelope(letter: &Look<'_>) -> bool {
    // Class name, slashes and what base64 adds have room in this.
    const HEAD: usize = 128;
    letter.body().is_some_and(|body| plain(&body[..body.len().min(HEAD)]).is_some())
}

/// The serialised text without PHP's `addslashes`, if the body is one and not too large to be looked into.
pub(super) fn envelope(letter: &Look<'_>) -> Option<String> {
    plain(letter.body().filter(|body| body.len() <= LARGEST)?)
}

fn plain(body: &[u8]) -> Option<String> {
    let body: Cow<'_, [u8]> = if body.starts_with(IN_BASE64.as_bytes()) {
        Cow::Owned(base64::decode(std::str::from_utf8(body).ok()?)?)
    } else {
        Cow::Borrowed(body)
    };
    if !body.starts_with(b"O:36:") {
        return None;
    }
    let text = String::from_utf8_lossy(&body);
    let text = if text.starts_with("O:36:\\\"") { unslashed(&text) } else { text.into_owned() };
    text.get(6..)?.starts_with(CLASS).then_some(text)
}

/// What cannot be looked into may hold the stamp.
pub(super) fn unreadable() -> Prospect {
    Prospect::Refused {
        why: "the PHP-serialised body is too large or too broken to be looked into: if it holds \
              SentToFailureTransportStamp, Messenger would drop the message when it fails again"
            .to_owned(),
        way_round: WAY_ROUND.to_owned(),
    }
}

/// Takes one level of `addslashes` off.
fn unslashed(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('0') => plain.push('\0'),
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
    plain
}

pub(super) fn read(text: &str, says: &mut Testimony) {
    let receiver = last_text(text, "SentToFailureTransportStamp\0originalReceiverName\";");
    says.origin = receiver.map(transport);
    says.attempts = numbers(text, "RedeliveryStamp\0retryCount\";i:").max().and_then(|n| n.checked_add(1));
    let class_at = text.rfind("ErrorDetailsStamp\0exceptionClass\";");
    if let Some(at) = class_at {
        let stamp = &text[at..];
        let error_class = first_text(stamp, "ErrorDetailsStamp\0exceptionClass\";");
        let message = first_text(stamp, "ErrorDetailsStamp\0exceptionMessage\";");
        // `previous` stands before `class`, so the innermost exception's class comes first.
        let root_class = first_text(stamp, "FlattenException\0class\";");
        let root_message = root_message(stamp).filter(|words| Some(*words) != message);
        let stack = first_text(stamp, "FlattenException\0traceAsString\";");
        says.deaths = vec![Death {
            place: says.origin.clone(),
            error_class: error_class.map(str::to_owned),
            root_class: root_class.map(str::to_owned),
            message: message.map(str::to_owned),
            root_message: root_message.map(str::to_owned),
            stack: stack.map(str::to_owned),
            count: 1,
            ..Death::default()
        }];
    }
    says.doubt("deaths.at", "PHP's serialised times are not read");
    if text.contains(STAMP) {
        says.prospect(Prospect::Refused {
            why:
                "SentToFailureTransportStamp is inside the PHP-serialised body: if the message failed again, \
                  Messenger would drop it"
                    .to_owned(),
            way_round: WAY_ROUND.to_owned(),
        });
    } else if says.attempts.is_some_and(|attempts| attempts > 1) {
        says.prospect(Prospect::OneTry { why: "`retryCount` is inside the PHP-serialised body".to_owned() });
    }
}

/// The message of the innermost exception: the last one before the first class.
fn root_message(stamp: &str) -> Option<&str> {
    let end = stamp.find("FlattenException\0class\";")?;
    last_text(&stamp[..end], "FlattenException\0message\";")
}

fn first_text<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    string(&text[text.find(mark)? + mark.len()..])
}

fn last_text<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    string(&text[text.rfind(mark)? + mark.len()..])
}

/// `s:5:"words";`, its length in bytes. Where bytes were replaced on reading, the length would be off: then
/// the text up to `";` is taken.
fn string(text: &str) -> Option<&str> {
    let (length, rest) = text.strip_prefix("s:")?.split_once(":\"")?;
    let length: usize = length.parse().ok()?;
    match rest.get(..length).filter(|_| rest.get(length..).is_some_and(|tail| tail.starts_with("\";"))) {
        Some(words) => Some(words),
        None => rest.split_once("\";").map(|(words, _)| words),
    }
    .filter(|words| !words.is_empty())
}

fn numbers<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = u32> + 'a {
    text.match_indices(mark).take(MOST).filter_map(move |(at, _)| {
        let rest = &text[at + mark.len()..];
        rest[..rest.find(';')?].parse().ok()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn serialised_texts_are_found_by_pattern_and_nothing_panics() {
        assert_eq!(string("s:5:\"words\";x"), Some("words"));
        assert_eq!(string("s:6:\"né\u{fffd}\";x"), Some("né\u{fffd}"));
        assert_eq!(string("s:999:\"wo\";x"), Some("wo"));
        for bad in ["", "s:", "s:x:\"a\";", "s:2:\"né", "i:4;", "s:18446744073709551615:\"", "s:0:\"\";"] {
            assert_eq!(string(bad), None, "{bad}");
        }
        assert_eq!(unslashed("a\\\"b\\\\c\\0d\\"), "a\"b\\c\0d");
        let mut says = Testimony::default();
        read("RedeliveryStamp\0retryCount\";i:4294967295;ErrorDetailsStamp\0exceptionClass\";s:", &mut says);
        assert_eq!(says.attempts, None);
    }
}
