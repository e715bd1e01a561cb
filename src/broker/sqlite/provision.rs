//! Provisioning: queues as resources, and what of a difference can be altered, at what loss.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::file::{Doing, begin, commit};
use super::queues::{self, LEASE, Queue};
use super::{Sqlite, blocking, kind};
use crate::broker::{BrokerError, ErrorKind, Provision, Result};
use crate::clock;
use crate::plan::{Change, FieldChange, Property, Refusal, Resource, Role};
use crate::topology::Channel;

/// Handed out so often without an answer, a letter is dead.
const MAX_RECEIVES: i64 = 5;

#[async_trait]
impl Provision for Sqlite {
    fn desired(&self, channels: &[&Channel]) -> Vec<Resource> {
        channels.iter().flat_map(|channel| wanted(channel)).collect()
    }

    async fn observe(&self, channels: &[&Channel]) -> Result<Vec<Resource>> {
        let place = self.place.clone();
        let wanted = self.desired(channels);
        blocking(move || {
            let Some(db) = place.read()? else { return Ok(Vec::new()) };
            let mut there: Vec<(Queue, u64)> = Vec::new();
            for queue in queues::all(&db)? {
                let depth = queues::depth(&db, queue.id)?;
                there.push((queue, depth));
            }
            let mut observed = Vec::new();
            for resource in &wanted {
                if let Some(at) = there.iter().position(|(queue, _)| queue.name == resource.name) {
                    let (queue, depth) = there.swap_remove(at);
                    observed.push(Resource { depth: Some(depth), ..seen(&queue, resource.role, resource) });
                }
            }
            there.sort_by(|a, b| a.0.name.cmp(&b.0.name));
            observed.extend(there.into_iter().map(|(queue, depth)| Resource {
                kind: "queue",
                name: queue.name,
                role: Role::Undeclared,
                channel: queue.channel,
                properties: Vec::new(),
                depth: Some(depth),
                creatable: false,
                left: None,
                note: None,
            }));
            Ok(observed)
        })
        .await
    }

    async fn judge(&self, change: Change) -> Result<Change> {
        let Change::Update { resource, fields } = change else { return Ok(change) };
        let shorter = fields.iter().find_map(|field| {
            let to = field.name == "retention";
            to.then(|| period(field.to.as_deref()?).flatten_retention()).flatten()
        });
        let Some(retention) = shorter else { return Ok(Change::Update { resource, fields }) };
        let place = self.place.clone();
        let now = place.now();
        blocking(move || {
            let Some(db) = place.read()? else { return Ok(Change::Update { resource, fields }) };
            let Some(queue) = queues::find(&db, &resource.name)? else {
                return Ok(Change::Update { resource, fields });
            };
            let lost = queues::older(&db, queue.id, now.saturating_sub(retention))?;
            if lost == 0 {
                return Ok(Change::Update { resource, fields });
            }
            let all = queues::depth(&db, queue.id)?;
            let (verb, would) = if lost == 1 { ("is", "would") } else { ("are", "would") };
            let way_round = fields
                .iter()
                .find(|field| field.name == "retention")
                .and_then(|field| field.from.clone())
                .map(|from| format!("To keep them set retention: {}", from.replace(' ', "")));
            let refusal = Refusal {
                why: format!("{lost} of {all} letters {verb} older and {would} be lost"),
                loses: Some(lost),
                at_most: false,
                way_round,
            };
            Ok(Change::Refused { resource, fields, refusal })
        })
        .await
    }

    async fn make(&self, change: &Change) -> Result<()> {
        let (resource, fields) = match change {
            Change::Keep { .. } | Change::Undeclared { .. } => return Ok(()),
            Change::Create { resource } => (resource.clone(), None),
            Change::Update { resource, fields } | Change::Refused { resource, fields, .. } => {
                (resource.clone(), Some(fields.clone()))
            }
        };
        let place = self.place.clone();
        blocking(move || {
            let db = place.write()?;
            let now = place.now();
            let action = || format!("make {}", resource.name);
            let tx = begin(&db, action)?;
            match &fields {
                None => create(&tx, &resource, now)?,
                Some(fields) => update(&tx, &resource, fields)?,
            }
            if let Some(queue) = queues::find(&tx, &resource.name)? {
                while queues::sweep(&tx, &queue, now)? > 0 {}
            }
            commit(tx, action)
        })
        .await
    }
}

/// The queues of one channel as the topology wants them.
fn wanted(channel: &Channel) -> Vec<Resource> {
    let names = kind::names(channel);
    let retries = if names.tiers.is_empty() { "none".to_owned() } else { names.tiers.join(", ") };
    let resource = |name: &str, role: Role, note: Option<String>, properties: &[(&str, String)]| Resource {
        kind: "queue",
        name: name.to_owned(),
        role,
        channel: Some(channel.name.value.clone()),
        properties: properties
            .iter()
            .map(|(name, value)| Property { name: (*name).to_owned(), value: value.clone() })
            .collect(),
        depth: None,
        // Nobody else makes queues in this file.
        creatable: true,
        left: None,
        note,
    };
    let read = |name: &str, role: Role| {
        let properties = [
            ("dead_letter", names.dead_letter.clone()),
            ("lease", clock::exact(LEASE)),
            ("max_receives", MAX_RECEIVES.to_string()),
            ("retries", retries.clone()),
        ];
        resource(name, role, None, &properties)
    };
    let mut all = vec![read(&names.source, Role::Source)];
    if names.return_to != names.source {
        all.push(read(&names.return_to, Role::ReturnTo));
    }
    for (name, tier) in names.tiers.iter().zip(&channel.tiers) {
        let delay = clock::exact(tier.delay.value);
        let note = format!("waits {delay}, returns to {}", names.return_to);
        let properties = [("delay", delay), ("return_to", names.return_to.clone())];
        all.push(resource(name, Role::Tier, Some(note), &properties));
    }
    let retention = channel.dead_letter.retention.as_ref().map(|retention| clock::exact(retention.value));
    let note = retention.as_ref().map_or("kept until settled".to_owned(), |kept| format!("kept {kept}"));
    let properties = [("retention", retention.unwrap_or_else(|| UNLIMITED.to_owned()))];
    all.push(resource(&names.dead_letter, Role::DeadLetter, Some(note), &properties));
    all
}

/// A retention without an end.
const UNLIMITED: &str = "unlimited";

/// A queue as it is, in the properties that its role has.
fn seen(queue: &Queue, role: Role, wanted: &Resource) -> Resource {
    let millis = |ms: i64| clock::exact(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    let property = |name: &str| {
        let value = match name {
            "dead_letter" => queue.dead_letter.clone().unwrap_or_else(|| "none".to_owned()),
            "delay" => queue.delay.map_or("none".to_owned(), millis),
            "lease" => millis(queue.lease),
            "max_receives" => queue.max_receives.map_or("none".to_owned(), |most| most.to_string()),
            "retention" => queue.retention.map_or(UNLIMITED.to_owned(), millis),
            "retries" if queue.tiers.is_empty() => "none".to_owned(),
            "retries" => queue.tiers.join(", "),
            "return_to" => queue.return_to.clone().unwrap_or_else(|| "none".to_owned()),
            _ => "none".to_owned(),
        };
        Property { name: name.to_owned(), value }
    };
    Resource {
        kind: "queue",
        name: queue.name.clone(),
        role,
        channel: queue.channel.clone(),
        properties: wanted.properties.iter().map(|wanted| property(&wanted.name)).collect(),
        depth: None,
        creatable: true,
        left: None,
        note: wanted.note.clone(),
    }
}

/// A period as a property has it.
enum Period {
    /// So many milliseconds.
    Millis(i64),
    /// Without an end.
    Unlimited,
    /// Neither.
    Unreadable,
}

impl Period {
    /// Milliseconds, where there is an end.
    fn flatten_retention(self) -> Option<i64> {
        if let Self::Millis(millis) = self { Some(millis) } else { None }
    }
}

fn period(text: &str) -> Period {
    if text == UNLIMITED {
        return Period::Unlimited;
    }
    match clock::parse_duration(&text.replace(' ', "")) {
        Some(duration) => Period::Millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)),
        None => Period::Unreadable,
    }
}

fn create(db: &Connection, resource: &Resource, now: i64) -> Result<()> {
    let role = match resource.role {
        Role::Source => "source",
        Role::ReturnTo => "return_to",
        Role::Tier => "tier",
        Role::DeadLetter => "dead_letter",
        Role::Marks | Role::Routing | Role::Undeclared => {
            return Err(unknown(resource, "role", "not made here"));
        }
    };
    let there: Option<i64> = db
        .query_row("SELECT id FROM queue WHERE name = ?1", [&resource.name], |row| row.get(0))
        .optional()
        .doing(|| format!("make {}", resource.name))?;
    if there.is_some() {
        return Err(BrokerError::new(
            ErrorKind::Other,
            format!("make {}", resource.name),
            "somebody made it meanwhile",
        )
        .hint("redrive plan"));
    }
    db.execute(
        "INSERT INTO queue (name, role, channel, made_at) VALUES (?1, ?2, ?3, ?4)",
        params![resource.name, role, resource.channel, now],
    )
    .doing(|| format!("make {}", resource.name))?;
    for property in &resource.properties {
        set(db, resource, &property.name, &property.value)?;
    }
    Ok(())
}

fn update(db: &Connection, resource: &Resource, fields: &[FieldChange]) -> Result<()> {
    for field in fields {
        if let Some(to) = &field.to {
            set(db, resource, &field.name, to)?;
        }
    }
    Ok(())
}

fn unknown(resource: &Resource, name: &str, value: &str) -> BrokerError {
    BrokerError::new(ErrorKind::Unsupported, format!("make {}", resource.name), format!("{name}: {value}"))
}

/// Writes one property; `none` clears it.
fn set(db: &Connection, resource: &Resource, name: &str, value: &str) -> Result<()> {
    let action = || format!("make {}", resource.name);
    let queue = &resource.name;
    let text = (value != "none").then(|| value.to_owned());
    let millis = || match period(value) {
        Period::Millis(millis) => Ok(Some(millis)),
        Period::Unlimited => Ok(None),
        Period::Unreadable if value == "none" => Ok(None),
        Period::Unreadable => Err(unknown(resource, name, value)),
    };
    let done = match name {
        "dead_letter" => {
            db.execute("UPDATE queue SET dead_letter = ?2 WHERE name = ?1", params![queue, text])
        }
        "return_to" => db.execute("UPDATE queue SET return_to = ?2 WHERE name = ?1", params![queue, text]),
        "delay" => {
            let delay = millis()?;
            // What lay here while it was no tier begins to wait.
            db.execute(
                "UPDATE letter SET due = entered_at + ?2
                 WHERE due = 0 AND queue = (SELECT id FROM queue WHERE name = ?1) AND ?2 IS NOT NULL",
                params![queue, delay],
            )
            .doing(action)?;
            db.execute("UPDATE queue SET delay = ?2 WHERE name = ?1", params![queue, delay])
        }
        "lease" => db.execute(
            "UPDATE queue SET lease = ?2 WHERE name = ?1",
            params![queue, millis()?.unwrap_or(LEASE.as_millis() as i64)],
        ),
        "retention" => {
            db.execute("UPDATE queue SET retention = ?2 WHERE name = ?1", params![queue, millis()?])
        }
        "max_receives" => {
            let most = match &text {
                Some(text) => Some(text.parse::<i64>().map_err(|_| unknown(resource, name, value))?),
                None => None,
            };
            db.execute("UPDATE queue SET max_receives = ?2 WHERE name = ?1", params![queue, most])
        }
        "retries" => {
            let tiers: Vec<&str> = text.as_deref().map(|text| text.split(", ").collect()).unwrap_or_default();
            let json = serde_json::Value::from(tiers).to_string();
            db.execute("UPDATE queue SET tiers = ?2 WHERE name = ?1", params![queue, json])
        }
        _ => return Err(unknown(resource, name, value)),
    };
    match done.doing(action)? {
        1 => Ok(()),
        _ => Err(BrokerError::new(ErrorKind::NotFound, action(), "it is gone").hint("redrive plan")),
    }
}
