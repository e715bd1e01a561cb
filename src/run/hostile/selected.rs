//! What a new run makes of letters that another one left open (m17).

use std::collections::HashMap;

use async_trait::async_trait;

use super::broker::{Hostile, Plant, Shape};
use super::{channel, head};
use crate::broker::{Browse, Count, Depths, LookCost, Names, Pages, Result, Snapshot, Want};
use crate::clock::{Clock, Time};
use crate::ledger::MovedBefore;
use crate::letter::RawLetter;
use crate::manifest::{OrderPolicy, Reader};
use crate::run::prepare::{Request, prepare};
use crate::selection::{Limit, Selection};
use crate::topology::Channel;

struct Look {
    snapshot: Snapshot,
    letters: Vec<RawLetter>,
}

#[async_trait]
impl Pages for Look {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    async fn next(&mut self) -> Result<Vec<RawLetter>> {
        Ok(std::mem::take(&mut self.letters))
    }

    async fn close(self: Box<Self>) -> Result<LookCost> {
        Ok(LookCost::default())
    }
}

#[async_trait]
impl Browse for Hostile {
    async fn snapshot(&self, _channel: &Channel, _want: Want) -> Result<Box<dyn Pages>> {
        let letters = self.letters();
        let snapshot = Snapshot {
            queue: "orders.dlq".to_owned(),
            identity: "s".to_owned(),
            place: "s".to_owned(),
            taken_at: Time::default(),
            count: Count::Exact(letters.len() as u64),
            unseen: None,
        };
        Ok(Box::new(Look { snapshot, letters }))
    }

    async fn depths(&self, _channel: &Channel) -> Result<Depths> {
        unreachable!("a run counts nothing")
    }
}

/// What a new run would send of the first group, given what the ledger says of its second letter.
fn sent(open: bool, moved_before: &MovedBefore) -> (Vec<u64>, Vec<u64>) {
    let hostile = Hostile::new(1, Shape::NoProof, Plant::None, 0.0);
    let (channel, capabilities) = (channel(), hostile.capabilities());
    let group = hostile.look().groups.into_values().next().unwrap();
    let open: HashMap<String, String> =
        open.then(|| (group[1].to_string(), "r0".to_owned())).into_iter().collect();
    let names = Names {
        source: "orders".to_owned(),
        return_to: "orders".to_owned(),
        dead_letter: "orders.dlq".to_owned(),
        tiers: Vec::new(),
    };
    let request = Request {
        channel: &channel,
        names: &names,
        capabilities: &capabilities,
        selection: &Selection { limit: Limit::All, ..Selection::default() },
        manifest: None,
        order: OrderPolicy::Group,
        dedupe: true,
        past_dedup_window: false,
        skip_overtaken: false,
        any_origin: false,
        now: hostile.clock().now(),
        open_elsewhere: &open,
        moved_before,
        pass: None,
        goes_on: false,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.jsonl");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let prepared = prepare(&hostile, &request, |_| {}).await.unwrap();
        prepared.freeze(&path, &head()).unwrap();
    });
    let mut reader = Reader::open(&path).unwrap();
    let mut sent = Vec::new();
    while let Some(line) = reader.next_line().unwrap() {
        let number: u64 = line.position.as_str().parse().unwrap();
        if line.kept.is_none() && group.contains(&number) {
            sent.push(number);
        }
    }
    (group, sent)
}

#[test]
fn m17_a_new_run_asks_the_ledger() {
    let none = MovedBefore::default();
    let passed = || {
        let (group, sent) = sent(true, &none);
        sent.iter().filter(|seq| **seq > group[0]).count()
    };
    assert_eq!(passed(), 0, "the letter that another run left open, and what is behind it, stay");
    assert!(crate::proof::mutation::planted::with("m17", passed) > 0, "m17 was not caught");
}

#[test]
fn what_an_earlier_run_moved_is_not_sent_again_and_bars_nobody() {
    let (group, _) = sent(false, &MovedBefore::default());
    let mut before = MovedBefore::default();
    before.add("r0", &group[1].to_string());
    let (_, sent) = sent(false, &before);
    let expected: Vec<u64> = group.iter().copied().filter(|seq| *seq != group[1]).collect();
    assert_eq!(sent, expected);
}
