//! A dead-letter queue may pass its own letters on after so many receives, and a look is one (S24): the look or run
//! that would do that is refused. What an earlier look saw is remembered beside the depths of `status`.

use super::memory::Memory;
use super::{Chosen, CommandError, Context};
use crate::broker::{Browse, PassesOn};
use crate::topology::Channel;

/// Refuses to receive what an earlier look has brought to its last receive.
///
/// # Errors
/// [4] with the way out. [1]: the broker.
pub async fn guard(
    ctx: &mut Context,
    broker: &dyn Browse,
    chosen: Chosen<'_>,
    channel: &Channel,
) -> Result<Option<PassesOn>, CommandError> {
    let passes = ctx.answer_of(chosen, broker.whereabouts(), broker.passes_on(channel)).await;
    let passes = passes.map_err(|error| CommandError::broker(chosen.name(), &error))?;
    if let Some(passes) = passes.as_ref().filter(|passes| passes.letters > 0)
        && let Some(letters) = Memory::read().spent(&passes.identity, passes.after)
    {
        return Err(refused(ctx, channel, passes, letters));
    }
    Ok(passes)
}

/// Remembers what a look has brought the letters to.
pub fn remember(ctx: &Context, passes: Option<&PassesOn>, spent: u64) {
    let Some(passes) = passes else { return };
    let mut memory = Memory::read();
    memory.note_spent(&passes.identity, spent, passes.after, ctx.clock.now());
    memory.write();
}

/// Refuses a run whose own look has brought letters to their last receive: taking them would be one more.
///
/// # Errors
/// [4] with the way out.
pub fn may_claim(
    ctx: &Context,
    channel: &Channel,
    passes: Option<&PassesOn>,
    spent: u64,
) -> Result<(), CommandError> {
    match passes {
        Some(passes) if spent > 0 => Err(refused(ctx, channel, passes, spent)),
        _ => Ok(()),
    }
}

fn refused(ctx: &Context, channel: &Channel, passes: &PassesOn, letters: u64) -> CommandError {
    let (were, them) = if letters == 1 { ("was", "it") } else { ("were", "them") };
    CommandError::refused(format!(
        "{} of {} {were} received {} times, as often as its redrive policy allows: one more look or run would move \
         {them} on to {}",
        crate::broker::letters(letters, "", ""),
        passes.queue,
        passes.after,
        passes.to
    ))
    .hint(format!(
        "Raise maxReceiveCount in the redrive policy of {}, or take the policy off; then do this again.",
        passes.queue
    ))
    .next(ctx.command(&["status", &channel.name.value]))
}
