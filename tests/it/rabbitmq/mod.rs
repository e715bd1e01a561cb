//! RabbitMQ on a real server, which `scripts/test` starts and names in the environment.

mod look;
mod relocate;
mod server;
