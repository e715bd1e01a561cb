//! What no look can show at once: what stands behind the heads of a FIFO queue's groups, and a standard queue of more
//! letters than SQS hands out. One run goes through it in passes, inside the extent that it began with.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::proxy::{Proxy, Rule};
use super::{Shop, count, endpoint_or_return, shop_with};

fn deep_body(group: usize, n: usize) -> String {
    json!({"refund": {"id": format!("g{group}-{n:03}")}, "bad": group == 0 && n == 0}).to_string()
}

/// So many letters in each group, one after the other.
fn bury(shop: &Shop, groups: usize, deep: usize) {
    for n in 0..deep {
        for group in 0..groups {
            let dedup = format!("d{group}-{n}");
            shop.app.send(&shop.dead, &deep_body(group, n), Some(&format!("g{group}")), &dedup, &json!({}));
        }
    }
}

/// Bodies by group, in order of arrival, each group sorted as it was sent.
fn in_order(shop: &Shop) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for got in shop.arrived().0 {
        let body: Value = serde_json::from_str(&got.body).unwrap();
        groups
            .entry(got.group().to_owned())
            .or_default()
            .push(body["refund"]["id"].as_str().unwrap().to_owned());
    }
    assert!(groups.values().all(|ids| ids.is_sorted()), "order in each group: {groups:?}");
    groups
}

fn one_run_drains_deep_groups(endpoint: &str) {
    let shop = Shop::new(endpoint, endpoint, true);
    bury(&shop, 2, 24);
    let run = shop.run();
    assert_eq!((count(&run, "planned"), count(&run, "moved")), (48, 48), "{run}");
    assert_eq!(run["exit"], 0, "{run}");
    // The looks between the passes are waited for too: a part of the time that is told.
    let (took, looking) = (run["took_ms"].as_u64().unwrap(), run["looking_ms"].as_u64().unwrap());
    assert!(looking > 0 && took >= looking, "{run}");
    assert_eq!(shop.app.depth(&shop.dead), 0);
    let groups = in_order(&shop);
    assert!(groups.len() == 2 && groups.values().all(|ids| ids.len() == 24), "{groups:?}");
    // One run with one manifest: what a resume would read has all of them.
    let runs = shop.env.line("runs list -o json").ok().json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    let id = runs["runs"][0]["run"].as_str().unwrap().to_owned();
    let shown = shop.env.run(&["runs", "show", &id]).ok();
    assert!(shown.says("pass"), "{shown}");
    let again = shop.env.run(&["resume", &id, "--yes"]).ok();
    assert!(again.says("nothing is left"), "{again}");
}

#[test]
fn s01_one_run_drains_deep_groups_on_ministack() {
    one_run_drains_deep_groups(&endpoint_or_return!(MINISTACK));
}

#[test]
fn s01_one_run_drains_deep_groups_on_elasticmq() {
    one_run_drains_deep_groups(&endpoint_or_return!(ELASTICMQ));
}

/// A bound is one of all passes, `--yes=N` is for just what was shown, and a head that is not selected holds its
/// group while the others are drained.
#[test]
fn s01_a_deep_run_keeps_its_bound_and_holds_behind_an_unselected_head_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::new(&endpoint, &endpoint, true);
    bury(&shop, 1, 30);
    let run = shop.run_by(&["--limit", "14", "--yes"]);
    assert_eq!((count(&run, "planned"), count(&run, "moved")), (14, 14), "{run}");
    let left = shop.app.depth(&shop.dead);
    assert_eq!(left, 16);
    let seen = shop.env.run(&["run", &shop.channel, "--limit", "all", "--dry-run", "-o", "json"]).ok().json();
    let shown = seen["counts"]["send"].as_u64().or(seen["send"].as_u64()).unwrap_or(10);
    let run = shop.run_by(&["--limit", "all", &format!("--yes={shown}")]);
    assert_eq!(count(&run, "moved"), shown, "{run}");
    assert!(shown < left, "{run}");

    let shop = Shop::new(&endpoint, &endpoint, true);
    bury(&shop, 2, 15);
    let run = shop.run_by(&["--limit", "all", "--yes", "--where", "body./bad != true"]);
    let groups = in_order(&shop);
    assert_eq!(groups.keys().collect::<Vec<_>>(), ["g1"], "{run}");
    assert_eq!(groups["g1"].len(), 15, "the other group is drained: {run}");
    assert!(count(&run, "held") > 0 && run["exit"] == 11, "{run}");
    assert_eq!(shop.app.depth(&shop.dead), 15);
}

/// A send that is refused holds its group in all passes that follow.
#[test]
fn s20_what_failed_in_a_pass_holds_its_group_in_the_next_on_elasticmq() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    let fault = super::proxy::Fault::Entry(0, true);
    let proxy = Proxy::start(&endpoint, vec![Rule::on("SendMessageBatch", 1, 1, fault)], Some(5));
    let shop = Shop::new(&endpoint, &proxy.endpoint, true);
    bury(&shop, 3, 12);
    let run = shop.run();
    assert_eq!(count(&run, "failed"), 1, "{run}");
    let groups = in_order(&shop);
    assert_eq!(groups.len(), 2, "nothing passes the letter that failed: {run}");
    assert!(groups.values().all(|ids| ids.len() == 12), "the others are drained: {run}");
    assert_eq!(run["exit"], 11, "{run}");
}

/// A process that died between two passes is finished by its resume.
#[test]
fn a_deep_run_killed_in_a_later_pass_is_resumed_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(&endpoint, Vec::new(), Some(2));
    let shop = Shop::new(&endpoint, &proxy.endpoint, true);
    bury(&shop, 1, 24);
    let line = ["run", &shop.channel, "--limit", "all", "--rate", "1000/s", "--reason", "INC-1", "--yes"];
    let mut child = shop.env.command(&line).stdout(std::process::Stdio::null()).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while shop.app.depth(&shop.source) < 13 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let runs = shop.env.line("runs list -o json").ok().json();
    let id = runs["runs"][0]["run"].as_str().unwrap().to_owned();
    let resumed = shop.env.run(&["resume", &id, "--yes", "-o", "json"]);
    // 12: one was deleted and not recorded as such, so its original is not found any more.
    assert!(matches!(resumed.code, Some(0 | 4 | 12)), "{resumed}");
    // What no pass had come to is another run's.
    while shop.app.depth(&shop.dead) > 0 && std::time::Instant::now() < until {
        drop(shop.run());
    }
    let groups = in_order(&shop);
    assert_eq!(groups["g0"].len(), 24, "none lost, none twice: {groups:?}");
}

/// SQS ends at so many letters in flight: here at ten.
fn passes_over_a_standard_queue(endpoint: &str) {
    let shop = shop_with(endpoint, endpoint, false, "most_in_flight: \"10\"");
    shop.bury(35);
    let dry = shop.env.run(&shop.line(&["--limit", "all", "--dry-run"])).ok();
    assert!(dry.says("more are there: SQS hands out only so many"), "{dry}");
    let run = shop.run();
    assert_eq!((count(&run, "planned"), count(&run, "moved")), (35, 35), "{run}");
    let (all, counts) = shop.arrived();
    assert_eq!((all.len(), counts.len()), (35, 35));
}

#[test]
fn s23_a_standard_queue_over_the_in_flight_limit_goes_in_passes_on_ministack() {
    passes_over_a_standard_queue(&endpoint_or_return!(MINISTACK));
}

#[test]
fn s23_a_standard_queue_over_the_in_flight_limit_goes_in_passes_on_elasticmq() {
    passes_over_a_standard_queue(&endpoint_or_return!(ELASTICMQ));
}

/// Killed between a longer manifest and the ledger's row of it, and between that and the manifest's place: the resume
/// finishes what the ledger speaks of, a later run the rest; nothing is lost, nothing is there twice.
#[test]
fn l06_a_deep_run_killed_between_manifest_and_ledger_is_resumed_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    for (step, planned) in [("pass_before_ledger", 10), ("pass_after_ledger", 20), ("pass_in_place", 20)] {
        let proxy = Proxy::start(&endpoint, Vec::new(), Some(2));
        let shop = Shop::new(&endpoint, &proxy.endpoint, true);
        bury(&shop, 1, 24);
        let mut command = shop.env.command(&shop.line(&["--limit", "all", "--yes"]));
        let killed = command.env("REDRIVE_FAILPOINT", step).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&killed.status);
        assert_eq!(signal, Some(9), "{step}: {}", String::from_utf8_lossy(&killed.stderr));
        assert_eq!(shop.app.depth(&shop.source), 10, "{step}: the first pass");
        std::thread::sleep(std::time::Duration::from_millis(2_500));
        let runs = shop.env.line("runs list -o json").ok().json();
        let row = &runs["runs"][0];
        assert_eq!(row["counts"]["planned"], json!(planned), "{step}: {row}");
        let resumed = shop.env.run(&["resume", row["run"].as_str().unwrap(), "--yes", "-o", "json"]);
        // Nothing is left of what the ledger knows, so it is ended; or the second pass goes on.
        assert_eq!(resumed.code, Some(0), "{step}: {resumed}");
        assert_eq!(shop.app.depth(&shop.source), planned, "{step}: {resumed}");
        while shop.app.depth(&shop.dead) > 0 {
            let run = shop.run();
            assert!(count(&run, "moved") > 0, "{step}: {run}");
        }
        assert_eq!(in_order(&shop)["g0"].len(), 24, "{step}: none lost, none twice");
        let further = std::fs::read_dir(shop.env.path("ledger.db.runs")).unwrap();
        let left = further.filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "further")
        });
        assert_eq!(left.count(), 0, "{step}");
    }
}
