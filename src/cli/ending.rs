//! How a run ended: the code, the state and the words that go on record, and what is said of it.

use std::time::Duration;

use super::sending::{Ready, ledger_error};
use super::{CommandError, Context, ExitCode};
use crate::clock::Time;
use crate::ledger::{Ledger, LedgerError, LetterState, RunState};
use crate::render::run as screen;
use crate::run::engine::{Cause, End, EngineError};

/// An end, judged.
pub struct Judged {
    /// The code to end with.
    pub code: ExitCode,
    /// As it is recorded.
    pub state: RunState,
    /// Why, in words.
    pub why: String,
}

impl Judged {
    /// Judges an end; `signal` is the code of the first signal.
    ///
    /// # Errors
    /// The ledger's, where somebody else asked the run to stop.
    pub fn of(end: &End, signal: Option<ExitCode>, ledger: &Ledger, run: i64) -> Result<Self, LedgerError> {
        let code = code_of(end, signal);
        Ok(Self { code, state: state_of(end, code), why: why_of(end, signal, ledger, run)? })
    }
}

/// Protocol §9: the first that fits.
pub fn code_of(end: &End, signal: Option<ExitCode>) -> ExitCode {
    let counts = &end.counts;
    if let Some(code) = signal {
        return code;
    }
    if end.cause.is_some() || counts.untouched > 0 || end.unsettled > 0 {
        return ExitCode::Stopped;
    }
    if counts.moved == 0 && counts.failed > 0 {
        return ExitCode::Failed;
    }
    if counts.failed + counts.held + counts.in_doubt + counts.skipped > 0 {
        return ExitCode::Partial;
    }
    ExitCode::Done
}

pub fn state_of(end: &End, code: ExitCode) -> RunState {
    match (code, &end.cause) {
        (ExitCode::Done, _) => RunState::Done,
        (ExitCode::Partial, _) => RunState::Partial,
        (ExitCode::Failed, _) => RunState::Failed,
        (_, Some(Cause::Paused)) => RunState::Paused,
        _ => RunState::Stopped,
    }
}

fn why_of(end: &End, signal: Option<ExitCode>, ledger: &Ledger, run: i64) -> Result<String, LedgerError> {
    let signalled = || match signal {
        Some(ExitCode::Terminated) => "signal: SIGTERM",
        Some(ExitCode::HungUp) => "signal: SIGHUP",
        _ => "signal: SIGINT",
    };
    Ok(match &end.cause {
        Some(Cause::Asked) => signalled().to_owned(),
        Some(cause @ (Cause::Paused | Cause::StoppedFromOutside)) => match ledger.who_asked(run)? {
            Some(who) => format!("{}: {who}", cause.words()),
            None => cause.words(),
        },
        Some(cause) => cause.words(),
        None if signal.is_some() => signalled().to_owned(),
        None if end.gone > 0 => match end.not_seen {
            0 => format!("letters left: {} gone from the queue", end.gone),
            unseen => {
                format!("letters left: {} gone from the queue, {unseen} not seen by the broker", end.gone)
            }
        },
        None if end.not_seen > 0 => format!("letters left: {} not seen by the broker", end.not_seen),
        None if end.unsettled > 0 => format!("letters left: {} moved, original not removed", end.unsettled),
        None if end.counts.untouched > 0 => format!("letters left: {} untouched", end.counts.untouched),
        None => "finished".to_owned(),
    })
}

/// Puts the end on record.
///
/// # Errors
/// The ledger's.
pub fn record(
    ctx: &Context,
    ready: &mut Ready<'_>,
    end: &End,
    judged: &Judged,
    now: Time,
) -> Result<(), LedgerError> {
    let took = u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX);
    let exit = i32::from(judged.code.number());
    let (row, ledger) = (&ready.row, &mut ready.ledger);
    if matches!(end.cause, Some(Cause::LockLost)) {
        let counts = ledger.counts_found(row.n, row.counts.planned)?;
        let unsettled = ledger.tally(row.n)?.get(&LetterState::Published).copied().unwrap_or(0);
        ledger.ousted(row, exit, (&counts, unsettled), took, &ctx.who, &judged.why, now)?;
        // Where this ledger is not the one through which it was taken.
        return ledger.unlock(&ready.lock);
    }
    if end.yielded >= Duration::from_secs(1) {
        let text = format!("{}, for the relay of {}", screen::rough_seconds(end.yielded), row.target);
        ledger.event(row.n, now, &ctx.who, "stood back", Some(&text))?;
    }
    if let Some(trimmed) = &end.trimmed {
        ledger.event(row.n, now, &ctx.who, "trim", Some(trimmed))?;
    }
    ledger.end_run(row.n, judged.state, exit, &end.counts, end.unsettled, end.refailed, took, now)?;
    ledger.say_ended(row.n, now, &ctx.who, judged.state, &judged.why)?;
    ledger.unlock(&ready.lock)
}

/// What a driver could not go on without, with what to type. It is put on record as far as there is one.
pub fn failed(ctx: &Context, ready: &mut Ready<'_>, error: &EngineError) -> CommandError {
    let why = format!("error: {error}");
    let recorded = ready.ledger.say_ended(ready.row.n, ctx.clock.now(), &ctx.who, RunState::Stopped, &why);
    if let Err(error) = recorded {
        tracing::warn!(%error, "why the run ended could not be recorded");
    }
    engine_error(&ready.ledger, &ready.row.id, error).next(ctx.command(&["resume", &ready.row.id]))
}

/// With the file that it is about: the ledger, or the run's own manifest.
pub fn engine_error(ledger: &Ledger, run: &str, error: &EngineError) -> CommandError {
    match error {
        EngineError::Ledger(error) => ledger_error(ledger.path(), error),
        EngineError::Manifest(fault) => {
            let at = ledger.manifest_path(run).map(|path| format!(" {}", path.display())).unwrap_or_default();
            CommandError::failed(format!("the run's own manifest{at} cannot be read: {fault}"))
        }
        EngineError::Counts(what) => CommandError::bug(what.clone()),
    }
}

/// Says how it ended; `looking`: how much of the time of this part went into looks between its passes.
pub fn said(
    ctx: &mut Context,
    ready: &Ready<'_>,
    context: &screen::RunScreen,
    end: &End,
    judged: &Judged,
    (began, now, looking): (Time, Time, Duration),
) {
    let next = match judged.state {
        RunState::Done => ctx.command(&["inspect", &context.channel]),
        RunState::Partial | RunState::Failed => ctx.command(&["runs", "show", &context.run]),
        // The same again would find the same.
        _ if end.gone > 0 && end.cause.is_none() => ctx.command(&["resume", &context.run, "--allow-stale"]),
        _ => ctx.command(&["resume", &context.run]),
    };
    let notes = ready.ledger.notes(ready.row.n, 0, screen::MOST_NOTES).unwrap_or_default();
    let groups = ready.ledger.note_counts(ready.row.n).unwrap_or_default();
    let row = ready.ledger.runs_like(&ready.row.id).ok().and_then(|rows| rows.into_iter().next());
    let total = row.as_ref().map_or(end.took, |row| Duration::from_millis(row.took_ms));
    let parts = row.as_ref().map_or(1, |row| row.parts);
    let ended = screen::Ended {
        end,
        state: judged.state,
        why: &judged.why,
        exit: judged.code.number(),
        notes: &notes,
        groups: &groups,
        total,
        looking,
        parts,
        reason: &ready.row.reason,
        who: &ctx.who,
        started: if parts > 1 { ready.row.started } else { began },
        ended: now,
        next: &next,
    };
    screen::ended(&mut ctx.ui, context, &ended);
}
