//! Which dialects to ask at all: one pass over a letter's header names instead of fifty, so that reading a
//! letter costs the same whether ten or a hundred dialects are known.

use std::sync::LazyLock;

use super::{DIALECTS, Look, Mark};

/// A mark on a header's or property's name, with the dialect (by index) that has it.
#[derive(Clone, Copy)]
struct Name {
    bytes: &'static [u8],
    last: u8,
    whole: bool,
    property: bool,
    dialect: usize,
}

/// Marks by the first byte of the name, others as they are.
struct Table {
    by_byte: Vec<Vec<Name>>,
    /// Marks on a body's fields, by their first byte too.
    fields: Vec<Vec<(&'static str, usize)>>,
    starts: Vec<(&'static str, usize)>,
    always: Bits,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table {
        by_byte: vec![Vec::new(); 256],
        fields: vec![Vec::new(); 256],
        starts: Vec::new(),
        always: Bits::default(),
    };
    for (index, dialect) in DIALECTS.iter().enumerate() {
        for mark in dialect.marks() {
            match mark {
                Mark::Header(name) | Mark::Prefix(name) | Mark::Property(name) => {
                    match (name.bytes().next(), name.bytes().next_back()) {
                        (Some(first), Some(last)) => table.by_byte[usize::from(first)].push(Name {
                            bytes: name.as_bytes(),
                            last,
                            whole: !matches!(mark, Mark::Prefix(_)),
                            property: matches!(mark, Mark::Property(_)),
                            dialect: index,
                        }),
                        _ => table.always.add(index),
                    }
                }
                Mark::Field(name) => match name.bytes().next() {
                    Some(first) => table.fields[usize::from(first)].push((name, index)),
                    None => table.always.add(index),
                },
                Mark::Start(start) => table.starts.push((start, index)),
                Mark::Other(_) => table.always.add(index),
            }
        }
    }
    table
});

/// Dialects by index, a bit each.
#[derive(Clone, Copy, Default)]
struct Bits(u128);

impl Bits {
    #[cfg(test)]
    fn has(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }
}

impl Iterator for Bits {
    type Item = usize;

    /// The lowest, which is taken out.
    fn next(&mut self) -> Option<usize> {
        let lowest = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}

/// Indexes into [`DIALECTS`] of those that have a mark on this letter, in the registry's order.
pub(super) fn to_ask(letter: &Look<'_>) -> impl Iterator<Item = usize> + use<> {
    let table = &*TABLE;
    let mut ask = table.always;
    let headers = letter.headers().iter().map(|header| (header.name.as_bytes(), false));
    let properties = letter.properties().iter().map(|property| (property.name.as_bytes(), true));
    for (name, is_property) in headers.chain(properties) {
        let Some(first) = name.first() else { continue };
        for mark in &table.by_byte[usize::from(*first)] {
            // One byte tells most apart; then the whole.
            let is = name.get(mark.bytes.len() - 1) == Some(&mark.last)
                && mark.property == is_property
                && (!mark.whole || name.len() == mark.bytes.len())
                && name.starts_with(mark.bytes);
            if is {
                ask.add(mark.dialect);
            }
        }
    }
    if let Some(body) = letter.body() {
        for (start, index) in &table.starts {
            if body.starts_with(start.as_bytes()) {
                ask.add(*index);
            }
        }
        for name in letter.fields() {
            let Some(first) = name.bytes().next() else { continue };
            for (field, index) in &table.fields[usize::from(first)] {
                if field == name {
                    ask.add(*index);
                }
            }
        }
    }
    ask
}

#[cfg(test)]
mod tests {
    use super::{Bits, DIALECTS};

    #[test]
    fn every_dialect_has_a_bit() {
        assert!(DIALECTS.len() <= u128::BITS as usize);
        let mut bits = Bits::default();
        for index in [127, 0, 3, 3] {
            bits.add(index);
        }
        assert!(bits.has(3) && !bits.has(4));
        assert_eq!(bits.collect::<Vec<_>>(), [0, 3, 127]);
    }
}
