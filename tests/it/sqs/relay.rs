//! The relay, killed at each of its steps by means of an answer that does not come, and started again; several
//! relays at once; what an idle one costs.

use std::time::{Duration, Instant};

use serde_json::json;

use super::proxy::{Fault, Proxy, Rule};
use super::{Shop, body, endpoint_or_return};

const MESSAGES: usize = 12;

fn fill(shop: &Shop) {
    for n in 0..MESSAGES {
        shop.app.send(&shop.tier, &body(n), Some(&format!("g{}", n % 3)), &format!("d{n}"), &json!({}));
    }
}

/// Nothing lost; on FIFO nothing twice, and each group as it was sent.
fn check(shop: &Shop, fifo: bool, may_be_twice: usize) {
    let (all, counts) = shop.arrived();
    assert_eq!(counts.len(), MESSAGES, "lost: {counts:?}");
    assert_eq!(shop.app.depth(&shop.tier), 0);
    let twice = all.len() - counts.len();
    assert!(twice <= if fifo { 0 } else { may_be_twice }, "{twice} twice: {counts:?}");
    if fifo {
        for group in ["g0", "g1", "g2"] {
            let numbers: Vec<usize> = all
                .iter()
                .filter(|got| got.group() == group)
                .map(|got| (0..MESSAGES).find(|n| body(*n) == got.body).unwrap())
                .collect();
            assert!(numbers.is_sorted(), "{group}: {numbers:?}");
        }
    }
}

fn killed_in(endpoint: &str, fifo: bool, action: &'static str) {
    let slow = Rule::on(action, 1, 1, Fault::Slow(20_000));
    // What the dead one held is in view again after two seconds.
    let proxy = Proxy::start(endpoint, vec![slow], Some(2));
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    fill(&shop);
    let mut relay = shop.env.command(&["relay", &shop.channel]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while proxy.count(action) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The call has taken effect at the emulator by then; its answer has not come.
    std::thread::sleep(Duration::from_millis(400));
    relay.kill().unwrap();
    relay.wait().unwrap();
    std::thread::sleep(Duration::from_millis(2_200));
    let mut relay = shop.env.command(&["relay", &shop.channel]).spawn().unwrap();
    while shop.app.depth(&shop.tier) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    relay.kill().unwrap();
    relay.wait().unwrap();
    // Only what was sent without an answer, which are the ten of one call and the calls beside it.
    check(&shop, fifo, if action == "SendMessageBatch" { MESSAGES } else { 0 });
}

macro_rules! killed {
    ($($name:ident: $emulator:ident, $fifo:literal, $action:literal;)*) => {
        $(
            #[test]
            fn $name() {
                killed_in(&endpoint_or_return!($emulator), $fifo, $action);
            }
        )*
    };
}

killed! {
    standard_relay_killed_while_it_receives_on_elasticmq: ELASTICMQ, false, "ReceiveMessage";
    standard_relay_killed_while_it_sends_on_ministack: MINISTACK, false, "SendMessageBatch";
    standard_relay_killed_while_it_deletes_on_elasticmq: ELASTICMQ, false, "DeleteMessageBatch";
    fifo_relay_killed_while_it_receives_on_elasticmq: ELASTICMQ, true, "ReceiveMessage";
    fifo_relay_killed_while_it_sends_on_elasticmq: ELASTICMQ, true, "SendMessageBatch";
    fifo_relay_killed_while_it_deletes_on_ministack: MINISTACK, true, "DeleteMessageBatch";
}

/// Two relays on one tier: FIFO keeps each group's order, since SQS locks a group.
#[test]
fn two_relays_share_a_fifo_tier_and_keep_its_order_on_elasticmq() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    let shop = Shop::new(&endpoint, &endpoint, true);
    fill(&shop);
    let mut relays: Vec<_> =
        (0..2).map(|_| shop.env.command(&["relay", &shop.channel]).spawn().unwrap()).collect();
    let until = Instant::now() + Duration::from_secs(20);
    while shop.app.depth(&shop.tier) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    for relay in &mut relays {
        relay.kill().unwrap();
        relay.wait().unwrap();
    }
    check(&shop, true, 0);
}

/// What docs/sqs.md says an idle relay costs: one long poll and now and then one count.
#[test]
fn an_idle_relay_costs_at_most_the_documented_requests_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(&endpoint, Vec::new(), None);
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    let mut relay = shop.env.command(&["relay", &shop.channel]).spawn().unwrap();
    while proxy.count("ReceiveMessage") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = proxy.calls().len();
    let seconds = 6;
    std::thread::sleep(Duration::from_secs(seconds));
    let calls = (proxy.calls().len() - before) as u64;
    relay.kill().unwrap();
    relay.wait().unwrap();
    let per_hour = calls * 3_600 / seconds;
    println!("idle: {calls} requests in {seconds} s, {per_hour} an hour for one tier of one second");
    assert!(per_hour <= 5_400, "{per_hour}");
}

/// The last words of a relay: messages carried, and those that may be there twice.
fn last_words(err: &str) -> (usize, usize) {
    let number = |words: &str| {
        let line = err.lines().find(|line| line.contains(words))?;
        line.trim_start_matches("note").split_whitespace().next()?.parse().ok()
    };
    let carried = match err.contains("nothing was carried") {
        true => 0,
        false => number(" carried; ").unwrap_or_else(|| panic!("{err}")),
    };
    (carried, number(" may be there twice").unwrap_or(0))
}

/// A relay until its tier is empty, then told to end; what it said.
fn until_empty(shop: &Shop) -> String {
    use std::process::Stdio;
    let mut command = shop.env.command(&["relay", &shop.channel]);
    let relay = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    // Before that it may not have come to listen to signals.
    std::thread::sleep(Duration::from_millis(1_500));
    while shop.app.depth(&shop.tier) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = rustix::process::Pid::from_raw(relay.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = relay.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    err
}

/// Killed at each step by itself: what is there twice was reported by the one that came after, and on FIFO nothing is.
fn killed_at_each_step(endpoint: &str, fifo: bool) {
    for step in redrive::proof::failpoint::RELAY_BY_HAND {
        let proxy = Proxy::start(endpoint, Vec::new(), Some(2));
        let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
        fill(&shop);
        let mut command = shop.env.command(&["relay", &shop.channel, "--once"]);
        let killed = command.env("REDRIVE_FAILPOINT", step).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&killed.status);
        assert_eq!(signal, Some(9), "{step}: {}", String::from_utf8_lossy(&killed.stderr));
        let err = until_empty(&shop);
        let (all, counts) = shop.arrived();
        assert_eq!(counts.len(), MESSAGES, "{step}: lost: {counts:?}\n{err}");
        let twice = all.len() - counts.len();
        let (_, reported) = last_words(&err);
        assert!(twice <= reported, "{step}: {twice} twice, {reported} reported\n{err}");
        assert!(!fifo || (twice, reported) == (0, 0), "{step}: SQS drops the second copy; {twice}\n{err}");
        let sent = *step == "relay_after_send" && !fifo;
        assert!(twice > 0 || !sent, "{step}: the checker sees none, and {MESSAGES} were sent before");
    }
}

#[test]
fn l06_a_standard_relay_killed_at_each_step_reports_what_may_be_twice_on_ministack() {
    killed_at_each_step(&endpoint_or_return!(MINISTACK), false);
}

#[test]
fn l06_a_fifo_relay_killed_at_each_step_doubles_nothing_on_elasticmq() {
    killed_at_each_step(&endpoint_or_return!(ELASTICMQ), true);
}

/// What was sent and could not be deleted is deleted when it comes again: not sent again, and counted once.
#[test]
fn l06_a_delete_that_failed_is_tried_again_and_nothing_is_sent_twice() {
    for (endpoint, fifo) in [(endpoint_or_return!(MINISTACK), false), (endpoint_or_return!(ELASTICMQ), true)]
    {
        for fault in [Fault::RunOut, Fault::Entry(0, false), Fault::Lost] {
            let rule = Rule::on("DeleteMessageBatch", 1, 1, fault.clone());
            let proxy = Proxy::start(&endpoint, vec![rule], Some(2));
            let shop = Shop::new(&endpoint, &proxy.endpoint, fifo);
            fill(&shop);
            let err = until_empty(&shop);
            let (all, counts) = shop.arrived();
            assert_eq!((all.len(), counts.len()), (MESSAGES, MESSAGES), "{fault:?}\n{err}");
            let (carried, reported) = last_words(&err);
            assert_eq!(carried, MESSAGES, "{fault:?}: counted once\n{err}");
            assert!(reported <= 10, "{fault:?}: each at most once\n{err}");
        }
    }
}

/// A send without an answer is repeated: reported once on standard, and on FIFO SQS drops the second copy.
#[test]
fn a_send_without_an_answer_is_reported_once_on_standard_and_not_at_all_on_fifo() {
    for (endpoint, fifo) in [(endpoint_or_return!(MINISTACK), false), (endpoint_or_return!(ELASTICMQ), true)]
    {
        let rule = Rule::on("SendMessageBatch", 1, 1, Fault::Lost);
        let proxy = Proxy::start(&endpoint, vec![rule], Some(2));
        let shop = Shop::new(&endpoint, &proxy.endpoint, fifo);
        fill(&shop);
        let err = until_empty(&shop);
        let (all, counts) = shop.arrived();
        let (carried, reported) = last_words(&err);
        assert_eq!((counts.len(), carried), (MESSAGES, MESSAGES), "{err}");
        assert_eq!(all.len() - counts.len(), reported, "as many as are there twice: {err}");
        assert_eq!(reported == 0, fifo, "{err}");
    }
}

/// A message that the source does not take stays in its tier and is named; the others go.
#[test]
fn a_message_that_the_source_refuses_is_told_and_holds_nobody_up_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::new(&endpoint, &endpoint, false);
    shop.app.set(&shop.source, &json!({"MaximumMessageSize": "1024"}));
    shop.app.send(&shop.tier, &"x".repeat(2_000), None, "", &json!({}));
    for n in 0..5 {
        shop.app.send(&shop.tier, &body(n), None, "", &json!({}));
    }
    let mut child = shop
        .env
        .command(&["relay", &shop.channel])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while shop.app.depth(&shop.tier) > 1 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(2));
    for n in 5..10 {
        shop.app.send(&shop.tier, &body(n), None, "", &json!({}));
    }
    while shop.app.depth(&shop.source) < 10 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("it has 2") && err.contains("takes 1024"), "{err}");
    assert_eq!((shop.app.depth(&shop.source), shop.app.depth(&shop.tier)), (10, 1), "{err}");
}

/// No right to send: the relay ends with the broker's word instead of trying for ever in silence.
#[test]
fn a_relay_that_may_not_send_ends_and_says_why_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let denied = Rule::on("SendMessageBatch", 1, 999, Fault::Refused(403, "AccessDenied"));
    let proxy = Proxy::start(&endpoint, vec![denied], None);
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    fill(&shop);
    let ended = shop.env.run(&["relay", &shop.channel]).exits(1);
    assert!(ended.says("AccessDenied") && ended.says("docs/sqs.md"), "{ended}");
    assert_eq!(shop.app.take_all(&shop.tier).len(), MESSAGES, "given back at once");
}

/// What a consumer needs to count its tries is filled in, and a count that is there stays (r08).
#[test]
fn r08_a_tier_fills_in_what_a_consumer_left_out_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::new(&endpoint, &endpoint, false);
    let text = |value: &str| json!({"DataType": "String", "StringValue": value});
    let counted = r#"{"attempt":"7","tier":"somewhere","first-failed-at":"2026-11-30T02:00:00Z"}"#;
    let full: serde_json::Map<String, serde_json::Value> =
        (0..10).map(|n| (format!("a{n}"), text("v"))).collect();
    shop.app.send(&shop.tier, "bare", None, "", &json!({}));
    shop.app.send(&shop.tier, "counted", None, "", &json!({"redrive": text(counted)}));
    shop.app.send(&shop.tier, "full", None, "", &serde_json::Value::Object(full));
    shop.app.send(&shop.tier, "own", None, "", &json!({"redrive": text("mine")}));
    until_empty(&shop);
    for got in shop.arrived().0 {
        let ours = got.attributes["redrive"]["StringValue"].as_str().unwrap_or_default();
        match got.body.as_str() {
            "bare" => {
                let ours: serde_json::Value = serde_json::from_str(ours).unwrap();
                assert_eq!((&ours["attempt"], &ours["tier"]), (&json!("1"), &json!(shop.tier)), "{ours}");
                assert!(ours["first-failed-at"].as_str().unwrap().ends_with('Z'), "{ours}");
            }
            "counted" => {
                let (is, was): (serde_json::Value, serde_json::Value) =
                    (serde_json::from_str(ours).unwrap(), serde_json::from_str(counted).unwrap());
                assert_eq!(is, was);
            }
            "full" => assert_eq!(got.attributes.as_object().unwrap().len(), 10, "{:?}", got.attributes),
            _ => assert_eq!(ours, "mine", "a user's attribute of that name stays the user's"),
        }
    }
}
