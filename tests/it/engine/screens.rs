//! The screens of select, run, resume and runs, as they are printed.

use insta::assert_snapshot;

use super::{Shop, letter};

/// The same night every time.
fn shop() -> Shop {
    let mut shop = Shop::new();
    shop.env.at("2026-11-30T03:12:08Z");
    shop.env.set("REDRIVE_SEED", "night");
    let key = |key: &str| Some(key.to_owned());
    shop.bury(&[letter(key("C-1"), 1), letter(key("C-1"), 2), letter(key("C-2"), 3), letter(None, 4)]);
    shop
}

#[test]
fn a_selection_and_its_dry_run() {
    let shop = shop();
    let select = shop.env.run(&[
        "select",
        "orders",
        "--where",
        "id != ev-1",
        "--limit",
        "200",
        "--out",
        "m.jsonl",
        "--reason",
        "INC-4471",
    ]);
    assert_snapshot!(select.to_string());
    assert_snapshot!(shop.line("run m.jsonl --dry-run").to_string());
}

#[test]
fn refusals_name_what_to_type() {
    let shop = shop();
    assert_snapshot!(shop.line("run orders").to_string());
    assert_snapshot!(shop.line("run orders --limit all --reason INC-1").err);
    assert_snapshot!(shop.line("run orders --limit all --rate unlimited --reason INC-1").err);
    assert_snapshot!(shop.line("resume r7d2f9").to_string());
}

#[test]
fn a_run_and_the_list_of_runs() {
    let shop = shop();
    assert_snapshot!(shop.line("run orders --limit 3 --reason INC-4471 --yes=3").to_string());
    assert_snapshot!(shop.line("runs").to_string());
}
