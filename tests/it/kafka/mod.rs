//! Kafka on a real broker: `scripts/brokers/kafka start FOLDER` says where it is. Without it these tests print one
//! line and end; with `REDRIVE_TEST_REQUIRE=1` they fail.

mod adapter;
pub mod bench;
mod faults;
mod lanes;
mod looking;
mod moving;
mod nodes;
mod others;
mod program;
mod proxy;
mod relay;
mod rights;
mod server;
