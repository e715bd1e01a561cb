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
#[derive(Deserialize, Default, Debug, PartialEq)]
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
        Some((Sureness::Sure, format!("header {found}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        if let Some(text) = headers.last_text(stamp::DEATHS) {
            match entries(text) {
                Ok(entries) => take(entries, says),
                Err(error) => says.doubt("deaths", format!("{} is not readable: {error}", stamp::DEATHS)),
            }
        }
        let attempt = headers.last(stamp::ATTEMPT);
        says.attempts = says.number("attempts", stamp::ATTEMPT, attempt, Form::Integer);
        let first = says.deaths.first().and_then(|death| death.place.as_ref()?.queue.clone());
        says.origin = first.map(|queue| Origin { queue: Some(queue), ..Origin::default() });
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
    let entries = letter.headers().last_text(stamp::DEATHS).and_then(|text| entries(text).ok());
    entries.is_some_and(|entries| !entries.is_empty())
}

/// The history as it was written.
fn entries(text: &str) -> serde_json::Result<Vec<Entry>> {
    plain(text).map_or_else(|| serde_json::from_str(text), Ok)
}

/// Entries whose fields are all texts, each at most once, as most are; `None`: they need a whole parser.
fn plain(text: &str) -> Option<Vec<Entry>> {
    let mut parser = PlainJson::new(text);
    let mut entries = Vec::new();
    if !parser.take(b'[') {
        return None;
    }
    loop {
        if !parser.take(b'{') {
            return None;
        }
        let mut entry = Entry::default();
        loop {
            let name = parser.text()?;
            if !parser.take(b':') {
                return None;
            }
            let value = parser.text()?.into_owned();
            let field = match &*name {
                "at" => &mut entry.at,
                "queue" => &mut entry.queue,
                "consumer" => &mut entry.consumer,
                "class" => &mut entry.class,
                "root_class" => &mut entry.root_class,
                "message" => &mut entry.message,
                "root_message" => &mut entry.root_message,
                "stack" => &mut entry.stack,
                "trace" => &mut entry.trace,
                "reason" => &mut entry.reason,
                _ => return None,
            };
            if field.replace(value).is_some() {
                return None;
            }
            if !parser.take(b',') {
                break;
            }
        }
        if !parser.take(b'}') {
            return None;
        }
        entries.push(entry);
        if !parser.take(b',') {
            break;
        }
    }
    (parser.take(b']') && parser.is_over()).then_some(entries)
}

/// The entries, oldest first: they were written at each death.
fn take(entries: Vec<Entry>, says: &mut Testimony) {
    for entry in entries {
        if entry.trace.is_some() {
            says.trace = entry.trace;
        }
        says.deaths.push(Death {
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
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn plain_entries_are_read_as_a_whole_parser_reads_them() {
        let whole = |text: &str| serde_json::from_str::<Vec<Entry>>(text).ok();
        for text in [
            r#"[{"at":"2026-11-29T02:03:59Z","class":"a.B","stack":"a.B: \"x\"\n\tat é\\"}]"#,
            r#" [ { "queue" : "orders" } , { "reason":"rejected", "trace":"" } ] "#,
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
