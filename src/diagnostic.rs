//! A located problem as a value: what is wrong, where in which file, and what to do about it.
//!
//! Rules return these; only `render/diagnostic.rs` turns them into text.

use std::ops::Range;

use serde::Serialize;

/// A stable number of a kind of problem, `RDnnnn`; `redrive explain` has a page for each.
///
/// 01xx topology, 02xx what a broker can do, 03xx plan, 04xx run, 05xx ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Code(pub &'static str);

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// How bad it is: an error makes the topology invalid, a warning does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is not valid.
    Error,
    /// The file is valid; somebody should look.
    Warning,
}

/// Byte range in the source text, with what to write under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Bytes of the source text, half open.
    pub span: Range<usize>,
    /// A few words under the underline.
    pub text: String,
    /// The place itself, rather than context for it.
    pub primary: bool,
}

/// One problem, with its places and a way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Which kind.
    pub code: Code,
    /// How bad.
    pub severity: Severity,
    /// One line, names in backticks.
    pub title: String,
    /// Places, the primary one first.
    pub labels: Vec<Label>,
    /// What to do.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error titled `title`.
    pub fn error(code: Code, title: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, title: title.into(), labels: Vec::new(), help: Vec::new() }
    }

    /// A warning titled `title`.
    pub fn warning(code: Code, title: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, title) }
    }

    /// Adds the place of the problem.
    #[must_use]
    pub fn at(mut self, span: Range<usize>, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into(), primary: true });
        self
    }

    /// Adds a place that explains the problem.
    #[must_use]
    pub fn near(mut self, span: Range<usize>, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into(), primary: false });
        self
    }

    /// Adds a line on what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Where the problem begins, for sorting; the end of the file if it has no place.
    pub fn start(&self) -> usize {
        self.labels.iter().find(|label| label.primary).map_or(usize::MAX, |label| label.span.start)
    }
}
