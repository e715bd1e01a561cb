//! Tests of reading a topology: what people write, and what must come of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

mod brokers;
mod cases;
mod forms;
mod meaning;
mod reading;
mod secrets;

/// Loads with an environment that holds a few variables.
fn loaded(text: &str) -> Loaded {
    loaded_with(text, &[])
}

fn loaded_with(text: &str, variables: &[(&str, &str)]) -> Loaded {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    load("redrive.yaml", text.as_bytes(), &Outside { variable: &variable, base: std::env::temp_dir() })
}

fn good(text: &str) -> Topology {
    let loaded = loaded(text);
    loaded.topology.clone().unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics))
}

/// Code, line and underlined text of each problem.
fn problems(loaded: &Loaded, text: &str) -> Vec<(String, usize, String)> {
    loaded
        .diagnostics
        .iter()
        .map(|d| {
            let span = d.labels.first().map_or(0..0, |label| label.span.clone());
            let line = text[..span.start].matches('\n').count() + 1;
            (d.code.to_string(), line, text[span].to_owned())
        })
        .collect()
}

/// Only the codes.
fn codes_of(loaded: &Loaded) -> Vec<&'static str> {
    loaded.diagnostics.iter().map(|d| d.code.0).collect()
}

/// A channel on the embedded broker with these lines in it.
fn in_channel(lines: &str) -> String {
    let mut text = "version: 1\nbrokers:\n  local: {url: \"sqlite:redrive.db\"}\nchannels:\n  orders:\n    source: orders\n".to_owned();
    for line in lines.lines() {
        text.push_str("    ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn codes_in_channel(lines: &str) -> Vec<&'static str> {
    codes_of(&loaded(&in_channel(lines)))
}
