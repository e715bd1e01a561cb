//! Letters that go away or change while a run is under way: named as what they are, with the line that goes on.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use super::Shop;

/// A run of six letters that was killed before it sent the last of them.
fn killed(shop: &Shop, path: &str) -> String {
    // The last two are of one group.
    shop.bury(&(0..6).map(|n| super::letter((n >= 4).then(|| "C-9".to_owned()), n)).collect::<Vec<_>>());
    let line = format!("run orders --limit all --rate 1000/s --reason g --yes{path}");
    let line: Vec<&str> = line.split(' ').collect();
    let output = shop.env.command(&line).env("REDRIVE_FAILPOINT", "claimed").output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    shop.latest()
}

fn change(shop: &Shop, sql: &str) {
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    assert_eq!(db.execute(sql, []).unwrap(), 1);
}

const FIFTH: &str = "WHERE body = CAST('{\"n\":4}' AS BLOB) OR body = '{\"n\":4}'";

#[test]
fn a_letter_that_is_gone_is_called_so_and_the_next_line_passes_it() {
    for path in ["", " --without-transactions"] {
        let shop = Shop::new();
        let run = killed(&shop, path);
        change(&shop, &format!("DELETE FROM letter {FIFTH}"));
        let told = shop.line(&format!("resume {run} --yes --rate 1000/s")).exits(12);
        assert!(told.says("1 letter is gone"), "{told}");
        assert!(told.says("untouched 1 gone"), "{told}");
        assert!(!told.says("not visible"), "{told}");
        assert!(told.says(&format!("redrive resume {run} --allow-stale")), "{told}");
        let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
        assert_eq!(audit["why"], "letters left: 1 gone from the queue", "{audit}");
        assert!(audit["next"].as_array().unwrap().contains(&"--allow-stale".into()), "{audit}");
        let letter = &audit["letters"][4];
        assert_eq!((&letter["outcome"], &letter["code"]), (&"untouched".into(), &"gone".into()), "{audit}");
        assert_eq!(shop.lying("orders").len(), 4, "the one behind waits");
        let told = shop.line(&format!("resume {run} --yes --allow-stale")).exits(11);
        assert!(told.says("skipped 1 gone"), "{told}");
        assert_eq!(shop.lying("orders").len(), 5, "and then goes");
        assert!(shop.lying("orders.dlq").is_empty());
    }
}

#[test]
fn a_letter_that_vanishes_under_a_run_is_called_gone_by_it() {
    let shop = Shop::new();
    shop.bury(&(0..6).map(|n| super::letter(None, n)).collect::<Vec<_>>());
    let line = ["run", "orders", "--limit", "6", "--rate", "3/s", "--reason", "g", "--yes", "-o", "json"];
    let child = shop.env.command(&line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    while shop.lying("orders").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    change(&shop, "DELETE FROM letter WHERE id = (SELECT max(id) FROM letter WHERE body LIKE '%5%')");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(12));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["counts"]["untouched"], 1, "{report}");
    assert_eq!(report["not_moved"][0]["code"], "gone", "{report}");
    assert!(report["next"].as_array().unwrap().contains(&"--allow-stale".into()), "{report}");
}

#[test]
fn a_letter_that_changed_fails_as_that_and_holds_its_group() {
    for path in ["", " --without-transactions"] {
        let shop = Shop::new();
        let run = killed(&shop, path);
        change(&shop, &format!("UPDATE letter SET body = CAST('other' AS BLOB) {FIFTH}"));
        let told = shop.line(&format!("resume {run} --yes --rate 1000/s")).exits(11);
        assert!(told.says("changed: its body is not what it was when it was selected"), "{told}");
        let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
        let counts = &audit["counts"];
        assert_eq!((&counts["moved"], &counts["failed"], &counts["held"]), (&4.into(), &1.into(), &1.into()));
        assert_eq!(audit["letters"][4]["code"], "changed", "{audit}");
        let left: Vec<String> = shop.lying("orders.dlq").into_iter().map(|letter| letter.body).collect();
        assert_eq!(left, ["other", "{\"n\":5}"], "as they are, in their places");
        assert_eq!(shop.held(), 0);
    }
}

/// What is settled unsent is looked at as closely: an equal letter that is equal no more stays.
#[test]
fn an_equal_letter_that_changed_is_not_taken_away_unsent() {
    for path in ["", " --without-transactions"] {
        let shop = Shop::new();
        let equal = || super::letter(None, 1);
        shop.bury(&[equal(), equal()]);
        let line = format!("run orders --limit all --dedupe --rate 1000/s --reason g --yes{path}");
        let line: Vec<&str> = line.split(' ').collect();
        let output = shop.env.command(&line).env("REDRIVE_FAILPOINT", "claimed").output().unwrap();
        assert_eq!(output.status.signal(), Some(9));
        let last = "id = (SELECT max(id) FROM letter)";
        change(&shop, &format!("UPDATE letter SET body = CAST('other' AS BLOB) WHERE {last}"));
        let _ = shop.line(&format!("resume {} --yes", shop.latest()));
        assert_eq!(shop.lying("orders").len(), 1);
        let left: Vec<String> = shop.lying("orders.dlq").into_iter().map(|letter| letter.body).collect();
        assert_eq!(left, ["other"], "{path}");
    }
}
