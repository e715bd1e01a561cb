//! Quotes and brackets of a message: data in quotes, payloads, printed objects.

use super::{Out, floor};

/// A quote that does not end within this many bytes is no quote.
const LONGEST_QUOTE: usize = 240;
/// A quoted name behind one of these words is code, not data.
const CODE_WORDS: [&str; 24] = [
    "field",
    "column",
    "attribute",
    "property",
    "properties",
    "parameter",
    "argument",
    "method",
    "function",
    "constraint",
    "relation",
    "table",
    "index",
    "reading",
    "variable",
    "module",
    "class",
    "type",
    "key",
    "header",
    "element",
    "member",
    "struct",
    "enum",
];

/// Quoted text. Gives how much was used.
pub(super) fn quoted(open: char, rest: &str, out: &mut Out) -> usize {
    let close = match open {
        '\u{201c}' | '\u{201e}' => '\u{201d}',
        '\u{2018}' => '\u{2019}',
        '\u{ab}' => '\u{bb}',
        // Ruby opens with one and closes with the other.
        '`' if !rest[1..].contains('`') => '\'',
        same => same,
    };
    let skip = open.len_utf8();
    // An apostrophe: `can't`.
    if open == '\'' && out.text.ends_with(|c: char| c.is_alphanumeric()) {
        out.text.push('\'');
        return skip;
    }
    let window = &rest[skip..skip + floor(&rest[skip..], LONGEST_QUOTE)];
    let mut end = None;
    let mut escaped = false;
    for (at, c) in window.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == '\n' {
            break;
        } else if c == close || open == '\u{201e}' && c == '\u{201c}' {
            let inner = open == '\'' && window[at + 1..].starts_with(|c: char| c.is_alphanumeric());
            if !inner {
                end = Some((at, c.len_utf8()));
                break;
            }
        }
    }
    match end {
        Some((at, len)) => {
            let inside = &window[..at];
            if names_code(inside, &out.text, rest.len() == skip + at + len) {
                out.text.push(open);
                out.text.push_str(inside);
                out.text.push(close);
            } else {
                out.put("<q>");
            }
            skip + at + len
        }
        // Cut off in the middle of a quote.
        None if open != '\'' && (rest.ends_with("...") || rest.ends_with('\u{2026}')) => {
            out.put("<q>");
            rest.len()
        }
        None => {
            out.text.push(open);
            skip
        }
    }
}

/// Is this quoted text the name of something in the code, by its look or by the word before it?
fn names_code(inside: &str, before: &str, is_last: bool) -> bool {
    let plain = |b: u8| b.is_ascii_alphabetic() || b"_.$\\:()[]<>&*".contains(&b);
    if inside.is_empty() || inside.len() > 96 || !inside.bytes().all(plain) {
        return false;
    }
    // The whole message: `KeyError: 'total'`.
    if before.is_empty() && is_last {
        return true;
    }
    if inside.ends_with(')') && inside.contains('(') {
        return true;
    }
    let bytes = inside.as_bytes();
    let inner_capital =
        bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let snake = inside.contains('_') && inside.bytes().any(|b| b.is_ascii_lowercase());
    if inner_capital || snake || inside.matches('.').count() >= 2 {
        return true;
    }
    let word = before.trim_end_matches([' ', ':', '(', '=']).rsplit([' ', '(']).next().unwrap_or_default();
    CODE_WORDS.iter().any(|code| code.eq_ignore_ascii_case(word))
}

/// `{"…` or `[{"…`: a payload.
pub(super) fn is_json(rest: &str) -> bool {
    let inner = rest.trim_start_matches(['{', '[', ' ']);
    inner.starts_with('"') && rest.starts_with('{') || rest.starts_with("[{")
}

/// `name=value, …` or `name = value`: an object printed by its class. Never a single word in brackets.
pub(super) fn is_fields(inside: &str) -> bool {
    let name = inside.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    name > 0 && inside[name..].trim_start().starts_with('=') && !inside[name..].trim_start().starts_with("==")
}

/// Bytes up to behind the bracket that closes the first one; all, if none does.
pub(super) fn balanced(rest: &str) -> usize {
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    rest.len()
}
