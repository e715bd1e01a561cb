//! Several calls under way at once, never more than so many: the next one leaves when one is answered, so that
//! a slow answer holds up only itself.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::browse::{self, Queue};
use super::client::Client;
use super::convert;
use super::kind::AT_ONCE;
use crate::broker::BrokerError;
use crate::letter::RawLetter;

/// The answers of all `calls`, in the order in which they come. Each is made when it is its turn, while those before it
/// are under way.
pub(super) async fn all<F: Future + Send>(mut calls: impl Iterator<Item = F> + Send) -> Vec<F::Output> {
    let mut answers = Vec::new();
    let mut under_way = FuturesUnordered::new();
    loop {
        if under_way.len() < AT_ONCE
            && let Some(call) = calls.next()
        {
            under_way.push(call);
            // Off it goes, before the next one is made.
            answers.extend(under_way.next().now_or_never().flatten());
            continue;
        }
        match under_way.next().await {
            Some(answer) => answers.push(answer),
            None => return answers,
        }
    }
}

/// What receives gave.
#[derive(Default)]
pub(super) struct Received {
    /// Messages that came.
    pub(super) count: usize,
    pub(super) came: Vec<Came>,
    pub(super) broken: Option<BrokerError>,
}

/// A message that came.
pub(super) struct Came {
    /// SQS's own handle of this receive.
    pub(super) handle: String,
    pub(super) letter: RawLetter,
}

/// Receives until `missing` messages were asked for, so many bytes are there, or an answer comes empty or fails: then
/// none is begun any more, since the queue seems to have no more for now. `first`: the number of the first, in the order
/// in which they come.
pub(super) async fn receive(
    client: &Client,
    queue: &Queue,
    hide: Duration,
    (missing, most_bytes): (usize, usize),
    first: u64,
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
                for raw in messages {
                    let number = first + received.count as u64;
                    received.count += 1;
                    if let (Some(letter), Some(handle)) =
                        (browse::letter(queue, &raw, number), raw.receipt_handle)
                    {
                        received.came.push(Came { handle, letter });
                    }
                }
            }
            Some(Err(error)) => {
                left = 0;
                received.broken = Some(error);
            }
        }
    }
}
