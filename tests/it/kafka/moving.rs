//! What moves and what must not: letters that only point, trimming, old times, lanes of a predecessor.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::broker::{Fate, Outgoing};
use redrive::clock::Clock;
use redrive::letter::{Message, RawLetter, Value};
use redrive::topology::At;

use super::adapter::{BODIES, claim, look, outgoing, provision, task, text};
use super::bench::{Bench, message};

fn pointer(topic: &str, partition: i32, offset: i64) -> Message {
    let mut letter = Message::default();
    let mut add = |name: &str, value: String| letter.headers.push(name, Value::from_text(value));
    add("__dlq.errors.topic", topic.to_owned());
    add("__dlq.errors.partition", partition.to_string());
    add("__dlq.errors.offset", offset.to_string());
    add("__dlq.errors.group", "sg1".to_owned());
    add("__dlq.errors.delivery.count", "5".to_owned());
    letter
}

#[tokio::test(flavor = "multi_thread")]
async fn k15_pointer_letters_are_dereferenced_and_what_is_gone_is_told_and_never_sent() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let source = channel.name.value.clone();
    let (dlq, target) = (format!("{source}.dlq"), format!("{source}.billing"));
    let records: Vec<Message> = (0..6).map(|n| message("k", &format!("{n}"))).collect();
    bench.app().produce(&source, &records, Duration::ZERO);
    let written = bench.app().read(&source);
    let at = |n: usize| (written[n].partition, written[n].offset);
    // The first two are taken by the source's retention; a topic that is not the channel's is nobody's to read.
    bench.app().trim(&source, at(1).0, at(1).1 + 1).await;
    let mut of_source = channel.clone();
    of_source.dead_letter.name = Some(At::nowhere(source.clone()));
    let (identity, _, _) = look(&*broker, &of_source, BODIES).await;
    let id = identity.split('/').next().unwrap().to_owned();
    let letters = [
        pointer(&source, at(3).0, at(3).1),
        pointer(&source, at(0).0, at(0).1),
        pointer(&id, at(4).0, at(4).1),
        pointer("somebody.elses", 0, 0),
        pointer(&source, 99, 0),
    ];
    bench.app().produce(&dlq, &letters, Duration::ZERO);
    let mut pages = broker.snapshot(&channel, BODIES).await.unwrap();
    let identity = pages.snapshot().identity.clone();
    let mut seen = Vec::new();
    loop {
        let page = pages.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    let unseen = pages.close().await.unwrap().unseen;
    assert!(unseen.iter().any(|text| text.starts_with("2 letters only point")), "{unseen:?}");
    seen.retain(|letter| letter.message.body.is_some());
    seen.sort_by_key(|letter| letter.message.body.clone());
    let bodies: Vec<String> = seen.iter().map(|letter| text(&letter.message)).collect();
    assert_eq!(bodies, ["3", "4"]);
    for (letter, record) in seen.iter().zip([3, 4]) {
        assert_eq!(letter.message.key.as_deref(), Some(b"k".as_slice()));
        let headers: Vec<_> = letter.message.headers.iter().map(|header| header.name.as_str()).collect();
        assert_eq!(headers[0], "event-id", "the record's own headers come first: {headers:?}");
        assert!(headers.contains(&"__dlq.errors.topic"), "{headers:?}");
        assert_eq!(letter.message.headers.last_text("event-id"), Some(format!("ev-{record}").as_str()));
    }
    let id = seen[0].id.clone();
    let found = broker.find(&channel, &id).await.unwrap().unwrap();
    assert_eq!(text(&found[0].message), "3");
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    let got = claim(&mut *mover, &seen).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(mover.transfer(&batch).await.unwrap().iter().all(|fate| matches!(fate, Fate::Moved(_))));
    mover.end().await.unwrap();
    let sent = bench.app().read(&target);
    assert_eq!(sent.len(), 2);
    assert!(
        sent.iter().all(|read| read.message.body.is_some() && read.message.key.is_some()),
        "no tombstone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trimming_deletes_moved_letters_up_to_the_first_open_one_and_their_marks_follow() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    // One partition, with an aborted record and markers in between.
    let letters: Vec<Message> = (0..10).map(|n| message("k", &format!("{n}"))).collect();
    bench.app().produce(&dlq, &letters[..5], Duration::ZERO);
    drop(bench.app().transact(&dlq, &letters[..1], Some(false)));
    bench.app().produce(&dlq, &letters[5..], Duration::ZERO);
    let (identity, _, all) = look(&*broker, &channel, BODIES).await;
    assert_eq!(all.len(), 10);
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    // All but the eighth.
    let moved: Vec<RawLetter> =
        all.iter().enumerate().filter(|(n, _)| *n != 7).map(|(_, one)| one.clone()).collect();
    let got = claim(&mut *mover, &moved).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(mover.transfer(&batch).await.unwrap().iter().all(|fate| matches!(fate, Fate::Moved(_))));
    let said = mover.trim().await.unwrap().unwrap();
    assert!(said.contains("before the lowest open letter"), "{said}");
    let said = mover.trim().await.unwrap().unwrap();
    assert!(said.contains("nothing to trim"), "{said}");
    mover.end().await.unwrap();
    let left: Vec<String> = bench.app().read(&dlq).iter().map(|read| text(&read.message)).collect();
    assert_eq!(left, ["7", "8", "9"], "the open one and what lies behind it");
    let (identity, _, open) = look(&*broker, &channel, BODIES).await;
    assert_eq!(open.iter().map(|letter| text(&letter.message)).collect::<Vec<_>>(), ["7"]);
    let mut mover = broker.begin(&channel, &task("r2", &target, &identity)).await.unwrap();
    assert!(mover.trim().await.unwrap().unwrap().contains("nothing to trim"));
    mover.end().await.unwrap();
    // Marks below the first offset went with that run; the two above it still hide their letters.
    let mut live: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
    for read in bench.app().read(&format!("{dlq}.marks")) {
        live.insert(read.message.key.unwrap().to_vec(), read.message.body.is_some());
    }
    assert_eq!(live.iter().filter(|(key, live)| **live && key.starts_with(b"mark/")).count(), 2);
    assert_eq!(look(&*broker, &channel, BODIES).await.2.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k33_an_old_time_is_kept_only_if_the_target_takes_and_keeps_it() {
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    let letters: Vec<Message> = (0..3).map(|n| message(&format!("k{n}"), &format!("{n}"))).collect();
    bench.app().produce(&dlq, &letters, Duration::ZERO);
    bench.app().set(&target, "message.timestamp.before.max.ms", "3600000").await;
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    mover.keep_times().await.unwrap();
    let got = claim(&mut *mover, &letters).await;
    let mut batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    let now = bench.clock.now();
    let ages = [1_800u64, 86_400].map(Duration::from_secs);
    for (copy, age) in batch.iter_mut().zip(ages) {
        let at = now.minus(age).rfc3339();
        copy.message.headers.push(redrive::stamp::ORIGINAL_TIME, Value::from_text(at));
    }
    let fates = mover.transfer(&batch).await.unwrap();
    let Fate::Refused(error) = &fates[1] else { panic!("{fates:?}") };
    assert!(error.message.contains("message.timestamp.before.max.ms"), "{error}");
    assert!(matches!((&fates[0], &fates[2]), (Fate::Moved(_), Fate::Moved(_))), "{fates:?}");
    mover.end().await.unwrap();
    let kept = |body: &str| {
        let read = bench.app().read(&target).into_iter().find(|read| text(&read.message) == body).unwrap();
        now.since(read.timestamp.unwrap())
    };
    let first = kept(&text(&batch[0].message));
    assert!(first > Duration::from_secs(1_790) && first < Duration::from_secs(1_810), "{first:?}");
    assert!(kept(&text(&batch[2].message)) < Duration::from_secs(60), "without a first time it is now");
    // A topic that replaces times cannot keep one.
    bench.app().set(&target, "message.timestamp.type", "LogAppendTime").await;
    let mut mover = broker.begin(&channel, &task("r2", &target, &identity)).await.unwrap();
    let error = mover.keep_times().await.unwrap_err();
    assert!(error.message.contains("LogAppendTime"), "{error}");
    mover.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn t12_a_lane_of_a_predecessor_cannot_commit_after_a_takeover() {
    use rdkafka::producer::{BaseRecord, Producer};
    let Some(bench) = Bench::new() else { return };
    let channel = bench.channel.clone();
    let broker = provision(&bench, &channel).await;
    let (dlq, target) = (format!("{}.dlq", channel.name.value), format!("{}.billing", channel.name.value));
    bench.app().produce(&dlq, &[message("a", "1")], Duration::ZERO);
    let (identity, _, letters) = look(&*broker, &channel, BODIES).await;
    let id = identity.split('/').next().unwrap().to_owned();
    // A predecessor with two lanes: its lock says so, and its second lane has a transaction open.
    let now = bench.clock.now();
    let lock = serde_json::json!({"v": 1, "run": "r0", "owner": "o0", "who": "mira@ops-1", "lanes": 2,
        "at": now, "lease_ms": 1, "free": false, "process": null});
    let lock = Message {
        key: Some(format!("lock/{id}").into()),
        body: Some(serde_json::to_vec(&lock).unwrap().into()),
        ..Message::default()
    };
    bench.app().produce(&format!("{dlq}.marks"), &[lock], Duration::ZERO);
    bench.clock.advance(Duration::from_secs(1));
    let lane: rdkafka::producer::BaseProducer =
        bench.app().config().set("transactional.id", format!("redrive.{id}.1")).create().unwrap();
    let wait = Duration::from_secs(20);
    lane.init_transactions(wait).unwrap();
    lane.begin_transaction().unwrap();
    lane.send(BaseRecord::<[u8], [u8]>::to(&target).key(b"a").payload(b"1"))
        .map_err(|(error, _)| error)
        .unwrap();
    lane.flush(wait).unwrap();
    let mut mover = broker.begin(&channel, &task("r1", &target, &identity)).await.unwrap();
    assert!(lane.commit_transaction(wait).is_err(), "the old lane is fenced");
    let got = claim(&mut *mover, &letters).await;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| outgoing(&bench, claimed)).collect();
    assert!(matches!(mover.transfer(&batch).await.unwrap()[0], Fate::Moved(_)));
    mover.end().await.unwrap();
    assert_eq!(bench.app().read(&target).len(), 1);
}
