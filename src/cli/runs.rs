//! `redrive runs`: list, show, pause, stop.

use std::path::{Path, PathBuf};

use super::sending::{ledger_error, ledger_path};
use super::topology_file::asked_name;
use super::{CommandError, Context, ExitCode, Outcome};
use crate::clock::Time;
use crate::ledger::{Ledger, LedgerError, RunRow, RunState, Wish};
use crate::render::runs as screen;

/// Arguments of `runs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  redrive runs\n  redrive runs show r7d2f9\n  redrive runs pause r7d2f9")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Where runs are recorded; else REDRIVE_LEDGER, else the state folder
    #[arg(long, value_name = "FILE", global = true)]
    ledger: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Runs, the latest first; with --broker only those on it
    #[command(after_help = "Example:\n  redrive runs list orders --broker kafka")]
    List {
        /// Channel
        #[arg(value_name = "CHANNEL")]
        channel: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// One run: who, when, why, counts, and every letter that did not move
    #[command(after_help = "Example:\n  redrive runs show r7d2f9 -o json")]
    Show {
        /// Run; any unique beginning of its id
        #[arg(value_name = "RUN")]
        run: String,
        /// Every letter, also those that moved
        #[arg(long)]
        full: bool,
    },
    /// Ask a run to stop in order, to be resumed later
    #[command(after_help = "Example:\n  redrive runs pause r7d2f9")]
    Pause {
        /// Run
        #[arg(value_name = "RUN")]
        run: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT", value_parser = super::who::reason)]
        reason: Option<String>,
    },
    /// Ask a run to stop in order
    #[command(after_help = "Example:\n  redrive runs stop r7d2f9")]
    Stop {
        /// Run
        #[arg(value_name = "RUN")]
        run: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT", value_parser = super::who::reason)]
        reason: Option<String>,
    },
}

/// Runs it.
///
/// # Errors
/// [2]: no such run. [4]: it does not run. [1]: the ledger.
#[allow(clippy::unused_async)]
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let at = ledger_path(args.ledger.as_ref())?;
    let told = |error| ledger_error(&at, &error);
    let ledger = Ledger::look(&at).map_err(told)?;
    let what = args.what.unwrap_or(What::List { channel: None, limit: 50 });
    match what {
        What::List { channel, limit } => {
            let broker = asked_name(ctx)?;
            let (of, on) = (channel.as_deref(), broker.as_ref().map(|(name, _)| name.as_str()));
            let mut rows = match &ledger {
                // One more than is shown tells whether there are more.
                Some(ledger) => ledger.runs(of, on, limit.saturating_add(1)).map_err(told)?,
                None => Vec::new(),
            };
            let more = rows.len() > limit;
            rows.truncate(limit);
            let alive: Vec<bool> = rows.iter().map(|row| is_alive(ledger.as_ref(), row)).collect();
            if let Some(ledger) = &ledger {
                for (row, alive) in rows.iter_mut().zip(&alive) {
                    count_again(ledger, row, *alive, ctx.clock.now()).map_err(told)?;
                }
            }
            let next = rows.first().map(|row| ctx.command(&["runs", "show", &row.id])).unwrap_or_default();
            let others = match &ledger {
                Some(ledger) if rows.is_empty() => ledger.ran().map_err(told)?,
                _ => Vec::new(),
            };
            let list = screen::List { rows: &rows, alive: &alive, more, asked: (of, on), others: &others };
            list.print(&mut ctx.ui, ctx.clock.now(), &next);
            if let Some((name, "REDRIVE_BROKER")) = broker.as_ref().map(|(name, by)| (name, *by)) {
                ctx.ui.note(format!("Only runs on {name}: REDRIVE_BROKER says so."));
            }
            Ok(ExitCode::Done)
        }
        What::Show { run, full } => {
            let ledger = there(ledger, &run, &at)?;
            let mut row = one_run(&ledger, &run, &at)?;
            let alive = is_alive(Some(&ledger), &row);
            count_again(&ledger, &mut row, alive, ctx.clock.now()).map_err(told)?;
            let next = match row.state {
                RunState::Done => Vec::new(),
                _ if row.path == super::native::PATH => ctx.command(&["inspect", &row.channel]),
                RunState::Running if alive => Vec::new(),
                _ => what_is_left(ctx, &ledger, &row),
            };
            screen::show(&mut ctx.ui, &ledger, &row, alive, full, ctx.clock.now(), &next).map_err(told)?;
            Ok(ExitCode::Done)
        }
        What::Pause { run, reason } => wish(ctx, ledger, &at, &run, reason.as_deref(), Wish::Pause),
        What::Stop { run, reason } => wish(ctx, ledger, &at, &run, reason.as_deref(), Wish::Stop),
    }
}

/// What to type for what a run left: some of it a resume sends, some of it only another run.
fn what_is_left(ctx: &Context, ledger: &Ledger, row: &RunRow) -> Vec<String> {
    let counts = &row.counts;
    let notes = ledger.note_counts(row.n).unwrap_or_default();
    let gone = notes.iter().any(|(outcome, code, _)| outcome == "untouched" && code == "gone");
    if gone && row.state == RunState::Stopped {
        ctx.command(&["resume", &row.id, "--allow-stale"])
    } else if counts.untouched + counts.in_doubt + row.unsettled > 0 || row.state == RunState::Running {
        ctx.command(&["resume", &row.id])
    } else if counts.failed > 0 {
        ctx.command(&["resume", &row.id, "--retry-failed"])
    } else {
        ctx.command(&["inspect", &row.channel])
    }
}

fn wish(
    ctx: &mut Context,
    ledger: Option<Ledger>,
    at: &Path,
    run: &str,
    reason: Option<&str>,
    wish: Wish,
) -> Outcome {
    // One that says nothing is none.
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let told = |error| ledger_error(at, &error);
    let mut ledger = there(ledger, run, at)?;
    let row = one_run(&ledger, run, at)?;
    if row.state != RunState::Running || !is_alive(Some(&ledger), &row) {
        return Err(CommandError::refused(format!("run {} does not run: {}", row.id, row.state.word()))
            .next(ctx.command(&["runs", "show", &row.id])));
    }
    ledger.wish(row.n, wish).map_err(told)?;
    let word = if wish == Wish::Pause { "pause" } else { "stop" };
    ledger.event(row.n, ctx.clock.now(), &ctx.who, word, reason).map_err(told)?;
    let next = ctx.command(&["runs", "show", &row.id]);
    if ctx.ui.json() {
        ctx.ui.document(&serde_json::json!({
            "schema": "redrive.asked.v1",
            "at": ctx.clock.now(),
            "run": row.id,
            "channel": row.channel,
            "broker": row.broker,
            "asked": word,
            "reason": reason,
            "next": next,
        }));
        return Ok(ExitCode::Done);
    }
    ctx.ui.say_folded(
        format!("run {} was asked to {word}; it settles what is in flight and ends within seconds", row.id),
        2,
    );
    ctx.ui.next(&next);
    Ok(ExitCode::Done)
}

/// A run that died says of itself what was true up to a second before; its letters say what it did.
/// The time of its last part, too, is only in its signs of life.
fn count_again(ledger: &Ledger, row: &mut RunRow, alive: bool, now: Time) -> Result<(), LedgerError> {
    if row.state != RunState::Running {
        return Ok(());
    }
    let events = ledger.events(row.n)?;
    let part = events.iter().rev().find(|event| matches!(event.what.as_str(), "begun" | "resumed"));
    let until = if alive { now } else { row.seen };
    let took = until.since(part.map_or(row.started, |event| event.at));
    row.took_ms += u64::try_from(took.as_millis()).unwrap_or(0);
    if !alive {
        row.counts = ledger.counts_found(row.n, row.counts.planned)?;
    }
    Ok(())
}

/// Does its process live? The lock says.
fn is_alive(ledger: Option<&Ledger>, row: &RunRow) -> bool {
    row.state == RunState::Running
        && ledger
            .and_then(|ledger| ledger.holder(&row.dlq).ok().flatten())
            .is_some_and(|holder| holder.run == row.id)
}

fn there(ledger: Option<Ledger>, run: &str, at: &Path) -> Result<Ledger, CommandError> {
    ledger.ok_or_else(|| {
        CommandError::usage(format!(
            "no run {}: there is no ledger at {}",
            run.escape_default(),
            at.display()
        ))
    })
}

/// The run of this prefix.
pub(super) fn one_run(ledger: &Ledger, prefix: &str, at: &Path) -> Result<RunRow, CommandError> {
    // An empty id is a variable that is not set, not the beginning of every run.
    if prefix.is_empty() {
        return Err(CommandError::usage("the run's id is empty").next(["redrive", "runs", "list"]));
    }
    let rows = ledger.runs_like(prefix).map_err(|error| ledger_error(at, &error))?;
    match rows.as_slice() {
        [] => {
            let error =
                CommandError::usage(format!("no run {} in {}", prefix.escape_default(), at.display()));
            let known = ledger.runs(None, None, 1_000).map_err(|error| ledger_error(at, &error))?;
            let near = near(prefix, &known);
            let error = match near.is_empty() {
                true => error,
                false => error.hint(format!("Near: {}.", near.join(", "))),
            };
            Err(error.next(["redrive", "runs", "list"]))
        }
        [one] => Ok(one.clone()),
        [first, second, ..] => Err(CommandError::usage(format!(
            "{prefix} begins several runs, {} and {} among them",
            first.id, second.id
        ))),
    }
}

/// Runs that somebody may have meant: a slip of the fingers in an id or in its beginning.
fn near<'r>(typed: &str, known: &'r [RunRow]) -> Vec<&'r str> {
    let length = typed.chars().count();
    let beginnings = known.iter().map(|row| row.id.get(..length.min(row.id.len())).unwrap_or(&row.id));
    let Some(meant) = crate::topology::nearest(typed, beginnings) else { return Vec::new() };
    known.iter().map(|row| row.id.as_str()).filter(|id| id.starts_with(meant)).take(3).collect()
}
