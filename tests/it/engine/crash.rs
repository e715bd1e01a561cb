//! The process is killed at every named step of a run and of a resume, on both paths, and copies are counted:
//! lost 0, twice 0 on a broker that can prove, order kept, and the counts of the end are true.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;

use redrive::proof::failpoint;

use super::{Lying, Shop};

const LETTERS: usize = 60;
const RUN: &[&str] = &["run", "orders", "--limit", "all", "--rate", "1000/s", "--reason", "INC-1", "--yes"];

/// Steps that a resume passes which has letters to move, on each path: one after the other of the first list after a
/// kill at the first time, of the second after one at the second, and so on. A resume that never comes to its step goes through
/// to the end and leaves nothing to the next, as do those that are killed in the last steps of all.
type Steps = [&'static [&'static str]; 3];
const TOGETHER: Steps = [
    &["begun", "recovered", "claimed", "before_transfer", "after_transfer", "before_commit", "before_end"],
    &["recovered", "after_transfer", "after_commit"],
    &["after_end"],
];
const APART: Steps = [
    &["begun", "recovered", "claimed", "before_commit", "before_send", "after_send", "before_end"],
    &["recovered", "after_commit", "after_send"],
    &["after_end"],
];

/// Runs the program with a failpoint; true if it was killed there.
fn killed(shop: &Shop, arguments: &[&str], failpoint: &str) -> bool {
    let output = shop.env.command(arguments).env("REDRIVE_FAILPOINT", failpoint).output().unwrap();
    let by = output.status.signal();
    assert!(
        by == Some(9) || output.status.code().is_some_and(|code| [0, 4, 11, 12].contains(&code)),
        "{failpoint}: {:?}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    by == Some(9)
}

/// At any moment: no letter is nowhere. At the end: each is in the target once, in order.
fn nowhere(shop: &Shop) -> Vec<String> {
    let dlq = shop.lying("orders.dlq");
    let target = shop.lying("orders");
    (0..LETTERS)
        .map(|n| format!("{{\"n\":{n}}}"))
        .filter(|body| !dlq.iter().chain(&target).any(|letter| letter.body == *body))
        .collect()
}

fn in_order(target: &[Lying]) -> bool {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    target.iter().all(|letter| {
        let n: usize = letter.body.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        match &letter.key {
            None => true,
            Some(key) => last.insert(key, n).is_none_or(|before| before < n),
        }
    })
}

/// How many runs were killed, and at which steps a resume was.
fn crash_everywhere(path: &[&str], steps: &Steps) -> (usize, BTreeSet<&'static str>) {
    let mut kills = 0;
    let mut resumes_killed = BTreeSet::new();
    for failpoint in failpoint::ALL {
        for (nth, steps) in (1..).zip(steps) {
            let shop = Shop::new();
            shop.bury_many(LETTERS);
            let arguments: Vec<&str> = RUN.iter().chain(path).copied().collect();
            let at = format!("{failpoint}:{nth}");
            let died = killed(&shop, &arguments, &at);
            kills += usize::from(died);
            assert!(nowhere(&shop).is_empty(), "I1: {at}: {:?}", nowhere(&shop));
            let run = shop.latest();
            if died {
                // The resume is killed too, at each step, before a last one comes through.
                for second in *steps {
                    let resume = ["resume", &run, "--yes", "--rate", "1000/s"];
                    if killed(&shop, &resume, second) {
                        resumes_killed.insert(*second);
                        assert!(nowhere(&shop).is_empty(), "I1: {at}, {second}");
                    }
                }
                let last = shop.line(&format!("resume {run} --yes"));
                // Also one that lacked only its end: it is not dead for ever.
                assert_eq!(last.code, Some(0), "{at}: {last}");
            }
            let target = shop.lying("orders");
            let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
            for letter in &target {
                *copies.entry(&letter.body).or_default() += 1;
            }
            assert_eq!(copies.len(), LETTERS, "lost: {at}");
            assert_eq!(target.len(), LETTERS, "twice, and nothing can be in doubt here: {at}");
            assert!(in_order(&target), "rule 5: {at}");
            assert!(shop.lying("orders.dlq").is_empty(), "{at}");
            let shown = shop.line(&format!("runs show {run} -o json")).ok().json();
            let counts = &shown["counts"];
            assert_eq!(shown["state"], "done", "{at}: {shown}");
            assert_eq!(counts["moved"], LETTERS, "{at}: {counts}");
            assert_eq!(counts["in_doubt"], 0, "{at}: {counts}");
        }
    }
    (kills, resumes_killed)
}

#[test]
fn l06_killed_at_every_step_of_a_run_and_its_resume_in_one_transaction() {
    let (kills, steps) = crash_everywhere(&[], &TOGETHER);
    println!("path T: {kills} runs killed, resumes at {steps:?}");
    assert!(kills >= 10, "{kills}");
    assert!(TOGETHER.iter().copied().flatten().all(|step| steps.contains(step)), "{steps:?}");
}

#[test]
fn l06_killed_at_every_step_of_a_run_and_its_resume_publish_then_settle() {
    let (kills, steps) = crash_everywhere(&["--without-transactions"], &APART);
    println!("path P: {kills} runs killed, resumes at {steps:?}");
    assert!(kills >= 10, "{kills}");
    assert!(APART.iter().copied().flatten().all(|step| steps.contains(step)), "{steps:?}");
}

/// The selection is in place before the run is on record: killed between the two, there is no run that could neither go
/// on nor end.
#[test]
fn killed_before_it_is_on_record_a_run_never_was() {
    let shop = Shop::new();
    shop.bury_many(LETTERS);
    assert!(killed(&shop, RUN, "frozen"));
    let runs = shop.line("runs list -o json").ok().json();
    assert_eq!(runs["runs"], serde_json::json!([]), "{runs}");
    assert_eq!((shop.lying("orders.dlq").len(), shop.lying("orders").len()), (LETTERS, 0));
    let _ = shop.env.run(RUN).ok();
    assert_eq!(shop.lying("orders").len(), LETTERS);
    // Whose selection was taken away later is told so, with what to look at.
    let run = shop.latest();
    shop.bury_many(LETTERS);
    assert!(killed(&shop, RUN, "begun"));
    let died = shop.latest();
    assert_ne!(run, died);
    std::fs::remove_file(shop.env.path(&format!("ledger.db.runs/{died}.jsonl"))).unwrap();
    let resumed = shop.line(&format!("resume {died} --yes")).exits(1);
    assert!(resumed.says("A run does not go on without its frozen selection"), "{resumed}");
    assert!(resumed.says(&format!("redrive runs show {died}")), "{resumed}");
}

/// A reason goes into records that are read again, each with its bounds.
#[test]
fn a_reason_that_is_too_long_is_refused_before_anything_is_done() {
    let shop = Shop::new();
    shop.bury_many(3);
    let out = shop.env.path("m.jsonl");
    let select = ["select", "orders", "--limit", "all", "--out", "m.jsonl"];
    for (length, code) in [(4096, 0), (4097, 2), (70_000, 2)] {
        let reason = "x".repeat(length);
        for line in [&RUN[..6], &select[..], &["runs", "pause", "r1"], &["resume", "r1"], &["apply"]] {
            if length == 4096 && line[0] != "select" {
                continue;
            }
            let mut line = line.to_vec();
            line.extend(["--reason", &reason]);
            let told = shop.env.run(&line).exits(code);
            if code == 2 {
                assert!(
                    told.says(&format!("a reason has at most 4096 bytes, this one has {length}")),
                    "{told}"
                );
                assert!(!told.to_string().contains(&reason), "not said again");
                assert!(!out.exists(), "{line:?}");
            }
        }
        if code == 0 {
            let _ = shop.env.run(&["run", "m.jsonl", "--yes"]).ok();
            std::fs::remove_file(&out).unwrap();
            shop.bury_many(3);
        }
    }
    let runs = shop.line("runs list -o json").ok().json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    // No other text of the head makes a manifest that nobody can read.
    let expression = format!("body.a ~ \"{}\"", "y".repeat(40_000));
    let mut line = select.to_vec();
    line.extend(["--reason", "x", "--where", &expression]);
    let told = shop.env.run(&line);
    assert_ne!(told.code, Some(0), "{told}");
    assert!(!out.exists());
}

#[test]
fn a_lost_ledger_costs_history_and_no_letter() {
    for path in [&[][..], &["--without-transactions"][..]] {
        let shop = Shop::new();
        shop.bury_many(LETTERS);
        let arguments: Vec<&str> = RUN.iter().chain(path).copied().collect();
        let step = if path.is_empty() { "after_transfer:2" } else { "after_send:2" };
        assert!(killed(&shop, &arguments, step));
        std::fs::remove_file(shop.env.path("ledger.db")).unwrap();
        for more in ["ledger.db-wal", "ledger.db-shm"] {
            let _ = std::fs::remove_file(shop.env.path(more));
        }
        std::fs::remove_dir_all(shop.env.path("ledger.db.runs")).unwrap();
        let run = shop.env.run(RUN);
        assert!(matches!(run.code, Some(0)), "{run}");
        let target = shop.lying("orders");
        assert_eq!(target.len(), LETTERS, "a new run sees what was moved: {path:?}");
        assert!(in_order(&target));
    }
}
