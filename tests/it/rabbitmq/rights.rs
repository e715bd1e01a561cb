//! Who may not publish learns it before anything is asked, claimed or recorded, by a question that nobody else sees.

use std::process::Output;

use super::program::{Stage, topology};
use super::refusals::user;
use super::server::{Host, Server};

/// A stage, and the name of a user with these rights.
async fn stage(server: &Server, write: &str, channel: &str) -> (Stage, String) {
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["a", "b"].map(str::to_owned)).await;
    let decl = user(&host, "^redrive\\\\.lock\\\\.", write, "^orders\\\\.dlq$", "").await;
    let name = decl.username.unwrap().value.expose().unwrap().to_owned();
    let yaml = topology(&format!("{}/{}", server.url, host.name), "", channel);
    (Stage::of(host, &yaml), name)
}

fn redrive(stage: &Stage, user: &str, arguments: &[&str]) -> Output {
    let mut command = stage.command(arguments);
    command.env("MQ_USER", user).env("MQ_PASSWORD", super::refusals::CANARY);
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

fn words(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Messages in all queues of the virtual host, by a declare of each.
async fn everywhere(host: &Host) -> u32 {
    host.ready("orders").await + host.ready("orders.dlq").await
}

const RUN: [&str; 9] =
    ["run", "orders", "--limit", "all", "--rate", "500/s", "--reason", "it is mended", "--order=none"];

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_publish_is_told_before_the_question_and_nothing_is_recorded() {
    let Some(server) = Server::get() else { return };
    let (stage, name) = stage(&server, "^orders$", "").await;
    for consent in [&[][..], &["--yes"]] {
        let run = redrive(&stage, &name, &[&RUN[..], consent].concat());
        let (_, err) = words(&run);
        assert_eq!(run.status.code(), Some(1), "{err}");
        for says in
            ["could not publish to orders", "403", "amq.default", "Nothing was sent.", "next  redrive run"]
        {
            assert!(err.contains(says), "{says}: {err}");
        }
        assert!(!err.contains("no terminal to ask"), "asked before it was told: {err}");
        stage.host.until("orders.dlq", 2).await;
    }
    assert!(!stage.done(&["runs", "list"]).contains("orders"), "a run is on record");
    // Who only wants to see what would go does, with the same word.
    let dry = redrive(&stage, &name, &[&RUN[..], &["--dry-run"]].concat());
    let (out, err) = words(&dry);
    assert_eq!(dry.status.code(), Some(0), "{err}");
    assert!(out.contains("2 letters") && err.contains("A run by this user is refused"), "{out}{err}");
    assert_eq!(everywhere(&stage.host).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_by_who_may_not_publish_says_so_and_leaves_the_run_as_it_was() {
    let Some(server) = Server::get() else { return };
    let (stage, name) = stage(&server, "^orders$", "").await;
    let killed = stage.command(&[&RUN[..], &["--yes"]].concat()).env("REDRIVE_FAILPOINT", "claimed").output();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.unwrap().status), Some(9));
    stage.host.until("orders.dlq", 2).await;
    let list = stage.done(&["runs", "list", "orders"]);
    let id = list.lines().nth(1).and_then(|row| row.split_whitespace().last()).unwrap().to_owned();
    let resumed = redrive(&stage, &name, &["resume", &id, "--yes"]);
    let (_, err) = words(&resumed);
    assert_eq!(resumed.status.code(), Some(1), "{err}");
    assert!(err.contains("amq.default") && err.contains(&format!("next  redrive resume {id}")), "{err}");
    stage.done(&["resume", &id, "--yes"]);
    assert_eq!((stage.host.ready("orders").await, stage.host.ready("orders.dlq").await), (2, 0));
}

/// The question is a message to a queue that nobody has: no alternate exchange and no policy gets to see it.
#[tokio::test(flavor = "multi_thread")]
async fn the_question_whether_one_may_publish_leaves_nothing_anywhere() {
    let Some(server) = Server::get() else { return };
    let (stage, name) = stage(&server, "^(amq\\\\.default|)$", "").await;
    let vhost = stage.host.name.clone();
    stage.host.declare("stray", "classic", &[]).await;
    assert_eq!(server.api("PUT", &format!("exchanges/{vhost}/stray"), r#"{"type":"fanout"}"#).0, 201);
    assert_eq!(server.api("POST", &format!("bindings/{vhost}/e/stray/q/stray"), "{}").0, 201);
    let policy = r#"{"pattern":".*","apply-to":"exchanges","definition":{"alternate-exchange":"stray"}}"#;
    assert_eq!(server.api("PUT", &format!("policies/{vhost}/stray"), policy).0, 201);
    for _ in 0..3 {
        let dry = redrive(&stage, &name, &[&RUN[..], &["--dry-run"]].concat());
        let (_, err) = words(&dry);
        assert!(dry.status.success() && !err.contains("refused"), "{err}");
        stage.host.until("orders.dlq", 2).await;
    }
    let run = redrive(&stage, &name, &[&RUN[..], &["--yes"]].concat());
    assert!(run.status.success(), "{:?}", words(&run));
    assert_eq!((stage.host.ready("orders").await, stage.host.ready("orders.dlq").await), (2, 0));
    assert_eq!(stage.host.ready("stray").await, 0, "a question went to the alternate exchange");
}
