//! The frozen selection: JSON lines, a head, a line per letter, a foot. What was shown is what is sent.
//!
//! A manifest lies in a file that anybody may have changed: it is read as hostile input, and each line
//! carries a checksum so that a changed one is named by its number.

mod read;
mod write;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use read::{Fault, Reader};
pub use write::Writer;

use crate::clock::Time;
use crate::letter::{LetterId, Position};

/// Schema of what this version writes.
pub const SCHEMA: &str = "redrive.manifest.v1";
/// Most bytes of one line.
pub const LINE_MAX: usize = 32 * 1024;
/// Most bytes of an event id or a group in a manifest; a longer one is cut.
pub const TEXT_MAX: usize = 1024;
/// Most bytes of a text of the head: a longer reason is refused before anything is done.
pub const HEAD_TEXT_MAX: usize = 4 * TEXT_MAX;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the tool that wrote it.
    pub tool: String,
    /// Channel.
    pub channel: String,
    /// Broker, by its name in the topology.
    pub broker: String,
    /// Dead-letter queue.
    pub queue: String,
    /// The broker's identity of the snapshot.
    pub snapshot: String,
    /// Where it is to be sent; checked against the topology before anything is.
    pub target: String,
    /// `50/s`, `10/m`, `unlimited`.
    pub rate: String,
    /// Order within groups, or none.
    pub order: OrderPolicy,
    /// By which flags letters are judged; a head that has none of them was frozen without.
    #[serde(default, skip_serializing_if = "Judged::is_plain")]
    pub judged: Judged,
    /// Why.
    pub reason: String,
    /// Who: `mira@ops-2`.
    pub by: String,
    /// When.
    pub at: Time,
    /// The selection as flags.
    pub selection: String,
}

impl Head {
    /// Is every text of it short enough to be read again?
    fn fits(&self) -> bool {
        [&self.channel, &self.broker, &self.queue, &self.target, &self.reason, &self.by]
            .iter()
            .all(|text| text.len() <= HEAD_TEXT_MAX)
    }
}

/// The flags that change what is sent of a selection, beside its order. They are frozen with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Judged {
    /// `--dedupe`.
    pub dedupe: bool,
    /// `--past-dedup-window`.
    pub past_dedup_window: bool,
    /// `--any-origin`.
    pub any_origin: bool,
    /// `--moved-before`.
    pub moved_before: bool,
    /// `--skip-overtaken`.
    pub skip_overtaken: bool,
}

impl Judged {
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// `--order`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderPolicy {
    /// Origin order within each group.
    #[default]
    Group,
    /// None, typed out.
    None,
}

/// Why a letter of the selection is not sent, as known before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Skipped: a dialect says that it must not be sent.
    Refused,
    /// Skipped: it died in another queue than the channel's.
    OtherOrigin,
    /// Skipped: redriven as often as allowed (rule 6).
    MaxRedrives,
    /// Skipped: older than the consumers' memory of ids (rule 6).
    DedupWindow,
    /// Skipped: larger than the broker takes.
    TooLarge,
    /// Skipped: its ordering key was lost.
    NoGroup,
    /// Skipped: not in the queue any more.
    Gone,
    /// Skipped: its body is not what it was when it was selected.
    Changed,
    /// Held: another run left it open (m17).
    OpenElsewhere,
    /// Held: another letter has its event id and another body.
    Conflict,
    /// Held: an earlier letter of its group stays.
    Behind,
    /// Skipped: an earlier run moved it; its original was handed out again after it had been deleted.
    MovedBefore,
    /// Skipped: a later message of its group is where it died (K38).
    Overtaken,
}

impl Why {
    /// Every reason.
    pub const ALL: [Self; 13] = [
        Self::Refused,
        Self::OtherOrigin,
        Self::MaxRedrives,
        Self::DedupWindow,
        Self::TooLarge,
        Self::NoGroup,
        Self::Gone,
        Self::Changed,
        Self::OpenElsewhere,
        Self::Conflict,
        Self::Behind,
        Self::MovedBefore,
        Self::Overtaken,
    ];

    /// Is the letter held, rather than skipped?
    pub fn holds(self) -> bool {
        matches!(self, Self::OpenElsewhere | Self::Conflict | Self::Behind)
    }

    /// The word in JSON and in the ledger.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::OtherOrigin => "other_origin",
            Self::MaxRedrives => "max_redrives",
            Self::DedupWindow => "dedup_window",
            Self::TooLarge => "too_large",
            Self::NoGroup => "no_group",
            Self::Gone => "gone",
            Self::Changed => "changed",
            Self::OpenElsewhere => "open_elsewhere",
            Self::Conflict => "conflict",
            Self::Behind => "behind",
            Self::MovedBefore => "moved_before",
            Self::Overtaken => "overtaken",
        }
    }
}

/// A letter that a rule keeps, as known before the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Why.
    pub why: Why,
    /// The letter that it waits for, or conflicts with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letter: Option<LetterId>,
    /// More, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// One letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number, from 1; within a group in origin order.
    pub seq: u64,
    /// What people type.
    pub letter: LetterId,
    /// What finds it again, and its full identity (protocol §7).
    pub position: Position,
    /// Business identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Ordering key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Fingerprint of the failure.
    pub cause: String,
    /// SHA-256 of the body, hex; `None` is a null body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Bytes of key, headers and body.
    pub size: u64,
    /// Why it is not sent, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// An equal letter that is sent for this one too (`--dedupe`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_of: Option<u64>,
    /// Others have this one as their `twin_of`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twins: bool,
}

/// The last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foot {
    /// [`SCHEMA`].
    pub end: String,
    /// Letters.
    pub count: u64,
    /// SHA-256 of all bytes before this line, hex.
    pub sha256: String,
}

/// Eight hex digits over one line.
fn check_of(line: &[u8]) -> [u8; 8] {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(line);
    let mut check = [0; 8];
    for (index, byte) in digest.iter().take(4).enumerate() {
        check[2 * index] = HEX[usize::from(byte >> 4)];
        check[2 * index + 1] = HEX[usize::from(byte & 15)];
    }
    check
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    crate::letter::push_hex(&mut text, bytes);
    text
}

/// Text cut to [`TEXT_MAX`] bytes at a character.
pub fn bounded(text: &str) -> &str {
    if text.len() <= TEXT_MAX {
        return text;
    }
    let mut end = TEXT_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An event id or group as it is compared and kept: one that is too long ends in the hash of all of it, so that two of
/// them never look the same for what is cut off.
pub fn told_apart(text: &str) -> Cow<'_, str> {
    use sha2::Digest;
    const HASH: usize = 64;
    if text.len() <= TEXT_MAX {
        return Cow::Borrowed(text);
    }
    let mut end = TEXT_MAX - HASH - 1;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}#{}", &text[..end], hex(&sha2::Sha256::digest(text))))
}

#[cfg(test)]
mod tests;
