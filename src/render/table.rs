//! Tables: laid out by comfy-table without borders, painted here, so that styles never count as columns.
//!
//! On a terminal whole columns are left out before any text is cut, and no row wraps; off a terminal
//! nothing is left out or cut.

use std::borrow::Cow;

use comfy_table::{Cell as Laid, CellAlignment, ContentArrangement, Table as Layout, TableStyle};

use super::Ui;
use super::line::{Line, Style, cut, width};

/// Least width to which a column is cut, where its own `max` does not say less.
const LEAST: usize = 12;
/// Columns between two columns.
const GAP: usize = 2;

/// How a column behaves.
#[derive(Debug, Clone)]
pub struct Column {
    header: Cow<'static, str>,
    right: bool,
    drop: Option<u8>,
    spare: Option<u8>,
    cuts: bool,
    folds: bool,
    max: Option<usize>,
}

impl Column {
    /// A column that starts at its left.
    pub fn left(header: impl Into<Cow<'static, str>>) -> Self {
        Self {
            header: header.into(),
            right: false,
            drop: None,
            spare: None,
            cuts: false,
            folds: false,
            max: None,
        }
    }

    /// A column of numbers.
    pub fn right(header: impl Into<Cow<'static, str>>) -> Self {
        Self { right: true, ..Self::left(header) }
    }

    /// May be left out on a narrow terminal; the lowest number goes first.
    #[must_use]
    pub fn drops(mut self, order: u8) -> Self {
        self.drop = Some(order);
        self
    }

    /// Is left out when even cutting was not enough; the lowest number goes first.
    #[must_use]
    pub fn spared(mut self, order: u8) -> Self {
        self.spare = Some(order);
        self
    }

    /// May be cut when leaving out columns was not enough.
    #[must_use]
    pub fn cuts(mut self) -> Self {
        self.cuts = true;
        self
    }

    /// The last column: what does not fit goes on in rows of its own, nothing is cut.
    #[must_use]
    pub fn folds(mut self) -> Self {
        self.folds = true;
        self
    }

    /// Is cut to this width on a terminal, whatever its width.
    #[must_use]
    pub fn max(mut self, columns: usize) -> Self {
        self.max = Some(columns);
        self.cuts = true;
        self
    }
}

/// One value in a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A value with a style.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    /// What one decides by.
    pub fn bold(text: impl Into<String>) -> Self {
        Self::new(text, Style::Bold)
    }

    /// An origin, a unit, a zero.
    pub fn dim(text: impl Into<String>) -> Self {
        Self::new(text, Style::Dim)
    }

    /// Lost or failed.
    pub fn red(text: impl Into<String>) -> Self {
        Self::new(text, Style::Red)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text, Style::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Style::Plain)
    }
}

/// Rows under columns. Print it with [`Ui::table`].
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    header: bool,
    indent: usize,
}

impl Table {
    /// An empty table of these columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), header: true, indent: 0 }
    }

    /// Without the line of headers.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.header = false;
        self
    }

    /// Moved to the right.
    #[must_use]
    pub fn indent(mut self, columns: usize) -> Self {
        self.indent = columns;
        self
    }

    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Has no rows?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, fitted to `limit` columns if there is a limit.
    pub fn lines(&self, limit: Option<usize>) -> Vec<Line> {
        let mut widths = self.widths();
        if let Some(limit) = limit {
            self.fit(&mut widths, limit.saturating_sub(self.indent));
        }
        let folded = limit.and_then(|limit| self.folded(&mut widths, limit.saturating_sub(self.indent)));
        let source = folded.as_ref().unwrap_or(&self.rows);
        let shown: Vec<(usize, usize)> =
            widths.iter().enumerate().filter_map(|(at, wide)| Some((at, (*wide)?))).collect();
        let text = |row: &[Cell]| -> Vec<(String, Style)> {
            shown
                .iter()
                .map(|(at, wide)| match row.get(*at) {
                    Some(cell) => (cut(&cell.text, *wide), cell.style),
                    None => (String::new(), Style::Plain),
                })
                .collect()
        };
        let mut rows: Vec<Vec<(String, Style)>> = Vec::with_capacity(self.rows.len() + 1);
        if self.header {
            let names =
                self.columns.iter().map(|column| Cell::dim(column.header.clone())).collect::<Vec<_>>();
            rows.push(text(&names));
        }
        rows.extend(source.iter().map(|row| text(row)));
        let lines = self.lay_out(&shown, &rows);
        match limit.filter(|_| folded.is_none()) {
            // Narrower than any of its columns.
            Some(limit) => lines.iter().map(|line| line.cut_to(limit)).collect(),
            None => lines,
        }
    }

    /// The rows with what is too wide for a last column that folds in rows of its own, if anything is.
    fn folded(&self, widths: &mut [Option<usize>], limit: usize) -> Option<Vec<Vec<Cell>>> {
        let at = self.columns.len().checked_sub(1).filter(|at| self.columns[*at].folds)?;
        let over = total(widths).checked_sub(limit).filter(|over| *over > 0)?;
        let room = widths[at]?.saturating_sub(over).max(LEAST);
        widths[at] = Some(room);
        let mut rows = Vec::new();
        for row in &self.rows {
            let Some(cell) = row.get(at) else {
                rows.push(row.clone());
                continue;
            };
            for (nth, part) in Line::new().text(cell.text.as_str()).wrapped(room, 2).into_iter().enumerate() {
                let mut cells = if nth == 0 { row[..at].to_vec() } else { vec![Cell::default(); at] };
                cells.push(Cell::new(part.plain().trim_end(), cell.style));
                rows.push(cells);
            }
        }
        Some(rows)
    }

    /// Natural widths of all columns; `None` is a column that is left out: one without any content.
    fn widths(&self) -> Vec<Option<usize>> {
        (0..self.columns.len())
            .map(|at| {
                let header = if self.header { width(&self.columns[at].header) } else { 0 };
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                let widest = cells.map(|cell| width(&super::escape::escape(&cell.text))).max().unwrap_or(0);
                (widest > 0 || header > 0).then_some(widest.max(header))
            })
            .collect()
    }

    /// Leaves out and cuts until the row fits.
    fn fit(&self, widths: &mut [Option<usize>], limit: usize) {
        for (wide, column) in widths.iter_mut().zip(&self.columns) {
            if let (Some(wide), Some(max)) = (wide.as_mut(), column.max) {
                *wide = (*wide).min(max.max(width(&column.header)));
            }
        }
        let least = |widths: &[Option<usize>]| -> Vec<Option<usize>> {
            let cut = |(at, wide): (usize, &Option<usize>)| {
                wide.map(|wide| if self.columns[at].cuts { wide.min(LEAST) } else { wide })
            };
            widths.iter().enumerate().map(cut).collect()
        };
        let first = |widths: &[Option<usize>], order: &dyn Fn(&Column) -> Option<u8>| {
            let shown = (0..widths.len()).filter(|at| widths[*at].is_some());
            shown.filter_map(|at| Some((order(&self.columns[at])?, at))).min().map(|(_, at)| at)
        };
        while total(widths) > limit {
            let Some(at) = first(widths, &|column| column.drop) else { break };
            widths[at] = None;
        }
        while total(&least(widths)) > limit {
            let Some(at) = first(widths, &|column| column.spare) else { break };
            widths[at] = None;
        }
        while total(widths) > limit {
            let over = total(widths) - limit;
            let cuttable = |at: &usize| self.columns[*at].cuts && widths[*at].unwrap_or(0) > LEAST;
            let Some(at) = (0..widths.len()).filter(cuttable).max_by_key(|at| widths[*at]) else { break };
            widths[at] = widths[at].map(|wide| wide.saturating_sub(over).max(LEAST));
        }
    }

    /// Has comfy-table place the cells, then paints them.
    fn lay_out(&self, shown: &[(usize, usize)], rows: &[Vec<(String, Style)>]) -> Vec<Line> {
        let mut layout = Layout::new();
        layout.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
        for row in rows {
            layout.add_row(row.iter().zip(shown).map(|((text, _), (at, _))| {
                let alignment =
                    if self.columns[*at].right { CellAlignment::Right } else { CellAlignment::Left };
                Laid::new(text).set_alignment(alignment)
            }));
        }
        for column in layout.column_iter_mut() {
            column.set_padding((0, GAP as u16));
        }
        let placed = layout.column_max_content_widths();
        let margin = " ".repeat(self.indent);
        layout.lines().zip(rows).map(|(text, row)| paint(&margin, &text, row, &placed)).collect()
    }
}

/// Columns that a row takes.
fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

/// Takes a laid-out line apart at its columns and styles each.
fn paint(margin: &str, text: &str, row: &[(String, Style)], placed: &[u16]) -> Line {
    let mut line = Line::new().text(margin);
    let mut rest = text.trim_end();
    for ((_, style), wide) in row.iter().zip(placed) {
        let (cell, after) = split_at_width(rest, usize::from(*wide) + GAP);
        let content = cell.trim_end();
        let blank = &content[..content.len() - content.trim_start().len()];
        line = line.text(blank).styled(*style, content.trim_start()).text(&cell[content.len()..]);
        rest = after;
    }
    line
}

/// Splits after `columns` columns.
fn split_at_width(text: &str, columns: usize) -> (&str, &str) {
    use unicode_segmentation::UnicodeSegmentation;
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        if used >= columns {
            return text.split_at(at);
        }
        used += width(grapheme);
    }
    (text, "")
}

impl Ui {
    /// Prints a table on stdout.
    pub fn table(&mut self, table: &Table) {
        for line in table.lines(self.columns()) {
            self.say(line);
        }
    }
}
