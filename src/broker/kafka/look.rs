//! A look at a topic, page by page: a thread of its own reads ahead of who asks for them.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::browse::{Extent, Reading, SILENCE, Step, Topic, letter};
use super::client::Client;
use super::marks::Marks;
use super::pointer::Pointers;
use crate::broker::ahead::{Ahead, Asked};
use crate::broker::{Count, LookCost, Names, Pages, Result, Snapshot, Want, letters};
use crate::letter::{Place, RawLetter};

/// Letters of a page, and bytes at which a page ends: three are in flight at a time, and small ones stay in a cache.
const PAGE: (usize, usize) = (500, 1024 * 1024);

/// What is said of a letter that a mark hides.
pub(super) const MOVED: &str = "an earlier run";

/// A look.
pub(super) struct Look {
    pages: Ahead<Page>,
    snapshot: Snapshot,
    unseen: Vec<String>,
    read: u64,
    hidden: u64,
    /// Letters that only point at a record that is gone.
    gone: u64,
}

/// Reads pages.
struct Reader {
    reading: Reading,
    client: Client,
    topic: Topic,
    want: Want,
    marks: Marks,
    pointers: Pointers,
}

/// One page, how many records were read for it, and how many letters of it are hidden.
struct Page {
    letters: Vec<RawLetter>,
    read: u64,
    hidden: u64,
    /// So far.
    gone: u64,
}

impl Reader {
    /// The next page; empty only at the end of the extent.
    fn page(&mut self, asked: &Asked<'_, Page>) -> Result<Page> {
        let mut page = Page { letters: Vec::with_capacity(PAGE.0), read: 0, hidden: 0, gone: 0 };
        let mut bytes = 0;
        let mut silent = Instant::now();
        while page.letters.len() < PAGE.0 && bytes < PAGE.1 {
            match self.reading.step(Duration::from_millis(100))? {
                Step::End => break,
                Step::Nothing if silent.elapsed() > SILENCE => {
                    return Err(self.client.silence(&format!("read {}", self.topic.name)));
                }
                Step::Nothing if !asked.still() => break,
                Step::Nothing => {}
                Step::Record(record) => {
                    silent = Instant::now();
                    page.read += 1;
                    let place = Place { partition: record.partition(), offset: record.offset() };
                    let moved = self.marks.has(place);
                    if moved && !self.want.moved {
                        page.hidden += 1;
                        continue;
                    }
                    let mut letter = letter(&self.topic, &record, self.want);
                    letter.facts.moved_by = moved.then(|| MOVED.to_owned());
                    self.pointers.follow(&mut letter, self.want)?;
                    bytes += usize::try_from(letter.size()).unwrap_or(0);
                    page.letters.push(letter);
                }
            }
        }
        page.gone = self.pointers.gone();
        Ok(page)
    }

    fn pages(mut self) -> Ahead<Page> {
        Ahead::of(format!("read {}", self.topic.name), move |asked| {
            let page = self.page(&asked)?;
            Ok((page.read > 0).then_some(page))
        })
    }
}

impl Look {
    /// `newest`: only the end of each partition is read, as far back as so many open letters reach.
    pub(super) async fn open(
        client: &Client,
        topic: Topic,
        (want, newest): (Want, Option<u64>),
        marks: Marks,
        pointers: Pointers,
    ) -> Result<Self> {
        let extents = topic.extents(client).await?;
        let all: i64 = extents.iter().map(|extent| (extent.end - extent.low).max(0)).sum();
        let hidden = if want.moved { 0 } else { marks.within(&extents) };
        let most = u64::try_from(all).unwrap_or(0).saturating_sub(hidden);
        let name = topic.name.clone();
        // K31: what stands behind an open transaction is not stable yet; the look says that it stops before it.
        let mut unseen = Vec::new();
        let mut behind = 0;
        for (extent, high) in extents.iter().zip(topic.high_watermarks(client).await?) {
            if high > extent.end {
                let more = high - extent.end;
                behind += u64::try_from(more).unwrap_or(0);
                unseen.push(format!(
                    "a transaction is open in partition {} of {name} from offset {}: up to {more} records from there on",
                    extent.partition, extent.end
                ));
            }
        }
        let ends: Vec<String> = extents
            .iter()
            .map(|extent| format!("{}:{}-{}", extent.partition, extent.low, extent.end))
            .collect();
        let snapshot = Snapshot {
            queue: name.clone(),
            identity: format!("{}/{}", topic.id, ends.join(",")),
            place: topic.id.clone(),
            taken_at: client.clock.now(),
            count: Count::AtMost(most),
            unseen: (behind > 0).then_some(behind),
        };
        let (extents, marks) = match newest {
            None => (extents, marks),
            Some(most) => {
                let (client, topic) = (client.clone(), topic.clone());
                super::roles::blocking(move || {
                    let ends = super::spot::ends(&client, &topic, extents, most, |place| {
                        !want.moved && marks.has(place)
                    })?;
                    Ok((ends, marks))
                })
                .await?
            }
        };
        let reading = Reading::begin(client, &name, &extents, "read_committed")?;
        let client = client.clone();
        let pages = Reader { reading, client, topic, want, marks, pointers }.pages();
        Ok(Self { pages, snapshot, unseen, read: 0, hidden: 0, gone: 0 })
    }
}

impl Look {
    /// At these extents of a topic, as they are.
    pub(super) fn of(
        client: &Client,
        topic: Topic,
        extents: Vec<Extent>,
        want: Want,
        names: &Names,
    ) -> Result<Self> {
        let all: i64 = extents.iter().map(|extent| (extent.end - extent.low).max(0)).sum();
        let snapshot = Snapshot {
            queue: topic.name.clone(),
            identity: topic.id.clone(),
            place: topic.id.clone(),
            taken_at: client.clock.now(),
            count: Count::AtMost(u64::try_from(all).unwrap_or(0)),
            unseen: None,
        };
        let reading = Reading::begin(client, &topic.name, &extents, "read_committed")?;
        let (pointers, client, marks) = (Pointers::new(client, names), client.clone(), Marks::default());
        let pages = Reader { reading, client, topic, want, marks, pointers }.pages();
        Ok(Self { pages, snapshot, unseen: Vec::new(), read: 0, hidden: 0, gone: 0 })
    }
}

#[async_trait]
impl Pages for Look {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    async fn next(&mut self) -> Result<Vec<RawLetter>> {
        while let Some(page) = self.pages.next().await? {
            self.read += page.read;
            self.hidden += page.hidden;
            self.gone = page.gone;
            // All that was read may be hidden: that is no end.
            if !page.letters.is_empty() {
                return Ok(page.letters);
            }
        }
        Ok(Vec::new())
    }

    fn reads_ahead(&self) -> bool {
        true
    }

    async fn close(mut self: Box<Self>) -> Result<LookCost> {
        self.pages.end().await;
        if self.gone > 0 {
            self.unseen.push(format!(
                "{} at a record, and it is gone: the source's retention took it",
                letters(self.gone, "only points", "only point")
            ));
        }
        Ok(LookCost { read: self.read, hidden: self.hidden, unseen: self.unseen, ..LookCost::default() })
    }
}
