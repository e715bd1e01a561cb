//! Opening the session of a run: the lock, the fence behind which nothing of a predecessor can be committed any more,
//! and then the marks, in this order (protocol §4.1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::claim::Letters;
use super::{Inner, plain, write_all};
use crate::broker::kafka::browse::{Extent, Topic};
use crate::broker::kafka::client::{Client, PATIENCE};
use crate::broker::kafka::marks::{self, Began, Lock};
use crate::broker::kafka::pointer::Pointers;
use crate::broker::kafka::producer::{DELIVERY, Lane};
use crate::broker::{BrokerError, ErrorKind, Names, Result, Task};

/// Facts of the topic that copies go to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) name: Arc<str>,
    pub(super) max_bytes: u64,
    pub(super) compacted: bool,
    /// Partitions of the dead-letter topic: a number means the same in both if they are as many.
    pub(super) same_partitions: bool,
    pub(super) partitions: i32,
    /// Topics whose partitions mean the same, where copies go by their origin.
    pub(super) origins: Vec<String>,
    pub(super) append_time: bool,
    pub(super) retention: Option<Duration>,
    /// How far back a record's time may lie.
    pub(super) before_max: Option<Duration>,
}

pub(super) async fn target(
    client: &Client,
    names: &Names,
    name: &str,
    dead_letters: &Topic,
    by_origin: bool,
) -> Result<(Target, Topic)> {
    let topic = Topic::read(client, name).await?;
    let asked = name.to_owned();
    let settings = client
        .admin(&format!("read the settings of {name}"), move |handle| {
            handle.describe_configs(&asked, PATIENCE)
        })
        .await?;
    let value =
        |key: &str| settings.iter().find(|entry| entry.name == key).and_then(|entry| entry.value.clone());
    let mut origins = Vec::new();
    if by_origin {
        origins.push(name.to_owned());
        if names.source != name && Topic::read(client, &names.source).await?.partitions == topic.partitions {
            origins.push(names.source.clone());
        }
    }
    let target = Target {
        name: name.into(),
        max_bytes: value("max.message.bytes").and_then(|text| text.parse().ok()).unwrap_or(1_048_588),
        compacted: value("cleanup.policy").is_some_and(|text| text.contains("compact")),
        same_partitions: topic.partitions == dead_letters.partitions,
        partitions: topic.partitions,
        origins,
        append_time: topic.append_time,
        retention: topic.retention,
        before_max: value("message.timestamp.before.max.ms")
            .and_then(|text| text.parse::<u64>().ok())
            .map(Duration::from_millis),
    };
    Ok((target, topic))
}

/// The transactional id of a lane: of the dead-letter topic, not of the process (t06).
fn lane_id(topic_id: &str, lane: u32) -> String {
    format!("redrive.{topic_id}.{lane}")
}

/// What a session begins with.
pub(super) struct Begin {
    pub(super) client: Client,
    pub(super) source: Topic,
    pub(super) target: Target,
    pub(super) marks_topic: Arc<str>,
    pub(super) task: Task,
    pub(super) extents: Vec<Extent>,
    /// Of the target.
    pub(super) ends: Vec<Extent>,
    pub(super) pointers: Pointers,
    pub(super) names: Names,
    pub(super) lanes: u32,
}

/// Inits every lane that a run of this topic has had, or this one is to have (t12: one that nobody inits would go on
/// committing), and keeps its own. Without the right to transactions it is a plain one.
fn lanes(begin: &Begin, had: u32) -> Result<(Lane, Vec<Lane>)> {
    let (id, max_bytes) = (&begin.source.id, begin.target.max_bytes);
    let first = match Lane::open(&begin.client, &lane_id(id, 0), max_bytes) {
        Err(error) if error.code.as_deref() == Some("TransactionalIdAuthorizationFailed") => {
            return Ok((Lane::plain(&begin.client, max_bytes)?, Vec::new()));
        }
        other => other?,
    };
    let mut more = Vec::new();
    for lane in 1..begin.lanes.max(had) {
        let opened = Lane::open(&begin.client, &lane_id(id, lane), max_bytes)?;
        if lane < begin.lanes {
            more.push(opened);
        }
    }
    Ok((first, more))
}

/// Lock, fence, then read the marks to the high watermark (protocol §4.1). Blocks.
pub(super) fn open(begin: Begin) -> Result<Inner> {
    let (client, source, task, topic) = (&begin.client, &begin.source, &begin.task, &begin.marks_topic);
    let action = format!("lock {}", source.name);
    let before = marks::read(client, topic, &source.id, None, false)?;
    let now = client.clock.now();
    let alive = before.lock.as_ref().filter(|lock| lock.alive(now) && lock.owner != task.owner);
    if let Some(lock) = alive.filter(|_| !task.take_over) {
        let (seen, left) =
            (crate::clock::rough(now.since(lock.at)), crate::clock::rough(lock.until().since(now)));
        let message = format!(
            "{} is held by run {} of {}, last seen {seen} ago; a dead holder loses it in {left}",
            source.name, lock.run, lock.who
        );
        return Err(BrokerError::new(ErrorKind::Locked, action, message));
    }
    let had = before.lock.as_ref().map_or(1, |lock| lock.lanes.max(1));
    let (lane, more_lanes) = lanes(&begin, had)?;
    let plain = lane.is_plain();
    if let Some(lock) = alive.filter(|_| plain) {
        let message = format!(
            "{} is held by run {} of {}, and without the right to transactions it cannot be fenced",
            source.name, lock.run, lock.who
        );
        return Err(BrokerError::new(ErrorKind::Locked, action, message));
    }
    let count = had.max(1 + u32::try_from(more_lanes.len()).unwrap_or(0));
    let mut lock = Lock::new(&task.run, &task.owner, &task.who, count, now, task.claim_for);
    lock.plain = plain;
    write_all(client, &lane, &[marks::lock(topic, &source.id, &lock)])?;
    if alive.is_some_and(|lock| lock.plain) {
        // It looks before each of its steps whether it holds the lock; what it has sent by then arrives or ends.
        std::thread::sleep(plain::WATCH + DELIVERY);
    }
    let mut marks = marks::read(client, topic, &source.id, Some(&task.run), true)?;
    if let Some(other) = marks.lock.as_ref().filter(|lock| lock.owner != task.owner) {
        let message = format!("{} is held by run {} of {}", source.name, other.run, other.who);
        return Err(BrokerError::new(ErrorKind::Locked, action, message));
    }
    if plain && marks.began.is_none() {
        let ends = begin.ends.iter().map(|extent| (extent.partition, extent.end)).collect();
        let began = Began::new(&task.run, &begin.target.name, ends, now);
        write_all(client, &lane, &[marks::began(topic, &source.id, &began)])?;
        marks.began = Some(began);
    }
    let letters = Letters::new(&begin.client, &begin.source, &begin.extents, begin.pointers);
    let seen = begin.extents.iter().map(|extent| Extent { low: extent.end, ..*extent }).collect();
    Ok(Inner {
        client: begin.client,
        source: begin.source,
        target: begin.target,
        marks_topic: begin.marks_topic,
        task: begin.task,
        lane,
        more_lanes,
        marks,
        lock,
        letters,
        names: begin.names,
        keeps_times: false,
        held: BTreeMap::new(),
        claims: 0,
        broken: false,
        lost: false,
        seen,
        refailed: 0,
        watch: plain::Watch::default(),
    })
}
