//! Letters of a page as the dialects read them, beside the thread that fetches and the one that indexes.

use std::sync::Arc;

use sha2::Digest;
use tokio::task::JoinHandle;

use crate::clock::Time;
use crate::dead_letter::DeadLetter;
use crate::failure::Prospect;
use crate::letter::RawLetter;
use crate::selection::Selection;
use crate::topology::Channel;

/// See the file's head.
pub(super) struct ReadLetter {
    pub(super) letter: DeadLetter,
    /// Is it meant, if no manifest tells? `None`: it lacks a fact.
    pub(super) selected: Option<bool>,
    /// Why there can be no copy of it; asked of none that is not meant.
    pub(super) refused: Option<Prospect>,
    /// SHA-256.
    pub(super) body: Option<[u8; 32]>,
}

/// What they are read by.
pub(super) struct Rules {
    pub(super) channel: Channel,
    /// `None`: a manifest tells.
    pub(super) selection: Option<Selection>,
    pub(super) now: Time,
}

/// On a thread of its own.
pub(super) fn read(page: Vec<RawLetter>, rules: &Arc<Rules>) -> JoinHandle<Vec<ReadLetter>> {
    let rules = Arc::clone(rules);
    tokio::task::spawn_blocking(move || {
        let read = |raw: RawLetter| {
            let body = raw.message.body.as_ref().map(|body| <[u8; 32]>::from(sha2::Sha256::digest(body)));
            let letter = DeadLetter::of(raw, &rules.channel);
            let selected = match &rules.selection {
                Some(selection) => selection.selects(&letter, rules.now),
                None => Some(true),
            };
            let copied =
                (selected == Some(true)).then(|| crate::dialect::outgoing(&letter.raw, &letter.context));
            ReadLetter { letter, selected, refused: copied.and_then(Result::err), body }
        };
        page.into_iter().map(read).collect()
    })
}
