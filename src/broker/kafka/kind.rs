//! Kafka before anything is connected: names, abilities, and the rules that only Kafka asks for.

use std::time::Duration;

use super::super::naming::{self, Placed};
use super::super::options::{self, Refused};
use super::super::{
    Atomicity, BulkMoves, Capabilities, Dedup, Delay, Kind, Limits, Names, OpenContext, Opening, Order, Peek,
};
use crate::clock;
use crate::diagnostic::Diagnostic;
use crate::topology::{At, BrokerDecl, Channel, EventIdRule, ServedBy, Setting, Topology, codes, nearest};

/// Longest name of a topic: the file name of its log must fit.
const NAME_MAX: usize = 249;
/// The consumer's usual longest silence (`max.poll.interval.ms`).
const POLL_INTERVAL: Duration = Duration::from_secs(300);

/// See the file's head.
pub struct KafkaKind;

impl Kind for KafkaKind {
    fn schemes(&self) -> &'static [&'static str] {
        &["kafka"]
    }

    fn title(&self) -> &'static str {
        "Kafka"
    }

    fn block(&self) -> Option<&'static str> {
        Some("kafka")
    }

    fn capabilities(&self, _channel: &Channel) -> Capabilities {
        Capabilities {
            delay: Delay::Reader,
            peek: Peek::Pure,
            relocate: Atomicity::Transaction,
            ordered_batch: true,
            bulk: BulkMoves::No("it has no move of its own"),
            // A transaction costs milliseconds whatever it holds; of so many of 1 KiB a partition's share of six still
            // goes in one request. Three are in memory: on its way, ready, and being read and made ready
            // (docs/decisions/batches-ahead.md).
            batch: 2_000,
            claims: 6_000,
            group_lock: None,
            order: Order::PerPartition,
            dedup: Dedup::None,
            limits: Limits::default(),
            deletes: false,
            trims: true,
            deleted_returns: false,
            keeps_times: true,
            sees_later: true,
            fan_out: true,
            enforces_retention: true,
            served_by: &[ServedBy::Relay, ServedBy::Consumer],
        }
    }

    fn names(&self, channel: &Channel) -> Names {
        naming::lowered(channel, |base, suffix| format!("{base}.{suffix}"))
    }

    fn check(&self, _topology: &Topology, broker: &BrokerDecl, channels: &[&Channel]) -> Vec<Diagnostic> {
        let mut found: Vec<Diagnostic> = servers(broker).into_iter().collect();
        found.extend(options::check(broker, "Kafka", OPTIONS, REFUSED));
        found.extend(option_values(broker));
        let mut names: Vec<Placed> = Vec::new();
        for channel in channels {
            for name in naming::placed(channel, &self.names(channel)) {
                found.extend(topic_name(&name));
                names.push(name);
            }
            if let EventIdRule::Property(property) = &channel.event_id.value {
                found.push(
                    Diagnostic::error(
                        codes::PROPERTY,
                        format!("Kafka has no property `{property}` for an event id"),
                    )
                    .at(channel.event_id.span.clone(), "not a property")
                    .help("name a header or a place in the body: event_id: {header: NAME}"),
                );
            }
            found.extend(config(channel));
            found.extend(poll_interval(channel));
        }
        found.extend(collisions(&names));
        found
    }

    fn options(&self) -> &'static [&'static str] {
        OPTIONS
    }

    fn place(&self, broker: &BrokerDecl) -> String {
        broker.url.trim_start_matches("kafka://").split(',').collect::<Vec<_>>().join(", ")
    }

    #[cfg(feature = "kafka")]
    fn open<'a>(&self, broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
        super::roles::open(broker, context)
    }

    #[cfg(not(feature = "kafka"))]
    fn open<'a>(&self, _broker: &'a BrokerDecl, _context: &'a OpenContext) -> Opening<'a> {
        use super::super::{BrokerError, ErrorKind};
        Box::pin(async {
            Err(BrokerError::new(
                ErrorKind::Unsupported,
                "connect to Kafka",
                "this build has no Kafka client",
            )
            .hint("install a build with the feature kafka"))
        })
    }
}

/// Client settings that may be set: addresses, encryption, login, time limits. Everything else is decided by
/// what a redrive has to guarantee.
const OPTIONS: &[&str] = &[
    "broker.address.family",
    "client.id",
    "client.rack",
    "compression.codec",
    "compression.type",
    "connections.max.idle.ms",
    "enable.ssl.certificate.verification",
    "message.max.bytes",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.curves.list",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.sigalgs.list",
];

/// Settings that the client knows and that are refused, with why.
const REFUSED: &[Refused] = &[
    ("acks", "a copy counts only when all replicas have it"),
    ("request.required.acks", "a copy counts only when all replicas have it"),
    ("enable.idempotence", "without it a resent copy is a duplicate"),
    ("enable.gapless.guarantee", "redrive decides when a producer stops"),
    ("isolation.level", "only committed letters are read"),
    ("enable.auto.commit", "looking commits nothing"),
    ("enable.auto.offset.store", "looking commits nothing"),
    ("auto.offset.reset", "a run reads the offsets of its snapshot, no others"),
    ("group.id", "looking joins no group"),
    ("partitioner", "a letter goes to the partition that its key had"),
    ("transactional.id", "the id fences the run before; redrive makes it"),
    ("transaction.timeout.ms", "an open transaction holds back readers of the target"),
    ("allow.auto.create.topics", "looking at a topic must not create it"),
    ("bootstrap.servers", "the addresses stand in url"),
    ("metadata.broker.list", "the addresses stand in url"),
    ("plugin.library.paths", "it loads a library into redrive"),
    ("ssl.engine.location", "it loads a library into redrive"),
    ("ssl.engine.id", "it loads a library into redrive"),
    ("ssl.providers", "it loads a library into redrive"),
    ("sasl.kerberos.kinit.cmd", "it runs a program"),
];

/// Settings with a closed list of values.
const VALUES: &[(&str, &[&str])] = &[
    ("security.protocol", &["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    ("sasl.mechanism", &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
    ("sasl.mechanisms", &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
];

fn option_values(broker: &BrokerDecl) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, value) in &broker.options {
        if let Some((_, values)) = VALUES.iter().find(|(known, _)| *known == name.value)
            && let Some(text) = value.expose()
            && !values.iter().any(|known| known.eq_ignore_ascii_case(text))
        {
            found.push(
                Diagnostic::error(
                    codes::OPTION_VALUE,
                    format!("`{}` has a value that it does not know", name.value),
                )
                .at(value.span.clone(), "not one of its values")
                .help(format!("values: {}", values.join(", "))),
            );
        }
        let twice = match name.value.as_str() {
            "sasl.username" => broker.username.as_ref().map(|at| ("username", at)),
            "sasl.password" => broker.password.as_ref().map(|at| ("password", at)),
            _ => None,
        };
        if let Some((key, other)) = twice {
            found.push(
                Diagnostic::error(codes::LOGIN_TWICE, format!("the {key} is given twice"))
                    .at(name.span.clone(), "here")
                    .near(other.span.clone(), format!("and as {key}:"))
                    .help(format!("keep {key}:")),
            );
        }
    }
    found
}

fn servers(broker: &BrokerDecl) -> Option<Diagnostic> {
    let url = &broker.url.value;
    if url.contains("${") {
        return None;
    }
    let wrong = |what: String| {
        Some(
            Diagnostic::error(
                codes::URL,
                format!("the url of `{}` is not one for Kafka: {what}", broker.name.value),
            )
            .at(broker.url.span.clone(), "cannot be read")
            .help("write kafka://HOST:PORT, more hosts with commas: kafka://k1:9092,k2:9092"),
        )
    };
    let Some(hosts) = url.strip_prefix("kafka://") else {
        return wrong("it does not begin with `kafka://`".to_owned());
    };
    if hosts.contains(['/', '?', '#', '@', ' ']) {
        return wrong("it holds more than hosts and ports".to_owned());
    }
    for host in hosts.split(',') {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !host.ends_with(']') => (name, Some(port)),
            _ => (host, None),
        };
        if name.is_empty() {
            return wrong("a host is missing".to_owned());
        }
        if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
            return wrong(format!("the port of `{name}` is not a number from 1 to 65535"));
        }
    }
    None
}

fn topic_name(placed: &Placed) -> Option<Diagnostic> {
    let name = &placed.name;
    let error = |code, title: String, label: &str| {
        Diagnostic::error(code, title).at(placed.span.clone(), placed.label(label))
    };
    let strange = naming::strangers(name, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if let Some(strange) = strange {
        return Some(
            error(
                codes::NAME_LETTERS,
                format!("Kafka takes no topic of this name: {strange}"),
                "refused by Kafka",
            )
            .help("letters of topics: A-Z a-z 0-9 . _ -"),
        );
    }
    if matches!(name.as_str(), "." | "..") {
        return Some(error(
            codes::NAME_LETTERS,
            format!("`{name}` is no name of a topic"),
            "refused by Kafka",
        ));
    }
    if name.len() > NAME_MAX {
        return Some(
            error(codes::NAME_LENGTH, format!("the name of the {} is too long", placed.part), "too long")
                .help(format!("Kafka takes {NAME_MAX} characters; this has {}", name.len())),
        );
    }
    if name.starts_with("__") {
        return Some(
            error(codes::NAME_RESERVED, format!("`{name}` is a name of Kafka's own"), "reserved")
                .help("topics that begin with __ are Kafka's"),
        );
    }
    if name.contains('.') && name.contains('_') && placed.written {
        return Some(
            Diagnostic::warning(codes::NAME_MIXED, format!("`{name}` has both `.` and `_`"))
                .at(placed.span.clone(), "both are one character in Kafka's metrics")
                .help("a topic that differs only in these cannot be created beside it"),
        );
    }
    None
}

/// N03: metrics map `.` and `_` to one character, so that the broker refuses the second of two such topics.
fn collisions(names: &[Placed]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let metric = |name: &str| name.replace('.', "_");
    for (index, placed) in names.iter().enumerate() {
        let other = names[..index]
            .iter()
            .find(|other| other.name != placed.name && metric(&other.name) == metric(&placed.name));
        if let Some(other) = other {
            found.push(
                Diagnostic::error(
                    codes::NAME_COLLIDES,
                    format!("`{}` and `{}` differ only in `.` and `_`", placed.name, other.name),
                )
                .at(placed.span.clone(), placed.label("Kafka refuses the second of the two"))
                .near(other.span.clone(), other.label("the other"))
                .help("rename one of the two"),
            );
        }
    }
    found
}

/// Topic settings that redrive decides, or that lose letters.
const CONFIG_REFUSED: &[Refused] = &[
    ("cleanup.policy", "compaction would eat letters of one key"),
    ("message.timestamp.type", "the wait of a tier counts from the time that the broker stamps"),
    ("retention.bytes", "it takes letters by size, however young they are"),
    ("unclean.leader.election.enable", "it may lose letters that were confirmed"),
];

const CONFIG: &[&str] = &[
    "compression.type",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "local.retention.ms",
    "max.message.bytes",
    "min.insync.replicas",
    "preallocate",
    "remote.storage.enable",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
];

fn config(channel: &Channel) -> Vec<Diagnostic> {
    let Some(At { value: Setting::Map(entries), .. }) = channel.setting("kafka", "config") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, value) in entries {
        if let Some((_, why)) = CONFIG_REFUSED.iter().find(|(known, _)| *known == name.value) {
            found.push(
                Diagnostic::error(
                    codes::OPTION_REFUSED,
                    format!("the topic setting `{}` is not taken", name.value),
                )
                .at(name.span.clone(), *why)
                .help("take it away"),
            );
        } else if !CONFIG.contains(&name.value.as_str()) {
            let problem =
                Diagnostic::error(codes::OPTION_UNKNOWN, format!("unknown topic setting `{}`", name.value))
                    .at(name.span.clone(), "not a setting of a topic here");
            found.push(match nearest(&name.value, CONFIG.iter().copied()) {
                Some(near) => problem.help(format!("did you mean {near}?")),
                None => problem.help(format!("settings: {}", CONFIG.join(", "))),
            });
        } else if name.value == "retention.ms" {
            found.extend(tier_retention(channel, value));
        }
    }
    found
}

/// Y14: what is deleted before its wait is over never comes back.
fn tier_retention(channel: &Channel, value: &At<String>) -> Option<Diagnostic> {
    let longest = channel.tiers.iter().max_by_key(|tier| tier.delay.value)?;
    let Ok(millis) = value.parse::<i64>() else {
        return Some(
            Diagnostic::error(codes::OPTION_VALUE, "`retention.ms` is not a number of milliseconds")
                .at(value.span.clone(), "cannot be read"),
        );
    };
    let kept = Duration::from_millis(u64::try_from(millis).ok()?);
    (kept <= longest.delay.value).then(|| {
        Diagnostic::error(codes::RETENTION_SHORT, "a tier's messages would be deleted before their retry")
            .at(value.span.clone(), format!("kept {}", clock::exact(kept)))
            .near(longest.delay.span.clone(), format!("waits {}", clock::exact(longest.delay.value)))
            .help("keep them longer than the longest tier waits, and than a relay may be down")
    })
}

/// Y15: a consumer that waits a tier out by itself is expelled if it is silent for too long.
fn poll_interval(channel: &Channel) -> Option<Diagnostic> {
    if channel.served_by.as_ref().map(|by| by.value) != Some(ServedBy::Consumer) {
        return None;
    }
    let (silence, place) = match channel.setting("kafka", "max_poll_interval") {
        Some(At { value: Setting::Duration(silence), span }) => (*silence, Some(span.clone())),
        _ => (POLL_INTERVAL, None),
    };
    let tier = channel.tiers.iter().find(|tier| tier.delay.value >= silence)?;
    let (delay, silence) = (clock::exact(tier.delay.value), clock::exact(silence));
    let mut problem = Diagnostic::warning(
        codes::POLL_INTERVAL,
        format!("a consumer that waits {delay} in one poll is expelled after {silence}"),
    )
    .at(tier.delay.span.clone(), format!("longer than max.poll.interval.ms allows ({silence})"))
    .help("pause the partition and go on polling while it waits, or let redrive relay serve the tiers");
    if let Some(span) = place {
        problem = problem.near(span, "declared here");
    }
    Some(problem)
}
