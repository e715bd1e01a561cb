//! What a topology means, as values: for each channel the time line of a message that always fails, who
//! serves its tiers, what tiers do to order there, and what its broker does differently. Rendering and JSON
//! take it from here; nothing is connected.

use std::time::Duration;

use serde::Serialize;

use super::{Channel, GroupRule, ServedBy, Topology};
use crate::broker::{Capabilities, Dedup, Order, Peek, kind_of};
use crate::clock;

/// A channel as it behaves on its broker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Meaning {
    /// Its name.
    pub channel: String,
    /// Name of its broker.
    pub broker: String,
    /// Kind of broker, for people: `RabbitMQ`.
    pub kind: &'static str,
    /// Where the broker is: `amqp://mq.internal:5672, virtual host payments`.
    pub place: String,
    /// The broker is changed only by a command that names it.
    pub protected: bool,
    /// Where tiers and redrives send.
    pub return_to: String,
    /// Who carries messages back from the tiers; `None`: there are none.
    pub served_by: Option<ServedBy>,
    /// Every try of a message that always fails.
    pub tries: Vec<Try>,
    /// Where it ends.
    pub dead_letter: Grave,
    /// What else is to be known, most important first.
    pub facts: Vec<Fact>,
}

/// One try.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Try {
    /// From 1.
    pub number: usize,
    /// Earliest, in milliseconds after the first try failed.
    pub at_ms: u64,
    /// After this one comes the dead-letter queue.
    pub last: bool,
    /// The wait before it; the first try has none.
    pub after: Option<Wait>,
}

/// The wait before a try.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wait {
    /// How long, in milliseconds.
    pub delay_ms: u64,
    /// In which queue.
    pub queue: String,
}

/// The dead-letter queue of a channel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grave {
    /// Its name on the broker.
    pub queue: String,
    /// How long letters are kept, in milliseconds, as declared.
    pub retention_ms: Option<u64>,
    /// Does the broker keep to it?
    pub retention_enforced: bool,
    /// Alert from this many letters.
    pub alert_depth: Option<u64>,
    /// Alert from this age of the oldest, in milliseconds.
    pub alert_age_ms: Option<u64>,
    /// Who is called.
    pub owner: Option<String>,
}

/// Something that follows from channel and broker together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it is about: `relay`, `order`, `looking`, `moved`, `duplicates`.
    pub about: &'static str,
    /// A whole sentence or two.
    pub text: String,
}

/// What each channel means, in the file's order; channels without a known broker are left out.
pub fn meaning(topology: &Topology) -> Vec<Meaning> {
    topology.channels.iter().filter_map(|channel| of_channel(topology, channel)).collect()
}

fn of_channel(topology: &Topology, channel: &Channel) -> Option<Meaning> {
    let broker = topology.broker_of(channel)?;
    let kind = kind_of(broker)?;
    let abilities = kind.capabilities(channel);
    let names = kind.names(channel);
    let served_by = served_by(channel, &abilities);
    let mut at = Duration::ZERO;
    let mut tries = vec![Try { number: 1, at_ms: 0, last: channel.tiers.is_empty(), after: None }];
    for (index, (tier, queue)) in channel.tiers.iter().zip(&names.tiers).enumerate() {
        at = at.saturating_add(tier.delay.value);
        tries.push(Try {
            number: index + 2,
            at_ms: millis(at),
            last: index + 1 == channel.tiers.len(),
            after: Some(Wait { delay_ms: millis(tier.delay.value), queue: queue.clone() }),
        });
    }
    let dead_letter = &channel.dead_letter;
    Some(Meaning {
        channel: channel.name.value.clone(),
        broker: broker.name.value.clone(),
        kind: kind.title(),
        place: kind.place(broker),
        protected: broker.protected,
        facts: facts(channel, &broker.name.value, &abilities, served_by, &names.dead_letter),
        return_to: names.return_to,
        served_by,
        tries,
        dead_letter: Grave {
            queue: names.dead_letter,
            retention_ms: dead_letter.retention.as_ref().map(|kept| millis(kept.value)),
            retention_enforced: abilities.enforces_retention,
            alert_depth: dead_letter.alert_depth.as_ref().map(|depth| depth.value),
            alert_age_ms: dead_letter.alert_age.as_ref().map(|age| millis(age.value)),
            owner: channel.owner.as_ref().map(|owner| owner.value.clone()),
        },
    })
}

/// Who serves the tiers: as written, else what the broker is best at; `None` without tiers.
pub fn served_by(channel: &Channel, abilities: &Capabilities) -> Option<ServedBy> {
    if channel.tiers.is_empty() {
        return None;
    }
    channel.served_by.as_ref().map(|by| by.value).or_else(|| abilities.served_by.first().copied())
}

fn facts(
    channel: &Channel,
    broker: &str,
    abilities: &Capabilities,
    served_by: Option<ServedBy>,
    dead_letter: &str,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut say = |about, text: String| facts.push(Fact { about, text });
    let name = &channel.name.value;
    match served_by {
        Some(ServedBy::Relay) => say("relay", format!("On {broker} the tiers need redrive relay.")),
        Some(ServedBy::Broker) => say("relay", format!("On {broker} the broker serves the tiers by itself.")),
        Some(ServedBy::Consumer) => {
            say("relay", format!("The consumer of {name} reads the tiers by itself; no relay serves them."));
        }
        None => {}
    }
    let grouped = channel.group.value != GroupRule::None;
    if grouped && !channel.tiers.is_empty() {
        say(
            "order",
            format!(
                "{name}: a message that waits in a tier is passed by later ones of its group. \
                 Order within a group holds up to the first failure; runs keep it."
            ),
        );
    }
    if grouped && abilities.order == Order::None {
        say(
            "order",
            format!("{name}: {broker} keeps no order of its own; only runs keep the order of a group."),
        );
    }
    if let Peek::Marks(cost) = abilities.peek {
        say("looking", format!("Looking at {dead_letter} is not free on {broker}: {cost}."));
    }
    if !abilities.deletes {
        say(
            "moved",
            format!(
                "Moved letters stay in {dead_letter}, marked and out of sight, until retention takes them."
            ),
        );
    }
    if let Dedup::Window(window) = abilities.dedup {
        say(
            "duplicates",
            format!(
                "{broker} drops a second message of one deduplication id within {}.",
                clock::exact(window)
            ),
        );
    }
    facts
}

impl Meaning {
    /// The headline: `orders on kafka, a message that always fails`.
    pub fn head(&self) -> String {
        format!("{} on {}, a message that always fails", self.channel, self.broker)
    }

    /// The time line in two columns, the last row where the message ends.
    pub fn rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = self.tries.iter().map(row).collect();
        rows.push(("then".to_owned(), self.dead_letter.line()));
        rows
    }
}

fn row(one: &Try) -> (String, String) {
    let which = match (one.number, one.last) {
        (1, true) => "only try".to_owned(),
        (_, true) => "last try".to_owned(),
        (number, false) => format!("{} try", ordinal(number)),
    };
    let what = match &one.after {
        Some(wait) => {
            format!("{which}, after {} in {}", clock::exact(Duration::from_millis(wait.delay_ms)), wait.queue)
        }
        None => which,
    };
    (format!("at {}", clock::exact(Duration::from_millis(one.at_ms))), what)
}

impl Grave {
    fn line(&self) -> String {
        let exact = |millis: u64| clock::exact(Duration::from_millis(millis));
        let mut line = self.queue.clone();
        match self.retention_ms {
            Some(kept) if self.retention_enforced => line.push_str(&format!(", kept {}", exact(kept))),
            _ if !self.retention_enforced => line.push_str(", kept until somebody takes them"),
            _ => {}
        }
        let depth = self.alert_depth.map(|n| format!("{n} letter{}", if n == 1 { "" } else { "s" }));
        let alert: Vec<String> = depth.into_iter().chain(self.alert_age_ms.map(exact)).collect();
        if !alert.is_empty() {
            line.push_str(&format!("; alert at {}", alert.join(" or ")));
        }
        if let Some(owner) = &self.owner {
            line.push_str(&format!("; owner {owner}"));
        }
        line
    }
}

/// The notes below all channels: what holds for every time line, then each fact once.
pub fn notes(meanings: &[Meaning]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let facts = |relay: bool| {
        let all = meanings.iter().flat_map(|meaning| &meaning.facts);
        all.filter(move |fact| (fact.about == "relay") == relay).map(|fact| fact.text.clone())
    };
    if meanings.iter().any(|meaning| meaning.tries.len() > 1) {
        let mut first = vec!["Earliest times: each try's own time comes on top.".to_owned()];
        for text in facts(true) {
            if !first.contains(&text) {
                first.push(text);
            }
        }
        notes.push(first.join(" "));
    }
    for text in facts(false) {
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
    notes
}

fn ordinal(number: usize) -> String {
    let end = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
