//! A home-made convention, declared by the topology (`failure:`): read before the known dialects, for the
//! letters of one channel only. It may also give a known writer's headers other names.

use super::{Dialect, Form, Layer, Look, Mark, Testimony};
use crate::clock::Time;
use crate::failure::{Death, Origin, Sureness, stack};
use crate::letter::{Header, RawLetter, Value};
use crate::topology::{At, FailureConvention, NumberForm, Place, TimeForm};

/// Its name among the readings.
pub(super) const NAME: &str = "declared";

/// Stands for the convention among the dialects that speak; [`read`] does the work.
pub(super) struct Declared;

impl Dialect for Declared {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "a convention of your own, declared in the topology under failure"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Other("what failure: of the channel names")]
    }

    fn layer(&self) -> Layer {
        Layer::Declared
    }

    fn recognise(&self, _letter: &Look<'_>) -> Option<(Sureness, String)> {
        None
    }

    fn read(&self, _letter: &Look<'_>, _says: &mut Testimony) {}

    /// The names to strip stand in the context: see [`super::stays_behind`].
    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

/// The letter under the names that its known writer would have used, if the channel declares others.
pub(super) fn renamed(letter: &RawLetter, convention: &FailureConvention) -> Option<RawLetter> {
    let known = |name: &str| convention.names.iter().find(|(theirs, _)| theirs.value == name);
    if !letter.message.headers.iter().any(|header| known(&header.name).is_some()) {
        return None;
    }
    let mut renamed = letter.clone();
    renamed.message.headers = letter
        .message
        .headers
        .iter()
        .map(|header| {
            let name = known(&header.name).map_or(header.name.as_str(), |(_, known)| &known.value);
            (name, header.value.clone())
        })
        .collect();
    Some(renamed)
}

/// What the convention finds in the letter: nothing, if none of its places holds anything.
pub(super) fn read(letter: &Look<'_>, convention: &FailureConvention) -> Option<(String, Testimony)> {
    let mut says = Testimony::default();
    let mut found = None;
    let mut take = |place: &Option<At<Place>>| -> Option<Value> {
        let place = &place.as_ref()?.value;
        let value = value_at(letter, place)?;
        found.get_or_insert_with(|| match place {
            Place::Header(name) => format!("header {name}, declared"),
            Place::Body(pointer) => format!("body {pointer}, declared"),
        });
        Some(value)
    };
    let error = take(&convention.error);
    let message = take(&convention.message);
    let trace = take(&convention.stack);
    let origin = take(&convention.origin);
    let attempts = take(&convention.attempts);
    let at = take(&convention.at);
    let why = found?;

    let attempts_form = match convention.attempts_as {
        NumberForm::Text => Form::Integer,
        NumberForm::Int32 => Form::Int32,
    };
    says.attempts = says.number("attempts", "the declared count", attempts.as_ref(), attempts_form);
    let at = match convention.at_as {
        TimeForm::Rfc3339 => says.rfc3339("failed_at", "the declared time", at.as_ref()),
        TimeForm::Milliseconds => {
            says.millis("failed_at", "the declared time", at.as_ref(), wide(at.as_ref()))
        }
        TimeForm::Seconds => {
            let form = wide(at.as_ref());
            let seconds: Option<i64> = says.number("failed_at", "the declared time", at.as_ref(), form);
            seconds.filter(|seconds| *seconds >= 0).map(Time::from_seconds)
        }
    };
    let trace = says.text("stack", "the declared stack", trace.as_ref());
    let root = trace.as_deref().and_then(stack::root);
    let class = says.text("error", "the declared error", error.as_ref());
    let class = class.or_else(|| {
        let outermost = trace.as_deref().and_then(|text| stack::chain(text).first().copied())?;
        outermost.class.map(str::to_owned)
    });
    let message = says.text("message", "the declared message", message.as_ref());
    let inner = root.filter(|root| root.class != class.as_deref()).and_then(|root| root.message);
    says.origin = says.text("origin", "the declared origin", origin.as_ref()).map(|place| {
        if letter.facts.place.is_some() {
            Origin { topic: Some(place), ..Origin::default() }
        } else {
            Origin { queue: Some(place), ..Origin::default() }
        }
    });
    let death = Death {
        at,
        root_class: root.and_then(|root| root.class).map(str::to_owned),
        root_message: inner.map(str::to_owned),
        error_class: class,
        message,
        count: 1,
        ..Death::default()
    };
    says.deaths.push(Death { stack: trace, ..death });
    Some((why, says))
}

/// A time is held as eight bytes or as decimal text: eight digits would be a time in 1970 or 1973.
fn wide(value: Option<&Value>) -> Form {
    match value.and_then(Value::bytes) {
        Some(bytes) if bytes.len() == 8 && !bytes.iter().all(u8::is_ascii_digit) => Form::Int64,
        _ => Form::Integer,
    }
}

fn value_at(letter: &Look<'_>, place: &Place) -> Option<Value> {
    match place {
        Place::Header(name) => letter.headers().last(name).cloned(),
        Place::Body(pointer) => match letter.json()?.pointer(pointer)? {
            serde_json::Value::String(text) => Some(Value::from_text(text.clone())),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(n) => Some(Value::I64(n)),
                None => Some(Value::from_text(number.to_string())),
            },
            serde_json::Value::Null => None,
            other => Some(Value::from_text(other.to_string())),
        },
    }
}
