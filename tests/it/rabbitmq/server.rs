//! The server under test, a virtual host of its own for each test, and the broker as the verbs open it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel as Wire, Connection, ConnectionProperties};
use redrive::broker::{Broker, BrokerError, OpenContext, Want, kind_of};
use redrive::clock::SystemClock;
use redrive::letter::RawLetter;
use redrive::topology::{At, BrokerDecl, Channel, Secret, Setting, Tier};

/// Where the server is.
#[derive(Clone)]
pub struct Server {
    pub url: String,
    pub management: String,
    pub user: String,
    pub password: String,
}

impl Server {
    /// The server that the environment names. Without one a test has nothing to do, unless servers are
    /// required: then that is a failure.
    pub fn get() -> Option<Self> {
        let Ok(url) = std::env::var("REDRIVE_TEST_RABBITMQ_URL") else {
            crate::zz_servers::missing("REDRIVE_TEST_RABBITMQ_URL", "scripts/brokers/rabbitmq start FOLDER");
            return None;
        };
        let var = |name: &str, or: &str| std::env::var(name).unwrap_or_else(|_| or.to_owned());
        Some(Self {
            url,
            management: var("REDRIVE_TEST_RABBITMQ_MANAGEMENT", "http://127.0.0.1:15672"),
            user: var("REDRIVE_TEST_RABBITMQ_USER", "guest"),
            password: var("REDRIVE_TEST_RABBITMQ_PASSWORD", "guest"),
        })
    }

    /// Asks the management API; gives status and body.
    pub fn api(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask(method, path, body).unwrap()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), ureq::Error> {
        use base64::Engine as _;
        let login =
            base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", self.user, self.password));
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}/api/{path}", self.management))
            .header("authorization", format!("Basic {login}"))
            .header("content-type", "application/json")
            .body(body.to_owned())
            .unwrap();
        let mut answer = agent.run(request)?;
        Ok((answer.status().as_u16(), answer.body_mut().read_to_string()?))
    }

    /// A new virtual host.
    pub async fn host(&self) -> Host {
        let name = format!("t-{}", fresh());
        assert_eq!(self.api("PUT", &format!("vhosts/{name}"), "{}").0, 201);
        let rights = r#"{"configure":".*","write":".*","read":".*"}"#;
        self.api("PUT", &format!("permissions/{name}/{}", self.user), rights);
        let connection = connect(&self.url, &name, &self.user, &self.password).await;
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Host { server: self.clone(), name, connection, channel }
    }
}

/// Letters and digits that no other test has.
pub fn fresh() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    format!("{at:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A connection of an application.
pub async fn connect(url: &str, vhost: &str, user: &str, password: &str) -> Connection {
    let (scheme, place) = url.split_once("://").unwrap();
    let url = format!("{scheme}://{user}:{password}@{place}/{vhost}");
    Connection::connect(&url, ConnectionProperties::default()).await.unwrap()
}

/// A virtual host, deleted at the end.
pub struct Host {
    pub server: Server,
    pub name: String,
    pub connection: Connection,
    pub channel: Wire,
}

impl Drop for Host {
    fn drop(&mut self) {
        // A server of the test's own may be gone by now.
        let _ = self.server.ask("DELETE", &format!("vhosts/{}", self.name), "");
    }
}

/// One message read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Got {
    pub body: Vec<u8>,
    pub properties: BasicProperties,
}

impl Got {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&AMQPValue> {
        self.properties.headers().as_ref()?.inner().get(name)
    }
}

/// Arguments of a declaration.
pub fn arguments(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert((*name).into(), value.clone());
    }
    table
}

pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

pub fn number(value: i64) -> AMQPValue {
    AMQPValue::LongLongInt(value)
}

impl Host {
    pub async fn declare(&self, queue: &str, kind: &str, more: &[(&str, AMQPValue)]) {
        let mut table = arguments(more);
        table.insert("x-queue-type".into(), text(kind));
        let channel = self.connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.into(), options, table).await.unwrap();
        channel.close(200, "ok".into()).await.unwrap();
    }

    /// A dead-letter queue and a source of these types, without any routing.
    pub async fn pair(&self, kind: &str) {
        self.declare("orders", "quorum", &[]).await;
        self.declare("orders.dlq", kind, &[]).await;
    }

    pub async fn send(&self, queue: &str, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let confirm = self
            .channel
            .basic_publish("".into(), queue.into(), options, body, properties)
            .await
            .unwrap()
            .await
            .unwrap();
        assert_eq!(confirm, lapin::Confirmation::Ack(None));
    }

    /// Fills the dead-letter queue of a new pair with 900 letters, so large that one consumer reads about 15.
    pub async fn fill_large(&self, kind: &str) -> Vec<String> {
        self.pair(kind).await;
        let sent: Vec<String> = (0..900).map(|n| format!("{n:05}{}", "x".repeat(128 * 1024))).collect();
        self.fill("orders.dlq", sent.clone()).await;
        sent
    }

    pub async fn fill(&self, queue: &str, bodies: impl IntoIterator<Item = String>) {
        let mut confirms = Vec::new();
        for body in bodies {
            let publish = self.channel.basic_publish(
                "".into(),
                queue.into(),
                BasicPublishOptions { mandatory: true, immediate: false },
                body.as_bytes(),
                BasicProperties::default().with_delivery_mode(2),
            );
            confirms.push(publish.await.unwrap());
        }
        for confirm in confirms {
            assert!(confirm.await.unwrap().is_ack());
        }
    }

    /// Takes everything out of a queue, in order.
    pub async fn drain(&self, queue: &str) -> Vec<Got> {
        let channel = self.connection.create_channel().await.unwrap();
        let mut got = Vec::new();
        while let Some(message) =
            channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap()
        {
            let properties = message.delivery.properties.clone();
            got.push(Got { body: message.delivery.data.clone(), properties });
        }
        channel.close(200, "ok".into()).await.unwrap();
        got
    }

    pub async fn texts(&self, queue: &str) -> Vec<String> {
        self.drain(queue).await.iter().map(|got| got.text().to_owned()).collect()
    }

    /// Takes out the texts of a long queue that nobody writes to.
    pub async fn all(&self, queue: &str) -> Vec<String> {
        use futures_util::StreamExt;
        let count = self.ready(queue).await;
        let channel = self.connection.create_channel().await.unwrap();
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let mut consumer =
            channel.basic_consume(queue.into(), "all".into(), options, FieldTable::default()).await.unwrap();
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(String::from_utf8(consumer.next().await.unwrap().unwrap().data).unwrap());
        }
        channel.close(200, "ok".into()).await.unwrap();
        assert_eq!(self.ready(queue).await, 0, "{queue} had more than it counted");
        all
    }

    /// Waits until a queue has this many messages ready.
    pub async fn until(&self, queue: &str, ready: u32) {
        for _ in 0..200 {
            if self.ready(queue).await == ready {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{queue} has {} and not {ready}", self.ready(queue).await);
    }

    pub async fn ready(&self, queue: &str) -> u32 {
        let channel = self.connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
        channel.close(200, "ok".into()).await.unwrap();
        found.message_count()
    }

    /// A consumer that rejects `count` messages, so that they die.
    pub async fn reject(&self, queue: &str, count: usize) {
        use futures_util::StreamExt;
        let channel = self.connection.create_channel().await.unwrap();
        let mut consumer = channel
            .basic_consume(queue.into(), "c".into(), BasicConsumeOptions::default(), FieldTable::default())
            .await
            .unwrap();
        for _ in 0..count {
            let delivery = consumer.next().await.unwrap().unwrap();
            delivery.reject(lapin::options::BasicRejectOptions { requeue: false }).await.unwrap();
        }
        channel.basic_cancel("c".into(), lapin::options::BasicCancelOptions::default()).await.unwrap();
        channel.close(200, "ok".into()).await.unwrap();
    }

    /// The broker as declared in a topology; `management` decides whether it has that option.
    pub fn decl(&self, management: bool) -> BrokerDecl {
        let secret = |value: &str, source: &str| At::nowhere(Secret::new(value, source));
        let mut options = Vec::new();
        if management {
            options.push((At::nowhere("management".to_owned()), secret(&self.server.management, "the url")));
        }
        BrokerDecl {
            name: At::nowhere("mq".to_owned()),
            url: At::nowhere(format!("{}/{}", self.server.url, self.name)),
            username: Some(secret(&self.server.user, "${MQ_USER}")),
            password: Some(secret(&self.server.password, "${MQ_PASSWORD}")),
            options,
            ..BrokerDecl::default()
        }
    }

    /// The server ends every connection of this virtual host whose name begins so, and is waited for.
    pub async fn end_connections(&self, named: &str) {
        self.end_those(|name| name.starts_with(named)).await;
    }

    /// As [`Self::end_connections`], by another rule for names.
    pub async fn end_those(&self, ends: impl Fn(&str) -> bool) {
        let list = format!("vhosts/{}/connections", self.name);
        let mut ended = 0;
        for _ in 0..60 {
            let (_, body) = self.server.api("GET", &list, "");
            let all: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap_or_default();
            let theirs: Vec<&str> = all
                .iter()
                .filter(|one| {
                    let name = one["client_properties"]["connection_name"].as_str();
                    name.is_some_and(&ends)
                })
                .filter_map(|one| one["name"].as_str())
                .collect();
            if theirs.is_empty() && ended > 0 {
                return;
            }
            for name in theirs {
                let path: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
                self.server.api("DELETE", &format!("connections/{path}"), "");
                ended += 1;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub async fn broker(&self, management: bool) -> Box<dyn Broker> {
        open(&self.decl(management)).await.unwrap()
    }

    pub async fn inspect(&self, management: bool) -> (Vec<RawLetter>, redrive::broker::LookCost) {
        look(&*self.broker(management).await, &channel()).await.unwrap()
    }
}

pub async fn open(decl: &BrokerDecl) -> Result<Box<dyn Broker>, BrokerError> {
    let context = OpenContext { clock: Arc::new(SystemClock), base: PathBuf::from("."), writes: true };
    kind_of(decl).unwrap().open(decl, &context).await
}

pub async fn look(
    broker: &dyn Broker,
    channel: &Channel,
) -> Result<(Vec<RawLetter>, redrive::broker::LookCost), BrokerError> {
    let mut pages = broker.snapshot(channel, Want { bodies: true, moved: false }).await?;
    let mut letters = Vec::new();
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            break;
        }
        letters.extend(page);
    }
    Ok((letters, pages.close().await?))
}

/// `orders` with one tier of 200 ms and `orders.dlq`.
pub fn channel() -> Channel {
    Channel {
        name: At::nowhere("orders".to_owned()),
        source: At::nowhere("orders".to_owned()),
        tiers: vec![tier(200)],
        ..Channel::default()
    }
}

pub fn tier(millis: u64) -> Tier {
    Tier {
        name: At::nowhere(format!("retry-{millis}ms")),
        name_written: false,
        delay: At::nowhere(Duration::from_millis(millis)),
    }
}

pub fn typed(kind: &str) -> Channel {
    with("queue_type", kind)
}

/// `orders` with one setting of the block `rabbitmq`.
pub fn with(key: &str, value: &str) -> Channel {
    let setting = (At::nowhere(key.to_owned()), At::nowhere(Setting::Text(value.to_owned())));
    Channel { blocks: vec![("rabbitmq".to_owned(), vec![setting])], ..channel() }
}

/// Bodies of letters.
pub fn bodies(letters: &[RawLetter]) -> Vec<String> {
    letters
        .iter()
        .map(|letter| {
            String::from_utf8_lossy(letter.message.body.as_deref().unwrap_or_default()).into_owned()
        })
        .collect()
}
