//! What the ledger can say of one letter: protocol §1's states, a byte each.

use serde::Serialize;

/// A letter's state in the ledger. `held`, `skipped` and `untouched` are `Planned` with a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterState {
    /// Not sent.
    #[default]
    Planned,
    /// About to be sent, or sent without an answer yet.
    Intended,
    /// The copy is there.
    Published,
    /// The copy is there, the original is gone.
    Settled,
    /// Refused for good.
    Failed,
    /// Sent, and nobody can say whether it arrived.
    InDoubt,
    /// Skipped: it was not in the queue any more.
    Gone,
    /// Skipped: settled unsent, an equal letter was sent.
    Twin,
}

impl LetterState {
    /// As stored.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Planned => 0,
            Self::Intended => 1,
            Self::Published => 2,
            Self::Settled => 3,
            Self::Failed => 4,
            Self::InDoubt => 5,
            Self::Gone => 6,
            Self::Twin => 7,
        }
    }

    /// As read; `None` is a byte that no version wrote.
    pub const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Planned,
            1 => Self::Intended,
            2 => Self::Published,
            3 => Self::Settled,
            4 => Self::Failed,
            5 => Self::InDoubt,
            6 => Self::Gone,
            7 => Self::Twin,
            _ => return None,
        })
    }
}
