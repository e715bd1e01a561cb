//! Apache Kafka. [`kind`] is pure and always compiled in.

mod kind;

pub use kind::KafkaKind;
