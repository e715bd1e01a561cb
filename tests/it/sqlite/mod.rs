//! The embedded broker as processes and files: what the contract suites, which run over every broker,
//! cannot ask.

mod application;
pub mod bench;
mod beside;
mod documented;
mod files;
mod hostile;
mod marks;
mod processes;
mod relay;
