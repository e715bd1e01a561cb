//! What a channel wants on a RabbitMQ server: its queues with their settings. Pure.
//!
//! source → (a rejection) → dead-letter queue; tier → (its time to live) → where the channel returns to.
//! The time to live is the queue's, never a message's: a long one at the head would block a short one.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::kind::{self, RabbitKind};
use super::version::Version;
use crate::broker::Kind as _;
use crate::clock::exact;
use crate::plan::{Property, Resource, Role};
use crate::topology::{Channel, ReturnTo, ServedBy};

/// Value of a setting that must not be there.
pub(super) const NONE: &str = "none";
/// The default exchange, as people read it.
pub(super) const DEFAULT_EXCHANGE: &str = "(default)";

/// One queue as wanted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub name: String,
    pub role: Role,
    pub channel: String,
    pub creatable: bool,
    /// `quorum`, `classic`, `stream`; `None` for one that is taken as it is.
    pub kind: Option<&'static str>,
    /// By their policy names; an argument's has `x-` before it.
    pub settings: Map<String, Json>,
    /// Settings that would destroy letters or undo the others.
    pub never: &'static [&'static str],
    pub note: Option<String>,
}

/// The queues of a channel, targets before those that lead to them (R36).
pub(super) fn queues(channel: &Channel, version: Version) -> Vec<Wanted> {
    let names = RabbitKind.names(channel);
    let chosen = kind::queue_type(channel).unwrap_or("quorum");
    let dead_letter_type = word(chosen);
    let work_type = if chosen == "stream" { "quorum" } else { word(chosen) };
    let served_by = channel.served_by.as_ref().map_or(ServedBy::Broker, |by| by.value);
    let made = |name: &str, role, kind, settings: Map<String, Json>, never, note| Wanted {
        name: name.to_owned(),
        role,
        channel: channel.name.value.clone(),
        creatable: true,
        kind: Some(kind),
        settings,
        never,
        note,
    };
    let mut queues = Vec::new();
    let mut settings = Map::new();
    if dead_letter_type == "quorum" && version.unlimited_by_minus_one() {
        settings.insert("delivery-limit".to_owned(), json!(-1));
    }
    // A length limit throws the oldest letters away (R37), a time to live all of them.
    let never = &["message-ttl", "expires", "max-length", "max-length-bytes"];
    let note = (dead_letter_type == "stream" && !version.stream_takes_dead_letters())
        .then(|| format!("RabbitMQ {version} puts dead letters into a stream only at least once"));
    queues.push(made(&names.dead_letter, Role::DeadLetter, dead_letter_type, settings, never, note));
    for (tier, name) in channel.tiers.iter().zip(&names.tiers) {
        let mut settings = Map::new();
        if served_by == ServedBy::Broker {
            settings = route(work_type, &names.return_to);
            let ttl = kind::ttl(tier.delay.value).unwrap_or(u32::MAX);
            settings.insert("message-ttl".to_owned(), json!(ttl));
        }
        let by_broker = served_by == ServedBy::Broker;
        let note = if by_broker && version.drops_rejected_cycles() {
            Some(format!(
                "RabbitMQ {version} drops messages that come round a second time: take 3.13.3 or later"
            ))
        } else if by_broker && work_type == "classic" {
            Some("classic: dead-lettered at most once".to_owned())
        } else {
            None
        };
        // An idle tier would go, with the messages that wait in it (R33).
        queues.push(made(name, Role::Tier, work_type, settings, &["expires"], note));
    }
    // What a consumer rejects: it dies, or it waits in the one tier and comes back until the consumer itself
    // sends it to the dead-letter queue.
    let rejected_to = match names.tiers.first() {
        Some(tier) if kind::rejected_to_tier(channel) => tier,
        _ => &names.dead_letter,
    };
    let rejected = route(work_type, rejected_to);
    if let Some(ReturnTo::Named(name)) = channel.return_to.as_ref().map(|to| &to.value)
        && *name != names.source
    {
        queues.push(made(name, Role::ReturnTo, work_type, rejected.clone(), &["expires"], None));
    }
    let source = made(&names.source, Role::Source, work_type, rejected, &[], None);
    queues.push(Wanted {
        creatable: channel.create_source,
        kind: channel.create_source.then_some(work_type),
        ..source
    });
    queues
}

fn word(chosen: &str) -> &'static str {
    match chosen {
        "classic" => "classic",
        "stream" => "stream",
        _ => "quorum",
    }
}

/// Dead-lettering to one queue through the default exchange, at least once where that holds: without
/// `reject-publish` it silently is at most once.
fn route(kind: &str, to: &str) -> Map<String, Json> {
    let mut settings = Map::new();
    settings.insert("dead-letter-exchange".to_owned(), json!(""));
    settings.insert("dead-letter-routing-key".to_owned(), json!(to));
    if kind == "quorum" {
        settings.insert("dead-letter-strategy".to_owned(), json!("at-least-once"));
        settings.insert("overflow".to_owned(), json!("reject-publish"));
    }
    settings
}

impl Wanted {
    /// For the plan.
    pub fn resource(&self) -> Resource {
        let mut properties: Vec<Property> = self
            .settings
            .iter()
            .map(|(name, value)| Property { name: name.clone(), value: shown(name, value) })
            .chain(
                self.never.iter().map(|name| Property { name: (*name).to_owned(), value: NONE.to_owned() }),
            )
            .chain(self.kind.map(|kind| Property { name: "type".to_owned(), value: kind.to_owned() }))
            .collect();
        properties.sort_by(|a, b| a.name.cmp(&b.name));
        Resource {
            kind: "queue",
            name: self.name.clone(),
            role: self.role,
            channel: Some(self.channel.clone()),
            properties,
            depth: None,
            creatable: self.creatable,
            left: None,
            note: self.note.clone(),
        }
    }

    /// What stands beside it when it is made: `quorum, waits 5s, returns to orders`.
    pub fn in_words(&self) -> Option<String> {
        let waits = self.settings.get("message-ttl").and_then(Json::as_u64);
        let leads = self.settings.get("dead-letter-routing-key").and_then(Json::as_str);
        let words = [
            self.kind.map(str::to_owned),
            waits.map(|ms| format!("waits {}", exact(Duration::from_millis(ms)))),
            leads.map(|to| match self.role {
                Role::Tier => format!("returns to {to}"),
                _ => format!("dead letters to {to}"),
            }),
            self.note.clone(),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Arguments of a declaration: the type alone if a policy carries the rest.
    pub fn arguments(&self, by_policy: bool) -> Map<String, Json> {
        let mut arguments = Map::new();
        if let Some(kind) = self.kind {
            arguments.insert("x-queue-type".to_owned(), json!(kind));
        }
        if !by_policy {
            arguments.extend(self.settings.iter().map(|(name, value)| (format!("x-{name}"), value.clone())));
        }
        arguments
    }
}

/// A setting as people read it and as it is compared: times in milliseconds, as the server has them.
pub(super) fn shown(name: &str, value: &Json) -> String {
    match value {
        Json::String(text) if name == "dead-letter-exchange" && text.is_empty() => {
            DEFAULT_EXCHANGE.to_owned()
        }
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::topology::{At, Tier};

    fn channel(delays: &[Duration]) -> Channel {
        let tier = |delay: &Duration| Tier {
            name: At::nowhere(format!("retry-{}", crate::clock::exact(*delay).replace(' ', ""))),
            name_written: false,
            delay: At::nowhere(*delay),
        };
        Channel {
            name: At::nowhere("orders".to_owned()),
            source: At::nowhere("orders".to_owned()),
            tiers: delays.iter().map(tier).collect(),
            ..Channel::default()
        }
    }

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn r36_targets_come_before_the_queues_that_lead_to_them() {
        let queues = queues(&channel(&[Duration::from_secs(5)]), version("3.10.8"));
        let names: Vec<_> = queues.iter().map(|queue| queue.name.as_str()).collect();
        assert_eq!(names, ["orders.dlq", "orders.retry-5s", "orders"]);
        assert!(!queues[2].creatable);
        assert_eq!(queues[2].settings["dead-letter-routing-key"], json!("orders.dlq"));
    }

    #[test]
    fn r31_delays_become_whole_milliseconds_of_32_bits() {
        let delays: Vec<_> =
            [128, 130, 2_592_000_000, 4_233_600_000].map(Duration::from_millis).into_iter().collect();
        let ttls: Vec<_> = queues(&channel(&delays), version("4.0.5"))
            .into_iter()
            .filter_map(|queue| queue.settings.get("message-ttl").and_then(Json::as_u64))
            .collect();
        assert_eq!(ttls, [128, 130, 2_592_000_000, 4_233_600_000]);
        assert_eq!(kind::ttl(Duration::from_secs(50 * 86_400)), None);
    }

    #[test]
    fn r34_the_delivery_limit_is_lifted_only_where_minus_one_means_that() {
        let dead_letter = |text| queues(&channel(&[]), version(text)).remove(0);
        assert_eq!(dead_letter("3.13.7").settings.get("delivery-limit"), None);
        assert_eq!(dead_letter("4.0.5").settings.get("delivery-limit"), Some(&json!(-1)));
    }

    #[test]
    fn r33_r37_what_would_destroy_letters_is_wanted_absent() {
        let queues = queues(&channel(&[Duration::from_secs(600)]), version("4.0.5"));
        let absent = |at: usize| {
            let properties = queues[at].resource().properties;
            properties.into_iter().filter(|p| p.value == NONE).map(|p| p.name).collect::<Vec<_>>()
        };
        assert_eq!(absent(0), ["expires", "max-length", "max-length-bytes", "message-ttl"]);
        assert_eq!(absent(1), ["expires"]);
    }
}
