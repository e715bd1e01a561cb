//! How fast RabbitMQ's way back is, on a real server: `run` of the built program beside the shovel plugin's
//! on-confirm drain over TCP, alternating in one run; a selective redrive by id; `inspect` beside a bare
//! consumer. Quorum queues, letters of 1 KiB. Prints figures and ratios; nothing here passes or fails. Beside the
//! clock it counts CPU, of the program and of the server, which others on the machine do not change.
//!
//! `scripts/bench rabbitmq` starts the server and runs it. `REDRIVE_BENCH_LETTERS` (50,000),
//! `REDRIVE_BENCH_ROUNDS` (5) make it smaller. `REDRIVE_BENCH_PEERS` adds what moving costs with the client library
//! alone; `REDRIVE_BENCH_EARLIER` names an earlier build of the program that runs in the same rounds, and nothing else.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "watched/redrive.rs"]
mod asked;
mod watched;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redrive");
const GROUPS: usize = 5_000;

fn number(name: &str, or: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(or)
}

#[tokio::main]
async fn main() {
    let letters = number("REDRIVE_BENCH_LETTERS", 50_000);
    let rounds = number("REDRIVE_BENCH_ROUNDS", 5);
    let stage = Stage::new().await;

    println!("{letters} letters of 1 KiB, {GROUPS} groups, quorum to quorum, {rounds} rounds, alternating");
    println!("                                                CPU, us a letter: shovel    run");
    println!("shovel/s   engine/s   ratio   whole/s   ratio     server   server   own   ratio   peak MiB");
    let peers = std::env::var_os("REDRIVE_BENCH_PEERS").is_some();
    let earlier = std::env::var("REDRIVE_BENCH_EARLIER").ok();
    let (mut engine_ratios, mut whole_ratios, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    let mut cpu_ratios = Vec::new();
    for round in 0..rounds {
        stage.fill("orders.dlq", letters).await;
        let before = stage.server_cpu();
        let shovel = stage.shovel(letters).await;
        let shovel_cpu = stage.server_cpu().saturating_sub(before);
        if peers {
            for mandatory in [false, true] {
                stage.fill("orders.dlq", letters).await;
                let (before, own) = (stage.server_cpu(), cpu("/proc/self/stat", 11));
                let took = stage.moved_bare(letters, mandatory).await;
                let own = cpu("/proc/self/stat", 11).saturating_sub(own);
                let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / letters as f64;
                println!(
                    "{:>7.1} k/s: read, publish, confirm, acknowledge, nothing else{}: server {:.0}, own {:.0}",
                    letters as f64 / took.as_secs_f64() / 1e3,
                    if mandatory { ", mandatory" } else { "" },
                    each(stage.server_cpu().saturating_sub(before)),
                    each(own)
                );
            }
        }
        let per_second = |took: Duration| letters as f64 / took.as_secs_f64();
        let of = |took: Duration| shovel.as_secs_f64() / took.as_secs_f64();
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / letters as f64;
        let programs = earlier.iter().map(String::as_str).chain([PROGRAM]);
        for program in programs {
            stage.fill("orders.dlq", letters).await;
            let before = stage.server_cpu();
            let run = stage.run_by(
                program,
                &[&asked::RUN[..], &["--rate", "unlimited", "--confirm", "orders"]].concat(),
            );
            stage.assert_moved(&format!("run {round}"), letters).await;
            let run_cpu = stage.server_cpu().saturating_sub(before);
            let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
            let engine = Duration::from_millis(report["took_ms"].as_u64().unwrap());
            let cpu_ratio = each(shovel_cpu) / (each(run_cpu) + each(run.cpu));
            println!(
                "{:>7.1} k  {:>7.1} k   {:>5.2}  {:>7.1} k   {:>5.2}   {:>8.0} {:>8.0} {:>5.0}   {:>5.2}   {:>8.1}{}",
                per_second(shovel) / 1e3,
                per_second(engine) / 1e3,
                of(engine),
                per_second(run.took) / 1e3,
                of(run.took),
                each(shovel_cpu),
                each(run_cpu),
                each(run.cpu),
                cpu_ratio,
                run.peak as f64 / 1024.0,
                if program == PROGRAM { "" } else { "  earlier" },
            );
            if program == PROGRAM {
                cpu_ratios.push(cpu_ratio);
                engine_ratios.push(of(engine));
                whole_ratios.push(of(run.took));
                peaks.push(run.peak as f64 / 1024.0);
            }
        }
    }
    println!(
        "medians: engine {:.2} of the shovel, start to exit with the look before it {:.2}, by CPU {:.2}, {:.1} MiB\n",
        median(&mut engine_ratios),
        median(&mut whole_ratios),
        median(&mut cpu_ratios),
        median(&mut peaks)
    );
    if earlier.is_some() {
        return stage.end();
    }

    stage.fill("orders.dlq", letters).await;
    let ids: Vec<String> = (0..100).map(|n| format!("id = ev-{}", n * letters / 100 + 7)).collect();
    let expression = ids.join(" or ");
    let run = stage.run(&[
        "run",
        "orders",
        "--where",
        &expression,
        "--limit",
        "all",
        "--reason",
        "bench",
        "--order",
        "none",
        "--rate",
        "unlimited",
        "--confirm",
        "orders",
        "-o",
        "json",
    ]);
    stage.assert_moved("selective", 100).await;
    println!(
        "100 of {letters} by id: {:.2} s from start to exit, {:.1} MiB",
        run.took.as_secs_f64(),
        run.peak as f64 / 1024.0
    );

    let letters = letters * 2;
    stage.fill("orders.dlq", letters).await;
    println!("\n{letters} letters looked at\nbare consumer/s   inspect/s   ratio   own CPU ms   peak MiB");
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let bare = stage.bare(letters).await;
        let look = stage.run(&["inspect", "orders", "-o", "json"]);
        let seen: serde_json::Value = serde_json::from_str(&look.stdout).unwrap();
        assert!(look.stdout.contains(&letters.to_string()), "{seen}");
        let ratio = bare.as_secs_f64() / look.took.as_secs_f64();
        println!(
            "{:>13.1} k   {:>7.1} k   {ratio:>5.2}   {:>10}   {:>8.1}",
            letters as f64 / bare.as_secs_f64() / 1e3,
            letters as f64 / look.took.as_secs_f64() / 1e3,
            look.cpu.as_millis(),
            look.peak as f64 / 1024.0
        );
        ratios.push(ratio);
    }
    println!("median: {:.2} of a bare consumer", median(&mut ratios));
    stage.end();
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A virtual host of its own, and a folder with a topology.
struct Stage {
    url: String,
    management: String,
    vhost: String,
    folder: tempfile::TempDir,
    channel: Channel,
    connection: Connection,
}

struct Ran {
    took: Duration,
    /// User and system.
    cpu: Duration,
    /// Most KiB resident.
    peak: u64,
    stdout: String,
}

impl Stage {
    async fn new() -> Self {
        let var = |name: &str| std::env::var(name).expect("run scripts/bench rabbitmq: it starts the server");
        let url = var("REDRIVE_TEST_RABBITMQ_URL").replace("amqp://", "");
        let management = var("REDRIVE_TEST_RABBITMQ_MANAGEMENT");
        let vhost = format!("bench-{}", std::process::id());
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::write(
            folder.path().join("redrive.yaml"),
            format!(
                "version: 1\nbrokers:\n  mq:\n    url: \"amqp://{url}/{vhost}\"\n    username: guest\n    \
                 password: \"${{MQ_PASSWORD}}\"\n    options: {{management: \"{management}\"}}\nchannels:\n  \
                 orders:\n    source: orders\n    create_source: true\n    event_id: {{header: event-id}}\n    \
                 group: {{header: customer}}\n    retry: {{tiers: [{{delay: 5s}}]}}\n    \
                 dead_letter: {{name: orders.dlq}}\n    rabbitmq: {{queue_type: quorum}}\n"
            ),
        )
        .unwrap();
        let made = ask(&management, "PUT", &format!("vhosts/{vhost}"), "{}");
        assert!(made.is_some(), "virtual host");
        let rights = r#"{"configure":".*","write":".*","read":".*"}"#;
        ask(&management, "PUT", &format!("permissions/{vhost}/guest"), rights);
        let connection = Connection::connect(
            &format!("amqp://guest:guest@{url}/{vhost}"),
            ConnectionProperties::default(),
        )
        .await
        .unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let stage = Self { url, management, vhost, folder, channel, connection };
        stage.run(&["apply", "--yes", "--reason", "bench"]);
        stage
    }

    /// CPU that the server has used so far.
    fn server_cpu(&self) -> Duration {
        let process = || {
            let nodes = ask(&self.management, "GET", "nodes", "").unwrap();
            let nodes: serde_json::Value = serde_json::from_str(&nodes).unwrap();
            nodes[0]["os_pid"].as_str().map(str::to_owned)
        };
        // A server that has just started does not know of itself yet.
        let mut tries = (0..100).filter_map(|_| {
            let pid = process();
            if pid.is_none() {
                std::thread::sleep(Duration::from_millis(200));
            }
            pid
        });
        let pid = tries.next().expect("the management names the server's process");
        cpu(&format!("/proc/{pid}/stat"), 11)
    }

    fn end(self) {
        ask(&self.management, "DELETE", &format!("vhosts/{}", self.vhost), "");
    }

    /// Empties both queues and puts letters into one.
    async fn fill(&self, queue: &str, letters: usize) {
        for each in ["orders", "orders.dlq"] {
            self.channel.queue_purge(each.into(), QueuePurgeOptions::default()).await.unwrap();
        }
        let mut from = 0;
        while from < letters {
            let until = (from + 2_000).min(letters);
            let mut confirms = Vec::new();
            for n in from..until {
                let mut headers = FieldTable::default();
                for (name, value) in
                    [("event-id", format!("ev-{n}")), ("customer", format!("C-{}", n % GROUPS))]
                {
                    headers.insert(name.into(), AMQPValue::LongString(value.into()));
                }
                let deaths = r#"[{"at":"2026-11-29T02:03:59Z","queue":"orders","class":"GatewayTimeout"}]"#;
                headers.insert("redrive-deaths".into(), AMQPValue::LongString(deaths.into()));
                let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
                let body = body(n);
                let options = BasicPublishOptions::default();
                let publish =
                    self.channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
                confirms.push(publish.await.unwrap());
            }
            for confirm in confirms {
                assert!(confirm.await.unwrap().is_ack());
            }
            from = until;
        }
        self.until(queue, letters).await;
    }

    async fn ready(&self, queue: &str) -> usize {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
        found.message_count() as usize
    }

    async fn until(&self, queue: &str, ready: usize) {
        while self.ready(queue).await != ready {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn assert_moved(&self, what: &str, letters: usize) {
        self.until("orders", letters).await;
        assert_eq!(self.ready("orders").await, letters, "{what}");
    }

    /// The peer: the shovel plugin over TCP, with its usual prefetch.
    async fn shovel(&self, letters: usize) -> Duration {
        let uri = format!("amqp://guest:guest@{}/{}", self.url, self.vhost);
        let value = serde_json::json!({"value": {
            "src-protocol": "amqp091", "src-uri": uri, "src-queue": "orders.dlq",
            "src-delete-after": "queue-length", "src-prefetch-count": 1000,
            "dest-protocol": "amqp091", "dest-uri": uri, "dest-queue": "orders",
            "ack-mode": "on-confirm",
        }});
        let name = format!("parameters/shovel/{}/bench", self.vhost);
        let begun = Instant::now();
        assert!(ask(&self.management, "PUT", &name, &value.to_string()).is_some(), "shovel");
        self.until("orders", letters).await;
        let took = begun.elapsed();
        while ask(&self.management, "GET", &name, "").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        took
    }

    /// What moving costs with the client library and nothing else: no order, no record, no look before.
    async fn moved_bare(&self, letters: usize, mandatory: bool) -> Duration {
        const WINDOW: u16 = 1_000;
        let begun = Instant::now();
        let channel = self.connection.create_channel().await.unwrap();
        channel.basic_qos(2 * WINDOW, BasicQosOptions::default()).await.unwrap();
        let options = BasicConsumeOptions::default();
        let consume =
            channel.basic_consume("orders.dlq".into(), "bare".into(), options, FieldTable::default());
        let mut consumer = consume.await.unwrap();
        let mut left = letters;
        while left > 0 {
            let window = left.min(usize::from(WINDOW));
            let mut confirms = Vec::with_capacity(window);
            let mut last = 0;
            for _ in 0..window {
                let delivery = consumer.next().await.unwrap().unwrap();
                last = delivery.delivery_tag;
                let options = BasicPublishOptions { mandatory, immediate: false };
                let (body, properties) = (&delivery.data, delivery.properties);
                let publish =
                    self.channel.basic_publish("".into(), "orders".into(), options, body, properties);
                confirms.push(publish.await.unwrap());
            }
            for confirm in confirms {
                assert!(confirm.await.unwrap().is_ack());
            }
            channel.basic_ack(last, BasicAckOptions { multiple: true }).await.unwrap();
            left -= window;
        }
        self.until("orders", letters).await;
        let took = begun.elapsed();
        channel.close(200, "ok".into()).await.unwrap();
        self.until("orders.dlq", 0).await;
        took
    }

    /// The peer of a look: consumers that hold everything and give it back by closing their channel.
    async fn bare(&self, letters: usize) -> Duration {
        let begun = Instant::now();
        let channel = self.connection.create_channel().await.unwrap();
        let mut bytes = 0;
        let mut read = 0;
        while read < letters {
            channel.basic_qos(50_000, BasicQosOptions::default()).await.unwrap();
            let tag = format!("bare-{read}");
            let mut consumer = channel
                .basic_consume(
                    "orders.dlq".into(),
                    tag.as_str().into(),
                    BasicConsumeOptions::default(),
                    FieldTable::default(),
                )
                .await
                .unwrap();
            for _ in 0..50_000.min(letters - read) {
                bytes += consumer.next().await.unwrap().unwrap().data.len();
                read += 1;
            }
        }
        channel.close(200, "ok".into()).await.unwrap();
        let took = begun.elapsed();
        assert_eq!(bytes, letters * 1_024);
        self.until("orders.dlq", letters).await;
        took
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_by(PROGRAM, arguments)
    }

    fn run_by(&self, program: &str, arguments: &[&str]) -> Ran {
        let before = cpu("/proc/self/stat", 13);
        let begun = Instant::now();
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("REDRIVE_LEDGER", self.folder.path().join("ledger.db"))
            .env("MQ_PASSWORD", "guest")
            .stdin(Stdio::null())
            .stdout(Stdio::from(std::fs::File::create(self.folder.path().join("out")).unwrap()))
            .stderr(Stdio::from(std::fs::File::create(self.folder.path().join("err")).unwrap()))
            .spawn()
            .unwrap();
        let (code, peak) = watched::until_end(&mut child, Duration::from_millis(5), |_| {});
        let took = begun.elapsed();
        let stdout = std::fs::read_to_string(self.folder.path().join("out")).unwrap();
        let stderr = std::fs::read_to_string(self.folder.path().join("err")).unwrap();
        assert!(code.success(), "{arguments:?}\n{stdout}\n{stderr}");
        Ran { took, cpu: cpu("/proc/self/stat", 13).saturating_sub(before), peak, stdout }
    }
}

/// 1,024 bytes of JSON.
fn body(n: usize) -> String {
    let mut body = format!("{{\"orderId\":{n},\"note\":\"");
    body.push_str(&"x".repeat(1_022 - body.len()));
    body.push_str("\"}");
    body
}

/// User and system CPU in a `stat` of `/proc`, whose clock ticks 100 times a second: field 11 of the process itself,
/// 13 of its children that have ended.
fn cpu(stat: &str, field: usize) -> Duration {
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .map(|(_, fields)| fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    Duration::from_millis(fields.iter().skip(field).take(2).sum::<u64>() * 10)
}

/// Asks the management API; the body of a good answer.
fn ask(management: &str, method: &str, path: &str, body: &str) -> Option<String> {
    use base64::Engine as _;
    let login = base64::engine::general_purpose::STANDARD.encode("guest:guest");
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{management}/api/{path}"))
        .header("authorization", format!("Basic {login}"))
        .header("content-type", "application/json")
        .body(body.to_owned())
        .unwrap();
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut answer = agent.run(request).unwrap();
    answer.status().is_success().then(|| answer.body_mut().read_to_string().unwrap())
}
