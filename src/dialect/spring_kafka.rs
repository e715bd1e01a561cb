//! Spring Kafka, 2.7 to 4.1: `DeadLetterPublishingRecoverer` (`kafka_dlt-*`) and non-blocking retry topics
//! (`kafka_*` and `retry_topic-*`). Numbers are big-endian bytes, by name and never by their look (K02).
//!
//! - `original-*` sets: appended at each death by the recoverer, so the FIRST is the origin and the last the
//!   copy that failed last (K01); in retry topics only the first is written.
//! - exception sets: one, of the LAST failure, between two `original-*` sets; 2.7 appends them. In one
//!   release line the cause's class has the name of the exception's class: two classes with one message
//!   (K06).
//! - `retry_topic-attempts` is the number of the NEXT try, in the dead-letter topic too; one unsigned byte in
//!   old versions (K03). `retry_topic-backoff-timestamp` is the due time in a retry topic, the time of the
//!   failure in the dead-letter topic.

use super::spring::Exception;
use super::{Dialect, Form, Look, Mark, Testimony, last_index, number_of, raw_of};
use crate::clock::Time;
use crate::failure::{Death, Origin, Prospect, Stage, Sureness};
use crate::letter::{Header, Headers, Value};

/// More hops than anybody has; older ones are left out of the history.
const MOST_DEATHS: usize = 100;

const GROUP: &str = "kafka_dlt-original-consumer-group";
const DELIVERY_ATTEMPT: &str = "kafka_deliveryAttempt";
const ATTEMPTS: &str = "retry_topic-attempts";
const BACKOFF: &str = "retry_topic-backoff-timestamp";
const DESERIALIZER: &str = "springDeserializerException";
const RETRY_ORIGINAL: &str = "retry_topic-original-timestamp";

/// Names of one header family.
struct Family {
    prefix: &'static str,
    names: [&'static str; PARTS],
}

/// What the headers of a family are, by index into [`Family::names`].
const PARTS: usize = 11;
const TOPIC: usize = 0;
const PARTITION: usize = 1;
const OFFSET: usize = 2;
const TIMESTAMP: usize = 3;
const CLASS: usize = 4;
const CAUSE: usize = 5;
const MESSAGE: usize = 6;
const STACK: usize = 7;
const KEY_CLASS: usize = 8;
const KEY_MESSAGE: usize = 9;
const KEY_STACK: usize = 10;

/// Which of them a name is, without the family's prefix.
fn part(suffix: &[u8]) -> Option<usize> {
    Some(match suffix {
        b"original-topic" => TOPIC,
        b"original-partition" => PARTITION,
        b"original-offset" => OFFSET,
        b"original-timestamp" => TIMESTAMP,
        b"exception-fqcn" => CLASS,
        b"exception-cause-fqcn" => CAUSE,
        b"exception-message" => MESSAGE,
        b"exception-stacktrace" => STACK,
        b"key-exception-fqcn" => KEY_CLASS,
        b"key-exception-message" => KEY_MESSAGE,
        b"key-exception-stacktrace" => KEY_STACK,
        _ => return None,
    })
}

macro_rules! family {
    ($prefix:literal) => {
        Family {
            prefix: $prefix,
            names: [
                concat!($prefix, "original-topic"),
                concat!($prefix, "original-partition"),
                concat!($prefix, "original-offset"),
                concat!($prefix, "original-timestamp"),
                concat!($prefix, "exception-fqcn"),
                concat!($prefix, "exception-cause-fqcn"),
                concat!($prefix, "exception-message"),
                concat!($prefix, "exception-stacktrace"),
                concat!($prefix, "key-exception-fqcn"),
                concat!($prefix, "key-exception-message"),
                concat!($prefix, "key-exception-stacktrace"),
            ],
        }
    };
}

/// The headers of one name.
#[derive(Clone, Copy, Default)]
struct Seen<'a> {
    count: usize,
    before_last: Option<&'a Value>,
    last: Option<&'a Value>,
    last_at: Option<usize>,
}

/// The headers of a family, found in one pass instead of one for each name: a look reads a million letters.
struct Found<'a> {
    headers: &'a Headers,
    names: &'static [&'static str; PARTS],
    seen: [Seen<'a>; PARTS],
    /// Is there a header of a deserializer that failed?
    deserializer: bool,
}

impl<'a> Found<'a> {
    fn of(family: &'static Family, headers: &'a Headers) -> Self {
        let mut seen = [Seen::default(); PARTS];
        let mut deserializer = false;
        for (at, header) in headers.iter().enumerate() {
            let name = header.name.as_bytes();
            let Some(suffix) = name.strip_prefix(family.prefix.as_bytes()) else {
                deserializer |= name.starts_with(DESERIALIZER.as_bytes());
                continue;
            };
            if let Some(seen) = part(suffix).and_then(|part| seen.get_mut(part)) {
                seen.count += 1;
                seen.before_last = seen.last.replace(&header.value);
                seen.last_at = Some(at);
            }
        }
        Self { headers, names: &family.names, seen, deserializer }
    }

    fn count(&self, part: usize) -> usize {
        self.seen[part].count
    }

    fn last(&self, part: usize) -> Option<&'a Value> {
        self.seen[part].last
    }

    /// All of them, in order. Of most there is one.
    fn all(&self, part: usize) -> impl Iterator<Item = &'a Value> + use<'a> {
        let Seen { count, last, .. } = self.seen[part];
        let several = (count > 1).then(|| self.headers.all(self.names[part]));
        last.filter(|_| count == 1).into_iter().chain(several.into_iter().flatten())
    }
}

static DLT: Family = family!("kafka_dlt-");
static RETRY: Family = family!("kafka_");

/// `DeadLetterPublishingRecoverer`.
pub(super) struct SpringKafka;

/// Non-blocking retry topics.
pub(super) struct SpringRetryTopic;

impl Dialect for SpringKafka {
    fn name(&self) -> &'static str {
        "spring-kafka"
    }

    fn about(&self) -> &'static str {
        "Spring Kafka 2.7 to 4.1, DeadLetterPublishingRecoverer"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Prefix("kafka_dlt-original-"),
            Mark::Prefix("kafka_dlt-exception-"),
            Mark::Prefix("kafka_dlt-key-exception-"),
            Mark::Header("kafka_deliveryAttempt"),
            Mark::Prefix("springDeserializerException"),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        recognise(&DLT, letter).or_else(|| {
            let name = letter.headers().iter().find(|h| h.name.starts_with("springDeserializerException"))?;
            Some((Sureness::Likely, format!("header {}", name.name)))
        })
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        read_common(&DLT, letter, says);
        let attempt = letter.headers().last(DELIVERY_ATTEMPT);
        says.attempts = says.number("attempts", DELIVERY_ATTEMPT, attempt, Form::Int32);
    }

    fn owns(&self, header: &Header) -> bool {
        owns(&header.name)
    }
}

impl Dialect for SpringRetryTopic {
    fn name(&self) -> &'static str {
        "spring-retry-topic"
    }

    fn about(&self) -> &'static str {
        "Spring Kafka 2.7 to 4.1, non-blocking retry topics (@RetryableTopic) and their dead-letter topic"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Prefix("retry_topic-"),
            Mark::Prefix("kafka_original-"),
            Mark::Prefix("kafka_exception-"),
            Mark::Prefix("kafka_key-exception-"),
        ]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        if letter.headers().has(ATTEMPTS) {
            return Some((Sureness::Sure, format!("header {ATTEMPTS}")));
        }
        recognise(&RETRY, letter)
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        read_common(&RETRY, letter, says);
        says.newest_at = last_index(letter.headers(), |name| name == ATTEMPTS).or(says.newest_at);
        let next = letter.headers().last(ATTEMPTS).and_then(|value| next_attempt(value, says));
        says.attempts = next.map(|next| next - 1);
        times(letter, says);
    }

    fn owns(&self, header: &Header) -> bool {
        owns(&header.name)
    }
}

fn recognise(family: &Family, letter: &Look<'_>) -> Option<(Sureness, String)> {
    let headers = letter.headers();
    // Each name can be left out by the application.
    const MARKS: [usize; PARTS] = [
        TOPIC,
        CLASS,
        KEY_CLASS,
        MESSAGE,
        OFFSET,
        PARTITION,
        TIMESTAMP,
        CAUSE,
        STACK,
        KEY_MESSAGE,
        KEY_STACK,
    ];
    let found = MARKS.into_iter().map(|part| family.names[part]).find(|name| headers.has(name))?;
    Some((Sureness::Sure, ["header ", found].concat()))
}

/// Both families are taken off: a record may carry headers of both, and `kafka_dlt-original-consumer-group`
/// is written by retry topics too. Other `kafka_*` headers (`kafka_replyTopic`) are the producer's.
fn owns(name: &str) -> bool {
    const PREFIXES: [&str; 8] = [
        "kafka_dlt-",
        "kafka_original-",
        "kafka_exception-",
        "kafka_key-exception-",
        "retry_topic-",
        "springDeserializerException",
        "kafka_listenerException",
        "kafka_deliveryAttempt",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn read_common(family: &'static Family, letter: &Look<'_>, says: &mut Testimony) {
    let headers = letter.headers();
    let found = Found::of(family, headers);
    says.newest_at = [OFFSET, STACK, CLASS].into_iter().filter_map(|part| found.seen[part].last_at).max();
    places(&found, says);
    says.origin = says.deaths.first().and_then(|death| death.place.clone());
    let group = says.text("consumer", GROUP, headers.last(GROUP));
    let last = says.last_death();
    last.consumer = group;
    error(&found, says);
    key_failure(&found, letter, says);
}

/// One death for each set of `original-*`: the copy that failed there.
fn places(found: &Found<'_>, says: &mut Testimony) {
    let sets = found.count(TOPIC).max(found.count(OFFSET)).max(found.count(PARTITION));
    let [topic_name, partition_name, offset_name, timestamp_name, ..] = found.names;
    let mut topics = found.all(TOPIC);
    let mut partitions = found.all(PARTITION);
    let mut offsets = found.all(OFFSET);
    let mut timestamps = found.all(TIMESTAMP);
    if sets > MOST_DEATHS {
        says.doubt("deaths", format!("{sets} deaths are noted; the oldest and the latest are shown"));
    }
    says.deaths.reserve_exact(sets.min(MOST_DEATHS));
    for set in 0..sets {
        let (topic, partition) = (topics.next(), partitions.next());
        let (offset, timestamp) = (offsets.next(), timestamps.next());
        if sets > MOST_DEATHS && set != 0 && set + MOST_DEATHS <= sets {
            continue;
        }
        let place = Origin {
            topic: says.text("origin.topic", topic_name, topic),
            partition: says.number("origin.partition", partition_name, partition, Form::Int32),
            offset: says.number("origin.offset", offset_name, offset, Form::Int64),
            timestamp: says.millis("origin.timestamp", timestamp_name, timestamp, Form::Int64),
            ..Origin::default()
        };
        says.deaths.push(Death { place: Some(place), count: 1, ..Death::default() });
    }
}

/// The exception set of the last failure. More than one set: 2.7, one a hop.
fn error(found: &Found<'_>, says: &mut Testimony) {
    let classes = found.seen[CLASS];
    let messages = found.count(MESSAGE).max(found.count(STACK));
    // K06: two classes and one message are the exception and its cause under one name.
    let (class, cause) = match classes.count {
        0 => (None, None),
        all if all == 2 * messages.max(1) && found.count(CAUSE) == 0 => (classes.before_last, classes.last),
        _ => (classes.last, found.last(CAUSE)),
    };
    let mut text = |field, part: usize, value| says.borrowed(field, found.names[part], value);
    let class = text("error", CLASS, class);
    let cause = text("error", CAUSE, cause);
    let message = text("message", MESSAGE, found.last(MESSAGE));
    let stack = text("stack", STACK, found.last(STACK));
    let exception = Exception {
        class: class.as_deref(),
        cause: cause.as_deref(),
        message: message.as_deref(),
        stack: stack.as_deref(),
    };
    let stage = class
        .as_deref()
        .or(cause.as_deref())
        .map(|class| if class.ends_with("DeserializationException") { Stage::Value } else { Stage::Handler });
    let last = says.last_death();
    exception.fill(last);
    last.stage = stage;
}

/// A key that could not be read is reported as that, not dropped (K06, K09).
fn key_failure(found: &Found<'_>, letter: &Look<'_>, says: &mut Testimony) {
    let headers = letter.headers();
    let mut text = |part: usize| says.borrowed("key", found.names[part], found.last(part));
    let (class, message, stack) = (text(KEY_CLASS), text(KEY_MESSAGE), text(KEY_STACK));
    if class.is_some() || message.is_some() {
        let last = says.last_death();
        if last.error_class.is_none() && last.message.is_none() {
            let exception = Exception {
                class: class.as_deref(),
                cause: None,
                message: message.as_deref(),
                stack: stack.as_deref(),
            };
            exception.fill(last);
            last.stage = Some(Stage::Key);
        } else {
            let class = class.as_deref().unwrap_or("an error");
            says.doubt("key", format!("the key could not be read either: {class}"));
        }
    }
    // K09: the bytes survive only inside a Java-serialised object, which is never read as one.
    let deserializer = |name: &str| found.deserializer && headers.has(name);
    let key_lost = deserializer("springDeserializerExceptionKey") || class.is_some();
    if key_lost && letter.message.key.is_none() {
        says.key_unavailable = true;
        says.doubt("key", "it could not be read, and was not kept");
        says.prospect(Prospect::Refused {
            why: "its key was lost when it was buried: it would come to another partition".to_owned(),
            way_round: "send the event again from its producer".to_owned(),
        });
    }
    if deserializer("springDeserializerExceptionValue") && letter.body_len.is_none() {
        says.value_unavailable = true;
        says.doubt("value", "it could not be read, and was not kept");
        says.prospect(Prospect::Refused {
            why: "its value was lost when it was buried: it would be a tombstone".to_owned(),
            way_round: "send the event again from its producer".to_owned(),
        });
    }
}

/// The number of the next try: four bytes, or one unsigned byte in old versions; 1 to 32767 (K03).
fn next_attempt(value: &Value, says: &mut Testimony) -> Option<u32> {
    let number = match value.bytes() {
        Some(bytes) if bytes.len() == 1 => Some(i64::from(bytes[0])),
        _ => number_of(value, Form::Int32),
    };
    let next = number.and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=32_767).contains(n));
    if next.is_none() {
        says.doubt("attempts", format!("{ATTEMPTS} is no number of a try: {}", raw_of(value)));
    }
    next
}

/// The tries of this life and when each was due. Only in the dead-letter topic is the last of these times
/// that of the failure: there it lies before the record's own time, in a retry topic behind it.
fn times(letter: &Look<'_>, says: &mut Testimony) {
    let mut due: Vec<Option<Time>> = Vec::new();
    for value in letter.headers().all(BACKOFF) {
        if due.len() == MOST_DEATHS {
            due.remove(1);
        }
        due.push(number_of(value, Form::BigInteger).filter(|ms| *ms >= 0).map(Time::from_millis));
    }
    if let Some(value) = letter.headers().last(BACKOFF)
        && due.last() == Some(&None)
    {
        says.doubt("failed_at", format!("{BACKOFF} is no time: {}", raw_of(value)));
    }
    let origin = says.deaths.first().and_then(|death| death.place.as_ref()?.timestamp);
    if origin.is_none()
        && let Some(first) = letter.headers().first(RETRY_ORIGINAL)
        && let Some(at) = number_of(first, Form::BigInteger).filter(|ms| *ms >= 0)
        && let Some(origin) = &mut says.origin
    {
        origin.timestamp = Some(Time::from_millis(at));
    }
    // One record names one place, but there was a death for each set of the retry headers.
    let last = says.deaths.pop().unwrap_or_default();
    let first_place = last.place.clone();
    says.deaths.clear();
    let tries = due.len().max(1);
    for index in 0..tries {
        let mut death =
            if index + 1 == tries { last.clone() } else { Death { count: 1, ..Death::default() } };
        death.place = if index == 0 { first_place.clone() } else { None };
        death.tried_at = index.checked_sub(1).and_then(|before| due.get(before).copied().flatten());
        death.consumer = last.consumer.clone();
        says.deaths.push(death);
    }
    let at = due.last().copied().flatten();
    let in_retry_topic = match (letter.facts.written_at, at) {
        (Some((written, _)), Some(at)) => at > written,
        _ => true,
    };
    // A name tells only where the times do not: a dead-letter topic may be called `orders-retry-dlt`.
    let name = letter.facts.queue.to_ascii_lowercase();
    let waits = in_retry_topic || name.contains("-retry") && !name.ends_with("dlt");
    let last = says.last_death();
    // A record that could not be read was never tried by the listener: nothing failed at a time.
    if !waits && last.stage != Some(Stage::Value) {
        last.at = at;
    }
}
