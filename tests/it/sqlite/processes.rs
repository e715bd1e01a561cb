//! Real processes on one file, some of them killed. A child is this test binary again, told by the
//! environment what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::broker::sqlite::{Application, Failure};
use redrive::broker::{Broker, ErrorKind, Task};
use redrive::clock::SystemClock;

use super::bench::{Bench, body, message};

const ROLE: &str = "REDRIVE_TEST_CHILD";
const FOLDER: &str = "REDRIVE_TEST_FOLDER";

/// Does nothing unless it is started as a child.
#[tokio::test]
async fn child() {
    let (Ok(role), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let bench = Bench::of_folder(Path::new(&folder));
    match role.as_str() {
        "consume" => consume(bench.application(), &folder),
        "send" => send(bench.application(), &folder),
        "hold" => hold(&*bench.open(true).await, &bench, &folder).await,
        other => panic!("no role {other}"),
    }
}

fn spawn(bench: &Bench, role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["sqlite::processes::child", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env(FOLDER, bench.path().parent().unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// One line, appended whole.
fn log(folder: &str, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(Path::new(folder).join("log")).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn logged(bench: &Bench) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(log_file(bench)).unwrap_or_default();
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn log_file(bench: &Bench) -> PathBuf {
    bench.path().with_file_name("log")
}

/// Waits for `lines` in the log.
fn wait_for(bench: &Bench, lines: usize) {
    let begun = Instant::now();
    while logged(bench).len() < lines {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} lines of {lines}", logged(bench).len());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes letters until none comes for a while. A lease outlives the test, so nobody may see a letter twice.
fn consume(mut application: Application, folder: &str) {
    let me = std::process::id();
    let mut idle = 0;
    while idle < 25 {
        let some = application.receive("orders", 3, Some(Duration::from_secs(600))).unwrap();
        idle = if some.is_empty() { idle + 1 } else { 0 };
        for delivery in &some {
            log(folder, &format!("hold {} {me}", body(&delivery.message)));
        }
        for (at, delivery) in some.iter().enumerate() {
            log(folder, &format!("done {} {me}", body(&delivery.message)));
            if at == 2 {
                application.fail(&delivery.receipt, &Failure::default()).unwrap();
            } else {
                application.ack(&delivery.receipt).unwrap();
            }
        }
        if some.is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn send(mut application: Application, folder: &str) {
    for batch in 0.. {
        let messages: Vec<_> = (0..10).map(|n| message("", &format!("{batch}-{n}"))).collect();
        application.send("orders", &messages, Duration::ZERO).unwrap();
        log(folder, &format!("sent {batch}"));
    }
}

fn task(run: &str, snapshot: &str) -> Task {
    Task {
        run: run.to_owned(),
        owner: format!("owner-of-{run}"),
        who: "mira@ops-2".to_owned(),
        target: "orders".to_owned(),
        take_over: false,
        snapshot: snapshot.to_owned(),
        claim_for: Duration::from_secs(600),
    }
}

async fn hold(broker: &dyn Broker, bench: &Bench, folder: &str) {
    let _mover = broker.begin(&bench.channel, &task("r1", "")).await.unwrap();
    log(folder, "holds");
    tokio::time::sleep(Duration::from_secs(600)).await;
}

fn free_the_dead(bench: &Bench) {
    rusqlite::Connection::open(bench.path()).unwrap().execute("UPDATE lease SET until = 0", []).unwrap();
}

fn left(bench: &Bench) -> BTreeSet<String> {
    let db = rusqlite::Connection::open(bench.path()).unwrap();
    let mut query = db.prepare("SELECT CAST(body AS TEXT) FROM letter").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn two_processes_never_hold_one_letter_and_a_kill_loses_none() {
    const COUNT: usize = 400;
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let messages: Vec<_> = (0..COUNT).map(|n| message(&format!("g{}", n % 12), &format!("{n}"))).collect();
    bench.application().send("orders", &messages, Duration::ZERO).unwrap();
    let (mut victim, mut survivor) = (spawn(&bench, "consume"), spawn(&bench, "consume"));
    wait_for(&bench, 300);
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(survivor.wait().unwrap().success());
    let lines = logged(&bench);
    let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut order: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for line in &lines {
        let n: usize = line[1].parse().unwrap();
        match line[0].as_str() {
            "hold" => holders.entry(&line[1]).or_default().push(&line[2]),
            _ => order.entry(n % 12).or_default().push(n),
        }
    }
    for (letter, by) in &holders {
        assert_eq!(by.len(), 1, "{letter} was held by {by:?}");
    }
    for (group, done) in &order {
        assert!(done.is_sorted(), "group {group}: {done:?}");
    }
    let pids: BTreeSet<&str> = holders.values().flatten().copied().collect();
    assert_eq!(pids.len(), 2, "both had a part in it");
    // Nothing is lost: what was not done is there.
    let done = |lines: &[Vec<String>]| -> BTreeSet<String> {
        lines.iter().filter(|line| line[0] == "done").map(|line| line[1].clone()).collect()
    };
    let all: BTreeSet<String> = (0..COUNT).map(|n| n.to_string()).collect();
    assert_eq!(done(&lines).union(&left(&bench)).cloned().collect::<BTreeSet<_>>(), all);
    // And once its leases have run out, somebody else does it.
    free_the_dead(&bench);
    assert!(spawn(&bench, "consume").wait().unwrap().success());
    assert_eq!(done(&logged(&bench)), all);
}

#[tokio::test]
async fn what_a_killed_sender_was_answered_is_there_and_nothing_by_half() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let mut sender = spawn(&bench, "send");
    wait_for(&bench, 40);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let there = left(&bench);
    assert_eq!(there.len() % 10, 0, "batches are whole");
    for line in logged(&bench) {
        for n in 0..10 {
            assert!(there.contains(&format!("{}-{n}", line[1])));
        }
    }
}

#[tokio::test]
async fn a_killed_holder_on_this_machine_loses_its_lock_at_once_and_a_living_one_does_not() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let mut holder = spawn(&bench, "hold");
    wait_for(&bench, 1);
    let broker = bench.open(true).await;
    let error = broker.begin(&bench.channel, &task("r2", "")).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Locked);
    assert!(error.message.contains("orders.dlq is held by run r1 of mira@ops-2, last seen"), "{error}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    broker.begin(&bench.channel, &task("r2", "")).await.unwrap().end().await.unwrap();
}
