//! The first thing a resume does: find out what became of what an earlier part left open (protocol §5, §6).

use super::super::machine::{Start, Write};
use super::super::recovery::{Orders, start_of};
use super::{Engine, EngineError, mutated};
use crate::broker::{Atomicity, Intent, Proof};
use crate::ledger::{Entry, LEFT_OPEN, LetterState};
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
            && !mutated("t02");
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

    /// How a line of the manifest enters this part of the run.
    pub(super) fn start_of_line(&mut self, line: &Line) -> Result<Start, EngineError> {
        let twin = line.twin_of.map(|of| Start::Twin { of });
        let fresh = Start::Send { attempt: 0, open: false };
        let Some(orders) = self.job.resume else { return Ok(twin.unwrap_or(fresh)) };
        let state = self.writes.state(self.job.ledger, line.seq)?;
        let to_send = state == LetterState::Planned || state == LetterState::Failed && orders.retry_failed;
        if to_send && let Some(run) = self.left_open_by(&line.position)? {
            if state == LetterState::Failed {
                return Ok(Start::Failed);
            }
            self.refusals.insert(line.seq, (LEFT_OPEN.to_owned(), run));
            return Ok(Start::LeftOpen);
        }
        if state == LetterState::Planned {
            return Ok(twin.unwrap_or(fresh));
        }
        let (mut attempt, mut proof) = (0, None);
        if matches!(state, LetterState::Intended | LetterState::InDoubt)
            && let Some(open) = self.job.ledger.open_letter(self.job.number, line.seq)?
        {
            attempt = open.attempt;
            self.first_intent.insert(line.seq, open.first_at);
            // Recovery has asked the broker already; what is still intended may be sent again.
            proof = (state == LetterState::Intended).then_some(Proof::ResendSafe);
        }
        Ok(start_of(state, attempt, proof.as_ref(), orders).0)
    }

    /// The other run that has left a letter open since this one selected it (m17). Before the first part the look asked.
    fn left_open_by(&mut self, position: &Position) -> Result<Option<String>, EngineError> {
        if self.left_open.is_none() {
            let open = self.job.ledger.open_elsewhere(&self.job.lock.dlq)?;
            let others = open.into_iter().filter(|(_, run)| *run != self.job.run);
            self.left_open = Some(others.collect());
        }
        let open = self.left_open.as_ref().filter(|_| !mutated("m17"));
        Ok(open.and_then(|open| open.get(position.as_str()).cloned()))
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
