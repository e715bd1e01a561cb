//! How fast and how dear a run over SQS is, on ElasticMQ: `run` of the built program at an unlimited rate beside a
//! bare loop of receive, send and delete in tens on the same client with the same concurrency, one after the other
//! in the same run; requests per letter, counted by a proxy in a run of its own; memory. The emulator and both
//! programs share the machine. Prints figures and ratios; nothing here passes or fails.
//!
//! A FIFO queue of ElasticMQ takes longer for a receive the more letters are held, so its part has a bare loop of its own
//! for a peer: with 1, 2, 4 and 8 loops, the best of which counts.
//!
//! `scripts/bench sqs` starts the emulator and runs it; `REDRIVE_BENCH_LETTERS` and `REDRIVE_BENCH_ROUNDS` make it
//! smaller, `REDRIVE_BENCH_ONLY` names one part: standard, deep, fifo, requests.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../tests/it/sqs/proxy.rs"]
#[allow(dead_code)]
mod proxy;

mod watched;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redrive");
/// Calls under way at once, as in the adapter.
const AT_ONCE: usize = 8;

#[tokio::main]
async fn main() {
    let Ok(endpoint) = std::env::var("REDRIVE_TEST_SQS_ELASTICMQ") else {
        println!("REDRIVE_TEST_SQS_ELASTICMQ is not set: run scripts/bench sqs");
        return;
    };
    let number = |name: &str, or: usize| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(or);
    let (all, rounds) = (number("REDRIVE_BENCH_LETTERS", 100_000), number("REDRIVE_BENCH_ROUNDS", 2));
    let only = std::env::var("REDRIVE_BENCH_ONLY").ok();
    let wanted = |part: &str| only.as_ref().is_none_or(|only| only == part);
    let part = (all / 5).max(100);
    let client = client(&endpoint);
    let unique = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();

    // A cold virtual machine would make whoever comes first look slow.
    bare(&client, &format!("warm{unique}"), part, None, AT_ONCE).await;
    println!("letters of 1 KiB          run/s   bare/s   ratio   whole/s   user s   peak MiB");
    let mut standard = Vec::new();
    if wanted("standard") || wanted("fifo") {
        for round in 0..rounds {
            let bare = bare(&client, &format!("bare{unique}x{round}"), part, None, AT_ONCE).await;
            let sent = run(&client, &endpoint, &format!("std{unique}x{round}"), part, None).await;
            standard.push(sent.rate);
            show("standard", part, &sent, bare);
        }
    }
    if wanted("deep") {
        let bare = bare(&client, &format!("bare{unique}"), all, None, AT_ONCE).await;
        let deep = run(&client, &endpoint, &format!("deep{unique}"), all, None).await;
        show("standard, deep", all, &deep, bare);
    }
    if wanted("fifo") {
        let groups = 1_000.min(part);
        let mut best: f64 = 0.0;
        for loops in [1, 2, 4, 8] {
            let name = format!("barefifo{unique}x{loops}");
            let rate = bare(&client, &name, part, Some(groups), loops).await;
            println!("{part:>7} bare FIFO loop, {loops} at once: {rate:.0}/s");
            best = best.max(rate);
        }
        let mut fifo = Vec::new();
        for round in 0..rounds {
            let sent = run(&client, &endpoint, &format!("fifo{unique}x{round}"), part, Some(groups)).await;
            show(&format!("FIFO, {groups} groups"), part, &sent, best);
            fifo.push(sent.rate);
        }
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        println!("FIFO is {:.2} of standard", mean(&fifo) / mean(&standard));
    }
    if wanted("requests") {
        println!("\nrequests per letter, counted before the emulator");
        for (name, groups) in [("standard", None), ("FIFO, 200 groups", Some(200))] {
            let letters = 2_000.min(part);
            let proxy = proxy::Proxy::start(&endpoint, Vec::new(), None);
            let kind = if groups.is_some() { "f" } else { "s" };
            run(&client, &proxy.endpoint, &format!("count{kind}{unique}"), letters, groups).await;
            requests(name, letters, &proxy.calls());
        }
    }
}

/// Calls of the look, and those of the run: a run begins after the last letter that a look gave back.
fn requests(name: &str, letters: usize, calls: &[String]) {
    let send = calls.iter().position(|call| call == "SendMessageBatch").unwrap_or(calls.len());
    let looked =
        calls[..send].iter().rposition(|call| call == "ChangeMessageVisibilityBatch").map_or(0, |n| n + 1);
    let per = |calls: &[String], of: &str| {
        let n = calls.iter().filter(|call| of.is_empty() || *call == of).count();
        n as f64 / letters as f64
    };
    let (look, sent) = calls.split_at(looked);
    println!(
        "  {name:<18} run {:.3} (receive {:.3}, send {:.3}, delete {:.3}, visibility {:.3}); look before it {:.3}",
        per(sent, ""),
        per(sent, "ReceiveMessage"),
        per(sent, "SendMessageBatch"),
        per(sent, "DeleteMessageBatch"),
        per(sent, "ChangeMessageVisibilityBatch"),
        per(look, "")
    );
}

struct Sent {
    /// Letters a second while it sends, as the program says: without the first look, and without those between passes.
    rate: f64,
    /// From start to exit.
    whole: Duration,
    user: f64,
    peak: u64,
}

fn show(name: &str, letters: usize, sent: &Sent, bare: f64) {
    println!(
        "{letters:>7} {name:<16} {:>7.0}  {bare:>7.0}   {:>5.2}   {:>7.0}   {:>6.1}   {:>8.1}",
        sent.rate,
        sent.rate / bare,
        letters as f64 / sent.whole.as_secs_f64(),
        sent.user,
        sent.peak as f64 / 1024.0
    );
}

fn client(endpoint: &str) -> Client {
    let credentials = aws_sdk_sqs::config::Credentials::new("test", "test", None, None, "test");
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
        .region(aws_sdk_sqs::config::Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

async fn create(client: &Client, name: &str) -> String {
    let mut call = client.create_queue().queue_name(name);
    if name.ends_with(".fifo") {
        call = call.attributes(QueueAttributeName::FifoQueue, "true");
    }
    call.send().await.unwrap().queue_url.unwrap()
}

fn attribute(kind: &str, text: String) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type(kind).string_value(text).build().unwrap()
}

/// 1 KiB of body and three attributes.
async fn fill(client: &Client, url: &str, letters: usize, groups: Option<usize>) {
    let numbers: Vec<usize> = (0..letters).collect();
    // Side by side for speed, except where there is an order to keep.
    let side_by_side = if groups.is_some() { 10 } else { 10 * AT_ONCE };
    for block in numbers.chunks(side_by_side) {
        let sends = block.chunks(10).map(|ten| {
            let entries = ten.iter().map(|n| {
                let head = format!("{{\"id\":{n},\"note\":\"");
                let body = format!("{head}{}\"}}", "x".repeat(1_022 - head.len()));
                let mut entry = SendMessageBatchRequestEntry::builder()
                    .id(n.to_string())
                    .message_body(body)
                    .message_attributes("event-id", attribute("String", format!("ev-{n}")))
                    .message_attributes("tenant", attribute("String", "acme".to_owned()))
                    .message_attributes("attempt", attribute("Number", "2".to_owned()));
                if let Some(groups) = groups {
                    entry = entry
                        .message_group_id(format!("g{}", n % groups))
                        .message_deduplication_id(format!("d{n}"));
                }
                entry.build().unwrap()
            });
            client.send_message_batch().queue_url(url).set_entries(Some(entries.collect())).send()
        });
        for answer in futures_util::future::join_all(sends).await {
            assert!(answer.unwrap().failed.is_empty());
        }
    }
}

/// So many loops of receive, send, delete in tens; letters a second.
async fn bare(client: &Client, name: &str, letters: usize, groups: Option<usize>, loops: usize) -> f64 {
    let end = if groups.is_some() { ".fifo" } else { "" };
    let from = create(client, &format!("{name}{end}")).await;
    let to = create(client, &format!("{name}-to{end}")).await;
    fill(client, &from, letters, groups).await;
    let left = Arc::new(AtomicUsize::new(letters));
    let begun = Instant::now();
    let loops = (0..loops).map(|_| {
        let (client, from, to, left) = (client.clone(), from.clone(), to.clone(), Arc::clone(&left));
        // Of a FIFO queue an answer may be empty while the groups of what is left are held by other loops.
        tokio::spawn(async move {
            while left.load(Ordering::Relaxed) > 0 {
                let got = client
                    .receive_message()
                    .queue_url(&from)
                    .max_number_of_messages(10)
                    .visibility_timeout(60)
                    .message_attribute_names("All")
                    .message_system_attribute_names("All".into())
                    .send();
                let got = got.await.unwrap().messages.unwrap_or_default();
                if got.is_empty() {
                    continue;
                }
                left.fetch_sub(got.len(), Ordering::Relaxed);
                let (mut sends, mut deletes) = (Vec::new(), Vec::new());
                for (n, message) in got.into_iter().enumerate() {
                    let mut entry = SendMessageBatchRequestEntry::builder()
                        .id(n.to_string())
                        .message_body(message.body.unwrap())
                        .set_message_attributes(message.message_attributes);
                    if let Some(group) =
                        message.attributes.and_then(|mut all| all.remove(&"MessageGroupId".into()))
                    {
                        entry = entry
                            .message_group_id(group)
                            .message_deduplication_id(message.message_id.unwrap());
                    }
                    sends.push(entry.build().unwrap());
                    let entry = DeleteMessageBatchRequestEntry::builder()
                        .id(n.to_string())
                        .receipt_handle(message.receipt_handle.unwrap());
                    deletes.push(entry.build().unwrap());
                }
                let sent = client.send_message_batch().queue_url(&to).set_entries(Some(sends)).send();
                assert!(sent.await.unwrap().failed.is_empty());
                let gone = client.delete_message_batch().queue_url(&from).set_entries(Some(deletes)).send();
                assert!(gone.await.unwrap().failed.is_empty());
            }
        })
    });
    for one in futures_util::future::join_all(loops).await {
        one.unwrap();
    }
    let rate = letters as f64 / begun.elapsed().as_secs_f64();
    for url in [from, to] {
        client.delete_queue().queue_url(url).send().await.unwrap();
    }
    rate
}

/// Fills a channel's dead-letter queue and runs the program over it.
async fn run(client: &Client, endpoint: &str, name: &str, letters: usize, groups: Option<usize>) -> Sent {
    let end = if groups.is_some() { ".fifo" } else { "" };
    let target = create(client, &format!("{name}{end}")).await;
    let dead = create(client, &format!("{name}-dlq{end}")).await;
    fill(client, &dead, letters, groups).await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sqs");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let topology = format!(
        "version: 1\nbrokers:\n  aws:\n    url: \"sqs://us-east-1\"\n    options: {{endpoint_url: \"{endpoint}\"}}\n\
         channels:\n  {name}:\n    source: {name}{end}\n    event_id: {{header: event-id}}\n    group: key\n"
    );
    std::fs::write(folder.join("redrive.yaml"), topology).unwrap();
    let (name, place) = (name.to_owned(), folder.clone());
    let sent = tokio::task::spawn_blocking(move || program(&place, &name, letters)).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    for url in [target, dead] {
        client.delete_queue().queue_url(url).send().await.unwrap();
    }
    sent
}

fn program(folder: &Path, channel: &str, letters: usize) -> Sent {
    let line = ["run", channel, "--limit", "all", "--reason", "bench", "-o", "json", "--rate", "unlimited"];
    let begun = Instant::now();
    let mut child = Command::new(PROGRAM)
        .args(line)
        .args(["--confirm", channel])
        .current_dir(folder)
        .env("REDRIVE_LEDGER", folder.join("ledger.db"))
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut user = 0.0;
    let (code, peak) = watched::until_end(&mut child, Duration::from_millis(5), |folder| {
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        // utime is the twelfth after the name, in hundredths of a second.
        let ticks = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(11)?.parse::<f64>().ok());
        user = ticks.unwrap_or(user * 100.0) / 100.0;
    });
    let whole = begun.elapsed();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(code.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let moved = report["counts"]["moved"].as_u64().unwrap();
    assert!(moved > 0 && moved <= letters as u64, "{text}");
    let millis = report["took_ms"].as_f64().unwrap() - report["looking_ms"].as_f64().unwrap();
    Sent { rate: moved as f64 * 1e3 / millis, whole, user, peak }
}
