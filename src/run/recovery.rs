//! What a resume makes of what the ledger holds and the broker proves (protocol §1, §5, §6): pure.

use super::machine::{Start, Write};
use crate::broker::Proof;
use crate::ledger::LetterState;
use crate::proof::mutation::mutated;

/// What the person who resumes has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Orders {
    /// `--resend-in-doubt`: send again what is in doubt; it may be twice, and stays named.
    pub resend_in_doubt: bool,
    /// `--settle-in-doubt`: the effect was seen; take the originals away.
    pub settle_in_doubt: bool,
    /// `--retry-failed`.
    pub retry_failed: bool,
    /// `--accept-gone`: what the queue does not show is gone.
    pub accept_gone: bool,
}

/// How a letter enters the resumed run, and what is to be written first.
///
/// `proof` is asked for letters that are intended or in doubt. A find is always proof; a miss only behind a
/// fence, which the broker says by [`Proof::Absent`] (m12).
pub fn start_of(
    state: LetterState,
    attempt: u32,
    proof: Option<&Proof>,
    orders: Orders,
) -> (Start, Option<Write>) {
    match state {
        LetterState::Planned => (Start::Send { attempt: 0, open: false }, None),
        LetterState::Intended if mutated("m03") => (Start::Send { attempt, open: false }, None),
        LetterState::Intended | LetterState::InDoubt => match proof {
            Some(Proof::Arrived(_)) => (Start::Published, Some(Write::Published)),
            Some(Proof::Absent) => (Start::Send { attempt, open: false }, Some(Write::Planned)),
            Some(Proof::Unknown) if mutated("m12") => {
                (Start::Send { attempt, open: false }, Some(Write::Planned))
            }
            // What is named in doubt was given up by its own run: only a person sends it again.
            Some(Proof::ResendSafe) if state == LetterState::Intended => {
                (Start::Send { attempt, open: true }, None)
            }
            _ if state == LetterState::InDoubt && orders.settle_in_doubt => {
                (Start::Published, Some(Write::Published))
            }
            _ if state == LetterState::InDoubt && orders.resend_in_doubt => {
                (Start::Send { attempt, open: true }, None)
            }
            _ => (Start::InDoubt, Some(Write::InDoubt).filter(|_| state == LetterState::Intended)),
        },
        LetterState::Published => (Start::Published, None),
        LetterState::Settled => (Start::Done { moved: true }, None),
        LetterState::Failed if orders.retry_failed => {
            (Start::Send { attempt: 0, open: false }, Some(Write::Planned))
        }
        LetterState::Failed => (Start::Failed, None),
        LetterState::Gone | LetterState::Twin => (Start::Done { moved: false }, None),
    }
}
