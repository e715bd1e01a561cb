//! Letters of one queue in its order, held unacknowledged on one channel, in bounded memory.
//!
//! A consumer falls silent when it holds 65,535 letters, and a queue hands out only up to the prefetch. So
//! there is a row of consumers: the next one starts when all before it are full, which keeps the order, and
//! its prefetch is set by the size of the letters seen so far, so that what lies unread in this process
//! stays small. The end is known by the count at the start and by asking the queue, never by silence.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{FutureExt, StreamExt};
use lapin::Channel;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;

use super::connect::{Link, close_channel};
use super::refused::{answer, failed};
use super::version::Version;
use super::wire;
use crate::broker::{BrokerError, ErrorKind, Result};

/// About how many bytes may lie unread in this process.
const WINDOW_BYTES: u64 = 4 * 1024 * 1024;
/// Letters of the first consumer, while their size is not known.
const FIRST: u16 = 32;
/// Most letters of one consumer; above 65,535 it falls silent.
const MOST: u64 = 16_384;
/// How long nothing may come before the queue is asked whether there is more.
const QUIET: Duration = Duration::from_millis(250);
/// How often it is asked, with letters ready and none coming, before that is taken as somebody else's hold.
const ASKED: u32 = 8;

type Arrivals = SelectAll<BoxStream<'static, (usize, Option<lapin::Result<Delivery>>)>>;

struct One {
    tag: String,
    prefetch: u64,
    held: u64,
    open: bool,
}

impl One {
    fn room(&self) -> u64 {
        if self.open { self.prefetch.saturating_sub(self.held) } else { 0 }
    }
}

/// See the file's head.
pub(super) struct Feed {
    channel: Channel,
    queue: String,
    consumers: Vec<One>,
    arrivals: Pin<Box<Arrivals>>,
    /// Letters that overtook an earlier one between two consumers.
    early: BTreeMap<u64, (usize, Delivery)>,
    /// Delivery tag → consumer, of all that is read and not settled.
    held: BTreeMap<u64, usize>,
    next_tag: u64,
    /// How many more letters the open consumers may be given.
    room: u64,
    /// Letters ready in the queue when this began.
    extent: u64,
    read: u64,
    bytes: u64,
    first: u16,
    /// Letters that are ready and do not come.
    withheld: u64,
    done: bool,
}

impl Feed {
    /// Opens a channel and counts. Nothing is taken yet, unless the count is 0: a quorum queue says that for a
    /// moment after its server started, whatever it holds, so then it is asked for a letter.
    ///
    /// # Errors
    /// `NotFound`, `Denied`; `Locked` if somebody reads the queue exclusively.
    pub async fn open(link: &Link, queue: &str, cautious: bool) -> Result<Self> {
        let channel = link.channel().await?;
        let extent = ready(&channel, queue).await?;
        let mut feed = Self {
            channel,
            queue: queue.to_owned(),
            consumers: Vec::new(),
            arrivals: Box::pin(SelectAll::new()),
            early: BTreeMap::new(),
            held: BTreeMap::new(),
            next_tag: 1,
            room: 0,
            extent,
            read: 0,
            bytes: 0,
            first: if cautious { 1 } else { FIRST },
            withheld: 0,
            done: false,
        };
        if extent == 0 {
            feed.start(feed.first).await?;
            if let Ok(Some((from, item))) = tokio::time::timeout(QUIET, feed.arrivals.next()).await {
                feed.arrived(from, item)?;
                // Those that it gave out by now, and those that it has left.
                let left = ready(&feed.channel, queue).await?;
                while let Some(Some((from, item))) = feed.arrivals.next().now_or_never() {
                    feed.arrived(from, item)?;
                }
                feed.extent = left + feed.early.len() as u64;
            }
        }
        Ok(feed)
    }

    /// Letters ready at the start.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// Letters that were ready at the end and did not come: somebody else has them first.
    pub fn withheld(&self) -> u64 {
        self.withheld
    }

    /// Has everything of the extent been read, or is nothing more to be had?
    pub fn exhausted(&self) -> bool {
        self.done || self.read >= self.extent
    }

    /// The next letter; `None` when the extent is read and nothing else lies here.
    ///
    /// # Errors
    /// The channel or connection broke: everything held has gone back.
    pub async fn next(&mut self) -> Result<Option<Delivery>> {
        let mut asked = 0;
        loop {
            if let Some(delivery) = self.take_due() {
                return Ok(Some(delivery));
            }
            if self.exhausted() {
                // What came in since the start and is here already; nothing is waited for.
                match self.arrivals.next().now_or_never() {
                    Some(Some((from, item))) => self.arrived(from, item)?,
                    _ => return Ok(None),
                }
                continue;
            }
            if self.room == 0 {
                self.start(self.next_prefetch()).await?;
            }
            match tokio::time::timeout(QUIET, self.arrivals.next()).await {
                Ok(Some((from, item))) => {
                    asked = 0;
                    self.arrived(from, item)?;
                }
                Ok(None) => {
                    self.start(self.next_prefetch()).await?;
                }
                Err(_) => {
                    let ready = ready(&self.channel, &self.queue).await?;
                    asked += 1;
                    // Twice: the count may be ahead of what is on its way here.
                    if (ready == 0 && asked > 1) || asked >= ASKED {
                        self.withheld = ready;
                        self.done = true;
                    }
                }
            }
        }
    }

    /// What came in since the extent was read, without waiting: nothing while the extent is not read.
    ///
    /// # Errors
    /// As [`Feed::next`].
    pub async fn newly(&mut self) -> Result<Vec<Delivery>> {
        let mut new = Vec::new();
        if self.exhausted() {
            // An answer on this channel comes behind the letters that were sent before it.
            ready(&self.channel, &self.queue).await?;
            while let Some(delivery) = self.next().await? {
                new.push(delivery);
            }
        }
        Ok(new)
    }

    /// The next letter, if it is here already.
    ///
    /// # Errors
    /// As [`Feed::next`].
    pub fn arrived_by_now(&mut self) -> Result<Option<Delivery>> {
        loop {
            if let Some(delivery) = self.take_due() {
                return Ok(Some(delivery));
            }
            match self.arrivals.next().now_or_never() {
                Some(Some((from, item))) => self.arrived(from, item)?,
                _ => return Ok(None),
            }
        }
    }

    fn take_due(&mut self) -> Option<Delivery> {
        let (from, delivery) = self.early.remove(&self.next_tag)?;
        self.held.insert(self.next_tag, from);
        self.next_tag += 1;
        self.read += 1;
        self.bytes += delivery.data.len() as u64 + 256;
        Some(delivery)
    }

    fn arrived(&mut self, from: usize, item: Option<lapin::Result<Delivery>>) -> Result<()> {
        match item {
            Some(Ok(delivery)) => {
                self.weigh(from, |one| one.held += 1);
                self.early.insert(delivery.delivery_tag, (from, delivery));
                Ok(())
            }
            Some(Err(error)) => Err(broken(&self.queue, &error)),
            None => match self.consumers.get(from) {
                Some(one) if one.open => {
                    self.weigh(from, |one| one.open = false);
                    Err(BrokerError::new(
                        ErrorKind::NotFound,
                        format!("read {}", self.queue),
                        "the server ended the reading: the queue was deleted or moved",
                    ))
                }
                _ => Ok(()),
            },
        }
    }

    /// Changes a consumer and keeps the sum of what may still come.
    fn weigh(&mut self, place: usize, change: impl FnOnce(&mut One)) {
        if let Some(one) = self.consumers.get_mut(place) {
            let before = one.room();
            change(one);
            self.room = self.room + one.room() - before;
        }
    }

    /// Prefetch of the next consumer.
    fn next_prefetch(&self) -> u16 {
        if self.read == 0 {
            return self.first;
        }
        let fits = (WINDOW_BYTES / (self.bytes / self.read).max(1)).clamp(u64::from(FIRST), MOST);
        u16::try_from(fits).unwrap_or(u16::MAX)
    }

    /// Starts a consumer and gives its place.
    async fn start(&mut self, prefetch: u16) -> Result<usize> {
        let action = || format!("read {}", self.queue);
        let qos = self.channel.basic_qos(prefetch, BasicQosOptions { global: false });
        answer(action(), &self.queue, qos).await?;
        let tag = format!("redrive-{}", self.consumers.len() + 1);
        let queue =
            wire::short(&self.queue).map_err(|why| BrokerError::new(ErrorKind::NotFound, action(), why))?;
        let options = BasicConsumeOptions::default();
        let consume = self.channel.basic_consume(queue, tag.as_str().into(), options, FieldTable::default());
        let consumer = answer(action(), &self.queue, consume).await.map_err(|e| exclusive(&self.queue, e))?;
        let place = self.consumers.len();
        self.consumers.push(One { tag, prefetch: u64::from(prefetch), held: 0, open: true });
        self.room += u64::from(prefetch);
        let letters = consumer.map(move |item| (place, Some(item)));
        let end = futures_util::stream::once(async move { (place, None) });
        self.arrivals.push(letters.chain(end).boxed());
        Ok(place)
    }

    /// Is this tag still in our hands?
    pub fn holds(&self, tag: u64) -> bool {
        self.held.contains_key(&tag)
    }

    /// Is the channel still there? If not, everything held has gone back.
    pub fn alive(&self) -> bool {
        self.channel.status().connected()
    }

    /// Removes letters for good, and waits until the queue has taken that in.
    ///
    /// An acknowledgement is not answered, and a quorum queue's side keeps some of them back: they get lost if
    /// the channel ends then. The end of a consumer is answered, behind all of them (m22).
    ///
    /// # Errors
    /// The channel broke: whether they are gone is not known.
    pub async fn settle(&mut self, tags: &[u64]) -> Result<()> {
        self.acknowledge(tags).await?;
        // A consumer of its own, so that reading goes on undisturbed; it may take one letter, which is then
        // read like any other.
        let place = self.start(1).await?;
        self.cancel(place).await
    }

    /// Removes letters for good, without waiting.
    pub async fn acknowledge(&mut self, tags: &[u64]) -> Result<()> {
        let error = |error: &lapin::Error| broken(&self.queue, error);
        let mut rest: Vec<u64> = tags.iter().copied().filter(|tag| self.held.contains_key(tag)).collect();
        rest.sort_unstable();
        rest.dedup();
        // All held letters up to some tag, as far as this settles without a gap: one frame.
        let prefix = rest.iter().zip(self.held.keys()).take_while(|(tag, held)| tag == held).count();
        if let Some(last) = prefix.checked_sub(1).and_then(|at| rest.get(at)).copied()
            && prefix > 1
        {
            self.channel.basic_ack(last, BasicAckOptions { multiple: true }).await.map_err(|e| error(&e))?;
        } else if let Some(first) = rest.first()
            && prefix == 1
        {
            self.channel
                .basic_ack(*first, BasicAckOptions { multiple: false })
                .await
                .map_err(|e| error(&e))?;
        }
        for tag in rest.iter().skip(prefix) {
            self.channel.basic_ack(*tag, BasicAckOptions { multiple: false }).await.map_err(|e| error(&e))?;
        }
        for tag in &rest {
            if let Some(from) = self.held.remove(tag) {
                self.weigh(from, |one| one.held = one.held.saturating_sub(1));
            }
        }
        Ok(())
    }

    async fn cancel(&mut self, place: usize) -> Result<()> {
        self.weigh(place, |one| one.open = false);
        let Some(one) = self.consumers.get(place) else { return Ok(()) };
        let cancel = self.channel.basic_cancel(one.tag.as_str().into(), BasicCancelOptions { nowait: false });
        answer(format!("read {}", self.queue), &self.queue, cancel).await.map_err(broken_by)
    }

    /// Takes no more letters, and waits until the queue has taken in what was settled. Gives the letters that
    /// had come and were not read: they are held too.
    ///
    /// # Errors
    /// The channel broke: everything held has gone back.
    pub async fn stop(&mut self) -> Result<Vec<Delivery>> {
        self.done = true;
        for place in 0..self.consumers.len() {
            if self.consumers.get(place).is_some_and(|one| one.open) {
                self.cancel(place).await?;
            }
        }
        while let Some((from, item)) = self.arrivals.next().await {
            self.arrived(from, item)?;
        }
        let mut unread = Vec::with_capacity(self.early.len());
        while let Some(delivery) = self.take_due() {
            unread.push(delivery);
        }
        Ok(unread)
    }

    /// Gives everything back as it was, in order.
    ///
    /// Before 4.3 by closing the channel: the only way that keeps order on every queue type. From 4.3 that
    /// counts as a failure against a delivery limit and `basic.nack` does not.
    ///
    /// # Errors
    /// The server did not answer; it gives back when the connection ends.
    pub async fn close(mut self, version: Version) -> Result<()> {
        if !self.alive() {
            return Ok(());
        }
        self.stop().await?;
        if version.nack_is_free() {
            self.channel
                .basic_nack(0, BasicNackOptions { multiple: true, requeue: true })
                .await
                .map_err(|error| broken(&self.queue, &error))?;
        }
        close_channel(&self.channel).await
    }
}

/// Letters ready in a queue, by a passive declare.
pub(super) async fn ready(channel: &Channel, queue: &str) -> Result<u64> {
    counts(channel, queue).await.map(|(messages, _)| messages)
}

/// Messages ready and consumers of a queue, by a passive declare.
pub(super) async fn counts(channel: &Channel, queue: &str) -> Result<(u64, u32)> {
    let name = wire::short(queue)
        .map_err(|why| BrokerError::new(ErrorKind::NotFound, format!("read {queue}"), why))?;
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declare = channel.queue_declare(name, options, FieldTable::default());
    answer(format!("read {queue}"), queue, declare)
        .await
        .map(|found| (u64::from(found.message_count()), found.consumer_count()))
        .map_err(|error| exclusive(queue, error))
}

fn exclusive(queue: &str, error: BrokerError) -> BrokerError {
    match error.kind {
        ErrorKind::Locked => error.hint(format!("somebody else reads `{queue}` exclusively")),
        _ => error,
    }
}

/// The channel ended while letters were held.
fn broken(queue: &str, error: &lapin::Error) -> BrokerError {
    broken_by(failed(format!("read {queue}"), queue, error))
}

fn broken_by(error: BrokerError) -> BrokerError {
    let timed_out = error.code.as_deref() == Some("406") && error.message.contains("timed out");
    if timed_out || error.message.contains("delivery acknowledgement") {
        return error.hint(
            "the server takes letters back after its `consumer_timeout`, 30m by default; they are in the \
             queue again, unchanged",
        );
    }
    error
}
