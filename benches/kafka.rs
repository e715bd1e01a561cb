//! How fast the built program is on a real Kafka, beside `kcat` in the same run: sending with marks in the same
//! transaction, on one lane and on two, transactions of 100, one hot key, looking at a large dead-letter topic, and a
//! relay. Prints figures and ratios; nothing here passes or fails.
//!
//! `scripts/bench kafka` starts the broker. `REDRIVE_BENCH_LETTERS` and `REDRIVE_BENCH_ROUNDS` make it smaller,
//! `REDRIVE_BENCH_ONLY` names one part: sending, lanes, hot, hundred, looking,
//! large or relay.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "watched/redrive.rs"]
mod asked;
mod watched;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use redrive::broker::{Ask, BROKERS, OpenContext, Outgoing, Task, Want, Wanted};
use redrive::clock::SystemClock;
use redrive::topology::{At, BrokerDecl, Channel, DeadLetterDecl, ReturnTo};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redrive");
const PARTITIONS: i32 = 6;
const KIB: usize = 1_024;

/// A process from start to end.
struct Ran {
    took: Duration,
    /// Seconds of processor time.
    cpu: f64,
    /// Most MiB resident.
    peak: f64,
    out: String,
}

fn main() {
    let Ok(url) = std::env::var("REDRIVE_TEST_KAFKA_URL") else {
        println!("REDRIVE_TEST_KAFKA_URL is not set: scripts/bench kafka starts a broker");
        std::process::exit(1);
    };
    let number = |name: &str, default: usize| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let bench = Bench {
        servers: url.trim_start_matches("kafka://").to_owned(),
        letters: number("REDRIVE_BENCH_LETTERS", 200_000),
        rounds: number("REDRIVE_BENCH_ROUNDS", 5),
        kcat: Command::new("kcat").arg("-V").output().is_ok_and(|output| output.status.success()),
    };
    let only = std::env::var("REDRIVE_BENCH_ONLY").ok();
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    match bench.kcat {
        true => println!("peer: kcat -C -K | kcat -P -K (it loses headers and timestamps)"),
        false => println!("peer: a bare copy by the client library (kcat is not here)"),
    }
    println!("letters of 1 KiB           letters/s    of peer   CPU us/letter   peak MiB");
    if wanted("sending") {
        bench.sending("spread.dlq", "many keys", bench.letters / 4, 1);
    }
    if wanted("lanes") {
        bench.sending("lanes.dlq", "two lanes", bench.letters / 4, 2);
    }
    if wanted("hot") {
        bench.sending("hot.dlq", "one key", 1, 1);
    }
    if wanted("hundred") {
        bench.hundreds();
    }
    if wanted("looking") {
        bench.looking("large.dlq", bench.letters * 5, 0, "1 KiB each");
    }
    if wanted("large") {
        bench.looking("mixed.dlq", bench.letters / 2, 1_000, "each 1,000th 10 MB");
    }
    if wanted("relay") {
        bench.relaying();
    }
}

#[derive(Clone)]
struct Bench {
    servers: String,
    letters: usize,
    rounds: usize,
    kcat: bool,
}

impl Bench {
    /// Copies and marks in one transaction, alternating with the peer.
    fn sending(&self, dlq: &str, name: &str, keys: usize, lanes: usize) {
        let folder = self.shop(dlq, &format!("lanes: {lanes}"));
        self.topic(dlq, 1_100_000);
        self.fill(dlq, self.letters, keys, 0);
        let (mut peers, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            self.renew(&folder, dlq);
            peers.push(self.copy(dlq));
            self.renew(&folder, dlq);
            let ran = self.redrive(
                &folder,
                &[&asked::RUN[..], &["--rate", "unlimited", "--confirm", "orders"]].concat(),
            );
            let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(report["counts"]["moved"].as_u64(), Some(self.letters as u64), "{}", ran.out);
            ours.push((Duration::from_millis(report["took_ms"].as_u64().unwrap()), ran));
        }
        let peer = self.letters as f64 / median(peers.iter().map(Duration::as_secs_f64));
        println!("{name:<20} peer    {peer:>9.0}");
        let engine = self.letters as f64 / median(ours.iter().map(|(took, _)| took.as_secs_f64()));
        let whole = self.letters as f64 / median(ours.iter().map(|(_, ran)| ran.took.as_secs_f64()));
        let ran = || ours.iter().map(|(_, ran)| ran);
        let cpu = median(ran().map(|ran| ran.cpu)) * 1e6 / self.letters as f64;
        let peak = median(ran().map(|ran| ran.peak));
        println!("{name:<20} moving  {engine:>9.0}       {:>4.2}", engine / peer);
        println!(
            "{name:<20} whole   {whole:>9.0}       {:>4.2}          {cpu:>6.2}     {peak:>6.1}",
            whole / peer
        );
        std::fs::remove_dir_all(&folder).unwrap();
        self.delete(&[dlq, "orders", "orders.billing", "orders.retry-5s", &format!("{dlq}.marks")]);
    }

    /// The adapter alone with transactions of 100 letters.
    fn hundreds(&self) {
        let dlq = "hundred.dlq";
        let folder = self.shop(dlq, "lanes: 1");
        self.topic(dlq, 1_100_000);
        self.fill(dlq, self.letters / 4, self.letters, 0);
        self.renew(&folder, dlq);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let took = runtime.block_on(self.move_in_hundreds(dlq));
        println!("100 a transaction    adapter {:>9.0}", (self.letters / 4) as f64 / took.as_secs_f64());
        std::fs::remove_dir_all(&folder).unwrap();
        self.delete(&[dlq, "orders", "orders.billing", "orders.retry-5s", &format!("{dlq}.marks")]);
    }

    async fn move_in_hundreds(&self, dlq: &str) -> Duration {
        let kind = BROKERS.iter().find(|kind| kind.schemes().contains(&"kafka")).unwrap();
        let url = At::nowhere(format!("kafka://{}", self.servers));
        let decl = BrokerDecl { name: At::nowhere("kafka".to_owned()), url, ..BrokerDecl::default() };
        let context = OpenContext { clock: Arc::new(SystemClock), base: std::env::temp_dir(), writes: true };
        let broker = kind.open(&decl, &context).await.unwrap();
        let channel = Channel {
            name: At::nowhere("orders".to_owned()),
            source: At::nowhere("orders".to_owned()),
            return_to: Some(At::nowhere(ReturnTo::Named("orders.billing".to_owned()))),
            dead_letter: DeadLetterDecl {
                name: Some(At::nowhere(dlq.to_owned())),
                ..DeadLetterDecl::default()
            },
            ..Channel::default()
        };
        let mut pages = broker.snapshot(&channel, Want::default()).await.unwrap();
        let mut wanted = Vec::new();
        loop {
            let page = pages.next().await.unwrap();
            if page.is_empty() {
                break;
            }
            for letter in page {
                wanted.push(Wanted { seq: wanted.len() as u64 + 1, position: letter.position });
            }
        }
        let task = Task {
            run: "bench".to_owned(),
            owner: "bench".to_owned(),
            who: "bench".to_owned(),
            target: "orders.billing".to_owned(),
            take_over: false,
            snapshot: pages.snapshot().identity.clone(),
            claim_for: Duration::from_secs(60),
        };
        let mut mover = broker.begin(&channel, &task).await.unwrap();
        let begun = Instant::now();
        for part in wanted.chunks(2_000) {
            let ask = Ask { next: part, wanted: &|_| None, limit: part.len() };
            let got = mover.claim(&ask).await.unwrap().got;
            let copies: Vec<Outgoing> = got
                .into_iter()
                .map(|claimed| Outgoing {
                    packed: None,
                    seq: claimed.seq,
                    receipt: claimed.receipt,
                    position: claimed.letter.position,
                    attempt: 1,
                    first_intent: redrive::clock::Time::default(),
                    message: claimed.letter.message,
                    group: None,
                })
                .collect();
            for batch in copies.chunks(100) {
                mover.transfer(batch).await.unwrap();
            }
        }
        let took = begun.elapsed();
        mover.end().await.unwrap();
        took
    }

    /// Causes of a large topic, alternating with a bare consume of it.
    fn looking(&self, dlq: &str, letters: usize, each_large: usize, name: &str) {
        let folder = self.shop(dlq, "lanes: 1");
        self.topic(dlq, 11_000_000);
        self.fill(dlq, letters, letters, each_large);
        let (mut peers, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds.min(3) {
            peers.push(self.consume(dlq));
            ours.push(self.redrive(&folder, &["inspect", "orders", "-o", "json"]));
        }
        self.tell("inspect", name, letters, &peers, &ours);
        let newest = ["inspect", "orders", "--letters", "--newest", "100", "-o", "json"];
        let newest: Vec<Ran> = (0..self.rounds.min(3)).map(|_| self.redrive(&folder, &newest)).collect();
        let (took, peak) = (median(newest.iter().map(|ran| ran.took.as_secs_f64())), newest[0].peak);
        println!("{name:<20} newest 100: {:.0} ms, {peak:.1} MiB", took * 1e3);
        std::fs::remove_dir_all(&folder).unwrap();
        self.delete(&[dlq, "orders", "orders.billing", "orders.retry-5s", &format!("{dlq}.marks")]);
    }

    fn tell(&self, what: &str, name: &str, letters: usize, peers: &[Duration], ours: &[Ran]) {
        let peer = letters as f64 / median(peers.iter().map(Duration::as_secs_f64));
        let here = letters as f64 / median(ours.iter().map(|ran| ran.took.as_secs_f64()));
        let cpu = median(ours.iter().map(|ran| ran.cpu)) * 1e6 / letters as f64;
        let peak = median(ours.iter().map(|ran| ran.peak));
        println!("{name:<20} peer    {peer:>9.0}");
        println!(
            "{name:<20} {what} {here:>9.0}       {:>4.2}          {cpu:>6.2}     {peak:>6.1}",
            here / peer
        );
    }

    /// A folder with a topology whose dead letters lie in `dlq`.
    fn shop(&self, dlq: &str, own: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kafka-{dlq}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "version: 1\nbrokers: {{kafka: {{url: \"kafka://{}\"}}}}\nchannels:\n  orders:\n    source: orders\n    \
             consumer: billing\n    create_source: true\n    return_to: {{name: orders.billing}}\n    group: key\n    \
             event_id: {{header: event-id}}\n    dead_letter: {{name: {dlq}, retention: 14d}}\n    \
             retry: {{served_by: relay, tiers: [{{delay: 5s}}]}}\n    \
             kafka: {{partitions: {PARTITIONS}, replication_factor: 1, {own}}}\n",
            self.servers
        );
        std::fs::write(folder.join("redrive.yaml"), text).unwrap();
        self.delete(&[dlq, "orders", "orders.billing", "orders.retry-5s", &format!("{dlq}.marks")]);
        folder
    }

    /// A relay: how fast when all is due, and how late at 2,000 messages a second.
    fn relaying(&self) {
        let dlq = "relayed.dlq";
        let (folder, tier) = (self.shop(dlq, "lanes: 1"), "orders.retry-5s");
        self.redrive(&folder, &["apply", "--yes"]);
        self.fill(tier, self.letters, self.letters / 4, 0);
        std::thread::sleep(Duration::from_secs(6));
        let mut relay = self.relay(&folder);
        let arrived = self.arrivals(self.letters);
        let times = || arrived.iter().map(|(_, at)| *at);
        let took = (times().max().unwrap() - times().min().unwrap()).max(1) as f64 / 1e3;
        println!("relay, all is due    moving  {:>9.0}", self.letters as f64 / took);
        let (each, seconds) = (20, 20);
        let more = each * 100 * seconds;
        let reader = {
            let (bench, count) = (self.clone(), self.letters + more);
            std::thread::spawn(move || bench.arrivals(count))
        };
        let producer = self.producer();
        let begun = Instant::now();
        for n in 0..more {
            if n % each == 0 {
                let at = Duration::from_millis((n / each) as u64 * 10);
                std::thread::sleep(at.saturating_sub(begun.elapsed()));
            }
            let (key, id, text) = (format!("C-{}", n % 5_000), format!("late-{n}"), body(n));
            let headers = OwnedHeaders::new().insert(Header { key: "event-id", value: Some(id.as_bytes()) });
            let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(tier).headers(headers);
            record.key = Some(key.as_bytes());
            record.payload = Some(text.as_bytes());
            put(&producer, record);
        }
        producer.flush(Duration::from_secs(60)).unwrap();
        let arrived: HashMap<String, i64> = reader.join().unwrap().into_iter().collect();
        Command::new("kill").args(["-TERM", &relay.id().to_string()]).status().unwrap();
        relay.wait().unwrap();
        let mut late: Vec<i64> = Vec::with_capacity(more);
        self.each(tier, self.letters + more, |id, stamped| {
            if id.starts_with("late-") {
                late.push(arrived[id] - stamped - 5_000);
            }
        });
        late.sort_unstable();
        let at = |share: usize| late[(late.len() * share / 1_000).min(late.len() - 1)];
        let early = late.iter().filter(|late| **late < 0).count();
        println!(
            "relay, 2,000/s, 5 s  late: p50 {} ms, p99 {} ms, most {} ms; early {early} of {}",
            at(500),
            at(990),
            at(1_000),
            late.len()
        );
        std::fs::remove_dir_all(&folder).unwrap();
        self.delete(&[dlq, "orders", "orders.billing", tier, &format!("{dlq}.marks")]);
    }

    fn relay(&self, folder: &Path) -> std::process::Child {
        let mut command = Command::new(PROGRAM);
        command.args(["relay", "orders"]).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// When a reader of committed records has each of so many at the target, by event id.
    fn arrivals(&self, count: usize) -> Vec<(String, i64)> {
        let mut all = Vec::with_capacity(count);
        self.each("orders.billing", count, |id, _| all.push((id.to_owned(), now())));
        all
    }

    /// The event ids and times of a topic's records, as they come, up to so many.
    fn each(&self, topic: &str, count: usize, mut take: impl FnMut(&str, i64)) {
        let mut config = self.config();
        config.set("group.id", "bench").set("enable.auto.commit", "false").set("fetch.wait.max.ms", "10");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        let (mut seen, until) = (0, Instant::now() + Duration::from_secs(300));
        while seen < count {
            assert!(Instant::now() < until, "{seen} of {count} in {topic}");
            let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) else { continue };
            let headers = record.headers().unwrap();
            let id = headers.iter().find(|header| header.key == "event-id").unwrap();
            take(std::str::from_utf8(id.value.unwrap()).unwrap(), record.timestamp().to_millis().unwrap());
            seen += 1;
        }
    }

    /// The target empty, no marks, no ledger: as if nothing had been moved.
    fn renew(&self, folder: &Path, dlq: &str) {
        self.delete(&["orders.billing", &format!("{dlq}.marks")]);
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_name() != "redrive.yaml" {
                let path = entry.path();
                let _ =
                    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            }
        }
        self.redrive(folder, &["apply", "--yes"]);
    }

    fn redrive(&self, folder: &Path, arguments: &[&str]) -> Ran {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(folder).env("REDRIVE_LEDGER", folder.join("ledger.db"));
        watch(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// The peer's copy of all letters.
    fn copy(&self, dlq: &str) -> Duration {
        if !self.kcat {
            return self.bare(dlq, Some("orders.billing"));
        }
        let servers = &self.servers;
        let line = format!(
            "kcat -b {servers} -C -t {dlq} -o beginning -e -q -K '\t' | kcat -b {servers} -P -t orders.billing -K '\t'"
        );
        shell(&line)
    }

    fn consume(&self, dlq: &str) -> Duration {
        if !self.kcat {
            return self.bare(dlq, None);
        }
        shell(&format!("kcat -b {} -C -t {dlq} -o beginning -e -q > /dev/null", self.servers))
    }

    /// The peer where there is no kcat: reads all, and sends key and body on.
    fn bare(&self, dlq: &str, target: Option<&str>) -> Duration {
        let begun = Instant::now();
        let consumer: BaseConsumer = self
            .config()
            .set("group.id", "bench")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(dlq, partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        let producer: BaseProducer = self.producer();
        let mut open = PARTITIONS;
        while open > 0 {
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(error)) => {
                    println!("{error}");
                    std::process::exit(1);
                }
                Some(Ok(record)) => {
                    if let Some(target) = target {
                        let mut copy: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(target);
                        copy.key = record.key();
                        copy.payload = record.payload();
                        put(&producer, copy);
                    }
                }
            }
        }
        producer.flush(Duration::from_secs(60)).unwrap();
        begun.elapsed()
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers).set("broker.address.family", "v4");
        config
    }

    fn producer(&self) -> BaseProducer {
        self.config()
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "5")
            .set("message.max.bytes", "11000000")
            .set("queue.buffering.max.messages", "100000")
            .create()
            .unwrap()
    }

    fn topic(&self, name: &str, largest: usize) {
        let largest = largest.to_string();
        let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1))
            .set("max.message.bytes", &largest)
            .set("message.timestamp.type", "LogAppendTime");
        let (admin, runtime) = self.admin();
        for made in runtime.block_on(admin.create_topics([&topic], &options())).unwrap() {
            made.unwrap();
        }
    }

    /// Deletes what is there of these, and waits until it is gone.
    fn delete(&self, names: &[&str]) {
        let (admin, runtime) = self.admin();
        let there = || {
            let all = admin.inner().fetch_metadata(None, Duration::from_secs(20)).unwrap();
            let known: Vec<String> = all.topics().iter().map(|topic| topic.name().to_owned()).collect();
            names.iter().copied().filter(|name| known.iter().any(|known| known == name)).collect::<Vec<_>>()
        };
        let found = there();
        if !found.is_empty() {
            runtime.block_on(admin.delete_topics(&found, &options())).unwrap();
        }
        while !there().is_empty() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn admin(&self) -> (AdminClient<DefaultClientContext>, tokio::runtime::Runtime) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        (self.config().create().unwrap(), runtime)
    }

    /// Dead letters of 1 KiB of body with the headers of a framework's failure; now and then one of 10 MB.
    fn fill(&self, dlq: &str, letters: usize, keys: usize, each_large: usize) {
        let producer = self.producer();
        let large = "x".repeat(10_000_000);
        for n in 0..letters {
            let small = body(n);
            let is_large = each_large > 0 && n % each_large == each_large - 1;
            let (key, id) = (format!("C-{}", n % keys), format!("ev-{n}"));
            let place = (n / 6).to_string();
            let cause = format!("com.example.Failure{}", n % 7);
            let headers = [
                ("event-id", id.as_str()),
                ("kafka_dlt-exception-fqcn", cause.as_str()),
                ("kafka_dlt-exception-message", "no answer from the gateway within 3000 ms"),
                ("kafka_dlt-original-topic", "orders"),
                ("kafka_dlt-original-consumer-group", "billing"),
                ("kafka_dlt-exception-stacktrace", STACK),
                ("redrive-bench", place.as_str()),
            ];
            let headers = headers.iter().fold(OwnedHeaders::new(), |list, (key, value)| {
                list.insert(Header { key, value: Some(value.as_bytes()) })
            });
            let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(dlq).headers(headers);
            record.key = Some(key.as_bytes());
            record.payload = Some(if is_large { large.as_bytes() } else { small.as_bytes() });
            put(&producer, record);
        }
        producer.flush(Duration::from_secs(120)).unwrap();
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(Duration::from_secs(20)))
}

const STACK: &str = "com.example.Failure: no answer from the gateway within 3000 ms\n\tat com.example.Gateway.call(Gateway.java:81)\n\tat com.example.Billing.charge(Billing.java:44)\n";

fn put<'a>(producer: &BaseProducer, record: BaseRecord<'a, [u8], [u8]>) {
    let mut record = Some(record);
    while let Some(next) = record.take() {
        if let Err((error, back)) = producer.send(next) {
            assert_eq!(
                error.rdkafka_error_code(),
                Some(rdkafka::types::RDKafkaErrorCode::QueueFull),
                "{error}"
            );
            producer.poll(Duration::from_millis(5));
            record = Some(back);
        }
    }
    producer.poll(Duration::ZERO);
}

fn body(n: usize) -> String {
    let mut body = format!("{{\"orderId\":{n},\"note\":\"");
    body.push_str(&"x".repeat(KIB - 2 - body.len()));
    body.push_str("\"}");
    body
}

fn now() -> i64 {
    redrive::clock::Clock::now(&SystemClock).millis()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn shell(line: &str) -> Duration {
    let begun = Instant::now();
    let status =
        Command::new("sh").args(["-c", line]).stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{line}");
    begun.elapsed()
}

/// Runs a process to its end and watches what it takes.
fn watch(command: &mut Command) -> Ran {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut words = child.stderr.take().unwrap();
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut out, &mut text).unwrap();
        text
    });
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut words, &mut text).unwrap();
        text
    });
    let mut ticks = 0u64;
    let (status, peak) = watched::until_end(&mut child, Duration::from_millis(2), |folder| {
        ticks = ticks.max(processor_ticks(folder));
    });
    let took = begun.elapsed();
    let (out, said) = (read.join().unwrap(), said.join().unwrap());
    assert!(status.success(), "{out}\n{said}");
    Ran { took, cpu: ticks as f64 / 100.0, peak: peak as f64 / 1_024.0, out }
}

/// User and system time so far, in hundredths of a second.
fn processor_ticks(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
