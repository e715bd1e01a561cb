//! Claiming on Kafka is reading: nothing is taken out, and nobody else can take it away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::consumer::Consumer;

use super::{Held, Inner, receipt};
use crate::broker::kafka::browse::{self, Extent, Reading, Step, Topic};
use crate::broker::kafka::client::PATIENCE;
use crate::broker::{BrokerError, Claimed, Claims, ErrorKind, Missing, Result, Want};
use crate::letter::{Place, Position};

/// A gap of at most this many records between two wanted letters is read over; a longer one is jumped.
const READ_OVER: i64 = 2_000;
/// How long the broker's answer to a claim may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How often it is asked whether the topic is still the same: made anew and longer, it is read on without an error
/// (kafka-real §7).
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Inner {
    /// Is the dead-letter topic still the one of the snapshot?
    fn same_topic(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        self.looked = Instant::now();
        Topic::same(&self.client, &self.source)
    }

    /// Reads the wanted letters; on Kafka a claim is nothing but that.
    pub(super) fn claim(&mut self, next: &[(u64, Position)], limit: usize) -> Result<Claims> {
        self.same_topic()?;
        let mut claims = Claims::default();
        let mut by_partition: BTreeMap<i32, Vec<(i64, u64)>> = BTreeMap::new();
        for (seq, position) in next.iter().take(limit) {
            match browse::place_of(position) {
                Some((id, place)) if id == self.source.id && !self.marks.has(place) => {
                    by_partition.entry(place.partition).or_default().push((place.offset, *seq));
                }
                // Another topic's: not here.
                Some((id, _)) if id == self.source.id => claims.missing.push((*seq, Missing::Moved)),
                _ => claims.missing.push((*seq, Missing::NotSeen)),
            }
        }
        for (partition, mut wanted) in by_partition {
            wanted.sort_unstable();
            self.read(partition, &wanted, &mut claims)?;
        }
        claims.got.sort_by_key(|claimed| claimed.seq);
        Ok(claims)
    }

    /// Reads wanted offsets of one partition, in ascending order.
    fn read(&mut self, partition: i32, wanted: &[(i64, u64)], claims: &mut Claims) -> Result<()> {
        let mut left = wanted.iter().copied().peekable();
        while let Some(&(offset, seq)) = left.peek() {
            let Some(extent) = self.ends.get(&partition).copied() else {
                claims.missing.push((seq, Missing::NotSeen));
                left.next();
                continue;
            };
            if offset >= extent.end {
                claims.missing.push((seq, Missing::NotSeen));
                left.next();
                continue;
            }
            let near =
                self.readers.get(&partition).is_some_and(|(_, at)| offset >= *at && offset - at <= READ_OVER);
            if !near {
                let from = Extent { low: offset, ..extent };
                match Reading::beside(&self.client, &self.source.name, from, self.ends.len()) {
                    Ok(reading) => self.readers.insert(partition, (reading, offset)),
                    Err(error) => return Err(error),
                };
            }
            let Some((reading, at)) = self.readers.get_mut(&partition) else { continue };
            let silent = Instant::now();
            let found = loop {
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
                        return Err(BrokerError::new(
                            ErrorKind::Unreachable,
                            format!("read {}", self.source.name),
                            "nothing comes, and records are missing",
                        ));
                    }
                    Ok(Step::Nothing) => {}
                    // Retention took the offset: the letter is gone, and others may be too.
                    Err(error) if error.kind == ErrorKind::Other => break None,
                    Err(error) => return Err(error),
                }
            };
            match found {
                Some((here, mut letter)) => {
                    self.pointers.follow(&mut letter, Want { bodies: true, moved: true })?;
                    let mut letter = Some(letter);
                    while let Some(&(offset, seq)) = left.peek().filter(|(offset, _)| *offset <= here) {
                        if offset == here
                            && let Some(letter) = letter.take()
                        {
                            self.claims += 1;
                            let place = Place { partition, offset };
                            self.held.insert(place, Held { claim: self.claims, seq });
                            let receipt = receipt(&self.source.id, place, self.claims);
                            claims.got.push(Claimed { seq, receipt, letter });
                        } else {
                            claims.missing.push((seq, Missing::Gone));
                        }
                        left.next();
                    }
                }
                None => {
                    // The end of the partition, or its beginning moved past: ask where it begins now.
                    self.readers.remove(&partition);
                    let low = self.low(partition)?;
                    let gone = offset < low || offset >= extent.low;
                    claims.missing.push((seq, if gone { Missing::Gone } else { Missing::NotSeen }));
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
