//! `redrive show`: one letter, with everything that is known about it and what a redrive would do.

use std::io::IsTerminal;

use super::{CommandError, Context, ExitCode, Outcome};
use crate::broker::{Broker, Browse, Peek, Want, kind_of};
use crate::dead_letter::DeadLetter;
use crate::letter::{LetterId, RawLetter};
use crate::render::looking::Where;
use crate::render::show::Show;
use crate::selection::Selection;
use crate::topology::Channel;
use crate::triage::{Neighbours, deed, find_letter, look};

/// Most letters that are looked through for the others of a group.
const MOST_NEIGHBOURS: u64 = 100_000;

/// Arguments of `show`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  redrive show orders p3o41\n  redrive show orders p3o41 --raw > body.bin"
)]
pub struct Args {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// Letter; any unique beginning of its id
    #[arg(value_name = "LETTER")]
    letter: String,
    /// Cut nothing
    #[arg(long)]
    full: bool,
    /// Only the bytes of the body, exactly, into a file or pipe
    #[arg(long, conflicts_with_all = ["full", "why"])]
    raw: bool,
    /// Which dialect said what, and by what it knew the letter
    #[arg(long)]
    why: bool,
}

/// Runs it.
///
/// # Errors
/// [1]: no such letter. [2]: no such channel, or an id that begins several.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let id = LetterId::new(&args.letter);
    if id.as_str() != args.letter || args.letter.is_empty() {
        let message = format!("{} is no letter id; ids are of a-z and 0-9", args.letter.escape_default());
        return Err(CommandError::usage(message).next(ctx.command(&["inspect", &args.channel, "--letters"])));
    }
    if args.raw && ctx.ui.json() {
        return Err(CommandError::usage("--raw is the bytes alone; -o json has them with their encoding"));
    }
    if args.raw && std::io::stdout().is_terminal() {
        let message =
            "--raw writes bytes as they are, which a terminal may act on; send them to a file or pipe";
        return Err(CommandError::usage(message));
    }
    let loaded = ctx.topology()?;
    let channel = loaded.channel(&args.channel)?;
    let chosen = ctx.broker_for(&loaded, channel)?;
    let broker = ctx.open(&loaded, chosen, false).await?;
    let told = |error| CommandError::broker(chosen.name(), &error);
    let passes = super::inspect::announce_cost(ctx, &*broker, chosen, channel).await?;
    let (found, cost) = find_letter(&*broker, channel, &id, true).await.map_err(told)?;
    super::receives::remember(ctx, passes.as_ref(), cost.as_ref().map_or(0, |cost| cost.spent));
    let raw = the_only(ctx, found, &args)?;
    if args.raw {
        return write_raw(ctx, &raw);
    }
    let letter = DeadLetter::of(raw, channel);
    let now = ctx.clock.now();
    let Some(kind) = kind_of(chosen.decl) else {
        return Err(CommandError::bug("an open broker has no kind"));
    };
    let names = kind.names(channel);
    let depths = broker.depths(channel).await.map_err(told)?;
    let capabilities = kind.capabilities(channel);
    // Where each reader gets its own copy they are told of the target, else of the source only.
    let told_of_target = capabilities.fan_out || names.return_to == names.source;
    let pure = capabilities.peek == Peek::Pure;
    let neighbours = if pure && depths.dead_letter.count.number() <= MOST_NEIGHBOURS {
        neighbours(&*broker, channel, &letter, now).await.map_err(told)?
    } else {
        None
    };
    let deed = deed(&letter, channel, &names.return_to, now);
    let place = Where {
        channel: channel.name.value.clone(),
        broker: chosen.name().to_owned(),
        protected: chosen.decl.protected,
        at: now,
    };
    let next = next(ctx, channel, &letter);
    let show = Show {
        place: &place,
        channel,
        letter: &letter,
        deed: &deed,
        readers: if told_of_target { &depths.readers } else { &[] },
        copy_each: capabilities.fan_out,
        neighbours: neighbours.as_ref(),
        full: args.full,
        why: args.why,
        changed: cost.as_ref().map_or(&[], |cost| cost.changed.as_slice()),
        next: &next,
    };
    show.print(&mut ctx.ui);
    Ok(ExitCode::Done)
}

fn the_only(ctx: &Context, mut found: Vec<RawLetter>, args: &Args) -> Result<RawLetter, CommandError> {
    let inspect = || ctx.command(&["inspect", &args.channel, "--letters"]);
    match (found.pop(), found.as_slice()) {
        (Some(only), []) => Ok(only),
        (Some(last), others) => {
            let ids: Vec<&str> = others.iter().chain([&last]).map(|letter| letter.id.as_str()).collect();
            let message = format!("{} begins several ids, {} among them", args.letter, ids.join(", "));
            Err(CommandError::usage(message).next(inspect()))
        }
        (None, _) => {
            let message = format!("no letter {} in the dead-letter queue of {}", args.letter, args.channel);
            Err(CommandError::failed(message)
                .hint("It may have been redriven, or taken by retention.")
                .next(inspect()))
        }
    }
}

fn write_raw(ctx: &mut Context, raw: &RawLetter) -> Outcome {
    match &raw.message.body {
        Some(body) => {
            ctx.ui.raw(body);
            Ok(ExitCode::Done)
        }
        None => Err(CommandError::failed(format!("{} has a null body: there are no bytes", raw.id))),
    }
}

async fn neighbours(
    broker: &dyn Broker,
    channel: &Channel,
    letter: &DeadLetter,
    now: crate::clock::Time,
) -> crate::broker::Result<Option<Neighbours>> {
    let Some(neighbours) = Neighbours::of(letter) else { return Ok(None) };
    let want = Want { bodies: DeadLetter::needs_bodies(channel), ..Want::default() };
    let browse: &dyn Browse = broker;
    let (found, _) = look(browse, channel, &Selection::default(), (want, None), now, neighbours).await?;
    Ok(Some(found))
}

/// Freezing the cause, once that verb is there; else its letters.
fn next(ctx: &Context, channel: &Channel, letter: &DeadLetter) -> Vec<String> {
    let (name, cause) = (channel.name.as_str(), letter.cause.id.as_str());
    if super::command().find_subcommand("select").is_some() {
        let out = format!("{name}-{cause}.jsonl");
        ctx.command(&["select", name, "--cause", cause, "--limit", "200", "--out", &out, "--reason", "TEXT"])
    } else {
        ctx.command(&["inspect", name, "--letters", "--cause", cause])
    }
}
