//! A home-made convention (`failure:`) over headers of every type that brokers have: counts and times in each
//! form that can be declared, and in several at once.

use redrive::clock::Time;
use redrive::dialect;
use redrive::letter::Value;
use redrive::topology::{At, FailureConvention, Forms, NumberForm, Place, TimeForm};

use super::cases::record;

fn several<T>(forms: Vec<T>) -> Forms<T> {
    Forms { with_it: forms.into_iter().map(At::nowhere).collect(), beside: None }
}

fn convention(attempts: Vec<NumberForm>, at: Vec<TimeForm>) -> FailureConvention {
    let header = |name: &str| Some(At::nowhere(Place::Header(name.to_owned())));
    FailureConvention {
        attempts: header("x-n"),
        attempts_as: several(attempts),
        at: header("x-t"),
        at_as: several(at),
        ..FailureConvention::default()
    }
}

/// Count and time of a letter with these headers, and whether there is a doubt.
fn read(convention: &FailureConvention, name: &str, value: &Value) -> (Option<u32>, Option<i64>, bool) {
    let mut letter = record(&[]);
    letter.message.headers.replace(name, value.clone());
    let context = dialect::read_declared(&letter, Some(convention));
    let at = context.last().and_then(|death| death.at).map(Time::millis);
    (
        context.attempts,
        at,
        context.doubts.iter().any(|doubt| ["attempts", "failed_at"].contains(&doubt.field)),
    )
}

#[test]
fn a_count_is_read_in_each_declared_form() {
    use NumberForm::{Int32, Text};
    let text = |text: &str| Value::from_text(text.to_owned());
    let bytes = |bytes: &[u8]| Value::from_bytes(bytes.to_vec());
    let (int32, digits, both) = (vec![Int32], vec![], vec![Int32, Text]);
    for (forms, value, want) in [
        (&int32, bytes(&[0, 0, 0, 7]), Some(7)),
        (&int32, Value::I32(7), Some(7)),
        (&int32, Value::I64(7), Some(7)),
        (&int32, bytes(b"1234"), None),
        (&int32, bytes(&[0, 7]), None),
        (&int32, bytes(&(-1i32).to_be_bytes()), None),
        (&digits, text("7"), Some(7)),
        (&digits, bytes(b" 7 "), Some(7)),
        (&digits, Value::U8(7), Some(7)),
        (&digits, bytes(&[0, 0, 0, 7]), None),
        (&digits, text("seven"), None),
        (&digits, text("99999999999"), None),
        (&both, bytes(&[0, 0, 0, 7]), Some(7)),
        (&both, text("7"), Some(7)),
        (&both, text("1234"), Some(1234)),
        (&both, Value::I16(7), Some(7)),
        (&both, text("x"), None),
    ] {
        let (found, _, doubt) = read(&convention(forms.clone(), vec![]), "x-n", &value);
        assert_eq!((found, doubt), (want, want.is_none()), "{forms:?} {value:?}");
    }
}

#[test]
fn a_time_is_read_in_each_declared_form() {
    use TimeForm::{Milliseconds, Rfc3339, Seconds};
    const WANT: i64 = 1_795_975_000_000;
    let text = |text: &str| Value::from_text(text.to_owned());
    let bytes = |bytes: &[u8]| Value::from_bytes(bytes.to_vec());
    let (ms, s, rfc, all) = (vec![Milliseconds], vec![Seconds], vec![], vec![Milliseconds, Seconds, Rfc3339]);
    for (forms, value, want) in [
        (&ms, text("1795975000000"), Some(WANT)),
        (&ms, bytes(&WANT.to_be_bytes()), Some(WANT)),
        (&ms, Value::I64(WANT), Some(WANT)),
        (&ms, Value::F64(1_795_975_000_000.0), Some(WANT)),
        (&ms, text("2026-11-29T17:56:40Z"), None),
        (&s, text("1795975000"), Some(WANT)),
        (&s, Value::I32(1_795_975_000), Some(WANT)),
        (&s, Value::Timestamp(1_795_975_000), Some(WANT)),
        (&s, Value::F64(1_795_975_000.25), Some(WANT + 250)),
        (&s, text("1795975000.25"), Some(WANT + 250)),
        (&s, bytes(&1_795_975_000i64.to_be_bytes()), Some(WANT)),
        // Milliseconds where seconds are declared would be the year 58,000.
        (&s, text("1795975000000"), None),
        (&s, Value::I64(i64::MAX), None),
        (&rfc, text("2026-11-29T17:56:40Z"), Some(WANT)),
        (&rfc, text("2026-11-29T19:56:40+02:00"), Some(WANT)),
        (&rfc, Value::Timestamp(1_795_975_000), Some(WANT)),
        (&rfc, text("2026-11-29 17:56:40"), None),
        (&rfc, text("1795975000"), None),
        (&all, text("2026-11-29T17:56:40Z"), Some(WANT)),
        (&all, text("1795975000000"), Some(WANT)),
        (&all, text("1795975000"), Some(WANT)),
        (&all, Value::I64(1_795_975_000), Some(WANT)),
        (&all, bytes(&WANT.to_be_bytes()), Some(WANT)),
        (&all, text("yesterday"), None),
    ] {
        let (_, found, doubt) = read(&convention(vec![], forms.clone()), "x-t", &value);
        assert_eq!((found, doubt), (want, want.is_none()), "{forms:?} {value:?}");
    }
}
