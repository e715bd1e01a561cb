//! Looks through letters in memory: counting, lists, contrasts, and what a redrive would do.

use std::ops::ControlFlow;

use super::testing::{Fake, NOW, channel, letter};
use super::*;
use crate::broker::Want;
use crate::dead_letter::DeadLetter;
use crate::letter::LetterId;
use crate::selection::{Limit, Selection, parse};

async fn through<C: Collect>(fake: &Fake, selection: &Selection, collector: C) -> (C, Looked) {
    look(fake, &channel(), selection, (Want::default(), None), NOW, collector).await.unwrap()
}

fn two_causes() -> Fake {
    let mut letters: Vec<_> =
        (0..20).map(|n| letter(n, "A", &format!("C-{}", n % 5), 3_600 * n as i64)).collect();
    letters.extend((20..30).map(|n| letter(n, "B", &format!("C-{n}"), 86_400 * 13)));
    letters.push(letter(30, "B", "C-1", 60));
    Fake(letters)
}

#[tokio::test]
async fn causes_are_counted_with_groups_times_and_what_expires() {
    let (buckets, looked) = through(&two_causes(), &Selection::default(), Buckets::new(By::Cause, NOW)).await;
    assert_eq!((buckets.letters, looked.seen, looked.cost.read), (31, 31, 31));
    let lines = buckets.sorted();
    assert_eq!(lines.len(), 2);
    assert_eq!((lines[0].letters, lines[0].groups, lines[0].sample.as_str()), (20, 5, "r19"));
    // Hours 0 to 19, two to a column.
    assert_eq!(lines[0].histogram, [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    assert_eq!(
        (lines[1].letters, lines[1].groups, lines[1].expiry.soon, lines[1].expiry.past),
        (11, 11, 10, 0)
    );
    assert_eq!((buckets.groups().count(), buckets.groups().shared()), (15, (1, false)));
}

#[tokio::test]
async fn filters_apply_before_the_limit_and_the_oldest_come_first() {
    let selection = Selection {
        filter: Some(parse("error = B").unwrap()),
        limit: Limit::AtMost(2),
        ..Selection::default()
    };
    let (oldest, looked) =
        through(&two_causes(), &selection, Oldest::new(selection.limit, OldestBy::Death)).await;
    assert_eq!((oldest.letters, looked.selected), (11, 11));
    let ids: Vec<_> = oldest.into_sorted().into_iter().map(|listed| listed.id.to_string()).collect();
    assert_eq!(ids, ["r20", "r21"]);
}

#[tokio::test]
async fn the_oldest_of_a_queue_that_keeps_its_order_is_its_first_whatever_the_clocks_said() {
    // The second one's clock went back.
    let fake = || Fake(vec![letter(1, "A", "g", 50), letter(2, "A", "g", 60), letter(3, "A", "g", 40)]);
    let selection = Selection::default();
    for (by, limit, want) in [
        (OldestBy::Arrival, Limit::All, vec!["r1", "r2", "r3"]),
        (OldestBy::Arrival, Limit::AtMost(1), vec!["r1"]),
        (OldestBy::Death, Limit::All, vec!["r2", "r1", "r3"]),
        (OldestBy::Death, Limit::AtMost(1), vec!["r2"]),
    ] {
        let (oldest, _) = through(&fake(), &selection, Oldest::new(limit, by)).await;
        let ids: Vec<_> = oldest.into_sorted().into_iter().map(|listed| listed.id.to_string()).collect();
        assert_eq!(ids, want, "{by:?} {limit:?}");
    }
}

#[tokio::test]
async fn a_thousand_causes_are_kept_and_the_rest_is_counted_as_other() {
    let letters = (0..1_500).map(|n| letter(n, &format!("E{}", word(n)), "g", 5)).collect();
    let (buckets, _) = through(&Fake(letters), &Selection::default(), Buckets::new(By::Error, NOW)).await;
    assert_eq!(buckets.count(), (1_000, 500, false));
    assert_eq!((buckets.letters, buckets.other_letters), (1_500, 500));
    assert_eq!(buckets.sorted().iter().map(|line| line.letters).sum::<u64>() + buckets.other_letters, 1_500);
}

/// A number in letters, since numbers are taken out of causes.
fn word(mut n: u64) -> String {
    let mut text = String::new();
    while n > 0 || text.is_empty() {
        text.push(char::from(b'a' + (n % 26) as u8));
        n /= 26;
    }
    text
}

#[derive(Clone)]
struct First(Vec<DeadLetter>);

impl Collect for First {
    fn take(&mut self, letter: &DeadLetter) -> ControlFlow<()> {
        self.0.push(letter.clone());
        if self.0.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[tokio::test]
async fn a_collector_may_end_the_look() {
    let (first, looked) = through(&two_causes(), &Selection::default(), First(Vec::new())).await;
    assert!(looked.ended_early && first.0.len() == 3);
}

#[tokio::test]
async fn a_look_without_bodies_takes_them_where_headers_tell_nothing() {
    let bare = |letters: &[crate::letter::RawLetter]| Fake(letters.to_vec());
    let mut letters = two_causes().0;
    let (first, _) = through(&bare(&letters), &Selection::default(), First(Vec::new())).await;
    assert!(first.0.iter().all(|letter| letter.raw.message.body.is_none()));
    letters[2].message.headers.remove("redrive-deaths");
    let (first, looked) = through(&bare(&letters), &Selection::default(), First(Vec::new())).await;
    assert!(first.0.iter().all(|letter| letter.raw.message.body.is_some()));
    assert_eq!((first.0.len(), looked.seen), (3, 3));
}

#[tokio::test]
async fn a_letter_is_found_by_a_unique_beginning_and_an_exact_id_wins() {
    let fake = two_causes();
    let found = |id: &'static str| {
        let fake = &fake;
        async move { find_letter(fake, &channel(), &LetterId::new(id), false).await.unwrap().0.len() }
    };
    assert_eq!((found("r2").await, found("r3").await, found("r29").await, found("x").await), (1, 1, 1, 0));
    assert_eq!(found("r").await, 3);
}

#[tokio::test]
async fn a_contrast_names_what_sets_a_cause_apart() {
    let fake = two_causes();
    let raw = fake.0[0].clone();
    let cause = DeadLetter::of(raw, &channel()).cause.id.clone();
    let want = Want { bodies: true, ..Want::default() };
    let all = Selection::default();
    let (contrast, _) =
        look(&fake, &channel(), &all, (want, None), NOW, Contrast::new(cause.as_str())).await.unwrap();
    assert_eq!((contrast.inside, contrast.outside), (20, 11));
    let first = &contrast.differences(10)[0];
    assert_eq!(
        (first.feature.field.as_str(), first.feature.value.as_deref()),
        ("body./currency", Some("XAU"))
    );
    assert_eq!((first.inside, first.outside), (20, 0));
    assert_eq!(contrast.outside_in_window(), Some(1));
}

#[test]
fn a_redrive_is_told_with_what_forbids_it() {
    let mut channel = channel();
    let mut raw = letter(1, "A", "g", 100);
    assert_eq!(deed(&DeadLetter::of(raw.clone(), &channel), &channel, "orders", NOW).stays, None);
    channel.redrive.dedup_window = Some(crate::topology::At::nowhere(std::time::Duration::from_secs(50)));
    let old = deed(&DeadLetter::of(raw.clone(), &channel), &channel, "orders", NOW).stays.unwrap();
    assert!(old.0.contains("dedup_window of 50s"), "{old:?}");
    raw.message.headers.push("redrive-count", crate::letter::Value::I64(3));
    let often = deed(&DeadLetter::of(raw, &channel), &channel, "orders", NOW).stays.unwrap();
    assert!(often.0.contains("redriven 3 times already, 3 allowed"), "{often:?}");
}
