//! Letters that another run has left open, asked about again under the lock: between the look and the lock, a prompt
//! long, that run may have ended or died. From then on none can.

use std::collections::HashMap;

use super::sending::{ledger_error, prepare_error};
use super::{Chosen, CommandError};
use crate::ledger::Ledger;
use crate::run::prepare::Prepared;

/// What was looked at.
pub struct Looked<'a> {
    /// Key of the dead-letter queue.
    pub key: &'a str,
    /// Its name.
    pub queue: &'a str,
    /// What was open then.
    pub open: &'a HashMap<String, String>,
    /// What is to be sent.
    pub prepared: &'a Prepared,
}

/// Refuses to send what may have arrived since it was looked at (m17). `again`: the command, which leaves it out.
///
/// # Errors
/// [4]: some were left open since; [1]: the ledger cannot be asked.
pub fn refuse_since(
    ledger: &Ledger,
    looked: &Looked<'_>,
    chosen: Chosen<'_>,
    again: &[String],
) -> Result<(), CommandError> {
    let open = ledger.open_elsewhere(looked.key);
    let mut open = open.map_err(|error| ledger_error(ledger.path(), &error))?;
    open.retain(|(position, _)| !looked.open.contains_key(position));
    let Some((_, run)) = open.first() else { return Ok(()) };
    let letters = looked.prepared.to_send_at(open.iter().map(|(position, _)| position.as_str()));
    let (were, they) = match letters.map_err(|error| prepare_error(chosen, &error))? {
        0 => return Ok(()),
        1 => ("1 of these letters was".to_owned(), "it"),
        letters => (format!("{letters} of these letters were"), "they"),
    };
    let queue = looked.queue;
    Err(CommandError::refused(format!("{were} left open by run {run} since {queue} was looked at"))
        .hint(format!("Nothing was sent: {they} may have arrived. To look again, and leave that to its run:"))
        .next(again.to_vec()))
}
