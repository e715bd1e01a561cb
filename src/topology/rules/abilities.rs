//! What a channel asks of its broker against what the broker can do.

use super::super::{ReturnTo, ServedBy, Topology, codes};
use super::placed;
use crate::broker::Delay;
use crate::clock;
use crate::diagnostic::Diagnostic;

/// S30, R31: the longest delay, and its step. Where the reader waits, any delay can be done.
pub(super) fn delay_can_be_done(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for (channel, broker, kind) in placed(topology) {
        let (max, step) = match kind.capabilities(channel).delay {
            Delay::Native { max, step } => (max, step),
            Delay::TtlQueue { max } => (max, std::time::Duration::from_millis(1)),
            Delay::Reader => continue,
        };
        for tier in &channel.tiers {
            let delay = tier.delay.value;
            let problem = |title: String, label: &str| {
                Diagnostic::error(codes::DELAY, title).at(tier.delay.span.clone(), label)
            };
            if delay > max {
                found.push(
                    problem(
                        format!("{} cannot hold a message back for {}", kind.title(), clock::exact(delay)),
                        &format!("at most {}", clock::rough(max)),
                    )
                    .help(format!(
                        "write {} or less, or take another broker than {}",
                        clock::rough(max),
                        broker.name.value
                    )),
                );
            } else if !step.is_zero() && delay.as_nanos() % step.as_nanos() != 0 {
                found.push(
                    problem(
                        format!("{} cannot wait {} exactly", kind.title(), clock::exact(delay)),
                        &format!("not a multiple of {}", clock::exact(step)),
                    )
                    .help("write whole seconds; nothing is rounded in silence"),
                );
            }
        }
    }
}

pub(super) fn tiers_can_be_served(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for (channel, _, kind) in placed(topology) {
        let able = kind.capabilities(channel).served_by;
        if let Some(by) = &channel.served_by
            && !able.contains(&by.value)
        {
            let words: Vec<&str> = able.iter().map(|by| by.word()).collect();
            let mut problem = Diagnostic::error(
                codes::SERVED_BY,
                format!("on {} the tiers cannot be served by `{}`", kind.title(), by.value.word()),
            )
            .at(by.span.clone(), "not on this broker")
            .help(format!("write {}", words.join(" or ")));
            if by.value == ServedBy::Relay {
                problem =
                    problem.help("the broker carries messages back by itself; a relay would do it twice");
            }
            found.push(problem);
        }
    }
}

/// Design §3: where the source reaches every reader, the target of retries and redrives is typed out.
pub(super) fn return_is_written(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for (channel, _, kind) in placed(topology) {
        if !kind.capabilities(channel).fan_out || channel.return_to.is_some() {
            continue;
        }
        let name = &channel.name.value;
        found.push(
            Diagnostic::error(codes::RETURN_TO, format!("channel `{name}` does not say where messages return to"))
                .at(channel.source.span.clone(), format!("on {} every group that reads this gets them again", kind.title()))
                .help(format!("write return_to: {{name: {name}.return}}: a topic that only this consumer reads beside the source"))
                .help("or return_to: source, if only this consumer reads it"),
        );
    }
}

pub(super) fn consumer_is_known(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for (channel, _, kind) in placed(topology) {
        let source = channel.return_to.as_ref().is_some_and(|to| to.value == ReturnTo::Source);
        if kind.capabilities(channel).fan_out && source && channel.consumer.is_none() && !channel.shared {
            found.push(
                Diagnostic::warning(
                    codes::CONSUMER_UNKNOWN,
                    format!("channel `{}` does not say which group reads its source", channel.name.value),
                )
                .at(channel.source.span.clone(), "every group that reads it counts as a stranger")
                .help("write consumer: GROUP, or shared: true if others may see redriven messages again"),
            );
        }
    }
}

pub(super) fn retention_is_kept(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for (channel, _, kind) in placed(topology) {
        if let Some(retention) = &channel.dead_letter.retention
            && !kind.capabilities(channel).enforces_retention
        {
            found.push(
                Diagnostic::warning(codes::RETENTION_IGNORED, format!("`retention` is not enforced on {}", kind.title()))
                    .at(retention.span.clone(), "letters stay until somebody takes them")
                    .help("a time limit on a dead-letter queue would destroy letters in silence; status and alert go by it"),
            );
        }
    }
}
