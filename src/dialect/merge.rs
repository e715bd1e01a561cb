//! Joins what several dialects say about one letter into one history, in order.
//!
//! - A closer writer ([`Layer`]) wins a field; the others only fill what it left open, and never overwrite.
//!   What was not taken is kept with its reason, for `show --why`.
//! - Of two frameworks (a letter that died in one, was sent on and died in another) the one that failed
//!   LAST wins the failure and the tries, the one that failed FIRST the origin. Their order is that of their
//!   headers where both append, else that of their times.
//! - Parts of two places are never mixed: an origin is filled up only by one that it does not contradict.

use super::testimony::{Buried, Testimony};
use super::{Dialect, Layer, Look};
use crate::clock::Time;
use crate::failure::{Death, Doubt, FailureContext, Ignored, Origin, Prospect, Reading, Sureness};

/// Two records of one event may differ by this much: AMQP times have whole seconds.
const ONE_EVENT: i64 = 1_000;

/// One dialect's word.
pub(super) struct Spoken {
    pub(super) dialect: &'static dyn Dialect,
    pub(super) sureness: Sureness,
    pub(super) why: String,
    pub(super) says: Testimony,
    /// Its place among the readings.
    reading: usize,
}

impl Spoken {
    /// A word, as it was spoken.
    pub(super) fn new(dialect: &'static dyn Dialect, known: (Sureness, String), says: Testimony) -> Self {
        let (sureness, why) = known;
        Self { dialect, sureness, why, says, reading: 0 }
    }

    fn layer(&self) -> Layer {
        self.dialect.layer()
    }

    fn name(&self) -> &'static str {
        self.dialect.name()
    }
}

/// See the file's head.
pub(super) fn merge(letter: &Look<'_>, mut spoken: Vec<Spoken>) -> FailureContext {
    let mut context = FailureContext::default();
    spoken.iter_mut().for_each(|word| places_that_are_some(&mut word.says));
    let mut overruled: Vec<(&str, &str)> =
        spoken.iter().flat_map(|word| word.says.overrules.iter().copied()).collect();
    overruled.extend(only_waits(&spoken));
    sort(&mut spoken);
    context.readings = spoken
        .iter_mut()
        .enumerate()
        .map(|(place, word)| {
            word.reading = place;
            let why_not = overruled.iter().find(|(name, _)| *name == word.name());
            let ignored = why_not.map(|(_, why)| Ignored { field: "everything", why: (*why).to_owned() });
            Reading {
                dialect: word.name(),
                sureness: word.sureness,
                why: std::mem::take(&mut word.why),
                said: Vec::new(),
                ignored: ignored.into_iter().collect(),
            }
        })
        .collect();

    if !overruled.is_empty() {
        spoken.retain(|word| !overruled.iter().any(|(name, _)| *name == word.name()));
    }
    origin(&mut context, &mut spoken);
    attempts(&mut context, &spoken);
    rest(&mut context, &mut spoken);
    for trace in super::trace::of(letter) {
        match &context.trace {
            None => context.trace = Some(trace),
            Some(first) if *first == trace || context.other_traces.contains(&trace) => {}
            Some(_) => context.other_traces.push(trace),
        }
    }
    history(&mut context, spoken);
    if let Some(why) = letter.facts.written_at.and_then(|(at, _)| implausible(at)) {
        context.doubts.push(Doubt { field: "written_at", why });
    }
    context.prospects.sort_by_key(badness);
    context.prospects.dedup();
    context
}

/// `-1` stands for a partition or offset that a writer did not know.
fn places_that_are_some(says: &mut Testimony) {
    for place in says.origin.iter_mut().chain(says.deaths.iter_mut().filter_map(|death| death.place.as_mut()))
    {
        place.partition = place.partition.filter(|partition| *partition >= 0);
        place.offset = place.offset.filter(|offset| *offset >= 0);
    }
}

/// Why a record's time cannot be one: nobody wrote records before 1990 or after 2200 (K16), but some write
/// microseconds (K35).
fn implausible(at: Time) -> Option<String> {
    const EARLIEST: i64 = 631_152_000_000;
    const LATEST: i64 = 7_258_118_400_000;
    let millis = at.millis();
    if (EARLIEST..LATEST).contains(&millis) {
        return None;
    }
    let micros = millis / 1_000;
    if (EARLIEST..LATEST).contains(&micros) {
        let at = Time::from_millis(micros);
        return Some(format!("implausible as milliseconds; {at} if it is in microseconds"));
    }
    Some(format!("implausible: {at}"))
}

/// Brokers whose every record is a wait that ran out, while a framework published the letter and tells of its
/// failure: those were waits in tiers, delay queues or the dead-letter queue itself, and no origin.
fn only_waits(spoken: &[Spoken]) -> Option<(&'static str, &'static str)> {
    let failed = spoken.iter().any(|word| {
        word.layer() == Layer::Framework
            && word.says.buried == Buried::ByFramework
            && !word.says.deaths.is_empty()
    });
    let waits = |word: &&Spoken| {
        word.layer() == Layer::Broker
            && !word.says.deaths.is_empty()
            && word.says.deaths.iter().all(|death| death.reason.as_deref() == Some("expired"))
    };
    let broker = spoken.iter().find(waits).filter(|_| failed)?;
    Some((broker.name(), "it tells of waits that ran out, not of the failure"))
}

/// Closest layer first; in one layer the latest failure first, then the surest, then the registry's order.
fn sort(spoken: &mut [Spoken]) {
    spoken.sort_by(|a, b| {
        a.layer().cmp(&b.layer()).then_with(|| later(&a.says, &b.says)).then(b.sureness.cmp(&a.sureness))
    });
}

/// Orders the later failure first.
fn later(a: &Testimony, b: &Testimony) -> std::cmp::Ordering {
    let at = |says: &Testimony| says.deaths.last().filter(|death| !death.at_is_first).and_then(|d| d.at);
    match (at(a), at(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        _ => match (a.newest_at, b.newest_at) {
            (Some(a), Some(b)) => b.cmp(&a),
            _ => std::cmp::Ordering::Equal,
        },
    }
}

fn origin(context: &mut FailureContext, kept: &mut [Spoken]) {
    // Layers from the closest; inside the layer of frameworks the first failure has the origin.
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.sort_by_key(|&index| {
        let layer = kept[index].layer();
        let back = if layer == Layer::Framework { kept.len() - index } else { index };
        (layer, back)
    });
    for index in order {
        let word = &mut kept[index];
        let reading = word.reading;
        let Some(said) = word.says.origin.take().filter(|origin| !origin.is_empty()) else { continue };
        match &mut context.origin {
            None => {
                context.origin = Some(said);
                context.readings[reading].said.push("origin");
            }
            Some(known) if agree(known, &said) => {
                if fill_origin(known, said) {
                    context.readings[reading].said.push("origin");
                }
            }
            Some(_) => context.readings[reading].ignored.push(Ignored {
                field: "origin",
                why: "another place than the origin: a later hop, or less exact".to_owned(),
            }),
        }
    }
}

/// Tries of the closest word; a framework that failed earlier says nothing about this life, nor does what the
/// broker noted before a framework published the letter.
fn attempts(context: &mut FailureContext, kept: &[Spoken]) {
    let (mut framework_seen, mut published) = (false, false);
    for word in kept {
        let reading = word.reading;
        let earlier_hop = match word.layer() {
            Layer::Framework => std::mem::replace(&mut framework_seen, true),
            Layer::Broker => published,
            _ => false,
        };
        published |= word.layer() == Layer::Framework
            && word.says.buried == Buried::ByFramework
            && !word.says.deaths.is_empty();
        let Some(attempts) = word.says.attempts else { continue };
        if context.attempts.is_none() && !earlier_hop {
            context.attempts = Some(attempts);
            context.readings[reading].said.push("attempts");
        } else if context.attempts != Some(attempts) {
            let why =
                if earlier_hop { "it counts an earlier life" } else { "a closer dialect says otherwise" };
            context.readings[reading]
                .ignored
                .push(Ignored { field: "attempts", why: format!("{attempts}: {why}") });
        }
    }
}

fn rest(context: &mut FailureContext, kept: &mut [Spoken]) {
    let mut settled_by_closer: Vec<&str> = Vec::new();
    let several = kept.len() > 1;
    for word in kept {
        let reading = &mut context.readings[word.reading];
        let says = &mut word.says;
        for (field, known, said) in [
            ("event id", &mut context.event_id, says.event_id.take()),
            ("group", &mut context.group, says.group.take()),
            ("trace", &mut context.trace, says.trace.take()),
        ] {
            match (known.as_ref(), said) {
                (None, Some(said)) => {
                    *known = Some(said);
                    reading.said.push(field);
                }
                (Some(known), Some(said)) if *known != said => {
                    reading
                        .ignored
                        .push(Ignored { field, why: format!("{said}: a closer dialect says otherwise") });
                }
                _ => {}
            }
        }
        // Doubts about what a closer dialect has said are no doubts any more.
        let settled = |doubt: &Doubt| match doubt.field.split('.').next().unwrap_or_default() {
            field @ ("origin" | "attempts") => settled_by_closer.contains(&field),
            _ => false,
        };
        context.doubts.extend(says.doubts.drain(..).filter(|doubt| !settled(doubt)));
        if several {
            settled_by_closer.extend(reading.said.iter().copied());
        }
        context.prospects.append(&mut says.prospects);
        context.key_unavailable |= says.key_unavailable;
        context.value_unavailable |= says.value_unavailable;
    }
}

/// One history. It is built from the closest writer outwards: what is further away goes before it, or fills
/// the gaps of the same event.
fn history(context: &mut FailureContext, kept: Vec<Spoken>) {
    let mut deaths: Vec<Death> = Vec::new();
    let mut last_is_the_brokers = false;
    let mut only_declared = false;
    for word in kept {
        if word.says.deaths.is_empty() {
            continue;
        }
        context.readings[word.reading].said.push("deaths");
        let layer = word.layer();
        let mut more = word.says.deaths;
        if deaths.is_empty() {
            deaths = more;
            last_is_the_brokers = layer == Layer::Framework && word.says.buried == Buried::ByBroker;
            only_declared = layer == Layer::Declared;
            continue;
        }
        // The same event told twice: the latest of a framework and of the broker that it rejected to, or
        // what an application adds of its own (`failure:`) to what its framework writes.
        let one_event = match layer {
            Layer::Broker => last_is_the_brokers,
            Layer::Framework => std::mem::take(&mut only_declared),
            _ => false,
        };
        if layer == Layer::Framework && one_event {
            last_is_the_brokers = word.says.buried == Buried::ByBroker;
        }
        if one_event
            && let Some(theirs) = more.pop()
            && let Some(ours) = deaths.last_mut()
        {
            fill_death(ours, theirs);
        }
        for death in more.into_iter().rev() {
            put(&mut deaths, death);
        }
    }
    context.deaths = deaths;
}

/// Puts a death of a writer further out into the history: into the event that it is, else in its time, else
/// at the front.
fn put(deaths: &mut Vec<Death>, death: Death) {
    if let Some(same) = deaths.iter_mut().rev().find(|known| one_event(known, &death)) {
        return fill_death(same, death);
    }
    let place = match death.at {
        Some(at) => {
            deaths.iter().position(|known| known.at.is_none_or(|known| known > at)).unwrap_or(deaths.len())
        }
        None => 0,
    };
    deaths.insert(place, death);
}

/// Do both tell of one event? By time if both have one, else by the very copy that failed, else by the same
/// error in the same place.
fn one_event(a: &Death, b: &Death) -> bool {
    if let (Some(a_at), Some(b_at)) = (a.at, b.at)
        && !a.at_is_first
        && !b.at_is_first
    {
        return (a_at.millis() - b_at.millis()).abs() <= ONE_EVENT && compatible(a, b);
    }
    let (Some(a_place), Some(b_place)) = (&a.place, &b.place) else { return false };
    a_place.offset.is_some()
        && agree(a_place, b_place)
        && a_place.offset == b_place.offset
        && compatible(a, b)
}

/// No contradiction in what failed.
fn compatible(a: &Death, b: &Death) -> bool {
    let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
    same(&a.error_class, &b.error_class)
        && same(&a.message, &b.message)
        && match (&a.place, &b.place) {
            (Some(a), Some(b)) => agree(a, b),
            _ => true,
        }
}

/// Fills what `known` leaves open. The parts of an error are taken together or not at all.
fn fill_death(known: &mut Death, other: Death) {
    if same_error(known, &other) {
        fill(&mut known.error_class, other.error_class);
        fill(&mut known.root_class, other.root_class);
        fill(&mut known.message, other.message);
        fill(&mut known.root_message, other.root_message);
        fill(&mut known.stack, other.stack);
        fill(&mut known.stage, other.stage);
    }
    if known.at.is_none() {
        known.at = other.at;
        known.at_is_first = other.at_is_first;
    }
    match (&mut known.place, other.place) {
        (place @ None, theirs) => *place = theirs,
        (Some(ours), Some(theirs)) if agree(ours, &theirs) => {
            fill_origin(ours, theirs);
        }
        _ => {}
    }
    fill(&mut known.tried_at, other.tried_at);
    fill(&mut known.consumer, other.consumer);
    fill(&mut known.reason, other.reason);
    if known.count == 0 {
        known.count = other.count;
    }
}

fn same_error(a: &Death, b: &Death) -> bool {
    let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
    same(&a.error_class, &b.error_class) && same(&a.message, &b.message)
}

fn fill<T>(known: &mut Option<T>, other: Option<T>) {
    if known.is_none() {
        *known = other;
    }
}

/// Does no part of one place contradict the other?
fn agree(a: &Origin, b: &Origin) -> bool {
    fn same<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
        a.is_none() || b.is_none() || a == b
    }
    same(&a.topic, &b.topic)
        && same(&a.partition, &b.partition)
        && same(&a.offset, &b.offset)
        && same(&a.timestamp, &b.timestamp)
        && same(&a.queue, &b.queue)
        && same(&a.exchange, &b.exchange)
        && same(&a.routing_key, &b.routing_key)
        && a.named.iter().all(|(kind, value)| b.named.iter().all(|(k, v)| k != kind || v == value))
}

/// Fills the parts that `known` leaves open; true if there were any.
fn fill_origin(known: &mut Origin, other: Origin) -> bool {
    let before = known.clone();
    fill(&mut known.topic, other.topic);
    fill(&mut known.partition, other.partition);
    fill(&mut known.offset, other.offset);
    fill(&mut known.timestamp, other.timestamp);
    fill(&mut known.queue, other.queue);
    fill(&mut known.exchange, other.exchange);
    fill(&mut known.routing_key, other.routing_key);
    for (kind, value) in other.named {
        if !known.named.iter().any(|(k, _)| *k == kind) {
            known.named.push((kind, value));
        }
    }
    before != *known
}

/// Worst first.
fn badness(prospect: &Prospect) -> u8 {
    match prospect {
        Prospect::Refused { .. } => 0,
        Prospect::Pointer { .. } => 1,
        Prospect::Expires { .. } => 2,
        Prospect::ToQueue { .. } => 3,
        Prospect::OneTry { .. } => 4,
        Prospect::Afresh => 5,
    }
}
