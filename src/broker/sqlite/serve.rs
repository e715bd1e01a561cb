//! Serving tiers: due letters go back in one transaction per step, so that several relays share the work
//! by the file's writer lock alone, none doubles and none holds anything when it dies.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::deaths;
use super::file::{Doing, Place, begin, commit};
use super::queues::{self, Queue};
use super::shelf::{Locked, Tier};
use super::{Sqlite, blocking, encoding, kind, letters};
use crate::broker::by_hand::{ByHand, Shelf};
use crate::broker::{Carried, Carrier, Result, Serve, TierState};
use crate::clock::Time;
use crate::proof::failpoint;
use crate::proof::mutation::mutated;
use crate::stamp;
use crate::topology::Channel;

#[async_trait]
impl Serve for Sqlite {
    async fn serve(&self, channels: &[&Channel], _owner: &str) -> Result<Box<dyn Carrier>> {
        let place = self.place.clone();
        let routes = routes(channels);
        blocking(move || {
            let db = place.write_existing()?;
            for route in &routes {
                queues::get(&db, &route.tier, &place.shown)?;
                queues::get(&db, &route.to, &place.shown)?;
            }
            let relay = Relay { place, db, routes, turn: 0 };
            Ok(Box::new(Served(Arc::new(Mutex::new(relay)))) as Box<dyn Carrier>)
        })
        .await
    }

    async fn serve_by_hand(&self, channels: &[&Channel], owner: &str) -> Result<Box<dyn Carrier>> {
        let (place, owner, routes) = (self.place.clone(), owner.to_owned(), routes(channels));
        let clock = place.clock.clone();
        let shelves = blocking(move || {
            let open =
                |route| Ok(Box::new(Locked::new(Tier::open(&place, route, &owner)?)) as Box<dyn Shelf>);
            routes.into_iter().map(open).collect::<Result<Vec<_>>>()
        })
        .await?;
        Ok(Box::new(ByHand::new(clock, shelves)))
    }
}

pub(super) fn routes(channels: &[&Channel]) -> Vec<Route> {
    let mut routes = Vec::new();
    for channel in channels {
        let names = kind::names(channel);
        for (at, tier) in names.tiers.iter().enumerate() {
            routes.push(Route { tier: tier.clone(), number: at + 1, to: names.return_to.clone() });
        }
    }
    routes
}

/// From one tier to where its channel returns.
pub(super) struct Route {
    pub(super) tier: String,
    /// Its place among the tiers, from 1.
    number: usize,
    pub(super) to: String,
}

/// When the next message of a tier is due that is not due yet.
pub(super) fn next_due(db: &Connection, route: &Route, now: i64) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT min(due) FROM letter
         WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND due > 0 AND due > ?2",
    )
    .and_then(|mut query| query.query_row(params![route.tier, now], |row| row.get(0)))
    .doing(|| format!("ask what is due in {}", route.tier))
}

/// A tier in numbers.
pub(super) fn tier_state(db: &Connection, route: &Route, now: i64) -> Result<TierState> {
    let (waiting, due, oldest): (u64, u64, Option<i64>) = db
        .prepare_cached(
            "WITH tier AS (SELECT id FROM queue WHERE name = ?1)
             SELECT (SELECT count(*) FROM letter, tier WHERE queue = tier.id),
                    (SELECT count(*) FROM letter, tier WHERE queue = tier.id AND due > 0 AND due <= ?2),
                    (SELECT min(due) FROM letter, tier WHERE queue = tier.id AND due > 0)",
        )
        .and_then(|mut query| {
            query.query_row(params![route.tier, now], |row| {
                Ok((queues::number(row, 0)?, queues::number(row, 1)?, row.get(2)?))
            })
        })
        .doing(|| format!("count {}", route.tier))?;
    let overdue =
        oldest.map_or(Duration::ZERO, |oldest| Time::from_millis(now).since(Time::from_millis(oldest)));
    Ok(TierState { queue: route.tier.clone(), waiting, due, overdue })
}

struct Relay {
    place: Place,
    db: Connection,
    routes: Vec<Route>,
    /// The tier that is asked first next time, so that a full one does not starve the others.
    turn: usize,
}

impl Relay {
    fn carry(&mut self, limit: usize) -> Result<Carried> {
        let action = || "carry what is due".to_owned();
        let now = self.place.now();
        let mut carried = Carried::default();
        let count = self.routes.len();
        // Without anything due no writer lock is taken: an idle relay costs nobody anything.
        if !self.any_due(now)? {
            carried.next_due = self.next_due(now)?;
            return Ok(carried);
        }
        let mut left = limit;
        let tx = begin(&self.db, action)?;
        for step in 0..count {
            let Some(route) = self.routes.get((self.turn + step) % count) else { continue };
            let tier = queues::get(&tx, &route.tier, &self.place.shown)?;
            let target = queues::get(&tx, &route.to, &self.place.shown)?;
            let (lateness, more) = carry_tier(&tx, route, &tier, &target, left, now)?;
            carried.more |= more;
            left -= lateness.len();
            if !lateness.is_empty() {
                carried.moved.push((route.tier.clone(), lateness));
            }
        }
        failpoint::hit("relay_before_commit");
        commit(tx, action)?;
        failpoint::hit("relay_after_commit");
        self.turn = (self.turn + 1) % count.max(1);
        carried.next_due = self.next_due(now)?;
        Ok(carried)
    }

    fn any_due(&self, now: i64) -> Result<bool> {
        for route in &self.routes {
            let due: bool = self
                .db
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM letter
                     WHERE queue = (SELECT id FROM queue WHERE name = ?1) AND due > 0 AND due <= ?2)",
                )
                .and_then(|mut query| query.query_row(params![route.tier, now], |row| row.get(0)))
                .doing(|| format!("ask what is due in {}", route.tier))?;
            if due {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next that is not due yet: what is due and had to stay waits for somebody's lease to end.
    fn next_due(&self, now: i64) -> Result<Option<Time>> {
        let mut next: Option<i64> = None;
        for route in &self.routes {
            next = next.into_iter().chain(next_due(&self.db, route, now)?).min();
        }
        Ok(next.map(Time::from_millis))
    }

    fn tiers(&mut self) -> Result<Vec<TierState>> {
        let now = self.place.now();
        self.routes.iter().map(|route| tier_state(&self.db, route, now)).collect()
    }
}

/// Moves what is due in one tier, in due order; gives how late each was, and whether there was more.
fn carry_tier(
    tx: &Connection,
    route: &Route,
    tier: &Queue,
    target: &Queue,
    limit: usize,
    now: i64,
) -> Result<(Vec<Duration>, bool)> {
    let action = || format!("carry what is due in {}", tier.name);
    // While another process holds one of a group, none of it is handed out (r03).
    let mut held: HashSet<Vec<u8>> = HashSet::new();
    let mut held_letters: HashSet<i64> = HashSet::new();
    {
        let mut leases = tx
            .prepare_cached("SELECT letter, key FROM lease WHERE queue = ?1 AND until > ?2")
            .doing(action)?;
        let mut rows = leases.query(params![tier.id, now]).doing(action)?;
        while let Some(row) = rows.next().doing(action)? {
            held_letters.insert(row.get(0).doing(action)?);
            if !mutated("r03") {
                held.extend(row.get::<_, Option<Vec<u8>>>(1).doing(action)?);
            }
        }
    }
    let mut due = Vec::new();
    let mut more = false;
    {
        let mut query = tx
            .prepare_cached(
                "SELECT id, key, due, entered_at, headers FROM letter
                 WHERE queue = ?1 AND due > 0 AND due <= ?2 ORDER BY due, id",
            )
            .doing(action)?;
        let mut rows = query.query(params![tier.id, now]).doing(action)?;
        while let Some(row) = rows.next().doing(action)? {
            let read = || -> rusqlite::Result<Option<(i64, i64, Option<String>)>> {
                let id: i64 = row.get(0)?;
                let key = row.get_ref(1)?.as_bytes_or_null()?;
                if held_letters.contains(&id) || key.is_some_and(|key| held.contains(key)) {
                    return Ok(None);
                }
                Ok(Some((id, row.get(2)?, stamped(row.get_ref(4)?.as_bytes()?, route, row.get(3)?))))
            };
            let Some(letter) = read().doing(action)? else { continue };
            if due.len() >= limit {
                more = true;
                break;
            }
            due.push(letter);
        }
    }
    let mut lateness = Vec::with_capacity(due.len());
    for (id, since, headers) in due {
        letters::move_row(tx, id, target, 0, now, headers.as_deref())?;
        lateness.push(Time::from_millis(now).since(Time::from_millis(since)));
    }
    Ok((lateness, more))
}

/// The headers with what a consumer needs to know which tier is next, if whoever put the letter here left
/// it out; `None` if they can stay as they are. A count that is there is never changed (r08).
pub(super) fn stamped(json: &[u8], route: &Route, entered_at: i64) -> Option<String> {
    // A glance that errs to the safe side: what looks complete is left alone.
    let text = std::str::from_utf8(json).ok()?;
    let there = |name: &str| text.contains(name);
    if mutated("r08") {
        let mut headers = encoding::read(&bytes::Bytes::copy_from_slice(json)).ok()?;
        let tries = deaths::attempts(&headers) + 1;
        letters::stamp(&mut headers, stamp::ATTEMPT, tries.to_string());
        return encoding::write(&headers).ok();
    }
    if there(stamp::ATTEMPT) && there(stamp::TIER) && there(stamp::FIRST_FAILED_AT) {
        return None;
    }
    let mut headers = encoding::read(&bytes::Bytes::copy_from_slice(json)).ok()?;
    if deaths::attempts(&headers) == 0 {
        letters::stamp(&mut headers, stamp::ATTEMPT, route.number.to_string());
    }
    if !headers.has(stamp::TIER) {
        letters::stamp(&mut headers, stamp::TIER, route.tier.as_str());
    }
    if !headers.has(stamp::FIRST_FAILED_AT) {
        letters::stamp(&mut headers, stamp::FIRST_FAILED_AT, Time::from_millis(entered_at).rfc3339());
    }
    encoding::write(&headers).ok()
}

/// The relay behind a lock: see the mover.
struct Served(Arc<Mutex<Relay>>);

impl Served {
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Relay) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let relay = self.0.clone();
        blocking(move || work(&mut relay.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

#[async_trait]
impl Carrier for Served {
    async fn carry(&mut self, limit: usize) -> Result<Carried> {
        self.with(move |relay| relay.carry(limit)).await
    }

    async fn tiers(&mut self) -> Result<Vec<TierState>> {
        self.with(Relay::tiers).await
    }

    async fn close(self: Box<Self>) -> Result<()> {
        // Nothing is held between two steps.
        Ok(())
    }
}
