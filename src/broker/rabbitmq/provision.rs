//! Provisioning: by policy with the management API, which can be changed later; by arguments without it,
//! which cannot.

use async_trait::async_trait;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Map, Value as Json, json};

use super::client::Client;
use super::connect::close_channel;
use super::cycle::{self, Hop, Why};
use super::feed;
use super::management::Management;
use super::policies;
use super::refused::{code, failed, reply_code, reply_text};
use super::routes::{self, Exchange};
use super::state::{By, QueueState, QueueType};
use super::want::{self, NONE, Wanted};
use super::wire;
use crate::broker::{BrokerError, ErrorKind, Provision, Result};
use crate::plan::{Change, FieldChange, Property, Refusal, Resource, Role};
use crate::topology::Channel;

impl Client {
    fn wanted(&self, channels: &[&Channel]) -> Vec<Wanted> {
        let mut all = Vec::new();
        for channel in channels {
            for mut queue in want::queues(channel, self.version) {
                if self.management.is_none() && !queue.creatable {
                    // Arguments of a queue that is there cannot be changed, and its policies not be seen.
                    queue.settings.clear();
                    queue.never = &[];
                    queue.note = Some(
                        "only observed; where its dead letters go is not seen without `management`"
                            .to_owned(),
                    );
                }
                all.push(queue);
            }
        }
        all
    }
}

#[async_trait]
impl Provision for Client {
    fn desired(&self, channels: &[&Channel]) -> Vec<Resource> {
        let said = |queue: &Wanted| Resource { note: queue.in_words(), ..queue.resource() };
        self.wanted(channels).iter().map(said).collect()
    }

    /// What was noticed of queues that are there: a plan row of one that is kept or changed has no room for it.
    async fn remarks(&self, _channels: &[&Channel], observed: &[Resource]) -> Result<Vec<String>> {
        let said = |queue: &Resource| Some(format!("{}: {}", queue.name, queue.note.as_ref()?));
        Ok(observed.iter().filter_map(said).collect())
    }

    async fn observe(&self, channels: &[&Channel]) -> Result<Vec<Resource>> {
        let wanted = self.wanted(channels);
        match &self.management {
            Some(management) => {
                let policies = management.policies().await?;
                let mut seen = Vec::new();
                let mut ways = Vec::new();
                for queue in &wanted {
                    if let Some(state) = current(management, &policies, &queue.name).await? {
                        seen.push(self.seen(management, queue, &state).await?);
                        ways.extend(passes_on(management, &queue.name, &state).await?);
                    }
                }
                if let Some(path) = dropped_cycle(&ways)
                    && let Some(first) = seen.iter_mut().find(|resource| path.contains(&resource.name))
                {
                    first.note = Some(format!(
                        "cycle without rejection: messages will be dropped: {}",
                        path.join(" → ")
                    ));
                }
                let names = management.queue_names().await?;
                seen.extend(undeclared(&names, &wanted, channels));
                Ok(seen)
            }
            None => {
                let mut seen = Vec::new();
                for queue in &wanted {
                    seen.extend(self.asserted(queue).await?);
                }
                Ok(seen)
            }
        }
    }

    async fn judge(&self, change: Change) -> Result<Change> {
        match (&self.management, change) {
            (Some(management), Change::Update { resource, fields }) => {
                let policies = management.policies().await?;
                let Some(state) = current(management, &policies, &resource.name).await? else {
                    return Ok(Change::Update { resource, fields });
                };
                self.judge_update(management, &policies, &state, resource, fields).await
            }
            (Some(management), Change::Create { resource }) => {
                let policies = management.policies().await?;
                let kind = property(&resource, "type");
                match policies::foreign(&policies, &resource.name, kind) {
                    Some((name, priority, _)) if priority >= 100 => Ok(Change::Refused {
                        fields: Vec::new(),
                        refusal: Refusal {
                            why: format!(
                                "the policy `{name}` would be in force on it with priority {priority}, and ours not"
                            ),
                            loses: None,
                            at_most: false,
                            way_round: Some(format!(
                                "give `{name}` a priority below 100, or a narrower pattern"
                            )),
                        },
                        resource,
                    }),
                    _ => Ok(Change::Create { resource }),
                }
            }
            (None, Change::Update { resource, fields }) => Ok(Change::Refused {
                refusal: Refusal {
                    why: "arguments of a queue cannot be changed in place".to_owned(),
                    loses: None,
                    at_most: false,
                    way_round: Some(format!(
                        "give the broker `options: {{management: URL}}`: without it a policy that sets them already \
                         cannot be seen, and with it they are set by policy; or declare a queue of another name, move \
                         what is in `{}`, and delete it",
                        resource.name
                    )),
                },
                resource,
                fields,
            }),
            (_, change) => Ok(change),
        }
    }

    async fn make(&self, change: &Change) -> Result<()> {
        match change {
            Change::Create { resource } => self.create(resource).await,
            Change::Update { resource, .. } => self.set_policy(resource).await,
            Change::Keep { .. } | Change::Undeclared { .. } => Ok(()),
            Change::Refused { resource, refusal, .. } => Err(BrokerError::new(
                ErrorKind::Unsupported,
                format!("change {}", resource.name),
                refusal.why.clone(),
            )),
        }
    }
}

/// A queue with the policy that is set for it, also while the server's own view of that lags.
async fn current(management: &Management, policies: &[Json], queue: &str) -> Result<Option<QueueState>> {
    let Some(json) = management.queue(queue).await? else { return Ok(None) };
    let mut state = QueueState::read(&json);
    let own = policies::name_for(queue);
    let foreign = policies::foreign(policies, queue, Some(state.kind.word()));
    let ours = policies.iter().find(|policy| policy.get("name").and_then(Json::as_str) == Some(own.as_str()));
    let operators = json.get("operator_policy").and_then(Json::as_str).is_some_and(|name| !name.is_empty());
    if !operators {
        let in_force = match (ours, foreign) {
            (Some(ours), foreign) if foreign.as_ref().is_none_or(|(_, priority, _)| *priority < 100) => {
                ours.get("definition").and_then(Json::as_object).cloned()
            }
            (_, Some((_, _, definition))) => Some(definition),
            (_, None) => None,
        };
        state.from_policy = in_force.unwrap_or_default();
    }
    Ok(Some(state))
}

impl Client {
    /// A queue as it is, by the properties that are wanted.
    async fn seen(&self, management: &Management, wanted: &Wanted, state: &QueueState) -> Result<Resource> {
        let mut resource = wanted.resource();
        resource.depth = state.messages;
        let through = self.own_route(management, wanted, state).await?;
        for property in &mut resource.properties {
            property.value = match property.name.as_str() {
                "type" => state.kind.word().to_owned(),
                // Its own exchange leads to the wanted queue: that is as good.
                "dead-letter-exchange" | "dead-letter-routing-key" if through.is_some() => continue,
                // Not for this type: a classic queue dead-letters at most once, whatever is asked.
                "dead-letter-strategy" | "overflow" if state.kind == QueueType::Classic => continue,
                name => state.setting(name).map_or(NONE.to_owned(), |(value, _)| want::shown(name, value)),
            };
        }
        if let Some(exchange) = through {
            resource.note = Some(format!("dead-lettered through its own exchange {exchange}"));
        }
        Ok(resource)
    }

    /// The queue's own dead-letter exchange, if a second death surely reaches the wanted queue by it.
    async fn own_route(
        &self,
        management: &Management,
        wanted: &Wanted,
        state: &QueueState,
    ) -> Result<Option<String>> {
        let Some(target) = wanted.settings.get("dead-letter-routing-key").and_then(Json::as_str) else {
            return Ok(None);
        };
        match second_death(management, &wanted.name, state).await? {
            Some((exchange, Ok(queues))) if queues.iter().any(|queue| queue == target) => Ok(Some(exchange)),
            _ => Ok(None),
        }
    }

    async fn judge_update(
        &self,
        management: &Management,
        policies: &[Json],
        state: &QueueState,
        resource: Resource,
        fields: Vec<FieldChange>,
    ) -> Result<Change> {
        let refused =
            |resource: Resource, fields: Vec<FieldChange>, why: String, way_round: String| Change::Refused {
                refusal: Refusal { why, loses: None, at_most: false, way_round: Some(way_round) },
                resource,
                fields,
            };
        let anew =
            |name: &str| format!("declare a queue of another name, move what is in `{name}`, and delete it");
        if fields.iter().any(|field| field.name == "type") {
            let way_round = anew(&resource.name);
            return Ok(refused(
                resource,
                fields,
                "the type of a queue cannot be changed".to_owned(),
                way_round,
            ));
        }
        let by_argument: Vec<&str> = fields
            .iter()
            .map(|field| field.name.as_str())
            .filter(|name| matches!(state.setting(name), Some((_, By::Argument))))
            .collect();
        if !by_argument.is_empty() {
            let mut why = format!(
                "{} cannot be changed in place: set as arguments of the queue, which win over a policy",
                by_argument.iter().map(|name| format!("x-{name}")).collect::<Vec<_>>().join(", ")
            );
            if let Some((_, Err(lost))) = second_death(management, &resource.name, state).await? {
                why = format!("{lost}; {why}");
            } else if let Some(harm) = by_argument.iter().find_map(|name| harm(name, resource.role)) {
                why = format!("{harm}; {why}");
            }
            let way_round = anew(&resource.name);
            return Ok(refused(resource, fields, why, way_round));
        }
        if let Some((name, priority, definition)) =
            policies::foreign(policies, &resource.name, Some(state.kind.word()))
            && let Some(why) = policies::conflict(name, priority, &definition, &settings(&resource))
        {
            let way_round = format!("put what redrive wants into `{name}`, or narrow its pattern");
            return Ok(refused(resource, fields, why, way_round));
        }
        Ok(Change::Update { resource, fields })
    }

    async fn create(&self, resource: &Resource) -> Result<()> {
        let arguments = |by_policy: bool| {
            let mut arguments = Map::new();
            if let Some(kind) = property(resource, "type") {
                arguments.insert("x-queue-type".to_owned(), json!(kind));
            }
            if !by_policy {
                let own = settings(resource).into_iter().map(|(name, value)| (format!("x-{name}"), value));
                arguments.extend(own);
            }
            arguments
        };
        if let Some(management) = &self.management {
            // The policy first: a queue without it would lose what is rejected in between.
            self.set_policy(resource).await?;
            let queue = json!({"durable": true, "auto_delete": false, "arguments": arguments(true)});
            return management.put_queue(&resource.name, &queue).await;
        }
        let channel = self.link.channel().await?;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let name = wire::short(&resource.name)
            .map_err(|why| BrokerError::new(ErrorKind::Rejected, format!("create {}", resource.name), why))?;
        channel
            .queue_declare(name, options, table(&arguments(false)))
            .await
            .map_err(|error| failed(format!("create {}", resource.name), &resource.name, &error))?;
        close_channel(&channel).await
    }

    async fn set_policy(&self, resource: &Resource) -> Result<()> {
        let Some(management) = &self.management else {
            return Err(BrokerError::new(
                ErrorKind::Unsupported,
                format!("change {}", resource.name),
                "arguments of a queue cannot be changed in place",
            ));
        };
        let settings = settings(resource);
        if settings.is_empty() {
            return Ok(());
        }
        management
            .put_policy(&policies::name_for(&resource.name), &policies::body(&resource.name, &settings))
            .await
    }

    /// A queue by AMQP alone: declared again as wanted, and the server names the first argument that differs.
    async fn asserted(&self, wanted: &Wanted) -> Result<Option<Resource>> {
        let channel = self.link.channel().await?;
        let depth = match feed::ready(&channel, &wanted.name).await {
            Ok(depth) => depth,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut resource = wanted.resource();
        resource.depth = Some(depth);
        resource.properties.retain(|property| property.value != NONE);
        if !wanted.creatable {
            close_channel(&channel).await?;
            return Ok(Some(resource));
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let name = wire::short(&wanted.name)
            .map_err(|why| BrokerError::new(ErrorKind::NotFound, format!("read {}", wanted.name), why))?;
        // It is there, so this makes nothing; a difference closes the channel and changes nothing.
        match channel.queue_declare(name, options, table(&wanted.arguments(false))).await {
            Ok(_) => close_channel(&channel).await?,
            Err(error) if reply_code(&error) == Some(code::PRECONDITION_FAILED) => {
                let (name, value) = difference(&reply_text(&error));
                let value = value.unwrap_or_else(|| NONE.to_owned());
                match resource.properties.iter_mut().find(|property| property.name == name) {
                    Some(property) => property.value = value,
                    None => resource.properties.push(Property { name, value }),
                }
                if !resource.properties.iter().any(|property| property.value == NONE)
                    && resource == wanted_as_seen(wanted, depth)
                {
                    resource.note = Some(reply_text(&error));
                }
            }
            Err(error) => return Err(failed(format!("read {}", wanted.name), &wanted.name, &error)),
        }
        // What must be absent cannot be seen this way: it is taken as absent unless it was the difference.
        for name in wanted.never {
            if !resource.properties.iter().any(|property| property.name == *name) {
                resource.properties.push(Property { name: (*name).to_owned(), value: NONE.to_owned() });
            }
        }
        Ok(Some(resource))
    }
}

fn wanted_as_seen(wanted: &Wanted, depth: u64) -> Resource {
    let mut resource = wanted.resource();
    resource.depth = Some(depth);
    resource.properties.retain(|property| property.value != NONE);
    resource
}

/// Where second deaths in this queue go, if it has a dead-letter exchange other than the default one.
async fn second_death(
    management: &Management,
    queue: &str,
    state: &QueueState,
) -> Result<Option<(String, std::result::Result<Vec<String>, String>)>> {
    let text = |key: &str| state.setting(key).and_then(|(value, _)| value.as_str()).map(str::to_owned);
    let Some(name) = text("dead-letter-exchange").filter(|name| !name.is_empty()) else { return Ok(None) };
    let found = management.exchange(&name).await?;
    let bindings = if found.is_some() { management.bindings_from(&name).await? } else { Vec::new() };
    let exchange = Exchange::read(found.as_ref(), &bindings);
    let key = text("dead-letter-routing-key");
    let outcome = routes::second_death(queue, &name, &exchange, key.as_deref());
    Ok(Some((name, outcome)))
}

/// Where a queue passes messages on, and whether it does so by itself: their time is up, or it is full.
async fn passes_on(
    management: &Management,
    queue: &str,
    state: &QueueState,
) -> Result<Vec<(String, String, Why)>> {
    let by_itself = ["message-ttl", "max-length", "max-length-bytes"];
    let why = match by_itself.iter().any(|key| state.setting(key).is_some()) {
        true => Why::ByItself,
        false => Why::ByConsumer,
    };
    let text = |key: &str| state.setting(key).and_then(|(value, _)| value.as_str()).map(str::to_owned);
    let targets = match second_death(management, queue, state).await? {
        Some((_, Ok(queues))) => queues,
        Some((_, Err(_))) => Vec::new(),
        None => text("dead-letter-exchange").and(text("dead-letter-routing-key")).into_iter().collect(),
    };
    Ok(targets.into_iter().map(|to| (queue.to_owned(), to, why)).collect())
}

/// The path of a cycle that no rejection breaks (R11).
fn dropped_cycle(ways: &[(String, String, Why)]) -> Option<Vec<String>> {
    let hops: Vec<Hop<'_>> = ways.iter().map(|(from, to, why)| Hop { from, to, why: *why }).collect();
    cycle::without_rejection(&hops).map(|path| path.into_iter().map(str::to_owned).collect())
}

/// What a setting that must not be there does to letters.
fn harm(name: &str, role: Role) -> Option<&'static str> {
    match (name, role) {
        ("expires", Role::Tier) => Some("an idle queue would expire with the messages that wait in it"),
        ("expires", _) => Some("the queue would expire with its letters"),
        ("message-ttl", Role::DeadLetter) => Some("letters older than that are destroyed"),
        ("max-length" | "max-length-bytes", Role::DeadLetter) => {
            Some("letters over the limit are destroyed, the oldest first")
        }
        _ => None,
    }
}

/// The settings of a resource by their policy names, with their types.
fn settings(resource: &Resource) -> Map<String, Json> {
    resource
        .properties
        .iter()
        .filter(|property| property.name != "type" && property.value != NONE)
        .map(|property| {
            let value = match property.name.as_str() {
                "message-ttl" | "delivery-limit" => {
                    property.value.parse::<i64>().map_or_else(|_| json!(property.value), |n| json!(n))
                }
                "dead-letter-exchange" if property.value == want::DEFAULT_EXCHANGE => json!(""),
                _ => json!(property.value),
            };
            (property.name.clone(), value)
        })
        .collect()
}

fn property<'a>(resource: &'a Resource, name: &str) -> Option<&'a str> {
    resource.properties.iter().find(|property| property.name == name).map(|property| property.value.as_str())
}

/// Arguments as AMQP has them; numbers as 64 bits, so that 30 days of milliseconds fit (R31).
fn table(arguments: &Map<String, Json>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        let value = match value {
            Json::String(text) => AMQPValue::LongString(text.as_str().into()),
            Json::Number(number) => AMQPValue::LongLongInt(number.as_i64().unwrap_or_default()),
            _ => continue,
        };
        table.insert(name.as_str().into(), value);
    }
    table
}

/// Argument and current value out of the server's words: `inequivalent arg 'x-message-ttl' for queue 'q' in
/// vhost '/': received '5000' but current is '60000'`.
fn difference(text: &str) -> (String, Option<String>) {
    let quoted = |after: &str| -> Option<String> {
        let rest = &text[text.find(after)? + after.len()..];
        let begin = rest.find('\'')? + 1;
        let end = begin + rest.get(begin..)?.find('\'')?;
        rest.get(begin..end).map(str::to_owned)
    };
    let name = quoted("inequivalent arg").unwrap_or_else(|| "arguments".to_owned());
    let name =
        if name == "x-queue-type" { "type".to_owned() } else { name.trim_start_matches("x-").to_owned() };
    let value = if text.contains("but current is none") { None } else { quoted("but current is") };
    let value = value.map(|value| want::shown(&name, &json!(value)));
    (name, value)
}

/// Queues under names that redrive makes for these channels, declared by none.
fn undeclared(names: &[String], wanted: &[Wanted], channels: &[&Channel]) -> Vec<Resource> {
    names
        .iter()
        .filter(|name| !wanted.iter().any(|queue| queue.name == **name))
        .filter_map(|name| {
            let channel = channels.iter().find(|channel| {
                name.strip_prefix(channel.name.value.as_str()).is_some_and(|rest| rest.starts_with(".retry-"))
            })?;
            Some(Resource {
                kind: "queue",
                name: name.clone(),
                role: Role::Undeclared,
                channel: Some(channel.name.value.clone()),
                properties: Vec::new(),
                depth: None,
                creatable: false,
                left: None,
                note: None,
            })
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn r30_the_servers_words_name_the_argument_that_differs() {
        let text = "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received \
                    '20000' but current is '5000'";
        assert_eq!(difference(text), ("message-ttl".to_owned(), Some("5000".to_owned())));
        let none = "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '/': \
                    received the value 'a' of type 'longstr' but current is none";
        assert_eq!(difference(none), ("dead-letter-exchange".to_owned(), None));
        let typed = "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received none but current is \
                     the value '60000' of type 'signedint'";
        assert_eq!(difference(typed), ("message-ttl".to_owned(), Some("60000".to_owned())));
    }
}
