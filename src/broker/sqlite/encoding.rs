//! Header and property lists as JSON text, so that a program in any language can write and read them.
//!
//! `[["event-id","ev-1"],["tries",3],["sig",{"bytes":"00ff"}]]`: ordered pairs, duplicates kept. Plain JSON
//! stands for text, null, true, false and 64-bit integers; every other type is a one-key object. Bytes are
//! hex, as SQLite's own `hex()` writes them.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use bytes::{Bytes, BytesMut};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};

use crate::letter::{Headers, PlainJson, Short, Value};

/// Values nested deeper than this are refused: nobody's headers are, and readers have limits too.
const DEPTH: u32 = 30;

/// Writes a list.
///
/// # Errors
/// Says which header is nested too deeply.
pub fn write(headers: &Headers) -> Result<String, String> {
    // Values that are JSON themselves have a quotation mark to escape in every few characters.
    let size = headers.size() as usize;
    let mut out = String::with_capacity(2 + size + size / 4 + headers.len() * 8);
    out.push('[');
    for (at, header) in headers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push('[');
        string(&mut out, &header.name);
        out.push(',');
        value(&mut out, &header.value, DEPTH)
            .map_err(|()| format!("header {} is nested deeper than {DEPTH}", header.name))?;
        out.push(']');
    }
    out.push(']');
    Ok(out)
}

/// Reads a list. Text without escapes is not copied: it points into `json`.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(json: &Bytes) -> Result<Headers, String> {
    read_among(json, &mut Room::default())
}

/// Where texts of many lists lie that had escapes: behind one another, in few pieces of memory instead of one
/// for each text.
#[derive(Default)]
pub struct Room {
    held: BytesMut,
    /// One text, while its escapes are taken out.
    text: String,
}

impl Room {
    /// With so many bytes in a piece.
    pub fn of(bytes: usize) -> Self {
        Self { held: BytesMut::with_capacity(bytes), text: String::new() }
    }

    /// Keeps the text.
    fn keep(&mut self) -> Bytes {
        self.held.extend_from_slice(self.text.as_bytes());
        self.text.clear();
        self.held.split().freeze()
    }
}

/// The same of one of many lists.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read_among(json: &Bytes, room: &mut Room) -> Result<Headers, String> {
    if json.as_ref() == b"[]" {
        return Ok(Headers::new());
    }
    if let Some(headers) = plain(json, room) {
        return Ok(headers);
    }
    room.text.clear();
    let mut parser = serde_json::Deserializer::from_slice(json);
    let headers = List(json).deserialize(&mut parser).map_err(|error| error.to_string())?;
    parser.end().map_err(|error| error.to_string())?;
    Ok(headers)
}

/// A list whose values are all texts, as most are; `None`: it needs a whole parser.
fn plain(json: &Bytes, room: &mut Room) -> Option<Headers> {
    let mut parser = PlainJson::new(std::str::from_utf8(json).ok()?);
    let mut headers = Headers::new();
    if !parser.take(b'[') {
        return None;
    }
    loop {
        if !parser.take(b'[') {
            return None;
        }
        let name = parser.text()?;
        if !parser.take(b',') {
            return None;
        }
        let value = match parser.text_or(&mut room.text)? {
            Some(text) => Value::Text(shared(json, text)),
            None => Value::Text(room.keep()),
        };
        if !parser.take(b']') {
            return None;
        }
        headers.push(&*name, value);
        if !parser.take(b',') {
            break;
        }
    }
    (parser.take(b']') && parser.is_over()).then_some(headers)
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    let mut clean = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[clean..at]);
        clean = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            _ => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
    }
    out.push_str(&text[clean..]);
    out.push('"');
}

fn hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn value(out: &mut String, v: &Value, depth: u32) -> Result<(), ()> {
    if depth == 0 {
        return Err(());
    }
    match v {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::I64(n) => put(out, format_args!("{n}")),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => string(out, text),
            Err(_) => tagged(out, "text", |out| {
                out.push('"');
                hex(out, bytes);
                out.push('"');
            }),
        },
        Value::Bytes(bytes) => tagged(out, "bytes", |out| {
            out.push('"');
            hex(out, bytes);
            out.push('"');
        }),
        Value::I8(n) => number(out, "i8", n),
        Value::U8(n) => number(out, "u8", n),
        Value::I16(n) => number(out, "i16", n),
        Value::U16(n) => number(out, "u16", n),
        Value::I32(n) => number(out, "i32", n),
        Value::U32(n) => number(out, "u32", n),
        Value::Timestamp(n) => number(out, "timestamp", n),
        // Text, because JSON readers round; bits, where there is no number.
        Value::F32(n) if n.is_finite() => tagged(out, "f32", |out| put(out, format_args!("\"{n:?}\""))),
        Value::F32(n) => tagged(out, "f32", |out| put(out, format_args!("\"0x{:08x}\"", n.to_bits()))),
        Value::F64(n) if n.is_finite() => tagged(out, "f64", |out| put(out, format_args!("\"{n:?}\""))),
        Value::F64(n) => tagged(out, "f64", |out| put(out, format_args!("\"0x{:016x}\"", n.to_bits()))),
        Value::Decimal { scale, value } => {
            tagged(out, "decimal", |out| put(out, format_args!("[{scale},{value}]")));
        }
        Value::List(items) => {
            out.push_str("{\"list\":[");
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                value(out, item, depth - 1)?;
            }
            out.push_str("]}");
        }
        Value::Table(entries) => {
            out.push_str("{\"table\":[");
            for (at, (name, item)) in entries.iter().enumerate() {
                out.push_str(if at > 0 { ",[" } else { "[" });
                string(out, name);
                out.push(',');
                value(out, item, depth - 1)?;
                out.push(']');
            }
            out.push_str("]}");
        }
        Value::Labelled { label, value: labelled } => {
            out.push_str("{\"labelled\":[");
            string(out, label);
            out.push(',');
            value(out, labelled, depth - 1)?;
            out.push_str("]}");
        }
    }
    Ok(())
}

/// Writing to a string cannot fail.
fn put(out: &mut String, text: fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn tagged(out: &mut String, tag: &str, inner: impl FnOnce(&mut String)) {
    let _ = write!(out, "{{\"{tag}\":");
    inner(out);
    out.push('}');
}

fn number(out: &mut String, tag: &str, n: impl fmt::Display) {
    let _ = write!(out, "{{\"{tag}\":{n}}}");
}

/// Text that points into `source` where it can.
fn shared(source: &Bytes, text: &str) -> Bytes {
    let (from, inside) = (source.as_ptr() as usize, text.as_ptr() as usize);
    if inside >= from && inside + text.len() <= from + source.len() {
        source.slice_ref(text.as_bytes())
    } else {
        Bytes::copy_from_slice(text.as_bytes())
    }
}

/// The list as a whole.
struct List<'a>(&'a Bytes);
/// One `[name, value]`, the name as `N`.
struct Pair<'a, N>(&'a Bytes, PhantomData<N>);
/// A name.
struct Name<N>(PhantomData<N>);
/// One value.
struct One<'a>(&'a Bytes);
/// A list of values.
struct Items<'a>(&'a Bytes);
/// A list of pairs.
struct Entries<'a, N>(&'a Bytes, PhantomData<N>);
/// Hex as bytes.
struct Hex;

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Headers;
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<Headers, D::Error> {
        Entries::<Short>(self.0, PhantomData).deserialize(d).map(|entries| entries.into_iter().collect())
    }
}

impl<'de, N: for<'s> From<&'s str>> DeserializeSeed<'de> for Entries<'_, N> {
    type Value = Vec<(N, Value)>;
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de, N: for<'s> From<&'s str>> Visitor<'de> for Entries<'_, N> {
    type Value = Vec<(N, Value)>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of [name, value] pairs")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(pair) = seq.next_element_seed(Pair(self.0, PhantomData))? {
            entries.push(pair);
        }
        Ok(entries)
    }
}

impl<'de, N: for<'s> From<&'s str>> DeserializeSeed<'de> for Pair<'_, N> {
    type Value = (N, Value);
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de, N: for<'s> From<&'s str>> Visitor<'de> for Pair<'_, N> {
    type Value = (N, Value);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[name, value]")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let name = seq.next_element_seed(Name(PhantomData))?;
        let name = name.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let value =
            seq.next_element_seed(One(self.0))?.ok_or_else(|| de::Error::custom("a pair lacks its value"))?;
        if seq.next_element::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::custom("a pair has more than a name and a value"));
        }
        Ok((name, value))
    }
}

impl<'de, N: for<'s> From<&'s str>> DeserializeSeed<'de> for Name<N> {
    type Value = N;
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<N, D::Error> {
        d.deserialize_str(self)
    }
}

impl<N: for<'s> From<&'s str>> Visitor<'_> for Name<N> {
    type Value = N;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }
    fn visit_str<E>(self, text: &str) -> Result<N, E> {
        Ok(text.into())
    }
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Vec<Value>;
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Vec<Value>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of values")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(One(self.0))? {
            items.push(item);
        }
        Ok(items)
    }
}

impl<'de> DeserializeSeed<'de> for Hex {
    type Value = Bytes;
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<Bytes, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Hex {
    type Value = Bytes;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes in hex")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        let digits = text.as_bytes();
        if !digits.len().is_multiple_of(2) {
            return Err(E::custom("hex has an odd number of digits"));
        }
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        digits
            .chunks_exact(2)
            .map(|two| Some((nibble(two[0])? << 4 | nibble(two[1])?) as u8))
            .collect::<Option<Vec<u8>>>()
            .map(Bytes::from)
            .ok_or_else(|| E::custom("not hex"))
    }
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Value;
    fn deserialize<D: de::Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, null, true, false, an integer, or an object with one key that names the type")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }
    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::I64(n))
    }
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Value, E> {
        i64::try_from(n).map(Value::I64).map_err(|_| E::custom("an integer beyond 64 bits signed"))
    }
    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(Value::F64(n))
    }
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Bytes::copy_from_slice(text.as_bytes())))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value, E> {
        Ok(Value::Text(shared(self.0, text)))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Some(tag) = map.next_key::<String>()? else {
            return Err(de::Error::custom("an object without a type"));
        };
        let value = match tag.as_str() {
            "text" => Value::Text(map.next_value_seed(Hex)?),
            "bytes" => Value::Bytes(map.next_value_seed(Hex)?),
            "i8" => Value::I8(map.next_value()?),
            "u8" => Value::U8(map.next_value()?),
            "i16" => Value::I16(map.next_value()?),
            "u16" => Value::U16(map.next_value()?),
            "i32" => Value::I32(map.next_value()?),
            "u32" => Value::U32(map.next_value()?),
            "timestamp" => Value::Timestamp(map.next_value()?),
            "f32" => {
                Value::F32(float32(&map.next_value::<String>()?).ok_or_else(|| de::Error::custom("no f32"))?)
            }
            "f64" => {
                Value::F64(float64(&map.next_value::<String>()?).ok_or_else(|| de::Error::custom("no f64"))?)
            }
            "decimal" => {
                let (scale, value) = map.next_value()?;
                Value::Decimal { scale, value }
            }
            "list" => Value::List(map.next_value_seed(Items(self.0))?),
            "table" => Value::Table(map.next_value_seed(Entries(self.0, PhantomData))?),
            "labelled" => {
                let (label, value) = map.next_value_seed(Pair(self.0, PhantomData))?;
                Value::Labelled { label, value: Box::new(value) }
            }
            _ => return Err(de::Error::custom("an object of no known type")),
        };
        if map.next_key::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::custom("an object with more than one key"));
        }
        Ok(value)
    }
}

fn float32(text: &str) -> Option<f32> {
    match text.strip_prefix("0x") {
        Some(bits) => u32::from_str_radix(bits, 16).ok().map(f32::from_bits),
        None => text.parse().ok(),
    }
}

fn float64(text: &str) -> Option<f64> {
    match text.strip_prefix("0x") {
        Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
