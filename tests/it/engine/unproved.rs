//! A broker without transactions and without proof: the process is killed at every step and at any moment, and what
//! is in doubt is counted. Lost 0, in doubt at most a window, twice only what was named in doubt.
//!
//! The embedded broker always proves by its marks; here they are taken away behind the kill, as on one that keeps none.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use redrive::proof::failpoint;
use redrive::run::engine::WINDOW;

use super::Shop;

/// How a run is killed.
enum Kill {
    /// At a step.
    At(String),
    /// From outside, this long after its first copy arrived.
    After(Duration),
}

/// Kills a run of `letters` at `rate`; false if it came to its end before.
fn killed(shop: &Shop, rate: &str, kill: &Kill) -> bool {
    let mut command = shop.env.command(&[
        "run",
        "orders",
        "--limit",
        "all",
        "--rate",
        rate,
        "--confirm=orders",
        "--reason",
        "INC-1",
        "--yes",
        "--without-transactions",
        "--without-lookup",
    ]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = match kill {
        Kill::At(step) => command.env("REDRIVE_FAILPOINT", step).status().unwrap(),
        Kill::After(wait) => {
            let mut child = command.spawn().unwrap();
            while copies(shop).is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(*wait);
            child.kill().unwrap();
            child.wait().unwrap()
        }
    };
    status.signal() == Some(9)
}

/// What lies in the target, each body with how often.
fn copies(shop: &Shop) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for lying in shop.lying("orders") {
        *copies.entry(lying.body).or_default() += 1;
    }
    copies
}

/// The bodies of letters that the run names in doubt.
fn in_doubt(shop: &Shop, run: &str) -> BTreeSet<String> {
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    let letters = audit["letters"].as_array().unwrap();
    let doubt: BTreeSet<String> = letters
        .iter()
        .filter(|letter| letter["outcome"] == "in_doubt")
        .map(|letter| format!("{{\"n\":{}}}", letter["event_id"].as_str().unwrap().trim_start_matches("ev-")))
        .collect();
    assert_eq!(audit["counts"]["in_doubt"], doubt.len(), "{audit}");
    doubt
}

/// One kill, and how many were in doubt after it; `None` if the run was not killed.
fn doubted(letters: usize, rate: &str, window: usize, kill: &Kill, at: &str) -> Option<usize> {
    let shop = Shop::new();
    shop.bury_many(letters);
    if !killed(&shop, rate, kill) {
        assert_eq!(copies(&shop).len(), letters, "{at}");
        return None;
    }
    let run = shop.latest();
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    let gone_before = letters - shop.lying("orders.dlq").len();
    db.execute_batch("DELETE FROM mark; DELETE FROM sent;").unwrap();
    drop(db);
    // The killed run says so before anybody has asked; a resume without a word sends none of them.
    let before = in_doubt(&shop, &run);
    let _ = shop.line(&format!("resume {run} --yes --rate 5000/s"));
    let doubt = in_doubt(&shop, &run);
    assert_eq!(before, doubt, "{at}: what is in doubt was known at once");
    assert!(doubt.len() <= window, "{at}: {} in doubt, the window is {window}", doubt.len());
    let there = copies(&shop);
    assert!(there.values().all(|copies| *copies == 1), "{at}: nothing is twice yet");
    let open: BTreeSet<String> = shop.lying("orders.dlq").into_iter().map(|lying| lying.body).collect();
    for body in there.keys().filter(|body| open.contains(*body)) {
        assert!(doubt.contains(body), "{at}: {body} is in both places, and nobody says so");
    }
    assert!(gone_before <= there.len(), "{at}: what was removed had arrived");
    // A person says to send them: now some are twice, and all of those were named.
    if !doubt.is_empty() {
        let resend =
            ["resume", &run, "--yes", "--rate", "5000/s", "--resend-in-doubt", "--reason", "seen none"];
        let _ = shop.env.run(&resend).ok();
    }
    let there = copies(&shop);
    assert_eq!(there.len(), letters, "{at}: lost");
    for (body, copies) in &there {
        assert!(*copies == 1 || *copies == 2 && doubt.contains(body), "{at}: {copies} of {body}, unnamed");
    }
    assert!(shop.lying("orders.dlq").is_empty(), "{at}");
    Some(doubt.len())
}

#[test]
fn in_doubt_is_at_most_a_window_killed_at_every_step() {
    let mut counted = BTreeMap::new();
    for step in failpoint::ALL {
        for nth in 1..=3 {
            let at = format!("{step}:{nth}");
            // At 1000/s so many may go at once, and the ones after them wait for their answers.
            if let Some(doubt) = doubted(60, "1000/s", 20, &Kill::At(at.clone()), &at) {
                counted.insert(at, doubt);
            }
        }
    }
    println!("in doubt of 60 at 1000/s: {counted:?}");
    assert!(counted.len() >= 10 && counted.values().any(|doubt| *doubt > 0), "{counted:?}");
}

#[test]
fn in_doubt_is_at_most_a_window_killed_at_any_moment_and_at_no_rate() {
    let mut counted = Vec::new();
    for wait in [0, 3, 10, 25, 60, 110] {
        let at = format!("{wait} ms after the first copy");
        counted.push(doubted(120, "1000/s", 20, &Kill::After(Duration::from_millis(wait)), &at));
    }
    println!("in doubt of 120 at 1000/s, killed from outside: {counted:?}");
    let mut full = Vec::new();
    for at in ["after_commit:1", "after_send:1", "after_send:2", "before_commit:2"] {
        full.push(doubted(2_300, "unlimited", WINDOW, &Kill::At(at.to_owned()), at));
    }
    println!("in doubt of 2300 at no rate: {full:?}");
    assert!(full.iter().flatten().any(|doubt| *doubt > 100), "a window was open: {full:?}");
}
