//! Rebus: one error queue for many endpoints. The failure is one text, cut to a set length: a count, then
//! each exception behind the time at which it was caught, in the culture of the machine. A letter that the
//! application put away itself has the exception alone, behind its own message.

use super::{Dialect, Look, Mark, Testimony, thrown};
use crate::failure::stack::{self, Language};
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
                says.attempts = details.lines().next().and_then(unhandled);
                let own = without_list(&details);
                thrown::put(&mut death, Language::DotNet, own, |_| false);
                if death.message.as_deref().and_then(unhandled).is_some() {
                    // The aggregate only counts: what the handler said is the message of its cause.
                    let links = stack::chain_in(Language::DotNet, own);
                    let thrown = stack::behind_in(&links, |class| class == "System.AggregateException");
                    death.message = thrown.and_then(|link| link.message).map(str::to_owned);
                    death.root_message =
                        death.root_message.filter(|words| Some(words) != death.message.as_ref());
                }
                death.stack = Some(details);
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

/// `5 unhandled exceptions: 3/1/2026 12:00:00 PM +00:00: System.X: …` and so on, one behind the other: the
/// last, which was caught last, as a trace of its own. The last may have been cut to nothing.
fn without_list(details: &str) -> &str {
    let Some((head, rest)) = details.split_once(" unhandled exceptions: ") else {
        return without_own_message(details);
    };
    if head.is_empty() || !head.bytes().all(|b| b.is_ascii_digit()) {
        return without_own_message(details);
    }
    let mut at = rest.len();
    while let Some(newline) = rest[..at].rfind('\n') {
        if let Some(trace) = behind_time(&rest[newline + 1..]).filter(|trace| trace.contains(": ")) {
            return trace;
        }
        at = newline;
    }
    behind_time(rest).unwrap_or(rest)
}

/// What follows a time with its zone: `01.03.2026 12:00:00 +00:00: `, `3/1/2026 12:00:00 PM +00:00: `.
fn behind_time(line: &str) -> Option<&str> {
    const LONGEST: usize = 64;
    if !line.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut end = line.len().min(LONGEST);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    let (time, _) = line[..end].split_once(": ")?;
    let zone = time.rsplit([' ', '\u{202f}']).next()?;
    let is_zone = zone.starts_with(['+', '-']) && zone[1..].bytes().all(|b| b.is_ascii_digit() || b == b':');
    is_zone.then(|| &line[time.len() + 2..])
}

/// `words: Class: words`, as an exception's message in front of the exception: without the message.
fn without_own_message(details: &str) -> &str {
    for (at, _) in details.match_indices(": ").take(8) {
        let (message, rest) = (&details[..at], &details[at + 2..]);
        let class = rest.split(": ").next().unwrap_or_default();
        let is_class = class.contains('.') && !class.contains(' ');
        if is_class && rest[class.len()..].strip_prefix(": ").is_some_and(|it| it.starts_with(message)) {
            return rest;
        }
    }
    details
}

/// `5 unhandled exceptions (…`, also behind the class.
fn unhandled(text: &str) -> Option<u32> {
    let (before, _) = text.split_once(" unhandled exception")?;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
