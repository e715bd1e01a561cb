//! A move by the broker's own means: what it does not keep, how far it has come, how it ended.

use serde_json::json;

use super::ended::{rough_seconds, six};
use crate::clock::Time;
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
    /// How it is recorded.
    pub path: &'a str,
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

/// What a dry run would do, as data; nothing unless JSON is asked for.
pub fn dry_run(ui: &mut Ui, it: &Before<'_>, broker: &str, reason: Option<&str>, next: &[String]) {
    if !ui.json() {
        return;
    }
    ui.document(&json!({
        "schema": "redrive.run.v1",
        "dry_run": true,
        "channel": it.channel,
        "broker": broker,
        "queue": it.queue,
        "target": it.target,
        "place": it.place,
        "path": it.path,
        "rate": it.rate,
        "reason": reason,
        "counts": {"letters": it.letters, "planned": it.letters},
        "approximate": true,
        "not_kept": it.not_kept,
        "next": next,
    }));
}

/// How it ended.
pub struct Ended<'a> {
    /// As recorded.
    pub row: &'a RunRow,
    /// Where calls really went, where the topology alone does not say it.
    pub place: Option<&'a str>,
    /// Its state.
    pub state: RunState,
    /// The exit code.
    pub exit: u8,
    /// As far as the broker tells.
    pub counts: &'a Counts,
    /// Why, if not because all was moved.
    pub why: Option<&'a str>,
    /// When.
    pub at: Time,
    /// What to type next.
    pub next: &'a [String],
}

/// Says how it ended, on stdout.
pub fn ended(ui: &mut Ui, it: &Ended<'_>) {
    let &Ended { row, place, state, exit, counts, why, at, next } = it;
    if ui.json() {
        return ui.document(&json!({
            "schema": "redrive.run.v1",
            "run": row.id,
            "channel": row.channel,
            "broker": row.broker,
            "queue": row.queue,
            "target": row.target,
            "place": place,
            "path": row.path,
            "state": state.word(),
            "exit": exit,
            "counts": counts,
            "approximate": true,
            "why": why,
            "reason": row.reason,
            "by": row.who,
            "started": row.started,
            "ended": at,
            "took_ms": row.took_ms,
            "next": next,
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
