//! Codes on channels, tiers and brokers among themselves.

use super::{Page, Within};

const LOCAL: &str = "sqlite:redrive.db";

pub(super) static PAGES: &[Page] = &[
    Page {
        code: "RD0130",
        title: "no broker of this name is declared",
        why: "broker: and default_broker: name one of those under brokers:.",
        wrong: "broker: lokal",
        right: "broker: b",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0131",
        title: "a channel does not say its broker",
        why: "With more than one broker, and no default_broker:, nothing is guessed: each command has to name one with --broker.",
        wrong: "version: 1\nbrokers: {one: {url: \"sqlite:a.db\"}, two: {url: \"sqlite:b.db\"}}\nchannels: {orders: {source: orders}}",
        right: "version: 1\ndefault_broker: one\nbrokers: {one: {url: \"sqlite:a.db\"}, two: {url: \"sqlite:b.db\"}}\nchannels: {orders: {source: orders}}",
        within: Within::File,
    },
    Page {
        code: "RD0132",
        title: "no broker has this scheme",
        why: "The word before the colon of a url says what kind of broker it is: sqlite, kafka, amqp, amqps, sqs.",
        wrong: "url: \"rabbitmq://mq.internal\"",
        right: "url: \"amqp://mq.internal\"",
        within: Within::Broker,
    },
    Page {
        code: "RD0133",
        title: "the command line could not take this channel",
        why: "An argument of run that ends in .jsonl or holds a / is a manifest, one that begins with - a flag. The channel's name is yours; source: and name: keep the names on the broker.",
        wrong: "  billing/orders:\n    source: billing-orders",
        right: "  billing-orders:\n    source: billing-orders",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0140",
        title: "the tiers do not grow",
        why: "The first tier is the first retry. A shorter wait after a longer one is mostly a slip.",
        wrong: "retry: {tiers: [{delay: 10m}, {delay: 1m}]}",
        right: "retry: {tiers: [{delay: 1m}, {delay: 10m}]}",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0141",
        title: "two tiers wait the same",
        why: "60s and 1m are one delay; a tier's queue is named after its delay, so the two would be one queue.",
        wrong: "retry: {tiers: [{delay: 60s}, {delay: 1m}]}",
        right: "retry: {tiers: [{delay: 1m}, {delay: 10m}]}",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0142",
        title: "one name for two queues",
        why: "A queue that is source and dead-letter queue, or tier of two channels, loses messages or sends them round for ever. Only a source may be shared.",
        wrong: "dead_letter: {name: orders}",
        right: "dead_letter: {name: orders.dead}",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0143",
        title: "kept for less time than a retry takes",
        why: "What is deleted before its wait is over never comes back; dead letters that live shorter than one tier waits are gone before anybody has seen them. Times are compared, whatever their units.",
        wrong: "retry: {tiers: [{delay: 90m}]}\ndead_letter: {retention: 1h}",
        right: "retry: {tiers: [{delay: 90m}]}\ndead_letter: {retention: 14d}",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0144",
        title: "an alert that cannot fire",
        why: "Letters are gone before they are as old as the alert asks for.",
        wrong: "dead_letter: {retention: 1d, alert: {age: 2d}}",
        right: "dead_letter: {retention: 14d, alert: {age: 2d}}",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0145",
        title: "the reader of a shared source is not known",
        why: "A message sent back to this source reaches every group that reads it. With consumer: the others are known as strangers, and a run refuses; without, every group is one.",
        wrong: "return_to: source",
        right: "return_to: source\nconsumer: billing",
        within: Within::Channel("kafka://k1:9092"),
    },
    Page {
        code: "RD0146",
        title: "a setting that does nothing here",
        why: "It says how something is written that is not written so or not there: int32 is for headers, a body holds text; attempts_as and at_as need attempts and at.",
        wrong: "failure: {attempts: body /attempts (int32)}",
        right: "failure: {attempts: header x-attempts (int32)}",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0147",
        title: "letters that look like others",
        why: "A Cyrillic or Greek letter looks like a Latin one and is another name. The letters are shown with their code points.",
        wrong: "owner: team-\u{43e}rders",
        right: "owner: team-orders",
        within: Within::Channel(LOCAL),
    },
];
