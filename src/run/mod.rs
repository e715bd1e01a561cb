//! Runs: what a redrive decides and does. Order ([`lanes`]), decisions ([`machine`]), resume ([`recovery`])
//! and [`pace`] are pure; the [`engine`] joins them to a ledger and a broker's mover.

pub mod copy;
pub mod engine;
pub mod event;
#[cfg(test)]
mod hostile;
pub mod lanes;
pub mod machine;
pub mod numbered;
pub mod overtaken;
pub mod pace;
pub mod prepare;
pub mod recovery;
#[cfg(test)]
mod walk;
pub mod yielding;
