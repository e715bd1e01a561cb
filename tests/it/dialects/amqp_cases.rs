//! Cases of RabbitMQ that no capture shows: forged, old and stripped headers.

use redrive::clock::Time;
use redrive::dialect;
use redrive::failure::FailureContext;
use redrive::letter::{Facts, Headers, LetterId, Message, Position, RawLetter, Route, Value};

fn letter(headers: Headers) -> RawLetter {
    let body: &[u8] = br#"{"orderId":"o-1"}"#;
    RawLetter {
        id: LetterId::new("l1"),
        position: Position::new("1"),
        arrival: 1,
        body_len: Some(body.len() as u64),
        message: Message { key: None, body: Some(body.into()), headers, properties: Headers::new() },
        facts: Facts {
            queue: "orders.dlq".into(),
            route: Some(Route { exchange: "dlx".to_owned(), routing_key: "orders".to_owned() }),
            ..Facts::default()
        },
    }
}

fn text(value: &str) -> Value {
    Value::from_text(value)
}

fn entry(fields: &[(&str, Value)]) -> Value {
    Value::Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn death(queue: &str, exchange: &str, key: &str, count: Option<i64>) -> Value {
    let mut fields = vec![
        ("queue", text(queue)),
        ("reason", text("rejected")),
        ("exchange", text(exchange)),
        ("routing-keys", Value::List(vec![text(key)])),
        ("time", Value::Timestamp(1_745_575_728)),
    ];
    fields.extend(count.map(|n| ("count", Value::I64(n))));
    entry(&fields)
}

fn read(pairs: Vec<(&str, Value)>) -> FailureContext {
    dialect::read(&letter(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

fn doubts(context: &FailureContext, field: &str) -> String {
    let of = context.doubts.iter().filter(|doubt| doubt.field == field);
    of.map(|doubt| doubt.why.as_str()).collect::<Vec<_>>().join("; ")
}

#[test]
fn r01_the_brokers_count_is_a_view_and_redrives_own_count_travels() {
    // Redriven once, dead again on 4.x: x-death starts anew.
    let context = read(vec![
        ("x-death", Value::List(vec![death("orders", "", "orders", Some(1))])),
        ("redrive-count", text("1")),
        ("redrive-run", text("r1/7")),
    ]);
    assert_eq!(context.attempts, None);
    assert!(doubts(&context, "attempts").contains("at least 1"));
    let mut headers = Headers::new();
    headers.push("x-death", Value::List(vec![death("orders", "", "orders", Some(1))]));
    headers.push("redrive-count", text("1"));
    let letter = letter(headers);
    let context = dialect::read(&letter);
    let message = dialect::outgoing(&letter, &context).unwrap();
    assert_eq!(message.headers.last_text("redrive-count"), Some("1"));
    assert!(!message.headers.has("x-death"));
}

#[test]
fn r03_deaths_are_counted_in_both_forms() {
    let tier = entry(&[("queue", text("orders.retry")), ("reason", text("expired"))]);
    let bare = |queue| entry(&[("queue", text(queue)), ("reason", text("rejected"))]);
    let old = read(vec![("x-death", Value::List(vec![bare("orders"), tier, bare("orders")]))]);
    assert_eq!(old.attempts, Some(2));
    assert_eq!(old.origin.unwrap().queue.as_deref(), Some("orders"));
    let new = read(vec![("x-death", Value::List(vec![death("orders", "ev", "k", Some(4))]))]);
    assert_eq!(new.attempts, Some(4));
}

#[test]
fn r04_an_origin_that_may_not_be_the_first_says_so() {
    let without_exchange = entry(&[
        ("queue", text("B")),
        ("reason", text("rejected")),
        ("count", Value::I64(1)),
        ("routing-keys", Value::List(vec![text("b")])),
    ]);
    let context = read(vec![
        ("x-death", Value::List(vec![without_exchange])),
        ("x-first-death-queue", text("B")),
        ("x-first-death-reason", text("rejected")),
    ]);
    let origin = context.origin.clone().unwrap();
    assert_eq!((origin.queue.as_deref(), origin.exchange.as_deref()), (Some("B"), Some("")));
    assert!(doubts(&context, "origin.queue").contains("may not be the first"));
    // Nothing but x-first-death-*.
    let context = read(vec![("x-first-death-queue", text("B")), ("x-first-death-reason", text("rejected"))]);
    assert_eq!(context.origin.as_ref().unwrap().queue.as_deref(), Some("B"));
    assert!(doubts(&context, "origin.queue").contains("may not be the first"));
    assert_eq!(context.last().unwrap().reason.as_deref(), Some("rejected"));
}

#[test]
fn r04_a_letter_that_redrive_moved_names_where_it_first_died() {
    // It dies in A and is redriven to B, where 4.1 forgets A.
    let mut headers = Headers::new();
    headers.push("x-death", Value::List(vec![death("A", "ev", "k", Some(1))]));
    let channel = redrive::topology::Channel::default();
    let dead = redrive::dead_letter::DeadLetter::of(letter(headers), &channel);
    let copy = redrive::run::copy::outgoing(&dead, "r7d2f9", 1).unwrap();
    assert_eq!(copy.headers.last_text("redrive-origin"), Some(r#"{"queue":"A"}"#));
    let mut again = letter(copy.headers);
    again.message.headers.push("x-death", Value::List(vec![death("B", "", "B", Some(1))]));
    again.message.headers.push("x-first-death-queue", text("B"));
    let dead = redrive::dead_letter::DeadLetter::of(again, &channel);
    assert_eq!(dead.context.origin.as_ref().unwrap().queue.as_deref(), Some("A"));
    assert_eq!(dead.context.last().unwrap().place.as_ref().unwrap().queue.as_deref(), Some("B"));
    // And on: what is known stays, whatever the broker says now.
    let copy = redrive::run::copy::outgoing(&dead, "r7d2f9", 2).unwrap();
    assert_eq!(copy.headers.all("redrive-origin").count(), 1);
    assert_eq!(copy.headers.last_text("redrive-origin"), Some(r#"{"queue":"A"}"#));
}

#[test]
fn r05_the_time_is_the_first_deaths() {
    let context = read(vec![("x-death", Value::List(vec![death("orders", "ev", "k", Some(5))]))]);
    let last = context.last().unwrap();
    assert_eq!(last.at, Time::parse("2025-04-25T10:08:48Z"));
    assert!(last.at_is_first);
    let once = read(vec![("x-death", Value::List(vec![death("orders", "ev", "k", Some(1))]))]);
    assert!(!once.last().unwrap().at_is_first);
}

#[test]
fn r06_without_x_death_the_broker_recorded_nothing() {
    let context = read(vec![("tenant", text("acme"))]);
    assert_eq!((context.origin, context.attempts, context.deaths.len()), (None, None, 0));
    assert!(context.readings[0].why.contains("recorded no death"), "{:?}", context.readings);
}

#[test]
fn r07_spring_without_message_and_trace_still_names_the_origin() {
    let context = read(vec![("x-original-exchange", text("orders")), ("x-original-routingKey", text("k"))]);
    let origin = context.origin.clone().unwrap();
    assert_eq!((origin.exchange.as_deref(), origin.routing_key.as_deref()), (Some("orders"), Some("k")));
    assert_eq!(context.last().unwrap().message, None);
    assert_eq!(doubts(&context, "message"), "not recorded");
    // An empty message is none.
    let context = read(vec![("x-original-routingKey", text("k")), ("x-exception-message", text(""))]);
    assert_eq!(context.last().unwrap().message, None);
}

#[test]
fn r08_forged_deaths_are_skipped_counted_and_bounded() {
    let long = "q".repeat(300);
    let mut entries = vec![
        text("x"),
        entry(&[("reason", text("rejected"))]),
        death(&long, "ev", "k", Some(1)),
        death("orders", "ev", "k", Some(2)),
    ];
    entries.extend((0..10_000).map(|n| death(&format!("q{n}"), "ev", "k", Some(1))));
    let started = std::time::Instant::now();
    let context = read(vec![("x-death", Value::List(entries))]);
    assert!(started.elapsed().as_millis() < 2_000);
    assert!(doubts(&context, "deaths").contains("3 unreadable"), "{}", doubts(&context, "deaths"));
    assert!(context.deaths.len() <= 64);
    assert!(context.deaths.iter().all(|death| {
        death.place.as_ref().is_some_and(|place| place.queue.as_ref().is_some_and(|queue| queue.len() <= 255))
    }));
    for value in [text("x"), Value::Null, Value::I64(7), Value::List(vec![]), Value::Table(vec![])] {
        read(vec![("x-death", value)]);
    }
}

#[test]
fn a_death_that_no_consumer_saw_is_no_try() {
    for reason in ["expired", "maxlen"] {
        let one = entry(&[
            ("queue", text("orders")),
            ("reason", text(reason)),
            ("count", Value::I64(3)),
            ("exchange", text("ev")),
        ]);
        let context = read(vec![("x-death", Value::List(vec![one]))]);
        assert_eq!(context.attempts, None, "{reason}");
        assert_eq!(context.last().unwrap().reason.as_deref(), Some(reason));
    }
}

#[test]
fn numbers_come_in_any_width_and_as_text() {
    for count in [Value::I8(2), Value::I16(2), Value::I32(2), Value::U32(2), Value::I64(2), text("2")] {
        let one = entry(&[
            ("queue", text("orders")),
            ("reason", text("rejected")),
            ("exchange", text("ev")),
            ("count", count.clone()),
        ]);
        assert_eq!(read(vec![("x-death", Value::List(vec![one]))]).attempts, Some(2), "{count:?}");
        let wolverine = read(vec![
            ("exception-type", text("A")),
            ("exception-message", text("m")),
            ("failed-at", text("2026-03-01T12:00:00.1234567Z")),
            ("attempts", count.clone()),
        ]);
        assert_eq!(wolverine.attempts, Some(2));
        assert_eq!(wolverine.last().unwrap().at, Some(Time::from_millis(1_772_366_400_123)));
        let masstransit = read(vec![
            ("MT-Reason", text("fault")),
            ("MT-Fault-InputAddress", text("rabbitmq://host/orders")),
            ("MT-Fault-RetryCount", count),
        ]);
        assert_eq!(masstransit.attempts, Some(3));
    }
}

#[test]
fn rebus_before_aggregates_lists_exceptions_in_its_own_words() {
    let details = "2 unhandled exceptions: 01/03/2026 12:00:00 +00:00: Shop.PaymentDeclinedException: card declined\n \
                   ---> System.TimeoutException: no answer\n   --- End of inner exception stack trace ---\n   at Shop.A.B()";
    let context = read(vec![("rbs2-error-details", text(details)), ("rbs2-source-queue", text("orders"))]);
    let last = context.last().unwrap();
    assert_eq!(context.attempts, Some(2));
    assert_eq!(last.error_class.as_deref(), Some("Shop.PaymentDeclinedException"));
    assert_eq!(last.root_class.as_deref(), Some("System.TimeoutException"));
    assert_eq!(last.message.as_deref(), Some("card declined"));
    assert_eq!(last.stack.as_deref(), Some(details));
    // An aggregate over a chain: the handler's own error is the one behind the aggregate.
    let details = "System.AggregateException: 1 unhandled exceptions (card declined)\n ---> Shop.PaymentDeclinedException: \
                   card declined\n ---> System.TimeoutException: no answer\n   --- End of inner exception stack trace ---\n   \
                   at Shop.A.B()\n   --- End of inner exception stack trace ---";
    let context = read(vec![("rbs2-error-details", text(details))]);
    let last = context.last().unwrap();
    assert_eq!(context.attempts, Some(1));
    assert_eq!(last.message.as_deref(), Some("card declined"));
    assert_eq!(last.root_class.as_deref(), Some("System.TimeoutException"));
    assert_eq!(last.root_message.as_deref(), Some("no answer"));
}

#[test]
fn masstransits_headers_may_lie_in_the_body() {
    let mut letter = letter(Headers::new());
    letter.message.body = Some(
        br#"{"messageId":"m-1","messageType":["urn:message:A"],"message":{},"headers":{"MT-Reason":"fault",
            "MT-Fault-ExceptionType":"Shop.A","MT-Fault-Message":"no","MT-Fault-RetryCount":"2",
            "MT-Fault-InputAddress":"amazonsqs://us-east-1/orders"}}"#
            .as_slice()
            .into(),
    );
    let context = dialect::read(&letter);
    assert_eq!(context.attempts, Some(3));
    assert_eq!(context.origin.unwrap().queue.as_deref(), Some("orders"));
    assert_eq!(context.event_id.as_deref(), Some("m-1"));
    assert_eq!(context.deaths[0].error_class.as_deref(), Some("Shop.A"));
}

#[test]
fn celerys_retries_and_the_brokers_rejections_add_up() {
    let context = read(vec![
        ("task", text("orders.process")),
        ("id", text("t-1")),
        ("argsrepr", text("()")),
        ("retries", Value::I64(2)),
        ("x-death", Value::List(vec![death("orders", "", "orders", Some(3))])),
    ]);
    assert_eq!(context.attempts, Some(5));
    assert_eq!(context.event_id.as_deref(), Some("t-1"));
}

#[test]
fn a_wait_after_the_last_death_is_said() {
    let tier = entry(&[
        ("queue", text("orders.retry")),
        ("reason", text("expired")),
        ("time", Value::Timestamp(1_745_575_800)),
    ]);
    let context = read(vec![("x-death", Value::List(vec![tier, death("orders", "ev", "k", Some(2))]))]);
    assert_eq!(context.attempts, Some(2));
    assert_eq!(context.last().unwrap().reason.as_deref(), Some("rejected"));
    assert!(doubts(&context, "deaths").contains("waited since"));
}

#[test]
fn what_a_framework_settles_the_broker_does_not_doubt() {
    let context = read(vec![
        ("task", text("orders.process")),
        ("id", text("t-1")),
        ("argsrepr", text("()")),
        ("retries", Value::I64(2)),
        ("x-death", Value::List(vec![death("orders", "", "orders", Some(1))])),
    ]);
    assert_eq!(
        (doubts(&context, "attempts"), doubts(&context, "origin.exchange")),
        (String::new(), String::new())
    );
    assert_eq!(context.origin.unwrap().exchange.as_deref(), Some(""));
}

#[test]
fn waits_in_delay_queues_are_no_origin_of_what_a_framework_buried() {
    let wait = entry(&[
        ("queue", text("nsb.v2.delay-level-03")),
        ("reason", text("expired")),
        ("exchange", text("nsb.v2.delay-level-27")),
        ("count", Value::I64(2)),
    ]);
    let context = read(vec![
        ("NServiceBus.FailedQ", text("Shop.Orders")),
        ("NServiceBus.TimeOfFailure", text("2026-03-01 12:00:00:123000 Z")),
        ("NServiceBus.ExceptionInfo.ExceptionType", text("Shop.A")),
        ("x-death", Value::List(vec![wait])),
    ]);
    let origin = context.origin.clone().unwrap();
    assert_eq!((origin.queue.as_deref(), origin.exchange), (Some("Shop.Orders"), None));
    assert_eq!(context.deaths.len(), 1);
    let broker = context.readings.iter().find(|reading| reading.dialect == "rabbitmq").unwrap();
    assert!(broker.ignored[0].why.contains("waits"), "{broker:?}");
}

#[test]
fn headers_that_only_share_a_name_travel_unchanged() {
    let pairs = [
        ("retry_info", text("see wiki")),
        ("task", text("ship")),
        ("id", text("7")),
        ("retries", Value::I32(3)),
        ("attempts", Value::I32(2)),
        ("laravel", text("yes")),
        ("rascal", text("yes")),
        ("retry-count", Value::I32(1)),
        ("Topic", text("t")),
        ("MessageType", text("m")),
        ("ErrorMessage", text("e")),
    ];
    let headers: Headers = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let letter = letter(headers.clone());
    let context = dialect::read(&letter);
    assert_eq!(dialect::outgoing(&letter, &context).unwrap().headers, headers);
}
