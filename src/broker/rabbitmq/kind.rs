//! RabbitMQ before anything is connected: names, abilities, and the rules that only RabbitMQ asks for.

use std::time::Duration;

use super::super::naming::{self, Placed};
use super::super::options;
use super::super::{
    Atomicity, BulkMoves, Capabilities, Dedup, Delay, Kind, Limits, Names, OpenContext, Opening, Order, Peek,
};
use super::address::Address;
use crate::diagnostic::Diagnostic;
use crate::topology::{
    At, BrokerDecl, Channel, EventIdRule, GroupRule, ServedBy, Setting, Topology, codes, nearest,
};

/// Longest name: a short string of AMQP, in bytes (N06).
const NAME_MAX: usize = 255;
/// Longest time to live: 32 bits of milliseconds (R31).
const TTL_MAX: Duration = Duration::from_millis(u32::MAX as u64);

/// Options that the client takes.
const OPTIONS: &[&str] = &[
    "auth",
    "ca_file",
    "client_cert_file",
    "client_key_file",
    "connect_timeout",
    "heartbeat",
    "management",
    "publish_timeout",
];

/// Properties of a message that can hold an event id.
const PROPERTIES: &[&str] = &["message_id", "correlation_id"];

/// See the file's head.
pub struct RabbitKind;

impl Kind for RabbitKind {
    fn schemes(&self) -> &'static [&'static str] {
        &["amqp", "amqps"]
    }

    fn title(&self) -> &'static str {
        "RabbitMQ"
    }

    fn block(&self) -> Option<&'static str> {
        Some("rabbitmq")
    }

    fn capabilities(&self, channel: &Channel) -> Capabilities {
        let stream = queue_type(channel) == Some("stream");
        Capabilities {
            delay: Delay::TtlQueue { max: TTL_MAX },
            peek: if stream { Peek::Pure } else { Peek::Marks("delivery count +1 on each letter looked at") },
            relocate: Atomicity::PublishThenSettle,
            ordered_batch: false,
            bulk: BulkMoves::No("it has no move of its own"),
            batch: 1_000,
            claims: 2_000,
            group_lock: None,
            order: Order::PerQueue,
            dedup: Dedup::None,
            limits: Limits { message: None, headers: Some(131_072), header_count: None },
            deletes: true,
            trims: false,
            deleted_returns: false,
            keeps_times: false,
            sees_later: false,
            fan_out: false,
            enforces_retention: false,
            served_by: &[ServedBy::Broker, ServedBy::Consumer],
        }
    }

    fn names(&self, channel: &Channel) -> Names {
        naming::lowered(channel, |base, suffix| format!("{base}.{suffix}"))
    }

    fn check(&self, _topology: &Topology, broker: &BrokerDecl, channels: &[&Channel]) -> Vec<Diagnostic> {
        let mut found = url(broker);
        found.extend(options::check(broker, "RabbitMQ", OPTIONS, &[]));
        for channel in channels {
            for name in naming::placed(channel, &self.names(channel)) {
                found.extend(queue_name(&name));
            }
            if channel.group.value == GroupRule::Key {
                found.push(
                    Diagnostic::error(codes::NO_KEY, "messages on RabbitMQ have no key")
                        .at(channel.group.span.clone(), "no letter would have a group")
                        .help("name a header or a place in the body: group: {header: NAME}"),
                );
            }
            found.extend(rejected_to(channel));
            found.extend(stream(channel));
            if let EventIdRule::Property(property) = &channel.event_id.value
                && !PROPERTIES.contains(&property.as_str())
            {
                let problem = Diagnostic::error(
                    codes::PROPERTY,
                    format!("RabbitMQ has no property `{property}` for an event id"),
                )
                .at(channel.event_id.span.clone(), "not a property");
                found.push(match nearest(property, PROPERTIES.iter().copied()) {
                    Some(near) => problem.help(format!("did you mean {near}?")),
                    None => problem.help(format!("properties: {}", PROPERTIES.join(", "))),
                });
            }
        }
        found
    }

    fn options(&self) -> &'static [&'static str] {
        OPTIONS
    }

    fn place(&self, broker: &BrokerDecl) -> String {
        match Address::parse(&broker.url.value) {
            Ok(address) => format!("{}, virtual host {}", address.shown(), shown_vhost(&address.vhost)),
            Err(_) => crate::redact::url(&broker.url.value),
        }
    }

    fn open<'a>(&self, broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
        super::open(broker, context)
    }
}

/// A virtual host for people: the empty one has to be seen (X04).
fn shown_vhost(vhost: &str) -> &str {
    if vhost.is_empty() { "\"\"" } else { vhost }
}

/// Does what a consumer rejects go to the one tier, and not to the dead-letter queue?
pub(super) fn rejected_to_tier(channel: &Channel) -> bool {
    matches!(
        channel.setting("rabbitmq", "rejected_to"),
        Some(At { value: Setting::Text(text), .. }) if text == "tier"
    )
}

/// The exchange that runs send to instead of the queue, if one is written.
#[cfg(feature = "rabbitmq")]
pub(super) fn exchange(channel: &Channel) -> Option<&str> {
    match channel.setting("rabbitmq", "exchange") {
        Some(At { value: Setting::Text(text), .. }) => Some(text),
        _ => None,
    }
}

fn rejected_to(channel: &Channel) -> Option<Diagnostic> {
    let written = channel.setting("rabbitmq", "rejected_to").filter(|_| rejected_to_tier(channel))?;
    let by_broker = channel.served_by.as_ref().is_none_or(|by| by.value == ServedBy::Broker);
    let tiers = channel.tiers.len();
    let why = match (tiers, by_broker) {
        (1, true) => return None,
        (1, false) => "the broker does not serve the tier".to_owned(),
        (0, _) => "there is no tier".to_owned(),
        (several, _) => format!("there are {several} tiers"),
    };
    Some(
        Diagnostic::error(
            codes::REJECTED_TO,
            format!("what the consumer of `{}` rejects cannot go to its tier: {why}", channel.name.value),
        )
        .at(written.span.clone(), "a queue has one dead-letter target")
        .help("keep one tier with served_by: broker, or let the consumer publish to its tiers"),
    )
}

fn stream(channel: &Channel) -> Option<Diagnostic> {
    let written =
        channel.setting("rabbitmq", "queue_type").filter(|_| queue_type(channel) == Some("stream"))?;
    Some(
        Diagnostic::warning(
            codes::STREAM,
            format!("letters of `{}` can be looked at and not redriven", channel.name.value),
        )
        .at(written.span.clone(), "nothing can be taken out of a stream")
        .help("for runs: queue_type quorum or classic; docs/rabbitmq.md has the way round"),
    )
}

/// The written queue type.
pub(super) fn queue_type(channel: &Channel) -> Option<&str> {
    match channel.setting("rabbitmq", "queue_type") {
        Some(At { value: Setting::Text(text), .. }) => Some(text),
        _ => None,
    }
}

fn url(broker: &BrokerDecl) -> Vec<Diagnostic> {
    let text = &broker.url.value;
    if text.contains("${") {
        return Vec::new();
    }
    match Address::parse(text) {
        Err(why) => vec![
            Diagnostic::error(
                codes::URL,
                format!("the url of `{}` is not one for RabbitMQ: {why}", broker.name.value),
            )
            .at(broker.url.span.clone(), "cannot be read")
            .help("write amqp://HOST:PORT/VHOST; a / in the name of a virtual host is %2F"),
        ],
        Ok(address) if address.vhost.is_empty() => vec![
            Diagnostic::warning(
                codes::VHOST_EMPTY,
                format!("the url of `{}` names the virtual host \"\"", broker.name.value),
            )
            .at(broker.url.span.clone(), "ends in a slash with nothing behind it")
            .help("for the usual virtual host `/` take the slash away, or write /%2F"),
        ],
        Ok(_) => Vec::new(),
    }
}

fn queue_name(placed: &Placed) -> Option<Diagnostic> {
    let name = &placed.name;
    if name.len() > NAME_MAX {
        return Some(
            Diagnostic::error(codes::NAME_LENGTH, format!("the name of the {} is too long", placed.part))
                .at(placed.span.clone(), placed.label("too long"))
                .help(format!(
                    "RabbitMQ takes {NAME_MAX} bytes; this has {} in {} characters",
                    name.len(),
                    name.chars().count()
                )),
        );
    }
    if name.starts_with("amq.") {
        let server_named = placed.part == "source";
        return Some(
            Diagnostic::error(codes::NAME_RESERVED, format!("`{name}` is a name of RabbitMQ's own"))
                .at(placed.span.clone(), placed.label("reserved"))
                .help(if server_named {
                    "a queue that the server named goes with its connection: give the source a name of its own"
                } else {
                    "names that begin with amq. are refused by the server: choose another"
                }),
        );
    }
    let strange = naming::strangers(name, |c| !c.is_control())?;
    Some(
        Diagnostic::error(
            codes::NAME_LETTERS,
            format!("the name of the {} holds a control character: {strange}", placed.part),
        )
        .at(placed.span.clone(), placed.label("cannot be typed")),
    )
}

/// A delay as the time to live of a queue, in milliseconds (R31); `None` if it does not fit.
#[cfg(any(feature = "rabbitmq", test))]
pub fn ttl(delay: Duration) -> Option<u32> {
    u32::try_from(delay.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn y03_a_tier_of_five_seconds_is_a_time_to_live_of_5000() {
        assert_eq!(ttl(Duration::from_secs(5)), Some(5_000));
    }

    #[test]
    fn r31_times_to_live_are_unsigned_32_bits() {
        let day = Duration::from_secs(86_400);
        for (delay, millis) in [
            (Duration::from_millis(128), 128),
            (Duration::from_millis(130), 130),
            (day * 30, 2_592_000_000),
            (day * 49, 4_233_600_000),
        ] {
            assert_eq!(ttl(delay), Some(millis));
        }
        assert_eq!(ttl(day * 50), None);
    }
}
