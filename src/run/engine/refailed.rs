//! What died again: counted where looking is free, whether or not it may stop the run.

use super::{Cause, Engine};
use crate::broker::BrokerError;

/// Moved letters, of which part has to die again before that says something.
const ENOUGH: u64 = 20;

/// Letters of the run that died again.
#[derive(Default)]
pub(super) struct Refailed {
    /// Over all parts; `None`: nobody knows.
    pub all: Option<u64>,
    /// Of these, since this part began.
    now: u64,
    /// What the first look of this part showed: those died in parts before.
    first: Option<u64>,
    /// Looking would cost something, or does not work.
    blind: bool,
    /// Why it does not.
    pub fault: Option<BrokerError>,
}

impl Engine<'_> {
    /// Looks. A part is judged by what died since it began: what had died before was known to whoever resumed.
    pub(super) async fn look_at_refailed(&mut self) {
        if self.refailed.blind {
            return;
        }
        match self.job.mover.refailed().await {
            Ok(Some(count)) => {
                let it = &mut self.refailed;
                let before = if self.job.resume.is_some() { count } else { 0 };
                let first = *it.first.get_or_insert(before);
                it.now = count.saturating_sub(first);
                it.all = Some(self.job.refailed_before.max(first) + it.now);
            }
            Ok(None) => self.refailed.blind = true,
            Err(error) => {
                self.refailed.blind = true;
                self.refailed.fault = Some(error);
            }
        }
    }

    /// Too many of those that this part moved?
    pub(super) fn judge_refailed(&mut self) {
        let (count, of) = (self.refailed.now, self.moved_now());
        if let Some(limit) = self.job.settings.stop_on_refail
            && of >= ENOUGH
            && count as f64 >= limit * of as f64
            && count > 0
        {
            self.stop(Cause::Refailed { count, of, limit });
        }
    }
}
