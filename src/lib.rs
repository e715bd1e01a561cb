//! `redrive`: the way back for dead letters.
//!
//! The inside decides and knows no broker, terminal or YAML; each outside thing has one file that
//! translates; the verbs in [`cli`] join them. `docs/architecture.md` has the picture and the table of
//! what each module may import, held by `tests/it/architecture.rs`.

pub mod broker;
pub mod cli;
pub mod clock;
pub mod dead_letter;
pub mod diagnostic;
pub mod dialect;
pub mod explain;
pub mod failure;
pub mod ledger;
pub mod letter;
pub mod manifest;
pub mod plan;
pub mod proof;
pub mod redact;
pub mod relay;
pub mod render;
pub mod run;
pub mod selection;
pub mod stamp;
pub mod topology;
pub mod triage;
