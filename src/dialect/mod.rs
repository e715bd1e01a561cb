//! How other systems write down why a message died: one file each, one line in [`DIALECTS`].
//!
//! A dialect recognises its own letters, reads what they say, names the headers that must not travel back,
//! and says what a redrive would do. It knows no broker, YAML or terminal.

mod native;

use crate::failure::{FailureContext, Prospect, Reading, Sureness};
use crate::letter::{Header, Message, RawLetter};

/// One writer of dead letters.
pub trait Dialect: Sync {
    /// The word in output, tests and docs: `spring-kafka`.
    fn name(&self) -> &'static str;

    /// One line for `explain dialects`: who writes it, and where.
    fn about(&self) -> &'static str;

    /// The headers (or body fields) that it reads, for `explain dialects`.
    fn marks(&self) -> &'static [&'static str];

    /// Is this letter its own, how surely, and by what mark? `None`: no.
    fn recognise(&self, letter: &RawLetter) -> Option<(Sureness, String)>;

    /// Reads the letter. Called only if recognised. Fills what earlier, more specific dialects left open
    /// (`context` holds what they said) and never overwrites a fact.
    fn read(&self, letter: &RawLetter, context: &mut FailureContext);

    /// Is this header the failing framework's or broker's own bookkeeping, which must stay behind on a
    /// redrive? A left-over attempt counter sends a letter straight back (K05).
    fn owns(&self, header: &Header) -> bool;

    /// The same for a broker property (`expiration`, `user_id`).
    fn owns_property(&self, _property: &Header) -> bool {
        false
    }

    /// Takes the original message out of an envelope, or mends what must be mended, after the bookkeeping
    /// is gone. `Err` names why the letter must not be sent.
    fn restore(&self, _letter: &RawLetter, _message: &mut Message) -> Result<(), Prospect> {
        Ok(())
    }
}

/// Every dialect, specific before general.
pub static DIALECTS: &[&dyn Dialect] = &[&native::Native];

/// Reads a letter with every dialect that recognises it, the surest first.
pub fn read(letter: &RawLetter) -> FailureContext {
    let mut context = FailureContext::default();
    let mut spoken: Vec<(&'static dyn Dialect, Sureness, String)> = DIALECTS
        .iter()
        .filter_map(|dialect| dialect.recognise(letter).map(|(sure, why)| (*dialect, sure, why)))
        .collect();
    spoken.sort_by_key(|(_, sure, _)| std::cmp::Reverse(*sure));
    for (dialect, sureness, why) in spoken {
        dialect.read(letter, &mut context);
        context.readings.push(Reading { dialect: dialect.name(), sureness, why });
    }
    context
}

/// Does this header stay behind when the letter is sent back, and whose is it?
pub fn stays_behind(header: &Header, readings: &[Reading]) -> Option<&'static str> {
    speaking(readings).find(|dialect| dialect.owns(header)).map(|dialect| dialect.name())
}

/// The message as it goes back: bookkeeping off, envelope open. The caller adds redrive's own headers.
///
/// # Errors
/// The prospect that forbids sending: what would happen, and the way round.
pub fn outgoing(letter: &RawLetter, context: &FailureContext) -> Result<Message, Prospect> {
    if let Some(refused) = context.prospects.iter().find(|p| matches!(p, Prospect::Refused { .. })) {
        return Err(refused.clone());
    }
    let mut message = letter.message.clone();
    message.headers.retain(|header| !speaking(&context.readings).any(|dialect| dialect.owns(header)));
    message
        .properties
        .retain(|property| !speaking(&context.readings).any(|dialect| dialect.owns_property(property)));
    for dialect in speaking(&context.readings) {
        dialect.restore(letter, &mut message)?;
    }
    Ok(message)
}

/// The native dialect always has a say over its own headers, the others if they recognised the letter.
fn speaking(readings: &[Reading]) -> impl Iterator<Item = &'static dyn Dialect> + '_ {
    DIALECTS
        .iter()
        .copied()
        .filter(|d| d.name() == native::NAME || readings.iter().any(|reading| reading.dialect == d.name()))
}
