//! `redrive apply`: provisions, one change at a time, and proves it by planning again. Who did it, when, why
//! and how far it came is in the ledger; `plan --applied` shows it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::confirm::{Consent, Yes};
use super::provisioning::{PlanData, Planned, observed};
use super::sending::{ledger_error, ledger_path};
use super::topology_file::Loaded;
use super::{CommandError, Context, ExitCode, Outcome};
use crate::broker::Broker;
use crate::clock::Time;
use crate::ledger::{Ledger, NewApply};
use crate::plan::Change;
use crate::redact;
use crate::render::Line;
use crate::render::plan::letters;

/// Arguments of `apply`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  redrive apply\n  redrive apply --broker kafka --accept-loss=orders.dlq --reason \"PAY-310 shorter retention\""
)]
pub struct Args {
    /// Make a change that loses messages of NAME; may be given several times, needs --reason
    #[arg(long, value_name = "NAME", require_equals = true)]
    accept_loss: Vec<String>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = super::who::reason)]
    reason: Option<String>,
    /// Where it is recorded; else REDRIVE_LEDGER, else the state folder
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    yes: Yes,
}

#[derive(Serialize)]
struct Data<'p> {
    schema: &'static str,
    at: Time,
    by: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'p str>,
    applied: Vec<Applied<'p>>,
    next: Vec<String>,
}

#[derive(Serialize)]
struct Applied<'p> {
    #[serde(flatten)]
    plan: PlanData<'p>,
    made: Vec<Made>,
    /// The second plan was empty.
    proven: bool,
    /// It is in the ledger.
    recorded: bool,
}

/// One change that was made.
#[derive(Debug, Serialize)]
struct Made {
    action: &'static str,
    kind: &'static str,
    name: String,
    seconds: f64,
}

/// Runs it.
///
/// # Errors
/// [2] and [3] before anything is contacted; [4] refused or declined, nothing changed; [1] failed, with
/// what was made until then.
pub async fn run(ctx: &mut Context, mut args: Args) -> Outcome {
    // One that says nothing is none.
    args.reason = args.reason.filter(|reason| !reason.trim().is_empty());
    if !args.accept_loss.is_empty() && args.reason.is_none() {
        let mut command = typed(ctx, &args);
        command.extend(["--reason".to_owned(), "TEXT".to_owned()]);
        return Err(CommandError::usage("--accept-loss needs a --reason").next(command));
    }
    let loaded = ctx.topology()?;
    for target in ctx.targets(&loaded, None)? {
        target.broker.may_change(typed(ctx, &args))?;
    }
    let plans = ctx.plans(&loaded, &args.accept_loss).await?;
    for name in &args.accept_loss {
        let loses = |change: &&Change| {
            matches!(change, Change::Refused { resource, refusal, .. }
            if resource.name == *name && refusal.loses.is_some())
        };
        if !plans.iter().any(|plan| plan.changes.iter().any(|change| loses(&change))) {
            ctx.ui.note(format!("--accept-loss={name}: nothing is lost there by this plan."));
        }
    }
    let mut applied = Vec::new();
    for plan in &plans {
        let (made, proven, recorded) = one(ctx, &loaded, &args, plan).await?;
        applied.push(Applied { plan: plan.data(), made, proven, recorded });
    }
    if ctx.ui.json() {
        let (at, by) = (ctx.clock.now(), ctx.who.clone());
        let (reason, next) = (args.reason.as_deref(), ctx.command(&["status"]));
        let data = Data { schema: "redrive.apply.v1", at, by: &by, reason, applied, next };
        ctx.ui.document(&data);
    }
    Ok(ExitCode::Done)
}

/// Shows, asks, makes, proves: one broker.
async fn one(
    ctx: &mut Context,
    loaded: &Loaded,
    args: &Args,
    plan: &Planned<'_>,
) -> Result<(Vec<Made>, bool, bool), CommandError> {
    if !ctx.ui.json() {
        plan.show(ctx);
    }
    refuse_held_back(ctx, loaded, plan)?;
    let changes = plan.to_make();
    if changes.is_empty() {
        return Ok((Vec::new(), true, false));
    }
    consent(ctx, args, plan, changes.len())?;
    let broker = ctx.open(loaded, plan.target.broker, true).await?;
    let failed = |error| CommandError::broker(plan.target.broker.name(), &error);
    let (_, again) = observed(&*broker, &plan.target.channels).await.map_err(failed)?;
    unchanged(ctx, plan, again)?;
    let mut record = Record::begin(ctx, args, plan, &changes)?;
    let made = make(ctx, args, plan, &*broker, &changes, &mut record).await;
    record.end(ctx, made.as_ref().err())?;
    let made = made?;
    let (_, changes) = observed(&*broker, &plan.target.channels).await.map_err(failed)?;
    let left = Planned {
        target: plan.target.clone(),
        changes,
        remarks: Vec::new(),
        place: plan.place.clone(),
        accepted: Vec::new(),
    };
    if left.counts().pending() + left.counts().refused > 0 {
        left.show(ctx);
        return Err(CommandError::failed("planned again, and there are changes left")
            .hint("The broker did not take what it said it took, or somebody else changes it too.")
            .next(ctx.command(&["plan"])));
    }
    if !ctx.ui.json() {
        ctx.ui.say("Proof: planned again, nothing left to change.");
    }
    Ok((made, true, record.ledger.is_some()))
}

/// The entry of this apply in the ledger. Without a home there is no ledger, and nothing to write to.
struct Record {
    ledger: Option<(PathBuf, Ledger, i64)>,
    made: Vec<String>,
}

impl Record {
    /// Before anything is changed.
    fn begin(
        ctx: &Context,
        args: &Args,
        plan: &Planned<'_>,
        changes: &[&Change],
    ) -> Result<Self, CommandError> {
        let path = match ledger_path(args.ledger.as_ref()) {
            Ok(path) => path,
            Err(error) => {
                tracing::warn!("not recorded: {}", error.message());
                return Ok(Self { ledger: None, made: Vec::new() });
            }
        };
        let told = |error| ledger_error(&path, &error).hint("Nothing was applied.");
        let mut ledger = Ledger::open(&path).map_err(told)?;
        let word = |change: &&Change| {
            let word = if matches!(change, Change::Create { .. }) { "create" } else { "change" };
            format!("{word} {}", change.resource().name)
        };
        let number = ledger
            .begin_apply(&NewApply {
                at: ctx.clock.now(),
                who: ctx.who.clone(),
                broker: plan.target.broker.name().to_owned(),
                place: plan.place.clone(),
                reason: args.reason.as_deref().map(redact::text),
                planned: changes.iter().map(word).collect(),
                accepted: args.accept_loss.clone(),
            })
            .map_err(told)?;
        Ok(Self { ledger: Some((path, ledger, number)), made: Vec::new() })
    }

    fn made(&mut self, what: String) -> Result<(), CommandError> {
        self.made.push(what);
        let Some((path, ledger, number)) = &mut self.ledger else { return Ok(()) };
        ledger.applied(*number, &self.made).map_err(|error| ledger_error(path, &error))
    }

    fn end(&mut self, ctx: &Context, error: Option<&CommandError>) -> Result<(), CommandError> {
        let Some((path, ledger, number)) = &mut self.ledger else { return Ok(()) };
        let error = error.map(|error| redact::text(error.message()));
        let ended = ledger.end_apply(*number, ctx.clock.now(), error.as_deref());
        // What went wrong at the broker is told before what the ledger says to it.
        if error.is_some() { Ok(()) } else { ended.map_err(|error| ledger_error(path, &error)) }
    }
}

/// Nothing is made while a part of the plan is refused.
fn refuse_held_back(ctx: &mut Context, loaded: &Loaded, plan: &Planned<'_>) -> Result<(), CommandError> {
    let held = plan.held_back();
    if held.is_empty() {
        return Ok(());
    }
    let losing = held
        .iter()
        .any(|change| matches!(change, Change::Refused { refusal, .. } if refusal.loses.is_some()));
    let count = if held.len() == 1 { "1 change".to_owned() } else { format!("{} changes", held.len()) };
    let what: Vec<String> = held.iter().map(|change| said(change)).collect();
    let can = if losing { "can lose messages" } else { "cannot be made" };
    let mut error = CommandError::refused(format!("{count} {can}: {}", what.join("; ")));
    for note in plan.notes(loaded) {
        error = error.hint(note);
    }
    Err(if losing { error.next(plan.apply_command(ctx)) } else { error.next(ctx.command(&["plan"])) })
}

/// `orders.dlq retention 30d → 14d, 22 of 61 letters`.
fn said(change: &Change) -> String {
    let Change::Refused { resource, fields, refusal } = change else { return String::new() };
    let fields: Vec<String> = fields
        .iter()
        .map(|field| {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
            format!(" {} {} → {}", field.name, value(&field.from), value(&field.to))
        })
        .collect();
    match fields.is_empty() {
        true => format!("{} {}", resource.name, refusal.why),
        false => format!("{}{}, {}", resource.name, fields.join(","), refusal.why),
    }
}

fn consent(ctx: &mut Context, args: &Args, plan: &Planned<'_>, count: usize) -> Result<(), CommandError> {
    let changes = if count == 1 { "change" } else { "changes" };
    let mut question =
        Line::new().text(format!("Apply {count} {changes} to ")).bold(plan.target.broker.title()).text("?");
    if let (lost @ 1.., at_most) = plan.loses() {
        question = question.red(match at_most {
            true => format!(" Up to about {} may be lost.", letters(lost)),
            false => format!(" {} will be lost.", letters(lost)),
        });
    }
    let command = typed(ctx, args);
    args.yes.consent(
        &mut ctx.ui,
        Consent {
            question,
            count: count as u64,
            noun: ("change", "changes"),
            nothing: "Nothing was applied.",
            command,
        },
    )
}

/// What was consented to is what is made: the broker must still differ in the same way.
fn unchanged(ctx: &Context, plan: &Planned<'_>, again: Vec<Change>) -> Result<(), CommandError> {
    let lost = |changes: &[Change]| -> u64 {
        let lost = changes.iter().filter_map(|change| match change {
            Change::Refused { refusal, .. } => refusal.loses,
            _ => None,
        });
        lost.sum()
    };
    let bare = |changes: &[Change]| -> Vec<Change> {
        changes
            .iter()
            .cloned()
            .map(Change::without_counts)
            .map(|change| match change {
                // How many would be lost is compared apart: fewer is fine.
                Change::Refused { resource, fields, .. } => Change::Update { resource, fields },
                other => other,
            })
            .collect()
    };
    if bare(&plan.changes) == bare(&again) && lost(&again) <= lost(&plan.changes) {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "{} changed since this plan was made; nothing was applied",
        plan.target.broker.name()
    ))
    .next(ctx.command(&["plan"])))
}

async fn make(
    ctx: &mut Context,
    args: &Args,
    plan: &Planned<'_>,
    broker: &dyn Broker,
    changes: &[&Change],
    record: &mut Record,
) -> Result<Vec<Made>, CommandError> {
    let wide = changes.iter().map(|change| change.resource().name.chars().count()).max().unwrap_or(0);
    let mut made: Vec<Made> = Vec::new();
    for change in changes {
        let begun = ctx.clock.elapsed();
        if let Err(error) = broker.make(change).await {
            let done: Vec<String> =
                made.iter().map(|made| format!("{} {}", made.action, made.name)).collect();
            let done = if done.is_empty() { String::new() } else { format!(": {}", done.join(", ")) };
            let done = format!("Applied {} of {}{done}", made.len(), changes.len());
            let error = CommandError::broker(plan.target.broker.name(), &error).next(typed(ctx, args));
            if ctx.ui.json() {
                return Err(error.hint(format!("{done}.")));
            }
            ctx.ui.tell(format!("{done}. Then:"));
            return Err(error);
        }
        let took = ctx.clock.elapsed().saturating_sub(begun);
        let action = if matches!(change, Change::Create { .. }) { "created" } else { "changed" };
        let resource = change.resource();
        if !ctx.ui.json() {
            ctx.ui.say(format!("  {action}  {:<wide$}  {}", resource.name, seconds(took)));
            ctx.ui.flush();
        }
        record.made(format!("{action} {}", resource.name))?;
        made.push(Made {
            action,
            kind: resource.kind,
            name: resource.name.clone(),
            seconds: took.as_secs_f64(),
        });
    }
    Ok(made)
}

fn seconds(took: Duration) -> String {
    format!("{:.1}s", took.as_secs_f64())
}

/// The command as it was typed, but for `--yes`.
fn typed(ctx: &Context, args: &Args) -> Vec<String> {
    let mut command = ctx.command(&["apply"]);
    command.extend(args.accept_loss.iter().map(|name| format!("--accept-loss={name}")));
    if let Some(reason) = &args.reason {
        command.extend(["--reason".to_owned(), reason.clone()]);
    }
    command
}
