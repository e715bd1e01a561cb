//! Deliveries to letters: the message, what the broker says of it, and its place among equal ones.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lapin::message::Delivery;

use super::wire::{self, Identity};
use crate::clock::Time;
use crate::letter::{Facts, LetterId, Message, Position, RawLetter, Route, TimeSource, Value};

/// Turns the deliveries of one pass over one queue into letters.
pub(super) struct Letters {
    queue: Arc<str>,
    seen: HashMap<Identity, u32>,
    arrival: u64,
}

/// A letter with its handle on the channel.
pub(super) struct Held {
    /// Delivery tag.
    pub tag: u64,
    /// How often it was given back before, as the queue counts.
    pub returned: u32,
    /// What equal letters share, and which of them this is, from 1; `None` in a stream.
    pub equal: Option<(Identity, u32)>,
    /// The letter.
    pub letter: RawLetter,
    /// The same as it was kept by a look.
    pub packed: Option<Bytes>,
}

impl Letters {
    /// For one pass.
    pub fn of(queue: &str) -> Self {
        Self { queue: queue.into(), seen: HashMap::new(), arrival: 0 }
    }

    /// The next letter in the queue's order.
    pub fn take(&mut self, delivery: Delivery) -> Held {
        let tag = delivery.delivery_tag;
        let message = Message {
            key: None,
            body: Some(Bytes::from(delivery.data)),
            headers: wire::read_headers(&delivery.properties),
            properties: wire::read_properties(&delivery.properties),
        };
        let counted = message.headers.last(wire::DELIVERY_COUNT).and_then(Value::integer);
        let returned = counted.and_then(|count| u32::try_from(count).ok());
        let offset = message.headers.last(wire::STREAM_OFFSET).and_then(Value::integer);
        let (position, id, equal) = match offset {
            Some(offset) => {
                let position = Position::new(format!("o{offset}"));
                let id = LetterId::new(position.as_str());
                (position, id, None)
            }
            None => {
                let identity = wire::identity(&message);
                let occurrence = self.seen.entry(identity).or_insert(0);
                *occurrence = occurrence.saturating_add(1);
                let position = wire::position(&identity, *occurrence);
                let id = LetterId::hashed(position.as_str().as_bytes());
                (position, id, Some((identity, *occurrence)))
            }
        };
        let written_at = delivery
            .properties
            .timestamp()
            .and_then(|at| i64::try_from(at).ok())
            .map(|at| (Time::from_seconds(at), TimeSource::Producer));
        self.arrival += 1;
        let arrival = offset.and_then(|offset| u64::try_from(offset).ok()).unwrap_or(self.arrival);
        let letter = RawLetter {
            id,
            position,
            arrival,
            body_len: message.body.as_ref().map(|body| body.len() as u64),
            message,
            facts: Facts {
                queue: Arc::clone(&self.queue),
                written_at,
                deliveries: returned.map(|count| count.saturating_add(1)),
                route: Some(Route {
                    exchange: delivery.exchange.as_str().to_owned(),
                    routing_key: delivery.routing_key.as_str().to_owned(),
                }),
                redelivered: Some(delivery.redelivered),
                ..Facts::default()
            },
        };
        Held { tag, returned: returned.unwrap_or(0), equal, letter, packed: None }
    }
}
