//! What `show` prints: one letter, top down from what died to what now.

mod json;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
mod values;

use values::value_words;

use super::body::body;
use super::looking::{Where, last_part};
use super::units::{age, ago, count, minute, second, short_second};
use super::{Cell, Column, Line, Style, Table, Ui, cut, width};
use crate::broker::Reader;
use crate::clock::Time;
use crate::dead_letter::DeadLetter;
use crate::dialect;
use crate::failure::{Death, Origin};
use crate::letter::{Headers, TimeSource, Value};
use crate::topology::Channel;
use crate::triage::{Deed, Neighbours, times};

/// Headers that stay behind and are shown unless all are asked for.
const STAYING: usize = 5;
/// Headers that travel and are shown unless all are asked for.
const TRAVELLING: usize = 25;
/// Deaths that are shown unless all are asked for: the first ones and the last ones.
const DEATHS: usize = 12;

/// Everything that the screen of one letter shows.
pub struct Show<'a> {
    /// Where was looked.
    pub place: &'a Where,
    /// The channel's rules.
    pub channel: &'a Channel,
    /// The letter.
    pub letter: &'a DeadLetter,
    /// What a redrive would do.
    pub deed: &'a Deed,
    /// Who reads the target, where the broker tells.
    pub readers: &'a [Reader],
    /// Does each of them get a copy of its own? Else they share what comes.
    pub copy_each: bool,
    /// Its place in its group, where it could be looked up.
    pub neighbours: Option<&'a Neighbours>,
    /// Undo all cuts.
    pub full: bool,
    /// Which dialect said what.
    pub why: bool,
    /// What looking changed, in words.
    pub changed: &'a [String],
    /// The next command.
    pub next: &'a [String],
}

impl Show<'_> {
    /// Prints it.
    pub fn print(&self, ui: &mut Ui) {
        if ui.json() {
            ui.document(&self.json());
            return;
        }
        self.head(ui);
        ui.blank();
        self.facts(ui);
        if self.why {
            self.reasons(ui);
        }
        self.deaths(ui);
        self.headers(ui, "headers", "header", &self.letter.raw.message.headers);
        self.headers(ui, "properties", "property", &self.letter.raw.message.properties);
        let raw = &self.letter.raw;
        let shown = body(raw.message.body.as_deref(), raw.body_len, self.full);
        ui.blank();
        ui.say_folded(Line::new().bold("body").text(format!(", {}", shown.title)), 2);
        for line in shown.lines {
            self.say_cut(ui, line);
        }
        self.redrive(ui);
        for change in self.changed {
            ui.note(format!("Looking cost: {change}."));
        }
        ui.next(self.next);
    }

    /// Says a line, cut to the terminal unless all is asked for.
    fn say_cut(&self, ui: &mut Ui, line: Line) {
        match ui.columns() {
            Some(columns) if !self.full && line.width() > columns => ui.say(cut(&line.plain(), columns)),
            _ => ui.say(line),
        }
    }

    fn head(&self, ui: &mut Ui) {
        let raw = &self.letter.raw;
        let protected = if self.place.protected { " (protected)" } else { "" };
        let at = match raw.facts.place {
            Some(place) => format!(" p{}, offset {}", place.partition, place.offset),
            None => format!(", letter {}", raw.id),
        };
        let queue = &raw.facts.queue;
        let head = Line::new()
            .bold(self.place.channel.clone())
            .text(format!(" · {}{protected} · {queue}{at}", self.place.broker));
        ui.say_folded(head, 2);
        ui.blank();
        let class = self.letter.error_class().map(last_part);
        let message = self.letter.error_message();
        let reason = self.letter.context.last().and_then(|death| death.reason.as_deref());
        let what = match (class, message, reason) {
            (Some(class), Some(message), _) => format!("{class}: {message}"),
            (Some(word), None, _) | (None, Some(word), _) | (None, None, Some(word)) => word.to_owned(),
            (None, None, None) => "unknown: no failure headers in the letter".to_owned(),
        };
        let cause = format!("  cause {}", self.letter.cause.id);
        let room = ui.columns().filter(|_| !self.full).map(|columns| columns.saturating_sub(cause.len()));
        let what = room.map_or(what.clone(), |room| cut(&what, room));
        ui.say_folded(Line::new().bold(what).text(cause), 2);
        if let Some(line) = self.wrapper() {
            self.say_cut(ui, line.into());
        }
    }

    /// The error around the innermost one, and the first own frame.
    fn wrapper(&self) -> Option<String> {
        let last = self.letter.context.last()?;
        let frame = self.letter.cause.frame.clone();
        let outer = match (&last.root_class, &last.error_class) {
            (Some(root), Some(outer)) if root != outer => Some(last_part(outer)),
            _ => None,
        };
        let said =
            last.message.as_ref().filter(|said| last.root_message.as_ref().is_some_and(|root| root != *said));
        match (outer, said, frame) {
            (None, _, None) => None,
            (None, _, Some(frame)) => Some(format!("at {frame}")),
            (Some(outer), said, frame) => {
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                let at = frame.map(|frame| format!(", at {frame}")).unwrap_or_default();
                Some(format!("in {outer}{said}{at}"))
            }
        }
    }

    fn facts(&self, ui: &mut Ui) {
        let (letter, now) = (self.letter, self.place.at);
        let unknown = || "unknown".to_owned();
        let id = letter.event_id.value.clone().unwrap_or_else(unknown);
        let group = letter.group.value.clone().unwrap_or_else(unknown);
        let wide = width(&id).max(width(&group)).min(40);
        let mut say = |label: &str, value: String, from: String| {
            let pad = if from.is_empty() { 0 } else { wide.saturating_sub(width(&value)) + 2 };
            let line = Line::new().dim(format!("{label:<9}  ")).text(value).text(" ".repeat(pad)).dim(from);
            self.say_cut(ui, line);
        };
        say("event id", id, letter.event_id_from(self.channel));
        say("group", group, letter.group_from(self.channel));
        let traces: Vec<&str> = letter.context.traces().collect();
        if !traces.is_empty() {
            say("trace", traces.join(", "), String::new());
        }
        let origin = letter.context.origin.as_ref().map_or_else(
            || "unknown: the letter does not say".to_owned(),
            |origin| {
                let time = origin.timestamp.map(|at| format!(", {}, {}", second(at), ago(at, now)));
                origin_words(origin) + &time.unwrap_or_default()
            },
        );
        say("origin", origin, String::new());
        let died = match letter.died_at {
            None => "unknown: nobody says when".to_owned(),
            Some((at, whose)) => {
                let clock = match letter.raw.facts.written_at {
                    Some((_, TimeSource::Producer)) if whose == "the record" => ", by its producer's clock",
                    Some((_, TimeSource::FirstSend)) if whose == "the record" => {
                        ": when it was first sent; the broker keeps no time of death"
                    }
                    _ => "",
                };
                format!("{}, {}, says {whose}{clock}", second(at), ago(at, now))
            }
        };
        say("died", died, String::new());
        let told = letter.context.deaths.iter().map(|death| u64::from(death.count.max(1))).sum::<u64>();
        if let Some(tries) = letter.context.attempts.filter(|tries| u64::from(*tries) != told) {
            say("tried", times(tries), String::new());
        }
        let allowed = format!("{} allowed", times(self.channel.redrive.max_redrives.value.get()));
        let by = letter.sent_by.as_ref().map(|(run, _)| format!(", last by run {run}")).unwrap_or_default();
        let so_far = match letter.redriven {
            u32::MAX => "not known how often".to_owned(),
            redriven => times(redriven),
        };
        say("redriven", format!("{so_far}{by}; {allowed}"), String::new());
        say("expires", expires(letter.expires_at(), now), String::new());
        if let Some(run) = &letter.raw.facts.moved_by {
            say(
                "moved",
                format!("by run {run} already; it stays here until retention takes it"),
                String::new(),
            );
        }
        if letter.raw.facts.claimed {
            say("claimed", "by somebody else at this moment".to_owned(), String::new());
        }
        if let Some(deliveries @ 1..) = letter.raw.facts.deliveries {
            say("handed", format!("out {}, this look among them", times(deliveries)), String::new());
        }
        let read_as = match letter.context.readings.as_slice() {
            [] => "nothing known: no dialect recognises it".to_owned(),
            readings => {
                let words =
                    readings.iter().map(|reading| format!("{}, {}", reading.dialect, sure(reading.sureness)));
                words.collect::<Vec<_>>().join("; ") + if self.why { "" } else { " (--why)" }
            }
        };
        say("read as", read_as, String::new());
        for doubt in &letter.context.doubts {
            say("unsure", format!("{}: {}", doubt.field, doubt.why), String::new());
        }
    }

    fn reasons(&self, ui: &mut Ui) {
        ui.blank();
        ui.say_folded(Line::new().bold("why").text(", the dialect that wins first"), 2);
        if self.letter.context.readings.is_empty() {
            ui.say_folded("  none of the dialects knows a mark of this letter: redrive explain dialects", 4);
        }
        let mut table =
            Table::new([Column::left(""), Column::left(""), Column::left("").cuts()]).bare().indent(2);
        for reading in &self.letter.context.readings {
            table.row([
                Cell::bold(reading.dialect),
                sure(reading.sureness).into(),
                reading.why.clone().into(),
            ]);
        }
        ui.table(&table);
        for reading in &self.letter.context.readings {
            if !reading.said.is_empty() {
                self.say_cut(ui, format!("  {} said {}", reading.dialect, reading.said.join(", ")).into());
            }
            for ignored in &reading.ignored {
                let what = format!("  {} ignored in {}: {}", reading.dialect, ignored.field, ignored.why);
                self.say_cut(ui, what.into());
            }
        }
    }

    fn deaths(&self, ui: &mut Ui) {
        let deaths = &self.letter.context.deaths;
        ui.blank();
        if deaths.is_empty() {
            ui.say(Line::new().bold("deaths").text(": the letter records none"));
            return;
        }
        let first = deaths[0].consumer.as_deref();
        let common = first.filter(|_| deaths.iter().all(|death| death.consumer.as_deref() == first));
        let all = match common {
            Some(consumer) if deaths.len() > 1 => format!(", oldest first, all in consumer {consumer}"),
            Some(consumer) => format!(", 1, in consumer {consumer}"),
            None => ", oldest first".to_owned(),
        };
        ui.say_folded(Line::new().bold("deaths").text(all), 2);
        let mut table = Table::new([
            Column::right(""),
            Column::left(""),
            Column::left("").cuts(),
            Column::left("").cuts(),
        ])
        .bare()
        .indent(2);
        let left = if self.full { 0 } else { deaths.len().saturating_sub(DEATHS) };
        for (at, death) in deaths.iter().enumerate() {
            if left > 0 && at == DEATHS / 2 {
                table.row(["…".into(), Cell::dim(format!("{left} more (--full)"))]);
            }
            if left > 0 && (DEATHS / 2..DEATHS / 2 + left).contains(&at) {
                continue;
            }
            let (time, what) = self.death(death, common.is_none(), at + 1 == deaths.len());
            let place = death.place.as_ref().map(origin_words).unwrap_or_default();
            table.row([Cell::dim((at + 1).to_string()), time.into(), place.into(), what.into()]);
        }
        for line in table.lines(if self.full { None } else { ui.columns() }) {
            ui.say(line);
        }
    }

    /// When, and what.
    fn death(&self, death: &Death, name_consumer: bool, last: bool) -> (String, String) {
        let now = self.place.at;
        let (time, dead) = match (death.tried_at, death.at) {
            (Some(tried), dead) => (format!("tried {}", short_second(tried, now)), dead),
            (None, Some(at)) if death.at_is_first => (format!("first {}", short_second(at, now)), None),
            (None, Some(at)) => (format!("died {}", short_second(at, now)), None),
            (None, None) => ("time unknown".to_owned(), None),
        };
        let class = death.root_class.as_deref().or(death.error_class.as_deref()).map(last_part);
        let message = death.root_message.as_deref().or(death.message.as_deref());
        let mut what = match (class, message) {
            // The head has the message of the last one already.
            (Some(class), Some(message)) if !last => format!("{class}: {message}"),
            (Some(class), _) => class.to_owned(),
            (None, Some(message)) => message.to_owned(),
            (None, None) => death.reason.clone().unwrap_or_else(|| "error unknown".to_owned()),
        };
        if death.count > 1 {
            what.push_str(&format!(" ×{}", death.count));
        }
        if let Some(at) = dead {
            what.push_str(&format!(", dead {}", short_second(at, now)));
        }
        if name_consumer && let Some(consumer) = &death.consumer {
            what.push_str(&format!(", in {consumer}"));
        }
        (time, what)
    }

    /// Is it bookkeeping that stays behind, and whose?
    fn owner(&self, header: &crate::letter::Header, word: &str) -> Option<&'static str> {
        match word {
            "header" => dialect::stays_behind(header, &self.letter.context),
            _ => dialect::property_stays_behind(header, &self.letter.context),
        }
    }

    fn headers(&self, ui: &mut Ui, title: &str, word: &str, headers: &Headers) {
        if headers.is_empty() {
            return;
        }
        let mut travel: Vec<(&str, Vec<&Value>)> = Vec::new();
        let mut stay: Vec<(&str, Vec<&Value>)> = Vec::new();
        let mut owners: Vec<&'static str> = Vec::new();
        let mut staying = 0;
        for header in headers {
            let owner = self.owner(header, word);
            staying += usize::from(owner.is_some());
            if let Some(owner) = owner.filter(|owner| !owners.contains(owner)) {
                owners.push(owner);
            }
            let side = if owner.is_some() { &mut stay } else { &mut travel };
            // Values of one name are one line, in order.
            match side.iter_mut().find(|(name, values)| {
                *name == header.name
                    && values.first().is_some_and(|v| v.type_name() == header.value.type_name())
            }) {
                Some((_, values)) => values.push(&header.value),
                None => side.push((&header.name, vec![&header.value])),
            }
        }
        let travelling = headers.len() - staying;
        let whose = match owners.as_slice() {
            [] => String::new(),
            owners => format!(" ({}'s own)", owners.join(", ")),
        };
        ui.blank();
        let counts = match (travelling, staying) {
            (_, 0) => "all travel".to_owned(),
            (0, _) => format!("all stay behind{whose}"),
            _ => {
                let travel = if travelling == 1 { "travels" } else { "travel" };
                let stay = if staying == 1 { "stays" } else { "stay" };
                format!("{travelling} {travel}, {staying} {stay} behind{whose}")
            }
        };
        ui.say_folded(Line::new().bold(title).text(format!(", {}: {counts}", headers.len())), 2);
        let bound = |most: usize| if self.full { usize::MAX } else { most };
        let columns =
            [Column::left(""), Column::left("").max(44), Column::left("").spared(1), Column::left("").cuts()];
        let mut table = Table::new(columns).bare().indent(2);
        for (mark, style, side, most) in [
            ("travel", Style::Plain, &travel, bound(TRAVELLING)),
            ("stay", Style::Dim, &stay, bound(STAYING)),
        ] {
            for (name, values) in side.iter().take(most) {
                let name =
                    if values.len() > 1 { format!("{name} ×{}", values.len()) } else { (*name).to_owned() };
                let kind = values.first().map_or("", |value| value.type_name()).to_owned();
                let shown: Vec<String> = values.iter().map(|value| value_words(value, self.full)).collect();
                table.row([
                    Cell::dim(mark),
                    Cell::new(name, style),
                    Cell::dim(kind),
                    shown.join(", ").into(),
                ]);
            }
        }
        for line in table.lines(if self.full { None } else { ui.columns() }) {
            ui.say(line);
        }
        for (side, most, words) in [(&travel, TRAVELLING, "travel"), (&stay, STAYING, "stay")] {
            let left: usize = side.iter().skip(bound(most)).map(|(_, values)| values.len()).sum();
            if left > 0 {
                ui.say(Line::new().dim(format!("  … {left} more {words} (--full)")));
            }
        }
    }

    fn redrive(&self, ui: &mut Ui) {
        ui.blank();
        ui.say(Line::new().bold("a redrive would"));
        let mut say = |label: &str, text: String, red: bool| {
            let style = if red { Style::Red } else { Style::Plain };
            ui.say_folded(Line::new().dim(format!("  {label:<7}  ")).styled(style, text), 11);
        };
        if let Some((why, way_round)) = &self.deed.stays {
            say("not go", format!("{why}; {way_round}"), true);
        }
        let consumer = self.channel.consumer.as_ref().map(|consumer| consumer.value.as_str());
        let others: Vec<&str> = self
            .readers
            .iter()
            .map(|reader| reader.name.as_str())
            .filter(|name| Some(*name) != consumer)
            .collect();
        let read = match (consumer, others.as_slice()) {
            (Some(consumer), []) => format!(", read by {consumer}"),
            (Some(consumer), sharing) if !self.copy_each => {
                format!(", read by {consumer} ({})", list(sharing))
            }
            // K39: who else would see it.
            (Some(consumer), others) => format!(", read by {consumer}; {} would get it again", list(others)),
            (None, []) => String::new(),
            (None, others) => format!(", read by {}", list(others)),
        };
        say("send to", format!("{}{read}", self.deed.target), false);
        say("start", self.deed.start.clone(), false);
        say("order", self.order(), false);
        say("add", self.deed.adds.join(", "), false);
    }

    fn order(&self) -> String {
        let letter = self.letter;
        match self.neighbours {
            None => match &letter.group.value {
                None => format!("none to keep: {}", letter.group_from(self.channel)),
                Some(group) => format!("of group {group}; its other letters were not looked up"),
            },
            Some(Neighbours { group, earlier: 0, later, .. }) => {
                let later = if *later == 0 { "".to_owned() } else { format!("; {later} later behind it") };
                format!("first open letter of {group}{later}")
            }
            Some(Neighbours { group, earlier, first, .. }) => {
                let first = first.as_ref().map(|id| format!(", from {id} on")).unwrap_or_default();
                let earlier = count(*earlier, "earlier letter", "earlier letters");
                format!("behind {earlier} of {group}{first}: held until they went")
            }
        }
    }
}

/// `audit and search`, `a, b and 3 more`.
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first, second] => format!("{first} and {second}"),
        [first, second, rest @ ..] => format!("{first}, {second} and {} more", rest.len()),
    }
}

fn sure(sureness: crate::failure::Sureness) -> &'static str {
    match sureness {
        crate::failure::Sureness::Maybe => "maybe",
        crate::failure::Sureness::Likely => "likely",
        crate::failure::Sureness::Sure => "sure",
    }
}

/// K13: past retention already, or how long it has left.
fn expires(at: Option<Time>, now: Time) -> String {
    match at {
        None => "unknown: the broker does not say".to_owned(),
        Some(at) if at <= now => {
            format!("already past retention, since {}: it can go at any moment", minute(at))
        }
        Some(at) => format!("{}, in {}", minute(at), age(at.since(now))),
    }
}

/// `orders p3 offset 90412`.
pub fn origin_words(origin: &Origin) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(origin.topic.clone());
    words.extend(origin.partition.map(|partition| format!("p{partition}")));
    words.extend(origin.offset.map(|offset| format!("offset {offset}")));
    words.extend(origin.queue.clone());
    if let Some(exchange) = &origin.exchange {
        let name =
            if exchange.is_empty() { "default exchange".to_owned() } else { format!("exchange {exchange}") };
        words.push(name);
    }
    words.extend(origin.routing_key.as_ref().map(|key| format!("routing key {key}")));
    words.extend(origin.named.iter().map(|(kind, name)| format!("{kind} {name}")));
    words.join(" ")
}
