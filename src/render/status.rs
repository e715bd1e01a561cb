//! What `status` and `alert` print.

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::looking::Where;
use super::units::{age, count, minute, moment, number, short_minute};
use super::{Cell, Column, Line, Style, Table, Ui};
use crate::broker::{Count, Depth, Depths};
use crate::clock::{Time, exact};
use crate::triage::{Alert, AlertState as State, Growth, SOON};

/// One channel as counted.
#[derive(Debug, Clone)]
pub struct Status {
    /// Where was looked.
    pub place: Where,
    /// Who is called.
    pub owner: Option<String>,
    /// As counted.
    pub depths: Depths,
    /// Since an earlier look.
    pub growth: Option<Growth>,
    /// What the thresholds say.
    pub alert: Alert,
    /// What runs did of late, by the ledger of this machine.
    pub past_hour: Option<PastHour>,
}

/// Runs that began within the past hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PastHour {
    /// Letters that they moved.
    pub moved: u64,
    /// Those of them that had died again when their run ended; who looks afterwards is not told. `None`: not known of all.
    pub refailed: Option<u64>,
    /// Letters that came, by the change of depth, where it is known for the hour.
    pub new: Option<u64>,
}

impl PastHour {
    /// Of what was moved, and the change of depth since an earlier look.
    pub fn of((moved, refailed): (u64, Option<u64>), growth: Option<Growth>, now: Time) -> Self {
        let of_hour = growth.filter(|growth| is_hour(growth.since, now));
        let new = of_hour.and_then(|growth| growth.change.checked_add_unsigned(moved));
        Self { moved, refailed, new: new.map(|new| u64::try_from(new).unwrap_or(0)) }
    }

    fn words(self) -> String {
        let new = self.new.map(|new| format!(", about {} new", number(new))).unwrap_or_default();
        let moved = number(self.moved);
        let refailed = match self.refailed {
            None => "how many re-failed is not known".to_owned(),
            Some(letters) => format!("{} re-failed before their run ended", number(letters)),
        };
        format!("Past hour: {moved} moved by runs{new}, {refailed}.")
    }
}

/// Is `since` an hour ago, as near as looks are?
fn is_hour(since: Time, now: Time) -> bool {
    now.since(since).as_secs().abs_diff(3_600) <= 300
}

impl Status {
    /// The lines of the screen.
    pub fn lines(&self, columns: Option<usize>) -> Vec<Line> {
        let protected = if self.place.protected { " (protected)" } else { "" };
        let owner = self.owner.as_ref().map(|owner| format!(" · owner {owner}")).unwrap_or_default();
        let head = Line::new()
            .bold(self.place.channel.clone())
            .text(format!(" · {}{protected}{owner} · ", self.place.broker))
            .dim(moment(self.place.at, columns));
        let mut lines = match columns {
            Some(columns) => head.wrapped(columns, 2),
            None => vec![head],
        };
        lines.extend(self.table().lines(columns));
        lines
    }

    fn table(&self) -> Table {
        let now = self.place.at;
        let growth = self.growth.map(|growth| {
            if is_hour(growth.since, now) {
                "PAST 1H".to_owned()
            } else {
                format!("SINCE {}", short_minute(growth.since, now).to_uppercase())
            }
        });
        let told = growth.is_some();
        let mut columns = vec![Column::right("WAITING"), Column::left("OLDEST").spared(1)];
        columns.extend(growth.map(|title| Column::right(title).drops(1)));
        columns.extend([Column::left("EXPIRES"), Column::left("QUEUE").cuts()]);
        let mut table = Table::new(columns);
        let mut row = |depth: &Depth, change: Option<i64>, words: String| {
            let style = if depth.count.number() == 0 { Style::Dim } else { Style::Bold };
            let oldest = depth.oldest.map_or("-".to_owned(), |at| age(now.since(at)));
            let mut cells = vec![Cell::new(counted(depth), style), oldest.into()];
            if told {
                cells.push(change.map_or(Cell::dim("-"), |change| signed(change).into()));
            }
            cells.extend([expires(depth.oldest_expires, now), words.into()]);
            table.row(cells);
        };
        row(&self.depths.source, None, self.source());
        let (empty, filled): (Vec<&Depth>, Vec<&Depth>) =
            self.depths.tiers.iter().partition(|tier| tier.exists && tier.count.number() == 0);
        if let Some(first) = empty.first() {
            let names: Vec<&str> = empty.iter().map(|tier| tier.queue.as_str()).collect();
            row(first, None, names.join(", "));
        }
        for tier in filled {
            let due = tier.due.map(|due| format!(", {} due", number(due))).unwrap_or_default();
            row(tier, None, format!("{}{due}{}", tier.queue, absent(tier)));
        }
        let dead = &self.depths.dead_letter;
        let change = self.growth.map(|growth| growth.change);
        let in_flight = match dead.in_flight {
            Some(n @ 1..) => format!(", {} in flight", number(n)),
            _ => String::new(),
        };
        row(dead, change, format!("{}{in_flight}{}{}", dead.queue, absent(dead), self.over()));
        table
    }

    fn source(&self) -> String {
        let source = &self.depths.source;
        let lags: Vec<String> = self
            .depths
            .readers
            .iter()
            .take(6)
            .map(|reader| match reader.lag {
                Some(lag) => format!("{} {}", reader.name, number(lag)),
                None => reader.name.clone(),
            })
            .collect();
        let more = self.depths.readers.len().saturating_sub(6);
        let more = if more > 0 { format!(", {more} more") } else { String::new() };
        let told = self.depths.readers.iter().any(|reader| reader.lag.is_some());
        let word = if told { "lag: " } else { "read by " };
        let readers =
            if lags.is_empty() { String::new() } else { format!(", {word}{}{more}", lags.join(", ")) };
        let in_flight = match source.in_flight {
            Some(n @ 1..) => format!(", {} in flight", number(n)),
            _ => String::new(),
        };
        format!("{}{in_flight}{readers}{}", source.queue, absent(source))
    }

    /// Is it over its alert?
    pub fn is_over(&self) -> bool {
        self.alert.state == State::Over
    }

    /// Is its dead-letter queue not there?
    pub fn is_absent(&self) -> bool {
        !self.depths.dead_letter.exists
    }

    fn over(&self) -> String {
        match self.alert.state {
            State::Over => format!(", over its alert ({})", thresholds(&self.alert)),
            _ => String::new(),
        }
    }

    /// Remarks below the screen.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.depths.notes.clone();
        notes.extend(self.past_hour.filter(|hour| hour.moved > 0).map(PastHour::words));
        let dead = &self.depths.dead_letter;
        if let Some(at) = dead.oldest_expires.filter(|at| *at <= self.place.at.plus(SOON)) {
            notes.push(match at <= self.place.at {
                true => format!(
                    "The oldest letter of {} is past retention already: it can go at any moment.",
                    dead.queue
                ),
                false => format!("The oldest letter of {} expires at {}.", dead.queue, minute(at)),
            });
        }
        if dead.exists && matches!(dead.count, Count::AtMost(1..)) {
            notes.push(
                "At most: letters that were redriven before are still counted; inspect tells them apart."
                    .to_owned(),
            );
        }
        notes
    }

    /// As data.
    pub fn json(&self) -> Json {
        let depths = &self.depths;
        json!({
            "channel": self.place.channel,
            "broker": self.place.broker,
            "protected": self.place.protected,
            "owner": self.owner,
            "source": depth_json(&depths.source, self.place.at),
            "readers": depths.readers,
            "tiers": depths.tiers.iter().map(|tier| depth_json(tier, self.place.at)).collect::<Vec<_>>(),
            "dead_letter": depth_json(&depths.dead_letter, self.place.at),
            "growth": self.growth,
            "past_hour": self.past_hour,
            "alert": self.alert,
            "notes": self.notes(),
        })
    }
}

fn depth_json(depth: &Depth, now: Time) -> Json {
    json!({
        "queue": depth.queue,
        "exists": depth.exists,
        // Nothing was counted in a queue that is not there.
        "waiting": depth.exists.then(|| depth.count.number()),
        "counted": depth.exists.then_some(match depth.count {
            Count::Exact(_) => "exact",
            Count::About(_) => "about",
            Count::AtMost(_) => "at_most",
        }),
        "due": depth.due,
        "in_flight": depth.in_flight,
        "oldest": depth.oldest,
        "oldest_age_s": depth.oldest.map(|at| now.since(at).as_secs()),
        "oldest_expires": depth.oldest_expires,
    })
}

fn counted(depth: &Depth) -> String {
    match depth.count {
        _ if !depth.exists => "-".to_owned(),
        Count::Exact(n) => number(n),
        Count::About(n) => format!("about {}", number(n)),
        // At most none is none.
        Count::AtMost(0) => number(0),
        Count::AtMost(n) => format!("≤ {}", number(n)),
    }
}

fn absent(depth: &Depth) -> &'static str {
    if depth.exists { "" } else { ", not there" }
}

fn signed(change: i64) -> String {
    match change {
        0 => "0".to_owned(),
        1.. => format!("+{}", number(change.unsigned_abs())),
        _ => format!("-{}", number(change.unsigned_abs())),
    }
}

fn expires(at: Option<Time>, now: Time) -> Cell {
    match at {
        None => Cell::dim("-"),
        Some(at) if at <= now => Cell::red("past"),
        Some(at) if at <= now.plus(SOON) => Cell::bold(age(at.since(now))),
        Some(at) => age(at.since(now)).into(),
    }
}

/// `1 letter, 15m`.
fn thresholds(alert: &Alert) -> String {
    let depth = alert.depth.map(|n| count(n, "letter", "letters"));
    let age = alert.age.map(exact);
    [depth, age].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// How `alert` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AlertAs {
    /// A table, or JSON by `-o`.
    Text,
    /// One line as Nagios and its heirs read it.
    Nagios,
    /// Prometheus text format.
    Prometheus,
}

/// Prints what the thresholds say. `unasked`: why a broker could not be asked.
pub fn print_alert(ui: &mut Ui, channels: &[Status], how: AlertAs, unasked: Option<&str>, next: &[String]) {
    match how {
        AlertAs::Nagios => ui.say(nagios(channels, unasked)),
        AlertAs::Prometheus => prometheus(channels).into_iter().for_each(|line| ui.say(line)),
        AlertAs::Text if ui.json() => {
            let rows: Vec<Json> = channels.iter().map(alert_json).collect();
            ui.document(&json!({"schema": "redrive.alert.v1", "over": any_over(channels), "channels": rows, "next": next}));
        }
        AlertAs::Text => {
            let mut table = Table::new([
                Column::left("STATE"),
                Column::right("WAITING"),
                Column::left("OLDEST").spared(2),
                Column::left("ALERT AT").spared(1),
                Column::left("OWNER").drops(1),
                Column::left("QUEUE").cuts(),
            ]);
            for status in channels {
                let dead = &status.depths.dead_letter;
                let state = match status.alert.state {
                    State::Over => Cell::bold("over"),
                    State::Ok => "ok".into(),
                    State::None => Cell::dim("none"),
                    State::Unknown => Cell::bold("unknown"),
                };
                let oldest = dead.oldest.map_or("-".to_owned(), |at| age(status.place.at.since(at)));
                let at = thresholds(&status.alert);
                table.row([
                    state,
                    counted(dead).into(),
                    oldest.into(),
                    if at.is_empty() { Cell::dim("-") } else { at.into() },
                    status.owner.clone().map_or(Cell::dim("-"), Cell::from),
                    format!("{} on {}{}", dead.queue, status.place.broker, absent(dead)).into(),
                ]);
            }
            ui.table(&table);
            let unknown = |status: &&Status| status.alert.state == State::Unknown && !status.is_absent();
            for status in channels.iter().filter(unknown) {
                let queue = &status.depths.dead_letter.queue;
                ui.note(format!(
                    "The age of the oldest letter of {queue} is not known without looking at letters."
                ));
            }
            ui.next(next);
        }
    }
}

fn any_over(channels: &[Status]) -> bool {
    channels.iter().any(Status::is_over)
}

fn alert_json(status: &Status) -> Json {
    json!({
        "channel": status.place.channel,
        "broker": status.place.broker,
        "owner": status.owner,
        "dead_letter": depth_json(&status.depths.dead_letter, status.place.at),
        "alert": status.alert,
    })
}

/// `CRITICAL - orders.dlq 59 letters, oldest 4d 11h | orders=59;;1 …`.
fn nagios(channels: &[Status], unasked: Option<&str>) -> String {
    let unknown = unasked.is_some() || channels.iter().any(|status| status.alert.state == State::Unknown);
    let head = match (any_over(channels), unknown) {
        (true, _) => "CRITICAL",
        (false, true) => "UNKNOWN",
        (false, false) => "OK",
    };
    let words = |status: &Status| {
        let dead = &status.depths.dead_letter;
        if status.is_absent() {
            return format!("{} on {} is not there", dead.queue, status.place.broker);
        }
        let oldest =
            dead.oldest.map(|at| format!(", oldest {}", age(status.place.at.since(at)))).unwrap_or_default();
        format!("{} {}{oldest}", dead.queue, count(dead.count.number(), "letter", "letters"))
    };
    let state = |state: State| channels.iter().filter(move |status| status.alert.state == state).map(words);
    let shown: Vec<String> = match (any_over(channels), unknown) {
        (true, _) => state(State::Over).collect(),
        (false, true) => unasked.map(str::to_owned).into_iter().chain(state(State::Unknown)).collect(),
        (false, false) => channels.iter().map(words).collect(),
    };
    // `U` is the plugins' word for a value that nobody knows.
    let data: Vec<String> = channels
        .iter()
        .map(|status| {
            let dead = &status.depths.dead_letter;
            let name = label(&status.place.channel);
            let limit = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
            let age = dead.oldest.map(|at| {
                let critical = limit(status.alert.age.map(|age| age.as_secs()));
                format!(" {name}_age={}s;;{critical}", status.place.at.since(at).as_secs())
            });
            format!(
                "{name}={};;{}{}",
                if dead.exists { dead.count.number().to_string() } else { "U".to_owned() },
                limit(status.alert.depth),
                age.unwrap_or_default()
            )
        })
        .collect();
    format!("{head} - {} | {}", shown.join("; "), data.join(" "))
}

/// A name in performance data: no quote, blank, `=` or `|`.
fn label(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

fn prometheus(channels: &[Status]) -> Vec<String> {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = |status: &Status| {
        format!(
            "{{channel=\"{}\",broker=\"{}\",queue=\"{}\"}}",
            quoted(&status.place.channel),
            quoted(&status.place.broker),
            quoted(&status.depths.dead_letter.queue)
        )
    };
    let mut lines = Vec::new();
    let mut metric = |name: &str, help: &str, value: &dyn Fn(&Status) -> Option<String>| {
        lines.push(format!("# HELP {name} {help}"));
        lines.push(format!("# TYPE {name} gauge"));
        for status in channels {
            if let Some(value) = value(status) {
                lines.push(format!("{name}{} {value}", labels(status)));
            }
        }
    };
    metric("redrive_dead_letters", "Letters in the dead-letter queue.", &|status| {
        (!status.is_absent()).then(|| status.depths.dead_letter.count.number().to_string())
    });
    metric(
        "redrive_dead_letter_oldest_age_seconds",
        "Age of the oldest letter, where it is known.",
        &|status| {
            let oldest = status.depths.dead_letter.oldest?;
            Some(status.place.at.since(oldest).as_secs().to_string())
        },
    );
    metric("redrive_dead_letter_oldest_expires_seconds", "Retention left of the oldest letter.", &|status| {
        let at = status.depths.dead_letter.oldest_expires?;
        Some(at.since(status.place.at).as_secs().to_string())
    });
    metric("redrive_dead_letter_alert", "1 if a threshold of dead_letter.alert is crossed.", &|status| {
        match status.alert.state {
            State::Over => Some("1".to_owned()),
            State::Ok => Some("0".to_owned()),
            State::None | State::Unknown => None,
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_within_the_hour_is_what_is_left_and_what_was_moved() {
        let now = Time::from_seconds(100_000);
        let growth = |back: i64, change| Some(Growth { since: Time::from_seconds(100_000 - back), change });
        let hour = PastHour::of((161, Some(6)), growth(3_590, -154), now);
        assert_eq!(
            hour.words(),
            "Past hour: 161 moved by runs, about 7 new, 6 re-failed before their run ended."
        );
        assert_eq!(PastHour::of((161, Some(6)), growth(9_000, -154), now).new, None);
        assert_eq!(
            PastHour::of((3, None), None, now).words(),
            "Past hour: 3 moved by runs, how many re-failed is not known."
        );
        assert_eq!(PastHour::of((3, Some(0)), growth(3_600, -9), now).new, Some(0));
    }
}
