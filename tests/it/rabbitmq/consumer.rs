//! The snippet of docs/consumer-contract.md, run on real tiers: fail, wait, come back, die, be redriven.

use std::time::Duration;

use lapin::BasicProperties;
use redrive::stamp;
use redrive::topology::Channel;

use super::relocate::{numbered, send_all};
use super::server::{Host, Server, channel, look, tier};

mod snippet {
    // snippet
    use lapin::message::Delivery;
    use lapin::options::{BasicAckOptions, BasicPublishOptions};
    use lapin::types::{AMQPValue, FieldTable};
    use lapin::{Channel, Confirmation};

    /// One failure, steps 1 to 4. `channel` is in confirm mode; `tiers` and `dead_letter` are queue names.
    pub async fn fail(
        channel: &Channel,
        delivery: Delivery,
        tiers: &[&str],
        dead_letter: &str,
        death: serde_json::Value, // {"at": "2026-11-30T02:03:59Z", "class": "Timeout", …}
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut headers: FieldTable = delivery.properties.headers().clone().unwrap_or_default();
        let text = |name: &str| match headers.inner().get(name) {
            Some(AMQPValue::LongString(text)) => String::from_utf8(text.as_bytes().to_vec()).ok(),
            _ => None,
        };
        let tries = text("redrive-attempt").and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) + 1;
        let mut deaths: Vec<serde_json::Value> =
            text("redrive-deaths").and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
        let first = text("redrive-first-failed-at")
            .unwrap_or_else(|| death["at"].as_str().unwrap_or_default().to_owned());
        deaths.push(death);
        let tier = tiers.get(tries - 1);
        let mut set = |name: &str, value: String| {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        };
        set("redrive-attempt", tries.to_string());
        set("redrive-first-failed-at", first);
        set("redrive-deaths", serde_json::to_string(&deaths)?);
        if let Some(tier) = tier {
            set("redrive-tier", (*tier).to_owned());
        }
        let confirm = channel
            .basic_publish(
                "".into(),
                (*tier.unwrap_or(&dead_letter)).into(),
                BasicPublishOptions { mandatory: true, immediate: false },
                &delivery.data,
                delivery.properties.clone().with_headers(headers),
            )
            .await?
            .await?;
        // An unroutable message is confirmed too: it comes back with the confirm.
        match confirm {
            Confirmation::Ack(None) => {
                delivery.ack(BasicAckOptions::default()).await?;
                Ok(())
            }
            _ => Err("the copy was not taken; the original stays".into()),
        }
    }
    // end
}

fn tiered() -> Channel {
    Channel { create_source: true, tiers: vec![tier(100), tier(300)], ..channel() }
}

/// Takes the next message of `orders` within two seconds, and fails it.
async fn fail_next(host: &Host) -> usize {
    let wire = host.connection.create_channel().await.unwrap();
    wire.confirm_select(lapin::options::ConfirmSelectOptions::default()).await.unwrap();
    for _ in 0..200 {
        let options = lapin::options::BasicGetOptions::default();
        if let Some(got) = wire.basic_get("orders".into(), options).await.unwrap() {
            let death =
                serde_json::json!({"at": "2026-11-30T02:03:59Z", "class": "Timeout", "message": "no answer"});
            let tiers = ["orders.retry-100ms", "orders.retry-300ms"];
            snippet::fail(&wire, got.delivery, &tiers, "orders.dlq", death).await.unwrap();
            wire.close(200, "ok".into()).await.unwrap();
            return 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_fails_through_both_tiers_dies_and_is_redriven_afresh() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let broker = host.broker(true).await;
    let channel = tiered();
    for change in
        redrive::plan::diff(&broker.desired(&[&channel]), &broker.observe(&[&channel]).await.unwrap())
    {
        broker.make(&change).await.unwrap();
    }
    let properties = BasicProperties::default().with_delivery_mode(2).with_message_id("ev-1".into());
    host.send("orders", b"{}", properties).await;
    for life in 1..=2 {
        for failure in 1..=3 {
            assert_eq!(fail_next(&host).await, 1, "life {life}, failure {failure}");
        }
        host.until("orders.dlq", 1).await;
        let (letters, _) = look(&*broker, &channel).await.unwrap();
        let letter = redrive::dead_letter::DeadLetter::of(letters[0].clone(), &channel);
        assert_eq!(letter.context.attempts, Some(3));
        let own =
            letter.context.deaths.iter().filter(|death| death.error_class.as_deref() == Some("Timeout"));
        assert_eq!(own.count(), 3 * life, "history travels");
        assert_eq!(letter.raw.message.properties.first_text("message_id"), Some("ev-1"));
        if life == 1 {
            // What the engine does before it sends: what belongs to one life stays behind.
            let answers = send_all(&*broker, "r1", &numbered(&letters)).await;
            assert!(answers[&1].is_ok());
            let got = host.drain("orders").await;
            let mut headers = got[0].properties.headers().clone().unwrap();
            let mut kept = lapin::types::FieldTable::default();
            for (name, value) in headers.inner() {
                if !stamp::PER_LIFE.contains(&name.as_str()) {
                    kept.insert(name.clone(), value.clone());
                }
            }
            headers = kept;
            host.send("orders", &got[0].body, got[0].properties.clone().with_headers(headers)).await;
        }
    }
}

#[test]
fn the_page_shows_the_code_that_is_run() {
    let here = include_str!("consumer.rs");
    let (_, code) = here.split_once("    // snippet\n").unwrap();
    let (code, _) = code.split_once("    // end\n").unwrap();
    let code: String =
        code.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/consumer-contract.md")).unwrap();
    assert!(page.contains(&code), "docs/consumer-contract.md does not show this:\n{code}");
}
