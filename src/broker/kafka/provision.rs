//! Provisioning: topics for tiers, dead letters, the return target and the marks. Only the settings that we own
//! are compared and changed, by IncrementalAlterConfigs; partitions only grow, and not under a key.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;

use super::client::{Client, Heard, PATIENCE};
use crate::broker::{BrokerError, ErrorKind, Names, Result};
use crate::clock::exact;
use crate::plan::{Change, Property, Refusal, Resource, Role};
use crate::topology::{Channel, GroupRule, ReturnTo, Setting};

/// A tier keeps a message this much longer than its delay: a relay that is down over a night loses nothing.
const TIER_MARGIN: Duration = Duration::from_secs(86_400);
/// How long dead letters are kept unless written.
const DEAD_LETTERS: Duration = Duration::from_secs(14 * 86_400);
/// What a stamped copy needs above the source's limit.
const STAMPS: u64 = 64 * 1024;
/// Broker default of `max.message.bytes`.
const DEFAULT_MAX: u64 = 1_048_588;

/// How long a change may take from the controller to the brokers.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

const PARTITIONS: &str = "partitions";
const REPLICATION: &str = "replication.factor";

fn number(channel: &Channel, key: &str) -> Option<i64> {
    match &channel.setting("kafka", key)?.value {
        Setting::Number(number) => Some(*number),
        _ => None,
    }
}

/// Partitions of topics that are made, if the channel says.
pub(super) fn partitions(channel: &Channel) -> Option<i32> {
    number(channel, "partitions").and_then(|count| i32::try_from(count).ok())
}

/// Do copies go to the partition that their message first lay in, where it is known?
pub(super) fn by_origin(channel: &Channel) -> bool {
    matches!(channel.setting("kafka", "place_by").map(|at| &at.value), Some(Setting::Text(word)) if word == "origin")
}

/// How many transactions of a run go side by side.
pub(super) fn lanes(channel: &Channel) -> u32 {
    number(channel, "lanes").and_then(|lanes| u32::try_from(lanes).ok()).unwrap_or(1).max(1)
}

/// Topic settings as written in the channel's block.
fn written(channel: &Channel) -> Vec<(String, String)> {
    match channel.setting("kafka", "config").map(|at| &at.value) {
        Some(Setting::Map(pairs)) => pairs.iter().map(|(k, v)| (k.value.clone(), v.value.clone())).collect(),
        _ => Vec::new(),
    }
}

fn ms(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// What was seen of a channel's topics, which the wishes follow.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Of the source.
    partitions: Option<i32>,
    /// `max.message.bytes` of the topics that are there: never made smaller.
    limits: BTreeMap<String, u64>,
    /// Do keys or groups matter? Then partitions cannot be added.
    pub(super) ordered: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self { partitions: None, limits: BTreeMap::new(), ordered: true }
    }
}

fn resource(
    name: &str,
    role: Role,
    channel: &Channel,
    settings: BTreeMap<String, String>,
    creatable: bool,
) -> Resource {
    let note = in_words(&settings);
    let properties = settings.into_iter().map(|(name, value)| Property { name, value }).collect();
    Resource {
        kind: "topic",
        name: name.to_owned(),
        role,
        channel: Some(channel.name.value.clone()),
        properties,
        depth: None,
        creatable,
        left: None,
        note,
    }
}

/// What stands beside a topic that is made: `12 partitions × 3 replicas, retention 1d 10m`. What is not written the
/// broker decides.
fn in_words(settings: &BTreeMap<String, String>) -> Option<String> {
    let counted = |name: &str, one: &str, many: &str| {
        settings.get(name).map(|n| if n == "1" { format!("1 {one}") } else { format!("{n} {many}") })
    };
    let size = [counted(PARTITIONS, "partition", "partitions"), counted(REPLICATION, "replica", "replicas")];
    let size: Vec<String> = size.into_iter().flatten().collect();
    let kept = settings.get("retention.ms").map(|kept| match kept.parse() {
        Ok(ms) => format!("retention {}", exact(Duration::from_millis(ms))),
        Err(_) => "kept for ever".to_owned(),
    });
    let compacted = settings.get("cleanup.policy").is_some_and(|policy| policy == "compact");
    let words =
        [(!size.is_empty()).then(|| size.join(" × ")), kept, compacted.then(|| "compacted".to_owned())];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The marks topic of a channel: one partition, compacted (docs/kafka.md, "Marks").
pub(super) fn marks_of(names: &Names) -> String {
    format!("{}.marks", names.dead_letter)
}

/// What a channel wants, in the order in which it is made.
pub(super) fn desired(channel: &Channel, names: &Names, known: &Known) -> Vec<Resource> {
    let partitions =
        number(channel, "partitions").map(|n| n.to_string()).or(known.partitions.map(|n| n.to_string()));
    let replication = number(channel, "replication_factor").map(|n| n.to_string());
    let above = known.limits.get(&names.source).copied().unwrap_or(DEFAULT_MAX) + STAMPS;
    let base = |topic: &str, retention: Duration| {
        let above = known.limits.get(topic).copied().unwrap_or(0).max(above);
        let mut settings = BTreeMap::new();
        settings.insert("cleanup.policy".to_owned(), "delete".to_owned());
        settings.insert("retention.ms".to_owned(), ms(retention));
        settings.insert("max.message.bytes".to_owned(), above.to_string());
        if let Some(partitions) = &partitions {
            settings.insert(PARTITIONS.to_owned(), partitions.clone());
        }
        if let Some(replication) = &replication {
            settings.insert(REPLICATION.to_owned(), replication.clone());
        }
        settings.extend(written(channel));
        settings
    };
    let mut wishes = Vec::new();
    let mut own = BTreeMap::new();
    if channel.create_source {
        if let Some(partitions) = &partitions {
            own.insert(PARTITIONS.to_owned(), partitions.clone());
        }
        if let Some(replication) = &replication {
            own.insert(REPLICATION.to_owned(), replication.clone());
        }
        own.extend(written(channel));
    }
    wishes.push(resource(&names.source, Role::Source, channel, own, channel.create_source));
    if let Some(ReturnTo::Named(_)) = channel.return_to.as_ref().map(|at| &at.value) {
        let mut settings = base(&names.return_to, DEAD_LETTERS);
        settings.remove("retention.ms");
        wishes.push(resource(&names.return_to, Role::ReturnTo, channel, settings, true));
    }
    for (tier, name) in channel.tiers.iter().zip(&names.tiers) {
        let mut settings = base(name, tier.delay.value + TIER_MARGIN);
        // Due is append time plus delay: a producer's clock must not decide it.
        settings.insert("message.timestamp.type".to_owned(), "LogAppendTime".to_owned());
        wishes.push(resource(name, Role::Tier, channel, settings, true));
    }
    let retention = channel.dead_letter.retention.as_ref().map_or(DEAD_LETTERS, |at| at.value);
    wishes.push(resource(
        &names.dead_letter,
        Role::DeadLetter,
        channel,
        base(&names.dead_letter, retention),
        true,
    ));
    let mut marks = BTreeMap::new();
    marks.insert("cleanup.policy".to_owned(), "compact".to_owned());
    marks.insert(PARTITIONS.to_owned(), "1".to_owned());
    if let Some(replication) = &replication {
        marks.insert(REPLICATION.to_owned(), replication.clone());
    }
    for (name, value) in written(channel) {
        if name == "min.insync.replicas" {
            marks.insert(name, value);
        }
    }
    wishes.push(resource(&marks_of(names), Role::Marks, channel, marks, true));
    wishes
}

/// What the wishes of a channel follow, as it is now.
pub(super) async fn known(client: &Client, channel: &Channel, names: &Names) -> Result<Known> {
    let mut known = Known { ordered: channel.group.value != GroupRule::None, ..Known::default() };
    let mut topics = vec![names.source.clone(), names.return_to.clone(), names.dead_letter.clone()];
    topics.extend(names.tiers.iter().cloned());
    topics.sort();
    topics.dedup();
    let described =
        client.admin("describe the topics", move |handle| handle.describe_topics(&topics, PATIENCE)).await?;
    for (topic, outcome) in described {
        // Missing or forbidden: `observe` says which.
        let Ok(described) = outcome else { continue };
        if topic == names.source {
            known.partitions = Some(described.partitions);
        }
        let asked = topic.clone();
        let action = format!("read the settings of {topic}");
        let settings = client.admin(&action, move |handle| handle.describe_configs(&asked, PATIENCE)).await?;
        let limit = settings.iter().find(|entry| entry.name == "max.message.bytes");
        if let Some(limit) = limit.and_then(|entry| entry.value.as_deref()?.parse().ok()) {
            known.limits.insert(topic, limit);
        }
    }
    Ok(known)
}

/// The wished topics as they are, with just the properties that each wish has.
pub(super) async fn observe(client: &Client, wishes: &[Resource]) -> Result<Vec<Resource>> {
    let names: Vec<String> = wishes.iter().map(|wish| wish.name.clone()).collect();
    let described =
        client.admin("describe the topics", move |handle| handle.describe_topics(&names, PATIENCE)).await?;
    let mut seen = Vec::new();
    for (topic, outcome) in described {
        let Some(wish) = wishes.iter().find(|wish| wish.name == topic) else { continue };
        let described = match outcome {
            Ok(described) => described,
            Err(error) if error.code == RDKafkaErrorCode::UnknownTopicOrPartition => continue,
            Err(error) => return Err(client.raw_error(&format!("describe {topic}"), &error)),
        };
        let asked = topic.clone();
        let action = format!("read the settings of {topic}");
        let settings = client.admin(&action, move |handle| handle.describe_configs(&asked, PATIENCE)).await?;
        let properties = wish
            .properties
            .iter()
            .filter_map(|property| {
                let value = match property.name.as_str() {
                    PARTITIONS => Some(described.partitions.to_string()),
                    REPLICATION => Some(described.replication.to_string()),
                    name => {
                        settings.iter().find(|entry| entry.name == name).and_then(|entry| entry.value.clone())
                    }
                };
                value.map(|value| Property { name: property.name.clone(), value })
            })
            .collect();
        let there = [
            (PARTITIONS, described.partitions.to_string()),
            (REPLICATION, described.replication.to_string()),
        ];
        let note = in_words(&there.map(|(name, value)| (name.to_owned(), value)).into());
        seen.push(Resource { properties, note, ..wish.clone() });
    }
    seen.sort_by_key(|resource| wishes.iter().position(|wish| wish.name == resource.name));
    Ok(seen)
}

/// Topics under a name that this channel's tiers could have had.
pub(super) async fn undeclared(client: &Client, channel: &Channel, names: &Names) -> Result<Vec<Resource>> {
    let prefix = format!("{}.retry-", channel.name.value);
    let known = client
        .ask("list the topics", |consumer| {
            use rdkafka::consumer::Consumer;
            let all = consumer.fetch_metadata(None, PATIENCE)?;
            Ok(all.topics().iter().map(|topic| topic.name().to_owned()).collect::<Vec<_>>())
        })
        .await?;
    Ok(known
        .into_iter()
        .filter(|name| name.starts_with(&prefix) && !names.tiers.contains(name))
        .map(|name| resource(&name, Role::Undeclared, channel, BTreeMap::new(), false))
        .collect())
}

/// What cannot be done, and what would lose records.
/// `older` of `all` records would be lost by a shorter retention, where that was counted; `ordered`: keys or groups
/// matter in this channel.
pub(super) fn judge(change: Change, lost: Option<(u64, u64)>, ordered: bool) -> Change {
    let Change::Update { resource, fields } = change else { return change };
    let value = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok());
    let refuse = |resource: Resource, fields, why: String, loses, way_round: Option<&str>| Change::Refused {
        resource,
        fields,
        refusal: Refusal { why, loses, at_most: false, way_round: way_round.map(str::to_owned) },
    };
    for field in &fields {
        match field.name.as_str() {
            PARTITIONS if value(&field.to) < value(&field.from) => {
                let why = "Kafka cannot take partitions away".to_owned();
                return refuse(
                    resource,
                    fields,
                    why,
                    None,
                    Some("declare as many as there are, or another topic name"),
                );
            }
            PARTITIONS if ordered || resource.role == Role::Marks => {
                let why =
                    "more partitions send a key elsewhere: letters of one group would be spread over two"
                        .to_owned();
                let way =
                    "drain the topic first and make it anew, or write group: none if order does not matter";
                return refuse(resource, fields, why, None, Some(way));
            }
            REPLICATION => {
                let why =
                    "a changed replication factor is a reassignment, which redrive does not make".to_owned();
                return refuse(
                    resource,
                    fields,
                    why,
                    None,
                    Some("use kafka-reassign-partitions, then plan again"),
                );
            }
            "retention.ms" if value(&field.to) >= Some(0) => {
                let shorter =
                    value(&field.from).is_none_or(|from| from < 0) || value(&field.to) < value(&field.from);
                if shorter
                    && let Some((older, all)) = lost
                    && older > 0
                {
                    let why = format!("{older} of {all} records are older and would be lost");
                    return refuse(resource, fields, why, Some(older), None);
                }
            }
            _ => {}
        }
    }
    Change::Update { resource, fields }
}

fn admin(client: &Client) -> Result<AdminClient<Heard>> {
    client
        .config()
        .create_with_context(client.heard.clone())
        .map_err(|error| client.error("set up an admin client", &error))
}

/// Makes one change.
pub(super) async fn make(client: &Client, change: &Change) -> Result<()> {
    let (resource, fields) = match change {
        Change::Create { resource } => return create(client, resource).await,
        Change::Update { resource, fields } | Change::Refused { resource, fields, .. } => (resource, fields),
        Change::Keep { .. } | Change::Undeclared { .. } => return Ok(()),
    };
    if let Some(field) = fields.iter().find(|field| field.name == PARTITIONS) {
        let count = field.to.as_deref().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        let grown = [NewPartitions::new(&resource.name, count)];
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let action = format!("add partitions to {}", resource.name);
        let results = admin(client)?
            .create_partitions(&grown, &options)
            .await
            .map_err(|error| client.error(&action, &error))?;
        each(client, &action, results)?;
        let begun = std::time::Instant::now();
        while begun.elapsed() < HEARD_WITHIN {
            let asked = vec![resource.name.clone()];
            let seen = client.admin(&action, move |handle| handle.describe_topics(&asked, PATIENCE)).await?;
            let grown = |outcome: &super::raw::Outcome| {
                outcome.1.as_ref().is_ok_and(|seen| usize::try_from(seen.partitions) == Ok(count))
            };
            if seen.iter().any(grown) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let settings: Vec<(String, String)> = fields
        .iter()
        .filter(|field| field.name != PARTITIONS && field.name != REPLICATION)
        .filter_map(|field| Some((field.name.clone(), field.to.clone()?)))
        .collect();
    if settings.is_empty() {
        return Ok(());
    }
    let topic = resource.name.clone();
    let action = format!("change {}", resource.name);
    let (named, wanted) = (topic.clone(), settings.clone());
    client.admin(&action, move |handle| handle.set_configs(&named, &wanted, PATIENCE)).await?;
    // The controller has it; the brokers, which are asked next, hear of it a moment later.
    let begun = std::time::Instant::now();
    while begun.elapsed() < HEARD_WITHIN {
        let asked = topic.clone();
        let seen = client.admin(&action, move |handle| handle.describe_configs(&asked, PATIENCE)).await?;
        let same = |(name, value): &(String, String)| {
            seen.iter().any(|entry| entry.name == *name && entry.value.as_ref() == Some(value))
        };
        if settings.iter().all(same) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Deletes the records of these extents, each from its partition's beginning.
pub(super) async fn delete_below(
    client: &Client,
    topic: &str,
    extents: &[super::browse::Extent],
) -> Result<()> {
    let action = format!("delete moved records of {topic}");
    let told = |error: rdkafka::error::KafkaError| client.error(&action, &error);
    let mut list = rdkafka::TopicPartitionList::new();
    for extent in extents {
        let offset = rdkafka::Offset::Offset(extent.end);
        list.add_partition_offset(topic, extent.partition, offset).map_err(told)?;
    }
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let done = admin(client)?.delete_records(&list, &options).await.map_err(told)?;
    done.elements().iter().try_for_each(|one| one.error()).map_err(told)
}

async fn create(client: &Client, resource: &Resource) -> Result<()> {
    let value = |name: &str| {
        resource.properties.iter().find(|property| property.name == name).map(|p| p.value.as_str())
    };
    let partitions = value(PARTITIONS).and_then(|text| text.parse().ok()).unwrap_or(-1);
    let replication = value(REPLICATION).and_then(|text| text.parse().ok()).unwrap_or(-1);
    let mut topic = NewTopic::new(&resource.name, partitions, TopicReplication::Fixed(replication));
    for property in &resource.properties {
        if property.name != PARTITIONS && property.name != REPLICATION {
            topic = topic.set(&property.name, &property.value);
        }
    }
    // An existing topic keeps what it has: letters of Connect and Streams carry their origin's time.
    if resource.role == Role::DeadLetter {
        topic = topic.set("message.timestamp.type", "LogAppendTime");
    }
    let options = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
    let action = format!("create {}", resource.name);
    let results = admin(client)?
        .create_topics(&[topic], &options)
        .await
        .map_err(|error| client.error(&action, &error))?;
    match results.into_iter().next() {
        // Made by somebody else meanwhile: the second look of `apply` compares it.
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
        Some(Err((_, RDKafkaErrorCode::InvalidTopic))) => Err(BrokerError::new(
            ErrorKind::Rejected,
            action,
            "Kafka refuses the name: its characters, or another topic whose name differs only in . and _",
        )),
        Some(Err((_, code))) => Err(client.error(&action, &rdkafka::error::KafkaError::AdminOp(code))),
        _ => known_to_brokers(client, &resource.name).await,
    }
}

/// The controller has made the topic; the brokers hear of it a moment later.
async fn known_to_brokers(client: &Client, topic: &str) -> Result<()> {
    let begun = std::time::Instant::now();
    loop {
        let asked = vec![topic.to_owned()];
        let action = format!("create {topic}");
        let described = client.admin(&action, move |handle| handle.describe_topics(&asked, PATIENCE)).await?;
        // Without the right to describe it there is nothing to wait for.
        let missing = described.iter().any(|(_, outcome)| {
            outcome.as_ref().is_err_and(|error| error.code == RDKafkaErrorCode::UnknownTopicOrPartition)
        });
        if !missing || begun.elapsed() > HEARD_WITHIN {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn each(
    client: &Client,
    action: &str,
    results: Vec<std::result::Result<String, (String, RDKafkaErrorCode)>>,
) -> Result<()> {
    for result in results {
        if let Err((_, code)) = result {
            return Err(client.error(action, &rdkafka::error::KafkaError::AdminOp(code)));
        }
    }
    Ok(())
}
