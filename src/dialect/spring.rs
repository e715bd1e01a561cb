//! What Spring's writers of dead letters share: their wrapper exceptions and how the application's own error
//! is found behind them. Measured with Spring Kafka 2.7 to 4.1 and Spring Cloud Stream 4.3 and 5.0.

use crate::failure::stack::Language;
use crate::failure::{Death, stack};

/// Exceptions that Spring puts around the application's own.
const WRAPPERS: &[&str] = &[
    "org.springframework.kafka.listener.ListenerExecutionFailedException",
    "org.springframework.kafka.listener.TimestampedException",
    "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException",
    "org.springframework.messaging.MessagingException",
    "org.springframework.messaging.MessageHandlingException",
    "org.springframework.messaging.MessageDeliveryException",
    "org.springframework.core.retry.RetryException",
    "org.springframework.kafka.KafkaException",
];
/// Joins the messages of a chain in Spring 5 and before.
const NESTED: &str = "; nested exception is ";

/// Is this class one of Spring's own wrappers? A class without its package is taken as one too: some writers
/// cut it.
pub(super) fn is_wrapper(class: &str) -> bool {
    if class.contains('.') {
        return WRAPPERS.contains(&class);
    }
    WRAPPERS.iter().any(|wrapper| wrapper.rsplit('.').next() == Some(class))
}

/// What the headers of one failure say.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Exception<'a> {
    /// Class of what the framework caught.
    pub(super) class: Option<&'a str>,
    /// Class of its direct cause: not the root.
    pub(super) cause: Option<&'a str>,
    /// Message of the wrapper with that of the cause behind it.
    pub(super) message: Option<&'a str>,
    /// The stack trace.
    pub(super) stack: Option<&'a str>,
}

impl Exception<'_> {
    /// Fills the error of `death`: the application's own class and message, and the innermost cause, which
    /// only the stack trace tells (K07).
    pub(super) fn fill(&self, death: &mut Death) {
        death.stack = self.stack.map(str::to_owned);
        let links = self.stack.map(|text| stack::chain_in(Language::Java, text)).unwrap_or_default();
        if let Some(link) = stack::behind_in(&links, is_wrapper)
            && let Some(class) = link.class
        {
            death.error_class = Some(class.to_owned());
            death.message = link.message.map(|message| own_message(class, message).to_owned());
            let root = links.last();
            death.root_class = root.and_then(|root| root.class).map(str::to_owned);
            death.root_message = root
                .filter(|root| root.class != link.class || root.message != link.message)
                .and_then(|root| root.message)
                .map(|message| own_message("", message).to_owned());
            return;
        }
        let not_wrapper = |class: &&str| !is_wrapper(class);
        let class = self.cause.filter(not_wrapper).or_else(|| self.class.filter(not_wrapper));
        let (nested, message) = self.message.map(|text| from_text(text, self.class)).unwrap_or_default();
        death.error_class = class.or(nested).map(str::to_owned);
        death.message = message.map(|message| own_message(class.unwrap_or_default(), message).to_owned());
    }
}

/// The application's class, if it stands there, and its message, out of a wrapper's text.
fn from_text<'a>(text: &'a str, caught: Option<&str>) -> (Option<&'a str>, Option<&'a str>) {
    // 2.9 and before: the whole chain with its class names; the first that is no wrapper is the application's.
    let mut rest = text;
    while let Some((_, tail)) = rest.split_once(NESTED) {
        let own = tail.split(NESTED).next().unwrap_or(tail);
        let (class, message) = match own.split_once(": ") {
            Some((class, message)) if !class.contains(' ') => (class, Some(message)),
            _ if !own.contains(' ') => (own, None),
            _ => return (None, Some(own)),
        };
        if !is_wrapper(class) {
            return (Some(class), message);
        }
        rest = tail;
    }
    if !caught.is_some_and(is_wrapper) {
        return (None, some(text));
    }
    // 3.0 and later: the wrapper's words, a semicolon, the message of the cause.
    for words in ["' threw exception; ", "Listener failed; ", "]; "] {
        if let Some((_, message)) = text.split_once(words) {
            return (None, some(message));
        }
    }
    (None, None)
}

/// Without what Spring hangs on a message: those of its causes, and the place in a batch.
fn own_message<'a>(class: &str, message: &'a str) -> &'a str {
    // Looking for a byte first: a search for text costs more than the rest of a short message.
    let nested = if message.bytes().any(|b| b == b';') { message.find(NESTED) } else { None };
    let message = &message[..nested.unwrap_or(message.len())];
    if !class.ends_with("BatchListenerFailedException") {
        return message;
    }
    message.rfind(" @").map_or(message, |at| &message[..at])
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn read(exception: Exception<'_>) -> (Option<String>, Option<String>) {
        let mut death = Death::default();
        exception.fill(&mut death);
        (death.error_class, death.message)
    }

    #[test]
    fn k07_the_useful_error_is_behind_the_wrapper() {
        let wrapper = Some("org.springframework.kafka.listener.ListenerExecutionFailedException");
        let found = read(Exception {
            class: wrapper,
            cause: Some("java.net.SocketTimeoutException"),
            message: Some("Listener failed; Read timed out"),
            stack: None,
        });
        assert_eq!(found, (Some("java.net.SocketTimeoutException".into()), Some("Read timed out".into())));
        let found = read(Exception {
            class: wrapper,
            message: Some(
                "Listener failed; nested exception is org.springframework.kafka.listener.TimestampedException: \
                 Exception thrown at 2026-11-29T18:00:02Z; nested exception is a.b.Own: cannot bill 1; \
                 nested exception is java.io.IOException: x",
            ),
            ..Exception::default()
        });
        assert_eq!(found, (Some("a.b.Own".into()), Some("cannot bill 1".into())));
        let found =
            read(Exception { class: wrapper, message: Some("listener failed"), ..Exception::default() });
        assert_eq!(found, (None, None));
        let found = read(Exception { class: Some("a.B"), message: Some("x; y"), ..Exception::default() });
        assert_eq!(found, (Some("a.B".into()), Some("x; y".into())));
    }
}
