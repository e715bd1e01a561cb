//! The mutations of `protocol.md` §12 that this broker's own code guards against: each scenario holds as the
//! code is, and breaks with the mutation on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::broker::{Ask, Intent, Mover, Outgoing, Proof, Provision, Relocate, Serve, Task, Wanted};
use crate::clock::{Time, VirtualClock};
use crate::letter::{Message, Position, Value};
use crate::plan::Change;
use crate::proof::mutation::planted;
use crate::stamp;
use crate::topology::{At, Channel, GroupRule, Tier};

const TIER: &str = "orders.retry-5s";

struct Bench {
    _folder: tempfile::TempDir,
    broker: Sqlite,
    application: Application,
    clock: Arc<VirtualClock>,
    channel: Channel,
}

type Broken = std::result::Result<(), String>;
type Scenario = for<'a> fn(&'a mut Bench) -> Pin<Box<dyn Future<Output = Broken> + 'a>>;

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new(Time::from_seconds(1_790_000_000)));
        let context = OpenContext { clock: clock.clone(), base: folder.path().to_owned(), writes: true };
        let decl = BrokerDecl {
            name: At::nowhere("local".to_owned()),
            url: At::nowhere("sqlite:redrive.db".to_owned()),
            ..BrokerDecl::default()
        };
        let tier = |delay: u64, name: &str| Tier {
            name: At::nowhere(name.to_owned()),
            name_written: false,
            delay: At::nowhere(Duration::from_secs(delay)),
        };
        let channel = Channel {
            name: At::nowhere("orders".to_owned()),
            source: At::nowhere("orders".to_owned()),
            group: At::nowhere(GroupRule::Key),
            tiers: vec![tier(5, "retry-5s"), tier(60, "retry-1m")],
            ..Channel::default()
        };
        let broker = Sqlite::open(&decl, &context).unwrap();
        for resource in broker.desired(&[&channel]) {
            broker.make(&Change::Create { resource }).await.unwrap();
        }
        let application = Application::open(&decl, &context).unwrap();
        Self { _folder: folder, broker, application, clock, channel }
    }

    async fn begin(&self, run: &str, owner: &str) -> Box<dyn Mover> {
        let task = Task {
            run: run.to_owned(),
            owner: owner.to_owned(),
            who: "mira@ops-2".to_owned(),
            target: "orders".to_owned(),
            take_over: true,
            snapshot: String::new(),
            claim_for: Duration::from_secs(60),
        };
        self.broker.begin(&self.channel, &task).await.unwrap()
    }

    fn bury(&mut self, bodies: &[&str]) {
        let messages: Vec<Message> = bodies.iter().map(|body| message(body)).collect();
        self.application.send("orders.dlq", &messages, Duration::ZERO).unwrap();
    }

    fn column(&self, sql: &str, queue: &str) -> Vec<String> {
        let db = self.broker.place.write_existing().unwrap();
        let mut query = db.prepare(sql).unwrap();
        query.query_map([queue], |row| row.get(0)).unwrap().map(std::result::Result::unwrap).collect()
    }

    fn positions(&self) -> Vec<Position> {
        self.column(
            "SELECT 'q' || queue || 'm' || letter.id FROM letter JOIN queue ON queue.id = queue
             WHERE queue.name = ?1 ORDER BY letter.id",
            "orders.dlq",
        )
        .into_iter()
        .map(Position::new)
        .collect()
    }

    fn lying(&self, queue: &str) -> Vec<String> {
        self.column(
            "SELECT CAST(body AS TEXT) FROM letter JOIN queue ON queue.id = queue
             WHERE queue.name = ?1 ORDER BY letter.id",
            queue,
        )
    }

    /// R1, R2 and R3 by what lies in the source: each body once, groups in order.
    fn arrived_once_in_order(&self, all: &[&str]) -> Broken {
        let arrived = self.lying("orders");
        let mut last: BTreeMap<char, &str> = BTreeMap::new();
        for body in all {
            match arrived.iter().filter(|there| there == body).count() {
                0 if self.lying(TIER).iter().any(|there| there == body) => {}
                0 => return Err(format!("R1: {body} is nowhere")),
                1 => {}
                _ => return Err(format!("R2: {body} is there twice")),
            }
        }
        for body in &arrived {
            let group = body.chars().next().unwrap();
            if last.insert(group, body).is_some_and(|before| before > body.as_str()) {
                return Err(format!("R3: {body} came after a later one of its group: {arrived:?}"));
            }
        }
        Ok(())
    }
}

/// `A1`: the first of group A.
fn message(body: &str) -> Message {
    Message {
        key: Some(body[..1].to_owned().into()),
        body: Some(body.to_owned().into()),
        ..Message::default()
    }
}

async fn claim(mover: &mut dyn Mover, positions: &[Position]) -> Vec<Outgoing> {
    let next: Vec<Wanted> = positions
        .iter()
        .enumerate()
        .map(|(at, position)| Wanted { seq: at as u64 + 1, position: position.clone() })
        .collect();
    let claims = mover.claim(&Ask { next: &next, wanted: &|_| None, limit: 100 }).await.unwrap();
    claims
        .got
        .into_iter()
        .map(|claimed| Outgoing {
            packed: None,
            seq: claimed.seq,
            receipt: claimed.receipt,
            position: claimed.letter.position,
            attempt: 1,
            first_intent: Time::default(),
            group: claimed.letter.message.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned()),
            message: claimed.letter.message,
        })
        .collect()
}

/// A process that was taken over has its claims still, and sends what it had.
fn zombie(bench: &mut Bench, transaction: bool) -> Pin<Box<dyn Future<Output = Broken> + '_>> {
    Box::pin(async move {
        bench.bury(&["A1"]);
        let positions = bench.positions();
        let mut old = bench.begin("r1", "old").await;
        let stale = claim(&mut *old, &positions).await;
        let mut new = bench.begin("r2", "new").await;
        let fresh = claim(&mut *new, &positions).await;
        if transaction {
            new.transfer(&fresh).await.unwrap();
            let _ = old.transfer(&stale).await;
        } else {
            new.publish(&fresh).await.pop().unwrap().unwrap();
            let _ = old.publish(&stale).await;
        }
        match bench.lying("orders").len() {
            1 => Ok(()),
            copies => Err(format!("I10: {copies} committed copies")),
        }
    })
}

/// Killed right after a commit; what the next one is told must be true.
fn told_after_a_kill(bench: &mut Bench) -> Pin<Box<dyn Future<Output = Broken> + '_>> {
    Box::pin(async move {
        bench.bury(&["A1"]);
        let positions = bench.positions();
        let mut first = bench.begin("r1", "first").await;
        let letters = claim(&mut *first, &positions).await;
        first.publish(&letters).await.pop().unwrap().unwrap();
        drop(first);
        let mut next = bench.begin("r1", "next").await;
        let intent = Intent {
            seq: 1,
            id: letters_id("m1"),
            position: positions[0].clone(),
            first_intent: Time::default(),
        };
        match next.prove(&[intent]).await.unwrap().pop().unwrap() {
            Proof::Arrived(_) => Ok(()),
            other => Err(format!("I10: a copy without its mark: {other:?}")),
        }
    })
}

fn letters_id(text: &str) -> crate::letter::LetterId {
    crate::letter::LetterId::new(text)
}

/// The claim of a group's first letter ends between the decision and the transaction.
fn follower(bench: &mut Bench) -> Pin<Box<dyn Future<Output = Broken> + '_>> {
    Box::pin(async move {
        bench.bury(&["A1", "A2"]);
        let positions = bench.positions();
        let mut mover = bench.begin("r1", "o").await;
        let batch = claim(&mut *mover, &positions).await;
        mover.release(&[batch[0].receipt.clone()]).await.unwrap();
        mover.transfer(&batch).await.unwrap();
        let arrived = bench.lying("orders");
        if arrived.is_empty() { Ok(()) } else { Err(format!("I5: {arrived:?} passes A1")) }
    })
}

/// Somebody holds the first of a group while a relay works.
fn group_in_other_hands(bench: &mut Bench, by_hand: bool) -> Pin<Box<dyn Future<Output = Broken> + '_>> {
    Box::pin(async move {
        let all = ["A1", "A2", "B1"];
        bench.application.send(TIER, &all.map(message), Duration::ZERO).unwrap();
        bench.clock.advance(Duration::from_secs(5));
        let held = bench.application.receive(TIER, 1, Some(Duration::from_secs(20))).unwrap();
        assert_eq!(held.len(), 1);
        let mut relay = match by_hand {
            true => bench.broker.serve_by_hand(&[&bench.channel], "r").await.unwrap(),
            false => bench.broker.serve(&[&bench.channel], "r").await.unwrap(),
        };
        relay.carry(10).await.unwrap();
        bench.clock.advance(Duration::from_secs(21));
        // By hand, what somebody else had before is reported first and sent by the next step.
        for _ in 0..2 {
            relay.carry(10).await.unwrap();
        }
        bench.arrived_once_in_order(&all)
    })
}

/// Two relays, the second of which comes while the first is about to send.
fn two_relays(bench: &mut Bench) -> Pin<Box<dyn Future<Output = Broken> + '_>> {
    Box::pin(async move {
        let all = ["A1", "A2", "B1"];
        bench.application.send(TIER, &all.map(message), Duration::ZERO).unwrap();
        bench.clock.advance(Duration::from_secs(5));
        let open = |owner: &str| {
            let route = serve::routes(&[&bench.channel]).swap_remove(0);
            shelf::Tier::open(&bench.broker.place, route, owner).unwrap()
        };
        let (mut first, mut second) = (open("first"), open("second"));
        let ours: Vec<Outgoing> = first.take(10).unwrap().into_iter().map(|due| due.outgoing).collect();
        first.publish(&ours).unwrap();
        let theirs: Vec<Outgoing> = second.take(10).unwrap().into_iter().map(|due| due.outgoing).collect();
        second.publish(&theirs).unwrap();
        bench.arrived_once_in_order(&all)
    })
}

/// Fails in three processes one after the other: 1 + 2 tiers, then the dead-letter queue, with its history.
fn tries(bench: &mut Bench) -> Pin<Box<dyn Future<Output = Broken> + '_>> {
    Box::pin(async move {
        bench.application.send("orders", &[message("A1")], Duration::ZERO).unwrap();
        let mut went = Vec::new();
        for n in 0..6 {
            // A letter that was given back before counts as handed out, not as failed.
            for _ in 0..2 {
                let got = bench.application.receive("orders", 1, None).unwrap();
                let Some(delivery) = got.first() else { break };
                bench.application.release(&delivery.receipt).unwrap();
            }
            let Some(delivery) = bench.application.receive("orders", 1, None).unwrap().pop() else { break };
            let failure = Failure { message: Some(format!("no {n}")), ..Failure::default() };
            went.push(bench.application.fail(&delivery.receipt, &failure).unwrap().queue);
            bench.clock.advance(Duration::from_secs(61));
            let mut relay = bench.broker.serve(&[&bench.channel], "r").await.unwrap();
            relay.carry(10).await.unwrap();
        }
        if went != ["orders.retry-5s", "orders.retry-1m", "orders.dlq"] {
            return Err(format!("R4: it went to {went:?}"));
        }
        let headers = bench.column(
            "SELECT headers FROM letter JOIN queue ON queue.id = queue WHERE queue.name = ?1",
            "orders.dlq",
        );
        let deaths = (0..3).filter(|n| headers[0].contains(&format!("no {n}"))).count();
        if deaths != 3 {
            return Err(format!("R5: {deaths} of 3 deaths are in its history"));
        }
        Ok(())
    })
}

/// The way back out of a tier.
fn way_back(bench: &mut Bench) -> Pin<Box<dyn Future<Output = Broken> + '_>> {
    Box::pin(async move {
        let mut once = message("A1");
        for (name, value) in [(stamp::ATTEMPT, "1"), (stamp::TIER, TIER), (stamp::FIRST_FAILED_AT, "x")] {
            once.headers.push(name, Value::from_text(value));
        }
        bench.application.send(TIER, &[once], Duration::ZERO).unwrap();
        bench.clock.advance(Duration::from_secs(5));
        bench.broker.serve(&[&bench.channel], "r").await.unwrap().carry(10).await.unwrap();
        let back = bench.application.receive("orders", 1, None).unwrap().pop().unwrap();
        match back.message.headers.first_text(stamp::ATTEMPT) {
            Some("1") => Ok(()),
            other => Err(format!("R4: one failed try, counted as {other:?}")),
        }
    })
}

fn run(scenario: Scenario) -> Broken {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { scenario(&mut Bench::new().await).await })
}

macro_rules! caught {
    ($($test:ident: $mutation:literal by $scenario:expr,)*) => {$(
        #[test]
        fn $test() {
            let scenario: Scenario = $scenario;
            run(scenario).unwrap_or_else(|broken| panic!("without a mutation: {broken}"));
            let broken = planted::with($mutation, || run(scenario));
            println!("{}: {}", $mutation, broken.expect_err(concat!($mutation, " was not caught")));
        }
    )*};
}

caught! {
    t01_mark_in_a_second_transaction: "t01" by told_after_a_kill,
    t07_fenced_and_goes_on: "t07" by |bench| zombie(bench, false),
    t10_no_receipt_and_no_epoch: "t10" by |bench| zombie(bench, true),
    t11_lane_asked_outside: "t11" by follower,
    r03_group_given_to_two_relays: "r03" by |bench| group_in_other_hands(bench, false),
    r03_group_given_to_two_relays_by_hand: "r03" by |bench| group_in_other_hands(bench, true),
    r06_receive_count: "r06" by tries,
    r07_counter_in_memory: "r07" by tries,
    r08_counted_on_the_way_back: "r08" by way_back,
    r09_one_tier_too_many: "r09" by tries,
    r10_last_death_only: "r10" by tries,
    r12_stable_owner_name: "r12" by two_relays,
}
