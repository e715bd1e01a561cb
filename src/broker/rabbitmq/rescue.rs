//! Letters that would not survive being given back: at their delivery limit, a queue without a dead-letter
//! target of its own destroys them on the next return. A verbatim copy starts to count anew.

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation};

use super::connect::{Link, close_channel};
use super::feed::Feed;
use super::refused::failed;
use super::wire;
use crate::broker::{BrokerError, ErrorKind, Result};
use crate::letter::{Message, RawLetter};

/// Puts each of these back as a copy at the queue's end, confirmed before the original goes. Reading has
/// stopped: one more letter taken would be one more return.
///
/// # Errors
/// A copy was not taken: its original is still held, and ends with this process. Named.
pub(super) async fn keep(
    link: &Link,
    feed: &mut Feed,
    queue: &str,
    letters: Vec<(u64, RawLetter)>,
) -> Result<()> {
    if letters.is_empty() {
        return Ok(());
    }
    let channel = link.channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .map_err(|error| failed(format!("keep letters of {queue}"), queue, &error))?;
    for (tag, letter) in letters {
        copy(&channel, queue, &letter).await?;
        feed.acknowledge(&[tag]).await?;
    }
    close_channel(&channel).await
}

async fn copy(channel: &Channel, queue: &str, letter: &RawLetter) -> Result<()> {
    let action = || format!("keep letter {} of {queue}, which is at its delivery limit", letter.id);
    let wrong = |why: String| BrokerError::new(ErrorKind::Rejected, action(), why);
    let properties = verbatim(&letter.message).map_err(wrong)?;
    let body = letter.message.body.as_deref().unwrap_or_default();
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let key = wire::short(queue).map_err(wrong)?;
    let confirm = channel
        .basic_publish("".into(), key, options, body, properties)
        .await
        .map_err(|error| failed(action(), queue, &error))?
        .await
        .map_err(|error| failed(action(), queue, &error))?;
    match confirm {
        Confirmation::Ack(None) => Ok(()),
        _ => Err(wrong("the server did not take the copy".to_owned())),
    }
}

/// All headers, the broker's own too: the letter stays where it is, and its history with it.
fn verbatim(message: &Message) -> std::result::Result<BasicProperties, String> {
    let properties = wire::write_properties(message)?;
    let mut table = FieldTable::default();
    for header in &message.headers {
        if [wire::DELIVERY_COUNT, wire::ACQUIRED_COUNT, "CC", "BCC"].contains(&header.name.as_str()) {
            continue;
        }
        table.insert(wire::short(&header.name)?, wire::write_value(&header.value)?);
    }
    Ok(if table.inner().is_empty() { properties } else { properties.with_headers(table) })
}
