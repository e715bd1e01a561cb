//! BunnyBus: `<queue>_error`. It names neither queue nor route key nor error, and its routing makes a redrive
//! lose messages: without a header `routeKey` and a body field `event` it takes the routing key, which is the
//! queue's name after a redrive, finds no handler, and acknowledges.

use super::{Dialect, Look, Mark, Testimony, when};
use crate::failure::{Death, Prospect, Sureness};
use crate::letter::{Header, Value};

/// See the file's head.
pub(super) struct BunnyBus;

impl Dialect for BunnyBus {
    fn name(&self) -> &'static str {
        "bunnybus"
    }

    fn about(&self) -> &'static str {
        "BunnyBus's `<queue>_error`"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("bunnyBus")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        letter.headers().has("bunnyBus").then(|| (Sureness::Sure, "header bunnyBus".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let at = headers.last("erroredAt").and_then(when::of);
        says.deaths = vec![Death { at, count: 1, ..Death::default() }];
        says.doubt("attempts", "`retryCount` counts requeues, not tries");
        if let Some(queue) = letter.facts.queue.strip_suffix("_error") {
            says.doubt("origin.queue", format!("not in the letter; by the name of its queue, `{queue}`"));
        }
        if !routes_itself(letter) {
            says.prospect(Prospect::Refused {
                why: "the letter does not name its route key: BunnyBus would find no handler for it and \
                      acknowledge it, and it would be gone"
                    .to_owned(),
                way_round: "publish it with BunnyBus itself under its route key, or to the application's \
                            exchange with that key"
                    .to_owned(),
            });
        }
    }

    fn owns(&self, header: &Header) -> bool {
        // At its limit the counter sends the letter straight back, without a call of the handler.
        matches!(header.name.as_str(), "retryCount" | "erroredAt" | "requeuedAt")
    }
}

/// Does BunnyBus find the handler by something that travels with the message?
fn routes_itself(letter: &Look<'_>) -> bool {
    let headers = letter.headers();
    if headers.last_text("routeKey").is_some_and(|key| !key.is_empty()) {
        return true;
    }
    let is_buffer = headers.last("isBuffer") == Some(&Value::Bool(true));
    !is_buffer && letter.field("event").is_some_and(|event| !event.is_empty())
}
