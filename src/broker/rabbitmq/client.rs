//! An opened RabbitMQ broker: the server's version, one connection for counting and looking, and the four
//! roles.

use std::sync::Arc;

use async_trait::async_trait;

use super::connect::{self, Link, close_channel};
use super::feed::{self, Feed};
use super::kind;
use super::letters::Letters;
use super::lock;
use super::look::Look;
use super::management::Management;
use super::relocate::{self, Run, Start};
use super::rights;
use super::routes;
use super::settings::Settings;
use super::state::{QueueState, QueueType};
use super::stream;
use super::version::Version;
use crate::broker::{
    BrokerError, Browse, Carrier, Count, Depth, Depths, ErrorKind, Holding, Kind, Mover, OpenContext, Pages,
    Reader, Relocate, Result, Serve, Snapshot, Task, Want, letters,
};
use crate::clock::Clock;
use crate::topology::{BrokerDecl, Channel};

/// See the file's head.
pub(super) struct Client {
    pub settings: Settings,
    pub version: Version,
    pub link: Arc<Link>,
    pub management: Option<Management>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// Greets, logs in, and asks the management API whether it is there.
    pub async fn open(broker: &BrokerDecl, context: &OpenContext) -> Result<Self> {
        let settings = Settings::read(broker, &context.base)?;
        let version = connect::greet(&settings).await?;
        let link = Arc::new(Link::open(&settings, "redrive").await?);
        let management = Management::of(&settings)?;
        if let Some(management) = &management {
            management.check().await?;
        }
        Ok(Self { settings, version, link, management, clock: Arc::clone(&context.clock) })
    }

    /// A queue as the management API shows it, where that is given.
    pub async fn state(&self, queue: &str) -> Result<Option<QueueState>> {
        match &self.management {
            Some(management) => Ok(management.queue(queue).await?.as_ref().map(QueueState::read)),
            None => Ok(None),
        }
    }

    /// Type and delivery limit of a dead-letter queue: as seen, or as far as can be known without.
    async fn nature(
        &self,
        channel: &Channel,
        queue: &str,
    ) -> Result<(QueueType, Option<u32>, Option<QueueState>)> {
        let state = self.state(queue).await?;
        let (kind, limit) = match &state {
            Some(state) => (state.kind, state.delivery_limit(self.version)),
            None => {
                let declared = kind::queue_type(channel).map_or(QueueType::Quorum, QueueType::parse);
                // Only a stream is taken at its word: a limit that is not seen may be there.
                let kind = if declared == QueueType::Stream { declared } else { QueueType::Unknown };
                (kind, self.version.default_delivery_limit())
            }
        };
        Ok((kind, limit.filter(|_| !self.version.nack_is_free()), state))
    }

    /// The delivery limit of a dead-letter queue whose letters can be taken out.
    async fn limit_of_what_can_be_settled(&self, channel: &Channel, queue: &str) -> Result<Option<u32>> {
        match self.nature(channel, queue).await? {
            (QueueType::Stream, ..) => Err(BrokerError::new(
                ErrorKind::Unsupported,
                format!("run on {queue}"),
                "it is a stream, and nothing can be taken out of a stream",
            )
            .hint(
                "look at it with `redrive inspect`; for runs give the channel a quorum or classic dead-letter queue, \
                 docs/rabbitmq.md has how to move letters into one",
            )),
            (_, limit, _) => Ok(limit),
        }
    }

    /// One queue as counted. A channel of its own: a queue that is not there closes it.
    async fn depth(&self, queue: &str) -> Result<(Depth, u32, u64)> {
        let channel = self.link.channel().await?;
        let (exists, ready, consumers) = match feed::counts(&channel, queue).await {
            Ok((ready, consumers)) => (true, ready, consumers),
            Err(error) if error.kind == ErrorKind::NotFound => (false, 0, 0),
            Err(error) => return Err(error),
        };
        if channel.status().connected() {
            close_channel(&channel).await?;
        }
        let state = if exists { self.state(queue).await? } else { None };
        let depth = Depth {
            queue: queue.to_owned(),
            count: Count::Exact(ready),
            due: None,
            in_flight: state.as_ref().and_then(|state| state.unacked),
            oldest: None,
            oldest_expires: None,
            exists,
        };
        Ok((depth, consumers, state.map_or(0, |state| state.stuck)))
    }
}

#[async_trait]
impl Browse for Client {
    async fn snapshot(&self, channel: &Channel, want: Want) -> Result<Box<dyn Pages>> {
        let queue = kind::RabbitKind.names(channel).dead_letter;
        let (kind, limit, state) = self.nature(channel, &queue).await?;
        let identity = Look::identity(&self.settings.address.vhost, &queue);
        let taken_at = self.clock.now();
        if kind == QueueType::Stream {
            let look = stream::StreamLook::open(&self.link, &queue, identity, taken_at, want).await?;
            return Ok(Box::new(look));
        }
        let feed = Feed::open(&self.link, &queue, limit.is_some()).await?;
        let mut unseen = Vec::new();
        let in_flight = state.as_ref().and_then(|state| state.unacked).filter(|n| *n > 0);
        if let Some(n) = in_flight {
            unseen.push(format!("{} in flight elsewhere", letters(n, "", "")));
        }
        if let Some(n) = state.as_ref().map(|state| state.stuck).filter(|n| *n > 0) {
            unseen.push(format!("{} way out by dead-lettering", letters(n, "on its", "on their")));
        }
        let snapshot = Snapshot {
            queue: queue.clone(),
            place: identity.clone(),
            identity,
            taken_at,
            count: Count::Exact(feed.extent()),
            unseen: in_flight,
        };
        Ok(Box::new(Look {
            link: Arc::clone(&self.link),
            feed,
            letters: Letters::of(&queue),
            snapshot,
            want,
            version: self.version,
            kind,
            limit,
            unseen,
            state: super::look::Reading::default(),
            at_hand: super::look::AtHand::default(),
        }))
    }

    async fn depths(&self, channel: &Channel) -> Result<Depths> {
        let names = kind::RabbitKind.names(channel);
        let mut notes = Vec::new();
        let mut note = |queue: &str, stuck: u64| {
            if stuck > 0 {
                notes.push(format!(
                    "{stuck} messages of {queue} wait for their dead-letter target and are in no count; the \
                     server tries again every 3m"
                ));
            }
        };
        let (source, consumers, stuck) = self.depth(&names.source).await?;
        note(&names.source, stuck);
        let mut tiers = Vec::with_capacity(names.tiers.len());
        for name in &names.tiers {
            let (tier, _, stuck) = self.depth(name).await?;
            note(name, stuck);
            tiers.push(tier);
        }
        let (dead_letter, _, stuck) = self.depth(&names.dead_letter).await?;
        note(&names.dead_letter, stuck);
        let readers = if source.exists {
            let name = match consumers {
                0 => "no consumer".to_owned(),
                1 => "1 consumer".to_owned(),
                n => format!("{n} consumers"),
            };
            // What they have not read is what waits.
            vec![Reader { name, lag: None }]
        } else {
            Vec::new()
        };
        Ok(Depths { source, readers, tiers, dead_letter, notes })
    }

    async fn cost_of_looking(&self, channel: &Channel) -> Result<Option<String>> {
        let queue = kind::RabbitKind.names(channel).dead_letter;
        let (kind, limit, _) = self.nature(channel, &queue).await?;
        Ok(match (kind, limit) {
            (QueueType::Stream, _) => None,
            (QueueType::Classic, _) => {
                Some("letters are held while it lasts, put back in order, and marked redelivered".to_owned())
            }
            (_, Some(limit)) => Some(format!(
                "letters are held while it lasts and put back in order; each look counts once against a delivery \
                 limit of {limit}"
            )),
            (_, None) => Some(
                "letters are held while it lasts and put back in order; their delivery count grows by 1"
                    .to_owned(),
            ),
        })
    }
}

#[async_trait]
impl Relocate for Client {
    async fn begin(&self, channel: &Channel, task: &Task) -> Result<Box<dyn Mover>> {
        self.go_on(channel, task, &mut None).await
    }

    async fn go_on(
        &self,
        channel: &Channel,
        task: &Task,
        held: &mut Option<Box<dyn Holding>>,
    ) -> Result<Box<dyn Mover>> {
        let queue = kind::RabbitKind.names(channel).dead_letter;
        let limit = self.limit_of_what_can_be_settled(channel, &queue).await?;
        let start = Start {
            settings: &self.settings,
            version: self.version,
            management: self.management.as_ref(),
            task,
            queue: &queue,
            exchange: kind::exchange(channel),
            limit,
        };
        Ok(Box::new(Run::begin(start, held).await?))
    }

    async fn target(&self, channel: &Channel) -> Result<()> {
        let checking = self.link.channel().await?;
        let there = match kind::exchange(channel) {
            None => relocate::is_there(&checking, &kind::RabbitKind.names(channel).return_to).await,
            Some(exchange) => relocate::exists(&checking, exchange).await,
        };
        // A queue that is not there closes it.
        if checking.status().connected() {
            close_channel(&checking).await?;
        }
        there
    }

    async fn is_free(&self, channel: &Channel, take_over: bool) -> Result<()> {
        let queue = kind::RabbitKind.names(channel).dead_letter;
        lock::is_free(&self.link, &queue, take_over, self.management.as_ref()).await
    }

    async fn may_send(&self, channel: &Channel) -> Result<()> {
        match kind::exchange(channel) {
            None => rights::may_publish(&self.settings, &kind::RabbitKind.names(channel).return_to).await,
            Some(_) => Ok(()),
        }
    }

    async fn reach(&self, channel: &Channel) -> Result<Option<String>> {
        let names = kind::RabbitKind.names(channel);
        self.limit_of_what_can_be_settled(channel, &names.dead_letter).await?;
        let Some(exchange) = kind::exchange(channel) else { return Ok(None) };
        let who = match &self.management {
            None => "which queues get a copy is not seen without `management`".to_owned(),
            Some(management) => {
                if management.exchange(exchange).await?.is_none() {
                    return Err(routes::no_exchange(exchange));
                }
                routes::listeners(&management.bindings_from(exchange).await?)
            }
        };
        Ok(Some(format!("exchange {exchange}, with the key that each letter first came with; {who}")))
    }
}

#[async_trait]
impl Serve for Client {
    async fn serve(&self, _channels: &[&Channel], _owner: &str) -> Result<Box<dyn Carrier>> {
        Err(BrokerError::new(
            ErrorKind::Unsupported,
            "serve the tiers",
            "no relay is needed: RabbitMQ carries due messages back by itself (time to live and dead-letter routing)",
        ))
    }
}
