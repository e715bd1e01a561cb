//! `redrive check`: is the topology valid, and what does it mean? No network.

use serde::Serialize;

use super::topology_file::{closing, page_of, read};
use super::{Context, ExitCode, Outcome};
use crate::diagnostic::{Diagnostic, Severity};
use crate::render::diagnostic::{Source, line_and_column};
use crate::render::{Column, Line, Table, Ui};
use crate::topology::{Meaning, meaning, notes, schema};

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  redrive check\n  redrive check -f topologies/orders.yaml -o json\n  redrive check --schema > topology.schema.json"
)]
pub struct Args {
    /// Print the JSON Schema of topologies instead, for editors
    #[arg(long)]
    schema: bool,
}

#[derive(Serialize)]
struct Data<'a> {
    schema: &'static str,
    file: &'a str,
    valid: bool,
    errors: usize,
    warnings: usize,
    problems: Vec<Problem<'a>>,
    meaning: Vec<Meaning>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<&'a str>,
}

/// A problem with places that an editor understands: lines and columns from 1.
#[derive(Serialize)]
pub(super) struct Problem<'a> {
    code: &'static str,
    severity: Severity,
    title: &'a str,
    line: usize,
    column: usize,
    places: Vec<Place<'a>>,
    help: &'a [String],
}

#[derive(Serialize)]
struct Place<'a> {
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    text: &'a str,
    primary: bool,
}

/// Runs it.
///
/// # Errors
/// [2]: there is no such file. [3]: it is not valid.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    if args.schema {
        ctx.ui.document(&schema());
        return Ok(ExitCode::Done);
    }
    let (_, loaded) = read(ctx)?;
    let (errors, warnings) = loaded.counts();
    let code = if errors == 0 { ExitCode::Done } else { ExitCode::Topology };
    if ctx.ui.json() {
        let problems = loaded.diagnostics.iter().map(|problem| located(problem, &loaded.source)).collect();
        let next = page_of(&loaded.diagnostics);
        ctx.ui.document(&Data {
            schema: "redrive.check.v1",
            file: &loaded.file,
            valid: errors == 0,
            errors,
            warnings,
            problems,
            meaning: loaded.topology.as_ref().map(meaning).unwrap_or_default(),
            next,
        });
        return Ok(code);
    }
    ctx.ui.say_problems(&loaded.diagnostics, Source { name: &loaded.file, text: &loaded.source });
    let Some(topology) = &loaded.topology else {
        ctx.ui.say(closing(&loaded.file, &loaded.diagnostics));
        ctx.ui.next(&page_of(&loaded.diagnostics));
        return Ok(code);
    };
    let parts = [
        counted(topology.brokers.len(), "broker"),
        counted(topology.channels.len(), "channel"),
        if warnings == 0 { String::new() } else { counted(warnings, "warning") },
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    ctx.ui.say_folded(
        Line::new().bold(format!("{} is valid", loaded.file)).text(format!(": {}", parts.join(", "))),
        2,
    );
    explain(&mut ctx.ui, &meaning(topology));
    Ok(code)
}

/// The time line of each channel, and what else follows from the file.
fn explain(ui: &mut Ui, meanings: &[Meaning]) {
    for meaning in meanings {
        ui.blank();
        ui.say_folded(Line::new().bold(meaning.head()), 2);
        let mut table = Table::new([Column::left(""), Column::left("").folds()]).bare().indent(2);
        for (at, what) in meaning.rows() {
            table.row([at.into(), what.into()]);
        }
        ui.table(&table);
    }
    for note in notes(meanings) {
        ui.note(note);
    }
}

fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

pub(super) fn located<'a>(problem: &'a Diagnostic, source: &str) -> Problem<'a> {
    let places: Vec<Place<'a>> = problem
        .labels
        .iter()
        .map(|label| {
            let (line, column) = line_and_column(source, label.span.start);
            let (end_line, end_column) = line_and_column(source, label.span.end);
            Place { line, column, end_line, end_column, text: &label.text, primary: label.primary }
        })
        .collect();
    let primary = places.iter().find(|place| place.primary).or(places.first());
    let (line, column) = primary.map_or((1, 1), |place| (place.line, place.column));
    Problem {
        code: problem.code.0,
        severity: problem.severity,
        title: &problem.title,
        line,
        column,
        places,
        help: &problem.help,
    }
}
