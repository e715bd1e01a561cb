//! The snippet of docs/consumer-contract.md, run on real tiers with a relay: fail, wait, come back, die, be redriven.

use std::time::{Duration, Instant};

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use serde_json::json;

use super::{Shop, count, endpoint_or_return};

mod snippet {
    // snippet
    use aws_sdk_sqs::Client;
    use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName};
    use serde_json::{Value, json};

    /// One failure, steps 1 to 4. `message` was received from the queue `source` with all its attributes; `tiers` are
    /// names and urls, `source` and `dead_letter` urls.
    pub async fn fail(
        client: &Client,
        source: &str,
        message: &Message,
        tiers: &[(&str, &str)],
        dead_letter: &str,
        death: Value, // {"at": "2026-11-30T02:03:59Z", "class": "Timeout", …}
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut attributes = message.message_attributes.clone().unwrap_or_default();
        let ours = attributes.get("redrive").and_then(|value| value.string_value()).unwrap_or("{}");
        let mut ours: Value = serde_json::from_str(ours)?;
        let tries = ours["attempt"].as_str().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) + 1;
        ours["attempt"] = json!(tries.to_string());
        if ours["first-failed-at"].is_null() {
            ours["first-failed-at"] = death["at"].clone();
        }
        match ours["deaths"].as_array_mut() {
            Some(deaths) => deaths.push(death),
            None => ours["deaths"] = json!([death]),
        }
        let tier = tiers.get(tries - 1);
        if let Some((name, _)) = tier {
            ours["tier"] = json!(name);
        }
        let ours = MessageAttributeValue::builder().data_type("String").string_value(ours.to_string());
        attributes.insert("redrive".to_owned(), ours.build()?);
        let system = message.attributes.as_ref();
        let group = system.and_then(|all| all.get(&MessageSystemAttributeName::MessageGroupId));
        // A FIFO queue drops an id that it has seen lately: a message has a new one of its own at each send.
        let id = message.message_id().filter(|_| dead_letter.ends_with(".fifo"));
        client
            .send_message()
            .queue_url(tier.map_or(dead_letter, |(_, url)| url))
            .message_body(message.body().unwrap_or_default())
            .set_message_attributes(Some(attributes))
            .set_message_group_id(group.cloned())
            .set_message_deduplication_id(id.map(str::to_owned))
            .send()
            .await?;
        let receipt = message.receipt_handle().unwrap_or_default();
        client.delete_message().queue_url(source).receipt_handle(receipt).send().await?;
        Ok(())
    }
    // end
}

fn client(endpoint: &str) -> aws_sdk_sqs::Client {
    let credentials = aws_sdk_sqs::config::Credentials::new("test", "test", None, None, "test");
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
        .region(aws_sdk_sqs::config::Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}

/// The next message within ten seconds.
async fn receive(client: &aws_sdk_sqs::Client, url: &str) -> Message {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        let answer = client
            .receive_message()
            .queue_url(url)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await
            .unwrap();
        if let Some(message) = answer.messages.unwrap_or_default().pop() {
            return message;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing came to {url}");
}

async fn two_lives(endpoint: &str, fifo: bool) {
    let shop = Shop::new(endpoint, endpoint, fifo);
    let client = client(endpoint);
    let urls = [&shop.source, &shop.tier, &shop.dead].map(|queue| shop.app.url(queue));
    let [source, tier, dead] = &urls;
    let attributes = json!({"tenant": {"DataType": "String", "StringValue": "acme"}});
    shop.app.send(&shop.source, r#"{"refund":{"id":"r-1"}}"#, Some("A"), "d", &attributes);
    let mut relay = shop.env.start(&["relay", &shop.channel]);
    for life in 1..=2 {
        for _ in 1..=2 {
            let message = receive(&client, source).await;
            let death = json!({"at": "2026-11-30T02:03:59Z", "class": "Timeout", "message": "no answer"});
            let tiers = [(shop.tier.as_str(), tier.as_str())];
            snippet::fail(&client, source, &message, &tiers, dead, death).await.unwrap();
        }
        let letters = shop.env.run(&["inspect", &shop.channel, "--letters", "-o", "json"]).ok().json();
        let letter =
            letters["letters"][0]["letter"].as_str().unwrap_or_else(|| panic!("{letters}")).to_owned();
        let shown = shop.env.run(&["show", &shop.channel, &letter, "-o", "json"]).ok().json();
        let deaths = shown.to_string().matches("no answer").count();
        assert!(deaths >= 2 * life, "history travels: {shown}");
        assert_eq!(letters["letters"][0]["attempts"], json!(2), "a life counts anew: {letters}");
        assert_eq!(letters["letters"][0]["event_id"], json!("r-1"), "{letters}");
        if life == 1 {
            assert_eq!(count(&shop.run(), "moved"), 1);
        }
    }
    relay.kill().unwrap();
    relay.wait().unwrap();
    let got = shop.app.receive(&shop.dead, 30);
    assert_eq!((got.len(), got[0].attributes["tenant"]["StringValue"].as_str()), (1, Some("acme")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_fails_through_a_tier_dies_and_is_redriven_afresh_on_both() {
    two_lives(&endpoint_or_return!(MINISTACK), false).await;
    two_lives(&endpoint_or_return!(ELASTICMQ), true).await;
}

#[test]
fn the_page_shows_the_code_that_is_run() {
    let here = include_str!("consumer.rs");
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/consumer-contract.md")).unwrap();
    let (_, code) = here.split_once(&format!("    // {}\n", "snippet")).unwrap();
    let (code, _) = code.split_once("    // end\n").unwrap();
    let code: String =
        code.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    assert!(page.contains(&code), "docs/consumer-contract.md does not show this:\n{code}");
}
