//! The topology that a verb works with: which file, read, with its problems told.

use std::path::{Path, PathBuf};

use super::brokers::folder_of;
use super::context::Context;
use super::error::CommandError;
use crate::broker;
use crate::diagnostic::{Diagnostic, Severity};
use crate::render::diagnostic::{Source, line_and_column};
use crate::topology::{self, Channel, Topology, nearest};

/// Name of the file that is read when none is named.
const DEFAULT: &str = "redrive.yaml";

/// A valid topology and the file it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it declares.
    pub topology: Topology,
    path: PathBuf,
    /// Its text as it may be shown.
    source: String,
}

impl Loaded {
    /// Does it stand on the command line? Then it says two queues and nothing of how they should be.
    pub fn is_on_the_line(&self) -> bool {
        ["--broker", "REDRIVE_BROKER"].iter().any(|by| self.path == Path::new(by))
    }

    /// The file as it was named.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Where relative paths in it start.
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// `redrive.yaml:19`, for a place in it.
    pub fn place(&self, span: &std::ops::Range<usize>) -> String {
        format!("{}:{}", self.name(), line_and_column(&self.source, span.start).0)
    }

    /// The channel of this name.
    ///
    /// # Errors
    /// [2] with the nearest name, or all.
    pub fn channel(&self, name: &str) -> Result<&Channel, CommandError> {
        if let Some(channel) = self.topology.channel(name) {
            return Ok(channel);
        }
        let names: Vec<&str> = self.topology.channels.iter().map(|channel| channel.name.as_str()).collect();
        let error = match nearest(name, names.iter().copied()) {
            Some(near) => CommandError::usage(format!("no channel {name} in {}; near: {near}", self.name())),
            None => CommandError::usage(format!("no channel {name} in {}", self.name())),
        };
        let error = if names.is_empty() { error } else { error.hint(format!("There: {}", names.join(", "))) };
        let mut next = vec!["redrive".to_owned(), "check".to_owned()];
        if self.path != Path::new(DEFAULT) {
            next.extend(["-f".to_owned(), self.name()]);
        }
        Err(error.next(next))
    }
}

/// The broker that the line or the environment asks for, and which of them.
pub(super) fn asked_broker(ctx: &Context) -> Option<(String, &'static str)> {
    match &ctx.globals.broker {
        Some(name) => Some((name.clone(), "--broker")),
        None => {
            let name = std::env::var("REDRIVE_BROKER").ok().filter(|name| !name.is_empty())?;
            Some((name, "REDRIVE_BROKER"))
        }
    }
}

/// The name of the broker that was asked for, where no topology is needed to read a record: without a file nothing tells
/// whether there is such a broker.
///
/// # Errors
/// [2]: it is a url, and may hold a password (X05).
pub(super) fn asked_name(ctx: &mut Context) -> Result<Option<(String, &'static str)>, CommandError> {
    let Some((name, origin)) = asked_broker(ctx) else { return Ok(None) };
    if broker::on_the_line(&name).is_some() {
        let loaded = ctx.topology()?;
        return Ok(loaded.topology.brokers.first().map(|decl| (decl.name.value.clone(), origin)));
    }
    if name.contains(':') || name.contains('@') {
        return Err(CommandError::usage(format!("{origin} takes the name of a broker, not a url")));
    }
    Ok(Some((name, origin)))
}

/// Which file, and what in the environment or on the line says so.
pub(super) fn path_of(ctx: &Context) -> (PathBuf, &'static str) {
    if let Some(file) = &ctx.globals.file {
        return (file.clone(), "-f");
    }
    match std::env::var_os("REDRIVE_TOPOLOGY") {
        Some(file) if !file.is_empty() => (file.into(), "REDRIVE_TOPOLOGY"),
        _ => (DEFAULT.into(), ""),
    }
}

/// Reads the file, whatever is in it.
pub(super) fn read(ctx: &Context) -> Result<(PathBuf, topology::Loaded), CommandError> {
    let variable = |name: &str| std::env::var(name).ok();
    if let Some((said, by)) = asked_broker(ctx)
        && let Some(said) = broker::on_the_line(&said)
    {
        // The url is not repeated: it may hold a password (X05).
        let text = said.map_err(|how| {
            CommandError::usage(format!("{by} takes the name of a broker, or all of a queue: {how}")).hint(
                "Where nothing but a region is to be said, a topology says which queues belong together.",
            )
        })?;
        if ctx.globals.file.is_some() {
            return Err(CommandError::usage(format!("{by} says the queues already: no -f with it")));
        }
        let outside = topology::Outside { variable: &variable, base: PathBuf::from(".") };
        return Ok((PathBuf::from(by), topology::load(by, text.as_bytes(), &outside)));
    }
    let (path, origin) = path_of(ctx);
    match topology::load_file(&path, &variable) {
        Ok(read) => Ok((path, read)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && origin.is_empty() => {
            Err(CommandError::usage(format!("no {DEFAULT} in this folder"))
                .hint("Name a topology with -f FILE or REDRIVE_TOPOLOGY. To try redrive without one:")
                .next(["redrive", "demo"]))
        }
        Err(error) => {
            let by = if origin.is_empty() { String::new() } else { format!(" ({origin})") };
            Err(CommandError::usage(format!("could not read {}{by}: {}", path.display(), plain(&error))))
        }
    }
}

impl Context {
    /// The topology of this command. Problems are told on stderr, all at once.
    ///
    /// # Errors
    /// [2]: there is no such file. [3]: it is not valid.
    pub fn topology(&mut self) -> Result<Loaded, CommandError> {
        let (path, read) = read(self)?;
        let errors: Vec<_> =
            read.diagnostics.iter().filter(|problem| problem.severity == Severity::Error).cloned().collect();
        match read.topology {
            Some(topology) => Ok(Loaded { topology, path, source: read.source }),
            None => {
                let error = CommandError::topology(closing(&read.file, &errors)).next(page_of(&errors));
                if self.ui.json() {
                    let data = errors.iter().map(|problem| {
                        serde_json::to_value(super::check::located(problem, &read.source)).unwrap_or_default()
                    });
                    return Err(error.problems(data.collect()));
                }
                self.ui.tell_problems(&errors, Source { name: &read.file, text: &read.source });
                Err(error)
            }
        }
    }
}

/// The closing line below problems: `redrive.yaml: 3 errors, all shown; no broker was contacted`.
pub(super) fn closing(file: &str, problems: &[Diagnostic]) -> String {
    let count = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let warnings = problems.len() - errors;
    let all = if problems.len() == 1 { "" } else { ", all shown" };
    let also = if warnings == 0 { String::new() } else { format!(", {}", count(warnings, "warning")) };
    format!("{file}: {}{also}{all}; no broker was contacted", count(errors, "error"))
}

/// Where to read on about the first error.
pub(super) fn page_of(problems: &[Diagnostic]) -> Vec<&'static str> {
    let first = problems.iter().find(|problem| problem.severity == Severity::Error);
    first.map(|problem| vec!["redrive", "explain", problem.code.0]).unwrap_or_default()
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "no permission to read it".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    }
}
