//! The declared topology: channels with their tiers and dead-letter queues, and the brokers they go to.
//!
//! Values that come from the file keep their place, so that every rule can point at it. Equality ignores
//! places.

use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

mod build;
pub mod codes;
pub mod keys;
mod load;
mod meaning;
mod nearest;
mod outside;
mod read;
mod reference;
mod rules;
mod scalars;
mod schema;
mod secrets;
#[cfg(test)]
mod tests;
mod yaml;

pub use load::{Loaded, load, load_file};
pub use meaning::{Fact, Grave, Meaning, Try, Wait, meaning, notes, served_by};
pub use nearest::nearest;
pub use outside::Outside;
pub use reference::reference;
pub use rules::{check, check_on};
pub use schema::schema;
pub use secrets::Secret;

/// A value and where it stands in the file: bytes of the source text.
#[derive(Debug, Clone, Default)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its place; empty for a default.
    pub span: Range<usize>,
}

impl<T> At<T> {
    /// A value from nowhere: a default, or a test.
    pub fn nowhere(value: T) -> Self {
        Self { value, span: 0..0 }
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> std::ops::Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topology {
    /// Used by channels that name none.
    pub default_broker: Option<At<String>>,
    /// In the file's order.
    pub brokers: Vec<BrokerDecl>,
    /// In the file's order.
    pub channels: Vec<Channel>,
}

impl Topology {
    /// The channel of this name.
    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.name.value == name)
    }

    /// The broker of this name.
    pub fn broker(&self, name: &str) -> Option<&BrokerDecl> {
        self.brokers.iter().find(|broker| broker.name.value == name)
    }

    /// The broker that a channel goes to: its own, else the default, else the only one.
    pub fn broker_of(&self, channel: &Channel) -> Option<&BrokerDecl> {
        match channel.broker.as_ref().or(self.default_broker.as_ref()) {
            Some(name) => self.broker(name),
            None => match self.brokers.as_slice() {
                [only] => Some(only),
                _ => None,
            },
        }
    }
}

/// A broker as declared; nothing is connected yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BrokerDecl {
    /// What channels and `--broker` call it.
    pub name: At<String>,
    /// With its scheme; never holds a password.
    pub url: At<String>,
    /// Login name.
    pub username: Option<At<Secret>>,
    /// Password.
    pub password: Option<At<Secret>>,
    /// Own AWS account, where the broker has accounts.
    pub account: Option<At<String>>,
    /// Is changed only by a command that names it.
    pub protected: bool,
    /// The client's own settings, as written; only those on the adapter's list.
    pub options: Vec<(At<String>, At<Secret>)>,
    /// References that could not be followed, as written (`${MQ_PASSWORD}`): fine for `check`, an error on
    /// connecting.
    pub unresolved: Vec<At<String>>,
}

impl BrokerDecl {
    /// The part of the url before the colon.
    pub fn scheme(&self) -> &str {
        self.url.split_once(':').map_or("", |(scheme, _)| scheme)
    }
}

/// Where the business identity of an event stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EventIdRule {
    /// Events have no id.
    #[default]
    None,
    /// In this header.
    Header(String),
    /// In this broker property.
    Property(String),
    /// At this JSON pointer of the body.
    Body(String),
}

/// Where the ordering key stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GroupRule {
    /// Letters have no order among them.
    #[default]
    None,
    /// The broker's own key: Kafka key, SQS `MessageGroupId`, the embedded broker's group.
    Key,
    /// In this header.
    Header(String),
    /// At this JSON pointer of the body.
    Body(String),
}

/// Who moves a message from a tier back when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedBy {
    /// `redrive relay`.
    #[default]
    Relay,
    /// The broker itself, by TTL and dead-letter routing.
    Broker,
    /// The consumer polls the tiers itself.
    Consumer,
}

impl ServedBy {
    /// As the topology has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Broker => "broker",
            Self::Consumer => "consumer",
        }
    }
}

/// Where tiers and redrives send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReturnTo {
    /// The source.
    #[default]
    Source,
    /// A topic or queue that only this consumer reads, beside the source.
    Named(String),
}

/// A wait before the next try.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tier {
    /// `retry-5s` unless written.
    pub name: At<String>,
    /// Was the name written out? Then it is a broker's literal queue name.
    pub name_written: bool,
    /// How long.
    pub delay: At<Duration>,
}

/// The dead-letter queue of a channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeadLetterDecl {
    /// Literal name, if written out.
    pub name: Option<At<String>>,
    /// How long letters are kept.
    pub retention: Option<At<Duration>>,
    /// `alert` exits 13 from this many letters.
    pub alert_depth: Option<At<u64>>,
    /// `alert` exits 13 from this age of the oldest letter.
    pub alert_age: Option<At<Duration>>,
}

/// A bound on how fast: letters per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Letters per second; above zero.
    PerSecond(f64),
    /// No bound; has to be typed out.
    Unlimited,
}

impl Rate {
    /// Reads `50/s`, `600/m`, `1000/h`, `0.5/s`, `unlimited`. A number without a time is refused.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "unlimited" {
            return Some(Self::Unlimited);
        }
        let (number, per) = text.split_once('/')?;
        let seconds = match per {
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let digits =
            |part: &str| !part.is_empty() && part.len() <= 12 && part.bytes().all(|b| b.is_ascii_digit());
        let right = match number.split_once('.') {
            Some((whole, part)) => digits(whole) && digits(part),
            None => digits(number),
        };
        let number = number.parse::<f64>().ok().filter(|number| right && *number > 0.0)?;
        Some(Self::PerSecond(number / seconds))
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::PerSecond(rate) if *rate >= 1.0 => write!(f, "{}/s", (rate * 100.0).round() / 100.0),
            Self::PerSecond(rate) if rate * 60.0 >= 1.0 => {
                write!(f, "{}/m", (rate * 6_000.0).round() / 100.0)
            }
            Self::PerSecond(rate) => write!(f, "{}/h", (rate * 360_000.0).round() / 100.0),
        }
    }
}

/// Where a home-made consumer writes something down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this header.
    Header(String),
    /// At this JSON pointer of the body.
    Body(String),
}

/// How a header holds a number of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberForm {
    /// Decimal text.
    Text,
    /// Four bytes, the highest first.
    Int32,
}

/// How a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeForm {
    /// RFC 3339 with a zone.
    Rfc3339,
    /// Milliseconds since 1970.
    Milliseconds,
    /// Seconds since 1970.
    Seconds,
}

/// How a value is written, where several may be said: with its place (`header x-t (ms|s)`) or beside it
/// (`at_as: ms`).
#[derive(Debug, Clone, PartialEq)]
pub struct Forms<T> {
    /// Said with the place.
    pub with_it: Vec<At<T>>,
    /// Said beside it.
    pub beside: Option<At<T>>,
}

impl<T> Default for Forms<T> {
    fn default() -> Self {
        Self { with_it: Vec::new(), beside: None }
    }
}

impl<T: Copy + PartialEq> Forms<T> {
    /// Only this one.
    pub fn only(form: T) -> Self {
        Self { with_it: vec![At::nowhere(form)], beside: None }
    }

    /// Is this form among them? Where none is said it is the usual one.
    pub fn has(&self, form: T, usual: T) -> bool {
        if self.with_it.is_empty() {
            return self.beside.as_ref().map_or(usual, |beside| beside.value) == form;
        }
        self.with_it.iter().any(|it| it.value == form)
    }
}

/// A home-made convention of writing down why a message died (`failure:`); read before the known dialects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FailureConvention {
    /// Class or code of the error.
    pub error: Option<At<Place>>,
    /// Its message.
    pub message: Option<At<Place>>,
    /// Stack trace.
    pub stack: Option<At<Place>>,
    /// Queue or topic that it died in.
    pub origin: Option<At<Place>>,
    /// How many tries failed.
    pub attempts: Option<At<Place>>,
    /// How `attempts` is held; decimal text unless said.
    pub attempts_as: Forms<NumberForm>,
    /// When it died.
    pub at: Option<At<Place>>,
    /// How `at` is written; RFC 3339 unless said.
    pub at_as: Forms<TimeForm>,
    /// Headers that stay behind in a redrive.
    pub strip: Vec<At<String>>,
    /// Headers of a known writer under other names: `(theirs, the writer's)`.
    pub names: Vec<(At<String>, At<String>)>,
    /// Beginnings of the application's own packages, for the first own frame of a stack trace.
    pub own_code: Vec<At<String>>,
}

/// Defaults of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RedriveDecl {
    /// 50 a second unless written.
    pub rate: At<Rate>,
    /// A letter redriven this often stays; 3 unless written.
    pub max_redrives: At<NonZeroU32>,
    /// A letter older than this stays: consumers may have forgotten its id.
    pub dedup_window: Option<At<Duration>>,
}

impl Default for RedriveDecl {
    fn default() -> Self {
        Self {
            rate: At::nowhere(Rate::PerSecond(50.0)),
            max_redrives: At::nowhere(NonZeroU32::MIN.saturating_add(2)),
            dedup_window: None,
        }
    }
}

/// One flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Channel {
    /// Its name.
    pub name: At<String>,
    /// Its broker, if it names one.
    pub broker: Option<At<String>>,
    /// Who is called.
    pub owner: Option<At<String>>,
    /// The queue or topic that the application's consumer reads.
    pub source: At<String>,
    /// May `apply` create the source?
    pub create_source: bool,
    /// The consumer (group) that reads it.
    pub consumer: Option<At<String>>,
    /// Where tiers and redrives send; `None` if not written, which Kafka does not take.
    pub return_to: Option<At<ReturnTo>>,
    /// Others read the target too, and that is meant.
    pub shared: bool,
    /// Where the event id stands.
    pub event_id: At<EventIdRule>,
    /// Where the ordering key stands.
    pub group: At<GroupRule>,
    /// Who serves the tiers; `None`: what the broker is best at.
    pub served_by: Option<At<ServedBy>>,
    /// Most messages a second that the relay carries.
    pub retry_rate: Option<At<Rate>>,
    /// Shortest wait first.
    pub tiers: Vec<Tier>,
    /// Its dead-letter queue.
    pub dead_letter: DeadLetterDecl,
    /// Defaults of its runs.
    pub redrive: RedriveDecl,
    /// How a home-made consumer writes down why a message died.
    pub failure: Option<FailureConvention>,
    /// What only one broker needs: `(block, settings)`, `kafka`, `rabbitmq`, `sqs`; the adapter reads its own.
    pub blocks: Vec<(String, Settings)>,
}

impl Channel {
    /// A setting in the block `block`: `kafka`, `rabbitmq`, `sqs`.
    pub fn setting(&self, block: &str, key: &str) -> Option<&At<Setting>> {
        let (_, settings) = self.blocks.iter().find(|(name, _)| name == block)?;
        settings.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
    }
}

/// Settings of one broker block, in the file's order.
pub type Settings = Vec<(At<String>, At<Setting>)>;

/// A value in a broker block. Which keys and kinds there are, the key table knows.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// Text or a word.
    Text(String),
    /// A whole number.
    Number(i64),
    /// True or false.
    Bool(bool),
    /// A duration.
    Duration(Duration),
    /// Names to texts: tags, topic settings.
    Map(Vec<(At<String>, At<String>)>),
}
