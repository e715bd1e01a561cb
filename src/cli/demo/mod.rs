//! `redrive demo`: a folder with a topology and an embedded broker full of dead letters, to play with.

mod shop;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::provisioning::observed;
use super::{CommandError, Context, ExitCode, Outcome};
use crate::broker::sqlite::Application;
use crate::broker::{BrokerError, OpenContext, kind_of};
use crate::clock::{Clock, Time, VirtualClock};
use crate::letter::{Headers, Message, Value};
use crate::plan::Change;
use crate::render::Line;
use crate::topology::{BrokerDecl, Channel};

/// Where the demo goes without a name.
const FOLDER: &str = "redrive-demo";
/// The shop's topology.
const TOPOLOGY: &str = include_str!("redrive.yaml");

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  redrive demo /tmp/shop\n  redrive -f /tmp/shop/redrive.yaml inspect orders"
)]
pub struct Args {
    /// A folder that is not there yet, or is empty
    #[arg(value_name = "FOLDER", default_value = FOLDER)]
    folder: PathBuf,
}

#[derive(Serialize)]
struct Data {
    schema: &'static str,
    topology: String,
    letters: Vec<(String, usize)>,
    next: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// [4]: the folder holds something. [1]: it cannot be written.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let file = prepare(&args.folder)?;
    ctx.globals.file = Some(file.clone());
    let loaded = ctx.topology()?;
    let channels: Vec<&Channel> = loaded.topology.channels.iter().collect();
    let Some(broker) = loaded.topology.brokers.first() else {
        return Err(CommandError::bug("the demo has no broker"));
    };
    let failed = |error: BrokerError| CommandError::broker(&broker.name, &error);
    let open = OpenContext { clock: ctx.clock.clone(), base: loaded.folder().to_owned(), writes: true };
    provision(broker, &open, &channels).await.map_err(failed)?;
    let letters = shop::dead_letters(ctx.clock.now());
    let mut counts: Vec<(String, usize)> = Vec::new();
    for channel in &channels {
        let queue = channel.dead_letter.name.as_ref().map_or("", |name| name.as_str());
        counts.push((queue.to_owned(), letters.iter().filter(|letter| letter.queue == queue).count()));
    }
    bury(broker, &open, letters).map_err(failed)?;
    still_waiting(broker, &open).map_err(failed)?;
    let shown = file.display().to_string();
    let next: Vec<String> = ["redrive", "-f", &shown, "inspect", "orders"].map(str::to_owned).to_vec();
    if ctx.ui.json() {
        ctx.ui.document(&Data { schema: "redrive.demo.v1", topology: shown, letters: counts, next });
        return Ok(ExitCode::Done);
    }
    let all: usize = counts.iter().map(|(_, n)| n).sum();
    ctx.ui.say(
        Line::new()
            .bold(format!("{all} dead letters of a small shop"))
            .text(format!(" in {}", args.folder.display())),
    );
    for (queue, n) in counts {
        ctx.ui.say(format!("  {n:>3}  {queue}"));
    }
    ctx.ui.note("Nothing in it is shared: delete the folder when you are done.");
    ctx.ui.next(&next);
    Ok(ExitCode::Done)
}

/// Makes the folder and writes the topology into it.
fn prepare(folder: &Path) -> Result<PathBuf, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::failed(format!("could not make {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    if std::fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(CommandError::refused(format!("{} holds something already", folder.display()))
            .hint("The demo goes into a folder of its own:")
            .next(["redrive", "demo", "FOLDER"]));
    }
    let file = folder.join("redrive.yaml");
    std::fs::write(&file, TOPOLOGY).map_err(failed)?;
    Ok(file)
}

/// As `apply` does it, into a file that nobody else knows.
async fn provision(decl: &BrokerDecl, open: &OpenContext, channels: &[&Channel]) -> Result<(), BrokerError> {
    let Some(kind) = kind_of(decl) else { return Ok(()) };
    let broker = kind.open(decl, open).await?;
    for change in observed(&*broker, channels).await?.1 {
        if matches!(change, Change::Create { .. }) {
            broker.make(&change).await?;
        }
    }
    Ok(())
}

/// Lays each letter into its queue at the time of its death.
fn bury(decl: &BrokerDecl, open: &OpenContext, letters: Vec<shop::Buried>) -> Result<(), BrokerError> {
    let Some(first) = letters.first() else { return Ok(()) };
    let clock = Arc::new(VirtualClock::new(first.at));
    let mut application = Application::open(decl, &OpenContext { clock: clock.clone(), ..open.clone() })?;
    for letter in letters {
        clock.advance(letter.at.since(clock.now()));
        application.send(letter.queue, &[letter.message], Duration::ZERO)?;
    }
    Ok(())
}

/// A few orders that failed just now and wait for their next try.
fn still_waiting(decl: &BrokerDecl, open: &OpenContext) -> Result<(), BrokerError> {
    let mut application = Application::open(decl, open)?;
    let now: Time = open.clock.now();
    for (n, due) in [(0, 95), (1, 240), (2, 410), (3, 555)] {
        let first = now.minus(Duration::from_secs(665 - due.min(600)));
        let headers = [
            ("event-id", format!("ev-{}", 70_600 + n)),
            (crate::stamp::ATTEMPT, "3".to_owned()),
            (crate::stamp::TIER, "orders.retry-10m".to_owned()),
            (crate::stamp::FIRST_FAILED_AT, first.rfc3339()),
        ];
        let message = Message {
            key: Some(Bytes::from(format!("C-{}", 1400 + n))),
            body: Some(Bytes::from(format!("{{\"orderId\": {}, \"currency\": \"EUR\"}}", 5600 + n))),
            headers: Headers::from_iter(
                headers.map(|(name, value)| (name.to_owned(), Value::from_text(value))),
            ),
            properties: Headers::new(),
        };
        application.send("orders.retry-10m", &[message], Duration::from_secs(due))?;
    }
    Ok(())
}
