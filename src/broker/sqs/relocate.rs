//! Moving letters on SQS: receive → send → record → delete, with only what is in `Successful` counted as
//! done (S20), a heartbeat on what is held, and no hidden retry of a send (m13).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry,
};
use sha2::Digest;

use super::browse::{self, Queue};
use super::client::{Client, kind_of};
use super::convert::{self, Refusal};
use super::stamps;
use crate::broker::{
    Ask, BrokerError, Claimed, Claims, ErrorKind, Intent, Missing, Mover, Outgoing, Proof, Published,
    Receipt, Result, Settled, Task,
};
use crate::letter::Value;

/// Receives, sends or deletes under way at once.
const AT_ONCE: usize = 8;
/// FIFO: a send may be repeated this long after its first try, well inside the five minutes of SQS's own
/// deduplication (protocol §6).
const RESEND_WITHIN: Duration = Duration::from_secs(240);

/// One message in our hands.
struct Held {
    receipt: String,
    /// Order of receiving, which a FIFO queue needs when it gets its letters back.
    order: u64,
}

/// The session of one run.
pub(super) struct Session {
    client: Client,
    source: Queue,
    target: Queue,
    claim_for: Duration,
    /// By message id, which is the letter's position.
    held: HashMap<String, Held>,
    /// Our receipt is the message id: the broker's own handle changes with each receive.
    settled: HashSet<String>,
    order: u64,
}

impl Session {
    pub(super) async fn begin(client: &Client, dead_letters: &str, task: &Task) -> Result<Self> {
        let source = Queue::read(client, dead_letters).await?;
        let target = Queue::read(client, &task.target).await?;
        if source.fifo != target.fifo {
            return Err(BrokerError::new(
                ErrorKind::Rejected,
                format!("send from {dead_letters} to {}", task.target),
                "one is a FIFO queue and the other is not; group order would be lost or asked for in vain",
            ));
        }
        Ok(Self {
            client: client.clone(),
            source,
            target,
            claim_for: task.claim_for.max(Duration::from_secs(30)).min(Duration::from_secs(43_000)),
            held: HashMap::new(),
            settled: HashSet::new(),
            order: 0,
        })
    }

    /// The newest handle of a letter that we hold.
    fn handle(&self, receipt: &Receipt) -> Option<String> {
        self.held.get(&receipt.0).map(|held| held.receipt.clone())
    }

    /// Sends one batch of at most ten, once.
    async fn send(
        &self,
        batch: &[(usize, &Outgoing, SendMessageBatchRequestEntry)],
    ) -> Vec<(usize, Result<Published>)> {
        let action = || format!("send to {}", self.target.name);
        let call = self
            .client
            .sdk
            .send_message_batch()
            .queue_url(&self.target.url)
            .set_entries(Some(batch.iter().map(|(_, _, entry)| entry.clone()).collect()))
            .customize()
            .config_override(aws_sdk_sqs::Config::builder().retry_config(RetryConfig::disabled()));
        match call.send().await {
            Ok(answer) => {
                let mut outcome: HashMap<String, Result<Published>> = HashMap::new();
                for done in answer.successful {
                    outcome.insert(done.id, Ok(Published { at: Some(done.message_id) }));
                }
                for failed in answer.failed {
                    let text = failed.message.unwrap_or_default();
                    let kind = match kind_of(&failed.code, None) {
                        // The queue refuses this one; a fault of its own may be over on the next try.
                        ErrorKind::Other if failed.sender_fault => ErrorKind::Rejected,
                        ErrorKind::Other => ErrorKind::Unreachable,
                        kind => kind,
                    };
                    let error = BrokerError::new(kind, action(), format!("{}: {text}", failed.code))
                        .code(failed.code);
                    outcome.insert(failed.id, Err(error));
                }
                batch
                    .iter()
                    .map(|(index, _, entry)| {
                        let answer = outcome.remove(&entry.id).unwrap_or_else(|| {
                            Err(BrokerError::new(
                                ErrorKind::Unknown,
                                action(),
                                "SQS named it neither sent nor failed",
                            ))
                        });
                        (*index, answer)
                    })
                    .collect()
            }
            Err(error) => {
                let error = self.client.error(action(), &error);
                batch.iter().map(|(index, _, _)| (*index, Err(error.clone()))).collect()
            }
        }
    }

    /// The entry that a copy becomes, its size, or why SQS would refuse it.
    fn entry(
        &self,
        index: usize,
        outgoing: &Outgoing,
    ) -> std::result::Result<(SendMessageBatchRequestEntry, u64), Refusal> {
        let message = &outgoing.message;
        let body = convert::body(message)?;
        let (packed, others) = stamps::pack(&message.headers);
        let mut attributes = HashMap::new();
        for (name, value) in others {
            if attributes.insert(name.to_owned(), convert::attribute(name, value)?).is_some() {
                return Err(Refusal { code: "ATTRIBUTE", why: format!("attribute {name} is there twice") });
            }
        }
        if let Some(packed) = packed {
            // S12: a producer's attribute is never dropped for ours.
            if attributes.len() >= convert::MOST_ATTRIBUTES || attributes.contains_key(stamps::NAME) {
                return Err(Refusal {
                    code: "ATTRIBUTES",
                    why: format!(
                        "it has {} attributes of its own, SQS takes {}, and the run's mark needs one",
                        attributes.len(),
                        convert::MOST_ATTRIBUTES
                    ),
                });
            }
            attributes.insert(
                stamps::NAME.to_owned(),
                convert::attribute(stamps::NAME, &Value::from_text(packed))?,
            );
        }
        if attributes.len() > convert::MOST_ATTRIBUTES {
            let why =
                format!("it has {} attributes, SQS takes {}", attributes.len(), convert::MOST_ATTRIBUTES);
            return Err(Refusal { code: "ATTRIBUTES", why });
        }
        let size = convert::wire_size(body, &attributes);
        if size > self.target.max_bytes {
            let why = format!("it has {size} bytes, {} takes {}", self.target.name, self.target.max_bytes);
            return Err(Refusal { code: "SIZE", why });
        }
        let mut entry = SendMessageBatchRequestEntry::builder()
            .id(index.to_string())
            .message_body(body)
            .set_message_attributes((!attributes.is_empty()).then_some(attributes));
        // The group is kept on standard queues too: fair queues go by it.
        if let Some(group) = message.properties.first_text(convert::GROUP_ID) {
            entry = entry.message_group_id(group);
        }
        if self.target.fifo {
            entry = entry.message_deduplication_id(dedup_id(&self.source.arn, outgoing));
        }
        if let Some(trace) = message.properties.first_text(convert::TRACE)
            && let Ok(value) =
                MessageSystemAttributeValue::builder().data_type("String").string_value(trace).build()
        {
            entry =
                entry.message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, value);
        }
        let entry = entry.build().map_err(|error| Refusal { code: "ENTRY", why: error.to_string() })?;
        Ok((entry, size))
    }
}

/// Protocol §6: hash of the dead-letter queue, the letter's MessageId, its body and user attributes. No run in
/// it, so that two ledgers cannot deliver twice (m07); never the producer's, which the queue may have seen
/// less than five minutes ago and would swallow (m05, S02).
fn dedup_id(queue_arn: &str, outgoing: &Outgoing) -> String {
    let mut hash = sha2::Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    add(queue_arn.as_bytes());
    add(outgoing.position.as_str().as_bytes());
    add(outgoing.message.body.as_deref().unwrap_or_default());
    for header in &outgoing.message.headers {
        if crate::stamp::ALL.contains(&header.name.as_str()) {
            continue;
        }
        add(header.name.as_bytes());
        add(header.value.type_name().as_bytes());
        add(header.value.bytes().map_or(&[][..], |bytes| bytes));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refused(target: &str, refusal: Refusal) -> BrokerError {
    BrokerError::new(ErrorKind::Rejected, format!("send to {target}"), refusal.why).code(refusal.code)
}

#[async_trait]
impl Mover for Session {
    async fn claim(&mut self, ask: &Ask<'_>) -> Result<Claims> {
        let mut claims = Claims::default();
        let mut empty = 0;
        while claims.got.len() < ask.limit {
            let missing = ask.limit - claims.got.len();
            let calls = missing.div_ceil(convert::BATCH).clamp(1, AT_ONCE);
            let receives = (0..calls).map(|_| {
                browse::receive(&self.client, &self.source, self.claim_for, 1, missing.min(convert::BATCH))
            });
            let answers = futures_util::future::join_all(receives).await;
            let (mut came, mut fresh) = (0, 0);
            for answer in answers {
                for raw in answer? {
                    came += 1;
                    let (Some(id), Some(receipt)) = (raw.message_id.clone(), raw.receipt_handle.clone())
                    else {
                        continue;
                    };
                    if self.settled.contains(&id) {
                        // Deleted, and handed out once more: at-least-once delivery. Delete it again later.
                        continue;
                    }
                    let order = self.order;
                    self.order += 1;
                    if let Some(known) = self.held.get_mut(&id) {
                        known.receipt = receipt;
                        continue;
                    }
                    let Some(letter) = browse::letter(&self.source, &raw, order) else { continue };
                    let seq = (ask.wanted)(&letter.position);
                    self.held.insert(id.clone(), Held { receipt, order });
                    fresh += 1;
                    if let Some(seq) = seq {
                        claims.got.push(Claimed { seq, receipt: Receipt(id), letter });
                    }
                }
            }
            if fresh > 0 {
                empty = 0;
                continue;
            }
            empty += 1;
            if !claims.got.is_empty() {
                break;
            }
            // S23: an empty answer is the end only if the counts agree, or after several of them.
            let counts = Queue::read(&self.client, &self.source.name).await?;
            if counts.visible == 0 || came > 0 || empty >= 3 {
                if counts.visible > 0 && counts.in_flight >= 100_000 {
                    return Err(BrokerError::new(
                        ErrorKind::Unreachable,
                        format!("receive from {}", self.source.name),
                        format!(
                            "blocked: {} letters are in flight, the limit of SQS; the queue is not empty",
                            counts.in_flight
                        ),
                    ));
                }
                claims.exhausted = true;
                break;
            }
        }
        if claims.exhausted {
            let got: HashSet<u64> = claims.got.iter().map(|claimed| claimed.seq).collect();
            let unseen = ask.next.iter().filter(|wanted| {
                !got.contains(&wanted.seq) && !self.held.contains_key(wanted.position.as_str())
            });
            // "Not visible" is not "gone" here (m15).
            claims.missing = unseen.map(|wanted| (wanted.seq, Missing::NotSeen)).collect();
        }
        Ok(claims)
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        let mut answers: Vec<Option<Result<Published>>> = batch.iter().map(|_| None).collect();
        let (mut entries, mut sizes) = (Vec::new(), Vec::new());
        for (index, outgoing) in batch.iter().enumerate() {
            match self.entry(index, outgoing) {
                Ok((entry, size)) => {
                    sizes.push(size);
                    entries.push((index, outgoing, entry));
                }
                Err(refusal) => {
                    if let Some(slot) = answers.get_mut(index) {
                        *slot = Some(Err(refused(&self.target.name, refusal)));
                    }
                }
            }
        }
        let ranges = convert::batches(&sizes, self.target.max_bytes.min(1_048_576));
        for block in ranges.chunks(AT_ONCE) {
            let sends =
                block.iter().filter_map(|range| entries.get(range.clone())).map(|chunk| self.send(chunk));
            for (index, answer) in futures_util::future::join_all(sends).await.into_iter().flatten() {
                if let Some(slot) = answers.get_mut(index) {
                    *slot = Some(answer);
                }
            }
        }
        answers
            .into_iter()
            .map(|answer| {
                answer.unwrap_or_else(|| {
                    Err(BrokerError::new(
                        ErrorKind::Unknown,
                        format!("send to {}", self.target.name),
                        "no answer",
                    ))
                })
            })
            .collect()
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for block in batch.chunks(convert::BATCH * AT_ONCE) {
            let deletes = block.chunks(convert::BATCH).map(|chunk| self.delete(chunk));
            for part in futures_util::future::join_all(deletes).await {
                outcomes.extend(part);
            }
        }
        for (receipt, outcome) in batch.iter().zip(&outcomes) {
            if matches!(outcome, Settled::Settled) {
                self.held.remove(&receipt.0);
                self.settled.insert(receipt.0.clone());
            } else if matches!(outcome, Settled::Stale) {
                // A later receive brings a new handle (S21); until then we do not hold it.
                self.held.remove(&receipt.0);
            }
        }
        outcomes
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        let mut handles: Vec<(u64, String)> = batch
            .iter()
            .filter_map(|receipt| self.held.remove(&receipt.0))
            .map(|held| (held.order, held.receipt))
            .collect();
        handles.sort();
        let handles: Vec<String> = handles.into_iter().map(|(_, handle)| handle).collect();
        browse::hide_for(&self.client, &self.source, &handles, 0).await.map(|_| ())
    }

    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        let now = self.client.clock.now();
        Ok(intents
            .iter()
            .map(|intent| match self.target.fifo && now.since(intent.first_intent) < RESEND_WITHIN {
                true => Proof::ResendSafe,
                // SQS cannot look up what was sent, and a miss would prove nothing (m12).
                false => Proof::Unknown,
            })
            .collect())
    }

    async fn renew(&mut self, _held: &[Receipt]) -> Result<()> {
        // Letters stepped over are held too: given back now, SQS would hand them out again and again.
        let handles: Vec<String> = self.held.values().map(|held| held.receipt.clone()).collect();
        let seconds = i32::try_from(self.claim_for.as_secs()).unwrap_or(43_000);
        browse::hide_for(&self.client, &self.source, &handles, seconds).await.map(|_| ())
    }

    async fn end(mut self: Box<Self>) -> Result<()> {
        let all: Vec<Receipt> = self.held.keys().cloned().map(Receipt).collect();
        self.release(&all).await
    }
}

impl Session {
    /// Deletes at most ten; only what is in `Successful` is gone (S20).
    async fn delete(&self, chunk: &[Receipt]) -> Vec<Settled> {
        let mut call = self.client.sdk.delete_message_batch().queue_url(&self.source.url);
        let mut known = Vec::new();
        for (index, receipt) in chunk.iter().enumerate() {
            let Some(handle) = self.handle(receipt) else { continue };
            if let Ok(entry) =
                DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(handle).build()
            {
                call = call.entries(entry);
                known.push(index);
            }
        }
        let mut outcomes: Vec<Settled> = chunk.iter().map(|_| Settled::Stale).collect();
        if known.is_empty() {
            return outcomes;
        }
        let action = format!("delete from {}", self.source.name);
        match call.send().await {
            Ok(answer) => {
                for index in &known {
                    if let Some(slot) = outcomes.get_mut(*index) {
                        let silent = BrokerError::new(
                            ErrorKind::Unknown,
                            action.clone(),
                            "SQS named it neither deleted nor failed",
                        );
                        *slot = Settled::Failed(silent);
                    }
                }
                for done in answer.successful {
                    if let Some(slot) =
                        done.id.parse::<usize>().ok().and_then(|index| outcomes.get_mut(index))
                    {
                        *slot = Settled::Settled;
                    }
                }
                for failed in answer.failed {
                    if let Some(slot) =
                        failed.id.parse::<usize>().ok().and_then(|index| outcomes.get_mut(index))
                    {
                        *slot = match kind_of(&failed.code, None) {
                            ErrorKind::Stale => Settled::Stale,
                            kind => {
                                let text = failed.message.unwrap_or_default();
                                Settled::Failed(BrokerError::new(
                                    kind,
                                    action.clone(),
                                    format!("{}: {text}", failed.code),
                                ))
                            }
                        };
                    }
                }
            }
            Err(error) => {
                let error = self.client.error(action, &error);
                for index in known {
                    if let Some(slot) = outcomes.get_mut(index) {
                        *slot = Settled::Failed(error.clone());
                    }
                }
            }
        }
        outcomes
    }
}
