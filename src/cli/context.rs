//! What every verb is given: the terminal, the clock, who is there, and what was said before or after any
//! verb on the command line.
//!
//! Hidden variables make tests deterministic: `REDRIVE_NOW` (a clock that stands still), `REDRIVE_WIDTH`,
//! `REDRIVE_SEED` (ids), `REDRIVE_HOST`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::usage::Typed;
use super::who::who;
use super::{CommandError, ExitCode};
use crate::clock::{Clock, SystemClock, Time, VirtualClock};
use crate::render::{Format, Ui};

/// Options that every verb takes.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Globals {
    /// Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml
    #[arg(short, long, global = true, value_name = "FILE", help_heading = "Options")]
    pub file: Option<PathBuf>,
    /// Broker by its name in the topology; else REDRIVE_BROKER, else the channel's
    #[arg(long, global = true, value_name = "NAME", help_heading = "Options")]
    pub broker: Option<String>,
    /// How to answer
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "table",
        help_heading = "Options"
    )]
    pub output: Format,
    /// Say on stderr what is done; twice: also what clients do
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Options")]
    pub verbose: u8,
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Table, Self::Json, Self::Jsonl]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
        }))
    }
}

/// Everything that a verb needs from outside.
pub struct Context {
    /// The terminal.
    pub ui: Ui,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// `mira@ops-2`.
    pub who: String,
    /// Options of every verb.
    pub globals: Globals,
    /// What was typed: verb and options.
    pub typed: Typed,
    ids: Ids,
}

impl Context {
    /// As this process was started.
    pub fn of_process(mut ui: Ui, globals: Globals) -> Self {
        ui.set_format(globals.output);
        let fixed = std::env::var("REDRIVE_NOW").ok().and_then(|text| Time::parse(&text));
        let clock: Arc<dyn Clock> = match fixed {
            Some(now) => Arc::new(VirtualClock::new(now)),
            None => Arc::new(SystemClock),
        };
        Self { ui, clock, who: who(), globals, typed: Typed::default(), ids: Ids::of_process() }
    }

    /// The options of the verb as they were typed, but `left_out`, and but for those that [`Self::command`] brings.
    pub fn typed_but(&self, left_out: &[&str]) -> Vec<String> {
        let brought = |name: &str| name == LEDGER || left_out.contains(&name);
        let kept = self.typed.options.iter().filter(|(name, _)| !brought(name));
        kept.flat_map(|(_, words)| words.iter().cloned()).collect()
    }

    /// A new random id of `length` characters of `[a-z0-9]`: runs, owners.
    pub fn new_id(&self, length: usize) -> String {
        self.ids.next(length)
    }

    /// A command to be typed next, in the same place: with the file, the broker and the ledger that were typed.
    pub fn command(&self, verb: &[&str]) -> Vec<String> {
        let mut command = vec!["redrive".to_owned()];
        command.extend(verb.iter().map(|&word| word.to_owned()));
        self.placed(command)
    }

    /// Adds the options that say where, as far as they were typed here, are wanted there, and are not in it yet.
    fn placed(&self, mut command: Vec<String>) -> Vec<String> {
        let verb = command.get(1).cloned().unwrap_or_default();
        let help = command.iter().any(|word| word == "--help");
        if help
            || matches!(verb.as_str(), "explain" | "demo" | "completions" | "man" | "--help" | "--version")
        {
            return command;
        }
        let mut add = |name: &[&str], value: Option<String>| {
            if let Some(value) = value
                && !command.iter().any(|word| name.contains(&word.split('=').next().unwrap_or_default()))
            {
                // A value that looks like an option is joined to the long name.
                match value.starts_with('-') {
                    true => command.push(format!("{}={value}", name[name.len() - 1])),
                    false => command.extend([name[0].to_owned(), value]),
                }
            }
        };
        add(&["-f", "--file"], self.globals.file.as_ref().map(|file| file.display().to_string()));
        add(&["--broker"], self.globals.broker.clone());
        add(&["--ledger"], self.typed.ledger.clone().filter(|_| takes_ledger(&verb)));
        command
    }

    /// The last hand on an error: what to type next is said by each, and says where.
    pub fn with_next(&self, error: CommandError) -> CommandError {
        if !error.next_command().is_empty() {
            let next = self.placed(error.next_command().to_vec());
            return error.next(next);
        }
        let verb = || self.typed.verb.iter().map(String::as_str);
        match error.code() {
            _ if self.typed.verb.is_empty() || error.is_declined() => error,
            // A made-up shop has no status.
            _ if error.is_of_broker() && self.typed.verb[0] != "demo" => {
                // The smallest thing that goes there: it changes nothing, and tells whether it is well again.
                let channel = self.typed.channel.as_deref();
                error.next(self.command(&["status"].into_iter().chain(channel).collect::<Vec<_>>()))
            }
            // What to say where something ought to be told.
            ExitCode::Bug => error.next(["redrive", "--version"]),
            // A line that cannot be meant so, or not here: how it can be is on the verb's page.
            _ => error.next(["redrive"].into_iter().chain(verb()).chain(["--help"])),
        }
    }
}

/// The name in the code of the option that says where runs are recorded.
const LEDGER: &str = "ledger";

/// Does this verb take `--ledger`?
fn takes_ledger(verb: &str) -> bool {
    super::command()
        .find_subcommand(verb)
        .is_some_and(|verb| verb.get_arguments().any(|option| option.get_id() == LEDGER))
}

/// Where ids come from: the system's randomness, or a seed.
struct Ids {
    seed: Option<String>,
    drawn: AtomicU64,
}

impl Ids {
    fn of_process() -> Self {
        Self { seed: std::env::var("REDRIVE_SEED").ok(), drawn: AtomicU64::new(0) }
    }

    fn next(&self, length: usize) -> String {
        use sha2::Digest;
        const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0u8; 32];
        match &self.seed {
            Some(seed) => bytes = sha2::Sha256::digest(format!("{seed}/{drawn}").as_bytes()).into(),
            None => {
                if getrandom::fill(&mut bytes).is_err() {
                    // Without randomness: time and process are unlike any other process's.
                    let now = SystemClock.now().millis();
                    let text = format!("{now}/{}/{drawn}", std::process::id());
                    bytes = sha2::Sha256::digest(text.as_bytes()).into();
                }
            }
        }
        bytes.iter().cycle().take(length).map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect()
    }
}
