//! The suite of `Provision`: applying is idempotent, can be cut off and repeated, refuses what loses
//! letters and counts them; observing makes nothing.

use std::time::Duration;

use redrive::broker::{Broker, Provision};
use redrive::plan::Change;
use redrive::topology::Channel;

use super::Bench;

/// Every test of this suite, for one broker.
macro_rules! provision_suite {
    ($bench:expr) => {
        $crate::contract::tests_of!(provision, $bench;
            desired_is_pure_and_names_are_distinct,
            observing_creates_nothing,
            applied_is_as_desired_and_applied_twice_changes_nothing,
            half_applied_then_applied_again_is_complete,
            a_change_that_loses_letters_is_refused_and_counted,
            what_nobody_declares_is_reported_and_left_alone,
        );
    };
}
pub(crate) use provision_suite;

/// The difference, judged.
pub async fn plan(broker: &dyn Provision, channel: &Channel) -> Vec<Change> {
    let observed = broker.observe(&[channel]).await.unwrap();
    let mut changes = Vec::new();
    for change in redrive::plan::diff(&broker.desired(&[channel]), &observed) {
        changes.push(broker.judge(change).await.unwrap());
    }
    changes
}

fn pending(changes: &[Change]) -> Vec<&Change> {
    changes.iter().filter(|c| !matches!(c, Change::Keep { .. } | Change::Undeclared { .. })).collect()
}

/// Makes what is pending and not refused.
pub async fn apply(broker: &dyn Broker, channel: &Channel) {
    for change in pending(&plan(broker, channel).await) {
        if !matches!(change, Change::Refused { .. }) {
            broker.make(change).await.unwrap();
        }
    }
}

pub async fn desired_is_pure_and_names_are_distinct(bench: &dyn Bench) {
    let broker = bench.open(false).await;
    let channel = bench.channel();
    let desired = broker.desired(&[&channel]);
    assert_eq!(desired, broker.desired(&[&channel]));
    let mut names: Vec<_> = desired.iter().map(|resource| (resource.kind, resource.name.clone())).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), desired.len(), "{names:?}");
    let lowered = bench.kind().names(&channel);
    for name in lowered.tiers.iter().chain([&lowered.source, &lowered.dead_letter]) {
        assert!(desired.iter().any(|resource| resource.name == *name), "{name} is not provisioned");
    }
    for resource in &desired {
        assert!(resource.properties.is_sorted_by(|a, b| a.name < b.name), "{}", resource.name);
    }
}

pub async fn observing_creates_nothing(bench: &dyn Bench) {
    let channel = bench.channel();
    for _ in 0..2 {
        let observed = bench.open(false).await.observe(&[&channel]).await.unwrap();
        let names = bench.kind().names(&channel);
        assert!(!observed.iter().any(|resource| resource.name == names.dead_letter), "{observed:?}");
    }
}

pub async fn applied_is_as_desired_and_applied_twice_changes_nothing(bench: &dyn Bench) {
    let broker = bench.open(true).await;
    let channel = bench.channel();
    assert!(!pending(&plan(&*broker, &channel).await).is_empty());
    apply(&*broker, &channel).await;
    let after = plan(&*broker, &channel).await;
    assert!(pending(&after).is_empty(), "{after:?}");
    // Also for somebody else, and again.
    let after = plan(&*bench.open(false).await, &channel).await;
    assert!(pending(&after).is_empty(), "{after:?}");
    apply(&*broker, &channel).await;
    assert!(pending(&plan(&*broker, &channel).await).is_empty());
}

pub async fn half_applied_then_applied_again_is_complete(bench: &dyn Bench) {
    let broker = bench.open(true).await;
    let channel = bench.channel();
    let changes = plan(&*broker, &channel).await;
    let pending_before = pending(&changes);
    let half = pending_before.len() / 2;
    for change in &pending_before[..half] {
        broker.make(change).await.unwrap();
    }
    drop(broker);
    let again = bench.open(true).await;
    let left = plan(&*again, &channel).await;
    assert_eq!(pending(&left).len(), pending_before.len() - half);
    apply(&*again, &channel).await;
    assert!(pending(&plan(&*again, &channel).await).is_empty());
}

pub async fn a_change_that_loses_letters_is_refused_and_counted(bench: &dyn Bench) {
    let Some(shrunk) = bench.shrunk() else {
        assert!(!bench.kind().capabilities(&bench.channel()).enforces_retention);
        return;
    };
    let (broker, channel) = super::provision(bench).await;
    let queue = bench.kind().names(&channel).dead_letter;
    if !bench.tells_age() {
        return refused_whatever_the_age(bench, &*broker, &channel, &shrunk).await;
    }
    // Nothing is old yet: nothing would be lost.
    bench.produce(&queue, &[bench.message("a", "young")]).await;
    let harmless = plan(&*broker, &shrunk).await;
    assert!(harmless.iter().any(|change| matches!(change, Change::Update { .. })), "{harmless:?}");
    let old = [bench.message("a", "old 1"), bench.message("b", "old 2")];
    bench.produce_aged(&queue, &old, Duration::from_secs(2 * 86_400)).await;
    let changes = plan(&*broker, &shrunk).await;
    let refused: Vec<_> = pending(&changes);
    let [change @ Change::Refused { refusal, fields, .. }] = refused.as_slice() else {
        panic!("not refused: {refused:?}")
    };
    assert_eq!(refusal.loses, Some(2), "{}", refusal.why);
    assert!(refusal.why.contains("2 of 3"), "{}", refusal.why);
    assert!(fields.iter().all(|field| field.from.is_some() && field.to.is_some()));
    // Applying without accepting leaves it.
    apply(&*broker, &shrunk).await;
    assert_eq!(pending(&plan(&*broker, &shrunk).await).len(), 1);
    // Accepted, it is made.
    broker.make(change).await.unwrap();
    assert!(pending(&plan(&*broker, &shrunk).await).is_empty());
}

/// Where nobody can tell the ages, letters that may be lost are all that are there.
async fn refused_whatever_the_age(
    bench: &dyn Bench,
    broker: &dyn Broker,
    channel: &Channel,
    shrunk: &Channel,
) {
    let harmless = plan(broker, shrunk).await;
    assert!(harmless.iter().any(|change| matches!(change, Change::Update { .. })), "empty: {harmless:?}");
    let queue = bench.kind().names(channel).dead_letter;
    bench.produce(&queue, &["1", "2", "3"].map(|body| bench.message(body, body))).await;
    let changes = plan(broker, shrunk).await;
    let refused: Vec<_> = pending(&changes);
    let [change @ Change::Refused { refusal, fields, .. }] = refused.as_slice() else {
        panic!("not refused: {refused:?}")
    };
    assert_eq!(refusal.loses, Some(3), "{}", refusal.why);
    assert!(refusal.why.contains("about 3"), "{}", refusal.why);
    assert!(fields.iter().all(|field| field.from.is_some() && field.to.is_some()));
    apply(broker, shrunk).await;
    assert_eq!(pending(&plan(broker, shrunk).await).len(), 1);
    broker.make(change).await.unwrap();
    assert!(pending(&plan(broker, shrunk).await).is_empty());
}

pub async fn what_nobody_declares_is_reported_and_left_alone(bench: &dyn Bench) {
    let (broker, channel) = super::provision(bench).await;
    let gone = bench.kind().names(&channel).tiers.pop().unwrap();
    bench.produce(&gone, &[bench.message("a", "waiting")]).await;
    let mut fewer = channel.clone();
    fewer.tiers.pop();
    let reported = |changes: &[Change]| {
        changes.iter().any(|c| matches!(c, Change::Undeclared { resource } if resource.name == gone))
    };
    assert!(reported(&plan(&*broker, &fewer).await), "{gone} is not reported");
    apply(&*broker, &fewer).await;
    assert!(reported(&plan(&*broker, &fewer).await), "{gone} is not there any more");
    assert_eq!(super::bodies(&bench.drain(&gone).await), ["waiting"]);
}
