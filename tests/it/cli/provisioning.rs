//! `plan` and `apply` on the embedded broker: what is shown, refused, made and proven.

use super::TestEnv;

const SHOP: &str = "\
version: 1
brokers:
  local: {url: \"sqlite:redrive.db\"}
channels:
  orders:
    source: orders
    group: key
    retry: {tiers: [{delay: 5s}, {delay: 1m}]}
    dead_letter: {name: orders.dlq, retention: 14d}
";

fn shop() -> TestEnv {
    let env = TestEnv::new();
    env.topology(SHOP);
    env
}

/// Twice over: letters of two ages in the dead-letter queue.
fn with_letters(env: &mut TestEnv) {
    let _ = env.line("apply --yes").ok();
    env.at("2026-11-20T03:00:00Z");
    for n in 0..3 {
        let _ = env.run(&["dev", "send", "orders.dlq", "--body", &format!("old {n}")]).ok();
    }
    env.at(super::env::NOW);
    let _ = env.line("dev send orders.dlq --body new").ok();
}

#[test]
fn a_plan_shows_what_is_missing_and_creates_nothing() {
    let env = shop();
    insta::assert_snapshot!(env.line("plan"), @r"
    local · redrive.db · 2026-11-30 03:12Z

    + create  orders
    + create  orders.retry-5s  waits 5s, returns to orders
    + create  orders.retry-1m  waits 1m, returns to orders
    + create  orders.dlq       kept 14d

    4 to create
    --- stderr
    next  redrive apply
    ");
    let _ = env.line("plan --check").exits(10);
    assert!(!env.path("redrive.db").exists(), "a plan made a file");
}

#[test]
fn apply_makes_and_proves_and_a_second_time_does_nothing() {
    let env = shop();
    insta::assert_snapshot!(env.line("apply --yes=4"), @r"
    local · redrive.db · 2026-11-30 03:12Z

    + create  orders
    + create  orders.retry-5s  waits 5s, returns to orders
    + create  orders.retry-1m  waits 1m, returns to orders
    + create  orders.dlq       kept 14d

    4 to create
      created  orders           0.0s
      created  orders.retry-5s  0.0s
      created  orders.retry-1m  0.0s
      created  orders.dlq       0.0s
    Proof: planned again, nothing left to change.
    ");
    insta::assert_snapshot!(env.line("apply"), @r"
    local · redrive.db · 2026-11-30 03:12Z

    = keep  orders
    = keep  orders.retry-5s
    = keep  orders.retry-1m
    = keep  orders.dlq

    nothing to change, 4 kept
    ");
    let _ = env.line("plan --check").ok();
}

#[test]
fn without_a_terminal_apply_names_the_flag_and_makes_nothing() {
    let env = shop();
    let run = env.line("apply").exits(4);
    insta::assert_snapshot!(run.err, @r"
    refused: no terminal to ask at; nothing was applied. If 4 changes are right:
    next  redrive apply --yes=4
    ");
    let run = env.line("apply --yes=5").exits(4);
    insta::assert_snapshot!(run.err, @r"
    refused: --yes=5, but there are 4 changes now; nothing was applied.
    next  redrive apply --yes=4
    ");
    assert!(!env.path("redrive.db").exists());
}

#[test]
fn every_property_is_shown_from_to() {
    let env = shop();
    let _ = env.line("apply --yes").ok();
    env.topology(&SHOP.replace("{delay: 1m}", "{delay: 2m}").replace("14d", "21d"));
    insta::assert_snapshot!(env.line("plan"), @r"
    local · redrive.db · 2026-11-30 03:12Z

    ~ change      orders           retries  orders.retry-5s, orders.retry-1m → orders.retry-5s,
                                     orders.retry-2m
    = keep        orders.retry-5s
    + create      orders.retry-2m  waits 2m, returns to orders
    ~ change      orders.dlq       retention  14d → 21d
    ? undeclared  orders.retry-1m  empty; redrive deletes nothing that it does not declare

    1 to create, 2 to change, 1 kept, 1 undeclared
    --- stderr
    next  redrive apply
    ");
    let _ = env.line("apply --yes").ok();
    insta::assert_snapshot!(env.line("plan").ok().out, @r"
    local · redrive.db · 2026-11-30 03:12Z

    = keep        orders
    = keep        orders.retry-5s
    = keep        orders.retry-2m
    = keep        orders.dlq
    ? undeclared  orders.retry-1m  empty; redrive deletes nothing that it does not declare

    nothing to change, 4 kept, 1 undeclared
    ");
}

#[test]
fn a_change_that_loses_letters_is_refused_counted_and_can_be_typed_out() {
    let mut env = shop();
    with_letters(&mut env);
    env.topology(&SHOP.replace("14d", "7d"));
    insta::assert_snapshot!(env.line("plan"), @r"
    local · redrive.db · 2026-11-30 03:12Z

    = keep     orders
    = keep     orders.retry-5s
    = keep     orders.retry-1m
    x refused  orders.dlq       retention  14d → 7d: 3 of 4 letters are older and would be lost

    1 refused, 3 kept
    --- stderr
    note  To keep the 3 letters set retention: 14d at redrive.yaml:9. To accept the loss:
    next  redrive apply --accept-loss=orders.dlq --reason TEXT
    ");
    let _ = env.line("plan --check").exits(4);
    insta::assert_snapshot!(env.line("apply --yes").exits(4).err, @r"
    refused: 1 change can lose messages: orders.dlq retention 14d → 7d, 3 of 4 letters are older and would be lost
      To keep the 3 letters set retention: 14d at redrive.yaml:9. To accept the loss:
    next  redrive apply --accept-loss=orders.dlq --reason TEXT
    ");
    insta::assert_snapshot!(env.line("apply --yes --accept-loss=orders.dlq"), @r"
    --- stderr
    error: --accept-loss needs a --reason
    next  redrive apply --accept-loss=orders.dlq --reason TEXT
    [2]
    ");
    insta::assert_snapshot!(env.line("apply --yes --accept-loss=orders.dlq --reason PAY-310"), @r"
    local · redrive.db · 2026-11-30 03:12Z

    = keep    orders
    = keep    orders.retry-5s
    = keep    orders.retry-1m
    ~ change  orders.dlq       retention  14d → 7d: loses 3 letters (--accept-loss)

    1 to change, 3 kept
      changed  orders.dlq  0.0s
    Proof: planned again, nothing left to change.
    ");
    assert_eq!(env.line("dev receive orders.dlq --max 9 -o jsonl").ok().out.lines().count(), 1);
}

#[test]
fn plans_and_applies_as_data() {
    let mut env = shop();
    let plan = env.line("plan -o json").ok();
    assert_eq!(plan.err, "");
    let json = plan.json();
    assert_eq!(json["schema"], "redrive.plan.v1");
    assert_eq!(json["plans"][0]["counts"]["create"], 4);
    assert_eq!(json["next"], serde_json::json!(["redrive", "apply"]));
    let json = env.line("apply --yes -o json").ok().json();
    assert_eq!(json["schema"], "redrive.apply.v1");
    assert_eq!(json["by"], "mira@ops-2");
    assert_eq!(json["applied"][0]["made"].as_array().unwrap().len(), 4);
    assert_eq!(json["applied"][0]["proven"], true);
    with_letters(&mut env);
    env.topology(&SHOP.replace("14d", "7d"));
    let json = env.line("plan -o json").ok().json();
    let refused = json["plans"][0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["change"] == "refused")
        .unwrap()
        .clone();
    assert_eq!(refused["refusal"]["loses"], 3);
    assert!(json["next"].as_array().unwrap().contains(&"--accept-loss=orders.dlq".into()));
}

#[test]
fn a_protected_broker_is_changed_only_by_a_line_that_names_it() {
    let mut env = TestEnv::new();
    env.topology(&SHOP.replace("redrive.db\"}", "redrive.db\", protected: true}"));
    let _ = env.line("plan").ok();
    insta::assert_snapshot!(env.line("apply --yes"), @r"
    --- stderr
    refused: local is protected; name it on the line to change anything
    next  redrive apply --broker local
    [4]
    ");
    env.set("REDRIVE_BROKER", "local");
    let _ = env.line("apply --yes").exits(4);
    assert!(!env.path("redrive.db").exists());
    let _ = env.line("apply --yes --broker local").ok();
    let _ = env.line("dev send orders --body x").exits(4);
}

#[test]
fn the_broker_is_named_when_nothing_chooses_one() {
    let env = TestEnv::new();
    let two = SHOP.replace("channels:", "  other: {url: \"sqlite:other.db\"}\nchannels:");
    env.topology(&two);
    insta::assert_snapshot!(env.line("plan"), @r"
    --- stderr
    error: no broker chosen for orders
      Name one with --broker, or as default_broker in redrive.yaml: local, other
    next  redrive plan --help
    [2]
    ");
    let checked = env.line("check").ok();
    assert!(checked.says("warning[RD0131]: channel `orders` does not say its broker"), "{checked}");
    assert!(env.line("plan --broker other").ok().out.starts_with("other · other.db"));
    env.topology(&two.replace("version: 1", "version: 1\ndefault_broker: local"));
    insta::assert_snapshot!(env.line("plan --broker othr"), @r"
    --- stderr
    error: --broker: no broker othr in redrive.yaml; near: other
      There: local, other
    next  redrive plan --help
    [2]
    ");
    let run = env.line("plan --broker other").ok();
    assert!(run.out.starts_with("other · other.db"), "{run}");
}

#[test]
fn applied_by_half_and_killed_apply_completes() {
    use std::process::Stdio;
    let env = shop();
    let many: String = (0..40).map(|n| SHOP_CHANNEL.replace("NAME", &format!("c{n}"))).collect();
    env.topology(&format!("{}{many}", SHOP));
    let mut child = env
        .command(&["apply", "--yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Killed as soon as it says that something was created.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    lines.find(|line| line.as_ref().unwrap().trim_start().starts_with("created")).unwrap().unwrap();
    child.kill().unwrap();
    let _ = child.wait().unwrap();
    let json = env.line("plan -o json").ok().json();
    let counts = &json["plans"][0]["counts"];
    let (made, left) = (counts["keep"].as_u64().unwrap(), counts["create"].as_u64().unwrap());
    assert!(made >= 1, "nothing was made before the kill");
    assert_eq!(made + left, 4 + 40 * 2);
    let _ = env.run(&["apply", &format!("--yes={left}")]).ok();
    let _ = env.line("plan --check").ok();
}

const SHOP_CHANNEL: &str = "  NAME: {source: NAME, dead_letter: {name: NAME.dlq}}\n";

#[test]
fn what_changed_between_plan_and_consent_is_refused() {
    let env = shop();
    let other = || drop(env.line("apply --yes").ok());
    let run = env.answer_after(&["apply"], other, "y\n").exits(4);
    insta::assert_snapshot!(run.err, @r"
    Apply 4 changes to local? [y/N] refused: local changed since this plan was made; nothing was applied
    next  redrive plan
    ");
    let _ = env.line("plan --check").ok();
}

#[test]
fn applied_by_half_says_how_far_and_the_next_apply_completes() {
    let mut env = TestEnv::new();
    let ledger = env.path("ledger.db").display().to_string();
    env.set("REDRIVE_LEDGER", &ledger);
    env.topology(&format!(
        "{}{}",
        &SHOP[..SHOP.find("  orders:").unwrap()],
        SHOP_CHANNEL.replace("NAME", "c0")
    ));
    let _ = env.run(&["apply", "--yes", "--reason", "first"]).ok();
    // From now on the broker makes one more queue and then fails.
    let db = rusqlite::Connection::open(env.path("redrive.db")).unwrap();
    db.execute_batch(
        "CREATE TRIGGER full BEFORE INSERT ON queue WHEN NEW.name = 'orders.retry-5s'
         BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
    )
    .unwrap();
    env.topology(SHOP);
    let run = env.line("apply --yes").exits(1);
    insta::assert_snapshot!(run.err, @r"
    Applied 1 of 4: created orders. Then:
    error: local could not make orders.retry-5s: the disk is full (SQLITE 1811)
    next  redrive apply
    ");
    let json: serde_json::Value =
        serde_json::from_str(&env.line("apply --yes -o json").exits(1).err).unwrap();
    assert_eq!(
        (&json["schema"], &json["exit"], &json["next"]),
        (&"redrive.error.v1".into(), &1.into(), &serde_json::json!(["redrive", "apply"]))
    );
    db.execute_batch("DROP TRIGGER full").unwrap();
    let json = env.line("apply --yes -o json").ok().json();
    assert_eq!(
        (&json["applied"][0]["made"][0]["name"], &json["applied"][0]["recorded"]),
        (&"orders.retry-5s".into(), &true.into())
    );
    let _ = env.line("plan --check").ok();
    // All of it is on record, the latest first.
    let rows = env.line("plan --applied").ok();
    assert_eq!(rows.out.lines().count(), 5, "{rows}");
    assert!(rows.out.starts_with("APPLIED            BY          BROKER  STATE"), "{rows}");
    assert!(rows.says("1 of 4: created orders") && rows.says("created c0, created c0.dlq"), "{rows}");
    let json = env.line("plan --applied -o json").ok().json();
    assert_eq!(json["schema"], "redrive.applied.v1");
    assert_eq!(
        (&json["applied"][2]["error"], &json["applied"][3]["reason"]),
        (&"local could not make orders.retry-5s: the disk is full (SQLITE 1811)".into(), &"first".into())
    );
}

#[test]
fn a_ledger_that_cannot_be_written_holds_an_apply_back() {
    let env = shop();
    let _ = env.write("ledger/x", "");
    let run = env.run(&["apply", "--yes", "--ledger", "ledger"]).exits(1);
    assert!(run.says("Nothing was applied."), "{run}");
    assert!(
        !env.path("redrive.db").exists()
            || env.line("plan -o json").ok().json()["plans"][0]["counts"]["create"] == 4
    );
}

#[test]
fn errors_are_data_where_data_is_asked_for() {
    let env = shop();
    let error = |line: &str, code: i32| -> serde_json::Value {
        let run = env.line(line).exits(code);
        assert_eq!(run.out, "", "{line}");
        assert_eq!(run.err.lines().count(), 1, "{run}");
        let json: serde_json::Value = serde_json::from_str(&run.err).unwrap();
        assert_eq!((&json["schema"], &json["exit"]), (&"redrive.error.v1".into(), &code.into()));
        json
    };
    assert_eq!(error("apply -o json", 4)["next"], serde_json::json!(["redrive", "apply", "--yes=4"]));
    assert_eq!(error("inspect nothing -o jsonl", 2)["code"], "usage");
    assert_eq!(error("inspect -o json", 2)["code"], "usage");
    assert_eq!(
        error("inspect orders -o json", 1)["next"],
        serde_json::json!(["redrive", "apply", "--broker", "local"])
    );
    env.topology(&SHOP.replace("14d", "14"));
    let json = error("plan --output=json", 3);
    assert_eq!((&json["code"], &json["problems"][0]["line"]), (&"topology".into(), &9.into()));
}
