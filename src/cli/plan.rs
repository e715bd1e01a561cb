//! `redrive plan`: what `apply` would change. Reads, changes nothing.

use std::path::PathBuf;

use serde::Serialize;

use super::provisioning::{PlanData, Planned};
use super::sending::{ledger_error, ledger_path};
use super::topology_file::asked_name;
use super::{Context, ExitCode, Outcome};
use crate::clock::Time;
use crate::ledger::Ledger;
use crate::render::plan::applied;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  redrive plan\n  redrive plan --broker kafka --check    for a pipeline: ends with 10 if changes pend, with 4 if one is refused\n  redrive plan --applied"
)]
pub struct Args {
    /// End with 10 if changes pend, with 4 if one of them is refused
    #[arg(long)]
    check: bool,
    /// Show what was applied before: when, by whom, why, how far
    #[arg(long, conflicts_with = "check")]
    applied: bool,
    /// Where that is recorded; else REDRIVE_LEDGER, else the state folder
    #[arg(long, value_name = "FILE", requires = "applied")]
    ledger: Option<PathBuf>,
}

/// Most applies that are shown.
const MOST_APPLIES: usize = 50;

#[derive(Serialize)]
struct Data<'p> {
    schema: &'static str,
    at: Time,
    plans: Vec<PlanData<'p>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// [2] and [3] before anything is contacted, [1] if a broker does not answer.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    if args.applied {
        let at = ledger_path(args.ledger.as_ref())?;
        let told = |error| ledger_error(&at, &error);
        let ledger = Ledger::look(&at).map_err(told)?;
        let broker = asked_name(ctx)?;
        let name = broker.as_ref().map(|(name, _)| name.as_str());
        let rows =
            ledger.map_or(Ok(Vec::new()), |ledger| ledger.applies(name, MOST_APPLIES)).map_err(told)?;
        applied(&mut ctx.ui, &rows, name, ctx.clock.now());
        if let Some((name, "REDRIVE_BROKER")) = broker.as_ref().map(|(name, by)| (name, *by)) {
            ctx.ui.note(format!("Only on {name}: REDRIVE_BROKER says so."));
        }
        return Ok(ExitCode::Done);
    }
    let loaded = ctx.topology()?;
    let plans = ctx.plans(&loaded, &[]).await?;
    // Nothing is made while a part is refused: the way on is said with the refusal.
    let goes = |plan: &&Planned<'_>| pends(plan) && !plan.is_barred();
    let next = plans.iter().find(goes).map(|plan| plan.apply_command(ctx)).unwrap_or_default();
    if ctx.ui.json() {
        let at = ctx.clock.now();
        let data = plans.iter().map(Planned::data).collect();
        ctx.ui.document(&Data { schema: "redrive.plan.v1", at, plans: data, next });
    } else {
        for (at, plan) in plans.iter().enumerate() {
            if at > 0 {
                ctx.ui.blank();
            }
            plan.show(ctx);
            for note in plan.notes(&loaded) {
                ctx.ui.note(note);
            }
        }
        ctx.ui.next(&next);
    }
    Ok(if args.check {
        plans.iter().map(verdict).fold(ExitCode::Done, ExitCode::and)
    } else {
        ExitCode::Done
    })
}

/// Is there something that `apply` could do, if need be with an accepted loss?
fn pends(plan: &Planned<'_>) -> bool {
    plan.counts().pending() > 0 || plan.apply_could()
}

fn verdict(plan: &Planned<'_>) -> ExitCode {
    let counts = plan.counts();
    match (counts.refused, counts.pending()) {
        (1.., _) => ExitCode::Refused,
        (0, 1..) => ExitCode::Pending,
        (0, 0) => ExitCode::Done,
    }
}
