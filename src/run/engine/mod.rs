//! The driver: carries out what the [`Machine`](super::machine::Machine) decides, with a ledger, a broker's
//! mover and a clock. It decides nothing about letters itself.

mod actions;
mod copies;
mod end;
mod flight;
mod lines;
mod looks;
mod places;
mod record;
mod recover;
mod refailed;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use end::{Cause, End};
pub use lines::Lines;

use copies::{Copies, Copy};
use looks::{Look, Looks, Trash};
use places::Places;
use refailed::Refailed;

use super::event::{Event, Observer, Progress};
use super::machine::{Action, Machine, Now, Rules, Start, Stop};
use super::numbered::Lined;
use super::pace::Pace;
use super::recovery::Orders;
use super::yielding::{self, Yielding};
use crate::broker::{Atomicity, BrokerError, Capabilities, Dedup, ErrorKind, Mover, Receipt};
use crate::clock::{Clock, Time};
use crate::ledger::{Counts, Ledger, LedgerError, Lock, MovedBefore, Wish, Writes};
use crate::letter::Position;
use crate::manifest::{Line, OrderPolicy};
use crate::proof::failpoint;
use crate::proof::mutation::mutated;
use crate::topology::{Channel, Rate};

/// How a run is to go.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Letters a second.
    pub rate: Rate,
    /// Time to reach it.
    pub ramp: Duration,
    /// Errors in a row that stop the run; 0 is never.
    pub max_errors: u32,
    /// Part of the moved letters, of 20 at least, that may die again before the run stops; `None`: they are only counted.
    pub stop_on_refail: Option<f64>,
    /// Letters that are gone are skipped, and their groups go on.
    pub allow_gone: bool,
    /// Order within groups.
    pub order: OrderPolicy,
    /// How long a claim lasts without being renewed.
    pub claim_for: Duration,
    /// Publish, record, settle, even where the broker has transactions.
    pub without_transactions: bool,
    /// Copies keep the first time of their message.
    pub keep_times: bool,
    /// At the end moved letters are deleted up to the first open one.
    pub trim: bool,
    /// Nothing is asked of the broker about a send without an answer, as on one that cannot tell.
    pub without_lookup: bool,
    /// How long the broker may be away.
    pub reconnect_for: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate: Rate::PerSecond(50.0),
            ramp: Duration::ZERO,
            max_errors: 5,
            stop_on_refail: Some(0.2),
            allow_gone: false,
            order: OrderPolicy::Group,
            claim_for: Duration::from_secs(60),
            without_transactions: false,
            keep_times: false,
            trim: false,
            without_lookup: false,
            reconnect_for: Duration::from_secs(60),
        }
    }
}

/// A run that is ready to go.
pub struct Job<'a> {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The channel.
    pub channel: &'a Channel,
    /// What the broker can do for it.
    pub capabilities: &'a Capabilities,
    /// The record.
    pub ledger: &'a mut Ledger,
    /// Held for this run.
    pub lock: Lock,
    /// The run's id.
    pub run: String,
    /// Its number in the ledger.
    pub number: i64,
    /// The frozen selection; verified before.
    pub manifest: Lines,
    /// Letters in it.
    pub planned: u64,
    /// Kept by rules known before: skipped, held.
    pub kept: (u64, u64),
    /// Letters that had died again by the end of the parts before, as recorded.
    pub refailed_before: u64,
    /// The broker's session.
    pub mover: Box<dyn Mover>,
    /// How.
    pub settings: Settings,
    /// Set if this is a resume.
    pub resume: Option<Orders>,
    /// Becomes true when somebody asks to stop.
    pub stopping: watch::Receiver<bool>,
    /// Who watches.
    pub observer: &'a mut dyn Observer,
}

/// Most letters of a batch where it could be one transaction and is not to be: so many may be in doubt after a crash
/// where the broker cannot prove what arrived.
pub const WINDOW: usize = 1_000;
/// Most bytes claimed at once.
const CLAIM_BYTES: u64 = 16 << 20;
/// How long a send may take; claims and lock must last longer (m19).
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// A letter in our hands: its claim, and the copy that will be sent.
struct InHand {
    receipt: Receipt,
    position: Position,
    copy: Copy,
    until: Duration,
    claim: u64,
}

struct Engine<'a> {
    job: Job<'a>,
    machine: Machine,
    pace: Pace,
    writes: Writes,
    /// Which part of the run this is, as long as nobody has taken over before it began.
    part: Option<u32>,
    /// Lines in the window.
    lines: Lined<Box<Line>>,
    /// Where they lie.
    places: Places,
    hand: Lined<InHand>,
    /// When the first intent of a letter was written.
    first_intent: Lined<Time>,
    /// Codes and words of refusals that are not written yet.
    refusals: Lined<(String, String)>,
    no_more_lines: bool,
    read: u64,
    begun: Duration,
    renewed: Duration,
    recorded: Duration,
    told: Duration,
    looked: Duration,
    /// Whether the run stands back for the relay; when the tiers were asked, and what they said.
    yielding: Yielding,
    asked: Option<Duration>,
    overdue: Option<u64>,
    last_success: Duration,
    /// Since when nothing that is wanted is handed out, and that is not the end.
    dry: Option<Duration>,
    refailed: Refailed,
    cause: Option<Cause>,
    moved_before: u64,
    /// What other runs moved since this one began, once a resume asked for it.
    elsewhere: Option<MovedBefore>,
    /// What other runs have left open by now, and which, once a resume asked for it.
    left_open: Option<HashMap<String, String>>,
    last_doubt: Option<BrokerError>,
    /// A batch is one transaction.
    transaction: bool,
    copies: Copies,
    looks: Looks,
    /// A look that waits for the answer of a transaction.
    set_aside: Option<Look>,
    trash: Trash,
    /// What went wrong while a transaction was on its way.
    fault: Option<EngineError>,
    claims_made: u64,
    /// Spent at the ledger.
    recording: Duration,
}

/// Drives a run to its end. Whatever happens, what is in flight is brought to an end that the ledger tells.
///
/// # Errors
/// Only what makes even that impossible: the ledger or the manifest cannot be read or written.
pub async fn drive(mut job: Job<'_>) -> Result<End, EngineError> {
    let rules = rules_of(&job);
    let transaction = rules.transaction;
    let pace = Pace::new(job.settings.rate, job.settings.ramp, Arc::clone(&job.clock));
    let now = job.clock.elapsed();
    let writes = Writes::of(job.number);
    // A ledger that cannot tell refuses last words, nothing else.
    let part = job.ledger.part_held(job.number, &job.lock).unwrap_or_default();
    let copies = Copies::new(job.channel, &job.run, Arc::clone(&job.clock));
    let looker = if transaction { job.mover.looker().await } else { None };
    let mut engine = Engine {
        machine: Machine::new(rules),
        pace,
        writes,
        part,
        lines: Lined::default(),
        places: Places::default(),
        hand: Lined::default(),
        first_intent: Lined::default(),
        refusals: Lined::default(),
        no_more_lines: false,
        read: 0,
        begun: now,
        renewed: now,
        recorded: now,
        told: now,
        looked: now,
        yielding: Yielding::default(),
        asked: None,
        overdue: Some(0),
        last_success: now,
        dry: None,
        refailed: Refailed::default(),
        cause: None,
        moved_before: 0,
        elsewhere: None,
        left_open: None,
        last_doubt: None,
        transaction,
        looks: Looks::of(looker, &copies),
        copies,
        set_aside: None,
        trash: Trash::default(),
        fault: None,
        claims_made: 0,
        recording: Duration::ZERO,
        job,
    };
    failpoint::hit("begun");
    let result = engine.run().await;
    engine.close(result).await
}

/// What a driver cannot go on without.
#[derive(Debug)]
pub enum EngineError {
    /// The ledger.
    Ledger(LedgerError),
    /// The run's own manifest.
    Manifest(crate::manifest::Fault),
    /// Counts that do not add up: a bug.
    Counts(String),
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ledger(error) => write!(f, "the ledger: {error}"),
            Self::Manifest(fault) => write!(f, "the run's manifest: {fault}"),
            Self::Counts(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<LedgerError> for EngineError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl From<crate::manifest::Fault> for EngineError {
    fn from(fault: crate::manifest::Fault) -> Self {
        Self::Manifest(fault)
    }
}

fn rules_of(job: &Job<'_>) -> Rules {
    let transaction =
        job.capabilities.relocate == Atomicity::Transaction && !job.settings.without_transactions;
    // A claim batch is no larger than what the rate lets go while the claim is good for a send.
    let good_for = job.settings.claim_for.saturating_sub(SEND_TIMEOUT).as_secs_f64();
    // Copies of a batch that is no transaction may be twice after a crash.
    let may_be_twice = job.capabilities.relocate == Atomicity::Transaction && !transaction;
    let batch = job.capabilities.batch.min(if may_be_twice { WINDOW } else { usize::MAX });
    let at_hand = batch.max(job.capabilities.claims);
    // Twice a batch keeps the next one at hand; a large one need not wait for that.
    let most = at_hand.min(batch.max(2_000));
    let claims = match job.settings.rate {
        // One batch is on its way while letters of others are read and their copies made.
        Rate::Unlimited if transaction => at_hand,
        Rate::Unlimited => most,
        Rate::PerSecond(rate) => ((rate * good_for * 0.5) as usize).clamp(2, most),
    };
    Rules {
        transaction,
        ordered_batch: transaction && job.capabilities.ordered_batch,
        window: (3 * batch).max(8_000),
        batch: batch.min(claims),
        claims,
        attempts: 5,
        max_errors: job.settings.max_errors,
        allow_gone: job.settings.allow_gone,
        accept_gone: job.resume.is_some_and(|orders| orders.accept_gone),
        ordered: job.settings.order == OrderPolicy::Group,
    }
}

impl Engine<'_> {
    async fn run(&mut self) -> Result<Stop, EngineError> {
        if let Some(orders) = self.job.resume {
            self.recover(orders).await?;
            failpoint::hit("recovered");
            self.look_at_refailed().await;
        }
        loop {
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            self.housekeeping().await?;
            match self.next() {
                Action::End(stop) => return Ok(stop),
                action => self.carry_out(action).await?,
            }
        }
    }

    fn next(&mut self) -> Action {
        let now = self.job.clock.elapsed();
        let (lock, stale) = self.holds();
        let flush = now.saturating_sub(self.recorded) >= Duration::from_secs(1);
        let pace = &mut self.pace;
        let yields = self.yielding.yields();
        let mut permits = |could: usize| if yields { 0 } else { pace.take_full(could) };
        let (dedup, first_intent, at) =
            (self.job.capabilities.dedup, &self.first_intent, self.job.clock.now());
        // Typed out by a person: it may be twice, and stays named.
        let ordered = self.job.resume.is_some_and(|orders| orders.resend_in_doubt);
        let may_resend = |seq| ordered || is_idempotent(dedup, first_intent.get(&seq).copied(), at);
        let mut now = Now {
            permits: &mut permits,
            lock,
            may_resend: &may_resend,
            stale: &stale,
            more: !self.no_more_lines,
            flush,
        };
        self.machine.hold_at_most(self.job.mover.most_held());
        let action = self.machine.next(&mut now);
        for seq in stale {
            // Of one that is on its way the answer comes first: what goes back from there is claimed anew then.
            if !self.machine.sends(seq) {
                self.hand.remove(&seq);
            }
        }
        action
    }

    /// Does the lock hold for long enough to send (m19), and which claims do not?
    fn holds(&self) -> (bool, Vec<u64>) {
        let good_until = self.job.clock.elapsed() + SEND_TIMEOUT;
        let lock = self.renewed + self.job.settings.claim_for > good_until || mutated("m19");
        let ends = |(_, hand): &(&u64, &InHand)| hand.until <= good_until;
        (lock, self.hand.iter().filter(ends).map(|(seq, _)| *seq).collect())
    }

    /// Is it time for what has to happen from time to time and needs the session?
    fn is_due(&self) -> bool {
        let now = self.job.clock.elapsed();
        let since = |at: Duration| now.saturating_sub(at);
        since(self.renewed) >= self.job.settings.claim_for / 3
            || since(self.looked) >= Duration::from_secs(1)
            || self.overdue.is_some() && self.asked.is_none_or(|asked| since(asked) >= yielding::EVERY)
    }

    /// What has to happen from time to time, whatever the letters do.
    async fn housekeeping(&mut self) -> Result<(), EngineError> {
        let now = self.job.clock.elapsed();
        if *self.job.stopping.borrow() && self.cause.is_none() {
            self.stop(Cause::Asked);
        }
        if now.saturating_sub(self.renewed) >= self.job.settings.claim_for / 3 {
            self.renew().await?;
        }
        self.ask_the_tiers(now).await;
        if now.saturating_sub(self.looked) >= Duration::from_secs(1) {
            self.looked = now;
            self.look_around().await?;
        }
        self.tell(now);
        Ok(())
    }

    /// Tells how far the run is, now and then.
    fn tell(&mut self, now: Duration) {
        if now.saturating_sub(self.told) >= Duration::from_millis(100) {
            self.told = now;
            let progress = self.progress();
            self.job.observer.see(&Event::Progress(progress));
        }
    }

    /// Rule 3: a run yields to the relay of its target, where asking costs nothing.
    async fn ask_the_tiers(&mut self, now: Duration) {
        let due = self.asked.is_none_or(|asked| now.saturating_sub(asked) >= yielding::EVERY);
        if !due || self.overdue.is_none() {
            return;
        }
        self.asked = Some(now);
        // What cannot be told now is asked again; who cannot tell at all is not asked again.
        let Ok(overdue) = self.job.mover.overdue(yielding::GRACE).await else { return };
        self.overdue = overdue;
        let Some(overdue) = overdue else { return };
        let before = self.yielding.yields();
        let yields = self.yielding.told(now, overdue);
        if yields != before {
            self.job.observer.see(&Event::Yielding { overdue, yields });
        }
    }

    async fn renew(&mut self) -> Result<(), EngineError> {
        let at = self.job.clock.elapsed();
        let held: Vec<u64> = self.machine.in_hand().filter(|seq| self.hand.contains_key(seq)).collect();
        let receipts: Vec<_> = held.iter().map(|seq| self.hand[seq].receipt.clone()).collect();
        match self.job.mover.renew(&receipts).await {
            Ok(()) => {
                self.renewed = at;
                for seq in held {
                    if let Some(hand) = self.hand.get_mut(&seq) {
                        hand.until = at + self.job.settings.claim_for;
                    }
                }
            }
            // The lock may still hold: `next` sees when it no longer surely does.
            Err(error) if error.kind.transient() || error.kind == ErrorKind::Unknown => {
                if at.saturating_sub(self.renewed) + SEND_TIMEOUT >= self.job.settings.claim_for {
                    self.stop(Cause::Broker(error));
                }
            }
            Err(error) => self.stop(Cause::Broker(error)),
        }
        let (now, lease) = (self.job.clock.now(), self.job.settings.claim_for);
        match self.job.ledger.beat(&self.job.lock, now, lease) {
            Err(LedgerError::LockLost) => {
                self.stop(Cause::LockLost);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Once a second: what others wish, what died again, and a sign of life in the ledger.
    async fn look_around(&mut self) -> Result<(), EngineError> {
        match self.job.ledger.wished(self.job.number)? {
            Some(Wish::Pause) => self.stop(Cause::Paused),
            Some(Wish::Stop) => self.stop(Cause::StoppedFromOutside),
            None => {}
        }
        self.look_at_refailed().await;
        self.judge_refailed();
        let counts = self.counts_so_far();
        let unsettled = self.machine.tally().unsettled;
        let begun = self.job.clock.elapsed();
        self.job.ledger.note_progress(self.job.number, &counts, unsettled, self.job.clock.now())?;
        self.recording += self.job.clock.elapsed().saturating_sub(begun);
        Ok(())
    }

    /// Moved in this part.
    fn moved_now(&self) -> u64 {
        self.machine.tally().moved.saturating_sub(self.moved_before)
    }

    /// Stops in order, the first cause counts.
    fn stop(&mut self, cause: Cause) {
        if self.cause.is_none() {
            self.machine.stop(match cause {
                Cause::Broker(_) | Cause::LockLost => Stop::Session,
                _ => Stop::Asked,
            });
            self.job.observer.see(&Event::Stopping { in_flight: self.hand.len() });
            self.cause = Some(cause);
        }
    }

    /// Counts so far; letters that have not been come to are untouched.
    fn counts_so_far(&self) -> Counts {
        let tally = self.machine.tally();
        let mut counts = Counts {
            planned: self.job.planned,
            moved: tally.moved,
            skipped: tally.skipped + self.job.kept.0,
            failed: tally.failed,
            held: tally.held + self.job.kept.1,
            in_doubt: tally.in_doubt,
            untouched: 0,
        };
        let known = counts.moved + counts.skipped + counts.failed + counts.held + counts.in_doubt;
        counts.untouched = counts.planned.saturating_sub(known);
        counts
    }

    fn progress(&self) -> Progress {
        let counts = self.counts_so_far();
        let took = self.job.clock.elapsed().saturating_sub(self.begun);
        let moved_now = self.moved_now();
        let rate = if took.is_zero() { 0.0 } else { moved_now as f64 / took.as_secs_f64() };
        Progress {
            counts,
            moved_now,
            rate,
            allowed: self.pace.now_per_second(),
            refailed: self.refailed.all,
            yields_to: self.overdue.filter(|_| self.yielding.yields()),
            dry: self.dry.map(|since| self.job.clock.elapsed().saturating_sub(since)),
            took,
            in_hand: self.hand.len(),
        }
    }

    /// Reads more lines into the window.
    async fn offer(&mut self, most: usize) -> Result<(), EngineError> {
        let mut taken = 0;
        while taken < most {
            let Some(line) = self.job.manifest.next().await? else {
                self.no_more_lines = true;
                break;
            };
            self.read += 1;
            // What a rule keeps was counted and written down before the first letter went.
            if line.kept.is_some() && !mutated("m27") {
                continue;
            }
            let start = self.start_of_line(&line)?;
            if matches!(start, Start::Done { moved: true }) {
                self.moved_before += 1;
            }
            let group = line.group.as_deref().map(hash);
            self.machine.offer(line.seq, group, start, line.twins);
            self.places.enters(&line);
            self.lines.insert(line.seq, line);
            taken += 1;
        }
        Ok(())
    }

    /// May this letter be sent again though an earlier try has no answer?
    fn resend_is_idempotent(&self, seq: u64) -> bool {
        let first = self.first_intent.get(&seq).copied();
        is_idempotent(self.job.capabilities.dedup, first, self.job.clock.now())
    }
}

/// Sending again is idempotent where the broker knows the number of the letter, for ever or for a window
/// that counts from the first intent. Asked at the answer and again at the send (m06).
fn is_idempotent(dedup: Dedup, first_intent: Option<Time>, now: Time) -> bool {
    match dedup {
        Dedup::None => false,
        Dedup::RunAndSeq => true,
        Dedup::Window(_) if mutated("m06") => true,
        // A fifth of the window is kept for clocks that differ and for what is on its way.
        Dedup::Window(window) => first_intent.is_some_and(|first| now < first.plus(window * 4 / 5)),
    }
}

/// A group as lanes know it.
fn hash(group: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    group.hash(&mut hasher);
    hasher.finish()
}
