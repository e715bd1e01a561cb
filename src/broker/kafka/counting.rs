//! How far groups are, asked from outside: what waits in the tiers of a relay, and who reads a topic with which lag.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::Client as RdClient;
use rdkafka::consumer::Consumer;
use rdkafka::{Offset, TopicPartitionList};

use super::browse::{Extent, Reading, Step};
use super::client::{Client, Heard, PATIENCE};
use super::ears::Partition;
use super::unjoined::Unjoined;
use crate::broker::Result;

/// How long a look for one partition's next record may take.
const LOOK: Duration = Duration::from_secs(3);

/// Counts what a relay's group has not carried yet.
pub(super) struct Counting {
    client: Client,
    topics: Vec<String>,
    consumer: Unjoined,
    /// Partitions that were read behind the group's offset, and the end up to which nothing but markers was there.
    empty: Mutex<BTreeMap<Partition, i64>>,
}

/// What was counted, and looked for beside it.
pub(super) struct Counted {
    /// Of each topic, how many records.
    pub(super) waiting: Vec<u64>,
    /// When the looking began.
    pub(super) at: Instant,
    /// Of each partition that was asked about, the first record that the group has not carried.
    pub(super) found: Vec<(Partition, Option<i64>)>,
}

/// From where the group has not carried, and the end.
type Left = Vec<(i64, i64)>;

impl Counting {
    /// Of the group of `client`, without being one of it. Offsets whose transaction has just been committed count: to
    /// those who ask for settled ones alone the broker says "not yet", and the client asks again a while later.
    pub(super) fn new(client: &Client, topics: Vec<String>) -> Result<Self> {
        let mut config = client.config();
        config.set("enable.auto.commit", "false").set("isolation.level", "read_uncommitted");
        let consumer = Unjoined::of(&config, client.heard.clone())
            .map_err(|error| client.error("set up a consumer", &error))?;
        Ok(Self { client: client.clone(), topics, consumer, empty: Mutex::default() })
    }

    /// Of each topic, how many records. Blocks.
    pub(super) fn waiting(&self) -> Result<Vec<u64>> {
        Ok(self.count(&[])?.waiting)
    }

    /// The same, and of `quiet` partitions what lies there. Blocks.
    pub(super) fn count(&self, quiet: &[Partition]) -> Result<Counted> {
        let error = |error| self.client.error("count the tiers", &error);
        let (mut waiting, mut found, at) = (Vec::new(), Vec::new(), Instant::now());
        for topic in &self.topics {
            let left = self.left_in(topic).map_err(error)?;
            waiting.push(left.iter().map(|(from, end)| u64::try_from(end - from).unwrap_or(0)).sum());
            for partition in quiet.iter().filter(|partition| partition.0 == *topic) {
                let Some(left) = usize::try_from(partition.1).ok().and_then(|at| left.get(at)) else {
                    continue;
                };
                // A look that fails proves nothing.
                let first = self.first(partition, *left).unwrap_or_else(|error| {
                    tracing::debug!(target: "kafka", "look into {partition:?}: {error}");
                    None
                });
                found.push((partition.clone(), first));
            }
        }
        Ok(Counted { waiting, at, found })
    }

    /// Is there nothing in these partitions that the group has not carried? Blocks.
    pub(super) fn is_nothing_left(&self, partitions: &[Partition]) -> Result<bool> {
        for topic in &self.topics {
            let left = self.left_in(topic).map_err(|error| self.client.error("count the tiers", &error))?;
            for partition in partitions.iter().filter(|partition| partition.0 == *topic) {
                let left = usize::try_from(partition.1).ok().and_then(|at| left.get(at));
                if let Some(left) = left
                    && self.first(partition, *left)?.is_some()
                {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The first record of a partition that is left, as a reader sees it that has nothing to do with the group's.
    fn first(&self, partition: &Partition, (from, end): (i64, i64)) -> Result<Option<i64>> {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        if from >= end || empty.get(partition) == Some(&end) {
            return Ok(None);
        }
        let extent = Extent { partition: partition.1, low: from, end };
        let mut reading = Reading::begin(&self.client, &partition.0, &[extent], "read_committed")?;
        let until = Instant::now() + LOOK;
        while Instant::now() < until {
            match reading.step(Duration::from_millis(50))? {
                Step::Record(record) => return Ok(Some(record.offset())),
                // Markers, aborted records or a transaction that is open.
                Step::End => {
                    empty.insert(partition.clone(), end);
                    return Ok(None);
                }
                Step::Nothing => {}
            }
        }
        Err(self.client.silence(&format!("look into {}", partition.0)))
    }

    fn left_in(&self, topic: &str) -> rdkafka::error::KafkaResult<Left> {
        let metadata = self.consumer.fetch_metadata(Some(topic), PATIENCE)?;
        let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        let partitions = i32::try_from(partitions).unwrap_or(0);
        let list = |at: Offset| -> rdkafka::error::KafkaResult<TopicPartitionList> {
            let mut list = TopicPartitionList::new();
            for partition in 0..partitions {
                list.add_partition_offset(topic, partition, at)?;
            }
            Ok(list)
        };
        let all = |at| self.consumer.offsets_for_times(list(at)?, PATIENCE);
        let committed = self.consumer.committed_offsets(list(Offset::Invalid)?, PATIENCE)?;
        let (lows, ends) = (all(Offset::Beginning)?, all(Offset::End)?);
        let at = |list: &TopicPartitionList, partition| {
            let offset = list.find_partition(topic, partition).and_then(|one| one.offset().to_raw());
            offset.filter(|offset| *offset >= 0)
        };
        let left = |partition| {
            let low = at(&lows, partition).unwrap_or(0);
            let from = at(&committed, partition).unwrap_or(low).max(low);
            (from, at(&ends, partition).unwrap_or(from))
        };
        Ok((0..partitions).map(left).collect())
    }
}

/// Readers of a topic by their committed offsets, asked from outside: groups of both protocols. Share groups do
/// not tell how far they are.
pub(super) async fn readers(
    client: &Client,
    topic: &str,
    partitions: i32,
) -> Result<Vec<crate::broker::Reader>> {
    let groups = client.admin("list the consumer groups", |handle| handle.list_groups(PATIENCE)).await?;
    let mut readers = Vec::new();
    for group in groups {
        if group.state == "Dead" {
            continue;
        }
        let (topic, name, config) = (topic.to_owned(), group.group.clone(), client.config());
        let heard = client.heard.clone();
        let lag = tokio::task::spawn_blocking(move || lag(config, heard, &topic, &name, partitions)).await;
        if let Ok(Some(lag)) = lag {
            readers.push(crate::broker::Reader { name: group.group, lag: Some(lag) });
        }
    }
    readers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(readers)
}

/// Lag of one group on a topic; `None` if it has committed nothing there.
fn lag(
    mut config: rdkafka::config::ClientConfig,
    heard: Heard,
    topic: &str,
    group: &str,
    partitions: i32,
) -> Option<u64> {
    config.set("group.id", group).set("enable.auto.commit", "false").set("isolation.level", "read_committed");
    let consumer = Unjoined::of(&config, heard).ok()?;
    let _client: &RdClient<Heard> = consumer.client();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition(topic, partition);
    }
    let committed = consumer.committed_offsets(list, Duration::from_secs(5)).ok()?;
    let read: Vec<_> = committed
        .elements()
        .iter()
        .filter_map(|one| Some((one.partition(), one.offset().to_raw()?)))
        .filter(|(_, offset)| *offset >= 0)
        .collect();
    if read.is_empty() {
        return None;
    }
    let mut lag = 0u64;
    for partition in 0..partitions {
        let (low, end) = consumer.fetch_watermarks(topic, partition, Duration::from_secs(5)).ok()?;
        let from = read.iter().find(|(one, _)| *one == partition).map_or(low, |(_, offset)| *offset);
        lag += u64::try_from(end - from).unwrap_or(0);
    }
    Some(lag)
}
