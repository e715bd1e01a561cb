//! Marks live with the broker: a letter that a run copied and did not live to remove is not open for
//! anybody else, whatever became of the run's ledger.

use std::sync::Arc;
use std::time::Duration;

use redrive::broker::{Ask, Broker, Outgoing, Task, Want, Wanted};
use redrive::clock::SystemClock;

use super::bench::{Bench, body, message};

async fn seen(broker: &dyn Broker, bench: &Bench, moved: bool) -> (Vec<(String, Option<String>)>, u64) {
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved }).await.unwrap();
    let mut all = Vec::new();
    loop {
        let page = look.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page.into_iter().map(|letter| (body(&letter.message).to_owned(), letter.facts.moved_by)));
    }
    (all, look.close().await.unwrap().hidden)
}

#[tokio::test]
async fn a_letter_published_and_not_settled_is_hidden_with_its_run_named() {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let broker = bench.open(true).await;
    bench.application().send("orders.dlq", &[message("a", "1"), message("b", "2")], Duration::ZERO).unwrap();
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved: false }).await.unwrap();
    let letters = look.next().await.unwrap();
    let task = Task {
        run: "r7d2f9".to_owned(),
        owner: "o".to_owned(),
        who: "w".to_owned(),
        target: "orders".to_owned(),
        take_over: false,
        snapshot: look.snapshot().identity.clone(),
        claim_for: Duration::from_secs(30),
    };
    let mut mover = broker.begin(&bench.channel, &task).await.unwrap();
    let next = [Wanted { seq: 1, position: letters[0].position.clone() }];
    let mut claims = mover.claim(&Ask { next: &next, wanted: &|_| None, limit: 1 }).await.unwrap();
    let claimed = claims.got.remove(0);
    let outgoing = Outgoing {
        packed: None,
        seq: 1,
        receipt: claimed.receipt.clone(),
        position: claimed.letter.position.clone(),
        attempt: 1,
        first_intent: bench.clock.now(),
        message: claimed.letter.message,
        group: None,
    };
    assert!(mover.publish(&[outgoing]).await[0].is_ok());
    // The run ends here without having settled.
    mover.end().await.unwrap();
    assert_eq!(seen(&*broker, &bench, false).await, (vec![("2".to_owned(), None)], 1));
    let (all, hidden) = seen(&*broker, &bench, true).await;
    assert_eq!(all[0], ("1".to_owned(), Some("r7d2f9".to_owned())));
    assert_eq!((all.len(), hidden), (2, 0));
}
