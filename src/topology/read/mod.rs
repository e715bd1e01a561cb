//! Compares a tree with the key table: every unknown, missing, repeated and mistyped key of a file in one
//! go, and the values that are right, converted.

use std::ops::Range;
use std::time::Duration;

mod choice;
mod place;
mod values;

use super::keys::{self, Key, Kind};
use super::outside::Outside;
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
    /// `header` or `body`, the name or pointer, and how the value is written there.
    Place(At<(&'static str, String)>, Vec<At<&'static str>>),
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
    /// In a block whose key was given before: its problems are found, its values are not taken, and what it lacks may
    /// stand in the first one.
    again: bool,
    unresolved: Vec<At<String>>,
}

impl<'a> Reader<'a> {
    pub fn new(outside: &'a Outside<'a>) -> Self {
        Self {
            outside,
            problems: Vec::new(),
            secret_places: Vec::new(),
            in_brokers: false,
            again: false,
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
            let again = seen.contains(&known.name);
            seen.push(known.name);
            let brokers = top && known.name == "brokers";
            self.in_brokers |= brokers;
            let checked = self.once_more(again, |reader| reader.value(known, value, &key.span));
            self.in_brokers &= !brokers;
            if let Some(checked) = checked.filter(|_| !again) {
                fields.entries.push((known.name, key.span.clone(), checked));
            }
        }
        let lacks = |known: &&Key| known.required && !seen.contains(&known.name);
        let told = if self.again { &[] } else { table };
        for known in told.iter().filter(lacks) {
            self.problem(
                Diagnostic::error(codes::MISSING, format!("{what} has no `{}`", known.name))
                    .at(place.clone(), format!("`{}` belongs here", known.name))
                    .help(format!("{}: {}", known.name, known.help)),
            );
        }
        Some(fields)
    }

    /// Reads something of a key that may have been given before.
    fn once_more<T>(&mut self, again: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = (self.again, again.then(|| self.unresolved.clone()));
        self.again |= again;
        let done = read(self);
        self.again = outer.0;
        if let Some(unresolved) = outer.1 {
            self.unresolved = unresolved;
        }
        done
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
            Kind::Place(forms) => self.place(key, forms, node),
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
            if name.value == "<<" {
                continue;
            }
            let again = named.iter().any(|(first, _)| first.value == name.value);
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
            let fields =
                self.once_more(again, |reader| reader.table(table, value, &label, name.span.clone()));
            if let Some(mut fields) = fields.filter(|_| !again) {
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
            if name.value == "<<" {
                continue;
            }
            let again = map.iter().any(|(first, _): &(At<String>, _)| first.value == name.value);
            if value.is_null() {
                self.problem(no_value(name));
            } else if let Some(text) = self.once_more(again, |reader| reader.scalar_text(&name.value, value))
                && !again
            {
                map.push((name.clone(), text));
            }
        }
        Some(map)
    }

    fn options(&mut self, key: &'static Key, node: &Node) -> Option<Vec<(At<String>, At<Secret>)>> {
        let entries = self.entries(node, &format!("`{}`", key.name))?;
        let mut map = Vec::new();
        for (name, value) in entries {
            if name.value == "<<" {
                continue;
            }
            let again = map.iter().any(|(first, _): &(At<String>, _)| first.value == name.value);
            if value.is_null() {
                self.problem(no_value(name));
                continue;
            }
            let literal = !crate::redact::is_secret_name(&name.value);
            if let Some(secret) = self.once_more(again, |reader| reader.secret(&name.value, value, literal))
                && !again
            {
                map.push((name.clone(), secret));
            }
        }
        Some(map)
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
        return problem.help(format!("did you mean {near}?"));
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
