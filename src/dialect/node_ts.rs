//! The bus of node-ts on RabbitMQ. Its transport PUBLISHES the message to the dead-letter queue with the
//! `x-death` that it had: the retry queue stands first, and the last failure is not in it.

use super::x_death::Deaths;
use super::{Dialect, Look, Mark, Testimony, rabbitmq};
use crate::failure::{Death, Sureness};
use crate::letter::Header;

/// See the file's head.
pub(super) struct NodeTs;

impl Dialect for NodeTs {
    fn name(&self) -> &'static str {
        "node-ts-bus"
    }

    fn about(&self) -> &'static str {
        "the dead-letter queue of @node-ts/bus on RabbitMQ"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("stickyAttributes"), Mark::Field("$name")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        (headers.has("attributes") && headers.has("stickyAttributes") && letter.has_field("$name"))
            .then(|| (Sureness::Sure, "headers attributes and stickyAttributes, body field $name".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let deaths = Deaths::of(letter.headers()).unwrap_or_default();
        let newest = deaths.newest.and_then(|at| deaths.records.get(at));
        if newest.is_some_and(|record| !record.expired()) {
            // The broker dead-lettered it: then x-death is whole.
            return;
        }
        says.doubt("message", "the bus writes no error into the letter");
        let rejected = deaths.count(None, "rejected");
        says.attempts = rejected.checked_add(1);
        let mut last = Death { count: 1, ..Death::default() };
        if let Some(first) = deaths.origin().filter(|record| !record.expired()) {
            says.origin = Some(first.place());
            last.place = Some(first.place());
            says.deaths = deaths.failures().iter().map(|record| record.death()).collect();
        }
        says.deaths.push(last);
        says.overrules.push((rabbitmq::NAME, "x-death is the bus's copy: the last failure is not in it"));
    }

    fn owns(&self, _header: &Header) -> bool {
        // `x-death`, which the bus itself counts by, is taken off as the broker's.
        false
    }
}
