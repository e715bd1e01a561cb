//! A plan as people read it: one row a change, each property from → to, only refusals in red.

use serde_json::json;

use super::table::{Cell, Column, Table};
use super::{Line, Style, Ui};
use crate::clock::Time;
use crate::ledger::ApplyRow;
use crate::plan::{Change, FieldChange, Resource};

/// How many changes of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// To be made.
    pub create: usize,
    /// To be altered, accepted losses included.
    pub change: usize,
    /// Held back.
    pub refused: usize,
    /// As declared.
    pub keep: usize,
    /// Declared by nobody.
    pub undeclared: usize,
}

impl Counts {
    /// Counts `changes`; `accepted` says whose loss was accepted.
    pub fn of(changes: &[Change], accepted: impl Fn(&Resource) -> bool) -> Self {
        let mut counts = Self::default();
        for change in changes {
            match change {
                Change::Create { .. } => counts.create += 1,
                Change::Update { .. } => counts.change += 1,
                Change::Refused { resource, refusal, .. }
                    if refusal.loses.is_some() && accepted(resource) =>
                {
                    counts.change += 1;
                }
                Change::Refused { .. } => counts.refused += 1,
                Change::Keep { .. } => counts.keep += 1,
                Change::Undeclared { .. } => counts.undeclared += 1,
            }
        }
        counts
    }

    /// How many would be made.
    pub fn pending(self) -> usize {
        self.create + self.change
    }

    /// `1 to create, 1 to change, 1 refused, 2 kept, 1 undeclared`.
    pub fn line(self) -> Line {
        let mut parts = Vec::new();
        if self.pending() == 0 && self.refused == 0 {
            parts.push("nothing to change".to_owned());
        }
        let named = [
            (self.create, "to create"),
            (self.change, "to change"),
            (self.refused, "refused"),
            (self.keep, "kept"),
            (self.undeclared, "undeclared"),
        ];
        parts.extend(named.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}")));
        Line::new().bold(parts.join(", "))
    }
}

/// The rows of a plan. Nothing is cut: one decides by what stands last.
pub fn table(changes: &[Change], accepted: impl Fn(&Resource) -> bool) -> Table {
    let mut table = Table::new([Column::left(""), Column::left(""), Column::left("").folds()]).bare();
    for change in changes {
        let resource = change.resource();
        let (word, style, lines) = match change {
            Change::Keep { .. } => ("= keep", Style::Dim, vec![kept(resource)]),
            Change::Create { .. } => {
                ("+ create", Style::Plain, vec![resource.note.clone().unwrap_or_default()])
            }
            Change::Update { fields, .. } => ("~ change", Style::Plain, altered(fields, "")),
            Change::Refused { fields, refusal, .. } => match refusal.loses {
                Some(lost) if accepted(resource) => {
                    let loses = format!(": loses {} (--accept-loss)", lost_letters(lost, refusal.at_most));
                    ("~ change", Style::Bold, altered(fields, &loses))
                }
                _ if fields.is_empty() => ("x refused", Style::Red, vec![refusal.why.clone()]),
                _ => ("x refused", Style::Red, altered(fields, &format!(": {}", refusal.why))),
            },
            Change::Undeclared { .. } => ("? undeclared", Style::Plain, vec![undeclared(resource)]),
        };
        for (at, detail) in lines.into_iter().enumerate() {
            let (first, second) = if at == 0 { (word, resource.name.as_str()) } else { ("", "") };
            table.row([Cell::new(first, style), Cell::new(second, style), Cell::new(detail, style)]);
        }
    }
    table
}

fn kept(resource: &Resource) -> String {
    let observed = (!resource.creatable).then(|| "source, only observed".to_owned());
    let left = resource.left.as_ref().map(|left| format!("{left}, left as it is"));
    observed.into_iter().chain(left).collect::<Vec<_>>().join("; ")
}

fn undeclared(resource: &Resource) -> String {
    let holds = match resource.depth {
        Some(0) => "empty; ".to_owned(),
        Some(n) => format!("holds {}; ", messages(n)),
        None => String::new(),
    };
    format!("{holds}redrive deletes nothing that it does not declare")
}

/// A row a property; `behind` stands behind the last.
fn altered(fields: &[FieldChange], behind: &str) -> Vec<String> {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
    let last = fields.len().saturating_sub(1);
    let wide = fields.iter().map(|field| super::width(&field.name)).max().unwrap_or(0);
    fields
        .iter()
        .enumerate()
        .map(|(at, field)| {
            let behind = if at == last { behind } else { "" };
            let gap = " ".repeat(wide - super::width(&field.name));
            format!("{}{gap}  {} → {}{behind}", field.name, value(&field.from), value(&field.to))
        })
        .collect()
}

/// `plan --applied`: what was applied before, the latest first.
pub fn applied(ui: &mut Ui, rows: &[ApplyRow], broker: Option<&str>, now: Time) {
    if ui.json() {
        return ui.document(&json!({"schema": "redrive.applied.v1", "at": now, "applied": rows}));
    }
    if rows.is_empty() {
        let on = broker.map_or_else(String::new, |name| format!(" on {name}"));
        return ui.note(format!("Nothing that was applied{on} is recorded here."));
    }
    let mut table = Table::new([
        Column::left("APPLIED"),
        Column::left("BY").spared(1),
        Column::left("BROKER").spared(2),
        Column::left("STATE"),
        Column::left("VERSION").drops(1),
        Column::left("REASON").drops(2),
        Column::left("MADE").cuts(),
    ]);
    for row in rows {
        let state = match (row.ended, &row.error) {
            (None, _) => Cell::bold("did not end"),
            (Some(_), Some(_)) => Cell::bold("failed"),
            (Some(_), None) => "done".into(),
        };
        let made = match row.made.len() == row.planned.len() {
            true => row.made.join(", "),
            false => format!("{} of {}: {}", row.made.len(), row.planned.len(), row.made.join(", ")),
        };
        let loss = match row.accepted_loss.as_slice() {
            [] => String::new(),
            names => format!("; loss accepted: {}", names.join(", ")),
        };
        table.row([
            row.at.format("%Y-%m-%d %H:%MZ").into(),
            row.by.clone().into(),
            row.broker.clone().into(),
            state,
            row.version.clone().into(),
            row.reason.clone().map_or(Cell::dim("-"), Cell::from),
            format!("{made}{loss}").into(),
        ]);
    }
    ui.table(&table);
}

/// `1 letter`, `22 letters`.
pub fn letters(n: u64) -> String {
    format!("{n} letter{}", if n == 1 { "" } else { "s" })
}

/// Letters that a change loses, as far as the broker tells: `22 letters`, `up to about 22 letters`.
pub fn lost_letters(n: u64, at_most: bool) -> String {
    if at_most { format!("up to about {}", letters(n)) } else { letters(n) }
}

fn messages(n: u64) -> String {
    format!("{n} message{}", if n == 1 { "" } else { "s" })
}
