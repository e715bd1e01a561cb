//! Policies: ours, one per queue, and those of others that match the same queue. Only one policy is in force
//! on a queue, so ours would put another's out of force. Pure.

use serde_json::{Map, Value as Json, json};

/// Priority of ours. Others are written with 0 or a little more.
const PRIORITY: i64 = 100;

/// Name of the policy that carries a queue's settings.
pub(super) fn name_for(queue: &str) -> String {
    format!("redrive.{queue}")
}

/// The body that sets it.
pub(super) fn body(queue: &str, settings: &Map<String, Json>) -> Json {
    json!({
        "pattern": format!("^{}$", regex::escape(queue)),
        "definition": settings,
        "apply-to": "queues",
        "priority": PRIORITY,
    })
}

/// Name, priority and definition of the strongest policy of somebody else that matches this queue.
pub(super) fn foreign<'a>(
    all: &'a [Json],
    queue: &str,
    queue_type: Option<&str>,
) -> Option<(&'a str, i64, Map<String, Json>)> {
    let own = name_for(queue);
    all.iter()
        .filter_map(|policy| {
            let name = policy.get("name")?.as_str()?;
            let pattern = policy.get("pattern")?.as_str()?;
            let for_queues = match policy.get("apply-to").and_then(Json::as_str).unwrap_or("all") {
                "all" | "queues" => true,
                "quorum_queues" => queue_type.is_none_or(|kind| kind == "quorum"),
                "classic_queues" => queue_type.is_none_or(|kind| kind == "classic"),
                "streams" => queue_type.is_none_or(|kind| kind == "stream"),
                _ => false,
            };
            // A pattern that cannot be read here may match: better to ask than to put it out of force.
            let matches = regex::Regex::new(pattern).map_or(true, |pattern| pattern.is_match(queue));
            if name == own || !for_queues || !matches {
                return None;
            }
            let priority = policy.get("priority").and_then(Json::as_i64).unwrap_or(0);
            let definition = policy.get("definition").and_then(Json::as_object).cloned().unwrap_or_default();
            Some((name, priority, definition))
        })
        .max_by_key(|(_, priority, _)| *priority)
}

/// Why a policy of ours cannot be set beside this one; `None` if nothing of the other would be lost.
pub(super) fn conflict(
    name: &str,
    priority: i64,
    definition: &Map<String, Json>,
    ours: &Map<String, Json>,
) -> Option<String> {
    if priority >= PRIORITY {
        return Some(format!(
            "the policy `{name}` matches it with priority {priority}, and only one policy is in force on a queue"
        ));
    }
    let lost: Vec<&str> = definition
        .iter()
        .filter(|(key, value)| ours.get(*key) != Some(*value))
        // Mirroring of classic queues: nothing for the types that are made here.
        .filter(|(key, _)| !key.starts_with("ha-") && *key != "queue-master-locator")
        .map(|(key, _)| key.as_str())
        .collect();
    (!lost.is_empty()).then(|| {
        format!(
            "the policy `{name}` is in force on it and ours would replace it: {} would no longer hold",
            lost.join(", ")
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn another_policy_on_the_queue_is_found_and_not_put_out_of_force() {
        let all = [
            json!({"name": "redrive.orders", "pattern": "^orders$", "definition": {}, "priority": 100}),
            json!({"name": "ttl", "pattern": "^ord", "definition": {"message-ttl": 5}, "priority": 1}),
            json!({"name": "ha", "pattern": ".*", "definition": {"ha-mode": "all"}}),
            json!({"name": "x", "pattern": ".*", "definition": {"a": 1}, "apply-to": "exchanges", "priority": 9}),
        ];
        let (name, priority, definition) = foreign(&all, "orders", None).unwrap();
        assert_eq!((name, priority), ("ttl", 1));
        assert!(conflict(name, priority, &definition, &Map::new()).unwrap().contains("message-ttl"));
        let (name, priority, definition) = foreign(&all, "bills", None).unwrap();
        assert_eq!(conflict(name, priority, &definition, &Map::new()), None);
        assert!(conflict("high", 100, &Map::new(), &Map::new()).is_some());
    }

    #[test]
    fn a_name_is_no_pattern() {
        assert_eq!(body("orders.dlq", &Map::new())["pattern"], "^orders\\.dlq$");
    }
}
