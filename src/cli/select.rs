//! `redrive select`: freezes a selection in a manifest. What was shown is what is sent.

use std::path::PathBuf;

use super::judging::Judging;
use super::selecting::{Selecting, limit};
use super::sending::{Earlier, Then, look_through, lowered, prepare_error, rate, rate_text};
use super::{CommandError, Context, ExitCode, Outcome};
use crate::manifest::{Head, SCHEMA};
use crate::render::run as screen;

/// Arguments of `select`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  redrive select orders --cause 91be4d --limit 200 --out timeouts.jsonl --reason INC-4471"
)]
pub struct Args {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    #[command(flatten)]
    selecting: Selecting,
    /// At most N letters, the oldest first, or all
    #[arg(long, value_name = "N|all", allow_hyphen_values = true)]
    limit: Option<String>,
    /// Where the manifest goes; must not exist
    #[arg(long, value_name = "FILE.jsonl")]
    out: PathBuf,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = super::who::reason)]
    reason: Option<String>,
    /// Letters per time, for the run of it: 50/s, 10/m
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Where runs are recorded; else REDRIVE_LEDGER, else the state folder
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    judging: Judging,
}

/// Runs it.
///
/// # Errors
/// [2]: no bound, no reason. [1]: the broker, or the file.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let Some(limit) = limit(args.limit.as_deref())? else {
        return Err(CommandError::usage("a selection needs a bound: --limit N (or all)"));
    };
    let Some(reason) = args.reason.clone().filter(|reason| !reason.trim().is_empty()) else {
        return Err(CommandError::usage("a selection that is to be sent needs a reason: --reason TEXT"));
    };
    if args.out == std::path::Path::new("-") {
        return Err(CommandError::usage("--out: a selection is frozen in a file, which stdout is not"));
    }
    let selection = args.selecting.selection(ctx, limit)?;
    let loaded = ctx.topology()?;
    let channel = loaded.channel(&args.channel)?;
    let chosen = ctx.broker_for(&loaded, channel)?;
    let rate = match &args.rate {
        Some(text) => rate(text)?,
        None => channel.redrive.rate.value,
    };
    let broker = ctx.open(&loaded, chosen, false).await?;
    let (names, capabilities) = lowered(chosen, channel)?;
    let key = super::sending::queue_key(&loaded, chosen, &names.dead_letter);
    let earlier = Earlier::of(ctx, args.ledger.as_ref(), &key, &capabilities, &args.judging)?;
    let prepared = look_through(
        ctx,
        &*broker,
        chosen,
        channel,
        &selection,
        None,
        &args.judging,
        &earlier,
        None,
        Then::Shows,
    )
    .await?;
    let head = Head {
        schema: SCHEMA.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        channel: channel.name.value.clone(),
        broker: chosen.name().to_owned(),
        queue: names.dead_letter.clone(),
        snapshot: prepared.snapshot.identity.clone(),
        target: names.return_to.clone(),
        rate: rate_text(rate),
        order: args.judging.order,
        judged: args.judging.frozen(),
        reason,
        by: ctx.who.clone(),
        at: ctx.clock.now(),
        selection: selection.to_string(),
    };
    let mut again = ctx.command(&["select", &args.channel]);
    again.extend(ctx.typed_but(&["out"]));
    again.extend(["--out".to_owned(), "OTHER.jsonl".to_owned()]);
    if prepared.summary.planned > 0 {
        prepared.freeze(&args.out, &head).map_err(|error| match error {
            crate::run::prepare::PrepareError::File(_, error)
                if error.kind() == std::io::ErrorKind::AlreadyExists =>
            {
                CommandError::refused(format!(
                    "{} exists already; a frozen selection is not overwritten",
                    args.out.display()
                ))
                .next(again.clone())
            }
            error => prepare_error(chosen, &error),
        })?;
    }
    // Said so that `run` takes it for a manifest and not for a channel or an option.
    let mut out = args.out.display().to_string();
    if out.starts_with('-') || !out.ends_with(".jsonl") && !out.contains('/') {
        out.insert_str(0, "./");
    }
    let mut next = ctx.command(&["run", &out]);
    if ctx.globals.broker.is_none() && chosen.decl.protected {
        next.extend(["--broker".to_owned(), chosen.name().to_owned()]);
    }
    next.push("--dry-run".to_owned());
    screen::selected(&mut ctx.ui, &prepared, &head, limit, &out, &next);
    Ok(ExitCode::Done)
}
