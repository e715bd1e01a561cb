//! Regular expressions of `~`, bounded in size. The only file that knows the regex crate.

use std::fmt;

/// Longest pattern, in bytes.
const LONGEST: usize = 1_000;
/// Most memory that a compiled pattern may take, in bytes.
const LARGEST: usize = 1 << 20;

/// A compiled pattern that remembers its text; it searches bytes, so that it also works on what is no UTF-8.
#[derive(Clone)]
pub struct Pattern(regex::bytes::Regex);

impl Pattern {
    /// Compiles `text`.
    ///
    /// # Errors
    /// In words: too long, too large once compiled, or what does not read in it.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the pattern has {} bytes, {LONGEST} are the most", text.len()));
        }
        let built = regex::bytes::RegexBuilder::new(text)
            .size_limit(LARGEST)
            .dfa_size_limit(2 * LARGEST)
            .nest_limit(50)
            .build();
        match built {
            Ok(regex) => Ok(Self(regex)),
            Err(regex::Error::CompiledTooBig(_)) => {
                Err("the pattern takes more than 1 MiB once compiled; use smaller repetitions".to_owned())
            }
            // The crate draws the pattern over several lines; its last one says what is wrong.
            Err(error) => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                Err(last.trim().trim_start_matches("error: ").to_owned())
            }
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Does it occur in `bytes`?
    pub fn occurs_in(&self, bytes: &[u8]) -> bool {
        self.0.is_match(bytes)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.as_str())
    }
}
