//! What reaches a terminal, a pipe, a reader that has gone.

use std::process::Stdio;

use super::TestEnv;

fn demo() -> TestEnv {
    let env = TestEnv::new();
    let _ = env.line("demo shop").ok();
    env
}

/// What an O01 terminal must never get: anything that acts, but our own line ends.
fn acts(text: &str) -> Option<char> {
    text.chars().find(|c| !matches!(c, '\n' | '\r') && redrive::render::acts_on_terminal(*c))
}

const HOSTILE: &str =
    "\u{1b}[2J\u{1b}]52;c;aGk=\u{7}\u{1b}]8;;http://x\u{1b}\\\u{9b}31m\u{202e}over\rwritten\u{7f}";

#[test]
fn o01_nothing_hostile_reaches_a_terminal_from_a_message_or_an_argument() {
    let mut env = TestEnv::new();
    env.topology("version: 1\nbrokers: {l: {url: \"sqlite:x.db\"}}\nchannels:\n  orders: {source: orders}\n");
    env.set("NO_COLOR", "1");
    let _ = env.line("apply --yes").ok();
    let header = format!("h\u{1b}x={HOSTILE}");
    let send = ["dev", "send", "orders", "--key", HOSTILE, "--header", &header, "--body", HOSTILE];
    let lines: [&[&str]; 7] = [
        &send,
        &["dev", "receive", "orders", "--lease", "1ms"],
        &["dev", "ack", HOSTILE],
        &["inspect", HOSTILE],
        &["explain", HOSTILE],
        &[HOSTILE],
        &["-f", HOSTILE, "check"],
    ];
    for line in lines {
        let shown = env.on_terminal(line);
        assert_eq!(acts(&shown), None, "{line:?}: {shown:?}");
        assert!(shown.contains("\\u{1b}") || line[1] == "send", "{line:?}: {shown:?}");
    }
}

#[test]
fn o01_a_hostile_topology_is_shown_and_not_obeyed() {
    let mut env = TestEnv::new();
    env.set("NO_COLOR", "1");
    env.topology(&format!("version: 1\n\"{}\": 1\nchannels: {{}}\n", "\\e[2J\u{202e}"));
    let shown = env.on_terminal(&["check"]);
    assert_eq!(acts(&shown), None, "{shown:?}");
}

#[test]
fn o01_json_spells_out_what_acts() {
    let env = TestEnv::new();
    env.topology("version: 1\nbrokers: {l: {url: \"sqlite:x.db\"}}\nchannels:\n  orders: {source: orders}\n");
    let _ = env.line("apply --yes").ok();
    let _ = env.run(&["dev", "send", "orders", "--body", HOSTILE]).ok();
    let run = env.line("dev receive orders -o json").ok();
    assert_eq!(acts(&run.out), None);
    assert_eq!(run.json()["body"], HOSTILE);
}

#[test]
fn o05_a_reader_that_leaves_early_ends_it_quietly() {
    let env = demo();
    for line in ["-f shop/redrive.yaml inspect orders --letters --limit all", "man", "completions bash"] {
        let words: Vec<&str> = line.split(' ').collect();
        let mut child = env
            .command(&words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {err}");
        assert!(!err.contains("panic") && !err.contains("bug") && !err.contains("pipe"), "{line}: {err}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let env = demo();
    let output = env
        .command(&["-f", "shop/redrive.yaml", "inspect", "orders"])
        .stdin(Stdio::null())
        .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("could not write the output"));
}

#[test]
fn colour_only_where_it_is_wanted() {
    let mut env = demo();
    let line = ["-f", "shop/redrive.yaml", "plan"];
    assert!(env.on_terminal(&line).contains("\u{1b}["));
    assert!(!env.run(&line).ok().out.contains('\u{1b}'));
    env.set("NO_COLOR", "1");
    assert!(!env.on_terminal(&line).contains('\u{1b}'));
    env.set("NO_COLOR", "").set("TERM", "dumb");
    assert!(!env.on_terminal(&line).contains('\u{1b}'));
    env.set("TERM", "").set("CLICOLOR_FORCE", "1");
    assert!(env.run(&line).ok().out.contains("\u{1b}["));
}

#[test]
fn off_a_terminal_times_are_rfc_3339_and_nothing_is_cut() {
    let mut env = demo();
    env.set("REDRIVE_WIDTH", "");
    let run = env.line("-f shop/redrive.yaml plan").ok();
    assert!(run.out.starts_with("local · shop.db · 2026-11-30T03:12:08Z\n"), "{run}");
    assert!(!env.line("-f shop/redrive.yaml inspect emails").ok().out.contains('…'));
}

#[test]
fn a_locale_without_utf8_gets_ascii() {
    let mut env = demo();
    env.set("LANG", "C");
    let run = env.line("-f shop/redrive.yaml plan").ok();
    assert!(run.out.starts_with("local - shop.db - 2026-11-30 03:12Z\n"), "{run}");
}

#[test]
fn an_answer_at_the_terminal_decides() {
    let env = TestEnv::new();
    env.topology("version: 1\nbrokers: {l: {url: \"sqlite:x.db\"}}\nchannels:\n  orders: {source: orders}\n");
    insta::assert_snapshot!(env.answer(&["apply"], "n\n").exits(4).err, @"Apply 2 changes to l? [y/N] Nothing was applied.");
    insta::assert_snapshot!(env.answer(&["apply"], "\n").exits(4).err, @"Apply 2 changes to l? [y/N] Nothing was applied.");
    assert!(!env.path("x.db").exists());
    insta::assert_snapshot!(env.answer(&["apply"], "y\n").ok(), @r"
    l · x.db · 2026-11-30 03:12Z

    + create  orders
    + create  orders.dlq  kept until settled

    2 to create
      created  orders      0.0s
      created  orders.dlq  0.0s
    Proof: planned again, nothing left to change.
    --- stderr
    Apply 2 changes to l? [y/N]
    ");
}

#[test]
fn o03_no_row_wraps_on_a_narrow_terminal() {
    let env = demo();
    let file = "shop/redrive.yaml";
    let id = {
        let listed = env.line(&format!("-f {file} inspect orders --letters -o jsonl")).ok();
        let first: serde_json::Value = serde_json::from_str(listed.out.lines().next().unwrap()).unwrap();
        first["letter"].as_str().unwrap().to_owned()
    };
    let _ = env
        .line(&format!("-f {file} run orders --limit 3 --order none --reason INC-1234-of-the-night --yes"));
    let show = format!("show orders {id}");
    let lines = [
        "check",
        "plan",
        "plan --applied",
        "inspect orders",
        "inspect orders --letters",
        "inspect orders --by group",
        show.as_str(),
        "status",
        "alert",
        "runs",
        "run orders --limit 3 --order none --reason x --dry-run",
        "explain dialects",
    ];
    for columns in [40, 60, 80] {
        for line in lines {
            let mut words = vec!["-f", file];
            words.extend(line.split(' '));
            let (screen, _) = env.sit(&words, columns).end();
            assert!(screen.rows().len() > 2, "{line}: {:#?}", screen.rows());
            // A command to paste stays whole, over several rows.
            let mut command = false;
            let mut wrapped = screen.wrapped.clone();
            wrapped.retain(|row| {
                command = row.starts_with("next  ") || command && row.contains(" --");
                !command
            });
            assert!(wrapped.is_empty(), "{columns}, {line}: {wrapped:#?}");
        }
    }
}
