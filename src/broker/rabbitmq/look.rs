//! Looking at a dead-letter queue: hold, read, give back in order, and say what that cost.

use std::collections::VecDeque;

use async_trait::async_trait;

use super::connect::Link;
use super::feed::Feed;
use super::letters::{Held, Letters};
use super::reading::Left;
use super::rescue;
use super::shelf::Shelf;
use super::state::QueueType;
use super::version::Version;
use crate::broker::{BrokerError, ErrorKind, Holding, LookCost, Pages, Result, Snapshot, Want, letters};
use crate::letter::RawLetter;

/// Letters of a page.
const PAGE: usize = 1_000;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4 * 1024 * 1024;
/// A look stops short when a letter has no more than this many returns left.
const SPARE: u32 = 2;

/// One look.
pub(super) struct Look {
    pub link: std::sync::Arc<Link>,
    pub feed: Feed,
    pub letters: Letters,
    pub snapshot: Snapshot,
    pub want: Want,
    pub version: Version,
    pub kind: QueueType,
    /// Returns after which a letter is destroyed, if there is such a limit and giving back counts.
    pub limit: Option<u32>,
    /// What the management API said cannot be seen.
    pub unseen: Vec<String>,
    /// Set by reading.
    pub state: Reading,
    /// For the run that goes on from here.
    pub at_hand: AtHand,
}

/// Letters at hand for a run that goes on from this look.
#[derive(Default)]
pub(super) struct AtHand {
    letters: Shelf,
    /// No room for all: such a run reads them again.
    too_many: bool,
    /// The last ones given out, without what they hold: any of them may be asked for yet.
    shown: VecDeque<Shown>,
}

/// What a letter that was given out is known by here.
struct Shown {
    arrival: u64,
    tag: u64,
    returned: u32,
    equal: Option<(super::wire::Identity, u32)>,
}

impl AtHand {
    fn show(&mut self, held: &Held) {
        if self.shown.len() >= 4 * PAGE {
            self.shown.pop_front();
        }
        let Held { tag, returned, equal, .. } = *held;
        self.shown.push_back(Shown { arrival: held.letter.arrival, tag, returned, equal });
    }

    fn keep(&mut self, letter: RawLetter) {
        while self.shown.front().is_some_and(|shown| shown.arrival < letter.arrival) {
            self.shown.pop_front();
        }
        let shown = self.shown.pop_front().filter(|shown| shown.arrival == letter.arrival);
        let kept = shown.is_some_and(|Shown { tag, returned, equal, .. }| {
            self.letters.put(&Held { tag, returned, equal, letter, packed: None })
        });
        if !kept {
            self.too_many = true;
            self.letters = Shelf::default();
        }
    }
}

/// What reading has found out.
#[derive(Default)]
pub(super) struct Reading {
    read: u64,
    /// Held without having been shown.
    taken: u64,
    rescued: usize,
    counted: bool,
    most_returned: u32,
    /// Letters that would not survive being given back.
    at_limit: Vec<(u64, RawLetter)>,
    stopped_at: Option<(u32, u32)>,
    ended: bool,
}

#[async_trait]
impl Pages for Look {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    async fn next(&mut self) -> Result<Vec<RawLetter>> {
        let mut page = Vec::new();
        let mut bytes = 0;
        while !self.state.ended && page.len() < PAGE && bytes < PAGE_BYTES {
            if self.state.read >= self.feed.extent() {
                self.state.ended = true;
                break;
            }
            let Some(delivery) = self.feed.next().await? else {
                self.state.ended = true;
                break;
            };
            let held = self.letters.take(delivery);
            self.note(&held);
            self.at_hand.show(&held);
            if self.state.stopped_at.is_some() && self.state.read == 1 {
                return Err(self.refuse().await);
            }
            let mut letter = held.letter;
            bytes += letter.size();
            if !self.want.bodies {
                letter.message.body = None;
            }
            page.push(letter);
        }
        Ok(page)
    }

    fn keep(&mut self, letter: RawLetter) {
        if !self.at_hand.too_many {
            self.at_hand.keep(letter);
        }
    }

    async fn hold(mut self: Box<Self>) -> Result<(LookCost, Option<Box<dyn Holding>>)> {
        let at_hand = std::mem::take(&mut self.at_hand.letters);
        // Near the delivery limit a letter has to go back as it is done here.
        if at_hand.is_empty() || self.state.stopped_at.is_some() || !self.feed.alive() {
            return Ok((self.close().await?, None));
        }
        let Ok(at_hand) = at_hand.taken(&self.snapshot.queue) else {
            return Ok((self.close().await?, None));
        };
        let cost = self.cost();
        let Self { link, feed, letters, snapshot, version, limit, .. } = *self;
        let left = Left::of((link, feed, letters), at_hand, &snapshot.queue, limit, version);
        Ok((cost, Some(Box::new(left))))
    }

    async fn close(mut self: Box<Self>) -> Result<LookCost> {
        self.keep().await?;
        let cost = self.cost();
        self.feed.close(self.version).await?;
        Ok(cost)
    }
}

impl Look {
    /// Stops reading, and saves what would not survive being given back, the letters not read included.
    async fn keep(&mut self) -> Result<()> {
        let unread = self.feed.stop().await?;
        self.state.taken += unread.len() as u64;
        for delivery in unread {
            let held = self.letters.take(delivery);
            self.weigh(&held);
        }
        let rescued = std::mem::take(&mut self.state.at_limit);
        self.state.rescued += rescued.len();
        rescue::keep(&self.link, &mut self.feed, &self.snapshot.queue, rescued).await
    }

    fn note(&mut self, held: &Held) {
        self.state.read += 1;
        self.weigh(held);
        let Some(limit) = self.limit else { return };
        if limit.saturating_sub(held.returned) <= SPARE {
            self.state.stopped_at.get_or_insert((held.returned, limit));
            self.state.ended = true;
        }
    }

    fn weigh(&mut self, held: &Held) {
        self.state.most_returned = self.state.most_returned.max(held.returned);
        self.state.counted |= held.letter.facts.deliveries.is_some();
        let Some(limit) = self.limit else { return };
        if held.returned >= limit {
            self.state.at_limit.push((held.tag, held.letter.clone()));
        }
    }

    /// The first letter is near its limit: everything goes back, and the look is refused (R34).
    async fn refuse(&mut self) -> BrokerError {
        let (returned, limit) = self.state.stopped_at.unwrap_or_default();
        if let Err(error) = self.keep().await {
            return error;
        }
        let queue = &self.snapshot.queue;
        BrokerError::new(
            ErrorKind::Unsupported,
            format!("look at {queue}"),
            format!(
                "its first letter was handed out and given back {returned} times, and the queue's delivery \
                 limit is {limit}: a few more looks would destroy letters"
            ),
        )
        .hint(format!(
            "lift the limit first: `redrive apply` sets a policy with delivery-limit -1 on `{queue}` where the \
             management API is given, or set one by hand"
        ))
    }

    fn cost(&self) -> LookCost {
        let read = self.state.read;
        let mut cost = LookCost { read, unseen: self.unseen.clone(), ..LookCost::default() };
        let held = read + self.state.taken;
        if held > 0 {
            let letters = if held == 1 { "1 letter".to_owned() } else { format!("{held} letters") };
            let quorum = self.kind == QueueType::Quorum || self.state.counted;
            let mark = match (quorum, self.limit) {
                _ if self.version.nack_is_free() && quorum => "acquired count +1".to_owned(),
                (true, Some(limit)) => {
                    format!("delivery count +1, now {} of {limit}", self.state.most_returned + 1)
                }
                (true, None) => "delivery count +1".to_owned(),
                (false, _) if self.kind == QueueType::Unknown => {
                    "marked redelivered, and counted if it is a quorum queue".to_owned()
                }
                (false, _) => "marked redelivered".to_owned(),
            };
            cost.changed.push(format!("{letters} held and put back in order; {mark}"));
        }
        let rescued = self.state.rescued;
        if rescued > 0 {
            cost.changed.push(format!(
                "{rescued} at the delivery limit put back as new copies at the end, or they would be gone"
            ));
        }
        if let Some((returned, limit)) = self.state.stopped_at {
            let left = self.feed.extent().saturating_sub(read);
            cost.unseen.push(format!(
                "{} behind one that was given back {returned} times of {limit}: the look stopped there",
                letters(left, "", "")
            ));
        }
        match self.feed.withheld() {
            0 => {}
            n => cost.unseen.push(format!(
                "{} to another consumer first",
                letters(n, "is ready and goes", "are ready and go")
            )),
        }
        cost
    }

    /// Words for a snapshot's extent, so that a manifest can tell whether it is the same queue.
    pub fn identity(vhost: &str, queue: &str) -> String {
        format!("amqp:{}/{}", super::address::encode(vhost), super::address::encode(queue))
    }
}
