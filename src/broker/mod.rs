//! The ports: what the inside may ask of a broker, split by role, so that a verb holds only what it may do.
//!
//! Looking gets [`Browse`] and cannot write. What brokers can and cannot do is data ([`Capabilities`]), asked
//! per channel; nothing outside this folder asks which broker it is. A fourth broker is one file (or folder)
//! here, its `mod` line and its line in [`BROKERS`].

mod ahead;
mod bulk;
pub mod by_hand;
mod error;
mod holder;
mod kafka;
mod looking;
mod moving;
pub(crate) mod naming;
mod options;
pub mod rabbitmq;
mod serving;
pub mod sqlite;
pub mod sqs;

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

pub use bulk::{Bulk, BulkMover, BulkMoves, BulkState};
pub use error::{BrokerError, ErrorKind, Result};
pub(crate) use looking::letters;
pub use looking::{
    Browse, Count, Depth, Depths, Holding, Later, LookCost, Pages, PassesOn, Placing, Reader, Snapshot, Want,
};
pub use moving::{
    Ask, Claimed, Claims, Fate, Intent, Looker, Missing, Mover, Outgoing, Packed, Proof, Published, Receipt,
    Relocate, Settled, Task, Wanted,
};
pub use serving::{Carried, Carrier, Serve, TierState};

use crate::diagnostic::Diagnostic;
use crate::plan::{Change, Resource};
use crate::topology::{BrokerDecl, Channel, Topology};

/// Every broker, by the scheme of its url.
pub static BROKERS: &[&dyn Kind] =
    &[&sqlite::SqliteKind, &kafka::KafkaKind, &rabbitmq::RabbitKind, &sqs::SqsKind];

/// The broker kind that a url names.
pub fn kind_of(broker: &BrokerDecl) -> Option<&'static dyn Kind> {
    BROKERS.iter().copied().find(|kind| kind.schemes().contains(&broker.scheme()))
}

/// See [`Kind::on_the_line`].
pub fn on_the_line(url: &str) -> Option<std::result::Result<String, &'static str>> {
    let (scheme, _) = url.split_once("://")?;
    BROKERS.iter().find(|kind| kind.schemes().contains(&scheme))?.on_the_line(url)
}

/// A kind of broker before anything is connected: names, limits and rules, pure and always compiled in, so
/// that `check` needs no client and no network.
pub trait Kind: Sync {
    /// Schemes of its urls; the first is its name: `sqlite`, `kafka`, `amqp`, `sqs`.
    fn schemes(&self) -> &'static [&'static str];

    /// The word for people: `RabbitMQ`.
    fn title(&self) -> &'static str;

    /// The key of its block in a channel: `kafka`, `rabbitmq`, `sqs`; `None` if it needs none.
    fn block(&self) -> Option<&'static str>;

    /// What it can do for this channel; differs by queue kind (FIFO, quorum, stream).
    fn capabilities(&self, channel: &Channel) -> Capabilities;

    /// The names on the broker that this channel's queues get. Written names are literal.
    fn names(&self, channel: &Channel) -> Names;

    /// Rules of this broker only, located: names it refuses, delays it cannot do, options off its list.
    /// `broker` is the declaration that the channels go to.
    fn check(&self, topology: &Topology, broker: &BrokerDecl, channels: &[&Channel]) -> Vec<Diagnostic>;

    /// Names that `options:` may hold; everything else is an error at its line.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Where a declared broker is, for people: servers, virtual host, region, file. Never a secret.
    fn place(&self, broker: &BrokerDecl) -> String {
        let url = crate::redact::url(&broker.url.value);
        url.split_once(':').map_or(url.clone(), |(_, rest)| rest.trim_start_matches("//").to_owned())
    }

    /// What tells it from another broker of its kind: runs and looks of one are not those of another. Never a secret.
    fn identity(&self, broker: &BrokerDecl) -> String {
        crate::redact::url(&broker.url.value)
    }

    /// A topology of one dead-letter queue that a url on the command line says whole, as YAML. `Err`: how such a url is
    /// written. `None`: this kind has none.
    fn on_the_line(&self, _url: &str) -> Option<std::result::Result<String, &'static str>> {
        None
    }

    /// Connects as far as needed to say whether it is there. Errors name host, user and what to do, never a
    /// secret. Without its Cargo feature: an error that says so.
    fn open<'a>(&self, broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a>;
}

/// What opening gives.
pub type Opening<'a> =
    std::pin::Pin<Box<dyn std::future::Future<Output = Result<Box<dyn Broker>>> + Send + 'a>>;

/// What an adapter needs from outside.
#[derive(Clone)]
pub struct OpenContext {
    /// The time.
    pub clock: std::sync::Arc<dyn crate::clock::Clock>,
    /// Folder of the topology file: relative paths of urls and certificates start there.
    pub base: std::path::PathBuf,
    /// May this command write? A reading command must not create so much as a file (K36).
    pub writes: bool,
}

/// An opened broker: the four roles together. Verbs take the role they need.
pub trait Broker: Provision + Browse + Relocate + Serve {}

impl<T: Provision + Browse + Relocate + Serve> Broker for T {}

/// The queues of one channel by their names on the broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Names {
    /// What the application reads.
    pub source: String,
    /// One per tier, shortest wait first.
    pub tiers: Vec<String>,
    /// Dead letters.
    pub dead_letter: String,
    /// Where tiers and redrives send.
    pub return_to: String,
}

/// What a broker can do for one channel. Rules, plan and rendering read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// How tiers wait.
    pub delay: Delay,
    /// What looking disturbs.
    pub peek: Peek,
    /// How a letter is moved.
    pub relocate: Atomicity,
    /// May consecutive letters of one group go in one batch (rule 5)?
    pub ordered_batch: bool,
    /// Can it move all of a dead-letter queue by itself (`run --native`)?
    pub bulk: BulkMoves,
    /// Most letters that go at once: where copy and removal are no transaction, so many may be in doubt after a crash.
    pub batch: usize,
    /// Letters held at once, unless a batch has more: what is at hand need not be waited for.
    pub claims: usize,
    /// How many letters it hands out in one answer before a group is locked: of a group that is cut there, the
    /// rest cannot be seen until the first ones are gone. `None`: it does not lock groups.
    pub group_lock: Option<u32>,
    /// What order it keeps.
    pub order: Order,
    /// What it deduplicates by itself.
    pub dedup: Dedup,
    /// Sizes.
    pub limits: Limits,
    /// Can a moved letter be deleted from the dead-letter queue? If not, a mark hides it.
    pub deletes: bool,
    /// Can moved letters that a mark hides be deleted afterwards (`run --trim`)?
    pub trims: bool,
    /// May a letter that it deleted be handed out again, its answer notwithstanding? Then the ledger is asked
    /// what earlier runs have moved.
    pub deleted_returns: bool,
    /// Can a copy keep the time at which its message was first published (`run --keep-timestamp`)?
    pub keeps_times: bool,
    /// Can the messages that came after a letter be seen where it died (`--skip-overtaken`)?
    pub sees_later: bool,
    /// Does it need a written `return_to`, because the source reaches every reader (design §3)?
    pub fan_out: bool,
    /// Does it enforce `retention` on the dead-letter queue?
    pub enforces_retention: bool,
    /// Who can serve its tiers, the default first.
    pub served_by: &'static [crate::topology::ServedBy],
}

/// How a tier waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// The broker holds a message back by itself, up to this long.
    Native {
        /// Longest delay.
        max: Duration,
        /// Delays are whole multiples of this.
        step: Duration,
    },
    /// A queue whose messages expire into the next one, up to this long.
    TtlQueue {
        /// Longest delay.
        max: Duration,
    },
    /// Whoever reads the tier waits.
    Reader,
}

/// What looking changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Peek {
    /// Nothing.
    Pure,
    /// Something, in words for the screen: `receive count +1`.
    Marks(&'static str),
}

/// How copy and removal hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Atomicity {
    /// Copy and mark are one transaction: `transfer`.
    Transaction,
    /// Publish, record, then settle.
    PublishThenSettle,
}

/// What order a queue keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Within a group.
    PerGroup,
    /// Within a partition.
    PerPartition,
    /// Within the queue.
    PerQueue,
    /// None.
    None,
}

/// What a broker deduplicates by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dedup {
    /// Nothing.
    None,
    /// The same id within this window.
    Window(Duration),
    /// The same (run, seq), for ever: sending again is always safe (protocol §6, SQLite in two files).
    RunAndSeq,
}

/// Sizes of one message, in bytes; `None` is no limit that is known before connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Limits {
    /// Body, key and headers together.
    pub message: Option<u64>,
    /// All headers together.
    pub headers: Option<u64>,
    /// Number of headers.
    pub header_count: Option<u32>,
}

/// Provisioning.
#[async_trait]
pub trait Provision: Send + Sync {
    /// What these channels want on this broker. Pure.
    fn desired(&self, channels: &[&Channel]) -> Vec<Resource>;

    /// The desired resources as they are on the broker (absent ones left out), and undeclared ones under
    /// names of ours. Reads, creates nothing.
    async fn observe(&self, channels: &[&Channel]) -> Result<Vec<Resource>>;

    /// What of this difference can be altered in place, what would be lost, what cannot be done. The
    /// default takes every difference as alterable.
    async fn judge(&self, change: Change) -> Result<Change> {
        Ok(change)
    }

    /// What is to be known of these channels' queues beside what would change, in words; `observed` is what
    /// [`Provision::observe`] just said. Reads, creates nothing.
    async fn remarks(&self, _channels: &[&Channel], _observed: &[Resource]) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Makes one change: `Create`, `Update`, or a `Refused` one whose loss was accepted.
    async fn make(&self, change: &Change) -> Result<()>;
}
