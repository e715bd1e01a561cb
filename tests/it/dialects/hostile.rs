//! Letters as an attacker, a broken client or a cut connection would make them: no panic, and no time that
//! grows with the square. Every real letter is bent in many ways, by a generator whose seed is fixed.

use std::time::{Duration, Instant};

use redrive::dialect;
use redrive::letter::{Headers, RawLetter, Value};

use super::capture::Capture;
use super::sent_back::all;

/// xorshift: the same letters in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn read_and_send(letter: &RawLetter) {
    let context = dialect::read(letter);
    let _ = dialect::outgoing(letter, &context);
    let _ = dialect::original(letter, &context);
}

fn bent_bytes(dice: &mut Dice, bytes: &[u8]) -> Vec<u8> {
    let mut bent = bytes.to_vec();
    match dice.roll(5) {
        0 => bent.truncate(dice.roll(bytes.len() + 1)),
        1 => {
            for _ in 0..=dice.roll(8) {
                if !bent.is_empty() {
                    let at = dice.roll(bent.len());
                    bent[at] = dice.roll(256) as u8;
                }
            }
        }
        2 => bent.extend_from_slice(bytes),
        3 => bent.insert(dice.roll(bytes.len() + 1), b"\"\\\xff\0{[:,"[dice.roll(8)]),
        _ => {
            let at = dice.roll(bytes.len() + 1);
            bent.drain(..at);
        }
    }
    bent
}

fn bent_value(dice: &mut Dice, value: &Value) -> Value {
    match dice.roll(12) {
        0 => Value::Null,
        1 => Value::I64(i64::MIN),
        2 => Value::I64(i64::MAX),
        3 => Value::F64(f64::NAN),
        4 => Value::Timestamp(u64::MAX),
        5 => Value::List(vec![value.clone(); 3]),
        6 => Value::Table(vec![("queue".to_owned(), value.clone()), (String::new(), Value::Null)]),
        7 => Value::from_text("99999999999999999999"),
        8 => Value::from_text("-1"),
        _ => match value {
            Value::Text(bytes) => Value::Text(bent_bytes(dice, bytes).into()),
            Value::Bytes(bytes) => Value::Bytes(bent_bytes(dice, bytes).into()),
            Value::List(items) => Value::List(items.iter().map(|item| bent_value(dice, item)).collect()),
            Value::Table(entries) => Value::Table(
                entries.iter().map(|(name, item)| (name.clone(), bent_value(dice, item))).collect(),
            ),
            Value::Labelled { label, value } => {
                Value::Labelled { label: label.clone(), value: Box::new(bent_value(dice, value)) }
            }
            other => other.clone(),
        },
    }
}

fn bent(dice: &mut Dice, headers: &Headers) -> Headers {
    headers
        .iter()
        .map(|header| {
            let value =
                if dice.roll(3) == 0 { bent_value(dice, &header.value) } else { header.value.clone() };
            (header.name.clone(), value)
        })
        .collect()
}

#[test]
fn bent_letters_are_read_without_panic() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let started = Instant::now();
    let mut letters = 0;
    for Capture { letter, .. } in all(&[""]) {
        // Big ones are few and slow in a debug build.
        let rounds = if letter.size() > 30_000 { 3 } else { 25 };
        for _ in 0..rounds {
            let mut bad = letter.clone();
            if dice.roll(2) == 0
                && let Some(body) = &letter.message.body
            {
                bad.message.body = Some(bent_bytes(&mut dice, body).into());
            }
            bad.message.headers = bent(&mut dice, &letter.message.headers);
            bad.message.properties = bent(&mut dice, &letter.message.properties);
            read_and_send(&bad);
            letters += 1;
        }
    }
    println!("hostile: {letters} bent letters in {:?}", started.elapsed());
}

#[test]
fn bodies_of_one_framework_under_headers_of_another() {
    let captures =
        all(&["celery", "dramatiq", "easynetq", "nservicebus", "symfony", "kicks", "laravel", "aws"]);
    for theirs in &captures {
        for ours in &captures {
            let mut mixed = ours.letter.clone();
            mixed.message.body = theirs.letter.message.body.clone();
            read_and_send(&mixed);
        }
    }
}

#[test]
fn sizes_and_depths_cost_no_more_than_their_length() {
    let base = all(&["easynetq"]).remove(0).letter;
    let started = Instant::now();
    let with_body = |body: Vec<u8>| {
        let mut letter = base.clone();
        letter.message.body = Some(body.into());
        read_and_send(&letter);
    };
    with_body([b"{\"a\":".repeat(1_000), b"1".to_vec(), b"}".repeat(1_000)].concat());
    with_body(b"[".repeat(500_000));
    with_body([&b"{\"requestContext\":"[..], &b"[".repeat(100_000)].concat());
    with_body([&b"O:36:\\\""[..], &b"\\\\".repeat(200_000)].concat());
    with_body(b"eyJ".repeat(200_000));
    let stamps = "RedeliveryStamp\0retryCount\";i:".repeat(20_000);
    with_body(format!("O:36:\"Symfony\\Component\\Messenger\\Envelope{stamps}").into_bytes());
    let with_header = |name: &str, value: Value| {
        let mut letter = base.clone();
        letter.message.headers.push(name, value);
        letter.message.headers.push("x-original-routingKey", Value::from_text("k"));
        letter.message.headers.push("NServiceBus.FailedQ", Value::from_text("q"));
        read_and_send(&letter);
    };
    with_header(&"x".repeat(64 << 10), Value::Null);
    with_header("rbs2-error-details", Value::from_text(" ---> ".repeat(20_000)));
    with_header("rbs2-error-details", Value::from_text("\n   at a".repeat(20_000)));
    with_header("NServiceBus.ExceptionInfo.StackTrace", Value::from_text("A.B: c\n ---> ".repeat(20_000)));
    with_header("x-exception-stacktrace", Value::from_text("x-exception-stacktrace=\n".repeat(20_000)));
    with_header("x-exception-stacktrace", Value::from_text("\nCaused by: a.B: c\n\tat d".repeat(20_000)));
    with_header(
        "x-exception-stacktrace",
        Value::from_text("\n\tSuppressed: a.B: c\n\t\tat d".repeat(20_000)),
    );
    with_header("retry_info", Value::from_text(format!("[{}{{}}]", "{},".repeat(100_000))));
    let mut deep = Value::Null;
    for _ in 0..64 {
        deep = Value::List(vec![deep.clone(), deep.clone()]);
        if deep.size() > 1 << 16 {
            break;
        }
    }
    with_header("x-death", deep);
    let many = (0..20_000).map(|n| (format!("MT-Fault-{n}"), Value::from_text("x")));
    let mut letter = base.clone();
    letter.message.headers = many.collect();
    read_and_send(&letter);
    let taken = started.elapsed();
    println!("hostile: sizes and depths in {taken:?}");
    assert!(taken < Duration::from_secs(10), "{taken:?}");
}
