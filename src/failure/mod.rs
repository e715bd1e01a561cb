//! Why a letter died: one model for what every framework writes.
//!
//! A fact that the letter does not carry is `None`, never a guess; what could not be read is a [`Doubt`].

mod fingerprint;
mod normalise;
pub mod stack;

use serde::Serialize;

pub use fingerprint::{Cause, CauseId, VERSION as FINGERPRINT_VERSION, fingerprint};
pub use normalise::normalise;

use crate::clock::Time;

/// Where a message was: only the parts that its broker or framework has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Origin {
    /// Kafka topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Kafka partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Kafka offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// The record's own time there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
    /// Queue, by its short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Exchange; `""` is the default exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// Routing key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// What else names the place, as `(kind, value)`: `queue_arn`, `function_arn`, `rule_arn`, `topic_arn`,
    /// `target_arn`, `schedule_arn`, `transport`, `channel`, `function`, `subscription`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<(&'static str, String)>,
}

impl Origin {
    /// Says nothing?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which part of the work failed, where a framework tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The key could not be read.
    Key,
    /// The value could not be read.
    Value,
    /// A header could not be read, or a transformation before the handler failed.
    Transform,
    /// The application's own handler.
    Handler,
    /// Writing the result.
    Output,
}

/// One recorded failure of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Death {
    /// When it failed. RabbitMQ records the first of `count` deaths only (R05): then `at_is_first` is set.
    pub at: Option<Time>,
    /// `at` is the time of the first of several deaths.
    pub at_is_first: bool,
    /// Where the copy lay that failed.
    pub place: Option<Origin>,
    /// When that copy was tried.
    pub tried_at: Option<Time>,
    /// Whose consumer failed: group, queue's application, handler.
    pub consumer: Option<String>,
    /// Class of the exception that the application threw.
    pub error_class: Option<String>,
    /// Class of its innermost cause.
    pub root_class: Option<String>,
    /// The application's own message, without the words of a wrapper.
    pub message: Option<String>,
    /// Message of the innermost cause, where it is another one.
    pub root_message: Option<String>,
    /// Stack trace as text.
    pub stack: Option<String>,
    /// The broker's or framework's reason word: `rejected`, `expired`, `maxlen`, `delivery_limit`.
    pub reason: Option<String>,
    /// How often it died in this way there; 0 counts as unknown.
    pub count: u32,
    /// Which part failed.
    pub stage: Option<Stage>,
}

/// How sure a dialect is that a letter is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// Fits, but so would others.
    Maybe,
    /// Its usual marks are there.
    Likely,
    /// Marks that nobody else writes.
    Sure,
}

/// What one dialect made of a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// The dialect's name.
    pub dialect: &'static str,
    /// How sure.
    pub sureness: Sureness,
    /// By what it was recognised, for `show --why`.
    pub why: String,
    /// The fields that were taken from it: `origin`, `attempts`, `deaths`, `event id`, `group`, `trace`.
    pub said: Vec<&'static str>,
    /// What it says and was not taken.
    pub ignored: Vec<Ignored>,
}

/// A word of a dialect that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// The field, or `everything`.
    pub field: &'static str,
    /// The reason, with the value where it helps.
    pub why: String,
}

/// Something that stood in the letter and could not be taken as a fact, or is missing though it matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// The field of the model in question: `attempts`, `origin.offset`, `key`.
    pub field: &'static str,
    /// Why, with the raw value in hex where it helps.
    pub why: String,
}

/// What happens when this letter is sent back as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Prospect {
    /// Handled afresh, with all its tries.
    Afresh,
    /// One try only: a counter that a tool must not touch sits at its limit.
    OneTry {
        /// Where the counter is.
        why: String,
    },
    /// Refused: it would be lost, or is not the message at all.
    Refused {
        /// What would happen.
        why: String,
        /// The way round.
        way_round: String,
    },
    /// Refused from that time on: whoever reads it drops what has expired. Handled afresh until then.
    Expires {
        /// The time.
        at: Time,
        /// Who drops it.
        why: String,
        /// The way round.
        way_round: String,
    },
    /// The letter only points at the payload.
    Pointer {
        /// At what.
        at: String,
    },
    /// Must go to this queue, not through an exchange.
    ToQueue {
        /// Queue name; from the letter, so never a target without validation.
        queue: String,
        /// Why.
        why: String,
    },
}

impl Prospect {
    /// Why it is not sent and the way round, in two halves.
    pub fn refusal_parts(&self) -> (String, String) {
        match self {
            Self::Refused { why, way_round } => (why.clone(), way_round.clone()),
            Self::Expires { at, why, way_round } => (format!("it expired at {at}: {why}"), way_round.clone()),
            Self::Pointer { at } => (
                format!("it only points at {at}: sent as it is, it would be a message without its content"),
                "read what it points at, while that is still kept, and send that again".to_owned(),
            ),
            Self::OneTry { why } => (why.clone(), "see --why".to_owned()),
            Self::ToQueue { queue, why } => {
                (format!("it must go to {queue}: {why}"), format!("--to {queue}"))
            }
            Self::Afresh => ("it cannot be sent as it is".to_owned(), "see --why".to_owned()),
        }
    }

    /// The same in one line.
    pub fn refusal(&self) -> String {
        let (why, way_round) = self.refusal_parts();
        format!("{why}; {way_round}")
    }
}

/// Everything a letter says about its failure, in one model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FailureContext {
    /// Which dialects spoke, surest first; empty means that nobody recognised anything.
    pub readings: Vec<Reading>,
    /// Where the message FIRST lived.
    pub origin: Option<Origin>,
    /// Failures, oldest first. A framework that keeps only the last gives one.
    pub deaths: Vec<Death>,
    /// Deliveries that failed so far.
    pub attempts: Option<u32>,
    /// Business identity that an envelope or convention names (outbox, CloudEvents), if any.
    pub event_id: Option<String>,
    /// Ordering key that an envelope or convention names, where the message's own key is lost or replaced.
    pub group: Option<String>,
    /// W3C, B3, AWS or Datadog trace id.
    pub trace: Option<String>,
    /// Those of other systems, where it carries several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_traces: Vec<String>,
    /// What could not be read or is missing.
    pub doubts: Vec<Doubt>,
    /// What a redrive would do, worst first; empty is [`Prospect::Afresh`].
    pub prospects: Vec<Prospect>,
    /// The key was lost or replaced by whoever buried it: group order cannot be kept by it (K09, K10, K17).
    pub key_unavailable: bool,
    /// The value was lost: sending it would write a tombstone (K09, K15).
    pub value_unavailable: bool,
    /// Headers that stay behind because the topology says so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub declared_to_stay: Vec<String>,
}

impl FailureContext {
    /// The latest death.
    pub fn last(&self) -> Option<&Death> {
        self.deaths.last()
    }

    /// All trace ids.
    pub fn traces(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().chain(&self.other_traces).map(String::as_str)
    }

    /// What forbids sending it as late as `now`, if whoever reads it drops what has expired.
    pub fn expired(&self, now: Time) -> Option<&Prospect> {
        self.prospects.iter().find(|prospect| matches!(prospect, Prospect::Expires { at, .. } if *at <= now))
    }

    /// Refused by a dialect: why, and the way round.
    pub fn refusal(&self) -> Option<(&str, &str)> {
        self.prospects.iter().find_map(|prospect| match prospect {
            Prospect::Refused { why, way_round } => Some((why.as_str(), way_round.as_str())),
            _ => None,
        })
    }
}
