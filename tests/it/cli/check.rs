//! `check`: what is printed for a valid file, and for everything that is wrong with one.

use super::TestEnv;

const VALID: &str = "\
version: 1
brokers:
  local: {url: \"sqlite:redrive.db\"}
channels:
  orders:
    source: orders
    owner: team-orders
    group: key
    retry: {tiers: [{delay: 5s}, {delay: 1m}, {delay: 10m}]}
    dead_letter: {name: orders.dlq, retention: 14d, alert: {depth: 1, age: 15m}}
";

const FAULTY: &str = "\
version: 1
brokers:
  local: {url: \"sqlite:redrive.db\"}
channels:
  orders:
    source: orders
    owner: team-orders


    source: orders.v2
    retry:
      tiers:
        - {delay: 5s}
        - {name: retry-1m, delay: 60}
    dead_leter: {name: orders.dlq, retention: 14d}
";

#[test]
fn all_problems_of_a_file_at_once_in_line_order() {
    let env = TestEnv::new();
    env.topology(FAULTY);
    insta::assert_snapshot!(env.line("check"), @r"
    error[RD0104]: `source` is given twice
      --> redrive.yaml:10:5
       |
     6 |     source: orders
       |     ------ first here
    ...
    10 |     source: orders.v2
       |     ^^^^^^ again here
       = help: keep one of the two

    error[RD0103]: `delay` has no unit
      --> redrive.yaml:14:35
       |
    14 |         - {name: retry-1m, delay: 60}
       |                                   ^^ a number alone
       = help: write 60s or 1m

    error[RD0107]: unknown key `dead_leter`
      --> redrive.yaml:15:5
       |
    15 |     dead_leter: {name: orders.dlq, retention: 14d}
       |     ^^^^^^^^^^ not a key of a channel
       = help: did you mean dead_letter?

    redrive.yaml: 3 errors, all shown; no broker was contacted
    --- stderr
    next  redrive explain RD0104
    [3]
    ");
}

#[test]
fn problems_as_data_have_lines_and_columns() {
    let env = TestEnv::new();
    env.topology(FAULTY);
    let run = env.line("check -o json").exits(3);
    let json = run.json();
    assert_eq!(run.err, "");
    assert_eq!(json["schema"], "redrive.check.v1");
    assert_eq!((json["valid"].as_bool(), json["errors"].as_u64()), (Some(false), Some(3)));
    let first = &json["problems"][0];
    assert_eq!(
        (first["code"].as_str(), first["line"].as_u64(), first["column"].as_u64()),
        (Some("RD0104"), Some(10), Some(5))
    );
    assert_eq!(json["next"], serde_json::json!(["redrive", "explain", "RD0104"]));
}

#[test]
fn a_missing_file_says_where_it_was_looked_for() {
    let mut env = TestEnv::new();
    insta::assert_snapshot!(env.line("check"), @r"
    --- stderr
    error: no redrive.yaml in this folder
      Name a topology with -f FILE or REDRIVE_TOPOLOGY. To try redrive without one:
    next  redrive demo
    [2]
    ");
    insta::assert_snapshot!(env.line("check -f other.yaml"), @r"
    --- stderr
    error: could not read other.yaml (-f): there is no such file
    next  redrive check --help
    [2]
    ");
    env.set("REDRIVE_TOPOLOGY", "third.yaml");
    insta::assert_snapshot!(env.line("check"), @r"
    --- stderr
    error: could not read third.yaml (REDRIVE_TOPOLOGY): there is no such file
    next  redrive check --help
    [2]
    ");
    env.write("third.yaml", VALID);
    let _ = env.line("check").ok();
    insta::assert_snapshot!(env.line("check -f ."), @r"
    --- stderr
    error: could not read . (-f): it is a folder
    next  redrive check --help
    [2]
    ");
}

#[test]
fn a_valid_file_says_what_it_means() {
    let env = TestEnv::new();
    env.topology(VALID);
    insta::assert_snapshot!(env.line("check"), @r"
    redrive.yaml is valid: 1 broker, 1 channel

    orders on local, a message that always fails
      at 0s      1st try
      at 5s      2nd try, after 5s in orders.retry-5s
      at 1m 5s   3rd try, after 1m in orders.retry-1m
      at 11m 5s  last try, after 10m in orders.retry-10m
      then       orders.dlq, kept 14d; alert at 1 letter or 15m; owner team-orders
    --- stderr
    note  Earliest times: each try's own time comes on top. On local the tiers need redrive relay.
    note  orders: a message that waits in a tier is passed by later ones of its group. Order within a
          group holds up to the first failure; runs keep it.
    ");
    let json = env.line("check -o json").ok().json();
    assert_eq!(json["meaning"][0]["tries"][3]["at_ms"], 665_000);
    assert_eq!(json["valid"], true);
}

#[test]
fn the_schema_is_the_one_in_docs() {
    let kept = include_str!("../../../docs/topology.schema.json");
    let shown = TestEnv::new().run(&["check", "--schema"]);
    assert_eq!(shown.out, kept);
}

#[test]
fn y12_an_unset_variable_is_a_warning_in_check_and_an_error_on_connecting() {
    let env = TestEnv::new();
    env.topology(&VALID.replace("redrive.db\"", "${DATABASE}\""));
    assert_eq!(env.run(&["check"]).code, Some(0));
    insta::assert_snapshot!(env.line("plan"), @r"
    --- stderr
    error: local needs ${DATABASE}, and it is not set (redrive.yaml:3)
    next  redrive check
    [1]
    ");
}

#[test]
fn a_channel_sent_to_another_broker_has_to_fit_it() {
    let env = TestEnv::new();
    let brokers = "redrive.db\"}\n  aws: {url: \"sqs://eu-west-1\"}\ndefault_broker: local";
    env.topology(
        &VALID.replace("redrive.db\"}", brokers).replace("10m}", "1h}").replace("orders.dlq", "orders-dlq"),
    );
    insta::assert_snapshot!(env.line("plan --broker aws"), @r"
    --- stderr
    orders does not fit aws: SQS cannot hold a message back for 1h (redrive.yaml:11)
      write 15m or less, or take another broker than aws
    next  redrive explain RD0201
    [3]
    ");
}
