//! Send, receive, ack, fail: leases, groups, counters, routing.

use std::sync::Arc;
use std::time::Duration;

use redrive::broker::ErrorKind;
use redrive::broker::Want;
use redrive::broker::sqlite::Failure;
use redrive::clock::{Time, VirtualClock};
use redrive::dead_letter::DeadLetter;
use redrive::stamp;

use super::bench::{Bench, body, message};

const NOW: Time = Time::from_seconds(1_790_000_000);

async fn virtual_bench() -> (Bench, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::new(NOW));
    (Bench::provisioned(clock.clone()).await, clock)
}

#[tokio::test]
async fn one_of_a_group_is_in_flight_and_groups_go_side_by_side() {
    let (bench, _) = virtual_bench().await;
    let (mut one, mut two) = (bench.application(), bench.application());
    let sent = [message("a", "1"), message("a", "2"), message("b", "3"), message("", "4"), message("", "5")];
    one.send("orders", &sent, Duration::ZERO).unwrap();
    let first = one.receive("orders", 10, None).unwrap();
    let bodies: Vec<&str> = first.iter().map(|delivery| body(&delivery.message)).collect();
    assert_eq!(bodies, ["1", "3", "4", "5"]);
    assert!(two.receive("orders", 10, None).unwrap().is_empty(), "2 waits for 1");
    one.ack(&first[0].receipt).unwrap();
    let then = two.receive("orders", 10, None).unwrap();
    assert_eq!(body(&then[0].message), "2");
    assert_eq!(then.len(), 1);
}

#[tokio::test]
async fn m21_an_old_receipt_cannot_settle_a_newer_lease() {
    let (bench, clock) = virtual_bench().await;
    let (mut one, mut two) = (bench.application(), bench.application());
    one.send("orders", &[message("a", "1")], Duration::ZERO).unwrap();
    let old = one.receive("orders", 1, Some(Duration::from_secs(10))).unwrap().remove(0);
    clock.advance(Duration::from_secs(9));
    assert!(two.receive("orders", 1, None).unwrap().is_empty());
    clock.advance(Duration::from_secs(1));
    let new = two.receive("orders", 1, None).unwrap().remove(0);
    assert_eq!((old.receives, new.receives), (1, 2));
    for error in [
        one.ack(&old.receipt).unwrap_err(),
        one.fail(&old.receipt, &Failure::default()).unwrap_err(),
        one.extend(&old.receipt, Duration::from_secs(60)).unwrap_err(),
        one.release(&old.receipt).unwrap_err(),
        one.ack("nonsense").unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Stale);
    }
    two.ack(&new.receipt).unwrap();
    assert_eq!(two.ack(&new.receipt).unwrap_err().kind, ErrorKind::Stale, "once is enough");
}

#[tokio::test]
async fn r06_failures_route_by_the_header_and_never_by_receives() {
    let (bench, clock) = virtual_bench().await;
    let mut app = bench.application();
    app.send("orders", &[message("a", "1")], Duration::ZERO).unwrap();
    // Handed out and given back three times: that is no failed try.
    for _ in 0..3 {
        let delivery = app.receive("orders", 1, None).unwrap().remove(0);
        app.release(&delivery.receipt).unwrap();
    }
    let failure = |n: u32| Failure {
        class: Some("TimeoutException".to_owned()),
        message: Some(format!("no answer, {n}")),
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
        consumer: Some("billing".to_owned()),
        ..Failure::default()
    };
    let mut queues = Vec::new();
    for n in 1..=3 {
        let delivery = app.receive("orders", 1, None).unwrap().remove(0);
        let routed = app.fail(&delivery.receipt, &failure(n)).unwrap();
        assert_eq!(routed.attempt, n);
        queues.push(routed.queue.clone());
        if let Some(due) = routed.due {
            let mut relay = bench.open(true).await.serve(&[&bench.channel], "relay").await.unwrap();
            let wait = due.since(bench.clock.now());
            clock.advance(wait - Duration::from_millis(1));
            assert!(relay.carry(10).await.unwrap().moved.is_empty(), "never early");
            clock.advance(Duration::from_millis(1));
            assert_eq!(relay.carry(10).await.unwrap().moved, [(routed.queue, vec![Duration::ZERO])]);
        }
    }
    assert_eq!(queues, ["orders.retry-5s", "orders.retry-1m", "orders.dlq"]);
    let broker = bench.open(false).await;
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved: false }).await.unwrap();
    let letter = DeadLetter::of(look.next().await.unwrap().remove(0), &bench.channel);
    assert_eq!(letter.context.deaths.len(), 3, "R5: history is all deaths");
    assert_eq!(letter.context.deaths[0].message.as_deref(), Some("no answer, 1"));
    assert_eq!(letter.context.attempts, Some(3));
    assert_eq!(letter.context.trace.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    let headers = &letter.raw.message.headers;
    assert_eq!(headers.first_text("event-id"), Some("ev-1"));
    assert_eq!(headers.first_text(stamp::TIER), Some("orders.retry-1m"));
    assert_eq!(headers.first_text(stamp::FIRST_FAILED_AT), Some(NOW.rfc3339().as_str()));
    assert_eq!(body(&letter.raw.message), "1");
}

#[tokio::test]
async fn handed_out_too_often_without_an_answer_a_letter_is_dead_with_its_reason() {
    let (bench, clock) = virtual_bench().await;
    let mut app = bench.application();
    app.send("orders", &[message("a", "poison"), message("a", "next")], Duration::ZERO).unwrap();
    for n in 1..=5 {
        let delivery = app.receive("orders", 1, Some(Duration::from_secs(1))).unwrap().remove(0);
        assert_eq!((body(&delivery.message), delivery.receives), ("poison", n));
        clock.advance(Duration::from_secs(1));
    }
    let delivery = app.receive("orders", 1, None).unwrap().remove(0);
    assert_eq!(body(&delivery.message), "next");
    let broker = bench.open(false).await;
    let mut look = broker.snapshot(&bench.channel, Want::default()).await.unwrap();
    let letter = DeadLetter::of(look.next().await.unwrap().remove(0), &bench.channel);
    let death = letter.context.last().unwrap();
    assert_eq!(death.reason.as_deref(), Some("max_receives"));
    assert_eq!(letter.context.attempts, None, "nobody said that a try failed");
}

#[tokio::test]
async fn a_delayed_message_waits_and_a_late_answer_counts_while_nobody_else_has_it() {
    let (bench, clock) = virtual_bench().await;
    let mut app = bench.application();
    app.send("orders", &[message("a", "later")], Duration::from_secs(60)).unwrap();
    app.send("orders", &[message("b", "now")], Duration::ZERO).unwrap();
    let now = app.receive("orders", 10, Some(Duration::from_secs(1))).unwrap();
    assert_eq!(now.iter().map(|delivery| body(&delivery.message)).collect::<Vec<_>>(), ["now"]);
    clock.advance(Duration::from_secs(60));
    app.ack(&now[0].receipt).unwrap();
    assert_eq!(body(&app.receive("orders", 10, None).unwrap()[0].message), "later");
}

#[tokio::test]
async fn retention_takes_what_is_older_and_nothing_that_is_held() {
    let (bench, clock) = virtual_bench().await;
    let mut app = bench.application();
    app.send("orders.dlq", &[message("a", "old"), message("b", "held")], Duration::ZERO).unwrap();
    clock.advance(Duration::from_secs(14 * 86_400));
    let held = app.receive("orders.dlq", 2, Some(Duration::from_secs(60))).unwrap();
    app.release(&held[0].receipt).unwrap();
    clock.advance(Duration::from_secs(1));
    app.send("orders.dlq", &[message("c", "new")], Duration::ZERO).unwrap();
    let broker = bench.open(false).await;
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved: false }).await.unwrap();
    let left: Vec<String> =
        look.next().await.unwrap().iter().map(|letter| body(&letter.message).to_owned()).collect();
    assert_eq!(left, ["held", "new"]);
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_named_with_one_that_looks_like_it() {
    let (bench, _) = virtual_bench().await;
    let error = bench.application().send("ordres.dlq", &[message("", "1")], Duration::ZERO).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(error.message, "no queue `ordres.dlq` in redrive.db; near: `orders.dlq`");
}
