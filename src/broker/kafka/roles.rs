//! The four roles of an opened broker, each by its own file.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::browse::{self, Extent, Topic};
use super::client::{Client, PATIENCE};
use super::kind::KafkaKind;
use super::look::{self, Look};
use super::pointer::Pointers;
use super::{counting, marks, murmur, provision, relocate, remarks, serve, spot};
use crate::broker::{
    Broker, BrokerError, Browse, Carrier, Count, Depth, Depths, ErrorKind, Kind, Later, Mover, Names,
    OpenContext, Opening, Pages, Placing, Provision, Relocate, Result, Serve, Task, Want, letters,
};
use crate::letter::{LetterId, Place, RawLetter};
use crate::plan::{Change, Resource, Role};
use crate::topology::{BrokerDecl, Channel};

/// An opened broker.
struct Kafka {
    client: Client,
    /// What `observe` saw, which `desired` and `judge` need: both are asked without a channel's topics at hand.
    known: Mutex<BTreeMap<String, provision::Known>>,
}

/// Opens it: asks once whether a broker is there.
pub(super) fn open<'a>(broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
    Box::pin(async move {
        let client = Client::open(broker, context).await?;
        Ok(Box::new(Kafka { client, known: Mutex::default() }) as Box<dyn Broker>)
    })
}

/// A blocking step on a thread for such.
pub(super) async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let lost = |error: tokio::task::JoinError| {
        BrokerError::new(ErrorKind::Other, "ask the broker", error.to_string())
    };
    tokio::task::spawn_blocking(step).await.map_err(lost)?
}

fn names(channel: &Channel) -> Names {
    KafkaKind.names(channel)
}

#[async_trait]
impl Provision for Kafka {
    fn desired(&self, channels: &[&Channel]) -> Vec<Resource> {
        channels
            .iter()
            .flat_map(|channel| provision::desired(channel, &names(channel), &self.known(channel)))
            .collect()
    }

    async fn observe(&self, channels: &[&Channel]) -> Result<Vec<Resource>> {
        let mut seen = Vec::new();
        for channel in channels {
            let names = names(channel);
            let known = provision::known(&self.client, channel, &names).await?;
            let wishes = provision::desired(channel, &names, &known);
            let key = channel.name.value.clone();
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, known);
            seen.extend(provision::observe(&self.client, &wishes).await?);
            seen.extend(provision::undeclared(&self.client, channel, &names).await?);
        }
        Ok(seen)
    }

    async fn judge(&self, change: Change) -> Result<Change> {
        let Change::Update { resource, fields } = &change else { return Ok(change) };
        let lost = self.lost(resource, fields).await?;
        let ordered = match &resource.channel {
            Some(channel) => self
                .known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(channel)
                .is_none_or(|known| known.ordered),
            None => true,
        };
        Ok(provision::judge(change, lost, ordered))
    }

    async fn remarks(&self, channels: &[&Channel], _observed: &[Resource]) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for channel in channels {
            all.extend(remarks::remarks(&self.client, channel, &names(channel)).await?);
        }
        Ok(all)
    }

    async fn make(&self, change: &Change) -> Result<()> {
        provision::make(&self.client, change).await
    }
}

impl Kafka {
    fn known(&self, channel: &Channel) -> provision::Known {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&channel.name.value).cloned().unwrap_or_default()
    }

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
        let since = self.client.clock.now().minus(Duration::from_millis(kept));
        let client = self.client.clone();
        blocking(move || spot::older(&client, &topic, &extents, since)).await.map(Some)
    }

    async fn marks(&self, channel: &Channel, topic_id: String) -> Result<marks::Marks> {
        let client = self.client.clone();
        let topic = provision::marks_of(&names(channel));
        blocking(move || marks::read(&client, &topic, &topic_id, None, false)).await
    }

    async fn look(&self, channel: &Channel, want: (Want, Option<u64>)) -> Result<Box<dyn Pages>> {
        let topic = Topic::read(&self.client, &names(channel).dead_letter).await?;
        let marks = self.marks(channel, topic.id.clone()).await?;
        let pointers = Pointers::new(&self.client, &names(channel));
        Ok(Box::new(Look::open(&self.client, topic, want, marks, pointers).await?))
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
            Err(error) if error.kind == ErrorKind::NotFound => return Ok((absent, 0)),
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
        self.look(channel, (want, None)).await
    }

    async fn newest(&self, channel: &Channel, want: Want, most: u64) -> Result<Option<Box<dyn Pages>>> {
        self.look(channel, (want, Some(most))).await.map(Some)
    }

    async fn placing(&self, channel: &Channel) -> Result<Option<Placing>> {
        let names = names(channel);
        if provision::by_origin(channel) {
            return Ok(None);
        }
        let asked = vec![names.source.clone(), names.return_to.clone()];
        let described = self
            .client
            .admin("describe the topics", move |handle| handle.describe_topics(&asked, PATIENCE))
            .await?;
        let partitions = |topic: &str| {
            let one = described.iter().find(|(name, _)| name == topic)?;
            one.1.as_ref().ok().map(|described| described.partitions)
        };
        // Without the right to know, or with other numbers, nothing can be compared.
        let same = partitions(&names.source).filter(|count| partitions(&names.return_to) == Some(*count));
        Ok(same.map(|partitions| Placing {
            queue: names.source.clone(),
            partitions,
            place: murmur::partition,
            way_round: "kafka: {place_by: origin}",
        }))
    }

    async fn later(&self, channel: &Channel, from: &[Place], want: Want, most: u64) -> Result<Later> {
        let topic = Topic::read(&self.client, &names(channel).source).await?;
        let behind = |extent: Extent| {
            let first = from.iter().find(|place| place.partition == extent.partition)?;
            let extent = Extent { low: extent.low.max(first.offset + 1), ..extent };
            (extent.low < extent.end).then_some(extent)
        };
        let extents: Vec<Extent> =
            topic.extents(&self.client).await?.into_iter().filter_map(behind).collect();
        let messages = extents.iter().map(|extent| u64::try_from(extent.end - extent.low).unwrap_or(0)).sum();
        if messages > most {
            return Ok(Later::TooMany(messages));
        }
        Ok(Later::Messages(Box::new(Look::of(&self.client, topic, extents, want, &names(channel))?)))
    }

    async fn find(&self, channel: &Channel, prefix: &LetterId) -> Result<Option<Vec<RawLetter>>> {
        let (partition, offset) = match browse::parse_id(prefix.as_str()) {
            Some((partition, Some(offset))) => (partition, offset),
            Some((_, None)) => return Ok(None),
            // The beginning of an id, or the id of no letter of Kafka's.
            None if prefix.as_str().trim_start_matches('p').bytes().all(|b| b.is_ascii_digit()) => {
                return Ok(None);
            }
            None => return Ok(Some(Vec::new())),
        };
        let topic = Topic::read(&self.client, &names(channel).dead_letter).await?;
        let extents = topic.extents(&self.client).await?;
        let within = |extent: &&browse::Extent| {
            extent.partition == partition && offset >= extent.low && offset < extent.end
        };
        if extents.iter().find(within).is_none() {
            // Not there itself; it may be the beginning of others' ids.
            return Ok(None);
        }
        let marks = self.marks(channel, topic.id.clone()).await?;
        let client = self.client.clone();
        let mut pointers = Pointers::new(&self.client, &names(channel));
        let found = blocking(move || {
            let mut found = spot::one(&client, &topic, partition, offset)?;
            if let Some(letter) = &mut found {
                pointers.follow(letter, Want { bodies: true, moved: true })?;
            }
            Ok(found)
        })
        .await?;
        Ok(found.map(|mut letter| {
            let moved = marks.has(Place { partition, offset });
            letter.facts.moved_by = moved.then(|| look::MOVED.to_owned());
            vec![letter]
        }))
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
            true => counting::readers(&self.client, &names.return_to, partitions).await?,
            false => Vec::new(),
        };
        let (mut dead_letter, _) = self.depth(&names.dead_letter).await?;
        let mut notes = Vec::new();
        if dead_letter.exists {
            let topic = Topic::read(&self.client, &names.dead_letter).await?;
            let extents = topic.extents(&self.client).await?;
            let marks = self.marks(channel, topic.id.clone()).await?;
            let moved = marks.within(&extents);
            if moved > 0 {
                let left = dead_letter.count.number().saturating_sub(moved);
                dead_letter.count = Count::AtMost(left);
                notes.push(format!(
                    "{} in {} until retention",
                    letters(moved, "was moved before and stays", "were moved before and stay"),
                    names.dead_letter
                ));
            }
            let (client, retention, append_time) = (self.client.clone(), topic.retention, topic.append_time);
            dead_letter.oldest = blocking(move || spot::oldest(&client, &topic, &extents, &marks)).await?;
            dead_letter.oldest_expires = dead_letter.oldest.and_then(|at| Some(at.plus(retention?)));
            // K13: retention counts from a time that is older than the letter.
            if !append_time && dead_letter.oldest_expires.is_some_and(|at| at <= self.client.clock.now()) {
                notes.push(format!(
                    "the oldest letter of {} is past its retention: producers set the times there, and retention \
                     counts from them; message.timestamp.type=LogAppendTime or a longer retention keeps such letters",
                    names.dead_letter
                ));
            }
        }
        Ok(Depths { source, readers, tiers, dead_letter, notes })
    }
}

#[async_trait]
impl Relocate for Kafka {
    async fn target(&self, channel: &Channel) -> Result<()> {
        Topic::read(&self.client, &names(channel).return_to).await.map(drop)
    }

    async fn begin(&self, channel: &Channel, task: &Task) -> Result<Box<dyn Mover>> {
        let names = names(channel);
        let marks = provision::marks_of(&names);
        // A channel that was provisioned by other means has no marks topic yet.
        let wishes = provision::desired(channel, &names, &provision::Known::default());
        if let Some(wish) = wishes.into_iter().find(|wish| wish.role == Role::Marks)
            && provision::observe(&self.client, std::slice::from_ref(&wish)).await?.is_empty()
        {
            provision::make(&self.client, &Change::Create { resource: wish }).await?;
        }
        let how =
            relocate::How { lanes: provision::lanes(channel), by_origin: provision::by_origin(channel) };
        Ok(Box::new(relocate::Session::begin(&self.client, &names, &marks, task, how).await?))
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
            let partitions = Topic::read(&self.client, &names.return_to).await?.partitions;
            for (tier, topic) in channel.tiers.iter().zip(&names.tiers) {
                let known = Topic::read(&self.client, topic).await?;
                tiers.push(serve::Tier {
                    topic: topic.clone(),
                    delay: tier.delay.value,
                    target: names.return_to.as_str().into(),
                    partitions,
                    retention: known.retention,
                    append_time: known.append_time,
                });
            }
        }
        let group = format!("redrive-relay-{}", group.join("-"));
        Ok(Box::new(serve::Tiers::open(&self.client, tiers, &group, owner).await?))
    }
}
