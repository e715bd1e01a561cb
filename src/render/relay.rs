//! What `redrive relay` shows: a table on a terminal, a line per tier off it.

use super::{Cell, Column, Line, Table, Ui};
use crate::clock::{Time, rough};
use crate::relay::metrics::TierReport;

/// `02:00:10Z orders.retry-1m waiting=4 due=0 overdue=0s moved=0`.
pub fn lines(ui: &mut Ui, now: Time, tiers: &[TierReport]) {
    for tier in tiers {
        let TierReport { queue, waiting, due, overdue, moved, .. } = tier;
        let at = now.format("%H:%M:%SZ");
        ui.say(format!("{at} {queue} waiting={waiting} due={due} overdue={} moved={moved}", rough(*overdue)));
    }
    ui.flush();
}

/// One JSON line per report. `next_due`: when the next message of any tier falls due. `places`: where calls to which broker
/// really go, where the topology alone does not say it.
pub fn document(
    ui: &mut Ui,
    now: Time,
    next_due: Option<Time>,
    places: &[(String, String)],
    tiers: &[TierReport],
) {
    let waiting: u64 = tiers.iter().map(|tier| tier.waiting).sum();
    let tiers: Vec<_> = tiers
        .iter()
        .map(|tier| {
            serde_json::json!({
                "tier": tier.queue, "waiting": tier.waiting, "due": tier.due,
                "overdue_s": tier.overdue.as_secs_f64(), "late_p99_s": tier.late_p99.map(|late| late.as_secs_f64()),
                "moved": tier.moved, "moved_total": tier.total,
            })
        })
        .collect();
    let places: std::collections::BTreeMap<_, _> = places.iter().map(|(broker, at)| (broker, at)).collect();
    let mut document = serde_json::json!({
        "schema": "redrive.relay.v1", "at": now, "places": places, "next_due": next_due, "tiers": tiers,
    });
    if next_due.is_none() && waiting > 0 {
        document["unknown"] = serde_json::json!({"next_due": "the broker did not say"});
    }
    ui.document(&document);
    ui.flush();
}

/// The table that a terminal shows, redrawn in place.
pub fn table(ui: &Ui, head: &str, now: Time, tiers: &[TierReport]) -> Vec<Line> {
    let mut table = Table::new(vec![
        Column::right("WAITING"),
        Column::right("DUE"),
        Column::right("OVERDUE"),
        Column::right("LATE P99").drops(2),
        Column::right("MOVED 10S").drops(1),
        Column::left("TIER").cuts(),
    ]);
    for tier in tiers {
        let late = match tier.late_p99 {
            None => Cell::dim("-"),
            Some(late) => Cell::from(format!("{:.2}s", late.as_secs_f64())),
        };
        table.row(vec![
            Cell::from(tier.waiting.to_string()),
            if tier.due == 0 { Cell::dim("0") } else { Cell::bold(tier.due.to_string()) },
            if tier.overdue.is_zero() { Cell::dim("0s") } else { Cell::bold(rough(tier.overdue)) },
            late,
            Cell::from(tier.moved.to_string()),
            Cell::from(tier.queue.clone()),
        ]);
    }
    let mut lines = vec![Line::from(format!("{head} · {}", now.format("%H:%M:%SZ")))];
    lines.extend(table.lines(Some(ui.drawn_columns())));
    lines
}
