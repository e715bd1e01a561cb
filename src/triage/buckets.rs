//! Letters put together: by cause, or by another property. At most a thousand lines, the rest is counted as
//! other and said so.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::groups::Groups;
use super::look::Collect;
use crate::clock::Time;
use crate::dead_letter::DeadLetter;
use crate::failure::Cause;
use crate::letter::LetterId;

/// Most lines that are kept apart.
pub const MOST_BUCKETS: usize = 1_000;
/// Most lines beyond those that are at least counted.
const MOST_OTHERS: usize = 50_000;
/// Columns of the histogram.
pub const BUCKETS: usize = 12;
/// Width of a column of the histogram.
pub const STEP: Duration = Duration::from_secs(7_200);
/// Expiring within this is worth a note.
pub const SOON: Duration = Duration::from_secs(2 * 86_400);
/// Longest value that is kept as the name of a line, in bytes.
const LONGEST_VALUE: usize = 200;

/// By what letters are put together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum By {
    /// Fingerprint of the failure.
    #[default]
    Cause,
    /// Innermost error class.
    Error,
    /// First own frame of the stack.
    Frame,
    /// The message as it stands in the letter, numbers and all.
    Message,
    /// Where the message first lived.
    Origin,
    /// Ordering key.
    Group,
    /// First value of a header.
    Header(String),
}

impl By {
    /// Reads the value of `--by`.
    ///
    /// # Errors
    /// In words that fit after the flag's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "cause" => Self::Cause,
            "error" => Self::Error,
            "frame" => Self::Frame,
            "message" => Self::Message,
            "origin" => Self::Origin,
            "group" => Self::Group,
            _ => match text.strip_prefix("header.").filter(|name| !name.is_empty()) {
                Some(name) => Self::Header(name.to_owned()),
                None => {
                    let shown = text.escape_default();
                    return Err(format!(
                        "`{shown}` is none of cause, error, frame, message, origin, group, header.NAME"
                    ));
                }
            },
        })
    }

    /// One and many of what a line is, in words.
    pub fn nouns(&self) -> (&'static str, &'static str) {
        match self {
            Self::Cause => ("cause", "causes"),
            Self::Error => ("error", "errors"),
            Self::Frame => ("frame", "frames"),
            Self::Message => ("message", "messages"),
            Self::Origin => ("origin", "origins"),
            Self::Group => ("group", "groups"),
            Self::Header(_) => ("value", "values"),
        }
    }

    /// The value of `letter` that decides on its line; `None`: it has none.
    fn value(&self, letter: &DeadLetter) -> Option<String> {
        let last = letter.context.last();
        match self {
            Self::Cause => Some(letter.cause.id.as_str().to_owned()),
            Self::Error => {
                letter.error_class().or(last.and_then(|death| death.reason.as_deref())).map(str::to_owned)
            }
            Self::Frame => letter.cause.frame.clone(),
            Self::Message => letter.cause.message.clone(),
            Self::Origin => letter.context.origin.as_ref().and_then(super::contrast::origin_name),
            Self::Group => letter.group.value.clone(),
            Self::Header(name) => letter.raw.message.headers.first(name).map(super::contrast::value_words),
        }
    }
}

/// How much retention is left for the letters of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expiry {
    /// When the first of them expires; it may be past (K13).
    pub first: Option<Time>,
    /// How many expire within [`SOON`], those past included.
    pub soon: u64,
    /// How many are past retention already: the next sweep of the broker takes them.
    pub past: u64,
}

/// One line: letters put together.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Its cause, if letters are put together by it.
    pub cause: Option<Cause>,
    /// The value they have in common; `None`: they have none. Not for causes.
    pub value: Option<String>,
    /// How many letters.
    pub letters: u64,
    /// How many groups they are of.
    pub groups: u64,
    /// First death.
    pub first: Option<Time>,
    /// Last death.
    pub last: Option<Time>,
    /// Retention left.
    pub expiry: Expiry,
    /// Deaths in the past 24 hours, oldest column first.
    pub histogram: [u64; BUCKETS],
    /// Its oldest letter.
    pub sample: LetterId,
}

/// Letters put together, while they come in.
#[derive(Debug, Clone)]
pub struct Buckets {
    by: By,
    now: Time,
    index: HashMap<String, u32>,
    lines: Vec<Bucket>,
    others: HashSet<String>,
    groups: Groups,
    /// All letters.
    pub letters: u64,
    /// Letters beyond [`MOST_BUCKETS`] lines.
    pub other_letters: u64,
    /// Letters without a group, though the topology names one.
    pub ungrouped: u64,
    /// Letters of which nobody says when they died.
    pub undated: u64,
    /// First death.
    pub first: Option<Time>,
    /// Last death.
    pub last: Option<Time>,
}

impl Buckets {
    /// None yet.
    pub fn new(by: By, now: Time) -> Self {
        Self {
            by,
            now,
            index: HashMap::new(),
            lines: Vec::new(),
            others: HashSet::new(),
            groups: Groups::default(),
            letters: 0,
            other_letters: 0,
            ungrouped: 0,
            undated: 0,
            first: None,
            last: None,
        }
    }

    /// By what they are put together.
    pub fn by(&self) -> &By {
        &self.by
    }

    /// Takes a letter in.
    pub fn add(&mut self, letter: &DeadLetter) {
        self.letters += 1;
        let died = letter.died_at.map(|(at, _)| at);
        match died {
            Some(at) => {
                self.first = Some(self.first.map_or(at, |first| first.min(at)));
                self.last = Some(self.last.map_or(at, |last| last.max(at)));
            }
            None => self.undated += 1,
        }
        let Some(line) = self.line(letter) else {
            self.other_letters += 1;
            if let Some(group) = &letter.group.value {
                self.groups.note(group, u32::MAX);
            }
            return;
        };
        let new_group = match &letter.group.value {
            Some(group) => self.groups.note(group, line),
            None => {
                self.ungrouped += 1;
                false
            }
        };
        let now = self.now;
        let Some(bucket) = self.lines.get_mut(line as usize) else { return };
        bucket.letters += 1;
        bucket.groups += u64::from(new_group);
        if let Some(at) = died {
            if bucket.first.is_none_or(|first| at < first) {
                bucket.first = Some(at);
                if bucket.letters > 1 {
                    bucket.sample = letter.raw.id.clone();
                }
            }
            bucket.last = Some(bucket.last.map_or(at, |last| last.max(at)));
            let back = now.since(at).as_secs() / STEP.as_secs();
            if let Some(column) = (BUCKETS as u64 - 1).checked_sub(back)
                && let Some(count) = bucket.histogram.get_mut(column as usize)
            {
                *count += 1;
            }
        }
        if let Some(at) = letter.expires_at() {
            bucket.expiry.first = Some(bucket.expiry.first.map_or(at, |first| first.min(at)));
            bucket.expiry.soon += u64::from(at <= now.plus(SOON));
            bucket.expiry.past += u64::from(at <= now);
        }
    }

    /// The line of a letter; `None`: beyond the bound.
    fn line(&mut self, letter: &DeadLetter) -> Option<u32> {
        if self.by == By::Cause {
            // The common case makes no new text.
            if let Some(line) = self.index.get(letter.cause.id.as_str()) {
                return Some(*line);
            }
        }
        let value = self.by.value(letter).map(|mut value| {
            let cut = (0..=LONGEST_VALUE.min(value.len())).rev().find(|at| value.is_char_boundary(*at));
            value.truncate(cut.unwrap_or(0));
            value
        });
        // A value cannot be mistaken for the lack of one.
        let key = match (&self.by, &value) {
            (By::Cause, Some(value)) => value.clone(),
            (_, Some(value)) => format!("={value}"),
            (_, None) => String::new(),
        };
        if let Some(line) = self.index.get(&key) {
            return Some(*line);
        }
        if self.lines.len() >= MOST_BUCKETS {
            if self.others.len() < MOST_OTHERS {
                self.others.insert(key);
            }
            return None;
        }
        let line = u32::try_from(self.lines.len()).ok()?;
        self.index.insert(key, line);
        self.lines.push(Bucket {
            cause: (self.by == By::Cause).then(|| (*letter.cause).clone()),
            value: value.filter(|_| self.by != By::Cause),
            letters: 0,
            groups: 0,
            first: None,
            last: None,
            expiry: Expiry::default(),
            histogram: [0; BUCKETS],
            sample: letter.raw.id.clone(),
        });
        Some(line)
    }

    /// The lines, most letters first; of equal ones the older first.
    pub fn sorted(&self) -> Vec<&Bucket> {
        let mut lines: Vec<&Bucket> = self.lines.iter().collect();
        lines.sort_by_key(|line| (std::cmp::Reverse(line.letters), line.first, line.sample.clone()));
        lines
    }

    /// How many lines there are, and how many more beyond the bound; the second is a least number once it
    /// reaches the bound of counting, which `bool` says.
    pub fn count(&self) -> (u64, u64, bool) {
        (self.lines.len() as u64, self.others.len() as u64, self.others.len() >= MOST_OTHERS)
    }

    /// Their groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }
}

impl Collect for Buckets {
    fn take(&mut self, letter: &DeadLetter) -> std::ops::ControlFlow<()> {
        self.add(letter);
        std::ops::ControlFlow::Continue(())
    }
}
