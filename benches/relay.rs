//! How late a relay is on the embedded broker: 1,000 messages a second enter a tier while one relay, or two,
//! carry what is due; what is counted is each message's due time against its arrival, both by the file.
//! Prints figures; nothing here passes or fails.
//!
//! `scripts/bench relay` runs it; `REDRIVE_BENCH_SECONDS` makes it longer.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::broker::OpenContext;
use redrive::broker::sqlite::Application;
use redrive::clock::SystemClock;
use redrive::letter::Message;
use redrive::topology::{At, BrokerDecl};
use rusqlite::Connection;

const PROGRAM: &str = env!("CARGO_BIN_EXE_redrive");
const TOPOLOGY: &str = "version: 1
brokers: {local: {url: \"sqlite:bench.db\"}}
channels:
  orders:
    source: orders
    consumer: billing
    create_source: true
    group: key
    retry: {tiers: [{delay: 5s}]}
    dead_letter: {name: orders.dlq, retention: 14d}
";
const PER_SECOND: u64 = 1_000;
/// Messages of one send, every ten milliseconds.
const AT_ONCE: u64 = PER_SECOND / 100;

fn main() {
    let seconds: u64 = std::env::var("REDRIVE_BENCH_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    println!("{PER_SECOND} messages/s for {seconds} s, 500 groups, due 1 to 2 s later\n");
    println!("relays                       messages      p50      p99      max  early  twice");
    measure("one, in one transaction", seconds, 1, &[]);
    measure("two, in one transaction", seconds, 2, &[]);
    measure("one, by hand", seconds, 1, &["--without-transactions"]);
}

fn provisioned(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("redrive-bench-{}-relay-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("redrive.yaml"), TOPOLOGY).unwrap();
    let applied = Command::new(PROGRAM).args(["apply", "--yes"]).current_dir(&folder).output().unwrap();
    assert!(applied.status.success());
    folder
}

fn relay(folder: &Path, flags: &[&str]) -> Child {
    Command::new(PROGRAM)
        .arg("relay")
        .args(flags)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn measure(name: &str, seconds: u64, relays: usize, flags: &[&str]) {
    let folder = provisioned(&format!("{relays}-{}", flags.len()));
    let decl = BrokerDecl { url: At::nowhere("sqlite:bench.db".to_owned()), ..BrokerDecl::default() };
    let context = OpenContext { clock: Arc::new(SystemClock), base: folder.clone(), writes: true };
    let mut application = Application::open(&decl, &context).unwrap();
    let db = Connection::open(folder.join("bench.db")).unwrap();
    let mut running: Vec<Child> = (0..relays).map(|_| relay(&folder, flags)).collect();
    let total = seconds * PER_SECOND;
    let mut due: HashMap<String, i64> = HashMap::new();
    let begun = Instant::now();
    for first in (0..total).step_by(AT_ONCE as usize) {
        let at = Duration::from_millis(first * 1_000 / PER_SECOND);
        std::thread::sleep(at.saturating_sub(begun.elapsed()));
        let messages: Vec<Message> = (first..first + AT_ONCE).map(message).collect();
        let wait = Duration::from_millis(1_000 + (first * 37) % 1_000);
        application.send("orders.retry-5s", &messages, wait).unwrap();
        let mut query = db
            .prepare_cached(
                "SELECT CAST(body AS TEXT), due FROM letter
                 WHERE queue = (SELECT id FROM queue WHERE name = 'orders.retry-5s')
                 ORDER BY id DESC LIMIT ?1",
            )
            .unwrap();
        let rows = query.query_map([AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        due.extend(rows.map(Result::unwrap));
    }
    let arrived = || -> u64 {
        let sql = "SELECT count(*) FROM letter WHERE queue = (SELECT id FROM queue WHERE name = 'orders')";
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    while arrived() < total {
        assert!(begun.elapsed() < Duration::from_secs(seconds + 60), "{} of {total} arrived", arrived());
        std::thread::sleep(Duration::from_millis(20));
    }
    for relay in &mut running {
        Command::new("kill").args(["-TERM", &relay.id().to_string()]).status().unwrap();
        relay.wait().unwrap();
    }
    let sql = "SELECT CAST(body AS TEXT), entered_at FROM letter
               WHERE queue = (SELECT id FROM queue WHERE name = 'orders')";
    let mut query = db.prepare(sql).unwrap();
    let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))).unwrap();
    let mut late: Vec<i64> = rows.map(Result::unwrap).map(|(body, at)| at - due[&body]).collect();
    late.sort_unstable();
    let at = |share: usize| late[(late.len() * share / 100).min(late.len() - 1)];
    let early = late.iter().filter(|late| **late < 0).count();
    println!(
        "{name:<26} {:>10} {:>5} ms {:>5} ms {:>5} ms {early:>6} {:>6}",
        late.len(),
        at(50),
        at(99),
        late[late.len() - 1],
        late.len() as u64 - total,
    );
    drop(query);
    drop(db);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Half a KiB of body in one of 500 groups.
fn message(n: u64) -> Message {
    Message {
        key: Some(format!("C-{}", n % 500).into()),
        body: Some(format!("{n:08} {}", "x".repeat(500)).into()),
        ..Message::default()
    }
}
