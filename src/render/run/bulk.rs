//! A move by the broker's own means: what it does not keep, how far it has come, how it ended.

use serde_json::json;

use super::ended::{rough_seconds, six};
use crate::ledger::{Counts, RunRow, RunState};
use crate::render::units::{count, number};
use crate::render::{Line, Ui};

/// What is known before.
pub struct Before<'a> {
    /// Channel.
    pub channel: &'a str,
    /// `aws (protected)`.
    pub title: &'a str,
    /// Dead-letter queue.
    pub queue: &'a str,
    /// Where to.
    pub target: &'a str,
    /// Where calls really go, where the topology alone does not say it.
    pub place: Option<&'a str>,
    /// Letters in it, about.
    pub letters: u64,
    /// As typed.
    pub rate: &'a str,
    /// What it does not keep.
    pub not_kept: &'a [&'a str],
}

/// The screen before the prompt.
pub fn before(ui: &mut Ui, it: &Before<'_>) {
    if ui.json() {
        return;
    }
    ui.say(Line::new().bold("native move").text(format!(" · {} · {}", it.channel, it.title)));
    ui.say(format!("all       about {} of {}, unchanged", count(it.letters, "letter", "letters"), it.queue));
    ui.say(format!("to        {}, at most {}", it.target, it.rate));
    if let Some(place) = it.place {
        ui.say(format!("at        {place}"));
    }
    for what in it.not_kept {
        ui.say(format!("not kept  {what}"));
    }
}

/// How far it has come.
pub fn progress(moved: u64, of: Option<u64>) -> Line {
    match of {
        Some(of) => format!("moving: about {} of {}", number(moved), number(of)).into(),
        None => format!("moving: about {}", number(moved)).into(),
    }
}

/// Says how it ended, on stdout.
pub fn ended(ui: &mut Ui, row: &RunRow, state: RunState, exit: u8, counts: &Counts, why: Option<&str>) {
    if ui.json() {
        return ui.document(&json!({
            "schema": "redrive.run.v1",
            "run": row.id,
            "channel": row.channel,
            "broker": row.broker,
            "queue": row.queue,
            "target": row.target,
            "path": row.path,
            "state": state.word(),
            "exit": exit,
            "counts": counts,
            "approximate": true,
            "why": why,
            "took_ms": row.took_ms,
        }));
    }
    let took = rough_seconds(std::time::Duration::from_millis(row.took_ms));
    let head = Line::new().bold(format!("run {} {}", row.id, state.word()));
    ui.say(head.text(format!(
        ": about {} of {} moved by the broker itself · {took}",
        number(counts.moved),
        number(counts.planned)
    )));
    six(ui, counts);
    if let Some(why) = why {
        ui.say(Line::new().text("  ").red("error").text(format!("  {why}")));
    }
}
