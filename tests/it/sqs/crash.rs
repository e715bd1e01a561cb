//! The process is killed at steps of a run, and resumed: no letter is lost, and what is there twice was named in
//! doubt; on FIFO nothing is there twice.

use std::os::unix::process::ExitStatusExt;

use super::proxy::Proxy;
use super::{Shop, body, count, endpoint_or_return};

const LETTERS: usize = 12;

fn killed_and_resumed(endpoint: &str, fifo: bool, failpoint: &str) {
    // What a dead process held comes back by time alone: here after two seconds instead of sixty.
    let proxy = Proxy::start(endpoint, Vec::new(), Some(2));
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    // FIFO: no more than one answer holds.
    let letters = if fifo { 10 } else { LETTERS };
    shop.bury(letters);
    let line = ["run", &shop.channel, "--limit", "all", "--rate", "1000/s", "--reason", "INC-1", "--yes"];
    let output = shop.env.command(&line).env("REDRIVE_FAILPOINT", failpoint).output().unwrap();
    assert_eq!(
        output.status.signal(),
        Some(9),
        "{failpoint}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let runs: serde_json::Value = serde_json::from_slice(&shop.env.line("runs list -o json").bytes).unwrap();
    let id = runs["runs"][0]["run"].as_str().unwrap().to_owned();
    let resumed = shop.env.run(&["resume", &id, "--yes", "-o", "json"]);
    // All that was left to do may have been the last line of the record.
    let shown = match resumed.code {
        Some(4) => shop.env.run(&["runs", "show", &id, "-o", "json"]),
        _ => resumed,
    };
    let run: serde_json::Value = serde_json::from_slice(&shown.bytes)
        .unwrap_or_else(|_| panic!("{failpoint}: {:?}\n{}\n{}", shown.code, shown.out, shown.err));
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let (all, arrived) = shop.arrived();
    let left: Vec<String> = shop.app.take_all(&shop.dead).into_iter().map(|got| got.body).collect();
    for n in 0..letters {
        let body = body(n);
        assert!(arrived.contains_key(&body) || left.contains(&body), "{failpoint}: {body} is lost: {run}");
    }
    assert_eq!(all.len(), arrived.len(), "{failpoint}: there twice: {run}");
    let in_both = left.iter().filter(|body| arrived.contains_key(*body)).count() as u64;
    assert!(
        in_both <= count(&run, "in_doubt"),
        "{failpoint}: {in_both} are in both queues and not named in doubt: {run}"
    );
    assert_eq!(count(&run, "planned"), letters as u64, "{run}");
    if fifo {
        // Sent again with its own deduplication id: never in doubt inside the window.
        assert_eq!((count(&run, "moved"), left.len()), (letters as u64, 0), "{failpoint}: {run}");
    } else {
        assert_eq!(
            arrived.len() as u64 + count(&run, "in_doubt"),
            letters as u64 + in_both,
            "{failpoint}: {run}"
        );
    }
}

macro_rules! killed {
    ($($name:ident: $emulator:ident, $fifo:literal, $failpoint:literal;)*) => {
        $(
            #[test]
            fn $name() {
                killed_and_resumed(&endpoint_or_return!($emulator), $fifo, $failpoint);
            }
        )*
    };
}

killed! {
    standard_killed_with_claims_in_hand: MINISTACK, false, "claimed";
    standard_killed_after_the_intent: MINISTACK, false, "before_send";
    standard_killed_after_the_send: ELASTICMQ, false, "after_send";
    standard_killed_before_the_end: MINISTACK, false, "before_end";
    fifo_killed_with_claims_in_hand: ELASTICMQ, true, "claimed";
    fifo_killed_after_the_intent: MINISTACK, true, "before_send";
    fifo_killed_after_the_send: MINISTACK, true, "after_send";
    fifo_killed_after_the_send_on_elasticmq: ELASTICMQ, true, "after_send";
}

/// A run that waits for its rate has written down what it did: what is removed is known to be, and the resume looks for
/// nothing that nobody can show it.
fn killed_in_a_pause(endpoint: &str, fifo: bool) {
    let proxy = Proxy::start(endpoint, Vec::new(), Some(2));
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    shop.bury(8);
    // So slow that it pauses also on a busy machine.
    let line = ["run", &shop.channel, "--limit", "all", "--rate", "1/s", "--reason", "INC-1", "--yes"];
    let output = shop.env.command(&line).env("REDRIVE_FAILPOINT", "pause:3").output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
    let runs: serde_json::Value = serde_json::from_slice(&shop.env.line("runs list -o json").bytes).unwrap();
    let (id, path) = (runs["runs"][0]["run"].as_str().unwrap(), &runs["runs"][0]["path"]);
    assert_eq!(path, "publish_then_settle", "{runs}");
    let resumed = shop.env.run(&["resume", id, "--rate", "50/s", "--yes", "-o", "json"]).exits(0);
    let run: serde_json::Value = serde_json::from_slice(&resumed.bytes).unwrap();
    assert_eq!((count(&run, "moved"), run["unsettled"].as_u64()), (8, Some(0)), "{run}");
    assert_eq!((shop.arrived().0.len(), shop.app.depth(&shop.dead)), (8, 0));
}

#[test]
fn m15_killed_in_a_pause_nothing_is_left_unsettled_on_ministack() {
    killed_in_a_pause(&endpoint_or_return!(MINISTACK), false);
}

#[test]
fn m15_killed_in_a_pause_nothing_is_left_unsettled_on_a_fifo_of_elasticmq() {
    killed_in_a_pause(&endpoint_or_return!(ELASTICMQ), true);
}

/// Killed when all was done and before its end was written down: the resume that `runs show` offers writes it, and asks
/// and sends nothing.
#[test]
fn l06_a_run_that_lacks_only_its_end_is_ended_by_its_resume_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::new(&endpoint, &endpoint, false);
    shop.bury(5);
    let line = ["run", &shop.channel, "--limit", "all", "--rate", "1000/s", "--reason", "INC-1", "--yes"];
    let output = shop.env.command(&line).env("REDRIVE_FAILPOINT", "before_end").output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
    let runs: serde_json::Value = serde_json::from_slice(&shop.env.line("runs list -o json").bytes).unwrap();
    let id = runs["runs"][0]["run"].as_str().unwrap();
    let resumed = shop.env.run(&["resume", id]).exits(0);
    assert!(resumed.says("done: 5 of 5 moved"), "{resumed}");
    let shown = shop.env.run(&["runs", "show", id]).ok();
    assert!(shown.says("done"), "{shown}");
    assert_eq!((shop.arrived().0.len(), shop.app.depth(&shop.dead)), (5, 0));
}

/// Most letters in doubt after a crash: eight calls of ten.
const MOST_IN_DOUBT: u64 = 80;

/// Letters whose intent is on record without an outcome.
fn intended(shop: &Shop) -> u64 {
    let ledger = rusqlite::Connection::open(shop.env.path("ledger.db")).unwrap();
    ledger.query_row("SELECT count(*) FROM opened WHERE state = 1", [], |row| row.get(0)).unwrap()
}

/// A run without a rate over many letters is killed, at a step or in the middle of its calls: what may have been sent
/// without anybody knowing is what eight calls carry. Then it is resumed.
fn killed_without_a_rate(endpoint: &str, fifo: bool, failpoint: Option<&str>) {
    // Hidden for longer than the look takes: a FIFO queue of ElasticMQ answers the more slowly the more is held.
    let (many, hide) = if fifo { (200, 6) } else { (450, 2) };
    let proxy = Proxy::start(endpoint, Vec::new(), Some(hide));
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    shop.bury(many);
    let channel = &shop.channel;
    let line =
        ["run", channel, "--limit", "all", "--rate", "unlimited", "--reason", "INC-1", "--confirm", channel];
    let mut command = shop.env.command(&line);
    if let Some(failpoint) = failpoint {
        command.env("REDRIVE_FAILPOINT", failpoint);
    }
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    while failpoint.is_none() && proxy.count("SendMessageBatch") < 13 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::yield_now();
    }
    if failpoint.is_none() {
        child.kill().unwrap();
    }
    assert_eq!(child.wait().unwrap().signal(), Some(9), "{failpoint:?}");
    let open = intended(&shop);
    assert!(open <= MOST_IN_DOUBT, "{failpoint:?}: {open} may have been sent, and nobody knows");
    std::thread::sleep(std::time::Duration::from_millis(u64::from(hide) * 1_000 + 500));
    let runs: serde_json::Value = serde_json::from_slice(&shop.env.line("runs list -o json").bytes).unwrap();
    let id = runs["runs"][0]["run"].as_str().unwrap().to_owned();
    let resumed = shop.env.run(&["resume", &id, "--rate", "1000/s", "--yes", "-o", "json"]);
    let run: serde_json::Value = serde_json::from_slice(&resumed.bytes)
        .unwrap_or_else(|_| panic!("{failpoint:?}: {:?}\n{}\n{}", resumed.code, resumed.out, resumed.err));
    let (all, arrived) = shop.arrived();
    assert_eq!(all.len(), arrived.len(), "{failpoint:?}: there twice: {run}");
    let (moved, doubt) = (count(&run, "moved"), count(&run, "in_doubt"));
    assert_eq!(moved + doubt, many as u64, "{failpoint:?}: {run}");
    if fifo {
        assert_eq!((doubt, arrived.len(), shop.app.depth(&shop.dead)), (0, many, 0), "{failpoint:?}: {run}");
    } else {
        assert!(doubt <= open, "{failpoint:?}: {open} were open: {run}");
        assert!(arrived.len() as u64 >= moved, "{failpoint:?}: {run}");
        assert_eq!(shop.app.depth(&shop.dead), doubt, "{failpoint:?}: {run}");
    }
}

macro_rules! killed_without_a_rate {
    ($($name:ident: $emulator:ident, $fifo:literal, $failpoint:expr;)*) => {
        $(
            #[test]
            fn $name() {
                killed_without_a_rate(&endpoint_or_return!($emulator), $fifo, $failpoint);
            }
        )*
    };
}

killed_without_a_rate! {
    few_in_doubt_killed_with_claims_in_hand_on_ministack: MINISTACK, false, Some("claimed:2");
    few_in_doubt_killed_before_a_commit_on_ministack: MINISTACK, false, Some("before_commit:2");
    few_in_doubt_killed_after_a_commit_on_elasticmq: ELASTICMQ, false, Some("after_commit:2");
    few_in_doubt_killed_after_a_send_on_elasticmq: ELASTICMQ, false, Some("after_send:2");
    few_in_doubt_killed_amid_calls_on_elasticmq: ELASTICMQ, false, None;
    few_in_doubt_killed_amid_calls_on_ministack: MINISTACK, false, None;
    few_in_doubt_fifo_killed_after_a_commit_on_ministack: MINISTACK, true, Some("after_commit:2");
    few_in_doubt_fifo_killed_after_a_send_on_elasticmq: ELASTICMQ, true, Some("after_send:2");
    few_in_doubt_fifo_killed_amid_calls_on_elasticmq: ELASTICMQ, true, None;
}
