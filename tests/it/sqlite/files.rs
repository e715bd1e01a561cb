//! The file itself: looking makes none and changes none, versions, foreign files, waiting for others.

use std::time::{Duration, Instant};

use redrive::broker::{ErrorKind, Kind, Want, sqlite::SqliteKind};

use super::bench::{Bench, message, provision};

fn refusal(
    opened: redrive::broker::Result<Box<dyn redrive::broker::Broker>>,
) -> redrive::broker::BrokerError {
    match opened {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn k36_looking_makes_no_file() {
    let bench = Bench::empty();
    for writes in [false, true] {
        let broker = bench.open(writes).await;
        assert!(broker.observe(&[&bench.channel]).await.unwrap().is_empty());
        assert!(!broker.depths(&bench.channel).await.unwrap().dead_letter.exists);
        let error = broker.snapshot(&bench.channel, Want::default()).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::NotFound);
    }
    let made: Vec<_> = std::fs::read_dir(bench.folder()).unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
}

#[tokio::test]
async fn looking_changes_no_byte_of_the_file() {
    let bench = Bench::empty();
    provision(&*bench.open(true).await, &bench.channel).await;
    bench.application().send("orders.dlq", &[message("a", "1"), message("b", "2")], Duration::ZERO).unwrap();
    let before = std::fs::read(bench.path()).unwrap();
    let broker = bench.open(false).await;
    broker.observe(&[&bench.channel]).await.unwrap();
    broker.depths(&bench.channel).await.unwrap();
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved: true }).await.unwrap();
    while !look.next().await.unwrap().is_empty() {}
    let cost = look.close().await.unwrap();
    assert_eq!((cost.read, cost.hidden, cost.changed.len()), (2, 0, 0));
    assert!(before == std::fs::read(bench.path()).unwrap());
}

#[tokio::test]
async fn a_newer_version_and_a_foreign_file_are_refused_and_left_alone() {
    let bench = Bench::empty();
    provision(&*bench.open(true).await, &bench.channel).await;
    let raw = rusqlite::Connection::open(bench.path()).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    for writes in [false, true] {
        let error = refusal(SqliteKind.open(&bench.decl(), &bench.context(writes)).await);
        assert_eq!(error.kind, ErrorKind::Version);
        assert!(error.message.contains("schema version 99"), "{error}");
    }
    let bench = Bench::empty();
    rusqlite::Connection::open(bench.path()).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let error = refusal(SqliteKind.open(&bench.decl(), &bench.context(true)).await);
    assert_eq!(error.message, "it is a database of another program");
    let bench = Bench::empty();
    std::fs::write(bench.path(), "no database, but text of more than a hundred bytes ".repeat(9)).unwrap();
    let error = refusal(SqliteKind.open(&bench.decl(), &bench.context(true)).await);
    assert_eq!(error.message, "it is not a SQLite database");
}

#[tokio::test]
async fn a_writer_waits_for_another_and_goes_on() {
    let bench = Bench::empty();
    provision(&*bench.open(true).await, &bench.channel).await;
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        other.execute_batch("COMMIT").unwrap();
    });
    let begun = Instant::now();
    bench.application().send("orders", &[message("a", "1")], Duration::ZERO).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(250));
    holder.join().unwrap();
}
