//! A full disk: what could not be written is named, whichever file it is.

use std::process::{Command, Stdio};

use super::Shop;

/// The line in a process whose files may not grow over 33 KiB: as much as SQLite needs beside a database, and less than
/// the manifests here. Gives how it ended and what it said.
fn limited(shop: &Shop, line: &str) -> (Option<i32>, String) {
    let program = shop.env.command(&[]);
    let mut command = Command::new("bash");
    let script = format!("ulimit -f 33; trap '' XFSZ; exec \"$0\" {line}");
    command.args(["-c", &script]).arg(program.get_program()).current_dir(shop.env.folder()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_full_disk_is_told_with_the_file_that_could_not_be_written() {
    let shop = Shop::new();
    shop.bury_many(300);
    let select = "select orders --limit all --reason x --out";
    let (code, told) = limited(&shop, &format!("{select} frozen.jsonl"));
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("error: could not write the manifest frozen.jsonl: File too large"), "{told}");
    assert!(!shop.env.path("frozen.jsonl").exists() && !shop.env.path("frozen.jsonl.part").exists());
    let missing = shop.line(&format!("{select} no/frozen.jsonl")).exits(1);
    assert!(missing.err.contains("could not write the manifest no/frozen.jsonl: No such file"), "{missing}");
    let (code, told) = limited(&shop, "run orders --limit 1 --reason x --yes --ledger new.db");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("could not use the ledger new.db: "), "{told}");
    // A manifest from stdin is kept beside the ledger, which is there already.
    let _ = shop.line("run orders --limit 1 --reason x --yes").ok();
    let _ = shop.line(&format!("{select} frozen.jsonl")).ok();
    assert!(std::fs::metadata(shop.env.path("frozen.jsonl")).unwrap().len() > 33 * 1024);
    let (code, told) = limited(&shop, "run - --yes <frozen.jsonl");
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("could not keep the manifest from stdin in ") && told.contains("/stdin-"),
        "{told}"
    );
    assert!(told.contains("ledger.db.runs/") && told.contains(".jsonl: File too large"), "{told}");
    let kept = std::fs::read_dir(shop.env.path("ledger.db.runs")).unwrap();
    let left: Vec<_> = kept.map(|one| one.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("stdin-")), "{left:?}");
    assert_eq!(shop.lying("orders").len(), 1);
}
