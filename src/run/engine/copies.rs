//! Copies of claimed letters. What a letter is and what of it stays behind takes about as long to find out as
//! moving it, so the copies of a claim are made beside, while another batch is recorded or on its way.

use std::sync::{Arc, mpsc};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::super::copy;
use crate::broker::{Outgoing, Packed};
use crate::clock::Clock;
use crate::letter::{Message, RawLetter};
use crate::topology::Channel;

/// Letters after which what has been made is handed over.
const PART: usize = 250;

/// What became of the copy of one letter.
pub(super) enum Copy {
    /// Not ready yet.
    InTheMaking,
    /// The copy, or why there can be none.
    Made(Result<Ready, String>),
    /// The letter is not what was frozen.
    Changed,
}

/// A copy, or what its adapter packed it into.
#[derive(Default)]
pub(super) struct Ready {
    pub(super) message: Message,
    pub(super) packed: Option<Packed>,
}

/// A letter to make a copy of.
pub(super) struct Original {
    /// Its number.
    pub(super) seq: u64,
    /// Of which claim it is.
    pub(super) claim: u64,
    /// SHA-256 of the body that was frozen.
    pub(super) frozen: Option<[u8; 32]>,
    /// The letter.
    pub(super) letter: RawLetter,
}

enum Work {
    Make(Vec<Original>),
    /// Freeing a batch costs time too, least where it was made.
    Forget(Vec<Outgoing>),
}

/// Makes copies, here or beside.
pub(super) struct Copies {
    by: Maker,
    beside: Option<Beside>,
}

/// What is known to whoever makes copies.
#[derive(Clone)]
pub(super) struct Maker {
    channel: Arc<Channel>,
    run: Arc<str>,
    clock: Arc<dyn Clock>,
}

struct Beside {
    work: mpsc::Sender<Work>,
    made: UnboundedReceiver<Vec<(u64, u64, Copy)>>,
}

impl Copies {
    /// For letters of a channel that this run sends.
    pub(super) fn new(channel: &Channel, run: &str, clock: Arc<dyn Clock>) -> Self {
        let by = Maker { channel: Arc::new(channel.clone()), run: run.into(), clock };
        Self { by, beside: None }
    }

    /// Makes one now.
    pub(super) fn make(&self, original: Original) -> Copy {
        self.by.make(original, None)
    }

    /// What makes them.
    pub(super) fn by(&self) -> Maker {
        self.by.clone()
    }

    /// Begins to make those of one claim.
    pub(super) fn begin(&mut self, originals: Vec<Original>) {
        let beside = self.beside.get_or_insert_with(|| Beside::start(self.by.clone()));
        // Without anybody to take them `made` says so.
        let _ = beside.work.send(Work::Make(originals));
    }

    /// Frees what has been moved.
    pub(super) fn forget(&self, moved: Vec<Outgoing>) {
        if let Some(beside) = &self.beside {
            let _ = beside.work.send(Work::Forget(moved));
        }
    }

    /// Waits for the next ones: number, claim and copy of each. `None`: there will be none.
    pub(super) async fn made(&mut self) -> Option<Vec<(u64, u64, Copy)>> {
        self.beside.as_mut()?.made.recv().await
    }
}

impl Beside {
    fn start(by: Maker) -> Self {
        let (work, inbox) = mpsc::channel::<Work>();
        let (outbox, made) = unbounded_channel();
        // Ends when the engine does and drops its end.
        tokio::task::spawn_blocking(move || {
            while let Ok(work) = inbox.recv() {
                let claim = match work {
                    Work::Make(claim) => claim,
                    Work::Forget(moved) => {
                        drop(moved);
                        continue;
                    }
                };
                let mut part = Vec::with_capacity(PART);
                for original in claim {
                    let (seq, claim) = (original.seq, original.claim);
                    part.push((seq, claim, by.make(original, None)));
                    if part.len() >= PART {
                        let full = std::mem::replace(&mut part, Vec::with_capacity(PART));
                        if outbox.send(full).is_err() {
                            return;
                        }
                    }
                }
                if !part.is_empty() && outbox.send(part).is_err() {
                    return;
                }
            }
        });
        Self { work, made }
    }
}

impl Maker {
    /// The copy of one letter.
    pub(super) fn make(&self, original: Original, pack: Option<fn(Message) -> Packed>) -> Copy {
        let Original { seq, frozen, letter, .. } = original;
        if !is_same(frozen, &letter) {
            return Copy::Changed;
        }
        let ready = |message: Message| match pack {
            Some(pack) => Ready { message: Message::default(), packed: Some(pack(message)) },
            None => Ready { message, packed: None },
        };
        let copy = copy::of_raw(&letter, &self.channel, (&self.run, seq), self.clock.now());
        Copy::Made(copy.map(ready).map_err(|prospect| prospect.refusal()))
    }
}

/// The SHA-256 that a line has in hex. One that is none is nobody's.
pub(super) fn frozen(hex: Option<&str>) -> Option<[u8; 32]> {
    let hex = hex?.as_bytes();
    let mut hash = [0; 32];
    let nibble = |digit: u8| char::from(digit).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
    for (byte, two) in hash.iter_mut().zip(hex.chunks_exact(2)) {
        match (nibble(two[0]), nibble(two[1])) {
            (Some(high), Some(low)) => *byte = (high << 4 | low) as u8,
            _ => return Some([0; 32]),
        }
    }
    Some(if hex.len() == 64 { hash } else { [0; 32] })
}

/// Is what was claimed what was frozen, by its body?
fn is_same(frozen: Option<[u8; 32]>, letter: &RawLetter) -> bool {
    use sha2::Digest;
    match (frozen, &letter.message.body) {
        (None, None) => true,
        (Some(frozen), Some(body)) => sha2::Sha256::digest(body)[..] == frozen,
        _ => false,
    }
}
