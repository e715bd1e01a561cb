//! The key table: every key that a topology may hold, with its kind, default and meaning. What is not here
//! does not exist.
//!
//! The reader, the JSON Schema and `docs/topology.md` all follow this one table.

use std::time::Duration;

/// One key of a map.
#[derive(Debug)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Must it be there?
    pub required: bool,
    /// What holds without it, in words.
    pub default: &'static str,
    /// What it is for.
    pub help: &'static str,
}

/// What a key takes.
#[derive(Debug)]
pub enum Kind {
    /// The version of the format.
    Version,
    /// Any text that is not empty.
    Text,
    /// A url; never with a password in it.
    Url,
    /// Text that may be secret: only as `${…}` when `literal` is false.
    Secret {
        /// May it be written out?
        literal: bool,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Count {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A duration with a unit.
    Duration {
        /// Shortest.
        min: Duration,
    },
    /// `50/s`, `600/m`, `unlimited`.
    Rate,
    /// A word, or a map of one key: `key`, `{header: NAME}`.
    Choice(&'static [Variant]),
    /// A map with these keys.
    Table(&'static [Key]),
    /// A map of names, each with these keys.
    Named {
        /// What a name names: `channel`.
        what: &'static str,
        /// Keys of each.
        keys: &'static [Key],
    },
    /// A list of maps with these keys.
    List(&'static [Key]),
    /// A list of texts.
    Texts,
    /// A place in a letter: `header NAME`, `body /POINTER`, or a choice of the same; with how the value is
    /// written there, if that has to be said: `header NAME (int32)`.
    Place(&'static [&'static str]),
    /// A map of names to texts.
    TextMap,
    /// A map of names to texts that may be secret.
    Options,
}

/// One form of a choice.
#[derive(Debug)]
pub struct Variant {
    /// The word, or the one key.
    pub word: &'static str,
    /// Does it take a value (`{word: VALUE}`)?
    pub takes: Takes,
}

/// What a form of a choice takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing: the word alone.
    Nothing,
    /// A text.
    Text,
    /// A JSON pointer: `/order/id`.
    Pointer,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key { name, kind, required: false, default, help }
}

const fn required(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, required: true, default: "", help }
}

const fn word(word: &'static str) -> Variant {
    Variant { word, takes: Takes::Nothing }
}

const fn with(word: &'static str, takes: Takes) -> Variant {
    Variant { word, takes }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MOST: i64 = 9_007_199_254_740_991;

/// Keys of the file.
pub static FILE: &[Key] = &[
    required("version", Kind::Version, "version of this format; always 1"),
    key(
        "default_broker",
        Kind::Text,
        "the only broker, if there is one",
        "broker of channels that name none",
    ),
    required(
        "brokers",
        Kind::Named { what: "broker", keys: BROKER },
        "brokers by the name that channels and `--broker` use",
    ),
    required("channels", Kind::Named { what: "channel", keys: CHANNEL }, "channels by name"),
    key(
        "defaults",
        Kind::Table(DEFAULTS),
        "none",
        "what holds for every channel that does not say otherwise",
    ),
];

/// Keys of a broker.
pub static BROKER: &[Key] = &[
    required(
        "url",
        Kind::Url,
        "scheme and address: `sqlite:FILE`, `kafka://HOST:PORT,…`, `amqp://HOST/VHOST`, `sqs://REGION`",
    ),
    key("username", Kind::Secret { literal: true }, "none", "login name"),
    key("password", Kind::Secret { literal: false }, "none", "password, as `${VARIABLE}` or `${file:PATH}`"),
    key(
        "account",
        Kind::Text,
        "the account of the credentials",
        "AWS account that owns the queues; quoted, because of its leading zeros",
    ),
    key("protected", Kind::Bool, "false", "changed only by a command that names it (`--broker NAME`)"),
    key("options", Kind::Options, "none", "the client's own settings, those on the broker's list only"),
];

/// Keys of a channel.
pub static CHANNEL: &[Key] = &[
    key("broker", Kind::Text, "default_broker", "the broker it goes to"),
    key("owner", Kind::Text, "none", "who is called"),
    required("source", Kind::Text, "queue or topic that the application's consumer reads"),
    key("create_source", Kind::Bool, "false", "may `apply` create the source? Else it is only observed"),
    key(
        "consumer",
        Kind::Text,
        "unknown",
        "consumer (on Kafka its group) that reads the source: for lag, and for who else would see a redrive",
    ),
    key(
        "return_to",
        Kind::Choice(RETURN_TO),
        "source (must be written on Kafka)",
        "where tiers and redrives send",
    ),
    key("shared", Kind::Bool, "false", "others read the target too, and that is meant"),
    key("event_id", Kind::Choice(EVENT_ID), "none", "where the business identity of an event stands"),
    key("group", Kind::Choice(GROUP), "none", "where the ordering key stands"),
    key("retry", Kind::Table(RETRY), "no tiers", "the waits before another try"),
    key("dead_letter", Kind::Table(DEAD_LETTER), "the channel's name with `.dlq`", "the dead-letter queue"),
    key("redrive", Kind::Table(REDRIVE), "as each key says", "defaults of runs"),
    key(
        "failure",
        Kind::Table(FAILURE),
        "known dialects only",
        "how a home-made consumer writes down why a message died",
    ),
    key("kafka", Kind::Table(KAFKA), "none", "what only Kafka needs"),
    key("rabbitmq", Kind::Table(RABBITMQ), "none", "what only RabbitMQ needs"),
    key("sqs", Kind::Table(SQS), "none", "what only SQS needs"),
];

/// Keys of `defaults`: those of a channel that several may share.
pub static DEFAULTS: &[Key] = &[
    key("owner", Kind::Text, "none", "who is called"),
    key("event_id", Kind::Choice(EVENT_ID), "none", "where the business identity of an event stands"),
    key("group", Kind::Choice(GROUP), "none", "where the ordering key stands"),
    key("retry", Kind::Table(RETRY), "no tiers", "the waits before another try"),
    key("dead_letter", Kind::Table(DEFAULT_DEAD_LETTER), "none", "the dead-letter queues"),
    key("redrive", Kind::Table(REDRIVE), "as each key says", "defaults of runs"),
    key(
        "failure",
        Kind::Table(FAILURE),
        "known dialects only",
        "how home-made consumers write down why a message died",
    ),
    key("kafka", Kind::Table(KAFKA), "none", "what only Kafka needs"),
    key("rabbitmq", Kind::Table(RABBITMQ), "none", "what only RabbitMQ needs"),
    key("sqs", Kind::Table(SQS), "none", "what only SQS needs"),
];

static RETURN_TO: &[Variant] = &[word("source"), with("name", Takes::Text)];

static EVENT_ID: &[Variant] =
    &[word("none"), with("header", Takes::Text), with("property", Takes::Text), with("body", Takes::Pointer)];

static GROUP: &[Variant] =
    &[word("none"), word("key"), with("header", Takes::Text), with("body", Takes::Pointer)];

static RETRY: &[Key] = &[
    key(
        "served_by",
        Kind::Word(&["relay", "broker", "consumer"]),
        "what the broker is best at",
        "who carries a message back when its wait is over",
    ),
    key("rate", Kind::Rate, "unlimited", "most messages a second that the relay carries"),
    key("tiers", Kind::List(TIER), "none", "the waits, shortest first; attempts = 1 + tiers"),
];

static TIER: &[Key] = &[
    required("delay", Kind::Duration { min: MILLISECOND }, "how long a message waits"),
    key(
        "name",
        Kind::Text,
        "lowered from channel and delay: `orders.retry-5s`",
        "the queue's literal name on the broker",
    ),
];

static DEAD_LETTER: &[Key] = &[
    key(
        "name",
        Kind::Text,
        "lowered from the channel: `orders.dlq`",
        "the queue's literal name on the broker",
    ),
    key("retention", Kind::Duration { min: SECOND }, "the broker's own", "how long letters are kept"),
    key("alert", Kind::Table(ALERT), "none", "thresholds of `redrive alert`"),
];

static DEFAULT_DEAD_LETTER: &[Key] = &[
    key("retention", Kind::Duration { min: SECOND }, "the broker's own", "how long letters are kept"),
    key("alert", Kind::Table(ALERT), "none", "thresholds of `redrive alert`"),
];

static ALERT: &[Key] = &[
    key("depth", Kind::Count { min: 1, max: MOST }, "none", "alert from this many letters"),
    key("age", Kind::Duration { min: SECOND }, "none", "alert from this age of the oldest letter"),
];

static REDRIVE: &[Key] = &[
    key("rate", Kind::Rate, "50/s", "letters a second of a run"),
    key("max_redrives", Kind::Count { min: 1, max: 1_000 }, "3", "a letter redriven this often stays, named"),
    key(
        "dedup_window",
        Kind::Duration { min: SECOND },
        "none",
        "a letter older than this stays: consumers may have forgotten its id",
    ),
];

/// The places of a failure convention.
pub static PLACE: &[Variant] = &[with("header", Takes::Text), with("body", Takes::Pointer)];

/// How a number of attempts is written.
static NUMBER_FORMS: &[&str] = &["text", "int32"];

/// How a time is written.
static TIME_FORMS: &[&str] = &["rfc3339", "ms", "s"];

static FAILURE: &[Key] = &[
    key("error", Kind::Place(&[]), "none", "class or code of the error"),
    key("message", Kind::Place(&[]), "none", "message of the error"),
    key("stack", Kind::Place(&[]), "none", "stack trace"),
    key("origin", Kind::Place(&[]), "none", "queue or topic that it died in"),
    key(
        "attempts",
        Kind::Place(NUMBER_FORMS),
        "none",
        "how many tries failed, and how that is written: `header x-n (int32)`, or `(int32|text)` where both occur",
    ),
    key(
        "attempts_as",
        Kind::Word(NUMBER_FORMS),
        "text",
        "the same for `attempts` in a map: decimal text, or four bytes, the highest first",
    ),
    key(
        "at",
        Kind::Place(TIME_FORMS),
        "none",
        "when it died, and how that is written: `header x-t (ms)`, or `(ms|s|rfc3339)` where several occur",
    ),
    key(
        "at_as",
        Kind::Word(TIME_FORMS),
        "rfc3339",
        "the same for `at` in a map: RFC 3339, or milliseconds or seconds since 1970",
    ),
    key("strip", Kind::Texts, "none", "headers of this convention that stay behind in a redrive"),
    key(
        "names",
        Kind::TextMap,
        "none",
        "a known writer's headers under names of your own: `acme-topic: kafka_dlt-original-topic`",
    ),
    key(
        "own_code",
        Kind::Texts,
        "none",
        "beginnings of your own packages, for the first own frame of a stack",
    ),
];

static KAFKA: &[Key] = &[
    key(
        "partitions",
        Kind::Count { min: 1, max: 100_000 },
        "as the source",
        "partitions of topics that redrive makes",
    ),
    key(
        "replication_factor",
        Kind::Count { min: 1, max: 100 },
        "the broker's own",
        "copies of topics that redrive makes",
    ),
    key(
        "max_poll_interval",
        Kind::Duration { min: MILLISECOND },
        "5m",
        "longest silence that the consumer's group allows, where it serves tiers itself",
    ),
    key(
        "place_by",
        Kind::Word(&["key", "origin"]),
        "key",
        "the partition of a copy: by key as the Java client has it, or that where the message first lay",
    ),
    key(
        "lanes",
        Kind::Count { min: 1, max: 16 },
        "1",
        "transactions of a run that go side by side, each with a producer of its own",
    ),
    key("config", Kind::TextMap, "none", "settings of topics that redrive makes, by Kafka's names"),
];

/// Keys of `rabbitmq` in a channel.
pub static RABBITMQ: &[Key] = &[
    key(
        "queue_type",
        Kind::Word(&["quorum", "classic", "stream"]),
        "quorum",
        "type of queues that redrive makes; `stream` is for the dead-letter queue only",
    ),
    key(
        "rejected_to",
        Kind::Word(&["dead_letter", "tier"]),
        "dead_letter",
        "where a message goes that the consumer rejects; `tier` wants exactly one tier, served by the broker",
    ),
    key(
        "exchange",
        Kind::Text,
        "none",
        "exchange that runs send to, with each letter's first key, instead of the queue; whatever is bound there gets it",
    ),
];

static SQS: &[Key] = &[
    key("fifo", Kind::Bool, "true if `source` ends in .fifo", "FIFO queues"),
    key(
        "visibility_timeout",
        Kind::Duration { min: Duration::ZERO },
        "30s",
        "how long a received message is out of view, for queues that redrive makes",
    ),
    key(
        "max_receive_count",
        Kind::Count { min: 1, max: 1_000 },
        "not set",
        "receives after which SQS itself dead-letters from the source",
    ),
    key(
        "handler_time",
        Kind::Duration { min: Duration::ZERO },
        "not set",
        "the longest that the consumer handles a message: `check` compares `visibility_timeout` with it",
    ),
    key("tags", Kind::TextMap, "none", "tags of queues that redrive makes"),
];
