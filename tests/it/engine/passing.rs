//! Letters that must not be passed, and letters whose copy may be there already by another run: what a run knows of the
//! others when it begins, and what a resume learns of those that came between.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use redrive::letter::{Message, Value};

use super::{Shop, letter};

fn of(key: &str, n: usize) -> Message {
    letter(Some(key.to_owned()), n)
}

/// The same event under another body, or in another group.
fn with(mut message: Message, event: &str, body: &str) -> Message {
    message.headers.replace("event-id", Value::from_text(event));
    message.body = Some(body.to_owned().into());
    message
}

fn bodies(shop: &Shop, queue: &str) -> Vec<String> {
    shop.lying(queue).into_iter().map(|letter| letter.body).collect()
}

#[test]
fn nothing_passes_a_letter_that_stays_for_its_event_id() {
    let shop = Shop::new();
    shop.bury(&[
        with(of("A", 1), "ev-1", "a1"),
        with(of("B", 2), "ev-1", "another body"),
        with(of("A", 3), "ev-3", "a2"),
        with(of("C", 4), "ev-4", "c1"),
    ]);
    let dry = shop.line("run orders --limit all --dry-run").ok();
    assert!(dry.says("hold        2 another letter has their event id and another body"), "{dry}");
    assert!(dry.says("hold        1 behind an earlier letter that stays"), "{dry}");
    let run = shop.line("run orders --limit all --reason x --yes").exits(11);
    assert_eq!(bodies(&shop, "orders"), ["c1"], "rule 5: {run}");
    assert!(run.says("planned 4 = moved 1 + skipped 0 + failed 0 + held 3"), "{run}");
}

#[test]
fn nothing_passes_an_equal_letter_whose_other_half_does_not_arrive() {
    for path in ["", "--without-transactions"] {
        let shop = Shop::new();
        shop.bury(&[
            with(of("A", 0), "ev-0", "a0"),
            with(of("A", 1), "ev-1", "twice"),
            with(of("B", 1), "ev-1", "twice"),
            with(of("B", 2), "ev-2", "b2"),
            with(of("C", 3), "ev-3", "c1"),
            with(of("D", 3), "ev-3", "c1"),
            with(of("D", 4), "ev-4", "d2"),
        ]);
        // The first of group A is left behind, so the one that would be sent for both is held.
        let line = format!("run orders --where id!=\"ev-0\" --limit all --dedupe --reason x --yes {path}");
        let run = shop.line(line.trim()).exits(11);
        assert_eq!(bodies(&shop, "orders.dlq"), ["a0", "twice", "twice", "b2"], "rule 5: {run}");
        assert_eq!(bodies(&shop, "orders"), ["c1", "d2"], "{run}");
        assert!(run.says("planned 6 = moved 2 + skipped 1 + failed 0 + held 3"), "{run}");
    }
}

/// A run that dies with its first letter sent and no answer recorded; nobody can look it up.
fn dies_in_doubt(shop: &Shop) -> String {
    let arguments = ["run", "orders", "--limit", "1", "--reason", "y", "--yes"];
    let output = shop
        .env
        .command(&arguments)
        .args(["--without-transactions", "--without-lookup"])
        .env("REDRIVE_FAILPOINT", "after_commit")
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    shop.latest()
}

#[test]
fn m17_what_another_run_left_open_after_the_look_is_not_sent() {
    let shop = Shop::new();
    shop.bury(&[of("A", 1), of("A", 2), of("B", 3)]);
    // It waits for an answer between its look and its lock.
    let late = ["run", "orders", "--limit", "all", "--reason", "x", "--without-transactions"];
    let mut late = shop.env.sit(&late, 100);
    late.wait_for("[y/N]");
    let other = dies_in_doubt(&shop);
    late.types("y\n");
    let (screen, code) = late.end();
    let said = screen.rows().join("\n");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("1 of these letters was left open by run {other}")), "{said}");
    assert!(said.contains("next  redrive run orders --limit all --reason x"), "{said}");
    assert!(bodies(&shop, "orders").is_empty(), "m17: {said}");
    // As said: the rest goes, and that letter's group waits for its run.
    let again = shop.line("run orders --limit all --reason x --yes --without-transactions").exits(11);
    assert_eq!(bodies(&shop, "orders"), ["{\"n\":3}"], "{again}");
}

#[test]
fn m17_a_resume_leaves_what_another_run_has_left_open_since() {
    let shop = Shop::new();
    shop.bury(&[of("A", 1), of("A", 2), of("B", 3)]);
    let first = shop
        .env
        .command(&["run", "orders", "--limit", "all", "--reason", "x", "--yes", "--without-transactions"])
        .env("REDRIVE_FAILPOINT", "begun")
        .output()
        .unwrap();
    assert_eq!(first.status.signal(), Some(9));
    let run = shop.latest();
    let other = dies_in_doubt(&shop);
    let resumed = shop.line(&format!("resume {run} --yes")).exits(11);
    assert_eq!(bodies(&shop, "orders"), ["{\"n\":3}"], "m17: {resumed}");
    assert!(resumed.says("planned 3 = moved 1 + skipped 0 + failed 0 + held 2"), "{resumed}");
    assert!(resumed.says("held      1 left open by another run since"), "{resumed}");
    let shown = shop.line(&format!("runs show {run}")).ok();
    assert!(shown.says(&format!("left open by run {other}")), "{shown}");
    // Once that run is through with it, this one may go on.
    let _ = shop.env.run(&["resume", &other, "--yes", "--resend-in-doubt", "--reason", "not there"]);
    let rest = shop.line(&format!("resume {run} --yes --allow-stale"));
    assert_eq!(bodies(&shop, "orders"), ["{\"n\":3}", "{\"n\":1}", "{\"n\":2}"], "{rest}");
}

#[test]
fn a_ledger_that_cannot_be_asked_is_no_empty_one() {
    let mut shop = Shop::new();
    shop.bury_many(3);
    shop.env.write(
        "ledger.db",
        "no ledger at all, and longer than the head of a database would have to be ........",
    );
    let ledger = shop.env.path("ledger.db").display().to_string();
    shop.env.set("REDRIVE_LEDGER", &ledger);
    for line in ["run orders --limit all --dry-run", "select orders --limit all --out m.jsonl --reason x"] {
        let run = shop.line(line).exits(1);
        assert!(run.says("it is no ledger of redrive"), "{line}: {run}");
    }
    assert!(!shop.env.path("m.jsonl").exists());
}

#[test]
fn an_endless_manifest_on_stdin_is_refused_at_its_first_fault() {
    let shop = Shop::new();
    shop.bury_many(3);
    let mut child = shop
        .env
        .command(&["run", "-", "--yes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let line = [b'x'; 4096];
    let mut written = 0u64;
    while written < 1 << 30 && input.write_all(&line).is_ok() {
        written += line.len() as u64;
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("stdin cannot be taken for a manifest"), "{said}");
    assert!(written < 1 << 24, "{written} bytes were read");
    let folder = shop.env.path("ledger.db.runs");
    let left = std::fs::read_dir(folder).map_or(0, Iterator::count);
    assert_eq!(left, 0, "its copy is left behind");
}
