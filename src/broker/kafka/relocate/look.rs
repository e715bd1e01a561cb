//! Letters for the next transactions, read while one is on its way: by readers and on a thread of their own.

use super::claim::Letters;
use super::{LOOKED, Session, receipt};
use crate::broker::kafka::marks::Marks;
use crate::broker::kafka::pointer::Pointers;
use crate::broker::{Claimed, Claims, Looker, Result, Wanted};
use crate::letter::{Place, RawLetter};

/// See the file's head.
pub(super) struct Beside {
    letters: Letters,
    /// As they were when the session began; whoever marked a letter since then has fenced it, and what this run has
    /// moved it does not look for.
    marks: Marks,
}

impl Beside {
    pub(super) fn of(session: &Session) -> Option<Self> {
        let inner = session.inner.as_ref()?;
        let pointers = Pointers::new(&inner.client, &inner.names);
        Some(Self {
            letters: Letters::new(&inner.client, &inner.source, &inner.letters.ends(), pointers),
            marks: inner.marks.clone(),
        })
    }
}

impl Looker for Beside {
    fn look(&mut self, next: &[Wanted]) -> Result<Claims> {
        let wanted = next.iter().map(|wanted| (wanted.seq, &wanted.position));
        let found = self.letters.find(&self.marks, wanted)?;
        let claimed = |(seq, _, letter): (u64, Place, RawLetter)| Claimed {
            seq,
            receipt: receipt(&letter.position, LOOKED),
            letter,
        };
        let got = found.got.into_iter().map(claimed).collect();
        Ok(Claims { got, missing: found.missing, exhausted: false })
    }
}
