//! Carrying messages from tiers back: a tier holds by its own DelaySeconds, so what can be received is due.
//! Receive, send, delete, by [`ByHand`]; FIFO order within a group by SQS's own locking and one message of a group
//! at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::browse::Queue;
use super::client::Client;
use super::convert;
use super::relocate::{RESEND_WITHIN, Session};
use super::stamps;
use crate::broker::by_hand::{ByHand, Due, Shelf};
use crate::broker::{
    Carrier, Claimed, ErrorKind, Mover, Outgoing, Published, Receipt, Result, Settled, Task, TierState,
};
use crate::clock::Time;
use crate::letter::{RawLetter, Value};
use crate::stamp;

/// How long a tier's message is hidden while it is carried.
const HIDE: Duration = Duration::from_secs(60);
/// Most messages in hand at once: eight answers of ten.
const MOST: usize = 80;
/// Ids that are remembered of what was sent or given back; over it the memory begins anew, which costs a report
/// too many and never a message.
const MOST_KNOWN: usize = 100_000;
/// Tries of a send without an answer to a FIFO queue, which drops the second copy.
const TRIES: u32 = 4;
/// Room that our attribute may take.
const STAMPS: u64 = 512;

/// A tier that is to be served.
pub(super) struct Route {
    pub(super) tier: String,
    /// Its place among the tiers, from 1.
    pub(super) number: usize,
    pub(super) delay: Duration,
    pub(super) to: String,
}

/// Opens a relay's hold on some tiers.
pub(super) async fn open(client: &Client, routes: Vec<Route>, owner: &str) -> Result<Box<dyn Carrier>> {
    let mut shelves: Vec<Box<dyn Shelf>> = Vec::new();
    for route in routes {
        let task = Task {
            run: "relay".to_owned(),
            owner: owner.to_owned(),
            who: owner.to_owned(),
            target: route.to.clone(),
            take_over: false,
            snapshot: String::new(),
            claim_for: HIDE,
        };
        let session = Session::begin(client, &route.tier, &task).await?;
        shelves.push(Box::new(Tier {
            client: client.clone(),
            route,
            session,
            receives: HashMap::new(),
            unsent: HashMap::new(),
            sent: HashMap::new(),
        }));
    }
    Ok(Box::new(ByHand::new(Arc::clone(&client.clock), shelves)))
}

/// One tier in the hands of one relay.
struct Tier {
    client: Client,
    route: Route,
    session: Session,
    /// How often each message in hand was received by now.
    receives: HashMap<String, u32>,
    /// The same of those that we gave back and surely did not send: nobody has had them in between if the next
    /// receive is the next number.
    unsent: HashMap<String, u32>,
    /// Sent, and not deleted yet: when it comes again it is deleted, and never sent a second time.
    sent: HashMap<String, Receipt>,
}

fn id(receipt: &Receipt) -> &str {
    receipt.0.rsplit_once('#').map_or("", |(id, _)| id)
}

impl Tier {
    /// Deletes what was sent and could not be deleted, as far as we hold it.
    async fn delete_sent(&mut self) {
        let held: Vec<Receipt> =
            self.sent.values().filter(|receipt| self.session.holds(receipt).is_some()).cloned().collect();
        if held.is_empty() {
            return;
        }
        for (receipt, outcome) in held.iter().zip(self.session.settle(&held).await) {
            if matches!(outcome, Settled::Settled) {
                self.sent.remove(id(receipt));
            }
        }
    }

    fn due(&mut self, mut claimed: Claimed, now: Time) -> Due {
        let letter = &mut claimed.letter;
        let key = letter.position.as_str().to_owned();
        let receives = letter.facts.deliveries.unwrap_or(1);
        let known = self.unsent.remove(&key).unwrap_or(0);
        let again = receives > known.saturating_add(1) && !self.is_dropped_twice(letter, now);
        self.receives.insert(key, receives);
        let sent = letter.facts.written_at.map(|(at, _)| at);
        self.stamp(letter, sent);
        // Standard queues keep no order: MessageGroupId is a fair queue's tenant there.
        let group = letter.message.key.as_ref().filter(|_| self.session.source.fifo);
        let outgoing = Outgoing {
            packed: None,
            seq: claimed.seq,
            receipt: claimed.receipt,
            position: letter.position.clone(),
            attempt: 1,
            first_intent: now,
            group: group.map(|key| String::from_utf8_lossy(key).into_owned()),
            message: std::mem::take(&mut letter.message),
        };
        Due { outgoing, at: sent.map(|sent| sent.plus(self.route.delay)), again }
    }

    /// Would SQS drop a second copy? Whoever had the message before sent it after its first receive, if at all.
    fn is_dropped_twice(&self, letter: &RawLetter, now: Time) -> bool {
        let first = letter.message.properties.first_text("ApproximateFirstReceiveTimestamp");
        let first = first.and_then(|text| text.parse().ok()).map(Time::from_millis);
        self.session.target.fifo && first.is_some_and(|first| now.since(first) < RESEND_WITHIN)
    }

    /// What a consumer needs to know which tier is next, if whoever put the message here left it out. A count that
    /// is there is never changed (r08), and no attribute gives way to ours (S12).
    fn stamp(&self, letter: &mut RawLetter, sent: Option<Time>) {
        let size = letter.size() + STAMPS;
        let headers = &mut letter.message.headers;
        let own = headers.iter().filter(|header| !stamp::ALL.contains(&header.name.as_str())).count();
        if own >= convert::MOST_ATTRIBUTES
            || headers.has(stamps::NAME)
            || size > self.session.target.max_bytes
        {
            return;
        }
        if !headers.has(stamp::ATTEMPT) {
            headers.push(stamp::ATTEMPT, Value::from_text(self.route.number.to_string()));
        }
        if !headers.has(stamp::TIER) {
            headers.push(stamp::TIER, Value::from_text(self.route.tier.clone()));
        }
        if let Some(sent) = sent.filter(|_| !headers.has(stamp::FIRST_FAILED_AT)) {
            headers.push(stamp::FIRST_FAILED_AT, Value::from_text(sent.rfc3339()));
        }
    }
}

#[async_trait]
impl Shelf for Tier {
    fn tier(&self) -> &str {
        &self.route.tier
    }

    fn most(&self) -> usize {
        MOST
    }

    async fn take(&mut self, limit: usize) -> Result<Vec<Due>> {
        for known in [&mut self.receives, &mut self.unsent] {
            if known.len() > MOST_KNOWN {
                known.clear();
            }
        }
        if self.sent.len() > MOST_KNOWN {
            self.sent.clear();
        }
        self.delete_sent().await;
        let mut claims = self.session.claim_any(limit).await?;
        claims.got.sort_by_key(|claimed| claimed.letter.arrival);
        let now = self.client.clock.now();
        let (mut due, mut came_back) = (Vec::new(), false);
        for claimed in claims.got {
            if let Some(receipt) = self.sent.get_mut(claimed.letter.position.as_str()) {
                *receipt = claimed.receipt;
                came_back = true;
            } else {
                due.push(self.due(claimed, now));
            }
        }
        if came_back {
            self.delete_sent().await;
        }
        Ok(due)
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        let mut answers = self.session.publish(batch).await;
        for tried in 1..TRIES {
            let unknown =
                |answer: &Result<Published>| matches!(answer, Err(error) if error.kind == ErrorKind::Unknown);
            let open: Vec<usize> =
                answers.iter().enumerate().filter(|(_, answer)| unknown(answer)).map(|(at, _)| at).collect();
            if open.is_empty() || !self.session.target.fifo {
                break;
            }
            self.client.clock.sleep(Duration::from_millis(100) * 2u32.pow(tried)).await;
            let again: Vec<Outgoing> = open.iter().filter_map(|at| batch.get(*at).cloned()).collect();
            for (at, answer) in open.into_iter().zip(self.session.publish(&again).await) {
                // Only a copy that is there says more than "unknown".
                if let (Some(slot), Ok(_)) = (answers.get_mut(at), &answer) {
                    *slot = answer;
                }
            }
        }
        answers
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        let outcomes = self.session.settle(batch).await;
        for (receipt, outcome) in batch.iter().zip(&outcomes) {
            self.receives.remove(id(receipt));
            if !matches!(outcome, Settled::Settled) {
                self.sent.insert(id(receipt).to_owned(), receipt.clone());
            }
        }
        outcomes
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        for receipt in batch {
            if let Some(receives) = self.receives.remove(id(receipt)) {
                self.unsent.insert(id(receipt).to_owned(), receives);
            }
        }
        self.session.release(batch).await
    }

    async fn leave(&mut self, batch: &[Receipt]) -> Result<()> {
        for receipt in batch {
            self.receives.remove(id(receipt));
        }
        self.session.release(batch).await
    }

    /// Their claims end by themselves.
    async fn rest(&mut self, batch: &[Receipt]) -> Result<()> {
        for receipt in batch {
            if let Some(receives) = self.receives.remove(id(receipt)) {
                self.unsent.insert(id(receipt).to_owned(), receives);
            }
            self.session.let_go(receipt);
        }
        Ok(())
    }

    async fn state(&mut self) -> Result<TierState> {
        let queue = Queue::read(&self.client, &self.route.tier).await?;
        Ok(TierState {
            queue: self.route.tier.clone(),
            waiting: queue.visible + queue.in_flight + queue.delayed,
            due: queue.visible,
            overdue: Duration::ZERO,
        })
    }

    async fn close(self: Box<Self>) -> Result<()> {
        Box::new(self.session).end().await
    }
}
