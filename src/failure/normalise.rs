//! Takes out of an error's message what differs from letter to letter of one bug: numbers, ids, addresses,
//! times, quoted data, payloads. What names code stays, because it tells bugs apart: `field "total"`,
//! `"order.getCurrency()"`.
//!
//! One pass over at most 2 KiB of the message; no regular expressions. Changing a rule changes causes: then
//! the version in `fingerprint.rs` goes up.

mod brackets;
mod essence;
mod tongues;
mod words;

use brackets::{balanced, is_fields, is_json, quoted};
pub use essence::essence;
use words::{is_word, word, word_len};

/// What is looked at of a message.
const MOST_IN: usize = 2 << 10;
/// What a normalised message may hold.
const MOST_OUT: usize = 300;
/// Lines that are taken: validators put the field on the second.
const MOST_LINES: usize = 3;

/// The text behind these is a payload, a trace or another error.
const CUTS: [&str; 6] =
    [", failedMessage=", "; nested exception is ", ", stacktrace:", "\n\tat ", "\n   at ", "\nTraceback "];

/// The message without its variable parts, on one line; at most 300 bytes.
pub fn normalise(message: &str) -> String {
    let text = before_cut(&message[..floor(message, MOST_IN)]);
    let mut out = Out { text: String::with_capacity(text.len().min(MOST_OUT) + 16) };
    let mut lines = 1;
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        if out.text.len() >= MOST_OUT {
            break;
        }
        if first == ' ' {
            out.space();
            rest = &rest[1..];
            continue;
        }
        let plain = plain_word(rest);
        if plain > 0 {
            out.text.push_str(&rest[..plain]);
            rest = &rest[plain..];
            continue;
        }
        let used = match first {
            '\n' => {
                lines += 1;
                if lines > MOST_LINES {
                    break;
                }
                out.space();
                1
            }
            c if c.is_whitespace() || c.is_control() => {
                out.space();
                c.len_utf8()
            }
            '"' | '\'' | '`' | '\u{201c}' | '\u{2018}' | '\u{201e}' | '\u{ab}' => {
                quoted(first, rest, &mut out)
            }
            // `Unexpected token < in JSON`: what was read, without quotes.
            c if is_bare_token(c, rest, &out.text) => {
                out.put("<q>");
                c.len_utf8()
            }
            // `Key (id)=(17) already exists`: a value in brackets.
            '(' if out.text.ends_with('=') => {
                out.text.push('(');
                out.put("<q>");
                out.text.push(')');
                balanced(rest)
            }
            '{' | '[' if is_json(rest) => {
                out.put("<json>");
                balanced(rest)
            }
            '(' | '[' | '{' if is_fields(&rest[1..]) => {
                out.text.push(first);
                out.put("<fields>");
                let used = balanced(rest);
                out.text.push(match first {
                    '(' => ')',
                    '[' => ']',
                    _ => '}',
                });
                used
            }
            '[' if rest.starts_with("[Source: ") => balanced(rest),
            c if is_word(c)
                || (c == '-' || c == '+') && rest[1..].starts_with(|c: char| c.is_ascii_digit()) =>
            {
                let len = word_len(rest);
                word(&rest[..len], &mut out);
                len
            }
            c => {
                out.text.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[used.min(rest.len())..];
    }
    let mut text = out.text;
    text.truncate(floor(&text, MOST_OUT));
    text.truncate(text.trim_end_matches([' ', ':', ';', ',']).len());
    text
}

/// Most words are letters with a blank or a mark behind, which joins no other word to them: the other rules
/// have nothing to say about them. Gives the length of such a word, or 0.
fn plain_word(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let letters = bytes.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let ends = match bytes.get(letters) {
        None | Some(b' ' | b',' | b';' | b'(' | b')' | b'[' | b']' | b'\n') => true,
        Some(b':') => matches!(bytes.get(letters + 1), None | Some(b' ')),
        _ => false,
    };
    if ends && letters > 1 { letters } else { 0 }
}

/// Is this one character behind `token` or `character`, and nothing more?
fn is_bare_token(c: char, rest: &str, before: &str) -> bool {
    const WORDS: [&str; 2] = ["token ", "character "];
    !c.is_whitespace()
        && rest[c.len_utf8()..].starts_with([' ', ','])
        && WORDS.iter().any(|word| {
            before.len() >= word.len()
                && before.as_bytes()[before.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
        })
}

/// What stands before the first of [`CUTS`]. One that the text begins with does not count.
fn before_cut(text: &str) -> &str {
    for (at, byte) in text.bytes().enumerate().skip(1) {
        // Each begins with one of these, so that most bytes are looked at once.
        if matches!(byte, b',' | b';' | b'\n')
            && CUTS.iter().any(|cut| text[at..].starts_with(cut) && !text.starts_with(cut))
        {
            return &text[..at];
        }
    }
    text
}

/// The normalised text as it grows.
struct Out {
    text: String,
}

impl Out {
    fn space(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
    }

    /// A placeholder; a list of the same, however long, is one.
    fn put(&mut self, placeholder: &str) {
        let before = self.text.trim_end_matches([' ', ',']);
        if before.len() < self.text.len()
            && before.ends_with(placeholder)
            && self.text[before.len()..].contains(',')
        {
            self.text.truncate(before.len());
            return;
        }
        self.text.push_str(placeholder);
    }
}

/// The largest index of a character's beginning that is not beyond `most`.
fn floor(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::{essence, normalise};

    #[test]
    fn variable_parts_go_and_code_stays() {
        for (message, right) in [
            ("payment gateway: no answer in 3000 ms", "payment gateway: no answer in <n> ms"),
            ("unsupported currency 'XAU'", "unsupported currency <q>"),
            ("row was updated by another transaction", "row was updated by another transaction"),
            ("For input string: \"12,50 EUR\"", "For input string: <q>"),
            ("order o-6001: card declined", "order o-<n>: card declined"),
            ("no stock for 4bf92f35-77b3-4da6-a3ce-929d0e0e4736", "no stock for <id>"),
            ("can't reach 10.0.3.17:8443", "can't reach <addr>"),
            ("see https://errors.example/x?y=1 now", "see <url> now"),
            ("failed at 2026-11-29T17:59:21.526Z", "failed at <t>"),
            ("cannot open /tmp/upload-8f3a21/part7.json", "cannot open /tmp/upload-<id>/<id>.json"),
            ("error in [a.B$Binder$1@603c79be]; cannot bill", "error in [a.B$Binder$<n>@<id>]; cannot bill"),
            ("handler a.B$$Lambda$1660/0x00007feb5d74c8e8 failed", "handler a.B$$Lambda failed"),
            ("bad bytes [123, 34, 111, 114]", "bad bytes [<n>]"),
            ("cannot parse {\"orderId\": \"5\", \"x\": [1]}: eof", "cannot parse <json>: eof"),
            ("invalid Order(id=5, name=Ann Lee)", "invalid Order(<fields>)"),
            ("Unrecognized field \"customerName\"", "Unrecognized field \"customerName\""),
            ("Unrecognized field \"total\"", "Unrecognized field \"total\""),
            ("'total'", "'total'"),
            ("'C-1881'", "<q>"),
            (
                "Cannot read properties of undefined (reading 'id')",
                "Cannot read properties of undefined (reading 'id')",
            ),
            ("'NoneType' object has no attribute 'total'", "'NoneType' object has no attribute 'total'"),
            (
                "Cannot invoke \"Order.getId()\" because \"<local1>\" is null",
                "Cannot invoke \"Order.getId()\" because <q> is null",
            ),
            ("user bob@example.com unknown", "user <email> unknown"),
            ("total 1.234,56 is not 1,234.56", "total <n> is not <n>"),
            ("cannot use int32", "cannot use int32"),
            ("no pod gateway-7f9c8d6b5-xkxbz here", "no pod gateway-<id> here"),
            ("gateway said HTTP 503 after 3 tries", "gateway said HTTP 503 after <n> tries"),
            ("ORA-00001: unique constraint violated", "ORA-00001: unique constraint violated"),
            ("connect to 2001:db8::1:443 refused", "connect to <addr> refused"),
            ("connect to [fe80::1%eth0]:443 refused", "connect to [<addr>]:<n> refused"),
            ("at 10:20:30 in std::fmt::v1", "at <t> in std::fmt::v1"),
            ("denied on arn:aws:sqs:eu-west-1:0123:orders-17", "denied on arn:sqs:orders-<n>"),
            ("bad token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.a-1_X", "bad token <id>"),
            ("Unexpected token < in JSON at position 0", "Unexpected token <q> in JSON at position <n>"),
            ("unexpected token A found", "unexpected token <q> found"),
            ("Key (id)=(o-17) already exists.", "Key (id)=(<q>) already exists."),
            ("a token is missing", "a token is missing"),
            ("", ""),
        ] {
            assert_eq!(normalise(message), right, "{message}");
        }
    }

    #[test]
    fn ids_of_digits_and_of_letters_are_one() {
        let same = |a: &str, b: &str| assert_eq!(essence(&normalise(a)), essence(&normalise(b)), "{a} | {b}");
        same("session 12345678 expired", "session 1a2b3c4d expired");
        same("took 3s", "took 1m 2s");
        same("paid 1.234,56", "paid 99");
        same("since 29 Nov 2026", "since 3 Dec 2025");
        same("ids [1, 2]", "ids [1]");
        same("order o-1: declined", "order 77: declined");
        same("order ORD_1a2b: declined", "order a1b2: declined");
        same("try orders-retry-4000 later", "try orders later");
    }

    #[test]
    fn hostile_messages_end() {
        for text in [
            "\"".repeat(100_000),
            "{".repeat(100_000),
            "a-1".repeat(100_000),
            "'a".repeat(100_000),
            "é1".repeat(9_999),
        ] {
            assert!(normalise(&text).len() <= 300);
        }
    }
}
