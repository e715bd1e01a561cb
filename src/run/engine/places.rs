//! Which letter of the window lies at a position, for brokers that hand letters out in an order of their own. Made when
//! the first of them asks, and kept up from then on: a claim of few letters does not read the whole window.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::super::machine::Machine;
use super::super::numbered::Lined;
use crate::letter::Position;
use crate::manifest::Line;

/// See the file's head.
#[derive(Default)]
pub(super) struct Places(OnceLock<HashMap<Position, Vec<u64>>>);

impl Places {
    /// The first letter at `position` that a claim may bring.
    pub(super) fn wanted(
        &self,
        position: &Position,
        lines: &Lined<Box<Line>>,
        machine: &Machine,
    ) -> Option<u64> {
        let places = self.0.get_or_init(|| {
            let mut places = HashMap::<Position, Vec<u64>>::new();
            for seq in lines.sorted(|_| true) {
                places.entry(lines[&seq].position.clone()).or_default().push(seq);
            }
            places
        });
        places.get(position)?.iter().copied().find(|seq| machine.wants(*seq))
    }

    /// A line enters the window, behind those that are in it.
    pub(super) fn enters(&mut self, line: &Line) {
        if let Some(places) = self.0.get_mut() {
            places.entry(line.position.clone()).or_default().push(line.seq);
        }
    }

    /// A line is done with.
    pub(super) fn leaves(&mut self, line: &Line) {
        let Some(places) = self.0.get_mut() else { return };
        if let Some(there) = places.get_mut(&line.position) {
            there.retain(|seq| *seq != line.seq);
            if there.is_empty() {
                places.remove(&line.position);
            }
        }
    }
}
