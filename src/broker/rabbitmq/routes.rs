//! Where a message goes that dies again after a redrive. A redrive through the default exchange changes
//! exchange and routing key; a dead-letter exchange without a routing key of its own then routes by the
//! queue's name, and what nothing is bound for is gone (R36). Pure.

use serde_json::Value as Json;

use crate::broker::{BrokerError, ErrorKind};
use crate::letter::{Headers, Value};

/// What is known of a dead-letter exchange.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exchange {
    /// `direct`, `topic`, `fanout`, `headers`; `None` if there is none of that name.
    pub kind: Option<String>,
    /// Bindings out of it: routing key and destination queue.
    pub bindings: Vec<(String, String)>,
}

impl Exchange {
    /// Reads what the management API says.
    pub fn read(exchange: Option<&Json>, bindings: &[Json]) -> Self {
        let text = |json: &Json, key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
        Self {
            kind: exchange.and_then(|exchange| text(exchange, "type")),
            bindings: bindings
                .iter()
                .filter(|binding| text(binding, "destination_type").as_deref() == Some("queue"))
                .filter_map(|binding| Some((text(binding, "routing_key")?, text(binding, "destination")?)))
                .collect(),
        }
    }

    /// Queues that a message with this key reaches; `None` if that cannot be told (headers exchange, plugin).
    pub fn reached(&self, key: &str) -> Option<Vec<&str>> {
        let takes: fn(&str, &str) -> bool = match self.kind.as_deref() {
            Some("fanout") => |_, _| true,
            Some("direct") => |pattern, key| pattern == key,
            Some("topic") => topic,
            None => |_, _| false,
            Some(_) => return None,
        };
        Some(
            self.bindings
                .iter()
                .filter(|(pattern, _)| takes(pattern, key))
                .map(|(_, queue)| queue.as_str())
                .collect(),
        )
    }
}

/// A message for an exchange that is not there.
pub(super) fn no_exchange(name: &str) -> BrokerError {
    BrokerError::new(ErrorKind::NotFound, format!("send to exchange {name}"), "there is no such exchange")
        .hint("`rabbitmq: {exchange: NAME}` names it; without that key letters go to their queue")
}

/// Who may get a copy from an exchange, by its bindings.
pub(super) fn listeners(bindings: &[Json]) -> String {
    let of = |kind: &str| -> Vec<&str> {
        let mut names: Vec<&str> = bindings
            .iter()
            .filter(|binding| binding.get("destination_type").and_then(Json::as_str) == Some(kind))
            .filter_map(|binding| binding.get("destination")?.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let (queues, exchanges) = (of("queue"), of("exchange"));
    let mut text = match queues.len() {
        0 => "no queue is bound to it".to_owned(),
        1 => format!("1 queue is bound to it: {}", queues.concat()),
        n => format!("up to {n} queues get each: {}", queues.join(", ")),
    };
    if !exchanges.is_empty() {
        text.push_str(&format!(", and what is behind exchange {}", exchanges.join(", ")));
    }
    text
}

/// The key that a message first came through this exchange with, by its `x-death`: the broker keeps one entry
/// per queue and reason, each with the keys of its first death, and the oldest entry is the last of the list.
pub(super) fn first_key(headers: &Headers, exchange: &str) -> Option<String> {
    headers
        .last("x-death")?
        .list()?
        .iter()
        .rev()
        .find(|entry| entry.get("exchange").and_then(Value::text) == Some(exchange))
        .and_then(|entry| entry.get("routing-keys")?.list()?.first()?.text().map(str::to_owned))
}

/// Where second deaths in `queue` go: `Ok` names the queues, `Err` why they would be lost.
pub(super) fn second_death(
    queue: &str,
    exchange_name: &str,
    exchange: &Exchange,
    routing_key: Option<&str>,
) -> Result<Vec<String>, String> {
    if exchange.kind.is_none() {
        return Err(format!(
            "its dead-letter exchange `{exchange_name}` is not there: dead letters would be lost"
        ));
    }
    let key = routing_key.unwrap_or(queue);
    match exchange.reached(key) {
        Some(queues) if queues.is_empty() => Err(match routing_key {
            Some(key) => format!(
                "no binding of `{exchange_name}` takes its dead-letter routing key `{key}`: dead letters would \
                 be lost"
            ),
            None => format!(
                "it has no dead-letter routing key, and no binding of `{exchange_name}` takes `{key}`, the key \
                 that a redriven message dies with: dead letters would be lost"
            ),
        }),
        Some(queues) => Ok(queues.into_iter().map(str::to_owned).collect()),
        None => Ok(Vec::new()),
    }
}

/// Does a topic pattern (`*` one word, `#` any number) take this key?
fn topic(pattern: &str, key: &str) -> bool {
    fn words(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), None) => words(rest, key),
            (Some((&"#", rest)), Some((_, tail))) => words(rest, key) || words(pattern, tail),
            (Some((&"*", rest)), Some((_, tail))) => words(rest, tail),
            (Some((word, rest)), Some((first, tail))) => word == first && words(rest, tail),
            _ => false,
        }
    }
    words(&pattern.split('.').collect::<Vec<_>>(), &key.split('.').collect::<Vec<_>>())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn exchange(kind: &str, bindings: &[(&str, &str)]) -> Exchange {
        Exchange {
            kind: Some(kind.to_owned()),
            bindings: bindings.iter().map(|(key, queue)| ((*key).to_owned(), (*queue).to_owned())).collect(),
        }
    }

    #[test]
    fn r36_a_dead_letter_exchange_that_is_not_there() {
        let gone = Exchange { kind: None, bindings: Vec::new() };
        let lost = second_death("orders", "dlx", &gone, None).unwrap_err();
        assert!(lost.contains("`dlx` is not there: dead letters would be lost"), "{lost}");
    }

    #[test]
    fn r36_a_binding_for_another_key_than_a_redriven_message_dies_with() {
        let dlx = exchange("direct", &[("orders.dead", "orders.dlq")]);
        let lost = second_death("orders", "dlx", &dlx, None).unwrap_err();
        assert!(lost.contains("no binding of `dlx` takes `orders`"), "{lost}");
        assert_eq!(second_death("orders", "dlx", &dlx, Some("orders.dead")).unwrap(), ["orders.dlq"]);
        let any = exchange("fanout", &[("", "orders.dlq")]);
        assert_eq!(second_death("orders", "dlx", &any, None).unwrap(), ["orders.dlq"]);
    }

    #[test]
    fn r13_the_key_is_the_one_that_it_first_came_through_the_exchange_with() {
        let entry = |exchange: &str, keys: &[&str]| {
            let text = |text: &str| Value::from_text(text);
            Value::Table(vec![
                ("exchange".to_owned(), text(exchange)),
                ("routing-keys".to_owned(), Value::List(keys.iter().map(|key| text(key)).collect())),
            ])
        };
        let mut headers = Headers::new();
        assert_eq!(first_key(&headers, "ev"), None);
        headers.push(
            "x-death",
            Value::List(vec![entry("", &["b"]), entry("ev", &["later"]), entry("ev", &["orders.eu", "cc"])]),
        );
        assert_eq!(first_key(&headers, "ev").as_deref(), Some("orders.eu"));
        assert_eq!(first_key(&headers, "other"), None);
        headers.replace("x-death", Value::from_text("forged"));
        assert_eq!(first_key(&headers, "ev"), None);
    }

    #[test]
    fn r13_everybody_who_is_bound_is_named_once() {
        let binding = |kind: &str, to: &str| serde_json::json!({"destination_type": kind, "destination": to});
        assert_eq!(listeners(&[]), "no queue is bound to it");
        let all = [binding("queue", "b"), binding("queue", "a"), binding("queue", "b")];
        assert_eq!(listeners(&all), "up to 2 queues get each: a, b");
        let through = [binding("queue", "a"), binding("exchange", "more")];
        assert_eq!(listeners(&through), "1 queue is bound to it: a, and what is behind exchange more");
    }

    #[test]
    fn topic_patterns() {
        for (pattern, key, takes) in [
            ("orders.*", "orders.created", true),
            ("orders.*", "orders", false),
            ("#", "a.b", true),
            ("orders.#", "orders", true),
            ("*.#.dead", "a.dead", true),
            ("*", "a.b", false),
        ] {
            assert_eq!(topic(pattern, key), takes, "{pattern} {key}");
        }
    }
}
