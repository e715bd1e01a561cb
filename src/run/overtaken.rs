//! Letters that were overtaken: a later message of their group is in the source and did not die itself, so that sending
//! them now may put something old over something new (K38). The source is read from where the first of them died.

use std::collections::BTreeMap;

use super::prepare::{PrepareError, Request};
use crate::broker::{Browse, Later, Want};
use crate::dead_letter::{DeadLetter, of_the_living};
use crate::ledger::{After, Scratch};
use crate::letter::Place;
use crate::stamp;
use crate::topology::{EventIdRule, GroupRule};

/// Messages that are read without being asked for: about a second's work.
const UNASKED: u64 = 200_000;

/// What is known of it before a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overtaken {
    /// Overtaken letters that would be sent, or are left because of it.
    pub letters: u64,
    /// In so many groups.
    pub groups: u64,
    /// The first of them.
    pub named: Vec<String>,
    /// It was not looked at: so many messages would have to be read.
    pub unread: Option<u64>,
    /// It could not be looked at, in the broker's words.
    pub unknown: Option<String>,
}

/// The partitions of the source, by the names that the index has for them.
#[derive(Debug, Default)]
pub(super) struct Streams(BTreeMap<u64, i32>);

impl Streams {
    /// Takes note of where a letter first lived; `stream` is its name in the index.
    pub(super) fn add(&mut self, stream: u64, letter: &DeadLetter, source: &str) {
        if let Some(origin) = &letter.context.origin
            && origin.topic.as_deref() == Some(source)
            && let Some(partition) = origin.partition
        {
            self.0.insert(stream, partition);
        }
    }
}

/// Looks for later messages, and keeps letters that have some if that is asked for.
pub(super) async fn overtaken(
    browse: &dyn Browse,
    request: &Request<'_>,
    scratch: &mut Scratch,
    streams: &Streams,
) -> Result<Overtaken, PrepareError> {
    let mut overtaken = Overtaken::default();
    if streams.0.is_empty() {
        return Ok(overtaken);
    }
    let from: Vec<Place> = scratch
        .first_origins()?
        .into_iter()
        .filter_map(|(stream, offset)| Some(Place { partition: *streams.0.get(&stream)?, offset }))
        .collect();
    if from.is_empty() {
        return Ok(overtaken);
    }
    let channel = request.channel;
    let bodies = matches!(channel.group.value, GroupRule::Body(_))
        || matches!(channel.event_id.value, EventIdRule::Body(_));
    let most = if request.skip_overtaken { u64::MAX } else { UNASKED };
    let want = Want { bodies, moved: true };
    let mut pages = match browse.later(channel, &from, want, most).await {
        Ok(Later::Messages(pages)) => pages,
        Ok(Later::Cannot) => return Ok(overtaken),
        Ok(Later::TooMany(messages)) => {
            overtaken.unread = Some(messages);
            return Ok(overtaken);
        }
        // Who may read the dead letters need not be allowed to read the source.
        Err(error) if !request.skip_overtaken => {
            overtaken.unknown = Some(error.to_string());
            return Ok(overtaken);
        }
        Err(error) => return Err(error.into()),
    };
    let by_partition: BTreeMap<i32, u64> =
        streams.0.iter().map(|(stream, partition)| (*partition, *stream)).collect();
    loop {
        let page = match pages.next().await {
            Ok(page) => page,
            Err(error) if !request.skip_overtaken => {
                overtaken.unknown = Some(error.to_string());
                return Ok(overtaken);
            }
            Err(error) => return Err(error.into()),
        };
        if page.is_empty() {
            break;
        }
        for message in page {
            // A tier or a run brought it back: it is older than it stands.
            let headers = &message.message.headers;
            if headers.has(stamp::TIER) || headers.has(stamp::RUN) {
                continue;
            }
            let Some(place) = message.facts.place else { continue };
            let Some(stream) = by_partition.get(&place.partition) else { continue };
            let (Some(group), event_id) = of_the_living(&message, channel) else { continue };
            scratch.after(&After {
                stream: *stream,
                order: place.offset,
                group: &crate::manifest::told_apart(&group),
                event_id: event_id.as_deref().map(crate::manifest::told_apart).as_deref(),
            })?;
        }
    }
    pages.close().await?;
    (overtaken.letters, overtaken.groups, overtaken.named) = scratch.overtaken(request.skip_overtaken)?;
    Ok(overtaken)
}
