//! The screens of `select`, `run` and `resume`: before the prompt, while it runs, at its end.

mod before;
pub mod bulk;
mod ended;
mod watch;

pub use before::{Before, Left, before, dry_run, first_of, nothing_to_send, resuming, selected};
pub use ended::{Ended, MOST_NOTES, doubt, ended, left_at_once, reason, rough_seconds, six};
pub use watch::{Events, Shared, Watch};

/// What every screen of a run names.
#[derive(Debug, Clone)]
pub struct RunScreen {
    /// The run.
    pub run: String,
    /// Channel.
    pub channel: String,
    /// Broker, by its name.
    pub broker: String,
    /// `kafka (protected)`.
    pub title: String,
    /// Dead-letter queue.
    pub queue: String,
    /// Where to.
    pub target: String,
    /// Where calls really went, where the topology alone does not say it.
    pub place: Option<String>,
    /// Letters to be sent in this part, and those of them that went in its earlier passes.
    pub sending: u64,
    /// See above.
    pub sent_before: u64,
    /// Rate as typed.
    pub rate: String,
}
