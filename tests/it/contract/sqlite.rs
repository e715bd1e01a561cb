//! The embedded broker plugged into the suites.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redrive::broker::sqlite::SqliteKind;
use redrive::broker::{Broker, Kind};
use redrive::clock::{Clock, Time, VirtualClock};
use redrive::letter::{Headers, Message, Value};
use redrive::topology::Channel;

use super::Bench;
use crate::sqlite::bench;

struct Sqlite {
    file: bench::Bench,
    clock: Arc<VirtualClock>,
    channel: Channel,
}

fn new() -> Sqlite {
    let clock = Arc::new(VirtualClock::new(Time::from_seconds(1_790_000_000)));
    Sqlite { file: bench::Bench::at(clock.clone()), clock, channel: bench::channel("orders") }
}

super::provision::provision_suite!(new());
super::browse::browse_suite!(new());
super::relocate::relocate_suite!(new());

#[async_trait]
impl Bench for Sqlite {
    fn kind(&self) -> &'static dyn Kind {
        &SqliteKind
    }

    fn channel(&self) -> Channel {
        self.channel.clone()
    }

    async fn open(&self, writes: bool) -> Box<dyn Broker> {
        self.file.open(writes).await
    }

    async fn produce(&self, queue: &str, messages: &[Message]) {
        self.file.application().send(queue, messages, Duration::ZERO).unwrap();
    }

    async fn produce_aged(&self, queue: &str, messages: &[Message], age: Duration) {
        let ids = self.file.application().send(queue, messages, Duration::ZERO).unwrap();
        let db = rusqlite::Connection::open(self.file.path()).unwrap();
        for id in ids {
            let id: i64 = id.as_str()[1..].parse().unwrap();
            db.execute(
                "UPDATE letter SET entered_at = entered_at - ?2 WHERE id = ?1",
                (id, age.as_millis() as i64),
            )
            .unwrap();
        }
    }

    async fn drain(&self, queue: &str) -> Vec<Message> {
        let db = rusqlite::Connection::open(self.file.path()).unwrap();
        db.execute(
            "UPDATE letter SET due = 1 WHERE due > 0 AND queue = (SELECT id FROM queue WHERE name = ?1)",
            [queue],
        )
        .unwrap();
        let mut application = self.file.application();
        let mut all = Vec::new();
        loop {
            let some = application.receive(queue, 1_000, None).unwrap();
            if some.is_empty() {
                break all;
            }
            for delivery in some {
                application.ack(&delivery.receipt).unwrap();
                all.push(delivery.message);
            }
        }
    }

    async fn take(&self, queue: &str) -> Option<Message> {
        let mut application = self.file.application();
        let delivery = application.receive(queue, 1, None).unwrap().pop()?;
        application.ack(&delivery.receipt).unwrap();
        Some(delivery.message)
    }

    async fn pass(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn message(&self, group: &str, body: &str) -> Message {
        bench::message(group, body)
    }

    fn samples(&self) -> Vec<Message> {
        let typed: Headers = [
            ("text", Value::from_text("größe \u{1b}[2J \u{202e} \"\\\n\0")),
            ("not utf-8", Value::Text(Bytes::from_static(&[0xff, 0xfe]))),
            ("bytes", Value::Bytes((0..=255).collect())),
            ("empty", Value::from_text("")),
            ("null", Value::Null),
            ("twice", Value::I8(-1)),
            ("twice", Value::U32(u32::MAX)),
            ("", Value::Bool(true)),
            ("f", Value::F64(0.1 + 0.2)),
            ("f32", Value::F32(f32::MIN_POSITIVE)),
            ("decimal", Value::Decimal { scale: 2, value: 11_990 }),
            (
                "table",
                Value::Table(vec![
                    ("a".to_owned(), Value::List(vec![Value::I16(1), Value::Null])),
                    ("a".to_owned(), Value::Timestamp(1)),
                ]),
            ),
            (
                "label",
                Value::Labelled { label: "Number.x".to_owned(), value: Box::new(Value::from_text("1e3")) },
            ),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let message = |key: Option<&'static [u8]>, body: Option<&'static [u8]>| Message {
            key: key.map(Bytes::from_static),
            body: body.map(Bytes::from_static),
            ..Message::default()
        };
        vec![
            Message { headers: typed.clone(), properties: typed, ..message(Some(b"k"), Some(b"typed")) },
            message(None, None),
            message(Some(b""), Some(b"")),
            message(Some(&[0, 255]), Some(&[0xff, 0xfe, 0, 1])),
            Message { body: Some(Bytes::from(vec![b'x'; 3 << 20])), ..message(None, None) },
        ]
    }

    fn shrunk(&self) -> Option<Channel> {
        let mut shrunk = self.channel.clone();
        shrunk.dead_letter.retention.as_mut().unwrap().value = Duration::from_secs(86_400);
        Some(shrunk)
    }
}
