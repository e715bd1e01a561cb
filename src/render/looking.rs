//! What all screens of looking share: the head, the remarks, short names.

use serde_json::{Value as Json, json};

use super::units::{count, minute, moment, number};
use super::{Line, Ui, cut};
use crate::broker::Count;
use crate::clock::Time;
use crate::selection::Selection;
use crate::triage::{Looked, Note};

/// Columns that a value may take in a remark.
const NAME: usize = 40;

/// Where was looked, for the head of every screen.
#[derive(Debug, Clone)]
pub struct Where {
    /// Channel.
    pub channel: String,
    /// Broker, by its name.
    pub broker: String,
    /// Is it protected?
    pub protected: bool,
    /// When.
    pub at: Time,
}

impl Where {
    /// `orders · kafka (protected) · orders.dlq · 2026-11-30 03:12Z`.
    pub fn head(&self, queue: &str, columns: Option<usize>) -> Line {
        let protected = if self.protected { " (protected)" } else { "" };
        Line::new()
            .bold(self.channel.clone())
            .text(format!(" · {}{protected} · {queue} · ", self.broker))
            .dim(moment(self.at, columns))
    }
}

/// How surely the letters were counted.
pub(super) fn counted(looked: &Looked) -> &'static str {
    match looked.snapshot.count {
        // What was read was counted, and the rest was not read.
        _ if looked.newest_only => "newest_only",
        Count::About(_) => "about",
        Count::Exact(_) | Count::AtMost(_) => "exact",
    }
}

/// What was selected, for JSON.
pub(super) fn selection_json(selection: &Selection) -> Json {
    json!({
        "cause": selection.cause,
        "where": selection.filter.as_ref().map(ToString::to_string),
        "since": selection.since,
        "until": selection.until,
    })
}

/// `SocketTimeoutException` of `java.net.SocketTimeoutException`, `ReadTimeout` of `requests.ReadTimeout`.
pub(super) fn last_part(class: &str) -> &str {
    if class.contains(char::is_whitespace) {
        return class;
    }
    let part = class.rsplit(['.', ':', '\\', '/']).next().unwrap_or_default();
    if part.is_empty() { class } else { part }
}

/// The remarks, on stderr.
pub fn print_notes(ui: &mut Ui, notes: &[Note]) {
    for note in notes {
        ui.note(note_words(note));
    }
}

pub(super) fn note_words(note: &Note) -> String {
    let letters = |n: u64| count(n, "letter", "letters");
    let of = |name: Option<&String>| name.map(|name| format!(" of {}", cut(name, NAME))).unwrap_or_default();
    match note {
        Note::Hidden { read, hidden } => {
            let were = if *hidden == 1 { "was" } else { "were" };
            let are = if *hidden == 1 { "is" } else { "are" };
            let read = count(*read, "record", "records");
            format!(
                "Counted: {read} read; {} {were} redriven before and {are} not shown (--all).",
                number(*hidden)
            )
        }
        Note::LeftUnsettled { letters: n } => {
            let (is, mark) =
                if *n == 1 { ("is an original", "its mark") } else { ("are originals", "their marks") };
            format!(
                "{} {is} that a run copied and has not removed. If it was killed, its resume does that; if its \
                 ledger is lost, run --trim does, by {mark} (--limit 0 sends nothing else).",
                number(*n)
            )
        }
        Note::Undecided { letters: n } => {
            let (lack, are) = if *n == 1 { ("lacks", "is") } else { ("lack", "are") };
            format!("{} {lack} what was asked for and {are} left out.", letters(*n))
        }
        Note::PastRetention { cause, value, letters: n } => {
            let (are, they) = if *n == 1 { ("is", "it") } else { ("are", "they") };
            format!(
                "{}{} {are} already past retention: {they} can go at any moment.",
                letters(*n),
                of(cause.as_ref().or(value.as_ref()))
            )
        }
        Note::ExpiresSoon { cause, value, letters: n, first } => {
            let (expire, the_first) = if *n == 1 { ("expires", "") } else { ("expire", "the first ") };
            format!(
                "{}{} {expire} within 2d, {the_first}at {}.",
                letters(*n),
                of(cause.as_ref().or(value.as_ref())),
                minute(*first)
            )
        }
        Note::SharedGroups { groups, more_than_two } => {
            let hold = if *groups == 1 { "holds" } else { "hold" };
            let causes = if *more_than_two { "several causes" } else { "two causes" };
            let groups = count(*groups, "group", "groups");
            format!("{groups} {hold} letters of {causes}: order decides which may go first.")
        }
        Note::Ungrouped { letters: n } => {
            let have = if *n == 1 { "has" } else { "have" };
            format!("{} {have} no group: order says nothing about them.", letters(*n))
        }
        Note::Undated { letters: n } => format!("Of {} nobody says when they died.", letters(*n)),
        Note::GroupsAtLeast { groups } => format!("Groups were told apart up to {}.", number(*groups)),
        Note::Other { causes, by_cause, at_least, letters: n } => {
            let least = if *at_least { "at least " } else { "" };
            let (one, many) = if *by_cause { ("cause", "causes") } else { ("line", "lines") };
            let others = count(*causes, one, many);
            format!(
                "Beyond 1,000 {many}: {} of {least}{others}, counted as other. Narrow with --where.",
                letters(*n)
            )
        }
        Note::Shown { shown, of } => {
            format!("{} of {} shown, most letters first (--limit all).", number(*shown), number(*of))
        }
        Note::Listed { shown, of } => {
            format!(
                "{} of {} letters listed, the others left out (--limit all).",
                number(*shown),
                number(*of)
            )
        }
        Note::Unseen { what } => sentence(what),
        Note::LookingCost { changed } => format!("Looking cost: {}.", changed.join("; ")),
        Note::LookingChangedNothing => "Looking changed nothing.".to_owned(),
    }
}

fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}
