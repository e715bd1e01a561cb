//! SQS through the built program: a topology applied, filled, broken, inspected and sent back on an emulator, and
//! what happens when calls fail. Which emulator a test runs on is in its name; it says so where one of them is wrong.

mod app;
mod cases;
mod connect;
mod consumer;
mod crash;
mod deep;
mod edges;
mod faults;
mod gone;
mod line;
mod native;
mod proxy;
mod relay;
mod rights;

use std::collections::BTreeMap;

use app::{App, Got};
use serde_json::{Value, json};

use crate::cli::env::{Run, TestEnv};

/// The address of an emulator; `None`, said, where there is none, and a failure where one is required.
fn endpoint(variable: &str) -> Option<String> {
    let address = std::env::var(variable).ok();
    if address.is_none() {
        crate::zz_servers::missing(variable, "scripts/brokers/sqs start FOLDER");
    }
    address
}

/// The address, or the end of the test.
macro_rules! endpoint_or_return {
    ($name:ident) => {
        match crate::sqs::endpoint(concat!("REDRIVE_TEST_SQS_", stringify!($name))) {
            Some(endpoint) => endpoint,
            None => return,
        }
    };
}
use endpoint_or_return;

/// A channel of its own with its queues, an application beside it, and the program's environment.
struct Shop {
    env: TestEnv,
    app: App,
    channel: String,
    source: String,
    dead: String,
    tier: String,
}

impl Shop {
    /// Queues made by the application at `upstream`; redrive goes to `endpoint`, a proxy before it or the same.
    fn new(upstream: &str, endpoint: &str, fifo: bool) -> Self {
        let shop = Self::unmade(upstream, endpoint, fifo);
        for queue in [&shop.dead, &shop.tier, &shop.source] {
            shop.app.create(queue);
        }
        shop
    }

    /// The same without any queue.
    fn unmade(upstream: &str, endpoint: &str, fifo: bool) -> Self {
        Self::unmade_with(upstream, endpoint, fifo, "")
    }

    /// With more options of the broker: `name: "value"`.
    fn unmade_with(upstream: &str, endpoint: &str, fifo: bool, options: &str) -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let millis = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let name = format!("shop{process}x{millis}x{next}");
        let end = if fifo { ".fifo" } else { "" };
        let comma = if options.is_empty() { "" } else { ", " };
        let mut env = TestEnv::new();
        env.real_time();
        env.set("REDRIVE_SEED", "").set("REDRIVE_WIDTH", "400");
        for (key, value) in [
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("REDRIVE_LEDGER", "ledger.db"),
        ] {
            env.set(key, value);
        }
        env.topology(&format!(
            "version: 1\nbrokers:\n  aws:\n    url: \"sqs://us-east-1\"\n    \
             options: {{endpoint_url: \"{endpoint}\"{comma}{options}}}\nchannels:\n  {name}:\n    owner: team-payments\n    \
             source: {name}{end}\n    create_source: true\n    event_id: {{body: /refund/id}}\n    group: key\n    \
             retry: {{tiers: [{{delay: 1s}}]}}\n    dead_letter: {{retention: 14d}}\n    \
             redrive: {{rate: 50/s, dedup_window: 7d}}\n    \
             sqs: {{visibility_timeout: 60s, max_receive_count: 3, tags: {{team: payments}}}}\n"
        ));
        Self {
            env,
            app: App::at(upstream),
            source: format!("{name}{end}"),
            dead: format!("{name}-dlq{end}"),
            tier: format!("{name}-retry-1s{end}"),
            channel: name,
        }
    }

    /// Letters straight into the dead-letter queue, each of a group of its own.
    fn bury(&self, count: usize) {
        for n in 0..count {
            self.app.send(&self.dead, &body(n), Some(&format!("g{n}")), &format!("d{n}"), &json!({}));
        }
    }

    /// A run of all, as JSON.
    fn run(&self) -> Value {
        self.run_by(&["--limit", "all", "--yes"])
    }

    /// `run` of the channel with these flags, and a rate and a reason.
    fn line<'a>(&'a self, flags: &[&'a str]) -> Vec<&'a str> {
        let mut line = vec!["run", &self.channel, "--rate", "1000/s", "--reason", "INC-1"];
        line.extend(flags);
        line
    }

    /// A run with these flags, as JSON.
    fn run_by(&self, flags: &[&str]) -> Value {
        let mut flags = flags.to_vec();
        flags.extend(["-o", "json"]);
        let run = self.env.run(&self.line(&flags));
        serde_json::from_slice(&run.bytes)
            .unwrap_or_else(|_| panic!("no JSON: {:?}\n{}\n{}", run.code, run.out, run.err))
    }

    /// What arrived in the source, counted by body.
    fn arrived(&self) -> (Vec<Got>, BTreeMap<String, usize>) {
        let all = self.app.take_all(&self.source);
        let mut counts = BTreeMap::new();
        for got in &all {
            *counts.entry(got.body.clone()).or_default() += 1;
        }
        (all, counts)
    }
}

/// A shop with its queues whose broker has more options.
fn shop_with(upstream: &str, endpoint: &str, fifo: bool, options: &str) -> Shop {
    let shop = Shop::unmade_with(upstream, endpoint, fifo, options);
    for queue in [&shop.dead, &shop.tier, &shop.source] {
        shop.app.create(queue);
    }
    shop
}

/// The body of the `n`th letter.
fn body(n: usize) -> String {
    json!({"refund": {"id": format!("r-{n}")}}).to_string()
}

/// One of the counts of a run.
fn count(run: &Value, what: &str) -> u64 {
    run["counts"][what].as_u64().unwrap_or_else(|| panic!("{what} in {run}"))
}
