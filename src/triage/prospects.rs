//! What a redrive would do to one letter, by the topology's rules and what its dialects say.

use serde::Serialize;

use crate::clock::{Time, exact};
use crate::dead_letter::DeadLetter;
use crate::dialect;
use crate::failure::Prospect;
use crate::stamp;
use crate::topology::Channel;

/// What would be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deed {
    /// Why it would not be sent, and the way round; `None`: it would.
    pub stays: Option<(String, String)>,
    /// The queue or topic it would go to.
    pub target: String,
    /// How it would be handled there, in words.
    pub start: String,
    /// Headers that redrive would add.
    pub adds: Vec<String>,
    /// How many headers and properties would travel, and how many stay behind.
    pub travel: usize,
    /// See `travel`.
    pub stay: usize,
}

/// What a redrive of `letter` to `target` would do.
pub fn deed(letter: &DeadLetter, channel: &Channel, target: &str, now: Time) -> Deed {
    let count = letter.redriven.saturating_add(1);
    let had = letter.raw.message.headers.len() + letter.raw.message.properties.len();
    let (mut stays, travel) = match dialect::outgoing(&letter.raw, &letter.context) {
        Ok(message) => (None, message.headers.len() + message.properties.len()),
        Err(prospect) => (Some(prospect.refusal_parts()), 0),
    };
    if stays.is_none() {
        stays = letter.context.expired(now).map(Prospect::refusal_parts);
    }
    let most = channel.redrive.max_redrives.value.get();
    if stays.is_none() && letter.context.value_unavailable {
        let why = "its body was lost when it was buried: sending it would write a tombstone".to_owned();
        stays = Some((why, "take the message from its origin".to_owned()));
    }
    if stays.is_none() && letter.redriven == u32::MAX {
        let why = format!("{} is no number that redrive wrote", stamp::COUNT);
        stays = Some((why, "find out who set it: how often it was redriven is not known".to_owned()));
    }
    if stays.is_none() && letter.redriven >= most {
        let why = format!("it was redriven {} already, {most} allowed", times(letter.redriven));
        stays = Some((why, "raise redrive.max_redrives once the cause is gone".to_owned()));
    }
    if stays.is_none()
        && let (Some(window), Some((died, _))) = (&channel.redrive.dedup_window, letter.died_at)
        && now.since(died) > window.value
    {
        let why = format!(
            "it died before the dedup_window of {}: consumers may have forgotten its id",
            exact(window.value)
        );
        stays = Some((why, "raise redrive.dedup_window if that is safe".to_owned()));
    }
    let counted = match letter.redriven {
        u32::MAX => stamp::COUNT.to_owned(),
        _ => format!("{} {count}", stamp::COUNT),
    };
    let mut adds = vec![stamp::RUN.to_owned(), counted, stamp::FROM.to_owned()];
    let headers = &letter.raw.message.headers;
    let origin = letter.context.origin.as_ref().is_some_and(|it| it.topic.is_some() || it.queue.is_some());
    if origin && !headers.has(stamp::ORIGIN) && !headers.has(stamp::DEATHS) {
        adds.push(stamp::ORIGIN.to_owned());
    }
    Deed {
        stays,
        target: target.to_owned(),
        start: start(letter, channel, target),
        adds,
        travel,
        stay: had.saturating_sub(travel),
    }
}

/// `once`, `twice`, `3 times`.
pub fn times(count: u32) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

fn start(letter: &DeadLetter, channel: &Channel, target: &str) -> String {
    // A letter that must go to the very queue that it would go to is nothing special.
    let is_usual = |prospect: &&Prospect| match prospect {
        Prospect::Afresh => true,
        Prospect::ToQueue { queue, .. } => queue == target,
        _ => false,
    };
    let worst = letter.context.prospects.iter().find(|prospect| !is_usual(prospect));
    match worst {
        Some(Prospect::OneTry { why }) => format!("one try only: {why}"),
        Some(Prospect::Refused { why, .. }) => why.clone(),
        Some(Prospect::Expires { at, why, .. }) => format!("until {at} only: {why}"),
        Some(Prospect::Pointer { at }) => format!("only a pointer: the payload is at {at}"),
        Some(Prospect::ToQueue { queue, why }) => format!("must go to the queue {queue}: {why}"),
        Some(Prospect::Afresh) | None => match channel.tiers.len() + 1 {
            1 => "afresh".to_owned(),
            tries => format!("afresh: {tries} tries"),
        },
    }
}
