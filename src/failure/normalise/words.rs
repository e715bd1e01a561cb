//! One word of a message: a number, an id, an address, a path, a name.

use super::Out;
use super::essence::is_unit_or_month;

/// Names with digits that are no ids.
const WORDS_WITH_DIGITS: [&str; 34] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "i32",
    "i64", "u32", "u64", "f32", "f64", "utf8", "utf16", "sha1", "sha256", "sha512", "md5", "base64", "http2",
    "http3", "s3", "x509", "ipv4", "ipv6", "oauth2", "v1", "v2", "v3", "b64",
];

/// A topic's or queue's name without what retries hang on it: each try is in another.
fn without_retry(word: &str) -> &str {
    const TAILS: [&str; 9] = ["-retry", "_retry", ".retry", "-dlt", ".DLT", "-dlq", "_dlq", ".dlq", ".DLQ"];
    // Most words have none of these, and searching for each tail costs more than all the rest.
    if !word.bytes().any(|b| matches!(b, b'-' | b'_' | b'.')) {
        return word;
    }
    for tail in TAILS {
        if let Some(at) = word.find(tail)
            && at > 0
        {
            let rest = &word[at + tail.len()..];
            if rest.bytes().all(|b| b.is_ascii_digit() || b"-_.smh".contains(&b)) {
                return &word[..at];
            }
        }
    }
    word
}

/// Puts one word, without what is variable in it.
pub(super) fn word(word: &str, out: &mut Out) {
    if word.bytes().all(|b| b.is_ascii_digit()) {
        // The most frequent of what is variable.
        return if is_code(word, &out.text) { out.text.push_str(word) } else { out.put("<n>") };
    }
    let word = without_retry(word);
    let is_url = word.bytes().any(|b| b == b':') && word.contains("://");
    if !is_url && !word.bytes().any(|b| b.is_ascii_digit() || matches!(b, b'@' | b'=')) {
        let lambda = if word.bytes().any(|b| b == b'$') { word.find("$$Lambda") } else { None };
        out.text.push_str(&word[..lambda.map_or(word.len(), |at| at + "$$Lambda".len())]);
        return;
    }
    if is_url {
        return out.put("<url>");
    }
    if let Some((class, _)) = word.split_once("$$Lambda") {
        out.text.push_str(class);
        out.text.push_str("$$Lambda");
        return;
    }
    // A token of three parts, each base64 of JSON.
    if word.len() >= 20 && word.starts_with("eyJ") {
        return out.put("<id>");
    }
    if word.starts_with("arn:") {
        return arn(word, out);
    }
    if is_ipv6(word) {
        return out.put("<addr>");
    }
    if let Some((class, hash)) = word.rsplit_once('@') {
        let hex = !hash.is_empty() && hash.bytes().all(|b| b.is_ascii_hexdigit());
        if hex {
            parts(class, out);
            out.text.push('@');
            return out.put("<id>");
        }
        if !class.is_empty() && hash.contains('.') {
            return out.put("<email>");
        }
    }
    if let Some((name, value)) = word.split_once('=')
        && !name.is_empty()
        && !value.is_empty()
    {
        parts(name, out);
        out.text.push('=');
        return out.put("<q>");
    }
    if is_code(word, &out.text) {
        return out.text.push_str(word);
    }
    if is_numeric(word) {
        let dots = word.matches('.').count();
        let address = dots == 3 && !word.contains(',');
        let time = word.contains(':') && !address || word.matches('-').count() == 2;
        return out.put(if address {
            "<addr>"
        } else if time {
            "<t>"
        } else {
            "<n>"
        });
    }
    if is_timestamp(word) {
        return out.put("<t>");
    }
    if is_uuid(word) {
        return out.put("<id>");
    }
    parts(word, out);
}

/// `arn:aws:sqs:eu-west-1:0123:orders-17`: service and resource tell bugs apart, region and account do not.
fn arn(word: &str, out: &mut Out) {
    let mut fields = word.splitn(6, ':').skip(2);
    out.text.push_str("arn:");
    out.text.push_str(fields.next().unwrap_or_default());
    if let Some(resource) = fields.nth(2) {
        out.text.push(':');
        parts(resource, out);
    }
}

/// `2001:db8::7334`, also with a zone, a port or an IPv4 address behind: groups of at most four hex digits.
fn is_ipv6(word: &str) -> bool {
    let address = word.split('%').next().unwrap_or(word);
    let groups = address.matches(':').count();
    (groups == 7 || groups >= 2 && address.contains("::"))
        && address.split(':').all(|group| {
            let hex = group.len() <= 5 && group.bytes().all(|b| b.is_ascii_hexdigit());
            hex || group.split('.').count() == 4 && is_numeric(group)
        })
}

/// `HTTP 503`, `status: 404`, `ORA-00001`: numbers that name an error.
fn is_code(word: &str, before: &str) -> bool {
    const BEFORE: [&str; 6] = ["http", "status", "code", "statuscode", "sqlstate", "errno"];
    if word.starts_with("ORA-") || word.starts_with("TNS-") {
        return true;
    }
    if word.len() > 5 || !word.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let last =
        before.trim_end_matches([' ', ':', '=', '(']).rsplit([' ', '(', '/']).next().unwrap_or_default();
    BEFORE.iter().any(|known| known.eq_ignore_ascii_case(last))
}

/// Digits with what stands between and around digits.
fn is_numeric(word: &str) -> bool {
    word.chars().all(|c| {
        c.is_ascii_digit()
            || matches!(
                c,
                '.' | ',' | '-' | '+' | ':' | '%' | '/' | '\'' | '\u{a0}' | '\u{202f}' | '\u{2009}'
            )
    })
}

/// `2026-11-29T17:59:21.526Z`, `20261129T1759Z`.
fn is_timestamp(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    digits >= 8
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.contains('T')
        && word.bytes().all(|b| b.is_ascii_digit() || b"TZ:.-+".contains(&b))
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word
            .bytes()
            .enumerate()
            .all(|(at, b)| if matches!(at, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}

/// The parts of a path, a host, an id: those with digits go. Behind an id the rest of the name goes too:
/// `gateway-7f9c8d6b5-xkxbz`.
fn parts(word: &str, out: &mut Out) {
    let mut start = 0;
    let mut swallow = false;
    for (at, c) in word.char_indices().chain([(word.len(), '/')]) {
        if !matches!(c, '-' | '_' | '/' | '.' | ':' | ',' | '#' | '+' | '\\' | '$' | '@' | '&' | '?') {
            continue;
        }
        let part = &word[start..at];
        if !swallow && !part.is_empty() {
            match kind(part) {
                None => out.text.push_str(part),
                Some(placeholder) => {
                    out.put(placeholder);
                    swallow = placeholder == "<id>" && c == '-';
                }
            }
        }
        if at < word.len() {
            swallow &= c == '-';
            if !swallow {
                out.text.push(c);
            }
        }
        start = at + c.len_utf8();
    }
}

/// The placeholder of one part; `None`: it stays.
fn kind(part: &str) -> Option<&'static str> {
    let bytes = part.as_bytes();
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    if digits == bytes.len() {
        return Some("<n>");
    }
    if WORDS_WITH_DIGITS.iter().any(|known| known.eq_ignore_ascii_case(part)) {
        return None;
    }
    // `250ms`, `1m30s`, `12KiB`, `5th`.
    let number = bytes[0].is_ascii_digit()
        && !part.starts_with("0x")
        && part.split(|c: char| c.is_ascii_digit() || c == '.').filter(|unit| !unit.is_empty()).all(|unit| {
            is_unit_or_month(unit) || matches!(unit, "st" | "nd" | "rd" | "th" | "d" | "µs" | "k" | "x")
        });
    Some(if number { "<n>" } else { "<id>" })
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '/' | '\\' | '@' | '#' | '~' | '.')
}

/// A run of word characters and of those that join words: `a-b`, `10:20`, `1 234` with a hard blank.
pub(super) fn word_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let ascii = bytes.iter().take_while(|b| b.is_ascii() && is_word(char::from(**b))).count();
    let joins_on = |byte: &u8| !byte.is_ascii() || b"-:+%=&?,'".contains(byte);
    if ascii > 0 && !bytes.get(ascii).is_some_and(joins_on) {
        // Most words end here: nothing follows that could join another to it.
        return sentence(&rest[..ascii]);
    }
    let mut end = 0;
    let mut before = ' ';
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or(' ', |(_, c)| *c);
        let joins = matches!(c, '-' | ':' | '+' | '%' | '=' | '&' | '?')
            || matches!(c, ',' | '\'' | '\u{a0}' | '\u{202f}' | '\u{2009}')
                && before.is_ascii_digit()
                && next.is_ascii_digit();
        // The two colons in the middle of an IPv6 address.
        let gap = c == ':' && next == ':' && rest[..at].bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
        if !(is_word(c) || gap || joins && (next.is_alphanumeric() || next == '/' || at == 0)) {
            break;
        }
        end = at + c.len_utf8();
        before = c;
    }
    sentence(&rest[..end])
}

/// Punctuation at the end belongs to the sentence.
fn sentence(word: &str) -> usize {
    word.trim_end_matches(['.', ':', '?', '-']).len().max(1)
}
