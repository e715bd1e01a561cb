//! Carrying messages from tiers back: a tier holds by its own DelaySeconds, so what can be received is due.
//! Receive, send, delete; FIFO order within a group by SQS's own locking and one batch per group.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;

use super::browse::Queue;
use super::client::Client;
use super::relocate::Session;
use crate::broker::{
    Carried, Carrier, ErrorKind, Mover, Outgoing, Receipt, Result, Settled, Task, TierState,
};
use crate::clock::Time;

/// One tier and where it returns.
pub(super) struct Lane {
    tier: String,
    delay: Duration,
    session: Session,
}

/// A relay's hold on the tiers of some channels.
pub(super) struct Tiers {
    client: Client,
    lanes: Vec<Lane>,
}

/// How long a tier's message is hidden while it is carried.
const HIDE: Duration = Duration::from_secs(60);

impl Tiers {
    /// Opens `(tier, delay, target)` lanes.
    pub(super) async fn open(
        client: &Client,
        tiers: Vec<(String, Duration, String)>,
        owner: &str,
    ) -> Result<Self> {
        let mut lanes = Vec::new();
        for (tier, delay, target) in tiers {
            let task = Task {
                run: "relay".to_owned(),
                owner: owner.to_owned(),
                who: owner.to_owned(),
                target,
                take_over: false,
                snapshot: String::new(),
                claim_for: HIDE,
            };
            let session = Session::begin(client, &tier, &task).await?;
            lanes.push(Lane { tier, delay, session });
        }
        Ok(Self { client: client.clone(), lanes })
    }
}

#[async_trait]
impl Carrier for Tiers {
    async fn carry(&mut self, limit: usize) -> Result<Carried> {
        let mut carried = Carried::default();
        let mut left = limit;
        for lane in &mut self.lanes {
            if left == 0 {
                carried.more = true;
                break;
            }
            let moved = lane.carry(&self.client, left.min(80), &mut carried).await?;
            left = left.saturating_sub(moved);
            carried.more |= moved > 0;
        }
        Ok(carried)
    }

    async fn tiers(&mut self) -> Result<Vec<TierState>> {
        let mut states = Vec::new();
        for lane in &self.lanes {
            let queue = Queue::read(&self.client, &lane.tier).await?;
            states.push(TierState {
                queue: lane.tier.clone(),
                waiting: queue.visible + queue.in_flight + queue.delayed,
                due: queue.visible,
                overdue: Duration::ZERO,
            });
        }
        Ok(states)
    }

    async fn close(self: Box<Self>) -> Result<()> {
        for lane in self.lanes {
            Box::new(lane.session).end().await?;
        }
        Ok(())
    }
}

impl Lane {
    async fn carry(&mut self, client: &Client, limit: usize, carried: &mut Carried) -> Result<usize> {
        let mut claims = self.session.claim_any(limit).await?;
        claims.got.sort_by_key(|claimed| claimed.letter.arrival);
        let now = client.clock.now();
        let mut late = Vec::new();
        let mut pending: Vec<(Outgoing, Option<Time>)> = claims
            .got
            .into_iter()
            .map(|claimed| {
                let sent = claimed.letter.facts.written_at.map(|(at, _)| at);
                let group =
                    claimed.letter.message.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned());
                let outgoing = Outgoing {
                    seq: claimed.seq,
                    receipt: claimed.receipt,
                    position: claimed.letter.position,
                    attempt: 1,
                    first_intent: now,
                    message: claimed.letter.message,
                    group,
                };
                (outgoing, sent)
            })
            .collect();
        let mut stopped: HashSet<String> = HashSet::new();
        // One message per group and round: entries of a batch fail alone (m10).
        while !pending.is_empty() {
            let mut groups: HashSet<String> = HashSet::new();
            let (mut round, mut rest, mut back) = (Vec::new(), Vec::new(), Vec::new());
            for (outgoing, sent) in pending {
                match &outgoing.group {
                    // r11: what stands behind a message that was not carried goes back.
                    Some(group) if stopped.contains(group) => back.push(outgoing.receipt.clone()),
                    Some(group) if !groups.insert(group.clone()) => rest.push((outgoing, sent)),
                    _ => round.push((outgoing, sent)),
                }
            }
            pending = rest;
            self.session.release(&back).await?;
            if round.is_empty() {
                continue;
            }
            let batch: Vec<Outgoing> = round.iter().map(|(outgoing, _)| outgoing.clone()).collect();
            let answers = self.session.publish(&batch).await;
            let (mut done, mut again): (Vec<Receipt>, Vec<Receipt>) = (Vec::new(), Vec::new());
            let mut times: HashMap<Receipt, Option<Time>> = HashMap::new();
            for ((outgoing, sent), answer) in round.into_iter().zip(answers) {
                match answer {
                    Ok(_) => {
                        times.insert(outgoing.receipt.clone(), sent);
                        done.push(outgoing.receipt);
                    }
                    Err(error) => {
                        if error.kind == ErrorKind::Unknown {
                            carried.maybe_twice.push(outgoing.position.to_string());
                        }
                        stopped.extend(outgoing.group);
                        again.push(outgoing.receipt);
                    }
                }
            }
            self.session.release(&again).await?;
            for (receipt, outcome) in done.iter().zip(self.session.settle(&done).await) {
                match outcome {
                    Settled::Settled => {}
                    Settled::Stale | Settled::Failed(_) => {
                        carried.maybe_twice.push(receipt.0.split('#').next().unwrap_or_default().to_owned())
                    }
                }
                let due = times.get(receipt).copied().flatten().map(|sent| sent.plus(self.delay));
                late.push(due.map_or(Duration::ZERO, |due| client.clock.now().since(due)));
            }
        }
        let moved = late.len();
        if moved > 0 {
            carried.moved.push((self.tier.clone(), late));
        }
        Ok(moved)
    }
}
