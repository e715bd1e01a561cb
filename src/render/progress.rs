//! Progress on stderr: redrawn in place on a terminal, a line every ten seconds off it.
//!
//! The only file that knows indicatif.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::line::Line;
use super::{Ui, escape, terminal};

/// How often a line is printed where nothing can be redrawn.
const EVERY: Duration = Duration::from_secs(10);
/// Cells of a bar.
const CELLS: usize = 20;

/// A block of lines that shows how far something has come.
#[derive(Debug, Default)]
pub struct Progress {
    bar: Option<ProgressBar>,
    printed: Option<Duration>,
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
        if ui.animates() {
            let text: Vec<String> = lines.iter().map(|line| shown(ui, line)).collect();
            let bar = self.bar.get_or_insert_with(|| {
                ui.flush();
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
                if let Ok(style) = ProgressStyle::with_template("{msg}") {
                    bar.set_style(style);
                }
                bar
            });
            bar.set_message(text.join("\n"));
            bar.tick();
        } else if self.printed.is_none_or(|at| elapsed.saturating_sub(at) >= EVERY) {
            self.printed = Some(elapsed);
            if let Some(line) = lines.last() {
                ui.tell(line.clone());
            }
        }
    }

    /// Takes what is shown off the terminal, so that other lines can be printed.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn shown(ui: &Ui, line: &Line) -> String {
    let mut text = String::new();
    for (style, piece) in &line.pieces {
        let safe = escape(piece);
        let safe = if ui.terminal.unicode { safe } else { terminal::ascii(&safe).into() };
        text.push_str(&style.paint(&safe, ui.err.colour));
    }
    text
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
}
