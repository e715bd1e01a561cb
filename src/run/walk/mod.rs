//! The exhaustive walk: every interleaving of the machine's steps, broker answers, crashes and power losses
//! for up to four letters in two groups with up to two faults, with the invariants of `protocol.md` §11 after
//! each step; and the mutations of §12, each of which the same walk must catch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod world;

use std::collections::HashSet;

use world::{Accepts, Config, Proofs, World};

/// What a walk found.
struct Found {
    states: usize,
    ends: usize,
    /// Of them with a letter that a person said to be gone.
    accepted: usize,
    violation: Option<String>,
}

/// Visits every state that can be reached from the start of `config`.
fn walk(config: &Config) -> Found {
    let mut seen = HashSet::new();
    let mut stack = vec![World::start(config)];
    let mut found = Found { states: 0, ends: 0, accepted: 0, violation: None };
    while let Some(world) = stack.pop() {
        if !seen.insert(world.digest()) {
            continue;
        }
        found.states += 1;
        if let Err(broken) = world.check(config) {
            found.violation = Some(format!("{broken}\n{world:#?}"));
            return found;
        }
        if world.ended() {
            found.ends += 1;
            found.accepted += usize::from(world.accepted());
        }
        match world.step(config) {
            Ok(next) => stack.extend(next),
            Err(broken) => {
                found.violation = Some(format!("{broken}\n{world:#?}"));
                return found;
            }
        }
        assert!(found.states < 6_000_000, "the walk is not bounded: {config:?}");
    }
    found
}

const A: Option<u64> = Some(1);
const B: Option<u64> = Some(2);

fn base() -> Config {
    Config {
        groups: vec![A, A, B],
        transaction: false,
        batch: 2,
        faults: 2,
        proofs: Proofs::None,
        tells_gone: true,
        power: false,
        attempts: 2,
        twins: Vec::new(),
        accepts: Accepts::Nothing,
    }
}

fn configs(transaction: bool) -> Vec<Config> {
    let mut all = Vec::new();
    let shapes: &[&[Option<u64>]] = &[&[A, A, B], &[A, B, A], &[A, A, A], &[A, B, None]];
    let proofs: &[Proofs] = match transaction {
        true => &[Proofs::Find],
        false => &[Proofs::None, Proofs::Find, Proofs::Resend],
    };
    for proofs in proofs {
        for shape in shapes {
            for batch in [1, 2, 3] {
                let groups = shape.to_vec();
                all.push(Config { groups, transaction, batch, proofs: *proofs, ..base() });
            }
        }
        for power in [false, true] {
            let groups = vec![A, A, B, B];
            all.push(Config { groups, transaction, power, faults: 1, proofs: *proofs, ..base() });
        }
        for (groups, twins) in [
            (vec![A, B, B], vec![(1, 0)]),
            (vec![A, A, A], vec![(1, 0)]),
            (vec![A, B, A, B], vec![(1, 0), (3, 2)]),
        ] {
            let faults = if groups.len() > 3 { 1 } else { 2 };
            all.push(Config { groups, transaction, faults, twins, proofs: *proofs, ..base() });
        }
        let groups = vec![A, B, A, B];
        all.push(Config { groups, transaction, tells_gone: false, faults: 1, proofs: *proofs, ..base() });
        for accepts in [Accepts::Rightly, Accepts::Mistakenly] {
            let of = Config { transaction, tells_gone: false, accepts, proofs: *proofs, ..base() };
            all.push(Config { groups: vec![A, A, B], ..of.clone() });
            all.push(Config { groups: vec![A, B, A], power: true, ..of.clone() });
            all.push(Config { groups: vec![A, A, B], twins: vec![(1, 0)], ..of.clone() });
            all.push(Config { groups: vec![A, B, A, B], faults: 1, ..of });
        }
        all.push(Config { transaction, power: true, proofs: *proofs, ..base() });
    }
    all
}

fn all_hold(transaction: bool) -> (usize, usize) {
    let (mut states, mut ends) = (0, 0);
    for config in configs(transaction) {
        let found = walk(&config);
        assert!(found.violation.is_none(), "{config:?}\n{}", found.violation.unwrap());
        assert!(found.ends > 0, "I7: no end is reached: {config:?}");
        let may_accept = !transaction && config.accepts != Accepts::Nothing;
        assert_eq!(found.accepted > 0, may_accept, "{config:?}");
        states += found.states;
        ends += found.ends;
    }
    (states, ends)
}

#[test]
fn every_interleaving_of_path_p_keeps_the_invariants() {
    let (states, ends) = all_hold(false);
    println!("path P: {states} states, {ends} ends");
    assert!(states > 10_000);
}

#[test]
fn every_interleaving_of_path_t_keeps_the_invariants() {
    let (states, ends) = all_hold(true);
    println!("path T: {states} states, {ends} ends");
    assert!(states > 2_000);
}

/// Does some walk of `configs` catch the mutation that is on?
fn caught(configs: &[Config]) -> Option<String> {
    configs.iter().find_map(|config| walk(config).violation)
}

macro_rules! caught_by_the_walk {
    ($($test:ident: $mutation:literal on $transaction:literal,)*) => {$(
        #[test]
        fn $test() {
            let violation = crate::proof::mutation::planted::with($mutation, || caught(&configs($transaction)));
            let text = violation.unwrap_or_else(|| panic!("{} was not caught", $mutation));
            println!("{}: {}", $mutation, text.lines().next().unwrap());
        }
    )*};
}

caught_by_the_walk! {
    m01_settle_on_send: "m01" on false,
    m02_settle_before_published_is_written: "m02" on false,
    m03_resume_resends_blindly: "m03" on false,
    m04_no_intent: "m04" on false,
    m09_group_goes_on_after_a_failure: "m09" on false,
    m10_group_batch_where_entries_fail_alone: "m10" on false,
    m12_miss_without_a_fence: "m12" on false,
    m14_lost_answer_is_failed: "m14" on false,
    m15_not_visible_is_gone: "m15" on false,
    m16_resume_forgets_a_held_group: "m16" on false,
    m18_letter_with_a_new_receipt_taken_as_new: "m18" on false,
    m19_zombie_sends: "m19" on false,
    m21_stale_receipt_is_settled: "m21" on false,
    m22_settled_before_the_barrier: "m22" on false,
    m25_intent_not_synced: "m25" on false,
    m28_gone_as_a_person_says_and_perhaps_sent: "m28" on false,
    m29_more_in_doubt_than_a_batch_has: "m29" on false,
    t02_ledger_read_before_the_marks: "t02" on true,
    t05_resend_after_a_commit_without_answer: "t05" on true,
    t08_group_goes_on_after_a_refused_record: "t08" on true,
}

#[test]
fn a_batch_picked_ahead_is_of_other_groups_and_goes_back_in_order() {
    use super::machine::{Action, FateOf, Machine, Now, Rules, Start};
    let rules = Rules {
        transaction: true,
        ordered_batch: true,
        window: 8,
        batch: 2,
        claims: 6,
        attempts: 2,
        max_errors: 0,
        allow_gone: false,
        accept_gone: false,
        ordered: true,
    };
    let mut machine = Machine::new(rules);
    for (seq, group) in [(0, 1), (1, 2), (2, 1), (3, 3), (4, 4), (5, 2)] {
        machine.offer(seq, Some(group), Start::Send { attempt: 0, open: false }, false);
    }
    let next = |machine: &mut Machine| {
        let mut permits = |could| could;
        machine.next(&mut Now {
            permits: &mut permits,
            lock: true,
            may_resend: &|_| false,
            stale: &[],
            more: false,
            flush: false,
        })
    };
    let Action::Claim(asked) = next(&mut machine) else { panic!("no claim") };
    machine.claimed(&asked, &asked, &[], true);
    assert_eq!(next(&mut machine), Action::Transfer(vec![0, 1]));
    assert_eq!(machine.ahead(), [3, 4], "2 and 5 wait for those of their groups");
    assert!(machine.ahead().is_empty(), "no other group is left");
    machine.transferred(&[(0, FateOf::Moved), (1, FateOf::Moved)]);
    machine.withdrawn(&[3, 4]);
    assert_eq!(next(&mut machine), Action::Transfer(vec![2, 3]), "as if nothing had been picked");
    assert_eq!(machine.ahead(), [4, 5]);
}
