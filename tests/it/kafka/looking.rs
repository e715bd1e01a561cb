//! Looks that want less than all of a topic, and what a plan says of the topics that it finds.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive::broker::{Fate, Outgoing, Want};

use super::adapter::{BODIES, claim, look, outgoing, provision, task, text};
use super::bench::{Bench, message};
use super::program::Shop;
use super::proxy::Proxy;
use super::server::Server;

fn ids(document: &serde_json::Value) -> Vec<String> {
    let letters = document["letters"].as_array().unwrap();
    letters.iter().map(|letter| letter["event_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_plan_says_what_is_made_and_how_large() {
    let Some(shop) = Shop::new("5s") else { return };
    let env = shop.elsewhere();
    let other = format!("{}x", shop.name);
    let text = std::fs::read_to_string(env.path("redrive.yaml")).unwrap().replace(&shop.name, &other);
    env.write("redrive.yaml", text);
    let plan = env.line("plan").ok();
    let row = |name: &str| {
        let name = format!("{other}{name} ");
        plan.out
            .lines()
            .find(|line| line.contains(&name))
            .unwrap_or_else(|| panic!("{name}: {plan}"))
            .to_owned()
    };
    assert!(row(".retry-5s").ends_with("3 partitions × 1 replica, retention 1d 5s"), "{plan}");
    assert!(row(".dlq").ends_with("3 partitions × 1 replica, retention 14d"), "{plan}");
    assert!(row(".dlq.marks").ends_with("1 partition × 1 replica, compacted"), "{plan}");
}

#[test]
fn the_newest_letters_are_listed_without_reading_the_others() {
    let Some(shop) = Shop::new("5s") else { return };
    shop.bury(0..3_000);
    std::thread::sleep(Duration::from_millis(30));
    shop.bury(3_000..3_004);
    std::thread::sleep(Duration::from_millis(30));
    shop.bury(3_004..3_005);
    let name = shop.name.as_str();
    let seen = shop.line(&format!("inspect {name} --letters --newest 5 -o json")).ok().json();
    let found = ids(&seen);
    assert!(found[0].contains("3004"), "the newest first: {found:?}");
    let others: BTreeSet<&String> = found[1..].iter().collect();
    assert_eq!(others.len(), 4, "{found:?}");
    assert!(others.iter().all(|id| id.contains("300")), "{found:?}");
    assert_eq!(seen["order"], "newest_first");
    let read = seen["looking"]["read"].as_u64().unwrap();
    assert!(read <= 15, "of three partitions five each: {read}");
    let shown = shop.line(&format!("inspect {name} --letters --newest 2")).ok();
    assert!(shown.err.contains("2 shown, newest first, of at most 3,005"), "{shown}");
    // With a filter all have to be read, and are counted.
    let filtered =
        shop.env.run(&["inspect", name, "--letters", "--newest", "2", "--where", "message ~ 'order 1$'"]);
    let filtered = filtered.ok();
    assert!(filtered.err.contains("1 of 1 shown, newest first"), "{filtered}");
    // What was moved is not among them.
    let run = shop.env.run(&super::program::all(&shop, "unlimited"));
    assert_eq!(run.code, Some(0), "{run}");
    shop.bury(3_005..3_006);
    let left = shop.line(&format!("inspect {name} --letters --newest 5 -o json")).ok().json();
    assert_eq!(ids(&left).len(), 1, "{left}");
    let all = shop.line(&format!("inspect {name} --letters --newest 5 --all -o json")).ok().json();
    assert_eq!(ids(&all).len(), 5, "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k31_the_newest_letters_are_counted_not_the_offsets_that_hold_none() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    bench.app().produce(
        &dlq,
        &(0..400).map(|n| message("k", &format!("{n}"))).collect::<Vec<_>>(),
        Duration::ZERO,
    );
    // Behind them one letter, forty aborted ones, and one: more offsets than letters.
    drop(bench.app().transact(&dlq, &[message("k", "400")], Some(true)));
    for _ in 0..4 {
        drop(bench.app().transact(&dlq, &vec![message("k", "aborted"); 10], Some(false)));
    }
    drop(bench.app().transact(&dlq, &[message("k", "401")], Some(true)));
    let newest = async |most: u64, want: Want| {
        let mut pages = broker.newest(&channel, want, most).await.unwrap().unwrap();
        let mut bodies = Vec::new();
        loop {
            let page = pages.next().await.unwrap();
            if page.is_empty() {
                break;
            }
            bodies.extend(page.iter().map(|letter| text(&letter.message).parse::<usize>().unwrap()));
        }
        let cost = pages.close().await.unwrap();
        (bodies, cost.read)
    };
    let (bodies, read) = newest(5, BODIES).await;
    assert!(bodies.ends_with(&[397, 398, 399, 400, 401]), "{bodies:?}");
    assert!(read < 200, "the beginning is not read: {read}");
    let (bodies, _) = newest(1_000, BODIES).await;
    assert_eq!(bodies.len(), 402, "all, where there are no more");
    // Moved letters count for nothing.
    let (identity, _, all) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let got = claim(&mut *mover, &all[380..]).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(mover.transfer(&batch).await.unwrap().iter().all(|fate| matches!(fate, Fate::Moved(_))));
    mover.end().await.unwrap();
    let (bodies, _) = newest(3, BODIES).await;
    assert!(bodies.ends_with(&[377, 378, 379]), "{bodies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k13_a_plan_says_that_retention_counts_from_producers_times() {
    let Some(shop) = Shop::new("5s") else { return };
    let day = Duration::from_secs(86_400);
    // Stamped by the broker: nothing to say.
    shop.bury(0..1);
    let plan = shop.line("plan").ok();
    assert!(!plan.err.contains("LogAppendTime"), "{plan}");
    shop.app.set(&shop.dlq(), "message.timestamp.type", "CreateTime").await;
    shop.app.trim_all(&shop.dlq()).await;
    shop.app.produce(&shop.dlq(), &[message("a", "{\"n\":1}")], 13 * day + day / 2);
    let plan = shop.line("plan").ok();
    assert!(flat(&plan.err).contains("its oldest letter goes in 11h 59m"), "{plan}");
    assert!(flat(&plan.err).contains("message.timestamp.type=LogAppendTime"), "{plan}");
    shop.app.set(&shop.dlq(), "retention.ms", "-1").await;
    shop.app.produce(&shop.dlq(), &[message("b", "{\"n\":2}")], 20 * day);
    // The topology keeps letters for 14 days, the topic for ever: the plan would shorten that.
    let plan = shop.line("plan").ok();
    assert!(flat(&plan.out).contains("1 of 2 records are older and would be lost"), "{plan}");
    shop.app.set(&shop.dlq(), "retention.ms", &(14 * day).as_millis().to_string()).await;
    let seen = shop.line("plan -o json").ok().json();
    let remark = seen["plans"][0]["remarks"][0].as_str().unwrap_or_default().to_owned();
    // Retention may have taken it by now, or takes it at its next look.
    assert!(
        remark.contains("can go at any moment") || remark.contains("its oldest letter goes in"),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn k20_a_plan_names_topics_with_other_partitions_than_the_source_and_copies_go_by_key() {
    let Some(shop) = Shop::new("5s") else { return };
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    // The source and what belongs to it were made with three partitions; another dead-letter topic has one.
    let one = format!("{}.one", shop.name);
    shop.app.create(&one, 1).await;
    shop.env.topology(&text.replace(&format!("name: {}", shop.dlq()), &format!("name: {one}")));
    let plan = shop.line("plan").ok();
    let says = format!("{} has 3 partitions, {one} 1: a partition's number means something else", shop.name);
    assert!(flat(&plan.err).contains(&says), "{plan}");
    let letters: Vec<_> = (0..30).map(|n| message(&format!("k{n}"), &format!("{{\"n\":{n}}}"))).collect();
    shop.app.produce(&one, &letters, Duration::ZERO);
    let run = shop.env.run(&super::program::all(&shop, "unlimited"));
    assert_eq!(run.code, Some(0), "{run}");
    let target = shop.app.read(&shop.target());
    let partitions: BTreeSet<i32> = target.iter().map(|read| read.partition).collect();
    assert_eq!((target.len(), partitions.len()), (30, 3), "K20: never the dead-letter topic's own number");
}

#[test]
fn k38_letters_that_were_overtaken_are_named_and_left_where_that_is_asked_for() {
    let Some(shop) = Shop::new("5s") else { return };
    let event = |key: &str, n: usize| message(key, &format!("{{\"n\":{n}}}"));
    // created, modified, cancelled of one key; the same of another, of which the last two died; one alone.
    let events = [
        event("k123", 0),
        event("k123", 1),
        event("k123", 2),
        event("k456", 3),
        event("k456", 4),
        event("k456", 5),
        event("k789", 6),
    ];
    shop.app.produce(&shop.name, &events, Duration::ZERO);
    let placed: Vec<_> = shop.app.read(&shop.name);
    let died: Vec<_> = [1, 4, 5, 6]
        .iter()
        .map(|n| {
            let read = placed.iter().find(|read| super::program::number(read) == *n).unwrap();
            let mut letter = read.message.clone();
            let mut add = |name: &str, value: &[u8]| {
                letter.headers.push(name, redrive::letter::Value::from_bytes(value.to_vec()))
            };
            add("kafka_dlt-exception-fqcn", b"com.acme.TimeoutException");
            add("kafka_dlt-original-topic", shop.name.as_bytes());
            add("kafka_dlt-original-partition", &read.partition.to_be_bytes());
            add("kafka_dlt-original-offset", &read.offset.to_be_bytes());
            letter
        })
        .collect();
    shop.app.produce(&shop.dlq(), &died, Duration::ZERO);
    // A retry that a tier brought back is no later event.
    let mut retried = event("k789", 6);
    retried.headers.push("redrive-tier", redrive::letter::Value::from_text("retry-5s"));
    shop.app.produce(&shop.name, &[retried], Duration::ZERO);
    let name = shop.name.as_str();
    let dry = ["run", name, "--limit", "all", "--dry-run"];
    let shown = shop.env.run(&dry).ok();
    assert!(shown.out.contains("overtaken 1 of them (1 group)"), "{shown}");
    assert!(shown.out.contains("--skip-overtaken leaves them"), "{shown}");
    let seen = shop.env.run(&[&dry[..], &["-o", "json"]].concat()).ok().json();
    assert_eq!(seen["overtaken"]["letters"], 1, "{seen}");
    assert_eq!(seen["counts"]["send"], 4, "{seen}");
    let run = shop.env.run(&[
        "run",
        name,
        "--limit",
        "all",
        "--skip-overtaken",
        "--rate",
        "500/s",
        "--reason",
        "INC-1",
        "--yes",
        "-o",
        "json",
    ]);
    assert_eq!(run.code, Some(11), "{run}");
    assert_eq!(run.json()["counts"]["skipped"], 1, "{run}");
    let moved: BTreeSet<usize> = shop.app.read(&shop.target()).iter().map(super::program::number).collect();
    assert_eq!(moved, BTreeSet::from([4, 5, 6]), "k123 stays, the others go");
}

#[test]
fn k21_letters_whose_producer_places_keys_by_another_rule_are_named_and_may_keep_their_partition() {
    let Some(shop) = Shop::new("5s") else { return };
    let letters: Vec<_> = (0..12)
        .map(|n| {
            let mut letter = message(&format!("k{n}"), &format!("{{\"n\":{n}}}"));
            let mut add = |name: &str, value: &[u8]| {
                letter.headers.push(name, redrive::letter::Value::from_bytes(value.to_vec()));
            };
            add("kafka_dlt-exception-fqcn", b"com.acme.TimeoutException");
            add("kafka_dlt-original-topic", shop.name.as_bytes());
            // As a client does it that hashes otherwise: all in one partition.
            add("kafka_dlt-original-partition", &2i32.to_be_bytes());
            add("kafka_dlt-original-offset", &i64::from(n).to_be_bytes());
            letter
        })
        .collect();
    shop.app.produce(&shop.dlq(), &letters, Duration::ZERO);
    let java: BTreeSet<usize> = shop
        .app
        .read(&shop.dlq())
        .iter()
        .filter(|read| read.partition == 2)
        .map(super::program::number)
        .collect();
    let name = shop.name.as_str();
    let dry = ["run", name, "--limit", "all", "--dry-run"];
    let shown = shop.env.run(&dry).ok();
    let says = format!("elsewhere {} of them lay in another partition of {name}", 12 - java.len());
    assert!(flat(&shown.out).contains(&says), "{shown}");
    assert!(flat(&shown.out).contains("kafka: {place_by: origin}"), "{shown}");
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    shop.env.topology(&text.replace("kafka: {partitions: 3,", "kafka: {place_by: origin, partitions: 3,"));
    let shown = shop.env.run(&dry).ok();
    assert!(!shown.out.contains("elsewhere"), "{shown}");
    let run = shop.env.run(&super::program::all(&shop, "unlimited"));
    assert_eq!(run.code, Some(0), "{run}");
    let target = shop.app.read(&shop.target());
    assert_eq!(target.len(), 12);
    assert!(target.iter().all(|read| read.partition == 2), "where their messages lay");
}

/// The call that describes topics; ids of topics came with its version 10.
const METADATA: u16 = 3;

#[test]
fn a_broker_that_is_too_old_is_told_as_such() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.said("PROXY_PORT"), server.said("PROXIED"));
    let shop = Shop::through(&proxy.url, server.url(), "5s");
    shop.bury(0..3);
    let seen = shop.line(&format!("inspect {}", shop.name));
    assert_eq!(seen.code, Some(0), "{seen}");
    proxy.know_only(METADATA, 9);
    let old = shop.line(&format!("inspect {}", shop.name));
    assert_eq!(old.code, Some(1), "{old}");
    assert!(flat(&old.err).contains("Apache Kafka 2.8 and later"), "{old}");
    let old = shop.env.run(&super::program::all(&shop, "unlimited"));
    assert_eq!(old.code, Some(1), "{old}");
    assert!(shop.app.read(&shop.target()).is_empty());
}

/// As one line: notes are wrapped.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
