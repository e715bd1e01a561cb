//! One letter as dialects look at it: the raw letter, and what several of them need of its body, worked out
//! at most once.

use std::cell::OnceCell;

use serde_json::Value as Json;

use crate::letter::{Headers, RawLetter, end_of_text};

/// Bodies over this many bytes are not parsed as an envelope: they travel as they are.
const LARGEST_ENVELOPE: usize = 1 << 20;
/// Fields of a body's first level that are looked at, and how far into it: an envelope names itself early.
const MOST_FIELDS: usize = 64;
const FARTHEST: usize = 64 << 10;

/// See the file's head.
pub struct Look<'a> {
    raw: &'a RawLetter,
    json: OnceCell<Option<Json>>,
    fields: OnceCell<Vec<&'a str>>,
}

impl std::ops::Deref for Look<'_> {
    type Target = RawLetter;

    fn deref(&self) -> &RawLetter {
        self.raw
    }
}

impl<'a> Look<'a> {
    /// Looks at `raw`.
    pub fn new(raw: &'a RawLetter) -> Self {
        Self { raw, json: OnceCell::new(), fields: OnceCell::new() }
    }

    /// The letter itself.
    pub fn raw(&self) -> &'a RawLetter {
        self.raw
    }

    /// Its headers.
    pub fn headers(&self) -> &'a Headers {
        &self.raw.message.headers
    }

    /// Its broker's properties.
    pub fn properties(&self) -> &'a Headers {
        &self.raw.message.properties
    }

    /// The body's bytes; `None` is a null body, or one that was not fetched.
    pub fn body(&self) -> Option<&'a [u8]> {
        self.raw.message.body.as_deref()
    }

    /// The body as text.
    pub fn body_text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.body()?).ok()
    }

    /// The body as JSON, if it is an object or a list of at most 1 MiB, nested at most 128 deep.
    pub fn json(&self) -> Option<&Json> {
        self.json
            .get_or_init(|| {
                let body = self.body().filter(|body| body.len() <= LARGEST_ENVELOPE)?;
                let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
                matches!(first, b'{' | b'[').then(|| serde_json::from_slice(body).ok())?
            })
            .as_ref()
    }

    /// The names at the first level of a body that looks like a JSON object: see [`Look::has_field`].
    pub fn fields(&self) -> &[&'a str] {
        self.fields.get_or_init(|| self.body().map(first_level).unwrap_or_default())
    }

    /// Has the body, a JSON object, this field at its first level? Answers without parsing the body, so a
    /// `true` may still turn out to be no JSON.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields().contains(&name)
    }

    /// A text field at the first level of a JSON body.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.has_field(name).then(|| self.json()?.get(name)?.as_str())?
    }
}

/// The names at the first level of what looks like a JSON object. Escaped names are left out.
fn first_level(body: &[u8]) -> Vec<&str> {
    let mut found = Vec::new();
    let body = &body[..body.len().min(FARTHEST)];
    let mut at = body.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if body.get(at) != Some(&b'{') {
        return found;
    }
    let mut depth = 0usize;
    let mut naming = false;
    while let Some(byte) = body.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                naming = depth == 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => naming = depth == 1,
            b':' => naming = false,
            b'"' => {
                let start = at;
                at = end_of_text(body, at).unwrap_or(body.len());
                if naming
                    && depth == 1
                    && let Some(name) = body.get(start..at)
                    && let Ok(name) = std::str::from_utf8(name)
                {
                    found.push(name);
                    if found.len() == MOST_FIELDS {
                        break;
                    }
                }
                at += 1;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::first_level;

    #[test]
    fn names_at_the_first_level_only() {
        let body = br#" {"a": {"inner": 1}, "b\"c": "x, \"d\": 1", "e":[{"f":1}], "g":null}"#;
        assert_eq!(first_level(body), ["a", "b\\\"c", "e", "g"]);
        assert!(first_level(b"[1]").is_empty());
        assert_eq!(first_level(br#"{"cut"#), ["cut"]);
        assert!(first_level(b"{\"\xff\": 1}").is_empty());
        assert!(first_level(br#"{"\"#).is_empty() || first_level(br#"{"\"#).len() == 1);
    }
}
