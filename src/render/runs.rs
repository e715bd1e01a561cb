//! The screens of `runs`: the list, and one run with every letter that did not move.

use serde_json::json;

use super::units::{number, short_second, when};
use super::{Cell, Column, Line, Style, Table, Ui};
use crate::clock::Time;
use crate::ledger::{Ledger, LedgerError, LetterState, RunRow, RunState, Writes};
use crate::manifest::Reader;
use crate::render::run::{reason, rough_seconds, six};

/// What a run is doing, in a word.
fn state(row: &RunRow, alive: bool) -> &'static str {
    match row.state {
        RunState::Running if !alive => "died",
        other => other.word(),
    }
}

fn plain(text: impl Into<String>) -> Cell {
    Cell::new(text, Style::Plain)
}

/// `runs list`.
pub struct List<'r> {
    /// The latest first.
    pub rows: &'r [RunRow],
    /// Of each: does its process live?
    pub alive: &'r [bool],
    /// Earlier ones are left out.
    pub more: bool,
    /// The channel and the broker that were asked for.
    pub asked: (Option<&'r str>, Option<&'r str>),
    /// Channels and brokers of which there are runs, if there is none of what was asked for.
    pub others: &'r [(String, String)],
}

impl List<'_> {
    /// Prints it.
    pub fn print(&self, ui: &mut Ui, now: Time, next: &[String]) {
        let Self { rows, alive, more, .. } = *self;
        if ui.json() {
            let runs: Vec<_> = rows
                .iter()
                .zip(alive)
                .map(|(row, alive)| {
                    let mut run = json!(row);
                    run["state"] = json!(state(row, *alive));
                    run["run"] = run["id"].take();
                    run["by"] = json!(row.who);
                    if let Some(run) = run.as_object_mut() {
                        run.remove("id");
                    }
                    run
                })
                .collect();
            let document =
                json!({"schema": "redrive.runs.v1", "at": now, "runs": runs, "more": more, "next": next});
            return ui.document(&document);
        }
        if rows.is_empty() {
            return ui.note(self.none());
        }
        let mut table = Table::new(vec![
            Column::left("STARTED").spared(2),
            Column::left("BY").drops(2),
            Column::left("STATE"),
            Column::right("PLANNED").spared(1),
            Column::right("MOVED"),
            Column::right("OTHER").drops(3),
            Column::right("TOOK").drops(1),
            Column::left("REASON").cuts().spared(3),
            Column::left("RUN"),
        ]);
        let terminal = ui.columns().is_some();
        for (row, alive) in rows.iter().zip(alive) {
            let other = row.counts.planned.saturating_sub(row.counts.moved);
            table.row(vec![
                plain(if terminal { row.started.format("%d %b %H:%MZ") } else { row.started.rfc3339() }),
                plain(row.who.clone()),
                plain(state(row, *alive)),
                plain(number(row.counts.planned)),
                plain(number(row.counts.moved)),
                plain(number(other)),
                plain(rough_seconds(std::time::Duration::from_millis(row.took_ms))),
                plain(row.reason.clone()),
                Cell::bold(row.id.clone()),
            ]);
        }
        ui.table(&table);
        if more {
            ui.note(format!("The latest {} shown, there are more (--limit N).", number(rows.len() as u64)));
        }
    }

    /// In words, with what there is instead.
    fn none(&self) -> String {
        let mut asked = String::new();
        for (word, name) in [("of", self.asked.0), ("on", self.asked.1)] {
            asked.extend(name.map(|name| format!(" {word} {name}")));
        }
        if asked.is_empty() || self.others.is_empty() {
            return format!("No runs{asked} are recorded here yet.");
        }
        let there: Vec<String> =
            self.others.iter().map(|(channel, broker)| format!("{channel} on {broker}")).collect();
        format!("No runs{asked} are recorded here; there are some of {}.", there.join(", "))
    }
}

/// `runs show`.
///
/// # Errors
/// The ledger's.
pub fn show(
    ui: &mut Ui,
    ledger: &Ledger,
    row: &RunRow,
    alive: bool,
    full: bool,
    now: Time,
    next: &[String],
) -> Result<(), LedgerError> {
    if ui.json() {
        return audit(ui, ledger, row, alive, next);
    }
    let word = match (row.state, alive) {
        (RunState::Running, true) => "is running".to_owned(),
        (RunState::Running, false) => {
            let host = last_host(ledger, row)?.map(|host| format!("on {host} ")).unwrap_or_default();
            format!("did not end: last sign of it {host}at {}", short_second(row.seen, row.started))
        }
        (other, _) => other.word().to_owned(),
    };
    ui.say_folded(
        Line::new()
            .bold(format!("run {} {word}", row.id))
            .text(format!(" · {} · {} · {}", row.channel, row.broker, row.reason)),
        2,
    );
    six(ui, &row.counts);
    let parts = if row.parts > 1 { format!(" in {} parts", row.parts) } else { String::new() };
    let columns = ui.columns();
    ui.say(format!("  begun     {} by {}", when(row.started, columns), row.who));
    ui.say(format!(
        "  took      {}{parts} at {}",
        rough_seconds(std::time::Duration::from_millis(row.took_ms)),
        ledger.last_rate(row)?
    ));
    if let Some(why) = ledger.why_ended(row, alive)? {
        ui.say_folded(format!("  ended     {why}"), 12);
    }
    let chosen = if row.selection.is_empty() { "all of its manifest" } else { &row.selection };
    ui.say_folded(format!("  moves     {} to {}, {chosen}", row.queue, row.target), 12);
    if row.path == "broker_move" {
        ui.say("  how       by the broker itself: no letter is named here, counts are its estimates");
    }
    if row.unsettled > 0 {
        ui.say(format!("  unsettled {} moved, original not removed", number(row.unsettled)));
    }
    for event in ledger.events(row.n)? {
        let text = event.text.map(|text| format!("  {text}")).unwrap_or_default();
        let at = if columns.is_some() { short_second(event.at, row.started) } else { event.at.rfc3339() };
        ui.say_folded(
            Line::new().text("  ").dim(at).text(format!("  {} by {}{text}", event.what, event.who)),
            13,
        );
    }
    let most = if full { usize::MAX } else { 40 };
    let mut after = 0;
    let (mut shown, mut unasked) = (0, 0);
    if !alive {
        each_intended(ledger, row, |open| {
            unasked += 1;
            if shown == most {
                return;
            }
            shown += 1;
            let event = open.event_id.as_deref().map(|id| format!("  {}", super::cut(id, 24)));
            let group = open.group.as_deref().map(|group| format!("  {}", super::cut(group, 24)));
            let (event, group) = (event.unwrap_or_default(), group.unwrap_or_default());
            let what = "in doubt   sent, answer not recorded";
            ui.say_folded(format!("  {what}{event}{group}  {}", open.letter), 12);
        })?;
    }
    'pages: loop {
        let page = ledger.notes(row.n, after, 1000)?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for note in &page {
            if shown == most {
                ui.note("More letters did not move (--full).");
                break 'pages;
            }
            shown += 1;
            let behind = note.behind.as_ref().map(|behind| format!(" {behind}")).unwrap_or_default();
            let what = match note.outcome.as_str() {
                "failed" => match &note.text {
                    Some(text) => format!("{}: {}", note.code, super::cut(text, 60)),
                    None => note.code.clone(),
                },
                "held" if matches!(note.code.as_str(), "open_elsewhere" | "left_open") => {
                    let run = note.text.as_deref().unwrap_or("another");
                    format!("left open by run {}", super::cut(run, 24))
                }
                "held" if !behind.is_empty() && note.code.starts_with("behind") => format!("behind{behind}"),
                _ => reason(&note.code).to_owned(),
            };
            let outcome = note.outcome.replace('_', " ");
            let line = match note.outcome.as_str() {
                "failed" => Line::new().text("  ").red(format!("{outcome:<9}")),
                _ => Line::new().text(format!("  {outcome:<9}")),
            };
            let event = note.event_id.as_deref().map(|id| format!("  {}", super::cut(id, 24)));
            let group = note.group.as_deref().map(|group| format!("  {}", super::cut(group, 24)));
            ui.say_folded(
                line.text(format!(
                    " {what}{}{}  {}",
                    event.unwrap_or_default(),
                    group.unwrap_or_default(),
                    note.letter
                )),
                12,
            );
        }
    }
    if full {
        moved_letters(ui, ledger, row)?;
    }
    let asked = row.counts.in_doubt.saturating_sub(unasked);
    if asked > 0 && !alive {
        super::run::doubt(ui, &row.broker, asked);
    }
    if unasked > 0 {
        ui.note(format!(
            "{} in doubt until resume asks {} what came of {}; nobody has asked yet.",
            if unasked == 1 { "1 is".to_owned() } else { format!("{} are", number(unasked)) },
            row.broker,
            if unasked == 1 { "it" } else { "them" },
        ));
    }
    if behind_the_broker(row, alive) {
        ui.note(format!("{}.", BEHIND));
    }
    let _ = now;
    ui.next(next);
    Ok(())
}

/// What the counts of such a run leave open.
const BEHIND: &str = "These counts are the ledger's, which is written now and then; what moved since is known to the \
                      broker, by its marks, and resume asks it";

/// Did it die where the broker knows more than the ledger? Copy and mark were one transaction there.
fn behind_the_broker(row: &RunRow, alive: bool) -> bool {
    row.state == RunState::Running && !alive && row.path == "transaction"
}

/// The host of the run's last part.
fn last_host(ledger: &Ledger, row: &RunRow) -> Result<Option<String>, LedgerError> {
    let events = ledger.events(row.n)?;
    let last = events.iter().rev().find(|event| matches!(event.what.as_str(), "begun" | "resumed"));
    let who = last.map_or(row.who.as_str(), |event| event.who.as_str());
    Ok(who.rsplit_once('@').map(|(_, host)| host.to_owned()))
}

/// Letters that a process left without word whether they went: in doubt, though nobody has written so yet.
fn each_intended(
    ledger: &Ledger,
    row: &RunRow,
    mut each: impl FnMut(&crate::ledger::OpenLetter),
) -> Result<(), LedgerError> {
    let mut after = 0;
    loop {
        let page = ledger.open_letters(row.n, after, 1000)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.iter().filter(|open| open.state == LetterState::Intended).for_each(&mut each);
    }
}

fn moved_letters(ui: &mut Ui, ledger: &Ledger, row: &RunRow) -> Result<(), LedgerError> {
    each_line(ledger, row, |line, state| {
        if matches!(state, LetterState::Settled | LetterState::Published) {
            let event = line.event_id.as_deref().map(|id| format!("  {}", super::cut(id, 24)));
            ui.say(format!("  moved     {}{}", line.letter, event.unwrap_or_default()));
        }
    })
}

fn each_line(
    ledger: &Ledger,
    row: &RunRow,
    mut each: impl FnMut(crate::manifest::Line, LetterState),
) -> Result<(), LedgerError> {
    let path = ledger.manifest_path(&row.id)?;
    let mut writes = Writes::of(row.n);
    let Ok(mut reader) = Reader::open(&path) else { return Ok(()) };
    while let Ok(Some(line)) = reader.next_line() {
        let state = writes.state(ledger, line.seq)?;
        each(line, state);
    }
    Ok(())
}

/// The whole audit: the run, what happened to it, and every letter's outcome.
fn audit(
    ui: &mut Ui,
    ledger: &Ledger,
    row: &RunRow,
    alive: bool,
    next: &[String],
) -> Result<(), LedgerError> {
    let mut letters = Vec::new();
    let mut after = 0;
    let mut notes = std::collections::BTreeMap::new();
    loop {
        let page = ledger.notes(row.n, after, 1000)?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        notes.extend(page.into_iter().map(|note| (note.seq, note)));
    }
    each_line(ledger, row, |line, state| {
        let note = notes.get(&line.seq);
        let outcome = match (state, note) {
            (LetterState::Settled | LetterState::Published, _) => "moved",
            // Its copy may be there; while the process lives it is about to say.
            (LetterState::Intended, _) if alive => "in_flight",
            (LetterState::Intended | LetterState::InDoubt, _) => "in_doubt",
            (_, Some(note)) => note.outcome.as_str(),
            (_, None) => "untouched",
        };
        letters.push(json!({
            "seq": line.seq,
            "letter": line.letter,
            "event_id": line.event_id,
            "group": line.group,
            "cause": line.cause,
            "body_sha256": line.body,
            "outcome": outcome,
            "state": state,
            "code": note.map(|note| note.code.as_str()),
            "text": note.and_then(|note| note.text.as_deref()),
            "behind": note.and_then(|note| note.behind.as_deref()),
        }));
    })?;
    let mut document = json!(row);
    document["run"] = document["id"].take();
    document["by"] = json!(row.who);
    if let Some(document) = document.as_object_mut() {
        document.remove("id");
        document.insert("schema".to_owned(), json!("redrive.runs.show.v1"));
        document.insert("state".to_owned(), json!(state(row, alive)));
        document.insert("why".to_owned(), json!(ledger.why_ended(row, alive)?));
        if behind_the_broker(row, alive) {
            document.insert("unknown".to_owned(), json!({"counts": BEHIND}));
        }
        // How it was begun: order, limits, ways, the flags that its letters were judged by; and how each resume went.
        let mut settings = serde_json::from_str(&row.settings).unwrap_or(serde_json::Value::Null);
        let resumes = settings.as_object_mut().and_then(|settings| {
            settings.retain(|key, _| key != "skipped" && key != "held");
            settings.remove("parts")
        });
        document.insert("resumes".to_owned(), resumes.unwrap_or_else(|| json!([])));
        document.insert("settings".to_owned(), settings);
        document.insert("events".to_owned(), json!(ledger.events(row.n)?));
        document.insert("letters".to_owned(), json!(letters));
        document.insert("next".to_owned(), json!(next));
    }
    ui.document(&document);
    Ok(())
}
