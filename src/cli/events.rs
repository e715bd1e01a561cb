//! Where `--events` go: to a file, or to stdout, which is then theirs alone.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{CommandError, Context};
use crate::render::run::Events;

/// With the events on stdout the screens are on stderr, so that every line of stdout is JSON. `of`: what the verb is
/// about, as typed.
///
/// # Errors
/// [2]: the answer would be there as well, and who reads lines of one schema would meet another.
pub(super) fn aside_for(ctx: &mut Context, events: Option<&Path>, of: &str) -> Result<(), CommandError> {
    if events != Some(Path::new("-")) {
        return Ok(());
    }
    if ctx.ui.json() {
        let verb: Vec<&str> = ctx.typed.verb.iter().map(String::as_str).chain([of]).collect();
        let mut next = ctx.command(&verb);
        next.extend(ctx.typed_but(&["yes", "confirm"]));
        return Err(CommandError::usage("--events - and -o json are two kinds of answer, and stdout takes one")
            .hint("The last event has state, exit code and counts. For both, the events go to a file: --events FILE.")
            .next(next));
    }
    ctx.ui.stand_aside();
    Ok(())
}

/// Where `--events` go. `of`: what the verb is about, as typed.
///
/// # Errors
/// [1]: no file can be made there.
pub(super) fn open_events(
    ctx: &Context,
    path: Option<&Path>,
    of: &str,
) -> Result<Option<Events>, CommandError> {
    match path {
        None => Ok(None),
        Some(path) if path == Path::new("-") => {
            Ok(Some(Events { out: Box::new(std::io::stdout()), to: "stdout".to_owned() }))
        }
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
            let told = |error: std::io::Error| {
                let verb: Vec<&str> = ctx.typed.verb.iter().map(String::as_str).chain([of]).collect();
                let mut next = ctx.command(&verb);
                next.extend(ctx.typed_but(&["yes", "confirm", "events"]));
                next.extend(["--events", "events.jsonl"].map(str::to_owned));
                CommandError::failed(format!("could not write events to {}: {error}", path.display()))
                    .hint("Nothing was sent. They go to a file in a folder that is there:")
                    .next(next)
            };
            let out = Box::new(std::io::BufWriter::new(file.map_err(told)?));
            Ok(Some(Events { out, to: path.display().to_string() }))
        }
    }
}
