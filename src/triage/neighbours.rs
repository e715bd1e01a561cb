//! The other letters of one letter's group: what would have to go before it, and what waits behind it.

use std::ops::ControlFlow;

use serde::Serialize;

use super::look::Collect;
use crate::dead_letter::DeadLetter;
use crate::letter::LetterId;

/// Where a letter stands in its group, among the open letters of a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Neighbours {
    /// The group.
    pub group: String,
    /// Open letters of the group that came earlier.
    pub earlier: u64,
    /// The first of them.
    pub first: Option<LetterId>,
    /// Open letters of the group that came later.
    pub later: u64,
    #[serde(skip)]
    id: LetterId,
    #[serde(skip)]
    arrival: u64,
    #[serde(skip)]
    first_arrival: u64,
}

impl Neighbours {
    /// Of `letter`; `None`: it has no group.
    pub fn of(letter: &DeadLetter) -> Option<Self> {
        Some(Self {
            group: letter.group.value.clone()?,
            earlier: 0,
            first: None,
            later: 0,
            id: letter.raw.id.clone(),
            arrival: letter.raw.arrival,
            first_arrival: u64::MAX,
        })
    }
}

impl Collect for Neighbours {
    fn take(&mut self, letter: &DeadLetter) -> ControlFlow<()> {
        if letter.raw.id != self.id && letter.group.value.as_deref() == Some(self.group.as_str()) {
            if letter.raw.arrival < self.arrival {
                self.earlier += 1;
                if letter.raw.arrival < self.first_arrival {
                    self.first_arrival = letter.raw.arrival;
                    self.first = Some(letter.raw.id.clone());
                }
            } else {
                self.later += 1;
            }
        }
        ControlFlow::Continue(())
    }
}
