//! Single letters, the oldest or the newest first: in bounded memory, however many there are.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use super::look::Collect;
use crate::broker::Order;
use crate::clock::Time;
use crate::dead_letter::DeadLetter;
use crate::failure::CauseId;
use crate::letter::LetterId;
use crate::selection::Limit;

/// Most letters that a list holds, whatever the limit says: beyond, it names so many of them and says so.
const MOST: usize = 100_000;
/// Longest text of a field, in characters; the list is for looking over, `show` has the whole.
const LONGEST: usize = 200;

/// What the oldest letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldestBy {
    /// The first in a queue that keeps its order: what a run takes first, whatever the clocks of its senders said.
    Arrival,
    /// The first that died: a queue of partitions, or without order, has no other first.
    Death,
}

impl OldestBy {
    /// What it is in a queue that keeps this order.
    pub fn of(order: Order) -> Self {
        match order {
            Order::PerQueue | Order::PerGroup => Self::Arrival,
            Order::PerPartition | Order::None => Self::Death,
        }
    }

    /// What a letter stands by before its order of arrival; one of unknown age stands last.
    fn place(self, letter: &DeadLetter) -> (bool, Option<Time>) {
        let died = letter.died_at.map(|(at, _)| at);
        match self {
            Self::Arrival => (false, None),
            Self::Death => (died.is_none(), died),
        }
    }
}

/// What a list shows of a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// What it stands by ([`OldestBy`]).
    place: (bool, Option<Time>),
    /// Order of arrival, among letters of one place.
    pub arrival: u64,
    /// Id.
    pub id: LetterId,
    /// When it died, if anybody says so.
    pub died: Option<Time>,
    /// Failed tries.
    pub tries: Option<u32>,
    /// Ordering key.
    pub group: Option<String>,
    /// Bytes in all.
    pub size: u64,
    /// Bytes of the body; `None` is a null body.
    pub body_len: Option<u64>,
    /// Innermost error class.
    pub class: Option<String>,
    /// Innermost message, or the reason word.
    pub message: Option<String>,
    /// Business identity.
    pub event_id: Option<String>,
    /// Cause.
    pub cause: CauseId,
    /// When retention takes it.
    pub expires: Option<Time>,
    /// How often it was sent back.
    pub redriven: u32,
    /// The run that moved it already, where such letters are shown.
    pub moved_by: Option<String>,
}

impl Listed {
    /// What a list shows of `letter`.
    pub fn of(letter: &DeadLetter, by: OldestBy) -> Self {
        let died = letter.died_at.map(|(at, _)| at);
        let reason = || letter.context.last().and_then(|death| death.reason.as_deref());
        Self {
            place: by.place(letter),
            arrival: letter.raw.arrival,
            id: letter.raw.id.clone(),
            died,
            tries: letter.context.attempts,
            group: letter.group.value.as_deref().map(short),
            size: letter.raw.size(),
            body_len: letter.raw.body_len,
            class: letter.error_class().map(short),
            message: letter.error_message().or_else(reason).map(short),
            event_id: letter.event_id.value.as_deref().map(short),
            cause: letter.cause.id.clone(),
            expires: letter.expires_at(),
            redriven: letter.redriven,
            moved_by: letter.raw.facts.moved_by.clone(),
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The oldest letters of a look.
#[derive(Debug, Clone)]
pub struct Oldest {
    most: usize,
    by: OldestBy,
    kept: BinaryHeap<Listed>,
    /// All letters, also those not kept.
    pub letters: u64,
}

impl Oldest {
    /// Keeps as many as `limit` says.
    pub fn new(limit: Limit, by: OldestBy) -> Self {
        let most = match limit {
            Limit::All => MOST,
            Limit::AtMost(most) => usize::try_from(most).unwrap_or(MOST).min(MOST),
        };
        Self { most, by, kept: BinaryHeap::new(), letters: 0 }
    }

    /// Takes a letter in.
    pub fn add(&mut self, letter: &DeadLetter) {
        self.letters += 1;
        if self.kept.len() < self.most {
            self.kept.push(Listed::of(letter, self.by));
            return;
        }
        let Some(mut youngest) = self.kept.peek_mut() else { return };
        let key = (self.by.place(letter), letter.raw.arrival, &letter.raw.id);
        if key < (youngest.place, youngest.arrival, &youngest.id) {
            *youngest = Listed::of(letter, self.by);
        }
    }

    /// Those kept, the oldest first.
    pub fn into_sorted(self) -> Vec<Listed> {
        self.kept.into_sorted_vec()
    }
}

impl Collect for Oldest {
    fn take(&mut self, letter: &DeadLetter) -> ControlFlow<()> {
        self.add(letter);
        ControlFlow::Continue(())
    }
}

/// A letter of which the newest is the smallest; one of unknown age stands last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NewestFirst(Listed);

impl Ord for NewestFirst {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.0.died, it.0.arrival);
        key(other).cmp(&key(self)).then_with(|| other.0.cmp(&self.0))
    }
}

impl PartialOrd for NewestFirst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The newest letters of a look.
#[derive(Debug, Clone)]
pub struct Newest {
    most: usize,
    kept: BinaryHeap<NewestFirst>,
}

impl Newest {
    /// Keeps so many.
    pub fn new(most: u64) -> Self {
        Self { most: usize::try_from(most).unwrap_or(MOST).min(MOST), kept: BinaryHeap::new() }
    }

    /// Those kept, the newest first.
    pub fn into_sorted(self) -> Vec<Listed> {
        self.kept.into_sorted_vec().into_iter().map(|kept| kept.0).collect()
    }
}

impl Collect for Newest {
    fn take(&mut self, letter: &DeadLetter) -> ControlFlow<()> {
        let died = letter.died_at.map(|(at, _)| at);
        if self.kept.len() < self.most {
            self.kept.push(NewestFirst(Listed::of(letter, OldestBy::Death)));
        } else if let Some(mut oldest) = self.kept.peek_mut()
            && (died, letter.raw.arrival) > (oldest.0.died, oldest.0.arrival)
        {
            *oldest = NewestFirst(Listed::of(letter, OldestBy::Death));
        }
        ControlFlow::Continue(())
    }
}
