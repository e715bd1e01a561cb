//! The rules of a topology: one function each, in [`RULES`]. What only one broker asks for stands with that
//! broker (`Kind::check`); what a broker can do at all is asked by its capabilities.

mod abilities;
mod brokers;
mod channels;
mod tiers;

use super::{BrokerDecl, Channel, Topology};
use crate::broker::{BROKERS, Kind, kind_of};
use crate::diagnostic::Diagnostic;

/// One rule: looks at a topology and says what is wrong.
type Rule = fn(&Topology, &mut Vec<Diagnostic>);

/// Every rule.
static RULES: &[Rule] = &[
    brokers::default_is_declared,
    brokers::each_channel_has_one,
    brokers::scheme_is_known,
    brokers::kinds_own_rules,
    channels::name_fits_the_command_line,
    channels::name_has_no_look_alikes,
    channels::queues_have_one_meaning,
    channels::letters_outlive_a_tier,
    channels::alert_can_fire,
    channels::failure_forms_have_a_place,
    tiers::grow,
    abilities::delay_can_be_done,
    abilities::tiers_can_be_served,
    abilities::return_is_written,
    abilities::consumer_is_known,
    abilities::retention_is_kept,
];

/// All that is wrong with a topology.
pub fn check(topology: &Topology) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for rule in RULES {
        rule(topology, &mut found);
    }
    found
}

/// All that is wrong if the channels named go to this broker instead of theirs (`--broker`).
pub fn check_on(topology: &Topology, broker: &str, channels: &[&str]) -> Vec<Diagnostic> {
    let mut moved = topology.clone();
    for channel in moved.channels.iter_mut().filter(|channel| channels.contains(&channel.name.value.as_str()))
    {
        channel.broker = Some(super::At::nowhere(broker.to_owned()));
    }
    check(&moved)
}

/// Channels with their broker and its kind, where all three are known.
fn placed(topology: &Topology) -> impl Iterator<Item = (&Channel, &BrokerDecl, &'static dyn Kind)> {
    topology.channels.iter().filter_map(|channel| {
        let broker = topology.broker_of(channel)?;
        Some((channel, broker, kind_of(broker)?))
    })
}

/// The schemes that there are, for a help line.
fn schemes() -> String {
    BROKERS.iter().flat_map(|kind| kind.schemes()).copied().collect::<Vec<_>>().join(", ")
}
