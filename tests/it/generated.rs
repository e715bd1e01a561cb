//! Files that the program can write itself are checked in, and equal to what it writes. After a change:
//! `REDRIVE_BLESS=1 cargo test --no-default-features --test it generated`.

use std::path::Path;

use clap_complete::Shell;

/// Compares a checked-in file with what it should be, or writes it.
fn same(name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("REDRIVE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{name} is stale: REDRIVE_BLESS=1 cargo test --no-default-features --test it generated"
    );
}

#[test]
fn completions_are_those_of_the_command_line() {
    for (shell, name) in [
        (Shell::Bash, "redrive.bash"),
        (Shell::Zsh, "_redrive"),
        (Shell::Fish, "redrive.fish"),
        (Shell::Elvish, "redrive.elv"),
        (Shell::PowerShell, "_redrive.ps1"),
    ] {
        same(&format!("completions/{name}"), &redrive::cli::completions::script(shell));
    }
}
