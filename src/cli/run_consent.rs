//! Consent to a run: what it would send is known, and a person or a flag says yes.

use super::confirm::{Consent, Yes, typed_out};
use super::{Chosen, CommandError, Context};
use crate::topology::{Channel, Rate};

/// What flags say of it.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// `--yes`.
    pub yes: &'a Yes,
    /// `--confirm`.
    pub confirm: Option<&'a str>,
}

impl Given<'_> {
    /// Will nobody be asked?
    pub fn answers(self, channel: &Channel, rate: Rate) -> bool {
        match rate {
            Rate::Unlimited => self.confirm == Some(channel.name.value.as_str()),
            Rate::PerSecond(_) => self.yes.is_given(),
        }
    }
}

/// Asks, unless a flag answers: y/N, or for an unlimited rate the channel's name.
///
/// # Errors
/// Declined, counted differently, or nobody there to ask: all [4], nothing was sent.
#[allow(clippy::too_many_arguments)]
pub fn consent(
    ctx: &mut Context,
    args: Given<'_>,
    chosen: Chosen<'_>,
    channel: &Channel,
    target: &str,
    rate: Rate,
    (send, behind): (u64, u64),
    command: Vec<String>,
) -> Result<(), CommandError> {
    let title = chosen.title();
    let letters = if send == 1 { "letter" } else { "letters" };
    let and = match behind {
        0 => String::new(),
        behind => format!(", then those of about {behind} behind them that fit,"),
    };
    let question = format!("Send {send} {letters}{and} to {target} on {title}?");
    if rate == Rate::Unlimited {
        let name = channel.name.value.as_str();
        let what = format!("send {send} {letters}{and} at once to {target} on {title}");
        return typed_out(
            &mut ctx.ui,
            format!("Type {name} to {what}:").into(),
            &format!("--rate unlimited would {what}"),
            name,
            args.confirm,
            "Nothing was sent.",
            command,
        );
    }
    args.yes.consent(
        &mut ctx.ui,
        Consent {
            question: question.into(),
            count: send,
            noun: ("letter", "letters"),
            nothing: "Nothing was sent.",
            command,
        },
    )
}

/// Consent to a run that sends nothing.
///
/// # Errors
/// As [`consent`].
pub fn consent_to_trim(
    ctx: &mut Context,
    args: Given<'_>,
    chosen: Chosen<'_>,
    queue: &str,
    hidden: u64,
    command: Vec<String>,
) -> Result<(), CommandError> {
    let letters = if hidden == 1 { "letter" } else { "letters" };
    let what = format!("remove up to {hidden} moved {letters} from {queue} on {}", chosen.title());
    args.yes.consent(
        &mut ctx.ui,
        Consent {
            question: format!("Send nothing, and {what}?").into(),
            count: hidden,
            noun: ("letter", "letters"),
            nothing: "Nothing was removed.",
            command,
        },
    )
}
