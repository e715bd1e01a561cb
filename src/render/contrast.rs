//! What `inspect --diff` prints.

use serde_json::json;

use super::looking::Where;
use super::units::{count, number, second, share};
use super::{Cell, Column, Line, Style, Table, Ui};
use crate::triage::{Contrast, Looked};

/// Prints what sets a cause apart.
pub fn print_contrast(ui: &mut Ui, place: &Where, looked: &Looked, contrast: &Contrast, next: &[String]) {
    let differences = contrast.differences(20);
    let cause = contrast.causes.first().map_or("", String::as_str);
    let window = contrast.window;
    let inside_window = contrast.outside_in_window();
    if ui.json() {
        ui.document(&json!({
            "schema": "redrive.inspect-diff.v1",
            "channel": place.channel,
            "broker": place.broker,
            "protected": place.protected,
            "at": place.at,
            "cause": cause,
            "letters": contrast.inside,
            "other_letters": contrast.outside,
            "window": {"first": window.map(|w| w.0), "last": window.map(|w| w.1), "other_letters_about": inside_window},
            "differences": differences,
            "next": next,
        }));
        return;
    }
    let head = place.head(&looked.snapshot.queue, ui.columns());
    ui.say_folded(head, 2);
    let whose = Line::new()
        .bold(format!("{} of cause {cause}", count(contrast.inside, "letter", "letters")))
        .text(format!(", against {} of other causes", number(contrast.outside)));
    ui.say_folded(whose, 2);
    if let Some((from, to)) = window {
        let others =
            inside_window.map(|n| format!("; about {} others died then", number(n))).unwrap_or_default();
        ui.say_folded(format!("died from {} to {}{others}", second(from), second(to)), 2);
    }
    if !differences.is_empty() {
        ui.blank();
        let mut table = Table::new([
            Column::right("THESE"),
            Column::right("OTHERS"),
            Column::left("FIELD").cuts(),
            Column::left("VALUE").cuts(),
        ]);
        for difference in &differences {
            let value =
                difference.feature.value.clone().map_or(Cell::new("is there", Style::Dim), Cell::from);
            table.row([
                Cell::bold(of_all(difference.inside, contrast.inside)),
                of_all(difference.outside, contrast.outside).into(),
                difference.feature.field.clone().into(),
                value,
            ]);
        }
        ui.table(&table);
        ui.blank();
    } else {
        let why = if contrast.outside == 0 {
            "there are no other letters"
        } else {
            "no value is 10% more frequent on one side"
        };
        ui.say_folded(format!("Nothing sets them apart: {why}."), 2);
    }
    ui.next(next);
}

/// How many letters, and what share of theirs: `6 86%`.
fn of_all(some: u64, all: u64) -> String {
    format!("{} {:>4}", number(some), share(some, all))
}
