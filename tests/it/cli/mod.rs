//! What the built program prints and exits with. [`TestEnv`] is the harness of every test that runs it.

mod agreement;
mod check;
mod context;
mod demo;
pub mod env;
mod explain;
mod framework;
mod looking;
mod looking_cases;
mod output;
mod provisioning;
mod refused;
pub mod screen;
mod secrets;
#[cfg(any(feature = "kafka", feature = "rabbitmq", feature = "sqs"))]
mod waiting;

#[allow(unused_imports, reason = "named by tests that keep a run")]
pub use env::{Run, TestEnv};
