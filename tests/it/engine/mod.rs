//! Runs as people see them: the built program against the embedded broker, whole, killed and resumed.

mod cases;
mod crash;
mod doubt;
mod full;
mod passing;
mod relay;
mod runs;
mod screens;
mod stale;
mod trim;
mod typed;
mod unproved;
mod why;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use redrive::broker::OpenContext;
use redrive::broker::sqlite::Application;
use redrive::clock::SystemClock;
use redrive::letter::{Message, Value};
use redrive::stamp;
use redrive::topology::{At, BrokerDecl};
use rusqlite::Connection;

use crate::cli::{Run, TestEnv};

/// One channel, two tiers, a dead-letter queue.
const SHOP: &str = r#"version: 1
brokers:
  local: {url: "sqlite:redrive.db"}
channels:
  orders:
    source: orders
    consumer: billing
    event_id: {header: event-id}
    group: key
    retry:
      tiers:
        - {delay: 5s}
        - {delay: 1m}
    dead_letter: {name: orders.dlq, retention: 14d}
    redrive: {rate: 50/s, max_redrives: 2, dedup_window: 7d}
"#;

/// A shop with its ledger in its own folder.
struct Shop {
    env: TestEnv,
}

/// What lies in a queue.
#[derive(Debug, Clone, PartialEq)]
struct Lying {
    key: Option<String>,
    body: String,
    headers: String,
}

impl Shop {
    fn new() -> Self {
        Self::with(SHOP)
    }

    fn with(topology: &str) -> Self {
        let mut env = TestEnv::new();
        env.topology(topology);
        let ledger = env.path("ledger.db").display().to_string();
        env.set("REDRIVE_LEDGER", &ledger);
        env.real_time();
        // Ids by chance: two runs of one test are two runs.
        env.set("REDRIVE_SEED", "");
        let _ = env.run(&["apply", "--yes"]).ok();
        Self { env }
    }

    fn path(&self) -> PathBuf {
        self.env.path("redrive.db")
    }

    fn application(&self) -> Application {
        let decl = BrokerDecl {
            name: At::nowhere("local".to_owned()),
            url: At::nowhere("sqlite:redrive.db".to_owned()),
            ..BrokerDecl::default()
        };
        let context =
            OpenContext { clock: Arc::new(SystemClock), base: self.env.folder().to_owned(), writes: true };
        Application::open(&decl, &context).unwrap()
    }

    /// Puts messages into the dead-letter queue.
    fn bury(&self, messages: &[Message]) {
        self.application().send("orders.dlq", messages, Duration::ZERO).unwrap();
    }

    /// `count` letters in groups of about five, every seventh without one.
    fn bury_many(&self, count: usize) {
        let messages: Vec<Message> = (0..count)
            .map(|n| letter((n % 7 != 0).then(|| format!("C-{}", n % (count / 5).max(1))), n))
            .collect();
        self.bury(&messages);
    }

    /// What lies in a queue, in order of arrival.
    fn lying(&self, queue: &str) -> Vec<Lying> {
        let db = Connection::open(self.path()).unwrap();
        let mut query = db
            .prepare(
                "SELECT letter.key, letter.body, letter.headers FROM letter JOIN queue ON queue.id = letter.queue \
                 WHERE queue.name = ?1 ORDER BY letter.id",
            )
            .unwrap();
        let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        query
            .query_map([queue], |row| {
                Ok(Lying {
                    key: text(row.get(0)?),
                    body: text(row.get(1)?).unwrap_or_default(),
                    headers: row.get(2)?,
                })
            })
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    /// How many letters of the dead-letter queue somebody holds.
    fn held(&self) -> i64 {
        let db = Connection::open(self.path()).unwrap();
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
        db.query_row("SELECT count(*) FROM lease WHERE until > ?1 AND token IS NOT NULL", [now], |row| {
            row.get(0)
        })
        .unwrap()
    }

    fn line(&self, line: &str) -> Run {
        self.env.line(line)
    }

    /// The id of the latest run.
    fn latest(&self) -> String {
        let runs = self.line("runs list -o json").ok().json();
        runs["runs"][0]["run"].as_str().unwrap().to_owned()
    }

    /// Runs a line beside a consumer that sends every letter it gets back to the dead-letter queue.
    fn refused_by_everyone(&self, line: &str) -> (Option<i32>, serde_json::Value) {
        let line: Vec<&str> = line.split(' ').collect();
        let mut child = self.env.command(&line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut application = self.application();
        while child.try_wait().unwrap().is_none() {
            for delivery in application.receive("orders", 10, None).unwrap() {
                let message = delivery.message.clone();
                application.ack(&delivery.receipt).unwrap();
                application.send("orders.dlq", &[message], Duration::ZERO).unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report)
    }
}

fn letter(key: Option<String>, n: usize) -> Message {
    Message {
        key: key.map(Into::into),
        body: Some(format!("{{\"n\":{n}}}").into()),
        headers: [
            ("event-id".to_owned(), Value::from_text(format!("ev-{n}"))),
            (stamp::ATTEMPT.to_owned(), Value::from_text("3")),
            ("content-type".to_owned(), Value::from_text("application/json")),
        ]
        .into_iter()
        .collect(),
        ..Message::default()
    }
}
