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

mod rejecting {
    // snippet
    use lapin::message::Delivery;
    use lapin::options::{BasicAckOptions, BasicPublishOptions, BasicRejectOptions};
    use lapin::types::{AMQPValue, FieldTable};
    use lapin::{Channel, Confirmation};

    /// One failure of a consumer that rejects; `rejected_to: tier` brings the message back after the tier's
    /// wait. `source` is the queue it was read from, `tries` how often a message is handled at most.
    pub async fn fail(
        channel: &Channel,
        delivery: Delivery,
        source: &str,
        dead_letter: &str,
        tries: i64,
        death: serde_json::Value, // {"at": "2026-11-30T02:03:59Z", "class": "Timeout", …}
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut headers: FieldTable = delivery.properties.headers().clone().unwrap_or_default();
        let this = rejections(headers.inner().get("x-death"), source) + 1;
        if this < tries {
            delivery.reject(BasicRejectOptions { requeue: false }).await?;
            return Ok(());
        }
        let mut set = |name: &str, value: String| {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        };
        set("redrive-attempt", this.to_string());
        set("redrive-deaths", serde_json::to_string(&[death])?);
        let confirm = channel
            .basic_publish(
                "".into(),
                dead_letter.into(),
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

    /// The broker counts: one entry of x-death for each queue and reason.
    fn rejections(deaths: Option<&AMQPValue>, source: &str) -> i64 {
        let Some(AMQPValue::FieldArray(deaths)) = deaths else { return 0 };
        let is = |value: Option<&AMQPValue>, text: &str| match value {
            Some(AMQPValue::LongString(found)) => found.as_bytes() == text.as_bytes(),
            _ => false,
        };
        let entries = deaths.as_slice().iter().filter_map(|death| match death {
            AMQPValue::FieldTable(entry) => Some(entry.inner()),
            _ => None,
        });
        entries
            .filter(|entry| is(entry.get("queue"), source) && is(entry.get("reason"), "rejected"))
            .map(|entry| match entry.get("count") {
                Some(AMQPValue::LongLongInt(count)) => *count,
                _ => 1,
            })
            .sum()
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
        assert_eq!(
            letter.context.deaths.len(),
            3 * life,
            "history travels, and a wait in a tier is no death"
        );
        assert!(
            letter.context.deaths.iter().all(|death| death.error_class.as_deref() == Some("Timeout")),
            "{:?}",
            letter.context.deaths
        );
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

/// `served_by: broker` with one tier: the source's dead letters go to it, and the consumer ends that itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_rejected_into_the_one_tier_until_it_dies_and_is_redriven_afresh() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let channel =
        Channel { create_source: true, tiers: vec![tier(100)], ..super::server::with("rejected_to", "tier") };
    let broker = host.broker(true).await;
    for change in
        redrive::plan::diff(&broker.desired(&[&channel]), &broker.observe(&[&channel]).await.unwrap())
    {
        broker.make(&change).await.unwrap();
    }
    host.send("orders", b"{}", BasicProperties::default().with_message_id("ev-1".into())).await;
    for life in 1..=2 {
        for failure in 1..=3 {
            assert!(reject_next(&host).await, "life {life}, failure {failure}");
        }
        host.until("orders.dlq", 1).await;
        let (letters, _) = look(&*broker, &channel).await.unwrap();
        let letter = redrive::dead_letter::DeadLetter::of(letters[0].clone(), &channel);
        assert_eq!(letter.context.attempts, Some(3), "life {life}");
        assert_eq!(letter.raw.message.properties.first_text("message_id"), Some("ev-1"));
        assert!(
            letter.context.deaths.iter().any(|death| death.error_class.as_deref() == Some("Timeout")),
            "{:?}",
            letter.context.deaths
        );
        if life == 1 {
            assert!(send_all(&*broker, "r1", &numbered(&letters)).await[&1].is_ok());
        }
    }
    assert_eq!(host.ready("orders").await, 0);
}

/// Takes the next message of `orders` within two seconds, and fails it by rejecting.
async fn reject_next(host: &Host) -> bool {
    let wire = host.connection.create_channel().await.unwrap();
    wire.confirm_select(lapin::options::ConfirmSelectOptions::default()).await.unwrap();
    for _ in 0..200 {
        let options = lapin::options::BasicGetOptions::default();
        if let Some(got) = wire.basic_get("orders".into(), options).await.unwrap() {
            let death = serde_json::json!({"at": "2026-11-30T02:03:59Z", "class": "Timeout"});
            rejecting::fail(&wire, got.delivery, "orders", "orders.dlq", 3, death).await.unwrap();
            wire.close(200, "ok".into()).await.unwrap();
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[test]
fn the_page_shows_the_code_that_is_run() {
    let here = include_str!("consumer.rs");
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/consumer-contract.md")).unwrap();
    let begin = format!("    // {}\n", "snippet");
    let mut shown = 0;
    for part in here.split(&begin).skip(1) {
        let (code, _) = part.split_once("    // end\n").unwrap();
        let code: String =
            code.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
        assert!(page.contains(&code), "docs/consumer-contract.md does not show this:\n{code}");
        shown += 1;
    }
    assert_eq!(shown, 2);
}
