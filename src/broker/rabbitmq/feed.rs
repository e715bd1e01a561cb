//! Letters of one queue in its order, held unacknowledged, in bounded memory, and given back in that order.
//!
//! A consumer falls silent when it holds 65,535 letters, and a queue hands out only up to the prefetch. So the
//! queue is read in stretches, each by a consumer of its own, whose prefetch is set by the size of the letters
//! seen so far: what lies unread in this process stays small. A stretch that is full is ended before the next
//! one begins, so that each is a piece of the queue without a gap.
//!
//! A quorum queue takes letters back consumer by consumer: those of one channel in the order of their tags
//! (of up to 32 consumers; of more in any order), those of several channels as they end. So tags are numbered
//! with leading zeros, a channel carries few stretches, and channels are closed one after the other. What was
//! settled is waited for without taking a letter out of that order. The end is known by the count at the start
//! and by asking the queue, never by silence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Consumer};

use super::connect::{Link, close_channel};
use super::refused::{answer, broken, broken_by, exclusive};
use super::version::Version;
use super::wire;
use crate::broker::{BrokerError, ErrorKind, Result};

/// About how many bytes may lie unread in this process.
const WINDOW_BYTES: u64 = 2 * 1024 * 1024;
/// Letters of the first stretch, while their size is not known.
const FIRST: u16 = 8;
/// Most letters of one stretch; above 65,535 a consumer falls silent.
const MOST: u64 = 16_384;
/// Stretches with held letters of one channel. With anchors and a barrier there are less than 32.
const STRETCHES: usize = 24;
/// Consumers of one letter that are left on a channel when reading goes on on another one.
const ANCHORS: usize = 6;
/// How long nothing may come before the queue is asked whether there is more.
const QUIET: Duration = Duration::from_millis(250);
/// How often it is asked, with letters ready and none coming, before that is taken as somebody else's hold.
const ASKED: u32 = 8;
/// Delivery tags count by channel: in a tag of ours the channel's place stands above these bits.
const TAG_BITS: u32 = 48;

/// One consumer, and what it holds.
struct Stretch {
    channel: usize,
    tag: String,
    prefetch: u64,
    held: u64,
}

/// The consumer of a stretch that has not ended.
struct Open {
    place: usize,
    letters: Consumer,
}

/// A channel that carries stretches.
struct Carrier {
    channel: Channel,
    /// Each holds one letter and takes no other; its end is the queue's answer to what was settled before it.
    anchors: Vec<Open>,
}

/// See the file's head.
pub(super) struct Feed {
    link: Arc<Link>,
    queue: String,
    carriers: Vec<Carrier>,
    stretches: Vec<Stretch>,
    /// The stretch that is being read.
    reading: Option<Open>,
    /// Come and not read, by our tag.
    early: BTreeMap<u64, (usize, Delivery)>,
    /// Our tag → stretch, of all that is read and not settled.
    held: BTreeMap<u64, usize>,
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
    pub async fn open(link: &Arc<Link>, queue: &str, cautious: bool) -> Result<Self> {
        let channel = link.channel().await?;
        let extent = ready(&channel, queue).await?;
        let mut feed = Self {
            link: Arc::clone(link),
            queue: queue.to_owned(),
            carriers: vec![Carrier { channel, anchors: Vec::new() }],
            stretches: Vec::new(),
            reading: None,
            early: BTreeMap::new(),
            held: BTreeMap::new(),
            extent,
            read: 0,
            bytes: 0,
            first: if cautious { 1 } else { FIRST },
            withheld: 0,
            done: false,
        };
        if extent == 0 {
            feed.go_on().await?;
            if let Ok(come) = tokio::time::timeout(QUIET, feed.come()).await {
                come?;
                // Those that it gave out by now, and those that it has left.
                let left = feed.ready().await?;
                feed.take_in()?;
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
            if let Some(delivery) = self.arrived_by_now()? {
                return Ok(Some(delivery));
            }
            if self.exhausted() {
                // What came in since the start and is here already; nothing is waited for.
                return Ok(None);
            }
            if self.room() == 0 {
                self.go_on().await?;
            }
            match tokio::time::timeout(QUIET, self.come()).await {
                Ok(come) => {
                    come?;
                    asked = 0;
                }
                Err(_) => {
                    let ready = self.ready().await?;
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
            self.ready().await?;
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
        if self.early.is_empty() {
            self.take_in()?;
        }
        let Some((tag, (from, mut delivery))) = self.early.pop_first() else { return Ok(None) };
        self.held.insert(tag, from);
        self.read += 1;
        self.bytes += delivery.data.len() as u64 + 256;
        delivery.delivery_tag = tag;
        Ok(Some(delivery))
    }

    /// Waits for a letter of the stretch that is read.
    async fn come(&mut self) -> Result<()> {
        let Some(reading) = &mut self.reading else { return std::future::pending().await };
        let (place, item) = (reading.place, reading.letters.next().await);
        self.arrived(place, item)
    }

    /// Takes in what has come, without waiting.
    fn take_in(&mut self) -> Result<()> {
        while let Some(reading) = &mut self.reading
            && let Some(item) = reading.letters.next().now_or_never()
        {
            let place = reading.place;
            self.arrived(place, item)?;
        }
        Ok(())
    }

    fn arrived(&mut self, place: usize, item: Option<lapin::Result<Delivery>>) -> Result<()> {
        match item {
            Some(Ok(delivery)) => {
                let Some(stretch) = self.stretches.get_mut(place) else { return Ok(()) };
                stretch.held += 1;
                let tag = (stretch.channel as u64) << TAG_BITS | delivery.delivery_tag;
                self.early.insert(tag, (place, delivery));
                Ok(())
            }
            Some(Err(error)) => Err(broken(&self.queue, &error)),
            None => {
                self.reading = None;
                Err(BrokerError::new(
                    ErrorKind::NotFound,
                    format!("read {}", self.queue),
                    "the server ended the reading: the queue was deleted or moved",
                ))
            }
        }
    }

    /// How many more letters the stretch that is read may be given.
    fn room(&self) -> u64 {
        let stretch = self.reading.as_ref().and_then(|reading| self.stretches.get(reading.place));
        stretch.map_or(0, |stretch| stretch.prefetch.saturating_sub(stretch.held))
    }

    /// Prefetch of the next stretch.
    fn next_prefetch(&self) -> u16 {
        if self.read == 0 {
            return self.first;
        }
        let fits = (WINDOW_BYTES / (self.bytes / self.read).max(1)).clamp(1, MOST);
        u16::try_from(fits).unwrap_or(u16::MAX)
    }

    /// Ends the stretch that is read, and begins the next one.
    async fn go_on(&mut self) -> Result<()> {
        let prefetch = self.next_prefetch();
        if self.reading.is_some() && self.carries() < STRETCHES {
            return self.turn_over(prefetch).await;
        }
        self.end_reading().await?;
        if self.carries() >= STRETCHES {
            self.anchor(self.last()).await?;
            let channel = self.link.channel().await?;
            self.carriers.push(Carrier { channel, anchors: Vec::new() });
        }
        let next = self.consume(self.last(), prefetch, FieldTable::default()).await?;
        self.reading = Some(next);
        Ok(())
    }

    /// How many stretches hold letters on the channel that is read.
    fn carries(&self) -> usize {
        let last = self.last();
        self.stretches.iter().filter(|one| one.channel == last && one.held > 0).count()
    }

    /// Ends the stretch that is read and begins the next one on its channel, without waiting in between: the server
    /// does one after the other. Only of a full stretch: what is on its way to a consumer that ends comes again, at
    /// another place.
    async fn turn_over(&mut self, prefetch: u16) -> Result<()> {
        let Some(Open { place, mut letters }) = self.reading.take() else { return Ok(()) };
        let Some(stretch) = self.stretches.get(place) else { return Ok(()) };
        let action = || format!("read {}", self.queue);
        let name = self.name()?;
        let (channel, next) = (stretch.channel, self.stretches.len());
        let (ended, tag) = (stretch.tag.as_str().into(), tag(next));
        let on = self.channel(channel)?;
        let cancel = on.basic_cancel(ended, BasicCancelOptions { nowait: false });
        let qos = on.basic_qos(prefetch, BasicQosOptions { global: false });
        let consume = on.basic_consume(
            name,
            tag.as_str().into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        // Each is on its way when the next one is asked for the first time.
        let (cancel, qos, consume) = futures_util::future::join3(
            answer(action(), &self.queue, cancel),
            answer(action(), &self.queue, qos),
            answer(action(), &self.queue, consume),
        )
        .await;
        cancel.map_err(broken_by)?;
        while let Some(item) = letters.next().await {
            self.arrived(place, Some(item))?;
        }
        qos?;
        let letters = consume.map_err(|error| exclusive(&self.queue, error))?;
        self.stretches.push(Stretch { channel, tag, prefetch: u64::from(prefetch), held: 0 });
        self.reading = Some(Open { place: next, letters });
        Ok(())
    }

    /// Leaves anchors on a channel, each with the next letter, as long as there are letters.
    async fn anchor(&mut self, channel: usize) -> Result<()> {
        for _ in 0..ANCHORS {
            let mut anchor = self.consume(channel, 1, FieldTable::default()).await?;
            let Ok(item) = tokio::time::timeout(QUIET, anchor.letters.next()).await else {
                // One without a letter would take any that comes later.
                return self.cancel(anchor).await;
            };
            self.arrived(anchor.place, item)?;
            if let Some(carrier) = self.carriers.get_mut(channel) {
                carrier.anchors.push(anchor);
            }
        }
        Ok(())
    }

    /// Takes no more letters of the stretch that is read, and takes in those that had come. A quorum queue sends a
    /// letter to a consumer without waiting for anything; one that its channel comes to after the end of that
    /// consumer goes back, and not to its place. So the queue is asked something first: the answer comes behind
    /// whatever it has sent.
    async fn end_reading(&mut self) -> Result<()> {
        if self.reading.is_some() && self.room() > 0 {
            self.ready().await?;
        }
        match self.reading.take() {
            Some(reading) => self.cancel(reading).await,
            None => Ok(()),
        }
    }

    async fn cancel(&mut self, open: Open) -> Result<()> {
        let Open { place, mut letters } = open;
        let Some(stretch) = self.stretches.get(place) else { return Ok(()) };
        let tag = stretch.tag.as_str().into();
        let cancel = self.channel(stretch.channel)?.basic_cancel(tag, BasicCancelOptions { nowait: false });
        answer(format!("read {}", self.queue), &self.queue, cancel).await.map_err(broken_by)?;
        while let Some(item) = letters.next().await {
            self.arrived(place, Some(item))?;
        }
        Ok(())
    }

    async fn consume(&mut self, channel: usize, prefetch: u16, arguments: FieldTable) -> Result<Open> {
        let action = || format!("read {}", self.queue);
        let name = self.name()?;
        let place = self.stretches.len();
        let tag = tag(place);
        let on = self.channel(channel)?;
        let qos = on.basic_qos(prefetch, BasicQosOptions { global: false });
        let consume = on.basic_consume(name, tag.as_str().into(), BasicConsumeOptions::default(), arguments);
        let (qos, consume) = futures_util::future::join(
            answer(action(), &self.queue, qos),
            answer(action(), &self.queue, consume),
        )
        .await;
        qos?;
        let letters = consume.map_err(|error| exclusive(&self.queue, error))?;
        self.stretches.push(Stretch { channel, tag, prefetch: u64::from(prefetch), held: 0 });
        Ok(Open { place, letters })
    }

    fn name(&self) -> Result<ShortString> {
        let not_one = |why| BrokerError::new(ErrorKind::NotFound, format!("read {}", self.queue), why);
        wire::short(&self.queue).map_err(not_one)
    }

    /// The channel that is read.
    fn last(&self) -> usize {
        self.carriers.len().saturating_sub(1)
    }

    fn channel(&self, place: usize) -> Result<&Channel> {
        self.carriers.get(place).map(|carrier| &carrier.channel).ok_or_else(|| {
            BrokerError::new(ErrorKind::Other, format!("read {}", self.queue), "a channel is missing")
        })
    }

    /// Letters ready, asked on the channel that is read.
    async fn ready(&self) -> Result<u64> {
        ready(self.channel(self.last())?, &self.queue).await
    }

    /// Is this tag still in our hands?
    pub fn holds(&self, tag: u64) -> bool {
        self.held.contains_key(&tag)
    }

    /// Are the channels still there? If not, what they held has gone back.
    pub fn alive(&self) -> bool {
        self.carriers.iter().all(|carrier| carrier.channel.status().connected())
    }

    /// Removes letters for good, and waits until the queue has taken that in.
    ///
    /// An acknowledgement is not answered, and a quorum queue's side keeps some of them back: they get lost if
    /// the channel ends then. The end of a consumer is answered, behind all of them (m22).
    ///
    /// # Errors
    /// The channel broke: whether they are gone is not known.
    pub async fn settle(&mut self, tags: &[u64]) -> Result<()> {
        for channel in self.acknowledge(tags).await? {
            let anchor = self.carriers.get_mut(channel).and_then(|carrier| carrier.anchors.pop());
            match anchor {
                Some(anchor) => self.cancel(anchor).await?,
                None => self.wait_on(channel).await?,
            }
        }
        Ok(())
    }

    /// Waits by a consumer that is there for nothing else, so that reading goes on undisturbed. It comes after the
    /// one that reads, but if that one is full it is given a letter: then it has the next place in the order.
    async fn wait_on(&mut self, channel: usize) -> Result<()> {
        let mut arguments = FieldTable::default();
        arguments.insert("x-priority".into(), AMQPValue::LongInt(-1));
        let barrier = self.consume(channel, 1, arguments).await?;
        // As in `end_reading`: it may be given a letter at any moment after it was answered.
        ready(self.channel(channel)?, &self.queue).await?;
        let place = barrier.place;
        self.cancel(barrier).await?;
        let took = self.stretches.get(place).is_some_and(|barrier| barrier.held > 0);
        if took { self.end_reading().await } else { Ok(()) }
    }

    /// Removes letters for good, without waiting; gives the channels that it was said on.
    pub async fn acknowledge(&mut self, tags: &[u64]) -> Result<Vec<usize>> {
        let mut rest: Vec<u64> = tags.iter().copied().filter(|tag| self.held.contains_key(tag)).collect();
        rest.sort_unstable();
        rest.dedup();
        self.unanchor(&rest).await?;
        let mut channels = Vec::new();
        for on_one in rest.chunk_by(|a, b| a >> TAG_BITS == b >> TAG_BITS) {
            let Some(channel) = on_one.first().and_then(|tag| usize::try_from(tag >> TAG_BITS).ok()) else {
                continue;
            };
            self.acknowledge_on(channel, on_one).await?;
            channels.push(channel);
        }
        for tag in &rest {
            if let Some(from) = self.held.remove(tag)
                && let Some(stretch) = self.stretches.get_mut(from)
            {
                stretch.held = stretch.held.saturating_sub(1);
            }
        }
        Ok(channels)
    }

    /// Ends the anchors whose letters go, or they would take others.
    async fn unanchor(&mut self, tags: &[u64]) -> Result<()> {
        let places: Vec<usize> = tags.iter().filter_map(|tag| self.held.get(tag).copied()).collect();
        for carrier in 0..self.carriers.len() {
            let Some(carrier) = self.carriers.get_mut(carrier) else { continue };
            let goes = |anchor: &mut Open| places.contains(&anchor.place);
            let going: Vec<Open> = match carrier.anchors.is_empty() {
                true => continue,
                false => carrier.anchors.extract_if(.., goes).collect(),
            };
            for anchor in going {
                self.cancel(anchor).await?;
            }
        }
        Ok(())
    }

    async fn acknowledge_on(&self, place: usize, tags: &[u64]) -> Result<()> {
        let channel = self.channel(place)?;
        let acknowledge = async |tag: u64, multiple: bool| {
            let tag = tag & ((1 << TAG_BITS) - 1);
            let sent = channel.basic_ack(tag, BasicAckOptions { multiple }).await;
            sent.map_err(|error| broken(&self.queue, &error))
        };
        // All held letters up to some tag, as far as this settles without a gap: one frame.
        let held = self.held.range((place as u64) << TAG_BITS..).map(|(tag, _)| tag);
        let prefix = tags.iter().zip(held).take_while(|(tag, held)| tag == held).count();
        if let Some(last) = prefix.checked_sub(1).and_then(|at| tags.get(at)) {
            acknowledge(*last, prefix > 1).await?;
        }
        for tag in tags.iter().skip(prefix) {
            acknowledge(*tag, false).await?;
        }
        Ok(())
    }

    /// Takes no more letters, and waits until the queue has taken in what was settled. Gives the letters that
    /// had come and were not read: they are held too.
    ///
    /// # Errors
    /// The channel broke: everything held has gone back.
    pub async fn stop(&mut self) -> Result<Vec<Delivery>> {
        self.done = true;
        self.end_reading().await?;
        for carrier in 0..self.carriers.len() {
            while let Some(anchor) = self.carriers.get_mut(carrier).and_then(|one| one.anchors.pop()) {
                self.cancel(anchor).await?;
            }
        }
        let mut unread = Vec::with_capacity(self.early.len());
        while let Some(delivery) = self.arrived_by_now()? {
            unread.push(delivery);
        }
        Ok(unread)
    }

    /// Ends what is left of a reading of which a channel broke.
    pub async fn abandon(self) {
        for Carrier { channel, .. } in &self.carriers {
            if channel.status().connected() {
                let _ = close_channel(channel).await;
            }
        }
    }

    /// Gives everything back as it was, in order.
    ///
    /// Before 4.3 by closing the channels: the only way that keeps order on every queue type. From 4.3 that
    /// counts as a failure against a delivery limit and `basic.nack` does not.
    ///
    /// # Errors
    /// The server did not answer; it gives back when the connection ends.
    pub async fn close(mut self, version: Version) -> Result<()> {
        if !self.alive() {
            return Ok(());
        }
        self.stop().await?;
        for Carrier { channel, .. } in &self.carriers {
            if version.nack_is_free() {
                channel
                    .basic_nack(0, BasicNackOptions { multiple: true, requeue: true })
                    .await
                    .map_err(|error| broken(&self.queue, &error))?;
            }
            close_channel(channel).await?;
        }
        Ok(())
    }
}

/// Tag of a stretch: a quorum queue takes letters back in the order of these.
fn tag(place: usize) -> String {
    format!("redrive-{place:08}")
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
