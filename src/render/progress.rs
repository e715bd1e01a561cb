//! Progress on stderr: redrawn in place on a terminal, a line every ten seconds off it.

use std::time::Duration;

use super::Ui;
use super::line::Line;

/// How often a line is printed where nothing can be redrawn.
const EVERY: Duration = Duration::from_secs(10);
/// How often a terminal is drawn anew at most.
const FRAME: Duration = Duration::from_millis(100);
/// Cells of a bar.
const CELLS: usize = 20;

/// A block of lines that shows how far something has come. It stands until something else is printed, or it
/// is [cleared](Self::clear).
#[derive(Debug, Default)]
pub struct Progress {
    at: Option<Duration>,
}

impl Progress {
    /// Nothing shown yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows `lines`. On a terminal they replace what was shown last, ten times a second at most. Off one
    /// the last line is printed if ten seconds of `elapsed` have passed since the last. Not with JSON.
    pub fn show(&mut self, ui: &mut Ui, elapsed: Duration, lines: &[Line]) {
        if ui.json() {
            return;
        }
        let wait = if ui.animates() { FRAME } else { EVERY };
        let drawn_over = ui.animates() && !ui.draws();
        if !drawn_over && self.at.is_some_and(|at| elapsed >= at && elapsed - at < wait) {
            return;
        }
        self.at = Some(elapsed);
        if ui.animates() {
            ui.draw(lines);
        } else if let Some(line) = lines.last() {
            ui.tell(line.clone());
        }
    }

    /// Takes what is shown off the terminal.
    pub fn clear(&mut self, ui: &mut Ui) {
        ui.erase();
    }
}

/// `██████████░░░░░░░░░░`: how much of `of` is done.
pub fn bar(done: u64, of: u64) -> String {
    let part = (done.min(of) * CELLS as u64).checked_div(of);
    let full = part.and_then(|cells| usize::try_from(cells).ok()).unwrap_or(CELLS);
    "█".repeat(full) + &"░".repeat(CELLS - full)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::render::Terminal;

    #[test]
    fn a_bar_is_full_only_when_all_is_done() {
        assert_eq!(bar(57, 119), "█████████░░░░░░░░░░░");
        assert_eq!(bar(118, 119).matches('░').count(), 1);
        assert_eq!(bar(119, 119).matches('░').count(), 0);
        assert_eq!(bar(0, 0).matches('█').count(), 20);
    }

    #[test]
    fn off_a_terminal_a_line_every_ten_seconds() {
        let (mut ui, captured) = Ui::captured();
        let mut progress = Progress::new();
        for second in 0..25 {
            progress.show(
                &mut ui,
                Duration::from_secs(second),
                &["head".into(), format!("at {second}").into()],
            );
        }
        assert_eq!(captured.err(), "at 0\nat 10\nat 20\n");
    }

    #[test]
    fn a_terminal_is_drawn_over_and_what_comes_next_takes_its_place() {
        let terminal = Terminal { columns: Some(24), animates: true, unicode: true, ..Terminal::default() };
        let (mut ui, captured) = Ui::captured_at(terminal);
        let mut progress = Progress::new();
        let mut show = |ui: &mut Ui, ms, lines: &[Line]| progress.show(ui, Duration::from_millis(ms), lines);
        show(&mut ui, 0, &["one".into(), "two".into()]);
        show(&mut ui, 50, &["too soon".into()]);
        // A line that is wider than the terminal has rows of its own, and room for the ^C that is echoed.
        show(&mut ui, 120, &["three four five six seven".into()]);
        ui.tell("a note");
        show(&mut ui, 130, &["at once".into()]);
        assert_eq!(
            captured.err(),
            "one\r\ntwo\
             \r\u{1b}[1A\u{1b}[Jthree four five six\r\n         seven\
             \r\u{1b}[1A\u{1b}[Ja note\n\
             at once"
        );
        progress.clear(&mut ui);
        assert!(captured.err().ends_with("at once\r\u{1b}[J"));
    }
}
