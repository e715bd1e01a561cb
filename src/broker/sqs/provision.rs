//! Provisioning: queues in the order in which they refer to each other (dead letters, tiers, source, then the
//! policies between them), attributes compared by meaning, encryption observed and never touched.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;

use super::browse::Queue;
use super::client::Client;
use super::kind::is_fifo;
use super::policy;
use crate::broker::{BrokerError, ErrorKind, Names, Result};
use crate::clock::{exact, parse_duration};
use crate::plan::{Change, Property, Refusal, Resource, Role};
use crate::topology::{Channel, ReturnTo, Setting};

/// How long SQS may take to show a changed attribute.
const PROPAGATION: Duration = Duration::from_secs(60);

const FIFO: &str = "FifoQueue";
const DELAY: &str = "DelaySeconds";
const RETENTION: &str = "MessageRetentionPeriod";
const VISIBILITY: &str = "VisibilityTimeout";
const REDRIVE: &str = "RedrivePolicy";
pub(super) const ALLOW: &str = "RedriveAllowPolicy";

/// Longest retention of SQS, and what a dead-letter queue gets unless written: its clock began in the source (S25).
const LONGEST: Duration = Duration::from_secs(14 * 86_400);

fn duration(channel: &Channel, key: &str) -> Option<Duration> {
    match &channel.setting("sqs", key)?.value {
        Setting::Duration(duration) => Some(*duration),
        _ => None,
    }
}

/// Attributes that are seconds on SQS, and durations for people: `14d`.
const TIMES: [&str; 3] = [DELAY, RETENTION, VISIBILITY];

/// Seconds in an attribute as people read them; what is no number stays as it is.
fn in_words(seconds: &str) -> String {
    seconds.parse().map_or_else(|_| seconds.to_owned(), |seconds| exact(Duration::from_secs(seconds)))
}

/// And back, as SQS takes them.
fn in_seconds(words: &str) -> Option<u64> {
    parse_duration(words).map(|time| time.as_secs())
}

fn number(channel: &Channel, key: &str) -> Option<i64> {
    match &channel.setting("sqs", key)?.value {
        Setting::Number(number) => Some(*number),
        _ => None,
    }
}

fn tags(channel: &Channel) -> BTreeMap<String, String> {
    match channel.setting("sqs", "tags").map(|at| &at.value) {
        Some(Setting::Map(pairs)) => pairs.iter().map(|(k, v)| (k.value.clone(), v.value.clone())).collect(),
        _ => BTreeMap::new(),
    }
}

struct Wish {
    resource: Resource,
}

impl Wish {
    fn new(name: &str, role: Role, channel: &Channel) -> Self {
        let mut wish = Self {
            resource: Resource {
                kind: "queue",
                name: name.to_owned(),
                role,
                channel: Some(channel.name.value.clone()),
                properties: Vec::new(),
                depth: None,
                creatable: true,
                left: None,
                note: None,
            },
        };
        wish.set(FIFO, is_fifo(channel).to_string());
        for (key, value) in tags(channel) {
            wish.set(&format!("tag {key}"), value);
        }
        wish
    }

    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.resource.properties.push(Property { name: name.to_owned(), value: value.into() });
    }

    /// What stands beside it when it is made: what one would look for in the console.
    fn noted(mut self) -> Self {
        let value = |name: &str| {
            self.resource.properties.iter().find(|property| property.name == name).map(|p| p.value.as_str())
        };
        let words: Vec<String> = [
            value(DELAY).map(|delay| format!("delay {delay}")),
            value(RETENTION).map(|time| format!("retention {time}")),
            value(REDRIVE).map(|policy| format!("dead letters to {policy}")),
            value(VISIBILITY).map(|time| format!("visibility {time}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        self.resource.note = (!words.is_empty()).then(|| words.join(", "));
        self
    }

    fn done(self) -> Resource {
        let mut noted = self.noted();
        noted.resource.properties.sort_by(|a, b| a.name.cmp(&b.name));
        noted.resource
    }
}

/// What a channel wants, in the order in which it is made.
pub(super) fn desired(channel: &Channel, names: &Names) -> Vec<Resource> {
    let mut wishes = Vec::new();
    let mut dead = Wish::new(&names.dead_letter, Role::DeadLetter, channel);
    let retention = channel.dead_letter.retention.as_ref().map_or(LONGEST, |at| at.value);
    dead.set(RETENTION, exact(retention));
    dead.set(ALLOW, names.source.clone());
    wishes.push(dead.done());
    for (tier, name) in channel.tiers.iter().zip(&names.tiers) {
        let mut wish = Wish::new(name, Role::Tier, channel);
        wish.set(DELAY, exact(tier.delay.value));
        wish.set(RETENTION, exact(LONGEST));
        if let Some(visibility) = duration(channel, "visibility_timeout") {
            wish.set(VISIBILITY, exact(visibility));
        }
        wishes.push(wish.done());
    }
    if let Some(ReturnTo::Named(_)) = channel.return_to.as_ref().map(|at| &at.value) {
        wishes.push(Wish::new(&names.return_to, Role::ReturnTo, channel).done());
    }
    let mut source = Wish::new(&names.source, Role::Source, channel);
    if let Some(visibility) = duration(channel, "visibility_timeout") {
        source.set(VISIBILITY, exact(visibility));
    }
    let receives = number(channel, "max_receive_count").and_then(|n| u32::try_from(n).ok()).unwrap_or(10);
    let target_arn = names.dead_letter.clone();
    source.set(REDRIVE, policy::Redrive { target_arn, max_receive_count: receives }.words(""));
    source.resource.creatable = channel.create_source;
    wishes.push(source.done());
    wishes
}

/// A queue as it is, with just the properties that `wish` has.
pub(super) async fn observe(client: &Client, wish: &Resource) -> Result<Option<Resource>> {
    let Some(attributes) = client.attributes(&wish.name).await? else { return Ok(None) };
    let url = client.must(&wish.name).await?;
    let queue = Queue::of(&wish.name, url.clone(), &attributes);
    let wants_tags = wish.properties.iter().any(|property| property.name.starts_with("tag "));
    let tags = match wants_tags {
        false => HashMap::new(),
        true => {
            let asked = client.sdk.list_queue_tags().queue_url(&url).send().await;
            asked
                .map_err(|error| client.error(format!("read the tags of {}", wish.name), &error))?
                .tags
                .unwrap_or_default()
        }
    };
    let properties = wish
        .properties
        .iter()
        .filter_map(|property| {
            let name = property.name.as_str();
            let value = match name {
                FIFO => Some(queue.fifo.to_string()),
                REDRIVE => attributes
                    .get(name)
                    .and_then(|text| policy::redrive(text))
                    .map(|policy| policy.words(&queue.arn)),
                ALLOW => attributes
                    .get(name)
                    .and_then(|text| policy::allow_words(&queue.arn, text))
                    .map(|now| if allows(&now, &property.value) { property.value.clone() } else { now }),
                _ => match name.strip_prefix("tag ") {
                    Some(tag) => tags.get(tag).cloned(),
                    None if TIMES.contains(&name) => attributes.get(name).map(|text| in_words(text)),
                    None => attributes.get(name).cloned(),
                },
            };
            value.map(|value| Property { name: name.to_owned(), value })
        })
        .collect();
    let encrypted = ["KmsMasterKeyId", "SqsManagedSseEnabled"].into_iter().find_map(|key| {
        attributes.get(key).filter(|value| *value != "false" && !value.is_empty()).map(|value| (key, value))
    });
    Ok(Some(Resource {
        properties,
        depth: queue.depth().count.number().into(),
        left: encrypted.map(|(key, value)| match key {
            "KmsMasterKeyId" => format!("encrypted with {value}"),
            _ => "encrypted by SQS".to_owned(),
        }),
        ..wish.clone()
    }))
}

/// Does a policy name all these sources? That it names more is not ours to change.
fn allows(now: &str, wanted: &str) -> bool {
    let named: Vec<&str> = now.split(", ").collect();
    wanted.split(", ").all(|source| named.contains(&source))
}

/// Sources that a RedriveAllowPolicy may name.
const MOST_ALLOWED: usize = 10;

/// A RedriveAllowPolicy that would shut out other queues that send their dead letters here names them too; with more of
/// them than it can name it is left as it is.
pub(super) async fn with_the_others(client: &Client, change: Change) -> Result<Change> {
    let Change::Update { mut resource, mut fields } = change else { return Ok(change) };
    let Some(field) = fields.iter_mut().find(|field| field.name == ALLOW) else {
        return Ok(Change::Update { resource, fields });
    };
    let queue = Queue::read(client, &resource.name).await?;
    let others = match super::task::sources(client, &queue).await {
        Ok(arns) => arns,
        // Asking is a right of its own, and not every endpoint can.
        Err(error) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Unsupported) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut names: Vec<&str> = others.iter().map(|arn| policy::name_of(arn)).collect();
    let listed = field.from.clone().filter(|from| from != "all" && from != "none").unwrap_or_default();
    names.extend(listed.split(", ").filter(|name| !name.is_empty() && !name.starts_with("arn:")));
    let own = field.to.clone().unwrap_or_default();
    names.extend(own.split(", "));
    names.sort_unstable();
    names.dedup();
    if names.len() > MOST_ALLOWED {
        fields.retain(|field| field.name != ALLOW);
        resource.properties.retain(|property| property.name != ALLOW);
        return Ok(if fields.is_empty() {
            Change::Keep { resource }
        } else {
            Change::Update { resource, fields }
        });
    }
    let all = names.join(", ");
    field.to = Some(all.clone());
    for property in resource.properties.iter_mut().filter(|property| property.name == ALLOW) {
        property.value.clone_from(&all);
    }
    Ok(Change::Update { resource, fields })
}

/// Queues under a name that this channel's tiers could have had.
pub(super) async fn undeclared(client: &Client, channel: &Channel, names: &Names) -> Result<Vec<Resource>> {
    let base = names.source.trim_end_matches(".fifo");
    let prefix = format!("{base}-retry-");
    let found = match client.sdk.list_queues().queue_name_prefix(&prefix).max_results(100).send().await {
        Ok(answer) => answer.queue_urls.unwrap_or_default(),
        Err(error) => {
            let error = client.error("list the queues", &error);
            // Listing is a right of its own, and only a convenience here.
            if matches!(error.kind, ErrorKind::Denied | ErrorKind::Unsupported) {
                Vec::new()
            } else {
                return Err(error);
            }
        }
    };
    Ok(found
        .iter()
        .filter_map(|url| url.rsplit('/').next())
        .filter(|name| name.starts_with(&prefix) && !names.tiers.iter().any(|tier| tier == name))
        .map(|name| Resource { creatable: false, ..Wish::new(name, Role::Undeclared, channel).done() })
        .map(|mut resource| {
            resource.properties.clear();
            resource
        })
        .collect())
}

/// What cannot be done in place, and what would lose letters.
pub(super) fn judge(change: Change, observed_depth: Option<u64>) -> Change {
    let Change::Update { resource, fields } = change else { return change };
    if let Some(field) = fields.iter().find(|field| field.name == FIFO) {
        let now = if field.from.as_deref() == Some("true") { "a FIFO queue" } else { "a standard queue" };
        let refusal = Refusal {
            why: format!("it is {now}, and SQS cannot change a queue's type"),
            loses: None,
            at_most: false,
            way_round: Some(
                "declare it under another name, or move its messages and delete it first".to_owned(),
            ),
        };
        return Change::Refused { resource, fields, refusal };
    }
    let shorter = fields.iter().find(|field| {
        let value = |text: &Option<String>| text.as_deref().and_then(in_seconds);
        field.name == RETENTION && value(&field.from) > value(&field.to)
    });
    if let (Some(field), Some(depth)) = (shorter, observed_depth.filter(|depth| *depth > 0)) {
        let refusal = Refusal {
            why: format!(
                "about {} in it, and what is older than {} would be lost; SQS does not tell how many that are",
                match depth {
                    1 => "1 message is".to_owned(),
                    several => format!("{several} messages are"),
                },
                field.to.as_deref().unwrap_or("0s")
            ),
            loses: Some(depth),
            at_most: true,
            way_round: None,
        };
        return Change::Refused { resource, fields, refusal };
    }
    Change::Update { resource, fields }
}

/// S25: a letter's retention counts from its first send on a standard queue, so a dead-letter queue that keeps it for
/// less time than its source may lose it on arrival.
pub(super) fn outlives(change: Change, source: &str, source_keeps: u64) -> Change {
    let retention = change.resource().properties.iter().find(|property| property.name == RETENTION);
    let keeps = retention.and_then(|property| in_seconds(&property.value));
    let Some(keeps) = keeps.filter(|keeps| *keeps < source_keeps) else { return change };
    let (resource, fields) = match change {
        Change::Create { resource } | Change::Keep { resource } => (resource, Vec::new()),
        Change::Update { resource, fields } => (resource, fields),
        other => return other,
    };
    let words = |seconds| exact(Duration::from_secs(seconds));
    let refusal = Refusal {
        why: format!(
            "it keeps letters {} and {source} keeps messages {}, both counted from the first send: a message that \
             failed for longer would be gone on arrival",
            words(keeps),
            words(source_keeps)
        ),
        loses: None,
        at_most: false,
        way_round: Some(format!(
            "Write dead_letter: {{retention: {}}} or more for {}",
            words(source_keeps),
            resource.name
        )),
    };
    Change::Refused { resource, fields, refusal }
}

/// Makes one change and waits until SQS shows it.
pub(super) async fn make(client: &Client, change: &Change) -> Result<()> {
    let (resource, creates) = match change {
        Change::Create { resource } => (resource, true),
        Change::Update { resource, .. } | Change::Refused { resource, .. } => (resource, false),
        Change::Keep { .. } | Change::Undeclared { .. } => return Ok(()),
    };
    let value = |name: &str| {
        resource.properties.iter().find(|property| property.name == name).map(|p| p.value.clone())
    };
    let fifo = value(FIFO).as_deref() == Some("true");
    let tags: HashMap<String, String> = resource
        .properties
        .iter()
        .filter_map(|property| Some((property.name.strip_prefix("tag ")?.to_owned(), property.value.clone())))
        .collect();
    if creates {
        let mut call = client.sdk.create_queue().queue_name(&resource.name);
        if fifo {
            call = call.attributes(QueueAttributeName::FifoQueue, "true");
        }
        for name in TIMES {
            if let Some(seconds) = value(name).as_deref().and_then(in_seconds) {
                call = call.attributes(QueueAttributeName::from(name), seconds.to_string());
            }
        }
        if !tags.is_empty() {
            call = call.set_tags(Some(tags.clone()));
        }
        let made =
            call.send().await.map_err(|error| client.error(format!("create {}", resource.name), &error))?;
        if let Some(error) =
            made.queue_url.as_deref().and_then(|url| elsewhere_made(client, &resource.name, url))
        {
            return Err(error);
        }
        client.remember(&resource.name, made.queue_url);
    }
    let url = client.must(&resource.name).await?;
    let attributes = client.attributes(&resource.name).await?.unwrap_or_default();
    let arn = attributes.get("QueueArn").cloned().unwrap_or_default();
    let mut wanted: HashMap<QueueAttributeName, String> = HashMap::new();
    if !creates {
        for name in TIMES {
            if let Some(seconds) = value(name).as_deref().and_then(in_seconds).map(|n| n.to_string())
                && attributes.get(name) != Some(&seconds)
            {
                wanted.insert(QueueAttributeName::from(name), seconds);
            }
        }
    }
    if let Some(words) = value(REDRIVE) {
        let now = attributes.get(REDRIVE).and_then(|text| policy::redrive(text));
        if now.is_none_or(|now| now.words(&arn) != words) {
            let parsed = words.split_once(" after ").and_then(|(name, rest)| {
                let receives = rest.split(' ').next()?.parse().ok()?;
                Some(policy::Redrive { target_arn: policy::sister(&arn, name)?, max_receive_count: receives })
            });
            let policy = parsed.ok_or_else(|| {
                BrokerError::new(ErrorKind::Other, "build the redrive policy", words.clone())
            })?;
            wanted.insert(QueueAttributeName::RedrivePolicy, policy.text());
        }
    }
    if let Some(words) = value(ALLOW) {
        let now = attributes.get(ALLOW).and_then(|text| policy::allow_words(&arn, text));
        if !now.is_some_and(|now| allows(&now, &words)) {
            let arns: Vec<String> = words.split(", ").filter_map(|name| policy::sister(&arn, name)).collect();
            wanted.insert(QueueAttributeName::RedriveAllowPolicy, policy::allow(&arns));
        }
    }
    if !wanted.is_empty() {
        let call = client.sdk.set_queue_attributes().queue_url(&url).set_attributes(Some(wanted));
        call.send().await.map_err(|error| client.error(format!("change {}", resource.name), &error))?;
    }
    if !creates && !tags.is_empty() {
        let call = client.sdk.tag_queue().queue_url(&url).set_tags(Some(tags));
        call.send().await.map_err(|error| client.error(format!("tag {}", resource.name), &error))?;
    }
    shown(client, resource).await
}

/// The account in the url of a queue.
fn account_in(url: &str) -> Option<&str> {
    let account = url.rsplit('/').nth(1)?;
    (account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit())).then_some(account)
}

/// SQS makes queues in the account of the credentials alone, whatever account was asked for.
fn wrong_account(client: &Client, url: &str) -> Option<(String, String)> {
    let (wanted, theirs) = (client.place.account.as_deref()?, account_in(url)?);
    (wanted != theirs).then(|| (wanted.to_owned(), theirs.to_owned()))
}

/// Are the credentials of another account than the topology's? Asked before a queue is made, as far as a queue of
/// theirs tells.
pub(super) async fn own_account(client: &Client, missing: &str) -> Result<()> {
    if client.place.account.is_none() {
        return Ok(());
    }
    // Who may not list, or has no queue yet, learns it from the first queue that is made.
    let Ok(answer) = client.sdk.list_queues().max_results(1).send().await else { return Ok(()) };
    let urls = answer.queue_urls.unwrap_or_default();
    let Some((wanted, theirs)) = urls.first().and_then(|url| wrong_account(client, url)) else {
        return Ok(());
    };
    let what =
        format!("these credentials are of account {theirs}, and account: says {wanted} ({})", client.place);
    Err(BrokerError::new(ErrorKind::Denied, format!("look for {missing}"), what).hint(format!(
        "SQS makes queues in the account of the credentials alone: use a profile or role_arn of {wanted}"
    )))
}

fn elsewhere_made(client: &Client, name: &str, url: &str) -> Option<BrokerError> {
    let (wanted, theirs) = wrong_account(client, url)?;
    let what = format!(
        "these credentials are of account {theirs}, and account: says {wanted}; it was made there, is empty, and is not \
         used ({})",
        client.place
    );
    let hint =
        format!("use a profile or role_arn of {wanted}; aws sqs delete-queue --queue-url {url} removes it");
    Some(BrokerError::new(ErrorKind::Denied, format!("create {name}"), what).hint(hint))
}

/// Waits until the queue reads back as asked: attributes take up to a minute on AWS. An endpoint of one's own
/// shows them at once or never.
async fn shown(client: &Client, resource: &Resource) -> Result<()> {
    let real = client.place.endpoint.contains("amazonaws.com");
    let until = client.clock.elapsed() + if real { PROPAGATION } else { Duration::ZERO };
    loop {
        if observe(client, resource).await?.is_some_and(|now| now.properties == resource.properties) {
            return Ok(());
        }
        if client.clock.elapsed() >= until {
            // The second plan of `apply` says which attribute did not take.
            return Ok(());
        }
        client.clock.sleep(Duration::from_millis(500)).await;
    }
}
