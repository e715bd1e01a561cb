//! `redrive explain`: pages on codes and topics.

use serde::Serialize;

use super::{CommandError, Context, ExitCode, Outcome};
use crate::dialect::DIALECTS;
use crate::explain::{Page, page, pages};
use crate::render::{Column, Line, Table};
use crate::topology::nearest;

/// Topics beside the codes.
const TOPICS: [&str; 3] = ["codes", "dialects", "exit-codes"];

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  redrive explain RD0103\n  redrive explain exit-codes")]
pub struct Args {
    /// A code such as RD0103, or a topic: codes, dialects, exit-codes
    #[arg(value_name = "CODE|TOPIC")]
    topic: String,
}

#[derive(Serialize)]
struct Code<'p> {
    schema: &'static str,
    code: &'p str,
    title: &'p str,
    why: &'p str,
    wrong: &'p str,
    right: &'p str,
}

#[derive(Serialize)]
struct Exit {
    code: u8,
    words: &'static str,
}

#[derive(Serialize)]
struct Dialect {
    name: &'static str,
    about: &'static str,
    marks: Vec<String>,
}

/// A list with its schema.
#[derive(Serialize)]
struct List<T> {
    schema: &'static str,
    list: Vec<T>,
}

/// Runs it.
///
/// # Errors
/// [2]: no such page.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    match args.topic.as_str() {
        "exit-codes" => exit_codes(ctx),
        "dialects" => dialects(ctx),
        "codes" => codes(ctx),
        topic => match page(topic) {
            Some(page) => code(ctx, page),
            None => return Err(no_page(topic)),
        },
    }
    Ok(ExitCode::Done)
}

fn no_page(topic: &str) -> CommandError {
    let near = nearest(topic, pages().map(|page| page.code).chain(TOPICS));
    let near = near.map(|near| format!("; near: {near}")).unwrap_or_default();
    CommandError::usage(format!("no page on {topic}{near}")).next(["redrive", "explain", "codes"])
}

fn code(ctx: &mut Context, page: &Page) {
    if ctx.ui.json() {
        let Page { code, title, why, wrong, right, .. } = page;
        ctx.ui.document(&Code { schema: "redrive.explain.v1", code, title, why, wrong, right });
        return;
    }
    for (at, line) in page.lines().into_iter().enumerate() {
        ctx.ui.say(if at == 0 { Line::new().bold(line) } else { line.into() });
    }
}

fn codes(ctx: &mut Context) {
    let mut all: Vec<&Page> = pages().collect();
    all.sort_by_key(|page| page.code);
    if ctx.ui.json() {
        let list = all
            .iter()
            .map(|Page { code, title, why, wrong, right, .. }| Code {
                schema: "redrive.explain.v1",
                code,
                title,
                why,
                wrong,
                right,
            })
            .collect();
        ctx.ui.document(&List { schema: "redrive.codes.v1", list });
        return;
    }
    for page in all {
        ctx.ui.say(format!("{}  {}", page.code, page.title));
    }
}

fn dialects(ctx: &mut Context) {
    let list: Vec<Dialect> = DIALECTS
        .iter()
        .map(|dialect| Dialect {
            name: dialect.name(),
            about: dialect.about(),
            marks: dialect.marks().iter().map(ToString::to_string).collect(),
        })
        .collect();
    if ctx.ui.json() {
        ctx.ui.document(&List { schema: "redrive.dialects.v1", list });
        return;
    }
    let mut table = Table::new([Column::left("DIALECT"), Column::left("WHO WRITES IT, AND WHERE").cuts()]);
    for dialect in &list {
        table.row([dialect.name.into(), dialect.about.into()]);
        table.row(["".into(), format!("  by {}", dialect.marks.join(", ")).into()]);
    }
    ctx.ui.table(&table);
    ctx.ui.note("As lists, for programs: redrive explain dialects -o json");
}

/// Low codes left, the results of long work right; the signals share a line.
fn exit_codes(ctx: &mut Context) {
    if ctx.ui.json() {
        let list =
            ExitCode::ALL.iter().map(|code| Exit { code: code.number(), words: code.words() }).collect();
        ctx.ui.document(&List { schema: "redrive.exit-codes.v1", list });
        return;
    }
    let (left, right): (Vec<ExitCode>, Vec<ExitCode>) =
        ExitCode::ALL.iter().partition(|code| code.number() < ExitCode::Pending.number());
    let (signals, right): (Vec<ExitCode>, Vec<ExitCode>) =
        right.into_iter().partition(|code| code.number() > 128);
    let join = |text: fn(&ExitCode) -> String| signals.iter().map(text).collect::<Vec<_>>().join(", ");
    let mut right: Vec<(String, String)> =
        right.iter().map(|code| (code.number().to_string(), code.words().to_owned())).collect();
    right.push((join(|code| code.number().to_string()), join(|code| code.words().to_owned())));
    for at in 0..left.len().max(right.len()) {
        let first =
            left.get(at).map(|code| format!("  {}  {}", code.number(), code.words())).unwrap_or_default();
        let (number, words) = right.get(at).map_or(("", ""), |(number, words)| (number, words));
        ctx.ui.say(format!("{first:<32}{number:>3}  {words}"));
    }
}
