//! A short text that lies in place: names of letters and headers are a few bytes long, and a look makes several
//! for each of a million letters on one thread and drops them on another.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that lie in place; longer texts are shared.
const IN_PLACE: usize = 38;

/// See the file's head. Equality, order and hash are those of its text.
#[derive(Clone)]
pub struct Short(Form);

#[derive(Clone)]
enum Form {
    InPlace { len: u8, bytes: [u8; IN_PLACE] },
    Shared(Arc<str>),
}

impl Short {
    /// Its bytes: what comparing looks at.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::InPlace { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Form::Shared(text) => text.as_bytes(),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // Never anything but the bytes of a text.
            Form::InPlace { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Form::Shared(text) => text,
        }
    }
}

impl From<&str> for Short {
    fn from(text: &str) -> Self {
        let mut bytes = [0; IN_PLACE];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(text.as_bytes());
                Self(Form::InPlace { len, bytes })
            }
            _ => Self(Form::Shared(text.into())),
        }
    }
}

impl From<String> for Short {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for Short {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Arc<str>> for Short {
    fn from(text: Arc<str>) -> Self {
        if text.len() <= IN_PLACE { (&*text).into() } else { Self(Form::Shared(text)) }
    }
}

impl std::ops::Deref for Short {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Short {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Short {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Short {}

impl PartialEq<str> for Short {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Short {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<Short> for &str {
    fn eq(&self, other: &Short) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialOrd for Short {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Short {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Short {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for Short {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Short {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(Self::from)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_itself_whatever_its_length() {
        for length in [0, 1, IN_PLACE - 1, IN_PLACE, IN_PLACE + 1, 300] {
            let text: String = "aé-".chars().cycle().take(length).collect();
            let short = Short::from(text.as_str());
            assert_eq!((short.as_str(), short.clone()), (text.as_str(), Short::from(text.clone())));
            assert_eq!(Short::from(Arc::<str>::from(text.as_str())), short);
            assert_eq!(serde_json::to_string(&short).unwrap(), serde_json::to_string(&text).unwrap());
            assert_eq!(serde_json::from_str::<Short>(&format!("{text:?}")).unwrap(), short);
        }
        let mut several = ["p10", "p1", "p2", &"p".repeat(40)].map(Short::from).to_vec();
        several.sort();
        assert_eq!(several.iter().map(|it| it.len()).collect::<Vec<_>>(), [2, 3, 2, 40]);
    }
}
