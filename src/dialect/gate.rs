//! Which dialects to ask at all: one pass over a letter's header names instead of fifty, so that reading a
//! letter costs the same whether ten or a hundred dialects are known.

use std::sync::LazyLock;

use super::{DIALECTS, Look, Mark};

/// Marks by the first byte of the name, with the dialects (by index) that have them.
struct Table {
    by_byte: Vec<Vec<(Mark, usize)>>,
    fields: Vec<(&'static str, usize)>,
    starts: Vec<(&'static str, usize)>,
    always: Vec<usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table =
        Table { by_byte: vec![Vec::new(); 256], fields: Vec::new(), starts: Vec::new(), always: Vec::new() };
    for (index, dialect) in DIALECTS.iter().enumerate() {
        for mark in dialect.marks() {
            match mark {
                Mark::Header(name) | Mark::Prefix(name) | Mark::Property(name) => match name.bytes().next() {
                    Some(byte) => table.by_byte[usize::from(byte)].push((*mark, index)),
                    None => table.always.push(index),
                },
                Mark::Field(name) => table.fields.push((name, index)),
                Mark::Start(start) => table.starts.push((start, index)),
                Mark::Other(_) => table.always.push(index),
            }
        }
    }
    table
});

/// Indexes into [`DIALECTS`] of those that have a mark on this letter, in the registry's order.
pub(super) fn to_ask(letter: &Look<'_>) -> Vec<usize> {
    let table = &*TABLE;
    let mut ask = vec![false; DIALECTS.len()];
    for index in &table.always {
        ask[*index] = true;
    }
    let headers = letter.headers().iter().map(|header| (header.name.as_str(), false));
    let properties = letter.properties().iter().map(|property| (property.name.as_str(), true));
    for (name, is_property) in headers.chain(properties) {
        let Some(first) = name.bytes().next() else { continue };
        for (mark, index) in &table.by_byte[usize::from(first)] {
            if !ask[*index] {
                ask[*index] = match mark {
                    Mark::Header(exact) => !is_property && *exact == name,
                    Mark::Prefix(prefix) => !is_property && name.starts_with(prefix),
                    Mark::Property(exact) => is_property && *exact == name,
                    _ => false,
                };
            }
        }
    }
    if let Some(body) = letter.body() {
        for (start, index) in &table.starts {
            ask[*index] = ask[*index] || body.starts_with(start.as_bytes());
        }
        for (field, index) in &table.fields {
            ask[*index] = ask[*index] || letter.has_field(field);
        }
    }
    ask.iter().enumerate().filter(|(_, ask)| **ask).map(|(index, _)| index).collect()
}
