//! A body as people can read it: JSON or text as it stands, else hex with ASCII beside it. Nothing is
//! decoded by guessing, and nothing is left out without saying so (O07, O08).

use super::units::bytes;
use super::{Line, width};

/// Rows of hex, and lines of text, that are shown unless all is asked for.
const ROWS: usize = 16;
/// Columns after which JSON is laid out over several lines.
const WIDE: usize = 96;
/// Most bytes of text that are looked at unless all is asked for.
const MOST: usize = 4_096;

/// What a body is, in a word, and its lines.
pub struct Body {
    /// `55 B, JSON`.
    pub title: String,
    /// Indented by two.
    pub lines: Vec<Line>,
}

/// Shows `body`; `len` is its length also if it was not read.
pub fn body(body: Option<&[u8]>, len: Option<u64>, full: bool) -> Body {
    let Some(content) = body else {
        return match len {
            None => Body { title: "null (a tombstone)".to_owned(), lines: Vec::new() },
            Some(len) => Body { title: format!("{}, not read in this look", bytes(len)), lines: Vec::new() },
        };
    };
    let size = bytes(content.len() as u64);
    if content.is_empty() {
        return Body { title: "0 B, empty".to_owned(), lines: Vec::new() };
    }
    match std::str::from_utf8(content) {
        Ok(text) if is_text(text) => {
            let json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            let laid_out = json && !text.contains('\n') && width(text) > WIDE;
            let kind = if json { "JSON" } else { "text" };
            let shown = if full { text } else { head(text, MOST) };
            let lines = if laid_out { over_lines(shown) } else { shown.lines().map(str::to_owned).collect() };
            Body { title: format!("{size}, {kind}"), lines: bounded(lines, text.len() - shown.len(), full) }
        }
        Ok(_) if content.iter().all(u8::is_ascii_whitespace) => {
            Body { title: format!("{size}, only white space"), lines: hex(content, full) }
        }
        _ => Body { title: format!("{size}, {}", kind(content)), lines: hex(content, full) },
    }
}

/// Text that hex would show worse: a NUL or other control than line ends and tabs is none, nor is blank.
fn is_text(text: &str) -> bool {
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{1b}');
    !text.contains(control) && !text.trim().is_empty()
}

/// By what the first bytes promise; only a promise, so it says so.
fn kind(content: &[u8]) -> &'static str {
    match content {
        [0x1f, 0x8b, ..] => "binary, begins like gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "binary, begins like zstd",
        [0x04, 0x22, 0x4d, 0x18, ..] => "binary, begins like lz4",
        [0x50, 0x4b, 0x03, 0x04, ..] => "binary, begins like zip",
        [0xac, 0xed, 0x00, 0x05, ..] => "binary, begins like Java serialisation (never parsed)",
        [0x80, 0x02..=0x05, ..] => "binary, begins like a Python pickle (never parsed)",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "binary, begins like UTF-16",
        [0x00, _, _, _, _, ..] => "binary, begins like a schema registry's format",
        _ => "binary",
    }
}

/// The first `most` bytes, cut on a character.
fn head(text: &str, most: usize) -> &str {
    let cut = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..cut]
}

fn bounded(mut lines: Vec<String>, mut left: usize, full: bool) -> Vec<Line> {
    if !full && lines.len() > ROWS {
        left += lines.drain(ROWS..).map(|line| line.len() + 1).sum::<usize>();
    }
    let mut shown: Vec<Line> = lines.into_iter().map(|line| Line::new().text("  ").text(line)).collect();
    if left > 0 {
        shown.push(Line::new().dim(format!("  … {} more (--full)", bytes(left as u64))));
    }
    shown
}

/// JSON over several lines. Only white space is changed: numbers and texts stay as they stand in the message.
fn over_lines(json: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut depth = 0usize;
    let mut chars = json.chars().peekable();
    let mut end_line = |line: &mut String, depth: usize| {
        lines.push(std::mem::replace(line, "  ".repeat(depth.min(64))));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                line.push(c);
                while let Some(c) = chars.next() {
                    line.push(c);
                    match c {
                        '\\' => line.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                line.push(c);
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
                match chars.next_if(|c| matches!(c, '}' | ']')) {
                    Some(close) => line.push(close),
                    None => {
                        depth += 1;
                        end_line(&mut line, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                end_line(&mut line, depth);
                line.push(c);
            }
            ',' => {
                line.push(c);
                end_line(&mut line, depth);
            }
            ':' => line.push_str(": "),
            c if c.is_whitespace() => {}
            c => line.push(c),
        }
    }
    lines.push(line);
    lines
}

/// Sixteen bytes a row: offset, hex, ASCII.
fn hex(content: &[u8], full: bool) -> Vec<Line> {
    let rows = if full { usize::MAX } else { ROWS };
    let mut lines: Vec<Line> = content
        .chunks(16)
        .take(rows)
        .enumerate()
        .map(|(row, chunk)| {
            let mut hex = String::new();
            for (at, byte) in chunk.iter().enumerate() {
                let gap = if at == 8 {
                    "  "
                } else if at > 0 {
                    " "
                } else {
                    ""
                };
                hex.push_str(&format!("{gap}{byte:02x}"));
            }
            let printable = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' };
            let ascii: String = chunk.iter().map(printable).collect();
            Line::new().dim(format!("  {:08x}", row * 16)).text(format!("  {hex:<48}  |{ascii}|"))
        })
        .collect();
    let left = content.len().saturating_sub(rows.saturating_mul(16));
    if left > 0 {
        lines.push(Line::new().dim(format!("  … {} more (--full)", bytes(left as u64))));
    }
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(content: &[u8]) -> String {
        let body = body(Some(content), Some(content.len() as u64), false);
        let lines: Vec<String> = body.lines.iter().map(|line| line.plain() + "\n").collect();
        format!("{}\n{}", body.title, lines.concat())
    }

    #[test]
    fn o07_bodies_that_are_no_text_are_hex_and_nothing_is_dropped() {
        insta::assert_snapshot!(shown(b"\xff\xfe\x00\x01"), @r"
        4 B, binary, begins like UTF-16
          00000000  ff fe 00 01                                       |....|
        ");
        insta::assert_snapshot!(shown(b"valid text \xff with one bad byte"), @r"
        30 B, binary
          00000000  76 61 6c 69 64 20 74 65  78 74 20 ff 20 77 69 74  |valid text . wit|
          00000010  68 20 6f 6e 65 20 62 61  64 20 62 79 74 65        |h one bad byte|
        ");
        insta::assert_snapshot!(shown(b"\x1f\x8b\x08\x00"), @r"
        4 B, binary, begins like gzip
          00000000  1f 8b 08 00                                       |....|
        ");
        insta::assert_snapshot!(shown(b""), @"0 B, empty");
        insta::assert_snapshot!(shown(b"   "), @r"
        3 B, only white space
          00000000  20 20 20                                          |   |
        ");
        assert_eq!(body(None, None, false).title, "null (a tombstone)");
        assert_eq!(body(None, Some(7), false).title, "7 B, not read in this look");
    }

    #[test]
    fn json_keeps_its_numbers_and_long_lines_are_laid_out() {
        assert_eq!(shown(b"{\"total\": 119.90}"), "17 B, JSON\n  {\"total\": 119.90}\n");
        let long = format!("{{\"a\":[1.10,{{}},\"x, y:{{\"],\"b\":\"{}\"}}", "y".repeat(100));
        let lines = shown(long.as_bytes());
        assert!(
            lines.contains(
                "\n  {\n    \"a\": [\n      1.10,\n      {},\n      \"x, y:{\"\n    ],\n    \"b\": \"yy"
            ),
            "{lines}"
        );
        assert!(lines.ends_with("\"\n  }\n"), "{lines}");
    }

    #[test]
    fn o08_a_large_body_is_shown_by_its_beginning() {
        let large = shown("x".repeat(12_110_282).as_bytes());
        assert!(large.starts_with("11.5 MiB, text\n") && large.ends_with("  … 11.5 MiB more (--full)\n"));
        assert!(large.len() < 5_000);
        let many = shown("line\n".repeat(100).as_bytes());
        assert!(many.ends_with("  … 420 B more (--full)\n"), "{many}");
        assert!(shown(&[0; 1_000]).ends_with("  … 744 B more (--full)\n"));
    }

    proptest! {
        #[test]
        fn layout_changes_only_white_space(value in "\\PC{0,40}", n in any::<f64>()) {
            let json = serde_json::json!({"k": value, "n": [n, {}, [], null]}).to_string();
            let laid = over_lines(&json).join("\n");
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            prop_assert_eq!(read(&laid), read(&json));
        }

        #[test]
        fn any_bytes_are_shown(content in proptest::collection::vec(any::<u8>(), 0..600), full in any::<bool>()) {
            let body = body(Some(&content), Some(content.len() as u64), full);
            prop_assert!(!body.title.is_empty());
        }
    }
}
