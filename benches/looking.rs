//! How fast looking is: `inspect` of the built program over the embedded broker, beside a bare scan of the
//! same file in the same run. Prints figures and ratios; nothing here passes or fails.
//!
//! `scripts/bench looking` runs it; `REDRIVE_BENCH_LETTERS` makes it smaller, `REDRIVE_BENCH_KEEP` keeps the
//! files for a profiler.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

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

fn main() {
    let all: usize =
        std::env::var("REDRIVE_BENCH_LETTERS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let size = std::fs::metadata(PROGRAM).unwrap().len() as f64 / f64::from(1 << 20);
    println!("program        {size:.1} MiB");
    let empty = scratch("empty", 0, false);
    println!("--help         {:.1} ms, best of 20", best(20, || run(&empty, &["--help"]).0));
    // What a look costs before its first letter; the last column is without it, since it is no cost of a letter.
    let start = best(20, || run(&empty, &["inspect", "orders"]).0);
    println!("inspect empty  {start:.1} ms, best of 20");
    println!(
        "\nletters of 1 KiB      inspect/s   bare scan/s   ratio   us/letter   peak MiB   without the start"
    );
    for (kind, stacks, counts) in
        [("small contexts", false, vec![all / 100, all / 10, all]), ("2 KiB stacks", true, vec![all / 4])]
    {
        for letters in counts {
            let folder = scratch(&format!("{letters}-{stacks}"), letters, stacks);
            let bare = (0..3).map(|_| scan(&folder.join("bench.db"))).min().unwrap();
            let (took, peak) =
                (0..3).map(|_| run(&folder, &["inspect", "orders", "-o", "json"])).min().unwrap();
            let rate = |took: Duration| letters as f64 / took.as_secs_f64();
            println!(
                "{letters:>9} {kind:<14}  {:>7.0} k {:>11.0} k   {:>5.2}   {:>9.2}   {:>8.1}   {:>9.2}",
                rate(took) / 1e3,
                rate(bare) / 1e3,
                took.as_secs_f64() / bare.as_secs_f64(),
                took.as_secs_f64() * 1e6 / letters as f64,
                peak as f64 / 1024.0,
                (took.as_secs_f64() - start / 1e3) * 1e6 / letters as f64,
            );
            if std::env::var_os("REDRIVE_BENCH_KEEP").is_none() {
                std::fs::remove_dir_all(&folder).unwrap();
            }
        }
    }
    std::fs::remove_dir_all(&empty).unwrap();
}

fn best(times: usize, mut measure: impl FnMut() -> Duration) -> f64 {
    (0..times).map(|_| measure()).min().unwrap().as_secs_f64() * 1e3
}

/// A provisioned folder with so many dead letters.
fn scratch(name: &str, letters: usize, stacks: bool) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("looking-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("redrive.yaml"), TOPOLOGY).unwrap();
    run(&folder, &["apply", "--yes"]);
    let decl = BrokerDecl { url: At::nowhere("sqlite:bench.db".to_owned()), ..BrokerDecl::default() };
    let context = OpenContext { clock: Arc::new(SystemClock), base: folder.clone(), writes: true };
    let mut application = Application::open(&decl, &context).unwrap();
    let numbers: Vec<usize> = (0..letters).collect();
    for part in numbers.chunks(5_000) {
        let messages: Vec<Message> = part.iter().map(|n| message(*n, stacks)).collect();
        application.send("orders.dlq", &messages, Duration::ZERO).unwrap();
    }
    folder
}

/// One of twenty causes, one of 50,000 groups, 1 KiB of body.
fn message(n: usize, stacks: bool) -> Message {
    let cause = n % 20;
    let class = format!("com.example.orders.Failure{}", char::from(b'A' + cause as u8));
    let stack = if stacks {
        let frame =
            "\\n\\tat org.springframework.kafka.listener.Container.invoke(Container.java:2745)".repeat(24);
        format!(
            ",\"stack\":\"{class}: no answer in {n} ms\\n\\tat com.example.orders.Service{cause}.pay(Service.java:10){frame}\""
        )
    } else {
        String::new()
    };
    let deaths = format!(
        "[{{\"at\":\"2026-11-29T02:03:59Z\",\"queue\":\"orders\",\"consumer\":\"billing\",\"class\":\"{class}\",\
         \"message\":\"payment gateway: no answer in {n} ms\"{stack}}}]"
    );
    let mut body = format!("{{\"orderId\":{n},\"note\":\"");
    body.push_str(&"x".repeat(1_022 - body.len()));
    body.push_str("\"}");
    let mut message = Message {
        key: Some(Bytes::from(format!("C-{}", n % 50_000))),
        body: Some(Bytes::from(body)),
        ..Message::default()
    };
    message.headers.push("event-id", Value::from_text(format!("ev-{n}")));
    message.headers.push("redrive-attempt", Value::from_text("4"));
    message.headers.push("redrive-deaths", Value::from_text(deaths));
    message
}

/// The peer: every column of every row, touched and dropped.
fn scan(file: &Path) -> Duration {
    let db = rusqlite::Connection::open(file).unwrap();
    let begun = Instant::now();
    let mut rows = db.prepare("SELECT id, headers, properties, key, body FROM letter").unwrap();
    let mut rows = rows.query([]).unwrap();
    let mut bytes = 0;
    while let Some(row) = rows.next().unwrap() {
        for column in 1..5 {
            let value = row.get_ref(column).unwrap();
            bytes += value.as_bytes_or_null().unwrap().map_or(0, <[u8]>::len);
        }
    }
    assert!(bytes > 0);
    begun.elapsed()
}

/// Runs the program; how long it took, and the most KiB of memory it had resident.
fn run(folder: &Path, arguments: &[&str]) -> (Duration, u64) {
    let begun = Instant::now();
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (code, peak) = watched::until_end(&mut child, Duration::from_micros(500), |_| {});
    assert!(code.success(), "{arguments:?}");
    (begun.elapsed(), peak)
}
