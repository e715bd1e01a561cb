//! `redrive apply`: provisions, one change at a time, and proves it by planning again.

use std::time::Duration;

use serde::Serialize;

use super::confirm::{Consent, Yes};
use super::provisioning::{PlanData, Planned, observed};
use super::topology_file::Loaded;
use super::{CommandError, Context, ExitCode, Outcome};
use crate::broker::Broker;
use crate::clock::Time;
use crate::plan::Change;
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
    /// Why: told in the answer
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
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
}

#[derive(Serialize)]
struct Applied<'p> {
    #[serde(flatten)]
    plan: PlanData<'p>,
    made: Vec<Made>,
    /// The second plan was empty.
    proven: bool,
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
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    if !args.accept_loss.is_empty() && args.reason.as_deref().is_none_or(|reason| reason.trim().is_empty()) {
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
        let (made, proven) = one(ctx, &loaded, &args, plan).await?;
        applied.push(Applied { plan: plan.data(), made, proven });
    }
    if ctx.ui.json() {
        let (at, by) = (ctx.clock.now(), ctx.who.clone());
        let data = Data { schema: "redrive.apply.v1", at, by: &by, reason: args.reason.as_deref(), applied };
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
) -> Result<(Vec<Made>, bool), CommandError> {
    if !ctx.ui.json() {
        plan.show(ctx);
    }
    refuse_held_back(ctx, loaded, plan)?;
    let changes = plan.to_make();
    if changes.is_empty() {
        return Ok((Vec::new(), true));
    }
    consent(ctx, args, plan, changes.len())?;
    let broker = ctx.open(loaded, plan.target.broker, true).await?;
    let failed = |error| CommandError::broker(plan.target.broker.name(), &error);
    let again = observed(&*broker, &plan.target.channels).await.map_err(failed)?;
    unchanged(ctx, plan, again)?;
    let made = make(ctx, args, plan, &*broker, &changes).await?;
    let left = Planned {
        target: plan.target.clone(),
        changes: observed(&*broker, &plan.target.channels).await.map_err(failed)?,
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
    Ok((made, true))
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
    if plan.loses() > 0 {
        question = question.red(format!(" {} will be lost.", letters(plan.loses())));
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
) -> Result<Vec<Made>, CommandError> {
    let wide = changes.iter().map(|change| change.resource().name.chars().count()).max().unwrap_or(0);
    let mut made: Vec<Made> = Vec::new();
    for change in changes {
        let begun = ctx.clock.elapsed();
        if let Err(error) = broker.make(change).await {
            let done: Vec<String> =
                made.iter().map(|made| format!("{} {}", made.action, made.name)).collect();
            let done = if done.is_empty() { String::new() } else { format!(": {}", done.join(", ")) };
            ctx.ui.tell(format!("Applied {} of {}{done}. Then:", made.len(), changes.len()));
            return Err(CommandError::broker(plan.target.broker.name(), &error).next(typed(ctx, args)));
        }
        let took = ctx.clock.elapsed().saturating_sub(begun);
        let action = if matches!(change, Change::Create { .. }) { "created" } else { "changed" };
        let resource = change.resource();
        if !ctx.ui.json() {
            ctx.ui.say(format!("  {action}  {:<wide$}  {}", resource.name, seconds(took)));
            ctx.ui.flush();
        }
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
