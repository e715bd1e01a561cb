//! The language by example and by property: what it selects, what it refuses, what it prints.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::letter::{Facts, LetterId, Message, Position, RawLetter, Value};
use crate::topology::{At, Channel, EventIdRule, GroupRule};

const NOW: Time = Time::from_millis(1_796_000_000_000);

fn channel() -> Channel {
    Channel {
        event_id: At::nowhere(EventIdRule::Header("event-id".to_owned())),
        group: At::nowhere(GroupRule::Key),
        ..Channel::default()
    }
}

fn letter(body: &str) -> DeadLetter {
    let mut message = Message {
        key: Some(Bytes::from_static(b"C-17")),
        body: Some(Bytes::copy_from_slice(body.as_bytes())),
        ..Message::default()
    };
    message.headers.push("event-id", Value::from_text("ev-1"));
    message.headers.push("tenant", Value::from_text("a"));
    message.headers.push("tenant", Value::from_bytes(b"b".to_vec()));
    message.headers.push("n", Value::I32(7));
    message.headers.push("none", Value::Null);
    message.headers.push("redrive-attempt", Value::I64(4));
    message.headers.push("redrive-count", Value::from_text("2"));
    message.headers.push(
        "redrive-deaths",
        Value::from_text(
            r#"[{"at":"2026-11-29T02:03:59Z","queue":"orders","class":"java.net.SocketTimeoutException",
                "message":"no answer in 3000 ms","consumer":"billing","trace":"4bf9"}]"#,
        ),
    );
    message.properties.push("message_id", Value::from_text("m-1"));
    DeadLetter::of(
        RawLetter {
            id: LetterId::new("p3o41"),
            position: Position::new("3/41"),
            arrival: 41,
            body_len: Some(body.len() as u64),
            message,
            facts: Facts { queue: Arc::from("orders.dlq"), ..Facts::default() },
        },
        &channel(),
    )
}

fn ask(expression: &str) -> Option<bool> {
    let letter = letter(r#"{"order":{"total":119.9,"code":"17","id":12345678901,"gone":null},"a/b":true}"#);
    parse(expression).unwrap_or_else(|fault| panic!("{expression}: {fault}")).holds(&letter, NOW)
}

#[test]
fn every_field_is_asked() {
    for yes in [
        "id = \"ev-1\"",
        "id = ev-1",
        "group = C-17",
        "letter = p3",
        "error = java.net.SocketTimeoutException",
        "error = SocketTimeoutException",
        "error ~ \"Timeout\"",
        "error ~ 'no answer'",
        "message ~ \"in \\d+ ms\"",
        "message !~ refused",
        "consumer = billing",
        "trace = 4bf9",
        "dialect = redrive",
        "origin = orders",
        "attempts >= 3",
        "attempts = 4",
        "redriven = 2",
        "size > 100",
        "size < 2KiB",
        "died >= 2026-11-29T02:03:59Z",
        "died < 2026-11-29T03:03:59.001+01:00",
        "header.tenant = a",
        "header.tenant = b",
        "header.n = 7",
        "header.n < 7.5",
        "header.n = \"7\"",
        "header.\"none\" exists",
        "not header.gone exists",
        "property.message_id = m-1",
        "body ~ total",
        "body./order/total > 100",
        "body./order/code >= 17",
        "body./order/id = 12345678901",
        "body./order/id != 12345678902",
        "body.\"/a~1b\" = true",
        "cause exists",
        "group = x or (id = ev-1 and not attempts < 3)",
    ] {
        assert_eq!(ask(yes), Some(true), "{yes}");
    }
    for no in [
        "group = c-17",
        "header.tenant != b",
        "error = Exception",
        "error = \"\"",
        "cause = none",
        "letter = \"\"",
        "not id = ev-1",
    ] {
        assert_eq!(ask(no), Some(false), "{no}");
    }
}

#[test]
fn what_a_letter_does_not_say_is_neither_yes_nor_no() {
    for unknown in [
        "header.gone = x",
        "header.gone != x",
        "not header.gone = x",
        "header.none = x",
        "body./order/gone = 1",
        "header.tenant > 3",
        "reason = rejected",
        "header.gone = x and id = ev-1",
        "header.gone = x or id = ev-2",
    ] {
        assert_eq!(ask(unknown), None, "{unknown}");
    }
    assert_eq!(ask("header.gone = x and id = ev-2"), Some(false));
    assert_eq!(ask("header.gone = x or id = ev-1"), Some(true));
}

#[test]
fn faults_point_at_the_column_and_say_what_was_expected() {
    for (text, column, expected) in [
        ("", 1, "a condition"),
        ("age > 2", 7, "a number with ms, s, m, h or d"),
        ("age > 2 hours", 7, "a number with ms, s, m, h or d"),
        ("age > 2h ago", 10, "`and`, `or` or the end"),
        ("eror = x", 1, "did you mean `error`?"),
        ("id == x", 4, "`=`"),
        ("id =~ x", 4, "`~`"),
        ("id =", 5, "a value after `=`"),
        ("id", 3, "an operator after `id`"),
        ("id = and", 6, "a word, or text in quotes"),
        ("group < x", 7, "`=`, `!=`, `~`, `!~` or `exists`"),
        ("attempts ~ 3", 10, "`=`, `!=`, `<`"),
        ("attempts > x", 12, "for instance `3`"),
        ("attempts > 'x'", 12, "a whole number"),
        ("id = x and", 11, "a field, `not` or `(`"),
        ("(id = x", 1, "`)` after its conditions"),
        ("id = x)", 7, "`and`, `or` or the end"),
        ("id = \"x", 6, "a closing `\"`"),
        ("id = x && group = y", 8, "`and`"),
        ("id ~ \"(\"", 6, "a regular expression"),
        ("body.order.total > 3", 1, "`body./order/total`"),
        ("header. = 3", 1, "a name after the point"),
        ("header = 3", 1, "`header.` and a name"),
        ("header.x > abc", 12, "a number without quotes"),
        ("died > 2026-11-30T00:00:00", 8, "a time with its zone"),
        ("äöü = x", 1, "one of cause"),
        ("id = ä and x = 3", 12, "one of cause"),
    ] {
        let fault = parse(text).expect_err(text);
        assert_eq!(fault.column(text), column, "{text}: {fault}");
        assert!(fault.expected.contains(expected), "{text}: {fault}");
    }
}

#[test]
fn patterns_are_bounded() {
    assert!(Pattern::new("((a{100}){100}){100}").unwrap_err().contains("1 MiB"));
    assert!(Pattern::new(&"a".repeat(2000)).unwrap_err().contains("2000 bytes"));
    assert!(parse(&"(".repeat(100)).unwrap_err().problem.contains("deep"));
    assert!(parse(&format!("{}id = x", "not ".repeat(100))).unwrap_err().problem.contains("deep"));
    assert!(parse(&"x".repeat(5000)).unwrap_err().problem.contains("5000 bytes"));
}

#[test]
fn t01_z_means_utc_whatever_the_machine_says() {
    assert_eq!(moment("2025-07-21T23:28:00Z", NOW), Ok(Time::from_millis(1_753_140_480_000)));
    assert_eq!(moment("2025-07-22T01:28:00+02:00", NOW), Ok(Time::from_millis(1_753_140_480_000)));
}

#[test]
fn t02_no_zone_two_zones_and_bare_numbers_are_refused_with_the_way_to_write_them() {
    let said = |text: &str| moment(text, NOW).expect_err(text);
    assert!(said("2025-07-21T23:28:00").contains("no zone; `2025-07-21T23:28:00Z` is UTC"));
    assert!(said("2025-07-21T23:28:00+00:00Z").contains("two zones"));
    assert!(said("1753140480").contains("as seconds since 1970 it would be written `2025-07-21T23:28:00Z`"));
    assert!(
        said("1753140480000")
            .contains("as milliseconds since 1970 it would be written `2025-07-21T23:28:00Z`")
    );
    assert!(said("60").contains("`60m` or `60h`"));
    assert!(said("2025-07-21").contains("`2025-07-21T00:00:00Z`"));
    assert!(said("yesterday").contains("neither a span nor a time"));
    assert!(said("2025-13-41T00:00:00Z").contains("no time of the calendar"));
    assert!(said("").contains("no time is given"));
    assert_eq!(moment("2h", NOW), Ok(NOW.minus(Duration::from_secs(7200))));
    assert_eq!(moment("1d12h", NOW), Ok(NOW.minus(Duration::from_secs(36 * 3600))));
}

#[test]
fn a_selection_filters_and_tells_what_it_needs() {
    let letter = letter("{}");
    let mut selection = Selection { since: Time::parse("2026-11-29T02:03:59Z"), ..Selection::default() };
    assert_eq!(selection.selects(&letter, NOW), Some(true));
    selection.until = Time::parse("2026-11-29T02:03:59Z");
    assert_eq!(selection.selects(&letter, NOW), Some(false));
    assert!(!selection.needs_bodies());
    selection.filter = Some(parse("not (id = x or body./a = 1)").unwrap());
    assert!(selection.needs_bodies());
    let flags =
        "--where 'not (id = x or body./a = 1)' --since 2026-11-29T02:03:59Z --until 2026-11-29T02:03:59Z";
    assert_eq!(selection.to_string(), flags);
    let cause = letter.cause.id.as_str();
    let of_cause = Selection { cause: Some(cause[..3].to_owned()), ..Selection::default() };
    assert_eq!(of_cause.selects(&letter, NOW), Some(true));
}

fn field(kind: Kind) -> BoxedStrategy<Field> {
    if kind == Kind::Dynamic {
        return prop_oneof![
            "\\PC{1,8}".prop_map(Field::Header),
            "[a-z_]{1,8}".prop_map(Field::Property),
            "/\\PC{0,8}".prop_map(Field::BodyAt),
        ]
        .boxed();
    }
    let fields: Vec<Field> =
        Field::WORDS.iter().map(|(_, field)| field.clone()).filter(|field| field.kind() == kind).collect();
    proptest::sample::select(fields).boxed()
}

fn compare() -> impl Strategy<Value = Compare> {
    proptest::sample::select(vec![
        Compare::Equal,
        Compare::NotEqual,
        Compare::Less,
        Compare::LessOrEqual,
        Compare::Greater,
        Compare::GreaterOrEqual,
    ])
}

fn text_question() -> impl Strategy<Value = TextTest> {
    let any_text = || any::<String>().prop_map(|text| text.chars().take(20).collect::<String>());
    let pattern = || "[a-z.*\\\\dé\"' ]{0,12}".prop_filter_map("compiles", |text| Pattern::new(&text).ok());
    prop_oneof![
        any_text().prop_map(TextTest::Is),
        any_text().prop_map(TextTest::IsNot),
        pattern().prop_map(TextTest::Matches),
        pattern().prop_map(TextTest::MatchesNot),
    ]
}

fn test() -> impl Strategy<Value = Test> {
    let any_field = prop_oneof![
        field(Kind::Text),
        field(Kind::Number),
        field(Kind::Size),
        field(Kind::Duration),
        field(Kind::Time),
        field(Kind::Dynamic)
    ];
    prop_oneof![
        any_field.prop_map(Test::Exists),
        (prop_oneof![field(Kind::Text), field(Kind::Dynamic)], text_question())
            .prop_map(|(field, test)| Test::Text(field, test)),
        (field(Kind::Number), compare(), any::<i64>()).prop_map(|(f, c, n)| Test::Number(f, c, n)),
        (compare(), any::<u64>()).prop_map(|(c, n)| Test::Size(c, n)),
        (compare(), 0u64..1 << 50).prop_map(|(c, ms)| Test::Age(c, Duration::from_millis(ms))),
        (compare(), 0i64..4_000_000_000_000).prop_map(|(c, ms)| Test::Died(c, Time::from_millis(ms))),
        (field(Kind::Dynamic), compare(), any::<f64>()).prop_filter_map("finite", |(f, c, n)| Some(
            Test::Dynamic(f, c, Decimal::parse(&n.to_string())?)
        )),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    test().prop_map(Expression::Test).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 2..4).prop_map(Expression::And),
            proptest::collection::vec(inner.clone(), 2..4).prop_map(Expression::Or),
            inner.prop_map(|inner| Expression::Not(Box::new(inner))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_printed_reads_back_the_same(expression in expression()) {
        let text = expression.to_string();
        prop_assume!(text.len() <= 4_096);
        let back = parse(&text).map_err(|fault| TestCaseError::fail(format!("{text}\n{fault:?}")))?;
        prop_assert_eq!(&back, &expression, "{}", text);
        prop_assert_eq!(back.to_string(), text);
    }

    #[test]
    fn nothing_that_is_typed_panics(text in "\\PC{0,60}") {
        if let Err(fault) = parse(&text) {
            prop_assert!(fault.column(&text) <= text.chars().count() + 1);
            prop_assert!(text.get(fault.at).is_some());
        }
    }

    #[test]
    fn words_of_the_language_in_any_order_do_not_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "age", "id", "header.x", "body./a", "and", "or", "not", "(", ")", "=", "~", ">", "exists", "2h", "\"", "3",
        ]), 0..12)
    ) {
        let text = words.join(" ");
        if let Ok(expression) = parse(&text) {
            prop_assert_eq!(parse(&expression.to_string()).ok(), Some(expression));
        }
    }
}
