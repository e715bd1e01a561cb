//! KafkaFlow's durable retry: records of its own internal retry topic. Their state is in its database, so a
//! record sent from here would be handled outside of it.

use super::{Dialect, Form, Look, Mark, Testimony};
use crate::failure::{Death, Prospect, Sureness};
use crate::letter::Header;

const PREFIX: &str = "Kafka-Flow-Retry-Durable-";
const ATTEMPTS: &str = "Kafka-Flow-Retry-Durable-Attempts-Count";

/// See the file's head.
pub(super) struct KafkaFlow;

impl Dialect for KafkaFlow {
    fn name(&self) -> &'static str {
        "kafkaflow"
    }

    fn about(&self) -> &'static str {
        "KafkaFlow durable retry, its internal retry topic"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Prefix(PREFIX)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let found = letter.headers().iter().find(|header| header.name.starts_with(PREFIX))?;
        Some((Sureness::Sure, format!("header {}", found.name)))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        says.attempts = says.number("attempts", ATTEMPTS, letter.headers().last(ATTEMPTS), Form::Integer);
        says.deaths.push(Death { count: 1, ..Death::default() });
        says.prospect(Prospect::Refused {
            why: "it lies in KafkaFlow's own retry topic and its state is in KafkaFlow's database: it would be handled twice"
                .to_owned(),
            way_round: "retry its queue by KafkaFlow's own retry API".to_owned(),
        });
    }

    fn owns(&self, header: &Header) -> bool {
        header.name.starts_with(PREFIX)
    }
}
