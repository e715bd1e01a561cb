//! Who else would see a message that is sent back: on a broker whose topics reach every reader, a target with
//! readers beside the channel's own consumer is refused unless the topology says `shared: true` (rule 9).

use super::{CommandError, Target};
use crate::broker::{Browse, kind_of};
use crate::topology::{Channel, ReturnTo};

/// Holds back a mutation whose copies others would get too.
///
/// # Errors
/// [4] with their names; [1] if the broker does not tell.
pub async fn guard(broker: &dyn Browse, target: &Target<'_>, channel: &Channel) -> Result<(), CommandError> {
    let fan_out = kind_of(target.broker.decl).is_some_and(|kind| kind.capabilities(channel).fan_out);
    let to_source = !matches!(channel.return_to.as_ref().map(|at| &at.value), Some(ReturnTo::Named(_)));
    if !fan_out || !to_source || channel.shared {
        return Ok(());
    }
    let depths =
        broker.depths(channel).await.map_err(|error| CommandError::broker(target.broker.name(), &error))?;
    let own = channel.consumer.as_ref().map(|at| at.value.as_str());
    let others: Vec<&str> =
        depths.readers.iter().map(|reader| reader.name.as_str()).filter(|name| Some(*name) != own).collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!("{} is also read by {}", channel.source.value, listed(&others)))
        .hint("They would get every message again. If that is meant, write shared: true into the channel;")
        .hint("else give it a return_to topic that only its own consumer reads. Then:")
        .next(["redrive", "check"]))
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
