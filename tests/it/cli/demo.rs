//! `demo` and `dev`: dead letters to play with, and a shell script in the part of an application.

use super::TestEnv;

#[test]
fn the_demo_fills_a_folder_and_says_where_to_look() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.line("demo"), @r"
    199 dead letters of a small shop in redrive-demo
      143  orders.dlq
       23  payments.dlq
       33  emails.dlq
    --- stderr
    note  Nothing in it is shared: delete the folder when you are done.
    next  redrive -f redrive-demo/redrive.yaml inspect orders
    ");
    let _ = env.line("-f redrive-demo/redrive.yaml check").ok();
    let _ = env.line("-f redrive-demo/redrive.yaml plan --check").ok();
}

#[test]
fn the_demo_touches_no_folder_that_holds_something() {
    let env = TestEnv::new();
    env.write("mine/notes.txt", "keep");
    insta::assert_snapshot!(env.line("demo mine"), @r"
    --- stderr
    refused: mine holds something already
      The demo goes into a folder of its own:
    next  redrive demo FOLDER
    [4]
    ");
    assert_eq!(std::fs::read_dir(env.path("mine")).unwrap().count(), 1);
}

#[test]
fn the_demo_as_data() {
    let env = TestEnv::new();
    let json = env.line("demo shop -o json").ok().json();
    assert_eq!(json["schema"], "redrive.demo.v1");
    let letters = json["letters"].as_array().unwrap();
    assert_eq!(letters.iter().map(|pair| pair[1].as_u64().unwrap()).sum::<u64>(), 199);
}

#[test]
fn the_demo_has_one_of_everything_that_there_is_to_learn() {
    let env = TestEnv::new();
    let _ = env.line("demo shop").ok();
    let (mut causes, mut letters) = (Vec::new(), Vec::new());
    for channel in ["orders", "payments", "emails"] {
        let inspected = env.line(&format!("-f shop/redrive.yaml inspect {channel} -o json")).ok().json();
        for cause in inspected["causes"].as_array().unwrap() {
            causes.push(cause["letters"].as_u64().unwrap());
        }
        let listed =
            env.line(&format!("-f shop/redrive.yaml inspect {channel} --letters --limit 1000 -o json"));
        letters.extend(listed.ok().json()["letters"].as_array().unwrap().clone());
    }
    causes.sort();
    assert_eq!(causes, [1, 7, 22, 33, 38, 98], "six causes of very different sizes");
    let count = |is: &dyn Fn(&serde_json::Value) -> bool| letters.iter().filter(|letter| is(letter)).count();
    assert_eq!(letters.len(), 199);
    assert!(count(&|letter| letter["message"].to_string().contains("pwned")) == 1, "a hostile escape");
    assert!(count(&|letter| letter["redriven"] == 2) >= 1, "one that came back twice already");
    assert!(count(&|letter| letter["body_len"] == 0) >= 1, "an empty body");
    let mut ids: Vec<&str> = letters.iter().filter_map(|letter| letter["event_id"].as_str()).collect();
    ids.sort_unstable();
    let twice: Vec<&str> = ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert_eq!(twice.len(), 2, "an event id that is there twice, and one with another body: {twice:?}");
    let dry = env.line("-f shop/redrive.yaml run orders --limit all --dry-run --ledger shop/ledger.db").ok();
    assert!(dry.says("another letter has their event id and another body"), "{dry}");
    assert!(dry.says("2 share an event id"), "{dry}");
}

const SHOP: &str = "\
version: 1
brokers:
  local: {url: \"sqlite:redrive.db\"}
channels:
  orders:
    source: orders.in
    retry: {tiers: [{delay: 5s}]}
    dead_letter: {name: orders.dlq}
";

fn receipt(env: &TestEnv, queue: &str) -> String {
    let run = env.run(&["dev", "receive", queue, "-o", "json"]).ok();
    run.json()["receipt"].as_str().unwrap().to_owned()
}

#[test]
fn a_script_plays_an_application() {
    let mut env = TestEnv::new();
    env.topology(SHOP);
    let _ = env.line("apply --yes").ok();
    let sent = env.run(&[
        "dev",
        "send",
        "orders",
        "--key",
        "C-1",
        "--header",
        "event-id=ev-1",
        "--body",
        "{\"n\": 1}",
    ]);
    insta::assert_snapshot!(sent, @"sent to orders.in  m1");
    let json = env.line("dev receive orders -o json").ok().json();
    assert_eq!(
        (json["key"].as_str(), json["body"].as_str(), json["receives"].as_u64()),
        (Some("C-1"), Some("{\"n\": 1}"), Some(1))
    );
    let first = json["receipt"].as_str().unwrap().to_owned();
    insta::assert_snapshot!(env.line("dev receive orders"), @r"
    --- stderr
    note  Nothing to receive from orders.in now.
    ");
    env.hide(&first, "RECEIPT");
    insta::assert_snapshot!(env.run(&["dev", "fail", &first, "--class", "TimeoutError", "--message", "no answer"]), @"failed try 1: to orders.retry-5s, due 03:12:13Z  m2");
    let stale = env.run(&["dev", "ack", &first]);
    insta::assert_snapshot!(stale, @r"
    --- stderr
    error: local could not ack RECEIPT: the receipt is not valid any more: the message was handed out again, or is gone
    next  redrive status
    [1]
    ");
    // The tier is a queue too; its message is due after five seconds.
    let _ = env.line("dev receive orders.retry-5s").ok();
    env.at("2026-11-30T03:12:14Z");
    let second = receipt(&env, "orders.retry-5s");
    let _ = env.run(&["dev", "ack", &second]).ok();
    assert_eq!(env.line("dev receive orders.retry-5s").ok().out, "");
}

#[test]
fn o07_a_body_that_is_no_text_comes_as_base64_and_is_shown_byte_for_byte() {
    let env = TestEnv::new();
    env.topology(SHOP);
    let _ = env.line("apply --yes").ok();
    let body = b"\xff\xfe\x00\x01";
    let _ = env.run_with(&["dev", "send", "orders", "--body-file", "-"], body).ok();
    let run = env.line("dev receive orders --lease 1ms").ok();
    assert!(run.out.contains("\\x{ff}\\x{fe}\\u{0}\\u{1}"), "{run}");
    let mut later = env;
    later.at("2026-11-30T03:12:20Z");
    let json = later.line("dev receive orders -o json").ok().json();
    assert_eq!((json["body"].as_str(), json["body_base64"].as_str()), (None, Some("//4AAQ==")));
}

#[test]
fn dev_says_what_is_missing() {
    let env = TestEnv::new();
    env.topology(SHOP);
    insta::assert_snapshot!(env.line("dev send orders --body x"), @r"
    --- stderr
    error: local could not open redrive.db: there is no such file yet
    next  redrive apply
    [1]
    ");
    let _ = env.line("apply --yes").ok();
    insta::assert_snapshot!(env.line("dev send ordrs --body x"), @r"
    --- stderr
    error: local could not open ordrs: no queue `ordrs` in redrive.db
    next  redrive plan
    [1]
    ");
    insta::assert_snapshot!(env.line("dev send orders --header x"), @r"
    --- stderr
    error: invalid value 'x' for '--header <NAME=VALUE>': NAME=VALUE is wanted
    next  redrive dev send --help
    [2]
    ");
    insta::assert_snapshot!(env.line("dev send orders --delay 5"), @r"
    --- stderr
    error: invalid value '5' for '--delay <DURATION>': a duration with its unit is wanted, such as 5s or 1m
    next  redrive dev send --help
    [2]
    ");
    env.topology("version: 1\nbrokers: {k: {url: \"kafka://h:9092\"}}\nchannels:\n  orders: {source: orders, return_to: source, consumer: c}\n");
    insta::assert_snapshot!(env.line("dev send orders --body x"), @r"
    --- stderr
    error: dev plays at the embedded broker; k is Kafka
      Its own clients send and receive there.
    next  redrive dev send --help
    [2]
    ");
}
