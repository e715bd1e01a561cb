//! How fast sending is: `run` of the built program over the embedded broker at an unlimited rate, beside a
//! bare program that copies and deletes the same rows in durable transactions of 1,000 in the same run.
//! Prints figures and ratios; nothing here passes or fails.
//!
//! `scripts/bench sending` runs it; `REDRIVE_BENCH_LETTERS` makes it smaller, `REDRIVE_BENCH_KEEP` keeps the
//! files for a profiler.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "watched/redrive.rs"]
mod asked;
#[path = "watched/cpu.rs"]
mod cpu;
mod watched;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redrive::broker::OpenContext;
use redrive::broker::sqlite::Application;
use redrive::clock::SystemClock;
use redrive::letter::{Message, Value};
use redrive::topology::{At, BrokerDecl};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redrive");
const TOPOLOGY: &str = "version: 1
brokers: {local: {url: \"sqlite:bench.db\"}}
channels:
  orders:
    source: orders
    consumer: billing
    create_source: true
    event_id: {header: event-id}
    group: key
    retry: {tiers: [{delay: 5s}]}
    dead_letter: {name: orders.dlq, retention: 14d}
";

/// What one run of the program came to.
struct Sent {
    /// From its first letter to its last, as it says.
    engine: Duration,
    /// Of that, at the ledger.
    ledger: Duration,
    /// From start to exit: with the first pass, the manifest and the end.
    whole: Duration,
    /// Most KiB resident.
    peak: u64,
}

fn main() {
    let all: usize =
        std::env::var("REDRIVE_BENCH_LETTERS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let half = all / 5;
    let same_pages = per_second(half, bare(half, 16 * 1024));
    let bare = per_second(half, bare(half, 4096));
    println!("bare copy + delete, transactions of 1,000, durable: {:.0} k/s", bare / 1e3);
    println!("the same with pages of 16 KiB, as redrive makes its files: {:.0} k/s\n", same_pages / 1e3);
    println!("letters of 1 KiB, unlimited        engine/s  of bare  ledger    whole/s  us/letter  peak MiB");
    let many = show("5,000 groups", half, 5_000, &[], bare);
    let few = show("5,000 groups", all / 100, 5_000, &[], bare);
    let most = show("5,000 groups", all, 5_000, &[], bare);
    let hot = show("one hot group", half, 1, &[], bare);
    let apart = show("publish, then settle", half, 5_000, &["--without-transactions"], bare);
    println!(
        "\n5,000 groups are {:.2} of bare, {:.2} of bare with the same pages",
        many / bare,
        many / same_pages
    );
    println!("one hot group is {:.2} of 5,000 groups", hot / many);
    println!("publish, then settle is {:.2} of one transaction", apart / many);
    println!(
        "a letter of {all} takes {:+.1} % of the time of one of {}",
        (few / most - 1.0) * 100.0,
        all / 100
    );
    let start = processors(1, 30);
    let [few, most] = [(all / 100, 10), (all, 1)].map(|(letters, times)| {
        let used = processors(letters, times);
        [used, used.saturating_sub(start)].map(|used| used.as_secs_f64() * 1e6 / letters as f64)
    });
    println!(
        "processors: a run of one letter {:.1} ms; us/letter of {} {:.2}, of {all} {:.2} ({:+.1} %); without that \
         start {:.2} and {:.2} ({:+.1} %)",
        start.as_secs_f64() * 1e3,
        all / 100,
        few[0],
        most[0],
        (few[0] / most[0] - 1.0) * 100.0,
        few[1],
        most[1],
        (few[1] / most[1] - 1.0) * 100.0,
    );
    println!("\nrates on the real clock, 5 s each, by when the copies arrived");
    for (rate, letters) in [(50, 250), (5_000, 25_000)] {
        let folder = scratch("rate", letters, 500);
        run(&folder, &["--rate", &format!("{rate}/s"), "--yes"]);
        let (got, most) = arrived(&folder);
        let off = (got / f64::from(rate) - 1.0) * 100.0;
        let allowed = rate + (rate / 50).max(2);
        println!("  asked {rate}/s, got {got:.1}/s ({off:+.2} %), at most {most} of {allowed} in one second");
        forget(&folder);
    }
}

/// Letters a second from the first copy to the last, those of the first instant being there already; and the
/// most of any one second.
fn arrived(folder: &Path) -> (f64, usize) {
    let db = rusqlite::Connection::open(folder.join("bench.db")).unwrap();
    let times: Vec<i64> = db
        .prepare(
            "SELECT entered_at FROM letter WHERE queue = (SELECT id FROM queue WHERE name = 'orders')
             ORDER BY entered_at",
        )
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let after = times.iter().filter(|at| **at > first).count();
    let (mut from, mut most) = (0, 0);
    for (to, at) in times.iter().enumerate() {
        while at - times[from] >= 1_000 {
            from += 1;
        }
        most = most.max(to - from + 1);
    }
    (after as f64 * 1e3 / (last - first) as f64, most)
}

/// What a whole run of so many letters uses of processors, mean of `times`.
fn processors(letters: usize, times: u32) -> Duration {
    let mut used = Duration::ZERO;
    for _ in 0..times {
        let folder = scratch("processors", letters, 5_000);
        used += cpu::of_each(1, || {
            let _ = run(&folder, &["--rate", "unlimited", "--confirm", "orders"]);
        });
        forget(&folder);
    }
    used / times
}

fn show(name: &str, letters: usize, groups: usize, flags: &[&str], bare: f64) -> f64 {
    let folder = scratch("sending", letters, groups);
    let flags: Vec<&str> =
        ["--rate", "unlimited", "--confirm", "orders"].iter().chain(flags).copied().collect();
    let sent = run(&folder, &flags);
    forget(&folder);
    let engine = per_second(letters, sent.engine);
    println!(
        "{letters:>9} {name:<22} {:>8.1} k  {:>7.2}  {:>4.1} %  {:>7.1} k  {:>9.2}  {:>8.1}",
        engine / 1e3,
        engine / bare,
        sent.ledger.as_secs_f64() / sent.engine.as_secs_f64() * 100.0,
        per_second(letters, sent.whole) / 1e3,
        sent.engine.as_secs_f64() * 1e6 / letters as f64,
        sent.peak as f64 / 1024.0
    );
    engine
}

fn per_second(letters: usize, took: Duration) -> f64 {
    letters as f64 / took.as_secs_f64()
}

fn forget(folder: &Path) {
    if std::env::var_os("REDRIVE_BENCH_KEEP").is_none() {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A provisioned folder with so many dead letters.
fn scratch(name: &str, letters: usize, groups: usize) -> PathBuf {
    let folder = folder(name);
    std::fs::write(folder.join("redrive.yaml"), TOPOLOGY).unwrap();
    let applied = Command::new(PROGRAM).args(["apply", "--yes"]).current_dir(&folder).output().unwrap();
    assert!(applied.status.success());
    let decl = BrokerDecl { url: At::nowhere("sqlite:bench.db".to_owned()), ..BrokerDecl::default() };
    let context = OpenContext { clock: Arc::new(SystemClock), base: folder.clone(), writes: true };
    let mut application = Application::open(&decl, &context).unwrap();
    let numbers: Vec<usize> = (0..letters).collect();
    for part in numbers.chunks(5_000) {
        let messages: Vec<Message> = part.iter().map(|n| message(*n, groups)).collect();
        application.send("orders.dlq", &messages, Duration::ZERO).unwrap();
    }
    folder
}

/// 1 KiB of body, about 200 B of headers.
fn message(n: usize, groups: usize) -> Message {
    let mut message = Message {
        key: Some(Bytes::from(format!("C-{}", n % groups))),
        body: Some(Bytes::from(body(n))),
        ..Message::default()
    };
    message.headers.push("event-id", Value::from_text(format!("ev-{n}")));
    message.headers.push("redrive-attempt", Value::from_text("2"));
    let deaths = "[{\"at\":\"2026-11-29T02:03:59Z\",\"queue\":\"orders\",\"consumer\":\"billing\",\
                  \"class\":\"com.example.GatewayTimeout\",\"message\":\"no answer\"}]";
    message.headers.push("redrive-deaths", Value::from_text(deaths));
    message
}

fn body(n: usize) -> String {
    let mut body = format!("{{\"orderId\":{n},\"note\":\"");
    body.push_str(&"x".repeat(1_022 - body.len()));
    body.push_str("\"}");
    body
}

/// The peer: the same rows from one plain table to another.
fn bare(letters: usize, page: u32) -> Duration {
    let folder = folder("bare");
    let mut db = rusqlite::Connection::open(folder.join("bare.db")).unwrap();
    db.pragma_update(None, "page_size", page).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE dlq (id INTEGER PRIMARY KEY, key BLOB, headers TEXT, body BLOB);
         CREATE TABLE source (id INTEGER PRIMARY KEY, key BLOB, headers TEXT, body BLOB);",
    )
    .unwrap();
    let headers = "h".repeat(200);
    let fill = db.transaction().unwrap();
    for n in 0..letters {
        fill.prepare_cached("INSERT INTO dlq (key, headers, body) VALUES (?1, ?2, ?3)")
            .unwrap()
            .execute(rusqlite::params![format!("C-{}", n % 5_000), headers, body(n)])
            .unwrap();
    }
    fill.commit().unwrap();
    let begun = Instant::now();
    let mut after = 0i64;
    loop {
        let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let rows: Vec<(i64, Vec<u8>, String, Vec<u8>)> = tx
            .prepare_cached("SELECT id, CAST(key AS BLOB), headers, CAST(body AS BLOB) FROM dlq WHERE id > ?1 ORDER BY id LIMIT 1000")
            .unwrap()
            .query_map([after], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        if rows.is_empty() {
            break;
        }
        for (id, key, headers, body) in &rows {
            tx.prepare_cached("INSERT INTO source (key, headers, body) VALUES (?1, ?2, ?3)")
                .unwrap()
                .execute(rusqlite::params![key, headers, body])
                .unwrap();
            tx.prepare_cached("DELETE FROM dlq WHERE id = ?1").unwrap().execute([id]).unwrap();
            after = *id;
        }
        tx.commit().unwrap();
    }
    let took = begun.elapsed();
    drop(db);
    std::fs::remove_dir_all(&folder).unwrap();
    took
}

/// Runs the program; how long it took, and the most KiB of memory it had resident.
fn run(folder: &Path, flags: &[&str]) -> Sent {
    let begun = Instant::now();
    let mut child = Command::new(PROGRAM)
        .args(asked::RUN)
        .args(flags)
        .current_dir(folder)
        .env("REDRIVE_LEDGER", folder.join("ledger.db"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let (code, peak) = watched::until_end(&mut child, Duration::from_millis(2), |_| {});
    let whole = begun.elapsed();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(code.success(), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ms = |name: &str| Duration::from_millis(report[name].as_u64().unwrap());
    Sent { engine: ms("took_ms"), ledger: ms("ledger_ms"), whole, peak }
}
