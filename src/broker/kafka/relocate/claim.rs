//! Claiming on Kafka is reading: nothing is taken out, and nobody else can take it away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;

use super::{Held, Inner, receipt};
use crate::broker::kafka::browse::{self, Extent, Reading, Step, Topic};
use crate::broker::kafka::client::{Client, PATIENCE};
use crate::broker::kafka::marks::Marks;
use crate::broker::kafka::pointer::Pointers;
use crate::broker::{Claimed, Claims, ErrorKind, Missing, Result, Want};
use crate::letter::{Place, Position, RawLetter};

/// A gap of at most this many records between two wanted letters is read over; a longer one is jumped.
const READ_OVER: i64 = 2_000;
/// How long the broker's answer to a claim may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How often it is asked whether the topic is still the same: made anew and longer, it is read on without an error
/// (kafka-real §7).
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Reads single letters of the dead-letter topic: one reader a partition, each of which goes on where it is.
pub(super) struct Letters {
    client: Client,
    source: Topic,
    /// What there was when the session began.
    ends: BTreeMap<i32, Extent>,
    /// By partition, and where its next record comes from.
    readers: BTreeMap<i32, (Reading, i64)>,
    /// What letters point at that are no message themselves.
    pointers: Pointers,
    /// When the topic was last seen to be the same.
    looked: Instant,
}

/// What was found of wanted letters.
#[derive(Default)]
pub(super) struct Found {
    /// By number.
    pub(super) got: Vec<(u64, Place, RawLetter)>,
    pub(super) missing: Vec<(u64, Missing)>,
}

impl Letters {
    pub(super) fn new(client: &Client, source: &Topic, extents: &[Extent], pointers: Pointers) -> Self {
        Self {
            client: client.clone(),
            source: source.clone(),
            ends: extents.iter().map(|extent| (extent.partition, *extent)).collect(),
            readers: BTreeMap::new(),
            pointers,
            looked: Instant::now(),
        }
    }

    /// What there was when the session began.
    pub(super) fn ends(&self) -> Vec<Extent> {
        self.ends.values().copied().collect()
    }

    /// Is the dead-letter topic still the one of the snapshot?
    fn same_topic(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        self.looked = Instant::now();
        Topic::same(&self.client, &self.source)
    }

    /// The wanted letters that no mark hides, in order of their numbers. Blocks.
    pub(super) fn find<'a>(
        &mut self,
        marks: &Marks,
        next: impl Iterator<Item = (u64, &'a Position)>,
    ) -> Result<Found> {
        self.same_topic()?;
        let mut found = Found::default();
        let mut by_partition: BTreeMap<i32, Vec<(i64, u64)>> = BTreeMap::new();
        for (seq, position) in next {
            match browse::place_of(position) {
                Some((id, place)) if id == self.source.id && !marks.has(place) => {
                    by_partition.entry(place.partition).or_default().push((place.offset, seq));
                }
                Some((id, _)) if id == self.source.id => found.missing.push((seq, Missing::Moved)),
                // Another topic's: not here.
                _ => found.missing.push((seq, Missing::NotSeen)),
            }
        }
        let mut by_partition: Vec<(i32, Vec<(i64, u64)>)> = by_partition.into_iter().collect();
        // All are there before the first is read: they connect and fetch beside each other.
        for (partition, wanted) in &mut by_partition {
            wanted.sort_unstable();
            if let Some((offset, _)) = wanted.first() {
                self.be_near(*partition, *offset)?;
            }
        }
        for (partition, wanted) in by_partition {
            self.read(partition, &wanted, &mut found)?;
        }
        found.got.sort_by_key(|(seq, ..)| *seq);
        Ok(found)
    }

    /// Sees to it that the partition's reader comes to this offset soon.
    fn be_near(&mut self, partition: i32, offset: i64) -> Result<()> {
        let Some(extent) = self.ends.get(&partition).filter(|extent| offset < extent.end) else {
            return Ok(());
        };
        let near =
            self.readers.get(&partition).is_some_and(|(_, at)| offset >= *at && offset - at <= READ_OVER);
        if !near {
            let from = Extent { low: offset, ..*extent };
            let reading = Reading::beside(&self.client, &self.source.name, from, self.ends.len())?;
            self.readers.insert(partition, (reading, offset));
        }
        Ok(())
    }

    /// Reads wanted offsets of one partition, in ascending order.
    fn read(&mut self, partition: i32, wanted: &[(i64, u64)], found: &mut Found) -> Result<()> {
        let mut left = wanted.iter().copied().peekable();
        while let Some(&(offset, seq)) = left.peek() {
            let Some(extent) = self.ends.get(&partition).copied() else {
                found.missing.push((seq, Missing::NotSeen));
                left.next();
                continue;
            };
            if offset >= extent.end {
                found.missing.push((seq, Missing::NotSeen));
                left.next();
                continue;
            }
            self.be_near(partition, offset)?;
            let Some((reading, at)) = self.readers.get_mut(&partition) else { continue };
            let silent = Instant::now();
            let here = loop {
                match reading.step(Duration::from_millis(50)) {
                    Ok(Step::Record(record)) => {
                        let here = record.offset();
                        *at = here + 1;
                        if here < offset {
                            continue;
                        }
                        let want = Want { bodies: true, moved: true };
                        break Some((here, browse::letter(&self.source, &record, want)));
                    }
                    Ok(Step::End) => break None,
                    Ok(Step::Nothing) if silent.elapsed() > SILENCE => {
                        return Err(self.client.silence(&format!("read {}", self.source.name)));
                    }
                    Ok(Step::Nothing) => {}
                    // Retention took the offset: the letter is gone, and others may be too.
                    Err(error) if error.kind == ErrorKind::Other => break None,
                    Err(error) => return Err(error),
                }
            };
            match here {
                Some((here, mut letter)) => {
                    self.pointers.follow(&mut letter, Want { bodies: true, moved: true })?;
                    let mut letter = Some(letter);
                    while let Some(&(offset, seq)) = left.peek().filter(|(offset, _)| *offset <= here) {
                        if offset == here
                            && let Some(letter) = letter.take()
                        {
                            found.got.push((seq, Place { partition, offset }, letter));
                        } else {
                            found.missing.push((seq, Missing::Gone));
                        }
                        left.next();
                    }
                }
                None => {
                    // The end of the partition, or its beginning moved past: ask where it begins now.
                    self.readers.remove(&partition);
                    let low = self.low(partition)?;
                    let gone = offset < low || offset >= extent.low;
                    found.missing.push((seq, if gone { Missing::Gone } else { Missing::NotSeen }));
                    left.next();
                }
            }
        }
        Ok(())
    }

    fn low(&self, partition: i32) -> Result<i64> {
        let marks = self.client.asking.fetch_watermarks(&self.source.name, partition, PATIENCE);
        marks
            .map(|(low, _)| low)
            .map_err(|error| self.client.error(&format!("read the offsets of {}", self.source.name), &error))
    }
}

impl Inner {
    /// Reads the wanted letters; on Kafka a claim is nothing but that.
    pub(super) fn claim(&mut self, next: &[(u64, Position)], limit: usize) -> Result<Claims> {
        let wanted = next.iter().take(limit).map(|(seq, position)| (*seq, position));
        let found = self.letters.find(&self.marks, wanted)?;
        let mut claims = Claims { missing: found.missing, ..Claims::default() };
        for (seq, place, letter) in found.got {
            self.claims += 1;
            self.held.insert(place, Held { claim: self.claims, seq });
            let receipt = receipt(&letter.position, self.claims);
            claims.got.push(Claimed { seq, receipt, letter });
        }
        Ok(claims)
    }
}
