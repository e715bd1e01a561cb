//! What `select`, `run` and `resume` share: the ledger's place, the first pass over a snapshot, and driving a run
//! while somebody watches.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use super::holding::held_at_broker;
use super::inspect::announce_cost;
pub use super::judging::Judging;
use super::passes::Passes;
use super::selecting::one_cause;
use super::{Chosen, CommandError, Context, ExitCode, Loaded, ending, receives, signals};
use crate::broker::{Broker, BrokerError, Capabilities, ErrorKind, Holding, Names, Task, kind_of};
use crate::ledger::{Ledger, LedgerError, Lock, MovedBefore, RunRow, Scratch};
use crate::manifest::Reader;
use crate::render::run::{self as screen, Shared, Watch};
use crate::run::engine::{Cause, Job, Lines, Settings, drive};
use crate::run::prepare::{Pass, PrepareError, Prepared, Request, give_back, prepare};
use crate::run::recovery::Orders;
use crate::selection::Selection;
use crate::topology::{Channel, Rate};

/// How long a claim and the lock last without a sign of life.
pub const LEASE: Duration = Duration::from_secs(60);

/// Where the ledger lies: `--ledger`, `REDRIVE_LEDGER`, else the state folder of the user.
pub fn ledger_path(flag: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    if let Some(path) = flag {
        return Ok(path.clone());
    }
    if let Some(path) = path_in("REDRIVE_LEDGER") {
        return Ok(path);
    }
    match ledger_in_its_place() {
        Some(path) => Ok(path),
        None => Err(CommandError::usage("no place for the ledger: neither HOME nor XDG_STATE_HOME is set")
            .hint("Name one with --ledger FILE or REDRIVE_LEDGER.")),
    }
}

fn path_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where the ledger lies when nothing names one.
fn ledger_in_its_place() -> Option<PathBuf> {
    let state = path_in("XDG_STATE_HOME").filter(|path| path.is_absolute());
    Some(state.or_else(|| Some(path_in("HOME")?.join(".local/state")))?.join("redrive/ledger.db"))
}

/// A ledger's error, with its place.
pub fn ledger_error(path: &Path, error: &LedgerError) -> CommandError {
    let own = ledger_in_its_place().filter(|own| own != path);
    let own = own.map_or_else(|| "FILE".to_owned(), |own| own.display().to_string());
    match error {
        LedgerError::Newer(_) => CommandError::failed(format!("the ledger {}: {error}", path.display()))
            .hint("Use the redrive that wrote it, or a newer one."),
        LedgerError::File(at, what) if at == path => {
            CommandError::failed(format!("could not use the ledger {}: {what}", path.display()))
        }
        _ => CommandError::failed(format!("could not use the ledger {}: {error}", path.display())),
    }
    .hint("Another one is named with --ledger FILE or REDRIVE_LEDGER.")
    .next(["redrive", "runs", "--ledger", &own])
}

/// A rate as typed: `50/s`.
pub fn rate(text: &str) -> Result<Rate, CommandError> {
    Rate::parse(text).ok_or_else(|| {
        CommandError::usage(format!("--rate: `{}` is no rate", text.escape_default()))
            .hint("Write letters per time: 50/s, 600/m, 1000/h; or unlimited.")
    })
}

/// `50/s`, `10/m`, `unlimited`.
pub fn rate_text(rate: Rate) -> String {
    match rate {
        Rate::Unlimited => "unlimited".to_owned(),
        Rate::PerSecond(per_second) => {
            let whole = |value: f64| (value - value.round()).abs() < 1e-9 && value >= 1.0;
            if whole(per_second) {
                format!("{}/s", per_second.round())
            } else if whole(per_second * 60.0) {
                format!("{}/m", (per_second * 60.0).round())
            } else {
                format!("{}/h", per_second * 3600.0)
            }
        }
    }
}

/// What is known about a channel at its broker before anything is opened.
pub fn lowered(chosen: Chosen<'_>, channel: &Channel) -> Result<(Names, Capabilities), CommandError> {
    match kind_of(chosen.decl) {
        Some(kind) => Ok((kind.names(channel), kind.capabilities(channel))),
        None => Err(chosen.spoken_by_none()),
    }
}

/// The key of a dead-letter queue in the ledger's lock: the broker's url and the queue. A url that is a path
/// starts at the topology's folder.
pub fn queue_key(loaded: &Loaded, chosen: Chosen<'_>, queue: &str) -> String {
    let url = &chosen.decl.url.value;
    let base = match url.contains("//") {
        true => String::new(),
        false => std::fs::canonicalize(loaded.folder())
            .unwrap_or_else(|_| loaded.folder().to_owned())
            .display()
            .to_string(),
    };
    let identity =
        kind_of(chosen.decl).map_or_else(|| crate::redact::url(url), |kind| kind.identity(chosen.decl));
    format!("{base}|{identity}|{queue}")
}

/// What the ledger knows of a dead-letter queue from earlier runs, as far as a ledger is there to ask.
#[derive(Clone, Default)]
pub struct Earlier {
    /// Positions that a run left open, and that run (m17).
    pub open: HashMap<String, String>,
    /// What runs have moved, where the broker may hand it out again.
    pub moved: MovedBefore,
}

/// Positions that some run left open, as far as a ledger is there to ask.
///
/// # Errors
/// One is there, and cannot be asked: what it knows must not be sent a second time.
pub fn open_elsewhere(flag: Option<&PathBuf>, key: &str) -> Result<HashMap<String, String>, CommandError> {
    let Ok(at) = ledger_path(flag) else { return Ok(HashMap::new()) };
    let open =
        Ledger::look(&at).and_then(|ledger| ledger.map_or(Ok(Vec::new()), |it| it.open_elsewhere(key)));
    Ok(open.map_err(|error| ledger_error(&at, &error))?.into_iter().collect())
}

/// SQS keeps a message for 14 days at most; nothing that can come back is older.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(14 * 86_400);

impl Earlier {
    /// Asks the ledger.
    ///
    /// # Errors
    /// One is there, and cannot be asked: what it knows must not be sent a second time.
    pub fn of(
        ctx: &Context,
        flag: Option<&PathBuf>,
        key: &str,
        capabilities: &Capabilities,
        judging: &Judging,
    ) -> Result<Self, CommandError> {
        // No place for one: no run was ever recorded.
        let Ok(at) = ledger_path(flag) else { return Ok(Self::default()) };
        let told = |error| ledger_error(&at, &error);
        let Some(ledger) = Ledger::look(&at).map_err(told)? else { return Ok(Self::default()) };
        let open = ledger.open_elsewhere(key).map_err(told)?.into_iter().collect();
        let mut moved = match capabilities.deleted_returns && !judging.moved_before {
            true => ledger.moved_before(key, ctx.clock.now().minus(COMES_BACK_WITHIN)).map_err(told)?,
            false => MovedBefore::default(),
        };
        if !judging.moved_before {
            ledger.taken_as_gone(key, &mut moved).map_err(told)?;
        }
        Ok(Self { open, moved })
    }
}

/// What comes after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing is claimed.
    Shows,
    /// The letters are claimed, and a person may be asked before.
    Asks,
    /// The letters are claimed at once: what the look holds is left to the run, where that can be.
    Sends,
}

/// The first pass, with its progress.
#[allow(clippy::too_many_arguments)]
pub async fn look_through(
    ctx: &mut Context,
    broker: &dyn Broker,
    chosen: Chosen<'_>,
    channel: &Channel,
    selection: &Selection,
    manifest: Option<&Path>,
    judging: &Judging,
    earlier: &Earlier,
    pass: Option<&Pass>,
    then: Then,
) -> Result<Prepared, CommandError> {
    let (names, capabilities) = lowered(chosen, channel)?;
    let passes = match pass {
        None => announce_cost(ctx, broker, chosen, channel).await?,
        Some(_) => receives::guard(ctx, broker, chosen, channel).await?,
    };
    if judging.skip_overtaken && !capabilities.sees_later && pass.is_none() {
        ctx.ui.note(format!(
            "--skip-overtaken leaves nothing at {}: it cannot show what came after a letter where it died.",
            chosen.title()
        ));
    }
    let request = Request {
        channel,
        names: &names,
        capabilities: &capabilities,
        selection,
        manifest,
        order: judging.order,
        dedupe: judging.dedupe,
        past_dedup_window: judging.past_dedup_window,
        any_origin: judging.any_origin,
        skip_overtaken: judging.skip_overtaken,
        now: ctx.clock.now(),
        open_elsewhere: &earlier.open,
        moved_before: &earlier.moved,
        pass,
        goes_on: then == Then::Sends,
    };
    let mut progress = crate::render::Progress::new();
    let began = ctx.clock.elapsed();
    let (ui, clock) = (&mut ctx.ui, &ctx.clock);
    let prepared = prepare(broker, &request, |seen| {
        let past = clock.elapsed().saturating_sub(began);
        if past >= Duration::from_secs(1) {
            let line = format!("reading {}: {} letters so far", names.dead_letter, seen);
            progress.show(ui, past, &[line.into()]);
        }
    })
    .await;
    progress.clear(&mut ctx.ui);
    let mut prepared = prepared.map_err(|error| prepare_error(chosen, &error))?;
    receives::remember(ctx, passes.as_ref(), prepared.cost.spent);
    let claims = match then {
        Then::Shows => Ok(()),
        Then::Asks | Then::Sends => receives::may_claim(ctx, channel, passes.as_ref(), prepared.cost.spent),
    };
    if pass.is_none() && claims.is_ok() {
        for what in &prepared.cost.unseen {
            ctx.ui.note(format!("{what}."));
        }
    }
    match claims.and_then(|()| one_cause(selection.cause.as_deref(), &prepared.causes)) {
        Ok(()) => Ok(prepared),
        Err(error) => {
            give_back(prepared.held.take()).await;
            Err(error)
        }
    }
}

/// What went wrong before a run.
pub fn prepare_error(chosen: Chosen<'_>, error: &PrepareError) -> CommandError {
    match error {
        PrepareError::Broker(error) => CommandError::broker(chosen.name(), error),
        PrepareError::Scratch(error) => {
            let folder = Scratch::folder();
            let at = folder.map_or_else(String::new, |folder| format!(" in {}", folder.display()));
            CommandError::failed(format!("could not index the letters{at}: {error}"))
                .hint("The index lies in a temporary folder (SQLITE_TMPDIR, TMPDIR) and needs about 300 bytes a letter.")
        }
        PrepareError::Manifest(path, fault) => {
            CommandError::failed(format!("could not read the manifest {}: {fault}", path.display()))
        }
        PrepareError::File(path, error) => {
            CommandError::failed(format!("could not write the manifest {}: {error}", path.display()))
        }
    }
}

/// `r`, then the time in 32 s steps and chance: later runs sort later, and a few characters are enough.
pub fn new_run_id(ctx: &Context) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut time = u64::try_from(ctx.clock.now().millis() / 32_000).unwrap_or(0);
    let mut digits = Vec::new();
    for _ in 0..6 {
        digits.push(char::from(DIGITS[(time % 36) as usize]));
        time /= 36;
    }
    let time: String = digits.iter().rev().collect();
    format!("r{time}{}", ctx.new_id(4))
}

/// A dry run promises no run that cannot begin, and nobody is asked about one. Who may not look learns it when it begins.
///
/// # Errors
/// [1]: copies cannot go where they should.
pub async fn target_is_there(
    broker: &dyn Broker,
    chosen: Chosen<'_>,
    channel: &Channel,
) -> Result<(), CommandError> {
    match broker.target(channel).await {
        Err(error) if error.kind != ErrorKind::Denied => {
            Err(CommandError::broker(chosen.name(), &error).hint("Nothing was sent."))
        }
        _ => Ok(()),
    }
}

/// Who may not send learns it before the first letter, where the broker tells.
///
/// # Errors
/// [1], with the right that is missing and `again`, the command to type once it is given.
pub async fn may_send(
    broker: &dyn Broker,
    chosen: Chosen<'_>,
    channel: &Channel,
    again: &[String],
) -> Result<(), CommandError> {
    let told =
        |error| CommandError::broker(chosen.name(), &error).hint("Nothing was sent.").next(again.to_vec());
    broker.may_send(channel).await.map_err(told)
}

/// Opens the broker's session for a run, which goes on with what a look has `held` for it.
///
/// # Errors
/// [4]: another run holds it there. [1]: the broker.
pub async fn begin(
    ctx: &mut Context,
    broker: &dyn Broker,
    chosen: Chosen<'_>,
    channel: &Channel,
    task: &Task,
    keep_times: bool,
    held: &mut Option<Box<dyn Holding>>,
) -> Result<Box<dyn crate::broker::Mover>, CommandError> {
    let mut mover =
        broker.go_on(channel, task, held).await.map_err(|error: BrokerError| match error.kind {
            ErrorKind::Locked => held_at_broker(ctx, &error),
            _ => CommandError::broker(chosen.name(), &error),
        })?;
    if keep_times && let Err(error) = mover.keep_times().await {
        let _ = mover.end().await;
        return Err(CommandError::refused(format!("--keep-timestamp: could not {error}"))
            .hint("Nothing was sent. Without it copies have the time of now, and the first time in a header.")
            .next(ctx.command(&["inspect", &channel.name.value])));
    }
    for note in mover.notes() {
        ctx.ui.note(note);
    }
    Ok(mover)
}

/// A run about to be driven.
pub struct Ready<'a> {
    /// The channel.
    pub channel: &'a Channel,
    /// Its broker.
    pub chosen: Chosen<'a>,
    /// The record.
    pub ledger: Ledger,
    /// Held.
    pub lock: Lock,
    /// As recorded.
    pub row: RunRow,
    /// Kept from the start: skipped, held.
    pub kept: (u64, u64),
    /// The broker's session.
    pub mover: Option<Box<dyn crate::broker::Mover>>,
    /// How.
    pub settings: Settings,
    /// If this is a resume.
    pub resume: Option<Orders>,
    /// Letters to be sent in this part, about.
    pub sending: u64,
    /// Where events go.
    pub events: Option<screen::Events>,
    /// Where calls really go, where the topology alone does not say it.
    pub place: Option<String>,
    /// How it goes on with what could not be seen when it began.
    pub passes: Option<Passes<'a>>,
}

/// Drives a run to its end and says how it ended.
///
/// # Errors
/// [70] if counts do not add up; [1] if the ledger cannot be used.
pub async fn finish(ctx: &mut Context, mut ready: Ready<'_>) -> super::Outcome {
    let mut told = signals::listen()
        .map_err(|error| CommandError::failed(format!("could not wait for signals: {error}")))?;
    let (stop, stopping) = watch::channel(false);
    let (names, mut capabilities) = lowered(ready.chosen, ready.channel)?;
    if ready.settings.without_lookup {
        capabilities.dedup = crate::broker::Dedup::None;
    }
    let path = ready.ledger.path().to_owned();
    let title = ready.chosen.title();
    let mut context = screen::RunScreen {
        run: ready.row.id.clone(),
        channel: ready.channel.name.value.clone(),
        broker: ready.chosen.name().to_owned(),
        title,
        queue: names.dead_letter.clone(),
        target: ready.row.target.clone(),
        place: ready.place.clone(),
        sending: ready.sending,
        sent_before: 0,
        rate: ready.row.rate.clone(),
    };
    let what = if ready.resume.is_some() { "resumed" } else { "begun" };
    let text = ready.row.reason.clone();
    ready
        .ledger
        .event(ready.row.n, ctx.clock.now(), &ctx.who, what, Some(&text))
        .map_err(|error| ledger_error(&path, &error))?;
    let began = ctx.clock.now();
    let (mut seen, mut took, mut recording, mut moved) = (0, Duration::ZERO, Duration::ZERO, 0);
    let mut looking = Duration::ZERO;
    let (result, code) = loop {
        let Some(mover) = ready.mover.take() else {
            return Err(CommandError::bug("a run without a session"));
        };
        let manifest = own_manifest(&ready)?;
        let watching = Watch::new(&mut ctx.ui, &context, ready.events.take(), ctx.clock.clone()).after(seen);
        let watching = Shared::of(watching);
        match &ready.passes {
            Some(passes) if passes.number() > 1 => {
                watching.watch().goes_on(
                    passes.number(),
                    ready.row.counts.planned,
                    ready.sending,
                    ready.kept,
                );
            }
            _ => watching.watch().begun(ready.row.counts.planned, ready.sending, ready.kept),
        }
        let mut observer = watching.clone();
        let job = Job {
            clock: ctx.clock.clone(),
            channel: ready.channel,
            capabilities: &capabilities,
            ledger: &mut ready.ledger,
            lock: ready.lock.clone(),
            run: ready.row.id.clone(),
            number: ready.row.n,
            manifest,
            planned: ready.row.counts.planned,
            kept: ready.kept,
            refailed_before: ready.row.refailed.unwrap_or(0),
            mover,
            settings: ready.settings.clone(),
            resume: ready.resume,
            stopping: stopping.clone(),
            observer: &mut observer,
        };
        let mut driving = Box::pin(drive(job));
        let mut code = None;
        let mut result = loop {
            tokio::select! {
                result = &mut driving => break Some(result),
                _ = told.changed() => {
                    let now = *told.borrow();
                    code = now.code;
                    if now.times > 1 {
                        break None;
                    }
                    // The run hears of it when the call that it waits for is back.
                    watching.watch().asked_to_stop();
                    let _ = stop.send(true);
                }
            }
        };
        // Dropped here: after a second signal nothing more is written.
        drop(driving);
        (ready.events, seen) = watching.watch().over();
        drop((watching, observer));
        if let Some(Ok(end)) = &mut result {
            took += end.took;
            recording += end.recording;
            moved += end.moved_now;
            let goes_on = code.is_none() && end.cause.is_none();
            if goes_on && let Some(mut passes) = ready.passes.take() {
                let mut failed = None;
                let looks = ctx.clock.elapsed();
                let more = tokio::select! {
                    more = passes.next(ctx, &mut ready, end) => more.unwrap_or_else(|error| {
                        // No false success: what stands behind was not come to.
                        failed = Some(error.message().to_owned());
                        false
                    }),
                    _ = told.changed() => {
                        code = told.borrow().code;
                        false
                    }
                };
                looking += ctx.clock.elapsed().saturating_sub(looks);
                end.cause = failed.map(|text| {
                    let what = "look at the letters behind those that were sent";
                    Cause::Broker(BrokerError::new(ErrorKind::Other, what, text))
                });
                if more {
                    ready.passes = Some(passes);
                    (context.sending, context.sent_before) = (ready.sending, moved);
                    continue;
                }
            }
            // A person waits for the looks between passes too.
            (end.took, end.recording, end.moved_now) = (took + looking, recording, moved);
            let judged = ending::Judged::of(end, code, &ready.ledger, ready.row.n);
            let judged = judged.map_err(|error| ledger_error(&path, &error))?;
            let mut watching =
                Watch::new(&mut ctx.ui, &context, ready.events.take(), ctx.clock.clone()).after(seen);
            watching.ended(judged.state.word(), judged.code.number(), &judged.why, &end.counts);
        }
        break (result, code);
    };
    match result {
        None => {
            let atomic = capabilities.relocate == crate::broker::Atomicity::Transaction
                && !ready.settings.without_transactions;
            let command = ctx.command(&["resume", &ready.row.id]);
            screen::left_at_once(&mut ctx.ui, &context, atomic, &command);
            Ok(code.unwrap_or(ExitCode::Interrupted))
        }
        Some(Err(error)) => Err(ending::failed(ctx, &mut ready, &error)),
        Some(Ok(end)) => {
            let told = |error| ledger_error(&path, &error);
            let judged = ending::Judged::of(&end, code, &ready.ledger, ready.row.n).map_err(told)?;
            let now = ctx.clock.now();
            ending::record(ctx, &mut ready, &end, &judged, now).map_err(told)?;
            ending::said(ctx, &ready, &context, &end, &judged, (began, now, looking));
            Ok(judged.code)
        }
    }
}

fn own_manifest(ready: &Ready<'_>) -> Result<Lines, CommandError> {
    let file = ready
        .ledger
        .manifest_path(&ready.row.id)
        .map_err(|error| ledger_error(ready.ledger.path(), &error))?;
    Reader::open(&file)
        .map(Lines::of)
        .map_err(|fault| CommandError::failed(format!("could not read {}: {fault}", file.display())))
}
