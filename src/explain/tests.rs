//! Each page's examples do what the page says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::topology::{self, Outside};

/// Codes that an example gives.
fn codes(page: &Page, example: &str, folder: &std::path::Path) -> Vec<&'static str> {
    let variable = |name: &str| match name {
        "EMPTY" => Some(String::new()),
        "MQ_PASSWORD" => Some("from-the-environment".to_owned()),
        "MQ_URL" => Some("amqp://ops:from-the-environment@mq.internal/payments".to_owned()),
        _ => None,
    };
    let text = page.whole(example);
    // The one example that is no text.
    let bytes = match text.split_once("\\xe9") {
        Some((before, after)) => [before.as_bytes(), b"\xe9", after.as_bytes()].concat(),
        None => text.into_bytes(),
    };
    let loaded =
        topology::load("redrive.yaml", &bytes, &Outside { variable: &variable, base: folder.to_path_buf() });
    loaded.diagnostics.iter().map(|problem| problem.code.0).collect()
}

#[cfg(unix)]
#[test]
fn each_wrong_example_gives_its_code_and_nothing_else_and_each_right_one_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("secret", 0o600), ("open-secret", 0o644)] {
        let path = folder.path().join(name);
        std::fs::write(&path, "from-a-file\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut wrong = Vec::new();
    for page in pages().filter(|page| page.code < "RD0300") {
        let given = codes(page, page.wrong, folder.path());
        if given != [page.code] {
            wrong.push(format!("{}, wrong example: {given:?}\n{}", page.code, page.whole(page.wrong)));
        }
        let given = codes(page, page.right, folder.path());
        if !given.is_empty() {
            wrong.push(format!("{}, right example: {given:?}\n{}", page.code, page.whole(page.right)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_code_has_one_page_and_each_page_a_code() {
    let mut listed: Vec<&str> = topology::codes::ALL.iter().map(|code| code.0).collect();
    let mut paged: Vec<&str> = pages().map(|page| page.code).filter(|code| *code < "RD0300").collect();
    assert!(paged.is_sorted(), "{paged:?}");
    listed.sort_unstable();
    paged.sort_unstable();
    assert_eq!(listed, paged);
}

#[test]
fn a_page_looks_like_the_screens() {
    insta::assert_snapshot!(page("rd0103").unwrap().lines().join("\n"), @r"
    RD0103  a duration has no unit
      60 is 60 ms to one broker, 60 s to another. Units: ms, s, m, h, d.
      wrong  retry: {tiers: [{delay: 60}]}
      right  retry: {tiers: [{delay: 60s}]}
    ");
    for page in pages() {
        for line in page.lines() {
            let example =
                line.starts_with("  wrong") || line.starts_with("  right") || line.starts_with("         ");
            assert!(example || line.chars().count() <= 100, "{line}");
        }
        assert!(!page.title.ends_with('.') && page.why.ends_with('.'), "{}", page.code);
    }
}
