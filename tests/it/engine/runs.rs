//! `runs`: what it says of runs that died, that were resumed at another rate, that nobody knows.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

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
fn runs_and_applies_are_listed_by_channel_and_by_broker() {
    let two = super::SHOP
        .replace("brokers:\n", "default_broker: local\nbrokers:\n  spare: {url: \"sqlite:spare.db\"}\n");
    let mut shop = Shop::with(&two);
    let _ = shop.line("apply --yes --broker spare").ok();
    shop.bury_many(1);
    let _ = shop.line("run orders --limit all --reason here --yes").ok();
    let listed = |shop: &Shop, line: &str| {
        let runs = shop.line(&format!("{line} -o json")).ok().json();
        runs["runs"].as_array().unwrap().len()
    };
    assert_eq!(listed(&shop, "runs list"), 1);
    assert_eq!(listed(&shop, "runs list --broker local"), 1);
    assert_eq!(listed(&shop, "runs list orders --broker local"), 1);
    assert_eq!(listed(&shop, "runs list --broker spare"), 0);
    assert_eq!(listed(&shop, "runs --broker spare"), 0);
    assert_eq!(listed(&shop, "runs list nothing --broker local"), 0);
    let none = shop.line("runs list --broker spare").ok();
    assert_eq!(none.err, "note  No runs on spare are recorded here; there are some of orders on local.\n");
    let none = shop.line("runs list bills").ok();
    assert_eq!(none.err, "note  No runs of bills are recorded here; there are some of orders on local.\n");
    let url = shop.line("runs list --broker sqlite://mira:hunter2@x").exits(2);
    assert!(url.says("--broker takes the name of a broker, not a url") && !url.says("hunter2"), "{url}");
    let applied = |shop: &Shop, line: &str| {
        let rows = shop.line(&format!("{line} -o json")).ok().json();
        let rows = rows["applied"].as_array().unwrap();
        rows.iter().map(|row| row["broker"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(applied(&shop, "plan --applied"), ["spare", "local"]);
    assert_eq!(applied(&shop, "plan --applied --broker spare"), ["spare"]);
    shop.env.set("REDRIVE_BROKER", "spare");
    let env = shop.line("plan --applied").ok();
    assert!(env.err.contains("note  Only on spare: REDRIVE_BROKER says so."), "{env}");
    shop.env.set("REDRIVE_BROKER", "local");
    let env = shop.line("runs list").ok();
    assert!(env.err.contains("note  Only runs on local: REDRIVE_BROKER says so."), "{env}");
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
fn a_letter_that_no_run_moved_is_not_put_down_to_one() {
    let shop = Shop::new();
    shop.bury_many(3);
    let _ = shop.line("select orders --limit all --out m.jsonl --reason INC-1").ok();
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute("DELETE FROM letter WHERE id = (SELECT min(id) FROM letter)", []).unwrap();
    let _ = shop.line("run orders --limit 1 --rate 1000/s --reason x --yes").ok();
    let run = shop.latest();
    let stale = shop.line("run m.jsonl --yes");
    assert_eq!(stale.code, Some(4), "{stale}");
    let words = format!(
        "2 of 3 letters are gone, 1 of them moved by run {run} and 1 by none that this ledger knows of: m1, m2"
    );
    assert!(stale.says(&words), "{stale}");
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
    assert!(
        stale.says(&format!("m.jsonl is stale: 2 of 6 letters are gone, moved by run {run}: m1, m2")),
        "{stale}"
    );
    let _ = shop.line("run orders --limit 1 --rate 1000/s --reason x --yes").ok();
    let stale = shop.line("run m.jsonl --yes");
    assert!(stale.says("3 of 6 letters are gone, moved by run "), "{stale}");
    assert!(stale.says(&format!("run {run} (2)")) && stale.says(" (1)"), "{stale}");
    let stale = shop.line("run m.jsonl --yes -o json");
    let problems: serde_json::Value = serde_json::from_str(stale.err.trim()).unwrap();
    assert_eq!(problems["problems"][2], serde_json::json!({"letter": "m3", "why": "gone"}), "{stale}");
    // By nobody that this ledger knows of: then nothing is said.
    std::fs::remove_dir_all(shop.env.path("ledger.db.runs")).unwrap();
    let stale = shop.line("run m.jsonl --yes");
    assert!(stale.says("letters are gone") && !stale.says("moved by"), "{stale}");
}

#[test]
fn a_manifest_of_which_nothing_is_left_is_not_offered_again() {
    let shop = Shop::new();
    shop.bury_many(5);
    let _ = shop.line("select orders --limit all --out m.jsonl --reason INC-1").ok();
    let _ = shop.line("run orders --limit all --rate 1000/s --reason x --yes").ok();
    let stale = shop.line("run m.jsonl --yes");
    assert_eq!(stale.code, Some(4), "{stale}");
    assert!(stale.says("m1, m2, m3 and 2 more"), "{stale}");
    assert!(stale.says("No letter of it can be sent any more"), "{stale}");
    assert!(stale.says("next  redrive inspect orders") && !stale.says("--allow-stale"), "{stale}");
}

#[test]
fn what_is_told_apart_is_named_and_of_more_the_number_is_said() {
    let shop = Shop::new();
    // Six groups of three, of which the first is not selected, and five that are equal.
    let letters: Vec<_> = (0..6)
        .flat_map(|group| (0..3).map(move |n| super::letter(Some(format!("G-{group}")), group * 3 + n)))
        .collect();
    shop.bury(&letters);
    let equal = super::letter(None, 100);
    shop.bury(&[equal.clone(), equal.clone(), equal.clone(), equal.clone(), equal]);
    let unlike: Vec<String> = (0..6).map(|group| format!("id != \"ev-{}\"", group * 3)).collect();
    let where_ = unlike.join(" and ");
    let dry = ["run", "orders", "--limit", "all", "--where", &where_, "--dry-run"];
    let text = shop.env.run(&dry).ok();
    assert!(text.says("and 2 more groups"), "{text}");
    let flat = |run: &crate::cli::Run| run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "5 share an event id and a body with another (--dedupe): m19, m20, m21 and 2 more";
    assert!(flat(&text).contains(told), "{text}");
    let json = shop.env.run(&[&dry[..], &["-o", "json"]].concat()).ok().json();
    assert_eq!((json["waiting"].as_array().unwrap().len(), &json["waiting_more"]), (6, &0.into()), "{json}");
    let named = &json["repeated_named"];
    assert_eq!(named.as_array().unwrap().len(), 5, "{json}");
    assert_eq!(named[4], serde_json::json!({"letter": "m23", "event_id": "ev-100"}));
    let behind = json["kept"].as_array().unwrap().iter().find(|kept| kept["why"] == "behind").unwrap();
    assert_eq!((behind["named"].as_array().unwrap().len(), &behind["more"]), (12, &0.into()), "{json}");
    let settled = shop.env.run(&[&dry[..], &["--dedupe"]].concat()).ok();
    let told = "settle 4 unsent: equal letters, one of each is sent (--dedupe): m20, m21, m22 and 1 more";
    assert!(flat(&settled).contains(told), "{settled}");
}

#[test]
fn what_was_typed_is_typed_again_in_the_next_command() {
    let shop = Shop::new();
    shop.bury_many(3);
    let options = "--limit all --rate 10/s --ramp 1s --max-errors 3 --stop-on-refail off --take-over --events e.jsonl \
                   --ledger ledger.db --dedupe --order none --trim --without-lookup";
    let sorted = |words: &[&str]| {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.sort();
        words
    };
    let next_of = |json: &serde_json::Value| {
        json["next"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    // After a dry run; a reason that says nothing is asked for once.
    let dry = shop.env.run(
        &[
            &["run", "orders", "--dry-run", "--reason", "", "-o", "json"],
            &options.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>()[..],
        ]
        .concat(),
    );
    let next = next_of(&dry.ok().json());
    let mut expected: Vec<&str> = options.split_whitespace().collect();
    expected.extend(["redrive", "run", "orders", "--reason", "TEXT"]);
    assert_eq!(sorted(&next.iter().map(String::as_str).collect::<Vec<_>>()), sorted(&expected));
    // After a refused prompt: with what it takes.
    let refused = shop.line(&format!(
        "run orders --reason=-x {} -o json",
        options.split_whitespace().collect::<Vec<_>>().join(" ")
    ));
    assert_eq!(refused.code, Some(4), "{refused}");
    let next = next_of(&serde_json::from_str(refused.err.trim().lines().last().unwrap()).unwrap());
    let mut expected: Vec<&str> = options.split_whitespace().collect();
    expected.extend(["redrive", "run", "orders", "--reason=-x", "--yes=3"]);
    assert_eq!(sorted(&next.iter().map(String::as_str).collect::<Vec<_>>()), sorted(&expected));
    let blank = shop.env.run(&["run", "orders", "--limit", "all", "--reason", " "]);
    assert_eq!(blank.code, Some(2), "{blank}");
    assert!(blank.says("next  redrive run orders --limit all --reason TEXT"), "{blank}");
    let blank = shop.env.run(&["apply", "--accept-loss=orders.dlq", "--reason", " "]);
    assert_eq!(blank.code, Some(2), "{blank}");
    assert!(blank.says("next  redrive apply --accept-loss=orders.dlq --reason TEXT"), "{blank}");
}

#[test]
fn a_count_that_redrive_did_not_write_is_over_every_limit() {
    let shop = Shop::new();
    let counted = |n: usize, count: &str| {
        let mut letter = super::letter(None, n);
        letter.headers.push(redrive::stamp::COUNT, redrive::letter::Value::from_text(count));
        letter
    };
    shop.bury(&[
        counted(0, "-5"),
        counted(1, "4294967296"),
        counted(2, "99999999999999999999999999"),
        counted(3, "-99999999999999999999999999"),
        counted(4, "1"),
        counted(5, "often"),
        counted(6, ""),
        counted(7, "2.0"),
    ]);
    let run = shop.line("run orders --limit all --rate 1000/s --reason x --yes -o json");
    assert_eq!(run.code, Some(11), "{run}");
    assert_eq!((&run.json()["counts"]["moved"], &run.json()["counts"]["skipped"]), (&1.into(), &7.into()));
    let shown = shop.line(&format!("runs show {} -o json", shop.latest())).ok();
    assert!(shown.says("redrive-count is no number that redrive wrote"), "{shown}");
    let shown = shop.line("show orders m1").ok();
    assert!(
        shown.says("redrive-count is no number that redrive wrote") && !shown.says("4294967295"),
        "{shown}"
    );
}

#[test]
fn a_run_yields_to_the_relay_and_goes_on_where_nobody_serves_the_tiers() {
    let shop = Shop::new();
    shop.bury_many(3);
    shop.application().send("orders.retry-5s", &[super::letter(None, 99)], Duration::from_millis(1)).unwrap();
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute("UPDATE letter SET due = due - 60000 WHERE due > 0", []).unwrap();
    let run =
        shop.line("run orders --limit all --rate 1000/s --reason x --yes --events e.jsonl -o json").ok();
    assert!(run.json()["yielded_ms"].as_u64().unwrap() >= 5_000, "{run}");
    // The pace that it had is on record.
    let audit = shop.line(&format!("runs show {} -o json", shop.latest())).ok().json();
    let stood =
        audit["events"].as_array().unwrap().iter().find(|event| event["what"] == "stood back").cloned();
    assert!(stood.unwrap()["text"].as_str().unwrap().ends_with("for the relay of orders"), "{audit}");
    let events = std::fs::read_to_string(shop.env.path("e.jsonl")).unwrap();
    let at = |what: &str| events.find(what).unwrap_or_else(|| panic!("{what}: {events}"));
    assert!(at("\"yielding\"") < at("\"goes_on\"") && at("\"goes_on\"") < at("\"moved\""), "{events}");
}

#[test]
fn letters_that_another_run_moved_are_already_redriven_and_hold_nobody() {
    // The other run is in the same ledger, or in one that this resume does not see: the broker's marks tell.
    for (path, ledger) in [
        (&[][..], "ledger.db"),
        (&[][..], "other.db"),
        (&["--without-transactions"][..], "ledger.db"),
        (&["--without-transactions"][..], "other.db"),
    ] {
        let shop = Shop::new();
        let key = |n: usize| Some(format!("C-{}", n % 2));
        shop.bury(&(0..6).map(|n| super::letter(key(n), n)).collect::<Vec<_>>());
        let first: Vec<&str> = RUN.iter().chain(path).copied().collect();
        let killed = shop.env.command(&first).env("REDRIVE_FAILPOINT", "begun").output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
        let run = shop.latest();
        let other = shop.env.path(ledger).display().to_string();
        let line =
            format!("run orders --limit 2 --rate 1000/s --reason x --yes --take-over --ledger {other}");
        let _ = shop.line(&line).ok();
        let resumed = shop.line(&format!("resume {run} --yes --rate 1000/s --take-over -o json")).exits(11);
        let end = resumed.json();
        assert_eq!((&end["counts"]["moved"], &end["counts"]["skipped"]), (&4.into(), &2.into()), "{end}");
        assert_eq!(end["not_moved"][0]["code"], "moved_before", "{end}");
        let bodies: Vec<String> = shop.lying("orders").into_iter().map(|lying| lying.body).collect();
        assert_eq!(bodies.len(), 6, "each once: {bodies:?}");
        for group in 0..2 {
            let of: Vec<&String> = bodies
                .iter()
                .filter(|body| (0..6).any(|n| n % 2 == group && body.contains(&format!(":{n}}}"))))
                .collect();
            assert!(of.is_sorted(), "{of:?}");
        }
    }
}

#[test]
fn letters_that_somebody_else_took_are_gone_and_hold_their_group() {
    let shop = Shop::new();
    shop.bury(&(0..3).map(|n| super::letter(Some("C-1".to_owned()), n)).collect::<Vec<_>>());
    let killed = shop.env.command(RUN).env("REDRIVE_FAILPOINT", "begun").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    let run = shop.latest();
    let mut application = shop.application();
    let taken = application.receive("orders.dlq", 1, None).unwrap();
    application.ack(&taken[0].receipt).unwrap();
    let resumed = shop.line(&format!("resume {run} --yes --rate 1000/s -o json")).exits(12);
    assert_eq!(resumed.json()["counts"]["moved"], 0, "{resumed}");
    let resumed = shop.line(&format!("resume {run} --yes --rate 1000/s --allow-stale -o json")).exits(11);
    assert_eq!(resumed.json()["counts"]["moved"], 2, "{resumed}");
    assert_eq!(resumed.json()["not_moved"][0]["code"], "gone", "{resumed}");
}

#[test]
fn what_to_do_next_is_something_that_can_be_done() {
    let shop = Shop::new();
    let key = || Some("C-1".to_owned());
    shop.bury(&[super::letter(key(), 1), super::letter(key(), 2), super::letter(Some("C-2".to_owned()), 3)]);
    // The second letter of the group is held behind the first, which is not selected.
    let line = ["run", "orders", "--where", "id != ev-1", "--limit", "all", "--reason", "x", "--yes"];
    let run = shop.env.run(&line);
    assert_eq!(run.code, Some(11), "{run}");
    let shown = shop.line(&format!("runs show {}", shop.latest())).ok();
    assert!(shown.says("next  redrive inspect orders") && !shown.says("redrive resume"), "{shown}");
    let refused = shop.line(&format!("resume {} --yes", shop.latest())).exits(4);
    assert!(
        refused.says("another run selects it anew") && refused.says("next  redrive inspect orders"),
        "{refused}"
    );
}

#[test]
fn a_letter_that_a_killed_run_may_have_sent_is_named_in_doubt() {
    // A step may have nothing to send, only letters to settle: then the next one.
    let (shop, run, audit) = (3..9)
        .find_map(|nth| {
            let shop = Shop::new();
            shop.bury_many(40);
            let line = [RUN, &["--without-transactions"]].concat();
            let step = format!("after_send:{nth}");
            let killed = shop.env.command(&line).env("REDRIVE_FAILPOINT", step).output().unwrap();
            assert_eq!(killed.status.signal(), Some(9));
            let run = shop.latest();
            let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
            (audit["counts"]["in_doubt"] != 0).then_some((shop, run, audit))
        })
        .expect("a step that sends");
    let letters = audit["letters"].as_array().unwrap();
    for outcome in ["moved", "in_doubt", "untouched"] {
        let named = letters.iter().filter(|letter| letter["outcome"] == outcome).count();
        assert_eq!(audit["counts"][outcome], named, "{outcome}: {audit}");
    }
    let doubted: Vec<_> = letters.iter().filter(|letter| letter["outcome"] == "in_doubt").collect();
    assert!(!doubted.is_empty() && doubted.iter().all(|letter| letter["state"] == "intended"), "{audit}");
    let shown = shop.line(&format!("runs show {run}")).ok();
    assert!(shown.says("in doubt   sent, answer not recorded"), "{shown}");
    let rows = shown.out.lines().filter(|line| line.starts_with("  in doubt ")).count();
    assert_eq!(rows, doubted.len(), "{shown}");
    for letter in doubted {
        assert!(shown.says(letter["letter"].as_str().unwrap()), "{shown}");
    }
    // Nothing was looked up yet, so nothing is said of what the broker could not tell.
    assert!(shown.says("nobody has asked yet") && !shown.says("could not tell"), "{shown}");
}

#[test]
fn only_what_lies_in_the_queue_is_said_to_stay_there() {
    let shop = Shop::new();
    shop.bury(&(0..6).map(|n| super::letter(Some(format!("C-{n}")), n)).collect::<Vec<_>>());
    let killed = shop.env.command(RUN).env("REDRIVE_FAILPOINT", "begun").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let run = shop.latest();
    let _ = shop.line("run orders --limit 2 --rate 1000/s --reason x --yes --take-over").ok();
    let resumed = shop.line(&format!("resume {run} --yes --rate 1000/s --take-over")).exits(11);
    assert!(shop.lying("orders.dlq").is_empty());
    assert!(resumed.says("4 moved, none stays in orders.dlq"), "{resumed}");
    assert!(resumed.says("2 moved by another run"), "{resumed}");
    // An equal letter that was settled unsent is not there any more either.
    let shop = Shop::new();
    let equal = || super::letter(None, 1);
    shop.bury(&[equal(), equal(), super::letter(None, 2)]);
    let run = shop.line("run orders --limit all --dedupe --rate 1000/s --reason x --yes").exits(11);
    assert!(shop.lying("orders.dlq").is_empty());
    assert!(run.says("2 moved, none stays in orders.dlq"), "{run}");
}

#[test]
fn an_equal_letter_stays_with_its_other_half_and_says_that() {
    let shop = Shop::new();
    let grouped = |n| super::letter(Some("A".to_owned()), n);
    shop.bury(&[grouped(0), grouped(1), super::letter(None, 1)]);
    let run = [
        "run",
        "orders",
        "--limit",
        "all",
        "--where",
        "id != \"ev-0\"",
        "--dedupe",
        "--reason",
        "x",
        "--yes",
    ];
    let run = shop.env.run(&run).exits(11);
    assert!(
        run.says("1 equal to a letter that did not arrive in this run, so they stay too (--dedupe)"),
        "{run}"
    );
    assert!(!run.says("behind a letter that failed"), "{run}");
    assert_eq!(shop.lying("orders.dlq").len(), 3);
}

#[test]
fn a_flag_for_which_the_broker_has_no_use_does_not_pass_in_silence() {
    let shop = Shop::new();
    shop.bury_many(2);
    for end in ["--dry-run", "--yes"] {
        let line = format!("run orders --limit all --reason x {end}");
        let refused = shop.line(&format!("{line} --keep-timestamp")).exits(4);
        assert!(refused.says("--keep-timestamp: a copy has the time at which "), "{refused}");
        let noted = shop.line(&format!("{line} --skip-overtaken")).ok();
        assert!(noted.says("note --skip-overtaken leaves nothing at "), "{noted}");
    }
    assert_eq!(shop.line("runs list -o json").ok().json()["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_run_that_was_ousted_says_who_has_its_letters() {
    let shop = Shop::new();
    shop.bury_many(80);
    let child = shop.env.command(RUN).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while shop.lying("orders").len() < 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = shop.line("run orders --limit all --rate 1000/s --reason y --yes --take-over");
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(12), "{told}");
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("another process took orders.dlq over"), "{told}");
    assert!(words.contains("Whoever took orders.dlq over has the"), "{told}");
    assert!(!words.contains("as they were"), "{told}");
}

#[test]
fn the_time_of_a_killed_part_is_kept_and_the_last_rate_is_shown() {
    let shop = Shop::new();
    shop.bury_many(60);
    let mut child = shop.env.command(RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2_600));
    child.kill().unwrap();
    child.wait().unwrap();
    let run = shop.latest();
    let took = |audit: serde_json::Value| audit["took_ms"].as_u64().unwrap();
    let before = took(shop.line(&format!("runs show {run} -o json")).ok().json());
    assert!((1_000..3_500).contains(&before), "{before}");
    std::thread::sleep(Duration::from_millis(1_000));
    let resumed = shop.line(&format!("resume {run} --yes --rate 1000/s -o json")).ok().json();
    let after = resumed["took_ms"].as_u64().unwrap();
    assert!(after >= before && after < before + 900, "{before} and then {after}: {resumed}");
    let shown = shop.line(&format!("runs show {run}")).ok();
    assert!(shown.says("in 2 parts at 1000/s"), "{shown}");
}

#[test]
fn a_resume_is_judged_by_what_dies_in_it_and_can_be_told_not_to_stop() {
    let shop = Shop::new();
    shop.bury(&(0..150).map(|n| super::letter(None, n)).collect::<Vec<_>>());
    let run = "run orders --limit all --rate 40/s --reason x --yes -o json";
    let (code, report) = shop.refused_by_everyone(run);
    assert_eq!(code, Some(12), "{report}");
    let first = report["counts"]["moved"].as_u64().unwrap();
    assert!(report["refailed"].as_u64().unwrap() * 5 >= first, "{report}");
    // Twenty more are moved before it is judged again, by those alone.
    let id = shop.latest();
    let (code, report) = shop.refused_by_everyone(&format!("resume {id} --yes -o json"));
    assert_eq!(code, Some(12), "{report}");
    let second = report["counts"]["moved"].as_u64().unwrap();
    assert!(second >= first + 20, "{first} and then {second}: {report}");
    // Told not to stop it does not, and counts all the same.
    let events = format!("resume {id} --yes --stop-on-refail off --rate 20/s --max-errors 7 -o json");
    let (code, report) = shop.refused_by_everyone(&events);
    assert_eq!((code, &report["counts"]["moved"]), (Some(0), &150.into()), "{report}");
    assert!(report["refailed"].as_u64().unwrap() > 100 && report["unknown"].is_null(), "{report}");
    let audit = shop.line(&format!("runs show {id} -o json")).ok().json();
    let settings = &audit["settings"];
    assert_eq!((&settings["order"], &settings["max_errors"]), (&"group".into(), &5.into()), "{audit}");
    assert_eq!((&settings["stop_on_refail"], settings.get("held")), (&0.2.into(), None), "{audit}");
    let text = |what: &str| {
        let events = audit["events"].as_array().unwrap();
        events.iter().find(|event| event["what"] == what).map(|event| event["text"].clone())
    };
    assert_eq!(text("stop on re-fail changed"), Some("20% to off".into()), "{audit}");
    assert_eq!(text("max errors changed"), Some("5 to 7".into()), "{audit}");
}

#[test]
fn a_resume_that_nothing_died_in_is_not_stopped_by_what_had_died_before() {
    let shop = Shop::new();
    shop.bury(&(0..120).map(|n| super::letter(None, n)).collect::<Vec<_>>());
    let (code, report) =
        shop.refused_by_everyone("run orders --limit all --rate 40/s --reason x --yes -o json");
    assert_eq!(code, Some(12), "{report}");
    let died = report["refailed"].as_u64().unwrap();
    let resumed = shop.line(&format!("resume {} --yes --rate 40/s -o json", shop.latest())).ok().json();
    assert_eq!(resumed["counts"]["moved"], 120, "{resumed}");
    assert!(resumed["refailed"].as_u64().unwrap() >= died, "what died before is still told: {resumed}");
}

#[test]
fn what_a_refused_resume_says_to_type_is_whole() {
    let shop = Shop::new();
    shop.bury_many(20);
    let killed = shop.env.command(RUN).env("REDRIVE_FAILPOINT", "after_transfer:2").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let id = shop.latest();
    let flags = "--allow-stale --rate 5/s --max-errors 7 --stop-on-refail 2.5% --reason y --take-over";
    let refused = shop.line(&format!("resume {id} {flags}"));
    assert_eq!(refused.code, Some(4), "{refused}");
    let words: Vec<&str> = refused.err.split_whitespace().collect();
    assert!(words.join(" ").contains(flags), "{refused}");
}
