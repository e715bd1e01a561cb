//! The rules of a topology: one function each, in [`RULES`]. What only one broker asks for stands with that
//! broker (`Kind::check`).

use super::Topology;
use crate::diagnostic::Diagnostic;

/// One rule: looks at a topology and says what is wrong.
pub(super) type Rule = fn(&Topology, &mut Vec<Diagnostic>);

/// Every rule.
pub(super) static RULES: &[Rule] = &[];

/// All that is wrong with a topology.
pub(super) fn check(topology: &Topology) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for rule in RULES {
        rule(topology, &mut found);
    }
    found
}
