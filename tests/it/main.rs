//! The one integration-test binary: see `docs/architecture.md`, "Tests".
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod architecture;
mod causes;
mod cli;
mod consumer_contract;
mod contract;
mod dialects;
mod engine;
mod generated;
#[cfg(feature = "kafka")]
mod kafka;
mod topology;
// Last by name, so that what was not run is summed up last.
mod zz_servers;

mod readme;
mod sqlite;

#[cfg(feature = "rabbitmq")]
mod rabbitmq;

#[cfg(feature = "sqs")]
mod sqs;
