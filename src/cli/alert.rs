//! `redrive alert`: the thresholds of `dead_letter.alert`, for monitors. Exit 13 if one is crossed.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::status::counted;
use super::{CommandError, Context, ExitCode, Outcome};
use crate::render::status::{AlertAs, print_alert};
use crate::triage::AlertState;

/// Arguments of `alert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  redrive alert\n  redrive alert orders --as nagios\n\n\
                        Exit: 0 below all thresholds, 13 if one is crossed, 1 if a broker could not be asked or a\n\
                        queue with a threshold is not there.")]
pub struct Args {
    /// Channel; without one, all
    #[arg(value_name = "CHANNEL")]
    channel: Option<String>,
    /// How to answer: text (JSON with -o json), nagios or prometheus
    #[arg(long = "as", value_name = "FORMAT", default_value = "text")]
    how: AlertAs,
}

impl ValueEnum for AlertAs {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Text, Self::Nagios, Self::Prometheus]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Text => "text",
            Self::Nagios => "nagios",
            Self::Prometheus => "prometheus",
        }))
    }
}

/// Runs it.
///
/// # Errors
/// [2]: no such channel. [1]: a broker could not be asked, or a queue with a threshold is not there.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let (channels, trouble) = match counted(ctx, args.channel.as_deref()).await {
        Ok(counted) => counted,
        Err(error) => {
            // A monitor reads stdout only.
            if args.how == AlertAs::Nagios {
                ctx.ui.say(format!("UNKNOWN - {}", crate::redact::text(error.message())));
            }
            return Err(error);
        }
    };
    let over = channels.iter().find(|status| status.alert.state == AlertState::Over);
    let next = over.map(|status| ctx.command(&["inspect", &status.place.channel])).unwrap_or_default();
    let unasked = trouble.as_ref().map(|error| crate::redact::text(error.message()));
    print_alert(&mut ctx.ui, &channels, args.how, unasked.as_deref(), &next);
    // Empty and not there are two things: a monitor must not take a wrong name for a good day.
    let absent: Vec<String> = channels
        .iter()
        .filter(|status| status.is_absent() && status.alert.state == AlertState::Unknown)
        .map(|status| format!("{} on {}", status.depths.dead_letter.queue, status.place.broker))
        .collect();
    let trouble = trouble.or_else(|| {
        let (is, it) = if absent.len() == 1 { ("is", "it") } else { ("are", "them") };
        let message = format!("{} {is} not there: whether letters wait is not known", absent.join(", "));
        let error = CommandError::failed(message).hint(format!("To see what is missing, and make {it}:"));
        (!absent.is_empty()).then(|| error.next(ctx.command(&["plan"])))
    });
    let code = if over.is_some() { ExitCode::Alert } else { ExitCode::Done };
    match trouble {
        // A threshold that is crossed says more than a broker that is silent.
        Some(error) if over.is_some() => {
            let error = ctx.with_next(error);
            error.print(&mut ctx.ui);
            Ok(code)
        }
        Some(error) => Err(error),
        None => Ok(code),
    }
}
