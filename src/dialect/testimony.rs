//! What one dialect says about one letter, before it is joined with what others say, and the reading of
//! single values: every encoding that dead letters use, with a doubt where a value does not fit (K02, K03).

use std::borrow::Cow;

use crate::clock::Time;
use crate::failure::{Death, Doubt, Origin, Prospect};
use crate::letter::{Headers, Value};

/// Who put the letter into its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buried {
    /// The framework published it: what the broker has recorded lies before the framework's own deaths.
    #[default]
    ByFramework,
    /// The broker moved it after the framework said no: the broker's latest record and the framework's
    /// latest death are one event.
    ByBroker,
}

/// What one dialect says. A field that the letter does not carry stays `None` or empty.
#[derive(Debug, Clone, Default)]
pub struct Testimony {
    /// Where the message FIRST lived.
    pub origin: Option<Origin>,
    /// Failures, oldest first.
    pub deaths: Vec<Death>,
    /// Deliveries that failed so far.
    pub attempts: Option<u32>,
    /// Business identity, by envelope or convention.
    pub event_id: Option<String>,
    /// Ordering key, where the message's own is lost or replaced.
    pub group: Option<String>,
    /// Trace id, where it stands in a place of its own; W3C, B3, AWS and Datadog headers are read for all.
    pub trace: Option<String>,
    /// What could not be read or is missing.
    pub doubts: Vec<Doubt>,
    /// What a redrive would do; empty is afresh.
    pub prospects: Vec<Prospect>,
    /// The key was lost or replaced.
    pub key_unavailable: bool,
    /// The value was lost.
    pub value_unavailable: bool,
    /// Who put the letter into its queue.
    pub buried: Buried,
    /// Index of the last header of the newest set, where this framework appends its sets: a framework
    /// further back in the list failed later. `None` if the list does not tell.
    pub newest_at: Option<usize>,
    /// Dialects whose word does not count for this letter, and why: `("rabbitmq", "x-death is about the
    /// framework's own delay queue")`.
    pub overrules: Vec<(&'static str, &'static str)>,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Four bytes, big-endian, signed.
    Int32,
    /// Eight bytes, big-endian, signed.
    Int64,
    /// Java `BigInteger`: 1 to 8 bytes, big-endian two's complement.
    BigInteger,
    /// An integer of any width by type, or decimal digits.
    Integer,
}

impl Testimony {
    /// Adds a doubt.
    pub fn doubt(&mut self, field: &'static str, why: impl Into<String>) {
        self.doubts.push(Doubt { field, why: why.into() });
    }

    /// Adds what a redrive would do.
    pub fn prospect(&mut self, prospect: Prospect) {
        self.prospects.push(prospect);
    }

    /// Whoever reads it drops it from `at` on; it died at `died` or later. The reader of this has no clock:
    /// what is past by then is refused by the letter alone, the rest by whoever knows what time it is.
    pub fn expires(&mut self, at: Time, died: Option<Time>, why: &str, way_round: &str) {
        let (why, way_round) = (why.to_owned(), way_round.to_owned());
        self.prospects.push(match died {
            Some(died) if died >= at => {
                Prospect::Refused { why: format!("it expired at {at}: {why}"), way_round }
            }
            _ => Prospect::Expires { at, why, way_round },
        });
    }

    /// The text of the last header of this name, if it is not empty; see [`Self::text`].
    pub fn words(&mut self, field: &'static str, name: &str, headers: &Headers) -> Option<String> {
        self.text(field, name, headers.last(name)).filter(|text| !text.is_empty())
    }

    /// The latest death, made if there is none yet.
    pub fn last_death(&mut self) -> &mut Death {
        if self.deaths.is_empty() {
            self.deaths.reserve_exact(1);
            self.deaths.push(Death::default());
        }
        let last = self.deaths.len() - 1;
        &mut self.deaths[last]
    }

    /// The text of the first or last value under `name`. A null value is `None`; bytes that are not UTF-8
    /// are taken with U+FFFD in their place, with a doubt.
    pub fn text(&mut self, field: &'static str, name: &str, value: Option<&Value>) -> Option<String> {
        self.borrowed(field, name, value).map(Cow::into_owned)
    }

    /// The same without a copy, for texts of which only parts are taken.
    pub fn borrowed<'v>(
        &mut self,
        field: &'static str,
        name: &str,
        value: Option<&'v Value>,
    ) -> Option<Cow<'v, str>> {
        let text = text_of(value?)?;
        if let Cow::Owned(_) = text {
            self.doubt(field, format!("{name} is not UTF-8"));
        }
        Some(text)
    }

    /// The number under `name`; a value that is none is a doubt with its bytes in hex (K02, K03).
    pub fn number<N: TryFrom<i64>>(
        &mut self,
        field: &'static str,
        name: &str,
        value: Option<&Value>,
        form: Form,
    ) -> Option<N> {
        let value = value?;
        match number_of(value, form).and_then(|n| N::try_from(n).ok()) {
            Some(n) => Some(n),
            None => {
                self.doubt(field, format!("{name} is no such number: {}", raw_of(value)));
                None
            }
        }
    }

    /// A time in epoch milliseconds under `name`. A negative one (Kafka: none was set) is `None`.
    pub fn millis(
        &mut self,
        field: &'static str,
        name: &str,
        value: Option<&Value>,
        form: Form,
    ) -> Option<Time> {
        let millis: i64 = self.number(field, name, value, form)?;
        (millis >= 0).then(|| Time::from_millis(millis))
    }

    /// A time in RFC 3339 under `name`.
    pub fn rfc3339(&mut self, field: &'static str, name: &str, value: Option<&Value>) -> Option<Time> {
        let text = value?.text().unwrap_or_default();
        match Time::parse(text.trim()) {
            Some(at) => Some(at),
            None => {
                self.doubt(field, format!("{name} is no time with a zone"));
                None
            }
        }
    }
}

/// Text or bytes as text; owned if something in it was not UTF-8. `None` for null, numbers, lists, tables.
pub fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    let bytes = value.bytes()?;
    // Checked as a whole first: mending it piece by piece costs ten times as much.
    Some(match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    })
}

/// The number that a value holds, by its form.
pub fn number_of(value: &Value, form: Form) -> Option<i64> {
    if let Some(n) = value.integer() {
        return Some(n);
    }
    match form {
        Form::Integer => value.integer_or_digits(),
        // The bytes of digits alone are text: as a number in binary no partition, offset, count or time is so
        // large.
        Form::Int32 | Form::Int64 if value.bytes()?.iter().all(u8::is_ascii_digit) => None,
        Form::Int32 => {
            let bytes: [u8; 4] = value.bytes()?.as_ref().try_into().ok()?;
            Some(i64::from(i32::from_be_bytes(bytes)))
        }
        Form::Int64 => Some(i64::from_be_bytes(value.bytes()?.as_ref().try_into().ok()?)),
        Form::BigInteger => {
            let bytes = value.bytes()?;
            if bytes.is_empty() || bytes.len() > 8 {
                return None;
            }
            let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
            let mut wide = [sign; 8];
            wide[8 - bytes.len()..].copy_from_slice(bytes);
            Some(i64::from_be_bytes(wide))
        }
    }
}

/// A value for a doubt: short text as text, else hex; at most 32 bytes of it.
pub fn raw_of(value: &Value) -> String {
    use std::fmt::Write;
    const MOST: usize = 32;
    let Some(bytes) = value.bytes() else { return value.type_name().to_owned() };
    let head = &bytes[..bytes.len().min(MOST)];
    let more = if bytes.len() > MOST { format!("… {} bytes", bytes.len()) } else { String::new() };
    match std::str::from_utf8(head) {
        Ok(text) if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() || c == ' ') => {
            format!("`{text}`{more}")
        }
        _ => {
            head.iter().fold("0x".to_owned(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            }) + &more
        }
    }
}

/// Where the last header stands whose name satisfies `is`.
pub fn last_index(headers: &Headers, is: impl Fn(&str) -> bool) -> Option<usize> {
    headers.iter().rposition(|header| is(&header.name))
}
