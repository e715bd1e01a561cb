//! Which letters: the small `--where` language, and what a person selected on the command line.
//!
//! One set of operators for every field (`= != < <= > >= ~ !~ exists`), `and`, `or`, `not` and parentheses.
//! Knows letters, and nothing of brokers or terminals.

mod evaluate;
mod expression;
mod fault;
mod lexer;
mod moment;
mod parser;
mod pattern;

use std::fmt;

pub use expression::{Compare, Decimal, Expression, Field, Kind, Test, TextTest};
pub use fault::Fault;
pub use moment::{instant, moment};
pub use parser::parse;
pub use pattern::Pattern;

use crate::clock::Time;
use crate::dead_letter::DeadLetter;

/// How many letters of those selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Every one of the snapshot.
    #[default]
    All,
    /// At most this many.
    AtMost(u64),
}

impl Limit {
    /// Reads `200` or `all`.
    ///
    /// # Errors
    /// In words that fit after the flag's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => match text.parse::<u64>() {
                Ok(0) => Err("`0` selects nothing; a number from 1, or `all`".to_owned()),
                Ok(number) => Ok(Self::AtMost(number)),
                Err(_) => Err(format!("`{}` is no limit; a number from 1, or `all`", text.escape_default())),
            },
        }
    }

    /// Is there room for one more, after `taken`?
    pub fn allows(self, taken: u64) -> bool {
        match self {
            Self::All => true,
            Self::AtMost(most) => taken < most,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::AtMost(most) => most.fmt(f),
        }
    }
}

/// What a person selected. The filters apply before the limit, which is the caller's to keep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// Letters of the causes whose id begins so.
    pub cause: Option<String>,
    /// Letters for which this holds.
    pub filter: Option<Expression>,
    /// Letters that died at or after this.
    pub since: Option<Time>,
    /// Letters that died before this.
    pub until: Option<Time>,
    /// At most so many.
    pub limit: Limit,
}

impl Selection {
    /// Is every letter selected, the limit aside?
    pub fn is_everything(&self) -> bool {
        self.cause.is_none() && self.filter.is_none() && self.since.is_none() && self.until.is_none()
    }

    /// Can it be told only with bodies in hand?
    pub fn needs_bodies(&self) -> bool {
        self.filter.as_ref().is_some_and(Expression::needs_bodies)
    }

    /// Is this letter selected? `None`: it lacks a fact that would decide, so it is not.
    pub fn selects(&self, letter: &DeadLetter, now: Time) -> Option<bool> {
        if let Some(prefix) = &self.cause
            && !letter.cause.id.as_str().starts_with(prefix.as_str())
        {
            return Some(false);
        }
        if self.since.is_some() || self.until.is_some() {
            let (died, _) = letter.died_at?;
            if self.since.is_some_and(|since| died < since) || self.until.is_some_and(|until| died >= until) {
                return Some(false);
            }
        }
        self.filter.as_ref().map_or(Some(true), |filter| filter.holds(letter, now))
    }
}

/// As flags, without the limit: `--cause 91be4d --since 2026-11-30T00:00:00Z`; empty if everything is
/// selected.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(cause) = &self.cause {
            parts.push(format!("--cause {cause}"));
        }
        if let Some(filter) = &self.filter {
            parts.push(format!("--where '{}'", filter.to_string().replace('\'', "'\\''")));
        }
        for (flag, time) in [("since", self.since), ("until", self.until)] {
            if let Some(time) = time {
                parts.push(format!("--{flag} {time}"));
            }
        }
        f.write_str(&parts.join(" "))
    }
}

/// The `--cause` flag: what can be the beginning of a cause's id.
///
/// # Errors
/// In words that fit after the flag's name.
pub fn cause_prefix(text: &str) -> Result<String, String> {
    let hex =
        !text.is_empty() && text.len() <= 6 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if hex || text == "none" {
        Ok(text.to_owned())
    } else {
        let shown = text.escape_default();
        Err(format!(
            "`{shown}` is no cause; an id has six digits of 0-9a-f, or is `none`; any unique beginning does"
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
