//! The flags that judge letters, shared by `select`, `run` and `resume`.

use super::{Chosen, CommandError, Context};
use crate::broker::Capabilities;
use crate::manifest::{Head, Judged, OrderPolicy};

/// Flags that judge letters.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Judging {
    /// Keep the order of each group, or none
    #[arg(long, value_name = "group|none", default_value = "group", value_parser = order)]
    pub order: OrderPolicy,
    /// Send one of letters with one event id and body, and settle the others
    #[arg(long)]
    pub dedupe: bool,
    /// Also letters older than the dedup_window: consumers may have forgotten their ids
    #[arg(long)]
    pub past_dedup_window: bool,
    /// Also letters that died in another queue than this channel's
    #[arg(long)]
    pub any_origin: bool,
    /// Also letters that an earlier run has moved and the broker hands out again: they may be there twice
    #[arg(long)]
    pub moved_before: bool,
    /// Leave letters that a later message of their group has overtaken where they died (Kafka, groups by key)
    #[arg(long)]
    pub skip_overtaken: bool,
}

fn order(text: &str) -> Result<OrderPolicy, String> {
    match text {
        "group" => Ok(OrderPolicy::Group),
        "none" => Ok(OrderPolicy::None),
        _ => Err("group, or none".to_owned()),
    }
}

impl Judging {
    /// What of them a manifest keeps beside its order.
    pub fn frozen(&self) -> Judged {
        Judged {
            dedupe: self.dedupe,
            past_dedup_window: self.past_dedup_window,
            any_origin: self.any_origin,
            moved_before: self.moved_before,
            skip_overtaken: self.skip_overtaken,
        }
    }

    /// Adds what a manifest was frozen with: what was shown is what is sent.
    pub fn join(&mut self, head: &Head) {
        if head.order == OrderPolicy::None {
            self.order = OrderPolicy::None;
        }
        let Judged { dedupe, past_dedup_window, any_origin, moved_before, skip_overtaken } = head.judged;
        self.dedupe |= dedupe;
        self.past_dedup_window |= past_dedup_window;
        self.any_origin |= any_origin;
        self.moved_before |= moved_before;
        self.skip_overtaken |= skip_overtaken;
    }

    /// As typed, for a command to be repeated.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if self.order == OrderPolicy::None {
            flags.extend(["--order".to_owned(), "none".to_owned()]);
        }
        for (given, flag) in [
            (self.dedupe, "--dedupe"),
            (self.past_dedup_window, "--past-dedup-window"),
            (self.any_origin, "--any-origin"),
            (self.moved_before, "--moved-before"),
            (self.skip_overtaken, "--skip-overtaken"),
        ] {
            if given {
                flags.push(flag.to_owned());
            }
        }
        flags
    }
}

/// Can copies keep first times there (`--keep-timestamp`)?
///
/// # Errors
/// [4]: the broker gives them a time of its own.
pub(super) fn keeps_times(
    ctx: &Context,
    chosen: Chosen<'_>,
    capabilities: &Capabilities,
    channel: &str,
) -> Result<(), CommandError> {
    if capabilities.keeps_times {
        return Ok(());
    }
    let what = format!("--keep-timestamp: a copy has the time at which {} takes it", chosen.title());
    Err(CommandError::refused(what)
        .hint("Nothing was sent. Without it the first time stands in a header of the copy; what is there:")
        .next(ctx.command(&["inspect", channel])))
}
