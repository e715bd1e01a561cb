//! Failures that others had, at the real server.

use std::collections::BTreeSet;

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use redrive::letter::Value;

use super::relocate::{numbered, send_all};
use super::server::{Server, arguments, bodies, channel, connect, fresh, look, number, text};

#[tokio::test(flavor = "multi_thread")]
async fn r12_a_letter_of_another_user_goes_like_the_others() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    let user = format!("billing-{}", fresh());
    assert_eq!(server.api("PUT", &format!("users/{user}"), r#"{"password":"pw","tags":""}"#).0, 201);
    let rights = r#"{"configure":"","write":".*","read":""}"#;
    server.api("PUT", &format!("permissions/{}/{user}", host.name), rights);
    let theirs = connect(&server.url, &host.name, &user, "pw").await;
    let wire = theirs.create_channel().await.unwrap();
    wire.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    for n in 0..10 {
        let body = n.to_string();
        if n == 3 {
            let properties = BasicProperties::default().with_user_id(user.as_str().into());
            let options = BasicPublishOptions::default();
            let sent = wire
                .basic_publish("".into(), "orders.dlq".into(), options, body.as_bytes(), properties)
                .await;
            assert!(sent.unwrap().await.unwrap().is_ack());
        } else {
            host.send("orders.dlq", body.as_bytes(), BasicProperties::default()).await;
        }
    }
    wire.close(200, "ok".into()).await.unwrap();
    let (letters, _) = host.inspect(false).await;
    assert_eq!(letters[3].message.properties.first_text("user_id"), Some(user.as_str()), "shown");
    let broker = host.broker(false).await;
    let answers = send_all(&*broker, "r1", &numbered(&letters)).await;
    assert_eq!(answers.values().filter(|answer| answer.is_ok()).count(), 10);
    let there = host.drain("orders").await;
    assert_eq!(there.len(), 10);
    assert!(there.iter().all(|got| got.properties.user_id().is_none()));
    server.api("DELETE", &format!("users/{user}"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_an_expiration_that_killed_it_does_not_kill_it_again() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("orders.dlq"))];
    host.declare("brief", "quorum", &dead).await;
    let short = || BasicProperties::default().with_expiration("100".into());
    host.send("brief", b"1", short()).await;
    host.until("orders.dlq", 1).await;
    let (letters, _) = host.inspect(false).await;
    let deaths = letters[0].message.headers.last("x-death").unwrap().list().unwrap();
    assert_eq!(deaths[0].get("original-expiration").and_then(Value::text), Some("100"));
    let broker = host.broker(false).await;
    assert!(send_all(&*broker, "r1", &numbered(&letters)).await[&1].is_ok());
    // A witness that gets the same time, and dies of it.
    host.send("brief", b"2", short()).await;
    host.until("orders.dlq", 1).await;
    let there = host.drain("orders").await;
    assert_eq!(there.len(), 1, "it is still there");
    assert_eq!(there[0].properties.expiration(), &None);
}

/// Two user headers, an annotation of an AMQP 1.0 client and a table: what arrives is what was there, without
/// the broker's own, by name and by value.
#[tokio::test(flavor = "multi_thread")]
async fn r19_the_set_of_headers_is_the_same_and_nothing_of_it_is_converted() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("orders.dlq"))];
    host.declare("orders", "quorum", &dead).await;
    host.declare("orders.dlq", "quorum", &[]).await;
    let nested = AMQPValue::FieldTable(arguments(&[("a", AMQPValue::ShortInt(-3)), ("b", AMQPValue::Void)]));
    let user: FieldTable = arguments(&[
        ("tenant", text("eu")),
        ("retries", number(3)),
        ("x-opt-partition", text("7")),
        ("nested", nested),
    ]);
    let properties = BasicProperties::default().with_delivery_mode(2).with_headers(user.clone());
    host.send("orders", b"{}", properties).await;
    host.reject("orders", 1).await;
    host.until("orders.dlq", 1).await;
    let (letters, _) = host.inspect(true).await;
    let before: BTreeSet<&str> =
        letters[0].message.headers.iter().map(|header| header.name.as_str()).collect();
    assert!(before.contains("x-death") && before.contains("tenant"), "{before:?}");
    let broker = host.broker(true).await;
    assert!(send_all(&*broker, "r1", &numbered(&letters)).await[&1].is_ok());
    let there = host.drain("orders").await;
    let after = there[0].properties.headers().clone().unwrap();
    for (name, value) in user.inner() {
        assert_eq!(after.inner().get(name.as_str()), Some(value), "{name:?}");
    }
    let more: Vec<&str> = after
        .inner()
        .keys()
        .map(|name| name.as_str())
        .filter(|name| user.inner().get(*name).is_none())
        .filter(|name| *name != "x-delivery-count")
        .collect();
    assert_eq!(more, ["redrive-run"], "and nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_bodies_of_any_bytes_and_size_arrive_as_they_were() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    let large: Vec<u8> = (0..200 * 1_024u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sent: Vec<Vec<u8>> =
        vec![vec![0xff, 0xfe, 0x00, 0x01], b"<a href=\"x\">&amp;&</a>".to_vec(), Vec::new(), large];
    for body in &sent {
        host.send("orders.dlq", body, BasicProperties::default().with_delivery_mode(2)).await;
    }
    // With the management API given: it is never asked for a body.
    let broker = host.broker(true).await;
    let (letters, _) = look(&*broker, &channel()).await.unwrap();
    assert_eq!(bodies(&letters)[1], String::from_utf8_lossy(&sent[1]));
    for (letter, body) in letters.iter().zip(&sent) {
        assert_eq!(letter.body_len, Some(body.len() as u64));
        assert_eq!(letter.message.body.as_deref().unwrap_or_default(), &body[..]);
    }
    let answers = send_all(&*broker, "r1", &numbered(&letters)).await;
    assert!(answers.values().all(Result::is_ok));
    let there: Vec<Vec<u8>> = host.drain("orders").await.into_iter().map(|got| got.body).collect();
    assert_eq!(there, sent);
}
