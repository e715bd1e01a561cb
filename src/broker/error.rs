//! What can go wrong at a broker, in a form that the engine may act on and a person may read.

use std::fmt;

/// Result of a port.
pub type Result<T> = std::result::Result<T, BrokerError>;

/// What the inside may act on; everything else about an error is only shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Nobody answers. Transient.
    Unreachable,
    /// Asked to slow down. Transient.
    Throttled,
    /// An answer was lost: it may have happened or not.
    Unknown,
    /// Login or right missing. Permanent.
    Denied,
    /// No such queue. Permanent.
    NotFound,
    /// This one message is refused for good: size, type, characters.
    Rejected,
    /// Somebody else took over.
    Fenced,
    /// The dead-letter queue is held by another run: the holder is in the message.
    Locked,
    /// The receipt is not valid any more. Not the same as gone.
    Stale,
    /// The file or broker is of a version that this build does not know.
    Version,
    /// The build or broker cannot do this.
    Unsupported,
    /// Anything else. Permanent.
    Other,
}

impl ErrorKind {
    /// Worth another try after a while?
    pub fn transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::Throttled)
    }
}

/// An error of a broker: fits after "could not …".
#[derive(Debug, Clone)]
pub struct BrokerError {
    /// What may be acted on.
    pub kind: ErrorKind,
    /// What was being done, in words: `read orders.dlq`.
    pub action: String,
    /// What the broker said; no secrets. May hold text from outside: escaped by whoever prints it.
    pub message: String,
    /// The broker's own code, if any.
    pub code: Option<String>,
    /// What to do or type next, if the adapter knows better than the caller.
    pub hint: Option<String>,
}

impl BrokerError {
    /// An error of `kind` while doing `action`.
    pub fn new(kind: ErrorKind, action: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, action: action.into(), message: message.into(), code: None, hint: None }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the broker's own code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.message)
    }
}

impl std::error::Error for BrokerError {}
