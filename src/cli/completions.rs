//! `redrive completions`: what a shell needs to complete verbs and options; with `--dynamic` also the
//! channels of the topology, which the shell asks for with `redrive completions --channels`.
//!
//! The static files are checked in under `completions/` and compared by a test.

use clap_complete::{Shell, generate};

use super::topology_file::read;
use super::{CommandError, Context, ExitCode, Outcome, command};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  redrive completions bash --dynamic > ~/.local/share/bash-completion/completions/redrive"
)]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL", required_unless_present = "channels")]
    shell: Option<Shell>,
    /// Also complete channels, by asking redrive for those of the topology (bash, zsh, fish)
    #[arg(long)]
    dynamic: bool,
    /// Print the channels of the topology, one a line; nothing if there is none
    #[arg(long, hide = true)]
    channels: bool,
}

/// Runs it.
///
/// # Errors
/// [2]: this shell cannot ask for channels.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    if args.channels {
        // A shell is waiting: whatever is wrong with the topology, it is not said here.
        if let Ok((_, loaded)) = read(ctx) {
            for channel in loaded.topology.iter().flat_map(|topology| &topology.channels) {
                ctx.ui.say(channel.name.value.clone());
            }
        }
        return Ok(ExitCode::Done);
    }
    let Some(shell) = args.shell else { return Err(CommandError::usage("completions needs a shell")) };
    let mut script = script(shell);
    if args.dynamic {
        script.push_str(&asking(shell).ok_or_else(|| {
            CommandError::usage(format!(
                "{shell} cannot ask for channels; without --dynamic it completes the rest"
            ))
        })?);
    }
    ctx.ui.raw(script.as_bytes());
    Ok(ExitCode::Done)
}

/// The static script of a shell.
pub fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    generate(shell, &mut command(), "redrive", &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Verbs whose first argument is a channel.
fn verbs_with_channel() -> Vec<String> {
    let command = command();
    let takes = |verb: &&clap::Command| {
        let first = verb.get_positionals().next();
        first
            .and_then(clap::Arg::get_value_names)
            .is_some_and(|names| names.iter().any(|name| name.starts_with("CHANNEL")))
    };
    command.get_subcommands().filter(takes).map(|verb| verb.get_name().to_owned()).collect()
}

/// What a shell adds to ask for channels.
fn asking(shell: Shell) -> Option<String> {
    let verbs = verbs_with_channel();
    let ask = "redrive completions --channels 2>/dev/null";
    match shell {
        Shell::Bash => Some(format!(
            "\n_redrive_channels() {{\n    case \"${{COMP_WORDS[1]}}\" in\n    {verbs})\n        \
             if [ \"$COMP_CWORD\" -eq 2 ] && [[ \"${{COMP_WORDS[2]}}\" != -* ]]; then\n            \
             COMPREPLY=($(compgen -W \"$({ask})\" -- \"${{COMP_WORDS[2]}}\"))\n            return\n        fi ;;\n    \
             esac\n    _redrive \"$@\"\n}}\ncomplete -F _redrive_channels -o bashdefault -o default redrive\n",
            verbs = verbs.join("|"),
        )),
        Shell::Zsh => Some(format!(
            "\n_redrive_channels() {{\n    case \"${{words[2]}}\" in\n    {verbs})\n        \
             if (( CURRENT == 3 )) && [[ \"${{words[3]}}\" != -* ]]; then\n            \
             compadd -- ${{(f)\"$({ask})\"}}\n            return\n        fi ;;\n    \
             esac\n    _redrive \"$@\"\n}}\ncompdef _redrive_channels redrive\n",
            verbs = verbs.join("|"),
        )),
        Shell::Fish => Some(format!(
            "\ncomplete -c redrive -n '__fish_seen_subcommand_from {}' -f -a '({ask})'\n",
            verbs.join(" "),
        )),
        _ => None,
    }
}
