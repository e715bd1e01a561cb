//! Options of a client against the list of those that an adapter takes.

use super::BrokerDecl;
use crate::diagnostic::Diagnostic;
use crate::topology::{codes, nearest};

/// Why an option is refused though the client knows it: `(name, why)`.
pub(super) type Refused = (&'static str, &'static str);

/// Options off the list are errors at their line; those of `refused` say why.
pub(super) fn check(
    broker: &BrokerDecl,
    title: &str,
    allowed: &[&str],
    refused: &[Refused],
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, _) in &broker.options {
        if allowed.contains(&name.value.as_str()) {
            continue;
        }
        if let Some((_, why)) = refused.iter().find(|(known, _)| *known == name.value) {
            found.push(
                Diagnostic::error(codes::OPTION_REFUSED, format!("the option `{}` is not taken", name.value))
                    .at(name.span.clone(), *why)
                    .help("take it away"),
            );
            continue;
        }
        let problem = Diagnostic::error(codes::OPTION_UNKNOWN, format!("unknown option `{}`", name.value))
            .at(name.span.clone(), format!("not an option for {title} here"));
        found.push(match nearest(&name.value, allowed.iter().copied()) {
            Some(near) => problem.help(format!("did you mean {near}?")),
            None if allowed.is_empty() => problem.help(format!("{title} takes no options")),
            None if allowed.len() <= 12 => problem.help(format!("options: {}", allowed.join(", "))),
            None => problem.help("the list of options is in docs/topology.md"),
        });
    }
    found
}
