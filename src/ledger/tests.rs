//! Tests of the ledger: files, locks, states, and what a snapshot says of its letters.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;
use crate::clock::Time;
use crate::letter::{LetterId, Position};
use crate::manifest::{Line, Why};

fn at(millis: i64) -> Time {
    Time::from_millis(millis)
}

fn holder(owner: &str) -> Holder {
    let pid = std::process::id().cast_signed();
    Holder {
        owner: owner.to_owned(),
        run: "r1".to_owned(),
        who: "mira@ops-2".to_owned(),
        host: this_host(),
        pid,
        pid_start: process_start(pid).unwrap(),
        beat: at(0),
        lease_end: at(0),
    }
}

fn line(seq: u64) -> Line {
    Line {
        seq,
        letter: LetterId::new(&format!("r{seq}")),
        position: Position::new(format!("row:{seq}")),
        event_id: None,
        group: Some("C-1".to_owned()),
        cause: "91be4d".to_owned(),
        body: None,
        size: 10,
        kept: None,
        twin_of: None,
        twins: false,
    }
}

fn new_run(id: &str) -> NewRun {
    NewRun {
        id: id.to_owned(),
        channel: "orders".to_owned(),
        broker: "local".to_owned(),
        dlq: "q".to_owned(),
        queue: "orders.dlq".to_owned(),
        target: "orders".to_owned(),
        path: "transaction",
        rate: "50/s".to_owned(),
        ramp_ms: 0,
        settings: "{}".to_owned(),
        selection: String::new(),
        reason: "INC-1".to_owned(),
        who: "mira@ops-2".to_owned(),
        tool: "0.1.0".to_owned(),
        planned: 10_000,
        started: at(0),
    }
}

const LEASE: Duration = Duration::from_secs(60);

#[test]
fn private_and_versioned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/redrive/ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    ledger.sql.pragma_update(None, "user_version", 9).unwrap();
    drop(ledger);
    assert!(matches!(Ledger::open(&path), Err(LedgerError::Newer(9))));
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Ledger::open(&link), Err(LedgerError::File(..))));
    assert!(Ledger::look(&folder.path().join("none.db")).unwrap().is_none());
}

/// What a folder holds: names, modes and bytes.
fn all_in(folder: &Path) -> Vec<(std::ffi::OsString, u32, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> = entries
        .map(|entry| {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            (entry.file_name(), mode, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_file_of_something_else_is_refused_and_left_as_it_is() {
    let tables = "CREATE TABLE runs (id); CREATE TABLE letter (id); PRAGMA user_version = 1;";
    let wal = format!("PRAGMA journal_mode = WAL; {tables}");
    let named = format!("PRAGMA application_id = 7; {tables}");
    for (kind, sql) in
        [("text", None), ("plain", Some(tables)), ("wal", Some(&*wal)), ("named", Some(&*named))]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("of, somebody?.db");
        match sql {
            None => std::fs::write(&path, "to: mira\n").unwrap(),
            Some(sql) => rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap(),
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
        let before = all_in(folder.path());
        for opened in [Ledger::open(&path).map(Some), Ledger::look(&path)] {
            assert!(matches!(opened, Err(LedgerError::Foreign(_))), "{kind}");
            assert!(all_in(folder.path()) == before, "{kind}: something was changed");
        }
    }
}

#[test]
fn looking_at_a_ledger_leaves_its_mode_and_makes_none_of_an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let ledger = Ledger::open(&path).unwrap();
    // As a build before the mark wrote it.
    ledger.sql.pragma_update(None, "application_id", 0).unwrap();
    drop(ledger);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = all_in(folder.path());
    assert!(Ledger::look(&path).unwrap().is_some());
    assert!(all_in(folder.path()) == before);
    drop(Ledger::open(&path).unwrap());
    let after = all_in(folder.path());
    assert_eq!(after[0].1, 0o600);
    assert_eq!(&after[0].2[68..72], b"rdLG");
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    assert!(Ledger::look(&empty).unwrap().is_none());
    assert_eq!(std::fs::metadata(&empty).unwrap().len(), 0);
    assert!(Ledger::open(&empty).is_ok());
}

#[test]
fn l10_one_holder_per_queue_and_a_dead_one_loses_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("l.db")).unwrap();
    let first = ledger.lock("q", &holder("a"), at(0), LEASE, false).unwrap().unwrap();
    assert_eq!(first.epoch, 1);
    let refused = ledger.lock("q", &holder("b"), at(1), LEASE, false).unwrap().unwrap_err();
    assert_eq!(refused.who, "mira@ops-2");
    let taken = ledger.lock("q", &holder("b"), at(60_000), LEASE, false).unwrap().unwrap();
    assert_eq!(taken.epoch, 2);
    assert!(matches!(ledger.beat(&first, at(60_001), LEASE), Err(LedgerError::LockLost)));
    // A holder whose process is dead loses it before its lease ends.
    let dead = Holder { pid_start: 1, ..holder("c") };
    ledger.lock("q", &dead, at(60_002), LEASE, true).unwrap().unwrap();
    assert_eq!(ledger.lock("q", &holder("d"), at(60_003), LEASE, false).unwrap().unwrap().epoch, 4);
}

/// What a process that was taken over can still write.
fn written_without_the_epoch() -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("l.db")).unwrap();
    let old = ledger.lock("q", &holder("a"), at(0), LEASE, false).unwrap().unwrap();
    let run = ledger.begin_run(&new_run("r1")).unwrap();
    let mut writes = Writes::of(run);
    ledger.lock("q", &holder("b"), at(1), LEASE, true).unwrap().unwrap();
    let line = line(1);
    let entry = Entry { line: &line, state: Some(LetterState::Intended), attempt: 1, hash: None, note: None };
    let refused = ledger.write(&mut writes, &old, &[entry], at(2), true);
    let open = ledger.open_letters(run, 0, 10).unwrap().len();
    assert_eq!(open == 0, matches!(refused, Err(LedgerError::LockLost)));
    open
}

#[test]
fn m20_no_write_without_the_epoch() {
    assert_eq!(written_without_the_epoch(), 0);
    assert_eq!(crate::proof::mutation::planted::with("m20", written_without_the_epoch), 1, "m20: not caught");
}

#[test]
fn an_ousted_part_has_its_last_words_and_only_those_and_only_about_its_own_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("l.db")).unwrap();
    let old = ledger.lock("q", &holder("a"), at(0), LEASE, false).unwrap().unwrap();
    let run = ledger.begin_run(&new_run("r1")).unwrap();
    let mut writes = Writes::of(run);
    let part = ledger.part_held(run, &old).unwrap().unwrap();
    let lines = [line(1), line(2), line(3)];
    let entry =
        |n: usize, state| Entry { line: &lines[n], state: Some(state), attempt: 1, hash: None, note: None };
    let intents = [entry(0, LetterState::Intended), entry(1, LetterState::Intended)];
    ledger.write(&mut writes, &old, &intents, at(1), true).unwrap();
    // Another run takes over: what came of the sends is written, a new intent is not.
    let other = Holder { run: "r2".to_owned(), ..holder("b") };
    ledger.lock("q", &other, at(2), LEASE, true).unwrap().unwrap();
    let late = [entry(0, LetterState::Settled), entry(2, LetterState::Intended)];
    assert!(matches!(ledger.write(&mut writes, &old, &late, at(3), true), Err(LedgerError::LockLost)));
    ledger.last_words(&mut writes, &old, part, &late, at(3)).unwrap();
    let mut read = Writes::of(run);
    assert_eq!(read.state(&ledger, 1).unwrap(), LetterState::Settled);
    assert_eq!(read.state(&ledger, 3).unwrap(), LetterState::Planned);
    let open: Vec<u64> = ledger.open_letters(run, 0, 10).unwrap().iter().map(|open| open.seq).collect();
    assert_eq!(open, [2]);
    // A resume of the same run, from its lock on, and when it is dead and yet another run has the queue.
    let late = [entry(1, LetterState::Settled)];
    let resume = ledger.lock("q", &holder("c"), at(4), LEASE, true).unwrap().unwrap();
    assert_eq!(ledger.part_held(run, &old).unwrap(), None);
    assert_eq!(ledger.part_held(run, &resume).unwrap(), Some(1));
    let refused = |ledger: &mut Ledger, writes: &mut Writes| {
        matches!(ledger.last_words(writes, &old, part, &late, at(5)), Err(LedgerError::LockLost))
    };
    assert!(refused(&mut ledger, &mut writes));
    ledger.continue_run(run, at(5)).unwrap();
    assert!(refused(&mut ledger, &mut writes));
    ledger.lock("q", &other, at(6), LEASE, true).unwrap().unwrap();
    assert!(refused(&mut ledger, &mut writes));
    assert_eq!(Writes::of(run).state(&ledger, 2).unwrap(), LetterState::Intended);
}

#[test]
fn states_open_letters_and_notes_follow_the_writes() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("l.db")).unwrap();
    let lock = ledger.lock("q", &holder("a"), at(0), LEASE, false).unwrap().unwrap();
    let run = ledger.begin_run(&new_run("r7d2f9")).unwrap();
    let mut writes = Writes::of(run);
    let lines: Vec<Line> = [1, 2, 5000].into_iter().map(line).collect();
    let entry = |line, state, note| Entry { line, state: Some(state), attempt: 1, hash: None, note };
    let intents: Vec<_> = lines.iter().map(|line| entry(line, LetterState::Intended, None)).collect();
    ledger.write(&mut writes, &lock, &intents, at(5), true).unwrap();
    assert_eq!(ledger.open_elsewhere("q").unwrap().len(), 3);
    let answers = [
        entry(&lines[0], LetterState::Settled, None),
        entry(&lines[1], LetterState::Failed, Some(("failed", "TOO_LARGE", None, None))),
        entry(&lines[2], LetterState::InDoubt, Some(("in_doubt", "no_answer", None, None))),
    ];
    ledger.write(&mut writes, &lock, &answers, at(6), true).unwrap();
    let open = ledger.open_letters(run, 0, 10).unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].seq, open[0].state, open[0].first_at), (5000, LetterState::InDoubt, at(5)));
    assert_eq!(ledger.notes(run, 0, 10).unwrap().len(), 2);
    let mut fresh = Writes::of(run);
    assert_eq!(fresh.state(&ledger, 1).unwrap(), LetterState::Settled);
    assert_eq!(fresh.state(&ledger, 3).unwrap(), LetterState::Planned);
    assert_eq!(ledger.tally(run).unwrap()[&LetterState::Settled], 1);
    assert_eq!(ledger.runs_like("r7").unwrap().len(), 1);
}

fn seen<'a>(letter: &'a str, group: Option<&'a str>, selected: bool) -> Seen<'a> {
    Seen {
        letter,
        position: letter,
        event_id: None,
        group,
        origin: None,
        cause: "91be4d",
        body: Some([7; 32]),
        size: 10,
        died: None,
        selected,
        kept: None,
    }
}

fn lines(scratch: &Scratch) -> Vec<Line> {
    let mut lines = Vec::new();
    scratch
        .lines::<LedgerError>(|line| {
            lines.push(line);
            Ok(())
        })
        .unwrap();
    lines
}

const PLAIN: Judged = Judged { ordered: true, dedupe: false };

#[test]
fn m27_a_letter_behind_one_that_is_not_selected_is_held() {
    let mut scratch = Scratch::new().unwrap();
    scratch.add(&seen("a1", Some("A"), false)).unwrap();
    scratch.add(&seen("a2", Some("A"), true)).unwrap();
    scratch.add(&seen("b1", Some("B"), true)).unwrap();
    scratch.add(&seen("b2", Some("B"), false)).unwrap();
    scratch.add(&seen("c1", None, true)).unwrap();
    scratch.judge(PLAIN).unwrap();
    let lines = lines(&scratch);
    assert_eq!(lines.iter().map(|line| line.letter.as_str()).collect::<Vec<_>>(), ["a2", "b1", "c1"]);
    let kept = lines[0].kept.as_ref().unwrap();
    assert_eq!((kept.why, kept.letter.as_ref().unwrap().as_str()), (Why::Behind, "a1"));
    assert!(lines[1].kept.is_none() && lines[2].kept.is_none());
    let summary = scratch.summary().unwrap();
    assert_eq!((summary.letters, summary.planned, summary.send, summary.groups), (5, 3, 2, 1));
    assert_eq!(summary.waiting[0].waits_for, "a1");
    assert_eq!((summary.named(Why::Behind), summary.waiting_more), (&["a2".to_owned()][..], 0));
}

#[test]
fn origin_order_counts_where_it_differs_from_arrival() {
    let mut scratch = Scratch::new().unwrap();
    for (letter, group, order) in [("a3", "A", 3), ("b1", "B", 9), ("a1", "A", 1), ("a2", "A", 2)] {
        let origin = Some((1, order));
        scratch.add(&Seen { origin, ..seen(letter, Some(group), letter != "a1") }).unwrap();
    }
    scratch.judge(PLAIN).unwrap();
    let lines = lines(&scratch);
    assert_eq!(lines.iter().map(|line| line.letter.as_str()).collect::<Vec<_>>(), ["b1", "a2", "a3"]);
    assert!(lines[1].kept.is_some() && lines[2].kept.is_some(), "both are behind a1");
}

#[test]
fn same_id_other_body_is_held_and_same_body_is_a_twin() {
    for dedupe in [false, true] {
        let mut scratch = Scratch::new().unwrap();
        let ev = |id| Some(id);
        scratch.add(&Seen { event_id: ev("e1"), ..seen("x1", None, true) }).unwrap();
        scratch.add(&Seen { event_id: ev("e1"), body: Some([8; 32]), ..seen("x2", None, true) }).unwrap();
        scratch.add(&Seen { event_id: ev("e2"), ..seen("y1", None, true) }).unwrap();
        scratch.add(&Seen { event_id: ev("e2"), ..seen("y2", None, true) }).unwrap();
        scratch.judge(Judged { dedupe, ..PLAIN }).unwrap();
        let lines = lines(&scratch);
        assert_eq!(lines[0].kept.as_ref().unwrap().why, Why::Conflict);
        assert_eq!(lines[1].kept.as_ref().unwrap().why, Why::Conflict);
        assert_eq!(lines[2].twins, dedupe);
        assert_eq!(lines[3].twin_of, dedupe.then_some(3));
        let summary = scratch.summary().unwrap();
        assert_eq!(summary.repeated, 2);
        let named = |letter: &str| (letter.to_owned(), "e2".to_owned());
        assert_eq!(summary.repeated_named, [named("y1"), named("y2")]);
        assert_eq!(summary.named(Why::Conflict), ["x1", "x2"]);
        assert_eq!(summary.twins_named, ["y2"][usize::from(!dedupe)..]);
    }
}

/// Two bodies under one id are kept only once all letters are known, and hold their groups like any other that stays.
#[test]
fn what_stands_behind_a_conflict_is_held_though_nothing_else_stays() {
    let mut scratch = Scratch::new().unwrap();
    let e1 = Some("e1");
    scratch.add(&Seen { event_id: e1, ..seen("a1", Some("A"), true) }).unwrap();
    scratch.add(&Seen { event_id: e1, body: Some([8; 32]), ..seen("b1", Some("B"), true) }).unwrap();
    scratch.add(&seen("a2", Some("A"), true)).unwrap();
    scratch.add(&seen("c1", Some("C"), true)).unwrap();
    scratch.judge(PLAIN).unwrap();
    let lines = lines(&scratch);
    let whys: Vec<Option<Why>> = lines.iter().map(|line| line.kept.as_ref().map(|kept| kept.why)).collect();
    assert_eq!(whys, [Some(Why::Conflict), Some(Why::Conflict), Some(Why::Behind), None]);
    assert_eq!(lines[2].kept.as_ref().unwrap().letter.as_ref().unwrap().as_str(), "a1");
}

/// A queue full of one event id, or of groups whose first letter stays: each letter is judged by what is known of its
/// id or group, never by reading all others again.
#[test]
fn a_great_many_letters_that_stay_are_judged_in_one_pass() {
    const MANY: usize = 60_000;
    let begun = std::time::Instant::now();
    let mut scratch = Scratch::new().unwrap();
    for n in 0..MANY {
        let (letter, group) = (format!("a{n}"), format!("G-{}", n / 3));
        // One id with two bodies each; of each group the first letter is not selected.
        let body = Some([u8::try_from(n % 2).unwrap(); 32]);
        let event = (n % 2 == 0).then(|| "e1".to_owned()).or_else(|| (n % 3 == 0).then(|| "e1".to_owned()));
        let seen = seen(&letter, Some(&group), n % 3 != 0);
        scratch.add(&Seen { event_id: event.as_deref(), body, ..seen }).unwrap();
    }
    scratch.judge(PLAIN).unwrap();
    let summary = scratch.summary().unwrap();
    assert_eq!(summary.planned, MANY as u64 * 2 / 3);
    assert_eq!(summary.send, 0);
    let lines = lines(&scratch);
    let (one, other) = (lines[0].kept.as_ref().unwrap(), lines[1].kept.as_ref().unwrap());
    assert_eq!((one.why, other.why), (Why::Behind, Why::Conflict));
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn of_many_the_first_are_named_and_the_others_counted() {
    let mut scratch = Scratch::new().unwrap();
    for n in 0..NAMED_MAX + 7 {
        let group = format!("G-{n}");
        scratch.add(&seen(&format!("a{n}"), Some(&group), false)).unwrap();
        scratch.add(&seen(&format!("b{n}"), Some(&group), true)).unwrap();
    }
    scratch.judge(PLAIN).unwrap();
    let summary = scratch.summary().unwrap();
    assert_eq!((summary.waiting.len(), summary.waiting_more), (NAMED_MAX, 7));
    assert_eq!(summary.named(Why::Behind).len(), NAMED_MAX);
    assert_eq!(summary.named(Why::Behind)[..2], ["b0", "b1"]);
}

#[test]
fn a_manifest_is_found_again_by_position_and_body() {
    let mut scratch = Scratch::new().unwrap();
    for seq in 1..=3 {
        let mut line = line(seq);
        line.body = Some(crate::manifest::hex(&[7; 32]));
        scratch.expect(&line).unwrap();
    }
    assert_eq!(scratch.expected("row:1", Some(&[7; 32])).unwrap(), Some(true));
    assert_eq!(scratch.expected("row:2", Some(&[9; 32])).unwrap(), Some(false));
    assert_eq!(scratch.expected("row:9", Some(&[7; 32])).unwrap(), None);
    let found = scratch.settle_expected().unwrap();
    assert_eq!(found, Found { same: 1, changed: 1, gone: 1 });
    assert_eq!(lines(&scratch).len(), 1, "the one that is gone is a line, kept as gone");
}
