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
