//! Codes on secrets and references.

use super::{Page, Within};

const LOCAL: &str = "sqlite:redrive.db";

pub(super) static PAGES: &[Page] = &[
    Page {
        code: "RD0120",
        title: "a url holds a password",
        why: "The file is read by many and kept in a history. The password goes into a variable or a file, and should be changed: it was written down. A url that comes whole from a variable may hold its login.",
        wrong: "url: \"amqp://ops:hunter2@mq.internal/payments\"",
        right: "url: \"amqp://mq.internal/payments\"\nusername: ops\npassword: \"${MQ_PASSWORD}\"",
        within: Within::Broker,
    },
    Page {
        code: "RD0121",
        title: "a secret is written out",
        why: "Passwords, keys and tokens come from a variable or a file, so that the topology can be shown and kept. Change the secret: it is in this file's history.",
        wrong: "password: hunter2",
        right: "password: \"${file:secret}\"",
        within: Within::Broker,
    },
    Page {
        code: "RD0122",
        title: "a variable is not set",
        why: "Under brokers: this is a warning, for checking needs no secrets; connecting does. Elsewhere it is an error: the topology would not be what it says. ${NAME:-value} has a default.",
        wrong: "owner: \"${UNSET}\"",
        right: "owner: \"${UNSET:-team-orders}\"",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0123",
        title: "a variable is set to nothing",
        why: "An empty variable is mostly one that was to be set. It counts as not set, unless a default is written, which may be empty: ${NAME:-}.",
        wrong: "owner: \"team${EMPTY}\"",
        right: "owner: \"team${EMPTY:-}\"",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0124",
        title: "a secret file cannot be read",
        why: "The path starts at the folder of the topology file. Under brokers: this is a warning, for checking needs no secrets; connecting does.",
        wrong: "password: \"${file:no-such-file}\"",
        right: "password: \"${file:secret}\"",
        within: Within::Broker,
    },
    Page {
        code: "RD0125",
        title: "every user can read a secret file",
        why: "A file that holds a secret should be for its owner, at most for a group: chmod 600.",
        wrong: "password: \"${file:open-secret}\"",
        right: "password: \"${file:secret}\"",
        within: Within::Broker,
    },
    Page {
        code: "RD0126",
        title: "a reference that cannot be followed",
        why: "References are ${NAME}, ${NAME:-default} and ${file:PATH}; names have letters, digits and _. A literal ${ is written $${.",
        wrong: "owner: \"${team orders}\"",
        right: "owner: \"$${team orders}\"",
        within: Within::Channel(LOCAL),
    },
    Page {
        code: "RD0127",
        title: "a login is given twice",
        why: "A user or password stands in the url that a variable holds, or in options:, and beside it again. Which of the two counts would be a guess.",
        wrong: "url: \"${MQ_URL}\"\npassword: \"${MQ_PASSWORD}\"",
        right: "url: \"${MQ_URL}\"",
        within: Within::Broker,
    },
];
