//! A broker that does not answer: who is waited for is said after two seconds, long before the client gives up.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::TestEnv;

/// A topology on a broker of each kind that this build speaks, at a port that takes connections and says nothing.
fn silent() -> (TcpListener, Vec<(&'static str, TestEnv)>) {
    // Connections wait in its queue, and nobody takes them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let kinds: &[(&str, String)] = &[
        #[cfg(feature = "kafka")]
        ("kafka", format!("{{url: \"kafka://127.0.0.1:{port}\"}}")),
        #[cfg(feature = "rabbitmq")]
        ("rabbitmq", format!("{{url: \"amqp://127.0.0.1:{port}\", username: a, password: \"${{MQ}}\"}}")),
        #[cfg(feature = "sqs")]
        (
            "sqs",
            format!("{{url: \"sqs://eu-west-1\", options: {{endpoint_url: \"http://127.0.0.1:{port}\"}}}}"),
        ),
    ];
    let made = kinds.iter().map(|(kind, decl)| {
        let mut env = TestEnv::new();
        env.topology(&format!(
            "version: 1\nbrokers:\n  far: {decl}\nchannels:\n  orders:\n    source: orders\n    return_to: source\n    \
             consumer: billing\n    event_id: none\n    group: none\n    dead_letter: {{name: orders-dlq}}\n"
        ));
        env.real_time();
        env.set("MQ", "x").set("AWS_ACCESS_KEY_ID", "a").set("AWS_SECRET_ACCESS_KEY", "b");
        env.set("AWS_EC2_METADATA_DISABLED", "true");
        (*kind, env)
    });
    (listener, made.collect())
}

const VERBS: &[&str] =
    &["status orders", "plan", "inspect orders", "run orders --limit 1 --dry-run --ledger l.db"];

#[test]
fn a_silent_broker_is_named_after_two_seconds() {
    let (listener, made) = silent();
    let port = listener.local_addr().unwrap().port().to_string();
    for (kind, env) in &made {
        for verb in VERBS {
            let words: Vec<&str> = verb.split(' ').collect();
            let begun = Instant::now();
            let mut command = env.command(&words);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let mut said = String::new();
            let mut err = BufReader::new(child.stderr.take().unwrap());
            // Notes of other kinds may come before it.
            while !said.contains("waiting for") {
                let mut line = String::new();
                assert!(err.read_line(&mut line).unwrap() > 0, "{kind}, {verb}: ended with {said}");
                said.push_str(&line);
            }
            let took = begun.elapsed();
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(said.contains("waiting for far at "), "{kind}, {verb}: {said}");
            assert!(said.contains(&port), "{kind}, {verb}: {said}");
            assert!(said.ends_with(": no answer for 2s\n"), "{kind}, {verb}: {said}");
            assert!(took > Duration::from_millis(1_900) && took < Duration::from_secs(8), "{kind}: {took:?}");
        }
    }
}

#[test]
fn a_program_that_reads_json_is_not_told_so() {
    let (_listener, made) = silent();
    for (kind, env) in &made {
        let words = ["status", "orders", "-o", "json"];
        let mut child = env.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(3_500));
        child.kill().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        assert_eq!(said, "", "{kind}");
    }
}
