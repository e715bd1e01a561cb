//! RabbitMQ on a real server, which `scripts/test` starts and names in the environment.

mod consumer;
mod faults;
mod look;
mod own;
mod provision;
mod refusals;
mod relocate;
pub mod server;
mod whole;
