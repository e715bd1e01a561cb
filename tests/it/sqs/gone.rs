//! What a queue does not show any more after a crash: SQS cannot tell deleted from hidden, so it is not gone until a
//! person says so (m15), and then closed and on record.

use std::os::unix::process::ExitStatusExt;

use serde_json::Value;

use super::proxy::Proxy;
use super::{Run, Shop, count, endpoint_or_return};

/// Five letters, and a run of them that was killed at a step of the engine; then somebody deleted the first ones.
fn killed(endpoint: &str, fifo: bool, step: &str, deleted: usize) -> (Shop, String) {
    // What the dead process held is in view again after two seconds.
    let proxy = Proxy::start(endpoint, Vec::new(), Some(2));
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    shop.bury(5);
    let mut command = shop.env.command(&shop.line(&["--limit", "all", "--yes"]));
    let output = command.env("REDRIVE_FAILPOINT", step).output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut gone = 0;
    while gone < deleted && std::time::Instant::now() < until {
        let got = shop.app.receive(&shop.dead, 30);
        let (some, rest) = got.split_at(got.len().min(deleted - gone));
        shop.app.delete(&shop.dead, some);
        shop.app.fail(&shop.dead, rest);
        gone += some.len();
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(gone, deleted, "what the dead process held came back");
    let runs = shop.env.line("runs list -o json").ok().json();
    let id = runs["runs"][0]["run"].as_str().unwrap().to_owned();
    (shop, id)
}

/// A resume, and what is on record of the run then.
fn resumed(shop: &Shop, id: &str, flags: &[&str]) -> (Run, Value) {
    let mut line = vec!["resume", id, "--yes"];
    line.extend(flags);
    let run = shop.env.run(&line);
    let shown = shop.env.run(&["runs", "show", id, "-o", "json"]).ok().json();
    (run, shown)
}

fn originals_that_are_gone(endpoint: &str, fifo: bool) {
    // Sent and recorded, and killed before the originals were deleted.
    let (shop, id) = killed(endpoint, fifo, "before_send:2", 3);
    let (run, shown) = resumed(&shop, &id, &[]);
    let run = run.exits(12);
    assert!(run.says("original not removed: 3") && run.says("3 not visible"), "{run}");
    assert!(run.says("--accept-gone"), "{run}");
    assert_eq!((count(&shown, "moved"), &shown["unsettled"]), (5, &3.into()), "{shown}");
    assert_eq!(shop.app.depth(&shop.dead), 0, "what it sees it deletes: {run}");
    drop(resumed(&shop, &id, &["--accept-gone"]).0.exits(2));
    let sure = ["--accept-gone", "--reason", "CloudTrail has the deletes"];
    let (run, shown) = resumed(&shop, &id, &sure);
    let run = run.exits(0);
    assert!(run.says("3 original not seen, gone as a person said"), "{run}");
    assert_eq!((&shown["state"], &shown["unsettled"]), (&"done".into(), &0.into()), "{shown}");
    let coded = |letter: &&Value| letter["code"] == "taken_as_gone" && letter["outcome"] == "moved";
    assert_eq!(shown["letters"].as_array().unwrap().iter().filter(coded).count(), 3, "named: {shown}");
    let events = shown["events"].as_array().unwrap();
    let said = events.iter().find(|event| event["what"] == "accept gone").expect("on record");
    assert!(said["text"].as_str().unwrap().contains("CloudTrail"), "{said}");
    let (all, arrived) = shop.arrived();
    assert_eq!((all.len(), arrived.len()), (5, 5), "each once");
}

#[test]
fn m15_originals_that_are_gone_are_closed_when_a_person_says_so_on_ministack() {
    originals_that_are_gone(&endpoint_or_return!(MINISTACK), false);
}

#[test]
fn m15_originals_that_are_gone_are_closed_when_a_person_says_so_on_a_fifo_of_elasticmq() {
    originals_that_are_gone(&endpoint_or_return!(ELASTICMQ), true);
}

/// Taken by somebody else before they were sent: skipped when a person says so, and the others go.
#[test]
fn m15_letters_that_are_gone_unsent_are_skipped_when_a_person_says_so_on_elasticmq() {
    let (shop, id) = killed(&endpoint_or_return!(ELASTICMQ), false, "claimed", 2);
    let (run, shown) = resumed(&shop, &id, &[]);
    let run = run.exits(12);
    assert!(run.says("not visible to the broker"), "{run}");
    assert_eq!((count(&shown, "moved"), count(&shown, "untouched")), (3, 2), "{shown}");
    let (run, shown) = resumed(&shop, &id, &["--accept-gone", "--reason", "ops took two of them by hand"]);
    let run = run.exits(11);
    assert!(run.says("2 gone"), "{run}");
    assert_eq!((count(&shown, "skipped"), count(&shown, "untouched")), (2, 0), "{shown}");
    assert_eq!(shop.arrived().0.len(), 3);
}
