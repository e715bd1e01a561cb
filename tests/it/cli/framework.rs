//! The command line itself: help, usage errors, where topology and broker come from.

use super::TestEnv;

#[test]
fn a_bare_call_prints_the_first_page_on_stderr() {
    let env = TestEnv::new();
    let bare = env.line("").exits(2);
    let help = env.line("--help").ok();
    assert_eq!(bare.err, help.out);
    assert_eq!((bare.out.as_str(), help.err.as_str()), ("", ""));
    assert_eq!(env.line("help").ok().out, help.out);
}

#[test]
fn usage_errors_name_what_is_near() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.line("explian RD0103"), @r"
    --- stderr
    error: no verb explian; near: explain
    next  redrive --help
    [2]
    ");
    insta::assert_snapshot!(env.line("explain RD0103 --outptu json"), @r"
    --- stderr
    error: no option --outptu; near: --output
    next  redrive explain --help
    [2]
    ");
    insta::assert_snapshot!(env.line("explain"), @r"
    --- stderr
    error: explain needs <CODE|TOPIC>
    next  redrive explain --help
    [2]
    ");
    insta::assert_snapshot!(env.line("explain x -o yaml"), @r"
    --- stderr
    error: --output <FORMAT> takes one of table, json, jsonl
    next  redrive explain --help
    [2]
    ");
}

#[test]
fn l09_the_exit_codes_are_explained() {
    insta::assert_snapshot!(TestEnv::new().line("explain exit-codes"), @r"
    0  done, or nothing to do      10  changes pending (plan --check)
    1  failed                      11  partial: some moved, some failed or held
    2  usage                       12  stopped early, can be resumed
    3  topology not valid          13  an alert threshold is crossed
    4  refused, or declined        14  not found
                                   70  a bug: counts do not add up
                                  129, 130, 143  hung up, interrupted, terminated
    ");
}
