//! Looking at a dead-letter queue that is a stream: by offset, from the first; nothing is taken out and
//! nothing is marked (R06).

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Consumer};

use super::connect::{Link, close_channel};
use super::feed;
use super::letters::Letters;
use super::refused::failed;
use super::wire;
use crate::broker::{BrokerError, Count, ErrorKind, LookCost, Pages, Result, Snapshot, Want};
use crate::clock::Time;
use crate::letter::RawLetter;

/// Letters on their way at a time.
const PREFETCH: u16 = 1_000;
/// Letters of a page.
const PAGE: usize = 1_000;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4 * 1024 * 1024;
/// How long nothing may come while the end is looked for, and of a stream that holds nothing.
const QUIET: Duration = Duration::from_millis(500);
/// How long nothing may come before the end was reached: retention took the rest.
const STALLED: Duration = Duration::from_secs(10);

/// One look.
pub(super) struct StreamLook {
    channel: Channel,
    consumer: Consumer,
    letters: Letters,
    snapshot: Snapshot,
    want: Want,
    /// Offset of the last letter when the look began.
    last: Option<u64>,
    read: u64,
    ended: bool,
}

impl StreamLook {
    /// Reads from the first offset that is kept to the last one there is now. What a stream says it counts
    /// lags by seconds, so its end is asked for by offset.
    pub async fn open(
        link: &Link,
        queue: &str,
        identity: String,
        taken_at: Time,
        want: Want,
    ) -> Result<Self> {
        let last = last_offset(link, queue).await?;
        let (channel, consumer) = consume(link, queue, "first").await?;
        Ok(Self {
            channel,
            consumer,
            letters: Letters::of(queue),
            snapshot: Snapshot {
                queue: queue.to_owned(),
                place: identity.clone(),
                identity,
                taken_at,
                count: Count::AtMost(last.map_or(0, |last| last.saturating_add(1))),
                unseen: None,
            },
            want,
            last,
            read: 0,
            ended: last.is_none(),
        })
    }
}

async fn consume(link: &Link, queue: &str, from: &str) -> Result<(Channel, Consumer)> {
    let channel = link.channel().await?;
    feed::counts(&channel, queue).await?;
    let error = |error: lapin::Error| failed(format!("read {queue}"), queue, &error);
    channel.basic_qos(PREFETCH, BasicQosOptions { global: false }).await.map_err(error)?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-stream-offset".into(), AMQPValue::LongString(from.into()));
    let name = wire::short(queue)
        .map_err(|why| BrokerError::new(ErrorKind::NotFound, format!("read {queue}"), why))?;
    let consumer = channel
        .basic_consume(name, "redrive".into(), BasicConsumeOptions::default(), arguments)
        .await
        .map_err(error)?;
    Ok((channel, consumer))
}

/// The offset of the last letter: the highest of the last chunk.
async fn last_offset(link: &Link, queue: &str) -> Result<Option<u64>> {
    let (channel, mut consumer) = consume(link, queue, "last").await?;
    let mut letters = Letters::of(queue);
    let mut last = None;
    while let Ok(Some(delivery)) = tokio::time::timeout(QUIET, consumer.next()).await {
        let delivery = delivery.map_err(|error| failed(format!("read {queue}"), queue, &error))?;
        last = last.max(Some(letters.take(delivery).letter.arrival));
    }
    close_channel(&channel).await?;
    Ok(last)
}

#[async_trait]
impl Pages for StreamLook {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    async fn next(&mut self) -> Result<Vec<RawLetter>> {
        let mut page = Vec::new();
        let mut bytes = 0;
        let mut last = None;
        let queue = self.snapshot.queue.clone();
        let error = |error: lapin::Error| failed(format!("read {queue}"), &queue, &error);
        while !self.ended && page.len() < PAGE && bytes < PAGE_BYTES {
            let Ok(next) = tokio::time::timeout(STALLED, self.consumer.next()).await else {
                self.ended = true;
                break;
            };
            let Some(delivery) = next else {
                return Err(BrokerError::new(
                    ErrorKind::NotFound,
                    format!("read {queue}"),
                    "the server ended the reading: the stream was deleted or moved",
                ));
            };
            let held = self.letters.take(delivery.map_err(error)?);
            last = Some(held.tag);
            let mut letter = held.letter;
            if self.last.is_some_and(|last| letter.arrival >= last) {
                self.ended = true;
                if self.last.is_some_and(|last| letter.arrival > last) {
                    break;
                }
            }
            self.read += 1;
            bytes += letter.size();
            if !self.want.bodies {
                letter.message.body = None;
            }
            page.push(letter);
        }
        if let Some(tag) = last {
            // In a stream this only asks for more.
            self.channel.basic_ack(tag, BasicAckOptions { multiple: true }).await.map_err(error)?;
        }
        Ok(page)
    }

    async fn close(self: Box<Self>) -> Result<LookCost> {
        close_channel(&self.channel).await?;
        Ok(LookCost { read: self.read, ..LookCost::default() })
    }
}
