//! Serving tiers: carrying due messages back where the broker cannot do it by itself (protocol §10).

use std::time::Duration;

use async_trait::async_trait;

use super::{BrokerError, ErrorKind, Result};
use crate::clock::Time;
use crate::topology::Channel;

/// One tier as a relay sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TierState {
    /// Queue or topic.
    pub queue: String,
    /// Messages in it.
    pub waiting: u64,
    /// Whose time has come.
    pub due: u64,
    /// How long the most overdue one is overdue.
    pub overdue: Duration,
}

/// What one step carried.
#[derive(Debug, Clone, Default)]
pub struct Carried {
    /// Per tier: queue name, and how late each carried message was.
    pub moved: Vec<(String, Vec<Duration>)>,
    /// Messages that may be in the target twice, after an unknown answer (protocol §10), by broker id.
    pub maybe_twice: Vec<String>,
    /// Why a message was not taken by the target: the first such answer. It stays in its tier, and is tried again.
    pub refused: Option<BrokerError>,
    /// When the next message is due, if known: sleep until then, and no longer than the relay's own bound.
    pub next_due: Option<Time>,
    /// There was more to do than the limit allowed.
    pub more: bool,
}

/// A relay's hold on the tiers of some channels. Several share the work.
#[async_trait]
pub trait Carrier: Send {
    /// Carries up to `limit` due messages to where their channel returns: claim, publish, settle, or one
    /// transaction; never before they are due. Per group one in flight, in due order.
    async fn carry(&mut self, limit: usize) -> Result<Carried>;

    /// The tiers now.
    async fn tiers(&mut self) -> Result<Vec<TierState>>;

    /// The tiers as they were a moment ago, where to count them takes time for which due messages would have to wait.
    async fn tiers_lately(&mut self) -> Result<Vec<TierState>> {
        self.tiers().await
    }

    /// A step carried nothing and said of nothing more: is there surely nothing due, or may it not have come yet? Asked
    /// only where a relay is to end then.
    async fn drained(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Gives back what is held and leaves.
    async fn close(self: Box<Self>) -> Result<()>;
}

/// Serving.
#[async_trait]
pub trait Serve: Send + Sync {
    /// Opens a carrier over the tiers of these channels under a new `owner` name (r12). Where the broker
    /// serves its tiers itself: `Unsupported`, with words that say so.
    async fn serve(&self, _channels: &[&Channel], _owner: &str) -> Result<Box<dyn Carrier>> {
        Err(BrokerError::new(ErrorKind::Unsupported, "serve the tiers", "this broker serves them itself"))
    }

    /// The same, publishing, then settling, even where the broker has transactions.
    async fn serve_by_hand(&self, channels: &[&Channel], owner: &str) -> Result<Box<dyn Carrier>> {
        self.serve(channels, owner).await
    }
}
