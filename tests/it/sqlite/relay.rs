//! Serving tiers: order, groups, several relays, lateness. Numbers are protocol.md's.

use std::sync::Arc;
use std::time::Duration;

use redrive::broker::ErrorKind;
use redrive::clock::{Clock, Time, VirtualClock};
use redrive::stamp;

use super::bench::{Bench, body, message};

const NOW: Time = Time::from_seconds(1_790_000_000);
const TIER: &str = "orders.retry-5s";

async fn virtual_bench() -> (Bench, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::new(NOW));
    (Bench::provisioned(clock.clone()).await, clock)
}

fn source(bench: &Bench) -> Vec<String> {
    let db = rusqlite::Connection::open(bench.path()).unwrap();
    let mut query = db
        .prepare(
            "SELECT CAST(body AS TEXT) FROM letter JOIN queue ON queue.id = queue
             WHERE queue.name = 'orders' ORDER BY letter.id",
        )
        .unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn letters_go_back_in_due_order_and_say_how_late_they_are() {
    let (bench, clock) = virtual_bench().await;
    let mut app = bench.application();
    app.send(TIER, &[message("a", "third")], Duration::from_secs(9)).unwrap();
    app.send(TIER, &[message("b", "first")], Duration::from_secs(3)).unwrap();
    // Without a delay of its own a letter in a tier waits as long as the tier says.
    app.send(TIER, &[message("c", "second")], Duration::ZERO).unwrap();
    let mut relay = bench.open(true).await.serve(&[&bench.channel], "r").await.unwrap();
    let idle = relay.carry(10).await.unwrap();
    assert!(idle.moved.is_empty());
    assert_eq!(idle.next_due, Some(NOW.plus(Duration::from_secs(3))));
    clock.advance(Duration::from_secs(10));
    let tiers = relay.tiers().await.unwrap();
    assert_eq!((tiers[0].waiting, tiers[0].due, tiers[0].overdue), (3, 3, Duration::from_secs(7)));
    let two = relay.carry(2).await.unwrap();
    assert!(two.more);
    assert_eq!(two.moved, [(TIER.to_owned(), vec![Duration::from_secs(7), Duration::from_secs(5)])]);
    let rest = relay.carry(2).await.unwrap();
    assert_eq!(rest.moved, [(TIER.to_owned(), vec![Duration::from_secs(1)])]);
    assert!(!rest.more && rest.next_due.is_none());
    assert_eq!(source(&bench), ["first", "second", "third"]);
    relay.close().await.unwrap();
}

#[tokio::test]
async fn r03_a_group_of_which_somebody_holds_one_stays_and_others_go() {
    let (bench, clock) = virtual_bench().await;
    let mut app = bench.application();
    let letters = [message("a", "1"), message("a", "2"), message("b", "3")];
    app.send(TIER, &letters, Duration::from_secs(5)).unwrap();
    clock.advance(Duration::from_secs(5));
    // A consumer that reads the tier itself holds the first of group a.
    let held = app.receive(TIER, 1, Some(Duration::from_secs(20))).unwrap();
    assert_eq!(body(&held[0].message), "1");
    let mut relay = bench.open(true).await.serve(&[&bench.channel], "r").await.unwrap();
    let carried = relay.carry(10).await.unwrap();
    assert_eq!(source(&bench), ["3"]);
    assert_eq!(carried.next_due, None, "what is due and held is no reason to come back at once");
    assert!(relay.carry(10).await.unwrap().moved.is_empty());
    clock.advance(Duration::from_secs(20));
    relay.carry(10).await.unwrap();
    assert_eq!(source(&bench), ["3", "1", "2"], "R3: the group in its order");
    assert_eq!(app.ack(&held[0].receipt).unwrap_err().kind, ErrorKind::Stale);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_relays_share_without_doubling() {
    let (bench, clock) = virtual_bench().await;
    let letters: Vec<_> = (0..600).map(|n| message(&format!("g{}", n % 7), &format!("{n}"))).collect();
    bench.application().send(TIER, &letters, Duration::from_secs(5)).unwrap();
    clock.advance(Duration::from_secs(5));
    let mut relays = Vec::new();
    for n in 0..4 {
        let mut relay = bench.open(true).await.serve(&[&bench.channel], &format!("r{n}")).await.unwrap();
        relays.push(tokio::spawn(async move {
            let mut moved = 0;
            loop {
                let step = relay.carry(20).await.unwrap();
                let some: usize = step.moved.iter().map(|(_, late)| late.len()).sum();
                if some == 0 {
                    break moved;
                }
                moved += some;
            }
        }));
    }
    let mut moved = 0;
    for relay in relays {
        moved += relay.await.unwrap();
    }
    assert_eq!(moved, 600);
    let arrived = source(&bench);
    assert_eq!(arrived.len(), 600, "R2: none twice, R1: none lost");
    assert!(arrived.iter().map(|n| n.parse::<u32>().unwrap()).is_sorted());
}

#[tokio::test]
async fn r08_the_way_back_counts_nothing_and_fills_in_what_a_consumer_left_out() {
    let (bench, clock) = virtual_bench().await;
    let mut app = bench.application();
    let mut stamped = message("a", "stamped");
    for (name, value) in
        [(stamp::ATTEMPT, "2"), (stamp::TIER, "orders.retry-1m"), (stamp::FIRST_FAILED_AT, "x")]
    {
        stamped.headers.push(name, redrive::letter::Value::from_text(value));
    }
    app.send("orders.retry-1m", &[stamped.clone(), message("b", "bare")], Duration::ZERO).unwrap();
    clock.advance(Duration::from_secs(60));
    bench.open(true).await.serve(&[&bench.channel], "r").await.unwrap().carry(10).await.unwrap();
    let back = app.receive("orders", 10, None).unwrap();
    assert_eq!(back[0].message, stamped);
    let headers = &back[1].message.headers;
    assert_eq!(headers.first_text(stamp::ATTEMPT), Some("2"), "it comes out of the second tier");
    assert_eq!(headers.first_text(stamp::TIER), Some("orders.retry-1m"));
    assert_eq!(headers.first_text(stamp::FIRST_FAILED_AT), Some(NOW.rfc3339().as_str()));
    assert_eq!(headers.first_text("event-id"), Some("ev-bare"));
    assert!(clock.now() > NOW);
}
