//! What clap says about a command line that cannot be meant so, in our words: what, near misses, the page
//! of help to read. Help and version go to stdout.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::error::{CommandError, ExitCode};
use super::run::is_manifest;
use super::{command, help};
use crate::render::{Format, Ui};
use crate::topology::nearest;

/// Longest value that is repeated in an error about it.
const LONGEST_SAID: usize = 200;

/// `redrive help` is `redrive --help`, `redrive help run` is `redrive run --help`.
pub(super) fn help_as_option(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// Prints what clap has to say.
pub(super) fn answer(ui: &mut Ui, error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            for line in error.render().to_string().trim_end().lines() {
                ui.say(line);
            }
            ui.finish();
            ExitCode::Done
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            for line in help::first_page().lines() {
                ui.tell(line);
            }
            ExitCode::Usage
        }
        _ => {
            let error = explained(error, arguments);
            if asks_for_data(arguments) {
                ui.set_format(Format::Json);
            }
            error.print(ui);
            error.code()
        }
    }
}

fn explained(error: &clap::Error, arguments: &[OsString]) -> CommandError {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let verb = verb_in(arguments);
    let made = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let names: Vec<String> =
                command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
            let near = nearest(&typed, names.iter().map(String::as_str));
            let near = near.map(|near| format!("; near: {near}")).unwrap_or_default();
            CommandError::usage(format!("no verb {typed}{near}"))
        }
        ErrorKind::UnknownArgument => {
            let typed = text(ContextKind::InvalidArg).unwrap_or_default();
            let near =
                text(ContextKind::SuggestedArg).map(|near| format!("; near: {near}")).unwrap_or_default();
            CommandError::usage(format!("no option {}{near}", without_value(&typed)))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = text(ContextKind::InvalidArg).unwrap_or_default();
            CommandError::usage(format!("{} needs {missing}", verb.as_deref().unwrap_or("redrive")))
        }
        ErrorKind::InvalidValue if text(ContextKind::ValidValue).is_some() => {
            let option = text(ContextKind::InvalidArg).unwrap_or_default();
            let values = text(ContextKind::ValidValue).filter(|values| !values.is_empty());
            CommandError::usage(match values {
                Some(values) => format!("{option} takes one of {values}"),
                None => format!("{option} is given without a value"),
            })
        }
        // A long value is not said again.
        ErrorKind::ValueValidation
            if text(ContextKind::InvalidValue).is_some_and(|value| value.len() > LONGEST_SAID) =>
        {
            let option = text(ContextKind::InvalidArg).unwrap_or_default();
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            CommandError::usage(format!("{option}: {why}"))
        }
        _ => {
            let said = error.render().to_string();
            let first = said.lines().next().unwrap_or_default();
            CommandError::usage(first.trim_start_matches("error: "))
        }
    };
    match verb {
        Some(verb) => made.next(["redrive"].into_iter().chain(verb.split(' ')).chain(["--help"])),
        None => made.next(["redrive", "--help"]),
    }
}

/// `--password=x` without what was typed behind the sign: it may be a secret (X05).
fn without_value(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(name, _)| name)
}

/// Does a line that cannot be read as a whole ask for JSON?
fn asks_for_data(arguments: &[OsString]) -> bool {
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let is_json = |word: &str| word == "json" || word == "jsonl";
    words.iter().enumerate().any(|(at, word)| match *word {
        "-o" | "--output" => words.get(at + 1).is_some_and(|value| is_json(value)),
        _ => word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o")).is_some_and(is_json),
    })
}

/// The verb that was typed, with the word below it if it has some: `dev send`.
fn verb_in(arguments: &[OsString]) -> Option<String> {
    let mut command = command();
    let mut verb: Vec<String> = Vec::new();
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(found) = command.find_subcommand(word).cloned() else { continue };
        verb.push(word.to_owned());
        if !found.has_subcommands() {
            break;
        }
        command = found;
    }
    (!verb.is_empty()).then(|| verb.join(" "))
}

/// What was typed, as far as it may be typed again.
#[derive(Debug, Clone, Default)]
pub struct Typed {
    /// The verb, with the word below it if it has some.
    pub verb: Vec<String>,
    /// Options of the verb: the name of each in the code, and its words.
    pub options: Vec<(String, Vec<String>)>,
    /// The channel, where one was named.
    pub channel: Option<String>,
    /// Where runs are recorded.
    pub ledger: Option<String>,
}

impl Typed {
    /// Out of a command line that could be read.
    pub fn of(line: &clap::Command, found: &clap::ArgMatches) -> Self {
        let mut typed =
            Self { options: options(line, found), channel: channel(line, found), ..Self::default() };
        let mut at = found;
        while let Some((word, below)) = at.subcommand() {
            typed.verb.push(word.to_owned());
            let given = matches!(below.try_contains_id("ledger"), Ok(true))
                && below.value_source("ledger") == Some(clap::parser::ValueSource::CommandLine);
            if given && let Some(path) = below.get_raw("ledger").and_then(|mut values| values.next()) {
                typed.ledger = Some(path.to_string_lossy().into_owned());
            }
            at = below;
        }
        typed
    }
}

/// The channel that a verb was typed with. Where a manifest may stand in its place its name says that it is one.
fn channel(line: &clap::Command, found: &clap::ArgMatches) -> Option<String> {
    let (verb, found) = found.subcommand()?;
    let names = |argument: &&clap::Arg| {
        let name = argument.get_value_names().and_then(<[_]>::first).map(|name| name.as_str());
        argument.is_positional() && name.is_some_and(|name| matches!(name, "CHANNEL" | "CHANNEL|FILE.jsonl"))
    };
    let argument = line.find_subcommand(verb)?.get_arguments().find(names)?;
    let word = found.get_raw(argument.get_id().as_str())?.next()?.to_str()?;
    (!is_manifest(word)).then(|| word.to_owned())
}

/// The options of a verb that were typed, so that a command can be told again whole, whatever options it has. Options
/// of every verb are not among them.
fn options(line: &clap::Command, found: &clap::ArgMatches) -> Vec<(String, Vec<String>)> {
    let Some((verb, found)) = found.subcommand() else { return Vec::new() };
    let Some(verb) = line.find_subcommand(verb) else { return Vec::new() };
    let mut typed = Vec::new();
    for option in verb.get_arguments().filter(|option| !option.is_global_set() && !option.is_positional()) {
        let (name, Some(long)) = (option.get_id().as_str(), option.get_long()) else { continue };
        if !matches!(found.try_contains_id(name), Ok(true))
            || found.value_source(name) != Some(clap::parser::ValueSource::CommandLine)
        {
            continue;
        }
        if !option.get_action().takes_values() {
            typed.push((name.to_owned(), vec![format!("--{long}")]));
            continue;
        }
        for value in found.get_raw(name).into_iter().flatten() {
            let value = value.to_string_lossy();
            let words = match value.starts_with('-') && value != "-" || option.is_require_equals_set() {
                true => vec![format!("--{long}={value}")],
                false => vec![format!("--{long}"), value.into_owned()],
            };
            typed.push((name.to_owned(), words));
        }
    }
    typed
}
