//! The flags that select letters, the same for every verb that takes them.

use super::{CommandError, Context};
use crate::render::{cut, width};
use crate::selection::{self, Limit, Selection};

/// `--cause`, `--where`, `--since`, `--until`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Selecting {
    /// Only letters of this cause; any unique beginning of its id
    #[arg(long, value_name = "ID")]
    pub cause: Option<String>,
    /// Only letters for which this holds: 'age > 2h and error ~ "Timeout"'
    #[arg(long = "where", value_name = "EXPR")]
    pub filter: Option<String>,
    /// Only letters that died since then: 2h, or 2026-11-30T02:00:00Z
    #[arg(long, value_name = "T")]
    pub since: Option<String>,
    /// Only letters that died before then
    #[arg(long, value_name = "T")]
    pub until: Option<String>,
}

impl Selecting {
    /// Was anything selected?
    pub fn is_given(&self) -> bool {
        self.cause.is_some() || self.filter.is_some() || self.since.is_some() || self.until.is_some()
    }

    /// What was selected; `limit` comes with it.
    ///
    /// # Errors
    /// [2]: what does not read, with its place and how to write it.
    pub fn selection(&self, ctx: &Context, limit: Limit) -> Result<Selection, CommandError> {
        let now = ctx.clock.now();
        let moment = |flag: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => selection::moment(text, now)
                .map(Some)
                .map_err(|problem| CommandError::usage(format!("{flag}: {problem}"))),
        };
        let cause = match &self.cause {
            None => None,
            Some(text) => Some(
                selection::cause_prefix(text)
                    .map_err(|problem| CommandError::usage(format!("--cause: {problem}")))?,
            ),
        };
        let filter = match &self.filter {
            None => None,
            Some(text) => Some(selection::parse(text).map_err(|fault| misread(text, &fault))?),
        };
        let selected = Selection {
            cause,
            filter,
            since: moment("--since", &self.since)?,
            until: moment("--until", &self.until)?,
            limit,
        };
        if let (Some(since), Some(until)) = (selected.since, selected.until)
            && since >= until
        {
            return Err(CommandError::usage(format!("--since {since} is not before --until {until}")));
        }
        Ok(selected)
    }
}

/// `--limit N` or `--limit all`.
///
/// # Errors
/// [2].
pub fn limit(text: Option<&str>) -> Result<Option<Limit>, CommandError> {
    text.map(Limit::parse).transpose().map_err(|problem| CommandError::usage(format!("--limit: {problem}")))
}

/// Refuses a `--cause` that is the beginning of several ids. `causes` are those it selected.
///
/// # Errors
/// [2] with the ids.
pub fn one_cause(prefix: Option<&str>, causes: &[String]) -> Result<(), CommandError> {
    match (prefix, causes) {
        (Some(prefix), [first, second, ..]) => Err(CommandError::usage(format!(
            "--cause {prefix} begins several ids, {first} and {second} among them"
        ))),
        _ => Ok(()),
    }
}

/// Shows the expression with what is wrong underlined.
fn misread(text: &str, fault: &selection::Fault) -> CommandError {
    const BEFORE: usize = 60;
    let before = text.get(..fault.at.start).unwrap_or_default();
    let skipped = before.chars().count().saturating_sub(BEFORE);
    let start = before.char_indices().nth(skipped).map_or(before.len(), |(at, _)| at);
    let lead = if skipped > 0 { "…" } else { "" };
    let shown = |part: &str| cut(part, usize::MAX);
    let prefix = format!("{lead}{}", shown(before.get(start..).unwrap_or_default()));
    let rest = cut(text.get(fault.at.start..).unwrap_or_default(), BEFORE);
    let marked = shown(text.get(fault.at.clone()).unwrap_or_default());
    let carets = width(&marked).clamp(1, width(&rest).max(1));
    CommandError::usage(format!("--where, column {}: {}", fault.column(text), fault.problem))
        .hint(format!("  {prefix}{rest}"))
        .hint(format!("  {}{} expected {}", " ".repeat(width(&prefix)), "^".repeat(carets), fault.expected))
        // The page that has the language.
        .next(["redrive", "inspect", "--help"])
}

/// A selection as it is recorded: its filters and its bound.
pub fn selection_words(selection: &Selection) -> String {
    let filters = selection.to_string();
    match filters.is_empty() {
        true => format!("--limit {}", selection.limit),
        false => format!("{filters} --limit {}", selection.limit),
    }
}
