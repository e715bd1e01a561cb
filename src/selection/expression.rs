//! The typed tree of a `--where` expression, and its text form. What [`Display`](fmt::Display) writes, the
//! parser reads back as the same tree.

use std::fmt;
use std::time::Duration;

use super::pattern::Pattern;
use crate::clock::{Time, exact};

/// A condition on a letter.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// One comparison.
    Test(Test),
    /// All hold; two or more.
    And(Vec<Expression>),
    /// One holds; two or more.
    Or(Vec<Expression>),
    /// Does not hold.
    Not(Box<Expression>),
}

/// A field, and what is asked of it. Each field takes only questions of its kind, so a tree that exists
/// makes sense.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Is there a value?
    Exists(Field),
    /// A field of text.
    Text(Field, TextTest),
    /// `attempts`, `redriven`.
    Number(Field, Compare, i64),
    /// `size`, in bytes.
    Size(Compare, u64),
    /// `age`.
    Age(Compare, Duration),
    /// `died`.
    Died(Compare, Time),
    /// A header, property or body value against a number.
    Dynamic(Field, Compare, Decimal),
}

/// A number as it was written, so that it is printed as it was, with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Decimal {
    text: String,
    value: f64,
    whole: Option<i64>,
}

impl Decimal {
    /// Reads `-12`, `3.5`, `1e6`; nothing that is not finite.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
        Some(Self { text: text.to_owned(), value, whole: text.parse().ok() })
    }

    /// Compares `other` with this number: exactly if both are whole, else as doubles.
    pub fn compare(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (other.whole, self.whole) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => other.value.partial_cmp(&self.value),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is asked of text.
#[derive(Debug, Clone, PartialEq)]
pub enum TextTest {
    /// Is it this?
    Is(String),
    /// Is it another?
    IsNot(String),
    /// Does the pattern occur in it?
    Matches(Pattern),
    /// Does it not?
    MatchesNot(Pattern),
}

/// How two ordered values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Compare {
    /// Does `ordering`, of the letter's value to the one written, satisfy it?
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// A field of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// Id of the cause; `=` takes a prefix.
    Cause,
    /// Event id.
    Id,
    /// Ordering key.
    Group,
    /// Id of the letter; `=` takes a prefix.
    Letter,
    /// Error class for `=` (whole or its last part), class and message for `~`.
    Error,
    /// Message of the last death.
    Message,
    /// Reason word of the last death: `rejected`, `expired`.
    Reason,
    /// Whose consumer failed.
    Consumer,
    /// Where the message first lived: topic, queue, exchange or another name.
    Origin,
    /// Trace id.
    Trace,
    /// A dialect that recognised the letter.
    Dialect,
    /// How long it is dead.
    Age,
    /// When it died.
    Died,
    /// Tries that failed.
    Attempts,
    /// How often it was sent back.
    Redriven,
    /// Key, headers and body together, in bytes.
    Size,
    /// Every value of a header.
    Header(String),
    /// Every value of a broker property.
    Property(String),
    /// The whole body.
    Body,
    /// What a JSON pointer finds in the body.
    BodyAt(String),
}

/// What kind of value a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text only.
    Text,
    /// A count.
    Number,
    /// Bytes.
    Size,
    /// A duration.
    Duration,
    /// An instant.
    Time,
    /// Text or a number, as the letter has it.
    Dynamic,
}

impl Field {
    /// The fields that are one word.
    pub const WORDS: &[(&str, Field)] = &[
        ("cause", Self::Cause),
        ("id", Self::Id),
        ("group", Self::Group),
        ("letter", Self::Letter),
        ("error", Self::Error),
        ("message", Self::Message),
        ("reason", Self::Reason),
        ("consumer", Self::Consumer),
        ("origin", Self::Origin),
        ("trace", Self::Trace),
        ("dialect", Self::Dialect),
        ("age", Self::Age),
        ("died", Self::Died),
        ("attempts", Self::Attempts),
        ("redriven", Self::Redriven),
        ("size", Self::Size),
        ("body", Self::Body),
    ];

    /// What kind of value it has.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Age => Kind::Duration,
            Self::Died => Kind::Time,
            Self::Attempts | Self::Redriven => Kind::Number,
            Self::Size => Kind::Size,
            Self::Header(_) | Self::Property(_) | Self::BodyAt(_) => Kind::Dynamic,
            _ => Kind::Text,
        }
    }

    /// Can it be answered only with the body in hand?
    pub fn is_of_body(&self) -> bool {
        matches!(self, Self::Body | Self::BodyAt(_))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => dotted(f, "header.", name),
            Self::Property(name) => dotted(f, "property.", name),
            Self::BodyAt(pointer) => dotted(f, "body.", pointer),
            word => {
                let name = Self::WORDS.iter().find(|(_, field)| field == word).map_or("", |(name, _)| name);
                f.write_str(name)
            }
        }
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, prefix: &str, name: &str) -> fmt::Result {
    f.write_str(prefix)?;
    if !name.is_empty() && name.chars().all(super::lexer::is_word) {
        f.write_str(name)
    } else {
        quoted(f, name)
    }
}

/// Text in double quotes, as the lexer reads it.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    use fmt::Write;
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Text as a value: bare where that reads back as the same text.
fn value(f: &mut fmt::Formatter<'_>, field: &Field, text: &str) -> fmt::Result {
    let bare = field.kind() == Kind::Text
        && !text.is_empty()
        && text.chars().all(super::lexer::is_word)
        && !super::parser::is_reserved(text);
    if bare { f.write_str(text) } else { quoted(f, text) }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(field) => write!(f, "{field} exists"),
            Self::Text(field, TextTest::Is(text)) => {
                write!(f, "{field} = ")?;
                value(f, field, text)
            }
            Self::Text(field, TextTest::IsNot(text)) => {
                write!(f, "{field} != ")?;
                value(f, field, text)
            }
            Self::Text(field, TextTest::Matches(pattern)) => {
                write!(f, "{field} ~ ")?;
                quoted(f, pattern.as_str())
            }
            Self::Text(field, TextTest::MatchesNot(pattern)) => {
                write!(f, "{field} !~ ")?;
                quoted(f, pattern.as_str())
            }
            Self::Number(field, compare, number) => write!(f, "{field} {} {number}", compare.as_str()),
            Self::Size(compare, bytes) => write!(f, "size {} {bytes}B", compare.as_str()),
            Self::Age(compare, age) => {
                write!(f, "age {} {}", compare.as_str(), exact(*age).replace(' ', ""))
            }
            Self::Died(compare, at) => write!(f, "died {} {at}", compare.as_str()),
            Self::Dynamic(field, compare, number) => write!(f, "{field} {} {number}", compare.as_str()),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, word) = match self {
            Self::Test(test) => return test.fmt(f),
            Self::Not(inner) => {
                f.write_str("not ")?;
                return match **inner {
                    Self::Test(_) | Self::Not(_) => inner.fmt(f),
                    _ => write!(f, "({inner})"),
                };
            }
            Self::And(parts) => (parts, " and "),
            Self::Or(parts) => (parts, " or "),
        };
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                f.write_str(word)?;
            }
            let bare = match part {
                Self::Test(_) | Self::Not(_) => true,
                Self::And(_) => matches!(self, Self::Or(_)),
                Self::Or(_) => false,
            };
            if bare { part.fmt(f)? } else { write!(f, "({part})")? }
        }
        Ok(())
    }
}
