//! `redrive run CHANNEL --native`: all of a dead-letter queue by the broker's own means, started, watched and, on
//! Ctrl-C, cancelled. Refused wherever it would do less than a run does without saying so.

use std::collections::HashMap;
use std::time::Duration;

use super::confirm::{Consent, Yes, typed_out};
use super::holding::{is_free, lock};
use super::sending::{LEASE, ledger_error, ledger_path, lowered, open_elsewhere, queue_key, rate, rate_text};
use super::{Chosen, CommandError, Context, ExitCode, Outcome, signals};
use crate::broker::{BrokerError, Bulk, BulkMover, BulkMoves, BulkState, ErrorKind};
use crate::ledger::{Counts, Ledger, LedgerError, NewRun, RunState};
use crate::render::run::bulk as screen;
use crate::topology::Rate;

/// How a run of this kind is recorded.
pub const PATH: &str = "broker_move";
/// How often the broker is asked how far it has come.
const EVERY: Duration = Duration::from_secs(1);
/// How long a cancelled move is waited for.
const CANCEL_WITHIN: Duration = Duration::from_secs(60);

/// What `run` was called with, as far as it matters here.
pub struct Asked<'a> {
    /// The channel.
    pub channel: &'a str,
    /// `--limit`.
    pub limit: Option<&'a str>,
    /// Flags that ask for what the broker cannot do, as typed.
    pub beyond: Vec<&'static str>,
    /// `--rate`.
    pub rate: Option<&'a str>,
    /// `--reason`.
    pub reason: Option<&'a str>,
    /// `--dry-run`.
    pub dry_run: bool,
    /// `--yes`.
    pub yes: &'a Yes,
    /// `--confirm`.
    pub confirm: Option<&'a str>,
    /// `--ledger`.
    pub ledger: Option<&'a std::path::PathBuf>,
    /// `--take-over`.
    pub take_over: bool,
    /// The command as it was typed.
    pub typed: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// [2]: no reason. [4]: refused, with all reasons, or declined. [1]: the broker.
pub async fn run(ctx: &mut Context, asked: Asked<'_>) -> Outcome {
    let loaded = ctx.topology()?;
    let channel = loaded.channel(asked.channel)?;
    let chosen = ctx.broker_for(&loaded, channel)?;
    let (names, capabilities) = lowered(chosen, channel)?;
    let asked_rate = match asked.rate {
        Some(text) => rate(text)?,
        None => channel.redrive.rate.value,
    };
    let key = queue_key(&loaded, chosen, &names.dead_letter);
    let (most, not_kept, mut reasons) = match capabilities.bulk {
        BulkMoves::No(why) => (0, &[] as &[&str], vec![why.to_owned()]),
        BulkMoves::All { most_per_second, not_kept } => (most_per_second, not_kept, Vec::new()),
    };
    if asked.limit != Some("all") {
        reasons.push("it moves all, and knows no limit: --limit all says so".to_owned());
    }
    reasons.extend(asked.beyond.iter().map(|flag| format!("it moves all as it is, and knows no {flag}")));
    let per_second = per_second(asked_rate, most);
    if most > 0
        && let Err(why) = &per_second
    {
        reasons.push(why.clone());
    }
    reasons.extend(left_open(&open_elsewhere(asked.ledger, &key)?));
    if !reasons.is_empty() {
        return Err(refused(ctx, &asked, chosen, &names.dead_letter, reasons));
    }
    let per_second = per_second.unwrap_or_default();
    let reason = asked.reason.filter(|reason| !reason.trim().is_empty());
    if !asked.dry_run {
        chosen.may_change(asked.typed.clone())?;
        if reason.is_none() {
            let mut next = asked.typed.clone();
            next.extend(["--reason".to_owned(), "TEXT".to_owned()]);
            let error = CommandError::usage("a run needs a reason: it is recorded with who and when");
            return Err(error.next(next));
        }
    }
    let broker = ctx.open(&loaded, chosen, !asked.dry_run).await?;
    super::readers::guard(&*broker, chosen, channel).await?;
    let told = |error: BrokerError| CommandError::broker(chosen.name(), &error);
    let asking = broker.bulk_refusals(channel);
    let reasons = ctx.answer_of(chosen, broker.whereabouts(), asking).await.map_err(told)?;
    if !reasons.is_empty() {
        return Err(refused(ctx, &asked, chosen, &names.dead_letter, reasons));
    }
    let letters = broker.depths(channel).await.map_err(told)?.dead_letter.count.number();
    let place = broker.whereabouts();
    let rate_text = match per_second {
        Some(_) => rate_text(asked_rate),
        None => "what the broker chooses".to_owned(),
    };
    let before = screen::Before {
        channel: &channel.name.value,
        title: &chosen.title(),
        queue: &names.dead_letter,
        target: &names.return_to,
        place: place.as_deref(),
        letters,
        path: PATH,
        rate: &rate_text,
        not_kept,
    };
    screen::before(&mut ctx.ui, &before);
    if asked.dry_run {
        let mut real = asked.typed.clone();
        if reason.is_none() {
            real.extend(["--reason".to_owned(), "TEXT".to_owned()]);
        }
        screen::dry_run(&mut ctx.ui, &before, chosen.name(), reason, &real);
        ctx.ui.note("Dry run: nothing was sent. For real:");
        ctx.ui.next(&real);
        return Ok(ExitCode::Done);
    }
    const NOTHING: &str = "Nothing was sent.";
    let at = ledger_path(asked.ledger)?;
    is_free(ctx, &*broker, channel, &at, (&key, &names.dead_letter), asked.take_over).await?;
    let (title, command) = (chosen.title(), asked.typed.clone());
    let what = format!("{title} move all of {}, about {letters} letters,", names.dead_letter);
    if per_second.is_none() {
        let name = channel.name.value.as_str();
        let what = format!("let {what} at once to {}", names.return_to);
        let ask = format!("Type {name} to {what}:").into();
        let would = format!("--rate unlimited would {what}");
        typed_out(&mut ctx.ui, ask, &would, name, asked.confirm, NOTHING, command)?;
    } else {
        let question = format!("Let {what} to {}?", names.return_to).into();
        let noun = ("letter", "letters");
        asked
            .yes
            .consent(&mut ctx.ui, Consent { question, count: letters, noun, nothing: NOTHING, command })?;
    }
    let told_ledger = |error: LedgerError| ledger_error(&at, &error);
    let mut ledger = Ledger::open(&at).map_err(told_ledger)?;
    let run = super::sending::new_run_id(ctx);
    let owner = ctx.new_id(12);
    let lock = lock(ctx, &mut ledger, &key, &names.dead_letter, &run, &owner, asked.take_over)?;
    // A run may have ended since, or died: under the lock none can.
    let open = ledger.open_elsewhere(&key).map_err(told_ledger)?.into_iter().collect();
    if let Some(why) = left_open(&open) {
        ledger.unlock(&lock).map_err(told_ledger)?;
        return Err(refused(ctx, &asked, chosen, &names.dead_letter, vec![why]));
    }
    let started = ctx.clock.now();
    let number = ledger
        .begin_run(&NewRun {
            id: run.clone(),
            channel: channel.name.value.clone(),
            broker: chosen.name().to_owned(),
            dlq: key,
            queue: names.dead_letter.clone(),
            target: names.return_to.clone(),
            path: PATH,
            rate: rate_text,
            ramp_ms: 0,
            settings: String::new(),
            selection: "--native --limit all".to_owned(),
            reason: reason.unwrap_or_default().to_owned(),
            who: ctx.who.clone(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            planned: letters,
            started,
        })
        .map_err(told_ledger)?;
    let mut signalled = signals::listen()
        .map_err(|error| CommandError::failed(format!("could not wait for signals: {error}")))?;
    ledger.event(number, started, &ctx.who, "begun", reason).map_err(told_ledger)?;
    let begun = ctx.clock.elapsed();
    let mut end = End { bulk: None, why: None, code: None, left: false };
    match broker.bulk(channel, per_second).await {
        Ok(mover) => {
            let mut beat = |clock: &dyn crate::clock::Clock, bulk: &Bulk| -> Result<bool, LedgerError> {
                let now = clock.now();
                ledger.note_progress(number, &counts(letters, Some(bulk)), 0, now)?;
                match ledger.beat(&lock, now, LEASE) {
                    Err(LedgerError::LockLost) => Ok(false),
                    other => other.map(|()| true),
                }
            };
            end = watch(ctx, mover, &mut signalled, &mut beat).await.map_err(told_ledger)?;
        }
        Err(error) => end.why = Some(words(&error)),
    }
    let counts = counts(letters, end.bulk.as_ref());
    let done = matches!(end.bulk.as_ref().map(|bulk| &bulk.state), Some(BulkState::Done));
    let code = match (end.code, done, end.bulk.is_some()) {
        (Some(code), ..) => code,
        (None, true, _) if counts.untouched == 0 => ExitCode::Done,
        (None, _, true) => ExitCode::Stopped,
        (None, _, false) => ExitCode::Failed,
    };
    let state = match code {
        ExitCode::Done => RunState::Done,
        ExitCode::Failed => RunState::Failed,
        _ => RunState::Stopped,
    };
    let now = ctx.clock.now();
    let took = ctx.clock.elapsed().saturating_sub(begun);
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    ledger.extend_run(number, counts.planned, "", now).map_err(told_ledger)?;
    ledger
        .end_run(number, state, i32::from(code.number()), &counts, 0, None, took, now)
        .and_then(|()| {
            let why = match (&end.why, end.code) {
                (Some(why), _) => format!("the broker: {why}"),
                (None, Some(code)) => format!("signal: {}", code.words()),
                (None, None) => "finished".to_owned(),
            };
            ledger.say_ended(number, now, &ctx.who, state, &why)
        })
        .and_then(|()| ledger.unlock(&lock))
        .map_err(told_ledger)?;
    let row = ledger.runs_like(&run).map_err(told_ledger)?.into_iter().next();
    let row = row.ok_or_else(|| CommandError::bug("a run that was just recorded is not in the ledger"))?;
    let next = match code {
        ExitCode::Done => ctx.command(&["inspect", &row.channel]),
        _ => ctx.command(&["status", &row.channel]),
    };
    let ended = screen::Ended {
        row: &row,
        place: place.as_deref(),
        state,
        exit: code.number(),
        counts: &counts,
        why: end.why.as_deref(),
        at: now,
        next: &next,
    };
    screen::ended(&mut ctx.ui, &ended);
    if end.left {
        ctx.ui.note("The move goes on at the broker; it was not cancelled.");
    }
    ctx.ui.next(&next);
    Ok(code)
}

/// What runs left open would be moved too.
fn left_open(open: &HashMap<String, String>) -> Option<String> {
    let run = open.values().next()?;
    let (letters, were) = match open.len() {
        1 => ("1 letter".to_owned(), "was"),
        several => (format!("{several} letters"), "were"),
    };
    Some(format!("{letters} {were} left open by run {run}: sent again they may be there twice"))
}

/// Refused before anything was asked or recorded, with every reason.
fn refused(
    ctx: &Context,
    asked: &Asked<'_>,
    chosen: Chosen<'_>,
    queue: &str,
    reasons: Vec<String>,
) -> CommandError {
    let mut error = CommandError::refused(format!("{queue} cannot be moved by {} itself", chosen.title()));
    for why in reasons {
        error = error.hint(format!("- {why}"));
    }
    let mut next = ctx.command(&["run", asked.channel]);
    next.extend(["--limit", asked.limit.unwrap_or("all"), "--dry-run"].map(str::to_owned));
    error.hint("Without --native, redrive moves the letters itself:").next(next)
}

/// The rate as the broker takes it; `None`: its own.
fn per_second(rate: Rate, most: u32) -> Result<Option<u32>, String> {
    match rate {
        Rate::Unlimited => Ok(None),
        Rate::PerSecond(rate) if rate.fract() == 0.0 && (1.0..=f64::from(most)).contains(&rate) => {
            Ok(Some(rate as u32))
        }
        Rate::PerSecond(_) => Err(format!("its rate is a whole number from 1/s to {most}/s, or unlimited")),
    }
}

fn words(error: &BrokerError) -> String {
    let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("could not {}: {}{hint}", error.action, error.message)
}

/// The six counts, as far as the broker tells: its numbers are estimates, and they add up all the same.
fn counts(letters: u64, bulk: Option<&Bulk>) -> Counts {
    let moved = bulk.map_or(0, |bulk| bulk.moved);
    let planned = bulk.and_then(|bulk| bulk.of).unwrap_or(letters).max(moved);
    Counts { planned, moved, untouched: planned - moved, ..Counts::default() }
}

struct End {
    bulk: Option<Bulk>,
    why: Option<String>,
    code: Option<ExitCode>,
    /// The move goes on without us.
    left: bool,
}

type Beat<'a> = &'a mut (dyn FnMut(&dyn crate::clock::Clock, &Bulk) -> Result<bool, LedgerError> + Send);

/// Watches until it ends. The first signal cancels it, the second leaves it alone.
async fn watch(
    ctx: &mut Context,
    mut mover: Box<dyn BulkMover>,
    signalled: &mut tokio::sync::watch::Receiver<signals::Told>,
    beat: Beat<'_>,
) -> Result<End, LedgerError> {
    let clock = ctx.clock.clone();
    let mut progress = crate::render::Progress::new();
    let mut end = End { bulk: None, why: None, code: None, left: false };
    let (mut begun, mut cancelled, mut failures) = (clock.elapsed(), None, 0u32);
    loop {
        match mover.look().await {
            Ok(bulk) => {
                failures = 0;
                let line = screen::progress(bulk.moved, bulk.of);
                progress.show(&mut ctx.ui, clock.elapsed().saturating_sub(begun), &[line]);
                let ours = beat(&*clock, &bulk)?;
                let state = bulk.state.clone();
                end.bulk = Some(bulk);
                match state {
                    BulkState::Running => {}
                    BulkState::Failed(why) => {
                        end.why = Some(format!("the broker ended it: {why}"));
                        break;
                    }
                    BulkState::Done | BulkState::Cancelled => break,
                }
                if !ours {
                    end.why = Some("another process took the dead-letter queue over".to_owned());
                    end.left = true;
                    break;
                }
            }
            Err(error) => {
                failures += 1;
                let lasting = !error.kind.transient() && error.kind != ErrorKind::Unknown;
                if lasting || failures >= 30 {
                    end.why = Some(words(&error));
                    end.left = true;
                    break;
                }
            }
        }
        if let Some(since) = cancelled
            && clock.elapsed().saturating_sub(since) > CANCEL_WITHIN
        {
            end.why = Some("it was cancelled, and the broker has not said yet that it ended".to_owned());
            break;
        }
        tokio::select! {
            () = clock.sleep(EVERY) => {}
            _ = signalled.changed() => {
                let now = *signalled.borrow();
                end.code = now.code;
                if now.times > 1 {
                    end.left = cancelled.is_none();
                    break;
                }
                progress.clear(&mut ctx.ui);
                ctx.ui.note("cancelling: what was moved stays moved");
                match mover.cancel().await {
                    Ok(()) => cancelled = Some(clock.elapsed()),
                    Err(error) => {
                        end.why = Some(words(&error));
                        end.left = true;
                    }
                }
                begun = clock.elapsed();
            }
        }
    }
    progress.clear(&mut ctx.ui);
    Ok(end)
}
