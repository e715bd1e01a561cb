//! `run --native`: SQS's own move task, on local-aws-sqs, which gives new message ids and keeps the rate as AWS does.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Shop, body, count, endpoint_or_return};

/// Queues whose source really has the dead-letter queue, which move tasks ask for.
fn shop(endpoint: &str) -> Shop {
    let shop = Shop::new(endpoint, endpoint, false);
    feeds(&shop, &shop.source);
    shop
}

pub fn feeds(shop: &Shop, source: &str) {
    let policy = json!({"deadLetterTargetArn": shop.app.arn(&shop.dead), "maxReceiveCount": "3"}).to_string();
    shop.app.set(source, &json!({"RedrivePolicy": policy}));
}

#[test]
fn s26_s27_a_native_move_is_started_watched_and_recorded_on_local_aws_sqs() {
    let shop = shop(&endpoint_or_return!(LOCAL));
    shop.bury(12);
    let dry = shop.env.run(&["run", &shop.channel, "--native", "--limit", "all", "--dry-run"]).ok();
    assert!(dry.says("new message id") && dry.says("no limit and no filter"), "S26 is said before: {dry}");
    let dry = ["run", &shop.channel, "--native", "--limit", "all", "--dry-run", "-o", "json"];
    let dry = shop.env.run(&dry).ok().json();
    assert_eq!((&dry["dry_run"], &dry["counts"]["planned"]), (&json!(true), &json!(12)), "{dry}");
    assert!(dry["place"].as_str().unwrap().contains("us-east-1") && dry["next"][0] == "redrive", "{dry}");
    assert_eq!(shop.app.depth(&shop.source), 0);
    let run = shop.env.run(&[
        "run",
        &shop.channel,
        "--native",
        "--limit",
        "all",
        "--rate",
        "unlimited",
        "--reason",
        "INC-7",
        "--confirm",
        &shop.channel,
    ]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.out.contains("12 of 12 moved by the broker itself"), "{run}");
    let (all, counts) = shop.arrived();
    assert_eq!((all.len(), counts.len()), (12, 12), "{run}");
    assert!((0..12).all(|n| counts.contains_key(&body(n))));
    assert!(all.iter().all(|got| got.attributes["redrive"].is_null()), "unchanged: no mark");
    let runs = shop.env.line("runs list -o json").ok().json();
    let row = &runs["runs"][0];
    assert_eq!(
        (&row["path"], &row["state"], &row["reason"]),
        (&json!("broker_move"), &json!("done"), &json!("INC-7"))
    );
    let id = row["run"].as_str().unwrap();
    let shown = shop.env.run(&["runs", "show", id]).ok();
    assert!(shown.says("by the broker itself") && shown.says("INC-7"), "{shown}");
    let resumed = shop.env.run(&["resume", id, "--yes"]).exits(4);
    assert!(resumed.says("a move of the broker's own"), "{resumed}");
}

/// A native move at five a second of many letters, until Ctrl-C; gives what the program reports.
pub fn cancelled(shop: &Shop) -> serde_json::Value {
    let line = [
        "run",
        &shop.channel,
        "--native",
        "--limit",
        "all",
        "--rate",
        "5/s",
        "--reason",
        "INC-7",
        "--yes",
        "-o",
        "json",
    ];
    let child = shop.env.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while shop.app.depth(&shop.source) < 5 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn s27_ctrl_c_cancels_a_native_move_on_local_aws_sqs() {
    let shop = shop(&endpoint_or_return!(LOCAL));
    shop.bury(60);
    let run = cancelled(&shop);
    let moved = count(&run, "moved");
    assert!((5..60).contains(&moved), "{run}");
    assert_eq!(count(&run, "planned"), moved + count(&run, "untouched"), "{run}");
    assert_eq!(
        (&run["reason"], &run["next"]),
        (&json!("INC-7"), &json!(["redrive", "status", shop.channel]))
    );
    std::thread::sleep(Duration::from_millis(1_200));
    let there = shop.app.depth(&shop.source);
    assert!(there < 60, "it went on: {there} are there; {run}");
    assert_eq!(there + shop.app.depth(&shop.dead), 60, "none lost");
}

/// Each reason by its own words, all of them at once, and nothing is touched.
#[test]
fn s27_s28_a_native_move_is_refused_with_reasons_on_local_aws_sqs() {
    let endpoint = endpoint_or_return!(LOCAL);
    let shop = Shop::new(&endpoint, &endpoint, false);
    shop.bury(3);
    let native = |flags: &[&str]| {
        let mut line = vec!["run", &shop.channel, "--native", "--reason", "INC-7", "--yes"];
        line.extend(flags);
        shop.env.run(&line)
    };
    let many = native(&["--limit", "2", "--where", "age > 1h", "--rate", "800/s"]).exits(4);
    for reason in ["knows no limit", "knows no filter", "from 1/s to 500/s", "without --native"] {
        assert!(many.err.to_lowercase().contains(&reason.to_lowercase()), "{reason}: {many}");
    }
    let flags = ["--limit", "all", "--ramp", "30s", "--dedupe", "--allow-stale", "--events", "-"];
    let more = ["--max-errors", "9", "--stop-on-refail", "off", "--keep-timestamp", "--trim"];
    let beyond = native(&[&flags[..], &more[..]].concat()).exits(4);
    let named = ["--ramp", "--dedupe", "--allow-stale", "--events", "--max-errors", "--stop-on-refail"];
    for flag in named.iter().chain(&["--keep-timestamp", "--trim"]) {
        assert!(beyond.says(&format!("knows no {flag}")), "{flag}: {beyond}");
    }
    let nobody = native(&["--limit", "all"]).exits(4);
    assert!(nobody.says("the dead-letter queue of no queue"), "{nobody}");
    feeds(&shop, &shop.source);
    let unlimited = native(&["--limit", "all", "--rate", "unlimited"]).exits(4);
    assert!(unlimited.says(&format!("--confirm={}", shop.channel)), "typed out, not --yes: {unlimited}");
    let other = format!("{}-other", shop.channel);
    shop.app.create(&other);
    feeds(&shop, &other);
    let two = native(&["--limit", "all"]).exits(4);
    assert!(two.says("letters of") && two.says(&other), "S28: {two}");
    let rehearsed = native(&["--limit", "all", "--dry-run"]).exits(4);
    assert!(rehearsed.says(&other), "a rehearsal finds what the move would: {rehearsed}");
    let runs = shop.env.run(&["runs", "list", "-o", "json"]);
    assert!(runs.says("\"runs\": []"), "what was refused is no run: {runs}");
    assert_eq!((shop.app.depth(&shop.dead), shop.app.depth(&shop.source)), (3, 0));

    let fifo = Shop::unmade(&endpoint, &endpoint, true);
    let refused = fifo
        .env
        .run(&["run", &fifo.channel, "--native", "--limit", "all", "--reason", "INC-7", "--yes"])
        .exits(4);
    assert!(refused.says("order of groups"), "{refused}");
}
