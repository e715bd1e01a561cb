//! What the outputs can show: colour, width, characters. Decided once, from the environment.

use std::io::IsTerminal;

/// Columns where a terminal does not tell.
const COLUMNS: usize = 100;

/// What standard output and error are connected to, and what their reader wants.
#[derive(Debug, Clone, Default)]
pub struct Terminal {
    /// Colour on standard output.
    pub colour_out: bool,
    /// Colour on standard error.
    pub colour_err: bool,
    /// Columns to fit standard output into; `None` off a terminal: nothing is cut.
    pub columns: Option<usize>,
    /// Lines are broken between words where they are wider than the outputs: a person reads them there.
    pub folds: bool,
    /// May what was printed be drawn over (progress)?
    pub animates: bool,
    /// Characters beyond ASCII.
    pub unicode: bool,
    /// Somebody can answer a question.
    pub answers: bool,
}

/// The environment's say, apart from what it is read from.
#[derive(Debug, Clone, Default)]
struct Wishes {
    no_colour: bool,
    force: bool,
    off: bool,
    dumb: bool,
}

impl Wishes {
    /// `NO_COLOR` is above all; then `CLICOLOR_FORCE`; then a terminal that is not dumb and no `CLICOLOR=0`.
    fn colour(&self, terminal: bool) -> bool {
        !self.no_colour && (self.force || (terminal && !self.dumb && !self.off))
    }
}

impl Terminal {
    /// As this process was started.
    pub fn of_process() -> Self {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let wishes = Wishes {
            no_colour: var("NO_COLOR").is_some(),
            force: var("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
            off: var("CLICOLOR").is_some_and(|value| value == "0"),
            dumb: var("TERM").is_some_and(|value| value == "dumb"),
        };
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        let asked = var("REDRIVE_WIDTH").and_then(|text| text.parse().ok());
        Self {
            colour_out: wishes.colour(out),
            colour_err: wishes.colour(err),
            columns: asked.or_else(|| out.then(columns_of_stdout)),
            folds: out || err,
            animates: err && !wishes.dumb,
            unicode: unicode(var("LC_ALL").or_else(|| var("LC_CTYPE")).or_else(|| var("LANG")).as_deref()),
            answers: std::io::stdin().is_terminal(),
        }
    }
}

/// A locale that is named and is not UTF-8 gets ASCII; an environment that names none is taken as modern.
fn unicode(locale: Option<&str>) -> bool {
    locale.is_none_or(|name| {
        let name = name.to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    })
}

/// Columns that a terminal echoes `^C` and another `^C` in, behind what is drawn.
const ECHO: usize = 4;
/// Rows where a terminal does not tell.
const ROWS: usize = 24;

impl Terminal {
    /// Columns and rows in which something may be drawn over, now: terminals change their size. Narrower than
    /// the terminal, so that no row wraps by itself and is counted as one.
    pub(super) fn room(&self) -> (usize, usize) {
        let (columns, rows) = match rustix::termios::tcgetwinsize(std::io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (usize::from(size.ws_col), usize::from(size.ws_row))
            }
            _ => (self.columns.unwrap_or(COLUMNS), ROWS),
        };
        let columns = columns.min(self.columns.unwrap_or(columns));
        (columns.saturating_sub(ECHO).max(1), rows.saturating_sub(1).max(1))
    }
}

fn columns_of_stdout() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => COLUMNS,
    }
}

/// Our own signs in ASCII, for a terminal that has nothing else (screens, principle 11).
pub(super) fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '·' => plain.push('-'),
            '…' => plain.push_str("..."),
            '→' => plain.push_str("->"),
            '×' => plain.push('x'),
            '−' => plain.push('-'),
            '░' => plain.push('.'),
            '▁'..='▄' => plain.push(':'),
            '▅'..='█' => plain.push('#'),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_the_conventions() {
        let off = Wishes::default();
        assert!(off.colour(true) && !off.colour(false));
        assert!(Wishes { force: true, ..off.clone() }.colour(false));
        assert!(!Wishes { force: true, no_colour: true, ..off.clone() }.colour(true));
        assert!(!Wishes { dumb: true, ..off.clone() }.colour(true));
        assert!(!Wishes { off: true, ..off.clone() }.colour(true));
        assert!(Wishes { off: true, force: true, ..off }.colour(false));
    }

    #[test]
    fn a_locale_without_utf8_gets_ascii() {
        assert!(unicode(None) && unicode(Some("en_GB.UTF-8")) && unicode(Some("C.utf8")));
        assert!(!unicode(Some("C")) && !unicode(Some("de_DE.ISO-8859-1")));
        assert_eq!(ascii("a · b … 1 → 2 ▁█░"), "a - b ... 1 -> 2 :#.");
    }
}
