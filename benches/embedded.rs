//! How fast the embedded broker's ports are, beside a bare program that does the same to the same rows.
//!
//! `cargo bench --no-default-features --bench embedded -- [LETTERS] [HEADER_BYTES]`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::broker::sqlite::{Application, SqliteKind};
use redrive::broker::{Ask, Kind, OpenContext, Outgoing, Task, Want, Wanted};
use redrive::clock::{Clock, SystemClock, VirtualClock};
use redrive::letter::{Message, Value};
use redrive::plan::Change;
use redrive::topology::{At, BrokerDecl, Channel, Tier};

const BATCH: usize = 1_000;

fn rate(what: &str, count: usize, begun: Instant) -> f64 {
    let per_second = count as f64 / begun.elapsed().as_secs_f64();
    println!("{what:<44} {per_second:>12.0}/s");
    per_second
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let count: usize = arguments.next().map_or(200_000, |n| n.parse().unwrap());
    let header: usize = arguments.next().map_or(150, |n| n.parse().unwrap());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let clock = Arc::new(VirtualClock::new(SystemClock.now()));
    let decl = BrokerDecl {
        name: At::nowhere("local".to_owned()),
        url: At::nowhere("sqlite:b.db".to_owned()),
        ..BrokerDecl::default()
    };
    let context = OpenContext { clock: clock.clone(), base: folder.path().to_owned(), writes: true };
    let channel = Channel {
        name: At::nowhere("orders".to_owned()),
        source: At::nowhere("orders".to_owned()),
        tiers: vec![Tier {
            name: At::nowhere("retry-5s".to_owned()),
            name_written: false,
            delay: At::nowhere(Duration::from_secs(5)),
        }],
        ..Channel::default()
    };
    let broker = SqliteKind.open(&decl, &context).await.unwrap();
    for resource in broker.desired(&[&channel]) {
        broker.make(&Change::Create { resource }).await.unwrap();
    }
    let mut application = Application::open(&decl, &context).unwrap();
    let messages = |from: usize| -> Vec<Message> {
        (from..from + BATCH)
            .map(|n| Message {
                key: Some(format!("C-{}", n % 5_000).into()),
                body: Some(vec![b'x'; 1_024].into()),
                headers: [
                    ("event-id".to_owned(), Value::from_text(format!("ev-{n}"))),
                    ("redrive-deaths".to_owned(), Value::from_text("at a.b.C\n".repeat(header / 9))),
                ]
                .into_iter()
                .collect(),
                ..Message::default()
            })
            .collect()
    };
    let begun = Instant::now();
    for from in (0..count).step_by(BATCH) {
        application.send("orders.dlq", &messages(from), Duration::ZERO).unwrap();
    }
    rate("send, transactions of 1,000", count, begun);

    let file = folder.path().join("b.db");
    let bare = scan(&file, "SELECT id, headers, key, length(body) FROM letter WHERE queue = ?1");
    for (words, bodies) in [("look without bodies", false), ("look with bodies", true)] {
        let begun = Instant::now();
        let mut pages = broker.snapshot(&channel, Want { bodies, moved: false }).await.unwrap();
        let mut seen = 0;
        loop {
            let page = pages.next().await.unwrap();
            if page.is_empty() {
                break;
            }
            seen += page.len();
        }
        let look = rate(words, seen, begun);
        println!("{:<44} {:>12.2}", "  of the bare scan", look / bare);
    }

    let mut look = broker.snapshot(&channel, Want::default()).await.unwrap();
    let mut wanted = Vec::new();
    loop {
        let page = look.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        wanted.extend(page.into_iter().map(|letter| letter.position));
    }
    let wanted: Vec<Wanted> =
        wanted.into_iter().enumerate().map(|(seq, position)| Wanted { seq: seq as u64, position }).collect();
    let task = Task {
        run: "r7d2f9".to_owned(),
        owner: "bench".to_owned(),
        who: "bench".to_owned(),
        target: "orders".to_owned(),
        take_over: false,
        snapshot: look.snapshot().identity.clone(),
        claim_for: Duration::from_secs(600),
    };
    let mut mover = broker.begin(&channel, &task).await.unwrap();
    let (mut claiming, mut moving) = (Duration::ZERO, Duration::ZERO);
    let half = wanted.len() / 2;
    let begun = Instant::now();
    for chunk in wanted[..half].chunks(BATCH) {
        let at = Instant::now();
        let claims = mover.claim(&Ask { next: chunk, wanted: &|_| None, limit: BATCH }).await.unwrap();
        claiming += at.elapsed();
        let batch = outgoing(claims.got, &*clock);
        let at = Instant::now();
        mover.transfer(&batch).await.unwrap();
        moving += at.elapsed();
    }
    println!("{:<44} {:>12.0}/s", "claim alone", half as f64 / claiming.as_secs_f64());
    println!("{:<44} {:>12.0}/s", "transfer alone", half as f64 / moving.as_secs_f64());
    rate("claim and transfer", half, begun);
    let begun = Instant::now();
    for chunk in wanted[half..].chunks(BATCH) {
        let claims = mover.claim(&Ask { next: chunk, wanted: &|_| None, limit: BATCH }).await.unwrap();
        let batch = outgoing(claims.got, &*clock);
        let receipts: Vec<_> = batch.iter().map(|outgoing| outgoing.receipt.clone()).collect();
        mover.publish(&batch).await;
        mover.settle(&receipts).await;
    }
    rate("claim, publish, settle", wanted.len() - half, begun);
    mover.end().await.unwrap();

    for from in (0..count / 2).step_by(BATCH) {
        application.send("orders.retry-5s", &messages(from), Duration::ZERO).unwrap();
    }
    clock.advance(Duration::from_secs(6));
    let mut relay = broker.serve(&[&channel], "bench").await.unwrap();
    let begun = Instant::now();
    let mut carried = 0;
    loop {
        let step = relay.carry(BATCH).await.unwrap();
        let moved: usize = step.moved.iter().map(|(_, late)| late.len()).sum();
        if moved == 0 {
            break;
        }
        carried += moved;
    }
    rate("relay", carried, begun);

    let begun = Instant::now();
    let moved = copy_and_delete(&file);
    rate("bare copy and delete, transactions of 1,000", moved, begun);
    println!("{:<44} {:>12}", "file", std::fs::metadata(&file).unwrap().len());
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
            println!("{line}");
        }
    }
}

fn outgoing(got: Vec<redrive::broker::Claimed>, clock: &dyn Clock) -> Vec<Outgoing> {
    got.into_iter()
        .map(|claimed| {
            let mut message = claimed.letter.message.clone();
            message.headers.push("redrive-run", Value::from_text(format!("r7d2f9/{}", claimed.seq)));
            Outgoing {
                packed: None,
                seq: claimed.seq,
                receipt: claimed.receipt,
                position: claimed.letter.position,
                attempt: 1,
                first_intent: clock.now(),
                group: message.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned()),
                message,
            }
        })
        .collect()
}

/// Reads every row and looks at nothing.
fn scan(file: &Path, sql: &str) -> f64 {
    let db = rusqlite::Connection::open(file).unwrap();
    let queue: i64 =
        db.query_row("SELECT id FROM queue WHERE name = 'orders.dlq'", [], |row| row.get(0)).unwrap();
    let begun = Instant::now();
    let mut query = db.prepare(sql).unwrap();
    let mut rows = query.query([queue]).unwrap();
    let mut count = 0;
    let mut bytes = 0;
    while let Some(row) = rows.next().unwrap() {
        bytes += row.get_ref(1).unwrap().as_bytes().unwrap().len();
        count += 1;
    }
    assert!(bytes > 0);
    rate("bare scan", count, begun)
}

/// A program of its own, with no index, lease, lock or mark: what the disk and SQLite allow.
fn copy_and_delete(file: &Path) -> usize {
    let db = rusqlite::Connection::open(file).unwrap();
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 10000;
         CREATE TABLE a (id INTEGER PRIMARY KEY, headers TEXT, key BLOB, body BLOB);
         CREATE TABLE b (id INTEGER PRIMARY KEY, headers TEXT, key BLOB, body BLOB);
         INSERT INTO a SELECT id, headers, key, body FROM letter LIMIT 100000;",
    )
    .unwrap();
    let ids: Vec<i64> = db
        .prepare("SELECT id FROM a")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut copy = db.prepare("INSERT INTO b SELECT NULL, headers, key, body FROM a WHERE id = ?1").unwrap();
    let mut delete = db.prepare("DELETE FROM a WHERE id = ?1").unwrap();
    for chunk in ids.chunks(BATCH) {
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        for id in chunk {
            copy.execute([id]).unwrap();
            delete.execute([id]).unwrap();
        }
        db.execute_batch("COMMIT").unwrap();
    }
    ids.len()
}
