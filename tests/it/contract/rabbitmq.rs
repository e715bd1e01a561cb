//! RabbitMQ plugged into the suites.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};
use redrive::broker::{Broker, Kind, kind_of};
use redrive::clock::{Clock, SystemClock, Time};
use redrive::letter::{Headers, Message, Value};
use redrive::topology::{At, Channel, GroupRule};

use super::Bench;
use crate::rabbitmq::server::{self, Got, Host, Server};

struct Rabbit {
    host: Host,
}

/// The suites run only where there is a server; `scripts/test` starts one and makes a missing one a failure.
macro_rules! with_server {
    ($suite:ident; $($case:ident),* $(,)?) => {
        mod $suite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let Some(server) = super::Server::get() else { return };
                    let bench = super::Rabbit { host: server.host().await };
                    $crate::contract::$suite::$case(&bench).await;
                }
            )*
        }
    };
}

with_server!(provision;
    desired_is_pure_and_names_are_distinct,
    observing_creates_nothing,
    applied_is_as_desired_and_applied_twice_changes_nothing,
    half_applied_then_applied_again_is_complete,
    a_change_that_loses_letters_is_refused_and_counted,
    what_nobody_declares_is_reported_and_left_alone,
);
with_server!(browse;
    letters_come_in_order_of_arrival,
    a_message_is_read_as_it_was_written,
    what_arrives_later_is_not_in_the_snapshot,
    looking_twice_changes_nothing,
    pages_give_each_letter_once,
    without_bodies_their_sizes_are_known,
    an_empty_queue_ends_at_once,
    a_letter_is_found_by_its_id,
    depths_count_without_touching,
    k36_a_queue_that_is_not_there_is_an_error_and_is_not_made,
);
with_server!(relocate;
    moved_in_a_transaction_every_letter_arrives_as_it_was,
    published_then_settled_every_letter_arrives_as_it_was,
    a_copy_is_there_before_the_original_goes,
    what_is_not_wanted_is_stepped_over,
    released_letters_are_as_they_were_and_in_order,
    m21_a_stale_receipt_settles_nothing,
    a_claim_that_was_lost_is_not_moved_and_its_group_waits,
    renewed_claims_live_on,
    marks_prove_what_arrived,
    sent_twice_is_there_once_where_the_broker_says_so,
    a_copy_that_died_again_is_counted_and_is_another_letter,
    l10_a_second_run_is_refused_and_told_who_holds_the_queue,
    a_dead_holder_loses_the_lock_by_time,
    m20_after_a_takeover_the_predecessor_can_do_nothing,
    a_queue_made_of_another_snapshot_is_refused,
);

#[async_trait]
impl Bench for Rabbit {
    fn kind(&self) -> &'static dyn Kind {
        kind_of(&self.host.decl(true)).unwrap()
    }

    fn channel(&self) -> Channel {
        Channel {
            create_source: true,
            group: At::nowhere(GroupRule::Header("group".to_owned())),
            tiers: vec![server::tier(1_800_000), server::tier(3_600_000)],
            ..server::channel()
        }
    }

    async fn open(&self, _writes: bool) -> Box<dyn Broker> {
        self.host.broker(true).await
    }

    async fn produce(&self, queue: &str, messages: &[Message]) {
        for message in messages {
            let body = message.body.clone().unwrap_or_default();
            self.host.send(queue, &body, properties(message)).await;
        }
    }

    async fn produce_aged(&self, _queue: &str, _messages: &[Message], _age: Duration) {
        unreachable!("RabbitMQ has no retention here")
    }

    async fn drain(&self, queue: &str) -> Vec<Message> {
        self.host.drain(queue).await.iter().map(message).collect()
    }

    async fn take(&self, queue: &str) -> Option<Message> {
        let options = lapin::options::BasicGetOptions { no_ack: true };
        let wire = self.host.connection.create_channel().await.unwrap();
        // What a dead session held is back a moment after its connection is gone.
        let mut got = None;
        for _ in 0..20 {
            got = wire.basic_get(queue.into(), options).await.unwrap();
            if got.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        wire.close(200, "ok".into()).await.unwrap();
        let got = got?;
        Some(message(&Got { body: got.delivery.data.clone(), properties: got.delivery.properties.clone() }))
    }

    /// Claims do not end by time here, but with their connection: the server ends it.
    async fn pass(&self, by: Duration) {
        if by > Duration::from_secs(30) {
            self.host.end_connections("redrive run").await;
        }
    }

    fn now(&self) -> Time {
        SystemClock.now()
    }

    fn message(&self, group: &str, body: &str) -> Message {
        let mut message = Message { body: Some(Bytes::from(body.to_owned())), ..Message::default() };
        message.headers.push("group", Value::from_text(group));
        message.properties.push("delivery_mode", Value::U8(2));
        message.properties.push("timestamp", Value::Timestamp(1_790_000_000));
        message
    }

    fn samples(&self) -> Vec<Message> {
        let headers: Headers = [
            ("bool", Value::Bool(false)),
            ("bytes", Value::Bytes((0..=255).collect())),
            ("decimal", Value::Decimal { scale: 2, value: 11_990 }),
            ("empty", Value::from_text("")),
            ("f32", Value::F32(f32::MIN_POSITIVE)),
            ("f64", Value::F64(0.1 + 0.2)),
            ("int16", Value::I16(-300)),
            ("int32", Value::I32(-70_000)),
            ("int64", Value::I64(-5)),
            ("int8", Value::I8(-5)),
            ("list", Value::List(vec![Value::I16(1), Value::Null, Value::from_text("x")])),
            ("not utf-8", Value::Text(Bytes::from_static(&[0xff, 0xfe]))),
            ("null", Value::Null),
            ("table", Value::Table(vec![("a".to_owned(), Value::I64(1)), ("b".to_owned(), Value::Null)])),
            ("text", Value::from_text("größe \u{1b}[2J \u{202e} \"\\\n\0")),
            ("time", Value::Timestamp(1_745_575_728)),
            ("uint16", Value::U16(60_000)),
            ("uint32", Value::U32(u32::MAX)),
            ("uint8", Value::U8(200)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let mut properties = Headers::new();
        for name in
            ["content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "app_id"]
        {
            properties.push(name, Value::from_text(format!("a {name}")));
        }
        properties.push("delivery_mode", Value::U8(1));
        properties.push("priority", Value::U8(4));
        properties.push("timestamp", Value::Timestamp(1_745_575_728));
        let body = |bytes: Vec<u8>| Message { body: Some(Bytes::from(bytes)), ..Message::default() };
        vec![
            Message { headers, properties, ..body(b"typed".to_vec()) },
            body(Vec::new()),
            body(vec![0xff, 0xfe, 0, 1]),
            body(vec![b'x'; 3 << 20]),
        ]
    }

    fn shrunk(&self) -> Option<Channel> {
        None
    }

    fn own(&self, name: &str) -> bool {
        matches!(name, "x-delivery-count" | "x-acquired-count")
    }
}

fn properties(message: &Message) -> BasicProperties {
    let mut out = BasicProperties::default();
    for property in &message.properties {
        let text = || property.value.text().unwrap().into();
        let byte = || u8::try_from(property.value.integer().unwrap()).unwrap();
        out = match property.name.as_str() {
            "content_type" => out.with_content_type(text()),
            "content_encoding" => out.with_content_encoding(text()),
            "correlation_id" => out.with_correlation_id(text()),
            "reply_to" => out.with_reply_to(text()),
            "message_id" => out.with_message_id(text()),
            "type" => out.with_type(text()),
            "app_id" => out.with_app_id(text()),
            "delivery_mode" => out.with_delivery_mode(byte()),
            "priority" => out.with_priority(byte()),
            "timestamp" => match property.value {
                Value::Timestamp(at) => out.with_timestamp(at),
                _ => panic!("timestamp"),
            },
            other => panic!("{other}"),
        };
    }
    let headers = table(message.headers.iter().map(|header| (header.name.as_str(), &header.value)));
    if headers.inner().is_empty() { out } else { out.with_headers(headers) }
}

fn table<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), amqp(value));
    }
    table
}

fn amqp(value: &Value) -> AMQPValue {
    match value {
        Value::Null => AMQPValue::Void,
        Value::Bytes(v) => AMQPValue::ByteArray(ByteArray::from(v.to_vec())),
        Value::Text(v) => AMQPValue::LongString(v.to_vec().into()),
        Value::Bool(v) => AMQPValue::Boolean(*v),
        Value::I8(v) => AMQPValue::ShortShortInt(*v),
        Value::U8(v) => AMQPValue::ShortShortUInt(*v),
        Value::I16(v) => AMQPValue::ShortInt(*v),
        Value::U16(v) => AMQPValue::ShortUInt(*v),
        Value::I32(v) => AMQPValue::LongInt(*v),
        Value::U32(v) => AMQPValue::LongUInt(*v),
        Value::I64(v) => AMQPValue::LongLongInt(*v),
        Value::F32(v) => AMQPValue::Float(*v),
        Value::F64(v) => AMQPValue::Double(*v),
        Value::Decimal { scale, value } => {
            AMQPValue::DecimalValue(DecimalValue { scale: *scale, value: *value })
        }
        Value::Timestamp(v) => AMQPValue::Timestamp(*v),
        Value::List(items) => {
            let mut list = FieldArray::default();
            items.iter().for_each(|item| list.push(amqp(item)));
            AMQPValue::FieldArray(list)
        }
        Value::Table(entries) => AMQPValue::FieldTable(table(entries.iter().map(|(n, v)| (n.as_str(), v)))),
        Value::Labelled { .. } => panic!("AMQP has no labels"),
    }
}

fn message(got: &Got) -> Message {
    let mut message = Message { body: Some(Bytes::from(got.body.clone())), ..Message::default() };
    if let Some(headers) = got.properties.headers() {
        for (name, value) in headers.inner() {
            message.headers.push(name.as_str(), read(value));
        }
    }
    let p = &got.properties;
    let mut text = |name: &str, value: &Option<lapin::types::ShortString>| {
        if let Some(value) = value {
            message.properties.push(name, Value::from_text(value.as_str()));
        }
    };
    text("content_type", p.content_type());
    text("content_encoding", p.content_encoding());
    text("correlation_id", p.correlation_id());
    text("reply_to", p.reply_to());
    text("message_id", p.message_id());
    text("type", p.kind());
    text("app_id", p.app_id());
    if let Some(mode) = p.delivery_mode() {
        message.properties.push("delivery_mode", Value::U8(*mode));
    }
    if let Some(priority) = p.priority() {
        message.properties.push("priority", Value::U8(*priority));
    }
    if let Some(at) = p.timestamp() {
        message.properties.push("timestamp", Value::Timestamp(*at));
    }
    message
}

fn read(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Void => Value::Null,
        AMQPValue::ByteArray(v) => Value::Bytes(Bytes::copy_from_slice(v.as_slice())),
        AMQPValue::LongString(v) => Value::Text(Bytes::copy_from_slice(v.as_bytes())),
        AMQPValue::Boolean(v) => Value::Bool(*v),
        AMQPValue::ShortShortInt(v) => Value::I8(*v),
        AMQPValue::ShortShortUInt(v) => Value::U8(*v),
        AMQPValue::ShortInt(v) => Value::I16(*v),
        AMQPValue::ShortUInt(v) => Value::U16(*v),
        AMQPValue::LongInt(v) => Value::I32(*v),
        AMQPValue::LongUInt(v) => Value::U32(*v),
        AMQPValue::LongLongInt(v) => Value::I64(*v),
        AMQPValue::Float(v) => Value::F32(*v),
        AMQPValue::Double(v) => Value::F64(*v),
        AMQPValue::DecimalValue(v) => Value::Decimal { scale: v.scale, value: v.value },
        AMQPValue::Timestamp(v) => Value::Timestamp(*v),
        AMQPValue::FieldArray(v) => Value::List(v.as_slice().iter().map(read).collect()),
        AMQPValue::FieldTable(v) => {
            Value::Table(v.inner().iter().map(|(n, v)| (n.as_str().to_owned(), read(v))).collect())
        }
        AMQPValue::ShortString(_) => panic!("no server sends it"),
    }
}
