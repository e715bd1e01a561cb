//! How fast letters are read and fingerprinted, on one core, with a stack trace of 2 KiB.
//!
//! `cargo bench --no-default-features --bench dialects -- [LETTERS]`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use redrive::dialect;
use redrive::failure::{fingerprint, stack};
use redrive::letter::{Facts, Headers, LetterId, Message, Place, Position, RawLetter, Value};

const WRAPPER: &str = "org.springframework.kafka.listener.ListenerExecutionFailedException";

/// A Java trace of about 2 KiB: a wrapper, the application's error, its cause.
fn trace() -> String {
    let frames = |package: &str, count: usize| -> String {
        (0..count)
            .map(|n| format!("\tat {package}.SomeContainer$Inner.invokeStep{n}(SomeContainer.java:{n})\n"))
            .collect()
    };
    let mut text = format!("{WRAPPER}: Listener failed\n");
    text += &frames("org.springframework.kafka.listener", 8);
    text += "Caused by: com.example.orders.OrderProcessingException: cannot bill order 5001\n";
    text += "\tat com.example.orders.BillingListener.onOrder(BillingListener.java:56)\n";
    text += &frames("java.base/jdk.internal.reflect", 8);
    text +=
        "\t... 17 more\nCaused by: java.net.SocketTimeoutException: payment gateway: no answer in 3000 ms\n";
    text += &frames("java.base/sun.nio.ch", 5);
    text + "\t... 26 more\n"
}

fn letter(headers: Vec<(&str, Vec<u8>)>) -> RawLetter {
    let headers: Headers =
        headers.into_iter().map(|(name, value)| (name.to_owned(), Value::from_bytes(value))).collect();
    let body = bytes::Bytes::from_static(br#"{"orderId": 5001, "currency": "EUR", "total": "119.90"}"#);
    RawLetter {
        id: LetterId::new("p3o41"),
        position: Position::new("3:41"),
        arrival: 41,
        body_len: Some(body.len() as u64),
        message: Message {
            key: Some(bytes::Bytes::from_static(b"C-1881")),
            body: Some(body),
            headers,
            properties: Headers::new(),
        },
        facts: Facts {
            queue: "orders.dlq".into(),
            place: Some(Place { partition: 3, offset: 41 }),
            ..Facts::default()
        },
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let count: usize = arguments.next().map_or(300_000, |n| n.parse().unwrap());
    let trace = trace();
    let spring = letter(vec![
        ("event-id", b"ev-70412".to_vec()),
        ("content-type", b"application/json".to_vec()),
        ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_vec()),
        ("kafka_dlt-exception-fqcn", WRAPPER.as_bytes().to_vec()),
        ("kafka_dlt-exception-cause-fqcn", b"com.example.orders.OrderProcessingException".to_vec()),
        ("kafka_dlt-exception-message", b"Listener failed; cannot bill order 5001".to_vec()),
        ("kafka_dlt-exception-stacktrace", trace.clone().into_bytes()),
        ("kafka_dlt-original-topic", b"orders".to_vec()),
        ("kafka_dlt-original-partition", 3i32.to_be_bytes().to_vec()),
        ("kafka_dlt-original-offset", 90_412i64.to_be_bytes().to_vec()),
        ("kafka_dlt-original-timestamp", 1_795_975_000_000i64.to_be_bytes().to_vec()),
        ("kafka_dlt-original-timestamp-type", b"CreateTime".to_vec()),
        ("kafka_dlt-original-consumer-group", b"billing".to_vec()),
    ]);
    let bare = letter(vec![("event-id", b"ev-70412".to_vec())]);
    println!("stack trace of {} bytes", trace.len());
    let time = |what: &str, work: &dyn Fn()| {
        let begun = Instant::now();
        for _ in 0..count {
            work();
        }
        println!("{what:<44} {:>12.0}/s", count as f64 / begun.elapsed().as_secs_f64());
    };
    time("innermost cause and first own frame", &|| {
        black_box((stack::root(black_box(&trace)), stack::own_frame(black_box(&trace), &[])));
    });
    time("read, Spring letter", &|| {
        black_box(dialect::read(black_box(&spring)));
    });
    time("read and fingerprint, Spring letter", &|| {
        black_box(fingerprint(&dialect::read(black_box(&spring)), &[]));
    });
    time("read and fingerprint, nothing known", &|| {
        black_box(fingerprint(&dialect::read(black_box(&bare)), &[]));
    });
}
