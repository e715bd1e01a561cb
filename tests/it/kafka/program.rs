//! The built program on the real broker: applied, filled, looked at, redriven, killed and resumed. Copies are counted
//! by a reader that sees committed records only: each letter exactly once.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use redrive::letter::{Message, Value};

use super::bench::{App, Read, message, unique, url};
use crate::cli::{Run, TestEnv};

/// A shop with topics and a ledger of its own.
pub struct Shop {
    pub env: TestEnv,
    pub app: App,
    pub name: String,
}

impl Shop {
    pub fn new(tier: &str) -> Option<Self> {
        let url = url()?;
        Some(Self::through(&url, &url, tier))
    }

    /// The program comes to `url`, the application to `direct`.
    pub fn through(url: &str, direct: &str, tier: &str) -> Self {
        Self::replicated(url, direct, tier, 1)
    }

    /// The same, every topic with so many replicas.
    pub fn replicated(url: &str, direct: &str, tier: &str, replicas: u32) -> Self {
        let name = unique("shop");
        let mut env = TestEnv::new();
        env.topology(&topology(url, &name, tier, replicas));
        let ledger = env.path("ledger.db").display().to_string();
        env.set("REDRIVE_LEDGER", &ledger).set("REDRIVE_SEED", "");
        env.real_time();
        let _ = env.run(&["apply", "--yes"]).ok();
        Self { env, app: App::at(direct), name }
    }

    /// The same topology on another machine: a ledger of its own.
    pub fn elsewhere(&self) -> TestEnv {
        let mut elsewhere = TestEnv::new();
        elsewhere.write("redrive.yaml", std::fs::read_to_string(self.env.path("redrive.yaml")).unwrap());
        let ledger = elsewhere.path("ledger.db").display().to_string();
        elsewhere.set("REDRIVE_LEDGER", &ledger).set("REDRIVE_SEED", "");
        elsewhere.real_time();
        elsewhere
    }

    pub fn dlq(&self) -> String {
        format!("{}.dlq", self.name)
    }

    pub fn target(&self) -> String {
        format!("{}.billing", self.name)
    }

    pub fn line(&self, line: &str) -> Run {
        self.env.line(line)
    }

    /// Letters as Spring writes them.
    pub fn bury(&self, numbers: std::ops::Range<usize>) {
        let letters: Vec<Message> = numbers
            .map(|n| {
                let key = if n % 7 == 6 { String::new() } else { format!("k{}", n % 12) };
                let mut letter = message(&key, &format!("{{\"n\":{n}}}"));
                let mut add = |name: &str, value: &[u8]| {
                    letter.headers.push(name, Value::from_bytes(value.to_vec()));
                };
                add("kafka_dlt-exception-fqcn", b"com.acme.TimeoutException");
                add("kafka_dlt-exception-message", format!("no answer for order {n}").as_bytes());
                add("kafka_dlt-original-topic", self.name.as_bytes());
                add("kafka_dlt-original-partition", &0i32.to_be_bytes());
                add("kafka_dlt-original-offset", &(n as i64).to_be_bytes());
                letter
            })
            .collect();
        self.app.produce(&self.dlq(), &letters, Duration::ZERO);
    }

    /// The newest run of the ledger.
    pub fn latest(&self) -> String {
        let runs = self.line("runs list -o json").ok().json();
        let list = runs["runs"].as_array().or_else(|| runs.as_array()).unwrap();
        let id = list[0]["id"].as_str().or_else(|| list[0]["run"].as_str()).unwrap();
        id.to_owned()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.app.forget(&self.name);
    }
}

fn topology(url: &str, name: &str, tier: &str, replicas: u32) -> String {
    format!(
        r#"version: 1
brokers:
  kafka: {{url: "{url}"}}
channels:
  {name}:
    source: {name}
    create_source: true
    consumer: billing
    return_to: {{name: {name}.billing}}
    event_id: {{header: event-id}}
    group: key
    retry:
      served_by: relay
      tiers:
        - {{delay: {tier}}}
    dead_letter: {{name: {name}.dlq, retention: 14d}}
    redrive: {{rate: 1000/s, max_redrives: 3}}
    kafka: {{partitions: 3, replication_factor: {replicas}}}
"#
    )
}

pub fn number(read: &Read) -> usize {
    let body = String::from_utf8(read.message.body.as_ref().unwrap().to_vec()).unwrap();
    body.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// Each of `0..count` exactly once, and each key in order.
pub fn assert_once_and_in_order(target: &[Read], count: usize) {
    let mut copies: BTreeMap<usize, usize> = BTreeMap::new();
    let mut last: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for read in target {
        let n = number(read);
        *copies.entry(n).or_default() += 1;
        if let Some(key) = &read.message.key {
            assert!(last.insert(key.to_vec(), n).is_none_or(|before| before < n), "rule 5: {n}");
        }
    }
    let twice: Vec<_> = copies.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "twice: {twice:?}");
    let lost: Vec<_> = (0..count).filter(|n| !copies.contains_key(n)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(target.len(), count);
}

/// A consumer on the Java client reads the same records: each key where Java's own producer would have put it.
fn assert_java_agrees(shop: &Shop, target: &[Read]) {
    let jars = std::env::var("REDRIVE_TEST_KAFKA_JARS").unwrap();
    let output = std::process::Command::new("java")
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &format!("{jars}/*")])
        .args(["tests/it/kafka/java/Reader.java", &shop.app.servers, &shop.target()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let text = |bytes: &Option<bytes::Bytes>| {
        bytes.as_ref().map_or("NULL".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    for line in &mut lines {
        let (partition, rest) = line.split_once('\t').unwrap();
        let (placed, rest) = rest.split_once('\t').unwrap();
        assert!(placed == "-1" || placed == partition, "K21: Java puts it into {placed}: {line}");
        *line = format!("{partition}\t{rest}");
    }
    let mut ours: Vec<String> = target
        .iter()
        .map(|read| {
            let message = &read.message;
            let value = |value: &Value| match value {
                Value::Null => "NULL".to_owned(),
                value => value.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap(),
            };
            let headers: String = message
                .headers
                .iter()
                .map(|header| format!("{}={};", header.name, value(&header.value)))
                .collect();
            format!("{}\t{}\t{}\t{headers}", read.partition, text(&message.key), text(&message.body))
        })
        .collect();
    lines.sort();
    ours.sort();
    assert_eq!(lines, ours);
}

/// A run of all letters; without a rate it wants the channel's name typed.
pub fn all<'a>(shop: &'a Shop, rate: &'a str) -> Vec<&'a str> {
    let sure = if rate == "unlimited" { vec!["--confirm", &shop.name] } else { vec!["--yes"] };
    ["run", &shop.name, "--limit", "all", "--rate", rate, "--reason", "INC-1", "-o", "json"]
        .into_iter()
        .chain(sure)
        .collect()
}

#[test]
fn applied_filled_looked_at_redriven_and_redriven_no_more() {
    let Some(shop) = Shop::new("5s") else { return };
    assert_eq!(shop.line("plan").code, Some(0), "applied is as planned");
    shop.bury(0..300);
    let seen = shop.line(&format!("inspect {}", shop.name)).ok();
    assert!(seen.out.contains("TimeoutException"), "{seen}");
    assert!(seen.out.contains("300"), "{seen}");
    let run = shop.env.run(&all(&shop, "unlimited"));
    assert_eq!(run.code, Some(0), "{run}");
    let target = shop.app.read(&shop.target());
    assert_once_and_in_order(&target, 300);
    for read in &target {
        let names: Vec<&str> = read.message.headers.iter().map(|header| header.name.as_str()).collect();
        assert!(names.contains(&"event-id"), "{names:?}");
        assert!(names.contains(&redrive::stamp::RUN), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("kafka_dlt-")), "{names:?}");
        // By key as Java and every application here places it; without a key its partition stays.
        assert!((0..3).contains(&read.partition));
    }
    assert_java_agrees(&shop, &target);
    // K37: moved letters stay in the topic and are known from the marks, on any machine.
    let elsewhere = shop.elsewhere();
    let again = elsewhere.run(&all(&shop, "unlimited"));
    assert!(matches!(again.code, Some(0 | 4)), "{again}");
    assert_eq!(shop.app.read(&shop.target()).len(), 300, "nothing is sent again: {again}");
    let hidden = elsewhere.line(&format!("inspect {} -o json", shop.name));
    assert!(!hidden.out.contains("TimeoutException"), "{hidden}");
    assert_eq!(shop.app.read(&shop.dlq()).len(), 300, "Kafka cannot delete them");
    // New letters beside them are open.
    shop.bury(300..310);
    let run = elsewhere.run(&all(&shop, "unlimited"));
    assert_eq!(run.code, Some(0), "{run}");
    assert_once_and_in_order(&shop.app.read(&shop.target()), 310);
}

#[test]
fn killed_at_every_step_and_resumed_each_letter_arrives_exactly_once() {
    let Some(shop) = Shop::new("5s") else { return };
    let mut count = 0;
    let mut killed = 0;
    for step in [
        "begun",
        "claimed",
        "before_commit",
        "before_transfer",
        "before_transfer:2",
        "after_transfer",
        "after_transfer:2",
        "before_end",
        "after_end",
    ] {
        shop.bury(count..count + 60);
        count += 60;
        let arguments = all(&shop, "200/s");
        let run = shop.env.command(&arguments).env("REDRIVE_FAILPOINT", step).output().unwrap();
        let died = run.status.signal() == Some(9);
        let words = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(died || run.status.code() == Some(0), "{step}: {:?} {words}", run.status);
        if died {
            killed += 1;
            let id = shop.latest();
            // The resume is killed too, where it reads what became of the run.
            let resume = ["resume", id.as_str(), "--yes"];
            let second = shop.env.command(&resume).env("REDRIVE_FAILPOINT", "recovered").output().unwrap();
            let words = String::from_utf8_lossy(&second.stderr).into_owned();
            assert!(
                second.status.signal() == Some(9) || matches!(second.status.code(), Some(0 | 4)),
                "{step}: {:?} {words}",
                second.status
            );
            let last = shop.env.run(&resume);
            assert!(matches!(last.code, Some(0 | 4)), "{step}: {last}");
        }
        assert_once_and_in_order(&shop.app.read(&shop.target()), count);
    }
    assert!(killed >= 6, "{killed} were killed");
}

#[test]
fn killed_between_copy_and_mark_nothing_is_sent_twice_without_whole_transactions_either() {
    let Some(shop) = Shop::new("5s") else { return };
    let mut count = 0;
    for step in ["before_send", "after_send", "after_commit:2"] {
        shop.bury(count..count + 20);
        count += 20;
        let mut arguments = all(&shop, "200/s");
        arguments.push("--without-transactions");
        let run = shop.env.command(&arguments).env("REDRIVE_FAILPOINT", step).output().unwrap();
        assert_eq!(run.status.signal(), Some(9), "{step}: {}", String::from_utf8_lossy(&run.stderr));
        let last = shop.env.run(&["resume", &shop.latest(), "--yes"]);
        assert!(matches!(last.code, Some(0)), "{step}: {last}");
        assert_once_and_in_order(&shop.app.read(&shop.target()), count);
    }
}
