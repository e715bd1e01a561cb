//! Consent, graded: y/N for what can be undone or redone, a name typed out for what cannot. A script gives it
//! by flag, and "yes" is never concluded from where a command runs.

use super::error::CommandError;
use crate::render::{Answer, Line, Ui};

/// `--yes` and `--yes=N`, for verbs that ask y/N.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Yes {
    /// Do not ask; with =N only if exactly N are about to be changed
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "any",
          value_parser = parse_yes)]
    yes: Option<Counted>,
}

/// What `--yes` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Any,
    Only(u64),
}

fn parse_yes(text: &str) -> Result<Counted, String> {
    match text {
        "any" => Ok(Counted::Any),
        _ => text.parse().map(Counted::Only).map_err(|_| "not a number".to_owned()),
    }
}

/// A question before a change.
pub struct Consent<'a> {
    /// The question without its `[y/N]`: `Send 119 letters to orders on kafka (protected)?`
    pub question: Line,
    /// How many are about to be changed, and what they are, singular and plural: compared with `--yes=N`.
    pub count: u64,
    /// `letter`, `letters`.
    pub noun: (&'a str, &'a str),
    /// Said when the answer is no: `Nothing was sent.`
    pub nothing: &'a str,
    /// The command as it was typed, to which a flag is added in a refusal.
    pub command: Vec<String>,
}

impl Yes {
    /// Is it there at all, so that nobody is asked?
    pub fn is_given(&self) -> bool {
        self.yes.is_some()
    }

    /// Does it allow a number that was counted, and no letter more?
    pub fn only(&self) -> bool {
        matches!(self.yes, Some(Counted::Only(_)))
    }

    /// Asks, unless the flag answers.
    ///
    /// # Errors
    /// Declined, counted differently, or nobody there to ask: all [4], nothing changed.
    pub fn consent(&self, ui: &mut Ui, ask: Consent<'_>) -> Result<(), CommandError> {
        let count = ask.count;
        let noun = if count == 1 { ask.noun.0 } else { ask.noun.1 };
        let be = if count == 1 { "is" } else { "are" };
        let with_flag = |mut command: Vec<String>| {
            command.push(format!("--yes={count}"));
            command
        };
        match self.yes {
            Some(Counted::Any) => Ok(()),
            Some(Counted::Only(allowed)) if allowed == count => Ok(()),
            Some(Counted::Only(allowed)) => Err(CommandError::refused(format!(
                "--yes={allowed}, but there {be} {count} {noun} now; {}",
                lower_first(ask.nothing)
            ))
            .next(with_flag(ask.command))),
            None => match ui.ask(ask.question.text(" [y/N]")) {
                Answer::Said(said) if matches!(said.trim(), "y" | "Y" | "yes") => Ok(()),
                Answer::Said(_) => Err(CommandError::declined(ask.nothing)),
                Answer::Nobody => Err(CommandError::refused(format!(
                    "no terminal to ask at; {} If {count} {noun} {be} right:",
                    lower_first(ask.nothing)
                ))
                .next(with_flag(ask.command))),
            },
        }
    }
}

/// A sentence as the second half of another.
fn lower_first(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Asks for a name to be typed out, unless `given` (`--confirm=NAME`) has it. `would` says what is about to
/// happen, where nobody is there to read the question.
///
/// # Errors
/// Another word, or nobody there to ask: [4], nothing changed.
pub fn typed_out(
    ui: &mut Ui,
    question: Line,
    would: &str,
    name: &str,
    given: Option<&str>,
    nothing: &str,
    mut command: Vec<String>,
) -> Result<(), CommandError> {
    let wrong = || CommandError::declined(nothing);
    match given {
        Some(given) if given == name => Ok(()),
        Some(_) => Err(wrong().hint(format!("--confirm names something else than {name}."))),
        None => match ui.ask(question) {
            Answer::Said(said) if said.trim() == name => Ok(()),
            Answer::Said(_) => Err(wrong()),
            Answer::Nobody => {
                command.push(format!("--confirm={name}"));
                let nothing = lower_first(nothing);
                Err(CommandError::refused(would)
                    .hint(format!("No terminal to ask at; {nothing} If it is meant:"))
                    .next(command))
            }
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::io;

    use super::*;
    use crate::render::Terminal;

    fn ask() -> Consent<'static> {
        Consent {
            question: "Send 119 letters to orders on kafka?".into(),
            count: 119,
            noun: ("letter", "letters"),
            nothing: "Nothing was sent.",
            command: ["redrive", "run", "x.jsonl"].map(str::to_owned).to_vec(),
        }
    }

    fn answered(input: &'static str) -> Ui {
        let terminal = Terminal { answers: true, ..Terminal::default() };
        Ui::new(terminal, Box::new(io::sink()), Box::new(io::sink()), Box::new(input.as_bytes()))
    }

    #[test]
    fn only_a_clear_yes_is_consent() {
        for (input, allowed) in
            [("y\n", true), ("yes\n", true), ("\n", false), ("n\n", false), ("", false), ("yy\n", false)]
        {
            assert_eq!(Yes::default().consent(&mut answered(input), ask()).is_ok(), allowed, "{input:?}");
        }
    }

    #[test]
    fn without_a_terminal_the_flag_is_named() {
        let (mut ui, captured) = Ui::captured();
        Yes::default().consent(&mut ui, ask()).unwrap_err().print(&mut ui);
        insta::assert_snapshot!(captured.err(), @r"
        refused: no terminal to ask at; nothing was sent. If 119 letters are right:
        next  redrive run x.jsonl --yes=119
        ");
        let (mut ui, captured) = Ui::captured();
        Yes { yes: Some(Counted::Only(120)) }.consent(&mut ui, ask()).unwrap_err().print(&mut ui);
        insta::assert_snapshot!(captured.err(), @r"
        refused: --yes=120, but there are 119 letters now; nothing was sent.
        next  redrive run x.jsonl --yes=119
        ");
        assert!(Yes { yes: Some(Counted::Only(119)) }.consent(&mut ui, ask()).is_ok());
    }

    #[test]
    fn a_name_must_be_typed_exactly() {
        let typed = |input, given| {
            typed_out(
                &mut answered(input),
                "Type orders:".into(),
                "it would discard 3 letters",
                "orders",
                given,
                "Nothing was discarded.",
                vec![],
            )
        };
        assert!(typed("orders\n", None).is_ok() && typed("", Some("orders")).is_ok());
        assert!(typed("order\n", None).is_err() && typed("orders\n", Some("order")).is_err());
    }
}
