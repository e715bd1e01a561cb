//! Single values: texts, secrets, and references to the environment and to files.

use std::ops::Range;

use super::super::keys::{Key, Kind};
use super::super::outside::{self, Trouble};
use super::super::yaml::{Node, Value};
use super::super::{At, Secret, codes, scalars};
use super::{Checked, Reader, kind_word};
use crate::diagnostic::Diagnostic;

impl Reader<'_> {
    pub(super) fn scalar(&mut self, key: &'static Key, node: &Node) -> Option<Checked> {
        match &key.kind {
            Kind::Secret { literal } => return self.secret(key.name, node, *literal).map(Checked::Secret),
            Kind::Text => return self.text(key.name, node).map(Checked::Text),
            Kind::Url => return self.url(key.name, node).map(Checked::Secret),
            _ => {}
        }
        let written_plain = matches!(&node.value, Value::Scalar { plain: true, .. });
        let has_reference = matches!(&node.value, Value::Scalar { text, .. } if outside::has_reference(text));
        let text = self.scalar_text(key.name, node)?;
        let plain = written_plain || has_reference;
        match scalars::read(key, &text.value, plain, text.span.clone()) {
            Ok(checked) => Some(checked),
            Err(problem) => {
                self.problem(*problem);
                None
            }
        }
    }

    /// A text that is not empty.
    pub(super) fn text(&mut self, name: &str, node: &Node) -> Option<At<String>> {
        let text = self.scalar_text(name, node)?;
        if text.value.trim().is_empty() {
            self.problem(
                Diagnostic::error(codes::EMPTY, format!("`{name}` is empty"))
                    .at(node.span.clone(), "")
                    .help("write a value, or take the line away"),
            );
            return None;
        }
        Some(text)
    }

    /// Any text, with references followed.
    pub(super) fn scalar_text(&mut self, name: &str, node: &Node) -> Option<At<String>> {
        let Value::Scalar { text, .. } = &node.value else {
            self.problem(
                Diagnostic::error(codes::KIND, format!("`{name}` is {}, not one value", kind_word(node)))
                    .at(node.place(), "expected one value"),
            );
            return None;
        };
        if !outside::has_reference(text) {
            return Some(At { value: text.clone(), span: node.span.clone() });
        }
        let followed = outside::follow(text, self.outside);
        self.troubles(&followed.troubles, &node.span);
        if followed.text.is_none() {
            self.unresolved.push(At { value: outside::references(text), span: node.span.clone() });
        }
        followed.text.map(|value| At { value, span: node.span.clone() })
    }

    /// The url as a secret, for it may hold one that came from outside.
    pub(super) fn url(&mut self, name: &str, node: &Node) -> Option<At<Secret>> {
        let Value::Scalar { text, .. } = &node.value else {
            return self.text(name, node).map(|_| At::default());
        };
        if !outside::has_reference(text) {
            let text = self.text(name, node)?;
            return Some(At { value: Secret::new(text.value.clone(), text.value), span: text.span });
        }
        self.secret(name, node, true)
    }

    pub(super) fn secret(&mut self, name: &str, node: &Node, literal: bool) -> Option<At<Secret>> {
        let Value::Scalar { text, .. } = &node.value else {
            return self.text(name, node).map(|_| At::default());
        };
        let followed = outside::follow(text, self.outside);
        if !literal && !outside::is_only_references(text) {
            self.secret_places.push(node.span.clone());
            self.problem(
                Diagnostic::error(codes::PLAIN_SECRET, format!("the secret of `{name}` is written out"))
                    .at(node.span.clone(), "not shown")
                    .help(format!("write {name}: \"${{VARIABLE}}\" or \"${{file:PATH}}\", and change the secret: it is in this file's history")),
            );
            return None;
        }
        self.troubles(&followed.troubles, &node.span);
        let value = match followed.text {
            Some(value) => Secret::new(value, text.clone()),
            None => {
                self.unresolved.push(At { value: outside::references(text), span: node.span.clone() });
                Secret::unresolved(text.clone())
            }
        };
        Some(At { value, span: node.span.clone() })
    }

    pub(super) fn troubles(&mut self, troubles: &[Trouble], span: &Range<usize>) {
        for trouble in troubles {
            let problem = match trouble {
                Trouble::Unset(name) => {
                    let title = format!("the variable `{name}` is not set");
                    let problem = if self.in_brokers {
                        Diagnostic::warning(codes::UNSET, title)
                            .help("connecting needs it; checking does not")
                    } else {
                        Diagnostic::error(codes::UNSET, title)
                            .help(format!("set {name}, or write a default: ${{{name}:-VALUE}}"))
                    };
                    problem.at(span.clone(), "comes from the environment")
                }
                Trouble::Empty(name) => {
                    let title = format!("the variable `{name}` is set to nothing");
                    let problem = if self.in_brokers {
                        Diagnostic::warning(codes::EMPTY_VARIABLE, title)
                    } else {
                        Diagnostic::error(codes::EMPTY_VARIABLE, title)
                    };
                    problem
                        .at(span.clone(), "comes from the environment")
                        .help(format!("it counts as not set; if nothing is meant, write ${{{name}:-}}"))
                }
                Trouble::Unreadable(path, why) => {
                    let title = format!("the secret file `{path}` cannot be read: {why}");
                    let problem = if self.in_brokers {
                        Diagnostic::warning(codes::SECRET_FILE, title)
                            .help("connecting needs it; checking does not")
                    } else {
                        Diagnostic::error(codes::SECRET_FILE, title)
                    };
                    problem.at(span.clone(), "relative to the topology file")
                }
                Trouble::Readable(path) => Diagnostic::warning(
                    codes::OPEN_SECRET_FILE,
                    format!("every user of this machine can read the secret file `{path}`"),
                )
                .at(span.clone(), "this file")
                .help(format!("chmod 600 {path}")),
                Trouble::Malformed(what) => Diagnostic::error(
                    codes::REFERENCE,
                    format!("`{what}` is not a reference that can be followed"),
                )
                .at(span.clone(), "")
                .help("write ${NAME}, ${NAME:-default} or ${file:PATH}; a literal ${ is $${"),
            };
            self.problem(problem);
        }
    }
}
