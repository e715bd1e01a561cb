//! `explain`, `completions` and `man`: what is known without a broker.

use super::TestEnv;

#[test]
fn a_code_has_a_wrong_and_a_right_example() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.line("explain RD0103"), @r"
    RD0103  a duration has no unit
      60 is 60 ms to one broker, 60 s to another. Units: ms, s, m, h, d.
      wrong  retry: {tiers: [{delay: 60}]}
      right  retry: {tiers: [{delay: 60s}]}
    ");
    assert_eq!(env.line("explain rd0103").ok().out, env.line("explain RD0103").ok().out);
    assert_eq!(env.line("explain RD0103 -o json").ok().json()["code"], "RD0103");
}

#[test]
fn every_code_that_check_can_give_has_a_page_in_the_list() {
    let list = TestEnv::new().line("explain codes").ok().out;
    for code in redrive::topology::codes::ALL {
        assert!(list.contains(code.0), "{code} is not listed");
    }
}

#[test]
fn an_unknown_page_names_what_is_near() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.line("explain exit-code"), @r"
    --- stderr
    error: no page on exit-code; near: exit-codes
    next  redrive explain codes
    [2]
    ");
    insta::assert_snapshot!(env.line("explain tides"), @r"
    --- stderr
    error: no page on tides
    next  redrive explain codes
    [2]
    ");
}

#[test]
fn l09_the_exit_codes_as_data_are_the_same() {
    let env = TestEnv::new();
    let json = env.line("explain exit-codes -o json").ok().json();
    let text = env.line("explain exit-codes").ok().out;
    for entry in json["list"].as_array().unwrap() {
        assert!(text.contains(&entry["code"].to_string()), "{entry}");
        assert!(text.contains(entry["words"].as_str().unwrap()), "{entry}");
    }
}

#[test]
fn every_dialect_is_listed() {
    let env = TestEnv::new();
    let list = env.line("explain dialects").ok().out;
    for dialect in redrive::dialect::DIALECTS.iter() {
        assert!(
            list.lines().any(|line| line.starts_with(dialect.name())),
            "{} is not listed",
            dialect.name()
        );
    }
}

#[test]
fn channels_for_a_shell_come_from_the_topology_and_never_an_error() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.line("completions --channels"), @"");
    env.topology("version: 1\nbrokers: {l: {url: \"sqlite:x.db\"}}\nchannels:\n  orders: {source: orders}\n  mails: {source: mails}\n");
    insta::assert_snapshot!(env.line("completions --channels"), @r"
    orders
    mails
    ");
    env.topology("version: [");
    insta::assert_snapshot!(env.line("completions --channels"), @"");
}

#[test]
fn dynamic_completions_ask_for_channels() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = env.run(&["completions", shell, "--dynamic"]).ok().out;
        assert!(script.contains("redrive completions --channels"), "{shell}");
        assert!(script.starts_with(&env.run(&["completions", shell]).ok().out), "{shell}");
    }
    insta::assert_snapshot!(env.line("completions elvish --dynamic"), @r"
    --- stderr
    error: elvish cannot ask for channels; without --dynamic it completes the rest
    next  redrive completions --help
    [2]
    ");
}

#[test]
fn bash_completes_verbs_and_channels() {
    let env = TestEnv::new();
    env.topology("version: 1\nbrokers: {l: {url: \"sqlite:x.db\"}}\nchannels:\n  orders: {source: orders}\n  mails: {source: mails}\n");
    env.write("script.bash", env.line("completions bash --dynamic").ok().out);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_redrive"));
    let complete = |words: &str, at: usize| {
        let script = format!(
            "source script.bash; COMP_WORDS=({words}); COMP_CWORD={at}; _redrive_channels redrive \"${{COMP_WORDS[{at}]}}\" \"\"; echo \"${{COMPREPLY[@]}}\""
        );
        let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
        let output = std::process::Command::new("bash")
            .args(["--norc", "-c", &script])
            .current_dir(env.folder())
            .env_clear()
            .env("PATH", path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("redrive pl", 1), "plan");
    assert_eq!(complete("redrive inspect or", 2), "orders");
    assert_eq!(complete("redrive inspect ''", 2), "orders mails");
}

#[test]
fn the_manual_has_a_page_for_each_verb() {
    let env = TestEnv::new();
    let page = env.line("man").ok().out;
    assert!(page.contains(".TH redrive 1") && page.contains("apply"));
    let apply = env.line("man apply").ok().out;
    assert!(apply.contains("accept\\-loss") && apply.contains("Examples"), "{apply}");
    insta::assert_snapshot!(env.line("man aply"), @r"
    --- stderr
    error: no verb aply; near: apply
    next  redrive --help
    [2]
    ");
}
