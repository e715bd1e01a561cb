//! `docs/embedded-broker.md` is a contract: its schema is the file's, its Python runs.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use redrive::broker::Want;
use redrive::clock::SystemClock;
use redrive::dead_letter::DeadLetter;
use redrive::letter::Value;
use rusqlite::Connection;

use super::bench::{Bench, body};

fn blocks(language: &str) -> Vec<String> {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/embedded-broker.md")).unwrap();
    text.split("```")
        .filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n').map(str::to_owned))
        .collect()
}

fn schema(db: &Connection) -> Vec<String> {
    db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap()
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(|sql| {
            let sql = sql.unwrap();
            let bare = sql.lines().map(|line| line.split("--").next().unwrap());
            bare.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[tokio::test]
async fn the_schema_in_the_docs_is_the_files() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let documented = Connection::open_in_memory().unwrap();
    documented.execute_batch(&blocks("sql").concat()).unwrap();
    assert_eq!(schema(&documented), schema(&Connection::open(bench.path()).unwrap()));
}

#[tokio::test]
async fn the_python_in_the_docs_sends_receives_acks_and_fails() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    // Tiers that are due at once, so that nobody has to wait.
    Connection::open(bench.path())
        .unwrap()
        .execute("UPDATE queue SET delay = 1 WHERE role = 'tier'", [])
        .unwrap();
    let python = |script: &str| {
        let program = format!("{}\ndb = connect('redrive.db')\n{script}", blocks("python").concat());
        let run =
            Command::new("python3").args(["-c", &program]).current_dir(bench.folder()).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap()
    };
    let printed = python(
        r#"
send(db, "orders", b"good", b"C-1", [["event-id", "ev-1"]])
send(db, "orders", b"bad", b"C-2", [["event-id", "ev-2"], ["n", 3], ["n", None], ["raw", {"bytes": "00ff"}]])
send(db, "orders", b"behind", b"C-2")
first, second = receive(db, "orders"), receive(db, "orders")
print(first["body"], second["body"], receive(db, "orders"))
ack(db, first)
try:
    ack(db, first)
except RuntimeError as error:
    print(error)
fail(db, second, stack="at Billing:7", **{"class": "TimeoutError", "message": "no answer"})
behind = receive(db, "orders")
print(behind["body"])
ack(db, behind)
"#,
    );
    assert_eq!(printed, "b'good' b'bad' None\nthe receipt is not valid any more\nb'behind'\n");
    let broker = bench.open(true).await;
    let mut relay = broker.serve(&[&bench.channel], "r").await.unwrap();
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(relay.carry(10).await.unwrap().moved.len(), 1);
        python(
            r#"
def refuse(letter):
    raise ValueError("unsupported currency")
consume(db, "orders", refuse)
"#,
        );
    }
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved: false }).await.unwrap();
    let letter = DeadLetter::of(look.next().await.unwrap().remove(0), &bench.channel);
    assert_eq!(body(&letter.raw.message), "bad");
    let classes: Vec<_> =
        letter.context.deaths.iter().map(|death| death.error_class.as_deref().unwrap()).collect();
    assert_eq!(classes, ["TimeoutError", "ValueError", "ValueError"]);
    assert_eq!(letter.context.attempts, Some(3));
    let n: Vec<_> = letter.raw.message.headers.all("n").cloned().collect();
    assert_eq!(n, [Value::I64(3), Value::Null]);
    // A consumer that dies with the letter each time: the fifth time was the last.
    let printed = python(
        r#"
send(db, "orders", b"poison", b"C-3")
for _ in range(6):
    db.execute("UPDATE lease SET until = 0")
    letter = receive(db, "orders")
    while letter and letter["body"] != b"poison":
        letter = receive(db, "orders")
    print(bool(letter), end=" ")
print(db.execute("SELECT count(*) FROM letter JOIN queue ON queue.id = queue WHERE name = 'orders.dlq'").fetchone()[0])
"#,
    );
    assert_eq!(printed, "True True True True True False 2\n");
}
