//! A person at a terminal: what they see on it while a command runs, not the bytes that were sent there.

use std::io::{Read, Write};
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::env::{TestEnv, terminal};

/// What stands on a terminal of a given width. Knows as much as our programs use.
#[derive(Default)]
pub struct Screen {
    columns: usize,
    rows: Vec<Vec<char>>,
    at: (usize, usize),
    sequence: Option<String>,
    /// Rows that went on in the next one because they were too wide.
    pub wrapped: Vec<String>,
}

impl Screen {
    fn of(columns: usize) -> Self {
        Self { columns, rows: vec![Vec::new()], ..Self::default() }
    }

    fn see(&mut self, text: &str) {
        for c in text.chars() {
            if let Some(sequence) = &mut self.sequence {
                sequence.push(c);
                if c.is_ascii_alphabetic() {
                    let sequence = self.sequence.take().unwrap();
                    self.act(&sequence);
                }
                continue;
            }
            match c {
                '\u{1b}' => self.sequence = Some(String::new()),
                '\r' => self.at.1 = 0,
                '\n' => self.down(),
                c => self.put(c),
            }
        }
    }

    fn down(&mut self) {
        self.at.0 += 1;
        while self.rows.len() <= self.at.0 {
            self.rows.push(Vec::new());
        }
    }

    fn put(&mut self, c: char) {
        if self.at.1 >= self.columns {
            self.wrapped.push(self.rows[self.at.0].iter().collect());
            self.at.1 = 0;
            self.down();
        }
        let row = &mut self.rows[self.at.0];
        while row.len() <= self.at.1 {
            row.push(' ');
        }
        row[self.at.1] = c;
        self.at.1 += 1;
    }

    fn act(&mut self, sequence: &str) {
        match sequence {
            "[J" => {
                self.rows.truncate(self.at.0 + 1);
                self.rows[self.at.0].truncate(self.at.1);
            }
            up if up.ends_with('A') => {
                let by: usize = up.trim_matches(['[', 'A']).parse().unwrap();
                self.at.0 = self.at.0.checked_sub(by).expect("above the first row");
            }
            colour if colour.ends_with('m') => {}
            other => panic!("a sequence that nobody expected: {other:?}"),
        }
    }

    /// The rows as a person reads them.
    pub fn rows(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }
}

/// A command that runs at a terminal.
pub struct Sitting {
    child: Child,
    ours: std::fs::File,
    arrives: Receiver<Vec<u8>>,
    rest: Vec<u8>,
    /// What it shows.
    pub screen: Screen,
}

impl TestEnv {
    /// Starts the program wholly on a terminal of this width.
    pub fn sit(&self, arguments: &[&str], columns: u16) -> Sitting {
        let (ours, theirs) = terminal();
        let size = rustix::termios::Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&ours, size).unwrap();
        let mut command = self.command(arguments);
        command.env_remove("REDRIVE_WIDTH").env("TERM", "xterm");
        let child = command
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs)
            .spawn()
            .unwrap();
        // The command holds the other side open until it is gone.
        drop(command);
        let (says, arrives) = mpsc::channel();
        let mut reader = ours.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Ends with an error once the other side is closed everywhere.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if says.send(bytes[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Sitting { child, ours, arrives, rest: Vec::new(), screen: Screen::of(columns.into()) }
    }
}

impl Sitting {
    /// Shows what arrives next, if anything does within `wait`; false at the end.
    fn read(&mut self, wait: Duration) -> bool {
        match self.arrives.recv_timeout(wait) {
            Ok(bytes) => self.rest.extend(bytes),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.rest.split_off(whole);
        let text = String::from_utf8(std::mem::replace(&mut self.rest, rest)).unwrap();
        self.screen.see(&text);
        true
    }

    /// Goes on reading for a while.
    pub fn watches(&mut self, time: Duration) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            && self.read(left)
        {}
    }

    /// Waits until it shows something.
    pub fn wait_for(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.screen.rows().iter().any(|row| row.contains(text)) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no {text:?}: {:#?}", self.screen.rows());
            let goes_on = self.read(Duration::from_secs(1));
            assert!(goes_on, "it ended without {text:?}: {:#?}", self.screen.rows());
        }
    }

    /// Types.
    pub fn types(&mut self, text: &str) {
        self.ours.write_all(text.as_bytes()).unwrap();
    }

    /// Ctrl-C: the terminal shows it, and the program is told.
    pub fn ctrl_c(&mut self) {
        self.types("\u{3}");
        // A terminal throws away what it has not shown yet, and does so in its own time.
        self.watches(Duration::from_millis(50));
        self.interrupt();
    }

    /// Tells the program what Ctrl-C tells it, and shows nothing.
    pub fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Reads to the end: what stands there then, and the exit code.
    pub fn end(mut self) -> (Screen, Option<i32>) {
        while self.read(Duration::from_secs(1)) {}
        (self.screen, self.child.wait().unwrap().code())
    }
}
