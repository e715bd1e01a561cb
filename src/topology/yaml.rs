//! YAML text into a tree whose keys and scalars know their place. The only file that names the YAML crate.
//!
//! It reads the parser's events instead of going through serde: serde stops at the first problem, loses the
//! places of containers, and cannot show both places of a key given twice. What leaves this file is our own
//! tree; `read.rs` compares it with the key table. See `docs/decisions/yaml-crate.md`.

use std::collections::HashMap;
use std::ops::Range;

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle};

use super::{At, codes};
use crate::diagnostic::Diagnostic;

/// Most bytes of a topology file.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Most nodes after aliases are followed.
const MAX_NODES: usize = 50_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 24;
/// Most aliases.
const MAX_ALIASES: usize = 1_000;

/// A node of the tree.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Bytes of the source; of a container only where it begins.
    pub span: Range<usize>,
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Text after YAML's escapes; `plain` without quotes, so that it may be a number, a boolean or nothing.
    Scalar {
        /// The text.
        text: String,
        /// Written without quotes.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map in the file's order, keys given twice included.
    Map(Vec<(At<String>, Node)>),
}

impl Node {
    /// The best bytes to underline: a scalar itself, else the first key or item in it.
    pub fn place(&self) -> Range<usize> {
        match &self.value {
            Value::Scalar { .. } => self.span.clone(),
            Value::Map(entries) => {
                entries.first().map_or_else(|| self.span.clone(), |(key, _)| key.span.clone())
            }
            Value::List(items) => items.first().map_or_else(|| self.span.clone(), Node::place),
        }
    }

    /// Is it nothing: an empty plain scalar, `~`, `null`?
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }
}

/// A container that is still open.
struct Open {
    anchor: usize,
    span: Range<usize>,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map { entries: Vec<(At<String>, Node)>, key: Option<At<String>> },
}

/// The tree of a file's one document and the problems of its form. No tree: the file cannot be read at all.
pub(super) fn tree(text: &str) -> (Option<Node>, Vec<Diagnostic>) {
    let mut builder = Builder::default();
    let mut options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH * 2,
        block_nesting_limit: MAX_DEPTH * 2,
    };
    options.set_emit_comments(false);
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match event {
            Ok(pair) => pair,
            Err(error) => {
                let at = error.marker().byte_offset().unwrap_or(text.len());
                builder.problems.push(syntax_error(text, at, &error.info()));
                return (None, builder.problems);
            }
        };
        let span = span.byte_range().unwrap_or(0..0);
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
            if documents > 1 {
                builder.problems.push(
                    Diagnostic::error(codes::DOCUMENTS, "the file holds more than one document")
                        .at(visible(text, span.start), "a second one begins here")
                        .help("a topology is one document: put the second into a file of its own, or into the first"),
                );
                return (None, builder.problems);
            }
        }
        if let Err(problem) = builder.take(event, span, text) {
            builder.problems.push(*problem);
            return (None, builder.problems);
        }
    }
    (builder.root, builder.problems)
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    aliases: usize,
    problems: Vec<Diagnostic>,
}

type Step = Result<(), Box<Diagnostic>>;

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Range<usize>, text: &str) -> Step {
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                if tag.is_some() {
                    self.problems.push(tagged(text, &span));
                }
                let plain = style == ScalarStyle::Plain;
                self.count(1, &span)?;
                self.add(Node { span, value: Value::Scalar { text: value.into_owned(), plain } }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(OpenKind::List(Vec::new()), anchor, tag.is_some(), span, text)
            }
            Event::MappingStart(_, anchor, tag) => {
                let kind = OpenKind::Map { entries: Vec::new(), key: None };
                self.begin(kind, anchor, tag.is_some(), span, text)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = self.open.pop() else { return Ok(()) };
                let value = match done.kind {
                    OpenKind::List(items) => Value::List(items),
                    OpenKind::Map { entries, .. } => Value::Map(entries),
                };
                self.add(Node { span: done.span, value }, done.anchor)
            }
            Event::Alias(id) => {
                self.aliases += 1;
                if self.aliases > MAX_ALIASES {
                    return Err(too_big(&span, format!("more than {MAX_ALIASES} aliases")));
                }
                let Some((node, size)) = self.anchors.get(&id).cloned() else {
                    return Err(Box::new(
                        Diagnostic::error(codes::SYNTAX, "an alias stands inside what it names")
                            .at(span, "here"),
                    ));
                };
                self.count(size, &span)?;
                if self.open.len() + depth(&node) > MAX_DEPTH {
                    return Err(too_deep(&span));
                }
                self.add(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, kind: OpenKind, anchor: usize, tag: bool, span: Range<usize>, text: &str) -> Step {
        if tag {
            self.problems.push(tagged(text, &span));
        }
        self.count(1, &span)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(&span));
        }
        let span = visible(text, span.start);
        self.open.push(Open { anchor, span, kind });
        Ok(())
    }

    fn count(&mut self, more: usize, span: &Range<usize>) -> Step {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MAX_NODES {
            return Err(too_big(span, format!("more than {MAX_NODES} values once its aliases are followed")));
        }
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Step {
        if anchor != 0 {
            let size = size(&node);
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut parent.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map { entries, key } => match key.take() {
                Some(key) => entries.push((key, node)),
                None => match node.value {
                    Value::Scalar { text, plain } => {
                        if plain && text == "<<" {
                            self.problems.push(
                                Diagnostic::error(codes::MERGE_KEY, "merge keys (`<<`) are not supported")
                                    .at(
                                        node.span.clone(),
                                        "would be merged by some readers and kept by others",
                                    )
                                    .help("write what all channels share under defaults:, or repeat it"),
                            );
                        }
                        *key = Some(At { value: text, span: node.span });
                    }
                    _ => {
                        self.problems.push(
                            Diagnostic::error(codes::KEY_KIND, "a key is a list or a map")
                                .at(node.place(), "a key is one word")
                                .help("perhaps a `?`, `[` or `{` stands where a name was meant"),
                        );
                        *key = Some(At { value: String::new(), span: node.span });
                    }
                },
            },
        }
        Ok(())
    }
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|(_, value)| 1 + size(value)).sum::<usize>(),
    }
}

fn depth(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 0,
        Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
    }
}

fn tagged(text: &str, span: &Range<usize>) -> Diagnostic {
    let line = text.get(..span.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let from = text.get(line..span.start).and_then(|part| part.find('!')).map_or(span.start, |at| line + at);
    Diagnostic::error(codes::TAG, "a tag (`!…`) is not supported")
        .at(from..span.end.max(from + 1), "the kind of a value follows from its key")
        .help("take the tag away")
}

fn too_big(span: &Range<usize>, what: String) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error(codes::TOO_BIG, format!("the file is too big: {what}"))
            .at(span.clone(), "reading stopped here")
            .help("aliases of aliases multiply; write what all channels share under defaults:"),
    )
}

fn too_deep(span: &Range<usize>) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error(codes::TOO_BIG, format!("values are nested more than {MAX_DEPTH} deep"))
            .at(span.clone(), "reading stopped here")
            .help("no key of a topology is that deep"),
    )
}

/// One visible character at or after `at`, else the last of the text.
fn visible(text: &str, at: usize) -> Range<usize> {
    let at = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    match text[at..].chars().next() {
        Some(character) => at..at + character.len_utf8(),
        None => at..at,
    }
}

fn syntax_error(text: &str, at: usize, info: &str) -> Diagnostic {
    let start = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let indent = &text[line_start..start];
    let info = info.lines().next().unwrap_or_default();
    let diagnostic = Diagnostic::error(codes::SYNTAX, format!("this is not YAML: {info}"));
    if let Some(tab) = indent.find('\t').filter(|tab| indent[..*tab].trim().is_empty()) {
        let tab = line_start + tab;
        return diagnostic.at(tab..tab + 1, "a tab").help("YAML is indented with spaces only");
    }
    if text[start..].starts_with('\t') {
        return diagnostic.at(start..start + 1, "a tab").help("YAML is indented with spaces only");
    }
    diagnostic.at(visible(text, start), "reading stopped here").help(
        "what follows was not looked at; look for a missing colon, quote or bracket here or on the line above",
    )
}
