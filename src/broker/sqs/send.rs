//! Sending copies and deleting originals: batches of ten, each entry answered for itself, and what SQS would
//! refuse refused before it is sent.

use std::collections::HashMap;

use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry,
};
use sha2::Digest;

use super::calls;
use super::client::kind_of;
use super::convert::{self, Refusal};
use super::relocate::Session;
use super::stamps;
use crate::broker::{BrokerError, ErrorKind, Outgoing, Published, Receipt, Result, Settled};
use crate::letter::Value;
use crate::proof::mutation::mutated;

impl Session {
    /// Sends what can be sent, in batches by count and bytes (S13), with several calls at once; one answer per
    /// letter, in order.
    pub(super) async fn send_all(&self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        let mut answers: Vec<Option<Result<Published>>> = batch.iter().map(|_| None).collect();
        let mut unsent: Vec<(usize, BrokerError)> = Vec::new();
        let limit = self.target.max_bytes.min(1_048_576);
        let (mut rest, mut over) = (batch.iter().enumerate(), None);
        // Made when it is its turn, while those before it are under way.
        let sends = std::iter::from_fn(|| {
            let (mut entries, mut filling) =
                (Vec::with_capacity(convert::BATCH), convert::Filling::default());
            loop {
                let next = over.take().map(Ok).or_else(|| {
                    rest.next().map(|(index, outgoing)| match self.made(index, outgoing) {
                        Ok((entry, size)) => Ok((index, entry, size)),
                        Err(error) => Err((index, error)),
                    })
                });
                match next {
                    Some(Err(refused)) => unsent.push(refused),
                    Some(Ok((index, entry, size))) if filling.takes(size, limit) => {
                        entries.push((index, entry));
                    }
                    Some(Ok(next)) => {
                        over = Some(next);
                        break;
                    }
                    None => break,
                }
                if entries.len() == convert::BATCH {
                    break;
                }
            }
            (!entries.is_empty()).then(|| self.send(entries))
        });
        let sent = calls::all(sends).await;
        let unsent = unsent.into_iter().map(|(index, error)| (index, Err(error)));
        for (index, answer) in sent.into_iter().flatten().chain(unsent) {
            if let Some(slot) = answers.get_mut(index) {
                *slot = Some(answer);
            }
        }
        answers
            .into_iter()
            .map(|answer| {
                answer.unwrap_or_else(|| {
                    let action = format!("send to {}", self.target.name);
                    Err(self.client.fault(ErrorKind::Unknown, action, "no answer"))
                })
            })
            .collect()
    }

    /// The entry that a copy becomes, and its size, if it may be sent.
    fn made(&self, index: usize, outgoing: &Outgoing) -> Result<(SendMessageBatchRequestEntry, u64)> {
        if self.holds(&outgoing.receipt).is_none() {
            let what = "the claim on the original was lost: somebody else may be moving it";
            return Err(self.client.fault(ErrorKind::Stale, format!("send to {}", self.target.name), what));
        }
        self.entry(index, outgoing).map_err(|refusal| refused(&self.target.name, refusal))
    }

    /// Deletes in tens, with several calls at once; one outcome per receipt, in order.
    pub(super) async fn delete_all(&self, batch: &[Receipt]) -> Vec<Settled> {
        let deletes = batch.chunks(convert::BATCH).enumerate();
        let deletes = deletes.map(|(at, chunk)| async move { (at, self.delete(chunk).await) });
        let mut parts = calls::all(deletes).await;
        parts.sort_by_key(|(at, _)| *at);
        parts.into_iter().flat_map(|(_, outcomes)| outcomes).collect()
    }

    /// Sends one batch of at most ten, once.
    async fn send(
        &self,
        batch: Vec<(usize, SendMessageBatchRequestEntry)>,
    ) -> Vec<(usize, Result<Published>)> {
        let action = || format!("send to {}", self.target.name);
        let (batch, entries): (Vec<usize>, Vec<_>) = batch.into_iter().unzip();
        let call = self
            .client
            .sdk
            .send_message_batch()
            .queue_url(&self.target.url)
            .set_entries(Some(entries))
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
                    let what = format!("{}: {text}", failed.code);
                    let error = match kind {
                        // About one letter, among many of its kind.
                        ErrorKind::Rejected => BrokerError::new(kind, action(), what),
                        _ => self.client.fault(kind, action(), &what),
                    };
                    let error = error.code(failed.code);
                    outcome.insert(failed.id, Err(error));
                }
                batch
                    .iter()
                    .map(|index| {
                        let answer = outcome.remove(&index.to_string()).unwrap_or_else(|| {
                            let what = "SQS named it neither sent nor failed";
                            Err(self.client.fault(ErrorKind::Unknown, action(), what))
                        });
                        (*index, answer)
                    })
                    .collect()
            }
            Err(error) => {
                // An answer of the service that says nothing about the messages: they may be there or not. Only
                // "slow down" and "unavailable" come from before anything was taken in.
                let blank = matches!(&error, SdkError::ServiceError(answer) if matches!(answer.raw().status().as_u16(), 500 | 502 | 504));
                let mut error = self.client.error(action(), &error);
                if blank && error.kind == ErrorKind::Unreachable {
                    error.kind = ErrorKind::Unknown;
                }
                batch.iter().map(|index| (*index, Err(error.clone()))).collect()
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
    let producers = outgoing.message.properties.first_text("MessageDeduplicationId");
    if let Some(producers) = producers.filter(|_| mutated("m05")) {
        return producers.to_owned();
    }
    let mut hash = sha2::Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    add(queue_arn.as_bytes());
    add(outgoing.position.as_str().as_bytes());
    add(outgoing.message.body.as_deref().unwrap_or_default());
    for header in &outgoing.message.headers {
        if crate::stamp::ALL.contains(&header.name.as_str()) && !mutated("m07") {
            continue;
        }
        add(header.name.as_bytes());
        add(header.value.type_name().as_bytes());
        match header.value.bytes() {
            Some(bytes) => add(bytes),
            None => add(format!("{:?}", header.value).as_bytes()),
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refused(target: &str, refusal: Refusal) -> BrokerError {
    BrokerError::new(ErrorKind::Rejected, format!("send to {target}"), refusal.why).code(refusal.code)
}

impl Session {
    /// Deletes what was handed out once more after it was deleted. Not done: it comes again, and is again not
    /// sent.
    pub(super) async fn delete_again(&self, handles: &[String]) {
        for chunk in handles.chunks(convert::BATCH) {
            let mut call = self.client.sdk.delete_message_batch().queue_url(&self.source.url);
            for (index, handle) in chunk.iter().enumerate() {
                let entry =
                    DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(handle);
                if let Ok(entry) = entry.build() {
                    call = call.entries(entry);
                }
            }
            if let Err(error) = call.send().await {
                let error = self.client.error(format!("delete from {}", self.source.name), &error);
                tracing::warn!(%error, "a letter that came back after it was deleted could not be deleted again");
            }
        }
    }

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
                        let what = "SQS named it neither deleted nor failed";
                        let silent = self.client.fault(ErrorKind::Unknown, action.clone(), what);
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
                                let what = format!("{}: {text}", failed.code);
                                Settled::Failed(self.client.fault(kind, action.clone(), &what))
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::broker::Receipt;
    use crate::clock::Time;
    use crate::letter::{Message, Position};
    use crate::proof::mutation::planted;
    use crate::stamp;

    /// A FIFO queue within five minutes: it says yes to an id that it has seen, and drops the message.
    #[derive(Default)]
    struct Fifo {
        seen: HashSet<String>,
        lies: Vec<String>,
    }

    impl Fifo {
        fn take(&mut self, id: String, by: &str) {
            if self.seen.insert(id) {
                self.lies.push(by.to_owned());
            }
        }
    }

    /// A copy of one letter, as a run sends it.
    fn copy(run: &str) -> Outgoing {
        let mut message = Message { body: Some("{}".into()), ..Message::default() };
        message.properties.push("MessageDeduplicationId", Value::from_text("order-7"));
        message.headers.push("event-id", Value::from_text("ev-7"));
        message.headers.push(stamp::RUN, Value::from_text(format!("{run}/0")));
        Outgoing {
            seq: 0,
            receipt: Receipt("h".to_owned()),
            position: Position::new("f3c1"),
            attempt: 1,
            first_intent: Time::default(),
            group: None,
            message,
            packed: None,
        }
    }

    const DLQ: &str = "arn:aws:sqs:eu-west-1:012345678901:orders-dlq.fifo";

    /// The producer sent the letter a minute ago; now a run sends it.
    fn soon_after_its_producer() -> Vec<String> {
        let mut queue = Fifo::default();
        queue.take("order-7".to_owned(), "producer");
        queue.take(dedup_id(DLQ, &copy("r1")), "r1");
        queue.lies
    }

    /// Two runs that know nothing of each other.
    fn by_two_ledgers() -> Vec<String> {
        let mut queue = Fifo::default();
        for run in ["r1", "r2"] {
            queue.take(dedup_id(DLQ, &copy(run)), run);
        }
        queue.lies
    }

    #[test]
    fn m05_the_producers_dedup_id() {
        assert_eq!(soon_after_its_producer(), ["producer", "r1"], "I1: said to be moved, and dropped");
        assert_eq!(planted::with("m05", soon_after_its_producer), ["producer"], "m05 was not caught");
    }

    #[test]
    fn m07_the_run_in_the_dedup_id() {
        assert_eq!(by_two_ledgers(), ["r1"], "I2: there twice");
        assert_eq!(planted::with("m07", by_two_ledgers), ["r1", "r2"], "m07 was not caught");
    }
}
