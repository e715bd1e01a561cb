//! Lists of values as text and back: to the bit, as a whole parser reads them, hostile ones, and how deep they may be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

fn scalar() -> impl Strategy<Value = Value> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        Just(Value::Null),
        bytes().prop_map(Value::Bytes),
        bytes().prop_map(Value::Text),
        "\\PC{0,20}".prop_map(Value::from_text),
        any::<String>().prop_map(Value::from_text),
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
        any::<(u8, u32)>().prop_map(|(scale, value)| Value::Decimal { scale, value }),
        any::<u64>().prop_map(Value::Timestamp),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::vec((any::<String>(), inner.clone()), 0..4).prop_map(Value::Table),
            (any::<String>(), inner)
                .prop_map(|(label, value)| Value::Labelled { label, value: Box::new(value) }),
        ]
    })
}

/// Not `==`: a NaN is to keep its bits.
fn bits(v: &Value) -> Value {
    match v {
        Value::F32(n) => Value::U32(n.to_bits()),
        Value::F64(n) => Value::Timestamp(n.to_bits()),
        Value::List(items) => Value::List(items.iter().map(bits).collect()),
        Value::Table(entries) => {
            Value::Table(entries.iter().map(|(name, v)| (name.clone(), bits(v))).collect())
        }
        Value::Labelled { label, value } => {
            Value::Labelled { label: label.clone(), value: Box::new(bits(value)) }
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_to_the_bit(
        pairs in prop::collection::vec((any::<String>(), any_value()), 0..6)
    ) {
        let headers: Headers = pairs.into_iter().collect();
        let json = Bytes::from(write(&headers).unwrap());
        let back = read(&json).unwrap();
        prop_assert_eq!(back.len(), headers.len());
        for (a, b) in headers.iter().zip(&back) {
            prop_assert_eq!(&a.name, &b.name);
            prop_assert_eq!(format!("{:?}", bits(&a.value)), format!("{:?}", bits(&b.value)));
        }
    }

    #[test]
    fn a_plain_list_is_read_as_a_whole_parser_reads_it(
        pairs in prop::collection::vec(("[a-z\"\\\\\n\u{1}é]{0,20}", "[a-z\"\\\\\n\t\u{1}é]{0,40}"), 1..5)
    ) {
        let json = Bytes::from(serde_json::to_string(&pairs).unwrap());
        let expected: Headers = pairs.iter().map(|(n, v)| (n.as_str(), Value::from_text(v.as_str()))).collect();
        prop_assert_eq!(&read(&json).unwrap(), &expected);
        if let Some(plain) = plain(&json, &mut Room::default()) {
            prop_assert_eq!(&plain, &expected);
        }
    }

    #[test]
    fn hostile_lists_are_errors_and_never_a_panic(json in any::<String>()) {
        let _ = read(&Bytes::from(json));
    }
}

#[test]
fn what_other_programs_may_write() {
    let read = |json: &'static str| read(&Bytes::from_static(json.as_bytes()));
    let headers =
        read(" [ [\"a\", \"x\"], [\"a\", null], [\"n\", 3], [\"\", {\"bytes\": \"00FF\"}] ] ").unwrap();
    let expected: Headers = [
        ("a".to_owned(), Value::from_text("x")),
        ("a".to_owned(), Value::Null),
        ("n".to_owned(), Value::I64(3)),
        (String::new(), Value::from_bytes(vec![0, 255])),
    ]
    .into_iter()
    .collect();
    assert_eq!(headers, expected);
    for bad in [
        "",
        "{}",
        "[[]]",
        "[[\"a\"]]",
        "[[\"a\",1,2]]",
        "[[1,\"a\"]]",
        "[[\"a\",{}]]",
        "[[\"a\",[]]]",
        "[[\"a\",{\"bytes\":\"0\"}]]",
        "[[\"a\",{\"bytes\":\"zz\"}]]",
        "[[\"a\",{\"i8\":300}]]",
        "[[\"a\",{\"i8\":1,\"u8\":1}]]",
        "[[\"a\",18446744073709551615]]",
        "[] []",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn nesting_has_a_bound_in_writing_and_in_reading() {
    let nested = |depth: usize| (0..depth).fold(Value::Null, |v, _| Value::Table(vec![(String::new(), v)]));
    let list = |depth| Headers::from_iter([("a".to_owned(), nested(depth))]);
    let json = Bytes::from(write(&list(29)).unwrap());
    assert_eq!(read(&json).unwrap(), list(29));
    assert!(write(&list(30)).is_err());
    assert!(read(&Bytes::from("[[\"a\",{\"list\":".repeat(2_000))).is_err());
}
