//! Rebus: one error queue for many endpoints. The failure is one text, cut to a set length.

use super::{Dialect, Look, Mark, Testimony, thrown};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::Header;

const DETAILS: &str = "rbs2-error-details";
const SOURCE: &str = "rbs2-source-queue";

/// See the file's head.
pub(super) struct Rebus;

impl Dialect for Rebus {
    fn name(&self) -> &'static str {
        "rebus"
    }

    fn about(&self) -> &'static str {
        "Rebus's error queue"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(DETAILS), Mark::Header(SOURCE)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        [DETAILS, SOURCE]
            .into_iter()
            .find(|name| letter.headers().has(name))
            .map(|name| (Sureness::Sure, format!("header {name}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        let queue = headers.last_text(SOURCE).filter(|queue| !queue.is_empty());
        says.origin = queue.map(|queue| Origin { queue: Some(queue.to_owned()), ..Origin::default() });
        says.event_id = headers.last_text("rbs2-msg-id").map(str::to_owned);
        let mut death = Death { place: says.origin.clone(), count: 1, ..Death::default() };
        match says.text("message", DETAILS, headers.last(DETAILS)) {
            Some(details) => {
                thrown::put(&mut death, &details, |_| false);
                if let Some(tries) = unhandled(death.message.as_deref().unwrap_or(&details)) {
                    says.attempts = Some(tries);
                    // The aggregate only counts: what the handler said is the cause's message.
                    death.message = death.root_message.take();
                }
            }
            None => says.doubt("message", "there is no rbs2-error-details"),
        }
        says.deaths = vec![death];
        if let Some(queue) = queue {
            says.prospect(Prospect::ToQueue {
                queue: queue.to_owned(),
                why: "one error queue serves many endpoints".to_owned(),
            });
        }
    }

    fn owns(&self, header: &Header) -> bool {
        matches!(header.name.as_str(), DETAILS | SOURCE | "rbs2-delivery-count" | "rbs2-defer-count")
    }
}

/// `5 unhandled exceptions (…`, also behind the class.
fn unhandled(text: &str) -> Option<u32> {
    let (before, _) = text.split_once(" unhandled exception")?;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
