//! Cuts pieces out of JSON text without writing the rest anew: what travels keeps its bytes, escapes and
//! digits as they were. Iterative and in one pass, so that depth and size cannot hurt.

use std::ops::Range;

/// The fields at the first level of a JSON object: raw name (without quotes, escapes as they are), and
/// where the value's text lies. `None` if it is no object from end to end.
pub(super) fn fields(object: &[u8]) -> Option<Vec<(&[u8], Range<usize>)>> {
    let mut found = Vec::new();
    let mut at = blank(object, 0);
    if object.get(at) != Some(&b'{') {
        return None;
    }
    at = blank(object, at + 1);
    if object.get(at) == Some(&b'}') {
        return (blank(object, at + 1) == object.len()).then_some(found);
    }
    loop {
        let end = text(object, at)?;
        let name = object.get(at + 1..end - 1)?;
        at = blank(object, end);
        if object.get(at) != Some(&b':') {
            return None;
        }
        at = blank(object, at + 1);
        let end = value(object, at)?;
        found.push((name, at..end));
        at = blank(object, end);
        match object.get(at)? {
            b',' => at = blank(object, at + 1),
            b'}' => return (blank(object, at + 1) == object.len()).then_some(found),
            _ => return None,
        }
    }
}

/// The text of one field's value, byte for byte. Of a field that is there twice, the last: JSON readers
/// take that one.
pub(super) fn field<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (_, range) = fields(object)?.into_iter().rev().find(|(found, _)| *found == name.as_bytes())?;
    object.get(range)
}

/// The object without the fields for which `is_own` holds; the others keep their text. `None` if it is no
/// object.
pub(super) fn without(object: &[u8], is_own: impl Fn(&str) -> bool) -> Option<Vec<u8>> {
    let mut kept = vec![b'{'];
    for (name, range) in fields(object)? {
        let quoted = [b"\"", name, b"\""].concat();
        let plain = serde_json::from_slice::<String>(&quoted).ok()?;
        if is_own(&plain) {
            continue;
        }
        if kept.len() > 1 {
            kept.push(b',');
        }
        kept.extend_from_slice(&quoted);
        kept.push(b':');
        kept.extend_from_slice(object.get(range)?);
    }
    kept.push(b'}');
    Some(kept)
}

fn blank(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Where the text that begins at `at` ends, its closing quote included.
fn text(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Where the value that begins at `at` ends.
fn value(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => text(bytes, at),
        b'{' | b'[' => {
            let mut depth = 0usize;
            let mut at = at;
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = text(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let rest = bytes.get(at..)?;
            let length = rest
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
                .count();
            (length > 0).then_some(at + length)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#" { "a" : 1.500e+3, "b":{"x":[1, "}\"]"]} ,"c\/d":"t\u00e9", "e":null } "#;

    #[test]
    fn a_field_keeps_its_bytes() {
        assert_eq!(field(BODY, "a"), Some(&b"1.500e+3"[..]));
        assert_eq!(field(BODY, "b"), Some(&br#"{"x":[1, "}\"]"]}"#[..]));
        assert_eq!(field(BODY, "e"), Some(&b"null"[..]));
        assert_eq!(field(BODY, "x"), None);
        assert_eq!(field(br#"{"a":1,"a":2}"#, "a"), Some(&b"2"[..]));
    }

    #[test]
    fn own_fields_go_and_the_others_keep_their_bytes() {
        let kept = without(BODY, |name| name == "c/d" || name == "a").unwrap();
        assert_eq!(kept, br#"{"b":{"x":[1, "}\"]"]},"e":null}"#);
        assert_eq!(without(b"{}", |_| true).unwrap(), b"{}");
        assert_eq!(without(br#"{"a":1}"#, |_| true).unwrap(), b"{}");
    }

    #[test]
    fn broken_text_is_none_and_depth_does_not_hurt() {
        for bad in
            [&b""[..], b"[]", b"{", b"{\"a", b"{\"a\"}", b"{\"a\":}", b"{\"a\":1", b"{\"a\":1} x", b"{\"a\\"]
        {
            assert_eq!(fields(bad), None, "{}", String::from_utf8_lossy(bad));
        }
        let deep = [b"{\"a\":".as_slice(), &b"[".repeat(100_000), &b"]".repeat(100_000), b"}"].concat();
        assert_eq!(field(&deep, "a").unwrap().len(), 200_000);
    }
}
