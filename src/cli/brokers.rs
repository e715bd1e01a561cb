//! Which broker a verb goes to, and the door to it.
//!
//! `--broker`, then `REDRIVE_BROKER`, then the channel's own, the default, the only one. A protected broker is
//! changed only by a command line that names it; the environment does not count as that.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use super::context::Context;
use super::error::CommandError;
use super::topology_file::{Loaded, asked_broker};
use crate::broker::{Broker, OpenContext, kind_of};
use crate::diagnostic::Severity;
use crate::render::Progress;
use crate::topology::{self, BrokerDecl, Channel, nearest};

/// After so much silence of a broker it is said who is waited for.
const SILENCE: Duration = Duration::from_secs(2);
/// How often the seconds are counted on.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A broker, and whether the command line named it.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'t> {
    /// As declared.
    pub decl: &'t BrokerDecl,
    /// Named by `--broker`.
    pub named: bool,
}

/// A broker with the channels that a verb works on there.
#[derive(Debug, Clone)]
pub struct Target<'t> {
    /// The broker.
    pub broker: Chosen<'t>,
    /// In the file's order.
    pub channels: Vec<&'t Channel>,
}

impl Chosen<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.decl.name
    }

    /// Why nothing can be known of it: its url begins like no broker's, or is a variable that is not set.
    pub fn spoken_by_none(&self) -> CommandError {
        if let Some(missing) = self.decl.unresolved.first() {
            return CommandError::failed(format!(
                "{} needs {}, and it is not set",
                self.name(),
                missing.value
            ))
            .next(["redrive", "check"]);
        }
        CommandError::usage(format!("{}: no broker speaks {}", self.name(), self.decl.scheme()))
    }

    /// Where it is, in its kind's own words: `k1:9092, k2:9092`. No login, no secret.
    pub fn place(&self) -> String {
        kind_of(self.decl).map_or_else(String::new, |kind| kind.place(self.decl))
    }

    /// `kafka (protected)`.
    pub fn title(&self) -> String {
        let protected = if self.decl.protected { " (protected)" } else { "" };
        format!("{}{protected}", self.name())
    }

    /// Holds back a change of a protected broker that the line does not name.
    ///
    /// # Errors
    /// [4], with `command` as it should have been.
    pub fn may_change(&self, mut command: Vec<String>) -> Result<(), CommandError> {
        if !self.decl.protected || self.named {
            return Ok(());
        }
        command.extend(["--broker".to_owned(), self.name().to_owned()]);
        let message = format!("{} is protected; name it on the line to change anything", self.name());
        Err(CommandError::refused(message).next(command))
    }
}

impl Context {
    /// The broker that was asked for by flag or environment, and whether by flag.
    fn asked_for<'t>(&self, loaded: &'t Loaded) -> Result<Option<Chosen<'t>>, CommandError> {
        let Some((name, origin)) = asked_broker(self) else { return Ok(None) };
        let named = origin == "--broker";
        if loaded.is_on_the_line() {
            return Ok(loaded.topology.brokers.first().map(|decl| Chosen { decl, named }));
        }
        let names = broker_names(loaded);
        if name.contains(':') || name.contains('@') {
            // It may hold a password, so it is not repeated (X05).
            return Err(CommandError::usage(format!("{origin} takes the name of a broker, not a url")).hint(
                format!("In {}: {names}. A login belongs into ${{NAME}} variables there.", loaded.name()),
            ));
        }
        match loaded.topology.broker(&name) {
            Some(decl) => Ok(Some(Chosen { decl, named })),
            None => {
                let near = nearest(&name, loaded.topology.brokers.iter().map(|broker| broker.name.as_str()));
                let near = near.map(|near| format!("; near: {near}")).unwrap_or_default();
                Err(CommandError::usage(format!("{origin}: no broker {name} in {}{near}", loaded.name()))
                    .hint(format!("There: {names}")))
            }
        }
    }

    /// The broker for one channel.
    ///
    /// # Errors
    /// [2] with the names, if none is chosen by anything.
    pub fn broker_for<'t>(&self, loaded: &'t Loaded, channel: &Channel) -> Result<Chosen<'t>, CommandError> {
        if let Some(chosen) = self.asked_for(loaded)? {
            fits(loaded, chosen.decl, &[channel])?;
            return Ok(chosen);
        }
        match loaded.topology.broker_of(channel) {
            Some(decl) => Ok(Chosen { decl, named: false }),
            None => Err(CommandError::usage(format!("no broker chosen for {}", channel.name.value)).hint(
                format!(
                    "Name one with --broker, or as default_broker in {}: {}",
                    loaded.name(),
                    broker_names(loaded)
                ),
            )),
        }
    }

    /// The broker for what belongs to no channel: asked for, default, or the only one.
    ///
    /// # Errors
    /// [2] with the names, if none is chosen by anything.
    pub fn broker_without_channel<'t>(&self, loaded: &'t Loaded) -> Result<Chosen<'t>, CommandError> {
        if let Some(chosen) = self.asked_for(loaded)? {
            return Ok(chosen);
        }
        match loaded.topology.broker_of(&Channel::default()) {
            Some(decl) => Ok(Chosen { decl, named: false }),
            None => Err(CommandError::usage("no broker chosen")
                .hint(format!("Name one with --broker: {}", broker_names(loaded)))),
        }
    }

    /// What a verb works on: one channel, or all by broker. With a broker asked for and no channel: the
    /// channels that belong to it, or all if none does (a topology tried out on another broker).
    ///
    /// # Errors
    /// [2]: no such channel or broker, or none chosen.
    pub fn targets<'t>(
        &mut self,
        loaded: &'t Loaded,
        channel: Option<&str>,
    ) -> Result<Vec<Target<'t>>, CommandError> {
        if let Some(name) = channel {
            let channel = loaded.channel(name)?;
            return Ok(vec![Target { broker: self.broker_for(loaded, channel)?, channels: vec![channel] }]);
        }
        let all: Vec<&Channel> = loaded.topology.channels.iter().collect();
        if let Some(broker) = self.asked_for(loaded)? {
            let own = |channel: &&&Channel| {
                loaded.topology.broker_of(channel).is_some_and(|decl| decl.name == broker.decl.name)
            };
            let channels: Vec<&Channel> = all.iter().filter(own).copied().collect();
            if channels.is_empty() {
                fits(loaded, broker.decl, &all)?;
                return Ok(vec![Target { broker, channels: all }]);
            }
            let left: Vec<&str> = all.iter().filter(|c| !own(c)).map(|c| c.name.as_str()).collect();
            if !left.is_empty() {
                self.ui.note(format!("Left out, on other brokers: {}.", left.join(", ")));
            }
            return Ok(vec![Target { broker, channels }]);
        }
        let mut targets: Vec<Target<'t>> = Vec::new();
        for channel in all {
            let broker = self.broker_for(loaded, channel)?;
            match targets.iter_mut().find(|target| target.broker.decl.name == broker.decl.name) {
                Some(target) => target.channels.push(channel),
                None => targets.push(Target { broker, channels: vec![channel] }),
            }
        }
        Ok(targets)
    }

    /// Connects. `writes`: may this command change anything there?
    ///
    /// # Errors
    /// [1]: nobody answers, or not to us, or a variable is not set. [2]: no kind of broker has such urls.
    pub async fn open(
        &mut self,
        loaded: &Loaded,
        chosen: Chosen<'_>,
        writes: bool,
    ) -> Result<Box<dyn Broker>, CommandError> {
        if let Some(missing) = chosen.decl.unresolved.first() {
            let place = loaded.place(&missing.span);
            let message = format!("{} needs {}, and it is not set ({place})", chosen.name(), missing.value);
            return Err(CommandError::failed(message).next(["redrive", "check"]));
        }
        let Some(kind) = kind_of(chosen.decl) else {
            return Err(chosen.spoken_by_none());
        };
        let context = OpenContext { clock: self.clock.clone(), base: loaded.folder().to_owned(), writes };
        let opened = self.answer_of(chosen, None, kind.open(chosen.decl, &context)).await;
        opened.map_err(|error| CommandError::broker(chosen.name(), &error))
    }

    /// Awaits an answer of a broker. After two seconds of silence it is said, on stderr and not with JSON, who is waited
    /// for: a broker that is not there lets its clients try for ten seconds and longer. `at`: where calls really go, as
    /// far as more is known than the topology says.
    pub async fn answer_of<T>(
        &mut self,
        chosen: Chosen<'_>,
        at: Option<String>,
        asking: impl Future<Output = T>,
    ) -> T {
        let began = Instant::now();
        let mut progress = Progress::new();
        let mut asking = std::pin::pin!(asking);
        loop {
            let passed = began.elapsed();
            let wait = if passed < SILENCE { SILENCE - passed } else { LOOK_AGAIN };
            if let Ok(answer) = tokio::time::timeout(wait, &mut asking).await {
                progress.clear(&mut self.ui);
                return answer;
            }
            let place = at.clone().unwrap_or_else(|| chosen.place());
            let silent = began.elapsed();
            let line =
                format!("waiting for {} at {place}: no answer for {}s", chosen.title(), silent.as_secs());
            progress.show(&mut self.ui, silent, &[line.into()]);
        }
    }
}

/// Channels that go to another broker than their own have to fit it: what holds on one may not on another.
fn fits(loaded: &Loaded, decl: &BrokerDecl, channels: &[&Channel]) -> Result<(), CommandError> {
    let moved: Vec<&str> = channels
        .iter()
        .filter(|channel| loaded.topology.broker_of(channel).is_none_or(|own| own.name != decl.name))
        .map(|channel| channel.name.as_str())
        .collect();
    if moved.is_empty() {
        return Ok(());
    }
    let problems = topology::check_on(&loaded.topology, &decl.name, &moved);
    let Some(first) = problems.iter().find(|problem| problem.severity == Severity::Error) else {
        return Ok(());
    };
    let place =
        first.labels.first().map(|label| format!(" ({})", loaded.place(&label.span))).unwrap_or_default();
    let message = format!("{} does not fit {}: {}{place}", moved.join(", "), decl.name.value, first.title);
    let error = CommandError::topology(message).next(["redrive", "explain", first.code.0]);
    Err(first.help.iter().fold(error, |error, help| error.hint(help.clone())))
}

fn broker_names(loaded: &Loaded) -> String {
    let names: Vec<&str> = loaded.topology.brokers.iter().map(|broker| broker.name.as_str()).collect();
    names.join(", ")
}

/// The folder of a file; the current one for a bare name.
pub(super) fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
