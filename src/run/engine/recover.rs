//! The first thing a resume does: find out what became of what an earlier part left open (protocol §5, §6).

use super::super::machine::Write;
use super::super::recovery::{Orders, start_of};
use super::{Engine, EngineError};
use crate::broker::{Atomicity, Intent, Proof};
use crate::ledger::{Entry, LetterState};
use crate::letter::{LetterId, Position};
use crate::manifest::{Line, Reader};

/// Letters asked about at once.
const PAGE: usize = 1000;

impl Engine<'_> {
    /// Asks the broker about every letter without an answer, and writes down what it says, before the first
    /// letter is sent.
    pub(super) async fn recover(&mut self, orders: Orders) -> Result<(), EngineError> {
        let mut after = 0;
        loop {
            let page = self.job.ledger.open_letters(self.job.number, after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let intents: Vec<Intent> = page
                .iter()
                .filter(|open| matches!(open.state, LetterState::Intended | LetterState::InDoubt))
                .map(|open| Intent {
                    seq: open.seq,
                    id: LetterId::new(&open.letter),
                    position: Position::new(open.position.as_str()),
                    first_intent: open.first_at,
                })
                .collect();
            let proofs = match intents.is_empty() || self.job.settings.without_lookup {
                true => Vec::new(),
                // Without a word of the broker nothing is proved: in doubt.
                false => self.job.mover.prove(&intents).await.unwrap_or_default(),
            };
            let mut lines = Vec::new();
            for open in page {
                let proof = intents
                    .iter()
                    .position(|intent| intent.seq == open.seq)
                    .and_then(|at| proofs.get(at).cloned())
                    .unwrap_or(Proof::Unknown);
                let (_, write) = start_of(open.state, open.attempt, Some(&proof), orders);
                if let Some(write) = write {
                    lines.push((line_of(&open), write));
                }
            }
            self.write_recovered(&lines)?;
        }
        // Where the marks live with the broker they are the truth, and the ledger's copy is made of them.
        let marks = self.job.capabilities.relocate == Atomicity::Transaction
            && !self.job.settings.without_transactions
            && !super::mutated("t02");
        if marks {
            self.read_marks().await?;
        }
        Ok(())
    }

    async fn read_marks(&mut self) -> Result<(), EngineError> {
        let path = self.job.ledger.manifest_path(&self.job.run)?;
        let mut reader = Reader::open(&path)?;
        let mut page: Vec<Line> = Vec::with_capacity(PAGE);
        loop {
            let line = reader.next_line()?;
            let over = line.is_none();
            if let Some(line) = line
                && line.kept.is_none()
                && self.writes.state(self.job.ledger, line.seq)? == LetterState::Planned
            {
                page.push(line);
            }
            if page.len() >= PAGE || over {
                let intents: Vec<Intent> = page
                    .iter()
                    .map(|line| Intent {
                        seq: line.seq,
                        id: line.letter.clone(),
                        position: line.position.clone(),
                        first_intent: crate::clock::Time::default(),
                    })
                    .collect();
                let proofs = self.job.mover.prove(&intents).await.unwrap_or_default();
                let moved: Vec<(Line, Write)> = page
                    .drain(..)
                    .zip(proofs)
                    .filter(|(_, proof)| matches!(proof, Proof::Arrived(_)))
                    .map(|(line, _)| (line, Write::Settled))
                    .collect();
                self.write_recovered(&moved)?;
                if over {
                    return Ok(());
                }
            }
        }
    }

    fn write_recovered(&mut self, lines: &[(Line, Write)]) -> Result<(), EngineError> {
        if lines.is_empty() {
            return Ok(());
        }
        let entries: Vec<Entry<'_>> = lines
            .iter()
            .map(|(line, write)| {
                let (state, note) = match write {
                    Write::Published => (LetterState::Published, None),
                    Write::Settled => (LetterState::Settled, None),
                    Write::InDoubt => (LetterState::InDoubt, Some(("in_doubt", "no_answer", None, None))),
                    _ => (LetterState::Planned, None),
                };
                Entry { line, state: Some(state), attempt: 0, hash: None, note }
            })
            .collect();
        let now = self.job.clock.now();
        self.job.ledger.write(&mut self.writes, &self.job.lock, &entries, now, true)?;
        Ok(())
    }
}

pub(super) fn line_of(open: &crate::ledger::OpenLetter) -> Line {
    Line {
        seq: open.seq,
        letter: LetterId::new(&open.letter),
        position: Position::new(open.position.as_str()),
        event_id: open.event_id.clone(),
        group: open.group.clone(),
        cause: String::new(),
        body: None,
        size: 0,
        kept: None,
        twin_of: None,
        twins: false,
    }
}
