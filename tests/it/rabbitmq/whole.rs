//! The built program against the server: `topologies/payments-rabbitmq.yaml` applied, filled, broken and
//! redriven.

use lapin::BasicProperties;

use super::program::{Stage, topology};
use super::server::{Server, arguments, text};

async fn payments(server: &Server) -> Stage {
    let host = server.host().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/topologies/payments-rabbitmq.yaml");
    // The test's server instead of mq.internal, by a path of the same shape, and the source made too.
    let yaml = std::fs::read_to_string(file)
        .unwrap()
        .replace("amqps://mq.internal:5671/payments", &format!("{}/{}", server.url, host.name))
        .replace("    source: payments\n", "    source: payments\n    create_source: true\n")
        .replace(
            "    password: \"${MQ_PASSWORD}\"\n",
            &format!(
                "    password: \"${{MQ_PASSWORD}}\"\n    options: {{management: \"{}\"}}\n",
                server.management
            ),
        );
    assert!(yaml.contains(&server.url) && yaml.contains("create_source") && yaml.contains("management"));
    Stage::of(host, &yaml)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_is_applied_filled_broken_and_redriven() {
    let Some(server) = Server::get() else { return };
    let stage = payments(&server).await;
    let applied = stage.done(&["apply", "--yes", "--reason", "test"]);
    assert!(applied.contains("Proof: planned again, nothing left to change."), "{applied}");
    assert_eq!(stage.redrive(&["plan", "--check"]).status.code(), Some(0));
    for n in 0..40 {
        let headers = arguments(&[("account", text(&format!("acc-{}", n % 4)))]);
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(format!("ev-{n}").into())
            .with_headers(headers);
        stage.host.send("payments", format!("{{\"n\": {n}}}").as_bytes(), properties).await;
    }
    stage.host.reject("payments", 40).await;
    stage.host.until("payments.dlq", 40).await;
    let inspected = stage.done(&["inspect", "payments"]);
    assert!(inspected.contains("40 dead letters"), "{inspected}");
    assert!(inspected.contains("held and put back in order"), "{inspected}");
    let run = ["run", "payments", "--limit", "all", "--rate", "500/s", "--reason", "test", "--yes"];
    let ran = stage.done(&run);
    assert!(ran.contains("40 of 40 moved") || ran.contains("moved 40"), "{ran}");
    assert_eq!(stage.host.ready("payments.dlq").await, 0);
    let back = stage.host.drain("payments").await;
    let ids: Vec<String> =
        back.iter().map(|got| got.properties.message_id().clone().unwrap().as_str().to_owned()).collect();
    assert_eq!(ids.len(), 40);
    for group in 0..4 {
        let of: Vec<usize> = ids
            .iter()
            .map(|id| id.trim_start_matches("ev-").parse().unwrap())
            .filter(|n: &usize| n % 4 == group)
            .collect();
        assert!(of.is_sorted(), "group {group}: {of:?}");
    }
    for got in &back {
        assert!(got.header("x-death").is_none() && got.header("redrive-run").is_some());
        assert_eq!(got.properties.delivery_mode(), &Some(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_says_that_none_is_needed_and_that_is_no_failure() {
    let Some(server) = Server::get() else { return };
    let stage = payments(&server).await;
    let said = stage.done(&["relay"]);
    assert!(said.contains("no relay") || said.contains("by itself"), "{said}");
}

/// Killed at a step of the engine, resumed: no letter is nowhere, only those named in doubt may be twice, and
/// each group keeps its order.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_step_and_resumed_nothing_is_lost_and_what_may_be_twice_is_named() {
    let Some(server) = Server::get() else { return };
    let mut killed = 0;
    for step in [
        "begun",
        "claimed",
        "before_commit:2",
        "after_commit",
        "before_send",
        "after_send",
        "after_send:2",
        "before_release",
        "before_end",
    ] {
        let stage = payments(&server).await;
        stage.done(&["apply", "--yes", "--reason", "test"]);
        for n in 0..60 {
            let headers = arguments(&[("account", text(&format!("acc-{}", n % 6)))]);
            let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
            stage.host.send("payments.dlq", n.to_string().as_bytes(), properties).await;
        }
        let run = ["run", "payments", "--limit", "all", "--rate", "1000/s", "--reason", "test", "--yes"];
        let output = stage.command(&run).env("REDRIVE_FAILPOINT", step).output().unwrap();
        let died = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(died || output.status.code() == Some(0), "{step}: {:?} {words}", output.status);
        let mut doubts = 0;
        if died {
            killed += 1;
            // The server gives back what the dead process held, and its lock.
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            let list = stage.done(&["runs", "list", "payments"]);
            let id = list.lines().nth(1).and_then(|row| row.split_whitespace().last()).unwrap().to_owned();
            let resumed = stage.redrive(&["resume", &id, "--yes"]);
            let all = format!(
                "{}{}",
                String::from_utf8_lossy(&resumed.stdout),
                String::from_utf8_lossy(&resumed.stderr)
            );
            assert!(matches!(resumed.status.code(), Some(0 | 1 | 4 | 11 | 12)), "{step}: {all}");
            doubts = all
                .lines()
                .rev()
                .find_map(|line| line.split_once("in doubt ")?.1.split_whitespace().next()?.parse().ok())
                .unwrap_or(0);
        }
        let left = stage.host.texts("payments.dlq").await;
        let there = stage.host.texts("payments").await;
        let every: std::collections::BTreeSet<&String> = left.iter().chain(&there).collect();
        assert_eq!(every.len(), 60, "{step}: lost");
        let twice = left.len() + there.len() - 60;
        assert!(twice <= doubts, "{step}: {twice} are twice and {doubts} were named in doubt");
        for group in 0..6 {
            let of: Vec<u64> = there.iter().map(|n| n.parse().unwrap()).filter(|n| n % 6 == group).collect();
            assert!(of.is_sorted_by(|a, b| a < b), "{step}: group {group}: {of:?}");
        }
    }
    assert!(killed >= 6, "{killed} were killed");
}

/// A consumer that knows the ids rejects whatever comes back while the run goes on: counted as re-failed, ids
/// kept, and after `max_redrives` the letters stay.
#[tokio::test(flavor = "multi_thread")]
async fn r24_letters_that_are_rejected_at_once_are_counted_and_capped() {
    use futures_util::StreamExt;
    let Some(server) = Server::get() else { return };
    let stage = payments(&server).await;
    stage.done(&["apply", "--yes", "--reason", "test"]);
    for n in 0..40 {
        let properties =
            BasicProperties::default().with_delivery_mode(2).with_message_id(format!("ev-{n}").into());
        stage.host.send("payments.dlq", n.to_string().as_bytes(), properties).await;
    }
    let wire = stage.host.connection.create_channel().await.unwrap();
    let mut consumer = wire
        .basic_consume(
            "payments".into(),
            "tracker".into(),
            lapin::options::BasicConsumeOptions::default(),
            lapin::types::FieldTable::default(),
        )
        .await
        .unwrap();
    let tracker = tokio::spawn(async move {
        while let Some(Ok(delivery)) = consumer.next().await {
            let options = lapin::options::BasicRejectOptions { requeue: false };
            delivery.reject(options).await.unwrap();
        }
    });
    let run =
        ["run", "payments", "--limit", "all", "--rate", "20/s", "--reason", "test", "--yes", "-o", "json"];
    let output = stage.redrive(&run);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let refailed = report["refailed"].as_u64().unwrap();
    assert!(refailed > 0 && output.status.code() == Some(12), "stopped by what died again: {report}");
    let moved = report["counts"]["moved"].as_u64().unwrap();
    assert!((20..40).contains(&moved), "{report}");
    stage.host.until("payments.dlq", 40).await;
    for _ in 0..3 {
        let again = ["--stop-on-refail", "off", "--rate", "500/s"];
        stage.redrive(&[&run[..4], &run[6..], &again[..]].concat());
        stage.host.until("payments.dlq", 40).await;
    }
    let capped = stage.redrive(&[&run[..], &["--dry-run"]].concat());
    let capped: serde_json::Value = serde_json::from_slice(&capped.stdout).unwrap();
    assert_eq!(capped["counts"]["send"], 0, "{capped}");
    tracker.abort();
    wire.close(200, "ok".into()).await.unwrap();
    let ids: std::collections::BTreeSet<String> = stage
        .host
        .drain("payments.dlq")
        .await
        .iter()
        .map(|got| got.properties.message_id().clone().unwrap().as_str().to_owned())
        .collect();
    assert_eq!(ids.len(), 40, "ids are kept");
}

/// A large batch goes out on several channels, and the letters of a group all on one: each group keeps its order.
#[tokio::test(flavor = "multi_thread")]
async fn r16_groups_keep_their_order_over_the_channels_of_a_batch() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let url = format!("{}/{}", server.url, host.name);
    let stage = Stage::of(host, &topology(&url, "", "    group: {header: customer}\n"));
    stage.done(&["apply", "--yes", "--reason", "test"]);
    for n in 0..3_000 {
        let headers = arguments(&[("customer", text(&format!("C-{}", n * 7 % 600)))]);
        let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
        stage.host.send("orders.dlq", format!("{:03} {n:04}", n * 7 % 600).as_bytes(), properties).await;
    }
    let run = ["run", "orders", "--limit", "all", "--rate", "unlimited", "--confirm", "orders"];
    stage.done(&[&run[..], &["--reason", "test"]].concat());
    let there = stage.host.all("orders").await;
    assert_eq!(there.len(), 3_000);
    let mut last = std::collections::BTreeMap::new();
    for letter in &there {
        let (group, n) = letter.split_once(' ').unwrap();
        let before = last.insert(group, n);
        assert!(before.is_none_or(|before| before < n), "group {group}: {n} behind {before:?}");
    }
    assert_eq!(last.len(), 600);
}
