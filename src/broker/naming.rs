//! Names of a channel's queues: lowered from channel and tier unless written out, and where each comes from
//! in the file, so that a rule about a name can point at it.

use std::ops::Range;

use super::Names;
use crate::topology::{Channel, ReturnTo};

/// The names of a channel's queues; `lower` makes one of a base and a suffix (`retry-5s`, `dlq`). Written
/// names are literal.
pub(super) fn lowered(channel: &Channel, lower: impl Fn(&str, &str) -> String) -> Names {
    let base = channel.name.value.as_str();
    let source = channel.source.value.clone();
    let tier = |tier: &crate::topology::Tier| {
        if tier.name_written { tier.name.value.clone() } else { lower(base, &tier.name.value) }
    };
    let dead_letter = channel.dead_letter.name.as_ref();
    Names {
        tiers: channel.tiers.iter().map(tier).collect(),
        dead_letter: dead_letter.map_or_else(|| lower(base, "dlq"), |name| name.value.clone()),
        return_to: match channel.return_to.as_ref().map(|to| &to.value) {
            Some(ReturnTo::Named(name)) => name.clone(),
            Some(ReturnTo::Source) | None => source.clone(),
        },
        source,
    }
}

/// One name and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// On the broker.
    pub name: String,
    /// What to underline: the name itself, or the channel that it was lowered from.
    pub span: Range<usize>,
    /// `source`, `tier`, `dead-letter queue`, `return target`.
    pub part: &'static str,
    /// Written out, not lowered.
    pub written: bool,
}

impl Placed {
    /// What to write under the name.
    pub fn label(&self, text: &str) -> String {
        if self.written {
            text.to_owned()
        } else {
            format!("makes the {} `{}`: {text}", self.part, self.name)
        }
    }
}

/// The names of a channel with their places; the return target only if it is not the source.
pub(crate) fn placed(channel: &Channel, names: &Names) -> Vec<Placed> {
    let mut all = vec![Placed {
        name: names.source.clone(),
        span: channel.source.span.clone(),
        part: "source",
        written: true,
    }];
    for (tier, name) in channel.tiers.iter().zip(&names.tiers) {
        all.push(Placed {
            name: name.clone(),
            span: if tier.name_written { tier.name.span.clone() } else { channel.name.span.clone() },
            part: "tier",
            written: tier.name_written,
        });
    }
    let dead_letter = channel.dead_letter.name.as_ref();
    all.push(Placed {
        name: names.dead_letter.clone(),
        span: dead_letter.map_or_else(|| channel.name.span.clone(), |name| name.span.clone()),
        part: "dead-letter queue",
        written: dead_letter.is_some(),
    });
    if let Some(target) = channel.return_to.as_ref().filter(|_| names.return_to != names.source) {
        all.push(Placed {
            name: names.return_to.clone(),
            span: target.span.clone(),
            part: "return target",
            written: true,
        });
    }
    all
}

/// Letters of a name outside `allowed`, as people need them: the letter, its code point, its position from 1.
/// Look-alikes are told apart by the code point (N05).
pub(crate) fn strangers(name: &str, allowed: impl Fn(char) -> bool) -> Option<String> {
    let found: Vec<String> = name
        .chars()
        .enumerate()
        .filter(|(_, letter)| !allowed(*letter))
        .map(|(at, letter)| match letter {
            ' ' => format!("a blank at {}", at + 1),
            _ if letter.is_ascii_graphic() => format!("`{letter}` at {}", at + 1),
            _ => format!("`{letter}` U+{:04X} at {}", u32::from(letter), at + 1),
        })
        .collect();
    match found.len() {
        0 => None,
        1..=4 => Some(found.join(", ")),
        more => Some(format!("{} and {} more", found[..4].join(", "), more - 4)),
    }
}
