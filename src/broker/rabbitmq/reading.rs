//! What a run holds of its dead-letter queue: read by itself, or left to it by the look that it was selected in.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::connect::Link;
use super::feed::Feed;
use super::letters::{Held, Letters};
use super::rescue;
use super::shelf::{self, Kept};
use super::version::Version;
use crate::broker::{Holding, Result};
use crate::letter::RawLetter;
use crate::stamp;

/// Most letters that are unpacked before they are asked for.
const UNPACKED: u64 = 1_000;
/// About how many bytes these may have.
const UNPACKED_BYTES: u64 = 2 * 1024 * 1024;

/// See the file's head.
pub(super) struct Reading {
    link: Arc<Link>,
    /// Is the connection this reading's, to be closed with it? That of a look is the client's.
    own_link: bool,
    pub feed: Feed,
    pub letters: Letters,
    pub claimed: HashSet<u64>,
    /// Letters in the engine's hands, by delivery tag, with the number of the claim that gave them out.
    pub out: HashMap<u64, Out>,
    /// Letters that it gave back: held until the end, and given out again if they are wanted again.
    pub released: BTreeMap<u64, Out>,
    /// Read by the look before, and not asked for yet.
    kept: Kept,
    /// Of those, the next ones, unpacked; or why they cannot be had.
    unpacked: VecDeque<Result<Held>>,
    /// Read since, and not asked for yet.
    pub waiting: VecDeque<Held>,
    /// Letters that would not survive being given back.
    pub at_limit: BTreeMap<u64, RawLetter>,
}

/// A letter in the engine's hands.
pub(super) struct Out {
    pub seq: u64,
    pub claim: u64,
    pub again: Again,
}

/// A letter, if it is to be given out once more.
pub(super) enum Again {
    Whole(Box<RawLetter>),
    Packed(Bytes),
}

impl Again {
    /// The letter.
    pub fn letter(self, queue: &Arc<str>) -> Option<RawLetter> {
        match self {
            Self::Whole(letter) => Some(*letter),
            Self::Packed(packed) => Some(shelf::unpack(&packed, queue)?.letter),
        }
    }
}

impl From<&mut Held> for Again {
    fn from(held: &mut Held) -> Self {
        match held.packed.take() {
            Some(packed) => Self::Packed(packed),
            None => Self::Whole(Box::new(held.letter.clone())),
        }
    }
}

impl Reading {
    /// From the queue's beginning, on a connection of its own.
    pub fn of(link: Arc<Link>, feed: Feed, letters: Letters) -> Self {
        Self {
            link,
            own_link: true,
            feed,
            letters,
            claimed: HashSet::new(),
            out: HashMap::new(),
            kept: Kept::default(),
            unpacked: VecDeque::new(),
            waiting: VecDeque::new(),
            released: BTreeMap::new(),
            at_limit: BTreeMap::new(),
        }
    }

    /// The next letter that is read already.
    ///
    /// # Errors
    /// It cannot be had any more.
    pub fn at_hand(&mut self) -> Result<Option<Held>> {
        if let Some(held) = self.unpacked.pop_front() {
            return held.map(Some);
        }
        match self.kept.next()? {
            Some(held) => Ok(Some(held)),
            None => Ok(self.waiting.pop_front()),
        }
    }

    /// Unpacks a letter before it is asked for; false: there is none, or enough are.
    pub fn unpack_ahead(&mut self) -> bool {
        let room = match self.unpacked.back() {
            None => true,
            // By the size of the last one.
            Some(Ok(held)) => {
                let fits = UNPACKED_BYTES / held.letter.size().max(1);
                (self.unpacked.len() as u64) < fits.min(UNPACKED)
            }
            Some(Err(_)) => false,
        };
        let next = if room { self.kept.next().transpose() } else { None };
        let is_there = next.is_some();
        self.unpacked.extend(next);
        is_there
    }

    /// Notes a letter that would not survive being given back; the number in this run of a copy that died
    /// again: proof that it arrived, and never chased.
    pub fn note(&mut self, held: &Held, own: &str, limit: Option<u32>) -> Option<u64> {
        if limit.is_some_and(|limit| held.returned >= limit) {
            self.at_limit.insert(held.tag, held.letter.clone());
        }
        held.letter.message.headers.last_text(stamp::RUN)?.strip_prefix(own)?.parse().ok()
    }

    /// Gives everything back in order, but for what would not survive that.
    ///
    /// # Errors
    /// The server did not answer, or did not take a copy: what is held goes back when the connection ends.
    pub async fn end(mut self, queue: &str, limit: Option<u32>, version: Version) -> Result<()> {
        if !self.feed.alive() {
            self.abandon().await;
            return Ok(());
        }
        let ended = self.rescue(queue, limit).await;
        let ended = ended.and(self.feed.close(version).await);
        if self.own_link {
            self.link.close().await;
        }
        ended
    }

    /// Lets go of what is left of a reading that broke: what it still holds goes back.
    pub async fn abandon(self) {
        match self.own_link {
            true => self.link.close().await,
            false => self.feed.abandon().await,
        }
    }

    /// Stops reading, and saves what would not survive being given back.
    async fn rescue(&mut self, queue: &str, limit: Option<u32>) -> Result<()> {
        for delivery in self.feed.stop().await? {
            let held = self.letters.take(delivery);
            if limit.is_some_and(|limit| held.returned >= limit) {
                self.at_limit.insert(held.tag, held.letter);
            }
        }
        let kept = std::mem::take(&mut self.at_limit).into_iter().collect();
        rescue::keep(&self.link, &mut self.feed, queue, kept).await
    }
}

/// All letters of a queue, held by the look that read them, those at hand that a run may send.
pub(super) struct Left {
    reading: Reading,
    queue: String,
    limit: Option<u32>,
    version: Version,
}

impl Left {
    /// `at_hand` in the queue's order; no letter is at the delivery limit.
    pub fn of(
        (link, feed, letters): (Arc<Link>, Feed, Letters),
        at_hand: Kept,
        queue: &str,
        limit: Option<u32>,
        version: Version,
    ) -> Self {
        let reading = Reading { own_link: false, kept: at_hand, ..Reading::of(link, feed, letters) };
        Self { reading, queue: queue.to_owned(), limit, version }
    }

    /// The reading that a look of this queue has left, if it is there and nothing of it has gone back.
    pub async fn take(held: &mut Option<Box<dyn Holding>>, queue: &str) -> Option<Reading> {
        let left = held.take()?.into_any().downcast::<Self>().ok()?;
        if left.queue == queue && left.reading.feed.alive() {
            return Some(left.reading);
        }
        // The run reads anew.
        let _ = left.give_back().await;
        None
    }
}

#[async_trait]
impl Holding for Left {
    async fn give_back(self: Box<Self>) -> Result<()> {
        let Self { reading, queue, limit, version } = *self;
        reading.end(&queue, limit, version).await
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any + Send> {
        self
    }
}
