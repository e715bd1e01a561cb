//! What `inspect` prints: causes, or letters put together by something else.

use serde_json::{Value as Json, json};

use super::looking::{Where, counted, last_part, print_notes, selection_json};
use super::units::{age, ago, count, number, share, short_minute};
use super::{Cell, Column, Line, Table, Ui};
use crate::clock::Time;
use crate::selection::Selection;
use crate::triage::{BUCKETS, Bucket, Buckets, By, Looked, Note, SOON, STEP};

/// Everything that the screen of causes shows.
pub struct Causes<'a> {
    /// Where was looked.
    pub place: &'a Where,
    /// Lines.
    pub buckets: &'a Buckets,
    /// The look.
    pub looked: &'a Looked,
    /// What was selected.
    pub selection: &'a Selection,
    /// How many lines are shown.
    pub shown: usize,
    /// Undo all cuts.
    pub full: bool,
    /// Remarks.
    pub notes: &'a [Note],
    /// The next command.
    pub next: &'a [String],
}

impl Causes<'_> {
    /// Prints it.
    pub fn print(&self, ui: &mut Ui) {
        if ui.json() {
            ui.document(&self.json());
            return;
        }
        let head = self.place.head(&self.looked.snapshot.queue, ui.columns());
        ui.say_folded(head, 2);
        ui.say_folded(self.summary(), 2);
        let lines = self.buckets.sorted();
        if !lines.is_empty() {
            ui.blank();
            let terminal = ui.columns().is_some();
            let table = if terminal { self.blocks(&lines) } else { self.rows(&lines) };
            let fitted = if self.full { None } else { ui.columns() };
            for line in table.lines(fitted) {
                ui.say(line);
            }
            ui.blank();
        }
        print_notes(ui, self.notes);
        ui.next(self.next);
    }

    fn summary(&self) -> Line {
        let buckets = self.buckets;
        let all = number(self.looked.seen);
        let letters = if self.selection.is_everything() {
            count(buckets.letters, "dead letter", "dead letters")
        } else {
            format!("{} of {all} dead letters", number(buckets.letters))
        };
        let (lines, others, at_least) = buckets.count();
        let (one, many) = buckets.by().nouns();
        let mut line = Line::new().bold(letters);
        if buckets.letters > 0 {
            let least = if at_least { "at least " } else { "" };
            line = line.text(format!(", {least}{}", count(lines + others, one, many)));
            if *buckets.by() != By::Group && buckets.groups().count() > 0 {
                let least = if buckets.groups().is_full() { "at least " } else { "" };
                line = line.text(format!(", {least}{}", count(buckets.groups().count(), "group", "groups")));
            }
        }
        if let (Some(first), Some(last)) = (buckets.first, buckets.last) {
            let now = self.place.at;
            line = line.text(format!(" · oldest {}, newest {}", age(now.since(first)), ago(last, now)));
        }
        line
    }

    fn has_groups(&self) -> bool {
        *self.buckets.by() != By::Group && self.buckets.groups().count() > 0
    }

    /// Two lines a cause, for a terminal: what, then why.
    fn blocks(&self, lines: &[&Bucket]) -> Table {
        let title = title(self.buckets.by());
        let column = Column::left(title);
        let mut columns = vec![Column::right("LETTERS"), if self.full { column } else { column.max(38) }];
        if self.has_groups() {
            columns.push(Column::right("GROUPS").drops(2));
        }
        columns.extend([
            Column::left("LAST").spared(1),
            Column::left("PAST 24H").drops(1),
            Column::left("EXPIRES").spared(2),
            Column::left("ID"),
        ]);
        let mut table = Table::new(columns);
        let now = self.place.at;
        let highest = lines.iter().flat_map(|line| line.histogram).max().unwrap_or(0);
        for line in lines.iter().take(self.shown) {
            let (what, why) = words(line, self.full);
            let id = line.cause.as_ref().map_or(String::new(), |cause| cause.id.to_string());
            let mut first = vec![Cell::bold(number(line.letters)), Cell::bold(what)];
            let mut second = vec![Cell::dim(share(line.letters, self.buckets.letters)), why.into()];
            if self.has_groups() {
                first.push(number(line.groups).into());
                second.push("".into());
            }
            let last = line.last.map_or("unknown".to_owned(), |at| ago(at, now));
            let from = line.first.map_or(String::new(), |at| format!("from {}", short_minute(at, now)));
            first.extend([
                last.into(),
                bars(&line.histogram, highest).into(),
                expires(line.expiry.first, now),
            ]);
            second.extend([Cell::dim(from), "".into(), "".into()]);
            if line.cause.is_some() {
                first.push(Cell::bold(id));
                second.push(Cell::dim(line.sample.to_string()));
                table.row(first);
                table.row(second);
            } else {
                first.push(Cell::dim(line.sample.to_string()));
                table.row(first);
            }
        }
        table
    }

    /// One line a cause, for a pipe.
    fn rows(&self, lines: &[&Bucket]) -> Table {
        let mut columns = vec![Column::right("LETTERS"), Column::right("SHARE")];
        let causes = *self.buckets.by() == By::Cause;
        columns.push(Column::left(title(self.buckets.by())));
        if causes {
            columns.push(Column::left("MESSAGE"));
        }
        if self.has_groups() {
            columns.push(Column::right("GROUPS"));
        }
        columns.extend([Column::left("FIRST"), Column::left("LAST"), Column::left("EXPIRES")]);
        if causes {
            columns.push(Column::left("ID"));
        }
        columns.push(Column::left("SAMPLE"));
        let mut table = Table::new(columns);
        let time = |at: Option<Time>| Cell::from(at.map_or("-".to_owned(), Time::rfc3339));
        for line in lines.iter().take(self.shown) {
            let (what, why) = words(line, true);
            let mut row =
                vec![line.letters.to_string().into(), share(line.letters, self.buckets.letters).into()];
            row.push(what.into());
            if causes {
                row.push(why.into());
            }
            if self.has_groups() {
                row.push(line.groups.to_string().into());
            }
            row.extend([time(line.first), time(line.last), time(line.expiry.first)]);
            if let Some(cause) = &line.cause {
                row.push(cause.id.to_string().into());
            }
            row.push(line.sample.to_string().into());
            table.row(row);
        }
        table
    }

    fn json(&self) -> Json {
        let buckets = self.buckets;
        let (_, others, _) = buckets.count();
        let groups = (buckets.groups().count() > 0 || buckets.letters == 0).then(|| buckets.groups().count());
        let lines: Vec<Json> =
            buckets.sorted().into_iter().take(self.shown).map(|line| line_json(line, buckets)).collect();
        let key = if *buckets.by() == By::Cause { "causes" } else { "lines" };
        let mut document = json!({
            "schema": "redrive.inspect.v1",
            "channel": self.place.channel,
            "broker": self.place.broker,
            "protected": self.place.protected,
            "at": self.place.at,
            "queue": self.looked.snapshot.queue,
            "selection": selection_json(self.selection),
            "letters": buckets.letters,
            "seen": self.looked.seen,
            "counted": counted(self.looked),
            "groups": groups,
            "hidden": self.looked.cost.hidden,
            "first": buckets.first,
            "last": buckets.last,
            "by": by_word(buckets.by()),
            key: lines,
            "other": {"causes": others, "letters": buckets.other_letters},
            "looking": {"read": self.looked.cost.read, "changed": self.looked.cost.changed},
            "notes": self.notes,
            "next": self.next,
        });
        if groups.is_none() {
            document["unknown"] = json!({"groups": "no letter has a group"});
        }
        document
    }
}

fn by_word(by: &By) -> String {
    match by {
        By::Header(name) => format!("header.{name}"),
        other => other.nouns().0.to_owned(),
    }
}

fn line_json(line: &Bucket, buckets: &Buckets) -> Json {
    let mut json = match &line.cause {
        Some(cause) => json!({
            "cause": cause.id,
            "letters": line.letters,
            "groups": line.groups,
            "error_class": cause.class,
            "message": cause.text,
        }),
        None => json!({"value": line.value, "letters": line.letters, "groups": line.groups}),
    };
    if buckets.groups().count() == 0 {
        json["groups"] = Json::Null;
    }
    json["first"] = json!(line.first);
    json["last"] = json!(line.last);
    json["expires"] = json!(line.expiry.first);
    json["expire_soon"] = json!(line.expiry.soon);
    json["past_retention"] = json!(line.expiry.past);
    json["sample"] = json!(line.sample);
    json["histogram"] = json!({"step_s": STEP.as_secs(), "counts": line.histogram});
    json
}

fn title(by: &By) -> &'static str {
    match by {
        By::Cause => "CAUSE",
        By::Error => "ERROR",
        By::Frame => "FRAME",
        By::Message => "MESSAGE",
        By::Origin => "ORIGIN",
        By::Group => "GROUP",
        By::Header(_) => "VALUE",
    }
}

/// What a line is called, and why its letters died.
fn words(line: &Bucket, full: bool) -> (String, String) {
    let Some(cause) = &line.cause else {
        return (line.value.clone().unwrap_or_else(|| "none".to_owned()), String::new());
    };
    match (&cause.class, cause.text.as_ref().filter(|text| !text.trim().is_empty())) {
        (None, None) => ("unknown".to_owned(), "no failure headers in the letter".to_owned()),
        (Some(class), None) => {
            (if full { class.clone() } else { last_part(class).to_owned() }, "no message".to_owned())
        }
        (Some(class), Some(text)) => {
            (if full { class.clone() } else { last_part(class).to_owned() }, text.clone())
        }
        (None, Some(text)) => (text.clone(), "no error class".to_owned()),
    }
}

/// Retention left, bold where it is short.
fn expires(first: Option<Time>, now: Time) -> Cell {
    match first {
        None => Cell::dim("-"),
        Some(at) if at <= now => Cell::red("past"),
        Some(at) if now.plus(SOON) >= at => Cell::bold(age(at.since(now))),
        Some(at) => age(at.since(now)).into(),
    }
}

/// A block per column; `▁` is at least one letter.
fn bars(counts: &[u64; BUCKETS], highest: u64) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    counts
        .iter()
        .map(|count| match (*count * 8).div_ceil(highest.max(1)) {
            0 => '.',
            level => LEVELS[(level as usize - 1).min(7)],
        })
        .collect()
}
