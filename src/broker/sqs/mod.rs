//! Amazon SQS, standard and FIFO, by the AWS SDK. [`kind`] is pure and always compiled in; the rest is behind
//! the feature `sqs`. What SQS and its emulators do is in `docs/sqs.md`.

mod kind;

#[cfg(feature = "sqs")]
mod browse;
#[cfg(feature = "sqs")]
mod calls;
#[cfg(feature = "sqs")]
mod client;
#[cfg(feature = "sqs")]
mod convert;
#[cfg(feature = "sqs")]
mod policy;
#[cfg(feature = "sqs")]
mod provision;
#[cfg(feature = "sqs")]
mod relocate;
#[cfg(feature = "sqs")]
mod roles;
#[cfg(feature = "sqs")]
mod send;
#[cfg(feature = "sqs")]
mod serve;
#[cfg(feature = "sqs")]
mod stamps;
#[cfg(feature = "sqs")]
mod task;
#[cfg(feature = "sqs")]
mod window;

pub use kind::{SqsKind, delay_seconds};
