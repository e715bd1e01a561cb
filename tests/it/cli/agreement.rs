//! README, help, `explain` and the decisions say the same.

use super::TestEnv;

fn text(name: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap_or_default()
}

/// Verbs as clap knows them.
fn verbs() -> Vec<String> {
    redrive::cli::command()
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| verb.get_name().to_owned())
        .collect()
}

#[test]
fn l09_the_decision_names_every_exit_code() {
    let page = text("docs/decisions/exit-codes.md");
    for code in redrive::cli::ExitCode::ALL {
        let number = code.number().to_string();
        let listed = page.lines().filter(|line| line.starts_with("| ")).any(|line| {
            let first = line.trim_start_matches("| ").split(" |").next().unwrap();
            first.split(", ").any(|listed| listed == number)
        });
        assert!(listed, "docs/decisions/exit-codes.md has no row for {number}");
    }
}

#[test]
fn every_verb_has_help_with_an_example_that_names_it() {
    let env = TestEnv::new();
    for verb in verbs() {
        let help = env.run(&[&verb, "--help"]).ok().out;
        assert!(help.contains("Example"), "{verb}: {help}");
        assert!(help.contains(&format!("redrive {verb}")), "{verb} has no example of its own: {help}");
        assert_eq!(env.run(&["help", &verb]).ok().out, help);
    }
}

#[test]
fn what_the_readme_types_exists() {
    let readme = text("README.md");
    let verbs = verbs();
    for line in readme.lines() {
        let Some(command) = line
            .trim_start()
            .strip_prefix("$ redrive ")
            .or_else(|| line.trim_start().strip_prefix("redrive "))
        else {
            continue;
        };
        let first = command.split_whitespace().find(|word| !word.starts_with('-')).unwrap_or_default();
        if first.chars().all(|c| c.is_ascii_lowercase()) && !command.starts_with('-') {
            assert!(
                verbs.iter().any(|verb| verb == first),
                "README types `redrive {command}`, a verb that is not there"
            );
        }
    }
}

#[test]
fn the_first_page_is_what_the_screens_promise() {
    let page = TestEnv::new().line("--help").ok().out;
    assert!(page.starts_with("The way back for dead letters: see why they died, send them back safely\nUsage: redrive <verb> [CHANNEL] [options]\n\n"));
    assert!(page.ends_with("Topology: redrive.yaml, -f FILE or REDRIVE_TOPOLOGY\n"));
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}
