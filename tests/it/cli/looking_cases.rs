//! Looking at hostile, large, old and missing things; `status` and `alert`.

use bytes::Bytes;
use redrive::letter::{Message, Value};

use super::TestEnv;
use super::looking::{TOPOLOGY, bury, empty, letter, night, raw_body};

#[test]
fn o01_nothing_from_a_message_reaches_the_terminal_unescaped() {
    let env = empty();
    let evil = "\u{1b}[2J\u{1b}]52;c;aGk=\u{7}\u{9b}31m\u{202e}x\ry\0\u{1b}]8;;http://x\u{1b}\\";
    let mut hostile = letter(1, evil, evil, evil);
    hostile.headers.replace("event-id", Value::from_text(evil));
    hostile.headers.push(evil, Value::from_text(evil));
    hostile.body = Some(Bytes::copy_from_slice(evil.as_bytes()));
    bury(&env, "2026-11-30T02:03:59Z", &[hostile]);
    let lines = [
        "inspect orders",
        "inspect orders --full",
        "inspect orders --letters",
        "inspect orders --by group",
        "inspect orders --by message",
        "inspect orders -o json",
        "inspect orders --letters -o jsonl",
        "show orders m1",
        "show orders m1 --full --why",
        "show orders m1 -o json",
        "status",
    ];
    for line in lines {
        let run = env.line(line).ok();
        for text in [&run.out, &run.err] {
            let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!text.contains(bad), "{line}: {text:?}");
        }
        assert!(
            !run.err.contains("next") || run.err.lines().last().unwrap().starts_with("next  redrive "),
            "{run}"
        );
    }
}

#[test]
fn o03_wide_characters_and_line_breaks_keep_one_row_each() {
    let env = empty();
    let messages: Vec<Message> = ["ascii", "東京", "👍👍", "e\u{301}", "tab\there", "one\ntwo\nthree"]
        .iter()
        .zip(1..)
        .map(|(text, n)| letter(n, text, "E", text))
        .collect();
    bury(&env, "2026-11-30T02:03:59Z", &messages);
    let run = env.line("inspect orders --letters").ok();
    assert_eq!(run.out.lines().count(), 7);
    let widths: Vec<usize> = run.out.lines().skip(1).map(redrive::render::width).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{run}");
}

#[test]
fn o05_a_reader_that_leaves_early_is_no_trouble() {
    let env = empty();
    for part in (0..10_000).collect::<Vec<u32>>().chunks(2_500) {
        let messages: Vec<Message> = part.iter().map(|n| letter(*n, "C-1", "E", "no")).collect();
        bury(&env, "2026-11-30T02:03:59Z", &messages);
    }
    let mut child = env.start(&["inspect", "orders", "--letters", "--limit", "all", "-o", "jsonl"]);
    let mut first = [0; 20];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn o08_a_large_letter_is_listed_by_its_size_and_shown_by_its_beginning() {
    let env = empty();
    let mut large = letter(1, "C-1", "E", "no");
    large.body = Some(Bytes::from(vec![b'x'; 12_110_282]));
    large.headers.push("big", Value::from_text("h".repeat(1 << 20)));
    bury(&env, "2026-11-30T02:03:59Z", &[large, letter(2, "C-1", "E", "no")]);
    let list = env.line("inspect orders --letters").ok();
    assert!(list.out.contains("12.5 MiB") && list.out.len() < 1_000, "{list}");
    let shown = env.line("show orders m1").ok();
    assert!(
        shown.out.contains("body, 11.5 MiB, text") && shown.out.contains("11.5 MiB more (--full)"),
        "{shown}"
    );
    assert!(shown.out.contains("1.0 MiB") && shown.out.len() < 10_000);
    assert_eq!(raw_body(&env, "m1").len(), 12_110_282);
}

#[test]
fn k13_what_is_past_retention_is_said() {
    let env = night();
    let mut later = env;
    later.at("2026-12-01T08:30:00Z");
    let run = later.line("inspect orders").ok();
    assert!(
        run.err.contains("2 letters of 2e07aa are already past retention: they can go at any moment."),
        "{run}"
    );
    let shown = later.line("show orders m1").ok();
    assert!(shown.out.contains("expires    already past retention, since 2026-12-01 08:02Z"), "{shown}");
    later.at("2026-12-01T07:02:00Z");
    assert!(later.line("show orders m1").ok().out.contains("expires    2026-12-01 08:02Z, in 1h"));
}

#[test]
fn s25_retention_left_is_told_as_the_broker_counts_it() {
    let env = empty();
    bury(&env, "2026-11-16T07:12:08Z", &[letter(1, "C-1", "E", "no")]);
    bury(&env, "2026-11-30T02:12:08Z", &[letter(2, "C-1", "E", "no")]);
    assert!(env.line("show orders m1").ok().out.contains("expires    2026-11-30 07:12Z, in 4h\n"));
    assert!(env.line("show orders m2").ok().out.contains("expires    2026-12-14 02:12Z, in 13d 23h\n"));
}

#[test]
fn k36_looking_creates_nothing() {
    let env = TestEnv::new();
    env.topology(TOPOLOGY);
    for line in ["inspect orders", "show orders m1", "status", "alert"] {
        let run = env.line(line);
        assert!(!env.path("redrive.db").exists(), "{line}: {run}");
    }
    insta::assert_snapshot!(env.line("inspect orders"), @r"
    --- stderr
    error: local could not open redrive.db: there is no such file yet
    next  redrive apply --broker local
    [1]
    ");
    let env = night();
    let before = env.line("status -o json").ok().json();
    for line in ["inspect orders", "inspect orders --letters", "show orders m1", "alert"] {
        let _ = env.line(line);
    }
    assert_eq!(
        env.line("status -o json").ok().json()["channels"][0]["dead_letter"],
        before["channels"][0]["dead_letter"]
    );
}

#[test]
fn status_counts_every_queue_and_remembers_the_last_look() {
    let mut env = night();
    let state = env.path("state").display().to_string();
    env.set("XDG_STATE_HOME", &state);
    insta::assert_snapshot!(env.line("status orders").ok(), @r"
    orders · local · owner team-orders · 2026-11-30 03:12Z
    WAITING  OLDEST   EXPIRES  QUEUE
          0  -        -        orders
          0  -        -        orders.retry-5s, orders.retry-1m, orders.retry-10m
          7  12d 19h  1d 4h    orders.dlq, over its alert (2 letters, 15m)
    --- stderr
    note  The oldest letter of orders.dlq expires at 2026-12-01 08:02Z.
    next  redrive inspect orders
    ");
    bury(&env, "2026-11-30T04:00:00Z", &[letter(50, "C-9", "E", "no")]);
    env.at("2026-11-30T04:12:00Z");
    insta::assert_snapshot!(env.line("status orders").ok(), @r"
    orders · local · owner team-orders · 2026-11-30 04:12Z
    WAITING  OLDEST   PAST 1H  EXPIRES  QUEUE
          0  -              -  -        orders
          0  -              -  -        orders.retry-5s, orders.retry-1m, orders.retry-10m
          8  12d 20h       +1  1d 3h    orders.dlq, over its alert (2 letters, 15m)
    --- stderr
    note  The oldest letter of orders.dlq expires at 2026-12-01 08:02Z.
    next  redrive inspect orders
    ");
    let file = env.path("state/redrive/looks.json");
    let mode = |path: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    std::fs::write(&file, "{\"queues\": 3}").unwrap();
    assert_eq!(
        env.line("status orders -o json").ok().json()["channels"][0]["growth"],
        serde_json::Value::Null
    );
}

#[test]
fn alert_exits_13_over_a_threshold_in_every_form() {
    let env = empty();
    insta::assert_snapshot!(env.line("alert").ok(), @r"
    STATE  WAITING  OLDEST  ALERT AT        OWNER        QUEUE
    ok           0  -       2 letters, 15m  team-orders  orders.dlq on local
    ");
    assert!(env.line("alert --as nagios").ok().out.starts_with("OK - "));
    let env = night();
    insta::assert_snapshot!(env.line("alert"), @r"
    STATE  WAITING  OLDEST   ALERT AT        OWNER        QUEUE
    over         7  12d 19h  2 letters, 15m  team-orders  orders.dlq on local
    --- stderr
    next  redrive inspect orders
    [13]
    ");
    insta::assert_snapshot!(env.line("alert --as nagios"), @r"
    CRITICAL - orders.dlq 7 letters, oldest 12d 19h | orders=7;;2 orders_age=1105808s;;900
    [13]
    ");
    insta::assert_snapshot!(env.line("alert orders --as prometheus"), @r#"
    # HELP redrive_dead_letters Letters in the dead-letter queue.
    # TYPE redrive_dead_letters gauge
    redrive_dead_letters{channel="orders",broker="local",queue="orders.dlq"} 7
    # HELP redrive_dead_letter_oldest_age_seconds Age of the oldest letter, where it is known.
    # TYPE redrive_dead_letter_oldest_age_seconds gauge
    redrive_dead_letter_oldest_age_seconds{channel="orders",broker="local",queue="orders.dlq"} 1105808
    # HELP redrive_dead_letter_oldest_expires_seconds Retention left of the oldest letter.
    # TYPE redrive_dead_letter_oldest_expires_seconds gauge
    redrive_dead_letter_oldest_expires_seconds{channel="orders",broker="local",queue="orders.dlq"} 103792
    # HELP redrive_dead_letter_alert 1 if a threshold of dead_letter.alert is crossed.
    # TYPE redrive_dead_letter_alert gauge
    redrive_dead_letter_alert{channel="orders",broker="local",queue="orders.dlq"} 1
    [13]
    "#);
    let json = env.line("alert -o json").exits(13).json();
    assert_eq!((&json["over"], &json["channels"][0]["alert"]["state"]), (&true.into(), &"over".into()));
}

#[test]
fn a_queue_or_file_that_is_not_there_is_unknown_to_a_monitor_never_ok() {
    let env = TestEnv::new();
    env.topology(TOPOLOGY);
    let why = "orders.dlq on local is not there";
    let check = |env: &TestEnv| {
        let plain = env.line("alert").exits(1);
        assert!(plain.out.contains("\nunknown        -  -"), "{plain}");
        assert!(plain.err.contains(why) && plain.err.contains("next  redrive plan\n"), "{plain}");
        let nagios = env.line("alert --as nagios").exits(1);
        assert_eq!(nagios.out, format!("UNKNOWN - {why} | orders=U;;2\n"), "{nagios}");
        let prometheus = env.line("alert --as prometheus").exits(1);
        assert!(prometheus.out.lines().all(|line| line.starts_with('#')), "{prometheus}");
        for (line, exit) in [("alert -o json", 1), ("status -o json", 0)] {
            let json = env.line(line).exits(exit).json();
            let channel = &json["channels"][0];
            assert_eq!(channel["alert"]["state"], "unknown", "{json}");
            let dead = &channel["dead_letter"];
            assert_eq!(dead["exists"], false, "{json}");
            assert!(dead["waiting"].is_null() && dead["counted"].is_null(), "{json}");
        }
        assert!(env.line("status").ok().out.contains("orders.dlq, not there"));
    };
    check(&env);
    let _ = env.line("apply --yes").ok();
    assert!(env.line("alert --as nagios").ok().out.starts_with("OK - "));
    env.topology(&TOPOLOGY.replace("orders.dlq", "orders.dlq2"));
    let wrong = env.line("alert --as nagios").exits(1);
    assert_eq!(wrong.out, "UNKNOWN - orders.dlq2 on local is not there | orders=U;;2\n", "{wrong}");
}

#[test]
fn a_broker_that_cannot_be_asked_is_unknown_beside_one_that_is_well() {
    let env = empty();
    let two = TOPOLOGY.replace("db\"}}", "db\"}, lost: {url: \"sqlite:lost.db\"}}");
    let lost = "  lost:\n    broker: lost\n    source: lost\n    event_id: {header: event-id}\n    \
                dead_letter: {name: lost.dlq, alert: {depth: 1}}\n";
    env.topology(&format!("{two}{lost}").replace("    owner:", "    broker: local\n    owner:"));
    std::fs::write(env.path("lost.db"), "no database at all, but long enough to be read as one".repeat(9))
        .unwrap();
    let nagios = env.line("alert --as nagios").exits(1);
    assert!(nagios.out.starts_with("UNKNOWN - lost could not "), "{nagios}");
}

#[test]
fn letters_that_a_list_leaves_out_are_told_of_in_every_form() {
    let env = empty();
    let messages: Vec<Message> = (0..60).map(|n| letter(n, "C-1", "E", "no")).collect();
    bury(&env, "2026-11-30T02:03:59Z", &messages);
    let told = "note  50 of 60 letters listed, the others left out (--limit all).\n";
    let lines = env.line("inspect orders --letters -o jsonl").ok();
    assert_eq!((lines.out.lines().count(), lines.err.as_str()), (50, told), "{}", lines.err);
    let json = env.line("inspect orders --letters -o json").ok().json();
    assert_eq!(json["notes"][0], serde_json::json!({"code": "listed", "shown": 50, "of": 60}));
    let all = env.line("inspect orders --letters --limit all -o jsonl").ok();
    assert_eq!((all.out.lines().count(), all.err.as_str()), (60, ""), "{}", all.err);
}

#[test]
fn letters_stand_in_the_order_of_the_queue_when_a_clock_went_back() {
    let env = empty();
    bury(&env, "2026-11-30T02:03:59Z", &[letter(1, "C-1", "E", "no")]);
    bury(&env, "2026-11-30T01:58:59Z", &[letter(2, "C-1", "E", "no")]);
    let db = rusqlite::Connection::open(env.path("redrive.db")).unwrap();
    let back = "UPDATE letter SET headers = replace(headers, '2026-11-30T02:03:58Z', '2026-11-30T01:00:00Z') WHERE id = 2";
    assert_eq!(db.execute(back, []).unwrap(), 1);
    let listed = env.line("inspect orders --letters -o json").ok().json();
    assert_eq!(
        (&listed["letters"][0]["letter"], &listed["letters"][1]["letter"]),
        (&"m1".into(), &"m2".into())
    );
    let first = env.line("inspect orders --letters --limit 1 -o jsonl").ok().json();
    assert_eq!(first["letter"], "m1");
    let _ = env.line("select orders --limit all --out all.jsonl --reason x").ok();
    let frozen = std::fs::read_to_string(env.path("all.jsonl")).unwrap();
    assert!(frozen.lines().nth(1).unwrap().contains("\"m1\""), "{frozen}");
}
