//! What is wrong with an expression: where, and what was expected there.

use std::fmt;
use std::ops::Range;

/// A fault of a `--where` expression at a place of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Bytes of the expression, half open, on character boundaries; empty at its end.
    pub at: Range<usize>,
    /// What is there, and what is wrong with it.
    pub problem: String,
    /// What was expected.
    pub expected: String,
}

impl Fault {
    /// A fault at `at`.
    pub fn new(at: Range<usize>, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { at, problem: problem.into(), expected: expected.into() }
    }

    /// Column in characters, from 1, in `text`.
    pub fn column(&self, text: &str) -> usize {
        text.get(..self.at.start).map_or(0, |before| before.chars().count()) + 1
    }

    /// How many characters of `text` are at fault; at least one.
    pub fn width(&self, text: &str) -> usize {
        text.get(self.at.clone()).map_or(1, |part| part.chars().count().max(1))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", self.problem, self.expected)
    }
}
