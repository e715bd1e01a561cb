//! What a plan has to say of a channel's topics beside what it would change: times that retention counts from (K13),
//! and partitions whose numbers mean something else than the source's (K20).

use super::browse::Topic;
use super::client::{Client, PATIENCE};
use super::marks::Marks;
use super::roles::blocking;
use super::{provision, spot};
use crate::broker::{ErrorKind, Names, Result};
use crate::clock::rough;
use crate::topology::Channel;

/// All of one channel.
pub(super) async fn remarks(client: &Client, channel: &Channel, names: &Names) -> Result<Vec<String>> {
    let mut remarks = Vec::new();
    remarks.extend(partitions(client, channel, names).await?);
    remarks.extend(times(client, names).await?);
    Ok(remarks)
}

/// K20: where a topic has, or would be made with, another number of partitions than the source.
async fn partitions(client: &Client, channel: &Channel, names: &Names) -> Result<Option<String>> {
    let mut topics = vec![names.source.clone(), names.return_to.clone()];
    topics.extend(names.tiers.iter().cloned());
    topics.push(names.dead_letter.clone());
    topics.dedup();
    let asked = topics.clone();
    let described =
        client.admin("describe the topics", move |handle| handle.describe_topics(&asked, PATIENCE)).await?;
    let there = |topic: &str| {
        let one = described.iter().find(|(name, _)| name == topic)?;
        one.1.as_ref().ok().map(|described| described.partitions)
    };
    let Some(source) = there(&names.source) else { return Ok(None) };
    let wished = provision::partitions(channel).unwrap_or(source);
    let others: Vec<String> = topics[1..]
        .iter()
        .filter(|topic| **topic != names.source)
        .map(|topic| (topic, there(topic).unwrap_or(wished)))
        .filter(|(_, count)| *count != source)
        .map(|(topic, count)| format!("{topic} {count}"))
        .collect();
    let last = others.len().saturating_sub(1);
    Ok((!others.is_empty()).then(|| {
        let list = match last {
            0 => others[0].clone(),
            _ => format!("{} and {}", others[..last].join(", "), others[last]),
        };
        format!(
            "{} has {source} partitions, {list}: a partition's number means something else there, so whoever copies a \
             message must not take it over; redrive goes by key",
            names.source
        )
    }))
}

/// K13: producers' times may be older than the letter, and retention counts from them.
async fn times(client: &Client, names: &Names) -> Result<Option<String>> {
    let topic = match Topic::read(client, &names.dead_letter).await {
        Ok(topic) => topic,
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(retention) = topic.retention.filter(|_| !topic.append_time) else { return Ok(None) };
    let extents = topic.extents(client).await?;
    let asked = client.clone();
    let oldest = blocking(move || spot::oldest(&asked, &topic, &extents, &Marks::default())).await?;
    let Some(oldest) = oldest else { return Ok(None) };
    let now = client.clock.now();
    let (name, kept, expires) = (&names.dead_letter, rough(retention), oldest.plus(retention));
    let way = "message.timestamp.type=LogAppendTime on it, or a longer retention, keeps letters that long after they died";
    Ok(Some(match expires <= now {
        true => format!(
            "the oldest letter of {name} is {} old by its producer's time and is kept for {kept}: it can go at any \
             moment; {way}",
            rough(now.since(oldest))
        ),
        false => format!(
            "times in {name} are its producers', and retention counts from them: its oldest letter goes in {}, not \
             {kept} after it died; {way}",
            rough(expires.since(now))
        ),
    }))
}
