//! RabbitMQ on a real server, which `scripts/test` starts and names in the environment.

mod cases;
mod consumer;
mod exchange;
mod faults;
mod goes_on;
mod gone;
mod look;
mod own;
mod program;
mod provision;
mod refusals;
mod relocate;
mod rights;
pub mod server;
mod whole;
