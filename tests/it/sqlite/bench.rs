//! A file of its own for a test, with a channel and an application at it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redrive::broker::sqlite::{Application, SqliteKind};
use redrive::broker::{Broker, Kind, OpenContext};
use redrive::clock::{Clock, SystemClock};
use redrive::letter::{Message, Value};
use redrive::plan::Change;
use redrive::topology::{At, BrokerDecl, Channel, DeadLetterDecl, GroupRule, Tier};

/// A folder, the clock, a channel.
pub struct Bench {
    folder: PathBuf,
    /// Removed at the end, if it is ours.
    _made: Option<tempfile::TempDir>,
    pub clock: Arc<dyn Clock>,
    pub channel: Channel,
}

impl Bench {
    /// By the system's clock, nothing provisioned.
    pub fn empty() -> Self {
        Self::at(Arc::new(SystemClock))
    }

    /// By this clock, nothing provisioned.
    pub fn at(clock: Arc<dyn Clock>) -> Self {
        let made = tempfile::tempdir().unwrap();
        Self { folder: made.path().to_owned(), _made: Some(made), clock, channel: channel("orders") }
    }

    /// Of another process.
    pub fn of_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            _made: None,
            clock: Arc::new(SystemClock),
            channel: channel("orders"),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// By this clock, provisioned.
    pub async fn provisioned(clock: Arc<dyn Clock>) -> Self {
        let bench = Self::at(clock);
        provision(&*bench.open(true).await, &bench.channel).await;
        bench
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("redrive.db")
    }

    pub fn decl(&self) -> BrokerDecl {
        BrokerDecl {
            name: At::nowhere("local".to_owned()),
            url: At::nowhere("sqlite:redrive.db".to_owned()),
            ..BrokerDecl::default()
        }
    }

    pub fn context(&self, writes: bool) -> OpenContext {
        OpenContext { clock: self.clock.clone(), base: self.folder.clone(), writes }
    }

    pub async fn open(&self, writes: bool) -> Box<dyn Broker> {
        SqliteKind.open(&self.decl(), &self.context(writes)).await.unwrap()
    }

    pub fn application(&self) -> Application {
        Application::open(&self.decl(), &self.context(true)).unwrap()
    }
}

/// `orders` with tiers of 5 s and 1 m and a dead-letter queue that keeps 14 d.
pub fn channel(name: &str) -> Channel {
    let tier = |delay: u64, name: &str| Tier {
        name: At::nowhere(name.to_owned()),
        name_written: false,
        delay: At::nowhere(Duration::from_secs(delay)),
    };
    Channel {
        name: At::nowhere(name.to_owned()),
        source: At::nowhere(name.to_owned()),
        group: At::nowhere(GroupRule::Key),
        tiers: vec![tier(5, "retry-5s"), tier(60, "retry-1m")],
        dead_letter: DeadLetterDecl {
            retention: Some(At::nowhere(Duration::from_secs(14 * 86_400))),
            ..DeadLetterDecl::default()
        },
        ..Channel::default()
    }
}

/// Makes every desired resource.
pub async fn provision(broker: &dyn Broker, channel: &Channel) {
    for resource in broker.desired(&[channel]) {
        broker.make(&Change::Create { resource }).await.unwrap();
    }
}

/// A message with a key and a body.
pub fn message(key: &str, body: &str) -> Message {
    Message {
        key: (!key.is_empty()).then(|| key.to_owned().into()),
        body: Some(body.to_owned().into()),
        headers: [("event-id".to_owned(), Value::from_text(format!("ev-{body}")))].into_iter().collect(),
        ..Message::default()
    }
}

/// The body as text.
pub fn body(message: &Message) -> &str {
    message.body.as_deref().map_or("null", |body| std::str::from_utf8(body).unwrap())
}
