//! What the server or the client library says when something does not work, as errors that tell what to do
//! next and never hold a secret.

use lapin::ErrorKind as Lapin;

use crate::broker::{BrokerError, ErrorKind};

/// Reply codes of AMQP 0-9-1 that decide what can be done about an error.
pub(super) mod code {
    /// No such queue or exchange.
    pub const NOT_FOUND: u16 = 404;
    /// A right is missing.
    pub const ACCESS_REFUSED: u16 = 403;
    /// Held exclusively by another connection.
    pub const RESOURCE_LOCKED: u16 = 405;
    /// Arguments differ, a message is too large, or a delivery was not acknowledged in time.
    pub const PRECONDITION_FAILED: u16 = 406;
    /// No such virtual host, or no right to it.
    pub const NOT_ALLOWED: u16 = 530;
    /// An operator or a shutdown closed the connection.
    pub const CONNECTION_FORCED: u16 = 320;
}

/// The server's reply code, if the server itself said no.
pub(super) fn reply_code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        Lapin::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// The server's own words.
pub(super) fn reply_text(error: &lapin::Error) -> String {
    match error.kind() {
        Lapin::ProtocolError(error) => error.get_message().as_str().to_owned(),
        Lapin::IOError(error) => error.to_string(),
        Lapin::InvalidChannelState(..) => "the channel is closed".to_owned(),
        Lapin::InvalidConnectionState(_) => "the connection is closed".to_owned(),
        Lapin::MissingHeartbeatError => "the server sent no heartbeat".to_owned(),
        _ => error.to_string(),
    }
}

/// An error of the server or client while doing `action` on `queue`.
pub(super) fn failed(action: impl Into<String>, queue: &str, error: &lapin::Error) -> BrokerError {
    let text = reply_text(error);
    let made = |kind, text: String| BrokerError::new(kind, action.into(), text);
    let Some(code) = reply_code(error) else {
        return made(ErrorKind::Unreachable, text);
    };
    match code {
        code::NOT_FOUND => made(ErrorKind::NotFound, text)
            .hint(format!("`{queue}` is not there; `redrive plan` shows what `redrive apply` would create")),
        code::ACCESS_REFUSED => made(ErrorKind::Denied, text)
            .hint(format!("give the user its rights on `{queue}`; docs/rabbitmq.md lists them per verb")),
        code::RESOURCE_LOCKED => made(ErrorKind::Locked, text),
        code::CONNECTION_FORCED => made(ErrorKind::Unreachable, text),
        _ => made(ErrorKind::Other, text),
    }
    .code(code.to_string())
}

/// Says so if somebody else reads a queue exclusively.
pub(super) fn exclusive(queue: &str, error: BrokerError) -> BrokerError {
    match error.kind {
        ErrorKind::Locked => error.hint(format!("somebody else reads `{queue}` exclusively")),
        _ => error,
    }
}

/// The channel ended while letters were held.
pub(super) fn broken(queue: &str, error: &lapin::Error) -> BrokerError {
    broken_by(failed(format!("read {queue}"), queue, error))
}

/// As [`broken`], of an error that is one of ours already.
pub(super) fn broken_by(error: BrokerError) -> BrokerError {
    let timed_out = error.code.as_deref() == Some("406") && error.message.contains("timed out");
    if timed_out || error.message.contains("delivery acknowledgement") {
        return error.hint(
            "the server takes letters back after its `consumer_timeout`, 30m by default; they are in the \
             queue again, unchanged",
        );
    }
    error
}

/// A time limit that ran out while doing `action`.
pub(super) fn timed_out(action: impl Into<String>, after: std::time::Duration) -> BrokerError {
    BrokerError::new(
        ErrorKind::Unreachable,
        action,
        format!("no answer within {}", crate::clock::exact(after)),
    )
}

/// Longest wait for an answer that is due at once.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits for an answer of the server, but not for ever: the client library has been seen to hang.
pub(super) async fn answer<T>(
    action: impl Into<String>,
    queue: &str,
    asked: impl Future<Output = lapin::Result<T>>,
) -> crate::broker::Result<T> {
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failed(action, queue, &error)),
        Err(_) => Err(timed_out(action, ANSWER).hint(
            "the server is reached and silent: a quorum queue without enough of its nodes is, and one that was \
             declared in the last seconds before its server was killed may stay so",
        )),
    }
}
