//! Several transactions side by side, and who takes over from whom: nothing twice, each group in one lane and in order.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::broker::{Ask, ErrorKind, Fate, Intent, Missing, Outgoing, Proof, Task, Wanted};
use redrive::clock::Clock;
use redrive::letter::Message;
use redrive::topology::{At, Channel, Setting};

use super::adapter::{BODIES, claim, look, outgoing, provision, task, text};
use super::bench::{Bench, message};

fn with_lanes(channel: &Channel, lanes: i64) -> Channel {
    let mut changed = channel.clone();
    changed.blocks[0].1.push((At::nowhere("lanes".to_owned()), At::nowhere(Setting::Number(lanes))));
    changed
}

fn letters(count: usize) -> Vec<Message> {
    (0..count).map(|n| message(&format!("k{}", n % 40), &format!("{n}"))).collect()
}

/// Each body once, and the bodies of each key in order.
fn assert_once_in_order(bench: &Bench, target: &str, count: usize) {
    let mut last: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut numbers = Vec::new();
    for read in bench.app().read(target) {
        let n: usize = text(&read.message).parse().unwrap();
        let key = read.message.key.unwrap().to_vec();
        assert!(last.insert(key, n).is_none_or(|before| before < n), "rule 5: {n}");
        numbers.push(n);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn t12_two_lanes_against_one_in_both_orders() {
    for (first_lanes, second_lanes) in [(2, 1), (1, 2), (2, 2)] {
        let Some(bench) = Bench::new() else { return };
        let channel = bench.channel.clone();
        let broker = provision(&bench, &channel).await;
        let (dlq, target) =
            (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
        bench.app().produce(&dlq, &letters(2_400), Duration::ZERO);
        let (identity, _, all) = look(&*broker, &channel, BODIES).await;
        let mut first =
            broker.begin(&with_lanes(&channel, first_lanes), &task("r1", &target, &identity)).await.unwrap();
        let got = claim(&mut *first, &all).await;
        let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
        let moved = first.transfer(&batch[..1_200]).await.unwrap();
        assert!(moved.iter().all(|fate| matches!(fate, Fate::Moved(_))), "{first_lanes} lanes");
        let takes_over = Task { take_over: true, ..task("r2", &target, &identity) };
        let other = bench.open(true).await;
        let mut second = other.begin(&with_lanes(&channel, second_lanes), &takes_over).await.unwrap();
        // Not one of the lanes of the first can commit any more, whichever the second has.
        assert_eq!(first.transfer(&batch[1_200..]).await.unwrap_err().kind, ErrorKind::Fenced);
        let got = claim(&mut *second, &all).await;
        assert_eq!(got.len(), 1_200, "what the first moved is marked");
        let rest: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
        let moved = second.transfer(&rest).await.unwrap();
        assert!(moved.iter().all(|fate| matches!(fate, Fate::Moved(_))), "{second_lanes} lanes");
        second.end().await.unwrap();
        assert_once_in_order(&bench, &target, 2_400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t08_a_refused_record_in_one_lane_leaves_the_other_lane_alone() {
    let Some(bench) = Bench::new() else { return };
    let channel = with_lanes(&bench.channel, 2);
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    bench.app().produce(&dlq, &letters(1_200), Duration::ZERO);
    let (identity, _, all) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let mut got = claim(&mut *mover, &all).await;
    got.sort_by_key(|claimed| text(&claimed.letter.message).parse::<usize>().unwrap());
    // Compacted while the run goes on: only the broker can tell, and it refuses the whole batch of that partition.
    bench.app().set(&target, "cleanup.policy", "compact").await;
    let mut batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    let keyless = 407;
    batch[keyless].message.key = None;
    let fates = mover.transfer(&batch).await.unwrap();
    for (n, fate) in fates.iter().enumerate() {
        let behind = n > keyless && n % 40 == keyless % 40;
        match fate {
            Fate::Refused(_) => assert_eq!(n, keyless),
            Fate::Withdrawn => assert!(behind, "{n}"),
            Fate::Moved(_) => assert!(n != keyless && !behind, "{n}"),
            Fate::Lost => panic!("{n}"),
        }
    }
    // The session goes on in both lanes; what stands behind the refused letter did not go.
    let asked: Vec<Intent> = batch
        .iter()
        .map(|one| Intent {
            seq: one.seq,
            id: all[0].id.clone(),
            position: one.position.clone(),
            first_intent: bench.clock.now(),
        })
        .collect();
    let proofs = mover.prove(&asked).await.unwrap();
    let open = proofs.iter().filter(|proof| matches!(proof, Proof::Absent)).count();
    assert_eq!(open, 1 + (1_200 - keyless - 1) / 40);
    mover.end().await.unwrap();
    assert_eq!(bench.app().read(&target).len(), 1_200 - open);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_another_run_moved_is_told_from_one_that_is_gone() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    bench.app().produce(&dlq, &letters(4)[..4], Duration::ZERO);
    let (identity, _, all) = look(&*broker, &channel, BODIES).await;
    let mut first = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let got = claim(&mut *first, &all[..1]).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(matches!(first.transfer(&batch).await.unwrap()[0], Fate::Moved(_)));
    first.end().await.unwrap();
    let gone = all[1].facts.place.unwrap();
    bench.app().trim(&dlq, gone.partition, gone.offset + 1).await;
    let mut second = broker.begin(&channel, &task("r2", &target, &identity)).await.unwrap();
    let next: Vec<Wanted> = all[..2]
        .iter()
        .enumerate()
        .map(|(n, letter)| Wanted { seq: n as u64 + 1, position: letter.position.clone() })
        .collect();
    let ask = Ask { next: &next, wanted: &|_| None, limit: next.len() };
    let mut missing = second.claim(&ask).await.unwrap().missing;
    missing.sort_by_key(|(seq, _)| *seq);
    assert_eq!(missing, [(1, Missing::Moved), (2, Missing::Gone)]);
    second.end().await.unwrap();
}
