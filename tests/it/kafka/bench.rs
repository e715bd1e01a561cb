//! Topics of a test's own on the real broker, and an application at them that knows only the client library.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use redrive::broker::{BROKERS, Broker, Kind, OpenContext};
use redrive::clock::{Clock, SystemClock, Time, VirtualClock};
use redrive::letter::{Message, Value};
use redrive::topology::{At, BrokerDecl, Channel, DeadLetterDecl, GroupRule, ReturnTo, Setting, Tier};

/// Where the broker is, or `None` with one visible line.
pub fn url() -> Option<String> {
    match std::env::var("REDRIVE_TEST_KAFKA_URL") {
        Ok(url) => Some(url),
        Err(_) => {
            crate::zz_servers::missing("REDRIVE_TEST_KAFKA_URL", "scripts/brokers/kafka start FOLDER");
            None
        }
    }
}

/// A broker, the clock, and a channel that nobody else uses.
pub struct Bench {
    pub url: String,
    pub clock: Arc<VirtualClock>,
    pub channel: Channel,
}

/// A name that no other test uses.
pub fn unique(base: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{base}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
        + &format!("-{:x}", SystemClock.now().millis() & 0xff_ffff)
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.app().forget(&self.channel.name.value);
    }
}

impl Bench {
    pub fn new() -> Option<Self> {
        let clock = Arc::new(VirtualClock::new(SystemClock.now()));
        Some(Self { url: url()?, clock, channel: channel(&unique("orders")) })
    }

    pub fn kind() -> &'static dyn Kind {
        *BROKERS.iter().find(|kind| kind.schemes().contains(&"kafka")).unwrap()
    }

    pub fn decl(&self) -> BrokerDecl {
        BrokerDecl {
            name: At::nowhere("kafka".to_owned()),
            url: At::nowhere(self.url.clone()),
            ..BrokerDecl::default()
        }
    }

    pub async fn open(&self, writes: bool) -> Box<dyn Broker> {
        let context = OpenContext { clock: self.clock.clone(), base: std::env::temp_dir(), writes };
        Self::kind().open(&self.decl(), &context).await.unwrap()
    }

    pub fn app(&self) -> App {
        App::at(&self.url)
    }
}

fn is_away(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown)
}

/// Tiers of 5 s and 1 m, a dead-letter topic that keeps 14 d, a topic to return to; three partitions.
pub fn channel(name: &str) -> Channel {
    let tier = |delay: u64, name: &str| Tier {
        name: At::nowhere(name.to_owned()),
        name_written: false,
        delay: At::nowhere(Duration::from_secs(delay)),
    };
    Channel {
        name: At::nowhere(name.to_owned()),
        source: At::nowhere(name.to_owned()),
        create_source: true,
        return_to: Some(At::nowhere(ReturnTo::Named(format!("{name}.billing")))),
        group: At::nowhere(GroupRule::Key),
        tiers: vec![tier(5, "retry-5s"), tier(60, "retry-1m")],
        dead_letter: DeadLetterDecl {
            retention: Some(At::nowhere(Duration::from_secs(14 * 86_400))),
            ..DeadLetterDecl::default()
        },
        blocks: vec![(
            "kafka".to_owned(),
            vec![
                (At::nowhere("partitions".to_owned()), At::nowhere(Setting::Number(3))),
                (At::nowhere("replication_factor".to_owned()), At::nowhere(Setting::Number(1))),
            ],
        )],
        ..Channel::default()
    }
}

/// A message with a key, a header and a body.
pub fn message(key: &str, body: &str) -> Message {
    let id = Value::from_bytes(format!("ev-{body}").into_bytes());
    Message {
        key: (!key.is_empty()).then(|| key.to_owned().into()),
        body: Some(body.to_owned().into()),
        headers: [("event-id".to_owned(), id)].into_iter().collect(),
        ..Message::default()
    }
}

/// A record as a consumer read it.
#[derive(Debug, Clone)]
pub struct Read {
    pub partition: i32,
    pub offset: i64,
    pub timestamp: Option<Time>,
    pub message: Message,
}

/// An application: produces and reads, by the client library alone.
#[derive(Clone)]
pub struct App {
    pub servers: String,
}

impl App {
    pub fn at(url: &str) -> Self {
        Self { servers: url.trim_start_matches("kafka://").to_owned() }
    }

    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers).set("allow.auto.create.topics", "false");
        config
    }

    /// Writes in this order, by key as Java does it, and waits for every answer.
    pub fn produce(&self, topic: &str, messages: &[Message], age: Duration) {
        let producer: BaseProducer = self
            .config()
            .set("partitioner", "murmur2_random")
            .set("acks", "all")
            .set("message.max.bytes", "20000000")
            .set("queue.buffering.max.messages", "1000000")
            .set("linger.ms", "5")
            .create()
            .unwrap();
        let at = SystemClock.now().minus(age).millis();
        for message in messages {
            let headers = message.headers.iter().fold(OwnedHeaders::new(), |list, header| {
                let value = header.value.bytes().map(|bytes| bytes.as_ref());
                list.insert(Header { key: &header.name, value })
            });
            let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).headers(headers).timestamp(at);
            record.key = message.key.as_deref();
            record.payload = message.body.as_deref();
            let mut record = Some(record);
            while let Some(next) = record.take() {
                if let Err((error, back)) = producer.send(next) {
                    assert!(error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull), "{error}");
                    producer.poll(Duration::from_millis(10));
                    record = Some(back);
                }
            }
            producer.poll(Duration::ZERO);
        }
        producer.flush(Duration::from_secs(60)).unwrap();
    }

    /// Every committed record of a topic, partition by partition, in order.
    pub fn read(&self, topic: &str) -> Vec<Read> {
        self.read_as(topic, "read_committed")
    }

    pub fn read_as(&self, topic: &str, isolation: &str) -> Vec<Read> {
        // A client that was made while a broker had only just started may wait for ever: the next one does not.
        let mut tries = (0..4).filter_map(|_| self.read_within(Duration::from_secs(20), topic, isolation));
        tries.next().unwrap_or_else(|| panic!("{topic} does not come to its end"))
    }

    fn read_within(&self, time: Duration, topic: &str, isolation: &str) -> Option<Vec<Read>> {
        let consumer: BaseConsumer = self
            .config()
            .set("group.id", "test")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", isolation)
            .set("fetch.wait.max.ms", "10")
            .create()
            .unwrap();
        let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).unwrap();
        let partitions = metadata.topics()[0].partitions().len();
        assert!(partitions > 0, "no topic {topic}");
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition as i32, Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        let (mut ended, mut seen, mut all) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        // Long topics take their time; one of which nothing comes does not.
        let mut until = Instant::now() + time;
        while ended.len() < partitions {
            if Instant::now() > until {
                return None;
            }
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    ended.insert(partition);
                }
                // Of several nodes one may be away.
                Some(Err(error)) if error.rdkafka_error_code().is_some_and(is_away) => {}
                Some(Err(error)) => panic!("{error}"),
                // A client that learns of a new leader may begin a partition anew: each place is one record all the same.
                Some(Ok(record))
                    if seen.get(&record.partition()).is_some_and(|last| *last >= record.offset()) => {}
                Some(Ok(record)) => {
                    seen.insert(record.partition(), record.offset());
                    until = Instant::now() + time;
                    all.push(Read {
                        partition: record.partition(),
                        offset: record.offset(),
                        timestamp: record.timestamp().to_millis().map(Time::from_millis),
                        message: Message {
                            key: record.key().map(|key| key.to_vec().into()),
                            body: record.payload().map(|body| body.to_vec().into()),
                            headers: record
                                .headers()
                                .map(|headers| {
                                    headers
                                        .iter()
                                        .map(|header| {
                                            let value = header.value.map(|value| value.to_vec());
                                            (
                                                header.key.to_owned(),
                                                value.map_or(Value::Null, Value::from_bytes),
                                            )
                                        })
                                        .collect()
                                })
                                .unwrap_or_default(),
                            ..Message::default()
                        },
                    });
                }
            }
        }
        all.sort_by_key(|read| (read.partition, read.offset));
        Some(all)
    }

    pub fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    /// Own settings of a topic.
    pub async fn settings(&self, topic: &str) -> HashMap<String, String> {
        let found = self
            .admin()
            .describe_configs([&ResourceSpecifier::Topic(topic)], &AdminOptions::new())
            .await
            .unwrap();
        let entries = found.into_iter().next().unwrap().unwrap().entries;
        entries
            .into_iter()
            .filter(|entry| matches!(entry.source, rdkafka::admin::ConfigSource::DynamicTopic))
            .filter_map(|entry| Some((entry.name, entry.value?)))
            .collect()
    }

    /// Changes one setting; the others stay, since all of them are sent.
    pub async fn set(&self, topic: &str, name: &str, value: &str) {
        let mut settings = self.settings(topic).await;
        settings.insert(name.to_owned(), value.to_owned());
        let mut alter = AlterConfig::new(ResourceSpecifier::Topic(topic));
        for (name, value) in &settings {
            alter = alter.set(name, value);
        }
        for result in self.admin().alter_configs([&alter], &AdminOptions::new()).await.unwrap() {
            result.unwrap();
        }
        let until = Instant::now() + Duration::from_secs(10);
        while self.settings(topic).await != settings {
            assert!(Instant::now() < until, "{topic} does not hear of {name}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes in a transaction: committed, aborted, or left open as long as the producer lives.
    pub fn transact(&self, topic: &str, messages: &[Message], commit: Option<bool>) -> BaseProducer {
        let wait = Duration::from_secs(20);
        let id = unique("test-transaction");
        let producer: BaseProducer = self
            .config()
            .set("transactional.id", &id)
            .set("transaction.timeout.ms", "20000")
            .set("partitioner", "murmur2_random")
            .create()
            .unwrap();
        producer.init_transactions(wait).unwrap();
        producer.begin_transaction().unwrap();
        for message in messages {
            let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
            record.key = message.key.as_deref();
            record.payload = message.body.as_deref();
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(wait).unwrap();
        match commit {
            Some(true) => producer.commit_transaction(wait).unwrap(),
            Some(false) => producer.abort_transaction(wait).unwrap(),
            None => {}
        }
        producer
    }

    /// Records of a topic by their offsets, markers counted.
    pub fn ends(&self, topic: &str) -> i64 {
        let consumer: BaseConsumer = self.config().set("group.id", "test").create().unwrap();
        let wait = Duration::from_secs(10);
        let metadata = consumer.fetch_metadata(Some(topic), wait).unwrap();
        let partitions = metadata.topics()[0].partitions().len() as i32;
        // A client that has just begun may not know yet who leads a partition, and says that there is none.
        let until = Instant::now() + 3 * wait;
        let end = |partition| loop {
            match consumer.fetch_watermarks(topic, partition, wait) {
                Ok((_, end)) => return end,
                Err(error) => assert!(Instant::now() < until, "{topic} {partition}: {error}"),
            }
        };
        (0..partitions).map(end).sum()
    }

    /// Deletes the topics of a test, whose names begin with its own; a broker that is gone keeps them.
    pub fn forget(&self, name: &str) {
        let Ok(admin) = self.config().create::<AdminClient<DefaultClientContext>>() else { return };
        let Ok(metadata) = admin.inner().fetch_metadata(None, Duration::from_secs(5)) else { return };
        let ours: Vec<&str> = metadata
            .topics()
            .iter()
            .map(|topic| topic.name())
            .filter(|topic| topic.starts_with(name))
            .collect();
        if ours.is_empty() {
            return;
        }
        // In a thread of its own: a test may end inside a runtime.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                if let Ok(runtime) = runtime {
                    let _ = runtime.block_on(admin.delete_topics(&ours, &AdminOptions::new()));
                }
            });
        });
    }

    /// Deletes a topic and waits until it is gone.
    pub async fn delete(&self, topic: &str) {
        let admin = self.admin();
        for result in admin.delete_topics(&[topic], &AdminOptions::new()).await.unwrap() {
            result.unwrap();
        }
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let metadata = admin.inner().fetch_metadata(None, Duration::from_secs(10)).unwrap();
            if !metadata.topics().iter().any(|known| known.name() == topic) {
                return;
            }
            assert!(Instant::now() < until, "{topic} is not deleted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Deletes the records of a partition before an offset, as retention does.
    pub async fn trim(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        self.admin().delete_records(&list, &AdminOptions::new()).await.unwrap();
    }

    /// Deletes all records of a topic.
    pub async fn trim_all(&self, topic: &str) {
        let mut ends = HashMap::new();
        for read in self.read(topic) {
            ends.insert(read.partition, read.offset + 1);
        }
        for (partition, end) in ends {
            self.trim(topic, partition, end).await;
        }
    }

    /// Makes a topic, with the broker's own settings.
    pub async fn create(&self, topic: &str, partitions: i32) {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for made in self.admin().create_topics([&new], &AdminOptions::new()).await.unwrap() {
            made.unwrap();
        }
        let until = Instant::now() + Duration::from_secs(10);
        let known = || self.admin().inner().fetch_metadata(Some(topic), Duration::from_secs(5)).unwrap();
        while known().topics()[0].partitions().is_empty() {
            assert!(Instant::now() < until, "{topic} is not there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Names of all consumer groups.
    pub fn groups(&self) -> Vec<String> {
        let consumer: BaseConsumer = self.config().set("group.id", "test-asks").create().unwrap();
        let list = consumer.fetch_group_list(None, Duration::from_secs(10)).unwrap();
        list.groups().iter().map(|group| group.name().to_owned()).collect()
    }

    /// Commits `read` records as read, over the partitions from the first.
    pub fn commit(&self, group: &str, topic: &str, read: usize) {
        let consumer: BaseConsumer =
            self.config().set("group.id", group).set("enable.auto.commit", "false").create().unwrap();
        let mut list = TopicPartitionList::new();
        let mut offsets: HashMap<i32, i64> = (0..3).map(|partition| (partition, 0)).collect();
        for record in self.read(topic).iter().take(read) {
            offsets.insert(record.partition, record.offset + 1);
        }
        for (partition, offset) in offsets {
            list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        }
        consumer.commit(&list, rdkafka::consumer::CommitMode::Sync).unwrap();
    }
}
