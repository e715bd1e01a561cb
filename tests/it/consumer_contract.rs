//! `docs/consumer-contract.md` on the embedded broker, all real: a consumer in Python, tiers that really wait,
//! `redrive relay` in a process of its own, a dead letter, and its redrive.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::env::TestEnv;

const TOPOLOGY: &str = r#"
version: 1
brokers:
  local: {url: "sqlite:redrive.db"}
channels:
  orders:
    source: orders
    create_source: true
    consumer: billing
    event_id: {header: event-id}
    group: key
    retry:
      tiers: [{delay: 200ms}, {delay: 400ms}, {delay: 600ms}]
    dead_letter: {name: orders.dlq, retention: 14d}
"#;

/// The program of the page, with a line that says what to do.
fn python(env: &TestEnv, script: &str) -> String {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/embedded-broker.md")).unwrap();
    let blocks: String =
        page.split("```").filter_map(|part| part.strip_prefix("python\n")).collect::<Vec<_>>().join("\n");
    let program = format!("{blocks}\ndb = connect('redrive.db')\n{script}");
    let run = Command::new("python3").args(["-c", &program]).current_dir(env.folder()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn a_consumer_fails_waits_in_three_tiers_dies_and_is_redriven() {
    let mut env = TestEnv::new();
    env.real_time();
    env.set("REDRIVE_LEDGER", "runs.db");
    env.topology(TOPOLOGY);
    assert_eq!(env.run(&["apply", "--yes"]).code, Some(0));
    let mut relay = env.start(&["relay"]);
    python(
        &env,
        r#"
send(db, "orders", b'{"orderId": 5001}', b"C-1881", [["event-id", "ev-1"], ["tenant", "acme"]])
"#,
    );
    // Four tries, each at its time: 0, 200 ms, then 400 and 600 ms after the failure before.
    let tries = python(
        &env,
        r#"
tries = []
def handle(letter):
    tries.append((time.monotonic(), last(letter, "redrive-attempt"), last(letter, "redrive-tier")))
    raise TimeoutError("payment gateway: no answer in 3000 ms")

begun = time.monotonic()
while len(tries) < 4 and time.monotonic() - begun < 20:
    if not consume(db, "orders", handle):
        time.sleep(0.01)
for before, after in zip(tries, tries[1:]):
    print(round(after[0] - before[0], 3), after[1], after[2])
"#,
    );
    let waits: Vec<(f64, String)> = tries
        .lines()
        .map(|line| {
            let (wait, rest) = line.split_once(' ').unwrap();
            (wait.parse().unwrap(), rest.to_owned())
        })
        .collect();
    assert_eq!(waits.len(), 3, "{tries}");
    for ((wait, seen), (delay, expected)) in waits.iter().zip([
        (0.2, "1 orders.retry-200ms"),
        (0.4, "2 orders.retry-400ms"),
        (0.6, "3 orders.retry-600ms"),
    ]) {
        assert!(*wait >= delay, "never early: {wait} s for {delay} s");
        assert!(*wait < delay + 5.0, "{wait} s for {delay} s");
        assert_eq!(seen, expected);
    }
    let letters = env.run(&["inspect", "orders", "--letters", "-o", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&letters.out).unwrap();
    let letter = &shown["letters"][0];
    assert_eq!(letter["event_id"], "ev-1", "{shown:#}");
    assert_eq!(letter["group"], "C-1881", "{shown:#}");
    assert_eq!(letter["attempts"], 4, "{shown:#}");

    let run = env.run(&["run", "orders", "--limit", "1", "--yes=1", "--reason", "gateway is back"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let handled = python(
        &env,
        r#"
def handle(letter):
    print(letter["key"], letter["body"], [last(letter, name) for name in
        ("event-id", "tenant", "redrive-attempt", "redrive-tier", "redrive-count")],
        len(json.loads(last(letter, "redrive-deaths"))))

assert consume(db, "orders", handle)
assert not consume(db, "orders", handle)
"#,
    );
    assert_eq!(
        handled, "b'C-1881' b'{\"orderId\": 5001}' ['ev-1', 'acme', None, None, '1'] 4\n",
        "identity kept, all tries again, history kept"
    );
    let left = env.run(&["inspect", "orders", "-o", "json"]);
    assert!(left.out.contains("\"letters\": 0"), "{}", left.out);

    // SIGTERM ends the relay in order.
    let ended =
        Command::new("kill").args(["-TERM", &relay.id().to_string()]).stderr(Stdio::null()).status().unwrap();
    assert!(ended.success());
    let begun = Instant::now();
    let code = loop {
        if let Some(status) = relay.try_wait().unwrap() {
            break status.code();
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "the relay did not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(143));
}
