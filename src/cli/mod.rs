//! The command line: one file per verb, each with its `Args` and a `run(ctx, args)`. A verb joins the
//! modules that decide; it decides nothing itself. A new verb is a file here, its lines in [`Verb`], in
//! `dispatch` and in `help.rs`.

mod alert;
mod apply;
mod behind;
mod brokers;
mod check;
pub mod completions;
pub mod confirm;
mod context;
mod demo;
mod dev;
mod ending;
mod error;
mod events;
mod explain;
mod frozen;
mod help;
mod holding;
mod inspect;
mod judging;
mod left_open;
mod listen;
mod man;
mod memory;
mod native;
mod passes;
mod plan;
mod provisioning;
mod readers;
mod receives;
mod relay;
mod resume;
mod run;
mod run_consent;
mod runs;
mod select;
mod selecting;
mod sending;
mod show;
mod signals;
mod status;
mod topology_file;
mod usage;
mod who;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use brokers::{Chosen, Target};
pub use context::{Context, Globals};
pub use error::{CommandError, ExitCode, Outcome};
pub use topology_file::Loaded;

use crate::redact;
use crate::render::{self, Ui};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "redrive",
    version,
    about = "The way back for dead letters: see why they died, send them back safely"
)]
#[command(disable_help_subcommand = true, subcommand_required = true, max_term_width = 100)]
pub struct CommandLine {
    /// Options of every verb.
    #[command(flatten)]
    pub globals: Globals,
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Causes of dead letters, or the letters
    Inspect(inspect::Args),
    /// One letter, and what a redrive would do
    Show(show::Args),
    /// Depth, age, retention left, tiers, lag
    Status(status::Args),
    /// Thresholds for monitors
    Alert(alert::Args),
    /// Validate a topology and say what it means; no network
    Check(check::Args),
    /// Show what apply would change
    Plan(plan::Args),
    /// Provision, then prove it by planning again
    Apply(apply::Args),
    /// Make a folder with dead letters to play with
    Demo(demo::Args),
    /// Play an application at the embedded broker
    Dev(dev::Args),
    /// Explain a code such as RD0103, or a topic
    Explain(explain::Args),
    /// Print completions for a shell
    Completions(completions::Args),
    /// Print the manual
    Man(man::Args),
    /// Carry due messages from tiers to the source
    Relay(relay::Args),
    /// Go on with a run that stopped, crashed or was paused
    Resume(resume::Args),
    /// Send dead letters back: bounded, rate-limited, in order
    Run(Box<run::Args>),
    /// List, show, pause, stop runs
    Runs(runs::Args),
    /// Freeze a selection in a manifest
    Select(select::Args),
}

async fn dispatch(ctx: &mut Context, verb: Verb) -> Outcome {
    match verb {
        Verb::Inspect(args) => inspect::run(ctx, args).await,
        Verb::Show(args) => show::run(ctx, args).await,
        Verb::Status(args) => status::run(ctx, args).await,
        Verb::Alert(args) => alert::run(ctx, args).await,
        Verb::Check(args) => check::run(ctx, args).await,
        Verb::Plan(args) => plan::run(ctx, args).await,
        Verb::Apply(args) => apply::run(ctx, args).await,
        Verb::Demo(args) => demo::run(ctx, args).await,
        Verb::Dev(args) => dev::run(ctx, args).await,
        Verb::Explain(args) => explain::run(ctx, args).await,
        Verb::Completions(args) => completions::run(ctx, args).await,
        Verb::Man(args) => man::run(ctx, args).await,
        Verb::Relay(args) => relay::run(ctx, args).await,
        Verb::Resume(args) => resume::run(ctx, args).await,
        Verb::Run(args) => run::run(ctx, *args).await,
        Verb::Runs(args) => runs::run(ctx, args).await,
        Verb::Select(args) => select::run(ctx, args).await,
    }
}

/// The command line as clap has it, with our first page of help.
pub fn command() -> clap::Command {
    CommandLine::command().override_help(help::first_page())
}

/// Runs this process's command line to its end.
pub fn main() -> std::process::ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        render::report_bug(&place);
    }));
    let arguments = std::env::args_os().collect();
    guarded(|| run_line(Ui::of_process(), arguments)).into()
}

/// A panic is a bug, whatever was being done.
fn guarded(work: impl FnOnce() -> ExitCode + std::panic::UnwindSafe) -> ExitCode {
    std::panic::catch_unwind(work).unwrap_or(ExitCode::Bug)
}

fn run_line(mut ui: Ui, arguments: Vec<std::ffi::OsString>) -> ExitCode {
    let arguments = usage::help_as_option(arguments);
    if arguments.len() <= 1 {
        for line in help::first_page().lines() {
            ui.tell(line);
        }
        return ExitCode::Usage;
    }
    let parsed = command().try_get_matches_from(&arguments).and_then(|found| {
        let typed = usage::Typed::of(&command(), &found);
        CommandLine::from_arg_matches(&found).map(|line| (line, typed))
    });
    let (line, typed) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::answer(&mut ui, &error, &arguments),
    };
    render::log_to_stderr(line.globals.verbose, redact::text);
    let mut ctx = Context::of_process(ui, line.globals);
    ctx.typed = typed;
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failed = CommandError::failed(format!("could not start: {error}"));
            return finish(&mut ctx.ui, Err(failed));
        }
    };
    let outcome = runtime.block_on(dispatch(&mut ctx, line.verb)).map_err(|error| ctx.with_next(error));
    let code = finish(&mut ctx.ui, outcome);
    if code.is_signal() {
        // Who says a second time that it shall end does not wait for a call that a broker holds up.
        runtime.shutdown_background();
    }
    code
}

/// Says what is left to say, and with which code the process ends.
fn finish(ui: &mut Ui, outcome: Outcome) -> ExitCode {
    let code = match outcome {
        Ok(code) => code,
        Err(error) => {
            error.print(ui);
            error.code()
        }
    };
    match ui.finish() {
        None => code,
        Some(trouble) => {
            CommandError::failed(format!("could not write the output: {trouble}")).print(ui);
            code.and(ExitCode::Failed)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_ends_with_70_whatever_else_went_wrong() {
        assert_eq!(guarded(|| panic!("cannot be, and is")).number(), 70);
        assert_eq!(guarded(|| ExitCode::Partial).number(), 11);
        let (mut ui, captured) = Ui::captured();
        let code = finish(&mut ui, Err(CommandError::bug("7 of 8 letters are accounted for")));
        assert_eq!(
            (code.number(), captured.err().as_str()),
            (70, "error: 7 of 8 letters are accounted for\n")
        );
    }
}
