//! An ordered list of named, typed values; the same name may stand in it more than once (K01).

use super::{Short, Value};

/// One header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Name as it was read; names are compared byte for byte.
    pub name: Short,
    /// Value.
    pub value: Value,
}

/// Headers in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Headers(Vec<Header>);

impl Headers {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends; a header of the same name stays.
    pub fn push(&mut self, name: impl Into<Short>, value: Value) {
        self.0.push(Header { name: name.into(), value });
    }

    /// Takes every header of this name out and appends one.
    pub fn replace(&mut self, name: &str, value: Value) {
        self.remove(name);
        self.push(name, value);
    }

    /// Takes every header of this name out.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|header| header.name != *name);
    }

    /// Keeps those for which `keep` is true, in order.
    pub fn retain(&mut self, keep: impl FnMut(&Header) -> bool) {
        self.0.retain(keep);
    }

    /// A copy of those for which `keep` is true, in order, with room for so many more.
    pub fn kept(&self, keep: impl Fn(&Header) -> bool, room: usize) -> Self {
        let mut kept = Vec::with_capacity(self.0.len() + room);
        kept.extend(self.0.iter().filter(|header| keep(header)).cloned());
        Self(kept)
    }

    /// First value under `name`: the origin, where hops append (K01).
    pub fn first(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|header| header.name == *name).map(|header| &header.value)
    }

    /// Last value under `name`: the latest, where hops append.
    pub fn last(&self, name: &str) -> Option<&Value> {
        self.0.iter().rev().find(|header| header.name == *name).map(|header| &header.value)
    }

    /// All values under `name`, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a Value> + 'a {
        self.0.iter().filter(move |header| header.name == *name).map(|header| &header.value)
    }

    /// First value under `name` as text.
    pub fn first_text(&self, name: &str) -> Option<&str> {
        self.first(name)?.text()
    }

    /// Last value under `name` as text.
    pub fn last_text(&self, name: &str) -> Option<&str> {
        self.last(name)?.text()
    }

    /// Is there one of this name?
    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// In order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.0.iter()
    }

    /// How many, duplicates counted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// About how many bytes they take on the wire.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|header| header.name.len() as u64 + header.value.size()).sum()
    }
}

impl<N: Into<Short>> FromIterator<(N, Value)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| Header { name: name.into(), value }).collect())
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl IntoIterator for Headers {
    type Item = Header;
    type IntoIter = std::vec::IntoIter<Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
