//! What only Kafka can do to a redrive, on the real broker. Numbers are those of the cases.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redrive::broker::{
    Ask, Broker, Browse, Claimed, Count, ErrorKind, Fate, Mover, Outgoing, Proof, Task, Want, Wanted,
};
use redrive::clock::{Clock, SystemClock};
use redrive::letter::{Message, RawLetter, Value};
use redrive::plan::{self, Change};
use redrive::topology::{At, BrokerDecl, Channel, GroupRule, Secret, Setting};

use super::bench::{Bench, message};

/// Makes what is wished.
pub(super) async fn provision(bench: &Bench, channel: &Channel) -> Box<dyn Broker> {
    let broker = bench.open(true).await;
    for change in changes(&*broker, channel).await {
        broker.make(&change).await.unwrap();
    }
    broker
}

async fn changes(broker: &dyn Broker, channel: &Channel) -> Vec<Change> {
    let observed = broker.observe(&[channel]).await.unwrap();
    let mut judged = Vec::new();
    for change in plan::diff(&broker.desired(&[channel]), &observed) {
        if !matches!(change, Change::Keep { .. }) {
            judged.push(broker.judge(change).await.unwrap());
        }
    }
    judged
}

pub(super) async fn look(
    broker: &dyn Browse,
    channel: &Channel,
    want: Want,
) -> (String, Count, Vec<RawLetter>) {
    let mut pages = broker.snapshot(channel, want).await.unwrap();
    let (identity, count) = (pages.snapshot().identity.clone(), pages.snapshot().count);
    let mut letters = Vec::new();
    loop {
        let page = pages.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        letters.extend(page);
    }
    letters.sort_by_key(|letter| letter.facts.place);
    (identity, count, letters)
}

pub(super) const BODIES: Want = Want { bodies: true, moved: false };

pub(super) fn task(run: &str, target: &str, snapshot: &str) -> Task {
    Task {
        run: run.to_owned(),
        owner: format!("owner-of-{run}"),
        who: "mira@ops-2".to_owned(),
        target: target.to_owned(),
        take_over: false,
        snapshot: snapshot.to_owned(),
        claim_for: Duration::from_secs(30),
    }
}

pub(super) async fn claim(mover: &mut dyn Mover, letters: &[RawLetter]) -> Vec<Claimed> {
    let next: Vec<Wanted> = letters
        .iter()
        .enumerate()
        .map(|(n, letter)| Wanted { seq: n as u64 + 1, position: letter.position.clone() })
        .collect();
    let ask = Ask { next: &next, wanted: &|_| None, limit: next.len() };
    mover.claim(&ask).await.unwrap().got
}

pub(super) fn outgoing(bench: &Bench, claimed: &Claimed) -> Outgoing {
    Outgoing {
        packed: None,
        seq: claimed.seq,
        receipt: claimed.receipt.clone(),
        position: claimed.letter.position.clone(),
        attempt: 1,
        first_intent: bench.clock.now(),
        group: claimed.letter.message.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned()),
        message: claimed.letter.message.clone(),
    }
}

pub(super) fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.body.as_ref().unwrap()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn k08_one_letter_that_is_too_large_is_refused_alone_and_its_group_waits() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    bench.app().set(&target, "max.message.bytes", "20000").await;
    let large = "x".repeat(30_000);
    let letters: Vec<Message> = (0..100)
        .map(|n| match n {
            40 => message("k0", &large),
            n => message(&format!("k{}", n % 10), &format!("{n:0>1000}")),
        })
        .collect();
    bench.app().produce(&dlq, &letters, Duration::ZERO);
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let mut got = claim(&mut *mover, &letters).await;
    got.sort_by_key(|claimed| claimed.letter.facts.place);
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    let fates = mover.transfer(&batch).await.unwrap();
    mover.end().await.unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (fate, letter) in fates.iter().zip(&batch) {
        let word = match fate {
            Fate::Moved(_) => "moved",
            Fate::Refused(error) => {
                assert_eq!(error.kind, ErrorKind::Rejected, "{error}");
                assert_eq!(letter.message.body.as_ref().unwrap().len(), large.len());
                "refused"
            }
            Fate::Withdrawn => {
                assert_eq!(letter.group.as_deref(), Some("k0"), "t08");
                "withdrawn"
            }
            Fate::Lost => "lost",
        };
        *counts.entry(word).or_default() += 1;
    }
    // Of k0 those before it went: 0, 10, 20, 30; behind it stand 50 to 90.
    assert_eq!(counts, BTreeMap::from([("moved", 94), ("refused", 1), ("withdrawn", 5)]));
    assert_eq!(bench.app().read(&target).len(), 94);
    let (_, count, left) = look(&*broker, &channel, BODIES).await;
    assert_eq!((count, left.len()), (Count::AtMost(6), 6), "what did not go is open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_only_the_broker_refuses_does_not_fail_its_batch() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    let letters: Vec<Message> = (0..20).map(|n| message(&format!("k{n}"), &format!("{n}"))).collect();
    bench.app().produce(&dlq, &letters, Duration::ZERO);
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let got = claim(&mut *mover, &letters).await;
    // K33: compacted while the run goes on. A record without a key is refused with its whole batch.
    bench.app().set(&target, "cleanup.policy", "compact").await;
    let mut batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    batch[7].message.key = None;
    let fates = mover.transfer(&batch).await.unwrap();
    for (at, fate) in fates.iter().enumerate() {
        match fate {
            Fate::Refused(_) => assert_eq!(at, 7),
            Fate::Moved(_) => assert_ne!(at, 7),
            other => panic!("{at}: {other:?}"),
        }
    }
    // The session goes on after it.
    mover.renew(&[]).await.unwrap();
    mover.end().await.unwrap();
    let bodies: Vec<String> = bench.app().read(&target).iter().map(|read| text(&read.message)).collect();
    assert_eq!(bodies.len(), 19, "{bodies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k31_the_extent_is_what_lies_between_offsets_and_markers_are_no_letters() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    // A transaction that aborts, one that commits, one that stays open.
    bench.app().transact(&dlq, &[message("a", "aborted"), message("b", "aborted")], Some(false));
    bench.app().transact(&dlq, &[message("a", "committed")], Some(true));
    let (identity, count, letters) = look(&*broker, &channel, BODIES).await;
    assert_eq!(letters.iter().map(|letter| text(&letter.message)).collect::<Vec<_>>(), ["committed"]);
    assert!(matches!(count, Count::AtMost(n) if n > 1), "at most, never exactly: {count:?}");
    // Behind an open transaction nothing is stable: not shown, and the look does not wait for it.
    let open = bench.app().transact(&dlq, &[message("a", "open")], None);
    bench.app().produce(&dlq, &[message("a", "behind")], Duration::ZERO);
    let begun = Instant::now();
    let mut pages = broker.snapshot(&channel, BODIES).await.unwrap();
    assert_eq!(pages.snapshot().unseen, Some(2), "the open one and what stands behind it");
    while !pages.next().await.unwrap().is_empty() {}
    let unseen = pages.close().await.unwrap().unseen;
    assert!(unseen[0].contains("transaction is open in partition"), "{unseen:?}");
    let (_, _, letters) = look(&*broker, &channel, BODIES).await;
    let seen: Vec<_> = letters.iter().map(|letter| (letter.id.clone(), text(&letter.message))).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(open);
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    assert_eq!(claim(&mut *mover, &letters).await.len(), 1);
    mover.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_anew_holds_other_letters() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    bench.app().produce(&dlq, &[message("a", "1"), message("b", "2")], Duration::ZERO);
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    bench.app().delete(&dlq).await;
    let broker = provision(&bench, &channel).await;
    // Longer than the old one: a plain reader would read on in it without an error.
    let more: Vec<Message> = (0..20).map(|n| message(&format!("k{n}"), "another")).collect();
    bench.app().produce(&dlq, &more, Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let next = [Wanted { seq: 1, position: letters[0].position.clone() }];
    let ask = Ask { next: &next, wanted: &|_| None, limit: 1 };
    let error = mover.claim(&ask).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    drop(mover);
    let error = broker.begin(&channel, &task("r2", &target, &identity)).await.err().unwrap();
    assert!(error.message.contains("made anew"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_hides_its_letter_and_goes_only_after_it() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    let letters: Vec<Message> = (0..30).map(|n| message("k", &format!("{n}"))).collect();
    bench.app().produce(&dlq, &letters, Duration::ZERO);
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let got = claim(&mut *mover, &letters[..20]).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(mover.transfer(&batch).await.unwrap().iter().all(|fate| matches!(fate, Fate::Moved(_))));
    mover.end().await.unwrap();
    // Long after the dead-letter topic's retention, by our clock, while the letters are still there.
    bench.clock.advance(Duration::from_secs(400 * 86_400));
    let (_, count, left) = look(&*broker, &channel, BODIES).await;
    assert_eq!((count, left.len()), (Count::AtMost(10), 10));
    let (_, _, all) = look(&*broker, &channel, Want { moved: true, ..BODIES }).await;
    assert_eq!(all.iter().filter(|letter| letter.facts.moved_by.is_some()).count(), 20);
    let live = |app: &super::bench::App| {
        let mut keys: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        for read in app.read(&format!("{dlq}.marks")) {
            keys.insert(read.message.key.unwrap().to_vec(), read.message.body.is_some());
        }
        keys.iter().filter(|(key, live)| **live && key.starts_with(b"mark/")).count()
    };
    assert_eq!(live(&bench.app()), 20);
    // Retention takes the first five: only their marks go, at the end of the next run.
    let place = letters[4].facts.place.unwrap();
    bench.app().trim(&dlq, place.partition, place.offset + 1).await;
    let (identity, _, left) = look(&*broker, &channel, BODIES).await;
    assert_eq!(left.len(), 10);
    broker.begin(&channel, &task("r2", &target, &identity)).await.unwrap().end().await.unwrap();
    assert_eq!(live(&bench.app()), 15);
    assert_eq!(look(&*broker, &channel, BODIES).await.2.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn k40_looking_leaves_no_group_and_commits_nothing() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let dlq = format!("{}.dlq", channel.name.value);
    bench.app().produce(&dlq, &[message("a", "1")], Duration::ZERO);
    look(&*broker, &channel, BODIES).await;
    let groups = bench.app().groups();
    let ours = |group: &String| group == "redrive" || group.contains(&channel.name.value);
    assert!(!groups.iter().any(ours), "{groups:?}");
    let depths = broker.depths(&channel).await.unwrap();
    assert!(depths.readers.is_empty(), "{:?}", depths.readers);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_target_are_told_with_their_lag() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let target = format!("{}.billing", channel.name.value);
    let letters: Vec<Message> = (0..12).map(|n| message(&format!("k{n}"), "x")).collect();
    bench.app().produce(&target, &letters, Duration::ZERO);
    let group = format!("billing-of-{}", channel.name.value);
    bench.app().commit(&group, &target, 3);
    let depths = broker.depths(&channel).await.unwrap();
    let [reader] = depths.readers.as_slice() else { panic!("{:?}", depths.readers) };
    assert_eq!((reader.name.as_str(), reader.lag), (group.as_str(), Some(9)));
}

fn with_partitions(channel: &Channel, partitions: i64) -> Channel {
    let mut changed = channel.clone();
    for (name, setting) in &mut changed.blocks[0].1 {
        if name.value == "partitions" {
            setting.value = Setting::Number(partitions);
        }
    }
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn k20_partitions_grow_only_where_no_key_decides_them() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let grown = with_partitions(&channel, 6);
    let refused = changes(&*broker, &grown).await;
    assert!(!refused.is_empty());
    for change in &refused {
        let Change::Refused { refusal, .. } = change else { panic!("{change:?}") };
        assert!(refusal.why.contains("key elsewhere"), "{}", refusal.why);
    }
    for change in changes(&*broker, &with_partitions(&channel, 2)).await {
        let Change::Refused { refusal, .. } = change else { panic!("{change:?}") };
        assert!(refusal.why.contains("cannot take partitions away"), "{}", refusal.why);
    }
    let unordered = Channel { group: At::nowhere(GroupRule::None), ..grown };
    let wanted = changes(&*broker, &unordered).await;
    assert!(wanted.iter().all(|change| matches!(change, Change::Update { .. })), "{wanted:?}");
    for change in &wanted {
        broker.make(change).await.unwrap();
    }
    assert!(changes(&*broker, &unordered).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn k26_a_changed_setting_leaves_the_others_and_the_limit_follows_the_source() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let dlq = format!("{}.dlq", channel.name.value);
    let app = bench.app();
    app.set(&dlq, "segment.ms", "3600000").await;
    app.set(&channel.name.value, "max.message.bytes", "5000000").await;
    let wanted = changes(&*broker, &channel).await;
    assert_eq!(wanted.len(), 4, "two tiers, the dead letters, the return topic: {wanted:?}");
    for change in &wanted {
        broker.make(change).await.unwrap();
    }
    assert!(changes(&*broker, &channel).await.is_empty());
    let settings = app.settings(&dlq).await;
    assert_eq!(settings["segment.ms"], "3600000", "not ours: left alone");
    assert_eq!(settings["max.message.bytes"], (5_000_000 + 64 * 1024).to_string());
    assert_eq!(settings["message.timestamp.type"], "LogAppendTime", "made by us");
    // A limit that is larger than it has to be is nobody's mistake.
    app.set(&dlq, "max.message.bytes", "9000000").await;
    assert!(changes(&*broker, &channel).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn k21_keys_are_placed_as_java_does_it_and_without_a_key_the_partition_stays() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    let letters: Vec<Message> = (0..60)
        .map(|n| message(&if n % 3 == 0 { String::new() } else { format!("k{n}") }, &format!("{n}")))
        .collect();
    bench.app().produce(&dlq, &letters, Duration::ZERO);
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let got = claim(&mut *mover, &letters).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(mover.transfer(&batch).await.unwrap().iter().all(|fate| matches!(fate, Fate::Moved(_))));
    mover.end().await.unwrap();
    // The application that wrote the letters places by murmur2, as Java does: the copies lie where they lay.
    let place: BTreeMap<String, i32> =
        letters.iter().map(|letter| (text(&letter.message), letter.facts.place.unwrap().partition)).collect();
    for read in bench.app().read(&target) {
        assert_eq!(read.partition, place[&text(&read.message)], "{}", text(&read.message));
        // K16: the copy's time is now, or retention would act on the old one.
        assert!(SystemClock.now().since(read.timestamp.unwrap()) < Duration::from_secs(60));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k21_golden_partitions_of_the_java_client() {
    let Some(bench) = Bench::new() else { return };
    for (partitions, keys) in [
        (10, &[("354afe16-939a-4ea8-8e17-8bb0840b6886", 4), ("f562ac3b-2224-4e25-a0ab-56094e10c239", 5)][..]),
        (32, &[("fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 26)][..]),
    ] {
        let named = super::bench::channel(&super::bench::unique("golden"));
        let channel = with_partitions(&named, partitions);
        let broker = provision(&bench, &channel).await;
        let (dlq, target) =
            (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
        let letters: Vec<Message> = keys.iter().map(|(key, _)| message(key, key)).collect();
        bench.app().produce(&dlq, &letters, Duration::ZERO);
        let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
        let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
        let got = claim(&mut *mover, &letters).await;
        let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
        assert_eq!(mover.transfer(&batch).await.unwrap().len(), keys.len());
        mover.end().await.unwrap();
        let placed: BTreeMap<String, i32> =
            bench.app().read(&target).iter().map(|read| (text(&read.message), read.partition)).collect();
        for (key, partition) in keys {
            assert_eq!(placed[*key], *partition, "{key} of {partitions}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k13_the_oldest_open_letter_is_told_and_that_retention_counts_from_its_producers_time() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let dlq = format!("{}.dlq", channel.name.value);
    assert_eq!(broker.depths(&channel).await.unwrap().dead_letter.oldest, None);
    // K13: Connect keeps the origin's time, which retention counts from.
    bench.app().set(&dlq, "message.timestamp.type", "CreateTime").await;
    bench.app().produce(&dlq, &[message("a", "young")], Duration::ZERO);
    bench.app().produce(&dlq, &[message("b", "old")], Duration::from_secs(13 * 86_400));
    let depth = broker.depths(&channel).await.unwrap().dead_letter;
    let age = SystemClock.now().since(depth.oldest.unwrap());
    assert!(age > Duration::from_secs(13 * 86_400 - 60), "{age:?}");
    let left = depth.oldest_expires.unwrap().since(SystemClock.now());
    assert!(left < Duration::from_secs(86_400 + 60), "{left:?}");
    let says = |notes: &[String]| notes.iter().any(|note| note.contains("LogAppendTime"));
    assert!(!says(&broker.depths(&channel).await.unwrap().notes));
    // Two days later it is past, and the way out is named.
    bench.clock.advance(Duration::from_secs(2 * 86_400));
    let notes = broker.depths(&channel).await.unwrap().notes;
    assert!(says(&notes), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t09_two_runs_in_turn_and_a_takeover_leave_one_copy_each() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    let letters: Vec<Message> = (0..10).map(|n| message(&format!("k{n}"), &format!("{n}"))).collect();
    bench.app().produce(&dlq, &letters, Duration::ZERO);
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let mut first = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let got = claim(&mut *first, &letters).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert_eq!(first.transfer(&batch[..5]).await.unwrap().len(), 5);
    let takes_over = Task { take_over: true, ..task("r2", &target, &identity) };
    let mut second = bench.open(true).await.begin(&channel, &takes_over).await.unwrap();
    assert_eq!(first.transfer(&batch[5..]).await.unwrap_err().kind, ErrorKind::Fenced, "m19");
    // The predecessor cannot come back by asking.
    let intents: Vec<_> = batch
        .iter()
        .map(|one| redrive::broker::Intent {
            seq: one.seq,
            id: letters[0].id.clone(),
            position: one.position.clone(),
            first_intent: bench.clock.now(),
        })
        .collect();
    assert_eq!(first.prove(&intents).await.unwrap_err().kind, ErrorKind::Fenced);
    let got = claim(&mut *second, &letters).await;
    assert_eq!(got.len(), 5, "what the predecessor moved is marked");
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(second.transfer(&batch).await.unwrap().iter().all(|fate| matches!(fate, Fate::Moved(_))));
    let proofs = second.prove(&intents).await.unwrap();
    assert_eq!(proofs.iter().filter(|proof| matches!(proof, Proof::Arrived(_))).count(), 5, "m26");
    second.end().await.unwrap();
    let mut bodies: Vec<String> = bench.app().read(&target).iter().map(|read| text(&read.message)).collect();
    bodies.sort();
    assert_eq!(bodies, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_not_there_is_named_with_what_to_check() {
    let Some(mut bench) = Bench::new() else { return };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let open = |decl: BrokerDecl| {
        let clock = bench.clock.clone();
        async move {
            let context = redrive::broker::OpenContext { clock, base: std::env::temp_dir(), writes: false };
            Bench::kind().open(&decl, &context).await.err().unwrap()
        }
    };
    let nowhere = BrokerDecl { url: At::nowhere(format!("kafka://{free}")), ..bench.decl() };
    let begun = Instant::now();
    let error = open(nowhere).await;
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.contains(&free.to_string()), "{error}");
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("listens")), "{:?}", error.hint);
    assert!(begun.elapsed() < Duration::from_secs(15));
    // A login where the listener wants none: the calls only time out, the callbacks say why.
    let secret = |value: &str| At::nowhere(Secret::new(value, "${VALUE}"));
    let option = |name: &str, value: &str| (At::nowhere(name.to_owned()), secret(value));
    let wrong = BrokerDecl {
        username: Some(secret("mira")),
        password: Some(secret("not-to-be-shown")),
        options: vec![option("security.protocol", "SASL_PLAINTEXT"), option("sasl.mechanism", "PLAIN")],
        ..bench.decl()
    };
    let error = open(wrong).await;
    assert!(matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Denied), "{error:?}");
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("security.protocol")), "{error:?}");
    assert!(error.message.contains("SASL_PLAINTEXT") && error.message.contains("mira"), "{error}");
    assert!(!format!("{error:?}").contains("not-to-be-shown"));
    bench.channel.name.value.push('x');
    let broker = bench.open(false).await;
    let error = broker.snapshot(&bench.channel, BODIES).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_told_with_the_name_that_is_near() {
    let Some(bench) = Bench::new() else { return };
    let mut channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    channel.dead_letter.name = Some(At::nowhere(format!("{}.dql", channel.name.value)));
    let error = broker.snapshot(&channel, BODIES).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains(&format!("near: {}.dlq", channel.name.value)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_no_text_does_not_stop_a_look_and_is_not_sent_changed() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let dlq = format!("{}.dlq", channel.name.value);
    let mut odd = message("a", "1");
    odd.headers.push("", Value::from_bytes(vec![0xff]));
    odd.headers.push("null", Value::Null);
    bench.app().produce(&dlq, &[odd.clone()], Duration::ZERO);
    let (_, _, letters) = look(&*broker, &channel, BODIES).await;
    assert_eq!(letters[0].message.headers, odd.headers);
}
