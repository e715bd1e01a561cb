//! Cases of SQS users, S01 to S29, at the built program.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::proxy::Proxy;
use super::{Shop, body, count, endpoint_or_return};

/// A topology applied, filled, broken and sent back. ministack keeps the producer's deduplication id in the
/// dead-letter queue, where AWS puts the message id: neither may be what is sent.
#[test]
fn s01_s03_a_fifo_channel_on_ministack_from_apply_to_the_last_letter() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::unmade(&endpoint, &endpoint, true);
    assert_eq!(shop.env.line("apply --yes").code, Some(0));
    let again = shop.env.line("plan");
    assert_eq!(again.code, Some(0), "S32, nothing is left to change: {again}");
    let attributes = json!({
        "tenant": {"DataType": "String", "StringValue": "acme"},
        "count": {"DataType": "Number.int", "StringValue": "7"},
        "blob": {"DataType": "Binary", "BinaryValue": "/wCACg=="},
    });
    for n in 0..16 {
        shop.app.send(&shop.source, &body(n), Some(&format!("g{}", n % 8)), &format!("d{n}"), &attributes);
    }
    // The consumer fails on all of them, three times each; the next receive moves them.
    for _ in 0..40 {
        let got = shop.app.receive(&shop.source, 30);
        shop.app.fail(&shop.source, &got);
        if shop.app.depth(&shop.dead) == 16 {
            break;
        }
    }
    assert_eq!(shop.app.depth(&shop.dead), 16);
    let seen = shop.env.run(&["inspect", &shop.channel]);
    assert_eq!(seen.code, Some(0), "{seen}");
    assert!(seen.err.contains("receive count +1"), "S24, what a look costs is said: {seen}");
    assert!(seen.err.contains("stand behind these in their groups"), "a look at FIFO is not all: {seen}");
    // A run sends what a look can see; the next one what stood behind it.
    let mut moved = 0;
    for _ in 0..6 {
        let run = shop.run();
        moved += count(&run, "moved");
        assert_eq!(count(&run, "planned"), count(&run, "moved"), "{run}");
        if shop.app.depth(&shop.dead) == 0 {
            break;
        }
    }
    assert_eq!(moved, 16);
    let (all, counts) = shop.arrived();
    assert_eq!(counts.len(), 16, "lost");
    assert_eq!(all.len(), 16, "twice");
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for got in &all {
        let n = (0..16).find(|n| body(*n) == got.body).expect("S16: the body is as it was");
        assert_eq!(got.group(), format!("g{}", n % 8), "S01");
        groups.entry(got.group()).or_default().push(n);
        let id = got.system["MessageDeduplicationId"].as_str().unwrap();
        assert!(id.len() == 64 && id != format!("d{n}"), "S03: an id of its own: {id}");
        for (name, value) in attributes.as_object().unwrap() {
            for (part, wanted) in value.as_object().unwrap() {
                assert_eq!(got.attributes[name][part], *wanted, "S10, S11: {name}");
            }
        }
        let mark = got.attributes["redrive"]["StringValue"].as_str().unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(mark).unwrap()["run"].is_string(), "{mark}");
    }
    assert!(groups.values().all(|numbers| numbers.is_sorted()), "order in each group: {groups:?}");
}

/// Sent, failed and redriven within the five minutes in which the queue would swallow the producer's id again.
#[test]
fn s02_within_five_minutes_it_is_delivered_once_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::unmade(&endpoint, &endpoint, true);
    assert_eq!(shop.env.line("apply --yes").code, Some(0));
    shop.app.send(&shop.source, &body(1), Some("A"), "D", &json!({}));
    for _ in 0..10 {
        let got = shop.app.receive(&shop.source, 30);
        shop.app.fail(&shop.source, &got);
        if shop.app.depth(&shop.dead) == 1 {
            break;
        }
    }
    assert_eq!((shop.app.depth(&shop.source), shop.app.depth(&shop.dead)), (0, 1));
    assert_eq!(count(&shop.run(), "moved"), 1);
    assert_eq!(shop.app.depth(&shop.dead), 0);
    // Another run finds nothing to send a second time.
    assert_eq!(shop.run()["state"], "nothing");
    let (all, _) = shop.arrived();
    assert_eq!(all.len(), 1, "swallowed or twice");
    assert_eq!((all[0].body.as_str(), all[0].group()), (body(1).as_str(), "A"));
    assert_ne!(all[0].system["MessageDeduplicationId"], json!("D"));
}

/// A producer goes on in the same group: order is kept among the letters of the run, and nothing is said of
/// the others.
fn a_live_producer_comes_between(endpoint: &str) {
    let shop = Shop::new(endpoint, endpoint, true);
    for n in 0..5 {
        shop.app.send(&shop.dead, &body(n), Some("A"), &format!("d{n}"), &json!({}));
    }
    shop.app.send(&shop.source, &body(10), Some("A"), "live-10", &json!({}));
    let run = std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            for n in 11..16 {
                shop.app.send(&shop.source, &body(n), Some("A"), &format!("live-{n}"), &json!({}));
            }
        });
        let run = shop.run();
        producer.join().unwrap();
        run
    });
    assert_eq!(count(&run, "moved"), 5, "{run}");
    let (all, counts) = shop.arrived();
    assert_eq!((all.len(), counts.len()), (11, 11), "lost or twice");
    let order: Vec<usize> = all.iter().map(|got| (0..16).find(|n| body(*n) == got.body).unwrap()).collect();
    let of_the_run: Vec<usize> = order.iter().copied().filter(|n| *n < 5).collect();
    assert_eq!(of_the_run, [0, 1, 2, 3, 4], "{order:?}");
    assert_eq!(order[0], 10, "what was there before comes first: {order:?}");
}

#[test]
fn s06_a_live_producer_comes_between_on_ministack() {
    a_live_producer_comes_between(&endpoint_or_return!(MINISTACK));
}

#[test]
fn s06_a_live_producer_comes_between_on_elasticmq() {
    a_live_producer_comes_between(&endpoint_or_return!(ELASTICMQ));
}

/// S04: equal bodies are letters of their own, also where a queue would deduplicate by content.
fn equal_bodies_all_arrive(endpoint: &str) {
    let shop = Shop::new(endpoint, endpoint, true);
    for n in 0..5 {
        shop.app.send(&shop.dead, "{\"same\":1}", Some(&format!("g{n}")), &format!("d{n}"), &json!({}));
    }
    let run = shop.run();
    assert_eq!(count(&run, "moved"), 5, "{run}");
    assert_eq!(shop.arrived().0.len(), 5);
}

#[test]
fn s04_equal_bodies_all_arrive_on_ministack() {
    equal_bodies_all_arrive(&endpoint_or_return!(MINISTACK));
}

/// What cannot go is named and stays as it was; the rest goes.
fn attributes_and_sizes(endpoint: &str) {
    let proxy = Proxy::start(endpoint, Vec::new(), None);
    let shop = Shop::new(endpoint, &proxy.endpoint, false);
    let ten: serde_json::Map<String, serde_json::Value> = (0..10)
        .map(|n| (format!("a{n}"), json!({"DataType": "String", "StringValue": format!("v{n}")})))
        .collect();
    let ten = serde_json::Value::Object(ten);
    shop.app.send(&shop.dead, "{\"full\":true}", None, "", &ten);
    // S13: over one batch by bytes long before ten letters; S15: all that SQS takes.
    for n in 0..12 {
        let body =
            json!({"n": n, "text": "\u{10000}\t\u{e9} \u{202e}", "fill": "x".repeat(150_000)}).to_string();
        shop.app.send(&shop.dead, &body, Some(&format!("tenant-{}", n % 2)), "", &json!({}));
    }
    let run = shop.run();
    assert_eq!(count(&run, "moved"), 12, "{run}");
    assert_eq!(count(&run, "moved") + count(&run, "failed") + count(&run, "held"), 13, "{run}");
    let (all, counts) = shop.arrived();
    assert_eq!((all.len(), counts.len()), (12, 12));
    let groups: BTreeSet<&str> = all.iter().map(super::Got::group).collect();
    assert_eq!(groups, ["tenant-0", "tenant-1"].into(), "fair queues keep their tenants");
    // S12: ten attributes of its own leave no room for the mark of the run: none of them is dropped.
    let left = shop.app.take_all(&shop.dead);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].attributes, ten_as_given(&left[0].attributes, &ten));
}

/// The given attributes with whatever else an emulator says about them.
fn ten_as_given(got: &serde_json::Value, given: &serde_json::Value) -> serde_json::Value {
    for (name, value) in given.as_object().unwrap() {
        assert_eq!(got[name]["StringValue"], value["StringValue"], "{name}");
    }
    assert_eq!(got.as_object().unwrap().len(), 10);
    got.clone()
}

#[test]
fn s12_s13_s15_attributes_sizes_and_characters_on_ministack() {
    attributes_and_sizes(&endpoint_or_return!(MINISTACK));
}

#[test]
fn s12_s13_s15_attributes_sizes_and_characters_on_elasticmq() {
    attributes_and_sizes(&endpoint_or_return!(ELASTICMQ));
}

/// Calls are in tens: what docs/sqs.md says that a run and the look before it cost.
#[test]
fn a_run_on_elasticmq_receives_sends_and_deletes_in_tens() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    let proxy = Proxy::start(&endpoint, Vec::new(), None);
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    let letters = 1_000;
    shop.bury(letters);
    let line = [
        "run",
        &shop.channel,
        "--limit",
        "all",
        "--rate",
        "unlimited",
        "--confirm",
        &shop.channel,
        "--reason",
        "x",
    ];
    let ended = shop.env.run(&line).ok();
    assert!(ended.says("1,000 of 1,000 moved"), "{ended}");
    assert_eq!(shop.arrived().1.len(), letters);
    let calls = proxy.calls();
    let send = calls.iter().position(|call| call == "SendMessageBatch").unwrap();
    let given_back = calls[..send].iter().rposition(|call| call == "ChangeMessageVisibilityBatch").unwrap();
    let (look, run) = calls.split_at(given_back + 1);
    let of = |action: &str| run.iter().filter(|call| *call == action).count();
    println!(
        "{letters} letters: look {} requests, run {}: receive {}, send {}, delete {}",
        look.len(),
        run.len(),
        of("ReceiveMessage"),
        of("SendMessageBatch"),
        of("DeleteMessageBatch")
    );
    assert!(run.len() as f64 <= 0.31 * letters as f64, "run: {} for {letters}", run.len());
    assert!(look.len() as f64 <= 0.22 * letters as f64, "look: {} for {letters}", look.len());
}

/// Sources and tiers are counted, and never received from by looking.
#[test]
fn looking_receives_from_nothing_but_dead_letters_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(&endpoint, Vec::new(), None);
    let shop = Shop::unmade(&endpoint, &proxy.endpoint, false);
    drop(shop.env.line("apply --yes").ok());
    shop.bury(3);
    shop.app.send(&shop.source, &body(7), None, "", &json!({}));
    shop.app.send(&shop.tier, &body(8), None, "", &json!({}));
    let letters = shop.env.run(&["inspect", &shop.channel, "--letters", "-o", "json"]).ok().json();
    let letter = letters["letters"][0]["letter"].as_str().unwrap().to_owned();
    let channel = shop.channel.as_str();
    for line in [
        vec!["plan"],
        vec!["status", channel],
        vec!["alert", channel],
        vec!["inspect", channel],
        vec!["show", channel, &letter],
        vec!["select", channel, "--limit", "all", "--reason", "INC-1", "--out", "x.jsonl"],
        vec!["run", channel, "--limit", "all", "--dry-run"],
    ] {
        let ended = shop.env.run(&line);
        assert!(matches!(ended.code, Some(0 | 13)), "{ended}");
    }
    let listed = shop.env.run(&["inspect", channel, "--letters"]).ok();
    assert!(listed.says("oldest first; the queue keeps no order"), "not as a run sends them: {listed}");
    let received = proxy.bodies("ReceiveMessage");
    assert!(received.len() >= 5, "{received:?}");
    let elsewhere: Vec<_> =
        received.iter().filter(|asked| !asked.contains(&format!("/{}\"", shop.dead))).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    let got = shop.app.receive(&shop.source, 30);
    assert_eq!(got[0].system["ApproximateReceiveCount"], "1", "nobody had it before");
}

/// The relay carries a tier back with all that a message has. SQS holds the message by the queue's own delay.
#[test]
fn the_relay_on_ministack_carries_a_tier_back() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::unmade(&endpoint, &endpoint, true);
    assert_eq!(shop.env.line("apply --yes").code, Some(0));
    let attributes = json!({"tenant": {"DataType": "String", "StringValue": "acme"}});
    for n in 0..6 {
        shop.app.send(&shop.tier, &body(n), Some(&format!("g{}", n % 2)), &format!("d{n}"), &attributes);
    }
    let mut relay = shop.env.command(&["relay", &shop.channel]).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while (shop.app.depth(&shop.source) < 6 || shop.app.depth(&shop.tier) > 0)
        && std::time::Instant::now() < until
    {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    relay.kill().unwrap();
    relay.wait().unwrap();
    let (all, counts) = shop.arrived();
    assert_eq!((all.len(), counts.len()), (6, 6));
    for group in ["g0", "g1"] {
        let bodies: Vec<&str> =
            all.iter().filter(|got| got.group() == group).map(|got| got.body.as_str()).collect();
        let mut sorted = bodies.clone();
        sorted.sort_unstable();
        assert_eq!(bodies, sorted, "{group}");
    }
    assert!(all.iter().all(|got| got.attributes["tenant"]["StringValue"] == "acme"));
    assert_eq!(shop.app.depth(&shop.tier), 0);
}

/// Two of three die again at once: they are new letters with the run's count, and the same run does not take them.
#[test]
fn s29_letters_that_bounce_are_not_chased_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::new(&endpoint, &endpoint, false);
    let policy = json!({"deadLetterTargetArn": shop.app.arn(&shop.dead), "maxReceiveCount": "1"}).to_string();
    shop.app.set(&shop.source, &json!({"RedrivePolicy": policy}));
    shop.bury(3);
    let run = shop.run();
    assert_eq!(count(&run, "moved"), 3, "{run}");
    // The consumer handles one and fails on two; the next receive moves those.
    let got = shop.app.receive(&shop.source, 30);
    assert_eq!(got.len(), 3);
    assert!(got.iter().all(|got| got.system["ApproximateReceiveCount"] == "1"), "the count begins anew");
    let (good, bad) = got.split_at(1);
    shop.app.delete(&shop.source, good);
    shop.app.fail(&shop.source, bad);
    assert!(shop.app.receive(&shop.source, 30).is_empty());
    assert_eq!(shop.app.depth(&shop.dead), 2);
    let letters = shop.env.run(&["inspect", &shop.channel, "--letters", "-o", "json"]).ok().json();
    let text = letters.to_string();
    assert_eq!(text.matches("\"redriven\":1").count(), 2, "each knows that it was sent back once: {text}");
}

/// Bodies and attributes as the extended clients write them, today's and the old one's, are known as pointers by name and
/// travel byte by byte with their attribute, also when they died again; nothing is asked but of SQS, so an object that is
/// there stays, and one that is missing makes no difference.
fn pointers_travel_as_they_are(endpoint: &str, fifo: bool) {
    let proxy = Proxy::start(endpoint, Vec::new(), None);
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    let clients = [
        ("software.amazon.payloadoffloading.PayloadS3Pointer", "ExtendedPayloadSize", "k-1"),
        ("com.amazon.sqs.javamessaging.MessageS3Pointer", "SQSLargePayloadSize", "k-2"),
    ];
    let mut sent = Vec::new();
    for (class, attribute, key) in clients {
        let body = format!(r#"["{class}",{{"s3BucketName":"big","s3Key":"{key}"}}]"#);
        let size = json!({attribute: {"DataType": "Number", "StringValue": "400000"}});
        shop.app.send(&shop.dead, &body, fifo.then_some(key), key, &size);
        sent.push((body, attribute));
    }
    for pass in 1..=2u64 {
        let letters = shop.env.run(&["inspect", &shop.channel, "--letters", "-o", "json"]).ok().json();
        for n in 0..clients.len() {
            let id = letters["letters"][n]["letter"].as_str().unwrap();
            let shown = shop.env.run(&["show", &shop.channel, id]).ok();
            assert!(shown.says("large-payload, sure") && shown.says("s3://big/k-"), "{shown}");
        }
        let run = shop.run_by(&["--limit", "all", "--yes", "--moved-before"]);
        assert_eq!(count(&run, "moved"), clients.len() as u64, "{run}");
        let (all, _) = shop.arrived();
        assert_eq!(all.len(), clients.len());
        for (body, attribute) in &sent {
            let copy =
                all.iter().find(|got| got.body == *body).unwrap_or_else(|| panic!("no {body}: {all:?}"));
            let size = &copy.attributes[attribute];
            assert_eq!((&size["StringValue"], &size["DataType"]), (&json!("400000"), &json!("Number")));
            if pass == 1 {
                // It dies again, with the mark of the run on it.
                let again = format!("again-{attribute}");
                shop.app.send(&shop.dead, &copy.body, fifo.then_some(&again), &again, &copy.attributes);
            }
        }
    }
    let known = [
        "GetQueueUrl",
        "GetQueueAttributes",
        "ReceiveMessage",
        "ChangeMessageVisibilityBatch",
        "SendMessageBatch",
        "DeleteMessageBatch",
    ];
    for call in proxy.calls() {
        assert!(known.contains(&call.as_str()), "`{call}` is asked for");
    }
}

#[test]
fn s17_pointers_at_large_payloads_are_named_and_travel_as_they_are_on_ministack() {
    pointers_travel_as_they_are(&endpoint_or_return!(MINISTACK), false);
}

#[test]
fn s17_pointers_at_large_payloads_are_named_and_travel_as_they_are_on_a_fifo_of_elasticmq() {
    pointers_travel_as_they_are(&endpoint_or_return!(ELASTICMQ), true);
}
