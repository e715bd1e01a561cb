//! The suite of `Browse`: everything, as it was written, in order, up to the end of the snapshot, and
//! nothing is different afterwards.

use std::collections::{BTreeMap, HashSet};

use redrive::broker::{Broker, Browse, Count, ErrorKind, LookCost, Order, Peek, Want};
use redrive::letter::{LetterId, RawLetter};
use redrive::topology::Channel;

use super::{Bench, assert_same, body, provision};

/// Every test of this suite, for one broker.
macro_rules! browse_suite {
    ($bench:expr) => {
        $crate::contract::tests_of!(browse, $bench;
            letters_come_in_order_of_arrival,
            a_message_is_read_as_it_was_written,
            what_arrives_later_is_not_in_the_snapshot,
            looking_twice_changes_nothing,
            pages_give_each_letter_once,
            without_bodies_their_sizes_are_known,
            an_empty_queue_ends_at_once,
            a_letter_is_found_by_its_id,
            depths_count_without_touching,
            a_snapshot_knows_its_queue_again_and_no_other,
            k36_a_queue_that_is_not_there_is_an_error_and_is_not_made,
        );
    };
}
pub(crate) use browse_suite;

/// Looks with bodies.
pub const ALL: Want = Want { bodies: true, moved: false };

/// A whole look.
pub async fn look(broker: &dyn Browse, channel: &Channel, want: Want) -> (Vec<RawLetter>, LookCost) {
    let mut pages = broker.snapshot(channel, want).await.unwrap();
    let mut letters = Vec::new();
    loop {
        let page = pages.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        letters.extend(page);
    }
    assert!(pages.next().await.unwrap().is_empty(), "the end stays the end");
    (letters, pages.close().await.unwrap())
}

async fn filled(bench: &dyn Bench, count: usize) -> (Box<dyn Broker>, Channel) {
    let (broker, channel) = provision(bench).await;
    let capabilities = bench.kind().capabilities(&channel);
    let queue = bench.kind().names(&channel).dead_letter;
    // Where the answer that cuts a group locks its rest, all of many is seen only of groups of one.
    let group =
        |n: usize| if capabilities.group_lock.is_some_and(|most| count > most as usize) { n } else { n % 5 };
    let messages: Vec<_> =
        (0..count).map(|n| bench.message(&format!("g{}", group(n)), &format!("{n}"))).collect();
    for some in messages.chunks(500) {
        bench.produce(&queue, some).await;
    }
    (broker, channel)
}

pub async fn letters_come_in_order_of_arrival(bench: &dyn Bench) {
    let capabilities = bench.kind().capabilities(&bench.channel());
    let count = capabilities.group_lock.map_or(25, |most| most as usize);
    let (broker, channel) = filled(bench, count).await;
    let (letters, _) = look(&*broker, &channel, ALL).await;
    assert_eq!(letters.len(), count);
    let (order, lock) = (capabilities.order, capabilities.group_lock);
    let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for letter in &letters {
        let n: u64 = body(&letter.message).parse().unwrap();
        groups.entry(n % 5).or_default().push(n);
    }
    if order != Order::None {
        for (group, numbers) in groups {
            assert!(numbers.is_sorted(), "group {group}: {numbers:?}");
        }
    }
    let mut places: BTreeMap<Option<i32>, Vec<u64>> = BTreeMap::new();
    for letter in &letters {
        // Where groups are locked, they come one after the other: an order is only within each.
        let place = match order {
            Order::PerGroup if lock.is_some() => body(&letter.message).parse::<i32>().ok().map(|n| n % 5),
            _ => letter.facts.place.map(|place| place.partition),
        };
        places.entry(place).or_default().push(letter.arrival);
    }
    for arrivals in places.values() {
        assert!(arrivals.is_sorted_by(|a, b| a < b), "{arrivals:?}");
    }
}

pub async fn a_message_is_read_as_it_was_written(bench: &dyn Bench) {
    let (broker, channel) = provision(bench).await;
    let samples = bench.samples();
    bench.produce(&bench.kind().names(&channel).dead_letter, &samples).await;
    let (letters, _) = look(&*broker, &channel, ALL).await;
    assert_eq!(letters.len(), samples.len());
    // Whatever the order between groups and partitions: each is there exactly once.
    let mut left = letters;
    for sample in &samples {
        let at = left.iter().position(|letter| letter.message.body == sample.body).unwrap();
        let letter = left.swap_remove(at);
        assert_same(bench, sample, &letter.message, &[]);
        assert_eq!(letter.body_len, sample.body.as_ref().map(|body| body.len() as u64));
    }
}

pub async fn what_arrives_later_is_not_in_the_snapshot(bench: &dyn Bench) {
    let (broker, channel) = filled(bench, 7).await;
    let queue = bench.kind().names(&channel).dead_letter;
    let mut pages = broker.snapshot(&channel, ALL).await.unwrap();
    bench.produce(&queue, &[bench.message("g0", "later")]).await;
    let mut seen = 0;
    loop {
        let page = pages.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.iter().all(|letter| body(&letter.message) != "later"));
        seen += page.len();
        bench.produce(&queue, &[bench.message("g1", "later")]).await;
    }
    assert_eq!(seen, 7);
    let count = pages.snapshot().count;
    assert!(!matches!(count, Count::Exact(n) if n != 7), "{count:?}");
    assert!(pages.snapshot().identity.bytes().all(|byte| byte.is_ascii_graphic()));
    pages.close().await.unwrap();
}

/// A look in an order that can be compared: between partitions a broker keeps none, and some keep none at all.
pub async fn look_in_order(
    bench: &dyn Bench,
    broker: &dyn Browse,
    channel: &Channel,
    want: Want,
) -> (Vec<RawLetter>, LookCost) {
    let (mut letters, cost) = look(broker, channel, want).await;
    match bench.kind().capabilities(channel).order {
        Order::PerPartition => letters.sort_by_key(|letter| letter.facts.place.map(|place| place.partition)),
        Order::None => letters.sort_by(|a, b| a.position.as_str().cmp(b.position.as_str())),
        _ => {}
    }
    (letters, cost)
}

pub async fn looking_twice_changes_nothing(bench: &dyn Bench) {
    let (broker, channel) = filled(bench, 12).await;
    let ids = |letters: &[RawLetter]| -> Vec<_> {
        letters
            .iter()
            .map(|letter| (letter.id.clone(), letter.position.clone(), body(&letter.message)))
            .collect()
    };
    let (first, cost) = look_in_order(bench, &*broker, &channel, ALL).await;
    let pure = bench.kind().capabilities(&channel).peek == Peek::Pure;
    assert_eq!(cost.changed.is_empty(), pure, "what a look costs is said: {:?}", cost.changed);
    let other = bench.open(false).await;
    let (second, _) = look_in_order(bench, &*other, &channel, ALL).await;
    assert_eq!(ids(&first), ids(&second));
    if pure {
        assert_eq!(first, second);
    }
    // A look that is dropped in the middle gives everything back too.
    let mut pages = other.snapshot(&channel, ALL).await.unwrap();
    pages.next().await.unwrap();
    drop(pages);
    let (third, _) = look_in_order(bench, &*broker, &channel, ALL).await;
    assert_eq!(ids(&first), ids(&third));
}

pub async fn pages_give_each_letter_once(bench: &dyn Bench) {
    let many = bench.many();
    let (broker, channel) = filled(bench, many).await;
    let (letters, _) = look(&*broker, &channel, Want::default()).await;
    assert_eq!(letters.len(), many);
    let ids: HashSet<_> = letters.iter().map(|letter| letter.id.clone()).collect();
    let positions: HashSet<_> = letters.iter().map(|letter| letter.position.clone()).collect();
    assert_eq!((ids.len(), positions.len()), (many, many));
}

pub async fn without_bodies_their_sizes_are_known(bench: &dyn Bench) {
    let (broker, channel) = provision(bench).await;
    bench.produce(&bench.kind().names(&channel).dead_letter, &[bench.message("a", "twelve bytes")]).await;
    let (letters, _) = look(&*broker, &channel, Want::default()).await;
    assert_eq!(letters[0].body_len, Some(12));
    assert!(letters[0].facts.queue.len() > 1);
    assert!(letters[0].facts.written_at.is_some() || letters[0].facts.dead_at.is_some());
}

pub async fn an_empty_queue_ends_at_once(bench: &dyn Bench) {
    let (broker, channel) = provision(bench).await;
    let mut pages = broker.snapshot(&channel, ALL).await.unwrap();
    assert_eq!(pages.snapshot().count.number(), 0);
    assert!(pages.next().await.unwrap().is_empty());
    pages.close().await.unwrap();
}

pub async fn a_letter_is_found_by_its_id(bench: &dyn Bench) {
    let (broker, channel) = filled(bench, 12).await;
    let (letters, _) = look(&*broker, &channel, ALL).await;
    for letter in &letters {
        let Some(found) = broker.find(&channel, &letter.id).await.unwrap() else { return };
        assert_eq!(found.first(), Some(letter), "itself first, with its body");
        assert!(found.len() <= 3);
        assert!(found.iter().all(|other| other.id.as_str().starts_with(letter.id.as_str())));
    }
    let none = broker.find(&channel, &LetterId::new("zzzzzz")).await.unwrap();
    assert_eq!(none, Some(Vec::new()));
}

pub async fn depths_count_without_touching(bench: &dyn Bench) {
    let (broker, channel) = filled(bench, 3).await;
    let names = bench.kind().names(&channel);
    bench.produce(&names.source, &[bench.message("a", "live")]).await;
    for _ in 0..2 {
        let depths = broker.depths(&channel).await.unwrap();
        assert!(depths.source.exists && depths.dead_letter.exists);
        assert_eq!(depths.source.count.number(), 1);
        assert_eq!(depths.dead_letter.count.number(), 3);
        let tiers: Vec<_> =
            depths.tiers.iter().map(|tier| (tier.queue.clone(), tier.count.number())).collect();
        assert_eq!(tiers, names.tiers.iter().map(|name| (name.clone(), 0)).collect::<Vec<_>>());
    }
    let live = bench.take(&names.source).await.unwrap();
    assert_eq!(body(&live), "live", "a source is counted, never browsed");
}

/// What a manifest keeps of its snapshot holds while the queue grows, and is no other queue's.
pub async fn a_snapshot_knows_its_queue_again_and_no_other(bench: &dyn Bench) {
    let (broker, channel) = filled(bench, 3).await;
    let first = broker.snapshot(&channel, ALL).await.unwrap();
    let frozen = first.snapshot().identity.clone();
    let _ = first.close().await.unwrap();
    bench.produce(&bench.kind().names(&channel).dead_letter, &[bench.message("g9", "9")]).await;
    let now = broker.snapshot(&channel, ALL).await.unwrap();
    let snapshot = now.snapshot().clone();
    let _ = now.close().await.unwrap();
    assert!(snapshot.is_of_the_queue_of(&frozen), "{frozen} and {snapshot:?}");
    for other in ["", "s1", "0000", &format!("x{frozen}"), &frozen[..frozen.len() / 2]] {
        assert!(!snapshot.is_of_the_queue_of(other), "{other} and {snapshot:?}");
    }
}

pub async fn k36_a_queue_that_is_not_there_is_an_error_and_is_not_made(bench: &dyn Bench) {
    let (_, mut channel) = provision(bench).await;
    channel.dead_letter.name.get_or_insert_with(Default::default).value =
        format!("{}-mistyped", channel.name.value);
    let broker = bench.open(false).await;
    for _ in 0..2 {
        let error = broker.snapshot(&channel, ALL).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(!broker.depths(&channel).await.unwrap().dead_letter.exists);
    }
}
