//! Secrets appear nowhere: not in an answer, an error, a log, whatever is wrong with where they stand.

use super::{Run, TestEnv};

const CANARY: &str = "S3cr3t-Canary";

#[track_caller]
fn clean(run: &Run) {
    assert!(!run.says(CANARY) && !run.says("Canary"), "{run}");
}

/// Every verb that reads a topology, as loud as it gets.
const VERBS: &[&str] =
    &["check", "check -o json", "plan", "apply --yes", "status", "inspect orders", "check -vvv", "plan -vvv"];

#[test]
fn x01_a_password_in_a_url_is_refused_and_never_shown() {
    for url in [
        "amqp://ops:{}@127.0.0.1:1/prod",
        "amqp://ops:{}@[::1:99999/%zz",
        "kafka://ops:{}@127.0.0.1:1",
        "sqlite://ops:{}@x.db",
        "nonsense://ops:{}/@x",
    ] {
        let env = TestEnv::new();
        let url = url.replace("{}", CANARY);
        env.topology(&format!(
            "version: 1\nbrokers:\n  mq: {{url: \"{url}\"}}\nchannels:\n  orders: {{source: orders}}\n"
        ));
        for verb in VERBS {
            let run = env.line(verb).exits(3);
            clean(&run);
        }
    }
}

#[test]
fn x01_a_password_by_environment_or_file_is_never_shown() {
    let mut env = TestEnv::new();
    env.write("secret", CANARY);
    env.set("MQ_PASSWORD", CANARY);
    for password in ["${MQ_PASSWORD}", "${file:secret}"] {
        env.topology(&format!(
            "version: 1\nbrokers:\n  mq: {{url: \"amqp://127.0.0.1:1/prod\", username: ops, password: \"{password}\", nonsense: {CANARY}}}\nchannels:\n  orders: {{source: orders}}\n"
        ).replace(&format!(", nonsense: {CANARY}"), ""));
        for verb in VERBS {
            clean(&env.line(verb));
        }
    }
}

#[test]
fn x02_a_secret_beside_a_mistake_is_masked_in_the_source_that_is_shown() {
    let env = TestEnv::new();
    env.topology(&format!(
        "version: 1\nbrokers:\n  k: {{url: \"kafka://h:9092\", password: \"{CANARY}\", bogus: 1, options: {{sasl.password: \"{CANARY}\", nonsense.key: 1}}}}\nchannels:\n  orders: {{source: orders}}\n"
    ));
    for verb in VERBS {
        clean(&env.line(verb));
    }
    assert!(env.line("check").exits(3).says("bogus"));
}

#[test]
fn x01_a_login_in_an_endpoint_is_told_where_credentials_come_from() {
    let env = TestEnv::new();
    env.topology(
        "version: 1\nbrokers:\n  s: {url: \"sqs://eu-west-1\", options: {endpoint_url: \"http://u:hunter2@127.0.0.1:1\"}}\n\
         channels:\n  orders: {source: orders, event_id: none, group: none, dead_letter: {}}\n",
    );
    let check = env.line("check").exits(3);
    assert!(check.says("credentials come from the environment or a profile"), "{check}");
    assert!(!check.says("hunter2") && !check.says("username:"), "{check}");
}

#[test]
fn x05_a_url_with_a_password_as_a_flag_is_refused_without_repeating_it() {
    let mut env = TestEnv::new();
    env.topology("version: 1\nbrokers: {l: {url: \"sqlite:x.db\"}}\nchannels:\n  orders: {source: orders}\n");
    let url = format!("amqp://ops:{CANARY}@mq.internal");
    let run = env.run(&["plan", "--broker", &url]);
    clean(&run);
    insta::assert_snapshot!(run, @r"
    --- stderr
    error: --broker takes the name of a broker, not a url
      In redrive.yaml: l. A login belongs into ${NAME} variables there.
    next  redrive plan --help
    [2]
    ");
    for line in [
        vec!["plan", &url],
        vec![&url],
        vec!["inspect", &url],
        vec!["-f", &url, "check"],
        vec!["plan", "--brokr", &url],
        vec!["apply", "--password=S3cr3t-Canary"],
        vec!["plan", "-o", &url],
        vec!["explain", &url],
    ] {
        clean(&env.run(&line));
    }
    env.set("REDRIVE_BROKER", &url);
    let run = env.line("plan").exits(2);
    clean(&run);
    assert!(run.says("REDRIVE_BROKER"));
}
