//! Several calls under way at once, never more than so many: the next one leaves when one is answered, so that
//! a slow answer holds up only itself.

use std::future::Future;
use std::time::Duration;

use aws_sdk_sqs::types::Message as SqsMessage;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::browse::{self, Queue};
use super::client::Client;
use super::convert;
use crate::broker::BrokerError;

/// Receives, sends or deletes under way at once.
pub(super) const AT_ONCE: usize = 8;

/// The answers of all `calls`, in the order in which they come.
pub(super) async fn all<F: Future + Send>(calls: Vec<F>) -> Vec<F::Output> {
    let mut answers = Vec::with_capacity(calls.len());
    let mut waiting = calls.into_iter();
    let mut under_way: FuturesUnordered<F> = waiting.by_ref().take(AT_ONCE).collect();
    while let Some(answer) = under_way.next().await {
        answers.push(answer);
        under_way.extend(waiting.next());
    }
    answers
}

/// What receives gave.
#[derive(Default)]
pub(super) struct Received {
    pub(super) messages: Vec<SqsMessage>,
    pub(super) broken: Option<BrokerError>,
}

/// Receives until `missing` messages were asked for, so many bytes are there, or an answer comes empty or fails: then
/// none is begun any more, since the queue seems to have no more for now.
pub(super) async fn receive(
    client: &Client,
    queue: &Queue,
    hide: Duration,
    missing: usize,
    most_bytes: usize,
) -> Received {
    let mut received = Received::default();
    let mut left = missing.max(1);
    let mut bytes = 0;
    let mut under_way = FuturesUnordered::new();
    loop {
        while left > 0 && under_way.len() < AT_ONCE {
            // A FIFO queue locks a group with the first of its letters that it hands out: always ten, so that
            // the group's next ones come with it.
            let most = if queue.fifo { convert::BATCH } else { left.min(convert::BATCH) };
            under_way.push(browse::receive(client, queue, hide, 1, most));
            left = left.saturating_sub(convert::BATCH);
        }
        match under_way.next().await {
            None => return received,
            Some(Ok(messages)) => {
                bytes += messages
                    .iter()
                    .filter_map(|message| message.body.as_ref())
                    .map(String::len)
                    .sum::<usize>();
                if messages.is_empty() || bytes >= most_bytes {
                    left = 0;
                }
                received.messages.extend(messages);
            }
            Some(Err(error)) => {
                left = 0;
                received.broken = Some(error);
            }
        }
    }
}
