//! Originals that a killed run copied and did not remove, and whose ledger is lost: `run --trim` removes what marks
//! prove, with a reason, and nothing else.

use std::os::unix::process::ExitStatusExt;

use super::Shop;

/// A shop in which a run was killed right behind its second batch of copies, and has lost its ledger.
fn left_behind() -> (Shop, i64) {
    let mut shop = Shop::new();
    shop.bury_many(30);
    let run = ["run", "orders", "--limit", "all", "--rate", "1000/s", "--reason", "x", "--yes"];
    let killed = shop
        .env
        .command(&[&run[..], &["--without-transactions"]].concat())
        .env("REDRIVE_FAILPOINT", "after_send:2")
        .output()
        .unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    let other = shop.env.path("other.db").display().to_string();
    shop.env.set("REDRIVE_LEDGER", &other);
    let hidden = count(&shop, "SELECT count(*) FROM sent");
    assert!(hidden > 0);
    (shop, hidden)
}

fn count(shop: &Shop, sql: &str) -> i64 {
    rusqlite::Connection::open(shop.path()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn what_a_killed_run_left_without_its_ledger_is_removed_by_its_marks_and_recorded_with_a_reason() {
    let (shop, hidden) = left_behind();
    let there = shop.lying("orders.dlq").len() as i64;
    let copies = shop.lying("orders").len();
    let looked = shop.line("inspect orders").ok();
    assert!(looked.says("that a run copied and has not removed") && looked.says("run --trim"), "{looked}");
    let notes = shop.line("inspect orders -o json").ok().json();
    let left =
        notes["notes"].as_array().unwrap().iter().find(|note| note["code"] == "left_unsettled").cloned();
    assert_eq!(left.unwrap()["letters"], hidden);
    // A person types it, with a reason, and is asked.
    let none = shop.line("run orders --limit 0 --trim --yes").exits(2);
    assert!(none.says("a run needs a reason"), "{none}");
    let asked = shop.line("run orders --limit 0 --trim --reason INC-9").exits(4);
    let next = format!("next  redrive run orders --limit 0 --reason INC-9 --trim --yes={hidden}");
    assert!(asked.says("nothing was removed") && asked.says(&next), "{asked}");
    assert_eq!(shop.lying("orders.dlq").len() as i64, there);
    let run = shop.line(&format!("run orders --limit 0 --trim --reason INC-9 --yes={hidden}")).ok();
    assert!(run.says("trimmed orders.dlq: ") && run.says("to be moved"), "{run}");
    assert_eq!(shop.lying("orders.dlq").len() as i64, there - hidden);
    assert_eq!(shop.lying("orders").len(), copies, "nothing was sent");
    assert_eq!(count(&shop, "SELECT count(*) FROM sent"), 0);
    assert!(!shop.line("inspect orders").ok().says("has not removed"));
    let audit = shop.line(&format!("runs show {} -o json", shop.latest())).ok().json();
    let trim = audit["events"].as_array().unwrap().iter().find(|event| event["what"] == "trim").cloned();
    assert!(trim.unwrap()["text"].as_str().unwrap().starts_with("trimmed orders.dlq: "), "{audit}");
    assert_eq!((&audit["reason"], &audit["counts"]["planned"]), (&"INC-9".into(), &0.into()), "{audit}");
    // Nothing is left of that kind.
    let again = shop.line("run orders --limit 0 --trim --reason INC-9 --yes").ok();
    assert!(again.says("Nothing to send"), "{again}");
    // Behind letters that are sent it does the same, and the killed run's copies are not sent twice.
    let (shop, _) = left_behind();
    let _ = shop.line("run orders --limit all --rate 1000/s --trim --reason INC-9 --yes").ok();
    assert_eq!((shop.lying("orders.dlq").len(), shop.lying("orders").len()), (0, 30));
    let mut bodies: Vec<String> = shop.lying("orders").into_iter().map(|lying| lying.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 30, "each once");
}

#[test]
fn what_no_mark_proves_or_somebody_holds_is_left_where_it_is() {
    let (shop, hidden) = left_behind();
    let there = shop.lying("orders.dlq").len() as i64;
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute("DELETE FROM mark", []).unwrap();
    let run = shop.line("run orders --limit 0 --trim --reason INC-9 --yes").ok();
    assert!(run.says("nothing to trim") && run.says(&format!("{hidden} hidden stay")), "{run}");
    assert_eq!(shop.lying("orders.dlq").len() as i64, there);
    // A mark of another letter proves nothing for this one.
    db.execute("INSERT INTO mark SELECT run, seq, letter + 1000, 1, 1 FROM sent", []).unwrap();
    let _ = shop.line("run orders --limit 0 --trim --reason INC-9 --yes").ok();
    assert_eq!(shop.lying("orders.dlq").len() as i64, there);
    // In somebody's hands.
    let (shop, hidden) = left_behind();
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    let there = shop.lying("orders.dlq").len() as i64;
    db.execute("UPDATE lease SET until = 0", []).unwrap();
    db.execute(
        "INSERT OR REPLACE INTO lease (letter, queue, owner, token, until, receives)
         SELECT sent.letter, queue, 'somebody', 't', 9000000000000, 1
         FROM sent JOIN letter ON letter.id = sent.letter ORDER BY sent.letter LIMIT 1",
        [],
    )
    .unwrap();
    let run = shop.line("run orders --limit 0 --trim --reason INC-9 --yes").ok();
    assert_eq!(shop.lying("orders.dlq").len() as i64, there - hidden + 1, "{run}");
    assert!(run.says("1 hidden stay"), "{run}");
}

#[test]
fn a_resume_after_a_trim_finds_its_originals_gone_and_sends_nothing_twice() {
    let (mut shop, _) = left_behind();
    let _ = shop.line("run orders --limit 0 --trim --reason INC-9 --yes --take-over").ok();
    let first = shop.env.path("ledger.db").display().to_string();
    shop.env.set("REDRIVE_LEDGER", &first);
    let run = shop.latest();
    let _ = shop.line(&format!("resume {run} --yes --rate 1000/s --take-over")).ok();
    let mut bodies: Vec<String> = shop.lying("orders").into_iter().map(|lying| lying.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), shop.lying("orders").len(), shop.lying("orders.dlq").len()), (30, 30, 0));
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    assert_eq!(audit["counts"]["moved"], 30, "{audit}");
}
