//! The embedded broker before anything is opened: names, abilities, rules.

use std::time::Duration;

use super::Sqlite;
use crate::broker::{
    Atomicity, Broker, Capabilities, Dedup, Delay, Kind, Limits, Names, OpenContext, Opening, Order, Peek,
};
use crate::diagnostic::Diagnostic;
use crate::topology::{BrokerDecl, Channel, ReturnTo, ServedBy, Topology};

/// See the file's head.
pub struct SqliteKind;

impl Kind for SqliteKind {
    fn schemes(&self) -> &'static [&'static str] {
        &["sqlite"]
    }

    fn title(&self) -> &'static str {
        "SQLite"
    }

    fn block(&self) -> Option<&'static str> {
        None
    }

    fn capabilities(&self, _channel: &Channel) -> Capabilities {
        Capabilities {
            // A letter is not handed out before it is due, to the millisecond and as far as times go.
            delay: Delay::Native {
                max: Duration::from_secs(10 * 365 * 86_400),
                step: Duration::from_millis(1),
            },
            peek: Peek::Pure,
            relocate: Atomicity::Transaction,
            ordered_batch: true,
            order: Order::PerGroup,
            dedup: Dedup::RunAndSeq,
            // SQLite's own limit of a row, less what headers and key may take.
            limits: Limits { message: Some(900_000_000), headers: None, header_count: None },
            deletes: true,
            fan_out: false,
            enforces_retention: true,
            served_by: &[ServedBy::Relay, ServedBy::Consumer],
        }
    }

    fn names(&self, channel: &Channel) -> Names {
        names(channel)
    }

    fn check(&self, _topology: &Topology, _broker: &BrokerDecl, _channels: &[&Channel]) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn open<'a>(&self, broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
        Box::pin(
            async move { Sqlite::open(broker, context).map(|broker| Box::new(broker) as Box<dyn Broker>) },
        )
    }
}

/// `orders`, `orders.retry-5s`, `orders.dlq`; written names as they are.
pub fn names(channel: &Channel) -> Names {
    let source = channel.source.value.clone();
    let tiers = channel
        .tiers
        .iter()
        .map(|tier| {
            if tier.name_written {
                tier.name.value.clone()
            } else {
                format!("{}.{}", channel.name.value, tier.name.value)
            }
        })
        .collect();
    let dead_letter = channel
        .dead_letter
        .name
        .as_ref()
        .map_or_else(|| format!("{}.dlq", channel.name.value), |name| name.value.clone());
    let return_to = match channel.return_to.as_ref().map(|to| &to.value) {
        Some(ReturnTo::Named(name)) => name.clone(),
        Some(ReturnTo::Source) | None => source.clone(),
    };
    Names { source, tiers, dead_letter, return_to }
}
