//! Values that must not be seen: held apart from text, so that no `Debug` or error can print one.

use std::fmt;

/// A value that may be secret: where it came from may be shown, what it is may not.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    exposed: Option<String>,
    source: String,
}

impl Secret {
    /// A value with the words that stand for it in the file: `${MQ_PASSWORD}`.
    pub fn new(value: impl Into<String>, source: impl Into<String>) -> Self {
        Self { exposed: Some(value.into()), source: source.into() }
    }

    /// A reference that could not be resolved yet.
    pub fn unresolved(source: impl Into<String>) -> Self {
        Self { exposed: None, source: source.into() }
    }

    /// The value itself, for the client that needs it; `None` if it is unresolved.
    pub fn expose(&self) -> Option<&str> {
        self.exposed.as_deref()
    }

    /// What stands in the file for it.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
