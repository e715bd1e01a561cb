//! Letters of a run in transactions are read beside it, without leases: what others do to them meanwhile is found
//! in the transaction.

use std::sync::Arc;
use std::time::Duration;

use redrive::broker::sqlite::Application;
use redrive::broker::{Claims, Fate, Looker, Missing, Mover, Outgoing, Settled, Task, Want, Wanted};
use redrive::clock::SystemClock;
use redrive::letter::{Message, Position};

use super::bench::{Bench, body, message};

struct Stage {
    bench: Bench,
    app: Application,
    mover: Box<dyn Mover>,
    looker: Box<dyn Looker>,
    positions: Vec<Position>,
}

/// Dead letters with these keys, a run and its looker.
async fn stage(keys: &[&str], and: impl FnOnce(&Bench)) -> Stage {
    let bench = Bench::provisioned(Arc::new(SystemClock)).await;
    let mut app = bench.application();
    let letters: Vec<Message> =
        keys.iter().enumerate().map(|(n, key)| message(key, &format!("{n}"))).collect();
    app.send("orders.dlq", &letters, Duration::ZERO).unwrap();
    and(&bench);
    let broker = bench.open(true).await;
    let mut look = broker.snapshot(&bench.channel, Want { bodies: true, moved: false }).await.unwrap();
    let letters = look.next().await.unwrap();
    let task = Task {
        run: "r1".to_owned(),
        owner: "ours".to_owned(),
        who: "w".to_owned(),
        target: "orders".to_owned(),
        take_over: false,
        snapshot: look.snapshot().identity.clone(),
        claim_for: Duration::from_secs(30),
    };
    look.close().await.unwrap();
    let mut mover = broker.begin(&bench.channel, &task).await.unwrap();
    let looker = mover.looker().await.unwrap();
    let positions = letters.into_iter().map(|letter| letter.position).collect();
    Stage { bench, app, mover, looker, positions }
}

impl Stage {
    fn look(&mut self) -> Claims {
        let next = self.positions.iter().zip(1..);
        let next: Vec<Wanted> =
            next.map(|(position, seq)| Wanted { seq, position: position.clone() }).collect();
        self.looker.look(&next).unwrap()
    }

    /// As the engine hands them over: every second one packed.
    fn outgoing(&self, claims: Claims) -> Vec<Outgoing> {
        let pack = self.looker.packer().unwrap();
        let outgoing = |claimed: redrive::broker::Claimed| {
            let message = claimed.letter.message;
            let group = message.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned());
            let (message, packed) = match claimed.seq % 2 {
                0 => (Message::default(), Some(pack(message))),
                _ => (message, None),
            };
            Outgoing {
                seq: claimed.seq,
                receipt: claimed.receipt,
                position: claimed.letter.position,
                attempt: 1,
                first_intent: self.bench.clock.now(),
                message,
                packed,
                group,
            }
        };
        claims.got.into_iter().map(outgoing).collect()
    }

    async fn transfer(&mut self, claims: Claims) -> Vec<Fate> {
        let batch = Arc::new(self.outgoing(claims));
        self.mover.transfer_shared(&batch).await.unwrap()
    }

    fn lying(&self, queue: &str) -> Vec<String> {
        let db = rusqlite::Connection::open(self.bench.path()).unwrap();
        let mut query = db
            .prepare(
                "SELECT CAST(body AS TEXT) FROM letter JOIN queue ON queue.id = queue WHERE name = ?1 ORDER BY letter.id",
            )
            .unwrap();
        query.query_map([queue], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn count(&self, table: &str) -> i64 {
        let db = rusqlite::Connection::open(self.bench.path()).unwrap();
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }
}

fn moved(fates: &[Fate]) -> usize {
    fates.iter().filter(|fate| matches!(fate, Fate::Moved(_))).count()
}

#[tokio::test]
async fn what_was_looked_at_is_moved_without_a_lease() {
    let mut stage = stage(&["a", "b", "a", "c"], |_| {}).await;
    let claims = stage.look();
    assert_eq!((claims.got.len(), claims.missing.len()), (4, 0));
    assert_eq!(stage.count("lease"), 0, "nobody else is kept from them");
    assert_eq!(moved(&stage.transfer(claims).await), 4);
    assert_eq!(stage.lying("orders"), ["0", "1", "2", "3"]);
    assert!(stage.lying("orders.dlq").is_empty());
    assert_eq!((stage.count("mark"), stage.count("lease")), (4, 0));
    let again = stage.look();
    assert!(again.missing.iter().all(|(_, why)| *why == Missing::Gone) && again.missing.len() == 4);
}

#[tokio::test]
async fn what_another_reader_took_meanwhile_is_lost_and_its_group_waits() {
    let mut stage = stage(&["a", "b", "a", "c"], |_| {}).await;
    let claims = stage.look();
    let held = stage.app.receive("orders.dlq", 1, None).unwrap();
    assert_eq!(body(&held[0].message), "0");
    let fates = stage.transfer(claims).await;
    assert!(matches!(fates[0], Fate::Lost), "{fates:?}");
    assert!(matches!(fates[2], Fate::Withdrawn), "m23: {fates:?}");
    assert_eq!(stage.lying("orders"), ["1", "3"]);
    let again = stage.look();
    assert!(again.missing.contains(&(1, Missing::NotSeen)), "held by somebody else: {:?}", again.missing);
    stage.app.ack(&held[0].receipt).unwrap();
    let again = stage.look();
    assert!(again.missing.contains(&(1, Missing::Gone)), "{:?}", again.missing);
    assert_eq!(moved(&stage.transfer(again).await), 1);
    assert_eq!(stage.lying("orders"), ["1", "3", "2"]);
}

#[tokio::test]
async fn what_another_reader_took_and_settled_meanwhile_has_no_copy() {
    let mut stage = stage(&["a", "b"], |_| {}).await;
    let claims = stage.look();
    let held = stage.app.receive("orders.dlq", 1, None).unwrap();
    stage.app.ack(&held[0].receipt).unwrap();
    let fates = stage.transfer(claims).await;
    assert!(matches!(fates[..], [Fate::Lost, Fate::Moved(_)]), "{fates:?}");
    assert_eq!(stage.lying("orders"), ["1"]);
}

#[tokio::test]
async fn what_was_looked_at_is_settled_unless_another_reader_has_it() {
    let mut stage = stage(&["a", "b", "c"], |_| {}).await;
    let claims = stage.look();
    let held = stage.app.receive("orders.dlq", 1, None).unwrap();
    let receipts: Vec<_> = claims.got.iter().map(|claimed| claimed.receipt.clone()).collect();
    stage.mover.release(&receipts).await.unwrap();
    stage.mover.renew(&receipts).await.unwrap();
    let settled = stage.mover.settle(&receipts).await;
    assert!(
        matches!(settled[..], [Settled::Stale, Settled::Settled, Settled::Settled]),
        "m21: an old receipt settles nothing: {settled:?}"
    );
    stage.app.ack(&held[0].receipt).unwrap();
    assert!(matches!(stage.mover.settle(&receipts).await[..], [Settled::Stale, ..]));
}

#[tokio::test]
async fn triggers_that_others_put_into_the_file_still_fire() {
    let audit = "CREATE TABLE audit (letter INTEGER);
                 CREATE TRIGGER their_own AFTER DELETE ON letter BEGIN INSERT INTO audit VALUES (OLD.id); END;";
    let their_own = |bench: &Bench| {
        rusqlite::Connection::open(bench.path()).unwrap().execute_batch(audit).unwrap();
    };
    let mut stage = stage(&["a", "b"], their_own).await;
    let claims = stage.look();
    assert_eq!(moved(&stage.transfer(claims).await), 2);
    assert_eq!(stage.count("audit"), 2);
}

#[tokio::test]
async fn what_tables_say_about_a_letter_goes_with_it() {
    let mut stage = stage(&["a", "b"], |_| {}).await;
    // Received before and given back: its count of receives is there.
    let held = stage.app.receive("orders.dlq", 1, None).unwrap();
    stage.app.release(&held[0].receipt).unwrap();
    assert_eq!(stage.count("lease"), 1);
    let claims = stage.look();
    assert_eq!(moved(&stage.transfer(claims).await), 2);
    assert_eq!(stage.count("lease"), 0);
    assert_eq!(stage.count("sent"), 0);
}
