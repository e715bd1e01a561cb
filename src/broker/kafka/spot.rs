//! Reads of a topic that want something else than all of it: its newest letters, one letter, how old it is. All block.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::browse::{Extent, Reading, SILENCE, Step, Topic, letter};
use super::client::{Client, PATIENCE};
use super::marks::Marks;
use crate::broker::{Result, Want};
use crate::clock::Time;
use crate::letter::{Place, RawLetter};

/// The end of each extent that holds its newest `most` letters that are not `hidden`. Offsets of markers and aborted
/// records hold none, so it is counted what really lies there. Blocks.
pub(super) fn ends(
    client: &Client,
    topic: &Topic,
    extents: Vec<Extent>,
    most: u64,
    hidden: impl Fn(Place) -> bool,
) -> Result<Vec<Extent>> {
    let open = |partition, offset| !hidden(Place { partition, offset });
    let mut found = Vec::with_capacity(extents.len());
    // How far back is looked at first, and what is not settled yet.
    let mut left: Vec<(Extent, i64)> = Vec::new();
    for extent in extents {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let back = (extent.low..extent.end).rev().filter(|offset| open(extent.partition, *offset));
        match back.take(most).last().filter(|low| *low > extent.low) {
            Some(low) => left.push((extent, low)),
            None => found.push(extent),
        }
    }
    while !left.is_empty() {
        let tried: Vec<Extent> = left.iter().map(|(extent, low)| Extent { low: *low, ..*extent }).collect();
        let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
        let mut reading = Reading::begin(client, &topic.name, &tried, "read_committed")?;
        let mut heard = Instant::now();
        while !reading.at_end() {
            match reading.step(Duration::from_millis(50))? {
                Step::End => break,
                Step::Nothing if heard.elapsed() > SILENCE => {
                    let action = format!("read {}", topic.name);
                    return Err(client.silence(&action));
                }
                Step::Nothing => {}
                Step::Record(record) => {
                    heard = Instant::now();
                    *counts.entry(record.partition()).or_default() +=
                        u64::from(open(record.partition(), record.offset()));
                }
            }
        }
        let mut more = Vec::new();
        for ((extent, low), tried) in left.into_iter().zip(tried) {
            let enough = counts.get(&extent.partition).is_some_and(|count| *count >= most);
            let further = extent.low.max(extent.end - 4 * (extent.end - low));
            match enough || low == extent.low {
                true => found.push(tried),
                false => more.push((extent, further)),
            }
        }
        left = more;
    }
    Ok(found)
}

/// One record by partition and offset, with its body. Blocks.
pub(super) fn one(client: &Client, topic: &Topic, partition: i32, offset: i64) -> Result<Option<RawLetter>> {
    let extent = Extent { partition, low: offset, end: offset + 1 };
    let mut reading = Reading::begin(client, &topic.name, &[extent], "read_committed")?;
    let begun = Instant::now();
    while !reading.at_end() && begun.elapsed() < SILENCE {
        if let Step::Record(record) = reading.step(Duration::from_millis(50))? {
            return Ok(Some(letter(topic, &record, Want { bodies: true, moved: true })));
        }
    }
    Ok(None)
}

/// How many records of these extents are older than `since`, and how many there are. Read through where producers
/// set the times, since those have no order. Blocks.
pub(super) fn older(client: &Client, topic: &Topic, extents: &[Extent], since: Time) -> Result<(u64, u64)> {
    let mut reading = Reading::begin(client, &topic.name, extents, "read_committed")?;
    let (mut older, mut all) = (0, 0);
    let mut heard = Instant::now();
    while heard.elapsed() < SILENCE {
        match reading.step(Duration::from_millis(100))? {
            Step::End => return Ok((older, all)),
            Step::Nothing => {}
            Step::Record(record) => {
                heard = Instant::now();
                all += 1;
                older += u64::from(record.timestamp().to_millis().is_some_and(|at| at < since.millis()));
            }
        }
    }
    Err(client.silence(&format!("read {}", topic.name)))
}

/// The time of the oldest letter that no run has moved, and when retention takes it. Where producers set the times it
/// is the time that the broker shows, which may be older than the letter's arrival. Blocks.
pub(super) fn oldest(
    client: &Client,
    topic: &Topic,
    extents: &[Extent],
    marks: &Marks,
) -> Result<Option<Time>> {
    let from = |extent: &Extent| {
        let low = (extent.low..extent.end)
            .find(|offset| !marks.has(Place { partition: extent.partition, offset: *offset }))
            .unwrap_or(extent.end);
        Extent { low, ..*extent }
    };
    let left: Vec<Extent> = extents.iter().map(from).collect();
    let mut reading = Reading::begin(client, &topic.name, &left, "read_committed")?;
    let mut oldest: Option<Time> = None;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let place = match reading.step(Duration::from_millis(50))? {
            Step::End => break,
            Step::Nothing => continue,
            Step::Record(record) => {
                let place = Place { partition: record.partition(), offset: record.offset() };
                if marks.has(place) {
                    continue;
                }
                if let Some(at) = record.timestamp().to_millis().map(Time::from_millis) {
                    oldest = Some(oldest.map_or(at, |known| known.min(at)));
                }
                place
            }
        };
        // The first of each partition is enough.
        reading.close(place.partition);
    }
    Ok(oldest)
}
