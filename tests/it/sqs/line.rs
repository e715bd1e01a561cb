//! Without a topology file: one dead-letter queue and its source in a url on the command line.

use super::{Shop, body, endpoint_or_return};

/// Looked at, sent back, killed and resumed with nothing but the url, and every next command carries it.
fn by_a_url_alone(endpoint: &str, fifo: bool) {
    let mut shop = Shop::new(endpoint, endpoint, fifo);
    std::fs::remove_file(shop.env.path("redrive.yaml")).unwrap();
    shop.env.set("AWS_ENDPOINT_URL_SQS", endpoint);
    shop.bury(6);
    let url = format!("sqs://us-east-1/{}/{}", shop.dead, shop.source);
    let seen = shop.env.run(&["inspect", &shop.dead, "--broker", &url]).ok();
    assert!(seen.says("6 dead letters") && seen.says(&format!("--broker {url}")), "{seen}");
    // So slow that it pauses also on a busy machine.
    let line =
        ["run", &shop.dead, "--broker", &url, "--limit", "4", "--rate", "1/s", "--reason", "INC-1", "--yes"];
    let killed = shop.env.command(&line).env("REDRIVE_FAILPOINT", "pause:1").output().unwrap();
    assert!(killed.status.code().is_none(), "{}", String::from_utf8_lossy(&killed.stderr));
    let runs: serde_json::Value = serde_json::from_slice(&shop.env.line("runs list -o json").bytes).unwrap();
    let id = runs["runs"][0]["run"].as_str().unwrap();
    let resumed = shop.env.run(&["resume", id, "--broker", &url, "--rate", "50/s", "--yes"]).exits(0);
    assert!(resumed.says("4 of 4 moved"), "{resumed}");
    let arrived = shop.arrived().1;
    assert_eq!((arrived.len(), shop.app.depth(&shop.dead)), (4, 2), "{arrived:?}");
    assert!(arrived.contains_key(&body(0)), "{arrived:?}");
    let plan = shop.env.run(&["plan", "--broker", &url]).exits(2);
    assert!(plan.says("needs a topology file"), "{plan}");
    let other = shop.env.run(&["inspect", "orders", "--broker", &url]).exits(2);
    assert!(other.says(&shop.dead), "{other}");
}

#[test]
fn a_queue_is_redriven_by_a_url_alone_on_ministack() {
    by_a_url_alone(&endpoint_or_return!(MINISTACK), false);
}

#[test]
fn a_fifo_queue_is_redriven_by_a_url_alone_on_ministack() {
    by_a_url_alone(&endpoint_or_return!(MINISTACK), true);
}

/// What is no such url says how one is written, without what stood there.
#[test]
fn x05_a_url_that_says_too_little_or_a_login_is_refused_unrepeated() {
    let endpoint = "http://127.0.0.1:9";
    let shop = Shop::unmade(endpoint, endpoint, false);
    for url in ["sqs://us-east-1", "sqs://mira:hunter2@us-east-1/a-dlq/a", "sqs://us-east-1/a-dlq"] {
        let refused = shop.env.run(&["inspect", "a-dlq", "--broker", url]).exits(2);
        assert!(refused.says("sqs://REGION/DEAD-LETTERS/SOURCE"), "{refused}");
        assert!(!refused.says("hunter2"), "{refused}");
    }
}
