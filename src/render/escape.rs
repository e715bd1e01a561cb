//! The one function through which every text from outside goes before it reaches a terminal (O01).
//!
//! What a terminal or a reader's eye would act on is shown as `\u{1b}` instead: C0, C1, DEL, bidirectional
//! and format controls, line and paragraph separators. Line feed, return and tab, which are common in
//! messages, are shown as `\n`, `\r`, `\t`, so that one message stays one row (O03). Escaping what is
//! escaped already changes nothing.

use std::borrow::Cow;
use std::fmt::Write;

/// Must this character not reach a terminal as it is?
pub fn acts_on_terminal(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Soft hyphen, Arabic and Syriac format marks, Mongolian vowel separator.
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' => true,
        // Zero width, bidi marks and embeddings, separators, isolates, invisible operators.
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Byte order mark, interlinear annotations, tags.
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// `text` with everything that a terminal would act on spelled out. Borrowed if nothing had to be.
pub fn escape(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(acts_on_terminal) else { return Cow::Borrowed(text) };
    let mut safe = String::with_capacity(text.len() + 16);
    safe.push_str(text.get(..first).unwrap_or_default());
    for c in text.get(first..).unwrap_or_default().chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if acts_on_terminal(c) => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Bytes that should be UTF-8, as safe text: bytes that belong to no character are shown as `\x{ff}`, so
/// that nothing is dropped and nothing looks like text that is not in the message (O07).
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut safe = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        safe.push_str(&escape(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(safe, "\\x{{{byte:02x}}}");
        }
    }
    safe
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn o01_what_acts_on_a_terminal_is_spelled_out() {
        for (raw, shown) in [
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}]52;c;aGk=\u{7}", "\\u{1b}]52;c;aGk=\\u{7}"),
            ("\u{1b}]8;;http://x\u{1b}\\y", "\\u{1b}]8;;http://x\\u{1b}\\y"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("paid\rlost", "paid\\rlost"),
            ("nul\0", "nul\\u{0}"),
            ("del\u{7f}", "del\\u{7f}"),
        ] {
            assert_eq!(escape(raw), shown);
        }
        assert!(matches!(escape("Grüße 東京 👍 e\u{301}"), Cow::Borrowed(_)));
    }

    #[test]
    fn o07_bytes_that_are_no_text_are_kept_apart() {
        assert_eq!(escape_bytes(b"\xff\xfe\x00\x01"), "\\x{ff}\\x{fe}\\u{0}\\u{1}");
        assert_eq!(escape_bytes("gr\u{fc}n".as_bytes()), "grün");
        assert_eq!(escape_bytes(b"ab\xffcd"), "ab\\x{ff}cd");
        assert_eq!(escape_bytes(b""), "");
    }

    proptest! {
        #[test]
        fn o01_nothing_that_acts_comes_through(text in any::<String>()) {
            let safe = escape(&text);
            prop_assert!(!safe.chars().any(acts_on_terminal));
            prop_assert!(!safe.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
        }

        #[test]
        fn o01_escaping_twice_changes_nothing(text in any::<String>()) {
            let once = escape(&text).into_owned();
            prop_assert_eq!(escape(&once), once.as_str());
        }

        #[test]
        fn o07_any_bytes_are_shown(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let safe = escape_bytes(&bytes);
            prop_assert!(!safe.chars().any(acts_on_terminal));
            prop_assert!(bytes.is_empty() == safe.is_empty());
        }
    }
}
