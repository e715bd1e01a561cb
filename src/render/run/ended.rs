//! The ends of a run: what moved, what did not and why, in six counts that add up, and what to type next.

use std::time::Duration;

use serde_json::json;

use super::RunScreen;
use crate::clock::{Time, rough};
use crate::ledger::{Counts, Note, RunState};
use crate::render::units::{count, number};
use crate::render::{Line, Ui};
use crate::run::engine::{Cause, End};

/// Most notes that the end of a run looks at.
pub const MOST_NOTES: usize = 1000;
/// Most lines of letters on the screen.
const MOST_LINES: usize = 8;
/// Most groups on one of them.
const MOST_GROUPS: usize = 4;
/// Columns before what a label is about.
const LABEL: usize = 12;

/// What the end shows.
pub struct Ended<'a> {
    /// As the engine says.
    pub end: &'a End,
    /// As it is recorded.
    pub state: RunState,
    /// Why it ended, as it is recorded.
    pub why: &'a str,
    /// The exit code.
    pub exit: u8,
    /// Letters that did not move, the first of them.
    pub notes: &'a [Note],
    /// How many of each outcome and code.
    pub groups: &'a [(String, String, u64)],
    /// Time of all parts.
    pub total: Duration,
    /// Of that time, in this part: the looks between its passes.
    pub looking: Duration,
    /// Parts.
    pub parts: u32,
    /// Why it was begun.
    pub reason: &'a str,
    /// Who.
    pub who: &'a str,
    /// When it began.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
    /// What to type next.
    pub next: &'a [String],
}

/// Prints the six counts: on one line, or broken before what is in doubt.
pub fn six(ui: &mut Ui, counts: &Counts) {
    let failed = format!("failed {}", number(counts.failed));
    let doubt = format!("in doubt {}", number(counts.in_doubt));
    let line = Line::new().text(format!(
        "  planned {} = moved {} + skipped {} + ",
        number(counts.planned),
        number(counts.moved),
        number(counts.skipped)
    ));
    let line = if counts.failed > 0 { line.red(failed) } else { line.text(failed) };
    let line = line.text(format!(" + held {}", number(counts.held)));
    let rest = Line::new().text("+ ");
    let rest = if counts.in_doubt > 0 { rest.bold(doubt) } else { rest.text(doubt) };
    let rest = rest.text(format!(" + untouched {}", number(counts.untouched)));
    if ui.columns().is_some_and(|columns| line.width() + 1 + rest.width() > columns) {
        let under = format!("  planned {} ", number(counts.planned)).len();
        ui.say(line);
        ui.say(Line::new().text(" ".repeat(under)).then(rest));
    } else {
        ui.say(line.text(" ").then(rest));
    }
}

/// Says how it ended, on stdout.
pub fn ended(ui: &mut Ui, screen: &RunScreen, it: &Ended<'_>) {
    if ui.json() {
        return ui.document(&document(screen, it));
    }
    ui.say_folded(head(screen, it), 2);
    six(ui, &it.end.counts);
    if it.end.unsettled > 0 {
        ui.say_folded(
            Line::new()
                .text("  moved, ")
                .bold("original not removed")
                .text(format!(": {}; resume removes them without sending again", number(it.end.unsettled))),
            LABEL,
        );
    }
    if it.end.unseen > 0 {
        ui.say_folded(
            format!(
                "  {} not visible: perhaps somebody else holds {}, perhaps the broker had removed {} and could not say \
                 so. If you know that {} gone: resume --accept-gone, with a --reason",
                number(it.end.unseen),
                if it.end.unseen == 1 { "it" } else { "them" },
                if it.end.unseen == 1 { "it" } else { "them" },
                if it.end.unseen == 1 { "it is" } else { "they are" },
            ),
            LABEL,
        );
    }
    if it.end.counts.moved > 0 {
        ui.say_folded(refailed(it.end, screen), LABEL);
    }
    if let Some(Cause::Broker(error)) | Some(Cause::Errors(Some(error))) = &it.end.cause {
        let code = error.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
        ui.say_folded(
            Line::new()
                .text("  ")
                .red("error")
                .text(format!("     {} could not {}: {}{code}", screen.broker, error.action, error.message)),
            LABEL,
        );
        if let Some(hint) = &error.hint {
            ui.say_folded(format!("{}{hint}", " ".repeat(LABEL)), LABEL);
        }
    }
    letters(ui, it);
    if let Some(trimmed) = &it.end.trimmed {
        ui.note(trimmed.clone());
    }
    if it.looking >= Duration::from_secs(1) {
        let looking = rough_seconds(it.looking);
        ui.note(format!("{looking} of that time it looked for letters behind those that it had sent."));
    }
    if it.end.yielded >= Duration::from_secs(1) {
        ui.note(format!("{} of that time it stood back for the relay.", rough_seconds(it.end.yielded)));
    }
    if it.end.counts.in_doubt > 0 {
        doubt(ui, &screen.broker, it.end.counts.in_doubt);
    }
    let untouched = it.end.counts.untouched;
    if untouched > 0 && matches!(it.end.cause, Some(Cause::LockLost)) {
        // How they are is no longer for this run to say: the other one may have moved them by now.
        ui.note(format!(
            "Whoever took {} over has the {} that this run did not come to. When it has ended, for what it left:",
            screen.queue,
            count(untouched, "letter", "letters")
        ));
        return ui.next(it.next);
    }
    let gone = it.end.gone;
    if gone > 0 {
        ui.note(format!(
            "{} gone from {}, and not by this run. resume --allow-stale skips {} and lets what waits behind go on.",
            count(gone, "letter is", "letters are"),
            screen.queue,
            if gone == 1 { "it" } else { "them" },
        ));
    }
    if untouched > gone {
        ui.note(format!(
            "The {}. To go on:",
            count(untouched - gone, "untouched letter is as it was", "untouched letters are as they were")
        ));
    }
    ui.next(it.next);
}

/// What a person can do about letters whose answer nobody knows.
pub fn doubt(ui: &mut Ui, broker: &str, letters: u64) {
    let twice = count(letters, "duplicate", "duplicates");
    ui.note(format!(
        "{} in doubt: {broker} could not tell whether {} arrived. resume --resend-in-doubt may make {twice}; \
         --settle-in-doubt takes the originals away, where the effect was seen. Both want a --reason.",
        if letters == 1 { "1 stays".to_owned() } else { format!("{} stay", number(letters)) },
        if letters == 1 { "it" } else { "they" },
    ));
}

fn head(screen: &RunScreen, it: &Ended<'_>) -> Line {
    let end = it.end;
    let counts = &end.counts;
    let run = Line::new().bold(format!("run {} ", screen.run));
    let took = rough_seconds(it.total);
    let parts = if it.parts > 1 { format!(" in {} parts", it.parts) } else { String::new() };
    let moved = format!("{} of {} moved", number(counts.moved), number(counts.planned));
    match (&end.cause, it.state) {
        (None, RunState::Done) => run.bold("done").text(format!(": {moved} · {took}{parts}{}", speed(it))),
        (None, RunState::Failed) => run.red("failed").text(format!(": {moved} · {took}{parts}")),
        (None, RunState::Partial) => {
            let stay = counts.planned.saturating_sub(counts.moved + not_there(it.groups));
            run.bold("partial").text(format!(
                ": {} moved, {} in {} · {took}{parts}{}",
                number(counts.moved),
                match stay {
                    0 => "none stays".to_owned(),
                    1 => "1 stays".to_owned(),
                    stay => format!("{} stay", number(stay)),
                },
                screen.queue,
                speed(it)
            ))
        }
        (None, _) => {
            let why = match end.not_seen {
                0 if end.gone > 0 => format!("{} gone", count(end.gone, "letter is", "letters are")),
                0 => "not all could be done".to_owned(),
                unseen => format!("{} not seen by the broker", count(unseen, "letter was", "letters were")),
            };
            run.bold("ended early").text(format!(": {why} · {moved} · {took}{parts}"))
        }
        (Some(Cause::Asked), _) => {
            run.bold("stopped by you").text(format!(": {} moved · {took}{parts}", number(counts.moved)))
        }
        (Some(Cause::Paused), _) => run.bold("paused").text(format!(": {moved} · {took}{parts}")),
        (Some(Cause::StoppedFromOutside), _) => {
            run.bold("stopped by runs stop").text(format!(": {moved} · {took}{parts}"))
        }
        (Some(Cause::Errors(_)), _) => {
            run.bold("stopped itself").text(format!(": errors in a row · {moved} · {took}{parts}"))
        }
        (Some(Cause::Refailed { count, of, limit }), _) => run.bold("stopped itself").text(format!(
            ": {} of {} re-failed{}, limit {}% · {moved} · {took}{parts}",
            number(*count),
            number(*of),
            if it.parts > 1 { " in this part" } else { "" },
            (limit * 1e10).round() / 1e8
        )),
        (Some(Cause::Broker(_)), _) => run.bold("stopped").text(format!(": {moved} · {took}{parts}")),
        (Some(Cause::LockLost), _) => run
            .bold("stopped")
            .text(format!(": another process took {} over · {moved} · {took}{parts}", screen.queue)),
    }
}

/// Letters that did not move and are not in the dead-letter queue either: gone, settled unsent, or moved by another
/// run.
fn not_there(groups: &[(String, String, u64)]) -> u64 {
    let away =
        |outcome: &str, code: &str| outcome == "skipped" && matches!(code, "gone" | "twin" | "moved_before");
    groups.iter().filter(|(outcome, code, _)| away(outcome, code)).map(|(.., letters)| letters).sum()
}

fn speed(it: &Ended<'_>) -> String {
    let seconds = it.end.took.as_secs_f64();
    if seconds < 0.5 || it.parts > 1 {
        return String::new();
    }
    let rate = it.end.moved_now as f64 / seconds;
    if rate >= 100.0 { format!(", {}/s", number(rate.round() as u64)) } else { format!(", {rate:.1}/s") }
}

/// Whole seconds from ten on, so that an end reads like a duration and not like a measurement.
pub fn rough_seconds(took: Duration) -> String {
    let whole = if took.as_secs() >= 10 { Duration::from_secs(took.as_secs()) } else { took };
    rough(whole)
}

/// The letters that did not move, each with its reason; the many by number.
fn letters(ui: &mut Ui, it: &Ended<'_>) {
    let named = |note: &&Note| note.outcome == "failed" || note.outcome == "in_doubt";
    for note in it.notes.iter().filter(named).take(MOST_LINES) {
        let line = match note.outcome.as_str() {
            "failed" => Line::new().text("  ").red("failed").text("    "),
            _ => Line::new().text("  ").bold("in doubt").text("  "),
        };
        let what = match note.outcome.as_str() {
            "in_doubt" => "sent, answer not recorded".to_owned(),
            _ => match &note.text {
                Some(text) => format!("{}: {}", note.code, crate::render::cut(text, 60)),
                None => note.code.clone(),
            },
        };
        let group = note.group.as_deref().map(|group| format!("  {}", crate::render::cut(group, 24)));
        let event = note.event_id.as_deref().map(|id| format!("  {}", crate::render::cut(id, 24)));
        ui.say_folded(
            line.text(format!(
                "{what}{}{}  {}",
                event.unwrap_or_default(),
                group.unwrap_or_default(),
                note.letter
            )),
            LABEL,
        );
    }
    for (outcome, code, letters) in it.groups {
        let rest = match outcome.as_str() {
            "failed" | "in_doubt" => {
                let named =
                    it.notes.iter().filter(|note| note.outcome == *outcome && note.code == *code).count();
                letters.saturating_sub((named as u64).min(MOST_LINES as u64))
            }
            _ => *letters,
        };
        if rest == 0 || outcome == "unsettled" {
            continue;
        }
        let more = if matches!(outcome.as_str(), "failed" | "in_doubt") { " more" } else { "" };
        let line = format!("  {:<9} {}{more} {}", outcome.replace('_', " "), number(rest), reason(code));
        ui.say_folded(format!("{line}{}", of_groups(it.notes, outcome, code)), LABEL);
    }
}

/// Whose letters they are: the first groups, where they are held for a group's sake.
fn of_groups(notes: &[Note], outcome: &str, code: &str) -> String {
    if !matches!(code, "behind" | "behind_in_run") {
        return String::new();
    }
    let mut groups: Vec<&str> = Vec::new();
    for note in notes.iter().filter(|note| note.outcome == outcome && note.code == code) {
        if let Some(group) = note.group.as_deref()
            && !groups.contains(&group)
        {
            groups.push(group);
            if groups.len() > MOST_GROUPS {
                break;
            }
        }
    }
    let more = if groups.len() > MOST_GROUPS { ", …" } else { "" };
    let named: Vec<String> =
        groups.iter().take(MOST_GROUPS).map(|group| crate::render::cut(group, 24)).collect();
    if named.is_empty() { String::new() } else { format!(": {}{more}", named.join(", ")) }
}

/// What came back so far, or why nobody knows.
fn refailed(end: &End, screen: &RunScreen) -> String {
    match end.refailed {
        None => format!("  re-failed unknown: {}", why_unknown(end)),
        Some(0) => "  re-failed 0 so far".to_owned(),
        Some(letters) => format!(
            "  re-failed {} of the {} by now; they return to {} as new letters",
            number(letters),
            number(end.counts.moved),
            screen.queue
        ),
    }
}

/// Why nobody knows what came back.
fn why_unknown(end: &End) -> String {
    match &end.refailed_fault {
        Some(error) => format!("could not {}: {}", error.action, error.message),
        None => "looking for them would cost something here".to_owned(),
    }
}

/// A code of ours in words.
pub fn reason(code: &str) -> &str {
    match code {
        "behind" => "behind a letter that stays, as shown before",
        "behind_in_run" => "behind a letter that failed, is in doubt or was not seen in this run",
        "twin_stays" => "equal to a letter that did not arrive in this run, so they stay too (--dedupe)",
        "conflict" => "with an event id that another body has too",
        "open_elsewhere" => "left open by another run",
        "left_open" => "left open by another run since",
        "max_redrives" => "redriven as often as allowed",
        "dedup_window" => "older than dedup_window",
        "refused" => "must not be sent as they are",
        "other_origin" => "died in another queue",
        "too_large" => "larger than the broker takes",
        "no_group" => "without their ordering key",
        "moved_before" => "moved by another run",
        "overtaken" => "overtaken by a later message of its group",
        "gone" => "gone",
        "changed" => "not what they were",
        "twin" => "equal to one that was sent, settled unsent",
        "not_seen" => "not visible to the broker",
        "no_answer" => "sent, without an answer",
        "taken_as_gone" => "original not seen, gone as a person said",
        other => other,
    }
}

fn document(screen: &RunScreen, it: &Ended<'_>) -> serde_json::Value {
    let not_moved: Vec<_> = it
        .notes
        .iter()
        .filter(|note| note.outcome != "moved")
        .map(|note| {
            json!({
                "letter": note.letter, "event_id": note.event_id, "group": note.group,
                "outcome": note.outcome, "code": note.code, "text": note.text, "behind": note.behind,
            })
        })
        .collect();
    let counts = &it.end.counts;
    let mut document = json!({
        "schema": "redrive.run.v1",
        "run": screen.run,
        "channel": screen.channel,
        "broker": screen.broker,
        "target": screen.target,
        "place": screen.place,
        "state": it.state.word(),
        "exit": it.exit,
        "why": it.why,
        "reason": it.reason,
        "by": it.who,
        "started": it.started,
        "ended": it.ended,
        "took_ms": it.total.as_millis() as u64,
        "ledger_ms": it.end.recording.as_millis() as u64,
        "looking_ms": it.looking.as_millis() as u64,
        "parts": it.parts,
        "refailed": it.end.refailed,
        "counts": counts,
        "unsettled": it.end.unsettled,
        "taken_as_gone": it.end.taken_as_gone,
        "yielded_ms": it.end.yielded.as_millis() as u64,
        "not_moved": not_moved,
        "next": it.next,
    });
    if it.end.refailed.is_none() {
        document["unknown"] = json!({"refailed": why_unknown(it.end)});
    }
    if let Some(trimmed) = &it.end.trimmed {
        document["trimmed"] = json!(trimmed);
    }
    if let Some(Cause::Broker(error)) | Some(Cause::Errors(Some(error))) = &it.end.cause {
        document["error"] = json!({"action": error.action, "message": error.message, "code": error.code});
    }
    document
}

/// After the second signal.
pub fn left_at_once(ui: &mut Ui, screen: &RunScreen, atomic: bool, next: &[String]) {
    if ui.json() {
        return ui.document(&json!({
            "schema": "redrive.run.v1", "run": screen.run, "state": "left", "next": next,
        }));
    }
    let what = match atomic {
        true => {
            format!("{} undoes the open transaction; its letters stay and resume sends them", screen.broker)
        }
        false => "what was in flight is looked up or named in doubt by resume".to_owned(),
    };
    ui.tell_folded(format!("left at once: {what}"), 14);
    ui.next(next);
}
