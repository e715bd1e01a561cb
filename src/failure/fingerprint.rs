//! The fingerprint of a failure: letters of one bug get one cause, whatever their ids, sizes, addresses and
//! times; two bugs of one class get two.
//!
//! It is made of the innermost class, the message without its variable parts, and the first own frame. It is
//! the same on every machine and in every run.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use sha2::Digest;

use super::normalise::{essence, normalise};
use super::{FailureContext, Stage, stack};

/// Version of the rules here and in `normalise.rs`; a part of the hash, so that causes of two versions never
/// meet.
pub const VERSION: u8 = 1;

/// Short name of a cause: six hex digits, or `none` for letters that say nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CauseId(String);

impl CauseId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CauseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Letters with the same fingerprint of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its name.
    pub id: CauseId,
    /// Innermost error class, or the broker's reason, if any letter tells.
    pub class: Option<String>,
    /// For people: the message with its variable parts taken out, or `no message; at FRAME`.
    pub text: Option<String>,
    /// The message alone.
    #[serde(skip)]
    pub message: Option<String>,
    /// The first own frame, short: `OrderMapper.toInvoice`.
    #[serde(skip)]
    pub frame: Option<String>,
}

/// The cause of a failure. `own_code` holds the beginnings of the application's own packages, see
/// [`stack::own_frame`].
pub fn fingerprint(context: &FailureContext, own_code: &[String]) -> Arc<Cause> {
    let last = context.last();
    let class = last.and_then(|death| death.root_class.as_deref().or(death.error_class.as_deref()));
    let message = last.and_then(|death| death.root_message.as_deref().or(death.message.as_deref()));
    let message = message.map(normalise).filter(|text| !text.is_empty());
    let frame = last.and_then(|death| stack::own_frame(death.stack.as_deref()?, own_code));
    let reason = last.and_then(|death| death.reason.as_deref());
    // A key that cannot be read is another bug than a value that cannot: converters say the same of both.
    let stage = match last.and_then(|death| death.stage) {
        Some(Stage::Key) => "key",
        Some(Stage::Output) => "output",
        _ => "",
    };
    // A reason word tells bugs apart only where nothing better does.
    let class = class.or(if message.is_none() && frame.is_none() { reason } else { None });
    known::or_else(&Parts { class, message: message.as_deref(), frame: frame.as_ref(), stage })
}

/// What is left of a failure once everything is gone that differs from letter to letter.
struct Parts<'a> {
    class: Option<&'a str>,
    message: Option<&'a str>,
    frame: Option<&'a stack::Frame<'a>>,
    stage: &'static str,
}

impl Parts<'_> {
    fn cause(&self) -> Cause {
        let Self { class, message, frame, stage } = *self;
        if class.is_none() && message.is_none() && frame.is_none() {
            let id = CauseId("none".to_owned());
            return Cause { id, class: None, text: None, message: None, frame: None };
        }
        let mut hash = sha2::Sha256::new();
        hash.update([VERSION]);
        let essence = message.map(essence).unwrap_or_default();
        let name = frame.map(|frame| &*frame.name).unwrap_or_default();
        for part in [class.unwrap_or_default(), &essence, name, stage] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest = hash.finalize();
        let label = frame.map(|frame| frame.label.clone().into_owned());
        let text = match (message, &label) {
            (Some(message), _) => Some(message.to_owned()),
            (None, Some(label)) => Some(format!("no message; at {label}")),
            (None, None) => None,
        };
        Cause {
            id: CauseId(hex(&digest[..3])),
            class: class.map(str::to_owned),
            text,
            message: message.map(str::to_owned),
            frame: label,
        }
    }
}

/// Causes worked out before: a million letters have a few dozen. Compared in full, so that two can never be
/// taken for one another.
mod known {
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::collections::hash_map::RandomState;
    use std::hash::{BuildHasher, Hasher};
    use std::sync::Arc;

    use super::{Cause, Parts};

    /// Most that are kept, and the longest: then all are forgotten.
    const MOST: usize = 1_000;
    const LONGEST: usize = 2 << 10;

    #[derive(Default)]
    struct Known {
        causes: HashMap<Vec<u8>, Arc<Cause>, Seeded>,
        /// Where a key is put together.
        key: Vec<u8>,
    }

    /// Hashes eight bytes at a time: a key is asked for with every letter. With a seed of this process, and few
    /// keys: whoever writes letters cannot make it slow.
    #[derive(Clone)]
    struct Seeded(u64);

    impl Default for Seeded {
        fn default() -> Self {
            Self(RandomState::new().hash_one(0))
        }
    }

    impl BuildHasher for Seeded {
        type Hasher = Folded;

        fn build_hasher(&self) -> Folded {
            Folded(self.0)
        }
    }

    struct Folded(u64);

    impl Folded {
        fn fold(&mut self, word: u64) {
            // An odd number without a pattern: the golden ratio.
            let wide = u128::from(self.0 ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
            self.0 = (wide as u64) ^ ((wide >> 64) as u64);
        }
    }

    impl Hasher for Folded {
        fn write(&mut self, bytes: &[u8]) {
            let words = bytes.chunks_exact(8);
            let mut rest = [0; 8];
            for (to, byte) in rest.iter_mut().zip(words.remainder()) {
                *to = *byte;
            }
            for word in words {
                self.fold(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            }
            self.fold(u64::from_le_bytes(rest));
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }

    thread_local! {
        static KNOWN: RefCell<Known> = RefCell::default();
    }

    /// The cause of these parts, worked out if it is not known.
    pub(super) fn or_else(parts: &Parts<'_>) -> Arc<Cause> {
        KNOWN.with_borrow_mut(|known| {
            known.key.clear();
            let frame = parts.frame.map(|frame| (&*frame.name, &*frame.label)).unzip();
            for part in [parts.class, parts.message, frame.0, frame.1, Some(parts.stage)] {
                // Its length first: no two lists of parts look the same. Lacking is not empty.
                let length = part.map_or(u64::MAX, |part| part.len() as u64);
                known.key.extend_from_slice(&length.to_le_bytes());
                known.key.extend_from_slice(part.unwrap_or_default().as_bytes());
            }
            if let Some(cause) = known.causes.get(&known.key) {
                return cause.clone();
            }
            let cause = Arc::new(parts.cause());
            if known.key.len() > LONGEST {
                known.key = Vec::new();
                return cause;
            }
            if known.causes.len() >= MOST {
                known.causes.clear();
            }
            known.causes.insert(known.key.clone(), cause.clone());
            cause
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    crate::letter::push_hex(&mut text, bytes);
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::failure::Death;

    fn cause(class: &str, message: Option<&str>, stack: Option<&str>) -> Arc<Cause> {
        let death = Death {
            error_class: Some(class.to_owned()),
            message: message.map(str::to_owned),
            stack: stack.map(str::to_owned),
            ..Death::default()
        };
        fingerprint(&FailureContext { deaths: vec![death], ..FailureContext::default() }, &[])
    }

    #[test]
    fn the_same_on_every_machine() {
        // Golden: a change here is a new version.
        let one =
            cause("java.net.SocketTimeoutException", Some("payment gateway: no answer in 3000 ms"), None);
        assert_eq!(one.id.as_str(), GOLDEN);
        assert_eq!(one.text.as_deref(), Some("payment gateway: no answer in <n> ms"));
        let nothing = fingerprint(&FailureContext::default(), &[]);
        assert_eq!((nothing.id.as_str(), nothing.class.as_deref()), ("none", None));
    }

    const GOLDEN: &str = "8b9737";

    #[test]
    fn without_a_message_the_frame_decides() {
        let at = |method: &str| {
            let stack = format!(
                "java.lang.NullPointerException\n\tat com.example.OrderMapper.{method}(OrderMapper.java:9)\n"
            );
            cause("java.lang.NullPointerException", None, Some(&stack))
        };
        assert_eq!(at("toInvoice").text.as_deref(), Some("no message; at OrderMapper.toInvoice"));
        assert_eq!(at("lambda$to$1").id, at("lambda$to$7").id);
        assert_ne!(at("toInvoice").id, at("toOrder").id);
    }

    #[test]
    fn what_was_worked_out_before_is_never_taken_for_another() {
        // Parts that would read the same if they were only put behind one another, lacking ones and empty
        // ones, many more than are remembered, and each a second time.
        let texts = [None, Some(""), Some("a"), Some("ab"), Some("b"), Some("a\0b")];
        let frames = [None, Some(("a", "b")), Some(("ab", "")), Some(("", "ab"))].map(|frame| {
            frame.map(|(name, label): (&str, &str)| stack::Frame { name: name.into(), label: label.into() })
        });
        for round in 0..2 {
            for class in texts {
                for message in texts {
                    for (frame, stage) in frames.iter().zip(["", "key", "output", "a"]) {
                        let parts = Parts { class, message, frame: frame.as_ref(), stage };
                        assert_eq!(*known::or_else(&parts), parts.cause(), "round {round}");
                    }
                }
            }
            for number in 0..3_000 {
                let class = "x".repeat(number);
                let parts = Parts { class: Some(&class), message: None, frame: None, stage: "" };
                assert_eq!(*known::or_else(&parts), parts.cause());
            }
        }
    }
}
