//! `redrive status` and what it shares with `redrive alert`: channels as counted, without touching a message.

use std::time::Duration;

use super::sending::ledger_path;
use super::{CommandError, Context, ExitCode, Outcome};
use crate::broker::kind_of;
use crate::ledger::Ledger;
use crate::render::Progress;
use crate::render::looking::Where;
use crate::render::status::{PastHour, Status};
use crate::topology::BrokerDecl;
use crate::triage::alert;

/// How often `--watch` counts on a terminal.
const EVERY: Duration = Duration::from_secs(2);
/// How often it does elsewhere.
const EVERY_OFF_TERMINAL: Duration = Duration::from_secs(10);

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  redrive status orders --watch")]
pub struct Args {
    /// Channel; without one, all
    #[arg(value_name = "CHANNEL")]
    channel: Option<String>,
    /// Count again and again, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Runs it.
///
/// # Errors
/// [2]: no such channel. [1]: the broker.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    if args.watch {
        return watch(ctx, args.channel.as_deref()).await;
    }
    let (channels, trouble) = counted(ctx, args.channel.as_deref()).await?;
    let next = next(ctx, &channels);
    if ctx.ui.json() {
        let rows: Vec<_> = channels.iter().map(Status::json).collect();
        ctx.ui.document(&serde_json::json!({
            "schema": "redrive.status.v1",
            "at": ctx.clock.now(),
            "channels": rows,
            "next": next,
        }));
    } else {
        for (at, status) in channels.iter().enumerate() {
            if at > 0 {
                ctx.ui.blank();
            }
            for line in status.lines(ctx.ui.columns()) {
                ctx.ui.say(line);
            }
            for note in status.notes() {
                // The broker's own words come without an end.
                let end = if note.ends_with('.') { "" } else { "." };
                ctx.ui.note(format!("{note}{end}"));
            }
        }
        if trouble.is_none() {
            ctx.ui.next(&next);
        }
    }
    trouble.map_or(Ok(ExitCode::Done), Err)
}

/// Says an error that is not the last one, which the verb ends with.
fn told(ctx: &mut Context, error: Option<CommandError>) {
    if let Some(error) = error {
        ctx.with_next(error).print(&mut ctx.ui);
    }
}

/// Inspecting the channel that needs it most; plan, if a queue is missing.
fn next(ctx: &Context, channels: &[Status]) -> Vec<String> {
    let need = |status: &&Status| (status.is_over(), status.depths.dead_letter.count.number());
    let worst = channels.iter().max_by_key(need);
    match worst {
        Some(status) if status.depths.dead_letter.count.number() > 0 => {
            ctx.command(&["inspect", &status.place.channel])
        }
        _ if channels.iter().any(|status| !status.depths.dead_letter.exists) => ctx.command(&["plan"]),
        _ => Vec::new(),
    }
}

/// Counts the channels. An error of one broker comes with what the others gave; if none gave anything it is
/// the answer.
///
/// # Errors
/// [2]: no such channel. [1]: the broker, if it is the only one.
pub(super) async fn counted(
    ctx: &mut Context,
    channel: Option<&str>,
) -> Result<(Vec<Status>, Option<CommandError>), CommandError> {
    let loaded = ctx.topology()?;
    let targets = ctx.targets(&loaded, channel)?;
    let mut looks = super::memory::Memory::read();
    let ledger = ledger_path(None).ok().and_then(|path| Ledger::look(&path).ok().flatten());
    let (mut counted, mut trouble) = (Vec::new(), None);
    for target in &targets {
        let broker = match ctx.open(&loaded, target.broker, false).await {
            Ok(broker) => broker,
            Err(error) => {
                told(ctx, trouble.replace(error));
                continue;
            }
        };
        for channel in &target.channels {
            let counting = broker.depths(channel);
            let depths = match ctx.answer_of(target.broker, broker.whereabouts(), counting).await {
                Ok(depths) => depths,
                Err(error) => {
                    told(ctx, trouble.replace(CommandError::broker(target.broker.name(), &error)));
                    continue;
                }
            };
            let now = ctx.clock.now();
            let dead = &depths.dead_letter;
            let queue = format!("{} {}", whole_url(target.broker.decl, loaded.folder()), dead.queue);
            let growth = if dead.exists { looks.growth(&queue, dead.count.number(), now) } else { None };
            if dead.exists {
                looks.note(&queue, dead.count.number(), now);
            }
            counted.push(Status {
                place: Where {
                    channel: channel.name.value.clone(),
                    broker: target.broker.name().to_owned(),
                    protected: target.broker.decl.protected,
                    at: now,
                },
                owner: channel.owner.as_ref().map(|owner| owner.value.clone()),
                alert: alert(channel, dead, now),
                past_hour: ledger.as_ref().and_then(|ledger| {
                    let hour_ago = now.minus(Duration::from_secs(3_600));
                    let moved = ledger.moved_since(&channel.name.value, target.broker.name(), hour_ago);
                    Some(PastHour::of(moved.ok()?, growth, now))
                }),
                depths,
                growth,
            });
        }
    }
    looks.write();
    match trouble {
        Some(error) if counted.is_empty() => Err(error),
        trouble => Ok((counted, trouble)),
    }
}

/// A url that says the same from every folder: one without a host is a file beside the topology.
fn whole_url(broker: &BrokerDecl, folder: &std::path::Path) -> String {
    let url = &broker.url.value;
    if url.contains("://") {
        return kind_of(broker).map_or_else(|| url.clone(), |kind| kind.identity(broker));
    }
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    format!("{url} in {}", folder.display())
}

async fn watch(ctx: &mut Context, channel: Option<&str>) -> Outcome {
    let mut progress = Progress::new();
    let animates = ctx.ui.animates() && !ctx.ui.json();
    let every = if animates { EVERY } else { EVERY_OFF_TERMINAL };
    let begun = ctx.clock.elapsed();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let (channels, trouble) = counted(ctx, channel).await?;
        if let Some(error) = trouble {
            progress.clear(&mut ctx.ui);
            return Err(error);
        }
        if animates {
            let lines: Vec<_> = {
                let columns = Some(ctx.ui.drawn_columns());
                channels.iter().flat_map(|status| status.lines(columns)).collect()
            };
            let elapsed = ctx.clock.elapsed().saturating_sub(begun);
            progress.show(&mut ctx.ui, elapsed, &lines);
        } else if ctx.ui.json() {
            let rows: Vec<_> = channels.iter().map(Status::json).collect();
            let at = ctx.clock.now();
            ctx.ui.document(&serde_json::json!({"schema": "redrive.status.v1", "at": at, "channels": rows}));
            ctx.ui.flush();
        } else {
            for status in &channels {
                for line in status.lines(ctx.ui.columns()) {
                    ctx.ui.say(line);
                }
            }
            ctx.ui.flush();
        }
        if ctx.ui.closed() {
            return Ok(ExitCode::Done);
        }
        tokio::select! {
            _ = &mut interrupted => return Ok(ExitCode::Interrupted),
            () = ctx.clock.sleep(every) => {}
        }
    }
}
