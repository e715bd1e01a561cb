//! redrive's own headers: what a consumer that follows `docs/consumer-contract.md` writes, the embedded
//! broker included, and what an earlier redrive left.

use serde::Deserialize;

use super::Dialect;
use crate::clock::Time;
use crate::failure::{Death, Doubt, FailureContext, Origin, Sureness};
use crate::letter::{Header, RawLetter};
use crate::stamp;

/// Name of this dialect.
pub(super) const NAME: &str = "redrive";

/// See the file's head.
pub(super) struct Native;

/// One entry of [`stamp::DEATHS`]; unknown fields are left alone.
#[derive(Deserialize)]
struct Entry {
    at: Option<String>,
    queue: Option<String>,
    consumer: Option<String>,
    class: Option<String>,
    root_class: Option<String>,
    message: Option<String>,
    root_message: Option<String>,
    stack: Option<String>,
    trace: Option<String>,
    reason: Option<String>,
}

impl Dialect for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "redrive's own headers, as its consumer contract has them"
    }

    fn marks(&self) -> &'static [&'static str] {
        stamp::ALL
    }

    fn recognise(&self, letter: &RawLetter) -> Option<(Sureness, String)> {
        let found = [stamp::DEATHS, stamp::ATTEMPT, stamp::RUN]
            .into_iter()
            .find(|name| letter.message.headers.has(name))?;
        Some((Sureness::Sure, format!("header {found}")))
    }

    fn read(&self, letter: &RawLetter, context: &mut FailureContext) {
        let headers = &letter.message.headers;
        if let Some(text) = headers.last_text(stamp::DEATHS) {
            match serde_json::from_str::<Vec<Entry>>(text) {
                Ok(entries) => take(entries, context),
                Err(error) => context.doubts.push(Doubt {
                    field: "deaths",
                    why: format!("{} is not readable: {error}", stamp::DEATHS),
                }),
            }
        }
        if context.attempts.is_none()
            && let Some(value) = headers.last(stamp::ATTEMPT)
        {
            match value.integer_or_digits().and_then(|n| u32::try_from(n).ok()) {
                Some(attempts) => context.attempts = Some(attempts),
                None => context
                    .doubts
                    .push(Doubt { field: "attempts", why: format!("{} is no count", stamp::ATTEMPT) }),
            }
        }
        if context.origin.is_none()
            && let Some(queue) = context.deaths.first().and_then(|death| death.place.as_ref()?.queue.clone())
        {
            context.origin = Some(Origin { queue: Some(queue), ..Origin::default() });
        }
    }

    fn owns(&self, header: &Header) -> bool {
        stamp::PER_LIFE.contains(&header.name.as_str())
    }
}

/// Puts the entries into the history, before what is there already: they were written at each death, so a
/// dialect that knows the last one only adds to them.
fn take(entries: Vec<Entry>, context: &mut FailureContext) {
    let deaths = entries.into_iter().map(|entry| {
        if entry.trace.is_some() {
            context.trace = entry.trace;
        }
        Death {
            at: entry.at.as_deref().and_then(Time::parse),
            place: entry.queue.map(|queue| Origin { queue: Some(queue), ..Origin::default() }),
            consumer: entry.consumer,
            error_class: entry.class,
            root_class: entry.root_class,
            message: entry.message,
            root_message: entry.root_message,
            stack: entry.stack,
            reason: entry.reason,
            count: 1,
            ..Death::default()
        }
    });
    let mut history: Vec<Death> = deaths.collect();
    history.append(&mut context.deaths);
    context.deaths = history;
}
