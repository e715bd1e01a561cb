//! What `inspect --letters` prints.

use serde_json::{Value as Json, json};

use super::looking::{Where, counted, last_part, note_words, print_notes, selection_json};
use super::units::{age, bytes, count, number};
use super::{Cell, Column, Table, Ui};
use crate::broker::Order;
use crate::selection::Selection;
use crate::triage::{Listed, Looked, Note};

/// Everything that a list of letters shows.
pub struct Letters<'a> {
    /// Where was looked.
    pub place: &'a Where,
    /// The look.
    pub looked: &'a Looked,
    /// What was selected.
    pub selection: &'a Selection,
    /// The oldest, as many as are shown.
    pub letters: &'a [Listed],
    /// They are the newest, and stand the newest first.
    pub newest: bool,
    /// What order the queue keeps.
    pub order: Order,
    /// Undo all cuts.
    pub full: bool,
    /// Remarks.
    pub notes: &'a [Note],
    /// The next command.
    pub next: &'a [String],
}

impl Letters<'_> {
    /// Prints it.
    pub fn print(&self, ui: &mut Ui) {
        match ui.format() {
            super::Format::Json => ui.document(&self.json()),
            super::Format::Jsonl => {
                for letter in self.letters {
                    let mut json = letter_json(letter);
                    json["schema"] = json!("redrive.letter.v1");
                    json["channel"] = json!(self.place.channel);
                    ui.document(&json);
                    if ui.closed() {
                        return;
                    }
                }
                // There is no field for it on any line, so it is said aside. What a run moved is no letter any more.
                for note in self.cut().iter().chain(self.notes) {
                    if matches!(note, Note::Listed { .. } | Note::Unseen { .. } | Note::Undecided { .. }) {
                        ui.tell(format!("note  {}", note_words(note)));
                    }
                }
            }
            super::Format::Table => self.table(ui),
        }
    }

    /// What the list leaves out.
    fn cut(&self) -> Option<Note> {
        let (shown, of) = (self.letters.len() as u64, self.looked.selected);
        (shown < of).then_some(Note::Listed { shown, of })
    }

    fn table(&self, ui: &mut Ui) {
        let selected = self.looked.selected;
        if self.letters.is_empty() {
            let head = self.place.head(&self.looked.snapshot.queue, ui.columns());
            ui.say_folded(head, 2);
            ui.say(format!("0 of {} shown", count(self.looked.seen, "dead letter", "dead letters")));
            print_notes(ui, self.notes);
            return ui.next(self.next);
        }
        let terminal = ui.columns().is_some();
        let now = self.place.at;
        let any_group = self.letters.iter().any(|letter| letter.group.is_some());
        let any_id = self.letters.iter().any(|letter| letter.event_id.is_some());
        let error = Column::left("ERROR");
        let mut columns =
            vec![Column::left("DIED").spared(3), Column::left("AGE"), Column::right("TRIES").spared(2)];
        if any_group {
            columns.push(Column::left("GROUP").drops(2));
        }
        columns.extend([Column::right("SIZE").spared(1), if self.full { error } else { error.max(29) }]);
        if any_id {
            columns.push(Column::left("EVENT ID").drops(1));
        }
        columns.push(Column::left("LETTER"));
        let mut table = Table::new(columns);
        for letter in self.letters {
            let died = match letter.died {
                None => "unknown".to_owned(),
                Some(at) if terminal => at.format("%d %b %H:%M:%SZ"),
                Some(at) => at.rfc3339(),
            };
            let old = letter.died.map_or("-".to_owned(), |at| age(now.since(at)));
            let mut row: Vec<Cell> =
                vec![died.into(), old.into(), letter.tries.map_or("-".to_owned(), |n| n.to_string()).into()];
            if any_group {
                row.push(letter.group.clone().unwrap_or_else(|| "-".to_owned()).into());
            }
            row.push(bytes(letter.size).into());
            let class = letter.class.as_deref().map(last_part);
            let message = letter.message.as_deref().filter(|message| !message.trim().is_empty());
            row.push(message.or(class).unwrap_or("unknown").into());
            if any_id {
                row.push(letter.event_id.clone().unwrap_or_else(|| "-".to_owned()).into());
            }
            row.push(Cell::bold(letter.id.to_string()));
            table.row(row);
        }
        let fitted = if self.full { None } else { ui.columns() };
        for line in table.lines(fitted) {
            ui.say(line);
            if ui.closed() {
                return;
            }
        }
        let shown = self.letters.len() as u64;
        let (shown, selected) = (number(shown), number(selected));
        ui.note(match (self.newest, self.looked.newest_only) {
            (false, _) => format!("{shown} of {selected} shown, oldest first{}", as_a_run(self.order)),
            (true, false) => format!("{shown} of {selected} shown, newest first"),
            (true, true) => {
                let most = number(self.looked.snapshot.count.number());
                format!("{shown} shown, newest first, of at most {most}: the others were not read")
            }
        });
        print_notes(ui, self.notes);
        ui.next(self.next);
    }

    fn json(&self) -> Json {
        json!({
            "schema": "redrive.letters.v1",
            "channel": self.place.channel,
            "broker": self.place.broker,
            "protected": self.place.protected,
            "at": self.place.at,
            "queue": self.looked.snapshot.queue,
            "selection": selection_json(self.selection),
            "order": if self.newest { "newest_first" } else { "oldest_first" },
            "selected": self.looked.selected,
            "seen": self.looked.seen,
            "counted": counted(self.looked),
            "hidden": self.looked.cost.hidden,
            "letters": self.letters.iter().map(letter_json).collect::<Vec<_>>(),
            "looking": {"read": self.looked.cost.read, "changed": self.looked.cost.changed},
            "notes": self.cut().iter().chain(self.notes).collect::<Vec<_>>(),
            "next": self.next,
        })
    }
}

/// How the list stands to the order of a run.
fn as_a_run(order: Order) -> &'static str {
    match order {
        Order::PerQueue | Order::PerGroup => ", as a run sends them",
        Order::PerPartition => "; a run keeps the order of each partition",
        Order::None => "; the queue keeps no order, and a run takes and sends them as they are handed out",
    }
}

fn letter_json(letter: &Listed) -> Json {
    json!({
        "letter": letter.id,
        "died": letter.died,
        "attempts": letter.tries,
        "group": letter.group,
        "size": letter.size,
        "body_len": letter.body_len,
        "error_class": letter.class,
        "message": letter.message,
        "event_id": letter.event_id,
        "cause": letter.cause,
        "expires": letter.expires,
        "redriven": letter.redriven,
        "moved_by": letter.moved_by,
    })
}
