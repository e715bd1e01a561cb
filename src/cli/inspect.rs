//! `redrive inspect`: the causes of dead letters, or the letters themselves.

use super::selecting::{Selecting, limit, one_cause};
use super::sending::lowered;
use super::{Chosen, CommandError, Context, ExitCode, Outcome, receives};
use crate::broker::{Broker, PassesOn, Want};
use crate::dead_letter::DeadLetter;
use crate::render::contrast::print_contrast;
use crate::render::inspect::Causes;
use crate::render::letters::Letters;
use crate::render::looking::Where;
use crate::selection::{Limit, Selection, cause_prefix};
use crate::topology::Channel;
use crate::triage::{
    Buckets, By, Collect, Contrast, Looked, Newest, Note, Oldest, OldestBy, about_cost, about_left,
    about_look, look, notes,
};

/// Lines of causes that are shown unless a limit says otherwise.
const CAUSES: usize = 20;
/// Letters that are listed unless a limit says otherwise.
const LETTERS: u64 = 50;

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  redrive inspect orders\n  redrive inspect orders --letters --cause 91be4d \
                        --limit 20\n  redrive inspect orders --where 'age > 2h and not header.tenant = test'\n\n\
                        --where: fields cause id group letter error message reason consumer origin trace dialect\n  \
                        age died attempts redriven size body header.NAME property.NAME body./POINTER;\n  \
                        operators = != < <= > >= ~ !~ exists; and, or, not, ( )"
)]
pub struct Args {
    /// Channel
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// List letters, the oldest first, not causes
    #[arg(long, conflicts_with_all = ["by", "diff"])]
    letters: bool,
    /// Put letters together by cause, error, frame, message, origin, group or header.NAME
    #[arg(long, value_name = "WHAT")]
    by: Option<String>,
    /// What sets the letters of this cause apart from the others
    #[arg(long, value_name = "CAUSE", conflicts_with_all = ["by", "cause"])]
    diff: Option<String>,
    #[command(flatten)]
    selecting: Selecting,
    /// Show at most N causes or letters, or all; filters apply first
    #[arg(long, value_name = "N|all")]
    limit: Option<String>,
    /// List the newest N letters, the newest first; without a filter no others are read, where the broker can do that
    #[arg(long, value_name = "N", requires = "letters", conflicts_with = "limit", value_parser = clap::value_parser!(u64).range(1..))]
    newest: Option<u64>,
    /// Also letters that a run has moved and the broker cannot delete
    #[arg(long)]
    all: bool,
    /// Cut nothing
    #[arg(long)]
    full: bool,
}

/// What a look needs beside its collector.
struct Looking<'a> {
    broker: Box<dyn Broker>,
    chosen: Chosen<'a>,
    channel: &'a Channel,
    selection: Selection,
    want: Want,
    place: Where,
    passes: Option<PassesOn>,
}

impl Looking<'_> {
    fn left(&self, looked: &Looked) -> Result<Option<Note>, CommandError> {
        let (_, capabilities) = lowered(self.chosen, self.channel)?;
        Ok(about_left(looked, &capabilities))
    }

    async fn through<C: Collect>(&self, ctx: &Context, collector: C) -> Result<(C, Looked), CommandError> {
        self.through_newest(ctx, None, collector).await
    }

    async fn through_newest<C: Collect>(
        &self,
        ctx: &Context,
        newest: Option<u64>,
        collector: C,
    ) -> Result<(C, Looked), CommandError> {
        let want = (self.want, newest);
        let (collector, looked) =
            look(&*self.broker, self.channel, &self.selection, want, self.place.at, collector)
                .await
                .map_err(|error| CommandError::broker(self.chosen.name(), &error))?;
        receives::remember(ctx, self.passes.as_ref(), looked.cost.spent);
        one_cause(self.selection.cause.as_deref(), &looked.causes)?;
        Ok((collector, looked))
    }
}

/// Runs it.
///
/// # Errors
/// [2]: no such channel, or a selection that does not read. [1]: the broker.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let asked = limit(args.limit.as_deref())?;
    let selection = args.selecting.selection(ctx, asked.unwrap_or(Limit::AtMost(LETTERS)))?;
    let by = args.by.as_deref().map_or(Ok(By::Cause), By::parse);
    let by = by.map_err(|problem| CommandError::usage(format!("--by: {problem}")))?;
    let diff = args.diff.as_deref().map(cause_prefix).transpose();
    let diff = diff.map_err(|problem| CommandError::usage(format!("--diff: {problem}")))?;
    let loaded = ctx.topology()?;
    let channel = loaded.channel(&args.channel)?;
    let chosen = ctx.broker_for(&loaded, channel)?;
    let broker = ctx.open(&loaded, chosen, false).await?;
    let passes = announce_cost(ctx, &*broker, chosen, channel).await?;
    let bodies = selection.needs_bodies() || diff.is_some() || DeadLetter::needs_bodies(channel);
    let place = Where {
        channel: channel.name.value.clone(),
        broker: chosen.name().to_owned(),
        protected: chosen.decl.protected,
        at: ctx.clock.now(),
    };
    let want = Want { bodies, moved: args.all };
    let looking = Looking { broker, chosen, channel, selection, want, place, passes };
    if let Some(cause) = diff {
        contrast(ctx, &looking, cause).await
    } else if args.letters {
        let jumps = !args.selecting.is_given();
        letters(ctx, &looking, args.newest.map(|newest| (newest, jumps)), args.full).await
    } else {
        causes(ctx, &looking, by, asked, args.full).await
    }
}

/// Says what a look will change before it does (rule 8), and refuses one that would make letters go.
pub(super) async fn announce_cost(
    ctx: &mut Context,
    broker: &dyn Broker,
    chosen: Chosen<'_>,
    channel: &Channel,
) -> Result<Option<PassesOn>, CommandError> {
    let cost = ctx.answer_of(chosen, broker.whereabouts(), broker.cost_of_looking(channel)).await;
    if let Some(cost) = cost.map_err(|error| CommandError::broker(chosen.name(), &error))? {
        ctx.ui.note(format!("What looking costs: {cost}."));
    }
    receives::guard(ctx, broker, chosen, channel).await
}

async fn causes(
    ctx: &mut Context,
    looking: &Looking<'_>,
    by: By,
    asked: Option<Limit>,
    full: bool,
) -> Outcome {
    let now = looking.place.at;
    let (buckets, looked) = looking.through(ctx, Buckets::new(by, now)).await?;
    let shown = match asked {
        Some(Limit::AtMost(most)) => usize::try_from(most).unwrap_or(usize::MAX),
        Some(Limit::All) => usize::MAX,
        None if ctx.ui.json() => usize::MAX,
        None => CAUSES,
    };
    let lines = buckets.sorted();
    let mut notes = notes(&buckets, &looked, lines.len().min(shown) as u64, now);
    notes.extend(looking.left(&looked)?);
    let next = match lines.first() {
        Some(line) => ctx.command(&["show", &looking.place.channel, line.sample.as_str()]),
        None if looked.seen > 0 => ctx.command(&["inspect", &looking.place.channel]),
        None => ctx.command(&["status", &looking.place.channel]),
    };
    let screen = Causes {
        place: &looking.place,
        buckets: &buckets,
        looked: &looked,
        selection: &looking.selection,
        shown,
        full,
        notes: &notes,
        next: &next,
    };
    screen.print(&mut ctx.ui);
    Ok(ExitCode::Done)
}

/// `newest`: how many of the newest, and whether no others need be read.
async fn letters(
    ctx: &mut Context,
    looking: &Looking<'_>,
    newest: Option<(u64, bool)>,
    full: bool,
) -> Outcome {
    let (_, capabilities) = lowered(looking.chosen, looking.channel)?;
    let (letters, looked) = match newest {
        None => {
            let oldest = Oldest::new(looking.selection.limit, OldestBy::of(capabilities.order));
            let (oldest, looked) = looking.through(ctx, oldest).await?;
            (oldest.into_sorted(), looked)
        }
        Some((most, jumps)) => {
            let only = jumps.then_some(most);
            let (newest, looked) = looking.through_newest(ctx, only, Newest::new(most)).await?;
            (newest.into_sorted(), looked)
        }
    };
    let mut notes = about_look(&looked);
    notes.extend(about_cost(&looked));
    notes.extend(looking.left(&looked)?);
    let next = match letters.first() {
        Some(letter) => ctx.command(&["show", &looking.place.channel, letter.id.as_str()]),
        None => ctx.command(&["inspect", &looking.place.channel]),
    };
    let screen = Letters {
        place: &looking.place,
        looked: &looked,
        selection: &looking.selection,
        letters: &letters,
        newest: newest.is_some(),
        order: capabilities.order,
        full,
        notes: &notes,
        next: &next,
    };
    screen.print(&mut ctx.ui);
    Ok(ExitCode::Done)
}

async fn contrast(ctx: &mut Context, looking: &Looking<'_>, cause: String) -> Outcome {
    let (contrast, looked) = looking.through(ctx, Contrast::new(cause.clone())).await?;
    one_cause(Some(&cause), &contrast.causes)?;
    let channel = looking.place.channel.as_str();
    let Some(found) = contrast.causes.first() else {
        let message = format!("no letter of cause {cause} in {}", looked.snapshot.queue);
        return Err(CommandError::failed(message).next(ctx.command(&["inspect", channel])));
    };
    let next = ctx.command(&["inspect", channel, "--letters", "--cause", found]);
    print_contrast(&mut ctx.ui, &looking.place, &looked, &contrast, &next);
    Ok(ExitCode::Done)
}
