//! What the built program prints and exits with. [`TestEnv`] is the harness of every test that runs it.

mod env;
mod framework;

pub use env::{Run, TestEnv};
