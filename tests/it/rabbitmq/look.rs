//! Looking gives everything back as it was, and knows what it costs.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray};
use redrive::broker::ErrorKind;
use redrive::letter::Value;

use super::server::{Server, arguments, bodies, channel, look, number, text, typed};

#[tokio::test(flavor = "multi_thread")]
async fn r35_looking_twice_leaves_order_and_count_as_they_were() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        host.pair(kind).await;
        let sent = ["A1", "A2", "B1", "A3"].map(str::to_owned);
        host.fill("orders.dlq", sent.clone()).await;
        for management in [true, false] {
            let (letters, cost) = host.inspect(management).await;
            assert_eq!(bodies(&letters), sent, "{kind}");
            assert_eq!(cost.read, 4);
            assert!(cost.changed[0].starts_with("4 letters held and put back in order"), "{cost:?}");
            host.until("orders.dlq", 4).await;
        }
        // Only the first two are taken by a reader that stops early.
        let broker = host.broker(true).await;
        let mut pages = broker.snapshot(&channel(), redrive::broker::Want::default()).await.unwrap();
        pages.next().await.unwrap();
        drop(pages);
        host.until("orders.dlq", 4).await;
        assert_eq!(host.texts("orders.dlq").await, sent, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_letters_than_one_consumer_may_hold_come_in_order() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    let sent: Vec<String> = (0..6_000).map(|n| format!("{n:05}{}", "x".repeat(1_000))).collect();
    host.fill("orders.dlq", sent.clone()).await;
    let (letters, cost) = host.inspect(false).await;
    assert_eq!(bodies(&letters), sent);
    assert_eq!((cost.read, cost.unseen.len()), (6_000, 0));
    host.until("orders.dlq", 6_000).await;
    assert_eq!(host.all("orders.dlq").await, sent);
}

/// A quorum queue takes letters back consumer by consumer, and looks at tags for the order of those.
#[tokio::test(flavor = "multi_thread")]
async fn r35_letters_of_many_consumers_on_several_channels_go_back_in_order() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        let sent = host.fill_large(kind).await;
        for _ in 0..2 {
            let (letters, cost) = host.inspect(false).await;
            assert!(bodies(&letters) == sent, "{kind}: seen in order");
            assert_eq!((cost.read, cost.unseen.len()), (900, 0));
            host.until("orders.dlq", 900).await;
        }
        assert!(host.texts("orders.dlq").await == sent, "{kind}: back in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r18_headers_of_every_type_are_read_as_they_are() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    let mut list = FieldArray::default();
    list.push(AMQPValue::ShortShortInt(-5));
    list.push(AMQPValue::Void);
    let headers = arguments(&[
        ("bool", AMQPValue::Boolean(true)),
        ("int8", AMQPValue::ShortShortInt(-5)),
        ("int16", AMQPValue::ShortInt(-300)),
        ("int32", AMQPValue::LongInt(-70_000)),
        ("int64", number(-5)),
        ("float", AMQPValue::Float(1.5)),
        ("double", AMQPValue::Double(1.5)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 125 })),
        ("time", AMQPValue::Timestamp(1_745_575_728)),
        ("text", AMQPValue::LongString(vec![0xff, 0xfe].into())),
        ("bytes", AMQPValue::ByteArray(ByteArray::from(vec![0xff, 0xfe, 0, 1]))),
        ("null", AMQPValue::Void),
        ("table", AMQPValue::FieldTable(arguments(&[("n", number(-5))]))),
        ("list", AMQPValue::FieldArray(list)),
    ]);
    host.send("orders.dlq", &[0xff, 0xfe, 0, 1], BasicProperties::default().with_headers(headers)).await;
    let (letters, _) = host.inspect(false).await;
    let message = &letters[0].message;
    assert_eq!(message.body.as_deref(), Some(&[0xff, 0xfe, 0, 1][..]));
    let read = |name: &str| message.headers.first(name).cloned().unwrap();
    assert_eq!(read("int8"), Value::I8(-5));
    assert_eq!(read("int64"), Value::I64(-5));
    assert_eq!(read("decimal"), Value::Decimal { scale: 2, value: 125 });
    assert_eq!(read("time"), Value::Timestamp(1_745_575_728));
    assert_eq!(read("text"), Value::Text(vec![0xff, 0xfe].into()));
    assert_eq!(read("bytes"), Value::Bytes(vec![0xff, 0xfe, 0, 1].into()));
    assert_eq!(read("null"), Value::Null);
    assert_eq!(read("list"), Value::List(vec![Value::I8(-5), Value::Null]));
}

#[tokio::test(flavor = "multi_thread")]
async fn r34_a_look_stops_short_of_a_delivery_limit_and_destroys_nothing() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.declare("orders", "quorum", &[]).await;
    host.declare("orders.dlq", "quorum", &[("x-delivery-limit", number(5))]).await;
    host.fill("orders.dlq", ["a", "b", "c"].map(str::to_owned)).await;
    let broker = host.broker(true).await;
    let mut refused = 0;
    for round in 0..25 {
        match look(&*broker, &channel()).await {
            Ok((letters, cost)) => {
                assert_eq!(letters.len(), 3, "look {round}");
                assert!(cost.changed[0].contains("of 5"), "{cost:?}");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind, ErrorKind::Unsupported);
                assert!(error.message.contains("delivery limit is 5"), "{error}");
            }
        }
        host.until("orders.dlq", 3).await;
    }
    assert!(refused > 15, "{refused}");
    let mut left = host.texts("orders.dlq").await;
    left.sort();
    assert_eq!(left, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_equal_letters_have_names_of_their_own_that_last() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["same", "same", "other"].map(str::to_owned)).await;
    let ids = |letters: &[redrive::letter::RawLetter]| {
        letters.iter().map(|letter| letter.id.to_string()).collect::<Vec<_>>()
    };
    let first = ids(&host.inspect(false).await.0);
    let second = ids(&host.inspect(false).await.0);
    assert_eq!(first, second);
    assert_ne!(first[0], first[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_a_stream_is_read_by_offset_and_not_changed() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.declare("orders", "quorum", &[]).await;
    host.declare("orders.dlq", "stream", &[]).await;
    host.fill("orders.dlq", ["a", "b", "c"].map(str::to_owned)).await;
    for management in [true, false] {
        let broker = host.broker(management).await;
        let (letters, cost) = look(&*broker, &typed("stream")).await.unwrap();
        assert_eq!(bodies(&letters), ["a", "b", "c"]);
        assert_eq!(letters[1].id.as_str(), "o1");
        assert!(cost.changed.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn depths_count_without_touching_and_name_what_is_stuck() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let route = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("nowhere")),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
    ];
    host.declare("orders", "quorum", &route).await;
    host.declare("orders.dlq", "quorum", &[]).await;
    host.fill("orders", ["a", "b", "c"].map(str::to_owned)).await;
    host.fill("orders.dlq", ["d"].map(str::to_owned)).await;
    host.reject("orders", 2).await;
    let broker = host.broker(true).await;
    let mut depths = broker.depths(&channel()).await.unwrap();
    for _ in 0..100 {
        if !depths.notes.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        depths = broker.depths(&channel()).await.unwrap();
    }
    assert_eq!(depths.source.count.number(), 1);
    assert_eq!(depths.dead_letter.count.number(), 1);
    assert!(!depths.tiers[0].exists);
    assert!(depths.notes[0].starts_with("2 messages of orders wait"), "{:?}", depths.notes);
}
