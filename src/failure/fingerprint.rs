//! The fingerprint of a failure: letters of one bug get one cause, whatever their ids, sizes and addresses.

use std::fmt;

use serde::Serialize;
use sha2::Digest;

use super::FailureContext;

/// Version of the rules below; a part of the hash, so that causes of two versions never meet.
const VERSION: u8 = 1;

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
    /// Innermost error class, if any letter tells.
    pub class: Option<String>,
    /// The message with its variable parts taken out, or the first own frame.
    pub text: Option<String>,
}

/// The cause of a failure.
pub fn fingerprint(context: &FailureContext) -> Cause {
    let last = context.last();
    let class = last.and_then(|death| death.root_class.clone().or_else(|| death.error_class.clone()));
    let text = last.and_then(|death| death.root_message.clone().or_else(|| death.message.clone()));
    let reason = last.and_then(|death| death.reason.clone());
    if class.is_none() && text.is_none() && reason.is_none() {
        return Cause { id: CauseId("none".to_owned()), class: None, text: None };
    }
    let mut hash = sha2::Sha256::new();
    hash.update([VERSION]);
    for part in [&class, &text, &reason] {
        hash.update(part.as_deref().unwrap_or_default().as_bytes());
        hash.update([0]);
    }
    let id = hash.finalize().iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    Cause { id: CauseId(id), class: class.or(reason), text }
}
