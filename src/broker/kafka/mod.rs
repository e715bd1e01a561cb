//! Apache Kafka, by librdkafka. [`kind`] is pure and always compiled in; the rest is behind the feature `kafka`.
//! What Kafka does and does not do is in `docs/kafka.md`.

mod kind;

#[cfg(feature = "kafka")]
mod assigned;
#[cfg(feature = "kafka")]
mod browse;
#[cfg(feature = "kafka")]
mod client;
#[cfg(feature = "kafka")]
mod counting;
#[cfg(feature = "kafka")]
mod ears;
#[cfg(feature = "kafka")]
mod look;
#[cfg(feature = "kafka")]
mod marks;
#[cfg(feature = "kafka")]
mod murmur;
#[cfg(feature = "kafka")]
mod pointer;
#[cfg(feature = "kafka")]
mod producer;
#[cfg(feature = "kafka")]
mod provision;
#[cfg(feature = "kafka")]
mod raw;
#[cfg(feature = "kafka")]
mod relocate;
#[cfg(feature = "kafka")]
mod remarks;
#[cfg(feature = "kafka")]
mod roles;
#[cfg(feature = "kafka")]
mod serve;
#[cfg(feature = "kafka")]
mod spot;
#[cfg(feature = "kafka")]
mod unjoined;

pub use kind::KafkaKind;
