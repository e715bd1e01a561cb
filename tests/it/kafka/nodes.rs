//! Three nodes with replicas of everything: each is killed under a run in turn, so that every leader changes once, and
//! the replicas that a topic wants in step are lost. Only in the long form (`scripts/test --long`).

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::faults::{LETTERS, begin, said, short, through, until, with};
use super::program::{Shop, assert_once_and_in_order};
use super::server::Server;

/// Three nodes, where they were asked for.
fn three() -> Option<Server> {
    if std::env::var_os("REDRIVE_TEST_LONG").is_none() {
        println!("three nodes are for the long form: scripts/test --long");
        return None;
    }
    Server::start(&["--three"])
}

/// Longest that a run may go on without the replicas that it needs.
const BOUND: Duration = Duration::from_secs(150);

/// Waits until every partition has all its replicas in step, and a leader.
fn healed(shop: &Shop) {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    let consumer: BaseConsumer = shop.app.config().set("group.id", "test").create().unwrap();
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        let metadata = consumer.fetch_metadata(None, Duration::from_secs(10));
        let whole = metadata.is_ok_and(|all| {
            let mut partitions = all.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions);
            partitions.all(|one| one.leader() >= 0 && one.isr().len() == one.replicas().len())
        });
        if whole {
            return;
        }
        assert!(Instant::now() < end, "replicas do not come into step");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn three_nodes_each_killed_under_a_run_neither_lose_nor_repeat() {
    let Some(server) = three() else { return };
    let shop = Shop::replicated(server.url(), server.url(), "5s", 3);
    healed(&shop);
    let mut done = 0;
    for node in 1..=3 {
        let (process, port) = server.node(node);
        with(&shop, &mut done, &format!("node {node} killed"), || process.signal(Signal::KILL));
        process.again(port);
        healed(&shop);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_that_lose_the_replicas_in_step_stop_a_run_in_time_and_the_resume_goes_on() {
    let Some(server) = three() else { return };
    let shop = Shop::replicated(server.url(), server.url(), "5s", 3);
    healed(&shop);
    let mut done = 0;
    // One node less, and the target wants all three: a quorum still says who leads.
    shop.app.set(&shop.target(), "min.insync.replicas", "3").await;
    lose(&shop, &server, &mut done, &[3]);
    // Two less: nobody can say who leads.
    shop.app.set(&shop.target(), "min.insync.replicas", "2").await;
    lose(&shop, &server, &mut done, &[1, 2]);
}

/// A run that these nodes are taken from: it stops by itself, and its resume is whole once they are back.
fn lose(shop: &Shop, server: &Server, done: &mut usize, nodes: &[usize]) {
    shop.bury(*done..*done + LETTERS);
    let mut run = begin(shop);
    until(shop, &mut run, *done + 30);
    for node in nodes {
        server.node(*node).0.signal(Signal::KILL);
    }
    let begun = Instant::now();
    let output = run.wait_with_output().unwrap();
    let (took, words) = (begun.elapsed(), said(&output));
    println!("without nodes {nodes:?} it stopped after {took:?}: {}", short(&words));
    for node in nodes {
        let (process, port) = server.node(*node);
        process.again(port);
    }
    assert_eq!(output.status.code(), Some(12), "{nodes:?}: {}", short(&words));
    assert!(took < BOUND, "{nodes:?}: {took:?}");
    assert!(words.contains("resume"), "{}", short(&words));
    healed(shop);
    let resume = shop.env.command(&["resume", &shop.latest(), "--yes"]);
    let mut resume = resume;
    through(
        shop,
        resume.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap(),
        "resume",
    );
    *done += LETTERS;
    assert_once_and_in_order(&shop.app.read(&shop.target()), *done);
}
