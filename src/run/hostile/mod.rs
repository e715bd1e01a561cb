//! Seeded schedules against a hostile broker: errors, delays, lost answers, claims that end early, a second
//! consumer on the dead-letter queue, crashes and resumes. After each the rules of the design are checked
//! against what the broker really holds, and each checker is shown to fail on a planted fault.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod broker;
mod selected;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use broker::{Hostile, Plant, Shape};
use tokio::sync::watch;

use super::engine::{Cause, End, Job, Lines, Settings, drive};
use super::event::Nobody;
use super::recovery::Orders;
use crate::broker::{Relocate, Task};
use crate::clock::{Clock, Time, VirtualClock};
use crate::ledger::{Holder, Ledger, LetterState, NewRun, Writes};
use crate::letter::LetterId;
use crate::manifest::{Head, Kept, Line, OrderPolicy, Reader, SCHEMA, Why, Writer, hex};
use crate::topology::{At, Channel, GroupRule, Rate};

fn channel() -> Channel {
    Channel {
        name: At::nowhere("orders".to_owned()),
        source: At::nowhere("orders".to_owned()),
        group: At::nowhere(GroupRule::Key),
        ..Channel::default()
    }
}

fn head() -> Head {
    Head {
        schema: SCHEMA.to_owned(),
        tool: "test".to_owned(),
        channel: "orders".to_owned(),
        broker: "hostile".to_owned(),
        queue: "orders.dlq".to_owned(),
        snapshot: "s".to_owned(),
        target: "orders".to_owned(),
        rate: "unlimited".to_owned(),
        order: OrderPolicy::Group,
        judged: crate::manifest::Judged::default(),
        reason: "test".to_owned(),
        by: "t@t".to_owned(),
        at: Time::from_millis(0),
        selection: String::new(),
    }
}

/// What one schedule came to.
struct Outcome {
    end: End,
    parts: u32,
    states: BTreeMap<u64, LetterState>,
    ever_in_doubt: BTreeSet<u64>,
}

/// One run over the broker's letters, with as many resumes as it takes.
fn schedule(hostile: &Hostile, settings: &Settings) -> Outcome {
    schedule_but(hostile, settings, &[])
}

/// The same, some letters being kept by a rule known before.
fn schedule_but(hostile: &Hostile, settings: &Settings, kept: &[u64]) -> Outcome {
    // Memory, where there is some: these ledgers need not outlive a power loss.
    let memory = std::path::Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    let mut ledger = Ledger::open(&folder.path().join("ledger.db")).unwrap();
    let channel = channel();
    let clock: Arc<VirtualClock> = hostile.clock();
    let path = ledger.manifest_path("r1").unwrap();
    let mut writer = Writer::create(&path, &head()).unwrap();
    let letters = hostile.letters();
    for (index, letter) in letters.iter().enumerate() {
        let body = letter.message.body.as_ref().map(|body| {
            use sha2::Digest;
            hex(&sha2::Sha256::digest(body))
        });
        let group = letter.message.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned());
        writer
            .line(&Line {
                seq: index as u64 + 1,
                letter: LetterId::new(letter.id.as_str()),
                position: letter.position.clone(),
                event_id: None,
                group,
                cause: "c".to_owned(),
                body,
                size: letter.size(),
                kept: kept.contains(&(index as u64 + 1)).then_some(Kept {
                    why: Why::Behind,
                    letter: None,
                    detail: None,
                }),
                twin_of: None,
                twins: false,
            })
            .unwrap();
    }
    let planned = writer.finish().unwrap();
    let number = ledger
        .begin_run(&NewRun {
            id: "r1".to_owned(),
            channel: "orders".to_owned(),
            broker: "hostile".to_owned(),
            dlq: "q".to_owned(),
            queue: "orders.dlq".to_owned(),
            target: "orders".to_owned(),
            path: "p",
            rate: "unlimited".to_owned(),
            ramp_ms: 0,
            settings: "{}".to_owned(),
            selection: String::new(),
            reason: "test".to_owned(),
            who: "t@t".to_owned(),
            tool: "test".to_owned(),
            planned,
            started: clock.now(),
        })
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut parts = 0;
    let mut ever_in_doubt = BTreeSet::new();
    loop {
        parts += 1;
        let owner = format!("o{parts}");
        let holder = Holder {
            owner: owner.clone(),
            run: "r1".to_owned(),
            who: "t@t".to_owned(),
            host: "h".to_owned(),
            pid: 1,
            pid_start: 1,
            beat: clock.now(),
            lease_end: clock.now(),
        };
        let lock = ledger.lock("q", &holder, clock.now(), Duration::from_secs(60), true).unwrap().unwrap();
        if parts > 1 {
            ledger.continue_run(number, clock.now()).unwrap();
        }
        let task = Task {
            run: "r1".to_owned(),
            owner,
            who: "t@t".to_owned(),
            target: "orders".to_owned(),
            take_over: true,
            snapshot: "s".to_owned(),
            claim_for: settings.claim_for,
        };
        let capabilities = hostile.capabilities();
        let (_keep, stopping) = watch::channel(false);
        let crashed = hostile.crashes();
        let result = runtime.block_on(async {
            let mover = hostile.begin(&channel, &task).await.unwrap();
            let mut nobody = Nobody;
            let job = Job {
                clock: clock.clone(),
                channel: &channel,
                capabilities: &capabilities,
                ledger: &mut ledger,
                lock,
                run: "r1".to_owned(),
                number,
                manifest: Lines::of(Reader::open(&path).unwrap()),
                planned,
                kept: (0, kept.len() as u64),
                refailed_before: 0,
                mover,
                settings: settings.clone(),
                resume: (parts > 1).then(Orders::default),
                stopping,
                observer: &mut nobody,
            };
            tokio::select! {
                biased;
                end = drive(job) => Some(end),
                () = crashed.notified() => None,
            }
        });
        let open = ledger.open_letters(number, 0, 100_000).unwrap();
        let intended = open.iter().filter(|open| open.state == LetterState::Intended).count();
        let most = if hostile.shape() == Shape::NoProof { broker::IN_DOUBT } else { usize::MAX };
        assert!(intended <= most, "{intended} are in doubt after a crash");
        for open in open {
            if open.state == LetterState::InDoubt {
                ever_in_doubt.insert(open.seq);
            }
        }
        hostile.time_passes();
        match result {
            None => {}
            Some(Ok(end)) if end.cause.is_some() && parts < 40 => {}
            Some(Ok(end)) => {
                let mut writes = Writes::of(number);
                let states = (1..=planned).map(|seq| (seq, writes.state(&ledger, seq).unwrap())).collect();
                return Outcome { end, parts, states, ever_in_doubt };
            }
            Some(Err(error)) => panic!("{error}"),
        }
        assert!(parts < 200, "I7: it does not end");
    }
}

/// The rules, against what the broker holds. `Err` names the rule.
fn check(hostile: &Hostile, outcome: &Outcome, faulty: bool) -> Result<(), String> {
    hostile.let_late_ones_arrive();
    let world = hostile.look();
    let counts = &outcome.end.counts;
    if !counts.add_up() {
        return Err(format!("rule 7: {counts:?}"));
    }
    let mut copies: BTreeMap<u64, usize> = BTreeMap::new();
    let mut first: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for copy in &world.target {
        *copies.entry(copy.seq).or_default() += 1;
        if copies[&copy.seq] == 1 {
            first.entry(copy.group.clone()).or_default().push(copy.seq);
        }
        let original = &world.originals[copy.seq as usize - 1];
        if original.body != copy.message.body || original.key != copy.message.key {
            return Err(format!("rule 4: letter {} is not what it was", copy.seq));
        }
        let kept = original
            .headers
            .iter()
            .all(|header| copy.message.headers.all(&header.name).any(|value| *value == header.value));
        if !kept {
            return Err(format!("rule 4: letter {} lost a header", copy.seq));
        }
    }
    for (seq, state) in &outcome.states {
        let in_dlq = world.in_dlq.contains(seq);
        let there = copies.get(seq).copied().unwrap_or(0);
        let taken = world.taken.contains(seq);
        if !in_dlq && there == 0 && !taken {
            return Err(format!("rule 1: letter {seq} is nowhere"));
        }
        if there > 1 && !outcome.ever_in_doubt.contains(seq) {
            return Err(format!("I2: {there} copies of letter {seq}, never named"));
        }
        match state {
            LetterState::Settled | LetterState::Published if there == 0 => {
                return Err(format!("I6: letter {seq} is moved without a copy"));
            }
            LetterState::Settled if in_dlq => return Err(format!("I8: letter {seq} is settled and there")),
            LetterState::Failed | LetterState::Planned if there > 0 => {
                return Err(format!("I6: letter {seq} is {state:?} and has a copy"));
            }
            LetterState::Intended => return Err(format!("I7: letter {seq} is intended at the end")),
            _ => {}
        }
    }
    for (group, seqs) in &first {
        if seqs.is_sorted() {
            continue;
        }
        return Err(format!("rule 5: group {group} arrived as {seqs:?}"));
    }
    for (group, seqs) in &world.groups {
        let last = first.get(group).and_then(|seqs| seqs.last().copied()).unwrap_or(0);
        for seq in seqs.iter().filter(|seq| **seq < last) {
            if !copies.contains_key(seq) && !world.taken.contains(seq) {
                return Err(format!("rule 5: group {group} passed letter {seq}, which stays"));
            }
        }
    }
    if !faulty && counts.moved != counts.planned {
        return Err(format!("I9: not all is moved: {counts:?}"));
    }
    Ok(())
}

fn settings() -> Settings {
    Settings {
        rate: Rate::Unlimited,
        max_errors: 0,
        stop_on_refail: None,
        allow_gone: true,
        reconnect_for: Duration::from_secs(600),
        ..Settings::default()
    }
}

fn many(shape: Shape, seeds: std::ops::Range<u64>) -> (u32, u64) {
    let (mut parts, mut doubts) = (0, 0);
    for seed in seeds {
        let hostile = Hostile::new(seed, shape, Plant::None, 0.04);
        let outcome = schedule(&hostile, &settings());
        if let Err(broken) = check(&hostile, &outcome, true) {
            panic!("{shape:?} seed {seed}: {broken}\n{:?}", outcome.end);
        }
        parts += outcome.parts;
        doubts += outcome.ever_in_doubt.len() as u64;
    }
    (parts, doubts)
}

#[test]
fn a_thousand_schedules_keep_the_rules() {
    for shape in Shape::ALL {
        let (parts, doubts) = many(shape, 0..200);
        println!("{shape:?}: 200 schedules, {parts} parts, {doubts} letters in doubt");
        if shape == Shape::Transaction {
            assert_eq!(doubts, 0, "§4: no letter of path T is ever in doubt");
        }
    }
}

#[test]
fn without_a_fault_everything_moves_once() {
    for shape in Shape::ALL {
        let hostile = Hostile::new(7, shape, Plant::None, 0.0);
        let outcome = schedule(&hostile, &settings());
        check(&hostile, &outcome, false).unwrap();
        assert_eq!(outcome.parts, 1);
        assert!(outcome.ever_in_doubt.is_empty());
    }
}

#[test]
fn every_checker_fails_on_its_planted_fault() {
    for (plant, rule) in [
        (Plant::LosesOne, "rule 1"),
        (Plant::SendsTwice, "I2"),
        (Plant::SwapsTwo, "rule 5"),
        (Plant::AltersBody, "rule 4"),
        (Plant::DropsHeader, "rule 4"),
        (Plant::AcksNothing, "rule 1"),
        (Plant::SettlesNothing, "I8"),
        (Plant::ReturnIsAck, "rule 1"),
    ] {
        let shape = Shape::NoProof;
        let hostile = Hostile::new(3, shape, plant, 0.0);
        let outcome = schedule(&hostile, &settings());
        let broken = check(&hostile, &outcome, false).expect_err(&format!("{plant:?} was not seen"));
        assert!(broken.starts_with(rule), "{plant:?}: {broken}");
    }
}

fn caught(mutation: &'static str, shapes: &[Shape], seeds: u64) -> String {
    crate::proof::mutation::planted::with(mutation, || {
        for shape in shapes {
            for seed in 0..seeds {
                let hostile = Hostile::new(seed, *shape, Plant::None, 0.06);
                let outcome = schedule(&hostile, &settings());
                if let Err(broken) = check(&hostile, &outcome, true) {
                    return format!("{mutation}: {broken}");
                }
            }
        }
        panic!("{mutation} was not caught");
    })
}

#[test]
fn m06_resend_after_the_window() {
    println!("{}", caught("m06", &[Shape::Window], 300));
}

#[test]
fn m13_a_hidden_retry_of_the_client() {
    println!("{}", caught("m13", &[Shape::NoProof], 50));
}

#[test]
fn m26_proof_by_event_id() {
    println!("{}", caught("m26", &[Shape::Finds], 300));
}

#[test]
fn l07_a_target_that_goes_away_leaves_the_source_as_it_was() {
    let hostile = Hostile::new(1, Shape::NoProof, Plant::TargetGoesAfter(2), 0.0);
    let folder = hostile.look();
    let outcome = schedule(&hostile, &Settings { max_errors: 0, ..settings() });
    let world = hostile.look();
    assert_eq!(outcome.end.counts.moved, 2);
    assert_eq!(world.in_dlq.len() as u64, folder.in_dlq.len() as u64 - 2);
    assert!(world.in_dlq.iter().copied().is_sorted());
    assert!(matches!(outcome.end.cause, Some(Cause::Broker(_))), "{:?}", outcome.end.cause);
    assert_eq!(outcome.end.counts.failed, 0, "a queue that is gone is no fault of a letter");
}

#[test]
fn k37_a_permanent_error_fails_one_letter_once_and_holds_its_group() {
    let hostile = Hostile::new(1, Shape::NoProof, Plant::Refuses(5), 0.0);
    let outcome = schedule(&hostile, &settings());
    check(&hostile, &outcome, true).unwrap();
    let world = hostile.look();
    let group = world.groups.values().find(|seqs| seqs.contains(&5)).unwrap();
    let behind = group.iter().filter(|seq| **seq > 5).count() as u64;
    let counts = outcome.end.counts;
    assert_eq!((counts.failed, counts.held), (1, behind));
    assert_eq!(counts.moved, counts.planned - 1 - behind, "the other groups go on");
    assert_eq!(hostile.tries_of(5), 1, "at most one attempt for a permanent error");
}

/// A letter of which no copy can be made is at the front of a batch of its group.
fn unfit_first() -> Result<(), String> {
    let hostile = Hostile::new(1, Shape::Transaction, Plant::Unfit(1), 0.0);
    let outcome = schedule(&hostile, &settings());
    assert_eq!(outcome.states[&1], LetterState::Failed);
    check(&hostile, &outcome, true)
}

#[test]
fn m23_a_batch_without_its_first_letter() {
    unfit_first().unwrap();
    let broken = crate::proof::mutation::planted::with("m23", unfit_first).unwrap_err();
    assert!(broken.starts_with("rule 5"), "{broken}");
}

/// The selection leaves an earlier letter of a group behind, so the later ones of it are held.
fn behind_an_unselected_one() -> Result<(), String> {
    let hostile = Hostile::new(1, Shape::NoProof, Plant::None, 0.0);
    let group = hostile.look().groups.into_values().next().unwrap();
    let outcome = schedule_but(&hostile, &settings(), &group);
    let sent: Vec<u64> = hostile.look().target.iter().map(|copy| copy.seq).collect();
    match group.iter().find(|seq| sent.contains(seq)) {
        Some(seq) => Err(format!("rule 5: letter {seq} is held and was sent")),
        None => {
            assert_eq!(outcome.end.counts.held, group.len() as u64);
            check(&hostile, &outcome, true)
        }
    }
}

#[test]
fn m27_passes_an_unselected_letter() {
    behind_an_unselected_one().unwrap();
    // With it on, what was counted as held is sent: the driver itself finds that the counts do not add up.
    let told =
        std::panic::catch_unwind(|| crate::proof::mutation::planted::with("m27", behind_an_unselected_one));
    assert!(!matches!(told, Ok(Ok(()))), "m27 was not caught");
}

#[test]
fn a_run_yields_to_the_relay_of_its_target_and_is_never_starved() {
    // (busy until, is it carried meanwhile?, the first copy between these)
    for (until, served, from, to) in [
        (0, true, 0, 1_000),
        (3_000, true, 3_000, 3_500),
        (60_000, true, 5_000, 5_500),
        (60_000, false, 5_000, 5_500),
    ] {
        for shape in [Shape::Transaction, Shape::NoProof] {
            let plant = Plant::RelayBusy { until, served };
            let hostile = Hostile::new(1, shape, plant, 0.0);
            let outcome = schedule(&hostile, &settings());
            check(&hostile, &outcome, false).unwrap();
            let first = hostile.first_arrival().unwrap();
            let within = Duration::from_millis(from)..=Duration::from_millis(to);
            assert!(
                within.contains(&first),
                "busy until {until} ms, served {served}: first copy at {first:?}"
            );
            assert!(outcome.end.yielded >= Duration::from_millis(from), "{:?}", outcome.end.yielded);
        }
    }
}
