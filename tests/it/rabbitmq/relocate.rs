//! Moving letters at the level of the port.

use std::collections::HashMap;
use std::time::Duration;

use lapin::BasicProperties;
use redrive::broker::{
    Ask, Broker, BrokerError, Claimed, ErrorKind, Mover, Outgoing, Published, Receipt, Settled, Task, Wanted,
};
use redrive::clock::Time;
use redrive::letter::{Message, Position, RawLetter, Value};
use redrive::stamp;

use super::server::{Host, Server, arguments, bodies, channel, look, number, text};

pub fn task(run: &str) -> Task {
    Task {
        run: run.to_owned(),
        owner: run.to_owned(),
        who: "mira@ops-2".to_owned(),
        target: "orders".to_owned(),
        take_over: false,
        snapshot: String::new(),
        claim_for: Duration::from_secs(60),
    }
}

/// Claims what `wanted` has, in the queue's order.
pub async fn claim(
    mover: &mut dyn Mover,
    wanted: &[(u64, Position)],
    limit: usize,
) -> redrive::broker::Claims {
    let by_position: HashMap<&Position, u64> = wanted.iter().map(|(seq, at)| (at, *seq)).collect();
    let next: Vec<Wanted> =
        wanted.iter().map(|(seq, at)| Wanted { seq: *seq, position: at.clone() }).collect();
    let is_wanted = |at: &Position| by_position.get(at).copied();
    mover.claim(&Ask { next: &next, wanted: &is_wanted, limit }).await.unwrap()
}

pub fn numbered(letters: &[RawLetter]) -> Vec<(u64, Position)> {
    letters.iter().enumerate().map(|(at, letter)| (at as u64 + 1, letter.position.clone())).collect()
}

pub fn copy(run: &str, claimed: &Claimed) -> Outgoing {
    let mut message = claimed.letter.message.clone();
    message.headers.replace(stamp::RUN, Value::from_text(format!("{run}/{}", claimed.seq)));
    Outgoing {
        packed: None,
        seq: claimed.seq,
        receipt: claimed.receipt.clone(),
        position: claimed.letter.position.clone(),
        attempt: 1,
        first_intent: Time::from_seconds(0),
        message,
        group: None,
    }
}

/// Sends everything that is wanted; gives the answers by number.
pub async fn send_all(
    broker: &dyn Broker,
    run: &str,
    wanted: &[(u64, Position)],
) -> HashMap<u64, Result<Published, BrokerError>> {
    let mut mover = broker.begin(&channel(), &task(run)).await.unwrap();
    let mut answers = HashMap::new();
    loop {
        let claims = claim(&mut *mover, wanted, 500).await;
        let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy(run, claimed)).collect();
        let sent = mover.publish(&batch).await;
        let done: Vec<Receipt> = batch
            .iter()
            .zip(&sent)
            .filter(|(_, answer)| answer.is_ok())
            .map(|(one, _)| one.receipt.clone())
            .collect();
        for outcome in mover.settle(&done).await {
            assert!(matches!(outcome, Settled::Settled), "{outcome:?}");
        }
        answers.extend(batch.iter().map(|one| one.seq).zip(sent));
        if claims.exhausted {
            break;
        }
    }
    mover.end().await.unwrap();
    answers
}

async fn inspected(host: &Host) -> Vec<RawLetter> {
    host.inspect(false).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_queue_moves_in_order_and_nothing_is_left_or_doubled() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        host.pair(kind).await;
        let sent: Vec<String> = (0..3_000).map(|n| format!("{n:05}")).collect();
        host.fill("orders.dlq", sent.clone()).await;
        let broker = host.broker(false).await;
        let letters = inspected(&host).await;
        let answers = send_all(&*broker, "r1", &numbered(&letters)).await;
        assert!(answers.values().all(Result::is_ok) && answers.len() == 3_000);
        assert_eq!(host.ready("orders.dlq").await, 0, "{kind}");
        assert_eq!(host.texts("orders").await, sent, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_is_moved_and_the_rest_stays_in_order() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        host.pair(kind).await;
        host.fill("orders.dlq", (0..500).map(|n| format!("{n:03}"))).await;
        let broker = host.broker(false).await;
        let letters = inspected(&host).await;
        let wanted: Vec<_> = numbered(&letters).into_iter().filter(|(seq, _)| seq % 100 == 50).collect();
        let answers = send_all(&*broker, "r1", &wanted).await;
        assert_eq!(answers.len(), 5);
        assert_eq!(host.texts("orders").await, ["049", "149", "249", "349", "449"]);
        let rest: Vec<String> = (0..500).filter(|n| n % 100 != 49).map(|n| format!("{n:03}")).collect();
        host.until("orders.dlq", 495).await;
        assert_eq!(host.texts("orders.dlq").await, rest, "{kind}");
    }
}

/// Waiting for the queue to have taken in what was settled must not take letters out of their place.
#[tokio::test(flavor = "multi_thread")]
async fn the_rest_stays_in_order_among_many_consumers_and_channels() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        let sent = host.fill_large(kind).await;
        let (letters, _) = host.inspect(false).await;
        host.until("orders.dlq", 900).await;
        let wanted: Vec<_> = numbered(&letters).into_iter().filter(|(seq, _)| seq % 3 == 0).collect();
        let broker = host.broker(true).await;
        let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
        for part in wanted.chunks(20) {
            let got = claim(&mut *mover, part, part.len()).await.got;
            assert_eq!(got.len(), part.len());
            let batch: Vec<Outgoing> = got.iter().map(|claimed| copy("r1", claimed)).collect();
            assert!(mover.publish(&batch).await.iter().all(Result::is_ok));
            let receipts: Vec<Receipt> = batch.iter().map(|one| one.receipt.clone()).collect();
            let settled = mover.settle(&receipts).await;
            assert!(settled.iter().all(|outcome| matches!(outcome, Settled::Settled)));
        }
        mover.end().await.unwrap();
        host.until("orders.dlq", 600).await;
        let rest: Vec<String> = (0..900).filter(|n| (n + 1) % 3 != 0).map(|n| sent[n].clone()).collect();
        let left: Vec<String> = host.texts("orders.dlq").await;
        let begins: Vec<&str> = left.iter().map(|text| &text[..5]).collect();
        assert!(left == rest, "{kind}: the rest is not in order: {begins:?}");
        assert_eq!(host.ready("orders").await, 300);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_properties_travel_and_r10_r12_r17_the_brokers_own_stays_behind() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.declare("orders", "quorum", &[]).await;
    host.declare("other", "quorum", &[]).await;
    host.declare("orders.dlq", "quorum", &[]).await;
    let headers = arguments(&[
        ("k", number(-5)),
        ("x-opt-reason", text("mine")),
        ("x-death", text("forged")),
        ("CC", AMQP_LIST.with(|list| list.clone())),
    ]);
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_priority(4)
        .with_content_type("application/json".into())
        .with_content_encoding("gzip".into())
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_message_id("m".into())
        .with_timestamp(1_745_575_728)
        .with_type("t".into())
        .with_user_id(server.user.as_str().into())
        .with_app_id("a".into())
        .with_headers(headers);
    host.send("orders.dlq", b"body", properties.clone()).await;
    // The broker put a copy into `other` for the CC header; that one is not ours.
    host.drain("other").await;
    let broker = host.broker(false).await;
    let letters = inspected(&host).await;
    assert_eq!(letters[0].message.properties.first_text("user_id"), Some(server.user.as_str()));
    send_all(&*broker, "r1", &numbered(&letters)).await;
    let got = host.drain("orders").await;
    let copy = &got[0];
    assert_eq!(copy.body, b"body");
    assert_eq!(copy.header("k"), Some(&number(-5)));
    assert_eq!(copy.header("x-opt-reason"), Some(&text("mine")));
    assert_eq!(copy.header(stamp::RUN), Some(&text("r1/1")));
    for gone in ["x-death", "CC", "x-delivery-count"] {
        let own = copy.header(gone).filter(|_| gone != "x-delivery-count");
        assert_eq!(own, None, "{gone}");
    }
    let p = &copy.properties;
    assert_eq!((p.delivery_mode(), p.priority()), (&Some(2), &Some(4)));
    assert_eq!(p.content_type(), properties.content_type());
    assert_eq!(p.content_encoding(), properties.content_encoding());
    assert_eq!(p.correlation_id(), properties.correlation_id());
    assert_eq!(p.reply_to(), properties.reply_to());
    assert_eq!(p.message_id(), properties.message_id());
    assert_eq!(p.timestamp(), properties.timestamp());
    assert_eq!(p.kind(), properties.kind());
    assert_eq!(p.app_id(), properties.app_id());
    assert_eq!(p.user_id(), &None);
    assert_eq!(host.ready("other").await, 0, "the copy was fanned out by its CC header");
}

thread_local! {
    static AMQP_LIST: lapin::types::AMQPValue = {
        let mut list = lapin::types::FieldArray::default();
        list.push(text("other"));
        lapin::types::AMQPValue::FieldArray(list)
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_missing_target_is_refused_and_an_unroutable_copy_is_no_delivery() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["a", "b", "c"].map(str::to_owned)).await;
    let broker = host.broker(false).await;
    let letters = inspected(&host).await;
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &numbered(&letters), 10).await;
    // Deleted between plan and run.
    let wire = host.connection.create_channel().await.unwrap();
    wire.queue_delete("orders".into(), lapin::options::QueueDeleteOptions::default()).await.unwrap();
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    let answers = mover.publish(&batch).await;
    assert_eq!(answers.len(), 3);
    for answer in answers {
        let error = answer.unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::NotFound, Some("312")));
    }
    mover.end().await.unwrap();
    host.until("orders.dlq", 3).await;
    assert_eq!(broker.begin(&channel(), &task("r2")).await.err().unwrap().kind, ErrorKind::NotFound);
    assert_eq!(host.texts("orders.dlq").await, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r37_a_full_target_refuses_and_the_letter_stays() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.declare("orders", "classic", &[("x-max-length", number(2)), ("x-overflow", text("reject-publish"))])
        .await;
    host.declare("orders.dlq", "quorum", &[]).await;
    host.fill("orders.dlq", (0..5).map(|n| n.to_string())).await;
    let broker = host.broker(false).await;
    let letters = inspected(&host).await;
    let answers = send_all(&*broker, "r1", &numbered(&letters)).await;
    assert!(answers[&1].is_ok() && answers[&2].is_ok());
    for seq in 3..=5 {
        let error = answers[&seq].as_ref().unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Throttled, Some("nack")));
    }
    host.until("orders.dlq", 3).await;
    assert_eq!(host.texts("orders").await, ["0", "1"]);
    assert_eq!(host.texts("orders.dlq").await, ["2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_fit_no_frame_are_refused_before_they_break_the_window() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["a", "b"].map(str::to_owned)).await;
    let broker = host.broker(false).await;
    let letters = inspected(&host).await;
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &numbered(&letters), 10).await;
    let mut batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    batch[0].message.headers.push("big", Value::from_text("x".repeat(140_000)));
    let answers = mover.publish(&batch).await;
    assert_eq!(answers[0].as_ref().unwrap_err().kind, ErrorKind::Rejected);
    assert!(answers[1].is_ok());
    // Just below the limit goes through: the measure is right.
    let frame = 131_072 - 8;
    let mut fits = batch[1].clone();
    fits.message = Message { body: Some(vec![1].into()), ..Message::default() };
    let spent = 14 + 4 + 1 + "big".len() + 1 + 4;
    fits.message.headers.push("big", Value::from_text("x".repeat(frame - spent)));
    assert!(mover.publish(&[fits.clone()]).await[0].is_ok());
    fits.message.headers.replace("big", Value::from_text("x".repeat(frame - spent + 1)));
    assert_eq!(mover.publish(&[fits]).await[0].as_ref().unwrap_err().kind, ErrorKind::Rejected);
    mover.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn protocol_8_one_run_per_queue_and_the_holder_is_named() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["a"].map(str::to_owned)).await;
    let broker = host.broker(true).await;
    let first = broker.begin(&channel(), &task("r1")).await.unwrap();
    let error = broker.begin(&channel(), &task("r2")).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Locked);
    assert!(error.message.contains("run r1 of mira@ops-2"), "{error}");
    first.end().await.unwrap();
    broker.begin(&channel(), &task("r3")).await.unwrap().end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_this_run_that_die_again_are_held_counted_and_never_chased() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let route = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("orders.dlq"))];
    host.declare("orders", "quorum", &route).await;
    host.declare("orders.dlq", "quorum", &[]).await;
    host.fill("orders.dlq", (0..5).map(|n| n.to_string())).await;
    let broker = host.broker(false).await;
    let letters = inspected(&host).await;
    let wanted = numbered(&letters);
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &wanted, 3).await;
    assert_eq!(claims.got.len(), 3);
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    assert!(mover.publish(&batch).await.iter().all(Result::is_ok));
    let receipts: Vec<Receipt> = batch.iter().map(|one| one.receipt.clone()).collect();
    mover.settle(&receipts).await;
    host.reject("orders", 3).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let rest = claim(&mut *mover, &wanted[3..], 10).await;
    assert_eq!(rest.got.len(), 2);
    let after = claim(&mut *mover, &[], 10).await;
    assert!(after.exhausted && after.got.is_empty());
    assert_eq!(mover.refailed().await.unwrap(), Some(3));
    let intent = |seq: u64| redrive::broker::Intent {
        seq,
        id: letters[0].id.clone(),
        position: letters[0].position.clone(),
        first_intent: Time::from_seconds(0),
    };
    let proofs = mover.prove(&[intent(1), intent(4)]).await.unwrap();
    assert_eq!(proofs[0], redrive::broker::Proof::Arrived(Published::default()));
    assert_eq!(proofs[1], redrive::broker::Proof::Unknown);
    mover.end().await.unwrap();
    host.until("orders.dlq", 5).await;
    let (letters, _) = look(&*broker, &channel()).await.unwrap();
    assert_eq!(bodies(&letters), ["3", "4", "0", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_equal_letters_are_interchangeable_also_for_a_resume() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", (0..6).map(|_| "same".to_owned())).await;
    let broker = host.broker(false).await;
    let wanted = numbered(&inspected(&host).await);
    let first = send_all(&*broker, "r1", &wanted[..3]).await;
    assert_eq!(first.len(), 3);
    let second = send_all(&*broker, "r1", &wanted[3..]).await;
    assert_eq!(second.len(), 3, "the other three are seen as the first three now");
    assert_eq!(host.ready("orders.dlq").await, 0);
    assert_eq!(host.texts("orders").await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_thousand_returns_are_matched_and_the_run_goes_on_when_the_target_is_back() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    let bodies: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    host.fill("orders.dlq", bodies.clone()).await;
    let broker = host.broker(false).await;
    let wanted = numbered(&inspected(&host).await);
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &wanted, 2_000).await;
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    let wire = host.connection.create_channel().await.unwrap();
    wire.queue_delete("orders".into(), lapin::options::QueueDeleteOptions::default()).await.unwrap();
    let answers = mover.publish(&batch[..1_000]).await;
    assert!(answers.iter().all(|a| a.as_ref().unwrap_err().kind == ErrorKind::NotFound));
    host.declare("orders", "quorum", &[]).await;
    let answers = mover.publish(&batch).await;
    assert!(answers.iter().all(Result::is_ok));
    let receipts: Vec<Receipt> = batch.iter().map(|one| one.receipt.clone()).collect();
    assert!(mover.settle(&receipts).await.iter().all(|one| matches!(one, Settled::Settled)));
    mover.end().await.unwrap();
    assert_eq!(host.texts("orders").await, bodies);
    assert_eq!(host.ready("orders.dlq").await, 0);
}
