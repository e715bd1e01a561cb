//! A queue as the management API shows it: type, arguments, the policy in force, and which of them decides.

use serde_json::{Map, Value as Json};

use super::version::Version;

/// Kind of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueType {
    /// Replicated; counts deliveries.
    Quorum,
    /// Plain.
    Classic,
    /// A log that is read and not emptied.
    Stream,
    /// Not told, or not known here.
    Unknown,
}

impl QueueType {
    /// Reads the server's word.
    pub fn parse(word: &str) -> Self {
        match word {
            "quorum" => Self::Quorum,
            "classic" => Self::Classic,
            "stream" => Self::Stream,
            _ => Self::Unknown,
        }
    }

    /// The server's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
            Self::Stream => "stream",
            Self::Unknown => "unknown",
        }
    }
}

/// Who set a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// An argument of the queue: fixed for its life.
    Argument,
    /// A policy: can be changed.
    Policy,
}

/// One queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueueState {
    /// Its kind.
    pub kind: QueueType,
    /// Declared with, `x-` names.
    pub arguments: Map<String, Json>,
    /// Name of the policy in force.
    pub policy: Option<String>,
    /// What policy and operator policy together set.
    pub from_policy: Map<String, Json>,
    /// Ready and unacknowledged together.
    pub messages: Option<u64>,
    /// Handed out and not settled.
    pub unacked: Option<u64>,
    /// Waiting to be dead-lettered, at least once: still in this queue, and seen nowhere else.
    pub stuck: u64,
    /// Readers.
    pub consumers: Option<u64>,
}

/// Settings of which the lower value wins when argument and policy both set one; of the others the argument
/// wins.
const LOWER_WINS: &[&str] = &["message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit"];

impl QueueState {
    /// Reads the API's answer for one queue.
    pub fn read(queue: &Json) -> Self {
        let table = |name: &str| queue.get(name).and_then(Json::as_object).cloned().unwrap_or_default();
        let number = |name: &str| queue.get(name).and_then(Json::as_u64);
        let arguments = table("arguments");
        let kind = queue
            .get("type")
            .or_else(|| arguments.get("x-queue-type"))
            .and_then(Json::as_str)
            .map_or(QueueType::Unknown, |word| {
                QueueType::parse(word.trim_start_matches("rabbit_").trim_end_matches("_queue"))
            });
        Self {
            kind,
            arguments,
            policy: queue.get("policy").and_then(Json::as_str).map(str::to_owned),
            from_policy: table("effective_policy_definition"),
            messages: number("messages"),
            unacked: number("messages_unacknowledged"),
            stuck: number("messages_dlx").unwrap_or(0),
            consumers: number("consumers"),
        }
    }

    /// A setting by its policy name (`message-ttl`), and who decides it.
    pub fn setting(&self, key: &str) -> Option<(&Json, By)> {
        let argument = self.arguments.get(&format!("x-{key}"));
        let policy = self.from_policy.get(key);
        match (argument, policy) {
            (Some(argument), Some(policy)) if LOWER_WINS.contains(&key) => {
                match (argument.as_i64(), policy.as_i64()) {
                    // No limit in a policy does not lift an argument's.
                    (Some(_), Some(b)) if b < 0 => Some((argument, By::Argument)),
                    (Some(a), Some(b)) if a >= 0 && a <= b => Some((argument, By::Argument)),
                    _ => Some((policy, By::Policy)),
                }
            }
            (Some(argument), _) => Some((argument, By::Argument)),
            (None, Some(policy)) => Some((policy, By::Policy)),
            (None, None) => None,
        }
    }

    /// How often a letter may be given back before it is destroyed or dead-lettered; `None`: without end.
    pub fn delivery_limit(&self, version: Version) -> Option<u32> {
        if self.kind != QueueType::Quorum {
            return None;
        }
        match self.setting("delivery-limit").and_then(|(limit, _)| limit.as_i64()) {
            None => version.default_delivery_limit(),
            Some(limit) if limit < 0 && version.unlimited_by_minus_one() => None,
            // Before 4.0 a limit below zero destroys at the first return, like 0.
            Some(limit) => Some(u32::try_from(limit).unwrap_or(0)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use serde_json::json;

    fn quorum(arguments: Json, policy: Json) -> QueueState {
        QueueState::read(&json!({
            "type": "quorum", "arguments": arguments, "effective_policy_definition": policy
        }))
    }

    #[test]
    fn r34_delivery_limits_by_version_argument_and_policy() {
        let old = Version::parse("3.10.8").unwrap();
        let new = Version::parse("4.0.5").unwrap();
        let limit = |arguments, policy| {
            let queue = quorum(arguments, policy);
            (queue.delivery_limit(old), queue.delivery_limit(new))
        };
        assert_eq!(limit(json!({}), json!({})), (None, Some(20)));
        assert_eq!(limit(json!({"x-delivery-limit": 3}), json!({})), (Some(3), Some(3)));
        assert_eq!(limit(json!({"x-delivery-limit": -1}), json!({})), (Some(0), None));
        assert_eq!(limit(json!({}), json!({"delivery-limit": -1})), (Some(0), None));
        assert_eq!(limit(json!({"x-delivery-limit": 5}), json!({"delivery-limit": 2})), (Some(2), Some(2)));
        assert_eq!(limit(json!({"x-delivery-limit": 5}), json!({"delivery-limit": 30})), (Some(5), Some(5)));
        assert_eq!(limit(json!({"x-delivery-limit": 5}), json!({"delivery-limit": -1})).1, Some(5));
        let classic = QueueState::read(&json!({"type": "classic", "arguments": {"x-delivery-limit": 3}}));
        assert_eq!(classic.delivery_limit(new), None);
    }

    #[test]
    fn the_argument_wins_for_routes_and_the_lower_for_times() {
        let queue = quorum(
            json!({"x-dead-letter-exchange": "dlx", "x-message-ttl": 5000}),
            json!({"dead-letter-exchange": "", "message-ttl": 60000}),
        );
        assert_eq!(queue.setting("dead-letter-exchange"), Some((&json!("dlx"), By::Argument)));
        assert_eq!(queue.setting("message-ttl"), Some((&json!(5000), By::Argument)));
        assert_eq!(queue.setting("overflow"), None);
    }
}
