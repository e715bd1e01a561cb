//! The lines of a manifest, read ahead: the next ones are checked and parsed while the last ones are sent.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader};

use tokio::task::JoinHandle;

use crate::manifest::{Fault, Line, Reader};

/// Lines read at a time.
const AHEAD: usize = 2048;

type Frozen = Box<Reader<BufReader<File>>>;

/// What is left of a manifest.
pub struct Lines {
    there: VecDeque<Box<Line>>,
    fault: Option<Fault>,
    next: Next,
}

enum Next {
    Idle(Frozen),
    Reading(JoinHandle<Ahead>),
    Over,
}

struct Ahead {
    reader: Frozen,
    lines: VecDeque<Box<Line>>,
    end: Option<Result<(), Fault>>,
}

impl Lines {
    /// Of a manifest, behind its head.
    pub fn of(reader: Reader<BufReader<File>>) -> Self {
        Self { there: VecDeque::new(), fault: None, next: Next::Idle(Box::new(reader)) }
    }

    /// The next line; `None` behind the foot, which has then been checked.
    ///
    /// # Errors
    /// See [`Fault`]; what stands before the fault has been given.
    pub(super) async fn next(&mut self) -> Result<Option<Box<Line>>, Fault> {
        loop {
            if let Some(line) = self.there.pop_front() {
                return Ok(Some(line));
            }
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            match std::mem::replace(&mut self.next, Next::Over) {
                Next::Over => return Ok(None),
                Next::Idle(reader) => self.next = read_ahead(reader),
                Next::Reading(reading) => {
                    let cut_off = |_| Fault::Io(io::Error::other("reading it was cut off"));
                    let Ahead { reader, lines, end } = reading.await.map_err(cut_off)?;
                    self.there = lines;
                    match end {
                        None => self.next = read_ahead(reader),
                        Some(end) => self.fault = end.err(),
                    }
                }
            }
        }
    }
}

fn read_ahead(mut reader: Frozen) -> Next {
    Next::Reading(tokio::task::spawn_blocking(move || {
        let mut lines = VecDeque::with_capacity(AHEAD);
        let end = loop {
            match reader.next_line() {
                Ok(Some(line)) => lines.push_back(Box::new(line)),
                Ok(None) => break Some(Ok(())),
                Err(fault) => break Some(Err(fault)),
            }
            if lines.len() >= AHEAD {
                break None;
            }
        };
        Ahead { reader, lines, end }
    }))
}
