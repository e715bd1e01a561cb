//! `redrive explain`: pages on codes and topics.

use super::{CommandError, Context, ExitCode, Outcome};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  redrive explain exit-codes")]
pub struct Args {
    /// A code such as RD0103, or a topic: exit-codes
    #[arg(value_name = "CODE|TOPIC")]
    topic: String,
}

/// Runs it.
///
/// # Errors
/// [2]: no such page.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    match args.topic.as_str() {
        "exit-codes" => exit_codes(ctx),
        topic => {
            return Err(CommandError::usage(format!("no page on {topic}")).next([
                "redrive",
                "explain",
                "exit-codes",
            ]));
        }
    }
    Ok(ExitCode::Done)
}

/// Low codes left, the results of long work right; the signals share a line.
fn exit_codes(ctx: &mut Context) {
    let (left, right): (Vec<ExitCode>, Vec<ExitCode>) =
        ExitCode::ALL.iter().partition(|code| code.number() < ExitCode::Pending.number());
    let (signals, right): (Vec<ExitCode>, Vec<ExitCode>) =
        right.into_iter().partition(|code| code.number() > 128);
    let join = |text: fn(&ExitCode) -> String| signals.iter().map(text).collect::<Vec<_>>().join(", ");
    let mut right: Vec<(String, String)> =
        right.iter().map(|code| (code.number().to_string(), code.words().to_owned())).collect();
    right.push((join(|code| code.number().to_string()), join(|code| code.words().to_owned())));
    for at in 0..left.len().max(right.len()) {
        let first =
            left.get(at).map(|code| format!("  {}  {}", code.number(), code.words())).unwrap_or_default();
        let (number, words) = right.get(at).map_or(("", ""), |(number, words)| (number, words));
        ctx.ui.say(format!("{first:<32}{number:>3}  {words}"));
    }
}
