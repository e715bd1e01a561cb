//! JSON that holds nothing but texts, read many bytes at a time: header lists and histories of failures are
//! that, and a look reads a million of each.
//!
//! It gives up on whatever is not plain (`None`): numbers, nested values, `\u`, anything that may not be JSON
//! at all. Then a whole parser has the word, so that nothing is read in two ways.

use std::borrow::Cow;

use memchr::memchr2;

/// Most that is set aside for a text with escapes before its length is known.
const LIKELY: usize = 8 << 10;
/// What is looked at byte by byte first.
const NEAR: usize = 8;

/// Where reading has come to.
#[derive(Debug, Clone)]
pub struct PlainJson<'a> {
    text: &'a str,
    at: usize,
    /// No byte of it is one that a text must not hold as it is.
    clean: bool,
}

/// Where a text ends or has an escape. Names, values and what stands between two escapes are a few bytes long:
/// a search for many bytes at a time costs more than they do.
fn stop(bytes: &[u8]) -> Option<usize> {
    let (near, far) = bytes.split_at(bytes.len().min(NEAR));
    let found = near.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    found.or_else(|| memchr2(b'"', b'\\', far).map(|at| near.len() + at))
}

/// Is there a byte that JSON wants escaped? All are looked at, many at a time.
fn has_controls(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, byte| found | (*byte < 0x20))
}

impl<'a> PlainJson<'a> {
    /// At the beginning of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, clean: !has_controls(text.as_bytes()) }
    }

    /// Takes this byte, after blanks, if it is the next.
    pub fn take(&mut self, byte: u8) -> bool {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(self.at) {
            self.at += 1;
        }
        let is = bytes.get(self.at) == Some(&byte);
        self.at += usize::from(is);
        is
    }

    /// Takes `null`, after blanks, if it is next.
    pub fn take_null(&mut self) -> bool {
        let word = self.take(b'n') && self.text.as_bytes()[self.at..].starts_with(b"ull");
        self.at += if word { 3 } else { 0 };
        word
    }

    /// Is nothing left but blanks?
    pub fn is_over(&mut self) -> bool {
        // Takes no byte that a text could hold here, and passes the blanks.
        !self.take(b' ') && self.at == self.text.len()
    }

    /// A text, after blanks; without escapes it is not copied.
    pub fn text(&mut self) -> Option<Cow<'a, str>> {
        let mut unescaped = String::new();
        Some(match self.text_or(&mut unescaped)? {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(unescaped),
        })
    }

    /// The same, but one that has escapes is put behind what `unescaped` holds: `Some(None)`.
    pub fn text_or(&mut self, unescaped: &mut String) -> Option<Option<&'a str>> {
        if !self.take(b'"') {
            return None;
        }
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut from = start;
        loop {
            let stop = from + stop(bytes.get(from..)?)?;
            let piece = &self.text[from..stop];
            if !self.clean && has_controls(piece.as_bytes()) {
                return None;
            }
            if bytes[stop] == b'"' {
                self.at = stop + 1;
                if from == start {
                    return Some(Some(&self.text[start..stop]));
                }
                unescaped.push_str(piece);
                return Some(None);
            }
            if from == start {
                unescaped.reserve((bytes.len() - start).min(LIKELY));
            }
            unescaped.push_str(piece);
            unescaped.push(match bytes.get(stop + 1)? {
                byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                _ => return None,
            });
            from = stop + 2;
        }
    }
}

/// Where the text ends that begins at `from`, behind its quote: at its closing quote. `None`: it does not.
pub fn end_of_text(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let stop = from + memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[stop] == b'"' {
            return Some(stop);
        }
        from = stop + 2;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A list of texts, if it is plain.
    fn list(json: &str) -> Option<Vec<String>> {
        let mut plain = PlainJson::new(json);
        let mut texts = Vec::new();
        if !plain.take(b'[') {
            return None;
        }
        if !plain.take(b']') {
            loop {
                texts.push(plain.text()?.into_owned());
                if !plain.take(b',') {
                    break;
                }
            }
            if !plain.take(b']') {
                return None;
            }
        }
        plain.is_over().then_some(texts)
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_a_whole_parser_reads(
            texts in prop::collection::vec("[a-z\"\\\\/\u{8}\u{c}\n\r\té\u{1f980}]{0,40}", 0..5),
            pretty in any::<bool>(),
        ) {
            let written = if pretty { serde_json::to_string_pretty(&texts) } else { serde_json::to_string(&texts) };
            prop_assert_eq!(list(&written.unwrap()), Some(texts));
        }

        #[test]
        fn what_is_no_list_of_texts_is_left_to_it(json in "[\\[\\]\",\\\\ a-fnu0-9\t\u{1}é]{0,24}") {
            if let Some(texts) = list(&json) {
                prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), texts);
            }
        }
    }

    #[test]
    fn it_gives_up_where_it_is_not_plain() {
        for json in [
            "",
            "[",
            "[\"",
            "[\"a",
            "[\"a\\",
            "[\"\\u0041\"]",
            "[\"\\x\"]",
            "[\"a\tb\"]",
            "[1]",
            "[\"a\",]",
            "[\"a\"]x",
        ] {
            assert_eq!(list(json), None, "{json}");
        }
        assert_eq!(list(" [ ] ").unwrap(), Vec::<String>::new());
        let mut plain = PlainJson::new(" null,nul");
        assert!(plain.take_null() && plain.take(b',') && !plain.take_null());
    }
}
