//! A typed header value: wide enough for every type of AMQP 0-9-1, Kafka's bytes and SQS's labels, so that
//! what was read can be written back with the same tag, width and bytes (R18, S10, K24).

use bytes::Bytes;

/// One header value with its type as the broker knows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A null value: not an empty one.
    Null,
    /// Bytes by type: a Kafka header, an AMQP byte array, an SQS `Binary`.
    Bytes(Bytes),
    /// Text by type: an AMQP long string, an SQS `String`. The type does not promise UTF-8: see
    /// [`Value::text`].
    Text(Bytes),
    /// True or false.
    Bool(bool),
    /// Signed, 8 bits.
    I8(i8),
    /// Unsigned, 8 bits.
    U8(u8),
    /// Signed, 16 bits.
    I16(i16),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Signed, 32 bits.
    I32(i32),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 64 bits.
    I64(i64),
    /// Single precision.
    F32(f32),
    /// Double precision.
    F64(f64),
    /// `value / 10^scale`.
    Decimal {
        /// Digits after the point.
        scale: u8,
        /// All digits.
        value: u32,
    },
    /// AMQP timestamp: seconds since the epoch.
    Timestamp(u64),
    /// An ordered list.
    List(Vec<Value>),
    /// An ordered table, duplicates kept.
    Table(Vec<(String, Value)>),
    /// A value under a label of the broker's own: SQS `Number`, `String.custom`, `Binary.gif`.
    Labelled {
        /// The whole label.
        label: String,
        /// What it labels.
        value: Box<Value>,
    },
}

impl Value {
    /// Text by type.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Text(Bytes::from(text.into()))
    }

    /// Bytes by type.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// The value as text: text or bytes that are UTF-8, also under a label. Numbers are not text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Labelled { value, .. } => value.text(),
            _ => None,
        }
    }

    /// The bytes of text or bytes, also under a label.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) => Some(bytes),
            Self::Labelled { value, .. } => value.bytes(),
            _ => None,
        }
    }

    /// The value as an integer, whatever its width; text is not parsed (a Node client republishes an int64
    /// as int8, so the width says nothing).
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::I8(n) => Some(i64::from(*n)),
            Self::U8(n) => Some(i64::from(*n)),
            Self::I16(n) => Some(i64::from(*n)),
            Self::U16(n) => Some(i64::from(*n)),
            Self::I32(n) => Some(i64::from(*n)),
            Self::U32(n) => Some(i64::from(*n)),
            Self::I64(n) => Some(*n),
            _ => None,
        }
    }

    /// The value as an integer, also if it is written in decimal digits.
    pub fn integer_or_digits(&self) -> Option<i64> {
        self.integer().or_else(|| self.text()?.trim().parse().ok())
    }

    /// The entries of a table.
    pub fn table(&self) -> Option<&[(String, Value)]> {
        if let Self::Table(entries) = self { Some(entries) } else { None }
    }

    /// The items of a list.
    pub fn list(&self) -> Option<&[Value]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    /// The first entry of a table under `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.table()?.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// What a person calls the type: `text`, `bytes`, `int64`, `Number`.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Bytes(_) => "bytes",
            Self::Text(_) => "text",
            Self::Bool(_) => "bool",
            Self::I8(_) => "int8",
            Self::U8(_) => "uint8",
            Self::I16(_) => "int16",
            Self::U16(_) => "uint16",
            Self::I32(_) => "int32",
            Self::U32(_) => "uint32",
            Self::I64(_) => "int64",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal { .. } => "decimal",
            Self::Timestamp(_) => "timestamp",
            Self::List(_) => "list",
            Self::Table(_) => "table",
            Self::Labelled { label, .. } => label,
        }
    }

    /// About how many bytes it takes on the wire.
    pub fn size(&self) -> u64 {
        match self {
            Self::Null => 1,
            Self::Bytes(bytes) | Self::Text(bytes) => bytes.len() as u64,
            Self::Bool(_) | Self::I8(_) | Self::U8(_) => 1,
            Self::I16(_) | Self::U16(_) => 2,
            Self::I32(_) | Self::U32(_) | Self::F32(_) => 4,
            Self::I64(_) | Self::F64(_) | Self::Timestamp(_) => 8,
            Self::Decimal { .. } => 5,
            Self::List(items) => items.iter().map(Self::size).sum(),
            Self::Table(entries) => {
                entries.iter().map(|(name, value)| name.len() as u64 + value.size()).sum()
            }
            Self::Labelled { label, value } => label.len() as u64 + value.size(),
        }
    }
}
