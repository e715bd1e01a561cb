//! What a relay's group says: which partitions went and came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientContext, TopicPartitionList};

use super::client::{Client, Heard};
use super::ears::Partition;

/// Partitions that a rebalance took away or gave: what was fetched of them before is another relay's, or old.
#[derive(Clone, Default)]
pub(super) struct Watch {
    heard: Heard,
    moved: Arc<Mutex<Vec<(Partition, bool)>>>,
    /// The group has met, and this one was given its share, which may be nothing.
    met: Arc<AtomicBool>,
}

impl Watch {
    pub(super) fn of(client: &Client) -> Self {
        Self { heard: client.heard.clone(), ..Self::default() }
    }

    /// Partitions that went and came since this was asked last, in order.
    pub(super) fn moved(&self) -> Vec<(Partition, bool)> {
        std::mem::take(&mut *self.moved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn has_met(&self) -> bool {
        self.met.load(Ordering::SeqCst)
    }

    fn note(&self, list: &TopicPartitionList, came: bool) {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let partition = |one: &TopicPartitionListElem<'_>| (one.topic().to_owned(), one.partition());
        moved.extend(list.elements().iter().map(|one| (partition(one), came)));
    }
}

impl ClientContext for Watch {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.heard.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.heard.error(error, reason);
    }
}

impl ConsumerContext for Watch {
    fn pre_rebalance(&self, _consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            self.note(list, false);
        }
    }

    fn post_rebalance(&self, _consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            self.note(list, true);
            self.met.store(true, Ordering::SeqCst);
        }
    }
}
