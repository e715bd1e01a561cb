//! `runs`: what it says of runs that died, that were resumed at another rate, that nobody knows.

use std::os::unix::process::ExitStatusExt;

use super::Shop;

const RUN: &[&str] = &["run", "orders", "--limit", "all", "--rate", "20/s", "--reason", "INC-1", "--yes"];

#[test]
fn a_killed_run_says_where_when_and_for_how_long_it_was_alive() {
    let shop = Shop::new();
    shop.bury_many(60);
    let killed = shop.env.command(RUN).env("REDRIVE_FAILPOINT", "after_transfer:12").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let run = shop.latest();
    let shown = shop.line(&format!("runs show {run}")).ok();
    assert!(shown.says("did not end: last sign of it on ops-2 at"), "{shown}");
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    assert_eq!((&audit["state"], &audit["by"]), (&"died".into(), &"mira@ops-2".into()));
    assert_eq!(audit["next"].as_array().unwrap()[..2], ["redrive", "resume"]);
    let moved = audit["counts"]["moved"].as_u64().unwrap();
    assert!(audit["took_ms"].as_u64().unwrap() > 0 || moved == 0, "{audit}");
    let list = shop.line("runs list -o json").ok().json();
    assert_eq!(list["runs"][0]["by"], "mira@ops-2");
    assert_eq!(list["next"].as_array().unwrap()[..3], ["redrive", "runs", "show"]);
}

#[test]
fn a_rate_is_compared_with_that_of_the_part_before() {
    let shop = Shop::new();
    shop.bury_many(60);
    let killed = shop.env.command(RUN).env("REDRIVE_FAILPOINT", "after_transfer:2").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let run = shop.latest();
    let resume = |more: &[&str], step: &str| {
        let line: Vec<&str> = ["resume", &run, "--yes"].iter().chain(more).copied().collect();
        let output = shop.env.command(&line).env("REDRIVE_FAILPOINT", step).output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
    };
    resume(&["--rate", "5/s"], "recovered");
    resume(&["--rate", "5/s"], "recovered");
    let _ = shop.line(&format!("resume {run} --yes --rate 1000/s")).ok();
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    let changes: Vec<&str> = audit["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["what"] == "rate changed")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(changes, ["20/s to 5/s", "5/s to 1000/s"]);
}

#[test]
fn a_run_that_nobody_knows_is_told_what_is_near() {
    let shop = Shop::new();
    shop.bury_many(3);
    let _ = shop.line("run orders --limit all --rate 1000/s --reason x --yes").ok();
    let run = shop.latest();
    let mut slip: Vec<char> = run.chars().collect();
    let at = slip.len() - 2;
    slip[at] = if slip[at] == 'x' { 'y' } else { 'x' };
    let slip: String = slip.into_iter().collect();
    for verb in ["runs show", "runs pause", "resume"] {
        let told = shop.line(&format!("{verb} {slip}"));
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.says(&format!("no run {slip}")) && told.says(&format!("Near: {run}.")), "{told}");
    }
    let far = shop.line("runs show zzzzzzzzzz");
    assert!(!far.says("Near"), "{far}");
}

#[test]
fn a_stale_manifest_names_the_run_that_moved_its_letters() {
    let shop = Shop::new();
    shop.bury_many(6);
    let _ = shop.line("select orders --limit all --out m.jsonl --reason INC-1").ok();
    let _ = shop.line("run orders --limit 2 --rate 1000/s --reason x --yes").ok();
    let run = shop.latest();
    let stale = shop.line("run m.jsonl --yes");
    assert_eq!(stale.code, Some(4), "{stale}");
    assert!(stale.says(&format!("m.jsonl is stale: 2 of 6 letters are gone, moved by run {run}")), "{stale}");
    let _ = shop.line("run orders --limit 1 --rate 1000/s --reason x --yes").ok();
    let stale = shop.line("run m.jsonl --yes");
    assert!(stale.says("3 of 6 letters are gone, moved by run "), "{stale}");
    assert!(stale.says(&format!("run {run} (2)")) && stale.says(" (1)"), "{stale}");
    // By nobody that this ledger knows of: then nothing is said.
    std::fs::remove_dir_all(shop.env.path("ledger.db.runs")).unwrap();
    let stale = shop.line("run m.jsonl --yes");
    assert!(stale.says("letters are gone") && !stale.says("moved by"), "{stale}");
}

#[test]
fn a_run_yields_to_the_relay_and_goes_on_where_nobody_serves_the_tiers() {
    let shop = Shop::new();
    shop.bury_many(3);
    shop.application()
        .send("orders.retry-5s", &[super::letter(None, 99)], std::time::Duration::from_millis(1))
        .unwrap();
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute("UPDATE letter SET due = due - 60000 WHERE due > 0", []).unwrap();
    let run =
        shop.line("run orders --limit all --rate 1000/s --reason x --yes --events e.jsonl -o json").ok();
    assert!(run.json()["yielded_ms"].as_u64().unwrap() >= 5_000, "{run}");
    let events = std::fs::read_to_string(shop.env.path("e.jsonl")).unwrap();
    let at = |what: &str| events.find(what).unwrap_or_else(|| panic!("{what}: {events}"));
    assert!(at("\"yielding\"") < at("\"goes_on\"") && at("\"goes_on\"") < at("\"moved\""), "{events}");
}
