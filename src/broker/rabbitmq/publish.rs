//! Sending copies: mandatory, confirmed, one window at a time.
//!
//! The client library hands a returned message to whichever confirm completes next, not to its own publish.
//! So nothing of a window is answered before all of it is, and every return is matched by the run and number
//! in its own header; one that cannot be matched puts the whole window in doubt.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};

use super::connect::{Link, close_channel};
use super::refused::{code, failed, reply_code, reply_text};
use super::rights;
use super::routes;
use super::version::Version;
use super::wire;
use crate::broker::{BrokerError, ErrorKind, Outgoing, Published, Result};
use crate::letter::RawLetter;
use crate::proof::mutation::mutated;
use crate::stamp;

/// Sends to one queue through the default exchange, so that nobody else gets the copy (R13); or, if that was
/// asked for, to an exchange.
pub(super) struct Publisher {
    /// The first one alone until a batch is large.
    channels: Vec<Channel>,
    target: String,
    exchange: Option<Exchange>,
    version: Version,
    frame_max: usize,
    wait: Duration,
}

/// Channels that a large batch goes out on. The server has a process for each, which hands out credit and gathers
/// confirms: with one it waits for that, with four a quorum queue is kept at work.
const CHANNELS: usize = 4;
/// Letters from which on a batch is large.
const SPREAD_FROM: usize = 200;

const BLOCKED: &str = "the server takes no messages (connection.blocked): an alarm for memory or disk is on";

/// An exchange as the target.
struct Exchange {
    name: String,
    /// The key of each letter in hand, by its number; `None` where none is known.
    keys: HashMap<u64, Option<String>>,
}

/// What became of one publish: refused before it was sent, or its place among those sent.
enum Tried {
    Refused(BrokerError),
    Sent(usize),
}

/// A letter as it is handed to the client library.
struct Ready<'a> {
    on: &'a Channel,
    exchange: ShortString,
    key: ShortString,
    properties: BasicProperties,
    body: &'a [u8],
}

type Sending<'a> = Pin<Box<dyn Future<Output = lapin::Result<PublisherConfirm>> + Send + 'a>>;

enum State<'a> {
    Writing(Sending<'a>),
    Written(lapin::Result<PublisherConfirm>),
}

impl Publisher {
    /// A channel in confirm mode.
    pub async fn open(
        link: &Link,
        target: &str,
        exchange: Option<&str>,
        version: Version,
        wait: Duration,
    ) -> Result<Self> {
        let exchange = exchange.map(|name| Exchange { name: name.to_owned(), keys: HashMap::new() });
        let target = exchange.as_ref().map_or(target, |exchange| &exchange.name).to_owned();
        let channels = vec![confirming(link, &target).await?];
        Ok(Self { channels, target, exchange, version, frame_max: link.frame_max(), wait })
    }

    /// Notes with which key a letter is sent, where that is not the queue's name.
    pub fn learn(&mut self, seq: u64, letter: &RawLetter) {
        if let Some(Exchange { name, keys }) = &mut self.exchange {
            keys.insert(seq, routes::first_key(&letter.message.headers, name));
        }
    }

    /// Forgets a letter that is settled.
    pub fn forget(&mut self, seq: u64) {
        if let Some(exchange) = &mut self.exchange {
            exchange.keys.remove(&seq);
        }
    }

    /// Exchange and routing key of a letter.
    fn way(&self, seq: u64) -> std::result::Result<(&str, &str), String> {
        let Some(Exchange { name, keys }) = &self.exchange else { return Ok(("", &self.target)) };
        match keys.get(&seq) {
            Some(Some(key)) => Ok((name, key)),
            _ => Err(format!("its x-death does not say with which key it came through exchange {name}")),
        }
    }

    /// Sends a batch and answers for each letter, in the batch's order.
    pub async fn send(&mut self, link: &Link, batch: &[Outgoing]) -> Vec<Result<Published>> {
        if link.blocked() {
            let blocked = BrokerError::new(ErrorKind::Throttled, self.action(), BLOCKED);
            return batch.iter().map(|_| Err(blocked.clone())).collect();
        }
        self.channels.retain(|channel| channel.status().connected());
        let wanted = if batch.len() >= SPREAD_FROM { CHANNELS } else { 1 };
        let missing = wanted.saturating_sub(self.channels.len());
        let opened = (0..missing).map(|_| confirming(link, &self.target));
        match futures_util::future::try_join_all(opened).await {
            Ok(opened) => self.channels.extend(opened),
            Err(error) => return batch.iter().map(|_| Err(error.clone())).collect(),
        }
        if batch.len() > 1 && !batch.iter().all(|one| own_id(one).is_some()) {
            // Without an own id only a window of one tells whose a return is.
            let mut answers = Vec::with_capacity(batch.len());
            for one in batch.chunks(1) {
                answers.extend(self.window(link, one).await);
            }
            return answers;
        }
        self.window(link, batch).await
    }

    async fn window(&mut self, link: &Link, batch: &[Outgoing]) -> Vec<Result<Published>> {
        // All are made ready before the first is handed over: the client library writes what lies there, and if it
        // lies there one by one, each letter is a packet of its own for both sides.
        let mut tried = Vec::with_capacity(batch.len());
        let mut ready = Vec::with_capacity(batch.len());
        for one in batch {
            match self.prepare(one) {
                Err(error) => tried.push(Tried::Refused(error)),
                Ok(one) => {
                    tried.push(Tried::Sent(ready.len()));
                    ready.push(one);
                }
            }
        }
        let mut sent = Vec::with_capacity(ready.len());
        for Ready { on, exchange, key, properties, body } in ready {
            let options = BasicPublishOptions { mandatory: true, immediate: false };
            let publish = on.basic_publish(exchange, key, options, body, properties);
            // The frame is queued at the first poll, so order stands; nobody is to be woken by each.
            let mut publish: Sending<'_> = Box::pin(publish);
            sent.push(match publish.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(written) => State::Written(written),
                Poll::Pending => State::Writing(publish),
            });
        }
        let confirms = tokio::time::timeout(self.wait, answers(sent)).await;
        let verdicts = match confirms {
            Ok(confirms) => self.judge(batch, &tried, confirms),
            Err(_) => {
                // Whatever comes later on this channel would be taken for another window's.
                let late = BrokerError::new(
                    ErrorKind::Unknown,
                    self.action(),
                    match link.blocked() {
                        true => format!("no confirm within {}: {BLOCKED}", crate::clock::exact(self.wait)),
                        false => format!("no confirm within {}", crate::clock::exact(self.wait)),
                    },
                );
                futures_util::future::join_all(self.channels.drain(..).map(closed)).await;
                return tried
                    .into_iter()
                    .map(|one| match one {
                        Tried::Refused(error) => Err(error),
                        Tried::Sent(_) => Err(late.clone()),
                    })
                    .collect();
            }
        };
        tried
            .into_iter()
            .map(|one| match one {
                Tried::Refused(error) => Err(error),
                Tried::Sent(place) => {
                    verdicts.get(place).cloned().unwrap_or_else(|| Err(self.unknown("no answer")))
                }
            })
            .collect()
    }

    /// Everything that would close the channel, and so put a whole window in doubt, is refused here.
    fn prepare<'a>(&'a self, one: &'a Outgoing) -> Result<Ready<'a>> {
        let reject = |why: String| BrokerError::new(ErrorKind::Rejected, self.action(), why);
        let (exchange, key) = self.way(one.seq).map_err(reject)?;
        let (exchange, key) = (wire::short(exchange).map_err(reject)?, wire::short(key).map_err(reject)?);
        let body = one.message.body.as_deref().unwrap_or_default();
        if body.len() as u64 > self.version.body_max() {
            return Err(reject(format!(
                "its body has {} bytes; RabbitMQ {} takes {}",
                body.len(),
                self.version,
                self.version.body_max()
            )));
        }
        let properties = wire::write_properties(&one.message).map_err(reject)?;
        let size = wire::header_frame_size(&properties);
        if size > self.frame_max {
            return Err(reject(format!(
                "its headers and properties take {size} bytes; they must fit one frame of {}",
                self.frame_max
            )));
        }
        let on = self.channel_of(one.group.as_deref());
        let on = on.ok_or_else(|| BrokerError::new(ErrorKind::Unreachable, self.action(), "no channel"))?;
        Ok(Ready { on, exchange, key, properties, body })
    }

    /// A group's letters go one way, and so do all without one: in their order.
    fn channel_of(&self, group: Option<&str>) -> Option<&Channel> {
        let Some(group) = group else { return self.channels.first() };
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        self.channels.get((hasher.finish() % self.channels.len().max(1) as u64) as usize)
    }

    fn judge(
        &self,
        batch: &[Outgoing],
        tried: &[Tried],
        confirms: Vec<lapin::Result<Confirmation>>,
    ) -> Vec<Result<Published>> {
        let sent: Vec<Option<&str>> = tried
            .iter()
            .zip(batch)
            .filter(|(one, _)| matches!(one, Tried::Sent(_)))
            .map(|(_, letter)| own_id(letter))
            .collect();
        let answers = confirms.into_iter().map(|confirm| match confirm {
            Ok(confirm) => Answer {
                said: match (confirm.is_ack(), confirm.is_nack()) {
                    (true, _) => Said::Ack,
                    (_, true) => Said::Nack,
                    _ => Said::Nothing,
                },
                returned: confirm.take_message().map(|message| run_header(&message.delivery.properties)),
            },
            Err(error) => Answer { said: Said::Error(error), returned: None },
        });
        let answers: Vec<Answer> = answers.collect();
        // A refusal that came before any confirm is about the first publish, and so about all of them.
        let none_confirmed = answers.iter().all(|answer| matches!(answer.said, Said::Error(_)));
        verdicts(&sent, answers)
            .into_iter()
            .map(|verdict| match verdict {
                Verdict::There => Ok(Published::default()),
                Verdict::Returned => Err(self.unroutable()),
                Verdict::Refused => Err(self.full()),
                Verdict::Unmatched => {
                    Err(self.unknown("a returned message could not be matched to its letter"))
                }
                Verdict::Unanswered => Err(self.unknown("no confirm was given")),
                Verdict::Broken(error) => {
                    let lost = self.lost(&error);
                    match lost.kind {
                        ErrorKind::Denied if !none_confirmed => Err(self.unknown(&lost.message)),
                        _ => Err(lost),
                    }
                }
            })
            .collect()
    }

    fn action(&self) -> String {
        match &self.exchange {
            None => format!("publish to {}", self.target),
            Some(exchange) => format!("publish to exchange {}", exchange.name),
        }
    }

    fn unknown(&self, why: &str) -> BrokerError {
        BrokerError::new(ErrorKind::Unknown, self.action(), why)
    }

    /// `basic.return`: the server acknowledged it and put it nowhere (R15).
    fn unroutable(&self) -> BrokerError {
        if self.exchange.is_some() {
            // About this letter's key, not about all: the run goes on.
            return BrokerError::new(
                ErrorKind::Rejected,
                self.action(),
                "no queue is bound for its key: the message was returned",
            )
            .code("312");
        }
        BrokerError::new(ErrorKind::NotFound, self.action(), "no such queue: the message was returned")
            .code("312")
            .hint(format!("`{}` is not there; `redrive plan` shows what is missing", self.target))
    }

    /// A negative confirm of one queue: it did not take it. Of an exchange: another queue may have.
    fn full(&self) -> BrokerError {
        if self.exchange.is_some() {
            return self.unknown("one of the queues did not take it; others may have").code("nack");
        }
        BrokerError::new(
            ErrorKind::Throttled,
            self.action(),
            "the queue did not take it: full (reject-publish), or without enough replicas",
        )
        .code("nack")
    }

    fn lost(&self, error: &lapin::Error) -> BrokerError {
        match reply_code(error) {
            Some(code::ACCESS_REFUSED) => match &self.exchange {
                None => rights::denied(&self.target, error),
                Some(exchange) => failed(self.action(), &self.target, error)
                    .hint(format!("the user needs write on the exchange `{}`", exchange.name)),
            },
            _ => BrokerError::new(ErrorKind::Unknown, self.action(), reply_text(error)),
        }
    }

    /// Closes its channels.
    pub async fn close(self) {
        futures_util::future::join_all(self.channels.into_iter().map(closed)).await;
    }
}

/// What came with one confirm. The returned message is any of the window's, not the confirm's own.
struct Answer {
    said: Said,
    returned: Option<Option<String>>,
}

enum Said {
    Ack,
    Nack,
    Nothing,
    Error(lapin::Error),
}

/// What became of one letter of a window.
#[derive(Debug)]
enum Verdict {
    There,
    Returned,
    Refused,
    Unmatched,
    Unanswered,
    Broken(lapin::Error),
}

/// What became of each letter of a window, all answers being in. `sent` has their own ids, in order.
fn verdicts<S: AsRef<str>>(sent: &[Option<S>], answers: Vec<Answer>) -> Vec<Verdict> {
    // Asked for only by what came back, which is nothing as a rule.
    let own: OnceCell<HashSet<&str>> = OnceCell::new();
    let own = || own.get_or_init(|| sent.iter().flatten().map(AsRef::as_ref).collect());
    let alone = sent.len() == 1;
    let mut returned = HashSet::new();
    let mut unmatched = false;
    for id in answers.iter().filter_map(|answer| answer.returned.as_ref()) {
        match id {
            Some(id) if own().contains(id.as_str()) => {
                returned.insert(id.clone());
            }
            None if alone => {}
            _ => unmatched = true,
        }
    }
    let only_returned = alone && !unmatched && answers.iter().any(|answer| answer.returned.is_some());
    sent.iter()
        .zip(answers)
        .map(|(id, answer)| {
            // The server says yes to what it gives back, too.
            if mutated("m08") && matches!(answer.said, Said::Ack) {
                return Verdict::There;
            }
            if unmatched {
                return Verdict::Unmatched;
            }
            if only_returned || id.as_ref().is_some_and(|id| returned.contains(id.as_ref())) {
                return Verdict::Returned;
            }
            match answer.said {
                Said::Ack => Verdict::There,
                Said::Nack => Verdict::Refused,
                Said::Nothing => Verdict::Unanswered,
                Said::Error(error) => Verdict::Broken(error),
            }
        })
        .collect()
}

async fn confirming(link: &Link, target: &str) -> Result<Channel> {
    let channel = link.channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .map_err(|error| failed(format!("publish to {target}"), target, &error))?;
    Ok(channel)
}

async fn closed(channel: Channel) {
    if channel.status().connected() {
        let _ = close_channel(&channel).await;
    }
}

/// All confirms, in order of sending. The last one is waited for first: by then the others are there as a rule, and
/// nobody was woken by each.
async fn answers(sent: Vec<State<'_>>) -> Vec<lapin::Result<Confirmation>> {
    let mut confirms = Vec::with_capacity(sent.len());
    for state in sent.into_iter().rev() {
        confirms.push(match state {
            State::Writing(publish) => publish.await,
            State::Written(written) => written,
        });
    }
    let mut answers = Vec::with_capacity(confirms.len());
    for confirm in confirms {
        answers.push(match confirm {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        });
    }
    answers.reverse();
    answers
}

fn own_id(one: &Outgoing) -> Option<&str> {
    one.message.headers.last_text(stamp::RUN)
}

fn run_header(properties: &BasicProperties) -> Option<String> {
    match properties.headers().as_ref()?.inner().get(stamp::RUN)? {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::proof::mutation::planted;
    use proptest::prelude::*;

    fn ids(count: usize) -> Vec<Option<String>> {
        (0..count).map(|n| Some(format!("r1/{n}"))).collect()
    }

    proptest! {
        /// The library hands returns to whichever confirms complete next, in any order.
        #[test]
        fn r15_m08_returns_are_matched_by_own_id_wherever_they_turn_up(
            unroutable in proptest::collection::btree_set(0usize..50, 0..20),
            order in Just((0usize..50).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let sent = ids(50);
            let mut waiting: Vec<Option<String>> =
                unroutable.iter().map(|n| sent[*n].clone()).collect();
            let mut answers: Vec<Answer> =
                (0..50).map(|_| Answer { said: Said::Ack, returned: None }).collect();
            for place in order {
                answers[place].returned = waiting.pop();
            }
            for (n, verdict) in verdicts(&sent, answers).into_iter().enumerate() {
                match verdict {
                    Verdict::Returned => prop_assert!(unroutable.contains(&n)),
                    Verdict::There => prop_assert!(!unroutable.contains(&n)),
                    other => prop_assert!(false, "{n}: {other:?}"),
                }
            }
        }
    }

    /// One of two letters comes back; the server confirms both. Gives how many are said to be there.
    fn said_to_be_there() -> usize {
        let sent = ids(2);
        let answers =
            (0..2).map(|n| Answer { said: Said::Ack, returned: (n == 0).then(|| sent[1].clone()) }).collect();
        verdicts(&sent, answers).iter().filter(|verdict| matches!(verdict, Verdict::There)).count()
    }

    #[test]
    fn m08_ack_with_return_is_ack() {
        assert_eq!(said_to_be_there(), 1, "I6: one of them is nowhere");
        assert_eq!(planted::with("m08", said_to_be_there), 2, "m08 was not caught");
    }

    #[test]
    fn a_return_that_is_nobodys_puts_the_whole_window_in_doubt() {
        for stray in [None, Some("r0/1".to_owned())] {
            let answers = (0..3)
                .map(|n| Answer { said: Said::Ack, returned: (n == 1).then(|| stray.clone()) })
                .collect();
            let all = verdicts(&ids(3), answers);
            assert!(all.iter().all(|verdict| matches!(verdict, Verdict::Unmatched)));
        }
    }

    #[test]
    fn alone_in_its_window_a_return_needs_no_id() {
        let answers = vec![Answer { said: Said::Ack, returned: Some(None) }];
        assert!(matches!(verdicts::<String>(&[None], answers)[0], Verdict::Returned));
    }
}
