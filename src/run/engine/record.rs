//! What the machine decides to write, as entries of the ledger.

use super::super::event::Event;
use super::super::machine::Write;
use super::super::numbered::Lined;
use super::{Cause, Engine, EngineError};
use crate::broker::BrokerError;
use crate::ledger::{Entry, LEFT_OPEN, LedgerError, LetterState, TAKEN_AS_GONE};
use crate::manifest::Line;
use crate::proof::failpoint;

impl Engine<'_> {
    /// One commit of the machine. A lock that is lost stops the run; what it knows by then is still written down.
    pub(super) fn commit(&mut self, writes: &[(u64, Write)], sync: bool) -> Result<(), EngineError> {
        failpoint::hit("before_commit");
        match self.record(writes, sync) {
            Err(EngineError::Ledger(LedgerError::LockLost)) => self.stop(Cause::LockLost),
            other => other?,
        }
        failpoint::hit("after_commit");
        self.machine.committed();
        Ok(())
    }

    /// Writes entries of the machine into the ledger.
    fn record(&mut self, writes: &[(u64, Write)], sync: bool) -> Result<(), EngineError> {
        let now = self.job.clock.now();
        // A later entry of a letter replaces an earlier one.
        let mut last = Lined::<usize>::default();
        last.reserve(writes.len());
        for (index, (seq, _)) in writes.iter().enumerate() {
            last.insert(*seq, index);
        }
        let behind_names: Vec<Option<String>> = writes
            .iter()
            .map(|(_, write)| match write {
                Write::Held { behind } => Some(self.name_of(*behind)),
                _ => None,
            })
            .collect();
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(last.len());
        for (index, (seq, write)) in writes.iter().enumerate() {
            if last.get(seq) != Some(&index) {
                continue;
            }
            let Some(line) = self.lines.get(seq) else { continue };
            let refusal = self.refusals.get(seq);
            let behind = behind_names.get(index).and_then(Option::as_deref);
            entries.push(entry(line, *write, refusal, behind));
            if let Write::Intended { .. } = write {
                self.first_intent.entry(*seq).or_insert(now);
            }
        }
        let begun = self.job.clock.elapsed();
        let (ledger, lock) = (&mut *self.job.ledger, &self.job.lock);
        let ousted = match (ledger.write(&mut self.writes, lock, &entries, now, sync), self.part) {
            (Err(LedgerError::LockLost), Some(part)) => {
                ledger.last_words(&mut self.writes, lock, part, &entries, now)?;
                true
            }
            (written, _) => {
                written?;
                false
            }
        };
        self.recorded = self.job.clock.elapsed();
        self.recording += self.recorded.saturating_sub(begun);
        if self.job.observer.wants_letters() {
            for entry in &entries {
                if let Some((outcome, code, _, behind)) = entry.note {
                    let detail = behind.or(Some(code));
                    self.job.observer.see(&Event::Letter { line: entry.line, outcome, detail });
                }
            }
        }
        drop(entries);
        if ousted {
            self.stop(Cause::LockLost);
        }
        for (seq, write) in writes {
            if is_last(*write) {
                let line = self.lines.remove(seq);
                if let Some(line) = &line {
                    self.places.leaves(line);
                }
                if self.looks.are_there() {
                    self.trash.lines.extend(line);
                }
                self.first_intent.remove(seq);
                self.refusals.remove(seq);
            }
        }
        Ok(())
    }

    /// The id of a letter of this run, for a note on one that waits for it.
    fn name_of(&self, seq: u64) -> String {
        match self.lines.get(&seq) {
            Some(line) => line.letter.as_str().to_owned(),
            None => {
                let note = self.job.ledger.notes(self.job.number, seq.saturating_sub(1), 1);
                match note.ok().and_then(|notes| notes.into_iter().next()).filter(|note| note.seq == seq) {
                    Some(note) => note.letter,
                    None => format!("no. {seq}"),
                }
            }
        }
    }
}

/// Will nothing more be written about the letter in this part of the run?
fn is_last(write: Write) -> bool {
    !matches!(write, Write::Intended { .. } | Write::Planned | Write::Published)
}

pub(super) fn words_of(error: &BrokerError) -> (String, String) {
    let code = error.code.clone().unwrap_or_else(|| format!("{:?}", error.kind).to_uppercase());
    (code, error.message.clone())
}

fn entry<'l>(
    line: &'l Line,
    write: Write,
    refusal: Option<&'l (String, String)>,
    behind: Option<&'l str>,
) -> Entry<'l> {
    let code = refusal.map_or("no_answer", |(code, _)| code.as_str());
    let text = refusal.map(|(_, text)| text.as_str());
    let (state, attempt, note) = match write {
        Write::Intended { attempt } => (Some(LetterState::Intended), attempt, None),
        Write::Planned => (Some(LetterState::Planned), 0, None),
        Write::Published => (Some(LetterState::Published), 0, None),
        Write::Settled => (Some(LetterState::Settled), 0, None),
        Write::TakenAsGone => (Some(LetterState::Settled), 0, Some(("moved", TAKEN_AS_GONE, None, None))),
        Write::Failed => (Some(LetterState::Failed), 0, Some(("failed", code, text, None))),
        Write::InDoubt => (Some(LetterState::InDoubt), 0, Some(("in_doubt", code, text, None))),
        Write::Gone => (Some(LetterState::Gone), 0, Some(("skipped", "gone", None, None))),
        Write::MovedBefore => (Some(LetterState::Gone), 0, Some(("skipped", "moved_before", None, None))),
        Write::Twin => (Some(LetterState::Twin), 0, Some(("skipped", "twin", None, None))),
        Write::LeftOpen => (None, 0, Some(("held", LEFT_OPEN, text, None))),
        Write::Held { .. } if line.twin_of.is_some() => (None, 0, Some(("held", "twin_stays", None, behind))),
        Write::Held { .. } => (None, 0, Some(("held", "behind_in_run", None, behind))),
        Write::NotSeen { gone: false } => (None, 0, Some(("untouched", "not_seen", None, None))),
        Write::NotSeen { gone: true } => (None, 0, Some(("untouched", "gone", None, None))),
    };
    // What is sent is the body as it was frozen: rule 4.
    Entry { line, state, attempt, hash: line.body.as_deref(), note }
}
