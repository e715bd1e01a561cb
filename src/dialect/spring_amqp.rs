//! Spring AMQP's RepublishMessageRecoverer, and the Rabbit binder of Spring Cloud Stream, which republishes in
//! the same words and adds `retry-count`: letters so far, over all lives, not tries.
//!
//! A second death overwrites all headers: only the last failure is there. The class stands in the stack trace
//! alone, behind Spring's wrappers. A recoverer that only rejects leaves no mark: then `x-death` tells.

use std::borrow::Cow;

use super::{Dialect, Look, Mark, Testimony, thrown};
use crate::failure::stack::Language;
use crate::failure::{Death, Origin, Prospect, Sureness, stack};
use crate::letter::Header;

const STACK: &str = "x-exception-stacktrace";
const MESSAGE: &str = "x-exception-message";
const EXCHANGE: &str = "x-original-exchange";
const KEY: &str = "x-original-routingKey";
const COUNT: &str = "retry-count";
/// Spring cuts a message to so many characters if the stack trace has filled the frame.
const CUT: usize = 100;
/// A stack trace that filled a frame of the default size has more bytes than this; smaller frames less.
const FILLED: usize = 16 << 10;
/// Classes that hand on what the application threw.
const WRAPPERS: &[&str] = &[
    "ListenerExecutionFailedException",
    "ListenerContainerConsumerFailedException",
    "MessagingException",
    "MessageHandlingException",
    "MessageDeliveryException",
    "RetryException",
    "RetryExhaustedException",
    "ExhaustedRetryException",
    "UndeclaredThrowableException",
];

/// Spring AMQP.
pub(super) struct SpringAmqp;
/// The Rabbit binder.
pub(super) struct SpringCloudStreamRabbit;

impl Dialect for SpringAmqp {
    fn name(&self) -> &'static str {
        "spring-amqp"
    }

    fn about(&self) -> &'static str {
        "Spring AMQP's RepublishMessageRecoverer"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(KEY), Mark::Header(EXCHANGE), Mark::Header(STACK)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        if is_binders(letter) { None } else { recognise(letter) }
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        read(letter, says);
    }

    fn owns(&self, header: &Header) -> bool {
        owns(&header.name)
    }
}

impl Dialect for SpringCloudStreamRabbit {
    fn name(&self) -> &'static str {
        "spring-cloud-stream-rabbit"
    }

    fn about(&self) -> &'static str {
        "the Rabbit binder of Spring Cloud Stream with republish-to-dlq"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header(COUNT), Mark::Header(STACK)]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        if is_binders(letter) { recognise(letter) } else { None }
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        read(letter, says);
        let letters: Option<u32> =
            says.number("deaths", COUNT, letter.headers().last(COUNT), super::Form::Integer);
        if let (Some(letters), Some(death)) = (letters, says.deaths.last_mut()) {
            death.count = letters;
        }
    }

    fn owns(&self, header: &Header) -> bool {
        header.name == COUNT || owns(&header.name)
    }
}

fn owns(name: &str) -> bool {
    matches!(name, STACK | MESSAGE | EXCHANGE | KEY)
}

fn is_binders(letter: &Look<'_>) -> bool {
    letter.headers().last(COUNT).is_some_and(|count| count.integer().is_some())
}

fn recognise(letter: &Look<'_>) -> Option<(Sureness, String)> {
    let headers = letter.headers();
    // The capital K is Spring's alone. The binder for Kafka writes x-original-topic instead.
    if headers.has(KEY) {
        return Some((Sureness::Sure, format!("header {KEY}")));
    }
    (headers.has(STACK) && headers.has(EXCHANGE)).then(|| (Sureness::Likely, format!("header {STACK}")))
}

fn read(letter: &Look<'_>, says: &mut Testimony) {
    let headers = letter.headers();
    let exchange = headers.last_text(EXCHANGE).map(str::to_owned);
    let routing_key = headers.last_text(KEY).map(str::to_owned);
    // Through the default exchange the key is the queue's name.
    let queue = routing_key.clone().filter(|_| exchange.as_deref() == Some(""));
    let place = Origin { queue: queue.clone(), exchange, routing_key, ..Origin::default() };
    if place.queue.is_none() {
        says.doubt("origin.queue", "Spring names exchange and key, not the queue that failed");
    }
    let mut death = Death { place: Some(place.clone()), count: 1, ..Death::default() };
    let trace = says.text("stack", STACK, headers.last(STACK));
    let message = says.text("message", MESSAGE, headers.last(MESSAGE));
    let own = trace.as_deref().map(without_quotes);
    if let (Some(trace), Some(own)) = (trace.as_deref(), own.as_deref()) {
        match behind_the_cut(own) {
            Some(block) => thrown::put(&mut death, Language::Java, &block, is_wrapper),
            None => thrown::put(&mut death, Language::Java, own, is_wrapper),
        }
        death.stack = Some(trace.to_owned());
        if message.as_deref().is_some_and(|message| is_cut(message, trace)) {
            says.doubt("message", "cut by Spring to fit into a frame");
            death.message = None;
        }
    }
    match message {
        // What the container wrapped is the application's, unless the wrapper's own words are written.
        Some(message) => {
            let of_wrapper = own.as_deref().is_some_and(|own| is_wrappers_words(own, &message, &death));
            let cut = trace.as_deref().is_some_and(|trace| is_cut(&message, trace));
            if !of_wrapper && !cut && !message.is_empty() {
                death.message = Some(message);
            }
        }
        None if trace.is_none() => says.doubt("message", "not recorded"),
        None => {}
    }
    says.origin = Some(place);
    says.deaths = vec![death];
    if let Some(queue) = queue {
        says.prospect(Prospect::ToQueue { queue, why: "it came through the default exchange".to_owned() });
    }
}

fn is_wrapper(class: &str) -> bool {
    let short = class.rsplit('.').next().unwrap_or(class);
    class.starts_with("org.springframework.") && WRAPPERS.contains(&short)
}

/// Spring writes 97 characters and three dots when the trace has filled the frame.
fn is_cut(message: &str, trace: &str) -> bool {
    message.ends_with("...") && trace.len() > FILLED && message.chars().count() == CUT
}

/// Is it the message of a wrapper, while something else was found behind the wrapper?
fn is_wrappers_words(trace: &str, message: &str, death: &Death) -> bool {
    let found = death.error_class.as_deref().is_some_and(|class| !is_wrapper(class));
    found
        && stack::chain(trace).iter().any(|link| {
            link.class.is_some_and(is_wrapper) && link.message.is_some_and(|words| words.starts_with(message))
        })
        && death.message.as_deref() != Some(message)
}

/// The trace without older ones that are quoted in it: a wrapper of Spring Integration prints the failed
/// message with all its headers, the stack trace of its last life among them, and so on at every lap.
fn without_quotes(trace: &str) -> Cow<'_, str> {
    let quote = format!("{STACK}=");
    if !trace.contains(&quote) {
        return Cow::Borrowed(trace);
    }
    let mut own = String::with_capacity(trace.len() / 2);
    let mut depth = 0usize;
    for line in trace.split_inclusive('\n') {
        // What follows a quoted trace in the list of headers begins its own line.
        if depth > 0 && line.starts_with(['}', ',', ']']) {
            depth -= 1;
        }
        match line.rfind(&quote) {
            Some(at) => {
                if depth == 0 {
                    own.push_str(&line[..at]);
                }
                depth += 1;
            }
            None if depth == 0 => own.push_str(line),
            None => {}
        }
    }
    Cow::Owned(own)
}

/// Of a trace that was cut before its causes: the last suppressed error, which is the last try, as a trace of
/// its own.
fn behind_the_cut(trace: &str) -> Option<String> {
    if stack::behind(trace, is_wrapper)?.class.is_some_and(|class| !is_wrapper(class)) {
        return None;
    }
    let (_, block) = trace.rsplit_once("\n\tSuppressed: ")?;
    let mut lines = block.split('\n');
    let mut own = lines.next()?.to_owned();
    for line in lines.map_while(|line| line.strip_prefix('\t').or(line.starts_with("}, ").then_some(line))) {
        own.push('\n');
        own.push_str(line);
    }
    Some(own)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn only_springs_own_classes_are_wrappers() {
        assert!(is_wrapper("org.springframework.amqp.rabbit.support.ListenerExecutionFailedException"));
        assert!(!is_wrapper("com.example.MessagingException"));
        assert!(!is_wrapper("org.springframework.dao.DataAccessException"));
    }
}
