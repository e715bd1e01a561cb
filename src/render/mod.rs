//! The only module that writes to the terminal.
//!
//! [`Ui`] is passed to every verb. The answer goes to stdout; notes, prompts, progress and the next command
//! go to stderr. Everything printed is escaped here, on its way out, so a verb cannot forget to (O01).
//! Printing never fails: a reader that has gone ends the output quietly (O05), any other trouble is kept and
//! told at the end, and neither stops a move half-way.

mod body;
pub mod contrast;
pub mod diagnostic;
mod escape;
pub mod inspect;
mod json;
pub mod letters;
mod line;
mod log;
pub mod looking;
pub mod plan;
mod progress;
pub mod relay;
pub mod run;
pub mod runs;
pub mod show;
pub mod status;
mod table;
mod terminal;
pub mod units;

use std::io::{self, BufRead, BufWriter, Write};
use std::sync::{Arc, Mutex};

use serde::Serialize;

pub use escape::{acts_on_terminal, escape, escape_bytes};
pub use line::{Line, Style, cut, width};
pub use log::{log_to_stderr, report_bug};
pub use progress::{Progress, bar};
pub use table::{Cell, Column, Table};
pub use terminal::Terminal;

/// How answers are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// JSON, one document a line.
    Jsonl,
}

/// One stream and what it can show.
struct Output {
    writer: Box<dyn Write + Send>,
    colour: bool,
}

/// The terminal, as verbs see it.
pub struct Ui {
    out: Output,
    err: Output,
    input: Box<dyn BufRead + Send>,
    terminal: Terminal,
    format: Format,
    closed: bool,
    aside: bool,
    /// Rows of the block that is drawn over, the cursor behind the last; 0: none stands.
    drawn: usize,
    trouble: Option<io::Error>,
}

/// Blanks before the second row of a line in a block that is drawn over.
const BESIDE: usize = 9;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A line, without its end.
    Said(String),
    /// Nobody can answer: no terminal.
    Nobody,
}

impl Ui {
    /// On this process's own streams.
    pub fn of_process() -> Self {
        let terminal = Terminal::of_process();
        Self::new(
            terminal,
            Box::new(BufWriter::new(io::stdout())),
            Box::new(io::stderr()),
            Box::new(io::BufReader::new(io::stdin())),
        )
    }

    /// On any streams.
    pub fn new(
        terminal: Terminal,
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
        input: Box<dyn BufRead + Send>,
    ) -> Self {
        Self {
            out: Output { writer: out, colour: terminal.colour_out },
            err: Output { writer: err, colour: terminal.colour_err },
            input,
            terminal,
            format: Format::Table,
            closed: false,
            aside: false,
            drawn: 0,
            trouble: None,
        }
    }

    /// Into memory, for tests of rendering: 100 columns, no colour.
    pub fn captured() -> (Self, Captured) {
        Self::captured_at(Terminal { columns: Some(100), unicode: true, ..Terminal::default() })
    }

    /// Into memory, as at any terminal.
    pub fn captured_at(terminal: Terminal) -> (Self, Captured) {
        let captured = Captured::default();
        let ui = Self::new(
            terminal,
            Box::new(captured.out.clone()),
            Box::new(captured.err.clone()),
            Box::new(io::empty()),
        );
        (ui, captured)
    }

    /// Chooses how answers are given.
    pub fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    /// Moves what people read to stderr: stdout carries other lines, such as events, and nothing between them.
    pub fn stand_aside(&mut self) {
        self.aside = true;
    }

    /// How answers are given.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Does the reader want JSON? Then notes are fields of it and not printed.
    pub fn json(&self) -> bool {
        self.format != Format::Table
    }

    /// Columns to fit the answer into; `None` off a terminal, where nothing is cut and times are RFC 3339.
    pub fn columns(&self) -> Option<usize> {
        self.terminal.columns
    }

    /// Columns of what is [drawn over](Self::draw).
    pub fn drawn_columns(&self) -> usize {
        self.terminal.room().0
    }

    /// May progress be drawn over in place?
    pub fn animates(&self) -> bool {
        self.terminal.animates
    }

    /// Can somebody answer a question?
    pub fn answers(&self) -> bool {
        self.terminal.answers
    }

    /// Has the reader of stdout gone? A verb that prints much may stop then.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// A line of the answer, on stdout.
    pub fn say(&mut self, line: impl Into<Line>) {
        if self.aside {
            return self.tell(line);
        }
        let text = self.compose(&line.into(), self.out.colour);
        self.put(text.as_bytes());
    }

    /// A line of the answer that is broken between words where the terminal is narrower, with `indent` blanks
    /// before what follows.
    pub fn say_folded(&mut self, line: impl Into<Line>, indent: usize) {
        for part in line.into().wrapped(self.folding(), indent) {
            self.say(part);
        }
    }

    /// An empty line of the answer.
    pub fn blank(&mut self) {
        if self.aside {
            return self.tell(Line::new());
        }
        self.put(b"\n");
    }

    /// A JSON document of the answer: over several lines, or on one with `-o jsonl`.
    pub fn document(&mut self, value: &impl Serialize) {
        let bytes = match self.format {
            Format::Jsonl => json::compact(value),
            Format::Json | Format::Table => json::pretty(value),
        };
        match bytes {
            Ok(mut bytes) => {
                bytes.push(b'\n');
                self.put(&bytes);
            }
            Err(error) => {
                self.trouble.get_or_insert(io::Error::other(error));
            }
        }
    }

    /// Bytes of the answer exactly as they are. Only for what was asked for raw.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// A line on stderr as it is, below everything said so far.
    pub fn tell(&mut self, line: impl Into<Line>) {
        let text = self.compose(&line.into(), self.err.colour);
        self.erase();
        self.flush();
        // Nothing can be done about a closed stderr, and nothing depends on it.
        let _ = self.err.writer.write_all(text.as_bytes());
        let _ = self.err.writer.flush();
    }

    /// [`Self::tell`], broken between words where the terminal is narrower.
    pub fn tell_folded(&mut self, line: impl Into<Line>, indent: usize) {
        for part in line.into().wrapped(self.folding(), indent) {
            self.tell(part);
        }
    }

    /// Columns at which a line is broken for a person.
    fn folding(&self) -> usize {
        self.terminal.columns.filter(|_| self.terminal.folds).unwrap_or(usize::MAX)
    }

    /// Draws a block of lines on stderr, over the one that stands there. Anything printed later takes its place.
    pub fn draw(&mut self, lines: &[Line]) {
        let (columns, rows) = self.terminal.room();
        let mut parts: Vec<Line> =
            lines.iter().cloned().flat_map(|line| line.wrapped(columns, BESIDE)).collect();
        parts.truncate(rows);
        let mut text = self.over_drawn();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                text.push_str("\r\n");
            }
            let part = part.cut_to(columns);
            text.push_str(self.compose(&part, self.err.colour).trim_end());
        }
        self.flush();
        let _ = self.err.writer.write_all(text.as_bytes());
        let _ = self.err.writer.flush();
        self.drawn = parts.len();
    }

    /// Does a block stand there that can be drawn over?
    pub fn draws(&self) -> bool {
        self.drawn > 0
    }

    /// Takes the block off the terminal.
    pub fn erase(&mut self) {
        if self.drawn > 0 {
            let text = self.over_drawn();
            self.drawn = 0;
            let _ = self.err.writer.write_all(text.as_bytes());
            let _ = self.err.writer.flush();
        }
    }

    /// What goes back to the first row of the block and clears from there.
    fn over_drawn(&self) -> String {
        match self.drawn {
            0 => String::new(),
            1 => "\r\u{1b}[J".to_owned(),
            rows => format!("\r\u{1b}[{}A\u{1b}[J", rows - 1),
        }
    }

    /// A JSON document on stderr, on one line: what went wrong, for programs.
    pub fn tell_document(&mut self, value: &impl Serialize) {
        self.flush();
        let _ = self.err.writer.write_all(compact_json(value).as_bytes());
        let _ = self.err.writer.write_all(b"\n");
        let _ = self.err.writer.flush();
    }

    /// `note  …` on stderr; not with JSON, where notes are fields.
    pub fn note(&mut self, line: impl Into<Line>) {
        if !self.json() {
            let line = Line::new().dim("note").text("  ").then(line.into());
            for part in line.wrapped(self.terminal.columns.unwrap_or(usize::MAX), 6) {
                self.tell(part);
            }
        }
    }

    /// `next  …` on stderr: one whole command, given as its arguments; not with JSON.
    pub fn next<S: AsRef<str>>(&mut self, command: &[S]) {
        if !self.json() && !command.is_empty() {
            self.tell(Line::new().dim("next").text("  ").bold(shell_line(command)));
        }
    }

    /// Asks on stderr and waits for a line. The cursor stays behind the question.
    pub fn ask(&mut self, question: impl Into<Line>) -> Answer {
        if !self.terminal.answers {
            return Answer::Nobody;
        }
        let mut text = self.compose(&question.into(), self.err.colour);
        text.truncate(text.trim_end_matches('\n').len());
        text.push(' ');
        self.erase();
        self.flush();
        let _ = self.err.writer.write_all(text.as_bytes());
        let _ = self.err.writer.flush();
        let mut said = String::new();
        match self.input.read_line(&mut said) {
            Ok(_) => Answer::Said(said.trim_end_matches(['\n', '\r']).to_owned()),
            Err(_) => Answer::Said(String::new()),
        }
    }

    /// Sends what is buffered on its way.
    pub fn flush(&mut self) {
        if !self.closed
            && let Err(error) = self.out.writer.flush()
        {
            self.failed(error);
        }
    }

    /// Flushes, and tells what went wrong with stdout beside a reader that left: a full disk.
    pub fn finish(&mut self) -> Option<io::Error> {
        self.erase();
        self.flush();
        self.trouble.take()
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        self.erase();
        if let Err(error) = self.out.writer.write_all(bytes) {
            self.failed(error);
        }
    }

    fn failed(&mut self, error: io::Error) {
        self.closed = true;
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.trouble.get_or_insert(error);
        }
    }

    fn compose(&self, line: &Line, colour: bool) -> String {
        let mut text = String::new();
        for (style, piece) in &line.pieces {
            let safe = escape(piece);
            let shown = if self.terminal.unicode { safe } else { terminal::ascii(&safe).into() };
            text.push_str(&style.paint(&shown, colour));
        }
        if !colour {
            text.truncate(text.trim_end().len());
        }
        text.push('\n');
        text
    }
}

/// A JSON document on one line, with everything that acts on a terminal spelled out.
pub fn compact_json(value: &impl Serialize) -> String {
    json::compact(value).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// A command as one types it: arguments quoted where a shell needs it.
pub fn shell_line<S: AsRef<str>>(command: &[S]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:=@,+%".contains(c);
    let quoted = command.iter().map(|argument| {
        let argument = argument.as_ref();
        if !argument.is_empty() && argument.chars().all(plain) {
            argument.to_owned()
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// What was printed into memory.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    out: Shared,
    err: Shared,
}

impl Captured {
    /// On stdout so far.
    pub fn out(&self) -> String {
        self.out.text()
    }

    /// On stderr so far.
    pub fn err(&self) -> String {
        self.err.text()
    }
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        match self.0.lock() {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(),
        }
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.lock() {
            Ok(mut kept) => kept.write(bytes),
            Err(_) => Err(io::Error::other("a writer panicked")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
