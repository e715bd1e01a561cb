//! What is typed, and what is said to be typed next.

use redrive::manifest::{Head, Reader, Writer};

use super::Shop;
use crate::cli::Run;

/// The last `next` line.
fn next(run: &Run) -> String {
    let both = format!("{}{}", run.out, run.err);
    let line = both.lines().rev().find_map(|line| line.strip_prefix("next  "));
    line.unwrap_or_else(|| panic!("no next line\n{run}")).to_owned()
}

#[test]
fn the_ledger_that_was_typed_is_part_of_every_next_command_that_takes_one() {
    let mut shop = Shop::new();
    shop.env.set("REDRIVE_LEDGER", "");
    let held = |n: usize, body: &str| {
        let mut letter = super::letter(None, n);
        letter.body = Some(body.to_owned().into());
        letter
    };
    // Two bodies under one event id are a conflict, so that something is left.
    shop.bury(&[held(1, "a"), held(1, "b"), held(2, "c")]);
    let line = "run orders --limit all --rate 1000/s --reason x --ledger l.db";
    let dry = shop.line(&format!("{line} --dry-run")).ok();
    assert_eq!(next(&dry), "redrive run orders --ledger l.db --limit all --rate 1000/s --reason x");
    let refused = shop.line(line).exits(4);
    assert_eq!(
        next(&refused),
        "redrive run orders --ledger l.db --limit all --rate 1000/s --reason x --yes=1"
    );
    let run = shop.line(&format!("{line} --yes")).exits(11);
    let id = shop.line("runs list --ledger l.db -o json").ok().json()["runs"][0]["run"].clone();
    let id = id.as_str().unwrap();
    assert_eq!(next(&run), format!("redrive runs show {id} --ledger l.db"));
    // Verbs that have no ledger are not given one; with a file it is said too, wherever it was typed.
    let shown = shop.line(&format!("runs --ledger l.db show {id} -f redrive.yaml")).ok();
    assert_eq!(next(&shown), "redrive inspect orders -f redrive.yaml");
    let listed = shop.line("runs list --ledger l.db -f redrive.yaml -o json").ok().json();
    assert_eq!(
        listed["next"],
        serde_json::json!(["redrive", "runs", "show", id, "-f", "redrive.yaml", "--ledger", "l.db"])
    );
    for (line, code, expected) in [
        ("runs show nothere --ledger l.db", 2, "redrive runs list --ledger l.db"),
        ("resume nothere --ledger l.db", 2, "redrive runs list --ledger l.db"),
        (
            "select orders --limit all --reason x --out m.jsonl --ledger l.db",
            0,
            "redrive run m.jsonl --ledger l.db --dry-run",
        ),
        (
            "run nochannel --limit 1 --reason x --ledger l.db -f redrive.yaml",
            2,
            "redrive check -f redrive.yaml",
        ),
    ] {
        let run = shop.line(line).exits(code);
        assert_eq!(next(&run), expected, "{line}\n{run}");
    }
}

#[test]
fn a_line_that_cannot_be_meant_so_names_the_page_that_says_how() {
    let shop = Shop::new();
    for (arguments, expected) in [
        (&["inspect", "orders", "--where", "age >"][..], "redrive inspect --help"),
        (&["run", "orders", "--limit", "1", "--where", "age >"], "redrive inspect --help"),
        (&["run", "orders", "--limit", "1", "--since", "x"], "redrive run --help"),
        (
            &["select", "orders", "--limit", "1", "--reason", "x", "--out", "m.jsonl", "--until", "x"],
            "redrive select --help",
        ),
        (&["select", "orders", "--limit", "x", "--reason", "x", "--out", "m.jsonl"], "redrive select --help"),
        (&["inspect", "orders", "--cause", "/"], "redrive inspect --help"),
        (&["inspect", "orders", "--by", "x"], "redrive inspect --help"),
        (&["run", "orders", "--limit", "1", "--rate", "x"], "redrive run --help"),
        (&["run", "orders", "--limit", "1", "--ramp", "x"], "redrive run --help"),
    ] {
        let run = shop.env.run(arguments).exits(2);
        assert_eq!(next(&run), expected, "{arguments:?}\n{run}");
    }
}

#[test]
fn events_on_stdout_and_a_document_there_are_refused_with_the_way_round() {
    let shop = Shop::new();
    shop.bury_many(3);
    let refused = shop.line("run orders --limit all --reason x --yes --events - -o json").exits(2);
    assert_eq!(refused.out, "");
    let error: serde_json::Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!(error["message"], "--events - and -o json are two kinds of answer, and stdout takes one");
    let next: Vec<&str> =
        error["next"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(next.join(" "), "redrive run orders --limit all --reason x --events -");
    assert_eq!(shop.lying("orders").len(), 0);
    let _ = shop.line("resume r1 --events - -o jsonl").exits(2);
    // The events in a file, the document on stdout.
    let run = shop.line("run orders --limit all --reason x --yes --events e.jsonl -o json").ok();
    assert_eq!(run.json()["schema"], "redrive.run.v1");
}

#[test]
fn a_manifest_of_another_queue_than_the_one_that_is_there_is_refused() {
    let shop = Shop::new();
    shop.bury_many(3);
    let _ = shop.line("select orders --limit all --out m.jsonl --reason INC-1").ok();
    let mut frozen = Reader::open(&shop.env.path("m.jsonl")).unwrap();
    let head = frozen.head().clone();
    let lines: Vec<_> = std::iter::from_fn(|| frozen.next_line().unwrap()).collect();
    let snapshot = head.snapshot.clone();
    let file = snapshot.split_once("/q").unwrap().0;
    let others = ["", "s1", "0000/q1/3", file, &format!("x{snapshot}"), &snapshot.replace("/q", "/q9")];
    for (n, other) in others.into_iter().enumerate() {
        let name = format!("forged{n}.jsonl");
        let head = Head { snapshot: other.to_owned(), ..head.clone() };
        let mut forged = Writer::create(&shop.env.path(&name), &head).unwrap();
        lines.iter().for_each(|line| forged.line(line).unwrap());
        assert_eq!(forged.finish().unwrap(), 3);
        for rest in ["--yes", "--yes --allow-stale", "--dry-run"] {
            let run = shop.line(&format!("run {name} {rest}")).exits(4);
            assert!(run.says("was not frozen in the orders.dlq that is there now"), "{other}: {run}");
        }
    }
    assert_eq!(shop.lying("orders").len(), 0);
    // The queue may have grown since.
    shop.bury(&[super::letter(None, 99)]);
    let run = shop.line("run m.jsonl --yes=3").ok();
    assert_eq!(next(&run), "redrive inspect orders");
    assert_eq!(shop.lying("orders").len(), 3);
}

#[test]
fn what_a_person_decides_is_not_done_for_a_reason_that_says_nothing() {
    let shop = Shop::new();
    shop.bury_many(4);
    for flag in ["--resend-in-doubt", "--settle-in-doubt", "--accept-gone"] {
        for reason in ["", "  "] {
            let refused = shop.env.run(&["resume", "r1", flag, "--yes", "--reason", reason]).exits(2);
            assert!(refused.says(&format!("{flag} needs a reason")), "{refused}");
            assert_eq!(next(&refused), format!("redrive resume r1 {flag} --reason TEXT"));
        }
    }
}

#[test]
fn an_error_of_a_file_says_what_to_type_next() {
    let shop = Shop::new();
    shop.bury_many(2);
    let line = "run orders --limit all --rate 1000/s --reason x --yes";
    let nowhere = shop.line(&format!("{line} --events nope/e.jsonl")).exits(1);
    let next = "next redrive run orders --limit all --rate 1000/s --reason x --events events.jsonl";
    assert!(nowhere.says("could not write events to nope/e.jsonl: ") && nowhere.says(next), "{nowhere}");
    // The broker's file is no ledger, and stays what it is.
    for line in ["runs", line] {
        let foreign = shop.line(&format!("{line} --ledger redrive.db")).exits(1);
        assert!(foreign.says("could not use the ledger redrive.db: it is no ledger of redrive"), "{foreign}");
        assert!(foreign.says("next redrive runs --ledger "), "{foreign}");
    }
    assert_eq!(shop.lying("orders.dlq").len(), 2);
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let newer = shop.line("status").exits(1);
    assert!(newer.says("it has schema version 99") && newer.says("next redrive --version"), "{newer}");
}
