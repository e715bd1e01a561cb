//! `redrive resume`: goes on with a run that stopped, crashed or was paused.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::behind::letters_behind;
use super::confirm::{Consent, Yes};
use super::ending::engine_error;
use super::events::{aside_for, open_events};
use super::holding::{is_free, lock};
use super::run::{Percent, percent};
use super::runs::one_run;
use super::sending::{
    LEASE, Ready, begin, finish, ledger_error, ledger_path, lowered, may_send, queue_key, rate,
    target_is_there,
};
use super::{Chosen, CommandError, Context, ExitCode, Outcome};
use crate::broker::Task;
use crate::clock::Time;
use crate::ledger::{ACCEPT_GONE, Ledger, LedgerError, LetterState, RunState};
use crate::manifest::{Judged, OrderPolicy, Reader};
use crate::render::run as screen;
use crate::run::engine::Settings;
use crate::run::recovery::Orders;

/// Arguments of `resume`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  redrive resume r7d41k\n  redrive resume r7d41k --resend-in-doubt --reason \"billing shows none of them\""
)]
pub struct Args {
    /// Run; any unique beginning of its id
    #[arg(value_name = "RUN")]
    run: String,
    /// Send again what is in doubt: it may be there twice, and stays named
    #[arg(long, conflicts_with = "settle_in_doubt", requires = "reason")]
    resend_in_doubt: bool,
    /// The effect of what is in doubt was seen: take the originals away
    #[arg(long, requires = "reason")]
    settle_in_doubt: bool,
    /// Also try again what failed
    #[arg(long)]
    retry_failed: bool,
    /// What the queue does not show any more is gone, as you found out: original of a moved letter, or a letter that
    /// was not sent yet
    #[arg(long, requires = "reason")]
    accept_gone: bool,
    /// Skip letters that are gone, and let their groups go on
    #[arg(long)]
    allow_stale: bool,
    /// Another rate than before
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Stop after so many errors in a row; 0 is never
    #[arg(long, value_name = "N")]
    max_errors: Option<u32>,
    /// Stop when this part of what this resume moved, 20 letters at least, has died again; or off
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    stop_on_refail: Option<Percent>,
    /// Why; recorded with the one of the run
    #[arg(long, value_name = "TEXT", value_parser = super::who::reason)]
    reason: Option<String>,
    #[command(flatten)]
    yes: Yes,
    /// Take the dead-letter queue from a run that may be alive
    #[arg(long)]
    take_over: bool,
    /// JSON lines of what happens, to a file or to - (stdout)
    #[arg(long, value_name = "FILE|-")]
    events: Option<PathBuf>,
    /// Where runs are recorded; else REDRIVE_LEDGER, else the state folder
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// What a resume needs to go on as begun.
#[derive(Serialize, Deserialize)]
struct Kept {
    max_errors: u32,
    stop_on_refail: Option<f64>,
    allow_gone: bool,
    order: OrderPolicy,
    without_transactions: bool,
    #[serde(default)]
    keep_times: bool,
    #[serde(default)]
    trim: bool,
    without_lookup: bool,
    skipped: u64,
    held: u64,
    /// The flags that its letters were judged by.
    #[serde(flatten)]
    judged: Judged,
    /// How each resume went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
}

/// How one resume went: what it took otherwise than the run was begun, and what a person typed out for it. Letters
/// are not judged again: the flags of the run hold.
#[derive(Serialize, Deserialize)]
struct Part {
    part: u32,
    at: Time,
    by: String,
    rate: String,
    max_errors: u32,
    stop_on_refail: Option<f64>,
    allow_gone: bool,
    resend_in_doubt: bool,
    settle_in_doubt: bool,
    retry_failed: bool,
    #[serde(default)]
    accept_gone: bool,
    take_over: bool,
}

/// As the ledger keeps it.
pub(super) fn keep(settings: &Settings, kept: (u64, u64), judged: Judged) -> String {
    serde_json::to_string(&Kept {
        max_errors: settings.max_errors,
        stop_on_refail: settings.stop_on_refail,
        allow_gone: settings.allow_gone,
        order: settings.order,
        without_transactions: settings.without_transactions,
        keep_times: settings.keep_times,
        trim: settings.trim,
        without_lookup: settings.without_lookup,
        skipped: kept.0,
        held: kept.1,
        judged,
        parts: Vec::new(),
    })
    .unwrap_or_default()
}

/// Runs it.
///
/// # Errors
/// [2]: no such run. [4]: it runs, has nothing left that a resume may send, or was declined. [1]: the broker.
pub async fn run(ctx: &mut Context, mut args: Args) -> Outcome {
    // One that says nothing is none.
    args.reason = args.reason.filter(|reason| !reason.trim().is_empty());
    let decides = [
        (args.resend_in_doubt, "--resend-in-doubt"),
        (args.settle_in_doubt, "--settle-in-doubt"),
        (args.accept_gone, "--accept-gone"),
    ];
    if let Some((_, flag)) = decides.iter().find(|(given, _)| *given && args.reason.is_none()) {
        let mut next = ctx.command(&["resume", &args.run]);
        next.extend(ctx.typed_but(&["yes", "reason"]));
        next.extend(["--reason".to_owned(), "TEXT".to_owned()]);
        let error = CommandError::usage(format!("{flag} needs a reason: it is recorded with who and when"));
        return Err(error.next(next));
    }
    aside_for(ctx, args.events.as_deref(), &args.run)?;
    let at = ledger_path(args.ledger.as_ref())?;
    let told = |error| ledger_error(&at, &error);
    let found = Ledger::look(&at).and_then(|found| found.map(|_| Ledger::open(&at)).transpose());
    let Some(mut ledger) = found.map_err(told)? else {
        return Err(CommandError::usage(format!(
            "no run {}: there is no ledger at {}",
            args.run,
            at.display()
        )));
    };
    let mut row = one_run(&ledger, &args.run, &at)?;
    if row.path == super::native::PATH {
        return Err(CommandError::refused(format!(
            "run {} was a move of the broker's own: it is not resumed, and what it left is as it was",
            row.id
        ))
        .next(ctx.command(&["inspect", &row.channel])));
    }
    let loaded = ctx.topology()?;
    let channel = loaded.channel(&row.channel)?;
    let Some(decl) = loaded.topology.broker(&row.broker) else {
        return Err(CommandError::usage(format!(
            "run {} is of broker {}, which {} does not have",
            row.id,
            row.broker,
            loaded.name()
        )));
    };
    // A run id implies its broker: a protected one needs no --broker here.
    let chosen = Chosen { decl, named: true };
    let (names, _) = lowered(chosen, channel)?;
    if names.return_to != row.target || names.dead_letter != row.queue {
        return Err(CommandError::refused(format!(
            "run {} sends from {} to {}; the topology says {} and {} now",
            row.id, row.queue, row.target, names.dead_letter, names.return_to
        ))
        .hint("Nothing was sent. Name the topology that it was begun with.")
        .next(ctx.command(&["runs", "show", &row.id])));
    }
    let mut kept: Kept = serde_json::from_str(&row.settings).map_err(|_| {
        CommandError::failed(format!("run {} cannot be read in the ledger {}", row.id, at.display()))
    })?;
    let rate_text = args.rate.clone().unwrap_or_else(|| row.rate.clone());
    let rate = rate(&rate_text)?;
    let mut settings = Settings {
        rate,
        ramp: Duration::from_millis(row.ramp_ms),
        max_errors: args.max_errors.unwrap_or(kept.max_errors),
        stop_on_refail: args.stop_on_refail.map_or(kept.stop_on_refail, |Percent(part)| part),
        allow_gone: kept.allow_gone || args.allow_stale,
        order: kept.order,
        claim_for: LEASE,
        without_transactions: kept.without_transactions,
        keep_times: kept.keep_times,
        trim: kept.trim,
        without_lookup: kept.without_lookup,
        ..Settings::default()
    };
    let path = ledger.manifest_path(&row.id).map_err(told)?;
    super::passes::put_in_place(&path, row.counts.planned)
        .map_err(|fault| CommandError::failed(format!("could not use {}: {fault}", path.display())))?;
    let (head, count) = Reader::verify(&path).map_err(|fault| {
        CommandError::failed(format!("could not read {}: {fault}", path.display()))
            .hint("A run does not go on without its frozen selection. What it did is on record:")
            .next(ctx.command(&["runs", "show", &row.id]))
    })?;
    if count != row.counts.planned {
        return Err(CommandError::failed(format!(
            "{} has {count} letters, the ledger says {}",
            path.display(),
            row.counts.planned
        )));
    }
    let tally = ledger.tally(row.n).map_err(told)?;
    let of = |state| tally.get(&state).copied().unwrap_or(0);
    let orders = Orders {
        resend_in_doubt: args.resend_in_doubt,
        settle_in_doubt: args.settle_in_doubt,
        retry_failed: args.retry_failed,
        accept_gone: args.accept_gone,
    };
    // What will stay as it is, and hold its group; a lookup may still find what is only intended.
    let doubted = !args.resend_in_doubt && !args.settle_in_doubt;
    let stays = |state| match state {
        LetterState::InDoubt => doubted,
        LetterState::Intended => doubted && kept.without_lookup,
        LetterState::Failed => !args.retry_failed,
        _ => false,
    };
    let held = match kept.order == OrderPolicy::Group && tally.keys().any(|state| stays(*state)) {
        true => letters_behind(&ledger, row.n, &path, stays)
            .map_err(|error| engine_error(&ledger, &row.id, &error))?,
        false => 0,
    };
    let left = screen::Left {
        held,
        in_doubt: of(LetterState::InDoubt) + of(LetterState::Intended),
        unsettled: of(LetterState::Published),
        failed: of(LetterState::Failed),
        planned: count.saturating_sub(kept.skipped + kept.held).saturating_sub(tally.values().sum::<u64>())
            + of(LetterState::Planned),
    };
    let nothing = left.planned + left.unsettled == 0
        && (left.in_doubt == 0
            || !(args.resend_in_doubt || args.settle_in_doubt) && of(LetterState::Intended) == 0)
        && (left.failed == 0 || !args.retry_failed);
    if nothing && row.state == RunState::Done {
        if ctx.ui.json() {
            let next = ctx.command(&["inspect", &row.channel]);
            ctx.ui
                .document(&json!({"schema": "redrive.run.v1", "run": row.id, "state": "done", "next": next}));
        } else {
            ctx.ui.say(format!("run {} is done: nothing is left to do", row.id));
            ctx.ui.next(&ctx.command(&["inspect", &row.channel]));
        }
        return Ok(ExitCode::Done);
    }
    // It died when all was done and before it could say so: what is missing is its end.
    let only_its_end = nothing && row.state == RunState::Running && left.in_doubt + left.failed == 0;
    if nothing && !only_its_end {
        let mut error = CommandError::refused(format!("nothing is left to do in run {}", row.id));
        if left.in_doubt > 0 {
            error = error.hint(format!(
                "{} in doubt: --resend-in-doubt may make duplicates, --settle-in-doubt takes the originals away.",
                left.in_doubt
            ));
        }
        if left.failed > 0 {
            error = error.hint(format!("{} failed: --retry-failed tries them again.", left.failed));
        }
        if left.in_doubt + left.failed > 0 {
            return Err(error.next(ctx.command(&["runs", "show", &row.id])));
        }
        if row.counts.held + row.counts.skipped > 0 {
            error = error
                .hint("What it held or skipped is not its to send any more: another run selects it anew.");
        }
        return Err(error.next(ctx.command(&["inspect", &row.channel])));
    }
    let broker = ctx.open(&loaded, chosen, true).await?;
    super::readers::guard(&*broker, chosen, channel).await?;
    super::receives::guard(ctx, &*broker, chosen, channel).await?;
    let place = broker.whereabouts();
    screen::resuming(&mut ctx.ui, &row, (&chosen.title(), place.as_deref()), &left, &rate_text, orders);
    let mut sending = left.planned.saturating_sub(left.held) + of(LetterState::Intended);
    if args.resend_in_doubt {
        sending += of(LetterState::InDoubt);
    }
    if args.retry_failed {
        sending += left.failed;
    }
    let mut command = ctx.command(&["resume", &row.id]);
    // A reason that says nothing is asked for again.
    let once: &[&str] = if args.reason.is_some() { &["yes"] } else { &["yes", "reason"] };
    command.extend(ctx.typed_but(once));
    let letters = if sending == 1 { "letter" } else { "letters" };
    let title = chosen.title();
    let mut question = match sending {
        0 => format!("Send nothing to {} on {title}?", row.target),
        _ => format!("Send up to {sending} {letters} to {} on {title}?", row.target),
    };
    if args.settle_in_doubt && left.in_doubt > 0 {
        let take = format!("take {} in doubt out of {} unsent", left.in_doubt, row.queue);
        question = match left.planned.saturating_sub(left.held) {
            0 => format!("Send nothing, and {take}, on {title}?"),
            _ => format!("Send up to {sending} {letters} to {}, and {take}, on {title}?", row.target),
        };
    }
    if args.accept_gone {
        question = format!("{} What {} does not show is taken as gone.", question, row.queue);
    }
    let consent = Consent {
        question: question.into(),
        count: sending,
        noun: ("letter", "letters"),
        nothing: "Nothing was sent.",
        command: command.clone(),
    };
    if sending > 0 {
        target_is_there(&*broker, chosen, channel).await?;
        may_send(&*broker, chosen, channel, &command).await?;
    }
    let key = queue_key(&loaded, chosen, &row.queue);
    is_free(ctx, &*broker, channel, ledger.path(), (&key, &row.queue), args.take_over).await?;
    if !only_its_end {
        args.yes.consent(&mut ctx.ui, consent)?;
    }
    let events = open_events(ctx, args.events.as_deref(), &args.run)?;
    let owner = ctx.new_id(12);
    let lock = lock(ctx, &mut ledger, &key, &row.queue, &row.id, &owner, args.take_over)?;
    let task = Task {
        run: row.id.clone(),
        owner,
        who: ctx.who.clone(),
        target: row.target.clone(),
        take_over: args.take_over,
        snapshot: head.snapshot.clone(),
        claim_for: LEASE,
    };
    let mover = match begin(ctx, &*broker, chosen, channel, &task, kept.keep_times, &mut None).await {
        Ok(mover) => mover,
        Err(error) => {
            let _ = ledger.unlock(&lock);
            return Err(error);
        }
    };
    settings.without_transactions |= !mover.transactional();
    let now = ctx.clock.now();
    ledger.continue_run(row.n, now).map_err(told)?;
    row.parts += 1;
    kept.parts.push(Part {
        part: row.parts,
        at: now,
        by: ctx.who.clone(),
        rate: rate_text.clone(),
        max_errors: settings.max_errors,
        stop_on_refail: settings.stop_on_refail,
        allow_gone: settings.allow_gone,
        resend_in_doubt: args.resend_in_doubt,
        settle_in_doubt: args.settle_in_doubt,
        retry_failed: args.retry_failed,
        accept_gone: args.accept_gone,
        take_over: args.take_over,
    });
    let settings_text = serde_json::to_string(&kept).unwrap_or_else(|_| row.settings.clone());
    ledger.keep_settings(row.n, &settings_text).map_err(told)?;
    if let Some(reason) = &args.reason {
        let what = match (args.resend_in_doubt, args.settle_in_doubt, args.accept_gone) {
            (true, ..) => "resend in doubt",
            (_, true, _) => "settle in doubt",
            (.., true) => ACCEPT_GONE,
            _ => "reason",
        };
        // Who reads this later sees which letters it was about, though by then they have another outcome.
        let text = match args.resend_in_doubt || args.settle_in_doubt {
            true => format!("{reason}; {}", in_doubt_by_name(&ledger, row.n).map_err(told)?),
            false => reason.clone(),
        };
        ledger.event(row.n, now, &ctx.who, what, Some(&text)).map_err(told)?;
        if args.accept_gone && what != ACCEPT_GONE {
            ledger.event(row.n, now, &ctx.who, ACCEPT_GONE, Some(reason)).map_err(told)?;
        }
    }
    // What this part does otherwise than the one before belongs to the audit too.
    let before = ledger.last_rate(&row).map_err(told)?;
    if rate_text != before {
        let text = format!("{before} to {rate_text}");
        ledger.event(row.n, now, &ctx.who, "rate changed", Some(&text)).map_err(told)?;
    }
    let limits = [
        ("max errors changed", errors_text(kept.max_errors), errors_text(settings.max_errors)),
        ("stop on re-fail changed", part_text(kept.stop_on_refail), part_text(settings.stop_on_refail)),
    ];
    for (what, begun_with, now_with) in limits.iter().filter(|(_, was, is)| was != is) {
        let text = format!("{begun_with} to {now_with}");
        ledger.event(row.n, now, &ctx.who, what, Some(&text)).map_err(told)?;
    }
    let asked = [(args.retry_failed, "retry failed"), (args.allow_stale, "allow stale")];
    for (_, what) in asked.iter().filter(|(given, _)| *given) {
        ledger.event(row.n, now, &ctx.who, what, None).map_err(told)?;
    }
    let ready = Ready {
        channel,
        chosen,
        ledger,
        lock,
        row,
        kept: (kept.skipped, kept.held),
        mover: Some(mover),
        settings,
        resume: Some(orders),
        sending,
        events,
        place,
        passes: None,
    };
    finish(ctx, ready).await
}

/// `20%`, or `off`.
fn part_text(part: Option<f64>) -> String {
    part.map_or_else(|| "off".to_owned(), |part| format!("{}%", (part * 1e10).round() / 1e8))
}

/// `5`, or `never`.
fn errors_text(errors: u32) -> String {
    if errors == 0 { "never".to_owned() } else { errors.to_string() }
}

/// The first letters without a known answer, by name.
fn in_doubt_by_name(ledger: &Ledger, run: i64) -> Result<String, LedgerError> {
    const NAMED: usize = 20;
    let open = ledger.open_letters(run, 0, 10_000)?;
    let doubt: Vec<&str> = open
        .iter()
        .filter(|open| matches!(open.state, LetterState::InDoubt | LetterState::Intended))
        .map(|open| open.letter.as_str())
        .collect();
    let more = doubt.len().saturating_sub(NAMED);
    let mut text = doubt.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    Ok(text)
}
