//! A home-made convention, declared by the topology (`failure:`): read before the known dialects, for the
//! letters of one channel only. It may also give a known writer's headers other names.

use super::{Dialect, Form, Layer, Look, Mark, Testimony, raw_of};
use crate::clock::Time;
use crate::failure::{Death, Origin, Sureness, stack};
use crate::letter::{Header, RawLetter, Value};
use crate::topology::{At, FailureConvention, Forms, NumberForm, Place, TimeForm};

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

    says.attempts = counted(&mut says, attempts.as_ref(), &convention.attempts_as);
    let at = failed_at(&mut says, at.as_ref(), &convention.at_as);
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

/// The declared count. Of several forms the value tells which: four bytes that are no digits are int32.
fn counted(says: &mut Testimony, value: Option<&Value>, forms: &Forms<NumberForm>) -> Option<u32> {
    let int32 = forms.has(NumberForm::Int32, NumberForm::Text);
    let text = forms.has(NumberForm::Text, NumberForm::Text);
    let binary = |value: &Value| {
        value.bytes().is_some_and(|bytes| bytes.len() == 4 && !bytes.iter().all(u8::is_ascii_digit))
    };
    let form = if int32 && (!text || value.is_some_and(binary)) { Form::Int32 } else { Form::Integer };
    says.number("attempts", "the declared count", value, form)
}

/// From here on a number of seconds lies in the year 5138, and one of milliseconds in 1973.
const SECONDS_END: i64 = 100_000_000_000;

/// The declared time. A time by type needs no form; of several forms the value tells which.
fn failed_at(says: &mut Testimony, value: Option<&Value>, forms: &Forms<TimeForm>) -> Option<Time> {
    const NAME: &str = "the declared time";
    let value = value?;
    if let Value::Timestamp(seconds) = value {
        return i64::try_from(*seconds).ok().filter(|seconds| *seconds < SECONDS_END).map(Time::from_seconds);
    }
    let has = |form| forms.has(form, TimeForm::Rfc3339);
    let (text, millis, seconds) =
        (has(TimeForm::Rfc3339), has(TimeForm::Milliseconds), has(TimeForm::Seconds));
    if text && (!(millis || seconds) || value.text().is_some_and(|text| Time::parse(text.trim()).is_some())) {
        return says.rfc3339("failed_at", NAME, Some(value));
    }
    let millis = if let Some(fraction) = fraction(value) {
        // Python and others write seconds with a fraction.
        let in_seconds = seconds && (!millis || fraction < SECONDS_END as f64);
        // A float that is too large saturates, and is out of range below.
        Some((if in_seconds { fraction * 1_000.0 } else { fraction }).round() as i64)
    } else {
        let number: i64 = says.number("failed_at", NAME, Some(value), wide(value))?;
        let in_seconds = seconds && (!millis || number < SECONDS_END);
        if in_seconds { number.checked_mul(1_000) } else { Some(number) }
    };
    match millis {
        // As Kafka has it: none was set.
        Some(millis) if millis < 0 => None,
        Some(millis) if millis < SECONDS_END * 1_000 => Some(Time::from_millis(millis)),
        _ => {
            says.doubt("failed_at", format!("{NAME} is out of range: {}", raw_of(value)));
            None
        }
    }
}

/// A number with a fraction, by type or in decimal text.
fn fraction(value: &Value) -> Option<f64> {
    match value {
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        Value::Decimal { scale, value } => Some(f64::from(*value) / 10f64.powi(i32::from(*scale))),
        _ => {
            let text = value.text()?.trim();
            let plain = text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            if plain { text.parse().ok() } else { None }
        }
    }
    .filter(|number: &f64| number.is_finite())
}

/// A time is held as eight bytes or as decimal text: eight digits would be a time in 1970 or 1973.
fn wide(value: &Value) -> Form {
    match value.bytes() {
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
