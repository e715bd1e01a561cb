//! Looking at a queue: there is no peek on SQS. A look receives with a visibility that outlasts it and gives
//! everything back by visibility 0; the receive count goes up by one, which is said (S24).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, Message as SqsMessage, MessageSystemAttributeName,
    QueueAttributeName,
};

use super::client::Client;
use super::convert;
use super::kind::AT_ONCE;
use crate::broker::{BrokerError, Count, Depth, ErrorKind, LookCost, Pages, Result, Snapshot, letters};
use crate::clock::Time;
use crate::letter::{Facts, Message, Position, RawLetter, TimeSource};

/// How long a look hides what it has read, unless it gives it back earlier: at least and at most. In between it goes by
/// the number of letters, so that those that cannot be given back in time come back soon by themselves.
const HIDE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));
/// Letters that a look reads in a second at the least, or it has to hide them for longer.
const READS: u64 = 1_000;
/// How long a look that is dropped waits for its letters to be given back.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// Empty answers in a row after which a pass is at its end, if the counts agree.
const EMPTY_ROUNDS: u32 = 2;

/// Facts of a queue that letters are read with.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) arn: String,
    pub(super) fifo: bool,
    pub(super) retention: Duration,
    pub(super) visible: u64,
    pub(super) in_flight: u64,
    pub(super) delayed: u64,
    pub(super) max_bytes: u64,
    /// `maxReceiveCount` of the queue's own redrive policy: a look may push letters on (S24).
    pub(super) max_receives: Option<u32>,
    /// Where that policy sends them.
    pub(super) passes_on_to: Option<String>,
    /// When it was made, in the broker's words: a queue deleted and made anew has another one.
    created: String,
}

impl Queue {
    /// What tells this queue from another one of its name.
    pub(super) fn identity(&self) -> String {
        format!("{}@{}", self.arn, self.created)
    }

    /// Reads the queue's attributes.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub(super) async fn read(client: &Client, name: &str) -> Result<Self> {
        let missing = || {
            BrokerError::new(
                ErrorKind::NotFound,
                format!("find the queue {name}"),
                format!("there is no such queue ({})", client.whereabouts()),
            )
            .hint(client.elsewhere())
        };
        let attributes = client.attributes(name).await?.ok_or_else(missing)?;
        let url = client.must(name).await?;
        Ok(Self::of(name, url, &attributes))
    }

    pub(super) fn of(name: &str, url: String, attributes: &HashMap<String, String>) -> Self {
        let number =
            |key: QueueAttributeName| attributes.get(key.as_str()).and_then(|text| text.parse::<u64>().ok());
        let policy = attributes.get(QueueAttributeName::RedrivePolicy.as_str());
        Self {
            name: name.to_owned(),
            url,
            arn: attributes.get(QueueAttributeName::QueueArn.as_str()).cloned().unwrap_or_default(),
            fifo: attributes.get(QueueAttributeName::FifoQueue.as_str()).is_some_and(|text| text == "true"),
            retention: Duration::from_secs(
                number(QueueAttributeName::MessageRetentionPeriod).unwrap_or(345_600),
            ),
            visible: number(QueueAttributeName::ApproximateNumberOfMessages).unwrap_or(0),
            in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible).unwrap_or(0),
            delayed: number(QueueAttributeName::ApproximateNumberOfMessagesDelayed).unwrap_or(0),
            max_bytes: number(QueueAttributeName::MaximumMessageSize).unwrap_or(1_048_576),
            created: attributes
                .get(QueueAttributeName::CreatedTimestamp.as_str())
                .cloned()
                .unwrap_or_default(),
            max_receives: policy.and_then(|text| super::policy::max_receive_count(text)),
            passes_on_to: policy
                .and_then(|text| super::policy::redrive(text))
                .map(|policy| super::policy::name_of(&policy.target_arn).to_owned()),
        }
    }

    /// The queue as counted: all of it is an estimate.
    pub(super) fn depth(&self) -> Depth {
        Depth {
            queue: self.name.clone(),
            count: Count::About(self.visible + self.in_flight + self.delayed),
            due: None,
            in_flight: Some(self.in_flight),
            oldest: None,
            oldest_expires: None,
            exists: true,
        }
    }
}

/// A letter of `queue`. `arrival` is the order in which it was handed out: what a FIFO queue numbers itself, and a
/// standard queue knows the time of, goes by that.
pub(super) fn letter(queue: &Queue, raw: &SqsMessage, arrival: u64) -> Option<RawLetter> {
    let message_id = raw.message_id.clone()?;
    let system = |name: MessageSystemAttributeName| raw.attributes.as_ref().and_then(|all| all.get(&name));
    let number = |name| system(name).and_then(|text| text.parse::<i64>().ok());
    let sent = number(MessageSystemAttributeName::SentTimestamp).map(Time::from_millis);
    // A standard queue passes a letter on with the time of its first send; a FIFO queue sets it anew (S25).
    let moved_here = !queue.fifo && system(MessageSystemAttributeName::DeadLetterQueueSourceArn).is_some();
    let sequence =
        system(MessageSystemAttributeName::SequenceNumber).and_then(|text| text.parse::<u128>().ok());
    let mut message: Message = convert::message(raw);
    super::stamps::open(&mut message.headers);
    Some(RawLetter {
        id: convert::letter_id(&message_id),
        position: Position::new(message_id),
        // FIFO sequence numbers have 20 digits and do not fit; their lower part still ascends in a queue.
        arrival: match (sequence, sent) {
            (Some(n), _) => u64::try_from(n % u128::from(u64::MAX)).unwrap_or(arrival),
            (None, Some(at)) => by_time(at, arrival),
            (None, None) => arrival,
        },
        body_len: message.body.as_ref().map(|body| body.len() as u64),
        facts: Facts {
            queue: queue.name.as_str().into(),
            written_at: sent
                .map(|at| (at, if moved_here { TimeSource::FirstSend } else { TimeSource::Broker })),
            // S25: on both types retention counts from SentTimestamp; a FIFO queue restarts it on the move.
            expires_at: sent.map(|at| at.plus(queue.retention)),
            deliveries: number(MessageSystemAttributeName::ApproximateReceiveCount)
                .and_then(|n| u32::try_from(n).ok()),
            ..Facts::default()
        },
        message,
    })
}

/// The oldest first, and within a millisecond in the order in which they were handed out.
fn by_time(sent: Time, arrival: u64) -> u64 {
    const WITHIN: u32 = 20;
    let millis = u64::try_from(sent.millis()).unwrap_or(0).min((1 << 42) - 1);
    millis << WITHIN | arrival.min((1 << WITHIN) - 1)
}

/// Nothing comes, and it is not the end: so many are in flight that SQS hands out no more (S23).
pub(super) fn blocked(client: &Client, counts: &Queue) -> BrokerError {
    let what = format!(
        "blocked: about {} letters are in flight, the limit of SQS; the queue is not empty, about {} wait",
        counts.in_flight, counts.visible
    );
    let blocked = client.fault(ErrorKind::Throttled, format!("receive from {}", counts.name), &what);
    blocked
        .code("in-flight limit")
        .hint("somebody holds them: stop that reader, or wait until its visibility timeout is over")
}

/// One receive of up to ten with everything asked for (S10).
pub(super) async fn receive(
    client: &Client,
    queue: &Queue,
    hide: Duration,
    wait: i32,
    most: usize,
) -> Result<Vec<SqsMessage>> {
    let asked = client
        .sdk
        .receive_message()
        .queue_url(&queue.url)
        .max_number_of_messages(i32::try_from(most.clamp(1, convert::BATCH)).unwrap_or(10))
        .visibility_timeout(i32::try_from(hide.as_secs()).unwrap_or(43_200))
        .wait_time_seconds(wait)
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All);
    match asked.send().await {
        Ok(answer) => Ok(answer.messages.unwrap_or_default()),
        Err(error) => Err(client.error(format!("receive from {}", queue.name), &error)),
    }
}

/// Sets the visibility of many messages; gives back the receipts that SQS refused, with its words.
pub(super) async fn hide_for(
    client: &Client,
    queue: &Queue,
    receipts: &[String],
    seconds: i32,
) -> Result<Vec<(String, String)>> {
    let mut refused = Vec::new();
    for chunk in receipts.chunks(convert::BATCH) {
        let mut call = client.sdk.change_message_visibility_batch().queue_url(&queue.url);
        for (index, receipt) in chunk.iter().enumerate() {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(receipt)
                .visibility_timeout(seconds)
                .build();
            match entry {
                Ok(entry) => call = call.entries(entry),
                Err(error) => refused.push((receipt.clone(), error.to_string())),
            }
        }
        let answer = call.send().await.map_err(|error| {
            client.error(format!("change the visibility of letters in {}", queue.name), &error)
        })?;
        for failed in answer.failed {
            if let Some(receipt) = failed.id.parse::<usize>().ok().and_then(|index| chunk.get(index)) {
                refused.push((
                    receipt.clone(),
                    format!("{}: {}", failed.code, failed.message.unwrap_or_default()),
                ));
            }
        }
    }
    Ok(refused)
}

/// [`hide_for`] with several calls at once; on a FIFO queue one after the other, in order.
pub(super) async fn for_all(
    client: &Client,
    queue: &Queue,
    receipts: &[String],
    seconds: i32,
) -> Result<Vec<(String, String)>> {
    let at_once = if queue.fifo { 1 } else { AT_ONCE };
    let mut refused = Vec::new();
    for block in receipts.chunks(convert::BATCH * at_once) {
        let calls = block.chunks(convert::BATCH).map(|chunk| hide_for(client, queue, chunk, seconds));
        for answer in futures_util::future::join_all(calls).await {
            refused.extend(answer?);
        }
    }
    Ok(refused)
}

/// A look.
pub(super) struct Look {
    client: Client,
    queue: Queue,
    snapshot: Snapshot,
    /// Newest receipt of each message seen, in the order in which they were first seen.
    held: HashMap<String, (u64, String)>,
    /// How long letters are hidden, since when the first of them are, and until when the last.
    hide: Duration,
    hidden: Duration,
    until: Duration,
    empty_rounds: u32,
    done: bool,
    full: bool,
    /// Letters whose only time is that of their first send.
    undated: u64,
    /// Handed out and not in the extent: sent after the look began.
    later: u64,
    /// Letters that have been received as often as the queue's own redrive policy allows (S24).
    spent: u64,
    /// Still in the queue as visible when no more came: of a FIFO queue those behind the ones that we hold.
    behind: u64,
}

impl Look {
    pub(super) async fn open(client: &Client, name: &str) -> Result<Self> {
        // Before the first call: a letter that is sent after it is not in the extent.
        let now = client.clock.now();
        let queue = Queue::read(client, name).await?;
        let queue_hides = queue.visible.min(client.most_in_flight as u64) / READS;
        let snapshot = Snapshot {
            queue: name.to_owned(),
            identity: queue.identity(),
            place: queue.identity(),
            taken_at: now,
            count: Count::About(queue.visible),
            unseen: (queue.in_flight > 0).then_some(queue.in_flight),
        };
        Ok(Self {
            client: client.clone(),
            queue,
            snapshot,
            held: HashMap::new(),
            hide: Duration::from_secs(queue_hides).clamp(HIDE.0, HIDE.1),
            hidden: client.clock.elapsed(),
            until: Duration::ZERO,
            empty_rounds: 0,
            done: false,
            full: false,
            undated: 0,
            later: 0,
            spent: 0,
            behind: 0,
        })
    }
}

#[async_trait]
impl Pages for Look {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    async fn next(&mut self) -> Result<Vec<RawLetter>> {
        while !self.done {
            if self.client.clock.elapsed().saturating_sub(self.hidden) > self.hide / 3 {
                // The first letters would come back into view before the look ends, and be read twice.
                self.extend().await?;
            }
            // No more calls than there should be letters, and always one: the count is an estimate.
            let left = self.snapshot.count.number().saturating_sub(self.held.len() as u64);
            let at_once = usize::try_from(left.div_ceil(10)).unwrap_or(AT_ONCE).clamp(1, AT_ONCE);
            let calls =
                (0..at_once).map(|_| receive(&self.client, &self.queue, self.hide, 1, convert::BATCH));
            let answers = futures_util::future::join_all(calls).await;
            self.until = self.client.clock.elapsed() + self.hide;
            let mut page = Vec::new();
            let mut seen = 0usize;
            for answer in answers {
                for raw in answer? {
                    seen += 1;
                    let (Some(id), Some(receipt)) = (raw.message_id.clone(), raw.receipt_handle.clone())
                    else {
                        continue;
                    };
                    let order = self.held.len() as u64;
                    match self.held.entry(id) {
                        // The same message again: at-least-once delivery, or it came round. Only the newest
                        // receipt counts.
                        Entry::Occupied(mut known) => known.get_mut().1 = receipt,
                        Entry::Vacant(new) => {
                            new.insert((order, receipt));
                            // What was sent after the look began is not in its extent (rule 2).
                            let Some(letter) = letter(&self.queue, &raw, order) else { continue };
                            let most = self.queue.max_receives;
                            self.spent +=
                                u64::from(most.is_some_and(|most| letter.facts.deliveries >= Some(most)));
                            let first_send =
                                matches!(letter.facts.written_at, Some((_, TimeSource::FirstSend)));
                            self.undated += u64::from(first_send);
                            let began = self.snapshot.taken_at;
                            if letter.facts.written_at.is_none_or(|(at, _)| at <= began) {
                                page.push(letter);
                            } else {
                                self.later += 1;
                            }
                        }
                    }
                }
            }
            if self.held.len() >= self.client.most_in_flight {
                self.full = true;
                self.done = true;
                self.behind = Queue::read(&self.client, &self.queue.name).await?.visible;
            }
            // Answers of calls side by side: on a FIFO queue groups are whole in each and its order is across them; a
            // standard queue keeps none, and the oldest of what it gave go first.
            page.sort_by_key(|letter| letter.arrival);
            if page.is_empty() {
                self.empty_rounds += 1;
                // Only messages that were seen before came back, or none: the pass is over. An empty answer
                // alone proves nothing while the count says that there are more.
                let counts = Queue::read(&self.client, &self.queue.name).await?;
                let waiting = counts.visible;
                self.behind = waiting;
                let others = counts.in_flight.saturating_sub(self.held.len() as u64);
                if seen == 0 && waiting > 0 && others >= self.client.most_in_flight as u64 {
                    return Err(blocked(&self.client, &counts));
                }
                // What stays behind on a FIFO queue is locked by what we hold: no answer will bring it.
                let locked = self.queue.fifo && !self.held.is_empty();
                let enough = if waiting == 0 || locked { EMPTY_ROUNDS } else { 5 };
                if seen > 0 || self.empty_rounds >= enough {
                    self.done = true;
                }
            } else {
                self.empty_rounds = 0;
                return Ok(page);
            }
        }
        Ok(Vec::new())
    }

    async fn close(mut self: Box<Self>) -> Result<LookCost> {
        let read = self.held.len() as u64;
        let refused = self.give_back().await?;
        let mut cost = LookCost { read, spent: self.spent, ..LookCost::default() };
        if read > 0 {
            cost.changed.push(format!("receive count +1 on {}", letters(read, "", "")));
        }
        if let (1.., Some(most)) = (self.spent, self.queue.max_receives) {
            cost.unseen.push(format!(
                "{} received {most} times by now: the next receive, a look or a run, makes SQS move {} on to {}",
                letters(self.spent, "was", "were"),
                if self.spent == 1 { "it" } else { "them" },
                self.queue.passes_on_to.as_deref().unwrap_or("another queue")
            ));
        }
        if refused > 0 {
            cost.changed.push(format!(
                "{} out of view for up to {}",
                letters(refused as u64, "stays", "stay"),
                crate::clock::exact(self.hide)
            ));
        }
        if self.undated > 0 {
            cost.unseen.push(format!(
                "SQS keeps no time of death: {} first sent",
                letters(
                    self.undated,
                    "that it moved here itself shows when it was",
                    "that it moved here itself show when they were"
                )
            ));
        }
        if let Some(unseen) = self.snapshot.unseen {
            cost.unseen.push(format!("about {} in flight elsewhere", letters(unseen, "is", "are")));
        }
        if self.later > 0 {
            cost.unseen.push(format!("{} after the look began", letters(self.later, "came", "came")));
        }
        if self.full {
            cost.unseen.push(format!(
                "the look ended at {}, about {} more are there: SQS hands out only so many at once",
                letters(read, "", ""),
                self.behind
            ));
        }
        cost.behind = self.behind;
        if self.queue.fifo {
            let rule = "a FIFO queue shows at most ten letters of a group at once";
            cost.unseen.push(match self.behind {
                0 => rule.to_owned(),
                behind => {
                    format!(
                        "about {} behind these in their groups; {rule}",
                        letters(behind, "stands", "stand")
                    )
                }
            });
        }
        Ok(cost)
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (client, queue, receipts) = (self.client.clone(), self.queue.clone(), self.receipts());
        let hide = self.hide;
        let give_back = async move {
            let giving = async { for_all(&client, &queue, &receipts, 0).await.map(|refused| refused.len()) };
            match tokio::time::timeout(GIVE_BACK, giving).await {
                Ok(Ok(0)) => {}
                _ => tracing::warn!(
                    "letters looked at stay out of view until {} have passed",
                    crate::clock::exact(hide)
                ),
            }
        };
        // Waited for, within bounds, where that is possible: a process that ends here would otherwise leave
        // its letters hidden for as long as a look may last.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        match runtime.runtime_flavor() {
            tokio::runtime::RuntimeFlavor::MultiThread => {
                tokio::task::block_in_place(|| runtime.block_on(give_back));
            }
            _ => drop(runtime.spawn(give_back)),
        }
    }
}

impl Look {
    /// Receipts in the order in which their letters were seen.
    fn receipts(&self) -> Vec<String> {
        let mut all: Vec<_> = self.held.values().collect();
        all.sort_by_key(|(order, _)| *order);
        all.into_iter().map(|(_, receipt)| receipt.clone()).collect()
    }

    /// Slower than expected: what is held, and what comes, is hidden for as long as ever.
    async fn extend(&mut self) -> Result<()> {
        self.hide = HIDE.1;
        let seconds = i32::try_from(self.hide.as_secs()).unwrap_or(300);
        let now = self.client.clock.elapsed();
        for_all(&self.client, &self.queue, &self.receipts(), seconds).await?;
        self.hidden = now;
        self.until = self.client.clock.elapsed() + self.hide;
        Ok(())
    }

    /// Gives all back; returns how many SQS refused. Where the calls would take longer than the letters need to come
    /// back by themselves, it is waited for that instead.
    async fn give_back(&mut self) -> Result<usize> {
        let receipts = self.receipts();
        let clock = std::sync::Arc::clone(&self.client.clock);
        let begun = clock.elapsed();
        let (mut refused, mut done) = (0, 0u32);
        for block in receipts.chunks(convert::BATCH * AT_ONCE) {
            refused += for_all(&self.client, &self.queue, block, 0).await?.len();
            done += u32::try_from(block.len()).unwrap_or(u32::MAX);
            let now = clock.elapsed();
            let left = u32::try_from(receipts.len()).unwrap_or(u32::MAX).saturating_sub(done);
            let by_themselves = self.until.saturating_sub(now);
            if left > 0 && now.saturating_sub(begun) / done * left > by_themselves {
                tracing::debug!(left, "letters come back by themselves in {:?}", by_themselves);
                clock.sleep(by_themselves).await;
                break;
            }
        }
        self.held.clear();
        Ok(refused)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// A letter sent so many hours ago, in a queue that keeps four days, and what is left of them.
    fn left(name: &str, sent_hours_ago: i64) -> Duration {
        const NOW: i64 = 1_790_000_000_000;
        let attributes = HashMap::from([("MessageRetentionPeriod".to_owned(), "345600".to_owned())]);
        let queue = Queue::of(name, "http://localhost/0/q".to_owned(), &attributes);
        let raw = SqsMessage::builder()
            .message_id("m1")
            .body("{}")
            .attributes(
                MessageSystemAttributeName::SentTimestamp,
                (NOW - sent_hours_ago * 3_600_000).to_string(),
            )
            .build();
        let expires = letter(&queue, &raw, 0).unwrap().facts.expires_at.unwrap();
        expires.since(Time::from_millis(NOW))
    }

    /// On a standard queue SentTimestamp is the first send, however long it was in the source; a FIFO queue sets it
    /// anew on the move. Retention counts from it on both.
    #[test]
    fn s25_retention_left_counts_from_what_the_queue_kept() {
        assert_eq!(left("orders-dlq", 3 * 24 + 20), Duration::from_secs(4 * 3_600));
        assert_eq!(left("orders-dlq.fifo", 1), Duration::from_secs((3 * 24 + 23) * 3_600));
    }
}
