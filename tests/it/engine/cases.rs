//! Real failures of others, by their number, with the built program on the embedded broker.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use redrive::broker::sqlite::Failure;
use redrive::letter::Value;
use redrive::stamp;

use super::{SHOP, Shop, letter};

#[test]
fn l03_thirty_letters_at_two_a_second_take_about_fifteen_seconds() {
    let shop = Shop::new();
    shop.bury_many(6);
    let began = Instant::now();
    let _ = shop.line("run orders --limit all --rate 2/s --reason x --yes").ok();
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1900), "{took:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn l04_a_run_does_not_chase_its_failures_and_a_letter_has_a_bound() {
    let shop = Shop::new();
    shop.bury_many(5);
    let fails = || {
        let mut application = shop.application();
        loop {
            let got = application.receive("orders", 10, None).unwrap();
            if got.is_empty() {
                break;
            }
            for delivery in got {
                // All its tries at once: what counts here is that it dies again.
                let mut message = delivery.message.clone();
                application.ack(&delivery.receipt).unwrap();
                message.headers.replace(stamp::ATTEMPT, Value::from_text("3"));
                application.send("orders.dlq", &[message], Duration::ZERO).unwrap();
            }
        }
    };
    let run = || shop.line("run orders --limit all --rate 1000/s --stop-on-refail off --reason x --yes");
    for _ in 0..2 {
        let report =
            shop.line("run orders --limit all --rate 1000/s --stop-on-refail off --reason x --yes -o json");
        assert_eq!(report.json()["counts"]["moved"], 5, "{report}");
        fails();
    }
    let third = run();
    assert_eq!(third.code, Some(11), "{third}");
    assert!(third.says("redriven as often as allowed"), "{third}");
    assert_eq!(shop.lying("orders.dlq").len(), 5);
    assert!(shop.lying("orders").is_empty());
    let _ = Failure::default();
}

#[test]
fn l05_a_signal_settles_what_is_in_flight_and_resume_finishes() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let shop = Shop::new();
        shop.bury_many(60);
        let mut child = shop
            .env
            .command(&["run", "orders", "--limit", "all", "--rate", "40/s", "--reason", "x", "--yes"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while shop.lying("orders").len() < 5 {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::process::Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status()
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{signal}: {:?}", status.signal());
        let moved = shop.lying("orders").len();
        assert_eq!(moved + shop.lying("orders.dlq").len(), 60, "{signal}");
        assert!(moved < 60, "it stops early");
        assert_eq!(shop.held(), 0, "what was claimed is given back");
        let run = shop.latest();
        let shown = shop.line(&format!("runs show {run} -o json")).ok().json();
        assert_eq!(shown["counts"]["moved"], moved);
        assert_eq!(shown["counts"]["untouched"], 60 - moved);
        let _ = shop.line(&format!("resume {run} --rate 2000/s --yes")).ok();
        assert_eq!(shop.lying("orders").len(), 60);
        let audit = shop.line(&format!("runs show {run} -o json")).ok().json();
        let events = audit["events"].as_array().unwrap();
        let told = events.iter().any(|e| e["what"] == "rate changed" && e["text"] == "40/s to 2000/s");
        assert!(told, "another rate is in the audit: {events:?}");
    }
}

#[test]
fn l08_limits_at_their_edges() {
    let shop = Shop::new();
    shop.bury_many(9);
    let limit = |limit: &str| {
        shop.env.run(&[
            "run",
            "orders",
            &format!("--limit={limit}"),
            "--rate",
            "1000/s",
            "--reason",
            "x",
            "--yes",
        ])
    };
    assert_eq!(limit("0").code, Some(2));
    assert_eq!(limit("-1").code, Some(2));
    let unbounded = shop.line("run orders --reason x --yes");
    assert_eq!(unbounded.code, Some(2));
    assert!(unbounded.says("a run needs a bound"), "{unbounded}");
    assert!(shop.lying("orders").is_empty());
    let _ = limit("5").ok();
    assert_eq!((shop.lying("orders").len(), shop.lying("orders.dlq").len()), (5, 4));
    assert_eq!(shop.held(), 0, "no more than five were taken");
}

#[test]
fn l09_codes_tell_what_happened() {
    let shop = Shop::new();
    let _ = shop.line("run orders --limit all --reason x --yes").ok();
    shop.bury(&[letter(Some("A".into()), 1), letter(Some("A".into()), 2)]);
    let partial = shop.line("run orders --limit all --where id=ev-2 --reason x --yes");
    assert_eq!(partial.code, Some(11), "all that is selected is held: {partial}");
    let done = shop.line("run orders --limit all --reason x --yes -o json").ok();
    assert_eq!(done.json()["counts"]["moved"], 2);
    assert_eq!(done.json()["exit"], 0);
    std::fs::remove_file(shop.path()).unwrap();
    let gone = shop.line("run orders --limit all --reason x --yes");
    assert_eq!(gone.code, Some(1), "{gone}");
}

#[test]
fn l10_a_second_run_is_refused_and_told_who_holds_it() {
    let shop = Shop::new();
    shop.bury_many(40);
    let mut first = shop
        .env
        .command(&["run", "orders", "--limit", "all", "--rate", "10/s", "--reason", "x", "--yes"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while shop.lying("orders").is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = shop.line("run orders --limit all --reason y --yes");
    assert_eq!(second.code, Some(4), "{second}");
    assert!(second.says("orders.dlq is held by run r") && second.says("mira@ops-2"), "{second}");
    // Before anybody is asked: without a terminal that would be the refusal.
    let unasked = shop.line("run orders --limit all --reason y");
    assert_eq!(unasked.code, Some(4), "{unasked}");
    assert!(unasked.says("orders.dlq is held by run r") && !unasked.says("--yes"), "{unasked}");
    // Asked from outside, it stops in order and can be resumed.
    let run = shop.latest();
    let _ = shop.line(&format!("runs pause {run}")).ok();
    assert_eq!(first.wait().unwrap().code(), Some(12));
    let list = shop.line("runs list");
    assert!(list.says("paused"), "{list}");
    let _ = shop.line(&format!("resume {run} --rate 1000/s --yes")).ok();
    let bodies: Vec<String> = shop.lying("orders").into_iter().map(|letter| letter.body).collect();
    assert_eq!(bodies.len(), 40);
    let mut unique = bodies.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 40);
}

#[test]
fn k37_an_earlier_letter_that_stays_holds_its_group_and_nobody_else() {
    let shop = Shop::new();
    let key = |key: &str| Some(key.to_owned());
    let mut often = letter(key("B"), 4);
    often.headers.push(stamp::COUNT, Value::from_text("2"));
    shop.bury(&[letter(key("A"), 1), letter(key("A"), 2), letter(key("B"), 3), often]);
    shop.bury(&[letter(key("B"), 5), letter(key("B"), 6), letter(key("C"), 7), letter(None, 8)]);
    let run = shop.line("run orders --limit all --reason x --yes -o json");
    assert_eq!(run.code, Some(11), "{run}");
    let counts = &run.json()["counts"];
    assert_eq!((&counts["moved"], &counts["skipped"], &counts["held"]), (&5.into(), &1.into(), &2.into()));
    let stay: Vec<String> = shop.lying("orders.dlq").into_iter().map(|letter| letter.body).collect();
    assert_eq!(stay, ["{\"n\":4}", "{\"n\":5}", "{\"n\":6}"]);
}

#[test]
fn identity_travels_and_bookkeeping_stays_behind() {
    let shop = Shop::new();
    shop.bury(&[letter(Some("A".to_owned()), 1)]);
    let _ = shop.line("run orders --limit all --reason x --yes").ok();
    let copy = &shop.lying("orders")[0];
    assert_eq!((copy.key.as_deref(), copy.body.as_str()), (Some("A"), "{\"n\":1}"));
    for kept in ["ev-1", "application/json", stamp::RUN, stamp::COUNT, stamp::FROM, stamp::ORIGINAL_TIME] {
        assert!(copy.headers.contains(kept), "{kept}: {}", copy.headers);
    }
    assert!(!copy.headers.contains(stamp::ATTEMPT), "K05: {}", copy.headers);
}

#[test]
fn r01_the_count_is_the_tools_own_and_counts_on() {
    let shop = Shop::new();
    let mut again = letter(None, 1);
    again.headers.push(stamp::COUNT, Value::from_text("1"));
    shop.bury(&[again]);
    let _ = shop.line("run orders --limit all --reason x --yes").ok();
    let headers = &shop.lying("orders")[0].headers;
    assert_eq!(headers.matches(stamp::COUNT).count(), 1, "one count, not a pile: {headers}");
    assert!(headers.contains("\"2\""), "{headers}");
}

#[test]
fn r24_letters_that_die_again_are_counted_and_stop_the_run() {
    let shop = Shop::new();
    shop.bury(&(0..120).map(|n| letter(None, n)).collect::<Vec<_>>());
    let run = "run orders --limit all --rate 30/s --reason x --yes -o json";
    let (code, report) = shop.refused_by_everyone(run);
    assert_eq!(code, Some(12));
    assert!(report["refailed"].as_u64().unwrap() >= 4, "{report}");
    assert!(report["counts"]["untouched"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_manifest_that_is_stale_runs_only_when_told_to() {
    let shop = Shop::new();
    shop.bury_many(6);
    let _ = shop.line("select orders --limit all --out m.jsonl --reason INC-1").ok();
    let _ = shop.line("run orders --limit 2 --rate 1000/s --reason x --yes").ok();
    let stale = shop.line("run m.jsonl --yes");
    assert_eq!(stale.code, Some(4), "{stale}");
    assert!(
        stale.says("m.jsonl is stale: 2 of 6 letters are gone") && stale.says("--allow-stale"),
        "{stale}"
    );
    let rest = shop.line("run m.jsonl --yes --allow-stale -o json");
    assert_eq!(rest.code, Some(11), "{rest}");
    let counts = &rest.json()["counts"];
    assert_eq!((&counts["moved"], &counts["skipped"]), (&4.into(), &2.into()));
    assert_eq!(shop.lying("orders").len(), 6);
}

#[test]
fn a_manifest_is_hostile_input() {
    let shop = Shop::new();
    shop.bury_many(3);
    let _ = shop.line("select orders --limit all --out m.jsonl --reason INC-1").ok();
    let text = std::fs::read_to_string(shop.env.path("m.jsonl")).unwrap();
    shop.env.write("changed.jsonl", text.replace("ev-1", "ev-7"));
    let changed = shop.line("run changed.jsonl --yes");
    assert_eq!(changed.code, Some(4), "{changed}");
    assert!(changed.says("line 3: it was changed"), "{changed}");
    // A pipe is never waited for, a symlink not followed.
    let pipe = std::process::Command::new("mkfifo").arg(shop.env.path("pipe.jsonl")).status().unwrap();
    assert!(pipe.success());
    std::os::unix::fs::symlink("m.jsonl", shop.env.path("link.jsonl")).unwrap();
    for (file, why) in
        [("pipe.jsonl", "no file"), ("link.jsonl", "a symlink is not followed"), ("./", "no file")]
    {
        let refused = shop.env.run(&["run", file, "--yes"]);
        assert_eq!(refused.code, Some(4), "{refused}");
        assert!(refused.says(why), "{refused}");
    }
    // From stdin it is the same.
    let piped = shop.env.run_with(&["run", "-", "--yes=3"], text.as_bytes());
    assert_eq!(piped.code, Some(0), "{piped}");
    assert_eq!(shop.lying("orders").len(), 3);
}

#[test]
fn equal_letters_are_sent_once_with_dedupe() {
    let shop = Shop::new();
    let one = letter(Some("A".to_owned()), 1);
    shop.bury(&[one.clone(), one.clone(), letter(Some("A".to_owned()), 2), one]);
    let run = shop.line("run orders --limit all --dedupe --reason x --yes -o json");
    let counts = &run.json()["counts"];
    assert_eq!((&counts["moved"], &counts["skipped"]), (&2.into(), &2.into()), "{run}");
    assert_eq!(shop.lying("orders").len(), 2);
    assert!(shop.lying("orders.dlq").is_empty());
}

#[test]
fn a_selection_is_sent_by_the_flags_that_it_was_frozen_with() {
    let shop = Shop::with(&super::SHOP.replace("dedup_window: 7d", "dedup_window: 1s"));
    let one = letter(Some("A".to_owned()), 1);
    shop.bury(&[one.clone(), one.clone(), letter(Some("A".to_owned()), 2), one]);
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    // Without the window's flag all are too old, and the same manifest sends none.
    let plain = shop.line("select orders --limit all --out plain.jsonl --reason x").ok();
    assert!(plain.says("4 of them (1 group) would be skipped: older than dedup_window"), "{plain}");
    assert_eq!(shop.line("run plain.jsonl --yes").code, Some(11));
    let frozen = std::fs::read_to_string(shop.env.path("plain.jsonl")).unwrap();
    assert!(!frozen.contains("judged"), "a head without such flags is as it was: {frozen}");
    let select = "select orders --limit all --dedupe --past-dedup-window --out m.jsonl --reason x -o json";
    let next = shop.line(&format!("{select} --ledger ledger.db")).ok().json()["next"].clone();
    let next: Vec<&str> = next.as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    let dry = shop.env.run(&next[1..]).ok();
    assert!(dry.says("send      2 letters") || dry.says("send      2 of 4 letters"), "{dry}");
    assert!(dry.says("settle      2 unsent"), "{dry}");
    assert!(dry.says("m.jsonl was frozen with --dedupe --past-dedup-window."), "{dry}");
    assert!(next.ends_with(&["--ledger", "ledger.db", "--dry-run"]), "{next:?}");
    let run = shop.line("run m.jsonl --yes -o json");
    let counts = &run.json()["counts"];
    assert_eq!((&counts["moved"], &counts["skipped"]), (&2.into(), &2.into()), "{run}");
    let bodies: Vec<String> = shop.lying("orders").into_iter().map(|lying| lying.body).collect();
    assert_eq!(bodies, ["{\"n\":1}", "{\"n\":2}"]);
    assert!(shop.lying("orders.dlq").is_empty());
}

#[test]
fn a_protected_broker_is_named_or_left_alone() {
    let shop = Shop::new();
    shop.bury_many(2);
    shop.env.topology(&super::SHOP.replace("redrive.db\"}", "redrive.db\", protected: true}"));
    let refused = shop.line("run orders --limit all --reason x --yes");
    assert_eq!(refused.code, Some(4), "{refused}");
    assert!(refused.says("local is protected; name it on the line"), "{refused}");
    let _ = shop.line("run orders --limit all --dry-run").ok();
    assert_eq!(shop.lying("orders.dlq").len(), 2);
    let _ = shop.line("run orders --limit all --reason x --yes --broker local").ok();
}

#[test]
fn events_are_lines_of_json() {
    let shop = Shop::new();
    shop.bury_many(3);
    let _ = shop.line("run orders --limit all --reason x --yes --events e.jsonl").ok();
    let text = std::fs::read_to_string(shop.env.path("e.jsonl")).unwrap();
    let events: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["event"], "started");
    assert_eq!(events.iter().filter(|event| event["event"] == "moved").count(), 3);
    assert_eq!(events.last().unwrap()["event"], "ended");
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index as u64 + 1);
        assert_eq!(event["schema"], "redrive.event.v1");
    }
}

#[test]
fn events_on_stdout_are_all_that_is_there() {
    let shop = Shop::new();
    shop.bury_many(3);
    let run = shop.line("run orders --limit all --reason x --yes --events -").ok();
    let events: Vec<serde_json::Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.first().unwrap()["event"], "started");
    assert_eq!(events.last().unwrap()["event"], "ended");
    assert!(run.err.contains("done: 3 of 3 moved"), "{run}");
}

#[test]
fn events_that_cannot_be_written_are_missed_aloud() {
    let shop = Shop::new();
    shop.bury_many(3);
    let run = shop.line("run orders --limit all --reason x --yes --events /dev/full").ok();
    let said = "Events end here, the run goes on: could not write to /dev/full: No space left";
    assert!(run.err.contains(said), "{run}");
    assert_eq!(shop.lying("orders").len(), 3);
}

#[test]
fn a_conflict_is_named_as_one() {
    let shop = Shop::new();
    let mut other = letter(Some("C-2".to_owned()), 1);
    other.body = Some("{\"n\":\"another\"}".into());
    shop.bury(&[letter(Some("C-1".to_owned()), 1), other, letter(Some("C-3".to_owned()), 3)]);
    shop.bury(&[letter(Some("C-4".to_owned()), 4)]);
    let run = shop.line("run orders --limit all --reason x --yes");
    assert_eq!(run.code, Some(11), "{run}");
    let shown = shop.line(&format!("runs show {}", shop.latest())).ok();
    assert!(shown.out.contains("with an event id that another body has too"), "{shown}");
    assert!(!shown.out.contains("behind"), "{shown}");
}

#[test]
fn what_a_dry_run_says_to_type_is_whole() {
    let shop = Shop::new();
    shop.bury_many(3);
    let dry = shop.line("run orders --limit 2 --dry-run").ok();
    assert!(dry.err.contains("next  redrive run orders --limit 2 --reason TEXT"), "{dry}");
}

#[test]
fn an_empty_run_id_is_no_run_and_every_manifest_can_be_run_as_said() {
    let shop = Shop::new();
    shop.bury_many(3);
    let _ = shop.line("run orders --limit 1 --reason x --yes").ok();
    for line in [&["resume", "", "--yes"][..], &["runs", "show", ""], &["runs", "stop", ""]] {
        let run = shop.env.run(line);
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.says("the run's id is empty"), "{run}");
    }
    assert_eq!(shop.line("select orders --limit all --out - --reason x").code, Some(2));
    let select = shop.line("select orders --limit all --out rest --reason x").ok();
    assert!(select.err.contains("next  redrive run ./rest --dry-run"), "{select}");
    let _ = shop.line("run ./rest --yes").ok();
    assert_eq!(shop.lying("orders").len(), 3);
}

#[test]
fn a_url_whose_variable_is_not_set_names_the_variable() {
    let shop = Shop::with(SHOP);
    shop.env.topology(&SHOP.replace("sqlite:redrive.db", "${NOT_SET_HERE}"));
    for line in ["inspect orders", "run orders --limit 1 --dry-run", "plan", "show orders m1"] {
        let run = shop.line(line);
        assert_eq!(run.code, Some(1), "{line}: {run}");
        assert!(run.says("NOT_SET_HERE"), "{line}: {run}");
    }
}

#[test]
fn a_run_that_was_killed_is_counted_by_its_letters() {
    let shop = Shop::new();
    shop.bury_many(200);
    let mut child = shop
        .env
        .command(&["run", "orders", "--limit", "all", "--rate", "150/s", "--reason", "x", "--yes"])
        .arg("--without-transactions")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while shop.lying("orders").len() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let sent = shop.lying("orders").len() as u64;
    let shown = shop.line(&format!("runs show {} -o json", shop.latest())).ok().json();
    let of = |name: &str| shown["counts"][name].as_u64().unwrap();
    assert_eq!(shown["state"], "died");
    assert!(of("moved") <= sent && sent <= of("moved") + of("in_doubt"), "{sent} sent: {}", shown["counts"]);
    assert_eq!(of("moved") + of("in_doubt") + of("untouched"), 200, "{}", shown["counts"]);
    assert_eq!(shop.line("runs list -o json").ok().json()["runs"][0]["counts"], shown["counts"]);
}

#[test]
fn o04_there_is_no_csv_and_json_lines_keep_what_a_spreadsheet_would_run() {
    let shop = Shop::new();
    let keys = ["=1+1", "+44123", "-5", "@x", "\tx", "a \"q\"\r\nb"];
    for (n, key) in keys.iter().enumerate() {
        let mut formula = letter(Some((*key).to_owned()), n);
        formula.headers.push("note", Value::from_text("=cmd|' /C calc'!A0"));
        shop.bury(&[formula]);
    }
    let csv = shop.line("inspect orders --letters -o csv");
    assert_eq!(csv.code, Some(2), "{csv}");
    // The lossless form is JSON lines, and what comes of it is what went in.
    let _ = shop.line("select orders --limit all --out m.jsonl --reason INC-1").ok();
    let frozen = std::fs::read_to_string(shop.env.path("m.jsonl")).unwrap();
    let groups: Vec<String> = frozen
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["group"].as_str().map(str::to_owned)
        })
        .collect();
    assert_eq!(groups, keys);
    // A table that somebody exported by hand is no manifest.
    shop.env.write("letters.csv", "LETTER,GROUP\nm1,'=1+1\n");
    let refused = shop.line("run ./letters.csv --yes");
    assert_eq!(refused.code, Some(4), "{refused}");
    let _ = shop.line("run m.jsonl --rate 1000/s --yes").ok();
    let arrived: Vec<String> = shop.lying("orders").into_iter().map(|lying| lying.key.unwrap()).collect();
    assert_eq!(arrived, keys);
}

#[test]
fn a_dry_run_promises_no_run_that_cannot_begin() {
    let shop = Shop::new();
    shop.bury_many(3);
    shop.env.topology(&SHOP.replace("source: orders\n", "source: lost\n"));
    let line = "run orders --limit all --any-origin --reason x";
    let dry = shop.line(&format!("{line} --dry-run")).exits(1);
    assert!(dry.err.contains("error: local could not open lost: no queue `lost` in redrive.db"), "{dry}");
    let run = shop.line(&format!("{line} --yes")).exits(1);
    assert!(run.err.contains("no queue `lost` in redrive.db"), "{run}");
    assert_eq!(dry.err.lines().last(), Some("next  redrive plan"), "{dry}");
}

#[test]
fn nobody_is_asked_about_a_run_that_cannot_begin() {
    let shop = Shop::new();
    shop.bury_many(3);
    let words = ["run", "orders", "--limit", "all", "--any-origin", "--reason", "x"];
    shop.env.topology(&SHOP.replace("source: orders\n", "source: lost\n"));
    let run = shop.env.answer(&words, "y\n").exits(1);
    assert!(run.err.contains("no queue `lost` in redrive.db\n  Nothing was sent.\n"), "{run}");
    assert!(!run.err.contains("[y/N]"), "{run}");
    // Nothing of it is on record, and of one that stopped a resume is not asked about either.
    assert!(shop.line("runs list").ok().err.contains("No runs"), "{run}");
    shop.env.topology(SHOP);
    let line = "run orders --limit all --rate 1000/s --reason x --yes";
    let line: Vec<&str> = line.split(' ').collect();
    let killed = shop.env.command(&line).env("REDRIVE_FAILPOINT", "begun").output().unwrap();
    assert_eq!(killed.status.code(), None);
    let db = rusqlite::Connection::open(shop.path()).unwrap();
    db.execute("DELETE FROM queue WHERE name = 'orders'", []).unwrap();
    let run = shop.latest();
    let resumed = shop.env.answer(&["resume", &run], "y\n").exits(1);
    assert!(resumed.err.contains("no queue `orders` in redrive.db\n  Nothing was sent.\n"), "{resumed}");
    assert!(!resumed.err.contains("[y/N]"), "{resumed}");
}

#[test]
fn what_looks_like_an_option_can_be_pasted_and_one_letter_is_one() {
    let shop = Shop::new();
    // A rate lets two go at once.
    shop.bury_many(4);
    let select = shop.env.run(&["select", "orders", "--limit", "2", "--out=-x.jsonl", "--reason", "x"]).ok();
    assert!(select.err.contains("next  redrive run ./-x.jsonl --dry-run\n"), "{select}");
    let _ = shop.line("run ./-x.jsonl --dry-run").ok();
    std::fs::copy(shop.env.path("redrive.yaml"), shop.env.path("-t.yaml")).unwrap();
    let status = shop.env.run(&["status", "--file=-t.yaml"]).ok();
    assert!(status.err.ends_with("next  redrive inspect orders --file=-t.yaml\n"), "{status}");
    let _ = shop.env.run(&["inspect", "orders", "--file=-t.yaml"]).ok();
    let ledger = shop.env.run(&["run", "orders", "--limit", "1", "--ledger=-l.db", "--dry-run"]).ok();
    assert!(ledger.err.contains(" --ledger=-l.db"), "{ledger}");
    let _ = shop.line("run orders --limit 1 --reason y --yes").ok();
    let stale = shop.line("run ./-x.jsonl --yes").exits(4);
    assert!(stale.says("1 of 2 letters is gone"), "{stale}");
    let line = ["run", "orders", "--limit", "all", "--rate", "1/m", "--reason", "z", "--yes"];
    let child = shop.env.command(&line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while shop.lying("orders").len() < 3 && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let stopped =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("The 1 untouched letter is as it was. To go on:"), "{told}");
}

#[test]
fn what_is_not_known_of_runs_is_not_guessed_and_no_list_is_cut_in_silence() {
    let shop = Shop::new();
    shop.bury_many(4);
    for _ in 0..2 {
        let _ = shop.line("run orders --limit 1 --reason x --yes").ok();
    }
    let status = shop.line("status").ok();
    assert!(status.err.contains("2 moved by runs, 0 re-failed before their run ended."), "{status}");
    let ledger = rusqlite::Connection::open(shop.env.path("ledger.db")).unwrap();
    assert_eq!(ledger.execute("UPDATE runs SET refailed = NULL WHERE n = 1", []).unwrap(), 1);
    let status = shop.line("status").ok();
    assert!(status.err.contains("2 moved by runs, how many re-failed is not known."), "{status}");
    let json = shop.line("status -o json").ok().json();
    assert!(json["channels"][0]["past_hour"]["refailed"].is_null(), "{json}");
    let list = shop.line("runs list --limit 1").ok();
    assert!(list.err.contains("note  The latest 1 shown, there are more (--limit N).\n"), "{list}");
    assert_eq!(shop.line("runs list --limit 1 -o json").ok().json()["more"], true);
    let whole = shop.line("runs list --limit 2").ok();
    assert!(!whole.err.contains("there are more"), "{whole}");
    assert_eq!(shop.line("runs list -o json").ok().json()["more"], false);
}
