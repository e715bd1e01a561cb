//! Choices: a word, or a map of one key.

use super::super::keys::{self, Key};
use super::super::yaml::{Node, Value};
use super::super::{At, codes, nearest::nearest, scalars};
use super::{Checked, Reader};
use crate::diagnostic::Diagnostic;

impl Reader<'_> {
    pub(super) fn choice(
        &mut self,
        key: &'static Key,
        variants: &'static [keys::Variant],
        node: &Node,
    ) -> Option<Checked> {
        let forms = scalars::forms(variants);
        match &node.value {
            Value::Scalar { .. } => {
                let text = self.scalar_text(key.name, node)?;
                let found = variants.iter().find(|variant| variant.word == text.value);
                match found {
                    Some(variant) if variant.takes == keys::Takes::Nothing => {
                        Some(Checked::Choice(At { value: (variant.word, String::new()), span: text.span }))
                    }
                    Some(variant) => {
                        self.problem(
                            Diagnostic::error(
                                codes::WORD,
                                format!("`{}: {}` needs to know which", key.name, variant.word),
                            )
                            .at(text.span, format!("which {}?", variant.word))
                            .help(format!(
                                "write {{{}: {}}}",
                                variant.word,
                                scalars::sample(variant)
                            )),
                        );
                        None
                    }
                    None => {
                        let problem = Diagnostic::error(
                            codes::WORD,
                            format!("`{}` cannot be `{}`", key.name, text.value),
                        )
                        .at(text.span, "not one of the choices")
                        .help(format!("choices: {forms}"));
                        self.problem(problem);
                        None
                    }
                }
            }
            Value::List(_) => {
                self.problem(
                    Diagnostic::error(codes::KIND, format!("`{}` is a list", key.name))
                        .at(node.place(), "expected one choice")
                        .help(format!("choices: {forms}")),
                );
                None
            }
            Value::Map(_) => {
                let entries = self.entries(node, &format!("`{}`", key.name))?;
                let [(word, value)] = entries else {
                    let place =
                        entries.get(1).map_or_else(|| node.place(), |(second, _)| second.span.clone());
                    self.problem(
                        Diagnostic::error(codes::WORD, format!("`{}` takes exactly one choice", key.name))
                            .at(place, "one too many, or none")
                            .help(format!("choices: {forms}")),
                    );
                    return None;
                };
                let Some(variant) =
                    variants.iter().find(|v| v.word == word.value && v.takes != keys::Takes::Nothing)
                else {
                    let near = nearest(&word.value, variants.iter().map(|v| v.word));
                    let mut problem =
                        Diagnostic::error(codes::WORD, format!("`{}` cannot be `{}`", key.name, word.value))
                            .at(word.span.clone(), "not one of the choices");
                    problem = match near.filter(|near| *near != word.value) {
                        Some(near) => problem.help(format!("did you mean {near}?")),
                        None => problem.help(format!("choices: {forms}")),
                    };
                    self.problem(problem);
                    return None;
                };
                let text = self.text(variant.word, value)?;
                if variant.takes == keys::Takes::Pointer && !scalars::is_pointer(&text.value) {
                    self.problem(
                        Diagnostic::error(codes::POINTER, format!("`{}` is not a JSON pointer", text.value))
                            .at(text.span.clone(), "a place in the body")
                            .help(
                                "a pointer begins with a slash: /order/id; ~ is written ~0, / in a name ~1",
                            ),
                    );
                    return None;
                }
                Some(Checked::Choice(At { value: (variant.word, text.value), span: text.span }))
            }
        }
    }
}
