//! Which broker a channel goes to, and whether there is such a broker.

use super::super::{At, Topology, codes, nearest::nearest};
use super::schemes;
use crate::broker::kind_of;
use crate::diagnostic::Diagnostic;

fn undeclared(topology: &Topology, name: &At<String>) -> Option<Diagnostic> {
    if topology.broker(&name.value).is_some() || topology.brokers.is_empty() {
        return None;
    }
    let names = || topology.brokers.iter().map(|broker| broker.name.value.as_str());
    let problem = Diagnostic::error(codes::NO_SUCH_BROKER, format!("no broker is called `{}`", name.value))
        .at(name.span.clone(), "not under brokers:");
    Some(match nearest(&name.value, names()) {
        Some(near) => problem.help(format!("did you mean {near}?")),
        None => problem.help(format!("brokers: {}", names().collect::<Vec<_>>().join(", "))),
    })
}

pub(super) fn default_is_declared(topology: &Topology, found: &mut Vec<Diagnostic>) {
    found.extend(topology.default_broker.as_ref().and_then(|name| undeclared(topology, name)));
}

pub(super) fn each_channel_has_one(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for channel in &topology.channels {
        match &channel.broker {
            Some(name) => found.extend(undeclared(topology, name)),
            None if topology.default_broker.is_none() && topology.brokers.len() > 1 => {
                let names: Vec<&str> =
                    topology.brokers.iter().map(|broker| broker.name.value.as_str()).collect();
                found.push(
                    // No error: `--broker` may choose one, and a verb that is not told which ends with 2.
                    Diagnostic::warning(
                        codes::WHICH_BROKER,
                        format!("channel `{}` does not say its broker", channel.name.value),
                    )
                    .at(channel.name.span.clone(), "which one?")
                    .help(format!(
                        "write broker: in the channel, or default_broker: above, or name one with --broker; brokers: {}",
                        names.join(", ")
                    )),
                );
            }
            None => {}
        }
    }
}

pub(super) fn scheme_is_known(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for broker in &topology.brokers {
        if broker.url.value.is_empty() || kind_of(broker).is_some() {
            continue;
        }
        // A whole url from a variable that is not set cannot be judged.
        if broker.url.value.starts_with("${") {
            continue;
        }
        let problem = match broker.scheme() {
            "" => {
                Diagnostic::error(codes::SCHEME, format!("the url of `{}` has no scheme", broker.name.value))
            }
            scheme => Diagnostic::error(codes::SCHEME, format!("no broker has the scheme `{scheme}`")),
        };
        let near =
            nearest(broker.scheme(), crate::broker::BROKERS.iter().flat_map(|kind| kind.schemes()).copied());
        let problem = problem.at(broker.url.span.clone(), "cannot be used");
        found.push(match near {
            Some(near) => problem.help(format!("did you mean {near}?")),
            None => problem.help(format!("schemes: {}", schemes())),
        });
    }
}

pub(super) fn kinds_own_rules(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for broker in &topology.brokers {
        let Some(kind) = kind_of(broker) else { continue };
        let channels: Vec<_> = topology
            .channels
            .iter()
            .filter(|channel| topology.broker_of(channel).is_some_and(|its| its.name == broker.name))
            .collect();
        found.extend(kind.check(topology, broker, &channels));
    }
}
