//! Cases of SQS users at the edges of a look and a run: what a look may not push on, how slow a run may be, whose
//! letters a shared dead-letter queue holds, what a plan refuses. On both emulators where neither fakes it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::proxy::Proxy;
use super::{Shop, body, count, endpoint_or_return};

/// A dead-letter queue that passes its own letters on after so many receives.
fn passing_on(endpoint: &str, receives: u32) -> (Shop, String) {
    let mut shop = Shop::new(endpoint, endpoint, false);
    let state = shop.env.folder().join("state").display().to_string();
    shop.env.set("XDG_STATE_HOME", &state);
    let beyond = format!("{}-beyond", shop.channel);
    shop.app.create(&beyond);
    set_limit(&shop, &beyond, receives);
    (shop, beyond)
}

fn set_limit(shop: &Shop, beyond: &str, receives: u32) {
    let policy =
        json!({"deadLetterTargetArn": shop.app.arn(beyond), "maxReceiveCount": receives}).to_string();
    shop.app.set(&shop.dead, &json!({"RedrivePolicy": policy}));
}

/// Four looks at three receives: the first three say what they cost, the fourth is refused, and so is a run; nothing is
/// pushed on. With a raised limit a run sees all.
fn the_look_that_would_move_letters_is_refused(endpoint: &str) {
    let (shop, beyond) = passing_on(endpoint, 3);
    shop.bury(4);
    for look in 1..=3 {
        let seen = shop.env.run(&["inspect", &shop.channel]).ok();
        assert!(seen.err.contains("moves a letter on after 3 receives"), "look {look}: {seen}");
        assert_eq!(seen.says("4 letters were received 3 times by now"), look == 3, "look {look}: {seen}");
    }
    for line in [
        vec!["inspect", &shop.channel],
        vec!["show", &shop.channel, "x"],
        vec!["select", &shop.channel, "--limit", "all", "--reason", "INC-1", "--out", "x.jsonl"],
        shop.line(&["--limit", "all", "--yes"]),
    ] {
        let refused = shop.env.run(&line).exits(4);
        for words in
            ["4 letters of", "as often as its redrive policy allows", &beyond, "Raise maxReceiveCount"]
        {
            assert!(refused.says(words), "{words}: {refused}");
        }
    }
    assert_eq!((shop.app.depth(&shop.dead), shop.app.depth(&beyond)), (4, 0));
    set_limit(&shop, &beyond, 100);
    let run = shop.run();
    assert_eq!(count(&run, "moved"), 4, "{run}");
    assert_eq!((shop.app.depth(&shop.dead), shop.app.depth(&beyond)), (0, 0));
}

#[test]
fn s24_the_look_that_would_move_letters_is_refused_on_ministack() {
    the_look_that_would_move_letters_is_refused(&endpoint_or_return!(MINISTACK));
}

#[test]
fn s24_the_look_that_would_move_letters_is_refused_on_elasticmq() {
    the_look_that_would_move_letters_is_refused(&endpoint_or_return!(ELASTICMQ));
}

/// A run receives twice, to look and to take: where the look was the last one allowed, nothing is taken.
#[test]
fn s24_a_run_whose_look_was_the_last_receive_takes_nothing_on_ministack() {
    let (shop, beyond) = passing_on(&endpoint_or_return!(MINISTACK), 1);
    shop.bury(3);
    let refused = shop.env.run(&shop.line(&["--limit", "all", "--yes"])).exits(4);
    assert!(refused.says("3 letters of") && refused.says("maxReceiveCount"), "{refused}");
    assert_eq!((shop.app.depth(&shop.dead), shop.app.depth(&beyond)), (3, 0));
}

/// maxReceiveCount 1 in a topology, and a visibility below the handler's time: warned about before anything is made.
#[test]
fn s24_few_receives_and_a_short_visibility_are_warned_about() {
    let endpoint = "http://127.0.0.1:9";
    let shop = Shop::unmade(endpoint, endpoint, false);
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    let few = text.replace("max_receive_count: 3", "max_receive_count: 1");
    shop.env.topology(&few.replace("visibility_timeout: 60s", "visibility_timeout: 60s, handler_time: 60s"));
    let warned = shop.env.line("check").ok();
    assert!(warned.says("RD0221") && warned.says("RD0229"), "{warned}");
    shop.env.topology(&text.replace("visibility_timeout: 60s", "handler_time: 45s"));
    let unset = shop.env.line("check").ok();
    assert!(unset.says("RD0229") && unset.says("visibility_timeout: 90s"), "{unset}");
    shop.env.topology(&text.replace("visibility_timeout: 60s", "visibility_timeout: 90s, handler_time: 45s"));
    assert!(!shop.env.line("check").ok().says("RD02"));
}

/// Slower than the queue's own visibility by far: each letter is delivered once.
fn slower_than_the_visibility(endpoint: &str, fifo: bool) {
    let shop = Shop::new(endpoint, endpoint, fifo);
    shop.app.set(&shop.dead, &json!({"VisibilityTimeout": "2"}));
    shop.bury(10);
    let begun = std::time::Instant::now();
    let line = ["run", &shop.channel, "--limit", "all", "--yes", "--rate", "2/s", "--reason", "INC-1"];
    let run = shop.env.run(&line).ok();
    assert!(begun.elapsed() > std::time::Duration::from_secs(3), "the rate was kept: {run}");
    let (all, counts) = shop.arrived();
    assert_eq!((all.len(), counts.len()), (10, 10), "{run}");
    assert_eq!(shop.app.depth(&shop.dead), 0);
}

#[test]
fn s21_a_rate_slower_than_the_visibility_delivers_each_letter_once() {
    for (endpoint, fifo) in [(endpoint_or_return!(MINISTACK), true), (endpoint_or_return!(ELASTICMQ), false)]
    {
        slower_than_the_visibility(&endpoint, fifo);
    }
}

/// Three deaths and three redrives leave a body byte for byte as it was.
#[test]
fn s16_three_passes_leave_the_body_as_it_was_on_both() {
    for endpoint in [endpoint_or_return!(MINISTACK), endpoint_or_return!(ELASTICMQ)] {
        let shop = Shop::new(&endpoint, &endpoint, false);
        let body = r#"{"submissionID":"s-1"}"#;
        assert_eq!(body.len(), 22);
        let mut attributes = json!({});
        for pass in 1..=3 {
            shop.app.send(&shop.dead, body, None, "", &attributes);
            let run = shop.run();
            assert_eq!(count(&run, "moved"), 1, "pass {pass}: {run}");
            let got = shop.app.take_all(&shop.source);
            assert_eq!(got.iter().map(|got| got.body.as_str()).collect::<Vec<_>>(), [body], "pass {pass}");
            // The copy dies again as it is, with the mark of its run.
            let mark = got[0].attributes["redrive"]["StringValue"].clone();
            let parsed: Value = serde_json::from_str(mark.as_str().unwrap()).unwrap();
            assert_eq!(parsed["count"], json!(pass.to_string()), "{mark}");
            attributes = json!({"redrive": {"DataType": "String", "StringValue": mark}});
        }
    }
}

/// One dead-letter queue of several sources: two letters of ours, one of another queue, one of a queue that is gone.
/// Ours go, the others stay untouched and are listed. One that somebody sent by hand names no queue: it goes where the
/// topology says, as a letter of this channel.
fn several_sources(endpoint: &str) {
    let shop = Shop::new(endpoint, endpoint, false);
    let (other, gone) = (format!("{}-other", shop.channel), format!("{}-gone", shop.channel));
    for queue in [&other, &gone] {
        shop.app.create(queue);
    }
    let policy = json!({"deadLetterTargetArn": shop.app.arn(&shop.dead), "maxReceiveCount": 1}).to_string();
    for (source, letters) in [(&shop.source, 1..3), (&other, 3..4), (&gone, 4..5)] {
        shop.app.set(source, &json!({"RedrivePolicy": policy}));
        for n in letters {
            shop.app.send(source, &body(n), None, "", &json!({}));
        }
        for _ in 0..2 {
            let got = shop.app.receive(source, 30);
            shop.app.fail(source, &got);
        }
    }
    shop.app.send(&shop.dead, &body(5), None, "", &json!({}));
    shop.app.remove(&gone);
    assert_eq!(shop.app.depth(&shop.dead), 5);
    let dry = shop.env.run(&shop.line(&["--limit", "all", "--dry-run"])).ok();
    assert!(dry.says("2 died in another queue than this channel's"), "{dry}");
    let run = shop.run();
    assert_eq!((count(&run, "moved"), count(&run, "skipped")), (3, 2), "{run}");
    let (_, arrived) = shop.arrived();
    assert_eq!(arrived.keys().cloned().collect::<Vec<_>>(), [body(1), body(2), body(5)]);
    let listed = shop.env.run(&["inspect", &shop.channel, "--by", "origin"]).ok();
    assert!(listed.says(&other) && listed.says(&gone), "each names its own queue: {listed}");
    let mut left: Vec<String> = shop.app.take_all(&shop.dead).into_iter().map(|got| got.body).collect();
    left.sort_unstable();
    assert_eq!(left, [body(3), body(4)]);
}

#[test]
fn s28_letters_of_other_sources_stay_and_are_listed_on_ministack() {
    several_sources(&endpoint_or_return!(MINISTACK));
}

#[test]
fn s28_letters_of_other_sources_stay_and_are_listed_on_elasticmq() {
    several_sources(&endpoint_or_return!(ELASTICMQ));
}

/// A dead-letter queue that keeps letters for less time than its source keeps messages is refused in the plan, whether it
/// is there already or not. ElasticMQ stores no retention.
#[test]
fn s25_a_retention_below_the_sources_is_refused_in_the_plan_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::unmade(&endpoint, &endpoint, false);
    shop.app.create(&shop.source);
    shop.app.set(&shop.source, &json!({"MessageRetentionPeriod": "864000"}));
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    shop.env.topology(&text.replace("retention: 14d", "retention: 4d"));
    let refused = shop.env.line("plan --check").exits(4);
    for words in ["keeps letters 4d", "keeps messages 10d", "gone on arrival", "retention: 10d"] {
        assert!(refused.says(words), "{words}: {refused}");
    }
    drop(shop.env.line("apply --yes").exits(4));
    shop.env.topology(&text.replace("retention: 14d", "retention: 10d"));
    drop(shop.env.line("apply --yes").ok());
    shop.app.set(&shop.source, &json!({"MessageRetentionPeriod": "1209600"}));
    let later = shop.env.line("plan --check").exits(4);
    assert!(later.says("keeps messages 14d"), "a source that keeps longer since: {later}");
}

/// A tier of a FIFO channel is a queue with a delay of its own, and neither relay nor run sends the field.
#[test]
fn s31_a_fifo_tier_has_its_delay_and_messages_have_none_on_both() {
    for (endpoint, options) in [
        (endpoint_or_return!(MINISTACK), ""),
        (endpoint_or_return!(ELASTICMQ), "redrive_allow_policy: \"left\""),
    ] {
        let proxy = Proxy::start(&endpoint, Vec::new(), None);
        let shop = Shop::unmade_with(&endpoint, &proxy.endpoint, true, options);
        // ElasticMQ stores no retention, so its apply cannot prove itself.
        let applied = shop.env.line("apply --yes");
        assert!(matches!(applied.code, Some(0 | 1)), "{applied}");
        assert_eq!(shop.app.attribute(&shop.tier, "DelaySeconds"), "1");
        shop.app.send(&shop.dead, &body(0), Some("a"), "d0", &json!({}));
        shop.app.send(&shop.tier, &body(1), Some("b"), "d1", &json!({}));
        assert_eq!(count(&shop.run(), "moved"), 1);
        std::thread::sleep(std::time::Duration::from_millis(1_200));
        drop(shop.env.run(&["relay", &shop.channel, "--once"]).ok());
        assert_eq!(shop.arrived().1.len(), 2, "an emulator that refuses the field took both");
        assert!(proxy.bodies("SendMessageBatch").iter().all(|sent| !sent.contains("DelaySeconds")));
        assert_eq!(proxy.count("SendMessageBatch"), 2);
    }
}

/// A policy that somebody wrote with a number and other key order is no change; the other type of queue is refused.
#[test]
fn s32_a_policy_with_a_number_is_no_drift_and_types_must_match_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::unmade(&endpoint, &endpoint, false);
    drop(shop.env.line("apply --yes").ok());
    for receives in [json!(3), json!("3")] {
        let policy = json!({"maxReceiveCount": receives, "deadLetterTargetArn": shop.app.arn(&shop.dead)});
        shop.app.set(&shop.source, &json!({"RedrivePolicy": policy.to_string()}));
        drop(shop.env.line("plan --check").ok());
    }
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    let mixed = text.replace("dead_letter: {", &format!("dead_letter: {{name: {}.fifo, ", shop.dead));
    shop.env.topology(&mixed);
    let refused = shop.env.line("plan").exits(3);
    assert!(refused.says("RD0214"), "{refused}");
}

/// What drifted is told as people write it; encryption is told and left; a change that can lose letters says that nobody
/// knows how many, and how to keep them.
#[test]
fn s32_drift_is_told_in_words_and_encryption_is_left_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::unmade(&endpoint, &endpoint, false);
    let fresh = shop.env.line("plan").ok();
    assert!(
        fresh.says("delay 1s, retention 14d") && fresh.says("after 3 receives, visibility 1m"),
        "{fresh}"
    );
    drop(shop.env.line("apply --yes").ok());
    shop.app.set(&shop.dead, &json!({"MessageRetentionPeriod": "345600"}));
    shop.app.set(&shop.tier, &json!({"DelaySeconds": "61"}));
    shop.app.set(&shop.source, &json!({"VisibilityTimeout": "90", "KmsMasterKeyId": "alias/payments"}));
    let drift = shop.env.line("plan").ok();
    for said in ["4d → 14d", "1m 1s → 1s", "1m 30s → 1m"] {
        assert!(drift.says(said), "{said}: {drift}");
    }
    drop(shop.env.line("apply --yes").ok());
    let kept = shop.env.line("plan --check").ok();
    assert!(kept.says("encrypted with alias/payments, left as it is"), "{kept}");
    assert_eq!(shop.app.attribute(&shop.source, "KmsMasterKeyId"), "alias/payments");
    shop.bury(3);
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    shop.env.topology(&text.replace("retention: 14d", "retention: 5d"));
    let refused = shop.env.line("plan --check").exits(4);
    assert!(refused.says("14d → 5d: about 3 messages are in it"), "{refused}");
    assert!(refused.says("To keep the letters set retention: 14d at redrive.yaml:"), "{refused}");
    let accepted = ["apply", "--yes", "--reason", "INC-1", &format!("--accept-loss={}", shop.dead)];
    let accepted = shop.env.run(&accepted).ok();
    assert!(accepted.says("loses up to about 3 letters (--accept-loss)"), "{accepted}");
}

/// A dead-letter queue that other queues use too: a policy for its one channel would shut them out, so they are named in
/// it; a policy that names more than ours is no drift.
fn a_shared_dead_letter_queue_stays_shared(endpoint: &str) {
    let shop = Shop::unmade_with(endpoint, endpoint, false, "");
    drop(shop.env.line("apply --yes").ok());
    let other = format!("{}-other", shop.channel);
    shop.app.create(&other);
    // allowAll, as a queue is that nobody restricted.
    shop.app.set(
        &shop.dead,
        &json!({"RedriveAllowPolicy": json!({"redrivePermission": "allowAll"}).to_string()}),
    );
    super::native::feeds(&shop, &other);
    let plan = shop.env.line("plan").ok();
    assert!(plan.says(&format!("all → {}, {other}", shop.source)), "{plan}");
    drop(shop.env.line("apply --yes").ok());
    let policy = shop.app.attribute(&shop.dead, "RedriveAllowPolicy");
    assert!(
        policy.contains(&shop.app.arn(&other)) && policy.contains(&shop.app.arn(&shop.source)),
        "{policy}"
    );
    drop(shop.env.line("plan --check").ok());
}

#[test]
fn s28_a_shared_dead_letter_queue_stays_shared_on_local_aws_sqs() {
    a_shared_dead_letter_queue_stays_shared(&endpoint_or_return!(LOCAL));
}

/// What order means beside live traffic is said before anything is sent, and in no report more than that.
#[test]
fn s06_order_is_promised_among_the_letters_of_the_run_only_on_elasticmq() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    let shop = Shop::new(&endpoint, &endpoint, true);
    shop.bury(2);
    let said = "among these letters only: what is sent meanwhile comes between them";
    let dry = shop.env.run(&shop.line(&["--limit", "all", "--dry-run"])).ok();
    assert!(dry.says(said), "{dry}");
    let loose = shop.env.run(&shop.line(&["--limit", "all", "--dry-run", "--order", "none"])).ok();
    assert!(!loose.says(said) && loose.says("in any order"), "{loose}");
}

/// How many letters a selection could not see, on the screen and as data.
#[test]
fn select_says_how_many_letters_it_could_not_see_on_both() {
    for endpoint in [endpoint_or_return!(MINISTACK), endpoint_or_return!(ELASTICMQ)] {
        let shop = Shop::new(&endpoint, &endpoint, true);
        for n in 0..25 {
            shop.app.send(&shop.dead, &body(n), Some("A"), &format!("d{n}"), &json!({}));
        }
        let select = |out: &str, more: &[&str]| {
            let mut line = vec!["select", &shop.channel, "--limit", "all", "--reason", "INC-1", "--out", out];
            line.extend(more);
            shop.env.run(&line).ok()
        };
        let said = select("a.jsonl", &[]);
        assert!(said.says("about 15 letters stand behind these in their groups"), "{said}");
        assert!(said.says("10 letters of 10 selected"), "{said}");
        let data = select("b.jsonl", &["-o", "json"]).json();
        assert_eq!((&data["selected"], &data["looking"]["behind"]), (&json!(10), &json!(15)), "{data}");
        // In flight elsewhere: not visible to anybody else.
        let standard = Shop::new(&endpoint, &endpoint, false);
        standard.bury(12);
        let held = standard.app.receive(&standard.dead, 60);
        assert!(!held.is_empty());
        let line = ["select", &standard.channel, "--limit", "all", "--reason", "INC-1", "--out", "c.jsonl"];
        let said = standard.env.run(&line).ok();
        assert!(said.says(&format!("about {} letters are in flight elsewhere", held.len())), "{said}");
    }
}

/// Ids of copies are SQS's own: which original became which copy is in the events of the run and on the copy.
#[test]
fn s26_events_map_old_ids_to_new_ones_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::new(&endpoint, &endpoint, false);
    let mut old = BTreeMap::new();
    for n in 0..3 {
        old.insert(body(n), shop.app.send(&shop.dead, &body(n), None, "", &json!({})));
    }
    drop(shop.env.run(&shop.line(&["--limit", "all", "--yes", "--events", "events.jsonl"])).ok());
    let events = std::fs::read_to_string(shop.env.path("events.jsonl")).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = shop.arrived().0;
    assert_eq!(all.len(), 3);
    for got in all {
        assert_ne!(got.system_id, old[&got.body]);
        let event = events.iter().find(|event| event.to_string().contains(&got.system_id));
        let letter = event.unwrap_or_else(|| panic!("{} in {events:?}", got.system_id))["letter"].clone();
        let mark: Value =
            serde_json::from_str(got.attributes["redrive"]["StringValue"].as_str().unwrap()).unwrap();
        assert_eq!(mark["from"], json!(format!("{}/{}", shop.dead, letter.as_str().unwrap())), "{mark}");
    }
}

/// Queues of one name in two accounts are two queues: a depth of one is no growth of the other, and their runs do not
/// lock each other out.
#[test]
fn accounts_and_endpoints_of_one_region_are_told_apart() {
    let (one, other) = (endpoint_or_return!(MINISTACK), endpoint_or_return!(ELASTICMQ));
    let mut shop = Shop::new(&one, &one, false);
    let state = shop.env.folder().join("state").display().to_string();
    shop.env.set("XDG_STATE_HOME", &state);
    let there = super::app::App::at(&other);
    for queue in [&shop.dead, &shop.tier, &shop.source] {
        there.create(queue);
    }
    shop.bury(3);
    drop(shop.env.run(&["status", &shop.channel]).ok());
    let run = shop.run();
    assert_eq!(count(&run, "moved"), 3);
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    shop.env.topology(&text.replace(&one, &other));
    let status = shop.env.run(&["status", &shop.channel, "-o", "json"]).ok().json();
    assert!(status["channels"][0]["growth"].is_null(), "{status}");
}
