//! Runs of the built program while the broker, the way to it, or its topics fail. After each of them every letter is
//! at the target exactly once for readers of committed records, and each key in order.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::program::{Shop, all, assert_once_and_in_order};
use super::proxy::Proxy;
use super::server::Server;

/// How many letters a run has, and how fast it goes: a fault in its middle finds it at work.
pub const LETTERS: usize = 300;
const RATE: &str = "150/s";

pub fn begin(shop: &Shop) -> Child {
    begin_at(shop, RATE)
}

fn begin_at(shop: &Shop, rate: &str) -> Child {
    let mut command = shop.env.command(&all(shop, rate));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// All that a run said: the report on stdout, words on stderr.
pub fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits until so many copies are there.
pub fn until(shop: &Shop, run: &mut Child, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while shop.app.read(&shop.target()).len() < count {
        if run.try_wait().unwrap().is_some() {
            let mut words = String::new();
            let (mut out, mut err) = (run.stdout.take().unwrap(), run.stderr.take().unwrap());
            std::io::Read::read_to_string(&mut out, &mut words).unwrap();
            std::io::Read::read_to_string(&mut err, &mut words).unwrap();
            panic!("the run ended before the fault: {}", short(&words));
        }
        assert!(Instant::now() < end, "the run does not move letters");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for the run; one that stopped early is resumed until it is through.
pub fn through(shop: &Shop, run: Child, what: &str) {
    let output = run.wait_with_output().unwrap();
    let words = said(&output);
    let mut code = output.status.code();
    for _ in 0..3 {
        if code == Some(0) {
            return;
        }
        assert_eq!(code, Some(12), "{what}: {words}");
        code = shop.env.run(&["resume", &shop.latest(), "--yes"]).code;
    }
    assert_eq!(code, Some(0), "{what}: {words}");
}

/// A run of `LETTERS` with something happening in its middle.
pub fn with(shop: &Shop, done: &mut usize, what: &str, fault: impl FnOnce()) {
    shop.bury(*done..*done + LETTERS);
    let mut run = begin(shop);
    until(shop, &mut run, *done + 30);
    fault();
    through(shop, run, what);
    *done += LETTERS;
    assert_once_and_in_order(&shop.app.read(&shop.target()), *done);
}

#[test]
fn frozen_reset_and_answer_losing_connections_neither_lose_nor_repeat() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.said("PROXY_PORT"), server.said("PROXIED"));
    let shop = Shop::through(&proxy.url, server.url(), "5s");
    let mut done = 0;
    with(&shop, &mut done, "frozen", || proxy.freeze(Duration::from_secs(2)));
    with(&shop, &mut done, "reset", || proxy.reset(Duration::from_millis(500)));
    for round in 1..=2 {
        with(&shop, &mut done, "the answer to the commit", || proxy.lose_commits(1));
        assert_eq!(proxy.lost(), round, "an answer was lost");
    }
}

#[test]
fn a_broker_that_is_killed_stopped_or_started_again_under_a_run_neither_loses_nor_repeats() {
    let Some(server) = Server::start(&[]) else { return };
    let shop = Shop::through(server.url(), server.url(), "5s");
    let mut done = 0;
    with(&shop, &mut done, "stopped for a while", || {
        server.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(3));
        server.signal(Signal::CONT);
    });
    with(&shop, &mut done, "killed", || {
        server.signal(Signal::KILL);
        server.again();
    });
    with(&shop, &mut done, "restarted in order", || {
        server.signal(Signal::TERM);
        server.again();
    });
}

#[test]
fn k32_a_transaction_that_grew_too_old_is_no_takeover_and_its_batch_goes_again() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.said("PROXY_PORT"), server.said("PROXIED"));
    let shop = Shop::through(&proxy.url, server.url(), "5s");
    shop.bury(0..LETTERS);
    // Longer than a transaction may last: the broker has aborted it when its commit comes. A fifth of the way: the
    // last transactions of a run hold no copies. A client asks again shortly before that age: it comes too late as well.
    proxy.delay_commit(20, Duration::from_secs(23));
    let output = begin(&shop).wait_with_output().unwrap();
    let words = said(&output);
    assert_eq!(proxy.delayed(), 1);
    assert_eq!(output.status.code(), Some(0), "{}", short(&words));
    assert!(!words.contains("took over"), "{}", short(&words));
    assert_once_and_in_order(&shop.app.read(&shop.target()), LETTERS);
    let uncommitted = shop.app.read_as(&shop.target(), "read_uncommitted").len();
    assert!(uncommitted > LETTERS, "the batch of the aborted transaction was sent again: {uncommitted}");
}

#[test]
fn k32_a_second_run_fences_the_first_which_stops_at_once_and_says_who() {
    let Some(shop) = Shop::new("5s") else { return };
    shop.bury(0..LETTERS);
    // Two more programs start before it may be done.
    let mut first = begin_at(&shop, "20/s");
    until(&shop, &mut first, 30);
    // From another machine's ledger, since this one's would refuse it first.
    let elsewhere = shop.elsewhere();
    let refused = elsewhere.run(&all(&shop, RATE));
    assert_eq!(refused.code, Some(4), "{refused}");
    assert!(refused.says("held by run"), "{refused}");
    let mut takes = all(&shop, "unlimited");
    takes.push("--take-over");
    let second = elsewhere.run(&takes);
    // What the first moved while the second looked is where it should be: skipped, and its groups go on.
    let report = second.json();
    let skipped = report["counts"]["skipped"].as_u64().unwrap();
    assert_eq!(second.code, Some(if skipped == 0 { 0 } else { 11 }), "{}", short(&second.out));
    assert_eq!(report["counts"]["held"].as_u64(), Some(0), "{}", short(&second.out));
    let first = first.wait_with_output().unwrap();
    let words = said(&first);
    assert_eq!(first.status.code(), Some(12), "{}", short(&words));
    assert!(words.contains("another run took over"), "{}", short(&words));
    assert_once_and_in_order(&shop.app.read(&shop.target()), LETTERS);
    // Its resume finds them marked.
    let resume = shop.env.run(&["resume", &shop.latest(), "--yes"]);
    assert!(matches!(resume.code, Some(0 | 11 | 12)), "{}", short(&resume.out));
    assert_once_and_in_order(&shop.app.read(&shop.target()), LETTERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_topic_that_is_deleted_or_made_anew_under_a_run_stops_it_with_the_words_for_it() {
    for anew in [false, true] {
        let Some(shop) = Shop::new("5s") else { return };
        large(&shop);
        let mut run = begin(&shop);
        until(&shop, &mut run, 30);
        shop.app.delete(&shop.dlq()).await;
        if anew {
            let _ = shop.line("apply --yes").ok();
            shop.bury(5_000..5_000 + 2 * LETTERS);
        }
        let output = run.wait_with_output().unwrap();
        let words = said(&output);
        assert_eq!(output.status.code(), Some(12), "{}", short(&words));
        // Asked again it is one or the other, whatever the run met first.
        let again = shop.env.run(&["resume", &shop.latest(), "--yes"]);
        let words = format!("{words}{}{}", again.out, again.err);
        let says = if anew { "made anew" } else { "no topic" };
        assert!(words.contains(says) || words.contains("not there any more"), "{}", short(&words));
        // What had been moved is there once; nothing of the new topic was sent on the old one's selection.
        let numbers = numbers(&shop);
        assert!(numbers.len() >= 30 && numbers.len() < LETTERS, "{}", numbers.len());
        assert!(numbers.iter().all(|n| *n < LETTERS), "another topic's letters");
    }
}

/// The numbers of all copies, none of them twice.
fn numbers(shop: &Shop) -> Vec<usize> {
    let mut numbers: Vec<usize> =
        shop.app.read(&shop.target()).iter().map(|read| super::program::number(read) % 1_000_000).collect();
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all, "twice");
    numbers
}

/// Letters so large that a run holds only some of them at a time, and goes on reading.
fn large(shop: &Shop) {
    let letters: Vec<_> = (0..LETTERS)
        .map(|n| {
            let letter = super::bench::message(&format!("k{}", n % 12), &n.to_string());
            redrive::letter::Message { body: Some(format!("{}{n}", " ".repeat(250_000)).into()), ..letter }
        })
        .collect();
    shop.app.produce(&shop.dlq(), &letters, Duration::ZERO);
}

/// The end of what was said.
pub fn short(words: &str) -> &str {
    let from = words.len().saturating_sub(1_500);
    &words[(from..).find(|at| words.is_char_boundary(*at)).unwrap()..]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_deleted_under_a_run_stops_it_and_the_resume_sends_the_rest() {
    let Some(shop) = Shop::new("5s") else { return };
    shop.bury(0..LETTERS);
    let mut run = begin(&shop);
    until(&shop, &mut run, 30);
    let before = shop.app.read(&shop.target());
    shop.app.delete(&shop.target()).await;
    let output = run.wait_with_output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(12), "{}", short(&words));
    assert!(words.contains(&shop.target()), "{}", short(&words));
    let _ = shop.line("apply --yes").ok();
    let resume = shop.env.run(&["resume", &shop.latest(), "--yes"]);
    assert_eq!(resume.code, Some(0), "{}", short(&resume.out));
    // What lay in the deleted topic is gone with it; the rest came once.
    let after = numbers(&shop).len();
    assert!((LETTERS / 2..LETTERS).contains(&after) && before.len() >= 30, "{after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_retention_takes_under_a_run_are_named_and_the_counts_stay_true() {
    let Some(shop) = Shop::new("5s") else { return };
    large(&shop);
    let mut run = begin(&shop);
    until(&shop, &mut run, 30);
    let ends: std::collections::BTreeMap<i32, i64> =
        shop.app.read(&shop.dlq()).iter().map(|read| (read.partition, read.offset + 1)).collect();
    for (partition, end) in &ends {
        shop.app.trim(&shop.dlq(), *partition, end - 5).await;
    }
    let output = run.wait_with_output().unwrap();
    let words = said(&output);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(matches!(output.status.code(), Some(11 | 12)), "{}", short(&words));
    let moved = numbers(&shop).len();
    assert_eq!(report["counts"]["moved"].as_u64(), Some(moved as u64), "{}", short(&words));
    assert!(moved < LETTERS, "{moved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k08_a_record_that_is_too_large_amid_a_batch_fails_alone_in_a_run() {
    let Some(shop) = Shop::new("5s") else { return };
    shop.app.set(&shop.target(), "max.message.bytes", "20000").await;
    shop.bury(0..50);
    let large = super::bench::message("large", &format!("{{\"n\":777,\"x\":\"{}\"}}", "x".repeat(30_000)));
    shop.app.produce(&shop.dlq(), &[large], Duration::ZERO);
    shop.bury(50..100);
    let run = shop.env.run(&all(&shop, "unlimited"));
    assert_eq!(run.code, Some(11), "{run}");
    let report = run.json();
    assert_eq!(report["counts"]["moved"].as_u64(), Some(100), "{run}");
    assert_eq!(report["counts"]["failed"].as_u64(), Some(1), "{run}");
    assert_once_and_in_order(&shop.app.read(&shop.target()), 100);
}

/// Killed again and again in one run; the long form has the size of the issue.
#[test]
fn killed_many_times_in_one_run_each_letter_arrives_exactly_once() {
    let long = std::env::var("REDRIVE_TEST_LONG").is_ok_and(|value| value == "1");
    let (letters, kills) = if long { (200_000, 40) } else { (2_000, 3) };
    let Some(shop) = Shop::new("5s") else { return };
    shop.bury(0..letters);
    let rate = format!("{}/s", letters / 4);
    let mut arguments: Vec<String> = all(&shop, &rate).into_iter().map(str::to_owned).collect();
    for kill in 0..kills {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut run = shop.env.command(&words);
        let words = std::fs::File::create(shop.env.path("run.err")).unwrap();
        let mut run = run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words).spawn().unwrap();
        let begun = shop.app.ends(&shop.target());
        let until = Instant::now() + Duration::from_secs(120);
        while shop.app.ends(&shop.target()) < begun + 20 && run.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "kill {kill}: nothing moves");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(7 * (kill as u64 % 9)));
        run.kill().unwrap();
        let ended = run.wait().unwrap();
        let words = std::fs::read_to_string(shop.env.path("run.err")).unwrap();
        // By the kill, or because all was through.
        assert!(matches!(ended.code(), None | Some(0 | 4)), "kill {kill}: {ended}: {}", short(&words));
        arguments = ["resume".to_owned(), shop.latest(), "--yes".to_owned()].to_vec();
    }
    let last = shop.env.run(&["resume", &shop.latest(), "--yes"]);
    assert!(matches!(last.code, Some(0 | 4)), "{last}");
    assert_once_and_in_order(&shop.app.read(&shop.target()), letters);
}
