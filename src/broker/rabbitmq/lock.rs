//! One run per dead-letter queue, across machines: an exclusive queue with a name made of its.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::connect::{Link, close_channel};
use super::management::Management;
use super::refused::{code, failed, reply_code};
use super::wire;
use crate::broker::{BrokerError, ErrorKind, Result, Task};

/// Name of the lock of a dead-letter queue.
pub(super) fn name(queue: &str) -> String {
    format!("redrive.lock.{queue}")
}

fn short(queue: &str) -> Result<ShortString> {
    wire::short(&name(queue))
        .map_err(|why| BrokerError::new(ErrorKind::Unsupported, format!("lock {queue}"), why))
}

/// Takes it, on the connection that publishes: who loses it cannot publish either.
///
/// # Errors
/// `Locked` with the holder, `Denied`.
pub(super) async fn take(
    link: &Link,
    queue: &str,
    task: &Task,
    management: Option<&Management>,
) -> Result<()> {
    let lock = short(queue)?;
    let channel = link.channel().await?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
    for (key, value) in [("x-redrive-run", &task.run), ("x-redrive-who", &task.who)] {
        arguments.insert(key.into(), AMQPValue::LongString(value.as_str().into()));
    }
    let options =
        QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
    let Err(error) = channel.queue_declare(lock, options, arguments).await else {
        return close_channel(&channel).await;
    };
    match reply_code(&error) {
        Some(code::RESOURCE_LOCKED) => Err(held(queue, task.take_over, management).await),
        _ => Err(failed(format!("lock {queue}"), &name(queue), &error)),
    }
}

/// Does nobody hold it? A queue of another connection may not even be looked at.
///
/// # Errors
/// As [`take`].
pub(super) async fn is_free(
    link: &Link,
    queue: &str,
    take_over: bool,
    management: Option<&Management>,
) -> Result<()> {
    let lock = short(queue)?;
    let channel = link.channel().await?;
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    match channel.queue_declare(lock, options, FieldTable::default()).await {
        Ok(_) => close_channel(&channel).await,
        Err(error) => match reply_code(&error) {
            Some(code::RESOURCE_LOCKED) => Err(held(queue, take_over, management).await),
            Some(code::NOT_FOUND) => Ok(()),
            _ => Err(failed(format!("lock {queue}"), &name(queue), &error)),
        },
    }
}

async fn held(queue: &str, take_over: bool, management: Option<&Management>) -> BrokerError {
    let holder = match management {
        Some(management) => management.queue(&name(queue)).await.ok().flatten().and_then(|lock| {
            let argument = |key| lock.get("arguments")?.get(key)?.as_str().map(str::to_owned);
            Some(format!("run {} of {}", argument("x-redrive-run")?, argument("x-redrive-who")?))
        }),
        None => None,
    };
    BrokerError::new(
        ErrorKind::Locked,
        format!("lock {queue}"),
        format!("{queue} is held by {}", holder.as_deref().unwrap_or("another run")),
    )
    .hint(match take_over {
        false => {
            "one run per dead-letter queue; the lock of a dead run ends with its connection, after two heartbeats"
        }
        true => {
            "--take-over cannot take this lock: it is the holder's connection, and RabbitMQ ends it after two \
             heartbeats without a sign of life; to end it now, close that connection on the server"
        }
    })
}
