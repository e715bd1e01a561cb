//! Who else would see a message that is sent back: on a broker whose topics reach every reader, a target with
//! readers beside the channel's own consumer is refused unless the topology says `shared: true` (rule 9).

use super::{Chosen, CommandError};
use crate::broker::{Browse, ErrorKind, kind_of};
use crate::topology::{Channel, ReturnTo};

/// Holds back a mutation whose copies others would get too. Gives those who get them because that is meant, as far as
/// the broker tells; a topic of its own that nobody is said to read has no others.
///
/// # Errors
/// [4] with their names; [1] if the broker does not tell.
pub async fn guard(
    broker: &dyn Browse,
    chosen: Chosen<'_>,
    channel: &Channel,
) -> Result<Vec<String>, CommandError> {
    let fan_out = kind_of(chosen.decl).is_some_and(|kind| kind.capabilities(channel).fan_out);
    let own = channel.consumer.as_ref().map(|at| at.value.as_str());
    let named = match channel.return_to.as_ref().map(|at| &at.value) {
        Some(ReturnTo::Named(name)) => Some(name.as_str()),
        _ => None,
    };
    if !fan_out || named.is_some() && own.is_none() {
        return Ok(Vec::new());
    }
    let depths = match broker.depths(channel).await {
        Err(_) if channel.shared => return Ok(Vec::new()),
        // A topic of its own is safe as it is declared: who may not ask is not held back.
        Err(error) if named.is_some() && error.kind == ErrorKind::Denied => return Ok(Vec::new()),
        asked => asked.map_err(|error| CommandError::broker(chosen.name(), &error))?,
    };
    let mut others: Vec<String> = depths.readers.into_iter().map(|reader| reader.name).collect();
    others.retain(|name| Some(name.as_str()) != own);
    if others.is_empty() || channel.shared {
        return Ok(others);
    }
    let topic = named.unwrap_or(channel.source.value.as_str());
    Err(CommandError::refused(format!("{topic} is also read by {}", listed(&others)))
        .hint("They would get every message again. If that is meant, write shared: true into the channel;")
        .hint("else give it a return_to topic that only its own consumer reads. Then:")
        .next(["redrive", "check"]))
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
