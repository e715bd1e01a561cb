//! Compares a tree with the key table: every unknown, missing, repeated and mistyped key of a file in one
//! go, and the values that are right, converted.

use std::ops::Range;
use std::time::Duration;

use super::keys::{self, Key, Kind};
use super::outside::{self, Outside, Trouble};
use super::yaml::{Node, Value};
use super::{At, Rate, Secret, codes, nearest::nearest, scalars};
use crate::diagnostic::Diagnostic;

/// A value that its kind allows.
#[derive(Debug, Clone)]
pub(super) enum Checked {
    Text(At<String>),
    Secret(At<Secret>),
    Bool(At<bool>),
    Count(At<i64>),
    Duration(At<Duration>),
    Rate(At<Rate>),
    /// The word, and what was given with it.
    Choice(At<(&'static str, String)>),
    Table(Fields),
    Named(Vec<(At<String>, Fields)>),
    List(Vec<Fields>),
    Texts(Vec<At<String>>),
    TextMap(Vec<(At<String>, At<String>)>),
    Options(Vec<(At<String>, At<Secret>)>),
}

/// The right ones among the keys of a map.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    /// By key, in the file's order.
    pub entries: Vec<(&'static str, Range<usize>, Checked)>,
    /// References that could not be followed: what stands in the file.
    pub unresolved: Vec<At<String>>,
}

/// Reads one file's tree.
pub(super) struct Reader<'a> {
    pub outside: &'a Outside<'a>,
    pub problems: Vec<Diagnostic>,
    /// Places of secrets that are written out, to be overwritten in what is shown of the file.
    pub secret_places: Vec<Range<usize>>,
    /// Under `brokers:` an unset variable is a warning: a pull request has no secrets.
    in_brokers: bool,
    unresolved: Vec<At<String>>,
}

impl<'a> Reader<'a> {
    pub fn new(outside: &'a Outside<'a>) -> Self {
        Self {
            outside,
            problems: Vec::new(),
            secret_places: Vec::new(),
            in_brokers: false,
            unresolved: Vec::new(),
        }
    }

    /// The whole file.
    pub fn file(&mut self, root: &Node) -> Option<Fields> {
        if root.is_null() {
            self.problems.push(
                Diagnostic::error(codes::EMPTY, "the file is empty")
                    .at(root.span.clone(), "")
                    .help("a topology begins with version: 1, brokers: and channels:"),
            );
            return None;
        }
        self.table(keys::FILE, root, "the file", root.place())
    }

    fn problem(&mut self, diagnostic: Diagnostic) {
        if !self.problems.contains(&diagnostic) {
            self.problems.push(diagnostic);
        }
    }

    fn table(
        &mut self,
        table: &'static [Key],
        node: &Node,
        what: &str,
        place: Range<usize>,
    ) -> Option<Fields> {
        let entries = self.entries(node, what)?;
        let mut fields = Fields::default();
        let mut seen: Vec<&str> = Vec::new();
        for (key, value) in entries {
            let top = std::ptr::eq(table, keys::FILE);
            let Some(known) = table.iter().find(|known| known.name == key.value) else {
                if !(key.value.is_empty() || key.value == "<<" || top && key.value.starts_with("x-")) {
                    let problem = unknown_key(table, key, what);
                    self.problem(problem);
                }
                continue;
            };
            seen.push(known.name);
            if fields.entries.iter().any(|(name, ..)| *name == known.name) {
                continue;
            }
            let brokers = top && known.name == "brokers";
            self.in_brokers |= brokers;
            let checked = self.value(known, value, &key.span);
            self.in_brokers &= !brokers;
            if let Some(checked) = checked {
                fields.entries.push((known.name, key.span.clone(), checked));
            }
        }
        for known in table.iter().filter(|known| known.required && !seen.contains(&known.name)) {
            self.problem(
                Diagnostic::error(codes::MISSING, format!("{what} has no `{}`", known.name))
                    .at(place.clone(), format!("`{}` belongs here", known.name))
                    .help(format!("{}: {}", known.name, known.help)),
            );
        }
        Some(fields)
    }

    /// The entries of a map, those given twice reported.
    fn entries<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [(At<String>, Node)]> {
        let Value::Map(entries) = &node.value else {
            self.problem(
                Diagnostic::error(
                    codes::KIND,
                    format!("{what} is {}, not keys with values", kind_word(node)),
                )
                .at(node.place(), "expected `key: value`"),
            );
            return None;
        };
        for (index, (key, _)) in entries.iter().enumerate() {
            if key.value == "<<" || key.value.is_empty() {
                continue;
            }
            if let Some((first, _)) = entries[..index].iter().find(|(first, _)| first.value == key.value) {
                let problem = Diagnostic::error(codes::TWICE, format!("`{}` is given twice", key.value))
                    .at(key.span.clone(), "again here")
                    .near(first.span.clone(), "first here")
                    .help("keep one of the two");
                self.problem(problem);
            }
        }
        Some(entries)
    }

    fn value(&mut self, key: &'static Key, node: &Node, key_span: &Range<usize>) -> Option<Checked> {
        if node.is_null() {
            self.problem(
                Diagnostic::error(codes::EMPTY, format!("`{}` has no value", key.name))
                    .at(key_span.clone(), "nothing follows")
                    .help(format!(
                        "write a value, or take the line away: the default is {}",
                        default_of(key)
                    )),
            );
            return None;
        }
        match &key.kind {
            Kind::Table(table) => {
                self.table(table, node, &format!("`{}`", key.name), key_span.clone()).map(Checked::Table)
            }
            Kind::Named { what, keys } => self.named(key, what, keys, node, key_span),
            Kind::List(table) => self.list(key, table, node).map(Checked::List),
            Kind::Texts => self.texts(key, node).map(Checked::Texts),
            Kind::TextMap => self.text_map(key, node).map(Checked::TextMap),
            Kind::Options => self.options(key, node).map(Checked::Options),
            Kind::Choice(variants) => self.choice(key, variants, node),
            _ => self.scalar(key, node),
        }
    }

    fn named(
        &mut self,
        key: &'static Key,
        what: &str,
        table: &'static [Key],
        node: &Node,
        key_span: &Range<usize>,
    ) -> Option<Checked> {
        let entries = self.entries(node, &format!("`{}`", key.name))?;
        if entries.is_empty() {
            self.problem(
                Diagnostic::error(codes::EMPTY, format!("`{}` holds no {what}", key.name))
                    .at(key_span.clone(), "at least one is needed"),
            );
        }
        let mut named: Vec<(At<String>, Fields)> = Vec::new();
        for (name, value) in entries {
            if named.iter().any(|(first, _)| first.value == name.value) || name.value == "<<" {
                continue;
            }
            if name.value.trim().is_empty() {
                self.problem(
                    Diagnostic::error(codes::EMPTY, format!("a {what} has no name"))
                        .at(name.span.clone(), "a name belongs before the colon"),
                );
                continue;
            }
            if value.is_null() {
                self.problem(
                    Diagnostic::error(codes::EMPTY, format!("{what} `{}` has no keys", name.value))
                        .at(name.span.clone(), "nothing follows")
                        .help(format!("a {what} needs at least {}", required_of(table))),
                );
                continue;
            }
            let outer = std::mem::take(&mut self.unresolved);
            let label = format!("{what} `{}`", name.value);
            if let Some(mut fields) = self.table(table, value, &label, name.span.clone()) {
                fields.unresolved = std::mem::take(&mut self.unresolved);
                named.push((name.clone(), fields));
            }
            self.unresolved = outer;
        }
        Some(Checked::Named(named))
    }

    fn list(&mut self, key: &'static Key, table: &'static [Key], node: &Node) -> Option<Vec<Fields>> {
        let items = self.items(key, node)?;
        let mut list = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let what = format!("{} {}", singular(key.name), index + 1);
            if item.is_null() {
                self.problem(
                    Diagnostic::error(codes::EMPTY, format!("{what} is empty"))
                        .at(item.span.clone(), "nothing here"),
                );
            } else if let Value::Scalar { text, .. } = &item.value {
                let first = table.first().map_or("", |key| key.name);
                self.problem(
                    Diagnostic::error(codes::KIND, format!("{what} is text, not keys with values"))
                        .at(item.span.clone(), "expected a map")
                        .help(format!("write {{{first}: {text}}}")),
                );
            } else if let Some(fields) = self.table(table, item, &what, item.place()) {
                list.push(fields);
            }
        }
        Some(list)
    }

    fn items<'n>(&mut self, key: &'static Key, node: &'n Node) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            _ => {
                self.problem(
                    Diagnostic::error(
                        codes::KIND,
                        format!("`{}` is {}, not a list", key.name, kind_word(node)),
                    )
                    .at(node.place(), "expected a list: lines that begin with `- `"),
                );
                None
            }
        }
    }

    fn texts(&mut self, key: &'static Key, node: &Node) -> Option<Vec<At<String>>> {
        let items = self.items(key, node)?;
        Some(items.iter().filter_map(|item| self.text(key.name, item)).collect())
    }

    fn text_map(&mut self, key: &'static Key, node: &Node) -> Option<Vec<(At<String>, At<String>)>> {
        let entries = self.entries(node, &format!("`{}`", key.name))?;
        let mut map = Vec::new();
        for (name, value) in entries {
            if name.value == "<<" || map.iter().any(|(first, _): &(At<String>, _)| first.value == name.value)
            {
                continue;
            }
            if value.is_null() {
                self.problem(no_value(name));
            } else if let Some(text) = self.scalar_text(&name.value, value) {
                map.push((name.clone(), text));
            }
        }
        Some(map)
    }

    fn options(&mut self, key: &'static Key, node: &Node) -> Option<Vec<(At<String>, At<Secret>)>> {
        let entries = self.entries(node, &format!("`{}`", key.name))?;
        let mut map = Vec::new();
        for (name, value) in entries {
            if name.value == "<<" || map.iter().any(|(first, _): &(At<String>, _)| first.value == name.value)
            {
                continue;
            }
            if value.is_null() {
                self.problem(no_value(name));
                continue;
            }
            let literal = !crate::redact::is_secret_name(&name.value);
            if let Some(secret) = self.secret(&name.value, value, literal) {
                map.push((name.clone(), secret));
            }
        }
        Some(map)
    }

    fn choice(
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
                        Some(near) => problem.help(format!("did you mean {near}")),
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

    fn scalar(&mut self, key: &'static Key, node: &Node) -> Option<Checked> {
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
    fn text(&mut self, name: &str, node: &Node) -> Option<At<String>> {
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
    fn scalar_text(&mut self, name: &str, node: &Node) -> Option<At<String>> {
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
            self.unresolved.push(At { value: text.clone(), span: node.span.clone() });
        }
        followed.text.map(|value| At { value, span: node.span.clone() })
    }

    /// The url as a secret, for it may hold one that came from outside.
    fn url(&mut self, name: &str, node: &Node) -> Option<At<Secret>> {
        let Value::Scalar { text, .. } = &node.value else {
            return self.text(name, node).map(|_| At::default());
        };
        if !outside::has_reference(text) {
            let text = self.text(name, node)?;
            return Some(At { value: Secret::new(text.value.clone(), text.value), span: text.span });
        }
        self.secret(name, node, true)
    }

    fn secret(&mut self, name: &str, node: &Node, literal: bool) -> Option<At<Secret>> {
        let Value::Scalar { text, .. } = &node.value else {
            return self.text(name, node).map(|_| At::default());
        };
        let followed = outside::follow(text, self.outside);
        if !literal && !followed.from_outside && followed.troubles.is_empty() {
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
                self.unresolved.push(At { value: text.clone(), span: node.span.clone() });
                Secret::unresolved(text.clone())
            }
        };
        Some(At { value, span: node.span.clone() })
    }

    fn troubles(&mut self, troubles: &[Trouble], span: &Range<usize>) {
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

fn no_value(name: &At<String>) -> Diagnostic {
    Diagnostic::error(codes::EMPTY, format!("`{}` has no value", name.value))
        .at(name.span.clone(), "nothing follows")
        .help("write a value, \"\" for an empty text, or take the line away")
}

fn unknown_key(table: &'static [Key], key: &At<String>, what: &str) -> Diagnostic {
    let owner = what.split_once(" `").map_or(what, |(kind, _)| kind);
    let owner = match owner {
        "channel" | "broker" => format!("a {owner}"),
        _ => what.to_owned(),
    };
    if std::ptr::eq(table, keys::RABBITMQ) && matches!(key.value.as_str(), "expires" | "x-expires") {
        // R33: the expiry of a queue does not dead-letter what is in it.
        return Diagnostic::error(codes::EXPIRES, "a queue that expires takes its messages with it")
            .at(key.span.clone(), "never set on tiers and dead-letter queues")
            .help("take it away: what a message may wait is delay:");
    }
    let problem = Diagnostic::error(codes::UNKNOWN_KEY, format!("unknown key `{}`", key.value))
        .at(key.span.clone(), format!("not a key of {owner}"));
    if let Some(near) = nearest(&key.value, table.iter().map(|key| key.name)) {
        return problem.help(format!("did you mean {near}"));
    }
    let elsewhere = scalars::tables_with(&key.value);
    match elsewhere.as_slice() {
        [] => {
            let keys: Vec<&str> = table.iter().map(|key| key.name).collect();
            problem.help(format!("keys here: {}", keys.join(", ")))
        }
        places => problem.help(format!("`{}` belongs under {}", key.value, places.join(" or "))),
    }
}

fn kind_word(node: &Node) -> &'static str {
    match &node.value {
        Value::Scalar { text, plain: true } if matches!(text.as_str(), "true" | "false") => "a boolean",
        Value::Scalar { text, plain: true } if text.parse::<f64>().is_ok() => "a number",
        Value::Scalar { .. } => "text",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    }
}

fn default_of(key: &Key) -> &'static str {
    if key.required { "an error" } else { key.default }
}

fn required_of(table: &'static [Key]) -> String {
    let names: Vec<&str> = table.iter().filter(|key| key.required).map(|key| key.name).collect();
    names.join(", ")
}

fn singular(name: &str) -> &str {
    name.strip_suffix('s').unwrap_or(name)
}
