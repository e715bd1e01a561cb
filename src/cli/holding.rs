//! One run per dead-letter queue: who holds it is told before anybody is asked, and the ledger's lock is taken when a run
//! begins.

use std::path::Path;

use super::sending::{LEASE, ledger_error};
use super::{CommandError, Context};
use crate::broker::{Broker, BrokerError, ErrorKind};
use crate::clock::rough;
use crate::ledger::{Holder, Ledger, Lock, process_start, this_host};
use crate::topology::Channel;

/// Takes the ledger's lock on a dead-letter queue.
///
/// # Errors
/// [4] with who holds it.
pub fn lock(
    ctx: &Context,
    ledger: &mut Ledger,
    key: &str,
    queue: &str,
    run: &str,
    owner: &str,
    take_over: bool,
) -> Result<Lock, CommandError> {
    let now = ctx.clock.now();
    let pid = std::process::id().cast_signed();
    let me = Holder {
        owner: owner.to_owned(),
        run: run.to_owned(),
        who: ctx.who.clone(),
        host: this_host(),
        pid,
        pid_start: process_start(pid).unwrap_or_default(),
        beat: now,
        lease_end: now,
    };
    let path = ledger.path().to_owned();
    match ledger.lock(key, &me, now, LEASE, take_over).map_err(|error| ledger_error(&path, &error))? {
        Ok(lock) => Ok(lock),
        Err(holder) => Err(held_by(ctx, queue, &holder)),
    }
}

fn held_by(ctx: &Context, queue: &str, holder: &Holder) -> CommandError {
    CommandError::refused(format!(
        "{queue} is held by run {} of {}, last seen {} ago",
        holder.run,
        holder.who,
        rough(ctx.clock.now().since(holder.beat))
    ))
    .hint(format!(
        "One run per dead-letter queue; a dead holder loses it after {}. --take-over takes it now.",
        rough(LEASE)
    ))
    .next(ctx.command(&["runs", "show", &holder.run]))
}

/// Nobody is asked about a run that another one keeps out, by the ledger or by the broker. One may begin yet until this
/// one takes the lock, which has the last word.
///
/// # Errors
/// [4] with who holds it.
pub async fn is_free(
    ctx: &Context,
    broker: &dyn Broker,
    channel: &Channel,
    path: &Path,
    (key, queue): (&str, &str),
    take_over: bool,
) -> Result<(), CommandError> {
    let told = |error| ledger_error(path, &error);
    let held = match take_over {
        true => None,
        false => match Ledger::look(path).map_err(told)? {
            Some(ledger) => ledger.holder(key).map_err(told)?,
            None => None,
        },
    };
    if let Some(holder) = held.filter(|holder| holder.lease_end > ctx.clock.now()) {
        return Err(held_by(ctx, queue, &holder));
    }
    match broker.is_free(channel, take_over).await {
        Err(error) if error.kind == ErrorKind::Locked => Err(held_at_broker(ctx, &error)),
        // What else is wrong is told by who takes the lock.
        _ => Ok(()),
    }
}

/// Refused with what the broker says of who holds it.
pub fn held_at_broker(ctx: &Context, error: &BrokerError) -> CommandError {
    let usual = "One run per dead-letter queue. --take-over takes it from a holder that may be alive.";
    CommandError::refused(error.message.clone())
        .hint(error.hint.as_deref().unwrap_or(usual))
        .next(ctx.command(&["runs", "list"]))
}
