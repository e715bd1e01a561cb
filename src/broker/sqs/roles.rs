//! The four roles of an opened broker, each by its own file.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::client::Client;
use super::kind::SqsKind;
use super::{browse, provision, relocate, serve, task};
use crate::broker::{
    Broker, Browse, BulkMover, Carrier, Count, Depth, Depths, Kind, Mover, Names, OpenContext, Opening,
    Pages, PassesOn, Provision, Relocate, Result, Serve, Task, Want,
};
use crate::plan::{Change, Resource};
use crate::topology::{BrokerDecl, Channel};

/// An opened broker.
struct Sqs {
    client: Client,
    /// Retention of standard sources in seconds by their dead-letter queues, as observed.
    kept: Mutex<HashMap<String, (String, u64)>>,
}

/// Opens it. No call is made before one is needed.
pub(super) fn open<'a>(broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
    Box::pin(async move {
        let client = Client::open(broker, context).await?;
        Ok(Box::new(Sqs { client, kept: Mutex::default() }) as Box<dyn Broker>)
    })
}

/// A channel's names on SQS.
fn names(channel: &Channel) -> Names {
    SqsKind.names(channel)
}

#[async_trait]
impl Provision for Sqs {
    fn desired(&self, channels: &[&Channel]) -> Vec<Resource> {
        channels.iter().flat_map(|channel| self.wishes(channel)).collect()
    }

    async fn observe(&self, channels: &[&Channel]) -> Result<Vec<Resource>> {
        let mut seen = Vec::new();
        for channel in channels {
            let names = self::names(channel);
            for wish in self.wishes(channel) {
                match provision::observe(&self.client, &wish).await? {
                    Some(resource) => seen.push(resource),
                    None => provision::own_account(&self.client, &wish.name).await?,
                }
            }
            if let Some(attributes) = self.client.attributes(&names.source).await? {
                let source = browse::Queue::of(&names.source, String::new(), &attributes);
                let known = attributes.contains_key("MessageRetentionPeriod") && !source.fifo;
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                if known {
                    kept.insert(names.dead_letter.clone(), (source.name, source.retention.as_secs()));
                }
            }
            seen.extend(provision::undeclared(&self.client, channel, &names).await?);
        }
        Ok(seen)
    }

    async fn judge(&self, change: Change) -> Result<Change> {
        let depth = match &change {
            Change::Update { resource, .. } => {
                provision::observe(&self.client, resource).await?.and_then(|resource| resource.depth)
            }
            _ => None,
        };
        let change = provision::with_the_others(&self.client, change).await?;
        let change = provision::judge(change, depth);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match kept.get(&change.resource().name) {
            Some((source, seconds)) => provision::outlives(change, source, *seconds),
            None => change,
        })
    }

    async fn make(&self, change: &Change) -> Result<()> {
        provision::make(&self.client, change).await
    }
}

#[async_trait]
impl Browse for Sqs {
    async fn snapshot(&self, channel: &Channel, _want: Want) -> Result<Box<dyn Pages>> {
        let look = browse::Look::open(&self.client, &names(channel).dead_letter).await?;
        Ok(Box::new(look))
    }

    async fn depths(&self, channel: &Channel) -> Result<Depths> {
        let names = self::names(channel);
        let mut tiers = Vec::new();
        for tier in &names.tiers {
            tiers.push(self.depth(tier).await?);
        }
        Ok(Depths {
            source: self.depth(&names.source).await?,
            readers: Vec::new(),
            tiers,
            dead_letter: self.depth(&names.dead_letter).await?,
            notes: vec!["counts are estimates of SQS".to_owned()],
        })
    }

    fn whereabouts(&self) -> Option<String> {
        Some(self.client.whereabouts())
    }

    async fn cost_of_looking(&self, channel: &Channel) -> Result<Option<String>> {
        let queue = browse::Queue::read(&self.client, &names(channel).dead_letter).await?;
        Ok(Some(match queue.max_receives {
            // S24: the queue passes its letters on by itself.
            Some(most) => format!(
                "receive count +1 on each letter; {} moves a letter on after {most} receives",
                queue.name
            ),
            None => "receive count +1 on each letter".to_owned(),
        }))
    }

    async fn passes_on(&self, channel: &Channel) -> Result<Option<PassesOn>> {
        let queue = browse::Queue::read(&self.client, &names(channel).dead_letter).await?;
        let to = queue.passes_on_to.clone().unwrap_or_default();
        Ok(queue.max_receives.map(|after| PassesOn {
            queue: queue.name.clone(),
            identity: queue.identity(),
            after,
            to,
            letters: queue.visible,
        }))
    }
}

impl Sqs {
    fn wishes(&self, channel: &Channel) -> Vec<Resource> {
        let mut wishes = provision::desired(channel, &names(channel));
        if !self.client.sets_allow_policy {
            for wish in &mut wishes {
                wish.properties.retain(|property| property.name != provision::ALLOW);
            }
        }
        wishes
    }

    async fn depth(&self, name: &str) -> Result<Depth> {
        match self.client.attributes(name).await? {
            None => Ok(Depth {
                queue: name.to_owned(),
                count: Count::About(0),
                due: None,
                in_flight: None,
                oldest: None,
                oldest_expires: None,
                exists: false,
            }),
            Some(attributes) => Ok(browse::Queue::of(name, String::new(), &attributes).depth()),
        }
    }
}

#[async_trait]
impl Relocate for Sqs {
    async fn begin(&self, channel: &Channel, task: &Task) -> Result<Box<dyn Mover>> {
        let session = relocate::Session::begin(&self.client, &names(channel).dead_letter, task).await?;
        Ok(Box::new(session))
    }

    async fn target(&self, channel: &Channel) -> Result<()> {
        let names = names(channel);
        let dead_letters = browse::Queue::read(&self.client, &names.dead_letter).await?;
        let target = browse::Queue::read(&self.client, &names.return_to).await?;
        relocate::same_kind(&self.client, &dead_letters, &target)
    }

    async fn bulk_refusals(&self, channel: &Channel) -> Result<Vec<String>> {
        let names = names(channel);
        let queue = browse::Queue::read(&self.client, &names.dead_letter).await?;
        task::refusals(&self.client, &queue, &names.return_to).await
    }

    async fn bulk(&self, channel: &Channel, per_second: Option<u32>) -> Result<Box<dyn BulkMover>> {
        let names = names(channel);
        let task = task::start(&self.client, &names.dead_letter, &names.return_to, per_second).await?;
        Ok(Box::new(task))
    }
}

#[async_trait]
impl Serve for Sqs {
    async fn serve(&self, channels: &[&Channel], owner: &str) -> Result<Box<dyn Carrier>> {
        let mut tiers = Vec::new();
        for channel in channels {
            let names = self::names(channel);
            for (at, (tier, name)) in channel.tiers.iter().zip(&names.tiers).enumerate() {
                tiers.push(serve::Route {
                    tier: name.clone(),
                    number: at + 1,
                    delay: tier.delay.value,
                    to: names.return_to.clone(),
                });
            }
        }
        serve::open(&self.client, tiers, owner).await
    }
}
