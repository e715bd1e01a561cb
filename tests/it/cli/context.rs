//! What a letter's own words come to on the screen: several dialects, several trace ids, pointers.

use bytes::Bytes;
use redrive::letter::{Message, Value};

use super::TestEnv;
use super::looking::{bury, empty};

const DIED_AT: &str = "2026-11-26T09:00:00Z";
const W3C: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const XRAY: &str = "1-5759e988-bd862e3fe1be46a994272793";

fn with(headers: &[(&str, &str)], body: &str) -> TestEnv {
    let env = empty();
    let mut message = Message {
        key: Some(Bytes::from_static(b"C-1")),
        body: Some(Bytes::copy_from_slice(body.as_bytes())),
        ..Message::default()
    };
    for (name, value) in headers {
        message.headers.push(*name, Value::from_text(*value));
    }
    bury(&env, DIED_AT, &[message]);
    env
}

#[test]
fn every_trace_id_of_a_letter_is_shown_and_found() {
    let w3c = format!("00-{W3C}-00f067aa0ba902b7-01");
    let xray = format!("Root={XRAY};Sampled=1");
    let env = with(&[("traceparent", w3c.as_str()), ("AWSTraceHeader", xray.as_str())], "{}");
    let shown = env.line("show orders m1").ok();
    assert!(shown.says(&format!("trace      {W3C}, {XRAY}")), "{shown}");
    for id in [W3C, XRAY] {
        let found = env.run(&["inspect", "orders", "--letters", "--where", &format!("trace = {id}")]).ok();
        assert!(found.says("1 of 1 shown"), "{found}");
    }
    let other = env.run(&["inspect", "orders", "--letters", "--where", "trace = 1-5759e988-0"]).ok();
    assert!(!other.says("1 of 1 shown"), "{other}");
}

#[test]
fn why_tells_what_each_dialect_said_and_what_was_ignored() {
    let headers = [
        ("kafka_dlt-exception-fqcn", "com.example.A"),
        ("kafka_dlt-original-topic", "orders"),
        ("__connect.errors.topic", "elsewhere"),
        ("__connect.errors.exception.class.name", "org.example.B"),
    ];
    let env = with(&headers, "{}");
    let shown = env.line("show orders m1 --why").ok();
    assert!(shown.says("spring-kafka said origin, deaths"), "{shown}");
    assert!(shown.says("kafka-connect ignored in origin: another place than the origin"), "{shown}");
    let plain = env.line("show orders m1").ok();
    assert!(!plain.says("ignored in"), "{plain}");
}

#[test]
fn a_pointer_is_told_before_a_run() {
    let pointer =
        r#"["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"b","s3Key":"k"}]"#;
    let env = with(&[], pointer);
    let dry = env.line("run orders --limit all --dry-run --ledger l.db").ok();
    assert!(dry.says("1 of them with a pointer only: the payload is elsewhere"), "{dry}");
    let plain = with(&[], "{}").line("run orders --limit all --dry-run --ledger l.db").ok();
    assert!(!plain.says("pointer"), "{plain}");
}

#[test]
fn a_count_of_tries_that_no_death_tells_is_shown() {
    let env = with(&[("x-err", "Late"), ("x-n", "4")], "{}");
    env.topology(&super::looking::TOPOLOGY.replace(
        "    event_id:",
        "    failure: {error: {header: x-err}, attempts: {header: x-n}}\n    event_id:",
    ));
    let shown = env.line("show orders m1").ok();
    assert!(shown.says("tried      4 times"), "{shown}");
}

/// Dapr drops an event that has expired: until then it goes, and the dry run says so; later it is refused.
#[test]
fn what_whoever_reads_it_would_drop_as_too_late_is_not_sent() {
    let event = |expiration: &str| {
        format!(
            r#"{{"specversion":"1.0","id":"e-1","topic":"shop","pubsubname":"p","expiration":"{expiration}"}}"#
        )
    };
    let dry_run = "run orders --limit all --dry-run --any-origin --ledger l.db";
    let ahead = with(&[], &event("2999-01-01T00:00:00Z"));
    let dry = ahead.line(dry_run).ok();
    assert!(dry.says("until 2999-01-01T00:00:00Z only, then lost: Dapr drops"), "{dry}");
    // Not yet past when it died, but now.
    let past = with(&[], &event("2026-11-27T00:00:00Z"));
    let dry = past.line(dry_run);
    assert!(dry.says("it expired at 2026-11-27T00:00:00Z: Dapr drops"), "{dry}");
    assert!(!dry.says("then lost"), "{dry}");
    let shown = past.line("show orders m1").ok();
    assert!(shown.says("it expired at 2026-11-27T00:00:00Z"), "{shown}");
}
