//! Real failures as tests: numbers as in the issue tracker's list of cases. Pure: no broker.

use redrive::dialect::{self, DIALECTS};
use redrive::failure::{FailureContext, Prospect, Stage, fingerprint};
use redrive::letter::{Facts, Headers, LetterId, Message, Place, Position, RawLetter, TimeSource, Value};
use redrive::{clock::Time, dead_letter::DeadLetter, topology::Channel, topology::GroupRule};

/// A Kafka record with these headers; `None` is a null value.
pub fn record(headers: &[(&str, Option<&[u8]>)]) -> RawLetter {
    let headers: Headers = headers
        .iter()
        .map(|(name, value)| {
            ((*name).to_owned(), value.map_or(Value::Null, |bytes| Value::from_bytes(bytes.to_vec())))
        })
        .collect();
    let body = bytes::Bytes::from_static(b"{\"orderId\":5001}");
    RawLetter {
        id: LetterId::new("p0o1"),
        position: Position::new("0:1"),
        arrival: 1,
        body_len: Some(body.len() as u64),
        message: Message {
            key: Some(bytes::Bytes::from_static(b"C-17")),
            body: Some(body),
            headers,
            properties: Headers::new(),
        },
        facts: Facts {
            queue: "orders.dlq".into(),
            place: Some(Place { partition: 0, offset: 1 }),
            written_at: Some((Time::from_millis(1_795_975_000_000), TimeSource::Producer)),
            ..Facts::default()
        },
    }
}

fn text(text: &str) -> Option<&[u8]> {
    Some(text.as_bytes())
}

fn without_value(mut letter: RawLetter) -> RawLetter {
    letter.message.body = None;
    letter.body_len = None;
    letter
}

fn without_key(mut letter: RawLetter) -> RawLetter {
    letter.message.key = None;
    letter
}

fn doubts(context: &FailureContext, field: &str) -> String {
    context.doubts.iter().filter(|doubt| doubt.field == field).map(|doubt| doubt.why.as_str()).collect()
}

#[test]
fn k01_first_header_is_origin_last_is_latest_failure() {
    let letter = record(&[
        ("kafka_dlt-original-topic", text("orders")),
        ("kafka_dlt-original-offset", Some(&42i64.to_be_bytes())),
        ("kafka_dlt-original-topic", text("orders.DLT")),
        ("kafka_dlt-original-offset", Some(&57i64.to_be_bytes())),
    ]);
    let context = dialect::read(&letter);
    let origin = context.origin.as_ref().unwrap();
    assert_eq!((origin.topic.as_deref(), origin.offset), (Some("orders"), Some(42)));
    let last = context.last().unwrap().place.as_ref().unwrap();
    assert_eq!((last.topic.as_deref(), last.offset), (Some("orders.DLT"), Some(57)));
    assert_eq!(context.deaths.len(), 2);
}

#[test]
fn k02_numbers_are_big_endian_bytes() {
    let letter = record(&[
        ("kafka_dlt-original-topic", text("orders")),
        ("kafka_dlt-original-partition", Some(&[0, 0, 0, 3])),
        ("kafka_dlt-original-offset", Some(&[0, 0, 0, 0, 0, 0, 0, 0x2a])),
        ("kafka_dlt-original-timestamp", Some(&[0, 0, 1, 0x94, 0x1f, 0x29, 0x7c, 0])),
    ]);
    let origin = dialect::read(&letter).origin.unwrap();
    assert_eq!((origin.partition, origin.offset), (Some(3), Some(42)));
    assert_eq!(origin.timestamp.unwrap().rfc3339(), "2025-01-01T00:00:00Z");
    let wrong = record(&[
        ("kafka_dlt-original-topic", text("orders")),
        ("kafka_dlt-original-partition", Some(&[0, 0, 3])),
    ]);
    let context = dialect::read(&wrong);
    assert_eq!(context.origin.as_ref().unwrap().partition, None);
    assert!(doubts(&context, "origin.partition").contains("0x000003"), "{:?}", context.doubts);
}

#[test]
fn k03_attempts_of_one_byte_are_unsigned_and_odd_widths_are_unknown() {
    let attempts = |bytes: &[u8]| {
        let letter =
            record(&[("kafka_original-topic", text("orders")), ("retry_topic-attempts", Some(bytes))]);
        let context = dialect::read(&letter);
        (context.attempts, doubts(&context, "attempts"))
    };
    // The header counts the NEXT try: 129 have failed.
    assert_eq!(attempts(&[0x82]).0, Some(129));
    assert_eq!(attempts(&[0, 0, 0, 0x82]).0, Some(129));
    for (bytes, hex) in [(&[0, 0x82][..], "0x0082"), (&[0xff; 4][..], "0xffffffff")] {
        let (found, why) = attempts(bytes);
        assert_eq!(found, None);
        assert!(why.contains(hex), "{why}");
    }
}

#[test]
fn k05_retry_bookkeeping_stays_behind_in_all_its_copies() {
    let mut headers = vec![("event-id", text("ev-1")), ("kafka_replyTopic", text("replies"))];
    let numbers: Vec<[u8; 4]> = (2i32..=4).map(i32::to_be_bytes).collect();
    for number in &numbers {
        headers.push(("retry_topic-original-timestamp", Some(&[1, 2, 3, 4, 5, 6])));
        headers.push(("retry_topic-attempts", Some(number)));
        headers.push(("retry_topic-backoff-timestamp", Some(&[1, 2, 3, 4, 5, 6])));
    }
    let letter = record(&headers);
    let context = dialect::read(&letter);
    // The last one counts; it is the number of the next try.
    assert_eq!(context.attempts, Some(3));
    let message = dialect::outgoing(&letter, &context).unwrap();
    let names: Vec<_> = message.headers.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, ["event-id", "kafka_replyTopic"]);
}

#[test]
fn k06_two_families_and_a_name_that_means_two_things() {
    let first = record(&[
        ("kafka_original-topic", text("orders")),
        ("kafka_original-offset", Some(&7i64.to_be_bytes())),
        ("kafka_exception-fqcn", text("org.springframework.kafka.listener.ListenerExecutionFailedException")),
        ("kafka_exception-fqcn", text("org.apache.kafka.common.errors.TimeoutException")),
        ("kafka_exception-message", text("Listener failed; too slow")),
    ]);
    let context = dialect::read(&first);
    let origin = context.origin.as_ref().unwrap();
    assert_eq!((origin.topic.as_deref(), origin.offset), (Some("orders"), Some(7)));
    let last = context.last().unwrap();
    assert_eq!(last.error_class.as_deref(), Some("org.apache.kafka.common.errors.TimeoutException"));
    assert_eq!(last.message.as_deref(), Some("too slow"));

    let second = record(&[
        ("kafka_original-topic", text("orders")),
        ("kafka_exception-fqcn", text("org.apache.kafka.common.errors.TimeoutException")),
    ]);
    let last = dialect::read(&second).last().cloned().unwrap();
    assert_eq!(last.error_class.as_deref(), Some("org.apache.kafka.common.errors.TimeoutException"));
    assert_eq!(last.root_class, None);

    let third = record(&[
        ("kafka_dlt-key-exception-fqcn", text("org.apache.kafka.common.errors.SerializationException")),
        ("kafka_dlt-key-exception-message", text("Error parsing data into UUID")),
    ]);
    let last = dialect::read(&third).last().cloned().unwrap();
    assert_eq!(last.stage, Some(Stage::Key));
    assert_eq!(last.message.as_deref(), Some("Error parsing data into UUID"));
}

#[test]
fn k07_ten_letters_under_one_headline_are_two_causes() {
    const WRAPPER: &str = "org.springframework.kafka.listener.ListenerExecutionFailedException";
    let timeout = record(&[
        ("kafka_dlt-original-topic", text("orders")),
        ("kafka_dlt-exception-fqcn", text(WRAPPER)),
        ("kafka_dlt-exception-message", text("listener failed")),
        ("kafka_dlt-exception-cause-fqcn", text("java.net.SocketTimeoutException")),
    ]);
    let stack = format!(
        "{WRAPPER}: listener failed\n\tat a.B.c(B.java:1)\nCaused by: com.fasterxml.jackson.core.JsonParseException: \
         Unexpected character\n\t... 7 more\n"
    );
    let json = record(&[
        ("kafka_dlt-original-topic", text("orders")),
        ("kafka_dlt-exception-fqcn", text(WRAPPER)),
        ("kafka_dlt-exception-message", text("listener failed")),
        ("kafka_dlt-exception-stacktrace", text(&stack)),
    ]);
    let cause = |letter: &RawLetter| fingerprint(&dialect::read(letter), &[]);
    let (timeout, json) = (cause(&timeout), cause(&json));
    assert_ne!(timeout.id, json.id);
    assert_eq!(timeout.class.as_deref(), Some("java.net.SocketTimeoutException"));
    assert_eq!(json.class.as_deref(), Some("com.fasterxml.jackson.core.JsonParseException"));
}

#[test]
fn k09_a_lost_key_or_value_is_refused() {
    // Java-serialised bytes: never parsed, only seen.
    let opaque = Some(&b"\xac\xed\x00\x05sr\x00\x10x"[..]);
    let key = without_key(record(&[
        ("kafka_dlt-original-topic", text("orders")),
        ("springDeserializerExceptionKey", opaque),
    ]));
    let context = dialect::read(&key);
    assert!(context.key_unavailable && !context.value_unavailable);
    assert!(context.refusal().is_some());
    assert!(dialect::outgoing(&key, &context).is_err());
    let value = without_value(record(&[
        ("kafka_dlt-original-topic", text("orders")),
        ("springDeserializerExceptionValue", opaque),
    ]));
    let context = dialect::read(&value);
    assert!(context.value_unavailable);
    assert!(dialect::outgoing(&value, &context).is_err());
    // A look without bodies is no null value.
    let mut unfetched = value;
    unfetched.body_len = Some(12);
    assert!(!dialect::read(&unfetched).value_unavailable);
}

#[test]
fn k10_other_frameworks_write_text_and_other_keys() {
    let letter = record(&[
        ("dead-letter-topic", text("orders")),
        ("dead-letter-partition", text("12")),
        ("dead-letter-offset", text("98")),
        ("dead-letter-reason", text("too slow")),
        ("dead-letter-exception-class-name", text("a.B")),
    ]);
    let context = dialect::read(&letter);
    let origin = context.origin.as_ref().unwrap();
    assert_eq!(
        (origin.topic.as_deref(), origin.partition, origin.offset),
        (Some("orders"), Some(12), Some(98))
    );
    assert_eq!(context.last().unwrap().root_message, None);

    let mut karafka = record(&[
        ("source_topic", text("orders")),
        ("source_partition", text("3")),
        ("source_offset", text("98")),
        ("source_consumer_group", text("billing")),
    ]);
    karafka.message.key = Some(bytes::Bytes::from_static(b"3"));
    let context = dialect::read(&karafka);
    assert!(context.key_unavailable);
    assert!(doubts(&context, "key").contains("ordering unknown"));
}

#[test]
fn k12_without_context_nothing_is_guessed() {
    let context = dialect::read(&record(&[]));
    assert_eq!((context.origin.clone(), context.deaths.len()), (None, 0));
    assert!(context.readings.is_empty() && context.attempts.is_none());
    assert_eq!(fingerprint(&context, &[]).id.as_str(), "none");
}

#[test]
fn k14_streams_exception_text_and_class_are_one() {
    let place = [
        ("__streams.errors.topic", text("orders")),
        ("__streams.errors.partition", text("2")),
        ("__streams.errors.offset", text("41")),
    ];
    let mut first =
        vec![("__streams.errors.exception", text("java.lang.IllegalStateException: no rate for EUR"))];
    first.extend(place);
    let mut second = vec![
        ("tenant", text("acme")),
        ("__streams.errors.exception", text("java.lang.IllegalStateException")),
    ];
    second.extend(place);
    let (first, second) = (dialect::read(&record(&first)), dialect::read(&record(&second)));
    for context in [&first, &second] {
        assert_eq!(context.last().unwrap().error_class.as_deref(), Some("java.lang.IllegalStateException"));
        assert_eq!(context.origin.as_ref().unwrap().offset, Some(41));
    }
    assert!(!doubts(&first, "headers").is_empty());
    assert!(doubts(&second, "headers").is_empty());
}

#[test]
fn k15_a_pointer_is_never_sent_as_a_tombstone() {
    let pointer = |topic: &'static str| {
        without_key(without_value(record(&[
            ("__dlq.errors.topic", text(topic)),
            ("__dlq.errors.partition", text("2")),
            ("__dlq.errors.offset", text("1041")),
            ("__dlq.errors.group", text("sg1")),
            ("__dlq.errors.delivery.count", text("5")),
        ])))
    };
    let context = dialect::read(&pointer("orders"));
    assert_eq!(context.attempts, Some(5));
    assert_eq!(context.prospects, [Prospect::Pointer { at: "orders p2 offset 1041".to_owned() }]);
    assert!(context.value_unavailable);
    let by_id = pointer("kX9pLq0zT5uV1aBcD2eF3g");
    let context = dialect::read(&by_id);
    assert!(doubts(&context, "origin.topic").contains("id"));
    assert!(dialect::outgoing(&by_id, &context).is_err());
    // A pointer cannot be sent as it is either.
    let letter = pointer("orders");
    assert!(dialect::outgoing(&letter, &dialect::read(&letter)).is_err());
}

/// What is doubted of the time at which a producer says that it wrote.
fn doubts_of_time(millis: i64) -> String {
    let mut letter = record(&[]);
    letter.facts.written_at = Some((Time::from_millis(millis), TimeSource::Producer));
    doubts(&dialect::read(&letter), "written_at")
}

#[test]
fn k16_times_that_are_no_times_are_doubted() {
    let early = doubts_of_time(332_800_244);
    assert!(early.contains("1970-01-04"), "{early}");
    assert!(!doubts_of_time(0).is_empty());
    assert!(doubts_of_time(1_795_975_000_000).is_empty());
}

#[test]
fn k35_microseconds_are_told_as_such() {
    let micros = doubts_of_time(1_755_933_141_855_875);
    assert!(micros.contains("2025-08-23T07:12:21.855Z") && micros.contains("microseconds"), "{micros}");
}

#[test]
fn k17_a_dead_letter_without_its_key() {
    let mut letter = without_key(record(&[]));
    letter.message.body = Some(bytes::Bytes::from_static(
        br#"{"specversion":"1.0","id":"e1","source":"shop","type":"t","topic":"orders","pubsubname":"k","data":{"orderId":"o-1"}}"#,
    ));
    let context = dialect::read(&letter);
    assert!(context.key_unavailable);
    assert_eq!(context.event_id.as_deref(), Some("e1"));
    assert_eq!(context.origin.as_ref().unwrap().topic.as_deref(), Some("orders"));
    let mut channel = Channel::default();
    channel.group.value = GroupRule::Body("/data/orderId".to_owned());
    assert_eq!(DeadLetter::of(letter, &channel).group.value.as_deref(), Some("o-1"));
}

#[test]
fn k24_null_and_binary_values_and_duplicates_survive() {
    let letter = record(&[
        ("trace", None),
        ("sig", Some(&[0xff, 0xfe, 0, 1])),
        ("tag", text("a")),
        ("tag", text("b")),
        ("kafka_dlt-original-topic", Some(&[0xff, 0xfe])),
        ("kafka_dlt-exception-fqcn", None),
    ]);
    let context = dialect::read(&letter);
    assert!(doubts(&context, "origin.topic").contains("UTF-8"));
    let message = dialect::outgoing(&letter, &context).unwrap();
    let kept: Vec<_> = message.headers.iter().map(|h| (h.name.as_str(), h.value.clone())).collect();
    let bytes = |bytes: &'static [u8]| Value::from_bytes(bytes);
    assert_eq!(
        kept,
        [
            ("trace", Value::Null),
            ("sig", bytes(&[0xff, 0xfe, 0, 1])),
            ("tag", bytes(b"a")),
            ("tag", bytes(b"b"))
        ]
    );
}

#[test]
fn k25_numbers_are_decoded_by_name_alone() {
    let letter = record(&[("account", text("0123")), ("code", text("0000"))]);
    assert_eq!(letter.message.headers.first("account").unwrap().text(), Some("0123"));
    assert_eq!(letter.message.headers.first("code").unwrap().text(), Some("0000"));
    assert_eq!(letter.message.headers.first("code").unwrap().integer(), None);
    assert!(dialect::read(&letter).readings.is_empty());
}

/// What a dialect takes out of a hostile letter is data, not markup: it is kept as it is for whoever renders
/// it, and never enters a name of ours.
#[test]
fn o01_control_characters_stay_data() {
    let hostile = "\u{1b}[2J\u{9b}0m\u{202e}\r\u{7}\u{0}";
    let letter = record(&[
        ("kafka_dlt-original-topic", text(hostile)),
        ("kafka_dlt-exception-fqcn", text(hostile)),
        ("kafka_dlt-exception-message", text(hostile)),
    ]);
    let context = dialect::read(&letter);
    assert_eq!(context.origin.as_ref().unwrap().topic.as_deref(), Some(hostile));
    let cause = fingerprint(&context, &[]);
    assert!(cause.id.as_str().bytes().all(|b| b.is_ascii_hexdigit()));
    let text = cause.text.clone().unwrap_or_default();
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[test]
fn two_frameworks_on_one_letter_are_one_history() {
    // Died in Connect, was sent on with all headers, died in Spring: Connect's headers stand first.
    let letter = record(&[
        ("event-id", text("ev-1")),
        ("__connect.errors.topic", text("orders")),
        ("__connect.errors.partition", text("1")),
        ("__connect.errors.offset", text("7")),
        ("__connect.errors.exception.class.name", text("a.ConnectException")),
        ("__connect.errors.exception.message", text("refused")),
        ("kafka_dlt-exception-fqcn", text("a.SpringException")),
        ("kafka_dlt-exception-message", text("no rate")),
        ("kafka_dlt-original-topic", text("billing")),
        ("kafka_dlt-original-offset", Some(&9i64.to_be_bytes())),
        ("kafka_dlt-original-consumer-group", text("billing-svc")),
    ]);
    let context = dialect::read(&letter);
    assert_eq!(context.origin.as_ref().unwrap().topic.as_deref(), Some("orders"));
    let classes: Vec<_> = context.deaths.iter().map(|death| death.error_class.as_deref().unwrap()).collect();
    assert_eq!(classes, ["a.ConnectException", "a.SpringException"]);
    assert_eq!(context.last().unwrap().consumer.as_deref(), Some("billing-svc"));
    let message = dialect::outgoing(&letter, &context).unwrap();
    assert_eq!(message.headers.len(), 1);
    let spring = context.readings.iter().find(|reading| reading.dialect == "spring-kafka").unwrap();
    assert!(spring.ignored.iter().any(|ignored| ignored.field == "origin"));
}

#[test]
fn dialects_introduce_themselves() {
    let mut names: Vec<_> = DIALECTS.iter().map(|dialect| dialect.name()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a name twice");
    for dialect in DIALECTS {
        assert!(!dialect.about().is_empty() && !dialect.marks().is_empty(), "{}", dialect.name());
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        assert!(dialect.name().chars().all(word), "{}", dialect.name());
    }
}
