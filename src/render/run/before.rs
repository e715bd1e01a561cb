//! Before anything is sent: what would go where, what would not and why, and how long it takes.

use std::time::Duration;

use serde_json::json;

use crate::clock::{Time, rough};
use crate::ledger::{NAMED_MAX, RunRow, Summary};
use crate::manifest::{Head, OrderPolicy, Why};
use crate::render::units::{bytes, count, moment, number, when};
use crate::render::{Line, Ui};
use crate::run::overtaken::Overtaken;
use crate::run::pace::time_for;
use crate::run::prepare::{Misplaced, Prepared};
use crate::run::recovery::Orders;
use crate::selection::Limit;
use crate::topology::Rate;

/// Everything that the screen before the prompt shows.
pub struct Before<'a> {
    /// The manifest's file, or the channel.
    pub source: &'a str,
    /// Channel.
    pub channel: &'a str,
    /// `kafka (protected)`.
    pub title: &'a str,
    /// Broker, by its name.
    pub broker: &'a str,
    /// Dead-letter queue.
    pub queue: &'a str,
    /// Where to.
    pub target: &'a str,
    /// The consumer that reads there, if the topology names one.
    pub readers: Option<&'a str>,
    /// Where calls really go, where the topology alone does not say it.
    pub place: Option<&'a str>,
    /// Where copies go and who gets them, if that is more than the target.
    pub reach: Option<&'a str>,
    /// Others read there too, and that is meant.
    pub shared: bool,
    /// Who they are, as far as the broker tells.
    pub others: &'a [String],
    /// Tries that a letter gets afresh.
    pub tries: usize,
    /// Why.
    pub reason: Option<&'a str>,
    /// When.
    pub at: Time,
    /// How fast.
    pub rate: Rate,
    /// As typed.
    pub rate_text: String,
    /// Time to reach the rate.
    pub ramp: Duration,
    /// Order within groups.
    pub order: OrderPolicy,
    /// The queue has no order, so that nobody can say which of its letters is the oldest.
    pub unordered: bool,
    /// The broker keeps an order of its own, by group: what order means for what is sent meanwhile is said (S06).
    pub locks_groups: bool,
    /// Errors in a row that stop it.
    pub max_errors: u32,
    /// Part of re-failed letters that stops it.
    pub stop_on_refail: Option<f64>,
    /// What is known.
    pub prepared: &'a Prepared,
}

/// What is left of a run that is to be resumed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Left {
    /// Sent, without an answer.
    pub in_doubt: u64,
    /// Moved, originals not removed.
    pub unsettled: u64,
    /// Refused.
    pub failed: u64,
    /// Not sent.
    pub planned: u64,
    /// Of those, behind one of their group that stays in doubt or failed.
    pub held: u64,
}

/// Width of the words before each line.
const LABEL: usize = 10;
/// Where the words of a line begin: behind its label, or behind the count of a line that has none.
fn behind_the_count(line: &str) -> usize {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    let count = line[blanks..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
    if blanks >= LABEL && count > 0 { blanks + count + 2 } else { LABEL }
}

/// Reasons that are told one by one; `show` tells that of each letter.
const MOST_TOLD: usize = 3;
/// Held groups that are told one by one; JSON has more of them.
const GROUPS_TOLD: usize = 4;

fn words(why: Why) -> &'static str {
    match why {
        Why::Refused => "must not be sent as they are",
        Why::OtherOrigin => "died in another queue than this channel's",
        Why::MaxRedrives => "redriven as often as allowed (max_redrives)",
        Why::DedupWindow => "older than dedup_window: consumers may have forgotten their ids",
        Why::TooLarge => "larger than the broker takes",
        Why::NoGroup => "their ordering key was lost",
        Why::MovedBefore => {
            "moved by another run, and handed out again by the broker (--moved-before sends again)"
        }
        Why::Overtaken => "overtaken: a later message of their group is where they died",
        Why::Gone => "gone since they were selected",
        Why::Changed => "not what they were when they were selected",
        Why::OpenElsewhere => "left open by another run, which has to be resumed",
        Why::Conflict => "another letter has their event id and another body",
        Why::Behind => "behind an earlier letter that stays",
    }
}

/// The screen.
pub fn before(ui: &mut Ui, it: &Before<'_>) {
    if ui.json() {
        return;
    }
    let columns = ui.columns().unwrap_or(usize::MAX);
    for line in lines(it, ui.columns()) {
        let indent = behind_the_count(&line.plain());
        for part in line.wrapped(columns, indent) {
            ui.say(part);
        }
    }
}

fn lines(it: &Before<'_>, columns: Option<usize>) -> Vec<Line> {
    let summary = &it.prepared.summary;
    let mut lines = Vec::new();
    let reason = it.reason.map(|reason| format!(" · {reason}")).unwrap_or_default();
    let of = if it.source == it.channel { String::new() } else { format!(" of {}", it.source) };
    lines.push(
        Line::new()
            .bold(format!("run{of}"))
            .text(format!(" · {} · {} · ", it.channel, it.title))
            .dim(moment(it.at, columns))
            .text(reason),
    );
    lines.push(Line::new());
    let groups = match summary.groups {
        0 => "no groups".to_owned(),
        groups => count(groups, "group", "groups"),
    };
    let order = match (it.order, summary.groups) {
        (OrderPolicy::None, _) => "in any order (--order none)",
        (OrderPolicy::Group, 0) if it.unordered => "about the oldest first: the queue keeps no order",
        (OrderPolicy::Group, 0) => "the oldest first",
        (OrderPolicy::Group, _) => "per group oldest first, one unit in flight",
    };
    let total = match summary.send == summary.planned {
        true => count(summary.planned, "letter", "letters"),
        false => format!("{} of {}", number(summary.send), count(summary.planned, "letter", "letters")),
    };
    lines.push(
        Line::new()
            .text("send      ")
            .bold(total)
            .text(format!(", {groups}; {order}; {}", bytes(summary.bytes))),
    );
    if summary.twins > 0 {
        lines.push(
            format!(
                "settle    {:>3} unsent: equal letters, one of each is sent (--dedupe): {}",
                number(summary.twins),
                first_of(&summary.twins_named, summary.twins)
            )
            .into(),
        );
    }
    for (why, letters, groups) in summary.kept.iter().filter(|(why, ..)| !why.holds()) {
        lines.push(kept("skip", *why, *letters, *groups, summary));
        if *why == Why::Refused {
            let told = &it.prepared.refusals[..it.prepared.refusals.len().min(MOST_TOLD)];
            for (words, letters) in told {
                lines.push(format!("          {:>5}  {words}", number(*letters)).into());
            }
            lines.extend(and_more(it.prepared.refusals.len(), told.len(), ("reason", "reasons")));
        }
    }
    for (why, letters, groups) in summary.kept.iter().filter(|(why, ..)| why.holds()) {
        lines.push(kept("hold", *why, *letters, *groups, summary));
        if *why == Why::Behind {
            for group in summary.waiting.iter().take(GROUPS_TOLD) {
                lines.push(
                    format!(
                        "          {:>5}  {}  waits for {}, cause {}",
                        number(group.letters),
                        group.group,
                        group.waits_for,
                        group.cause
                    )
                    .into(),
                );
            }
            let all = summary.waiting.len().saturating_add(summary.waiting_more as usize);
            lines.extend(and_more(all, GROUPS_TOLD, ("group", "groups")));
        }
    }
    lines.extend(overtaken(&it.prepared.overtaken, summary));
    lines.extend(misplaced(&it.prepared.misplaced));
    lines.push(Line::new());
    lines.push(format!("to        {}, set by the topology", it.target).into());
    if let Some(place) = it.place {
        lines.push(format!("at        {place}").into());
    }
    if let Some(reach) = it.reach {
        lines.push(format!("instead   {reach}").into());
    }
    if let Some(reader) = it.readers {
        let also = if it.shared && it.others.is_empty() { "; others read it too (shared)" } else { "" };
        lines.push(format!("read by   {reader}{also}").into());
    }
    if !it.others.is_empty() {
        let send = count(summary.send, "letter", "letters");
        lines.push(format!("also by   {}: the {send} again (shared)", it.others.join(", ")).into());
    }
    let tries = if it.tries == 1 { "1 try".to_owned() } else { format!("{} tries", it.tries) };
    lines.push(
        format!("handled   afresh, {tries} each; event id, key, own headers and body travel unchanged")
            .into(),
    );
    if it.order == OrderPolicy::Group && it.locks_groups {
        lines.push("order     among these letters only: what is sent meanwhile comes between them".into());
    }
    for (what, letters) in it.prepared.prospects.iter().take(MOST_TOLD) {
        lines.push(format!("          {} of them with {what}", number(*letters)).into());
    }
    lines.extend(and_more(it.prepared.prospects.len(), MOST_TOLD, ("kind", "kinds")));
    let repeated = match summary.repeated {
        0 => String::new(),
        repeated => {
            let named: Vec<String> =
                summary.repeated_named.iter().map(|(letter, _)| letter.clone()).collect();
            let share = format!("{} share an event id and a body with another", number(repeated));
            format!("; {share} (--dedupe): {}", first_of(&named, repeated))
        }
    };
    lines.push(
        format!("checked   duplicates, id conflicts, size, redriven before, open in other runs{repeated}")
            .into(),
    );
    lines.push(format!("time      {}", time(it)).into());
    let refail = match it.stop_on_refail {
        Some(part) => format!("at {}% re-failed of 20 or more, ", (part * 1e10).round() / 1e8),
        None => String::new(),
    };
    let errors = match it.max_errors {
        0 => "never for errors in a row".to_owned(),
        errors => format!("after {errors} errors in a row"),
    };
    lines.push(format!("stops     {refail}{errors}").into());
    lines.push(Line::new());
    lines
}

/// K21: letters that would go elsewhere than where their message lay.
fn misplaced(misplaced: &Misplaced) -> Option<Line> {
    let placing = misplaced.placing.as_ref().filter(|_| misplaced.letters > 0)?;
    let more = if misplaced.letters > misplaced.named.len() as u64 { ", …" } else { "" };
    Some(Line::new().text("elsewhere ").bold(number(misplaced.letters)).text(format!(
        " of them lay in another partition of {} than their key has: {}{more} ({} keeps it)",
        placing.queue,
        misplaced.named.join(", "),
        placing.way_round
    )))
}

/// K38: letters that would put something old over something new.
fn overtaken(overtaken: &Overtaken, summary: &Summary) -> Option<Line> {
    let left = summary.kept.iter().any(|(why, ..)| *why == Why::Overtaken);
    if let Some(messages) = overtaken.unread {
        let text = format!(
            "overtaken not looked at: {} would have to be read (--skip-overtaken does)",
            count(messages, "message", "messages")
        );
        return Some(text.into());
    }
    if let Some(why) = &overtaken.unknown {
        return Some(format!("overtaken not known: could not {why}").into());
    }
    if overtaken.letters == 0 || left {
        return None;
    }
    let more = if overtaken.letters > overtaken.named.len() as u64 { ", …" } else { "" };
    Some(
        Line::new().text("overtaken ").bold(number(overtaken.letters)).text(format!(
            " of them ({}): a later message of their group is where they died: {}{more} (--skip-overtaken leaves them)",
            count(overtaken.groups, "group", "groups"),
            overtaken.named.join(", ")
        )),
    )
}

fn time(it: &Before<'_>) -> String {
    let letters = it.prepared.summary.send;
    match time_for(letters, it.rate, it.ramp) {
        None => "as fast as the broker takes them (unlimited)".to_owned(),
        Some(time) => {
            let ramp = match it.ramp.is_zero() {
                true => format!("at {}", it.rate_text),
                false => format!("from 1/s to {} in {}", it.rate_text, rough(it.ramp)),
            };
            let time = Duration::from_secs(time.as_secs_f64().ceil() as u64);
            format!("about {}: {} {ramp}", rough(time), count(letters, "letter", "letters"))
        }
    }
}

fn kept(word: &str, why: Why, letters: u64, groups: u64, summary: &Summary) -> Line {
    let groups = if groups == 0 { String::new() } else { format!(" ({})", count(groups, "group", "groups")) };
    format!("{word:<6}{:>7} {}{groups}{}", number(letters), words(why), who(why, letters, summary)).into()
}

/// The names of those that only somebody can judge who looks at them.
fn who(why: Why, letters: u64, summary: &Summary) -> String {
    match why {
        Why::Gone | Why::Changed | Why::Conflict => format!(": {}", first_of(summary.named(why), letters)),
        _ => String::new(),
    }
}

/// `m1, m2, m3 and 4 more`: the first of `all` letters, by name.
pub fn first_of(named: &[String], all: u64) -> String {
    let told = &named[..named.len().min(MOST_TOLD)];
    match all.saturating_sub(told.len() as u64) {
        0 => told.join(", "),
        more => format!("{} and {} more", told.join(", "), number(more)),
    }
}

/// `and 3 more groups`, below a list of which only the first are shown.
fn and_more(all: usize, told: usize, (one, many): (&str, &str)) -> Option<Line> {
    let more = all.saturating_sub(told);
    let what = if more == 1 { one } else { many };
    (more > 0).then(|| format!("                 and {} more {what}", number(more as u64)).into())
}

/// The same, at the end of which nothing was sent.
pub fn dry_run(ui: &mut Ui, it: &Before<'_>, real: &[String]) {
    if ui.json() {
        return ui.document(&document(it, real));
    }
    before(ui, it);
    ui.say_folded("Dry run: nothing was claimed or sent. For real:", 2);
    ui.next(real);
}

/// What stays, by reason; refusals with their reasons in words, the most frequent.
fn kept_json(prepared: &Prepared) -> Vec<serde_json::Value> {
    let entry = |(why, letters, groups): &(Why, u64, u64)| {
        let named = prepared.summary.named(*why);
        let mut entry = json!({
            "why": why.word(),
            "held": why.holds(),
            "letters": letters,
            "groups": groups,
            "named": named,
            "more": letters.saturating_sub(named.len() as u64),
        });
        if *why == Why::Refused {
            let told = prepared.refusals.iter().take(NAMED_MAX);
            entry["reasons"] =
                told.map(|(words, letters)| json!({"words": words, "letters": letters})).collect();
        }
        entry
    };
    prepared.summary.kept.iter().map(entry).collect()
}

fn overtaken_json(overtaken: &Overtaken) -> serde_json::Value {
    json!({
        "letters": overtaken.letters,
        "groups": overtaken.groups,
        "named": overtaken.named,
        "unread": overtaken.unread,
        "unknown": overtaken.unknown,
    })
}

fn document(it: &Before<'_>, next: &[String]) -> serde_json::Value {
    let summary = &it.prepared.summary;
    let kept = kept_json(it.prepared);
    let waiting: Vec<_> = summary
        .waiting
        .iter()
        .map(|g| json!({"group": g.group, "letters": g.letters, "waits_for": g.waits_for, "cause": g.cause}))
        .collect();
    let repeated: Vec<_> = summary
        .repeated_named
        .iter()
        .map(|(letter, event)| json!({"letter": letter, "event_id": event}))
        .collect();
    json!({
        "schema": "redrive.run.v1",
        "dry_run": true,
        "channel": it.channel,
        "broker": it.broker,
        "queue": it.queue,
        "target": it.target,
        "place": it.place,
        "others": it.others,
        "reach": it.reach,
        "rate": it.rate_text,
        "reason": it.reason,
        "at": it.at,
        "counts": {
            "letters": summary.letters,
            "planned": summary.planned,
            "send": summary.send,
            "settled_unsent": summary.twins,
        },
        "groups": summary.groups,
        "bytes": summary.bytes,
        "kept": kept,
        "waiting": waiting,
        "waiting_more": summary.waiting_more,
        "repeated": summary.repeated,
        "repeated_named": repeated,
        "settled_unsent_named": summary.twins_named,
        "misplaced": {"letters": it.prepared.misplaced.letters, "named": it.prepared.misplaced.named},
        "overtaken": overtaken_json(&it.prepared.overtaken),
        "looking": it.prepared.cost,
        "next": next,
    })
}

/// Nothing of the selection may be sent.
pub fn nothing_to_send(ui: &mut Ui, it: &Before<'_>) {
    let summary = &it.prepared.summary;
    let text = match summary.planned {
        0 => format!("Nothing to send: no letter of {} is selected.", it.queue),
        planned => {
            format!("Nothing was sent: all {} are skipped or held.", count(planned, "letter", "letters"))
        }
    };
    if ui.json() {
        let mut document = document(it, &[]);
        document["dry_run"] = json!(false);
        document["state"] = json!(if summary.planned == 0 { "nothing" } else { "partial" });
        ui.document(&document);
    } else {
        ui.say(text);
    }
}

/// The answer of `select`.
pub fn selected(ui: &mut Ui, prepared: &Prepared, head: &Head, limit: Limit, out: &str, next: &[String]) {
    let summary = &prepared.summary;
    if ui.json() {
        let kept = kept_json(prepared);
        return ui.document(&json!({
            "schema": "redrive.select.v1",
            "channel": head.channel,
            "broker": head.broker,
            "queue": head.queue,
            "letters": summary.letters,
            "selected": summary.planned,
            "groups": summary.groups_selected,
            "send": summary.send,
            "kept": kept,
            "limit": limit.to_string(),
            "limit_reached": prepared.limit_reached,
            "manifest": if summary.planned > 0 { Some(out) } else { None },
            "at": head.at,
            "looking": prepared.cost,
            "next": if summary.planned > 0 { next } else { &[] },
        }));
    }
    let groups = match summary.groups_selected {
        0 => String::new(),
        groups => format!(", {}", count(groups, "group", "groups")),
    };
    let reached = match (limit, prepared.limit_reached) {
        (Limit::All, _) => String::new(),
        (Limit::AtMost(most), true) => format!("; the limit of {} was reached", number(most)),
        (Limit::AtMost(most), false) if summary.planned == most => {
            format!("; the limit of {} left none behind", number(most))
        }
        (Limit::AtMost(most), false) => format!("; the limit of {} was not reached", number(most)),
    };
    ui.say(
        Line::new()
            .bold(count(summary.planned, "letter", "letters"))
            .text(format!(" of {} selected{groups}{reached}", number(summary.letters))),
    );
    if prepared.undecided > 0 {
        ui.note(format!(
            "{} lack what was asked for and are left out.",
            count(prepared.undecided, "letter", "letters")
        ));
    }
    for (why, letters, groups) in &summary.kept {
        let groups =
            if *groups == 0 { String::new() } else { format!(" ({})", count(*groups, "group", "groups")) };
        let verb = if why.holds() { "held" } else { "skipped" };
        let text = match why {
            Why::Behind => "an earlier letter of the group is not selected or stays",
            other => words(*other),
        };
        ui.note(format!(
            "{} of them{groups} would be {verb}: {text}{}.",
            number(*letters),
            who(*why, *letters, summary)
        ));
    }
    if summary.planned == 0 {
        ui.note(format!("No manifest was written; {} is unchanged.", head.queue));
        return;
    }
    let but = match prepared.cost.changed.as_slice() {
        [] => String::new(),
        changed => format!(", but for the look: {}", changed.join("; ")),
    };
    ui.note(format!("Frozen at {} in {out}; {} is unchanged{but}.", head.at.format("%H:%M:%SZ"), head.queue));
    ui.next(next);
}

/// Before a resume; with the broker's title, and where calls really go, where the topology alone does not say it.
pub fn resuming(
    ui: &mut Ui,
    row: &RunRow,
    (title, place): (&str, Option<&str>),
    left: &Left,
    rate: &str,
    orders: Orders,
) {
    if ui.json() {
        return;
    }
    let started = when(row.started, ui.columns());
    ui.say_folded(
        Line::new()
            .bold(format!("run {}", row.id))
            .text(format!(" · {} · {title} · begun ", row.channel))
            .dim(started)
            .text(format!(" by {} · {}", row.who, row.reason)),
        2,
    );
    if left.in_doubt > 0 {
        let what = match (orders.resend_in_doubt, orders.settle_in_doubt) {
            (true, _) => {
                "looked up where the broker can tell; the others are sent again and may be there twice"
            }
            (_, true) => {
                "looked up where the broker can tell; the others are taken away unsent: their effect was seen"
            }
            _ => "looked up where the broker can tell",
        };
        ui.say_folded(format!("in doubt  {} {what}", number(left.in_doubt)), LABEL);
    }
    if left.unsettled > 0 {
        let what = "that arrived, without sending them again";
        ui.say_folded(format!("settle    {} {what}", number(left.unsettled)), LABEL);
    }
    if orders.accept_gone {
        let what = "an original that is not seen is taken as removed; a letter that is not seen is skipped";
        ui.say_folded(format!("gone      {what}"), LABEL);
    }
    if left.held > 0 {
        let behind = count(left.held, "letter", "letters");
        let what = "behind one of their group that stays in doubt or failed";
        ui.say_folded(format!("held      {behind} {what}"), LABEL);
    }
    let send = left.planned.saturating_sub(left.held);
    ui.say(match send {
        0 if left.in_doubt + left.failed == 0 => "send      nothing".to_owned(),
        _ => format!("send      up to {} · {rate}", count(send, "letter", "letters")),
    });
    if let Some(place) = place {
        ui.say_folded(format!("at        {place}"), LABEL);
    }
}
