//! Rows that other programs wrote wrongly (rule 10): looked at, never sent, in nobody's way.

use std::sync::Arc;
use std::time::Duration;

use redrive::broker::sqlite::Failure;
use redrive::broker::{Ask, ErrorKind, Missing, Task, Want, Wanted};
use redrive::clock::SystemClock;
use redrive::letter::Message;

use super::bench::{Bench, body, message};

async fn with_bad_lists() -> Bench {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let mut app = bench.application();
    let letters: Vec<Message> = (0..4).map(|n| message(&format!("g{n}"), &format!("{n}"))).collect();
    app.send("orders.dlq", &letters, Duration::ZERO).unwrap();
    let db = rusqlite::Connection::open(bench.path()).unwrap();
    db.execute("UPDATE letter SET headers = '{\"a\": [1, 2]}' WHERE id = 2", []).unwrap();
    db.execute("UPDATE letter SET properties = '[[\"a\", {\"nonsense\": 1}]]' WHERE id = 3", []).unwrap();
    bench
}

#[tokio::test]
async fn lists_that_are_none_are_shown_as_they_are_and_not_sent() {
    let bench = with_bad_lists().await;
    let broker = bench.open(true).await;
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved: false }).await.unwrap();
    let letters = look.next().await.unwrap();
    assert_eq!(letters.len(), 4);
    let shown = letters[1].message.headers.first_text("redrive-unreadable");
    assert_eq!(shown, Some("{\"a\": [1, 2]}"));
    assert!(letters[2].message.properties.has("redrive-unreadable"));
    let task = Task {
        run: "r1".to_owned(),
        owner: "o".to_owned(),
        who: "w".to_owned(),
        target: "orders".to_owned(),
        take_over: false,
        snapshot: look.snapshot().identity.clone(),
        claim_for: Duration::from_secs(30),
    };
    let mut mover = broker.begin(&bench.channel, &task).await.unwrap();
    let wanted: Vec<Wanted> = letters
        .iter()
        .enumerate()
        .map(|(seq, letter)| Wanted { seq: seq as u64, position: letter.position.clone() })
        .collect();
    let claims = mover.claim(&Ask { next: &wanted, wanted: &|_| None, limit: 10 }).await.unwrap();
    assert_eq!(claims.got.iter().map(|claimed| claimed.seq).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(claims.missing, [(1, Missing::NotSeen), (2, Missing::NotSeen)]);
    mover.end().await.unwrap();
}

#[tokio::test]
async fn a_letter_with_bad_headers_can_still_fail_and_keeps_them() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let mut app = bench.application();
    app.send("orders", &[message("a", "1")], Duration::ZERO).unwrap();
    let db = rusqlite::Connection::open(bench.path()).unwrap();
    db.execute("UPDATE letter SET headers = '[7]'", []).unwrap();
    let delivery = app.receive("orders", 1, None).unwrap().remove(0);
    assert_eq!(app.fail(&delivery.receipt, &Failure::default()).unwrap().queue, "orders.retry-5s");
    let headers: String = db.query_row("SELECT headers FROM letter", [], |row| row.get(0)).unwrap();
    assert_eq!(headers, "[7]");
}

#[tokio::test]
async fn the_file_itself_refuses_what_is_no_json_and_letters_of_no_queue() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let db = rusqlite::Connection::open(bench.path()).unwrap();
    let insert = |queue: &str, headers: &str| {
        db.execute(
            "INSERT INTO letter (queue, entered_at, sent_at, headers)
             VALUES ((SELECT id FROM queue WHERE name = ?1), 1, 1, ?2)",
            [queue, headers],
        )
    };
    assert!(insert("orders", "nonsense").is_err());
    assert!(insert("ordres", "[]").is_err());
    assert!(insert("orders", "[]").is_ok());
}

#[tokio::test]
async fn a_routing_that_names_no_queue_is_an_error_and_the_letter_stays() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let db = rusqlite::Connection::open(bench.path()).unwrap();
    db.execute("UPDATE queue SET tiers = '[\"gone\"]' WHERE name = 'orders'", []).unwrap();
    let mut app = bench.application();
    app.send("orders", &[message("a", "1")], Duration::ZERO).unwrap();
    let delivery = app.receive("orders", 1, None).unwrap().remove(0);
    let error = app.fail(&delivery.receipt, &Failure::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    app.release(&delivery.receipt).unwrap();
    assert_eq!(body(&app.receive("orders", 1, None).unwrap()[0].message), "1");
}
