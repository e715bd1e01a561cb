//! The embedded broker as processes and files: what the contract suites, which run over every broker,
//! cannot ask.

mod application;
mod bench;
mod files;
