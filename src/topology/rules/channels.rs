//! What holds for a channel by itself, and between channels of one broker.

use super::super::{At, Forms, NumberForm, Place, Topology, codes};
use super::placed;
use crate::broker::naming;
use crate::clock;
use crate::diagnostic::Diagnostic;

/// Arguments of `run` that end in `.jsonl`, hold a `/` or are `-` are manifests (design §2).
pub(super) fn name_fits_the_command_line(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for channel in &topology.channels {
        let name = &channel.name.value;
        let why = if name.contains('/') {
            "holds a `/`, like the path of a manifest"
        } else if name.ends_with(".jsonl") {
            "ends in .jsonl, like a manifest"
        } else if name.starts_with('-') {
            "begins with `-`, like a flag"
        } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            "holds a blank or a control character"
        } else {
            continue;
        };
        found.push(
            Diagnostic::error(
                codes::CHANNEL_NAME,
                format!("the command line could not take the channel `{name}`"),
            )
            .at(channel.name.span.clone(), why)
            .help("rename the channel; source: and name: keep the names on the broker"),
        );
    }
}

/// N05: a name that mixes Latin with letters that look like Latin.
pub(super) fn name_has_no_look_alikes(topology: &Topology, found: &mut Vec<Diagnostic>) {
    let names = topology.channels.iter().flat_map(|channel| {
        [Some(&channel.name), channel.consumer.as_ref(), channel.broker.as_ref(), channel.owner.as_ref()]
    });
    for name in names.flatten() {
        let latin = name.chars().any(|c| c.is_ascii_alphabetic());
        let alike = naming::strangers(
            &name.value,
            |c| !matches!(u32::from(c), 0x0370..=0x052F | 0x13A0..=0x13FF | 0xFF01..=0xFF5E | 0x200B..=0x200F | 0x2060..=0x2064 | 0x202A..=0x202E | 0xFEFF),
        );
        if let (true, Some(letters)) = (latin, alike) {
            found.push(
                Diagnostic::warning(
                    codes::LOOK_ALIKE,
                    format!("`{}` mixes letters that look alike: {letters}", name.value),
                )
                .at(name.span.clone(), "not all of it is what it looks like")
                .help("type it anew"),
            );
        }
    }
}

/// A queue that is two things at once loses or repeats messages. Between channels only a shared source is
/// fine (several consumers of one topic).
pub(super) fn queues_have_one_meaning(topology: &Topology, found: &mut Vec<Diagnostic>) {
    let mut seen: Vec<(&str, naming::Placed, &str)> = Vec::new();
    for (channel, broker, kind) in placed(topology) {
        for name in naming::placed(channel, &kind.names(channel)) {
            let twice = seen.iter().find(|(on, other, owner)| {
                // Two tiers of one delay have one name; that the delays are the same is said already.
                let said = *owner == channel.name.value && !other.written && !name.written;
                !said
                    && *on == broker.name.value
                    && other.name == name.name
                    && !(other.part == "source" && name.part == "source")
            });
            if let Some((_, other, owner)) = twice {
                let whose =
                    if *owner == channel.name.value { String::new() } else { format!(" of `{owner}`") };
                let first = format!("the {}{whose}", other.part);
                found.push(
                    Diagnostic::error(
                        codes::NAME_TWICE,
                        format!(
                            "`{}` is both the {} of `{}` and {first}",
                            name.name, name.part, channel.name.value
                        ),
                    )
                    .at(name.span.clone(), name.label("one queue for two things"))
                    .near(other.span.clone(), other.label(&first))
                    .help("give one of the two a name of its own"),
                );
            }
            seen.push((&broker.name.value, name, &channel.name.value));
        }
    }
}

/// Y14: compared as times, not as numbers.
pub(super) fn letters_outlive_a_tier(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for channel in &topology.channels {
        let Some(retention) = &channel.dead_letter.retention else { continue };
        let Some(tier) = channel.tiers.iter().find(|tier| tier.delay.value > retention.value) else {
            continue;
        };
        found.push(
            Diagnostic::error(
                codes::RETENTION_SHORT,
                "dead letters would be deleted sooner than one retry takes",
            )
            .at(retention.span.clone(), format!("kept {}", clock::exact(retention.value)))
            .near(tier.delay.span.clone(), format!("waits {}", clock::exact(tier.delay.value)))
            .help("keep them for days: somebody has to see them, decide and send them back"),
        );
    }
}

pub(super) fn alert_can_fire(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for channel in &topology.channels {
        if let (Some(retention), Some(age)) = (&channel.dead_letter.retention, &channel.dead_letter.alert_age)
            && age.value >= retention.value
        {
            found.push(
                Diagnostic::warning(
                    codes::ALERT_NEVER,
                    "this alert cannot fire: letters are gone before they are that old",
                )
                .at(age.span.clone(), clock::exact(age.value))
                .near(retention.span.clone(), format!("kept {}", clock::exact(retention.value)))
                .help("alert well before the letters expire"),
            );
        }
    }
}

/// How something is written can be said once, of something that has a place, and int32 is for headers.
pub(super) fn failure_forms_have_a_place(topology: &Topology, found: &mut Vec<Diagnostic>) {
    for channel in &topology.channels {
        let Some(failure) = &channel.failure else { continue };
        form_is_said_once("attempts", failure.attempts.as_ref(), &failure.attempts_as, found);
        form_is_said_once("at", failure.at.as_ref(), &failure.at_as, found);
        let said = failure.attempts_as.with_it.iter().chain(&failure.attempts_as.beside);
        let alone = failure.attempts_as.with_it.len() < 2;
        if alone
            && let Some(int32) = said.into_iter().find(|form| form.value == NumberForm::Int32)
            && let Some(At { value: Place::Body(_), span }) = &failure.attempts
        {
            found.push(
                Diagnostic::error(codes::IDLE, "`int32` is for a header; a body holds text")
                    .at(int32.span.clone(), "four bytes")
                    .near(span.clone(), "in the body")
                    .help("take int32 away"),
            );
        }
    }
}

fn form_is_said_once<T: Copy + PartialEq>(
    key: &str,
    place: Option<&At<Place>>,
    forms: &Forms<T>,
    found: &mut Vec<Diagnostic>,
) {
    let Some(beside) = &forms.beside else { return };
    if place.is_none() {
        found.push(
            Diagnostic::error(
                codes::IDLE,
                format!("`{key}_as` says how `{key}` is written, which has no place"),
            )
            .at(beside.span.clone(), "says nothing")
            .help(format!("write where {key} stands, or take {key}_as away")),
        );
    }
    if let Some(with_it) = forms.with_it.first() {
        found.push(
            Diagnostic::error(codes::TWICE, format!("how `{key}` is written is said twice"))
                .at(beside.span.clone(), "again here")
                .near(with_it.span.clone(), "first here")
                .help(format!("take {key}_as away")),
        );
    }
}
