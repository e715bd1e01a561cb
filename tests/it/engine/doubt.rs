//! Letters whose answer nobody knows, through the command line, as on a broker that cannot look a copy up:
//! named, their groups held, and resolved by a person both ways.

use std::os::unix::process::ExitStatusExt;

use super::{Shop, letter};

/// A run that was killed with its first letter sent, or only intended, and no answer recorded. The broker is
/// asked nothing.
fn killed(failpoint: &str) -> (Shop, String) {
    let shop = Shop::new();
    let key = |key: &str| Some(key.to_owned());
    shop.bury(&[letter(key("A"), 1), letter(key("A"), 2), letter(key("B"), 3), letter(None, 4)]);
    let arguments = [
        "run",
        "orders",
        "--limit",
        "all",
        "--rate",
        "2/s",
        "--reason",
        "INC-1",
        "--yes",
        "--without-transactions",
        "--without-lookup",
    ];
    let output = shop.env.command(&arguments).env("REDRIVE_FAILPOINT", failpoint).output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let run = shop.latest();
    (shop, run)
}

fn bodies(shop: &Shop, queue: &str) -> Vec<String> {
    shop.lying(queue).into_iter().map(|letter| letter.body).collect()
}

/// What every way begins with: the run is shown as it was left, and a resume without a word of a person names
/// what it cannot tell, holds its group and goes on with the others.
fn resumed_without_a_word(shop: &Shop, run: &str) {
    let shown = shop.line(&format!("runs show {run}")).ok();
    assert!(shown.says(&format!("run {run} did not end: last sign of it on ops-2 at ")), "{shown}");
    assert!(shown.says("in doubt 2") || shown.says("in doubt 1"), "{shown}");
    // Nobody has asked yet what came of them: no word yet of what the broker could not tell.
    assert!(shown.says("sent, answer not recorded  ev-1  A"), "{shown}");
    assert!(shown.says("nobody has asked yet") && !shown.says("--resend-in-doubt"), "{shown}");
    assert!(shown.says(&format!("redrive resume {run}")), "{shown}");
    let resumed = shop.line(&format!("resume {run} --yes --rate 1000/s"));
    assert_eq!(resumed.code, Some(11), "{resumed}");
    assert!(resumed.says("held      1 letter behind one of their group that stays in doubt"), "{resumed}");
    assert!(resumed.says("in doubt  sent, answer not recorded  ev-1  A"), "{resumed}");
    assert!(
        resumed.says("stays in doubt: local could not tell") || resumed.says("stay in doubt"),
        "{resumed}"
    );
    assert!(!bodies(shop, "orders").contains(&"{\"n\":2}".to_owned()), "A waits: {resumed}");
    let json = shop.line(&format!("runs show {run} -o json")).ok().json();
    assert_eq!((&json["state"], &json["counts"]["held"]), (&"partial".into(), &1.into()), "{json}");
    // Nor does another one send any of it.
    let again = shop.line(&format!("resume {run} --yes"));
    assert_eq!(again.code, Some(11), "{again}");
    assert!(again.says("held      1 letter behind") && again.says("send      up to 0 letters"), "{again}");
    assert!(again.says("--settle-in-doubt"), "{again}");
    assert!(!bodies(shop, "orders").contains(&"{\"n\":2}".to_owned()), "{again}");
    // Neither way goes without a reason.
    for way in ["--resend-in-doubt", "--settle-in-doubt"] {
        assert_eq!(shop.line(&format!("resume {run} --yes {way}")).code, Some(2));
    }
}

#[test]
fn what_is_in_doubt_is_sent_again_when_a_person_says_so() {
    // Intended and never handed over: nothing has arrived, and nobody can know.
    let (shop, run) = killed("after_commit");
    assert!(bodies(&shop, "orders").is_empty());
    resumed_without_a_word(&shop, &run);
    let sent = shop.env.run(&[
        "resume",
        &run,
        "--yes",
        "--rate",
        "1000/s",
        "--resend-in-doubt",
        "--reason",
        "billing has none of them",
    ]);
    assert_eq!(sent.code, Some(0), "{sent}");
    assert!(sent.says("may be there twice"), "{sent}");
    let mut arrived = bodies(&shop, "orders");
    let place = |n: usize| arrived.iter().position(|body| *body == format!("{{\"n\":{n}}}")).unwrap();
    assert!(place(1) < place(2), "rule 5: {arrived:?}");
    arrived.sort();
    assert_eq!(arrived, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"]);
    assert!(shop.lying("orders.dlq").is_empty());
    let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
    let events = audit["events"].as_array().unwrap();
    let order = events.iter().find(|event| event["what"] == "resend in doubt").unwrap();
    let text = order["text"].as_str().unwrap();
    assert!(text.starts_with("billing has none of them; m"), "the letters stay named: {text}");
    assert_eq!(audit["counts"]["moved"], 4);
    assert_eq!(audit["by"], audit["who"]);
}

#[test]
fn what_is_in_doubt_is_taken_away_when_its_effect_was_seen() {
    // Sent, and killed before the answer was recorded.
    let (shop, run) = killed("after_send");
    let sent = bodies(&shop, "orders");
    assert!(sent.contains(&"{\"n\":1}".to_owned()), "{sent:?}");
    resumed_without_a_word(&shop, &run);
    let settled = shop.env.run(&[
        "resume",
        &run,
        "--yes",
        "--rate",
        "1000/s",
        "--settle-in-doubt",
        "--reason",
        "billing shows ev-1",
    ]);
    assert_eq!(settled.code, Some(0), "{settled}");
    let mut arrived = bodies(&shop, "orders");
    arrived.sort();
    assert_eq!(arrived, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"], "each once");
    assert!(shop.lying("orders.dlq").is_empty());
    let shown = shop.line(&format!("runs show {run}")).ok();
    assert!(shown.says("settle in doubt by mira@ops-2  billing shows ev-1; m"), "{shown}");
}
