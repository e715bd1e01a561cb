//! Tests of manifests as hostile input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;

use super::*;

fn head() -> Head {
    Head {
        schema: SCHEMA.to_owned(),
        tool: "0.1.0".to_owned(),
        channel: "orders".to_owned(),
        broker: "local".to_owned(),
        queue: "orders.dlq".to_owned(),
        snapshot: "s1".to_owned(),
        target: "orders".to_owned(),
        rate: "50/s".to_owned(),
        order: OrderPolicy::Group,
        judged: crate::manifest::Judged::default(),
        reason: "INC-1 \u{1b}[2J".to_owned(),
        by: "mira@ops-2".to_owned(),
        at: Time::from_millis(0),
        selection: "--cause 91be4d".to_owned(),
    }
}

fn line(seq: u64) -> Line {
    Line {
        seq,
        letter: LetterId::new(&format!("r{seq}")),
        position: Position::new(format!("row:{seq}")),
        event_id: Some(format!("ev-{seq}")),
        group: Some("C-1".to_owned()),
        cause: "91be4d".to_owned(),
        body: None,
        size: 10,
        kept: None,
        twin_of: None,
        twins: false,
    }
}

fn written(lines: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.jsonl");
    let mut writer = Writer::create(&path, &head()).unwrap();
    for seq in 1..=lines {
        writer.line(&line(seq)).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), lines);
    (folder, path)
}

#[test]
fn what_is_written_is_read_and_nobody_else_may_read_it() {
    let (_folder, path) = written(3);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (read, count) = Reader::verify(&path).unwrap();
    assert_eq!((read, count), (head(), 3));
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.next_line().unwrap(), Some(line(1)));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains('\u{1b}'), "O01: control characters are escaped in the file");
    assert!(Writer::create(&path, &head()).is_err(), "a frozen selection is not overwritten");
}

#[test]
fn the_flags_of_a_selection_are_frozen_and_a_head_without_them_is_plain() {
    let (folder, path) = written(1);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("judged"), "as an earlier version wrote it: {text}");
    assert_eq!(Reader::verify(&path).unwrap().0.judged, Judged::default());
    let judged = Judged { dedupe: true, skip_overtaken: true, ..Judged::default() };
    let path = folder.path().join("judged.jsonl");
    Writer::create(&path, &Head { judged, ..head() }).unwrap().finish().unwrap();
    assert_eq!(Reader::verify(&path).unwrap().0.judged, judged);
}

#[test]
fn a_changed_line_is_named_by_its_number() {
    let (_folder, path) = written(3);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("ev-2", "ev-9")).unwrap();
    let fault = Reader::verify(&path).unwrap_err();
    assert!(matches!(fault, Fault::Line(3, _)), "{fault}");
}

#[test]
fn lines_that_went_are_seen() {
    let (_folder, path) = written(3);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let without_last = [lines[0], lines[1], lines[2], lines[4]].join("\n") + "\n";
    std::fs::write(&path, without_last).unwrap();
    assert!(matches!(Reader::verify(&path).unwrap_err(), Fault::Altered));
    std::fs::write(&path, lines[..3].join("\n") + "\n").unwrap();
    assert!(matches!(Reader::verify(&path).unwrap_err(), Fault::CutOff));
}

#[test]
fn a_newer_schema_is_refused_and_anything_else_is_no_manifest() {
    let (_folder, path) = written(1);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("manifest.v1", "manifest.v2")).unwrap();
    assert!(matches!(Reader::verify(&path).unwrap_err(), Fault::Newer(_)));
    for bad in ["", "\n", "{}\n", "[]\n", "\u{0}\u{1}\n", "{\"schema\":3}\n"] {
        std::fs::write(&path, bad).unwrap();
        assert!(Reader::verify(&path).is_err(), "{bad:?}");
    }
    std::fs::write(&path, "x".repeat(LINE_MAX * 3)).unwrap();
    assert!(matches!(Reader::verify(&path).unwrap_err(), Fault::Line(1, _)));
}

#[test]
fn a_symlink_is_not_followed() {
    let (folder, path) = written(1);
    let link = folder.path().join("link.jsonl");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Reader::verify(&link), Err(Fault::Io(_))));
}

#[test]
fn what_is_too_long_to_keep_is_still_told_apart() {
    let long = |end: &str| "é".repeat(TEXT_MAX) + end;
    let (one, other) = (long("1"), long("2"));
    let (one, other) = (told_apart(&one), told_apart(&other));
    assert!(one != other && one.len() <= TEXT_MAX && other.len() <= TEXT_MAX);
    assert_eq!(told_apart("ev-1"), "ev-1");
    let most = "x".repeat(TEXT_MAX);
    assert_eq!(told_apart(&most), most);
}
