//! How a verb ends: the one place that knows exit codes, and the error that every verb gives.

use serde::Serialize;

use crate::broker::{BrokerError, ErrorKind};
use crate::redact;
use crate::render::{Line, Ui};

/// What the process says to its caller. `redrive explain exit-codes` prints [`ExitCode::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// Done, or nothing to do.
    Done,
    /// Failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The topology is not valid.
    Topology,
    /// Refused by a guard, or declined.
    Refused,
    /// `plan --check`: changes pend.
    Pending,
    /// Some moved, some failed or held.
    Partial,
    /// Stopped early; can be resumed.
    Stopped,
    /// An alert threshold is crossed.
    Alert,
    /// `find`: not found.
    NotFound,
    /// A bug.
    Bug,
    /// SIGHUP.
    HungUp,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl ExitCode {
    /// Was the process told to end?
    pub fn is_signal(self) -> bool {
        matches!(self, Self::HungUp | Self::Interrupted | Self::Terminated)
    }

    /// All, by number.
    pub const ALL: &[Self] = &[
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Topology,
        Self::Refused,
        Self::Pending,
        Self::Partial,
        Self::Stopped,
        Self::Alert,
        Self::NotFound,
        Self::Bug,
        Self::HungUp,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// The number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Topology => 3,
            Self::Refused => 4,
            Self::Pending => 10,
            Self::Partial => 11,
            Self::Stopped => 12,
            Self::Alert => 13,
            Self::NotFound => 14,
            Self::Bug => 70,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// A few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Done => "done, or nothing to do",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Topology => "topology not valid",
            Self::Refused => "refused, or declined",
            Self::Pending => "changes pending (plan --check)",
            Self::Partial => "partial: some moved, some failed or held",
            Self::Stopped => "stopped early, can be resumed",
            Self::Alert => "an alert threshold is crossed",
            Self::NotFound => "not found",
            Self::Bug => "a bug: counts do not add up",
            Self::HungUp => "hung up",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }

    /// A word for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Topology => "topology",
            Self::Refused => "refused",
            Self::Pending => "pending",
            Self::Partial => "partial",
            Self::Stopped => "stopped",
            Self::Alert => "alert",
            Self::NotFound => "not_found",
            Self::Bug => "bug",
            Self::HungUp => "hung_up",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }

    /// Which of several counts: a bug, a signal, stopped, partial, failed; then the rest, done last.
    const fn weight(self) -> u8 {
        match self {
            Self::Bug => 100,
            Self::HungUp | Self::Interrupted | Self::Terminated => 90,
            Self::Stopped => 80,
            Self::Partial => 70,
            Self::Failed => 60,
            Self::Usage => 50,
            Self::Topology => 40,
            Self::Refused => 30,
            Self::Pending => 20,
            Self::Alert => 15,
            Self::NotFound => 10,
            Self::Done => 0,
        }
    }

    /// The one that counts, of two.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        if other.weight() > self.weight() { other } else { self }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

/// What a verb gives: a code for what it has said itself, or an error that is still to be said.
pub type Outcome = Result<ExitCode, CommandError>;

/// Why a verb did not do what it was asked.
#[derive(Debug, Clone)]
pub struct CommandError {
    code: ExitCode,
    head: Head,
    message: String,
    hints: Vec<String>,
    next: Vec<String>,
    problems: Vec<serde_json::Value>,
    of_broker: bool,
}

/// An error as data, for `-o json`.
#[derive(Serialize)]
struct Data {
    schema: &'static str,
    code: &'static str,
    exit: u8,
    message: String,
    hints: Vec<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    problems: Vec<serde_json::Value>,
    next: Vec<String>,
}

/// The word before the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    Error,
    Refused,
    None,
}

impl CommandError {
    fn new(code: ExitCode, head: Head, message: impl Into<String>) -> Self {
        Self {
            code,
            head,
            message: message.into(),
            hints: Vec::new(),
            next: Vec::new(),
            problems: Vec::new(),
            of_broker: false,
        }
    }

    /// `error: …` [1]: it was tried and did not work.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Failed, Head::Error, message)
    }

    /// `error: …` [2]: the command line cannot be meant like this.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, Head::Error, message)
    }

    /// [3], with the last line below the problems: `redrive.yaml: 3 errors, all shown; …`.
    pub fn topology(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Topology, Head::None, message)
    }

    /// `refused: …` [4]: a guard held it back.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Refused, Head::Refused, message)
    }

    /// [4], said as it is: `Nothing was sent.`
    pub fn declined(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Refused, Head::None, message)
    }

    /// `error: …` [14].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ExitCode::NotFound, Head::Error, message)
    }

    /// `error: …` [70]: cannot be, and is.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Bug, Head::Error, message)
    }

    /// `error: …` of a broker [1], with its hint. `broker` is its name in the topology.
    pub fn broker(broker: &str, error: &BrokerError) -> Self {
        let code = error.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
        let mut made = Self::failed(format!("{broker} could not {}: {}{code}", error.action, error.message));
        made.of_broker = true;
        // Where the hint is no command: which version this is. Of all else the last hand says what to type.
        if error.kind == ErrorKind::Version {
            made = made.next(["redrive", "--version"]);
        }
        match &error.hint {
            // A hint that is a command goes where commands go.
            Some(hint) if hint.starts_with("redrive ") => made.next(hint.split_whitespace()),
            hint => {
                made.hints.extend(hint.clone());
                made
            }
        }
    }

    /// With another exit code: `run` stops with 12 for a broker error in its middle.
    #[must_use]
    pub fn with_code(mut self, code: ExitCode) -> Self {
        self.code = code;
        self
    }

    /// Adds a line below the message.
    #[must_use]
    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.hints.push(text.into());
        self
    }

    /// Says what to type next, as arguments. Text of a message must not be among them.
    #[must_use]
    pub fn next<S: Into<String>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.next = command.into_iter().map(Into::into).collect();
        self
    }

    /// What to type next, as far as it was said.
    pub fn next_command(&self) -> &[String] {
        &self.next
    }

    /// With the problems of a topology, for `-o json`.
    #[must_use]
    pub fn problems(mut self, problems: Vec<serde_json::Value>) -> Self {
        self.problems = problems;
        self
    }

    /// The code that the process ends with.
    pub fn code(&self) -> ExitCode {
        self.code
    }

    /// Did a broker say so, or not answer?
    pub fn is_of_broker(&self) -> bool {
        self.of_broker
    }

    /// Is it said as it is, since a person said no?
    pub fn is_declined(&self) -> bool {
        self.head == Head::None && self.code == ExitCode::Refused
    }

    /// What happened, without the word before it.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn data(&self) -> Data {
        let safe = |texts: &[String]| texts.iter().map(|text| redact::text(text)).collect();
        Data {
            schema: "redrive.error.v1",
            code: self.code.code(),
            exit: self.code.number(),
            message: redact::text(&self.message),
            hints: safe(&self.hints),
            problems: self.problems.clone(),
            next: safe(&self.next),
        }
    }

    /// Prints it on stderr, as data with `-o json`. Secrets are taken out, whoever put them in.
    pub fn print(&self, ui: &mut Ui) {
        if ui.json() {
            return ui.tell_document(&self.data());
        }
        let head = match self.head {
            Head::Error => Line::new().red("error").text(": "),
            Head::Refused => Line::new().bold("refused").text(": "),
            Head::None => Line::new(),
        };
        let mut lines = self.message.lines();
        ui.tell_folded(head.text(redact::text(lines.next().unwrap_or_default())), 2);
        for line in lines.chain(self.hints.iter().flat_map(|hint| hint.lines())) {
            ui.tell_folded(format!("  {}", redact::text(line)), 2);
        }
        if !self.next.is_empty() {
            let next: Vec<String> = self.next.iter().map(|argument| redact::text(argument)).collect();
            ui.tell(Line::new().dim("next").text("  ").bold(crate::render::shell_line(&next)));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn l09_codes_are_distinct_and_listed() {
        let numbers: Vec<u8> = ExitCode::ALL.iter().map(|code| code.number()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 70, 129, 130, 143]);
    }

    #[test]
    fn l09_of_several_codes_the_gravest_counts() {
        use ExitCode::*;
        for (several, counts) in [
            (vec![Failed, Partial, Stopped, Interrupted, Bug], Bug),
            (vec![Failed, Terminated, Stopped], Terminated),
            (vec![Partial, Stopped, Failed], Stopped),
            (vec![Done, Partial, Failed], Partial),
            (vec![Done, Failed], Failed),
            (vec![Done, Done], Done),
            (vec![Pending, Refused], Refused),
        ] {
            assert_eq!(several.into_iter().fold(Done, ExitCode::and), counts);
        }
    }

    #[test]
    fn refusals_look_like_the_screens() {
        let (mut ui, captured) = Ui::captured();
        CommandError::refused("timeouts.jsonl is stale: 117 of 131 letters are gone, moved by run r7d2f9")
            .hint("Frozen at 03:14:02Z. To run the other 14:")
            .next(["redrive", "run", "timeouts.jsonl", "--broker", "kafka", "--allow-stale"])
            .print(&mut ui);
        insta::assert_snapshot!(captured.err(), @r"
        refused: timeouts.jsonl is stale: 117 of 131 letters are gone, moved by run r7d2f9
          Frozen at 03:14:02Z. To run the other 14:
        next  redrive run timeouts.jsonl --broker kafka --allow-stale
        ");
    }

    #[test]
    fn refusals_are_data_where_data_is_asked_for() {
        let (mut ui, captured) = Ui::captured();
        ui.set_format(crate::render::Format::Json);
        CommandError::refused("amqp://ops:S3cr3t-Canary@mq is \u{1b}protected")
            .hint("Name it.")
            .next(["redrive", "apply", "--broker", "mq"])
            .print(&mut ui);
        insta::assert_snapshot!(captured.err(), @r#"{"schema":"redrive.error.v1","code":"refused","exit":4,"message":"amqp://ops:****@mq is \u001bprotected","hints":["Name it."],"next":["redrive","apply","--broker","mq"]}"#);
    }

    #[test]
    fn x01_secrets_never_leave_an_error() {
        let (mut ui, captured) = Ui::captured();
        let error = BrokerError::new(
            ErrorKind::Unreachable,
            "connect",
            "amqp://ops:S3cr3t-Canary@127.0.0.1:1/prod: refused",
        );
        CommandError::broker("mq", &error).print(&mut ui);
        assert_eq!(
            captured.err(),
            "error: mq could not connect: amqp://ops:****@127.0.0.1:1/prod: refused\n"
        );
    }
}
