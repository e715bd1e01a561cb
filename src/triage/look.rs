//! Reading a dead-letter queue through: pages on one thread, decoding on another.

use std::ops::ControlFlow;

use crate::broker::{BrokerError, Browse, ErrorKind, LookCost, Pages, Result, Snapshot, Want};
use crate::clock::Time;
use crate::dead_letter::DeadLetter;
use crate::letter::{LetterId, RawLetter};
use crate::selection::Selection;
use crate::topology::Channel;

/// Takes the selected letters of a look, in order of arrival.
pub trait Collect: Clone + Send + 'static {
    /// Takes one. `Break` ends the look.
    fn take(&mut self, letter: &DeadLetter) -> ControlFlow<()>;
}

/// What was looked at.
#[derive(Debug, Clone)]
pub struct Looked {
    /// The extent.
    pub snapshot: Snapshot,
    /// What it cost.
    pub cost: LookCost,
    /// Letters seen.
    pub seen: u64,
    /// Letters selected.
    pub selected: u64,
    /// Letters that lack a fact which the selection asks for; they are not selected.
    pub undecided: u64,
    /// Ids of the causes that `--cause` selected, the first two.
    pub causes: Vec<String>,
    /// Did the collector end it before the end of the extent?
    pub ended_early: bool,
    /// Were only the newest letters read, and few more?
    pub newest_only: bool,
}

struct Decoder<C> {
    channel: Channel,
    selection: Selection,
    now: Time,
    collector: C,
    seen: u64,
    selected: u64,
    undecided: u64,
    causes: Vec<String>,
    /// Was this look made without bodies, and is there a letter of which the headers tell nothing?
    lacks_bodies: bool,
    without_bodies: bool,
}

impl<C: Collect> Decoder<C> {
    fn page(&mut self, page: Vec<RawLetter>) -> ControlFlow<()> {
        for raw in page {
            self.seen += 1;
            let letter = DeadLetter::of(raw, &self.channel);
            if self.without_bodies && letter.context.readings.is_empty() && letter.raw.body_len > Some(0) {
                self.lacks_bodies = true;
                return ControlFlow::Break(());
            }
            match self.selection.selects(&letter, self.now) {
                Some(true) => {
                    self.selected += 1;
                    let id = letter.cause.id.as_str();
                    if self.selection.cause.is_some()
                        && self.causes.len() < 2
                        && !self.causes.iter().any(|c| c == id)
                    {
                        self.causes.push(id.to_owned());
                    }
                    self.collector.take(&letter)?;
                }
                Some(false) => {}
                None => self.undecided += 1,
            }
        }
        ControlFlow::Continue(())
    }
}

/// Reads the dead letters of `channel` through and hands the selected ones to `collector`, which comes
/// back. The selection's limit is the collector's to keep.
///
/// A look without bodies begins anew with them at the first letter of which the headers tell nothing: its
/// body may be an envelope that does, and a letter must have the same cause in every look.
///
/// `newest`: only so many of the newest are asked for; where the broker can it begins there.
///
/// # Errors
/// The broker's; what was held is given back then too.
pub async fn look<C: Collect>(
    broker: &dyn Browse,
    channel: &Channel,
    selection: &Selection,
    (want, newest): (Want, Option<u64>),
    now: Time,
    collector: C,
) -> Result<(C, Looked)> {
    if !want.bodies
        && let Some(done) = pass(broker, channel, selection, (want, newest), now, collector.clone()).await?
    {
        return Ok(done);
    }
    let want = Want { bodies: true, ..want };
    let done = pass(broker, channel, selection, (want, newest), now, collector).await?;
    done.ok_or_else(|| BrokerError::new(ErrorKind::Other, "read bodies", "the look ended before its end"))
}

/// One pass; `None`: bodies are needed after all.
async fn pass<C: Collect>(
    broker: &dyn Browse,
    channel: &Channel,
    selection: &Selection,
    (want, newest): (Want, Option<u64>),
    now: Time,
    collector: C,
) -> Result<Option<(C, Looked)>> {
    let some = match newest {
        Some(most) => broker.newest(channel, want, most).await?,
        None => None,
    };
    let newest_only = some.is_some();
    let mut pages = match some {
        Some(pages) => pages,
        None => broker.snapshot(channel, want).await?,
    };
    let decoder = Decoder {
        channel: channel.clone(),
        selection: selection.clone(),
        now,
        collector,
        seen: 0,
        selected: 0,
        undecided: 0,
        causes: Vec::new(),
        lacks_bodies: false,
        without_bodies: !want.bodies,
    };
    let decoded = match pages.reads_ahead() {
        true => here(&mut *pages, decoder).await,
        false => beside(&mut *pages, decoder).await,
    };
    let snapshot = pages.snapshot().clone();
    let closed = pages.close().await;
    let (decoder, ended_early) = decoded?;
    let cost = closed?;
    if decoder.lacks_bodies {
        return Ok(None);
    }
    let looked = Looked {
        snapshot,
        cost,
        seen: decoder.seen,
        selected: decoder.selected,
        undecided: decoder.undecided,
        causes: decoder.causes,
        ended_early,
        newest_only,
    };
    Ok(Some((decoder.collector, looked)))
}

/// Decodes page after page where the broker reads the next ones on a thread of its own: a thread between the two would
/// only be woken for each page. Gives the decoder back, and whether it had enough before the end.
async fn here<C: Collect>(pages: &mut dyn Pages, mut decoder: Decoder<C>) -> Result<(Decoder<C>, bool)> {
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok((decoder, false));
        }
        if decoder.page(page).is_break() {
            return Ok((decoder, true));
        }
    }
}

/// Decodes on a thread of its own, while the next page is asked for.
async fn beside<C: Collect>(pages: &mut dyn Pages, mut decoder: Decoder<C>) -> Result<(Decoder<C>, bool)> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<Vec<RawLetter>>(1);
    let decoding = tokio::task::spawn_blocking(move || {
        while let Some(page) = receiver.blocking_recv() {
            if decoder.page(page).is_break() {
                return (decoder, true);
            }
        }
        (decoder, false)
    });
    let read = async {
        loop {
            let page = pages.next().await?;
            if page.is_empty() || sender.send(page).await.is_err() {
                return Ok(());
            }
        }
    };
    let read: Result<()> = read.await;
    drop(sender);
    let decoded = decoding.await;
    read?;
    decoded.map_err(|error| BrokerError::new(ErrorKind::Other, "decode letters", error.to_string()))
}

/// The letters whose id begins with `prefix`, with bodies, at most three; a letter with just that id comes
/// alone. Looks it up where the broker can, else reads the queue through.
///
/// # Errors
/// The broker's.
pub async fn find_letter(
    broker: &dyn Browse,
    channel: &Channel,
    prefix: &LetterId,
    moved: bool,
) -> Result<(Vec<RawLetter>, Option<LookCost>)> {
    if let Some(mut found) = broker.find(channel, prefix).await? {
        if let Some(at) = found.iter().position(|letter| letter.id == *prefix) {
            found = vec![found.swap_remove(at)];
        }
        return Ok((found, None));
    }
    let mut pages = broker.snapshot(channel, Want { bodies: true, moved }).await?;
    let mut found: Vec<RawLetter> = Vec::new();
    let read = loop {
        let page = match pages.next().await {
            Ok(page) if page.is_empty() => break Ok(()),
            Ok(page) => page,
            Err(error) => break Err(error),
        };
        let mut matching = page.into_iter().filter(|letter| letter.id.as_str().starts_with(prefix.as_str()));
        let exact = matching.find_map(|letter| {
            if letter.id == *prefix {
                return Some(letter);
            }
            if found.len() < 3 {
                found.push(letter);
            }
            None
        });
        if let Some(exact) = exact {
            found = vec![exact];
            break Ok(());
        }
    };
    let closed = pages.close().await;
    read?;
    Ok((found, Some(closed?)))
}
