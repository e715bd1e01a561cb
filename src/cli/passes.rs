//! Further passes of a run: a broker that shows only the heads of groups, or only so many letters at once, hides the
//! rest behind what it has handed out. When those are gone the run looks again and goes on, under the same id, with
//! what was there when it began, until its selection is used up or a look shows nothing new.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::judging::Judging;
use super::sending::{Earlier, Ready, Then, begin, ledger_error, look_through, prepare_error};
use super::{Chosen, CommandError, Context};
use crate::broker::{Broker, Task};
use crate::manifest::{Fault, Reader, Writer};
use crate::proof::failpoint;
use crate::run::engine::End;
use crate::run::prepare::{Pass, PrepareError, Prepared};
use crate::run::recovery::Orders;
use crate::selection::{Limit, Selection};
use crate::topology::Channel;

/// What a further look needs.
pub struct Passes<'a> {
    broker: &'a dyn Broker,
    chosen: Chosen<'a>,
    channel: &'a Channel,
    selection: Selection,
    judging: Judging,
    earlier: Earlier,
    task: Task,
    pass: Pass,
    number: u32,
    moved: u64,
}

impl<'a> Passes<'a> {
    /// Passes of a run that begins with `prepared`; `None` if its look showed all, or its bound is used up.
    #[allow(clippy::too_many_arguments)]
    pub fn of(
        broker: &'a dyn Broker,
        chosen: Chosen<'a>,
        channel: &'a Channel,
        selection: &Selection,
        judging: &Judging,
        earlier: &Earlier,
        task: &Task,
        prepared: &Prepared,
    ) -> Option<Self> {
        let room = selection.limit.allows(prepared.summary.planned);
        (prepared.cost.behind > 0 && room).then(|| Self {
            broker,
            chosen,
            channel,
            selection: selection.clone(),
            judging: judging.clone(),
            earlier: earlier.clone(),
            task: task.clone(),
            pass: Pass { until: prepared.snapshot.taken_at, known: HashSet::new() },
            number: 1,
            moved: 0,
        })
    }

    /// Which pass this is, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Looks again, and readies the run for what is new. `false`: nothing is, or the bound is used up.
    ///
    /// # Errors
    /// The broker, the ledger or the manifest; nothing was sent.
    pub async fn next(
        &mut self,
        ctx: &mut Context,
        ready: &mut Ready<'_>,
        end: &End,
    ) -> Result<bool, CommandError> {
        // Nothing went: the same heads would be shown again.
        if end.counts.moved == self.moved || !self.selection.limit.allows(end.counts.planned) {
            return Ok(false);
        }
        self.moved = end.counts.moved;
        let at = ready.ledger.path().to_owned();
        let told = |error| ledger_error(&at, &error);
        let path = ready.ledger.manifest_path(&ready.row.id).map_err(told)?;
        self.pass.known = known(&path).map_err(|fault| unreadable(&path, &fault))?;
        ready.ledger.beat(&ready.lock, ctx.clock.now(), super::sending::LEASE).map_err(told)?;
        let mut selection = self.selection.clone();
        if let Limit::AtMost(most) = &mut selection.limit {
            *most = most.saturating_sub(end.counts.planned);
        }
        let pass = Some(&self.pass);
        let (broker, chosen, channel) = (self.broker, self.chosen, self.channel);
        let (judging, earlier) = (&self.judging, &self.earlier);
        let prepared =
            look_through(ctx, broker, chosen, channel, &selection, None, judging, earlier, pass, Then::Asks)
                .await?;
        let send = prepared.summary.send + prepared.summary.twins;
        if send == 0 {
            return Ok(false);
        }
        let mover =
            begin(ctx, broker, chosen, channel, &self.task, ready.settings.keep_times, &mut None).await?;
        let kept = (ready.kept.0 + kept(&prepared, false), ready.kept.1 + kept(&prepared, true));
        let now = ctx.clock.now();
        let further = further(&path);
        let mut noting = Vec::new();
        let count = Writer::extend(&path, &further).map_err(|fault| unreadable(&path, &fault)).and_then(
            |writer| {
                let appended = prepared.append(writer, |line| {
                    noting.extend(line.kept.is_some().then(|| line.clone()));
                    Ok(())
                });
                appended.map_err(|error: PrepareError| prepare_error(chosen, &error))
            },
        )?;
        failpoint::hit("pass_before_ledger");
        let settings = super::resume::keep(&ready.settings, kept, self.judging.frozen());
        ready.ledger.extend_run(ready.row.n, count, &settings, now).map_err(told)?;
        failpoint::hit("pass_after_ledger");
        put_in_place(&path, count).map_err(|fault| unreadable(&path, &fault))?;
        failpoint::hit("pass_in_place");
        ready.ledger.note_kept(ready.row.n, noting.iter(), now).map_err(told)?;
        self.number += 1;
        let text = format!("{}: {} letters more", self.number, count - ready.row.counts.planned);
        ready.ledger.event(ready.row.n, now, &ctx.who, "pass", Some(&text)).map_err(told)?;
        ready.kept = kept;
        ready.row.counts.planned = count;
        ready.sending += send;
        ready.mover = Some(mover);
        ready.resume = Some(Orders::default());
        // The ramp is over, unless the pass was shorter.
        ready.settings.ramp = ready.settings.ramp.saturating_sub(end.took.max(Duration::ZERO));
        Ok(true)
    }
}

fn kept(prepared: &Prepared, holds: bool) -> u64 {
    prepared.summary.kept.iter().filter(|(why, ..)| why.holds() == holds).map(|(_, n, _)| n).sum()
}

fn unreadable(path: &Path, fault: &Fault) -> CommandError {
    CommandError::failed(format!("the run's own manifest {} cannot be used: {fault}", path.display()))
}

fn known(path: &Path) -> Result<HashSet<u64>, Fault> {
    let mut known = HashSet::new();
    let mut reader = Reader::open(path)?;
    while let Some(line) = reader.next_line()? {
        known.insert(Pass::hash(line.position.as_str()));
    }
    Ok(known)
}

/// Where a longer manifest lies until the ledger knows of it.
fn further(path: &Path) -> PathBuf {
    path.with_extension("further")
}

/// Puts a longer manifest in place that has just the `planned` letters that the ledger speaks of: the ledger is
/// written between the two files, so a process that died there is finished by its resume.
///
/// # Errors
/// The system's word.
pub fn put_in_place(path: &Path, planned: u64) -> Result<(), Fault> {
    let further = further(path);
    if !further.exists() {
        return Ok(());
    }
    match Reader::verify(&further) {
        Ok((_, count)) if count == planned => std::fs::rename(&further, path)?,
        // The ledger does not know of it: nothing of it was begun.
        _ => std::fs::remove_file(&further)?,
    }
    Ok(())
}
