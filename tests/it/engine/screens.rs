//! The screens of select, run, resume and runs, as they are printed.

use std::time::{Duration, Instant};

use insta::assert_snapshot;

use super::{Shop, letter};

/// The same night every time.
fn shop() -> Shop {
    let mut shop = Shop::new();
    shop.env.at("2026-11-30T03:12:08Z");
    shop.env.set("REDRIVE_SEED", "night");
    let key = |key: &str| Some(key.to_owned());
    shop.bury(&[letter(key("C-1"), 1), letter(key("C-1"), 2), letter(key("C-2"), 3), letter(None, 4)]);
    shop
}

#[test]
fn a_selection_and_its_dry_run() {
    let shop = shop();
    let select = shop.env.run(&[
        "select",
        "orders",
        "--where",
        "id != ev-1",
        "--limit",
        "200",
        "--out",
        "m.jsonl",
        "--reason",
        "INC-4471",
    ]);
    assert_snapshot!(select.to_string());
    assert_snapshot!(shop.line("run m.jsonl --dry-run").to_string());
}

#[test]
fn refusals_name_what_to_type() {
    let shop = shop();
    assert_snapshot!(shop.line("run orders").to_string());
    assert_snapshot!(shop.line("run orders --limit all --reason INC-1").err);
    assert_snapshot!(shop.line("run orders --limit all --rate unlimited --reason INC-1").err);
    assert_snapshot!(shop.line("resume r7d2f9").to_string());
}

#[test]
fn a_run_and_the_list_of_runs() {
    let shop = shop();
    assert_snapshot!(shop.line("run orders --limit 3 --reason INC-4471 --yes=3").to_string());
    assert_snapshot!(shop.line("runs").to_string());
}

#[test]
fn at_a_terminal_a_run_is_drawn_in_place_and_ctrl_c_leaves_no_trace_of_it() {
    let shop = Shop::new();
    shop.bury_many(200);
    let run = ["run", "orders", "--limit", "all", "--rate", "20/s", "--reason", "INC-1"];
    let mut sitting = shop.env.sit(&run, 80);
    sitting.wait_for("[y/N]");
    sitting.types("y\n");
    sitting.wait_for(" of 200 · ");
    sitting.wait_for("moved 1");
    sitting.ctrl_c();
    let (screen, code) = sitting.end();
    let rows = screen.rows();
    let text = rows.join("\n");
    assert_eq!(code, Some(130), "{text}");
    assert!(!text.contains('█') && !text.contains('░'), "a bar was left behind: {text}");
    assert_eq!(text.matches("sending").count(), 0, "{text}");
    assert!(text.contains("stopping: ") && text.contains("a second Ctrl-C leaves at"), "{text}");
    assert!(text.contains(" stopped by you: ") && text.contains("next  redrive resume "), "{text}");
    assert!(text.contains("re-failed 0 so far"), "{text}");
    let six = rows.iter().position(|row| row.starts_with("  planned 200 = moved ")).expect(&text);
    assert!(rows[six].ends_with(" + failed 0 + held 0"), "{text}");
    assert!(rows[six + 1].starts_with("              + in doubt 0 + untouched "), "{text}");
    assert!(screen.wrapped.is_empty(), "{:#?}", screen.wrapped);
}

#[test]
fn at_a_terminal_a_second_ctrl_c_leaves_at_once_and_says_how_to_go_on() {
    let shop = Shop::new();
    shop.bury_many(60);
    let run = ["run", "orders", "--limit", "all", "--rate", "10/s", "--reason", "INC-1", "--yes"];
    let mut sitting = shop.env.sit(&run, 80);
    sitting.wait_for("moved 1");
    // Somebody writes into the broker's file, for as long as the run cannot end in order.
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    sitting.watches(Duration::from_millis(300));
    sitting.ctrl_c();
    // Said at once, though the call that the run waits for is not back.
    let asked = Instant::now();
    sitting.wait_for("stopping: ");
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    sitting.watches(Duration::from_millis(300));
    sitting.interrupt();
    let begun = Instant::now();
    let (screen, code) = sitting.end();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    db.execute_batch("ROLLBACK").unwrap();
    let text = screen.rows().join("\n");
    assert_eq!(code, Some(130), "{text}");
    assert!(!text.contains('█'), "a bar was left behind: {text}");
    assert!(text.contains("left at once: local undoes the open transaction"), "{text}");
    assert!(text.contains("next  redrive resume "), "{text}");
    assert!(screen.wrapped.is_empty(), "{:#?}", screen.wrapped);
    let _ = shop.line(&format!("resume {} --yes --rate 1000/s", shop.latest())).ok();
    assert_eq!(shop.lying("orders").len(), 60);
}

#[test]
fn a_transaction_that_never_comes_about_is_told_with_its_cause_and_no_time_left() {
    let shop = Shop::new();
    shop.bury_many(60);
    // Like a full disk: every commit fails, for as long as the switch is on.
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute_batch(
        "CREATE TABLE switch (on_off INTEGER); INSERT INTO switch VALUES (0);
         CREATE TABLE never (id INTEGER REFERENCES letter (id) DEFERRABLE INITIALLY DEFERRED);
         CREATE TRIGGER full AFTER INSERT ON mark WHEN (SELECT on_off FROM switch)
         BEGIN INSERT INTO never VALUES (-1); END;",
    )
    .unwrap();
    let run = [
        "run", "orders", "--limit", "all", "--rate", "20/s", "--reason", "x", "--yes", "--events", "e.jsonl",
    ];
    let mut sitting = shop.env.sit(&run, 100);
    sitting.wait_for("left");
    db.execute_batch("UPDATE switch SET on_off = 1").unwrap();
    sitting.wait_for("waits: ");
    sitting.watches(Duration::from_millis(1_500));
    db.execute_batch("UPDATE switch SET on_off = 0").unwrap();
    let (screen, code) = sitting.end();
    let text = screen.rows().join("\n");
    assert_eq!(code, Some(0), "{text}");
    // Once, though it was tried several times; the events have each.
    assert_eq!(text.matches("FOREIGN KEY constraint failed; trying again").count(), 1, "{text}");
    let events = std::fs::read_to_string(shop.env.path("e.jsonl")).unwrap();
    let troubles: Vec<&str> = events.lines().filter(|line| line.contains("\"trouble\"")).collect();
    assert!(troubles.len() > 1 && troubles[0].contains("FOREIGN KEY constraint failed"), "{events}");
    assert_eq!(shop.lying("orders").len(), 60);
}

#[test]
fn at_a_narrow_terminal_no_row_wraps_by_itself() {
    let shop = Shop::new();
    shop.bury_many(60);
    let killed = ["run", "orders", "--limit", "all", "--rate", "20/s", "--yes", "--reason"]
        .into_iter()
        .chain(["INC-4471 a reason that somebody wrote down at length, at night"])
        .collect::<Vec<_>>();
    let _ = shop.env.command(&killed).env("REDRIVE_FAILPOINT", "after_transfer:12").output().unwrap();
    let run = shop.latest();
    shop.env.topology(&super::SHOP.replace("delay: 10m", "delay: 20m"));
    for line in ["runs list", &format!("runs show {run}"), "plan", "status", "alert"] {
        let line: Vec<&str> = line.split(' ').collect();
        let (screen, _) = shop.env.sit(&line, 80).end();
        assert!(screen.wrapped.is_empty(), "{line:?}: {:#?}", screen.rows());
    }
    let (list, _) = shop.env.sit(&["runs", "list"], 80).end();
    assert!(list.rows()[1].ends_with(&run) && list.rows()[1].contains('…'), "{:#?}", list.rows());
}

#[test]
fn a_run_that_was_killed_is_shown_resumed_and_then_has_nothing_left() {
    let shop = shop();
    let run = ["run", "orders", "--limit", "3", "--reason", "INC-4471", "--yes"];
    let killed = shop.env.command(&run).env("REDRIVE_FAILPOINT", "begun").output().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(9));
    let run = shop.latest();
    assert_snapshot!(shop.line(&format!("runs show {run}")).to_string());
    assert_snapshot!(shop.line(&format!("resume {run}")).to_string());
    assert_snapshot!(shop.line(&format!("resume {run} --yes=3")).to_string());
    assert_snapshot!(shop.line(&format!("runs show {run} --full")).to_string());
    assert_snapshot!(shop.line(&format!("resume {run} --yes")).to_string());
    assert_snapshot!(shop.line(&format!("runs pause {run}")).to_string());
    assert_snapshot!(shop.line(&format!("runs stop {run}")).to_string());
}

#[test]
fn a_relay_off_a_terminal_and_with_nothing_to_do() {
    let shop = shop();
    assert_snapshot!(shop.line("relay --once").to_string());
    assert_snapshot!(shop.line("relay --once -o jsonl").to_string());
}
