//! Moving all of a dead-letter queue by the broker's own means: it is started, watched and cancelled, and nothing
//! else can be asked of it. It knows no selection, no ledger and no order.

use async_trait::async_trait;
use serde::Serialize;

use super::{BrokerError, ErrorKind, Result};

/// Can the broker move all of a dead-letter queue by itself?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BulkMoves {
    /// No, and why.
    No(&'static str),
    /// Yes.
    All {
        /// Most letters a second that it can be held to.
        most_per_second: u32,
        /// What it does not keep, or cannot do, in words.
        not_kept: &'static [&'static str],
    },
}

/// How far a move of the broker's own has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    /// Letters that it is about, as far as the broker tells.
    pub of: Option<u64>,
    /// Moved so far.
    pub moved: u64,
    /// How it is doing.
    pub state: BulkState,
}

/// How a move of the broker's own is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkState {
    /// It goes on.
    Running,
    /// All that it was about is moved, as far as the broker says.
    Done,
    /// It was cancelled: what was moved stays moved.
    Cancelled,
    /// It ended by itself, and why.
    Failed(String),
}

/// A move of the broker's own that was started.
#[async_trait]
pub trait BulkMover: Send {
    /// How far it has come.
    async fn look(&mut self) -> Result<Bulk>;

    /// Asks it to stop. What is moved stays moved.
    async fn cancel(&mut self) -> Result<()>;
}

/// The answer of a broker that has none.
pub(super) fn none() -> BrokerError {
    BrokerError::new(ErrorKind::Unsupported, "move by its own means", "this broker has none")
}
