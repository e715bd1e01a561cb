//! Rascal: the header table `rascal` holds where a message came from and the error of the try after which it
//! was republished. Its republish goes straight to the queue, so `x-death` names that hop.
//!
//! `recovery.<queue>.immediateNack` makes Rascal nack the letter at once, without a call of the handler: the
//! recovery state stays behind, the rest of the table travels, since it restores the first routing key.

use super::{Buried, Dialect, Look, Mark, Testimony, x_death};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::{Header, Message, Value};

const NAME: &str = "rascal";
/// What of the table is about the failure.
const OWN: &[&str] = &["recovery", "error", "redeliveries"];

/// See the file's head.
pub(super) struct Rascal;

impl Dialect for Rascal {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Rascal's recovery strategies: republish, forward, immediate nack"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(NAME)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let table = letter.headers().last(NAME)?;
        table.get("originalQueue")?;
        Some((Sureness::Sure, "header rascal".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let Some(table) = letter.headers().last(NAME) else { return };
        let text = |name: &str| table.get(name).and_then(Value::text).map(str::to_owned);
        let origin = Origin {
            queue: text("originalQueue"),
            exchange: text("originalExchange"),
            routing_key: text("originalRoutingKey"),
            ..Origin::default()
        };
        let nacked = letter.headers().has(x_death::NAME);
        says.buried = if nacked { Buried::ByBroker } else { Buried::ByFramework };
        let recovery = origin.queue.as_deref().and_then(|queue| table.get("recovery")?.get(queue));
        let error = table.get("error");
        let message = error.and_then(|error| error.get("message")).and_then(Value::text);
        says.deaths = vec![Death {
            place: Some(origin.clone()),
            message: message.map(str::to_owned),
            count: 1,
            ..Death::default()
        }];
        says.origin = Some(origin);
        says.attempts = recovery.and_then(|recovery| tries(recovery, says));
        let immediate = recovery.and_then(|recovery| recovery.get("immediateNack")).is_some();
        if nacked && message.is_some() && !immediate {
            says.doubt("message", "the error is of the try before the last: Rascal notes it on republishing");
        }
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }

    fn restore(&self, _letter: &Look<'_>, message: &mut Message) -> Result<(), Prospect> {
        let without_own = |header: Header| match header.value {
            Value::Table(entries) if header.name == NAME => {
                let kept = entries.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
                (header.name, Value::Table(kept.collect()))
            }
            value => (header.name, value),
        };
        message.headers = std::mem::take(&mut message.headers).into_iter().map(without_own).collect();
        Ok(())
    }
}

/// Republishes and the try that ended it. An immediate nack has overwritten the count.
fn tries(recovery: &Value, says: &mut Testimony) -> Option<u32> {
    if recovery.get("immediateNack").is_some() {
        says.doubt("attempts", "Rascal overwrote the count when it nacked at once");
        return None;
    }
    let republished = recovery.get("republished").map_or(Some(0), Value::integer_or_digits)?;
    u32::try_from(republished).ok()?.checked_add(1)
}
