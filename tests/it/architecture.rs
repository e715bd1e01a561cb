//! Holds the table of `docs/architecture.md`: what each module may use of ours, and which file is the home
//! of each third-party crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Module → what it may use of ours. `broker` is the folder's own files; adapters have their own line.
const MAY_USE: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("diagnostic", &[]),
    ("stamp", &[]),
    ("redact", &[]),
    ("explain", &[]),
    ("proof", &[]),
    ("letter", &["clock"]),
    ("failure", &["clock", "letter", "stamp"]),
    ("dialect", &["clock", "letter", "failure", "stamp", "topology"]),
    ("topology", &["clock", "diagnostic", "redact", "stamp", "broker"]),
    ("dead_letter", &["clock", "letter", "failure", "dialect", "stamp", "topology"]),
    ("selection", &["clock", "letter", "failure", "dead_letter", "diagnostic", "topology"]),
    (
        "triage",
        &["clock", "letter", "failure", "dialect", "dead_letter", "selection", "stamp", "topology", "broker"],
    ),
    ("plan", &["topology", "diagnostic"]),
    ("manifest", &["clock", "letter", "failure", "selection", "stamp"]),
    (
        "run",
        &[
            "clock",
            "letter",
            "failure",
            "dialect",
            "dead_letter",
            "selection",
            "manifest",
            "ledger",
            "redact",
            "stamp",
            "topology",
            "broker",
            "proof",
        ],
    ),
    ("relay", &["clock", "topology", "broker", "run", "proof"]),
    ("ledger", &["clock", "letter", "manifest", "failure", "redact", "stamp", "proof"]),
    ("broker", &["clock", "letter", "topology", "plan", "diagnostic", "redact", "stamp", "proof"]),
    (
        "render",
        &[
            "clock",
            "letter",
            "failure",
            "dialect",
            "dead_letter",
            "selection",
            "manifest",
            "plan",
            "topology",
            "diagnostic",
            "redact",
            "stamp",
            "broker",
            "triage",
            "relay",
            "run",
            "ledger",
        ],
    ),
];

/// Third-party crate → files (or folders) that may name it.
const HOMES: &[(&str, &[&str])] = &[
    ("annotate_snippets", &["render/diagnostic.rs"]),
    ("comfy_table", &["render/table.rs"]),
    ("governor", &["run/pace.rs"]),
    ("hyper", &["cli/listen.rs"]),
    ("hyper_util", &["cli/listen.rs"]),
    ("jiff", &["clock.rs"]),
    ("memchr", &["failure/stack/lines.rs", "letter/plain_json.rs"]),
    ("regex", &["selection/pattern.rs", "broker/rabbitmq/policies.rs"]),
    ("serde_saphyr", &["topology/yaml.rs"]),
    ("clap", &["cli/", "main.rs"]),
    ("tikv_jemallocator", &["main.rs"]),
    ("rusqlite", &["broker/sqlite/", "ledger/"]),
    ("rdkafka", &["broker/kafka/"]),
    ("lapin", &["broker/rabbitmq/"]),
    ("ureq", &["broker/rabbitmq/management.rs"]),
    ("aws_sdk_sqs", &["broker/sqs/"]),
    ("aws_config", &["broker/sqs/"]),
];

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// Source files below `src`, as paths from there, with their text without comments and test modules.
fn sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    files
        .into_iter()
        .filter(|path| {
            !path.components().any(|part| part.as_os_str() == "tests") && !path.ends_with("tests.rs")
        })
        .map(|path| {
            let name = path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            (name, without_comments_and_text(code))
        })
        .collect()
}

/// The code alone: comment lines and what stands in quotes say nothing about directions.
fn without_comments_and_text(code: &str) -> String {
    let mut kept = String::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for (index, piece) in line.replace("\\\"", "").split('"').enumerate() {
            kept.push_str(if index % 2 == 0 { piece } else { "\"\"" });
        }
        kept.push('\n');
    }
    kept
}

/// Names right behind `crate::` in this text, groups opened.
fn uses(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with("$") {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let word = |text: &str| {
            text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
        };
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut start = 0;
            for (index, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => {
                        found.insert(word(&group[start..index]));
                        break;
                    }
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.insert(word(&group[start..index]));
                        start = index + 1;
                    }
                    _ => {}
                }
            }
        } else {
            found.insert(word(rest));
        }
    }
    found.remove("");
    found
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let mut wrong = Vec::new();
    for (file, code) in sources() {
        let module = file.split(['/', '.']).next().unwrap();
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else { continue };
        for used in uses(&code) {
            if used != module && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{file} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "forbidden directions:\n{}", wrong.join("\n"));
}

#[test]
fn adapters_do_not_know_each_other() {
    let adapters = ["sqlite", "kafka", "rabbitmq", "sqs"];
    for (file, code) in sources() {
        let Some(own) = adapters.iter().find(|name| file.starts_with(&format!("broker/{name}"))) else {
            if !file.starts_with("broker/") && !file.starts_with("cli/") {
                for name in adapters {
                    assert!(!code.contains(&format!("broker::{name}")), "{file} names the adapter {name}");
                }
            }
            continue;
        };
        for other in adapters.iter().filter(|name| *name != own) {
            let named =
                [format!("broker::{other}"), format!("super::{other}"), format!("super::super::{other}")];
            assert!(!named.iter().any(|path| code.contains(path.as_str())), "{file} uses {other}");
        }
    }
}

#[test]
fn each_crate_has_its_home() {
    let mut wrong = Vec::new();
    for (file, code) in sources() {
        for (name, homes) in HOMES {
            let named = [format!("{name}::"), format!("use {name};")];
            if named.iter().any(|text| code.contains(text.as_str()))
                && !homes.iter().any(|home| file.starts_with(home))
            {
                wrong.push(format!("{file} names {name}; its home is {}", homes.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "crates out of their homes:\n{}", wrong.join("\n"));
}

#[test]
fn files_stay_short_and_say_what_they_are_for() {
    let mut wrong = Vec::new();
    let src = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    rust_files(&src.join("src"), &mut files);
    rust_files(&src.join("tests"), &mut files);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        if lines > 600 {
            wrong.push(format!("{} has {lines} lines: split it", path.strip_prefix(src).unwrap().display()));
        }
        if !text.starts_with("//!") {
            wrong.push(format!("{} does not say what it is for", path.strip_prefix(src).unwrap().display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_in_the_docs_is_this_one() {
    let docs =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md")).unwrap();
    for (module, allowed) in MAY_USE {
        let mut allowed = allowed.to_vec();
        allowed.sort_unstable();
        let row = format!(
            "| `{module}` | {} |",
            if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") }
        );
        assert!(docs.contains(&row), "docs/architecture.md lacks the row:\n{row}");
    }
    for (name, homes) in HOMES {
        let row = format!(
            "| `{name}` | {} |",
            homes.iter().map(|home| format!("`{home}`")).collect::<Vec<_>>().join(", ")
        );
        assert!(docs.contains(&row), "docs/architecture.md lacks the row:\n{row}");
    }
}

#[test]
fn the_scanner_sees_grouped_and_inline_uses() {
    let seen = uses("use crate::{letter::Message, broker::{self, Kind}};\nfn f() { crate::run::go() }");
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["broker", "letter", "run"]);
}
