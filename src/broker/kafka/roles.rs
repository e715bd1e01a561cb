//! The four roles of an opened broker, each by its own file.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::browse::{self, Look, Topic};
use super::client::Client;
use super::kind::KafkaKind;
use super::{marks, provision, relocate, serve};
use crate::broker::{
    Broker, Browse, Carrier, Count, Depth, Depths, Kind, Mover, Names, OpenContext, Opening, Pages,
    Provision, Relocate, Result, Serve, Task, Want,
};
use crate::letter::{LetterId, Place, RawLetter};
use crate::plan::{Change, Resource, Role};
use crate::topology::{BrokerDecl, Channel};

/// An opened broker.
struct Kafka {
    client: Client,
}

/// Opens it: asks once whether a broker is there.
pub(super) fn open<'a>(broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
    Box::pin(async move {
        Ok(Box::new(Kafka { client: Client::open(broker, context).await? }) as Box<dyn Broker>)
    })
}

fn names(channel: &Channel) -> Names {
    KafkaKind.names(channel)
}

#[async_trait]
impl Provision for Kafka {
    fn desired(&self, channels: &[&Channel]) -> Vec<Resource> {
        let none = provision::SourceFacts::default();
        channels.iter().flat_map(|channel| provision::desired(channel, &names(channel), none)).collect()
    }

    async fn observe(&self, channels: &[&Channel]) -> Result<Vec<Resource>> {
        let mut seen = Vec::new();
        for channel in channels {
            let names = names(channel);
            let wishes = provision::desired(channel, &names, provision::SourceFacts::default());
            seen.extend(provision::observe(&self.client, &wishes).await?);
            seen.extend(provision::undeclared(&self.client, channel, &names).await?);
        }
        Ok(seen)
    }

    async fn judge(&self, change: Change) -> Result<Change> {
        let lost = match &change {
            Change::Update { resource, fields } => self.lost(resource, fields).await?,
            _ => None,
        };
        Ok(provision::judge(change, lost))
    }

    async fn make(&self, change: &Change) -> Result<()> {
        provision::make(&self.client, change).await
    }
}

impl Kafka {
    /// How many records are older than a new retention, and how many there are.
    async fn lost(
        &self,
        resource: &Resource,
        fields: &[crate::plan::FieldChange],
    ) -> Result<Option<(u64, u64)>> {
        let Some(field) = fields.iter().find(|field| field.name == "retention.ms") else { return Ok(None) };
        let Some(kept) = field.to.as_deref().and_then(|text| text.parse::<u64>().ok()) else {
            return Ok(None);
        };
        let topic = Topic::read(&self.client, &resource.name).await?;
        let extents = topic.extents(&self.client).await?;
        let since = self.client.clock.now().minus(Duration::from_millis(kept)).millis();
        let (name, asked) = (resource.name.clone(), extents.clone());
        let younger = self
            .client
            .ask(&format!("read the ages in {}", resource.name), move |consumer| {
                use rdkafka::consumer::Consumer;
                let mut list = rdkafka::TopicPartitionList::new();
                for extent in &asked {
                    list.add_partition_offset(&name, extent.partition, rdkafka::Offset::Offset(since))?;
                }
                consumer.offsets_for_times(list, super::client::PATIENCE)
            })
            .await?;
        let (mut older, mut all) = (0u64, 0u64);
        for extent in extents {
            let first = younger
                .find_partition(&resource.name, extent.partition)
                .and_then(|one| one.offset().to_raw());
            let first = first.filter(|offset| *offset >= 0).unwrap_or(extent.end);
            older += u64::try_from(first.min(extent.end) - extent.low).unwrap_or(0);
            all += u64::try_from(extent.end - extent.low).unwrap_or(0);
        }
        Ok(Some((older, all)))
    }

    async fn marks(&self, channel: &Channel, topic_id: String) -> Result<marks::Marks> {
        let client = self.client.clone();
        let topic = provision::marks_of(&names(channel));
        let read = tokio::task::spawn_blocking(move || marks::read(&client, &topic, &topic_id, None, false));
        read.await.map_err(|error| {
            crate::broker::BrokerError::new(
                crate::broker::ErrorKind::Other,
                "read the marks",
                error.to_string(),
            )
        })?
    }

    async fn depth(&self, name: &str) -> Result<(Depth, i32)> {
        let absent = Depth {
            queue: name.to_owned(),
            count: Count::AtMost(0),
            due: None,
            in_flight: None,
            oldest: None,
            oldest_expires: None,
            exists: false,
        };
        let topic = match Topic::read(&self.client, name).await {
            Ok(topic) => topic,
            Err(error) if error.kind == crate::broker::ErrorKind::NotFound => return Ok((absent, 0)),
            Err(error) => return Err(error),
        };
        let extents = topic.extents(&self.client).await?;
        let most: i64 = extents.iter().map(|extent| (extent.end - extent.low).max(0)).sum();
        let count = Count::AtMost(u64::try_from(most).unwrap_or(0));
        Ok((Depth { count, exists: true, ..absent }, topic.partitions))
    }
}

#[async_trait]
impl Browse for Kafka {
    async fn snapshot(&self, channel: &Channel, want: Want) -> Result<Box<dyn Pages>> {
        let name = names(channel).dead_letter;
        let topic = Topic::read(&self.client, &name).await?;
        let marks = Arc::new(self.marks(channel, topic.id).await?);
        let moved = Arc::new(move |place: Place| marks.has(place).then(|| "an earlier run".to_owned()));
        Ok(Box::new(Look::open(&self.client, &name, want, moved).await?))
    }

    async fn find(&self, channel: &Channel, prefix: &LetterId) -> Result<Option<Vec<RawLetter>>> {
        let Some((partition, Some(offset))) = browse::parse_id(prefix.as_str()) else { return Ok(None) };
        let name = names(channel).dead_letter;
        let topic = Topic::read(&self.client, &name).await?;
        let extents = topic.extents(&self.client).await?;
        let Some(extent) = extents.iter().find(|extent| extent.partition == partition).copied() else {
            return Ok(Some(Vec::new()));
        };
        if offset < extent.low || offset >= extent.end {
            return Ok(Some(Vec::new()));
        }
        let client = self.client.clone();
        let found = tokio::task::spawn_blocking(move || browse::one(&client, &topic, partition, offset));
        let found = found.await.map_err(|error| {
            crate::broker::BrokerError::new(
                crate::broker::ErrorKind::Other,
                "read a letter",
                error.to_string(),
            )
        })??;
        Ok(Some(found.into_iter().collect()))
    }

    async fn depths(&self, channel: &Channel) -> Result<Depths> {
        let names = names(channel);
        let mut tiers = Vec::new();
        for tier in &names.tiers {
            tiers.push(self.depth(tier).await?.0);
        }
        let (source, _) = self.depth(&names.source).await?;
        let (target, partitions) = self.depth(&names.return_to).await?;
        let readers = match target.exists {
            true => serve::readers(&self.client, &names.return_to, partitions).await?,
            false => Vec::new(),
        };
        let (mut dead_letter, _) = self.depth(&names.dead_letter).await?;
        let mut notes = Vec::new();
        if dead_letter.exists {
            let topic = Topic::read(&self.client, &names.dead_letter).await?;
            let moved = self.marks(channel, topic.id).await?.len();
            if moved > 0 {
                let left = dead_letter.count.number().saturating_sub(moved);
                dead_letter.count = Count::AtMost(left);
                notes.push(format!(
                    "{moved} letters were moved before and stay in {} until retention",
                    names.dead_letter
                ));
            }
        }
        Ok(Depths { source, readers, tiers, dead_letter, notes })
    }
}

#[async_trait]
impl Relocate for Kafka {
    async fn begin(&self, channel: &Channel, task: &Task) -> Result<Box<dyn Mover>> {
        let names = names(channel);
        let marks = provision::marks_of(&names);
        // A channel that was provisioned by other means has no marks topic yet.
        let wishes = provision::desired(channel, &names, provision::SourceFacts::default());
        if let Some(wish) = wishes.into_iter().find(|wish| wish.role == Role::Marks)
            && provision::observe(&self.client, std::slice::from_ref(&wish)).await?.is_empty()
        {
            provision::make(&self.client, &Change::Create { resource: wish }).await?;
        }
        Ok(Box::new(relocate::Session::begin(&self.client, &names.dead_letter, &marks, task).await?))
    }
}

#[async_trait]
impl Serve for Kafka {
    async fn serve(&self, channels: &[&Channel], owner: &str) -> Result<Box<dyn Carrier>> {
        let mut tiers = Vec::new();
        let mut group = Vec::new();
        for channel in channels {
            let names = names(channel);
            group.push(channel.name.value.clone());
            for (tier, topic) in channel.tiers.iter().zip(&names.tiers) {
                let known = Topic::read(&self.client, topic).await?;
                tiers.push(serve::Tier {
                    topic: topic.clone(),
                    delay: tier.delay.value,
                    target: names.return_to.clone(),
                    retention: known.retention,
                });
            }
        }
        let group = format!("redrive-relay-{}", group.join("-"));
        Ok(Box::new(serve::Tiers::open(&self.client, tiers, &group, owner).await?))
    }
}
