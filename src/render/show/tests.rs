//! The parts of the screen that need more than one broker has.

use std::sync::Arc;

use super::*;
use crate::letter::{Facts, LetterId, Message, Place, Position, RawLetter};
use crate::topology::At;
use crate::triage::deed;

fn shown(readers: &[&str], neighbours: Option<&Neighbours>) -> String {
    shown_where(readers, true, neighbours)
}

fn shown_where(readers: &[&str], copy_each: bool, neighbours: Option<&Neighbours>) -> String {
    let now = Time::parse("2026-11-30T03:12:08Z").unwrap();
    let channel = Channel {
        name: At::nowhere("orders".to_owned()),
        consumer: Some(At::nowhere("billing".to_owned())),
        ..Channel::default()
    };
    let raw = RawLetter {
        id: LetterId::new("p3o41"),
        position: Position::new("3/41"),
        arrival: 41,
        message: Message::default(),
        body_len: None,
        facts: Facts {
            queue: Arc::from("orders.dlq"),
            place: Some(Place { partition: 3, offset: 41 }),
            ..Facts::default()
        },
    };
    let letter = DeadLetter::of(raw, &channel);
    let readers: Vec<Reader> =
        readers.iter().map(|name| Reader { name: (*name).to_owned(), lag: Some(0) }).collect();
    let place = Where { channel: "orders".to_owned(), broker: "kafka".to_owned(), protected: true, at: now };
    let (mut ui, captured) = Ui::captured();
    Show {
        place: &place,
        channel: &channel,
        letter: &letter,
        deed: &deed(&letter, &channel, "orders", now),
        readers: &readers,
        copy_each,
        neighbours,
        full: false,
        why: false,
        changed: &["receive count +1 on 1 letter".to_owned()],
        next: &["redrive".to_owned()],
    }
    .print(&mut ui);
    ui.flush();
    captured.out() + &captured.err()
}

#[test]
fn k39_who_else_would_get_it_is_named() {
    let alone = shown(&["billing"], None);
    assert!(alone.contains("  send to  orders, read by billing\n"), "{alone}");
    let shared = shown(&["billing", "audit", "search"], None);
    assert!(
        shared.contains("  send to  orders, read by billing; audit and search would get it again\n"),
        "{shared}"
    );
    let many = shown(&["audit", "billing", "search", "x", "y"], None);
    assert!(many.contains("audit, search and 2 more would get it again"), "{many}");
    // Consumers of one queue share what comes.
    let sharing = shown_where(&["2 consumers"], false, None);
    assert!(sharing.contains("  send to  orders, read by billing (2 consumers)\n"), "{sharing}");
}

#[test]
fn the_head_names_broker_place_and_what_looking_cost() {
    let all = shown(&[], None);
    assert!(all.starts_with("orders · kafka (protected) · orders.dlq p3, offset 41\n"), "{all}");
    assert!(all.contains("\nbody, null (a tombstone)\n"), "{all}");
    assert!(all.contains("note  Looking cost: receive count +1 on 1 letter.\n"), "{all}");
}
