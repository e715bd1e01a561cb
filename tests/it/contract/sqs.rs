//! SQS plugged into the suites, on two emulators, standard and FIFO. What an emulator gets wrong is said here
//! by the emulator's name; what only AWS shows is not claimed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageAttributeValue;
use bytes::Bytes;
use redrive::broker::sqs::SqsKind;
use redrive::broker::{Broker, Kind, OpenContext};
use redrive::clock::{Clock, SystemClock, Time};
use redrive::letter::{Message, Value};
use redrive::topology::{At, BrokerDecl, Channel, DeadLetterDecl, GroupRule, Secret, Setting, Tier};

use super::Bench;

/// One emulator by its name and the variable that has its address.
#[derive(Clone, Copy)]
enum Emulator {
    Ministack,
    ElasticMq,
}

impl Emulator {
    fn variable(self) -> &'static str {
        match self {
            Self::Ministack => "REDRIVE_TEST_SQS_MINISTACK",
            Self::ElasticMq => "REDRIVE_TEST_SQS_ELASTICMQ",
        }
    }

    fn endpoint(self) -> String {
        std::env::var(self.variable()).expect("asked for by new()")
    }
}

macro_rules! here {
    ($emulator:ident, $fifo:literal) => {
        match new(Emulator::$emulator, $fifo) {
            Some(bench) => bench,
            None => return,
        }
    };
}

struct Sqs {
    emulator: Emulator,
    channel: Channel,
    fifo: bool,
}

/// A bench, or the end of the test where there is no emulator: said, or a failure where one is required.
fn new(emulator: Emulator, fifo: bool) -> Option<Sqs> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let variable = emulator.variable();
    if std::env::var_os(variable).is_none() {
        crate::zz_servers::missing(variable, "scripts/brokers/sqs start FOLDER");
        return None;
    }
    let unique = SystemClock.now().millis();
    let name = format!("t{unique}x{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let end = if fifo { ".fifo" } else { "" };
    let tier = |seconds: u64| Tier {
        name: At::nowhere(format!("retry-{seconds}s")),
        name_written: false,
        delay: At::nowhere(Duration::from_secs(seconds)),
    };
    let settings = vec![(At::nowhere("fifo".to_owned()), At::nowhere(Setting::Bool(fifo)))];
    let channel = Channel {
        name: At::nowhere(name.clone()),
        source: At::nowhere(format!("{name}{end}")),
        create_source: true,
        group: At::nowhere(GroupRule::Key),
        tiers: vec![tier(1), tier(2)],
        dead_letter: DeadLetterDecl {
            retention: Some(At::nowhere(Duration::from_secs(14 * 86_400))),
            ..DeadLetterDecl::default()
        },
        blocks: vec![("sqs".to_owned(), settings)],
        ..Channel::default()
    };
    Some(Sqs { emulator, channel, fifo })
}

impl Sqs {
    async fn client(&self) -> aws_sdk_sqs::Client {
        let credentials = aws_sdk_sqs::config::Credentials::new("test", "test", None, None, "test");
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
            .region(aws_sdk_sqs::config::Region::new("us-east-1"))
            .endpoint_url(self.emulator.endpoint())
            .credentials_provider(credentials)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        aws_sdk_sqs::Client::from_conf(config)
    }

    async fn url(&self, client: &aws_sdk_sqs::Client, queue: &str) -> String {
        client.get_queue_url().queue_name(queue).send().await.unwrap().queue_url.unwrap()
    }

    /// One message by the client's own means.
    async fn receive(&self, client: &aws_sdk_sqs::Client, url: &str) -> Option<aws_sdk_sqs::types::Message> {
        let answer = client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(1)
            .wait_time_seconds(0)
            .message_attribute_names("All")
            .message_system_attribute_names("All".into())
            .send()
            .await
            .unwrap();
        let message = answer.messages.unwrap_or_default().pop()?;
        let receipt = message.receipt_handle.clone().unwrap();
        client.delete_message().queue_url(url).receipt_handle(receipt).send().await.unwrap();
        Some(message)
    }
}

/// An attribute as the test's own means write it.
fn attribute(value: &Value) -> MessageAttributeValue {
    let (label, inner) = match value {
        Value::Labelled { label, value } => (label.clone(), &**value),
        Value::Bytes(_) => ("Binary".to_owned(), value),
        _ => ("String".to_owned(), value),
    };
    let made = MessageAttributeValue::builder().data_type(&label);
    let bytes = inner.bytes().unwrap();
    if label.starts_with("Binary") {
        made.binary_value(Blob::new(bytes.to_vec())).build().unwrap()
    } else {
        made.string_value(std::str::from_utf8(bytes).unwrap()).build().unwrap()
    }
}

/// A received message as one of ours: only what a producer wrote.
fn ours(raw: &aws_sdk_sqs::types::Message) -> Message {
    let mut names: Vec<_> = raw.message_attributes.iter().flatten().collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    let headers = names
        .into_iter()
        .map(|(name, value)| {
            let inner = match (&value.binary_value, &value.string_value) {
                (Some(bytes), _) => Value::Bytes(Bytes::copy_from_slice(bytes.as_ref())),
                (_, text) => Value::from_text(text.clone().unwrap_or_default()),
            };
            let value = match value.data_type.as_str() {
                "String" | "Binary" => inner,
                label => Value::Labelled { label: label.to_owned(), value: Box::new(inner) },
            };
            (name.clone(), value)
        })
        .collect();
    let group = raw.attributes.as_ref().and_then(|all| all.get(&"MessageGroupId".into()).cloned());
    Message {
        key: group.map(Bytes::from),
        body: raw.body.clone().map(Bytes::from),
        headers,
        ..Message::default()
    }
}

#[async_trait]
impl Bench for Sqs {
    fn kind(&self) -> &'static dyn Kind {
        &SqsKind
    }

    fn channel(&self) -> Channel {
        self.channel.clone()
    }

    async fn open(&self, writes: bool) -> Box<dyn Broker> {
        let option = |name: &str, value: String| {
            (At::nowhere(name.to_owned()), At::nowhere(Secret::new(value.clone(), value)))
        };
        let decl = BrokerDecl {
            name: At::nowhere("aws".to_owned()),
            url: At::nowhere("sqs://us-east-1".to_owned()),
            // ElasticMQ refuses RedriveAllowPolicy.
            options: match self.emulator {
                Emulator::Ministack => vec![option("endpoint_url", self.emulator.endpoint())],
                Emulator::ElasticMq => vec![
                    option("endpoint_url", self.emulator.endpoint()),
                    option("redrive_allow_policy", "left".to_owned()),
                ],
            },
            ..BrokerDecl::default()
        };
        let context = OpenContext { clock: Arc::new(SystemClock), base: ".".into(), writes };
        SqsKind.open(&decl, &context).await.unwrap()
    }

    async fn produce(&self, queue: &str, messages: &[Message]) {
        let client = self.client().await;
        let url = self.url(&client, queue).await;
        for (index, message) in messages.iter().enumerate() {
            let attributes: HashMap<_, _> = message
                .headers
                .iter()
                .map(|header| (header.name.to_string(), attribute(&header.value)))
                .collect();
            let body = String::from_utf8(message.body.clone().unwrap().to_vec()).unwrap();
            let mut call = client.send_message().queue_url(&url).message_body(body);
            if !attributes.is_empty() {
                call = call.set_message_attributes(Some(attributes));
            }
            if let Some(key) = &message.key {
                call = call.message_group_id(String::from_utf8(key.to_vec()).unwrap());
            }
            if self.fifo {
                call = call.message_deduplication_id(format!("{}-{index}", SystemClock.now().millis()));
            }
            call.send().await.unwrap();
        }
    }

    async fn produce_aged(&self, queue: &str, messages: &[Message], _age: Duration) {
        // SQS stamps what it takes in; nobody can make it believe an age.
        self.produce(queue, messages).await;
    }

    async fn drain(&self, queue: &str) -> Vec<Message> {
        let client = self.client().await;
        let url = self.url(&client, queue).await;
        let mut all = Vec::new();
        loop {
            while let Some(message) = self.receive(&client, &url).await {
                all.push(ours(&message));
            }
            // A tier holds its messages back.
            let asked = client.get_queue_attributes().queue_url(&url).attribute_names("All".into());
            let counts = asked.send().await.unwrap().attributes.unwrap_or_default();
            let none = |name: &str| counts.get(&name.into()).is_none_or(|count| count == "0");
            if none("ApproximateNumberOfMessagesDelayed") && none("ApproximateNumberOfMessages") {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn take(&self, queue: &str) -> Option<Message> {
        let client = self.client().await;
        let url = self.url(&client, queue).await;
        self.receive(&client, &url).await.map(|message| ours(&message))
    }

    async fn pass(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    fn now(&self) -> Time {
        SystemClock.now()
    }

    fn message(&self, group: &str, body: &str) -> Message {
        Message {
            key: Some(Bytes::from(group.to_owned())),
            body: Some(Bytes::from(body.to_owned())),
            headers: [("event-id".to_owned(), Value::from_text(format!("ev-{body}")))].into_iter().collect(),
            ..Message::default()
        }
    }

    fn samples(&self) -> Vec<Message> {
        let label = |label: &str, text: &str| Value::Labelled {
            label: label.to_owned(),
            value: Box::new(Value::from_text(text)),
        };
        let typed = [
            ("base64-like", Value::from_bytes(b"c29tZQ==".to_vec())),
            ("binary", Value::from_bytes(vec![0xff, 0x00, 0x80, 0x0a])),
            ("custom", label("String.custom", "größe")),
            ("number", label("Number", "42")),
            ("text", Value::from_text("größe \u{202e} \"\\\n")),
        ];
        let message = |body: &str| Message {
            key: Some(Bytes::from_static(b"g")),
            body: Some(Bytes::from(body.to_owned())),
            ..Message::default()
        };
        vec![
            Message {
                headers: typed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                ..message("typed")
            },
            message("{\"submissionID\":\"s-1\"}"),
            message("\u{10000}\t\r\n <&>"),
            message(&"x".repeat(200_000)),
        ]
    }

    fn shrunk(&self) -> Option<Channel> {
        let mut shrunk = self.channel.clone();
        shrunk.dead_letter.retention.as_mut().unwrap().value = Duration::from_secs(5 * 86_400);
        Some(shrunk)
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(4)
    }

    fn tells_age(&self) -> bool {
        false
    }

    fn many(&self) -> usize {
        120
    }

    fn own(&self, name: &str) -> bool {
        // System attributes come as properties beside what the producer wrote; our stamps are in one attribute.
        name.starts_with("Approximate")
            || [
                "AWSTraceHeader",
                "DeadLetterQueueSourceArn",
                "MessageDeduplicationId",
                "MessageGroupId",
                "MessageId",
                "SenderId",
                "SentTimestamp",
                "SequenceNumber",
                "redrive",
            ]
            .contains(&name)
    }
}

// ElasticMQ stores neither retention nor RedriveAllowPolicy, and lists queues its own way: provisioning is proved on
// ministack, which accepts a redrive policy between queues of two types; AWS and `check` refuse that.
mod ministack_standard {
    use super::*;
    crate::contract::provision::provision_suite!(here!(Ministack, false));
    crate::contract::browse::browse_suite!(here!(Ministack, false));
    crate::contract::relocate::relocate_suite!(here!(Ministack, false));
}

mod ministack_fifo {
    use super::*;
    crate::contract::provision::provision_suite!(here!(Ministack, true));
    crate::contract::browse::browse_suite!(here!(Ministack, true));
    crate::contract::relocate::relocate_suite!(here!(Ministack, true));
}

mod elasticmq_standard {
    use super::*;
    crate::contract::browse::browse_suite!(here!(ElasticMq, false));
    crate::contract::relocate::relocate_suite!(here!(ElasticMq, false));
}

mod elasticmq_fifo {
    use super::*;
    crate::contract::browse::browse_suite!(here!(ElasticMq, true));
    crate::contract::relocate::relocate_suite!(here!(ElasticMq, true));
}
