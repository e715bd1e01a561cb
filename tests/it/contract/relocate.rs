//! The suite of `Relocate`: identity, order, leases, receipts, marks, the lock; on both paths where a
//! broker has both. Numbers are protocol.md's.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive::broker::{
    Ask, Atomicity, Broker, Claimed, Dedup, ErrorKind, Fate, Intent, Missing, Mover, Order, Outgoing, Proof,
    Receipt, Settled, Task, Want, Wanted,
};
use redrive::letter::{Position, RawLetter, Value};
use redrive::stamp;
use redrive::topology::Channel;

use super::browse::{ALL, look, look_in_order};
use super::{Bench, assert_same, bodies, body, provision};

/// Every test of this suite, for one broker.
macro_rules! relocate_suite {
    ($bench:expr) => {
        $crate::contract::tests_of!(relocate, $bench;
            moved_in_a_transaction_every_letter_arrives_as_it_was,
            published_then_settled_every_letter_arrives_as_it_was,
            a_copy_is_there_before_the_original_goes,
            what_is_not_wanted_is_stepped_over,
            released_letters_are_as_they_were_and_in_order,
            m21_a_stale_receipt_settles_nothing,
            a_claim_that_was_lost_is_not_moved_and_its_group_waits,
            renewed_claims_live_on,
            marks_prove_what_arrived,
            sent_twice_is_there_once_where_the_broker_says_so,
            a_copy_that_died_again_is_counted_and_is_another_letter,
            l10_a_second_run_is_refused_and_told_who_holds_the_queue,
            a_dead_holder_loses_the_lock_by_time,
            m20_after_a_takeover_the_predecessor_can_do_nothing,
            a_queue_made_of_another_snapshot_is_refused,
        );
    };
}
pub(crate) use relocate_suite;

struct Stage {
    broker: Box<dyn Broker>,
    channel: Channel,
    queue: String,
    target: String,
    letters: Vec<RawLetter>,
    snapshot: String,
    lease: Duration,
}

/// A dead-letter queue of `count` letters in three groups, seen; fewer where groups are locked.
async fn stage(bench: &dyn Bench, count: usize) -> Stage {
    let (broker, channel) = provision(bench).await;
    let names = bench.kind().names(&channel);
    // Where an answer that cuts a group locks its rest, no more than one answer holds.
    let lock = bench.kind().capabilities(&channel).group_lock.map_or(count, |most| most as usize);
    let messages: Vec<_> =
        (0..count.min(lock)).map(|n| bench.message(&format!("g{}", n % 3), &format!("{n}"))).collect();
    bench.produce(&names.dead_letter, &messages).await;
    let mut pages = broker.snapshot(&channel, ALL).await.unwrap();
    let snapshot = pages.snapshot().identity.clone();
    let mut letters = Vec::new();
    loop {
        let page = pages.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        letters.extend(page);
    }
    pages.close().await.unwrap();
    Stage {
        broker,
        channel,
        queue: names.dead_letter,
        target: names.return_to,
        letters,
        snapshot,
        lease: bench.lease(),
    }
}

impl Stage {
    fn task(&self, run: &str) -> Task {
        Task {
            run: run.to_owned(),
            owner: format!("owner-of-{run}"),
            who: format!("mira@{run}"),
            target: self.target.clone(),
            take_over: false,
            snapshot: self.snapshot.clone(),
            claim_for: self.lease,
        }
    }

    async fn begin(&self, run: &str) -> Box<dyn Mover> {
        self.broker.begin(&self.channel, &self.task(run)).await.unwrap()
    }

    fn wanted(&self) -> Vec<Wanted> {
        let position = |letter: &RawLetter| letter.position.clone();
        self.letters
            .iter()
            .enumerate()
            .map(|(n, l)| Wanted { seq: n as u64 + 1, position: position(l) })
            .collect()
    }

    /// Can letters be taken out of the dead-letter queue, by us or by somebody else?
    fn deletes(&self, bench: &dyn Bench) -> bool {
        bench.kind().capabilities(&self.channel).deletes
    }

    fn transacts(&self, bench: &dyn Bench) -> bool {
        bench.kind().capabilities(&self.channel).relocate == Atomicity::Transaction
    }
}

/// Claims until all of `wanted` is claimed or missing.
async fn claim(mover: &mut dyn Mover, wanted: &[Wanted]) -> (Vec<Claimed>, Vec<(u64, Missing)>) {
    let (mut got, mut missing) = (Vec::new(), Vec::new());
    loop {
        let answered: BTreeSet<u64> = got
            .iter()
            .map(|claimed: &Claimed| claimed.seq)
            .chain(missing.iter().map(|(seq, _): &(u64, Missing)| *seq))
            .collect();
        let next: Vec<Wanted> =
            wanted.iter().filter(|wanted| !answered.contains(&wanted.seq)).cloned().collect();
        if next.is_empty() {
            break;
        }
        let is_wanted = |position: &Position| {
            next.iter().find(|wanted| wanted.position == *position).map(|wanted| wanted.seq)
        };
        let ask = Ask { next: &next, wanted: &is_wanted, limit: next.len() };
        let claims = mover.claim(&ask).await.unwrap();
        let idle = claims.got.is_empty() && claims.missing.is_empty();
        got.extend(claims.got);
        missing.extend(claims.missing);
        if idle || claims.exhausted {
            break;
        }
    }
    got.sort_by_key(|claimed| claimed.seq);
    (got, missing)
}

fn outgoing(bench: &dyn Bench, run: &str, claimed: &Claimed) -> Outgoing {
    let mut message = claimed.letter.message.clone();
    message.headers.replace(stamp::RUN, Value::from_text(format!("{run}/{}", claimed.seq)));
    let n: u64 = body(&message).parse().unwrap_or(0);
    Outgoing {
        packed: None,
        seq: claimed.seq,
        receipt: claimed.receipt.clone(),
        position: claimed.letter.position.clone(),
        attempt: 1,
        first_intent: bench.now(),
        group: Some(format!("g{}", n % 3)),
        message,
    }
}

fn all_outgoing(bench: &dyn Bench, run: &str, got: &[Claimed]) -> Vec<Outgoing> {
    got.iter().map(|claimed| outgoing(bench, run, claimed)).collect()
}

fn receipts(got: &[Claimed]) -> Vec<Receipt> {
    got.iter().map(|claimed| claimed.receipt.clone()).collect()
}

/// The target holds each letter once, as it was, groups in order.
async fn assert_arrived(bench: &dyn Bench, stage: &Stage) {
    let arrived = bench.drain(&stage.target).await;
    let mut expected = bodies(&stage.letters.iter().map(|letter| letter.message.clone()).collect::<Vec<_>>());
    let mut got = bodies(&arrived);
    for letter in &stage.letters {
        let copy = arrived.iter().find(|copy| copy.body == letter.message.body).unwrap();
        assert_same(bench, &letter.message, copy, &[stamp::RUN]);
    }
    for group in 0..3 {
        let of = |message: &&redrive::letter::Message| body(message).parse::<u64>().unwrap_or(0) % 3 == group;
        let numbers: Vec<u64> =
            arrived.iter().filter(of).map(|message| body(message).parse().unwrap_or(0)).collect();
        let ordered = bench.kind().capabilities(&stage.channel).order != Order::None;
        assert!(!ordered || numbers.is_sorted(), "group {group}: {numbers:?}");
    }
    expected.sort();
    got.sort();
    assert_eq!(expected, got);
    let (left, _) = look(&*stage.broker, &stage.channel, ALL).await;
    assert!(left.is_empty(), "{} letters are still there", left.len());
}

pub async fn moved_in_a_transaction_every_letter_arrives_as_it_was(bench: &dyn Bench) {
    let stage = stage(bench, 12).await;
    if !stage.transacts(bench) {
        let mut mover = stage.begin("r1").await;
        assert_eq!(mover.transfer(&[]).await.unwrap_err().kind, ErrorKind::Unsupported);
        return mover.end().await.unwrap();
    }
    let mut mover = stage.begin("r1").await;
    let (got, missing) = claim(&mut *mover, &stage.wanted()).await;
    assert!(missing.is_empty());
    for batch in all_outgoing(bench, "r1", &got).chunks(5) {
        for fate in mover.transfer(batch).await.unwrap() {
            assert!(matches!(fate, Fate::Moved(_)), "{fate:?}");
        }
    }
    mover.end().await.unwrap();
    assert_arrived(bench, &stage).await;
}

pub async fn published_then_settled_every_letter_arrives_as_it_was(bench: &dyn Bench) {
    let stage = stage(bench, 12).await;
    let mut mover = stage.begin("r1").await;
    let (got, missing) = claim(&mut *mover, &stage.wanted()).await;
    assert!(missing.is_empty());
    // One of a group at a time, as the engine does where batches have no order.
    for claimed in &got {
        let answers = mover.publish(&[outgoing(bench, "r1", claimed)]).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    for settled in mover.settle(&receipts(&got)).await {
        assert!(matches!(settled, Settled::Settled), "{settled:?}");
    }
    mover.end().await.unwrap();
    assert_arrived(bench, &stage).await;
}

pub async fn a_copy_is_there_before_the_original_goes(bench: &dyn Bench) {
    let stage = stage(bench, 3).await;
    let mut mover = stage.begin("r1").await;
    let (got, _) = claim(&mut *mover, &stage.wanted()).await;
    let answers = mover.publish(&all_outgoing(bench, "r1", &got)).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(bench.drain(&stage.target).await.len(), 3);
    // The session dies here: copies are there, originals too; nothing was lost, and resume can settle.
    drop(mover);
    bench.pass(stage.lease + Duration::from_secs(1)).await;
    let mut again = stage.begin("r1").await;
    let (got, missing) = claim(&mut *again, &stage.wanted()).await;
    assert_eq!((got.len(), missing.len()), (3, 0), "what was published can be claimed again by identity");
    for settled in again.settle(&receipts(&got)).await {
        assert!(matches!(settled, Settled::Settled), "{settled:?}");
    }
    again.end().await.unwrap();
    let (left, _) = look(&*stage.broker, &stage.channel, Want { bodies: true, moved: true }).await;
    assert!(left.iter().all(|letter| letter.facts.moved_by.is_some()), "I8: settled is gone, or marked");
}

pub async fn what_is_not_wanted_is_stepped_over(bench: &dyn Bench) {
    let stage = stage(bench, 9).await;
    bench.produce(&stage.queue, &[bench.message("g0", "later")]).await;
    let mut mover = stage.begin("r1").await;
    let wanted: Vec<Wanted> = stage.wanted().into_iter().filter(|wanted| wanted.seq % 2 == 0).collect();
    let mut asked = wanted.clone();
    let bogus = Position::new("no-such-position");
    asked.push(Wanted { seq: 99, position: bogus });
    let (got, missing) = claim(&mut *mover, &asked).await;
    assert_eq!(got.iter().map(|claimed| claimed.seq).collect::<Vec<_>>(), [2, 4, 6, 8]);
    for claimed in &got {
        assert_eq!(claimed.letter.position, stage.letters[claimed.seq as usize - 1].position);
        assert_eq!(claimed.letter.message.body, stage.letters[claimed.seq as usize - 1].message.body);
    }
    assert!(missing.iter().all(|(seq, _)| *seq == 99), "{missing:?}");
    mover.release(&receipts(&got)).await.unwrap();
    mover.end().await.unwrap();
    let (left, _) = look(&*stage.broker, &stage.channel, ALL).await;
    assert_eq!(left.len(), 10);
}

pub async fn released_letters_are_as_they_were_and_in_order(bench: &dyn Bench) {
    let stage = stage(bench, 9).await;
    let (before, _) = look_in_order(bench, &*stage.broker, &stage.channel, ALL).await;
    let mut mover = stage.begin("r1").await;
    let (got, _) = claim(&mut *mover, &stage.wanted()).await;
    assert_eq!(got.len(), 9);
    mover.release(&receipts(&got)).await.unwrap();
    mover.end().await.unwrap();
    let (after, _) = look_in_order(bench, &*stage.broker, &stage.channel, ALL).await;
    let order = |letters: &[RawLetter]| -> Vec<_> {
        letters
            .iter()
            .map(|letter| (letter.id.clone(), letter.position.clone(), body(&letter.message)))
            .collect()
    };
    assert_eq!(order(&before), order(&after), "L07");
    // And ended without a release: the same.
    let mut mover = stage.begin("r2").await;
    claim(&mut *mover, &stage.wanted()).await;
    mover.end().await.unwrap();
    let (after, _) = look_in_order(bench, &*stage.broker, &stage.channel, ALL).await;
    assert_eq!(order(&before), order(&after));
}

pub async fn m21_a_stale_receipt_settles_nothing(bench: &dyn Bench) {
    let stage = stage(bench, 2).await;
    let mut mover = stage.begin("r1").await;
    let (old, _) = claim(&mut *mover, &stage.wanted()).await;
    mover.release(&receipts(&old)).await.unwrap();
    let (new, _) = claim(&mut *mover, &stage.wanted()).await;
    for settled in mover.settle(&receipts(&old)).await {
        assert!(!matches!(settled, Settled::Settled), "{settled:?}");
    }
    mover.release(&receipts(&new)).await.unwrap();
    mover.end().await.unwrap();
    // At the end: what is held may be out of sight for a look.
    let (still, _) = look(&*stage.broker, &stage.channel, ALL).await;
    assert_eq!(still.len(), 2, "nothing was lost by an old receipt");
}

pub async fn a_claim_that_was_lost_is_not_moved_and_its_group_waits(bench: &dyn Bench) {
    let stage = stage(bench, 6).await;
    if !stage.deletes(bench) {
        // Nobody can take a letter out: a claim is lost only with the lock (m20).
        return;
    }
    let mut mover = stage.begin("r1").await;
    let (got, _) = claim(&mut *mover, &stage.wanted()).await;
    assert_eq!(got.len(), 6);
    bench.pass(stage.lease + Duration::from_secs(1)).await;
    // Another consumer of the dead-letter queue is faster: it takes the first letter, of group g0.
    let taken = bench.take(&stage.queue).await.unwrap();
    let ordered = bench.kind().capabilities(&stage.channel).order != Order::None;
    assert!(!ordered || body(&taken) == "0", "{}", body(&taken));
    if stage.transacts(bench) {
        let fates = mover.transfer(&all_outgoing(bench, "r1", &got)).await.unwrap();
        assert!(matches!(fates[0], Fate::Lost), "{:?}", fates[0]);
        assert!(matches!(fates[3], Fate::Withdrawn), "m23, letter 3 is behind it: {:?}", fates[3]);
        for at in [1, 2, 4, 5] {
            assert!(matches!(fates[at], Fate::Moved(_)), "{at}: {:?}", fates[at]);
        }
        let mut arrived = bodies(&bench.drain(&stage.target).await);
        arrived.sort();
        assert_eq!(arrived, ["1", "2", "4", "5"]);
    } else {
        let lost: Vec<Claimed> =
            got.iter().filter(|claimed| claimed.letter.message.body == taken.body).cloned().collect();
        assert_eq!(lost.len(), 1);
        let settled = mover.settle(&receipts(&lost)).await;
        assert!(!matches!(settled[0], Settled::Settled), "{settled:?}");
    }
    mover.end().await.unwrap();
}

pub async fn renewed_claims_live_on(bench: &dyn Bench) {
    let stage = stage(bench, 3).await;
    let mut mover = stage.begin("r1").await;
    let (got, _) = claim(&mut *mover, &stage.wanted()).await;
    for _ in 0..3 {
        bench.pass(stage.lease * 2 / 3).await;
        mover.renew(&receipts(&got)).await.unwrap();
    }
    if stage.deletes(bench) {
        assert!(bench.take(&stage.queue).await.is_none(), "nobody else gets what is held");
    }
    for settled in mover.settle(&receipts(&got)).await {
        assert!(matches!(settled, Settled::Settled), "{settled:?}");
    }
    mover.end().await.unwrap();
}

fn intents(bench: &dyn Bench, stage: &Stage) -> Vec<Intent> {
    stage
        .wanted()
        .into_iter()
        .zip(&stage.letters)
        .map(|(wanted, letter)| Intent {
            seq: wanted.seq,
            id: letter.id.clone(),
            position: wanted.position,
            first_intent: bench.now(),
        })
        .collect()
}

pub async fn marks_prove_what_arrived(bench: &dyn Bench) {
    let stage = stage(bench, 3).await;
    let mut mover = stage.begin("r1").await;
    let (got, _) = claim(&mut *mover, &stage.wanted()).await;
    let answers = mover.publish(&all_outgoing(bench, "r1", &got[..1])).await;
    assert!(answers[0].is_ok());
    drop(mover);
    // Nobody knows any more what was answered.
    bench.pass(stage.lease + Duration::from_secs(1)).await;
    let mut resumed = stage.begin("r1").await;
    let proofs = resumed.prove(&intents(bench, &stage)).await.unwrap();
    assert_eq!(proofs.len(), 3);
    let blind = matches!(proofs[0], Proof::Unknown | Proof::ResendSafe);
    assert!(blind || matches!(proofs[0], Proof::Arrived(_)), "m14: {:?}", proofs[0]);
    for proof in &proofs[1..] {
        assert!(!matches!(proof, Proof::Arrived(_)), "a miss is no find: {proof:?}");
    }
    resumed.end().await.unwrap();
    // Another run's copy of the same letter proves nothing for this one (m26).
    let mut other = stage.begin("r2").await;
    let proofs = other.prove(&intents(bench, &stage)).await.unwrap();
    assert!(!proofs.iter().any(|proof| matches!(proof, Proof::Arrived(_))), "{proofs:?}");
    other.end().await.unwrap();
}

pub async fn sent_twice_is_there_once_where_the_broker_says_so(bench: &dyn Bench) {
    let stage = stage(bench, 3).await;
    if bench.kind().capabilities(&stage.channel).dedup == Dedup::None {
        return;
    }
    let mut mover = stage.begin("r1").await;
    let (got, _) = claim(&mut *mover, &stage.wanted()).await;
    let batch = all_outgoing(bench, "r1", &got);
    let first = mover.publish(&batch).await;
    let second = mover.publish(&batch).await;
    assert!(first.iter().chain(&second).all(Result::is_ok));
    assert_eq!(bench.drain(&stage.target).await.len(), 3);
    for settled in mover.settle(&receipts(&got)).await {
        assert!(matches!(settled, Settled::Settled), "{settled:?}");
    }
    mover.end().await.unwrap();
}

pub async fn a_copy_that_died_again_is_counted_and_is_another_letter(bench: &dyn Bench) {
    let stage = stage(bench, 2).await;
    let mut mover = stage.begin("r1").await;
    let (got, _) = claim(&mut *mover, &stage.wanted()).await;
    let batch = all_outgoing(bench, "r1", &got);
    assert!(mover.publish(&batch).await.iter().all(Result::is_ok));
    for settled in mover.settle(&receipts(&got)).await {
        assert!(matches!(settled, Settled::Settled), "{settled:?}");
    }
    assert!(matches!(mover.refailed().await.unwrap(), None | Some(0)));
    // It fails at once and is back in the dead-letter queue, with our header.
    let mut again = bench.drain(&stage.target).await;
    again.truncate(1);
    let mut foreign = bench.message("g1", "other");
    foreign.headers.push(stamp::RUN, Value::from_text("r1x/1"));
    again.push(foreign);
    bench.produce(&stage.queue, &again).await;
    assert!(matches!(mover.refailed().await.unwrap(), None | Some(1)));
    assert!(matches!(mover.refailed().await.unwrap(), None | Some(1)));
    let (got, missing) = claim(&mut *mover, &stage.wanted()).await;
    assert!(got.is_empty(), "the run does not chase it");
    assert!(missing.len() <= 2);
    mover.end().await.unwrap();
    // At the end: what is held may be out of sight for a look.
    let (letters, _) = look(&*stage.broker, &stage.channel, ALL).await;
    assert_eq!(letters.len(), 2);
    for letter in &letters {
        assert!(stage.letters.iter().all(|old| old.position != letter.position), "m11: it is another letter");
    }
}

pub async fn l10_a_second_run_is_refused_and_told_who_holds_the_queue(bench: &dyn Bench) {
    let stage = stage(bench, 2).await;
    let mover = stage.begin("r1").await;
    let other = bench.open(true).await;
    let error = other.begin(&stage.channel, &stage.task("r2")).await.err();
    if let Some(error) = error {
        assert_eq!(error.kind, ErrorKind::Locked, "{error}");
        for words in ["r1", "mira@r1"] {
            assert!(error.message.contains(words), "{error} does not name {words}");
        }
    } else {
        // Protocol §8.3: over several machines SQS and Kafka without transactions cannot lock.
        assert!(!stage.transacts(bench), "a broker with transactions locks");
    }
    mover.end().await.unwrap();
    other.begin(&stage.channel, &stage.task("r2")).await.unwrap().end().await.unwrap();
}

pub async fn a_dead_holder_loses_the_lock_by_time(bench: &dyn Bench) {
    let stage = stage(bench, 2).await;
    let mut dead = stage.begin("r1").await;
    claim(&mut *dead, &stage.wanted()).await;
    std::mem::forget(dead);
    bench.pass(stage.lease + Duration::from_secs(1)).await;
    let mut next = bench.open(true).await.begin(&stage.channel, &stage.task("r2")).await.unwrap();
    let (got, _) = claim(&mut *next, &stage.wanted()).await;
    assert_eq!(got.len(), 2, "the claims of the dead are free");
    next.end().await.unwrap();
}

pub async fn m20_after_a_takeover_the_predecessor_can_do_nothing(bench: &dyn Bench) {
    let stage = stage(bench, 3).await;
    if !stage.transacts(bench) {
        return;
    }
    let mut zombie = stage.begin("r1").await;
    let (old, _) = claim(&mut *zombie, &stage.wanted()).await;
    let task = Task { take_over: true, ..stage.task("r2") };
    let mut next = bench.open(true).await.begin(&stage.channel, &task).await.unwrap();
    let batch = all_outgoing(bench, "r1", &old);
    assert_eq!(zombie.transfer(&batch).await.unwrap_err().kind, ErrorKind::Fenced, "m19");
    for answer in zombie.publish(&batch).await {
        assert_eq!(answer.unwrap_err().kind, ErrorKind::Fenced);
    }
    for settled in zombie.settle(&receipts(&old)).await {
        assert!(matches!(settled, Settled::Failed(_) | Settled::Stale), "{settled:?}");
    }
    assert_eq!(zombie.renew(&receipts(&old)).await.unwrap_err().kind, ErrorKind::Fenced);
    // What it says at its end takes nothing from its successor.
    let (new, missing) = claim(&mut *next, &stage.wanted()).await;
    assert_eq!((new.len(), missing.len()), (3, 0));
    zombie.end().await.unwrap();
    for fate in next.transfer(&all_outgoing(bench, "r2", &new)).await.unwrap() {
        assert!(matches!(fate, Fate::Moved(_)), "{fate:?}");
    }
    next.end().await.unwrap();
    assert_arrived(bench, &stage).await;
}

pub async fn a_queue_made_of_another_snapshot_is_refused(bench: &dyn Bench) {
    let stage = stage(bench, 1).await;
    let task = Task { snapshot: format!("x{}", stage.snapshot), ..stage.task("r1") };
    assert!(stage.broker.begin(&stage.channel, &task).await.is_err(), "the letters are other ones");
}
