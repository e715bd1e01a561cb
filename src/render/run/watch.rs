//! While a run goes: a bar on a terminal, a line every ten seconds off it, JSON lines for `--events`.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::RunScreen;
use crate::clock::{Clock, rough};
use crate::render::units::number;
use crate::render::{Line, Progress, Ui, bar};
use crate::run::event::{self, Event, Observer};

/// After so long it is said that nothing is handed out.
const HIDDEN: Duration = Duration::from_secs(3);

/// Watches one part of a run.
pub struct Watch<'a> {
    ui: &'a mut Ui,
    screen: &'a RunScreen,
    progress: Progress,
    events: Option<Events>,
    clock: Arc<dyn Clock>,
    seq: u64,
    kept: u64,
    stopping: bool,
    yielded: bool,
    in_hand: usize,
    trouble: Option<Trouble>,
}

/// What a run waits for, until the next letter is moved.
struct Trouble {
    what: String,
    /// Letters that were moved before it, as the next figures say: those of before it are older.
    moved: Option<u64>,
}

/// A watch that is told from two sides: by the run, and by who asks it to stop while a call of the broker keeps it.
#[derive(Clone)]
pub struct Shared<'a>(Arc<Mutex<Watch<'a>>>);

impl<'a> Shared<'a> {
    /// Of this watch.
    pub fn of(watch: Watch<'a>) -> Self {
        Self(Arc::new(Mutex::new(watch)))
    }

    /// The watch, for one to say something.
    pub fn watch(&self) -> MutexGuard<'_, Watch<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Shared<'_> {
    fn see(&mut self, event: &Event<'_>) {
        self.watch().see(event);
    }

    fn wants_letters(&self) -> bool {
        self.watch().wants_letters()
    }
}

/// Where events go.
pub struct Events {
    /// There.
    pub out: Box<dyn Write + Send>,
    /// In words: the file.
    pub to: String,
}

impl<'a> Watch<'a> {
    /// Watches, and writes events if somebody wants them.
    pub fn new(ui: &'a mut Ui, screen: &'a RunScreen, events: Option<Events>, clock: Arc<dyn Clock>) -> Self {
        Self {
            ui,
            screen,
            progress: Progress::new(),
            events,
            clock,
            seq: 0,
            kept: 0,
            stopping: false,
            yielded: false,
            in_hand: 0,
            trouble: None,
        }
    }

    /// Says that it begins.
    pub fn begun(&mut self, planned: u64, send: u64, kept: (u64, u64)) {
        self.kept = kept.0 + kept.1;
        if !self.ui.json() {
            let head = self.head();
            self.ui.tell_folded(head, 2);
        }
        self.emit(json!({
            "event": "started", "planned": planned, "send": send, "skipped": kept.0, "held": kept.1
        }));
    }

    /// Goes on with the events of an earlier pass.
    #[must_use]
    pub fn after(mut self, seq: u64) -> Self {
        self.seq = seq;
        self
    }

    /// The pass is over: the events, and how many there were.
    pub fn over(&mut self) -> (Option<Events>, u64) {
        self.progress.clear(self.ui);
        (self.events.take(), self.seq)
    }

    /// Says that it is stopping: at once when a person asks, though the run may hear of it later. Said once.
    pub fn stopping(&mut self, in_hand: usize) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        self.progress.clear(self.ui);
        if !self.ui.json() {
            let what = format!("{} in hand are being settled or given back", number(in_hand as u64));
            self.ui.tell_folded(format!("stopping: {what}; a second Ctrl-C leaves at once, also safe"), 10);
        }
        self.emit(json!({"event": "stopping", "in_flight": in_hand}));
    }

    /// A person asked it to stop.
    pub fn asked_to_stop(&mut self) {
        self.stopping(self.in_hand);
    }

    /// Says that it goes on with letters that could not be seen before.
    pub fn goes_on(&mut self, pass: u32, planned: u64, send: u64, kept: (u64, u64)) {
        self.kept = kept.0 + kept.1;
        self.emit(json!({
            "event": "pass", "pass": pass, "planned": planned, "send": send, "skipped": kept.0, "held": kept.1
        }));
    }

    /// Says that it ended.
    pub fn ended(&mut self, state: &str, exit: u8, why: &str, counts: &crate::ledger::Counts) {
        self.progress.clear(self.ui);
        let mut event = json!({"event": "ended", "state": state, "exit": exit, "why": why});
        if let (Some(event), Ok(Json::Object(counts))) = (event.as_object_mut(), serde_json::to_value(counts))
        {
            event.extend(counts);
        }
        self.emit(event);
    }

    fn head(&self) -> Line {
        Line::new().bold(format!("run {}", self.screen.run)).text(format!(
            " · {} · {} · Ctrl-C stops once what is in flight is settled",
            self.screen.channel, self.screen.title
        ))
    }

    /// A line of JSON with what all of them begin with. A reader that has gone ends the events, never the run.
    fn emit(&mut self, event: Json) {
        let Some(events) = &mut self.events else { return };
        self.seq += 1;
        let mut line = json!({
            "schema": "redrive.event.v1",
            "run": self.screen.run,
            "seq": self.seq,
            "at": self.clock.now(),
        });
        if let (Some(line), Json::Object(event)) = (line.as_object_mut(), event) {
            line.extend(event);
        }
        let text = crate::render::compact_json(&line);
        if let Err(error) = writeln!(events.out, "{text}").and_then(|()| events.out.flush()) {
            let to = self.events.take().map(|events| events.to).unwrap_or_default();
            if error.kind() != std::io::ErrorKind::BrokenPipe {
                self.progress.clear(self.ui);
                self.ui.tell(format!(
                    "note  Events end here, the run goes on: could not write to {to}: {error}"
                ));
            }
        }
    }

    fn show(&mut self, progress: &event::Progress) {
        let counts = progress.counts;
        let done = self.screen.sent_before + progress.moved_now;
        let of = self.screen.sending.max(done);
        let percent = (done * 100).checked_div(of).unwrap_or(100);
        let left = of.saturating_sub(done);
        let rate = progress.rate;
        // What the first moments give says nothing about the others.
        let hidden = progress.dry.filter(|dry| *dry >= HIDDEN);
        let now = progress.moved_now;
        self.trouble = self.trouble.take().filter(|trouble| trouble.moved.is_none_or(|before| before == now));
        if let Some(trouble) = &mut self.trouble {
            trouble.moved = Some(now);
        }
        let waiting = hidden.is_some() || self.trouble.is_some();
        let pace = match !waiting && rate > 0.0 && progress.took >= Duration::from_secs(1) {
            true => {
                let seconds = Duration::from_secs((left as f64 / rate).ceil() as u64);
                format!(" · {rate:.1}/s · {} left", rough(seconds))
            }
            false => String::new(),
        };
        // Where looking costs something, or before the first look, nothing is said of it.
        let refailed =
            progress.refailed.map_or_else(String::new, |letters| format!(" · re-failed {}", number(letters)));
        let figures = format!("{} of {} · {percent}%{pace}", number(done), number(of));
        let outcomes = format!(
            "moved {}{refailed} · failed {} · held {}{}",
            number(counts.moved),
            number(counts.failed),
            number(counts.held),
            match counts.in_doubt {
                0 => String::new(),
                doubt => format!(" · in doubt {}", number(doubt)),
            }
        );
        let waits = hidden.map(|dry| {
            let queue = &self.screen.queue;
            format!("nothing of {queue} for {}: another reader, or a process that died, hides it", rough(dry))
        });
        let waits = waits.or_else(|| self.trouble.as_ref().map(|trouble| format!("waits: {}", trouble.what)));
        let outcomes = match progress.yields_to {
            None => outcomes,
            Some(overdue) => format!("{outcomes} · waits for the relay, {} overdue", number(overdue)),
        };
        let lines: Vec<Line> = match self.ui.animates() {
            true => {
                let head = Line::new().text("sending  ").text(bar(done, of)).text("  ").bold(figures);
                let below = std::iter::once(outcomes).chain(waits);
                std::iter::once(head).chain(below.map(|text| format!("         {text}").into())).collect()
            }
            false => {
                let waits = waits.map_or_else(String::new, |waits| format!(" · {waits}"));
                vec![format!("sending  {figures} · {outcomes}{waits}").into()]
            }
        };
        self.progress.show(self.ui, progress.took, &lines);
    }
}

impl Observer for Watch<'_> {
    fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Progress(progress) => {
                self.in_hand = progress.in_hand;
                self.show(progress);
            }
            Event::Trouble { what, wait } => {
                // A cause is said once; then it stands with the figures until something moves. What was being
                // done, before the colon, differs from try to try.
                let cause = |what: &str| what.split_once(": ").map(|(_, cause)| cause.to_owned());
                let known = self.trouble.as_ref().is_some_and(|before| cause(&before.what) == cause(what));
                if !known {
                    self.progress.clear(self.ui);
                    self.ui.note(format!("{what}; trying again in {}.", rough(*wait)));
                }
                let moved = self.trouble.as_ref().and_then(|before| before.moved);
                self.trouble = Some(Trouble { what: (*what).to_owned(), moved });
                self.emit(json!({"event": "trouble", "what": what, "wait_ms": wait.as_millis() as u64}));
            }
            Event::Yielding { overdue, yields } => {
                let event = if *yields { "yielding" } else { "goes_on" };
                self.emit(json!({"event": event, "overdue": overdue}));
                if *yields && !std::mem::replace(&mut self.yielded, true) && !self.ui.json() {
                    self.progress.clear(self.ui);
                    self.ui.note(format!(
                        "{} overdue in the tiers: the relay goes first, the run has a turn every few seconds.",
                        crate::render::units::count(*overdue, "message is", "messages are")
                    ));
                }
            }
            Event::Stopping { in_flight } => self.stopping(*in_flight),
            Event::Letter { line, outcome, detail } => {
                let mut event = json!({
                    "event": outcome,
                    "letter": line.letter,
                    "event_id": line.event_id,
                    "group": line.group,
                });
                let key = match *outcome {
                    "moved" => "to",
                    "held" => "behind",
                    _ => "code",
                };
                event[key] = json!(detail);
                self.emit(event);
            }
        }
    }

    fn wants_letters(&self) -> bool {
        self.events.is_some()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.progress.clear(self.ui);
    }
}
