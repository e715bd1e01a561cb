//! Runs: what a redrive decides and does. Order ([`lanes`]), decisions ([`machine`]), resume ([`recovery`])
//! and pace are pure; the driver joins them to a ledger and a broker's mover.

pub mod lanes;
pub mod machine;
mod mutation;
pub mod pace;
pub mod recovery;
#[cfg(test)]
mod walk;
