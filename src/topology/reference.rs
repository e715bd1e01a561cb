//! The key table as the tables of `docs/topology.md`: every key with its kind, default and meaning, and the
//! options of each broker. A test keeps the page equal.

use super::keys::{self, Key, Kind};
use super::scalars;
use crate::broker::BROKERS;
use crate::clock;

/// The part of `docs/topology.md` that follows from the key table.
pub fn reference() -> String {
    let mut page = String::new();
    section(&mut page, "", "The file", keys::FILE);
    page.push_str("### `options`, by broker\n\n");
    for kind in BROKERS {
        let options: Vec<String> = kind.options().iter().map(|option| format!("`{option}`")).collect();
        let options = if options.is_empty() { "none".to_owned() } else { options.join(", ") };
        page.push_str(&format!("- **{}** (`{}:`): {options}\n", kind.title(), kind.schemes().join(":`, `")));
    }
    page
}

fn section(page: &mut String, path: &str, title: &str, table: &'static [Key]) {
    page.push_str(&format!(
        "### {title}\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n"
    ));
    for key in table {
        let default = if key.required { "**required**".to_owned() } else { cell(key.default) };
        page.push_str(&format!(
            "| `{}` | {} | {default} | {} |\n",
            key.name,
            cell(&value(&key.kind)),
            cell(key.help)
        ));
    }
    page.push('\n');
    for key in table {
        // What `defaults` holds is described where it is used.
        if key.name == "defaults" {
            let names: Vec<String> = keys::DEFAULTS.iter().map(|key| format!("`{}`", key.name)).collect();
            page.push_str(&format!(
                "`defaults` takes {} as a channel does, without names of queues. What a channel writes goes before; \
                 maps are laid over each other key by key, lists are not.\n\n",
                names.join(", ")
            ));
            continue;
        }
        let path = format!("{path}{}", key.name);
        match &key.kind {
            Kind::Table(inner) => section(page, &format!("{path}."), &format!("`{path}`"), inner),
            Kind::List(inner) => section(page, &format!("{path}[]."), &format!("each of `{path}`"), inner),
            Kind::Named { what, keys } => section(page, "", &format!("A {what} (`{path}.NAME`)"), keys),
            _ => {}
        }
    }
}

fn value(kind: &Kind) -> String {
    match kind {
        Kind::Version => "`1`".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Url => "url".to_owned(),
        Kind::Secret { literal: true } => "text, or a reference".to_owned(),
        Kind::Secret { literal: false } => "a reference: `${NAME}`, `${file:PATH}`".to_owned(),
        Kind::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Bool => "`true`, `false`".to_owned(),
        Kind::Count { min, max } if *max > 1_000_000 => format!("whole number from {min}"),
        Kind::Count { min, max } => format!("whole number, {min} to {max}"),
        Kind::Duration { min } if min.is_zero() => "duration".to_owned(),
        Kind::Duration { min } => format!("duration, from {}", clock::exact(*min)),
        Kind::Rate => "rate: `50/s`, `600/m`, `1000/h`, `unlimited`".to_owned(),
        Kind::Choice(variants) => format!("`{}`", scalars::forms(variants).replace(", ", "`, `")),
        Kind::Place(forms) => {
            let form = if forms.is_empty() { String::new() } else { format!(" ({})", forms.join("|")) };
            let long = scalars::forms(keys::PLACE).replace(", ", "`, `");
            format!("`header NAME{form}`, `body /POINTER{form}`, `{long}`")
        }
        Kind::Table(_) => "map, below".to_owned(),
        Kind::Named { what, .. } => format!("map of {what} names, below"),
        Kind::List(_) => "list of maps, below".to_owned(),
        Kind::Texts => "list of texts".to_owned(),
        Kind::TextMap => "map of names to texts".to_owned(),
        Kind::Options => "map of names to texts, by broker below".to_owned(),
    }
}

/// A text inside a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
