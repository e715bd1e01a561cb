//! What a person should know beside the answer of a look: the same remarks for a screen and for JSON.

use serde::Serialize;

use super::buckets::{Buckets, By};
use super::look::Looked;
use crate::broker::Capabilities;
use crate::clock::Time;

/// One remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "code")]
pub enum Note {
    /// Letters were left out because a run moved them before.
    Hidden {
        /// Records read.
        read: u64,
        /// Of them not shown.
        hidden: u64,
    },
    /// Originals that a run copied and has not removed: it was killed, or is at it.
    LeftUnsettled {
        /// How many.
        letters: u64,
    },
    /// Letters that lack a fact which the selection asks for are left out.
    Undecided {
        /// How many.
        letters: u64,
    },
    /// Letters past retention (K13): the broker's next sweep takes them.
    PastRetention {
        /// The id of their cause.
        cause: Option<String>,
        /// Where letters are put together by something else: what these have in common.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// How many.
        letters: u64,
    },
    /// Letters that expire within two days, those past retention not counted.
    ExpiresSoon {
        /// The id of their cause.
        cause: Option<String>,
        /// Where letters are put together by something else: what these have in common.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// How many.
        letters: u64,
        /// When the first of all letters of the cause expires.
        first: Time,
    },
    /// Groups with letters of several causes.
    SharedGroups {
        /// How many.
        groups: u64,
        /// Are there any with more than two?
        more_than_two: bool,
    },
    /// Letters without a group, though the topology names one.
    Ungrouped {
        /// How many.
        letters: u64,
    },
    /// Letters of which nobody says when they died.
    Undated {
        /// How many.
        letters: u64,
    },
    /// There are more groups than were counted.
    GroupsAtLeast {
        /// So many were counted.
        groups: u64,
    },
    /// Letters beyond the bound of lines.
    Other {
        /// How many lines they would make.
        causes: u64,
        /// Are the lines causes?
        #[serde(skip)]
        by_cause: bool,
        /// Is that only a least number?
        at_least: bool,
        /// How many letters.
        letters: u64,
    },
    /// Only the first lines are shown.
    Shown {
        /// So many.
        shown: u64,
        /// Of so many.
        of: u64,
    },
    /// Only so many letters are listed.
    Listed {
        /// So many.
        shown: u64,
        /// Of so many.
        of: u64,
    },
    /// Something could not be seen, in the broker's words.
    Unseen {
        /// What.
        what: String,
    },
    /// What looking changed, in the broker's words.
    LookingCost {
        /// What.
        changed: Vec<String>,
    },
    /// Looking changed nothing.
    LookingChangedNothing,
}

/// The remarks on a look that put letters together, `shown` lines of which are shown.
pub fn notes(buckets: &Buckets, looked: &Looked, shown: u64, now: Time) -> Vec<Note> {
    let mut notes = about_look(looked);
    let (lines, others, at_least) = buckets.count();
    if buckets.other_letters > 0 {
        let by_cause = *buckets.by() == By::Cause;
        notes.push(Note::Other { causes: others, by_cause, at_least, letters: buckets.other_letters });
    }
    if shown < lines {
        notes.push(Note::Shown { shown, of: lines });
    }
    // The largest few: a screen full of remarks is not read.
    let expiring = buckets.sorted().into_iter().filter(|line| line.expiry.soon > 0).take(5);
    for line in expiring {
        let cause = line.cause.as_ref().map(|cause| cause.id.to_string());
        let value = line.value.clone();
        let Some(first) = line.expiry.first else { continue };
        if line.expiry.past > 0 {
            let (cause, value) = (cause.clone(), value.clone());
            notes.push(Note::PastRetention { cause, value, letters: line.expiry.past });
        }
        let soon = line.expiry.soon - line.expiry.past;
        if soon > 0 {
            notes.push(Note::ExpiresSoon { cause, value, letters: soon, first: first.max(now) });
        }
    }
    let groups = buckets.groups();
    if groups.is_full() {
        notes.push(Note::GroupsAtLeast { groups: groups.count() });
    }
    if *buckets.by() == By::Cause
        && let (shared @ 1.., more_than_two) = groups.shared()
    {
        notes.push(Note::SharedGroups { groups: shared, more_than_two });
    }
    // All without a group: then the topology names none, and the column is missing.
    if buckets.ungrouped > 0 && buckets.ungrouped < buckets.letters {
        notes.push(Note::Ungrouped { letters: buckets.ungrouped });
    }
    if buckets.undated > 0 {
        notes.push(Note::Undated { letters: buckets.undated });
    }
    notes.extend(about_cost(looked));
    notes
}

/// What was left out of a look.
pub fn about_look(looked: &Looked) -> Vec<Note> {
    let mut notes = Vec::new();
    if looked.cost.hidden > 0 {
        notes.push(Note::Hidden { read: looked.cost.read, hidden: looked.cost.hidden });
    }
    notes.extend(looked.cost.unseen.iter().map(|what| Note::Unseen { what: what.clone() }));
    if looked.undecided > 0 {
        notes.push(Note::Undecided { letters: looked.undecided });
    }
    notes
}

/// What a killed run left: where moved letters are removed and a mark hides one all the same.
pub fn about_left(looked: &Looked, capabilities: &Capabilities) -> Option<Note> {
    let abnormal = capabilities.deletes && capabilities.trims && looked.cost.hidden > 0;
    abnormal.then_some(Note::LeftUnsettled { letters: looked.cost.hidden })
}

/// What a look cost.
pub fn about_cost(looked: &Looked) -> Vec<Note> {
    let changed = looked.cost.changed.clone();
    vec![if changed.is_empty() { Note::LookingChangedNothing } else { Note::LookingCost { changed } }]
}
