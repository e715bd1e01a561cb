//! Kafka plugged into the suites, on the real broker.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redrive::broker::{Broker, Kind};
use redrive::clock::{Clock, Time};
use redrive::letter::{Headers, Message, Value};
use redrive::topology::Channel;

use super::Bench;
use crate::kafka::bench;

/// A bench, or the end of the test where there is no broker: said, or failed, by the bench.
macro_rules! here {
    () => {
        match bench::Bench::new() {
            Some(bench) => bench,
            None => return,
        }
    };
}

super::provision::provision_suite!(here!());
super::browse::browse_suite!(here!());
super::relocate::relocate_suite!(here!());

#[async_trait]
impl Bench for bench::Bench {
    fn kind(&self) -> &'static dyn Kind {
        Self::kind()
    }

    fn channel(&self) -> Channel {
        self.channel.clone()
    }

    async fn open(&self, writes: bool) -> Box<dyn Broker> {
        Self::open(self, writes).await
    }

    async fn produce(&self, queue: &str, messages: &[Message]) {
        self.app().produce(queue, messages, Duration::ZERO);
    }

    async fn produce_aged(&self, queue: &str, messages: &[Message], age: Duration) {
        // A producer's time is believed only by a topic that keeps it.
        self.app().set(queue, "message.timestamp.type", "CreateTime").await;
        self.app().produce(queue, messages, age);
    }

    async fn drain(&self, queue: &str) -> Vec<Message> {
        self.app().read(queue).into_iter().map(|read| read.message).collect()
    }

    async fn take(&self, queue: &str) -> Option<Message> {
        // No reader takes anything out of a topic: the first that it sees stays.
        self.drain(queue).await.into_iter().next()
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
        let bytes = |bytes: &'static [u8]| Value::from_bytes(Bytes::from_static(bytes));
        let headers: Headers = [
            ("text", bytes("größe \u{1b}[2J \u{202e} \"\\\n\0".as_bytes())),
            ("not utf-8", bytes(&[0xff, 0xfe])),
            ("empty", bytes(b"")),
            ("null", Value::Null),
            ("twice", bytes(b"1")),
            ("between", bytes(b"-")),
            ("twice", bytes(b"2")),
            ("", bytes(b"no name")),
            ("größe", bytes(&[0, 0, 0, 7])),
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
            Message { headers, ..message(Some(b"k"), Some(b"typed")) },
            message(None, None),
            message(Some(b""), Some(b"")),
            message(Some(&[0, 255]), Some(&[0xff, 0xfe, 0, 1])),
            Message { body: Some(Bytes::from(vec![b'x'; 900 << 10])), ..message(None, None) },
        ]
    }

    fn shrunk(&self) -> Option<Channel> {
        let mut shrunk = self.channel.clone();
        shrunk.dead_letter.retention.as_mut().unwrap().value = Duration::from_secs(86_400);
        Some(shrunk)
    }
}
