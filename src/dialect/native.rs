//! redrive's own headers: what a consumer that follows `docs/consumer-contract.md` writes, the embedded
//! broker included, and what an earlier redrive left.

use serde::Deserialize;

use super::{Dialect, Form, Layer, Look, Mark, Testimony};
use crate::clock::Time;
use crate::failure::{Death, Origin, Sureness};
use crate::letter::{Header, PlainJson};
use crate::stamp;

/// What [`stamp::ORIGIN`] holds.
#[derive(Deserialize)]
struct Place {
    topic: Option<String>,
    partition: Option<i32>,
    offset: Option<i64>,
    queue: Option<String>,
}

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

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix("redrive-")]
    }

    fn layer(&self) -> Layer {
        Layer::Own
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let found = [stamp::DEATHS, stamp::ATTEMPT, stamp::RUN, stamp::ORIGIN]
            .into_iter()
            .find(|name| letter.headers().has(name))?;
        Some((Sureness::Sure, ["header ", found].concat()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        if let Some(text) = headers.last_text(stamp::DEATHS) {
            match told(text) {
                Ok(told) => (says.deaths, says.trace) = told,
                Err(error) => says.doubt("deaths", format!("{} is not readable: {error}", stamp::DEATHS)),
            }
        }
        let attempt = headers.last(stamp::ATTEMPT);
        says.attempts = says.number("attempts", stamp::ATTEMPT, attempt, Form::Integer);
        let first = says.deaths.first().and_then(|death| death.place.as_ref()?.queue.clone());
        says.origin = first.map(in_queue);
        if says.origin.is_none()
            && let Some(text) = headers.last_text(stamp::ORIGIN)
        {
            match serde_json::from_str::<Place>(text) {
                Ok(Place { topic, partition, offset, queue }) => {
                    says.origin = Some(Origin { topic, partition, offset, queue, ..Origin::default() });
                }
                Err(error) => says.doubt("origin", format!("{} is not readable: {error}", stamp::ORIGIN)),
            }
        }
    }

    fn owns(&self, header: &Header) -> bool {
        stamp::PER_LIFE.contains(&header.name.as_str())
    }
}

/// Does the letter tell every death by itself, as the consumer contract has it? Then a broker's note that it
/// waited in a tier is no death of its own.
pub(super) fn tells_its_deaths(letter: &Look<'_>) -> bool {
    let told = letter.headers().last_text(stamp::DEATHS).and_then(|text| told(text).ok());
    told.is_some_and(|(deaths, _)| !deaths.is_empty())
}

/// The deaths, oldest first, as they were written at each, and the trace id of the last that has one.
type Told = (Vec<Death>, Option<String>);

/// The history as it was written.
fn told(text: &str) -> serde_json::Result<Told> {
    match plain(text) {
        Some(told) => Ok(told),
        None => serde_json::from_str(text).map(entries),
    }
}

/// Entries whose fields are all texts, each at most once, as most are; `None`: they need a whole parser.
fn plain(text: &str) -> Option<Told> {
    let mut parser = PlainJson::new(text);
    // One entry is what most have, and a death is long: no room for four.
    let (mut deaths, mut trace): Told = (Vec::with_capacity(1), None);
    if !parser.take(b'[') {
        return None;
    }
    loop {
        if !parser.take(b'{') {
            return None;
        }
        deaths.push(Death { count: 1, ..Death::default() });
        let death = deaths.last_mut()?;
        let (mut timed, mut queue, mut traced) = (false, None, None);
        loop {
            let name = parser.text()?;
            if !parser.take(b':') {
                return None;
            }
            let value = parser.text()?;
            let field = match &*name {
                "at" if !timed => {
                    death.at = Time::parse(&value);
                    timed = true;
                    None
                }
                "queue" => Some(&mut queue),
                "consumer" => Some(&mut death.consumer),
                "class" => Some(&mut death.error_class),
                "root_class" => Some(&mut death.root_class),
                "message" => Some(&mut death.message),
                "root_message" => Some(&mut death.root_message),
                "stack" => Some(&mut death.stack),
                "trace" => Some(&mut traced),
                "reason" => Some(&mut death.reason),
                _ => return None,
            };
            if field.is_some_and(|field| field.replace(value.into_owned()).is_some()) {
                return None;
            }
            if !parser.take(b',') {
                break;
            }
        }
        if !parser.take(b'}') {
            return None;
        }
        death.place = queue.map(in_queue);
        trace = traced.or(trace);
        if !parser.take(b',') {
            break;
        }
    }
    (parser.take(b']') && parser.is_over()).then_some((deaths, trace))
}

fn in_queue(queue: String) -> Origin {
    Origin { queue: Some(queue), ..Origin::default() }
}

/// The same of entries that a whole parser read.
fn entries(entries: Vec<Entry>) -> Told {
    let mut trace = None;
    let death = |entry: Entry| {
        trace = entry.trace.or(trace.take());
        Death {
            at: entry.at.as_deref().and_then(Time::parse),
            place: entry.queue.map(in_queue),
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
    };
    (entries.into_iter().map(death).collect(), trace)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn plain_entries_are_read_as_a_whole_parser_reads_them() {
        let whole = |text: &str| serde_json::from_str::<Vec<Entry>>(text).ok().map(entries);
        for text in [
            r#"[{"at":"2026-11-29T02:03:59Z","class":"a.B","stack":"a.B: \"x\"\n\tat é\\"}]"#,
            r#" [ { "queue" : "orders" } , { "reason":"rejected", "trace":"" } ] "#,
            r#"[{"trace":"a"},{"trace":"b","at":"no time"},{"root_class":"c","root_message":"m","consumer":"x"}]"#,
        ] {
            assert_eq!(plain(text), whole(text));
            assert!(plain(text).is_some());
        }
        for text in [
            r#"[]"#,
            r#"[{}]"#,
            r#"[{"omitted":3}]"#,
            r#"[{"omitted":"3"}]"#,
            r#"[{"class":null}]"#,
            r#"[{"class":"a","class":"b"}]"#,
            r#"[{"at":"a","at":"b"}]"#,
            r#"[{"class":"\u0041"}]"#,
            r#"[{"class":"a"}] x"#,
            r#"[{"class":"a"},]"#,
            r#"{"class":"a"}"#,
            "",
        ] {
            assert_eq!(plain(text), None, "{text}");
        }
    }
}
