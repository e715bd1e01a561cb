//! Letters for the next transactions, read while one is on its way: by readers and on a thread of their own.

use std::sync::Arc;

use async_trait::async_trait;

use super::claim::Letters;
use super::{LOOKED, Session, receipt};
use crate::broker::kafka::marks::Marks;
use crate::broker::kafka::pointer::Pointers;
use crate::broker::{BrokerError, Claimed, Claims, ErrorKind, Looker, Result, Wanted};

/// See the file's head.
pub(super) struct Beside {
    letters: Option<Box<Letters>>,
    /// As they were when the session began; whoever marked a letter since then has fenced it, and what this run has
    /// moved it does not look for.
    marks: Arc<Marks>,
    topic_id: String,
}

impl Beside {
    pub(super) fn of(session: &Session) -> Option<Self> {
        let inner = session.inner.as_ref()?;
        let pointers = Pointers::new(&inner.client, &inner.names);
        Some(Self {
            letters: Some(Box::new(Letters::new(
                &inner.client,
                &inner.source,
                &inner.letters.ends(),
                pointers,
            ))),
            marks: Arc::new(inner.marks.clone()),
            topic_id: inner.source.id.clone(),
        })
    }
}

#[async_trait]
impl Looker for Beside {
    async fn look(&mut self, next: Vec<Wanted>) -> Result<Claims> {
        let lost = || BrokerError::new(ErrorKind::Other, "read letters", "an earlier look did not end");
        let mut letters = self.letters.take().ok_or_else(lost)?;
        let marks = Arc::clone(&self.marks);
        let done = tokio::task::spawn_blocking(move || {
            let wanted = next.iter().map(|wanted| (wanted.seq, &wanted.position));
            let found = letters.find(&marks, wanted);
            (letters, found)
        });
        let (letters, found) = done
            .await
            .map_err(|error| BrokerError::new(ErrorKind::Other, "read letters", error.to_string()))?;
        self.letters = Some(letters);
        let found = found?;
        let claimed =
            |(seq, place, letter)| Claimed { seq, receipt: receipt(&self.topic_id, place, LOOKED), letter };
        let got = found.got.into_iter().map(claimed).collect();
        Ok(Claims { got, missing: found.missing, exhausted: false })
    }
}
