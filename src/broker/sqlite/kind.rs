//! The embedded broker before anything is opened: names, abilities, rules.

use std::time::Duration;

use super::Sqlite;
use super::file::path_of;
use crate::broker::naming::{self, Placed};
use crate::broker::{
    Atomicity, Broker, BulkMoves, Capabilities, Dedup, Delay, Kind, Limits, Names, OpenContext, Opening,
    Order, Peek, options,
};
use crate::diagnostic::Diagnostic;
use crate::topology::{BrokerDecl, Channel, ServedBy, Topology, codes};

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
            bulk: BulkMoves::No("it has no move of its own"),
            batch: 2_000,
            claims: 4_000,
            group_lock: None,
            order: Order::PerGroup,
            dedup: Dedup::RunAndSeq,
            // SQLite's own limit of a row, less what headers and key may take.
            limits: Limits { message: Some(900_000_000), headers: None, header_count: None },
            deletes: true,
            trims: true,
            deleted_returns: false,
            keeps_times: false,
            sees_later: false,
            fan_out: false,
            enforces_retention: true,
            served_by: &[ServedBy::Relay, ServedBy::Consumer],
        }
    }

    fn names(&self, channel: &Channel) -> Names {
        names(channel)
    }

    fn check(&self, _topology: &Topology, broker: &BrokerDecl, channels: &[&Channel]) -> Vec<Diagnostic> {
        let mut found = options::check(broker, "SQLite", &[], &[]);
        found.extend(file(broker));
        for channel in channels {
            for placed in naming::placed(channel, &names(channel)) {
                found.extend(name(&placed));
            }
        }
        found
    }

    fn open<'a>(&self, broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
        Box::pin(
            async move { Sqlite::open(broker, context).map(|broker| Box::new(broker) as Box<dyn Broker>) },
        )
    }
}

/// `orders`, `orders.retry-5s`, `orders.dlq`; written names as they are.
pub fn names(channel: &Channel) -> Names {
    naming::lowered(channel, |base, suffix| format!("{base}.{suffix}"))
}

fn file(broker: &BrokerDecl) -> Option<Diagnostic> {
    let url = &broker.url.value;
    // A variable that is not set here says nothing about the url.
    if url.contains("${") || path_of(url).is_some() {
        return None;
    }
    Some(
        Diagnostic::error(codes::URL, format!("the url of `{}` names no file", broker.name.value))
            .at(broker.url.span.clone(), "cannot be used")
            .help("write sqlite:FILE, beside this file, or sqlite:/PATH/FILE"),
    )
}

/// Longest name of a queue, so that it fits into headers and screens.
const NAME_MAX: usize = 200;

/// Names go into headers (`redrive-from`) and into commands that people copy.
fn name(placed: &Placed) -> Option<Diagnostic> {
    let name = &placed.name;
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | ':');
    // A lowered name is made of the channel's, whose letters have a rule of their own.
    if placed.written
        && let Some(strange) = naming::strangers(name, allowed)
    {
        return Some(
            Diagnostic::error(
                codes::NAME_LETTERS,
                format!("the embedded broker takes no queue of this name: {strange}"),
            )
            .at(placed.span.clone(), placed.label("refused"))
            .help("letters of queues: A-Z a-z 0-9 . _ - :"),
        );
    }
    (name.len() > NAME_MAX).then(|| {
        Diagnostic::error(codes::NAME_LENGTH, format!("the name of the {} is too long", placed.part))
            .at(placed.span.clone(), placed.label("too long"))
            .help(format!("the embedded broker takes {NAME_MAX} characters; this has {}", name.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::At;

    fn found(url: &str, source: &str) -> Vec<&'static str> {
        let broker = BrokerDecl { url: At::nowhere(url.to_owned()), ..BrokerDecl::default() };
        let channel = Channel {
            name: At::nowhere("orders".to_owned()),
            source: At::nowhere(source.to_owned()),
            ..Channel::default()
        };
        let found = SqliteKind.check(&Topology::default(), &broker, &[&channel]);
        found.iter().map(|problem| problem.code.0).collect()
    }

    #[test]
    fn n05_names_that_cannot_go_into_headers_and_commands_are_refused() {
        assert!(found("sqlite:a.db", "orders:v2_x-1.y").is_empty());
        for bad in ["a b", "a,b", "a/b", "\u{43e}rders", "a\u{1b}[2J"] {
            assert_eq!(found("sqlite:a.db", bad), [codes::NAME_LETTERS.0], "{bad}");
        }
        assert_eq!(found("sqlite:a.db", &"a".repeat(201)), [codes::NAME_LENGTH.0]);
    }

    #[test]
    fn a_url_has_to_name_a_file() {
        assert_eq!(found("sqlite::memory:", "a"), [codes::URL.0]);
        assert!(found("sqlite:${DB}", "a").is_empty());
    }
}
