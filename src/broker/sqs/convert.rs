//! Between SQS messages and ours: attributes with their types and labels, system attributes as properties,
//! sizes as SQS counts them, and what SQS would refuse, before it does.

use std::collections::HashMap;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{Message as SqsMessage, MessageAttributeValue, MessageSystemAttributeName};
use bytes::Bytes;

use crate::letter::{Headers, LetterId, Message, Value};

/// Most attributes of a message.
pub(super) const MOST_ATTRIBUTES: usize = 10;
/// Most entries of a batch.
pub(super) const BATCH: usize = super::kind::IN_A_CALL;

/// Names of system attributes, as properties.
pub(super) const GROUP_ID: &str = "MessageGroupId";
pub(super) const TRACE: &str = "AWSTraceHeader";

/// The message as its producer wrote it. SQS gives attributes as a map without order: they are sorted by
/// name, so that one letter always reads the same.
pub(super) fn message(raw: &SqsMessage) -> Message {
    let mut names: Vec<_> = raw.message_attributes.iter().flatten().collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    let headers = names.into_iter().map(|(name, value)| (name.clone(), header(value))).collect();
    let mut system: Vec<_> = raw.attributes.iter().flatten().collect();
    system.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
    let mut properties: Headers = system
        .into_iter()
        .map(|(name, value)| (name.as_str().to_owned(), Value::from_text(value.clone())))
        .collect();
    if let Some(id) = &raw.message_id {
        properties.push("MessageId", Value::from_text(id.clone()));
    }
    let key = raw
        .attributes
        .as_ref()
        .and_then(|system| system.get(&MessageSystemAttributeName::MessageGroupId))
        .map(|group| Bytes::from(group.clone()));
    Message { key, body: raw.body.clone().map(Bytes::from), headers, properties }
}

/// One attribute with its whole label.
fn header(value: &MessageAttributeValue) -> Value {
    let label = value.data_type.as_str();
    let inner = match (&value.binary_value, &value.string_value) {
        (Some(bytes), _) => Value::Bytes(Bytes::copy_from_slice(bytes.as_ref())),
        (None, Some(text)) => Value::from_text(text.clone()),
        (None, None) => Value::Null,
    };
    match label {
        "String" | "Binary" => inner,
        _ => Value::Labelled { label: label.to_owned(), value: Box::new(inner) },
    }
}

/// Why SQS would refuse a message for good; checked before sending, since a refused batch says less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Short code for the report.
    pub(super) code: &'static str,
    /// In words.
    pub(super) why: String,
}

fn refusal(code: &'static str, why: impl Into<String>) -> Refusal {
    Refusal { code, why: why.into() }
}

/// The attribute that a header becomes.
///
/// # Errors
/// A value that SQS cannot carry: null, nested, empty.
pub(super) fn attribute(name: &str, value: &Value) -> Result<MessageAttributeValue, Refusal> {
    let bad = |why: &str| refusal("ATTRIBUTE", format!("attribute {name} {why}"));
    let (label, inner) = match value {
        Value::Labelled { label, value } => (label.clone(), value.as_ref()),
        Value::Text(_) => ("String".to_owned(), value),
        Value::Bytes(_) => ("Binary".to_owned(), value),
        Value::Bool(flag) => return string(name, "String", &flag.to_string()),
        number if number.integer().is_some() => {
            return string(name, "Number", &number.integer().unwrap_or_default().to_string());
        }
        Value::F64(number) => return string(name, "Number", &number.to_string()),
        Value::F32(number) => return string(name, "Number", &number.to_string()),
        Value::Timestamp(seconds) => return string(name, "Number", &seconds.to_string()),
        _ => return Err(bad(&format!("is a {}, which SQS cannot carry", value.type_name()))),
    };
    let kind = label.split('.').next().unwrap_or_default();
    match (kind, inner) {
        ("Binary", Value::Bytes(bytes) | Value::Text(bytes)) if !bytes.is_empty() => {
            MessageAttributeValue::builder().data_type(label).binary_value(Blob::new(bytes.to_vec())).build()
        }
        ("String" | "Number", _) => {
            let text = inner.text().ok_or_else(|| bad("is no text"))?;
            return string(name, &label, text);
        }
        _ => return Err(bad("is empty")),
    }
    .map_err(|error| bad(&error.to_string()))
}

fn string(name: &str, label: &str, text: &str) -> Result<MessageAttributeValue, Refusal> {
    if text.is_empty() {
        return Err(refusal("ATTRIBUTE", format!("attribute {name} is empty, which SQS refuses")));
    }
    if let Some((at, bad)) = refused_character(text) {
        return Err(refusal(
            "CHARACTERS",
            format!("attribute {name} has U+{:04X} at character {at}", u32::from(bad)),
        ));
    }
    MessageAttributeValue::builder()
        .data_type(label)
        .string_value(text)
        .build()
        .map_err(|error| refusal("ATTRIBUTE", error.to_string()))
}

/// S15: the first character that SQS refuses, with its index: it takes tab, line feed, carriage return,
/// U+0020–D7FF, E000–FFFD and 10000–10FFFF.
pub(super) fn refused_character(text: &str) -> Option<(usize, char)> {
    text.chars().enumerate().find(|(_, c)| {
        !matches!(*c, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}')
    })
}

/// Body as SQS takes it: text, not empty, of its characters only.
pub(super) fn body(message: &Message) -> Result<&str, Refusal> {
    let bytes = message
        .body
        .as_ref()
        .ok_or_else(|| refusal("BODY", "the body is null; SQS wants at least one byte"))?;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refusal("BODY", format!("the body is no UTF-8 from byte {}", error.valid_up_to()))
    })?;
    if text.is_empty() {
        return Err(refusal("BODY", "the body is empty; SQS wants at least one byte"));
    }
    match refused_character(text) {
        Some((at, bad)) => Err(refusal(
            "CHARACTERS",
            format!("the body has U+{:04X} at character {at}, which SQS refuses", u32::from(bad)),
        )),
        None => Ok(text),
    }
}

/// Bytes as SQS counts them against its limit: body, and name, type and value of each attribute (S13). System
/// attributes are free.
pub(super) fn wire_size(body: &str, attributes: &HashMap<String, MessageAttributeValue>) -> u64 {
    let attributes: usize = attributes
        .iter()
        .map(|(name, value)| {
            let text = value.string_value.as_ref().map_or(0, String::len);
            let binary = value.binary_value.as_ref().map_or(0, |blob| blob.as_ref().len());
            name.len() + value.data_type.len() + text + binary
        })
        .sum();
    (body.len() + attributes) as u64
}

/// S13: a batch that is being filled, with at most ten messages and so many bytes.
#[derive(Default)]
pub(super) struct Filling {
    count: usize,
    bytes: u64,
}

impl Filling {
    /// Does one more of `size` bytes fit into it? The first always does.
    pub(super) fn takes(&mut self, size: u64, limit: u64) -> bool {
        let bytes = self.bytes.saturating_add(size);
        let fits = self.count == 0 || self.count < BATCH && bytes <= limit;
        if fits {
            (self.count, self.bytes) = (self.count + 1, bytes);
        }
        fits
    }
}

/// The id that people type for a message.
pub(super) fn letter_id(message_id: &str) -> LetterId {
    LetterId::hashed(message_id.as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// Ranges of `sizes` that are one batch each.
    fn batches(sizes: &[u64], limit: u64) -> Vec<std::ops::Range<usize>> {
        let (mut out, mut start, mut filling) = (Vec::new(), 0, Filling::default());
        for (index, size) in sizes.iter().enumerate() {
            if !filling.takes(*size, limit) {
                out.push(start..index);
                (start, filling) = (index, Filling::default());
                assert!(filling.takes(*size, limit));
            }
        }
        if start < sizes.len() {
            out.push(start..sizes.len());
        }
        out
    }

    #[test]
    fn s13_batches_by_count_and_bytes() {
        let limit = 262_144;
        assert_eq!(batches(&[30_720; 10], limit), [0..8, 8..10]);
        assert_eq!(batches(&[200_000; 2], limit), [0..1, 1..2]);
        assert_eq!(batches(&[262_144], limit).len(), 1);
        assert_eq!(batches(&[1; 25], limit), [0..10, 10..20, 20..25]);
        assert!(batches(&[], limit).is_empty());
        // A message over the limit still goes alone: SQS names it.
        assert_eq!(batches(&[1, 999_999, 1], limit), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn s15_refused_characters_are_named_with_place_and_code_point() {
        for (text, code) in [("a\u{1}", "U+0001"), ("\u{7}b", "U+0007"), ("x\u{FFFF}", "U+FFFF")] {
            let message = Message { body: Some(Bytes::from(text.to_owned())), ..Message::default() };
            assert!(body(&message).unwrap_err().why.contains(code));
        }
        let message = Message { body: Some(Bytes::from("\u{10000}\t\r\n")), ..Message::default() };
        assert!(body(&message).is_ok());
        assert!(body(&Message { body: Some(Bytes::new()), ..Message::default() }).is_err());
        assert!(body(&Message::default()).is_err());
    }

    #[test]
    fn s11_binary_attributes_are_exact() {
        for bytes in [&[0xff, 0x00, 0x80, 0x0a][..], b"c29tZQ=="] {
            let value = Value::from_bytes(bytes.to_vec());
            let there = attribute("blob", &value).unwrap();
            assert_eq!(there.data_type, "Binary");
            assert_eq!(header(&there), value);
        }
    }

    #[test]
    fn s10_types_keep_their_labels() {
        for (label, text) in [("Number", "42"), ("Number.int", "7"), ("String.custom", "x")] {
            let value = Value::Labelled { label: label.to_owned(), value: Box::new(Value::from_text(text)) };
            let there = attribute("a", &value).unwrap();
            assert_eq!(there.data_type, label);
            assert_eq!(header(&there), value);
        }
    }
}
