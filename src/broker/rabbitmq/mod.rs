//! RabbitMQ. [`kind`] is pure and always compiled in.

mod address;
pub mod cycle;
mod kind;

pub use kind::{RabbitKind, ttl};
