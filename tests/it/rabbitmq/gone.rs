//! What a queue does not show any more after a crash: not gone until a person says so (m15), and then closed.

use lapin::BasicProperties;
use lapin::options::BasicGetOptions;

use super::program::{Stage, topology};
use super::server::Server;

/// Five letters, and a run of them that was killed at a step of the engine; then somebody took away the first ones.
async fn killed(server: &Server, step: &str, taken: usize) -> (Stage, String) {
    let host = server.host().await;
    let url = format!("{}/{}", server.url, host.name);
    let stage = Stage::of(host, &topology(&url, "", ""));
    stage.done(&["apply", "--yes", "--reason", "test"]);
    for n in 0..5 {
        put(&stage, n).await;
    }
    let run = ["run", "orders", "--limit", "all", "--rate", "500/s", "--reason", "test", "--yes"];
    let output = stage.command(&run).env("REDRIVE_FAILPOINT", step).output().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(9), "{output:?}");
    // The server gives back what the dead process held.
    stage.host.until("orders.dlq", 5).await;
    let wire = stage.host.connection.create_channel().await.unwrap();
    for _ in 0..taken {
        wire.basic_get("orders.dlq".into(), BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
    }
    let list = stage.done(&["runs", "list", "orders"]);
    let id = list.lines().nth(1).and_then(|row| row.split_whitespace().last()).unwrap().to_owned();
    (stage, id)
}

async fn put(stage: &Stage, n: u64) {
    let properties =
        BasicProperties::default().with_delivery_mode(2).with_message_id(format!("ev-{n}").into());
    stage.host.send("orders.dlq", n.to_string().as_bytes(), properties).await;
}

/// Exit code, what was said, and the report.
fn reported(stage: &Stage, arguments: &[&str]) -> (Option<i32>, String, serde_json::Value) {
    let said = stage.redrive(arguments);
    let words = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let shown = stage.redrive(&["runs", "show", arguments[1], "-o", "json"]);
    (said.status.code(), words, serde_json::from_slice(&shown.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_original_that_the_server_removed_without_saying_so_is_closed_when_a_person_says_it_is_gone() {
    let Some(server) = Server::get() else { return };
    // Sent and recorded; what was to be removed then is half removed, as by a server that died with its answer.
    let (stage, id) = killed(&server, "before_send:2", 3).await;
    for _ in 0..2 {
        let (code, words, run) = reported(&stage, &["resume", &id, "--yes"]);
        assert_eq!((code, &run["unsettled"], &run["counts"]["moved"]), (Some(12), &3.into(), &5.into()));
        assert!(words.contains("original not removed: 3"), "{words}");
        assert!(words.contains("3 not visible") && words.contains("--accept-gone"), "{words}");
        assert_eq!(stage.host.ready("orders.dlq").await, 0, "what it sees it removes: {words}");
    }
    assert_eq!(stage.redrive(&["resume", &id, "--yes", "--accept-gone"]).status.code(), Some(2), "no reason");
    let sure =
        ["resume", &id, "--yes", "--accept-gone", "--reason", "the server lost power, its log shows it"];
    let (code, words, run) = reported(&stage, &sure);
    assert_eq!((code, &run["unsettled"], &run["state"]), (Some(0), &0.into(), &"done".into()), "{words}");
    assert!(words.contains("3 original not seen, gone as a person said"), "{words}");
    let coded =
        |letter: &&serde_json::Value| letter["code"] == "taken_as_gone" && letter["outcome"] == "moved";
    assert_eq!(run["letters"].as_array().unwrap().iter().filter(coded).count(), 3, "named: {run}");
    let events = run["events"].as_array().unwrap();
    let said = events.iter().find(|event| event["what"] == "accept gone").expect("on record");
    assert!(said["text"].as_str().unwrap().contains("lost power"), "{said}");
    let (code, words, _) = reported(&stage, &["resume", &id, "--yes"]);
    assert!(code == Some(0) && words.contains("nothing is left to do"), "{words}");
    assert_eq!(stage.host.texts("orders").await.len(), 5, "each once");
    // It was only hidden after all: it is known, and not sent a second time.
    put(&stage, 0).await;
    put(&stage, 9).await;
    let run = ["run", "orders", "--limit", "all", "--rate", "500/s", "--reason", "test", "--yes"];
    let again = stage.redrive(&run);
    let words =
        format!("{}{}", String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    assert!(words.contains("moved by another run"), "{words}");
    assert_eq!(stage.host.texts("orders").await, ["9"], "{words}");
    assert_eq!(stage.host.ready("orders.dlq").await, 1, "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_that_somebody_else_took_before_they_were_sent_are_closed_the_same_way() {
    let Some(server) = Server::get() else { return };
    let (stage, id) = killed(&server, "claimed", 2).await;
    let (code, words, run) = reported(&stage, &["resume", &id, "--yes"]);
    assert_eq!(
        (code, &run["counts"]["moved"], &run["counts"]["untouched"]),
        (Some(12), &3.into(), &2.into())
    );
    assert!(words.contains("not visible to the broker"), "{words}");
    let sure = ["resume", &id, "--yes", "--accept-gone", "--reason", "ops took two of them by hand"];
    let (code, words, run) = reported(&stage, &sure);
    assert_eq!(
        (code, &run["counts"]["skipped"], &run["counts"]["untouched"]),
        (Some(11), &2.into(), &0.into())
    );
    assert!(words.contains("2 gone"), "{words}");
    assert_eq!(stage.host.texts("orders").await.len(), 3);
}
