//! Located problems as text: the source line, underlined, with what to do. The only file that knows
//! annotate-snippets.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::line::Line;
use super::{Ui, escape};
use crate::diagnostic::{Diagnostic, Severity};

/// A file as it is shown: its name, and its text with nothing secret in it, byte for byte as long as the
/// original.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Name, as it was given.
    pub name: &'a str,
    /// Text.
    pub text: &'a str,
}

/// The lines of one problem.
pub fn lines(problem: &Diagnostic, source: Source<'_>) -> Vec<Line> {
    let shown = printable(source.text);
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(escape(&problem.title).into_owned()).id(problem.code.0);
    let mut group = Group::with_title(title);
    if !problem.labels.is_empty() {
        let marks = problem.labels.iter().map(|label| {
            let kind = if label.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            kind.span(within(&shown, &label.span)).label(escape(&label.text).into_owned())
        });
        let snippet = Snippet::source(&shown).path(escape(source.name).into_owned()).line_start(1).fold(true);
        group = group.element(snippet.annotations(marks));
    }
    for help in &problem.help {
        group = group.element(Level::HELP.message(escape(help).into_owned()));
    }
    let text = Renderer::plain().term_width(usize::MAX / 2).render(&[group]);
    let rows: Vec<&str> = text.lines().map(str::trim_end).collect();
    // The renderer sets an empty row before the help; the help says enough by itself.
    let wanted = |at: &usize| {
        let before_help = rows.get(at + 1).is_some_and(|next| next.trim_start().starts_with("= help"));
        !(before_help && rows[*at].trim() == "|")
    };
    (0..rows.len())
        .filter(wanted)
        .map(|at| if at == 0 { Line::new().bold(rows[at]) } else { rows[at].into() })
        .collect()
}

/// Control characters of the file become `?` bytes, one each, so that every span still fits.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let hidden = c != '\n' && c != '\t' && super::acts_on_terminal(c);
            let times = if hidden { c.len_utf8() } else { 1 };
            std::iter::repeat_n(if hidden { '?' } else { c }, times)
        })
        .collect()
}

/// The span moved onto character borders inside the text.
fn within(text: &str, span: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let border = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = border(span.start);
    start..border(span.end).max(start)
}

impl Ui {
    /// Prints problems as the answer, on stdout, an empty line after each.
    pub fn say_problems(&mut self, problems: &[Diagnostic], source: Source<'_>) {
        for problem in problems {
            for line in lines(problem, source) {
                self.say(line);
            }
            self.blank();
        }
    }

    /// Prints problems that keep a verb from its answer, on stderr.
    pub fn tell_problems(&mut self, problems: &[Diagnostic], source: Source<'_>) {
        for problem in problems {
            for line in lines(problem, source) {
                self.tell(line);
            }
            self.tell(Line::new());
        }
    }
}

/// Line and column of a byte, both from 1, columns in characters.
pub fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..within(text, &(at..at)).start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;

    const TEXT: &str = "version: 1\nchannels:\n  orders:\n    source: orders\n    source: orders.v2\n";

    fn shown(problem: &Diagnostic, text: &str) -> String {
        let lines = lines(problem, Source { name: "redrive.yaml", text });
        lines.iter().map(|line| line.plain() + "\n").collect()
    }

    #[test]
    fn a_problem_looks_like_the_screens() {
        let second = TEXT.rfind("source").unwrap();
        let first = TEXT.find("source").unwrap();
        let problem = Diagnostic::error(Code("RD0104"), "`source` is given twice")
            .at(second..second + 6, "again here")
            .near(first..first + 6, "first here")
            .help("keep one of the two");
        insta::assert_snapshot!(shown(&problem, TEXT), @r"
        error[RD0104]: `source` is given twice
         --> redrive.yaml:5:5
          |
        4 |     source: orders
          |     ------ first here
        5 |     source: orders.v2
          |     ^^^^^^ again here
          = help: keep one of the two
        ");
    }

    #[test]
    fn o01_a_file_cannot_act_on_the_terminal() {
        let text = "a: \u{1b}[2J\u{202e}x\n";
        let problem = Diagnostic::warning(Code("RD0107"), "unknown key `\u{1b}`").at(3..7, "\u{9b}here");
        let shown = shown(&problem, text);
        assert!(!shown.chars().any(|c| c != '\n' && super::super::acts_on_terminal(c)), "{shown}");
        assert!(shown.starts_with("warning[RD0107]: unknown key `\\u{1b}`"));
    }

    #[test]
    fn a_span_outside_the_text_does_no_harm() {
        let problem = Diagnostic::error(Code("RD0100"), "ends early").at(5000..6000, "here");
        assert!(shown(&problem, "é").contains("RD0100"));
        assert!(shown(&problem, "").contains("RD0100"));
    }
}
