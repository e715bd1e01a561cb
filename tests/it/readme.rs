//! README.md cannot rot: its `console` blocks are run in order, in one scratch folder, by the built program, and
//! what is printed there has to be what stands there. Time, width, user and ids stand still: a run that the page kills
//! after a while is killed by SIGKILL in a certain step, and the relay comes a quarter of an hour later.
//! `REDRIVE_BLESS=1` writes what is printed into the page.

use std::fmt::Write;

use crate::cli::env::TestEnv;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// Words of a command line; quotes hold words together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quoted) {
            (c, Some(quote)) if c == quote => quoted = None,
            ('"' | '\'', None) => quoted = Some(c),
            (' ', None) => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// How the page kills a run.
const KILLED: &str = " & sleep 0.4; kill -9 $!";
/// When the relay comes.
const LATER: &str = "2026-11-30T03:27:08Z";

/// What a command prints, stdout and stderr in the order in which they come.
fn printed(env: &mut TestEnv, command: &str) -> String {
    if let Some(run) = command.strip_suffix(KILLED) {
        env.set("REDRIVE_FAILPOINT", "after_transfer:6").set("REDRIVE_SEED", "killed");
        let text = printed(env, run);
        env.set("REDRIVE_FAILPOINT", "").set("REDRIVE_SEED", "test");
        assert!(text.ends_with("[killed]\n"), "{text}");
        return text;
    }
    if command.starts_with("redrive relay") {
        env.at(LATER);
    }
    let words = words(command);
    let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    match arguments.split_first() {
        Some((&"redrive", rest)) => {
            let (mut text, code) = env.together(rest);
            match code {
                Some(0) => {}
                Some(code) => {
                    let _ = writeln!(text, "[exit {code}]");
                }
                None => text.push_str("[killed]\n"),
            }
            text
        }
        Some((&"cd", [_])) => String::new(),
        _ => panic!("the README runs {command}: only redrive and cd are known here"),
    }
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let mut env = TestEnv::new();
    env.set("REDRIVE_LEDGER", "runs.db");
    let mut written = String::new();
    let mut rest = text.as_str();
    let mut folder = String::new();
    while let Some(at) = rest.find("```console\n") {
        let begin = at + "```console\n".len();
        let end = begin + rest[begin..].find("```").expect("a console block ends");
        written.push_str(&rest[..begin]);
        for command in rest[begin..end].lines().filter_map(|line| line.strip_prefix("$ ")) {
            if let Some(into) = command.strip_prefix("cd ") {
                folder = into.to_owned();
                env.set("REDRIVE_TOPOLOGY", &format!("{folder}/redrive.yaml"));
            }
            let _ = writeln!(written, "$ {command}");
            // The program runs beside the folder; what it prints is as from inside.
            let inside = format!("{folder}/");
            let text = printed(&mut env, command);
            written.push_str(&if folder.is_empty() { text } else { text.replace(&inside, "") });
        }
        rest = &rest[end..];
        written.push_str("```");
        rest = &rest["```".len()..];
    }
    written.push_str(rest);
    if std::env::var_os("REDRIVE_BLESS").is_some() {
        std::fs::write(FILE, &written).unwrap();
        return;
    }
    for (line, (have, want)) in text.lines().zip(written.lines()).enumerate() {
        assert_eq!(
            have,
            want,
            "README.md:{}: REDRIVE_BLESS=1 cargo test --test it readme writes it anew",
            line + 1
        );
    }
    assert_eq!(text.lines().count(), written.lines().count(), "README.md has lines too many or too few");
}

#[test]
fn every_page_that_the_readme_names_is_there() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let named: Vec<&str> =
        text.split('`').filter(|word| word.starts_with("docs/") && !word.contains(' ')).collect();
    assert!(named.len() > 5, "{named:?}");
    for page in named {
        assert!(root.join(page).exists(), "README.md names {page}, which is not there");
    }
}
