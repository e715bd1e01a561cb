//! `redrive run`: sends dead letters back, bounded and rate-limited, after showing exactly what would go.

use std::path::PathBuf;
use std::time::Duration;

use super::confirm::Yes;
use super::events::{aside_for, open_events};
use super::frozen::{Frozen, who_moved};
use super::holding::{is_free, lock};
use super::judging::Judging;
use super::left_open::{Looked, refuse_since};
use super::native::Asked;
use super::passes::Passes;
use super::run_consent::{Given, consent, consent_to_trim};
use super::selecting::{Selecting, limit, selection_words};
use super::sending::{
    Earlier, LEASE, Ready, Then, begin, finish, ledger_error, ledger_path, look_through, lowered, may_send,
    new_run_id, prepare_error, queue_key, rate, rate_text, target_is_there,
};
use super::{Chosen, CommandError, Context, ExitCode, Outcome};
use crate::broker::{Atomicity, Broker, Holding, Order, Task};
use crate::clock::parse_duration;
use crate::ledger::{Ledger, NewRun};
use crate::manifest::{Head, SCHEMA};
use crate::proof::failpoint;
use crate::render::run as screen;
use crate::run::engine::Settings;
use crate::run::pace::time_for;
use crate::run::prepare::{Prepared, give_back};
use crate::selection::{Limit, Selection};
use crate::topology::{Channel, Rate};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  redrive run orders --cause 91be4d --limit 200 --dry-run\n  \
                        redrive run timeouts.jsonl --rate 5/s --ramp 30s\n  \
                        redrive run orders --limit all --rate 50/s --reason INC-4471 --yes")]
pub struct Args {
    /// Channel, or a manifest: FILE.jsonl, or - for stdin
    #[arg(value_name = "CHANNEL|FILE.jsonl")]
    what: String,
    #[command(flatten)]
    selecting: Selecting,
    /// At most N letters, the oldest first, or all
    #[arg(long, value_name = "N|all", allow_hyphen_values = true)]
    limit: Option<String>,
    /// Letters per time: 50/s, 10/m, unlimited; else the manifest's, else the topology's
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Start at 1/s and reach the rate after this long
    #[arg(long, value_name = "DURATION")]
    ramp: Option<String>,
    /// Show what would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Why; recorded. A manifest brings its own
    #[arg(long, value_name = "TEXT", value_parser = super::who::reason)]
    reason: Option<String>,
    #[command(flatten)]
    yes: Yes,
    /// The channel's name, instead of typing it out for an unlimited rate
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
    /// Stop after so many errors in a row; 0 is never
    #[arg(long, value_name = "N", default_value_t = MAX_ERRORS)]
    max_errors: u32,
    /// Stop when this part of the moved letters, 20 at least, has died again; or off
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = percent)]
    stop_on_refail: Percent,
    /// Run what is left of a manifest whose letters are gone or changed in part
    #[arg(long)]
    allow_stale: bool,
    /// Take the dead-letter queue from a run that may be alive
    #[arg(long)]
    take_over: bool,
    /// JSON lines of what happens, to a file or to - (stdout)
    #[arg(long, value_name = "FILE|-")]
    events: Option<PathBuf>,
    /// Let the broker move all by itself: no limit, no filter, no marks
    #[arg(long)]
    native: bool,
    /// Where runs are recorded; else REDRIVE_LEDGER, else the state folder
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    judging: Judging,
    /// Copies keep the time at which their message was first published (Kafka)
    #[arg(long)]
    keep_timestamp: bool,
    /// At the end delete letters that a mark proves to be moved: on Kafka up to the first open one, on SQLite what
    /// a killed run left
    #[arg(long)]
    trim: bool,
    /// Publish, record, settle, even where the broker has transactions
    #[arg(long, hide = true)]
    without_transactions: bool,
    /// Ask the broker nothing about a send without an answer, as on one that cannot tell
    #[arg(long, hide = true)]
    without_lookup: bool,
}

/// A part of a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Percent(pub(super) Option<f64>);

/// A run that lasts no longer goes on with the letters that its look holds: nobody else sees them meanwhile, and a
/// broker takes letters back that are held for too long.
const HELD_FOR: Duration = Duration::from_secs(60);
/// Unless said otherwise.
const MAX_ERRORS: u32 = 5;
const STOP_ON_REFAIL: Percent = Percent(Some(0.2));

pub(super) fn percent(text: &str) -> Result<Percent, String> {
    if text == "off" {
        return Ok(Percent(None));
    }
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(number) if number > 0.0 && number <= 100.0 => Ok(Percent(Some(number / 100.0))),
        _ => Err("write a percentage: 20%; or off".to_owned()),
    }
}

/// Is this argument a manifest? Channel names cannot look like one.
pub(super) fn is_manifest(what: &str) -> bool {
    what == "-" || what.ends_with(".jsonl") || what.contains('/')
}

/// Runs it.
///
/// # Errors
/// [2]: no bound or no reason. [4]: refused or declined. [1]: the broker before anything was sent. After
/// that every end is told and is a code of its own.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    aside_for(ctx, args.events.as_deref(), &args.what)?;
    let asked = match args.limit.as_deref() {
        // Nothing is sent: only what marks prove to be moved is removed.
        Some("0") if args.trim => Some(Limit::AtMost(0)),
        text => limit(text)?,
    };
    let manifest = is_manifest(&args.what);
    if args.native && !manifest {
        return super::native::run(ctx, native(ctx, &args)).await;
    }
    if asked.is_none() && !manifest {
        let mut next = ctx.command(&["run", &args.what]);
        next.extend(["--limit", "200", "--dry-run"].map(str::to_owned));
        return Err(CommandError::usage("a run needs a bound: a manifest, or --limit N (or all)").next(next));
    }
    if args.native {
        return Err(CommandError::usage("a native move takes all of a channel, and no manifest"));
    }
    if manifest && (asked.is_some() || args.selecting.is_given()) {
        return Err(CommandError::usage(
            "a manifest is a selection already: no --limit, --cause, --where with it",
        )
        .hint("What was frozen is what is sent; select again for less."));
    }
    let selection = args.selecting.selection(ctx, asked.unwrap_or(Limit::All))?;
    let ramp = match args.ramp.as_deref().map(parse_duration) {
        None => Duration::ZERO,
        Some(Some(ramp)) => ramp,
        Some(None) => return Err(CommandError::usage("--ramp: a duration has a unit: 30s, 5m")),
    };
    let ledger_at = ledger_path(args.ledger.as_ref())?;
    let frozen = if manifest { Some(Frozen::read(ctx, &args.what, &ledger_at)?) } else { None };
    let loaded = ctx.topology()?;
    let name = frozen.as_ref().map_or(args.what.as_str(), |frozen| frozen.head.channel.as_str());
    let channel = loaded.channel(name)?;
    let chosen = ctx.broker_for(&loaded, channel)?;
    let (names, capabilities) = lowered(chosen, channel)?;
    if let Some(frozen) = &frozen {
        frozen.check(chosen, &names.return_to, &names.dead_letter)?;
    }
    let typed = typed(ctx, &args);
    if args.trim && !capabilities.trims {
        return Err(CommandError::refused(format!(
            "--trim: {} keeps no mark that proves which letters of {} were moved",
            chosen.title(),
            names.dead_letter
        ))
        .hint("What a run has moved is not there any more. What is there:")
        .next(ctx.command(&["inspect", &channel.name.value])));
    }
    if args.keep_timestamp {
        super::judging::keeps_times(ctx, chosen, &capabilities, &channel.name.value)?;
    }
    if !args.dry_run {
        chosen.may_change(typed.clone())?;
    }
    let rate = match (&args.rate, &frozen) {
        (Some(text), _) => rate(text)?,
        (None, Some(frozen)) => frozen.rate()?,
        (None, None) => channel.redrive.rate.value,
    };
    let reason = args.reason.clone().or_else(|| frozen.as_ref().map(|frozen| frozen.head.reason.clone()));
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    if reason.is_none() && !args.dry_run {
        let mut next = typed.clone();
        next.extend(["--reason".to_owned(), "TEXT".to_owned()]);
        return Err(CommandError::usage("a run needs a reason: it is recorded with who and when").next(next));
    }
    let mut judging = args.judging.clone();
    if let Some(frozen) = &frozen {
        judging.join(&frozen.head);
        let brought: Vec<String> =
            judging.flags().into_iter().filter(|flag| !args.judging.flags().contains(flag)).collect();
        if !brought.is_empty() {
            ctx.ui.note(format!("{} was frozen with {}.", frozen.shown, brought.join(" ")));
        }
    }
    let broker = ctx.open(&loaded, chosen, !args.dry_run).await?;
    let others = super::readers::guard(&*broker, chosen, channel).await?;
    let key = queue_key(&loaded, chosen, &names.dead_letter);
    let earlier = Earlier::of(ctx, args.ledger.as_ref(), &key, &capabilities, &judging)?;
    let file = frozen.as_ref().map(|frozen| frozen.path.as_path());
    let given = Given { yes: &args.yes, confirm: args.confirm.as_deref() };
    let then = match (args.dry_run, given.answers(channel, rate)) {
        (true, _) => Then::Shows,
        (false, false) => Then::Asks,
        (false, true) => Then::Sends,
    };
    let mut prepared =
        look_through(ctx, &*broker, chosen, channel, &selection, file, &judging, &earlier, None, then)
            .await?;
    let mut held = prepared.held.take();
    let letters = prepared.summary.send + prepared.summary.twins;
    if rate != Rate::Unlimited && time_for(letters, rate, ramp).is_none_or(|time| time > HELD_FOR) {
        give_back(held.take()).await;
    }
    // What it returns early by, what the look holds is given back.
    let outcome: Outcome = async {
        if let Some(frozen) = &frozen {
            frozen.same_queue(ctx, &prepared)?;
            frozen.stale(ctx, &prepared, args.allow_stale, &typed, || {
                who_moved(&ledger_at, &key, frozen, &prepared)
            })?;
        }
        let reach =
            broker.reach(channel).await.map_err(|error| CommandError::broker(chosen.name(), &error))?;
        let send = prepared.summary.send + prepared.summary.twins;
        // With consent given before, the session that begins at once tells it.
        if then == Then::Shows || then == Then::Asks && send > 0 {
            target_is_there(&*broker, chosen, channel).await?;
        }
        let place = broker.whereabouts();
        let source = match &frozen {
            Some(frozen) => frozen.shown.clone(),
            None => channel.name.value.clone(),
        };
        let before = screen::Before {
            source: &source,
            channel: &channel.name.value,
            title: &chosen.title(),
            broker: chosen.name(),
            queue: &names.dead_letter,
            target: &names.return_to,
            readers: channel.consumer.as_ref().map(|consumer| consumer.value.as_str()),
            place: place.as_deref(),
            reach: reach.as_deref(),
            shared: channel.shared,
            others: &others,
            tries: 1 + channel.tiers.len(),
            reason: reason.as_deref(),
            at: ctx.clock.now(),
            rate,
            rate_text: rate_text(rate),
            ramp,
            order: judging.order,
            unordered: capabilities.order == Order::None,
            locks_groups: capabilities.group_lock.is_some(),
            max_errors: args.max_errors,
            stop_on_refail: args.stop_on_refail.0,
            prepared: &prepared,
        };
        let mut real = typed.clone();
        if ctx.globals.broker.is_none() && chosen.decl.protected {
            real.extend(["--broker".to_owned(), chosen.name().to_owned()]);
        }
        if args.dry_run {
            if reason.is_none() {
                real.extend(["--reason".to_owned(), "TEXT".to_owned()]);
            }
            if send > 0
                && let Err(error) = broker.may_send(channel).await
            {
                ctx.ui.note(format!("A run by this user is refused: {} could not {error}.", chosen.name()));
            }
            screen::dry_run(&mut ctx.ui, &before, &real);
            return Ok(ExitCode::Done);
        }
        screen::before(&mut ctx.ui, &before);
        let hidden = if args.trim { prepared.cost.hidden } else { 0 };
        if send == 0 && hidden == 0 {
            screen::nothing_to_send(&mut ctx.ui, &before);
            let planned = prepared.summary.planned;
            return Ok(if planned == 0 { ExitCode::Done } else { ExitCode::Partial });
        }
        // --yes=N allows just the N that were shown; a manifest is what was frozen.
        let room = selection.limit.allows(prepared.summary.planned);
        let behind = match frozen.is_none() && room && !args.yes.only() {
            true => prepared.cost.behind,
            false => 0,
        };
        if send > 0 {
            may_send(&*broker, chosen, channel, &real).await?;
        }
        is_free(ctx, &*broker, channel, &ledger_at, (&key, &names.dead_letter), args.take_over).await?;
        match send {
            // Only to take away what marks prove to be moved.
            0 => consent_to_trim(ctx, given, chosen, &names.dead_letter, hidden, real)?,
            _ => consent(ctx, given, chosen, channel, &names.return_to, rate, (send, behind), real)?,
        }
        let plan = Plan {
            chosen,
            channel,
            broker: &*broker,
            key,
            again: typed,
            ledger_at,
            target: names.return_to.clone(),
            queue: names.dead_letter.clone(),
            reason: reason.unwrap_or_default(),
            rate,
            ramp,
            judging,
            transactions: capabilities.relocate == Atomicity::Transaction,
            earlier: &earlier,
            passes: (behind > 0).then_some(&selection),
            selection: match &frozen {
                Some(frozen) => frozen.head.selection.clone(),
                None => selection_words(&selection),
            },
        };
        start(ctx, &args, plan, prepared, &mut held).await
    }
    .await;
    give_back(held).await;
    outcome
}

/// What a native move is asked for, and by which flags for more than it can do.
fn native<'a>(ctx: &Context, args: &'a Args) -> Asked<'a> {
    let judging = &args.judging;
    let flags = [
        (args.selecting.is_given(), "filter (--cause, --where, --since, --until)"),
        (args.ramp.is_some(), "--ramp"),
        (judging.dedupe, "--dedupe"),
        (judging.skip_overtaken, "--skip-overtaken"),
        (args.allow_stale, "--allow-stale"),
        (args.events.is_some(), "--events"),
        (args.max_errors != MAX_ERRORS, "--max-errors"),
        (args.stop_on_refail.0 != STOP_ON_REFAIL.0, "--stop-on-refail"),
        (args.keep_timestamp, "--keep-timestamp"),
        (args.trim, "--trim"),
    ];
    Asked {
        channel: &args.what,
        limit: args.limit.as_deref(),
        beyond: flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect(),
        rate: args.rate.as_deref(),
        reason: args.reason.as_deref(),
        dry_run: args.dry_run,
        yes: &args.yes,
        confirm: args.confirm.as_deref(),
        ledger: args.ledger.as_ref(),
        take_over: args.take_over,
        typed: typed(ctx, args),
    }
}

/// The command as it was typed, without what only belongs to one call of it.
fn typed(ctx: &Context, args: &Args) -> Vec<String> {
    let mut command = ctx.command(&["run", &args.what]);
    // A reason that says nothing is asked for again.
    let blank = args.reason.as_ref().is_some_and(|reason| reason.trim().is_empty());
    let once: &[&str] = match blank {
        true => &["what", "dry_run", "yes", "confirm", "reason"],
        false => &["what", "dry_run", "yes", "confirm"],
    };
    command.extend(ctx.typed_but(once));
    command
}

/// Everything that is decided before a run begins.
struct Plan<'a> {
    chosen: Chosen<'a>,
    channel: &'a Channel,
    broker: &'a dyn Broker,
    key: String,
    /// The command as it was typed.
    again: Vec<String>,
    ledger_at: PathBuf,
    target: String,
    queue: String,
    reason: String,
    rate: Rate,
    ramp: Duration,
    judging: Judging,
    selection: String,
    /// Does the broker have them?
    transactions: bool,
    /// What earlier runs left open or moved when the letters were looked at.
    earlier: &'a Earlier,
    /// What a further pass selects by.
    passes: Option<&'a Selection>,
}

async fn start(
    ctx: &mut Context,
    args: &Args,
    plan: Plan<'_>,
    prepared: Prepared,
    held: &mut Option<Box<dyn Holding>>,
) -> Outcome {
    let at = plan.ledger_at.clone();
    let told = |error| ledger_error(&at, &error);
    let events = open_events(ctx, args.events.as_deref(), &args.what)?;
    let mut ledger = Ledger::open(&at).map_err(told)?;
    let run = new_run_id(ctx);
    let owner = ctx.new_id(12);
    let lock = lock(ctx, &mut ledger, &plan.key, &plan.queue, &run, &owner, args.take_over)?;
    let looked = Looked { key: &plan.key, queue: &plan.queue, open: &plan.earlier.open, prepared: &prepared };
    if let Err(error) = refuse_since(&ledger, &looked, plan.chosen, &plan.again) {
        let _ = ledger.unlock(&lock);
        return Err(error);
    }
    let task = Task {
        run: run.clone(),
        owner,
        who: ctx.who.clone(),
        target: plan.target.clone(),
        take_over: args.take_over,
        snapshot: prepared.snapshot.identity.clone(),
        claim_for: LEASE,
    };
    let mover =
        match begin(ctx, plan.broker, plan.chosen, plan.channel, &task, args.keep_timestamp, held).await {
            Ok(mover) => mover,
            Err(error) => {
                let _ = ledger.unlock(&lock);
                return Err(error);
            }
        };
    let now = ctx.clock.now();
    let head = Head {
        schema: SCHEMA.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        channel: plan.channel.name.value.clone(),
        broker: plan.chosen.name().to_owned(),
        queue: plan.queue.clone(),
        snapshot: prepared.snapshot.identity.clone(),
        target: plan.target.clone(),
        rate: rate_text(plan.rate),
        order: plan.judging.order,
        judged: plan.judging.frozen(),
        reason: plan.reason.clone(),
        by: ctx.who.clone(),
        at: now,
        selection: plan.selection.clone(),
    };
    let settings = Settings {
        rate: plan.rate,
        ramp: plan.ramp,
        max_errors: args.max_errors,
        stop_on_refail: args.stop_on_refail.0,
        allow_gone: args.allow_stale,
        order: plan.judging.order,
        claim_for: LEASE,
        without_transactions: args.without_transactions || !mover.transactional(),
        keep_times: args.keep_timestamp,
        trim: args.trim,
        without_lookup: args.without_lookup,
        ..Settings::default()
    };
    let summary = &prepared.summary;
    let kept = (
        summary.kept.iter().filter(|(why, ..)| !why.holds()).map(|(_, n, _)| n).sum(),
        summary.kept.iter().filter(|(why, ..)| why.holds()).map(|(_, n, _)| n).sum(),
    );
    // In place before the run is on record: one without its selection could neither go on nor be told from one that
    // sent something.
    let path = ledger.manifest_path(&run).map_err(told)?;
    if let Err(error) = prepared.freeze(&path, &head) {
        let _ = mover.end().await;
        let _ = ledger.unlock(&lock);
        return Err(prepare_error(plan.chosen, &error));
    }
    failpoint::hit("frozen");
    let begun = ledger
        .begin_run(&NewRun {
            id: run.clone(),
            channel: head.channel.clone(),
            broker: head.broker.clone(),
            dlq: plan.key.clone(),
            queue: plan.queue.clone(),
            target: plan.target.clone(),
            path: match plan.transactions && !settings.without_transactions {
                true => "transaction",
                false => "publish_then_settle",
            },
            rate: head.rate.clone(),
            ramp_ms: u64::try_from(plan.ramp.as_millis()).unwrap_or(u64::MAX),
            settings: super::resume::keep(&settings, kept, plan.judging.frozen()),
            selection: head.selection.clone(),
            reason: head.reason.clone(),
            who: ctx.who.clone(),
            tool: head.tool.clone(),
            planned: summary.planned,
            started: now,
        })
        .map_err(told);
    let number = match begun {
        Ok(number) => number,
        Err(error) => {
            let _ = std::fs::remove_file(&path);
            let _ = mover.end().await;
            return Err(error);
        }
    };
    let mut noting: Vec<crate::manifest::Line> = Vec::new();
    let noted = prepared.kept(|line| {
        noting.push(line);
        if noting.len() >= 2000 {
            ledger.note_kept(number, noting.iter(), now)?;
            noting.clear();
        }
        Ok(())
    });
    let rest = ledger.note_kept(number, noting.iter(), now);
    if let Err(error) = noted.map_err(|error| prepare_error(plan.chosen, &error)).and(rest.map_err(told)) {
        let _ = mover.end().await;
        let _ = ledger.unlock(&lock);
        return Err(error);
    }
    let sending = summary.send + summary.twins;
    let passes = plan.passes.and_then(|selection| {
        let (chosen, channel) = (plan.chosen, plan.channel);
        Passes::of(plan.broker, chosen, channel, selection, &plan.judging, plan.earlier, &task, &prepared)
    });
    drop(prepared);
    let rows = ledger.runs_like(&run).map_err(told)?;
    let Some(row) = rows.into_iter().next() else {
        return Err(CommandError::bug("a run that was just recorded is not in the ledger"));
    };
    finish(
        ctx,
        Ready {
            channel: plan.channel,
            chosen: plan.chosen,
            ledger,
            lock,
            row,
            kept,
            mover: Some(mover),
            settings,
            resume: None,
            sending,
            events,
            place: plan.broker.whereabouts(),
            passes,
        },
    )
    .await
}
