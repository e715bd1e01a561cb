//! A line for people: pieces of text with what they mean, before anything is escaped or coloured.
//!
//! Bold is what one decides by, dim are origins, units and zeros, red is lost or failed and nothing else.
//! A word always says it too.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::escape::escape;

/// What a piece means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Nothing particular.
    #[default]
    Plain,
    /// What one decides by.
    Bold,
    /// Origins, units, zeros.
    Dim,
    /// Lost or failed.
    Red,
}

impl Style {
    /// `text` in this style, by escape sequences of our own.
    pub(super) fn paint(self, text: &str, colour: bool) -> Cow<'_, str> {
        let code = match self {
            _ if !colour || text.is_empty() => return Cow::Borrowed(text),
            Self::Plain => return Cow::Borrowed(text),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
        };
        Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }
}

/// One line, of pieces. Text from outside may be put in as it is: it is escaped on the way out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    pub(super) pieces: Vec<(Style, String)>,
}

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text in a style.
    #[must_use]
    pub fn styled(mut self, style: Style, text: impl Into<String>) -> Self {
        self.pieces.push((style, text.into()));
        self
    }

    /// Adds plain text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.styled(Style::Plain, text)
    }

    /// Adds what one decides by.
    #[must_use]
    pub fn bold(self, text: impl Into<String>) -> Self {
        self.styled(Style::Bold, text)
    }

    /// Adds an origin, a unit, a zero.
    #[must_use]
    pub fn dim(self, text: impl Into<String>) -> Self {
        self.styled(Style::Dim, text)
    }

    /// Adds what is lost or failed.
    #[must_use]
    pub fn red(self, text: impl Into<String>) -> Self {
        self.styled(Style::Red, text)
    }

    /// Adds the pieces of another line.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.pieces.extend(other.pieces);
        self
    }

    /// The line broken between words so that no part is wider than `columns`, if a word allows it; parts
    /// after the first begin with `indent` blanks.
    #[must_use]
    pub fn wrapped(self, columns: usize, indent: usize) -> Vec<Self> {
        if self.width() <= columns {
            return vec![self];
        }
        let mut lines = vec![Self::new()];
        let mut used = 0;
        for (style, text) in self.pieces {
            for word in words(&escape(&text)) {
                let wide = width(word.trim_end_matches(' '));
                if used > indent && used + wide > columns {
                    // The blank behind the last word may be one column too many.
                    if let Some((_, end)) = lines.last_mut().and_then(|line| line.pieces.last_mut()) {
                        end.truncate(end.trim_end_matches(' ').len());
                    }
                    lines.push(Self::new().text(" ".repeat(indent)));
                    used = indent;
                }
                used += width(word);
                if let Some(last) = lines.last_mut() {
                    last.pieces.push((style, word.to_owned()));
                }
            }
        }
        lines
    }

    /// The line, cut to `columns` with `…` at its end if it is longer.
    #[must_use]
    pub fn cut_to(&self, columns: usize) -> Self {
        let mut room = columns;
        let mut line = Self::new();
        for (style, text) in &self.pieces {
            let text = cut(text, room);
            room = room.saturating_sub(width(&text));
            line.pieces.push((*style, text));
            if room == 0 {
                break;
            }
        }
        line
    }

    /// The line without styles, escaped.
    pub fn plain(&self) -> String {
        self.pieces.iter().map(|(_, text)| escape(text)).collect()
    }

    /// Columns it takes on a terminal, once escaped.
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| width(&escape(text))).sum()
    }
}

/// The words of a text, each with the blanks behind it. A size and its unit are one: `58.2 KiB`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.find(' ').map_or(rest.len(), |at| at + 1);
        let next = rest[end..].split([' ', ',', ';', ')']).next().unwrap_or_default();
        if rest.starts_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&next) {
            end += rest[end..].find(' ').map_or(rest.len() - end, |at| at + 1);
        }
        let word;
        (word, rest) = rest.split_at(end);
        (!word.is_empty()).then_some(word)
    })
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new().text(text)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::new().text(text)
    }
}

impl From<&String> for Line {
    fn from(text: &String) -> Self {
        Self::new().text(text.as_str())
    }
}

/// Columns that `text` takes on a terminal (O03).
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text`, escaped, cut to `columns` with `…` at its end if it is longer.
pub fn cut(text: &str, columns: usize) -> String {
    let safe = escape(text);
    if width(&safe) <= columns {
        return safe.into_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for grapheme in safe.graphemes(true) {
        let wide = width(grapheme);
        if used + wide + 1 > columns {
            break;
        }
        kept.push_str(grapheme);
        used += wide;
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_lines_break_between_words_and_keep_their_styles() {
        let line = Line::new().dim("note").text("  one two three ").bold("four five");
        let lines: Vec<String> = line.clone().wrapped(16, 6).iter().map(Line::plain).collect();
        assert_eq!(lines, ["note  one two", "      three four", "      five"]);
        assert_eq!(line.clone().wrapped(40, 6), [line]);
        let size = Line::new().text("5 letters; 14.5 KiB, KiB 2 B");
        let lines: Vec<String> = size.wrapped(18, 2).iter().map(Line::plain).collect();
        assert_eq!(lines, ["5 letters;", "  14.5 KiB, KiB", "  2 B"]);
        assert_eq!(words("").count(), 0);
    }

    #[test]
    fn o03_cuts_count_columns_not_characters() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("東京都庁", 5), "東京…");
        assert_eq!(cut("東京都庁", 4), "東…");
        assert_eq!(cut("a\nb", 10), "a\\nb");
        assert_eq!(cut("abc", 0), "");
    }

    proptest! {
        #[test]
        fn o03_a_cut_is_never_too_wide(text in any::<String>(), columns in 0usize..40) {
            prop_assert!(width(&cut(&text, columns)) <= columns);
        }
    }
}
