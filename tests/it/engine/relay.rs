//! Relays as processes: killed at every named step on both paths, several at once, and how late they are.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use redrive::letter::Message;
use redrive::proof::failpoint;
use rusqlite::Connection;

use super::{Shop, letter};

const MESSAGES: usize = 60;
const TIER: &str = "orders.retry-5s";

/// Puts messages into the first tier, due after `wait`.
fn wait_in_tier(shop: &Shop, count: usize, wait: Duration) {
    let messages: Vec<Message> =
        (0..count).map(|n| letter((n % 7 != 0).then(|| format!("C-{}", n % 12)), n)).collect();
    shop.application().send(TIER, &messages, wait).unwrap();
}

/// The claims of the dead run out at once.
fn leases_end(shop: &Shop) {
    Connection::open(shop.path()).unwrap().execute("UPDATE lease SET until = 0", []).unwrap();
}

/// Copies by body; asserts that none is nowhere (R1) and that first arrivals are in order (R3).
fn copies(shop: &Shop, at: &str) -> BTreeMap<String, usize> {
    let (tier, target) = (shop.lying(TIER), shop.lying("orders"));
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for there in &target {
        let copy = copies.entry(there.body.clone()).or_default();
        *copy += 1;
        let n: usize = there.body.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        if *copy == 1
            && let Some(key) = &there.key
        {
            let before = last.insert(key.clone(), n);
            assert!(before.is_none_or(|before| before < n), "R3: {at}: {key}: {n} after {before:?}");
        }
    }
    for n in 0..MESSAGES {
        let body = format!("{{\"n\":{n}}}");
        let there = copies.contains_key(&body) || tier.iter().any(|lying| lying.body == body);
        assert!(there, "R1: {at}: {body} is nowhere");
    }
    copies
}

/// Kills relays at every step; gives how many were killed and how many messages came twice.
fn killed_everywhere(path: &[&str], steps: &[&str]) -> (usize, usize) {
    let (mut kills, mut twice) = (0, 0);
    for step in steps {
        for nth in [1, 2] {
            let shop = Shop::new();
            wait_in_tier(&shop, MESSAGES, Duration::from_millis(1));
            let at = format!("{step}:{nth}");
            let arguments: Vec<&str> = ["relay", "orders", "--once"].iter().chain(path).copied().collect();
            let first = shop.env.command(&arguments).env("REDRIVE_FAILPOINT", &at).output().unwrap();
            let died = first.status.signal() == Some(9);
            assert!(died || first.status.success(), "{at}: {first:?}");
            kills += usize::from(died);
            let so_far = copies(&shop, &at);
            assert!(so_far.values().all(|count| *count == 1), "R2: {at}: twice after one relay");
            // Another one is killed too, at the same step, before a last one comes through.
            leases_end(&shop);
            let again = shop.env.command(&arguments).env("REDRIVE_FAILPOINT", step).output().unwrap();
            kills += usize::from(again.status.signal() == Some(9));
            copies(&shop, &at);
            leases_end(&shop);
            let last = shop.env.run(&arguments).ok();
            let all = copies(&shop, &at);
            assert!(shop.lying(TIER).is_empty() && all.len() == MESSAGES, "{at}: {last}");
            let doubled = all.values().filter(|count| **count > 1).count();
            twice += doubled;
            assert!(doubled == 0 || last.says("may be there twice") || died, "R2: {at}: not reported");
        }
    }
    (kills, twice)
}

#[test]
fn l06_relays_killed_at_every_step_in_one_transaction_double_nothing() {
    let (kills, twice) = killed_everywhere(&[], failpoint::RELAY);
    println!("path T: {kills} relays killed, {twice} messages twice");
    assert!(kills >= 6, "{kills}");
    assert_eq!(twice, 0, "I10: copy and removal are one");
}

#[test]
fn l06_relays_killed_at_every_step_by_hand_lose_nothing_and_report_what_may_be_twice() {
    let (kills, twice) = killed_everywhere(&["--without-transactions"], failpoint::RELAY_BY_HAND);
    println!("path P: {kills} relays killed, {twice} messages twice, all of them after a kill behind a send");
    assert!(kills >= 8, "{kills}");
    assert!(twice > 0, "a kill between copy and removal is seen");
}

#[test]
fn what_may_be_twice_is_reported_by_the_next_relay() {
    let shop = Shop::new();
    shop.application().send(TIER, &[letter(None, 1)], Duration::from_millis(1)).unwrap();
    let arguments = ["relay", "orders", "--once", "--without-transactions"];
    let killed = shop.env.command(&arguments).env("REDRIVE_FAILPOINT", "relay_after_send").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    leases_end(&shop);
    let next = shop.env.run(&arguments).ok();
    assert!(next.err.contains("1 of them may be there twice"), "{next}");
    assert_eq!(shop.lying("orders").len(), 2);
    // Without a fault nothing is said.
    shop.application().send(TIER, &[letter(None, 2)], Duration::from_millis(1)).unwrap();
    let calm = shop.env.run(&arguments).ok();
    assert!(!calm.err.contains("twice"), "{calm}");
    assert_eq!(shop.lying("orders").len(), 3);
}

fn spawn(shop: &Shop, path: &[&str]) -> Child {
    let arguments: Vec<&str> = ["relay", "orders"].iter().chain(path).copied().collect();
    let mut command = shop.env.command(&arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Three relays at once, one of them killed in the middle of it.
fn several(path: &[&str]) {
    let shop = Shop::new();
    wait_in_tier(&shop, MESSAGES, Duration::from_millis(1));
    let mut relays: Vec<Child> = (0..3).map(|_| spawn(&shop, path)).collect();
    let begun = Instant::now();
    for part in 1..6 {
        while shop.lying("orders").len() < part * MESSAGES {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} arrived", shop.lying("orders").len());
            std::thread::sleep(Duration::from_millis(10));
        }
        if part < 5 {
            wait_in_tier(&shop, MESSAGES, Duration::from_millis(1));
        }
    }
    for relay in &relays {
        let id = relay.id().to_string();
        std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap();
    }
    for relay in &mut relays {
        assert_eq!(relay.wait().unwrap().code(), Some(143));
    }
    let target = shop.lying("orders");
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for there in &target {
        *counted.entry(&there.body).or_default() += 1;
    }
    assert!(counted.values().all(|count| *count == 5), "each of five rounds once: {counted:?}");
    assert!(shop.lying(TIER).is_empty());
}

#[test]
fn several_relays_at_once_share_the_work_and_double_nothing() {
    several(&[]);
}

#[test]
fn several_relays_at_once_by_hand_double_nothing() {
    several(&["--without-transactions"]);
}

#[test]
fn the_json_of_a_relay_says_when_the_next_message_falls_due() {
    let shop = Shop::new();
    let report = || {
        let relay = shop.line("relay --once -o jsonl").ok();
        serde_json::from_str::<serde_json::Value>(relay.out.lines().last().unwrap()).unwrap()
    };
    let empty = report();
    assert!(empty["next_due"].is_null() && empty.get("unknown").is_none(), "{empty}");
    wait_in_tier(&shop, 2, Duration::from_secs(90));
    shop.application().send("orders.retry-1m", &[letter(None, 9)], Duration::from_secs(600)).unwrap();
    let due: i64 = Connection::open(shop.path())
        .unwrap()
        .query_row("SELECT min(due) FROM letter WHERE due > 0", [], |row| row.get(0))
        .unwrap();
    let waits = report();
    let next = redrive::clock::Time::parse(waits["next_due"].as_str().unwrap()).unwrap();
    assert_eq!(next.millis(), due, "{waits}");
}
