//! What the letters of one cause have in common that the other letters of the channel do not: values of
//! headers and properties, fields of the body, consumer, origin, time. The strongest differences first.

use std::collections::HashMap;
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value as Json;

use super::look::Collect;
use crate::clock::Time;
use crate::dead_letter::DeadLetter;
use crate::failure::Origin;
use crate::letter::{Headers, Value};

/// Most features that are counted at a time; when more turn up, the rarest are forgotten.
const MOST: usize = 40_000;
/// Longest value that counts as a feature, in bytes: what is longer is content, not a property.
const LONGEST: usize = 120;
/// How deep fields of the body are looked at.
const DEEPEST: usize = 3;
/// Most fields of one body.
const MOST_FIELDS: usize = 100;
/// Shares that differ by less than this say nothing.
const LEAST: f64 = 0.1;

/// Something a letter has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Feature {
    /// As a field of the `--where` language: `header.tenant`, `body./currency`.
    pub field: String,
    /// Its value; `None`: that it is there at all.
    pub value: Option<String>,
}

/// A feature, and how many letters of each side have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// What.
    #[serde(flatten)]
    pub feature: Feature,
    /// Letters of the cause that have it.
    pub inside: u64,
    /// Other letters that have it.
    pub outside: u64,
}

/// The two sides, while letters come in.
#[derive(Debug, Clone, Default)]
pub struct Contrast {
    /// Beginning of the id of the cause.
    cause: String,
    counts: HashMap<Feature, [u64; 2]>,
    /// Features seen fewer times than this may be forgotten.
    floor: u64,
    /// Letters of the cause.
    pub inside: u64,
    /// Other letters.
    pub outside: u64,
    /// Ids of causes that the prefix fits, the first two.
    pub causes: Vec<String>,
    /// First and last death of the cause.
    pub window: Option<(Time, Time)>,
    /// Deaths of other letters: kept to tell how many fall into the window.
    other_deaths: Vec<Time>,
    seen_deaths: u64,
}

/// Most deaths of other letters that are kept, evenly thinned beyond.
const MOST_DEATHS: usize = 20_000;

impl Contrast {
    /// For the cause whose id begins with `cause`.
    pub fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), ..Self::default() }
    }

    /// Takes a letter in.
    pub fn add(&mut self, letter: &DeadLetter) {
        let id = letter.cause.id.as_str();
        let inside = id.starts_with(&self.cause);
        let died = letter.died_at.map(|(at, _)| at);
        if inside {
            self.inside += 1;
            if self.causes.len() < 2 && !self.causes.iter().any(|cause| cause == id) {
                self.causes.push(id.to_owned());
            }
            if let Some(at) = died {
                self.window = Some(self.window.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
            }
        } else {
            self.outside += 1;
            if let Some(at) = died {
                self.seen_deaths += 1;
                let step = 1 + self.seen_deaths / MOST_DEATHS as u64;
                if self.seen_deaths.is_multiple_of(step) && self.other_deaths.len() < 2 * MOST_DEATHS {
                    self.other_deaths.push(at);
                }
            }
        }
        let side = usize::from(!inside);
        each(letter, &mut |field, value| {
            self.note(Feature { field: field.to_owned(), value: None }, side);
            if let Some(value) = value.filter(|value| value.len() <= LONGEST) {
                self.note(Feature { field: field.to_owned(), value: Some(value.to_owned()) }, side);
            }
        });
    }

    fn note(&mut self, feature: Feature, side: usize) {
        if let Some(counts) = self.counts.get_mut(&feature) {
            counts[side] += 1;
            return;
        }
        while self.counts.len() >= MOST {
            self.floor = (self.floor * 2).max(2);
            let floor = self.floor;
            self.counts.retain(|_, [inside, outside]| *inside + *outside >= floor);
        }
        let mut counts = [0, 0];
        counts[side] = 1;
        self.counts.insert(feature, counts);
    }

    /// The differences, strongest first, at most `most`. A field that is there adds nothing to a value of
    /// it that is as telling.
    pub fn differences(&self, most: usize) -> Vec<Difference> {
        if self.inside == 0 || self.outside == 0 {
            return Vec::new();
        }
        let share = |[inside, outside]: [u64; 2]| {
            inside as f64 / self.inside as f64 - outside as f64 / self.outside as f64
        };
        // A value of a single letter is an id, and nothing that letters have in common.
        let common = |feature: &Feature, [inside, outside]: [u64; 2]| {
            feature.value.is_none()
                || if share([inside, outside]) > 0.0 {
                    inside > 1 || self.inside == 1
                } else {
                    outside > 1 || self.outside == 1
                }
        };
        let mut found: Vec<(&Feature, [u64; 2])> = self
            .counts
            .iter()
            .map(|(feature, counts)| (feature, *counts))
            .filter(|(feature, counts)| share(*counts).abs() >= LEAST && common(feature, *counts))
            .collect();
        found.sort_by(|(a, left), (b, right)| {
            let strength = share(*right).abs().total_cmp(&share(*left).abs());
            // Of equally strong ones what is there says more than what is not, and a value more than a field.
            strength
                .then(share(*right).total_cmp(&share(*left)))
                .then(b.value.is_some().cmp(&a.value.is_some()))
                .then(a.cmp(b))
        });
        let mut told: Vec<Difference> = Vec::new();
        for (feature, counts) in found {
            let again = feature.value.is_none()
                && told.iter().any(|difference| {
                    difference.feature.field == feature.field
                        && [difference.inside, difference.outside] == counts
                });
            if !again && told.len() < most {
                let [inside, outside] = counts;
                told.push(Difference { feature: feature.clone(), inside, outside });
            }
        }
        told
    }

    /// About how many other letters died in the time window of the cause.
    pub fn outside_in_window(&self) -> Option<u64> {
        let (from, to) = self.window?;
        if self.other_deaths.is_empty() {
            return (self.outside == 0).then_some(0);
        }
        let within = self.other_deaths.iter().filter(|at| (from..=to).contains(*at)).count() as u64;
        Some(within * self.seen_deaths / self.other_deaths.len() as u64)
    }
}

impl Collect for Contrast {
    fn take(&mut self, letter: &DeadLetter) -> ControlFlow<()> {
        self.add(letter);
        ControlFlow::Continue(())
    }
}

/// Hands out what a letter has, in the words of the `--where` language; what tells the failure itself, and
/// redrive's own headers, are left out: of course letters of one cause share those.
fn each(letter: &DeadLetter, take: &mut dyn FnMut(&str, Option<&str>)) {
    if let Some(consumer) = letter.context.last().and_then(|death| death.consumer.as_deref()) {
        take("consumer", Some(consumer));
    }
    if let Some(origin) = &letter.context.origin {
        let name = origin_name(origin);
        take("origin", name.as_deref());
        if let Some(partition) = origin.partition {
            take("origin partition", Some(&partition.to_string()));
        }
    }
    headers("header", &letter.raw.message.headers, letter, take);
    headers("property", &letter.raw.message.properties, letter, take);
    if let Some(json) = letter.json() {
        let mut left = MOST_FIELDS;
        fields("body.", json, DEEPEST, &mut left, take);
    }
}

fn headers(word: &str, headers: &Headers, letter: &DeadLetter, take: &mut dyn FnMut(&str, Option<&str>)) {
    for header in headers.iter().take(MOST_FIELDS) {
        let bookkeeping = crate::stamp::ALL.contains(&header.name.as_str())
            || crate::dialect::stays_behind(header, &letter.context).is_some();
        if !bookkeeping && header.name.len() <= LONGEST {
            take(&format!("{word}.{}", header.name), Some(&value_words(&header.value)));
        }
    }
}

fn fields(path: &str, json: &Json, depth: usize, left: &mut usize, take: &mut dyn FnMut(&str, Option<&str>)) {
    let Json::Object(entries) = json else { return };
    for (name, value) in entries {
        if *left == 0 || path.len() + name.len() > LONGEST {
            return;
        }
        *left -= 1;
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        match value {
            Json::Object(_) if depth > 1 => fields(&path, value, depth - 1, left, take),
            Json::Object(_) | Json::Array(_) => take(&path, None),
            Json::String(text) => take(&path, Some(text)),
            other => take(&path, Some(&other.to_string())),
        }
    }
}

/// The name of a place in one word.
pub(super) fn origin_name(origin: &Origin) -> Option<String> {
    let plain = origin.topic.as_ref().or(origin.queue.as_ref());
    if let Some(name) = plain {
        return Some(name.clone());
    }
    match (&origin.exchange, &origin.routing_key) {
        (Some(exchange), Some(key)) if !exchange.is_empty() => Some(format!("{exchange}/{key}")),
        (Some(exchange), None) if !exchange.is_empty() => Some(exchange.clone()),
        (_, Some(key)) => Some(key.clone()),
        _ => origin.named.first().map(|(_, name)| name.clone()),
    }
}

/// A value in words, for putting letters together.
pub(super) fn value_words(value: &Value) -> String {
    if let Some(text) = value.text() {
        return text.to_owned();
    }
    match value {
        Value::Bool(yes) => yes.to_string(),
        other => match (other.integer(), other.bytes()) {
            (Some(number), _) => number.to_string(),
            (None, Some(bytes)) => format!("{} bytes", bytes.len()),
            (None, None) => other.type_name().to_owned(),
        },
    }
}
