//! A broker in memory that answers as badly as a broker may, by a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::session::Session;
use crate::broker::{
    Atomicity, BrokerError, BulkMoves, Capabilities, Dedup, Delay, ErrorKind, Limits, Mover, Order, Outgoing,
    Peek, Published, Relocate, Result, Task,
};
use crate::clock::{Clock, Time, VirtualClock};
use crate::letter::{Facts, LetterId, Message, Position, RawLetter, Value};
use crate::proof::mutation::mutated;
use crate::topology::Channel;

/// Kinds of brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Copy and mark in one transaction.
    Transaction,
    /// Publishes; can say nothing about a send without an answer; cannot tell gone from hidden.
    NoProof,
    /// Publishes; finds copies, and fences.
    Finds,
    /// Publishes; keeps (run, seq) unique for ever.
    RunAndSeq,
    /// Publishes; forgets an id after five minutes.
    Window,
}

/// Most letters in doubt after a crash where nobody can say what arrived.
pub(super) const IN_DOUBT: usize = 7;

impl Shape {
    pub(super) const ALL: [Self; 5] =
        [Self::Transaction, Self::NoProof, Self::Finds, Self::RunAndSeq, Self::Window];
}

/// Faults that no engine can repair: the checkers must see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plant {
    None,
    LosesOne,
    SendsTwice,
    SwapsTwo,
    AltersBody,
    DropsHeader,
    AcksNothing,
    SettlesNothing,
    ReturnIsAck,
    TargetGoesAfter(usize),
    Refuses(u64),
    /// So many are overdue in the tiers until this many milliseconds; one fewer at each look, or always.
    RelayBusy {
        until: u64,
        served: bool,
    },
    /// No copy can be made of this letter: a dialect says so.
    Unfit(u64),
}

pub(super) struct Held {
    pub(super) message: Message,
    pub(super) claim: Option<(String, Duration)>,
}

#[derive(Clone)]
pub(super) struct Copy {
    pub seq: u64,
    pub group: String,
    pub message: Message,
}

/// What the broker really holds.
pub(super) struct World {
    pub in_dlq: BTreeSet<u64>,
    pub target: Vec<Copy>,
    pub taken: BTreeSet<u64>,
    pub originals: Vec<Message>,
    pub groups: BTreeMap<String, Vec<u64>>,
}

pub(super) struct State {
    pub(super) shape: Shape,
    pub(super) plant: Plant,
    pub(super) chance: f64,
    pub(super) random: u64,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) dlq: BTreeMap<u64, Held>,
    pub(super) originals: Vec<Message>,
    pub(super) target: Vec<Copy>,
    pub(super) late: Vec<Copy>,
    pub(super) taken: BTreeSet<u64>,
    pub(super) sent_at: BTreeMap<u64, Duration>,
    pub(super) tries: BTreeMap<u64, u32>,
    pub(super) owner: String,
    pub(super) crashes_left: u32,
    pub(super) claims: u64,
    pub(super) looks: u64,
}

/// See the file's head.
#[derive(Clone)]
pub(super) struct Hostile {
    state: Arc<Mutex<State>>,
    pub(super) crash: Arc<Notify>,
}

impl State {
    pub(super) fn roll(&mut self) -> f64 {
        // xorshift64*: any fixed sequence does.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn unlucky(&mut self) -> bool {
        self.chance > 0.0 && self.roll() < self.chance
    }

    pub(super) fn pass(&mut self) {
        let millis = if self.chance > 0.0 { (self.roll() * 400.0) as u64 } else { 1 };
        self.clock.advance(Duration::from_millis(millis));
        if self.unlucky() && self.unlucky() {
            // A long pause: leases end.
            self.before_a_pause();
            self.clock.advance(Duration::from_secs(70));
        }
        if self.roll() < 0.3 && !self.late.is_empty() {
            let copy = self.late.remove(0);
            self.arrive(copy);
        }
        if self.unlucky() && self.roll() < 0.1 {
            let free: Vec<u64> =
                self.dlq.iter().filter(|(_, held)| held.claim.is_none()).map(|(p, _)| *p).collect();
            if !free.is_empty() {
                let at = (self.roll() * free.len() as f64) as usize;
                self.dlq.remove(&free[at]);
                self.taken.insert(free[at]);
            }
        }
    }

    /// A request that comes after the window's margin is outside anybody's power (protocol §13.3).
    pub(super) fn before_a_pause(&mut self) {
        if self.shape == Shape::Window {
            for copy in std::mem::take(&mut self.late) {
                self.arrive(copy);
            }
        }
    }

    pub(super) fn arrive(&mut self, copy: Copy) {
        let known = self.target.iter().any(|other| other.seq == copy.seq);
        let dropped = match self.shape {
            Shape::RunAndSeq => known,
            Shape::Window => {
                let now = self.clock.elapsed();
                let recent = self
                    .sent_at
                    .get(&copy.seq)
                    .is_some_and(|at| now.saturating_sub(*at) < Duration::from_secs(300));
                known && recent
            }
            _ => false,
        };
        if !dropped {
            self.sent_at.insert(copy.seq, self.clock.elapsed());
            self.target.push(copy);
        }
    }

    pub(super) fn fenced(&self, owner: &str) -> Result<()> {
        if self.owner == owner {
            Ok(())
        } else {
            Err(BrokerError::new(ErrorKind::Fenced, "send", "somebody took over"))
        }
    }

    pub(super) fn error(&self, kind: ErrorKind) -> BrokerError {
        BrokerError::new(kind, "send", format!("{kind:?}"))
    }

    pub(super) fn send(&mut self, outgoing: &Outgoing) -> Result<Published> {
        let seq = outgoing.seq;
        *self.tries.entry(seq).or_default() += 1;
        let group = outgoing.group.clone().unwrap_or_default();
        let mut copy = Copy { seq, group, message: outgoing.message.clone() };
        match self.plant {
            Plant::LosesOne if seq == 2 => {
                self.dlq.remove(&seq);
                return Err(self.error(ErrorKind::Unknown));
            }
            Plant::SendsTwice if seq == 2 => self.arrive(copy.clone()),
            Plant::AltersBody if seq == 2 => copy.message.body = Some("other".into()),
            Plant::DropsHeader if seq == 2 => copy.message.headers.remove("event-id"),
            Plant::AcksNothing if seq == 2 => return Ok(Published::default()),
            Plant::ReturnIsAck if seq == 3 => return Ok(Published::default()),
            Plant::TargetGoesAfter(count) if self.target.len() >= count => {
                return Err(self.error(ErrorKind::NotFound));
            }
            Plant::Refuses(refused) if seq == refused => return Err(self.error(ErrorKind::Rejected)),
            _ => {}
        }
        if self.unlucky() {
            return match (self.roll() * 6.0) as u32 {
                0 => Err(self.error(ErrorKind::Throttled)),
                1 => Err(self.error(ErrorKind::Unreachable)),
                2 => Err(self.error(ErrorKind::Rejected)),
                3 => {
                    self.arrive(copy.clone());
                    if mutated("m13") {
                        self.arrive(copy);
                        return Ok(Published::default());
                    }
                    Err(self.error(ErrorKind::Unknown))
                }
                4 => Err(self.error(ErrorKind::Unknown)),
                _ => {
                    self.late.push(copy);
                    Err(self.error(ErrorKind::Unknown))
                }
            };
        }
        self.arrive(copy);
        Ok(Published { at: Some(format!("c{seq}")) })
    }
}

impl Hostile {
    /// Fourteen letters in four groups and two without one.
    pub(super) fn new(seed: u64, shape: Shape, plant: Plant, chance: f64) -> Self {
        let mut state = State {
            shape,
            plant,
            chance,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            clock: Arc::new(VirtualClock::new(Time::from_millis(1_000_000))),
            dlq: BTreeMap::new(),
            originals: Vec::new(),
            target: Vec::new(),
            late: Vec::new(),
            taken: BTreeSet::new(),
            sent_at: BTreeMap::new(),
            tries: BTreeMap::new(),
            owner: String::new(),
            crashes_left: if chance > 0.0 { 3 } else { 0 },
            claims: 0,
            looks: 0,
        };
        for seq in 1..=16u64 {
            let mut message = Message { body: Some(format!("body {seq}").into()), ..Message::default() };
            message.key = (seq <= 14).then(|| format!("g{}", (seq * 7) % 4).into());
            // An earlier run's stamp and the event's id: neither proves anything about this run (m26).
            message.headers.push("event-id", Value::from_text(format!("ev-{}", seq % 3)));
            if plant == Plant::Unfit(seq) {
                // BunnyBus without its route key.
                message.headers.push("bunnyBus", Value::from_text("1"));
            }
            state.originals.push(message.clone());
            state.dlq.insert(seq, Held { message, claim: None });
        }
        if plant == Plant::SwapsTwo {
            state.chance = 0.0;
        }
        Self { state: Arc::new(Mutex::new(state)), crash: Arc::new(Notify::new()) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn clock(&self) -> Arc<VirtualClock> {
        Arc::clone(&self.state().clock)
    }

    pub(super) fn shape(&self) -> Shape {
        self.state().shape
    }

    pub(super) fn crashes(&self) -> Arc<Notify> {
        Arc::clone(&self.crash)
    }

    pub(super) fn tries_of(&self, seq: u64) -> u32 {
        self.state().tries.get(&seq).copied().unwrap_or(0)
    }

    /// When the first copy arrived.
    pub(super) fn first_arrival(&self) -> Option<Duration> {
        self.state().sent_at.values().min().copied()
    }

    pub(super) fn time_passes(&self) {
        let mut state = self.state();
        state.before_a_pause();
        let long = state.roll() < 0.3;
        state.clock.advance(Duration::from_secs(if long { 400 } else { 90 }));
    }

    pub(super) fn let_late_ones_arrive(&self) {
        let mut state = self.state();
        for copy in std::mem::take(&mut state.late) {
            state.arrive(copy);
        }
    }

    pub(super) fn letters(&self) -> Vec<RawLetter> {
        let state = self.state();
        state.dlq.iter().map(|(seq, held)| raw(*seq, &held.message)).collect()
    }

    pub(super) fn look(&self) -> World {
        let state = self.state();
        let mut groups = BTreeMap::<String, Vec<u64>>::new();
        for (index, message) in state.originals.iter().enumerate() {
            if let Some(key) = &message.key {
                groups.entry(String::from_utf8_lossy(key).into_owned()).or_default().push(index as u64 + 1);
            }
        }
        let mut target = state.target.clone();
        for copy in &mut target {
            if copy.group.is_empty() {
                copy.group = format!("alone {}", copy.seq);
            }
        }
        World {
            in_dlq: state.dlq.keys().copied().collect(),
            target,
            taken: state.taken.clone(),
            originals: state.originals.clone(),
            groups,
        }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        let shape = self.state().shape;
        Capabilities {
            delay: Delay::Reader,
            peek: Peek::Pure,
            relocate: match shape {
                Shape::Transaction => Atomicity::Transaction,
                _ => Atomicity::PublishThenSettle,
            },
            ordered_batch: shape == Shape::Transaction,
            bulk: BulkMoves::No("it has no move of its own"),
            // Where nobody can say what arrived, few are to be in doubt after a crash.
            batch: if shape == Shape::NoProof { IN_DOUBT } else { 1_000 },
            claims: 4_000,
            group_lock: None,
            order: Order::PerQueue,
            dedup: match shape {
                Shape::RunAndSeq => Dedup::RunAndSeq,
                Shape::Window => Dedup::Window(Duration::from_secs(300)),
                _ => Dedup::None,
            },
            limits: Limits::default(),
            deletes: true,
            trims: false,
            deleted_returns: shape == Shape::NoProof,
            keeps_times: false,
            sees_later: false,
            fan_out: false,
            enforces_retention: false,
            served_by: &[],
        }
    }
}

pub(super) fn raw(seq: u64, message: &Message) -> RawLetter {
    RawLetter {
        id: LetterId::new(&format!("l{seq}")),
        position: Position::new(format!("{seq}")),
        arrival: seq,
        body_len: message.body.as_ref().map(|body| body.len() as u64),
        message: message.clone(),
        facts: Facts { queue: "orders.dlq".into(), ..Facts::default() },
    }
}

#[async_trait]
impl Relocate for Hostile {
    async fn target(&self, _channel: &Channel) -> Result<()> {
        Ok(())
    }

    async fn begin(&self, _channel: &Channel, task: &Task) -> Result<Box<dyn Mover>> {
        let mut state = self.state();
        state.owner.clone_from(&task.owner);
        // The fence: what a predecessor sent cannot arrive any more.
        if matches!(state.shape, Shape::Finds) {
            state.late.clear();
        }
        drop(state);
        Ok(Box::new(Session { hostile: self.clone(), owner: task.owner.clone() }))
    }
}
