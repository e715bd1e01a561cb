//! Before a run: the first pass over a snapshot. Every letter is read once and indexed on disk; then it is
//! known which of the selected ones may go, and why the others may not (rules 2, 5, 6, 9).

mod read;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinHandle;

use self::read::{ReadLetter, Rules, read};
use super::copy;
use super::overtaken::{Overtaken, Streams, overtaken};
use crate::broker::{
    BrokerError, Browse, Capabilities, ErrorKind, Holding, LookCost, Names, Placing, Snapshot, Want,
};
use crate::clock::Time;
use crate::dead_letter::{DeadLetter, Whence};
use crate::failure::Prospect;
use crate::ledger::{Found, Judged, LedgerError, MovedBefore, Scratch, Seen, Summary};
use crate::letter::RawLetter;
use crate::manifest::{Fault, Head, Line, OrderPolicy, Reader, Why, Writer, bounded, told_apart};
use crate::selection::{Limit, Selection};
use crate::topology::Channel;

/// What is to be selected, and by which rules letters stay.
pub struct Request<'a> {
    /// The channel.
    pub channel: &'a Channel,
    /// Its names on the broker.
    pub names: &'a Names,
    /// What the broker can do.
    pub capabilities: &'a Capabilities,
    /// Which letters.
    pub selection: &'a Selection,
    /// A frozen selection instead.
    pub manifest: Option<&'a Path>,
    /// Order within groups.
    pub order: OrderPolicy,
    /// One of equal letters, the rest settled.
    pub dedupe: bool,
    /// Also letters that consumers may have forgotten.
    pub past_dedup_window: bool,
    /// Also letters that died in another queue.
    pub any_origin: bool,
    /// Letters that a later message of their group has overtaken stay.
    pub skip_overtaken: bool,
    /// The time.
    pub now: Time,
    /// Positions that another run left open, and that run (m17).
    pub open_elsewhere: &'a HashMap<String, String>,
    /// This is a further pass of a run: what it may take.
    pub pass: Option<&'a Pass>,
    /// What earlier runs have moved, where the broker may hand it out again; those letters are not sent.
    pub moved_before: &'a MovedBefore,
    /// The run begins at once, without anybody being asked: what the look holds is left to it, where that can be.
    pub goes_on: bool,
}

/// What a further pass of a run may take: letters of the extent that its first look began with, which it could
/// not see then (rule 2). What the run knows already stays what it is, and holds its group as before.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    /// Nothing that came later: a letter that died again is not chased.
    pub until: Time,
    /// Hashes of the positions in the run's manifest.
    pub known: HashSet<u64>,
}

impl Pass {
    /// A position as [`Pass::known`] has it.
    pub fn hash(position: &str) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        position.hash(&mut hasher);
        hasher.finish()
    }

    fn takes(&self, letter: &DeadLetter) -> bool {
        // Without a time of writing nothing shows that it was there.
        letter.raw.facts.written_at.is_some_and(|(at, _)| at <= self.until)
            && !self.known.contains(&Self::hash(letter.raw.position.as_str()))
    }
}

/// A snapshot, indexed and judged.
pub struct Prepared {
    scratch: Scratch,
    /// The extent.
    pub snapshot: Snapshot,
    /// What looking cost.
    pub cost: LookCost,
    /// What the look still holds, if the run goes on from there: taken, or given back.
    pub held: Option<Box<dyn Holding>>,
    /// How the lines of a manifest were found.
    pub found: Option<Found>,
    /// The numbers.
    pub summary: Summary,
    /// Selected letters whose cause or group nobody can tell: of how many a rule lacked a fact.
    pub undecided: u64,
    /// Causes of the selected letters, at most two.
    pub causes: Vec<String>,
    /// A limit that was reached.
    pub limit_reached: bool,
    /// Letters that come with fewer tries than usual, in words, and how many.
    pub prospects: Vec<(String, u64)>,
    /// Why letters must not be sent and the way round, in words, and how many; the most frequent first.
    pub refusals: Vec<(String, u64)>,
    /// Letters that a later message of their group has overtaken.
    pub overtaken: Overtaken,
    /// Letters whose copies would go elsewhere than where their message lay.
    pub misplaced: Misplaced,
}

/// Letters whose key has another partition than the one where the message first lay (K21): its producer places keys by
/// another rule, and a copy could pass or be passed by messages that live.
#[derive(Debug, Clone, Default)]
pub struct Misplaced {
    /// How many.
    pub letters: u64,
    /// The first of them.
    pub named: Vec<String>,
    /// How they are placed, where that can be told.
    pub placing: Option<Placing>,
}

impl Misplaced {
    /// Letters that are named.
    const NAMED: usize = 3;

    fn add(&mut self, letter: &DeadLetter) {
        let (Some(placing), Some(key)) = (&self.placing, &letter.raw.message.key) else { return };
        let Some(origin) = &letter.context.origin else { return };
        let there = origin.topic.as_deref() == Some(placing.queue.as_str());
        let Some(partition) = origin.partition.filter(|_| there) else { return };
        if (placing.place)(key, placing.partitions) != partition {
            self.letters += 1;
            if self.named.len() < Self::NAMED {
                self.named.push(letter.raw.id.as_str().to_owned());
            }
        }
    }
}

/// Reasons in words that are counted apart. A pointer's names its place: each may be another.
const MOST_WORDS: usize = 256;

/// What can go wrong before a run.
#[derive(Debug)]
pub enum PrepareError {
    /// The broker's word.
    Broker(BrokerError),
    /// No room, or no temporary folder.
    Scratch(LedgerError),
    /// The manifest, and what is wrong with it.
    Manifest(PathBuf, Fault),
    /// The file that the selection was to go to.
    File(PathBuf, std::io::Error),
}

impl From<LedgerError> for PrepareError {
    fn from(error: LedgerError) -> Self {
        Self::Scratch(error)
    }
}

impl From<BrokerError> for PrepareError {
    fn from(error: BrokerError) -> Self {
        Self::Broker(error)
    }
}

/// Looks at the whole dead-letter queue once. `seen` is called with the number of letters read, now and then.
///
/// # Errors
/// See [`PrepareError`]. Nothing was changed but what looking costs.
pub async fn prepare(
    browse: &dyn Browse,
    request: &Request<'_>,
    mut seen: impl FnMut(u64),
) -> Result<Prepared, PrepareError> {
    let mut scratch = Scratch::new()?;
    if let Some(path) = request.manifest {
        let told = |fault| PrepareError::Manifest(path.to_owned(), fault);
        let mut reader = Reader::open(path).map_err(told)?;
        while let Some(line) = reader.next_line().map_err(told)? {
            scratch.expect(&line)?;
        }
    }
    let mut pages = browse.snapshot(request.channel, Want { bodies: true, moved: false }).await?;
    // Only for those in groups does the place matter, and who may not ask goes without.
    let placing = match request.order {
        OrderPolicy::Group => browse.placing(request.channel).await.unwrap_or_default(),
        OrderPolicy::None => None,
    };
    let mut index = Index {
        request,
        scratch,
        selected: 0,
        undecided: 0,
        causes: Vec::new(),
        limit_reached: false,
        prospects: HashMap::new(),
        refusals: HashMap::new(),
        streams: Streams::default(),
        misplaced: Misplaced { placing, ..Misplaced::default() },
    };
    let rules = Arc::new(Rules {
        channel: request.channel.clone(),
        selection: request.manifest.is_none().then(|| request.selection.clone()),
        now: request.now,
    });
    // The page before is indexed while this one is read into dead letters, and the next one fetched.
    let mut reading: Option<JoinHandle<Vec<ReadLetter>>> = None;
    loop {
        let page = match pages.next().await {
            Ok(page) => page,
            Err(error) => {
                // What was held is given back before the error is told.
                let _ = pages.close().await;
                return Err(error.into());
            }
        };
        let over = page.is_empty();
        let next = (!over).then(|| read(page, &rules));
        if let Some(before) = std::mem::replace(&mut reading, next) {
            let letters = before.await.map_err(|_| {
                BrokerError::new(ErrorKind::Other, "read the letters", "the work was cut off")
            })?;
            for letter in letters {
                if let Some(goes) = index.add(letter)?
                    && request.goes_on
                {
                    pages.keep(goes);
                }
            }
            seen(index.scratch.len());
        }
        if over {
            break;
        }
    }
    let snapshot = pages.snapshot().clone();
    let (cost, held) = match request.goes_on {
        true => pages.hold().await?,
        false => (pages.close().await?, None),
    };
    match judged(browse, request, index, snapshot, cost).await {
        Ok(prepared) => Ok(Prepared { held, ..prepared }),
        Err(error) => {
            give_back(held).await;
            Err(error)
        }
    }
}

/// Gives back what a look still holds; without an answer it goes back when the connection ends.
pub async fn give_back(held: Option<Box<dyn Holding>>) {
    if let Some(held) = held {
        let _ = held.give_back().await;
    }
}

/// What the whole snapshot says.
async fn judged(
    browse: &dyn Browse,
    request: &Request<'_>,
    index: Index<'_>,
    snapshot: Snapshot,
    cost: LookCost,
) -> Result<Prepared, PrepareError> {
    let Index {
        mut scratch, undecided, causes, limit_reached, prospects, refusals, streams, misplaced, ..
    } = index;
    let found = match request.manifest {
        Some(_) => Some(scratch.settle_expected()?),
        None => None,
    };
    let ordered = request.order == OrderPolicy::Group;
    let overtaken = match ordered {
        true => overtaken(browse, request, &mut scratch, &streams).await?,
        false => Overtaken::default(),
    };
    scratch.judge(Judged { ordered, dedupe: request.dedupe })?;
    let summary = scratch.summary()?;
    let (prospects, refusals) = (by_number(prospects), by_number(refusals));
    Ok(Prepared {
        scratch,
        snapshot,
        cost,
        held: None,
        found,
        summary,
        undecided,
        causes,
        limit_reached,
        prospects,
        refusals,
        overtaken,
        misplaced,
    })
}

/// The most frequent first.
fn by_number(words: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut words: Vec<(String, u64)> = words.into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    words
}

/// Counts `words`, up to a number of different ones.
fn tell(counts: &mut HashMap<String, u64>, words: String) {
    if counts.len() < MOST_WORDS || counts.contains_key(&words) {
        *counts.entry(words).or_default() += 1;
    }
}

impl Prepared {
    /// Is the manifest's letter at this position gone, as far as can be told?
    pub fn is_gone(&self, position: &str) -> bool {
        self.scratch.was_gone(position).unwrap_or(false)
    }

    /// How many letters at these positions would be sent.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn to_send_at<'p>(&self, positions: impl Iterator<Item = &'p str>) -> Result<u64, PrepareError> {
        Ok(self.scratch.to_send_at(positions)?)
    }

    /// Writes the selection down as it will be sent. Gives the number of letters.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn freeze(&self, path: &Path, head: &Head) -> Result<u64, PrepareError> {
        let told = |error| PrepareError::File(path.to_owned(), error);
        let mut writer = Writer::create(path, head).map_err(told)?;
        self.scratch.lines(|line| writer.line(&line).map_err(told))?;
        writer.finish().map_err(told)
    }

    /// Every line of the selection that a rule keeps from the start.
    ///
    /// # Errors
    /// See [`PrepareError`], and what `each` says.
    pub fn kept(&self, mut each: impl FnMut(Line) -> Result<(), LedgerError>) -> Result<(), PrepareError> {
        if self.summary.kept.is_empty() {
            return Ok(());
        }
        self.scratch.lines::<PrepareError>(|line| match line.kept {
            Some(_) => Ok(each(line)?),
            None => Ok(()),
        })?;
        Ok(())
    }
}

impl Prepared {
    /// Appends the selection to a manifest that has letters already, numbered on. Gives the number of all.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn append(
        &self,
        mut writer: Writer,
        mut each: impl FnMut(&Line) -> Result<(), LedgerError>,
    ) -> Result<u64, PrepareError> {
        let (before, path) = (writer.count(), writer.path().to_owned());
        let told = |error| PrepareError::File(path.clone(), error);
        self.scratch.lines(|mut line| {
            line.seq += before;
            line.twin_of = line.twin_of.map(|seq| seq + before);
            each(&line)?;
            writer.line(&line).map_err(told)
        })?;
        writer.finish().map_err(told)
    }
}

struct Index<'a> {
    request: &'a Request<'a>,
    scratch: Scratch,
    selected: u64,
    undecided: u64,
    causes: Vec<String>,
    limit_reached: bool,
    prospects: HashMap<String, u64>,
    refusals: HashMap<String, u64>,
    streams: Streams,
    misplaced: Misplaced,
}

impl Index<'_> {
    /// Gives the letter back if it may be sent, as far as it alone tells.
    fn add(&mut self, read: ReadLetter) -> Result<Option<RawLetter>, PrepareError> {
        let ReadLetter { letter, selected, refused, body } = read;
        let position = letter.raw.position.as_str();
        let mut kept = None;
        let selected = match self.request.manifest {
            Some(_) => match self.scratch.expected(position, body.as_ref())? {
                None => false,
                Some(same) => {
                    if !same {
                        kept = Some((Why::Changed, None));
                    }
                    true
                }
            },
            None if self.request.pass.is_some_and(|pass| !pass.takes(&letter)) => false,
            None => self.is_selected(selected),
        };
        if kept.is_none()
            && let Some(run) = self.request.moved_before.by(position)
        {
            kept = Some((Why::MovedBefore, Some(run.to_owned())));
        }
        if selected && kept.is_none() {
            kept = self.keeps(&letter, refused);
            if let Some((Why::Refused, Some(words))) = &kept {
                tell(&mut self.refusals, words.clone());
            }
        }
        let cause = letter.cause.id.as_str();
        if selected && self.causes.len() < 2 && self.causes.iter().all(|known| known != cause) {
            self.causes.push(cause.to_owned());
        }
        if selected && kept.is_none() {
            for prospect in &letter.context.prospects {
                match prospect {
                    Prospect::OneTry { why } => tell(&mut self.prospects, format!("one try only: {why}")),
                    Prospect::Pointer { .. } => {
                        tell(&mut self.prospects, "a pointer only: the payload is elsewhere".to_owned());
                    }
                    Prospect::Expires { at, why, .. } => {
                        tell(&mut self.prospects, format!("until {at} only, then lost: {why}"));
                    }
                    Prospect::Afresh | Prospect::Refused { .. } | Prospect::ToQueue { .. } => {}
                }
            }
        }
        let goes = selected && kept.is_none();
        let origin = letter.context.origin.as_ref().and_then(|origin| {
            let offset = origin.offset?;
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut hasher = DefaultHasher::new();
            (&origin.topic, origin.partition).hash(&mut hasher);
            Some((hasher.finish(), offset))
        });
        self.scratch.add(&Seen {
            letter: letter.raw.id.as_str(),
            position,
            event_id: letter.event_id.value.as_deref().map(told_apart).as_deref(),
            group: letter.group.value.as_deref().map(told_apart).as_deref(),
            origin,
            cause: letter.cause.id.as_str(),
            body,
            size: letter.raw.size(),
            died: letter.died_at.map(|(at, _)| at),
            selected,
            kept,
        })?;
        if goes {
            self.misplaced.add(&letter);
        }
        if let (Some((stream, _)), true) = (origin, goes) {
            self.streams.add(stream, &letter, &self.request.names.source);
        }
        Ok(goes.then_some(letter.raw))
    }

    /// By the selection, up to the limit: the oldest first, as they come.
    fn is_selected(&mut self, selected: Option<bool>) -> bool {
        match selected {
            Some(true) => {}
            Some(false) => return false,
            None => {
                self.undecided += 1;
                return false;
            }
        }
        let fits = match self.request.selection.limit {
            Limit::All => true,
            Limit::AtMost(most) => self.selected < most,
        };
        if fits {
            self.selected += 1;
        } else {
            self.limit_reached = true;
        }
        fits
    }

    /// Why a selected letter stays for its own sake.
    fn keeps(&self, letter: &DeadLetter, refused: Option<Prospect>) -> Option<(Why, Option<String>)> {
        let request = self.request;
        if let Some(run) = request.open_elsewhere.get(letter.raw.position.as_str())
            && !crate::proof::mutation::mutated("m17")
        {
            return Some((Why::OpenElsewhere, Some(run.clone())));
        }
        if let Some(prospect) = refused.as_ref().or_else(|| letter.context.expired(request.now)) {
            return Some((Why::Refused, Some(bounded(&prospect.refusal()).to_owned())));
        }
        if let Some(origin) = self.other_origin(letter) {
            return Some((Why::OtherOrigin, Some(bounded(&origin).to_owned())));
        }
        let redrive = &request.channel.redrive;
        if letter.redriven >= redrive.max_redrives.value.get() {
            let told = match letter.redriven {
                u32::MAX => format!("{} is no number that redrive wrote", crate::stamp::COUNT),
                times => times.to_string(),
            };
            return Some((Why::MaxRedrives, Some(told)));
        }
        if let (Some(window), Some((died, _)), false) =
            (&redrive.dedup_window, letter.died_at, request.past_dedup_window)
            && request.now.since(died) > window.value
        {
            return Some((Why::DedupWindow, Some(died.rfc3339())));
        }
        if let Some(limit) = request.capabilities.limits.message
            && letter.raw.size() + copy::STAMPS_SIZE > limit
        {
            // What stays behind is not sent, so only the copy itself can tell.
            let size = copy::outgoing(letter, "r0000000000000", u64::MAX).map_or(0, |message| {
                message.key.as_ref().map_or(0, bytes::Bytes::len) as u64
                    + message.body.as_ref().map_or(0, bytes::Bytes::len) as u64
                    + message.headers.size()
                    + message.properties.size()
            });
            if size > limit {
                return Some((Why::TooLarge, Some(size.to_string())));
            }
        }
        (letter.group.whence == Whence::Lost && request.order == OrderPolicy::Group)
            .then_some((Why::NoGroup, None))
    }

    /// Rule 9: the queue where it first lived, if the letter names one and it is none of this channel's.
    fn other_origin(&self, letter: &DeadLetter) -> Option<String> {
        if self.request.any_origin {
            return None;
        }
        let origin = letter.context.origin.as_ref();
        let first = origin.and_then(|origin| origin.topic.as_deref().or(origin.queue.as_deref()));
        // Where the origin names no queue, a dialect may still know the only one that is right.
        let name = first.or_else(|| {
            letter.context.prospects.iter().find_map(|prospect| match prospect {
                Prospect::ToQueue { queue, .. } => Some(queue.as_str()),
                _ => None,
            })
        })?;
        let names = self.request.names;
        let is_ours = |name: &str| {
            name == names.source
                || name == names.return_to
                || name == self.request.channel.source.value
                || name == names.dead_letter
                || names.tiers.iter().any(|tier| tier == name)
        };
        // One that was sent here on purpose before, and died here, is this channel's.
        let last = letter.context.last().and_then(|death| death.place.as_ref());
        let last = last.and_then(|place| place.topic.as_deref().or(place.queue.as_deref()));
        let sent_here = letter.redriven > 0 && last.is_some_and(is_ours);
        (!is_ours(name) && !sent_here).then(|| name.to_owned())
    }
}
