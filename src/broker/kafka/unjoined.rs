//! A consumer that asks and reads without joining a group, and goes at once. The client crate lets one wait for a
//! tenth of a second when it is dropped, whatever it still has to do: a run opens one for each partition, and a look
//! three.

use std::ops::Deref;
use std::time::Duration;

use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaResult;

use super::client::Heard;

/// How often, a millisecond each, it is looked whether it is closed; what takes longer the client crate waits for.
const LOOKS: usize = 50;

/// See the file's head.
pub(super) struct Unjoined(BaseConsumer<Heard>);

impl Unjoined {
    /// By these settings, which name a group all the same: the client has a queue to read from only then.
    pub(super) fn of(config: &ClientConfig, heard: Heard) -> KafkaResult<Self> {
        BaseConsumer::from_config_and_context(config, heard).map(Self)
    }
}

impl Deref for Unjoined {
    type Target = BaseConsumer<Heard>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Unjoined {
    fn drop(&mut self) {
        // Nothing more is fetched for it to throw away.
        let _ = self.0.unassign();
        if self.0.close_queue().is_err() {
            return;
        }
        for _ in 0..LOOKS {
            if self.0.closed() {
                break;
            }
            // What else it has to tell nobody asks for.
            let _ = self.0.poll(Duration::from_millis(1));
        }
    }
}
