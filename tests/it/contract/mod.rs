//! What every broker must do, whatever it is: suites over the ports. A broker plugs in with a [`Bench`] and
//! one line per suite; see `sqlite.rs`.

pub mod browse;
#[cfg(feature = "kafka")]
mod kafka;
pub mod provision;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
pub mod relocate;
mod sqlite;
#[cfg(feature = "sqs")]
mod sqs;

use std::time::Duration;

use async_trait::async_trait;
use redrive::broker::{Broker, Kind};
use redrive::clock::Time;
use redrive::letter::{Headers, Message, Short, Value};
use redrive::topology::Channel;

/// A broker under test. Each test makes one of its own; names carry a random suffix, so tests share a server
/// and leave their queues behind.
#[async_trait]
pub trait Bench: Send + Sync {
    /// The broker's kind.
    fn kind(&self) -> &'static dyn Kind;

    /// The channel of this bench: two tiers, a dead-letter queue, a group rule that [`Bench::message`]
    /// obeys, names that nobody else uses.
    fn channel(&self) -> Channel;

    /// Opens the broker; `writes` as in its open context.
    async fn open(&self, writes: bool) -> Box<dyn Broker>;

    /// Writes messages into a queue by the broker's own means, in this order.
    async fn produce(&self, queue: &str, messages: &[Message]);

    /// The same, `age` ago, where the broker can be made to believe it.
    async fn produce_aged(&self, queue: &str, messages: &[Message], age: Duration);

    /// All of a queue by the broker's own means, in the broker's order; it may consume them.
    async fn drain(&self, queue: &str) -> Vec<Message>;

    /// As an application: takes the first visible message of a queue out for good. `None`: there is none.
    async fn take(&self, queue: &str) -> Option<Message>;

    /// Lets time pass, for leases and locks.
    async fn pass(&self, by: Duration);

    /// The time there.
    fn now(&self) -> Time;

    /// A message of a group, with a business header and a body.
    fn message(&self, group: &str, body: &str) -> Message;

    /// Messages with everything that this broker can carry: types, null, empty, missing, duplicates, bytes.
    fn samples(&self) -> Vec<Message>;

    /// The channel with a change of it that can lose letters (a shorter retention: 1 d); `None` where the
    /// broker has none.
    fn shrunk(&self) -> Option<Channel>;

    /// How long a claim lasts in these suites, which `pass` has to outlast: short where time is real.
    fn lease(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Does the broker tell how old the messages of a queue are without handing them out?
    fn tells_age(&self) -> bool {
        true
    }

    /// How many letters make it page.
    fn many(&self) -> usize {
        2_500
    }

    /// Headers and properties that the broker adds to what was produced, and that do not count.
    fn own(&self, _name: &str) -> bool {
        false
    }
}

/// The body as text.
pub fn body(message: &Message) -> String {
    message.body.as_ref().map_or("null".to_owned(), |body| String::from_utf8_lossy(body).into_owned())
}

/// The bodies as texts.
pub fn bodies(messages: &[Message]) -> Vec<String> {
    messages.iter().map(body).collect()
}

/// Equal in all that a producer wrote.
pub fn assert_same(bench: &dyn Bench, sent: &Message, got: &Message, also_there: &[&str]) {
    assert_eq!(sent.key, got.key, "key");
    assert_eq!(sent.body, got.body, "body");
    let written = |headers: &Headers| -> Vec<(Short, Value)> {
        headers
            .iter()
            .filter(|header| !bench.own(&header.name) && !also_there.contains(&header.name.as_str()))
            .map(|header| (header.name.clone(), header.value.clone()))
            .collect()
    };
    assert_eq!(written(&sent.headers), written(&got.headers), "headers");
    assert_eq!(written(&sent.properties), written(&got.properties), "properties");
}

/// Makes every desired resource of the channel.
pub async fn provision(bench: &dyn Bench) -> (Box<dyn Broker>, Channel) {
    let broker = bench.open(true).await;
    let channel = bench.channel();
    provision::apply(&*broker, &channel).await;
    (broker, channel)
}

/// Names each test of a suite for one broker: `suite!(browse, new_bench; case, case, …)`.
macro_rules! tests_of {
    ($suite:ident, $bench:expr; $($case:ident),* $(,)?) => {
        mod $suite {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::contract::$suite::$case(&$bench).await;
                }
            )*
        }
    };
}
pub(crate) use tests_of;
