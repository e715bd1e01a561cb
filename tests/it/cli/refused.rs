//! Letters that must not be sent as they are, at the built program: named before the prompt with the way round,
//! and left where they are by a run.

use bytes::Bytes;
use redrive::letter::{Message, Value};

use super::looking::{bury, empty};

const STAMPED: &str = "O:36:\"Symfony\\Component\\Messenger\\Envelope\":1:{x\0Symfony\\Component\\Messenger\\Stamp\\\
                       SentToFailureTransportStamp\0originalReceiverName\";s:5:\"async\";}";

fn message(key: &str, body: Option<&str>, headers: &[(&str, &str)]) -> Message {
    let mut made = Message {
        key: (!key.is_empty()).then(|| Bytes::copy_from_slice(key.as_bytes())),
        body: body.map(|body| Bytes::copy_from_slice(body.as_bytes())),
        ..Message::default()
    };
    for (name, value) in headers {
        made.headers.push(*name, Value::from_text(*value));
    }
    made
}

#[test]
fn k15_what_would_be_lost_is_named_with_the_way_round_and_stays() {
    let env = empty();
    let pointer = [
        ("__dlq.errors.topic", "orders"),
        ("__dlq.errors.partition", "2"),
        ("__dlq.errors.offset", "1041"),
        ("__dlq.errors.group", "sg1"),
    ];
    let letters = [
        message("a", Some(STAMPED), &[]),
        message("b", Some("x"), &[("bunnyBus", "2.2.0"), ("retryCount", "3")]),
        message("", None, &pointer),
        message("d", Some("{}"), &[("tenant", "acme")]),
    ];
    bury(&env, "2026-11-30T02:00:00Z", &letters);
    let dry = env.line("run orders --limit 10 --dry-run --ledger l.db").ok().out;
    // Long reasons are folded behind their count.
    assert!(dry.lines().all(|line| line.chars().count() <= 100), "{dry}");
    assert!(dry.contains("\n                 which takes the stamp off\n"), "{dry}");
    let dry = dry.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "send 1 of 4 letters",
        "3 must not be sent as they are",
        "messenger:failed:retry in the application, which takes the stamp off",
        "publish it with BunnyBus itself under its route key",
        "it only points at orders p2 offset 1041",
        "read what it points at",
    ] {
        assert!(dry.contains(words), "{words} is missing in\n{dry}");
    }
    let json = env.line("run orders --limit 10 --dry-run -o json --ledger l.db").ok().json();
    assert_eq!(json["kept"][0]["reasons"].as_array().unwrap().len(), 3, "{json}");
    let _ = env.line("run orders --limit 10 --yes --reason test --ledger l.db").exits(11);
    let left = env.line("inspect orders --letters -o json").ok().json();
    assert_eq!(left["letters"].as_array().map(Vec::len), Some(3), "{left}");
}
