//! SQS's own move: StartMessageMoveTask, its progress and its cancelling (S27). It moves all of a dead-letter queue,
//! gives each copy a new message id (S26), and cannot select, mark or hold anything.

use async_trait::async_trait;
use aws_sdk_sqs::types::ListMessageMoveTasksResultEntry as Entry;

use super::browse::Queue;
use super::client::Client;
use super::policy;
use crate::broker::{Bulk, BulkMover, BulkState, ErrorKind, Result};

/// A task that was started.
pub(super) struct Task {
    client: Client,
    queue: Queue,
    handle: String,
}

/// Starts one, if SQS will take it and it does what the topology says.
pub(super) async fn start(
    client: &Client,
    dead_letters: &str,
    target: &str,
    per_second: Option<u32>,
) -> Result<Task> {
    let queue = Queue::read(client, dead_letters).await?;
    let to = Queue::read(client, target).await?;
    if let Some(why) = refusals(client, &queue, target).await?.into_iter().next() {
        let action = format!("start a move task on {dead_letters}");
        return Err(client
            .fault(ErrorKind::Rejected, action, &why)
            .hint("without --native, redrive moves the letters itself"));
    }
    let call = client
        .sdk
        .start_message_move_task()
        .source_arn(&queue.arn)
        .destination_arn(&to.arn)
        .set_max_number_of_messages_per_second(per_second.and_then(|rate| i32::try_from(rate).ok()));
    let started = call
        .send()
        .await
        .map_err(|error| client.error(format!("start a move task on {dead_letters}"), &error))?;
    let handle = started.task_handle.unwrap_or_default();
    Ok(Task { client: client.clone(), queue, handle })
}

/// Why SQS would not take one, or would do something else than the topology says.
pub(super) async fn refusals(client: &Client, queue: &Queue, target: &str) -> Result<Vec<String>> {
    let mut reasons = Vec::new();
    let arns = sources(client, queue).await?;
    match arns.as_slice() {
        [] => reasons.push(format!(
            "it is the dead-letter queue of no queue; SQS moves only from one that is. Letters of a function, a topic \
             or an event rule have no queue to go back to ({})",
            client.whereabouts()
        )),
        [one] if policy::name_of(one) != target => reasons.push(format!(
            "its letters come from {}, and the topology sends them to {target}",
            policy::name_of(one)
        )),
        [_] => {}
        many => {
            let names: Vec<&str> = many.iter().map(|arn| policy::name_of(arn)).collect();
            reasons.push(format!("letters of {} lie in it, and all would go to {target}", names.join(", ")));
        }
    }
    // Of a queue that is nobody's, SQS does not even list the tasks.
    if !arns.is_empty()
        && let Some(running) = newest(client, queue).await?.filter(is_running)
    {
        let moved = running.approximate_number_of_messages_moved;
        reasons.push(format!("a move task runs on it already, about {moved} letters moved so far"));
    }
    Ok(reasons)
}

/// The queues that send their dead letters here.
pub(super) async fn sources(client: &Client, queue: &Queue) -> Result<Vec<String>> {
    let mut arns = Vec::new();
    let mut next = None;
    loop {
        let call = client.sdk.list_dead_letter_source_queues().queue_url(&queue.url).set_next_token(next);
        let answer = call
            .send()
            .await
            .map_err(|error| client.error(format!("ask which queues send to {}", queue.name), &error))?;
        for url in answer.queue_urls {
            let name = url.rsplit('/').next().unwrap_or_default();
            arns.extend(policy::sister(&queue.arn, name));
        }
        next = answer.next_token.filter(|token| !token.is_empty());
        if next.is_none() || arns.len() > 100 {
            return Ok(arns);
        }
    }
}

fn is_running(entry: &Entry) -> bool {
    matches!(entry.status.as_deref(), Some("RUNNING" | "CANCELLING"))
}

/// The task that was started last.
async fn newest(client: &Client, queue: &Queue) -> Result<Option<Entry>> {
    let call = client.sdk.list_message_move_tasks().source_arn(&queue.arn).max_results(10);
    let answer = call
        .send()
        .await
        .map_err(|error| client.error(format!("look at the move tasks of {}", queue.name), &error))?;
    Ok(answer.results.unwrap_or_default().into_iter().max_by_key(|entry| entry.started_timestamp))
}

#[async_trait]
impl BulkMover for Task {
    async fn look(&mut self) -> Result<Bulk> {
        let Some(entry) = newest(&self.client, &self.queue).await? else {
            let action = format!("look at the move task of {}", self.queue.name);
            return Err(self.client.fault(ErrorKind::Unknown, action, "SQS does not list it"));
        };
        let number = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(Bulk {
            of: entry.approximate_number_of_messages_to_move.map(number),
            moved: number(entry.approximate_number_of_messages_moved),
            state: match entry.status.as_deref() {
                Some("COMPLETED") => BulkState::Done,
                Some("CANCELLED") => BulkState::Cancelled,
                Some("FAILED") => BulkState::Failed(
                    entry.failure_reason.unwrap_or_else(|| "SQS does not say why".to_owned()),
                ),
                _ => BulkState::Running,
            },
        })
    }

    async fn cancel(&mut self) -> Result<()> {
        let call = self.client.sdk.cancel_message_move_task().task_handle(&self.handle);
        call.send().await.map(|_| ()).map_err(|error| {
            self.client.error(format!("cancel the move task of {}", self.queue.name), &error)
        })
    }
}
