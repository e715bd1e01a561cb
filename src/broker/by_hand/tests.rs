//! Seeded schedules of a relay by hand against a tier that answers badly and processes that die, with R1 to R3
//! of `protocol.md` after each; and the mutations of a relay, each of which the same schedules catch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::*;
use crate::clock::VirtualClock;
use crate::letter::Position;
use crate::proof::mutation::planted;

const MESSAGES: u64 = 12;

struct Lying {
    claimed: bool,
    handed: bool,
}

struct State {
    random: u64,
    chance: f64,
    tier: BTreeMap<u64, Lying>,
    target: Vec<u64>,
    deaths: u32,
}

/// The tier; also what outlives a process.
#[derive(Clone)]
struct Fake {
    state: Arc<Mutex<State>>,
    death: Arc<Notify>,
}

fn group(seq: u64) -> Option<String> {
    (seq % 4 != 3).then(|| format!("g{}", seq % 4))
}

impl Fake {
    fn new(seed: u64, chance: f64) -> Self {
        let tier = (0..MESSAGES).map(|seq| (seq, Lying { claimed: false, handed: false })).collect();
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let state = State { random, chance, tier, target: Vec::new(), deaths: 0 };
        Self { state: Arc::new(Mutex::new(state)), death: Arc::new(Notify::new()) }
    }

    fn world(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn perhaps_die(&self) {
        let dies = {
            let mut state = self.world();
            let dies = state.deaths < 3 && state.unlucky();
            state.deaths += u32::from(dies);
            dies
        };
        if dies {
            self.death.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// The claims of the dead run out.
    fn leases_end(&self) {
        self.world().tier.values_mut().for_each(|lying| lying.claimed = false);
    }
}

impl State {
    fn roll(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn unlucky(&mut self) -> bool {
        self.chance > 0.0 && self.roll() < self.chance
    }
}

fn error(kind: ErrorKind) -> BrokerError {
    BrokerError::new(kind, "carry", format!("{kind:?}"))
}

fn seq_of(receipt: &Receipt) -> u64 {
    receipt.0.parse().unwrap()
}

#[async_trait]
impl Shelf for Fake {
    fn tier(&self) -> &str {
        "orders.retry-5s"
    }

    async fn take(&mut self, limit: usize) -> Result<Vec<Due>> {
        self.perhaps_die().await;
        let taken = {
            let mut state = self.world();
            let held: BTreeSet<Option<String>> =
                state.tier.iter().filter(|(_, lying)| lying.claimed).map(|(seq, _)| group(*seq)).collect();
            let mut taken = Vec::new();
            for (seq, lying) in &mut state.tier {
                let group = group(*seq);
                if taken.len() >= limit || lying.claimed || group.is_some() && held.contains(&group) {
                    continue;
                }
                lying.claimed = true;
                let again = std::mem::replace(&mut lying.handed, true);
                let outgoing = Outgoing {
                    packed: None,
                    seq: *seq,
                    receipt: Receipt(seq.to_string()),
                    position: Position::new(seq.to_string()),
                    attempt: 1,
                    first_intent: Time::default(),
                    message: crate::letter::Message::default(),
                    group,
                };
                taken.push(Due { outgoing, at: None, again });
            }
            taken
        };
        self.perhaps_die().await;
        Ok(taken)
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        self.perhaps_die().await;
        let answers = {
            let mut state = self.world();
            batch
                .iter()
                .map(|outgoing| {
                    let kind = match state.unlucky() {
                        false => None,
                        true => Some((state.roll() * 3.0) as u32),
                    };
                    if kind.is_none_or(|kind| kind == 2) {
                        state.target.push(outgoing.seq);
                    }
                    match kind {
                        None => Ok(Published::default()),
                        Some(0) => Err(error(ErrorKind::Throttled)),
                        Some(_) => Err(error(ErrorKind::Unknown)),
                    }
                })
                .collect()
        };
        self.perhaps_die().await;
        answers
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        self.perhaps_die().await;
        let answers = {
            let mut state = self.world();
            batch
                .iter()
                .map(|receipt| {
                    let seq = seq_of(receipt);
                    if state.unlucky() {
                        return Settled::Stale;
                    }
                    state.tier.remove(&seq);
                    match state.unlucky() {
                        true => Settled::Failed(error(ErrorKind::Unknown)),
                        false => Settled::Settled,
                    }
                })
                .collect()
        };
        self.perhaps_die().await;
        answers
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        let mut state = self.world();
        for receipt in batch {
            if let Some(lying) = state.tier.get_mut(&seq_of(receipt)) {
                (lying.claimed, lying.handed) = (false, false);
            }
        }
        Ok(())
    }

    async fn leave(&mut self, batch: &[Receipt]) -> Result<()> {
        let mut state = self.world();
        for receipt in batch {
            if let Some(lying) = state.tier.get_mut(&seq_of(receipt)) {
                lying.claimed = false;
            }
        }
        Ok(())
    }

    async fn state(&mut self) -> Result<TierState> {
        Ok(TierState::default())
    }

    async fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Relays one after the other until nothing is left; some die. `Err` names the rule that was broken.
fn schedule(seed: u64, chance: f64) -> std::result::Result<usize, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fake = Fake::new(seed, chance);
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::from_millis(0)));
    let mut reported: BTreeSet<String> = BTreeSet::new();
    let repeated = std::cell::Cell::new(0);
    for _ in 0..200 {
        runtime.block_on(async {
            let mut relay = ByHand::new(Arc::clone(&clock), vec![Box::new(fake.clone())]);
            let said = std::cell::RefCell::new(BTreeSet::new());
            tokio::select! {
                biased;
                () = async {
                    for _ in 0..4 {
                        for name in relay.carry(5).await.unwrap().maybe_twice {
                            repeated.set(repeated.get() + u32::from(!said.borrow_mut().insert(name.clone())));
                            reported.insert(name);
                        }
                    }
                } => {}
                () = fake.death.notified() => {}
            }
        });
        for seq in 0..MESSAGES {
            let state = fake.world();
            if !state.tier.contains_key(&seq) && !state.target.contains(&seq) {
                return Err(format!("R1: message {seq} is nowhere"));
            }
        }
        fake.leases_end();
        if fake.world().tier.is_empty() {
            break;
        }
    }
    if repeated.get() > 0 {
        return Err("R2: a message was reported twice by one relay".to_owned());
    }
    let state = fake.world();
    if !state.tier.is_empty() {
        return Err(format!("it does not end: {} are left", state.tier.len()));
    }
    let mut copies: BTreeMap<u64, usize> = BTreeMap::new();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for seq in &state.target {
        let copy = copies.entry(*seq).or_default();
        *copy += 1;
        if *copy > 1 && !reported.contains(&seq.to_string()) {
            return Err(format!("R2: message {seq} is there twice and was not reported"));
        }
        if *copy == 1
            && let Some(group) = group(*seq)
            && last.insert(group, *seq).is_some_and(|before| before > *seq)
        {
            return Err(format!("R3: message {seq} came after a later one of its group"));
        }
    }
    Ok(copies.values().filter(|count| **count > 1).count())
}

#[test]
fn a_thousand_schedules_lose_nothing_and_report_what_may_be_twice() {
    let mut twice = 0;
    for seed in 0..1_000 {
        twice += schedule(seed, 0.06).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
    println!("1,000 schedules: {twice} messages there twice, all of them reported");
    assert!(twice > 0, "the schedules are too kind");
    assert_eq!(schedule(1, 0.0).unwrap(), 0, "0 without a fault");
}

fn caught(mutation: &'static str) {
    planted::with(mutation, || {
        let broken = (0..1_000).find_map(|seed| schedule(seed, 0.06).err());
        println!("{mutation}: {}", broken.unwrap_or_else(|| panic!("{mutation} was not caught")));
    });
}

#[test]
fn r01_settle_early() {
    caught("r01");
}

#[test]
fn r02_unknown_is_sent() {
    caught("r02");
}

#[test]
fn r04_no_wait_for_the_answer() {
    caught("r04");
}

#[test]
fn r05_settle_first() {
    caught("r05");
}

#[test]
fn r11_later_letters_stay_claimed() {
    caught("r11");
}
