//! `redrive man`: the manual in the form that `man` reads.

use clap_mangen::Man;

use super::{CommandError, Context, ExitCode, Outcome, command};
use crate::topology::nearest;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  redrive man apply | man -l -")]
pub struct Args {
    /// The page of a verb; without it the first page
    #[arg(value_name = "VERB")]
    verb: Option<String>,
}

/// Runs it.
///
/// # Errors
/// [2]: no such verb.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let page = page(args.verb.as_deref())?;
    ctx.ui.raw(&page);
    Ok(ExitCode::Done)
}

fn page(verb: Option<&str>) -> Result<Vec<u8>, CommandError> {
    let mut whole = command();
    // Options of every verb are handed down before a verb stands alone.
    whole.build();
    let shown = match verb {
        None => whole,
        Some(name) => match whole.find_subcommand(name) {
            Some(verb) => verb.clone().display_name(format!("redrive-{name}")),
            None => {
                let names: Vec<&str> = whole.get_subcommands().map(clap::Command::get_name).collect();
                let near = nearest(name, names).map(|near| format!("; near: {near}")).unwrap_or_default();
                return Err(CommandError::usage(format!("no verb {name}{near}")).next(["redrive", "--help"]));
            }
        },
    };
    let mut page = Vec::new();
    Man::new(shown)
        .render(&mut page)
        .map_err(|error| CommandError::failed(format!("could not write the page: {error}")))?;
    Ok(page)
}
