//! The stored fuzzing corpus as a plain test, letters and traces made at random, and Kafka letters of sizes
//! that nobody should send: no panic, no time that grows with the square.

#[path = "../../../fuzz/letters.rs"]
mod letters;

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use redrive::dialect;
use redrive::failure::{fingerprint, normalise, stack};
use redrive::letter::Value;

use super::cases::record;
use letters::{handle, letter_of};

fn stored(folder: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(folder);
    std::fs::read_dir(path).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

fn trace(text: &str) {
    let _ = (stack::chain(text), stack::root(text), stack::own_frame(text, &["com.example".to_owned()]));
    let _ = normalise(text);
}

#[test]
fn the_stored_corpus_is_handled() {
    let corpus = stored("letter");
    assert!(corpus.len() >= 40);
    let mut recognised = 0;
    for data in &corpus {
        let letter = letter_of(data);
        recognised += usize::from(!dialect::read(&letter).readings.is_empty());
        handle(&letter);
        for cut in (0..data.len()).step_by(data.len() / 24 + 1) {
            handle(&letter_of(&data[..cut]));
        }
    }
    assert!(recognised * 10 >= corpus.len() * 9, "{recognised} of {}", corpus.len());
    // What a fuzzer found on its way, most of it no letter of anybody.
    let found = stored("found");
    assert!(found.len() >= 100);
    found.iter().for_each(|data| handle(&letter_of(data)));
    for data in stored("trace") {
        let text = String::from_utf8(data).unwrap();
        trace(&text);
        for cut in (0..text.len()).step_by(text.len() / 24 + 1).filter(|cut| text.is_char_boundary(*cut)) {
            trace(&text[..cut]);
            trace(&text[cut..]);
        }
    }
}

/// Names that some dialect knows.
fn known_name() -> impl Strategy<Value = String> {
    let names: Vec<String> = dialect::DIALECTS
        .iter()
        .flat_map(|dialect| dialect.marks())
        .filter_map(|mark| match mark {
            dialect::Mark::Header(name) => Some((*name).to_owned()),
            dialect::Mark::Prefix(prefix) => Some(format!("{prefix}offset")),
            _ => None,
        })
        .collect();
    proptest::sample::select(names)
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(Value::from_bytes),
        "[ -~\\n\\t\u{e9}]{0,60}".prop_map(Value::from_text),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::Timestamp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_headers_are_read(
        headers in proptest::collection::vec((known_name(), any_value()), 0..24),
        body in proptest::collection::vec(any::<u8>(), 0..64),
        has_key in any::<bool>(),
    ) {
        let mut letter = record(&[]);
        letter.message.headers = headers.into_iter().collect();
        letter.message.key = has_key.then(|| body.clone().into());
        letter.message.body = Some(body.into());
        handle(&letter);
        // The same letter gives the same context, and its own words never enter an id.
        let context = dialect::read(&letter);
        prop_assert_eq!(&context, &dialect::read(&letter));
        let id = fingerprint(&context, &[]).id.clone();
        prop_assert!(id.as_str() == "none" || id.as_str().bytes().all(|b| b.is_ascii_hexdigit()));
    }

    #[test]
    fn any_text_is_a_trace_or_none(text in "(?s).{0,200}", lines in proptest::collection::vec(
        prop_oneof![
            Just("\tat a.B.c(B.java:1)".to_owned()), Just("Caused by: a.B: x".to_owned()),
            Just(" ---> A.B: x".to_owned()), Just("   at A.B.C()".to_owned()),
            Just("Traceback (most recent call last):".to_owned()), Just("  File \"a\", line 1, in b".to_owned()),
            Just("goroutine 1 [running]:".to_owned()), Just("#0 a(1): B->c()".to_owned()),
            Just("    at a (b.js:1:1)".to_owned()), Just("a.rb:1:in `b'".to_owned()), ".{0,20}",
        ], 0..24)) {
        trace(&text);
        trace(&lines.join("\n"));
        prop_assert!(normalise(&text).len() <= 300);
    }
}

#[test]
fn sizes_that_nobody_should_send() {
    let begun = Instant::now();
    let int = 7i32.to_be_bytes();
    let long = 7i64.to_be_bytes();
    // Ten thousand sets of every writer that appends or prepends.
    let sets: [&[(&str, &[u8])]; 6] = [
        &[("kafka_dlt-original-topic", b"orders"), ("kafka_dlt-original-offset", &long)],
        &[("retry_topic-attempts", &int), ("retry_topic-backoff-timestamp", b"\x01\xa2\x28\x76\xc5\xcd")],
        &[("__connect.errors.topic", b"orders"), ("__connect.errors.exception.class.name", b"a.B")],
        &[("delayed-retry-exception-class-name", b"a.B"), ("delayed-retry-offset", b"1")],
        &[("x-original-topic", b"orders"), ("x-original-offset", &long)],
        &[("original_partition", b"1"), ("original_offset", b"1")],
    ];
    for set in sets {
        let many: Vec<(&str, Option<&[u8]>)> =
            (0..10_000).flat_map(|_| set.iter().map(|(name, value)| (*name, Some(*value)))).collect();
        let letter = record(&many);
        let context = dialect::read(&letter);
        assert!(context.deaths.len() <= 200, "{} deaths", context.deaths.len());
        handle(&letter);
    }
    let entry = Value::Table(vec![
        ("count".to_owned(), Value::I64(i64::MAX)),
        ("reason".to_owned(), Value::from_text("rejected")),
        ("queue".to_owned(), Value::from_text("orders")),
        ("time".to_owned(), Value::Timestamp(u64::MAX)),
    ]);
    let mut letter = record(&[]);
    letter.facts.place = None;
    letter.message.headers.push("x-death", Value::List(vec![entry; 10_000]));
    handle(&letter);

    let long_name = "kafka_dlt-original-".to_owned() + &"x".repeat(64 << 10);
    handle(&record(&[(&long_name, Some(b"1")), ("kafka_dlt-exception-stacktrace", Some(&[0xff; 1 << 16]))]));
    let mut deep = record(&[]);
    deep.message.body = Some([b"{\"specversion\":".repeat(1_000), b"1".to_vec()].concat().into());
    handle(&deep);
    let open = "{\"payload\":{\"source\":".repeat(20_000);
    deep.message.body = Some(open.into_bytes().into());
    handle(&deep);
    let taken = begun.elapsed();
    println!("hostile: Kafka sizes in {taken:?}");
    // Some tenths of a second on an idle machine; growth with the square would be minutes.
    assert!(taken < Duration::from_secs(30), "{taken:?}");
}

#[test]
fn a_declared_convention_reads_hostile_letters() {
    use redrive::topology::{At, FailureConvention, Forms, NumberForm, Place, TimeForm};
    let header = |name: &str| Some(At::nowhere(Place::Header(name.to_owned())));
    let convention = FailureConvention {
        error: header("x-err"),
        message: header("x-msg"),
        origin: header("x-src"),
        attempts: header("x-n"),
        attempts_as: Forms::only(NumberForm::Int32),
        at: header("x-t"),
        at_as: Forms::only(TimeForm::Milliseconds),
        stack: Some(At::nowhere(Place::Body("/trace".to_owned()))),
        strip: vec![At::nowhere("x-err".to_owned()), At::nowhere("x-n".to_owned())],
        ..FailureConvention::default()
    };
    let mut letter = record(&[
        ("x-err", Some(b"a.B")),
        ("x-msg", Some(b"no rate")),
        ("x-src", Some(b"orders")),
        ("x-n", Some(&3i32.to_be_bytes())),
        ("x-t", Some(b"1795975000123")),
        ("tenant", Some(b"acme")),
    ]);
    letter.message.body = Some(bytes::Bytes::from_static(
        br#"{"trace": "a.B: no rate\n\tat com.example.C.d(C.java:1)\nCaused by: e.F: g\n\t... 3 more\n"}"#,
    ));
    let context = dialect::read_declared(&letter, Some(&convention));
    let last = context.last().unwrap();
    assert_eq!((last.error_class.as_deref(), last.message.as_deref()), (Some("a.B"), Some("no rate")));
    assert_eq!((last.root_class.as_deref(), last.root_message.as_deref()), (Some("e.F"), Some("g")));
    assert_eq!((context.attempts, last.at.map(|at| at.millis())), (Some(3), Some(1_795_975_000_123)));
    assert_eq!(context.origin.as_ref().unwrap().topic.as_deref(), Some("orders"));
    assert_eq!(context.readings[0].dialect, "declared");
    let message = dialect::outgoing(&letter, &context).unwrap();
    let names: Vec<_> = message.headers.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, ["x-msg", "x-src", "x-t", "tenant"]);
    // Wrong widths are doubts, never numbers.
    letter.message.headers.replace("x-n", Value::from_bytes(&b"\x00\x03"[..]));
    letter.message.headers.replace("x-t", Value::from_bytes(&b"soon"[..]));
    let context = dialect::read_declared(&letter, Some(&convention));
    assert_eq!((context.attempts, context.last().unwrap().at), (None, None));
    assert!(context.doubts.iter().any(|doubt| doubt.field == "attempts"));
    // Without any of its headers it says nothing.
    let other = dialect::read_declared(&record(&[]), Some(&convention));
    assert!(other.readings.is_empty());
}
