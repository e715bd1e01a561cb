//! Looking at dead letters: sessions that read a frozen extent and give everything back as it was (rule 8).

use async_trait::async_trait;
use serde::Serialize;

use super::Result;
use crate::clock::Time;
use crate::letter::{LetterId, Place, RawLetter};
use crate::topology::Channel;

/// How many, and how surely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "counted", content = "n")]
pub enum Count {
    /// Exactly.
    Exact(u64),
    /// As the broker estimates.
    About(u64),
    /// No more than this: what lies between two offsets.
    AtMost(u64),
}

impl Count {
    /// The number.
    pub fn number(self) -> u64 {
        match self {
            Self::Exact(n) | Self::About(n) | Self::AtMost(n) => n,
        }
    }
}

/// `1 letter is`, `2 letters are`; no verb is none.
pub(crate) fn letters(n: u64, one: &str, many: &str) -> String {
    let text = if n == 1 { format!("1 letter {one}") } else { format!("{n} letters {many}") };
    text.trim_end().to_owned()
}

/// A frozen extent of a dead-letter queue: what arrives later is not in it (rule 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The queue looked at.
    pub queue: String,
    /// The adapter's own words for the extent, so that a manifest can tell whether it is still the same
    /// queue: topic id and offsets, file id and last row. Printable ASCII.
    pub identity: String,
    /// The beginning of that which says which queue it is, in which incarnation; what follows is how far it went.
    pub place: String,
    /// When it was taken, by our clock.
    pub taken_at: Time,
    /// How many letters it should give.
    pub count: Count,
    /// Letters that cannot be seen now (in flight elsewhere), if the broker tells.
    pub unseen: Option<u64>,
}

impl Snapshot {
    /// Is this, out of a manifest, the identity of a snapshot of the same queue? A manifest is hostile input: its word
    /// for the queue has to be the broker's.
    pub fn is_of_the_queue_of(&self, frozen: &str) -> bool {
        frozen.strip_prefix(&self.place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// What a look needs of each letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Want {
    /// Bodies too. Without, `message.body` may be `None` and `body_len` tells the size.
    pub bodies: bool,
    /// Also letters that a run has moved and the broker cannot delete.
    pub moved: bool,
}

/// What a look has cost, said at its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LookCost {
    /// Records read, hidden ones included.
    pub read: u64,
    /// Letters not shown because a run moved them before.
    pub hidden: u64,
    /// In words, each a change that the look made: `receive count +1 on 208 letters`. Empty: none.
    pub changed: Vec<String>,
    /// What could not be seen, in words.
    pub unseen: Vec<String>,
    /// About how many letters more a look will show when those of this one are gone: the broker hides them
    /// behind what it has handed out. 0: none, or it does not do that.
    pub behind: u64,
    /// Letters that were received by now as often as the broker allows: the next receive passes them on
    /// ([`PassesOn`]).
    #[serde(skip_serializing_if = "is_none")]
    pub spent: u64,
}

fn is_none(letters: &u64) -> bool {
    *letters == 0
}

/// A dead-letter queue whose letters the broker itself moves on to another queue after so many receives, a look
/// being one (S24).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassesOn {
    /// The queue looked at.
    pub queue: String,
    /// As [`Snapshot::identity`].
    pub identity: String,
    /// So many receives bring a letter here; the next one moves it on.
    pub after: u32,
    /// Where to.
    pub to: String,
    /// About how many letters are in it.
    pub letters: u64,
}

/// One look: pages in the broker's order of arrival, in bounded memory. Dropping it gives back, as far as
/// that can be done without waiting; [`Pages::close`] is the sure way.
#[async_trait]
pub trait Pages: Send {
    /// The extent.
    fn snapshot(&self) -> &Snapshot;

    /// The next letters, at most a few thousand and a few MiB; empty at the end of the extent, which is
    /// known by the extent and never by silence.
    async fn next(&mut self) -> Result<Vec<RawLetter>>;

    /// Are pages read by a thread of its own, also while nobody asks for the next one? Then who asks works on one page
    /// while the next is read; else somebody has to ask meanwhile.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Has a letter of the pages so far at hand for the run that goes on from here ([`Pages::hold`]). Called in the
    /// order in which letters came, before many more pages are read. What a run reads anew needs no such thing.
    fn keep(&mut self, _letter: RawLetter) {}

    /// Gives back what was held, as it was.
    async fn close(self: Box<Self>) -> Result<LookCost>;

    /// Ends the look, and leaves what it holds to a run that begins at once and sends no other letters than those
    /// that were kept, so that they need not be read again. `None`: that is not possible here, and all was given back.
    async fn hold(self: Box<Self>) -> Result<(LookCost, Option<Box<dyn Holding>>)> {
        Ok((self.close().await?, None))
    }
}

/// What a look still holds, for the run that begins at once. If the process ends it goes back by itself.
#[async_trait]
pub trait Holding: Send {
    /// Gives everything back as it was, as [`Pages::close`] would have done.
    async fn give_back(self: Box<Self>) -> Result<()>;

    /// The adapter's own form, for [`Relocate::go_on`](super::Relocate::go_on).
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any + Send>;
}

/// One queue as counted, never browsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// Its name.
    pub queue: String,
    /// Messages in it, waiting ones included.
    pub count: Count,
    /// Of a tier: those whose time has come.
    pub due: Option<u64>,
    /// Handed out and not settled.
    pub in_flight: Option<u64>,
    /// When the oldest came in, where it can be told without touching it.
    pub oldest: Option<Time>,
    /// When retention takes the oldest.
    pub oldest_expires: Option<Time>,
    /// Whether the queue is there at all.
    pub exists: bool,
}

/// How far a reader of a queue has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reader {
    /// Consumer group or consumer.
    pub name: String,
    /// Messages it has not read yet, if told.
    pub lag: Option<u64>,
}

/// The queues of a channel as counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Depths {
    /// What the application reads.
    pub source: Depth,
    /// Who reads it, where the broker tells.
    pub readers: Vec<Reader>,
    /// Tiers, in order.
    pub tiers: Vec<Depth>,
    /// Dead letters.
    pub dead_letter: Depth,
    /// Remarks of the broker: messages stuck on their way to the dead-letter queue, and the like.
    pub notes: Vec<String>,
}

/// Where a broker with partitions puts copies of messages that came from one of its queues.
#[derive(Debug, Clone)]
pub struct Placing {
    /// A queue whose partitions mean the same as those of the target.
    pub queue: String,
    /// How many there are.
    pub partitions: i32,
    /// Of a key.
    pub place: fn(&[u8], i32) -> i32,
    /// What to declare so that copies go where their letters came from.
    pub way_round: &'static str,
}

/// What is in the source behind given places.
pub enum Later {
    /// The broker cannot tell.
    Cannot,
    /// So many messages would have to be read, more than were allowed.
    TooMany(u64),
    /// A look at them.
    Messages(Box<dyn Pages>),
}

/// Looking.
#[async_trait]
pub trait Browse: Send + Sync {
    /// Opens a look at the dead letters of a channel. Creates nothing (K36).
    async fn snapshot(&self, channel: &Channel, want: Want) -> Result<Box<dyn Pages>>;

    /// A look that holds the newest `most` open letters, and few more, where the broker can begin there instead of
    /// reading all. `Ok(None)`: it cannot.
    async fn newest(&self, _channel: &Channel, _want: Want, _most: u64) -> Result<Option<Box<dyn Pages>>> {
        Ok(None)
    }

    /// How copies of letters of the source are placed by their key, where another place would break the order with
    /// messages that live.
    async fn placing(&self, _channel: &Channel) -> Result<Option<Placing>> {
        Ok(None)
    }

    /// A look at the messages of the source behind these offsets of its partitions, if there are at most `most`.
    async fn later(&self, _channel: &Channel, _from: &[Place], _want: Want, _most: u64) -> Result<Later> {
        Ok(Later::Cannot)
    }

    /// Letters whose id begins with `prefix`, with bodies, at most three: where the broker can find them
    /// without reading all. `Ok(None)`: it cannot, the caller has to look through a snapshot.
    async fn find(&self, _channel: &Channel, _prefix: &LetterId) -> Result<Option<Vec<RawLetter>>> {
        Ok(None)
    }

    /// Where calls really go, where the url alone does not say it: an endpoint, an account. What is known so far: no
    /// login, no secret.
    fn whereabouts(&self) -> Option<String> {
        None
    }

    /// Counts the queues of a channel without touching a message.
    async fn depths(&self, channel: &Channel) -> Result<Depths>;

    /// Words on what a look at this channel will change, before it does: versions and queue types known.
    async fn cost_of_looking(&self, _channel: &Channel) -> Result<Option<String>> {
        Ok(None)
    }

    /// Does the broker pass dead letters on by itself when they were received too often?
    async fn passes_on(&self, _channel: &Channel) -> Result<Option<PassesOn>> {
        Ok(None)
    }
}
