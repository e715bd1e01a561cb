//! What `plan` and `apply` share: observe, diff, have the broker judge, show.

use serde::Serialize;

use super::brokers::Target;
use super::context::Context;
use super::error::CommandError;
use super::topology_file::Loaded;
use crate::broker::Provision;
use crate::plan::{self, Change, Resource, Role};
use crate::render::Line;
use crate::render::plan::{Counts, letters, lost_letters, table};
use crate::render::units::moment;
use crate::topology::Channel;

/// The plan for one broker.
pub(super) struct Planned<'t> {
    pub target: Target<'t>,
    pub changes: Vec<Change>,
    /// What is to be known beside them.
    pub remarks: Vec<String>,
    /// Where it is: the broker's own words, where the url alone does not say it.
    pub place: String,
    /// Names whose loss was accepted.
    pub accepted: Vec<String>,
}

/// A plan as data.
#[derive(Serialize)]
pub(super) struct PlanData<'p> {
    broker: &'p str,
    protected: bool,
    place: String,
    counts: Counts,
    changes: &'p [Change],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted_loss: Vec<&'p str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    remarks: &'p [String],
}

/// Looks at a broker: what is there, and what it would take.
///
/// # Errors
/// The broker's.
pub(super) async fn observed(
    broker: &dyn Provision,
    channels: &[&Channel],
) -> crate::broker::Result<(Vec<Resource>, Vec<Change>)> {
    // In this order: what is wanted may follow what is there, the tiers' size limit the source's.
    let observed = broker.observe(channels).await?;
    let desired = broker.desired(channels);
    let mut changes = Vec::with_capacity(desired.len());
    for change in plan::diff(&desired, &observed) {
        changes.push(match change {
            Change::Undeclared { .. } | Change::Refused { .. } => change,
            change => broker.judge(change).await?,
        });
    }
    Ok((observed, changes))
}

impl Planned<'_> {
    fn accepts(&self, resource: &Resource) -> bool {
        self.accepted.contains(&resource.name)
    }

    pub fn counts(&self) -> Counts {
        Counts::of(&self.changes, |resource| self.accepts(resource))
    }

    /// What will be made, in order.
    pub fn to_make(&self) -> Vec<&Change> {
        self.changes
            .iter()
            .filter(|change| match change {
                Change::Refused { resource, refusal, .. } => {
                    refusal.loses.is_some() && self.accepts(resource)
                }
                change => change.pends(),
            })
            .collect()
    }

    /// Would an `apply` that accepts every loss change something?
    pub fn apply_could(&self) -> bool {
        let losing =
            |change: &&Change| matches!(change, Change::Refused { refusal, .. } if refusal.loses.is_some());
        self.changes.iter().any(|change| losing(&change))
    }

    /// Is a part refused whatever loss is accepted? Then nothing of the plan is made.
    pub fn is_barred(&self) -> bool {
        let barred =
            |change: &Change| matches!(change, Change::Refused { refusal, .. } if refusal.loses.is_none());
        self.changes.iter().any(barred)
    }

    /// What is held back.
    pub fn held_back(&self) -> Vec<&Change> {
        let refused = self.changes.iter().filter(|change| matches!(change, Change::Refused { .. }));
        refused.filter(|change| !self.to_make().iter().any(|made| std::ptr::eq(*made, *change))).collect()
    }

    /// Messages that would be lost with what is made, and whether that is only the most there can be.
    pub fn loses(&self) -> (u64, bool) {
        let lost = self.to_make().into_iter().filter_map(|change| match change {
            Change::Refused { refusal, .. } => refusal.loses.map(|lost| (lost, refusal.at_most)),
            _ => None,
        });
        lost.fold((0, false), |(sum, most), (lost, at_most)| (sum + lost, most || at_most))
    }

    pub fn data(&self) -> PlanData<'_> {
        let decl = self.target.broker.decl;
        PlanData {
            broker: &decl.name,
            protected: decl.protected,
            place: self.place.clone(),
            counts: self.counts(),
            changes: &self.changes,
            accepted_loss: self.accepted.iter().map(String::as_str).collect(),
            remarks: &self.remarks,
        }
    }

    /// Prints the plan, without what to do next.
    pub fn show(&self, ctx: &mut Context) {
        let now = ctx.clock.now();
        let at = moment(now, ctx.ui.columns());
        let head = Line::new().bold(self.target.broker.title());
        ctx.ui.say(head.text(format!(" · {} · {at}", self.place)));
        ctx.ui.blank();
        ctx.ui.table(&table(&self.changes, |resource| self.accepts(resource)));
        ctx.ui.blank();
        ctx.ui.say(self.counts().line());
        for remark in &self.remarks {
            ctx.ui.note(format!("{remark}."));
        }
    }

    /// Why each refused change is refused for good, and how to get round it. The last note ends where an
    /// `apply` with `--accept-loss` has to follow.
    pub fn notes(&self, loaded: &Loaded) -> Vec<String> {
        let mut notes = Vec::new();
        for change in self.held_back() {
            let Change::Refused { resource, refusal, .. } = change else { continue };
            let round = self
                .kept_in_file(loaded, change)
                .or_else(|| refusal.way_round.as_ref().map(|way| way.trim_end_matches('.').to_owned()));
            match (refusal.loses, round) {
                (Some(_), Some(round)) => notes.push(format!("{round}. To accept the loss:")),
                (Some(lost), None) => notes.push(format!(
                    "To accept the loss of {} of {}:",
                    lost_letters(lost, refusal.at_most),
                    resource.name
                )),
                (None, Some(round)) => notes.push(format!("{round}.")),
                (None, None) => {}
            }
        }
        // Notes that lead to the next command go last.
        notes.sort_by_key(|note| note.ends_with(':'));
        notes
    }

    /// `To keep the 22 letters set retention: 30d at redrive.yaml:19`, where the file says it.
    fn kept_in_file(&self, loaded: &Loaded, change: &Change) -> Option<String> {
        let Change::Refused { resource, fields, refusal } = change else { return None };
        let channel = loaded.topology.channel(resource.channel.as_deref()?)?;
        let retention = channel.dead_letter.retention.as_ref()?;
        let field = fields.iter().find(|field| field.name.to_ascii_lowercase().contains("retention"))?;
        if resource.role != Role::DeadLetter {
            return None;
        }
        let from = field.from.as_deref()?.replace(' ', "");
        let lost = match refusal.loses? {
            _ if refusal.at_most => "letters".to_owned(),
            1 => "letter".to_owned(),
            several => letters(several),
        };
        Some(format!("To keep the {lost} set retention: {from} at {}", loaded.place(&retention.span)))
    }

    /// The `apply` that accepts what is held back, if accepting would do.
    pub fn apply_command(&self, ctx: &Context) -> Vec<String> {
        let mut command = ctx.command(&["apply"]);
        if ctx.globals.broker.is_none() && self.target.broker.decl.protected {
            command.extend(["--broker".to_owned(), self.target.broker.name().to_owned()]);
        }
        let mut losses = false;
        for change in self.held_back() {
            if let Change::Refused { resource, refusal, .. } = change
                && refusal.loses.is_some()
            {
                command.push(format!("--accept-loss={}", resource.name));
                losses = true;
            }
        }
        if losses {
            command.extend(["--reason".to_owned(), "TEXT".to_owned()]);
        }
        command
    }
}

impl Context {
    /// Plans for every broker that the command goes to. Reads, changes nothing.
    pub(super) async fn plans<'t>(
        &mut self,
        loaded: &'t Loaded,
        accepted: &[String],
    ) -> Result<Vec<Planned<'t>>, CommandError> {
        if loaded.is_on_the_line() {
            return Err(CommandError::usage(
                "a plan needs a topology file: a url says which queues, not how they should be",
            ));
        }
        let mut plans = Vec::new();
        for target in self.targets(loaded, None)? {
            let broker = self.open(loaded, target.broker, false).await?;
            let looking = observed(&*broker, &target.channels);
            let (there, changes) = self
                .answer_of(target.broker, broker.whereabouts(), looking)
                .await
                .map_err(|error| CommandError::broker(target.broker.name(), &error))?;
            // Who may not read the letters may plan all the same.
            let remarks = broker.remarks(&target.channels, &there).await.unwrap_or_default();
            let place = broker.whereabouts().unwrap_or_else(|| target.broker.place());
            plans.push(Planned { target, changes, remarks, place, accepted: accepted.to_vec() });
        }
        Ok(plans)
    }
}
