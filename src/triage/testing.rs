//! Letters and a broker in memory, for the tests of this folder.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::broker::{Browse, Count, Depths, LookCost, Pages, Result, Snapshot, Want};
use crate::clock::Time;
use crate::letter::{Facts, LetterId, Message, Position, RawLetter, Value};
use crate::topology::{At, Channel, EventIdRule, GroupRule};

pub(super) const NOW: Time = Time::from_seconds(1_800_000_000);

pub(super) fn channel() -> Channel {
    Channel {
        event_id: At::nowhere(EventIdRule::Header("event-id".to_owned())),
        group: At::nowhere(GroupRule::Key),
        ..Channel::default()
    }
}

/// A letter of `class`, `ago` seconds dead.
pub(super) fn letter(number: u64, class: &str, group: &str, ago: i64) -> RawLetter {
    let at = Time::from_millis(NOW.millis() - ago * 1000);
    let mut message = Message {
        key: Some(Bytes::copy_from_slice(group.as_bytes())),
        body: Some(Bytes::from(format!(
            "{{\"n\":{number},\"currency\":\"{}\"}}",
            if class == "A" { "XAU" } else { "EUR" }
        ))),
        ..Message::default()
    };
    message.headers.push("event-id", Value::from_text(format!("ev-{number}")));
    message.headers.push(
        "redrive-deaths",
        Value::from_text(format!(
            "[{{\"at\":\"{at}\",\"class\":\"java.lang.{class}\",\"message\":\"no\",\"consumer\":\"billing\"}}]"
        )),
    );
    RawLetter {
        id: LetterId::new(&format!("r{number}")),
        position: Position::new(format!("r{number}")),
        arrival: number,
        body_len: message.body.as_ref().map(|body| body.len() as u64),
        message,
        facts: Facts {
            queue: Arc::from("orders.dlq"),
            expires_at: Some(at.plus(std::time::Duration::from_secs(14 * 86_400))),
            ..Facts::default()
        },
    }
}

/// A broker that has just these letters.
pub(super) struct Fake(pub(super) Vec<RawLetter>);

struct FakePages {
    snapshot: Snapshot,
    left: Vec<RawLetter>,
    read: u64,
}

#[async_trait]
impl Pages for FakePages {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    async fn next(&mut self) -> Result<Vec<RawLetter>> {
        let page: Vec<RawLetter> = self.left.drain(..self.left.len().min(7)).collect();
        self.read += page.len() as u64;
        Ok(page)
    }

    async fn close(self: Box<Self>) -> Result<LookCost> {
        Ok(LookCost { read: self.read, ..LookCost::default() })
    }
}

#[async_trait]
impl Browse for Fake {
    async fn snapshot(&self, _channel: &Channel, want: Want) -> Result<Box<dyn Pages>> {
        let snapshot = Snapshot {
            queue: "orders.dlq".to_owned(),
            identity: "fake".to_owned(),
            place: "fake".to_owned(),
            taken_at: NOW,
            count: Count::Exact(self.0.len() as u64),
            unseen: None,
        };
        let mut left = self.0.clone();
        if !want.bodies {
            left.iter_mut().for_each(|letter| letter.message.body = None);
        }
        Ok(Box::new(FakePages { snapshot, left, read: 0 }))
    }

    async fn depths(&self, _channel: &Channel) -> Result<Depths> {
        Err(crate::broker::BrokerError::new(crate::broker::ErrorKind::Unsupported, "count", "not here"))
    }
}
