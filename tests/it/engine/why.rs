//! Why a run ended and how it went is on record, in text and in JSON.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::Shop;

const RUN: &str = "run orders --limit all --rate 20/s --reason INC-1 --yes";

/// Why the latest run ended, which the text says too.
fn why(shop: &Shop) -> String {
    let run = shop.latest();
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    let why = audit["why"].as_str().unwrap_or_else(|| panic!("{audit}")).to_owned();
    let shown = shop.line(&format!("runs show {run}")).ok();
    assert!(shown.says(&format!("ended {why}")), "{why}: {shown}");
    why
}

/// A run that has moved something.
fn under_way(shop: &Shop) -> Child {
    let line: Vec<&str> = RUN.split(' ').collect();
    let child = shop.env.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while shop.lying("orders").len() < 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn a_run_that_finished_says_so_everywhere() {
    let shop = Shop::new();
    shop.bury_many(4);
    let run = shop.line("run orders --limit all --reason x --yes --events e.jsonl -o json").ok();
    assert_eq!(run.json()["why"], "finished");
    let events = std::fs::read_to_string(shop.env.path("e.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["why"]), (&"ended".into(), &"finished".into()));
    assert_eq!(why(&shop), "finished");
    let shown = shop.line(&format!("runs show {}", shop.latest())).ok();
    assert!(shown.says("ended by mira@ops-2 done, finished"), "{shown}");
}

#[test]
fn a_killed_run_ended_without_a_word_and_its_resume_has_the_last_one() {
    let shop = Shop::new();
    shop.bury_many(30);
    let line: Vec<&str> = RUN.split(' ').collect();
    let killed = shop.env.command(&line).env("REDRIVE_FAILPOINT", "after_transfer:3").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    assert_eq!(why(&shop), "without a word: killed?");
    let run = shop.latest();
    // The ledger is behind the broker here, and says so instead of calling letters untouched.
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    assert!(audit["unknown"]["counts"].as_str().unwrap().contains("resume asks it"), "{audit}");
    assert!(shop.line(&format!("runs show {run}")).ok().says("These counts are the ledger's"));
    let _ = shop.line(&format!("resume {run} --yes --rate 1000/s")).ok();
    assert_eq!(why(&shop), "finished");
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    assert_eq!((&audit["counts"]["moved"], &audit["unknown"]), (&30.into(), &serde_json::Value::Null));
}

#[test]
fn a_signal_a_pause_and_a_stop_are_on_record_with_who_and_why() {
    for (signal, expected) in
        [("INT", "signal: SIGINT"), ("TERM", "signal: SIGTERM"), ("HUP", "signal: SIGHUP")]
    {
        let shop = Shop::new();
        shop.bury_many(60);
        let mut child = under_way(&shop);
        let pid = child.id().to_string();
        std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        let _ = child.wait().unwrap();
        assert_eq!(why(&shop), expected);
    }
    for (arguments, expected) in [
        (&["pause"][..], "asked from outside: runs pause by mira@ops-2"),
        (
            &["stop", "--reason", "billing is down"],
            "asked from outside: runs stop by mira@ops-2, billing is down",
        ),
        // A reason that says nothing is none.
        (&["stop", "--reason", " "], "asked from outside: runs stop by mira@ops-2"),
    ] {
        let shop = Shop::new();
        shop.bury_many(60);
        let mut child = under_way(&shop);
        let run = shop.latest();
        let mut line = vec!["runs", arguments[0], &run];
        line.extend(&arguments[1..]);
        line.extend(["-o", "json"]);
        let asked = shop.env.run(&line).ok().json();
        let said = (&asked["schema"], &asked["run"], &asked["asked"]);
        assert_eq!(said, (&"redrive.asked.v1".into(), &run.clone().into(), &arguments[0].into()), "{asked}");
        assert_eq!(child.wait().unwrap().code(), Some(12));
        assert_eq!(why(&shop), expected);
    }
}

#[test]
fn what_stopped_a_run_by_itself_is_on_record() {
    let shop = Shop::new();
    shop.bury(&(0..120).map(|n| super::letter(None, n)).collect::<Vec<_>>());
    let (code, report) =
        shop.refused_by_everyone("run orders --limit all --rate 30/s --reason x --yes -o json");
    assert_eq!(code, Some(12), "{report}");
    let told = why(&shop);
    assert!(told.starts_with("re-failed over the limit: ") && told.ends_with(", limit 20%"), "{told}");
    assert_eq!(report["why"], told);
    // Every insert is an error of the database.
    let shop = Shop::new();
    shop.bury_many(30);
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute_batch(
        "CREATE TRIGGER no BEFORE INSERT ON letter BEGIN SELECT RAISE(ABORT, 'this disk is tired'); END",
    )
    .unwrap();
    let run = shop.line("run orders --limit all --rate 1000/s --reason x --yes --max-errors 3 -o json");
    let told = why(&shop);
    assert!(run.code == Some(12) && told.contains("this disk is tired"), "{told}: {run}");
    assert!(told.starts_with("errors in a row: the last, could not "), "{told}: {run}");
}

#[test]
fn an_ousted_run_leaves_that_on_record_and_no_more() {
    let shop = Shop::new();
    shop.bury_many(80);
    let mut child = under_way(&shop);
    let first = shop.latest();
    let _ = shop.line("run orders --limit all --rate 1000/s --reason y --yes --take-over");
    assert_eq!(child.wait().unwrap().code(), Some(12));
    let audit = shop.line(&format!("runs show {first} -o json")).ok().json();
    assert_eq!(audit["why"], "lock lost: another process took the dead-letter queue over", "{audit}");
    assert_eq!((&audit["state"], &audit["exit"]), (&"stopped".into(), &12.into()), "{audit}");
    // The same run, taken over by its resume: the end of the first part does not end the second.
    let shop = Shop::new();
    shop.bury_many(80);
    let mut child = under_way(&shop);
    let run = shop.latest();
    let _ = shop.line(&format!("resume {run} --rate 1000/s --yes --take-over"));
    assert_eq!(child.wait().unwrap().code(), Some(12));
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    assert_eq!((&audit["state"], &audit["counts"]["moved"]), (&"done".into(), &80.into()), "{audit}");
    let ousted = audit["events"].as_array().unwrap().iter().filter(|event| event["what"] == "ousted").count();
    assert_eq!(ousted, 1, "{audit}");
}

/// A frozen run hears late that it was ousted; by then it has committed what its record does not show yet.
#[test]
fn what_an_ousted_run_had_moved_is_on_record() {
    for more in ["", " --without-transactions"] {
        let shop = Shop::new();
        shop.bury_many(120);
        let line = format!("run orders --limit all --rate 100/s --reason L --yes -o json{more}");
        let line: Vec<&str> = line.split(' ').collect();
        let child = shop.env.command(&line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        while shop.lying("orders").len() < 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Not in the middle of a write: a process that stands still in one keeps everybody out of that file.
        let may_write = |path: std::path::PathBuf| {
            let db = rusqlite::Connection::open(path).unwrap();
            db.busy_timeout(Duration::ZERO).unwrap();
            db.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
        };
        loop {
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            if may_write(shop.env.path("ledger.db")) && may_write(shop.path()) {
                break;
            }
            rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        let first = shop.latest();
        let other =
            shop.line("run orders --limit all --rate 2000/s --reason W --yes --take-over -o json").json();
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(12));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let audit = shop.line(&format!("runs show {first} -o json")).ok().json();
        assert_eq!((&audit["state"], &audit["exit"]), (&"stopped".into(), &12.into()), "{audit}");
        assert!(audit["why"].as_str().unwrap().starts_with("lock lost"), "{audit}");
        for count in ["moved", "in_doubt", "failed"] {
            assert_eq!(said["counts"][count], audit["counts"][count], "{count}: {said} {audit}");
        }
        let of = |report: &serde_json::Value, count: &str| report["counts"][count].as_u64().unwrap();
        assert!(of(&audit, "moved") >= 10, "{audit}");
        // What is in the queue is what both say.
        let there = shop.lying("orders").len() as u64;
        let (moved, doubt) = (of(&audit, "moved") + of(&other, "moved"), of(&audit, "in_doubt"));
        assert!((moved..=moved + doubt).contains(&there), "{there}: {audit} {other}");
        let list = shop.line("runs list -o json").ok().json();
        let runs = list["runs"].as_array().unwrap();
        let row = runs.iter().find(|row| row["run"] == first.as_str()).unwrap();
        assert_eq!(row["counts"]["moved"], audit["counts"]["moved"], "{list}");
    }
}

#[test]
fn the_flags_that_letters_were_judged_by_are_on_record_and_how_each_resume_went() {
    let shop = Shop::new();
    shop.bury_many(30);
    let flags = "--dedupe --past-dedup-window --any-origin --moved-before --skip-overtaken --order none";
    let line = format!("{RUN} {flags}");
    let line: Vec<&str> = line.split(' ').collect();
    let killed = shop.env.command(&line).env("REDRIVE_FAILPOINT", "after_transfer:3").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let run = shop.latest();
    let _ = shop.line(&format!("resume {run} --yes --rate 1000/s --max-errors 7 --retry-failed")).ok();
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    let settings = &audit["settings"];
    for flag in ["dedupe", "past_dedup_window", "any_origin", "moved_before", "skip_overtaken"] {
        assert_eq!(settings[flag], true, "{flag}: {audit}");
    }
    assert_eq!((&settings["order"], &settings["max_errors"]), (&"none".into(), &5.into()), "{audit}");
    let resumes = audit["resumes"].as_array().unwrap();
    assert_eq!(resumes.len(), 1, "{audit}");
    let part = &resumes[0];
    assert_eq!(
        (&part["part"], &part["rate"], &part["by"]),
        (&2.into(), &"1000/s".into(), &"mira@ops-2".into())
    );
    assert_eq!((&part["max_errors"], &part["retry_failed"]), (&7.into(), &true.into()), "{audit}");
    // A run that was judged by none says so too.
    let shop = Shop::new();
    shop.bury_many(3);
    let _ = shop.line(RUN).ok();
    let audit = shop.line(&format!("runs show {} -o json", shop.latest())).ok().json();
    assert_eq!((&audit["settings"]["dedupe"], &audit["resumes"]), (&false.into(), &serde_json::json!([])));
}
