//! An exchange as the target, which is an explicit choice: everybody who is bound there gets a copy.

use std::collections::BTreeSet;

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use redrive::broker::{Outgoing, Receipt};

use super::program::{Stage, topology};
use super::relocate::{claim, copy, numbered, send_all, task};
use super::server::{Host, Server, arguments, channel, text, with};

/// An exchange `ev` with these queues bound by the key `x`.
async fn exchange(host: &Host, queues: &[&str]) {
    let declare = r#"{"type":"direct","durable":true}"#;
    assert_eq!(host.server.api("PUT", &format!("exchanges/{}/ev", host.name), declare).0, 201);
    for queue in queues {
        let path = format!("bindings/{}/e/ev/q/{queue}", host.name);
        assert_eq!(host.server.api("POST", &path, r#"{"routing_key":"x"}"#).0, 201);
    }
}

/// As the broker notes it when `orders` rejects what came through `ev` with this key.
fn death(key: &str) -> AMQPValue {
    let keys = AMQPValue::FieldArray(vec![text(key)].into());
    let entry = arguments(&[
        ("count", AMQPValue::LongLongInt(1)),
        ("reason", text("rejected")),
        ("queue", text("orders")),
        ("exchange", text("ev")),
        ("routing-keys", keys),
        ("time", AMQPValue::Timestamp(1_745_575_728)),
    ]);
    AMQPValue::FieldArray(vec![AMQPValue::FieldTable(entry)].into())
}

#[tokio::test(flavor = "multi_thread")]
async fn r13_to_the_queue_nobody_else_gets_it_and_to_the_exchange_all_who_are_bound() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("orders.dlq"))];
    host.declare("orders", "quorum", &dead).await;
    host.declare("orders.dlq", "quorum", &[]).await;
    host.declare("audit", "quorum", &[]).await;
    exchange(&host, &["orders", "audit"]).await;
    let wire = &host.channel;
    let options = lapin::options::BasicPublishOptions::default();
    let sent =
        wire.basic_publish("ev".into(), "x".into(), options, b"1", BasicProperties::default()).await.unwrap();
    assert!(sent.await.unwrap().is_ack());
    host.reject("orders", 1).await;
    host.until("orders.dlq", 1).await;
    assert_eq!(host.texts("audit").await, ["1"]);

    let broker = host.broker(true).await;
    assert_eq!(broker.reach(&channel()).await.unwrap(), None);
    let letters = host.inspect(false).await.0;
    assert!(send_all(&*broker, "r1", &numbered(&letters)).await[&1].is_ok());
    assert_eq!(host.ready("audit").await, 0, "nobody else gets it");
    host.reject("orders", 1).await;
    host.until("orders.dlq", 1).await;

    // It died a second time, and its first exchange and key are no longer known on 4.x: a letter says so.
    host.drain("orders.dlq").await;
    let headers = arguments(&[("x-death", death("x"))]);
    host.send("orders.dlq", b"2", BasicProperties::default().with_headers(headers)).await;
    host.send("orders.dlq", b"3", BasicProperties::default()).await;
    let channel = with("exchange", "ev");
    let reach = broker.reach(&channel).await.unwrap().unwrap();
    assert!(reach.contains("up to 2 queues get each: audit, orders"), "{reach}");
    let unseen = host.broker(false).await.reach(&channel).await.unwrap().unwrap();
    assert!(unseen.contains("not seen without `management`"), "{unseen}");
    let letters = host.inspect(false).await.0;
    let mut mover = broker.begin(&channel, &task("r2")).await.unwrap();
    let claims = claim(&mut *mover, &numbered(&letters), 10).await;
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r2", claimed)).collect();
    let answers = mover.publish(&batch).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.to_string().contains("does not say with which key"), "{error}");
    let receipts: Vec<Receipt> = vec![batch[0].receipt.clone()];
    mover.settle(&receipts).await;
    mover.end().await.unwrap();
    for queue in ["orders", "audit"] {
        assert_eq!(host.texts(queue).await, ["2"], "{queue}");
    }
    assert_eq!(host.texts("orders.dlq").await, ["3"]);
    let gone = broker.begin(&with("exchange", "nobody"), &task("r3")).await.err().unwrap();
    assert!(gone.to_string().contains("no such exchange"), "{gone}");
}

/// One of a hundred has a key that nothing is bound for: none lost, none reported wrongly, in every round.
#[tokio::test(flavor = "multi_thread")]
async fn r15_one_of_a_hundred_unroutable_none_lost_and_none_reported_wrongly() {
    let Some(server) = Server::get() else { return };
    let (rounds, letters) =
        if std::env::var_os("REDRIVE_TEST_LONG").is_some() { (20, 20_000) } else { (2, 2_000) };
    for round in 0..rounds {
        let host = server.host().await;
        host.pair("quorum").await;
        exchange(&host, &["orders"]).await;
        let mut confirms = Vec::new();
        for n in 0..letters {
            // Anywhere among the others, elsewhere in each round.
            let key = if (n * 37 + round * 11) % 100 == 0 { "gone" } else { "x" };
            let properties = BasicProperties::default()
                .with_delivery_mode(2)
                .with_headers(arguments(&[("x-death", death(key)), ("customer", text(&format!("C-{n}")))]));
            let options = lapin::options::BasicPublishOptions::default();
            let body = n.to_string();
            let publish = host.channel.basic_publish(
                "".into(),
                "orders.dlq".into(),
                options,
                body.as_bytes(),
                properties,
            );
            confirms.push(publish.await.unwrap());
        }
        for confirm in confirms {
            assert!(confirm.await.unwrap().is_ack());
        }
        let unroutable: BTreeSet<String> =
            (0..letters).filter(|n| (n * 37 + round * 11) % 100 == 0).map(|n| n.to_string()).collect();
        assert_eq!(unroutable.len(), letters / 100);
        let options = format!("    options: {{management: \"{}\"}}\n", server.management);
        let url = format!("{}/{}", server.url, host.name);
        // In one round on one channel, in the other by their groups on several.
        let group = if round % 2 == 0 { "none" } else { "{header: customer}" };
        let more = format!("    group: {group}\n    rabbitmq: {{exchange: ev, queue_type: quorum}}\n");
        let stage = Stage::of(host, &topology(&url, &options, &more));
        let run = ["run", "orders", "--limit", "all", "--reason", "test", "--rate", "unlimited"];
        let shown = stage.done(&[&run[..], &["--dry-run"]].concat());
        assert!(shown.contains("exchange ev") && shown.contains("1 queue is bound to it: orders"), "{shown}");
        let more = ["--confirm", "orders", "--max-errors", "0", "--stop-on-refail", "off", "-o", "json"];
        let output = stage.redrive(&[&run[..], &more[..]].concat());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(11), "{report}");
        let count = |what: &str| report["counts"][what].as_u64().unwrap();
        assert_eq!(
            (count("moved"), count("failed"), count("in_doubt")),
            ((letters - letters / 100) as u64, (letters / 100) as u64, 0),
            "round {round}"
        );
        assert_eq!(report["not_moved"][0]["code"], "312", "{report}");
        let left: BTreeSet<String> = stage.host.texts("orders.dlq").await.into_iter().collect();
        assert_eq!(left, unroutable, "round {round}");
        let there = stage.host.all("orders").await;
        let once: BTreeSet<&String> = there.iter().collect();
        assert_eq!((there.len(), once.len()), (letters - letters / 100, letters - letters / 100));
        assert!(once.iter().all(|body| !unroutable.contains(*body)), "round {round}");
    }
}
