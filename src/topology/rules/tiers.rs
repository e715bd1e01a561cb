//! The waits of a channel among themselves.

use super::super::{Topology, codes};
use crate::clock;
use crate::diagnostic::Diagnostic;

/// Each tier waits longer than the one before (Y05).
pub(super) fn grow(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for channel in &topology.channels {
        for (index, tier) in channel.tiers.iter().enumerate() {
            let delay = clock::exact(tier.delay.value);
            if let Some(at) =
                channel.tiers[..index].iter().position(|other| other.delay.value == tier.delay.value)
            {
                found.push(
                    Diagnostic::error(
                        codes::TIERS_SAME,
                        format!("tiers {} and {} both wait {delay}", at + 1, index + 1),
                    )
                    .at(tier.delay.span.clone(), "again here")
                    .near(channel.tiers[at].delay.span.clone(), "first here")
                    .help("take one away, or let it wait longer"),
                );
            } else if let Some(before) = index.checked_sub(1).map(|before| &channel.tiers[before])
                && before.delay.value > tier.delay.value
            {
                found.push(
                    Diagnostic::error(
                        codes::TIERS_ORDER,
                        format!("tier {} waits less than the one before it", index + 1),
                    )
                    .at(tier.delay.span.clone(), delay)
                    .near(before.delay.span.clone(), clock::exact(before.delay.value))
                    .help("write the shortest wait first"),
                );
            }
        }
    }
}
