//! How fast looking is: `inspect` of the built program over the embedded broker, beside a bare scan of the
//! same file in the same run. Prints figures and ratios; nothing here passes or fails.
//!
//! `scripts/bench looking` runs it; `REDRIVE_BENCH_LETTERS` makes it smaller, `REDRIVE_BENCH_KEEP` keeps the
//! files for a profiler.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

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
const LOOK: &[&str] = &["inspect", "orders", "-o", "json"];
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
    // What a look costs before its first letter; the last column is without it, since it is no cost of a letter. The
    // clock differs by a third here from one moment to the next, processors do not.
    let start = best(20, || run(&empty, LOOK).0);
    println!("inspect empty  {start:.1} ms, best of 20");
    let start_cpu = cpu::of_each(100, || {
        let _ = run(&empty, LOOK);
    });
    println!("  of processors {:.2} ms, mean of 100", start_cpu.as_secs_f64() * 1e3);
    println!(
        "\nletters of 1 KiB      inspect/s   bare scan/s   ratio   us/letter   peak MiB   cpu us/letter   without the start"
    );
    let mut per_letter = Vec::new();
    for (kind, stacks, counts) in
        [("small contexts", false, vec![all / 100, all / 10, all]), ("2 KiB stacks", true, vec![all / 4])]
    {
        for letters in counts {
            let folder = scratch(&format!("{letters}-{stacks}"), letters, stacks);
            let bare = (0..3).map(|_| scan(&folder.join("bench.db"))).min().unwrap();
            let (took, peak) = (0..3).map(|_| run(&folder, LOOK)).min().unwrap();
            // Some 600 ms or more of processors, so that a tick is at most 2 % of it.
            let times = (1_000_000 / letters.max(1)).clamp(3, 50) as u32;
            let used = cpu::of_each(times, || {
                let _ = run(&folder, LOOK);
            });
            let steady = used.saturating_sub(start_cpu);
            if !stacks {
                per_letter.push((letters, [used, steady].map(|used| used.as_secs_f64() / letters as f64)));
            }
            let rate = |took: Duration| letters as f64 / took.as_secs_f64();
            println!(
                "{letters:>9} {kind:<14}  {:>7.0} k {:>11.0} k   {:>5.2}   {:>9.2}   {:>8.1}   {:>13.2}   {:>17.2}",
                rate(took) / 1e3,
                rate(bare) / 1e3,
                took.as_secs_f64() / bare.as_secs_f64(),
                took.as_secs_f64() * 1e6 / letters as f64,
                peak as f64 / 1024.0,
                used.as_secs_f64() * 1e6 / letters as f64,
                steady.as_secs_f64() * 1e6 / letters as f64,
            );
            if std::env::var_os("REDRIVE_BENCH_KEEP").is_none() {
                std::fs::remove_dir_all(&folder).unwrap();
            }
        }
    }
    std::fs::remove_dir_all(&empty).unwrap();
    let (most, of_most) = per_letter[per_letter.len() - 1];
    println!("\nprocessors per letter beside that of {most}:");
    for (letters, of) in &per_letter[..per_letter.len() - 1] {
        let beside = |at: usize| (of[at] / of_most[at] - 1.0) * 100.0;
        println!("{letters:>9}  {:+.1} %, without the start {:+.1} %", beside(0), beside(1));
    }
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
