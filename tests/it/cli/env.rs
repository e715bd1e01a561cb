//! A scratch folder and an empty environment in which the built program runs: time, width, user, host and
//! ids stand still, so that all it prints can be compared.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// When the tests play.
pub const NOW: &str = "2026-11-30T03:12:08Z";

/// One scratch folder with its environment.
pub struct TestEnv {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
    filters: Vec<(String, String)>,
}

impl Default for TestEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl TestEnv {
    /// An empty folder; 100 columns; 2026-11-30 03:12:08Z; `mira@ops-2`.
    pub fn new() -> Self {
        let fixed = [
            ("REDRIVE_NOW", NOW),
            ("REDRIVE_WIDTH", "100"),
            ("REDRIVE_SEED", "test"),
            ("REDRIVE_HOST", "ops-2"),
            ("USER", "mira"),
            ("LANG", "C.UTF-8"),
        ];
        Self {
            folder: tempfile::tempdir().unwrap(),
            variables: fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            filters: Vec::new(),
        }
    }

    /// The folder in which the program runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the folder.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes `redrive.yaml`.
    pub fn topology(&self, text: &str) -> &Self {
        self.write("redrive.yaml", text);
        self
    }

    /// Sets a variable for the runs that follow; an empty value takes it away.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.variables.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.variables.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The clock runs: for tests with real leases and delays.
    pub fn real_time(&mut self) -> &mut Self {
        self.set("REDRIVE_NOW", "")
    }

    /// Moves the standing clock.
    pub fn at(&mut self, now: &str) -> &mut Self {
        self.set("REDRIVE_NOW", now)
    }

    /// Shows `text` as `shown` in what is compared.
    pub fn hide(&mut self, text: &str, shown: &str) -> &mut Self {
        self.filters.push((text.to_owned(), shown.to_owned()));
        self
    }

    /// The program with its environment, ready to be started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command.args(arguments).current_dir(self.folder()).env_clear();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the program to its end, with nothing on stdin.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, b"")
    }

    /// Runs a line of words without quotes: `inspect orders --letters`.
    pub fn line(&self, line: &str) -> Run {
        self.run(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs the program with `input` on stdin, which is no terminal.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut child = self.start(arguments);
        // The program may end without reading.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Run {
            out: self.shown(&output.stdout),
            err: self.shown(&output.stderr),
            code: output.status.code(),
            bytes: output.stdout,
        }
    }

    /// Runs the program with somebody at its stdin who types `input`; stdout and stderr are still pipes.
    pub fn answer(&self, arguments: &[&str], input: &str) -> Run {
        let (mut ours, theirs) = terminal();
        let child = self
            .command(arguments)
            .stdin(theirs)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        ours.write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Run {
            out: self.shown(&output.stdout),
            err: self.shown(&output.stderr),
            code: output.status.code(),
            bytes: output.stdout,
        }
    }

    /// As [`TestEnv::answer`], but what is typed comes after the question, and `meanwhile` before it.
    pub fn answer_after(&self, arguments: &[&str], meanwhile: impl FnOnce(), input: &str) -> Run {
        use std::io::Read;
        let (mut ours, theirs) = terminal();
        let mut command = self.command(arguments);
        let mut child = command.stdin(theirs).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        let mut said = Vec::new();
        let mut byte = [0];
        while !said.ends_with(b"[y/N]") {
            assert_eq!(err.read(&mut byte).unwrap(), 1, "no question: {}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
        meanwhile();
        ours.write_all(input.as_bytes()).unwrap();
        err.read_to_end(&mut said).unwrap();
        let output = child.wait_with_output().unwrap();
        Run {
            out: self.shown(&output.stdout),
            err: self.shown(&said),
            code: output.status.code(),
            bytes: output.stdout,
        }
    }

    /// Runs the program wholly on a terminal: what arrives there, both outputs together.
    pub fn on_terminal(&self, arguments: &[&str]) -> String {
        let (mut ours, theirs) = terminal();
        let mut child = self
            .command(arguments)
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs)
            .spawn()
            .unwrap();
        let mut bytes = Vec::new();
        // Ends with an error once the other side is closed everywhere.
        let _ = std::io::Read::read_to_end(&mut ours, &mut bytes);
        let _ = child.wait().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Runs the program with both outputs in one pipe, in the order in which they were written, as a person
    /// reads them; and how it ended.
    pub fn together(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let (mut ours, theirs) = std::io::pipe().unwrap();
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let mut child = command.spawn().unwrap();
        // The command holds the writing side open until it is gone.
        drop(command);
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut ours, &mut bytes).unwrap();
        (self.shown(&bytes), child.wait().unwrap().code())
    }

    /// Starts the program with pipes; for tests that kill it or run several.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn shown(&self, bytes: &[u8]) -> String {
        let folder = self.folder().display().to_string();
        let mut text = String::from_utf8(bytes.to_vec())
            .expect("all that is printed is UTF-8")
            .replace(&folder, "[folder]");
        for (hidden, shown) in &self.filters {
            text = text.replace(hidden, shown);
        }
        text
    }
}

/// Both sides of a new terminal.
pub(super) fn terminal() -> (std::fs::File, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (ours.into(), theirs)
}

/// What a run printed and how it ended. Its text form is what snapshots hold.
#[must_use]
#[derive(Debug, Clone)]
pub struct Run {
    /// Stdout, with the scratch folder as `[folder]`.
    pub out: String,
    /// Stderr, likewise.
    pub err: String,
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Stdout as it was.
    pub bytes: Vec<u8>,
}

impl Run {
    /// Ended with 0, or the test fails with all that was printed.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// Ended with `code`, or the test fails with all that was printed.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// Is `text` anywhere in what was printed?
    pub fn says(&self, text: &str) -> bool {
        let folds = |shown: &str| shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(text);
        // A row with a long name in it is folded.
        [&self.out, &self.err].into_iter().any(|shown| shown.contains(text) || folds(shown))
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.out)?;
        if !self.err.is_empty() {
            writeln!(f, "--- stderr")?;
            f.write_str(&self.err)?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => writeln!(f, "[{code}]"),
            None => writeln!(f, "[killed]"),
        }
    }
}
