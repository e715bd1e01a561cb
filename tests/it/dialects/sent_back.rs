//! What would be sent back: which headers, properties and bytes, and what is refused. The real letters of
//! the frameworks for which a verbatim redrive was tried, and what it did there.

use std::path::Path;

use redrive::dead_letter::DeadLetter;
use redrive::dialect;
use redrive::failure::{FailureContext, Prospect};
use redrive::letter::{Header, Headers, Message, RawLetter, Value};
use redrive::topology::{At, Channel, EventIdRule, GroupRule};

use super::capture::Capture;

fn letter(name: &str) -> RawLetter {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/letters");
    Capture::load(&folder.join(format!("{name}.json"))).letter
}

fn sent(letter: &RawLetter) -> Message {
    let context = dialect::read(letter);
    dialect::outgoing(letter, &context).unwrap_or_else(|refused| panic!("{refused:?}"))
}

fn refused(letter: &RawLetter) -> (String, String) {
    let context = dialect::read(letter);
    match dialect::outgoing(letter, &context) {
        Err(Prospect::Refused { why, way_round }) => (why, way_round),
        other => panic!("{other:?}"),
    }
}

fn names(headers: &Headers) -> Vec<&str> {
    headers.iter().map(|header| header.name.as_str()).collect()
}

fn one_try(context: &FailureContext) -> bool {
    context.prospects.iter().any(|prospect| matches!(prospect, Prospect::OneTry { .. }))
}

fn to_queue(context: &FailureContext) -> Option<&str> {
    context.prospects.iter().find_map(|prospect| match prospect {
        Prospect::ToQueue { queue, .. } => Some(queue.as_str()),
        _ => None,
    })
}

pub fn all(prefixes: &[&str]) -> Vec<Capture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/letters");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let captures = paths.iter().map(|path| Capture::load(path));
    captures.filter(|capture| prefixes.iter().any(|prefix| capture.name.starts_with(prefix))).collect()
}

const STAMP: &str = "X-Message-Stamp-Symfony\\Component\\Messenger\\Stamp\\";

#[test]
fn symfony_loses_a_letter_that_keeps_its_mark_so_the_mark_stays_behind() {
    for name in [
        "symfony-messenger-amqp-5.4.53-retries-exceeded-json",
        "symfony-messenger-amqp-5.4.53-unrecoverable-json",
    ] {
        let message = sent(&letter(name));
        let names = names(&message.headers);
        for own in ["SentToFailureTransportStamp", "ErrorDetailsStamp", "RedeliveryStamp", "DelayStamp"] {
            assert!(!names.contains(&format!("{STAMP}{own}").as_str()), "{name} keeps {own}");
        }
        assert!(names.contains(&format!("{STAMP}BusNameStamp").as_str()), "{names:?}");
        assert!(names.contains(&"type"));
        assert!(!names.iter().any(|name| name.starts_with("x-")), "{names:?}");
    }
    let tenant = sent(&letter("symfony-messenger-amqp-5.4.53-retries-exceeded-json"));
    assert_eq!(tenant.headers.last_text("tenant"), Some("acme"));
}

#[test]
fn symfony_on_sqs_has_its_stamps_in_one_attribute() {
    let before = letter("symfony-messenger-sqs-5.4.53-unrecoverable-json");
    let message = sent(&before);
    let kept = message.headers.last_text("X-Symfony-Messenger").unwrap();
    let stamps: serde_json::Value = serde_json::from_str(kept).unwrap();
    let stamps: Vec<&String> = stamps.as_object().unwrap().keys().collect();
    assert_eq!(stamps, [&format!("{STAMP}BusNameStamp")]);
    assert_eq!(message.headers.last_text("type"), Some("App\\Message\\ProcessOrder"));
    assert_eq!(message.body, before.message.body);
    // An attribute that cannot be read may hold the mark.
    let mut broken = before;
    broken.message.headers.replace("X-Symfony-Messenger", Value::from_text("{\"X-Message"));
    assert!(refused(&broken).0.contains("lost"));
}

#[test]
fn symfony_with_phps_serializer_is_refused_with_the_way_round() {
    for name in [
        "symfony-messenger-amqp-5.4.53-retries-exceeded-php",
        "symfony-messenger-amqp-5.4.53-unrecoverable-php",
        "symfony-messenger-sqs-5.4.53-retries-exceeded-php",
        "symfony-messenger-sqs-5.4.53-unrecoverable-php",
    ] {
        let (why, way_round) = refused(&letter(name));
        assert!(why.contains("SentToFailureTransportStamp"), "{why}");
        assert!(way_round.contains("messenger:failed:retry"), "{way_round}");
    }
}

#[test]
fn symfony_php_in_base64_is_refused_too() {
    let mut letter = letter("symfony-messenger-amqp-5.4.53-retries-exceeded-php");
    let text = redrive::letter::base64::encode(letter.message.body.as_ref().unwrap());
    letter.message.body = Some(text.into());
    assert_eq!(dialect::read(&letter).attempts, Some(3));
    refused(&letter);
}

/// What is too large to be looked into, cut off or torn may hold the mark all the same.
#[test]
fn symfony_php_is_refused_whatever_its_size_and_state() {
    let mut letter = letter("symfony-messenger-amqp-5.4.53-retries-exceeded-php");
    let body = letter.message.body.clone().unwrap();
    let large = [body.as_ref(), &vec![b' '; 2 << 20]].concat();
    let in_base64 = redrive::letter::base64::encode(&large);
    let torn = format!("{}!", redrive::letter::base64::encode(&body));
    let unnamed = String::from_utf8_lossy(&body).replace("originalReceiverName", "receiver");
    for (what, body) in [
        ("large", large),
        ("large in base64", in_base64.into_bytes()),
        ("torn", torn.into_bytes()),
        ("another layout", unnamed.into_bytes()),
    ] {
        letter.message.body = Some(body.into());
        let (_, way_round) = refused(&letter);
        assert!(way_round.contains("messenger:failed:retry"), "{what}: {way_round}");
    }
}

#[test]
fn an_envelope_that_cannot_be_opened_is_never_sent_as_the_message() {
    let mut old = letter("rabbitmq-pika-3.10.8-reject-classic");
    old.message.headers = Headers::new();
    let fields =
        r#"{"error": "reject", "num_attempts": 4, "failed_at": "2026-03-01T12:00:00Z", "payload": ""#;
    for body in [format!("{fields}{}\"}}", "QUJD".repeat(400_000)), format!("{fields}QUJD\"")] {
        old.message.body = Some(body.into());
        let (_, way_round) = refused(&old);
        assert!(way_round.contains("by hand"), "{way_round}");
    }
}

#[test]
fn bunnybus_counts_in_a_header_that_stays_behind() {
    for name in ["bunnybus-2.2.0-retry-limit", "bunnybus-2.2.0-reject"] {
        let message = sent(&letter(name));
        let kept = names(&message.headers);
        assert_eq!(kept, ["transactionId", "isBuffer", "source", "createdAt", "bunnyBus"]);
    }
}

#[test]
fn bunnybus_would_acknowledge_a_letter_without_a_route_key_unhandled() {
    let mut buffer = letter("bunnybus-2.2.0-buffer-retry-limit");
    let (why, way_round) = refused(&buffer);
    assert!(why.contains("gone") && way_round.contains("route key"), "{why} {way_round}");
    buffer.message.headers.push("routeKey", Value::from_text("order.created"));
    assert_eq!(sent(&buffer).headers.last_text("routeKey"), Some("order.created"));
    // JSON without `event` is routed by the same fallback.
    let mut json = letter("bunnybus-2.2.0-retry-limit");
    json.message.body = Some(br#"{"orderId":"o-1"}"#.as_slice().into());
    refused(&json);
}

#[test]
fn rascals_recovery_state_stays_behind_and_the_first_route_travels() {
    for capture in all(&["rascal-21.0.1-republish", "rascal-21.0.1-invalid"]) {
        let message = sent(&capture.letter);
        let table = message.headers.last("rascal").unwrap();
        for own in ["recovery", "error", "redeliveries"] {
            assert_eq!(table.get(own), None, "{}", capture.name);
        }
        assert_eq!(table.get("originalRoutingKey").unwrap().text(), Some("order.created"));
        assert_eq!(table.get("restoreRoutingHeaders"), Some(&Value::Bool(true)));
        let kept = names(&message.headers);
        assert!(!kept.contains(&"CC") && !kept.contains(&"x-death"), "{kept:?}");
    }
}

#[test]
fn dramatiq_gets_one_try_and_the_body_is_left_alone() {
    let exceeded = letter("dramatiq-2.2.1-retries-exceeded");
    let context = dialect::read(&exceeded);
    assert!(one_try(&context));
    assert_eq!(sent(&exceeded).body, exceeded.message.body);
    for name in ["dramatiq-2.2.1-no-retries", "dramatiq-2.2.1-throws", "dramatiq-2.2.1-age-limit"] {
        assert!(!one_try(&dialect::read(&letter(name))), "{name}");
    }
    // On SQS the same body is in base64.
    let mut on_sqs = letter("celery-sqs-5.7.0-max-receive");
    on_sqs.message.properties.remove("DeadLetterQueueSourceArn");
    let body = redrive::letter::base64::encode(exceeded.message.body.as_ref().unwrap());
    on_sqs.message.body = Some(body.into());
    let context = dialect::read(&on_sqs);
    assert!(one_try(&context));
    assert_eq!(context.attempts, Some(3));
    assert_eq!(context.last().unwrap().root_class.as_deref(), Some("orders.dram.PaymentDeclined"));
    assert_eq!(context.event_id.as_deref(), Some("702284bd-4148-4a50-89ce-cb717c47a650"));
}

#[test]
fn celerys_counter_in_a_header_goes_back_as_nothing_in_its_own_type() {
    let before = letter("celery-5.7.0-reject-after-retries");
    assert_eq!(before.message.headers.last("retries"), Some(&Value::I32(2)));
    let context = dialect::read(&before);
    assert!(!one_try(&context));
    let message = sent(&before);
    assert_eq!(message.headers.last("retries"), Some(&Value::I32(0)));
    let others = |headers: &Headers| -> Vec<Header> {
        headers.iter().filter(|h| h.name != "retries" && !h.name.starts_with("x-")).cloned().collect()
    };
    assert_eq!(others(&message.headers), others(&before.message.headers));
    assert_eq!(message.body, before.message.body);
}

#[test]
fn celerys_counter_in_the_body_leaves_one_try() {
    let mut letter = letter("celery-sqs-5.7.0-max-receive");
    assert!(!one_try(&dialect::read(&letter)));
    let body =
        redrive::letter::base64::decode(std::str::from_utf8(letter.message.body.as_ref().unwrap()).unwrap());
    let body = String::from_utf8(body.unwrap()).unwrap().replace("\"retries\": 0", "\"retries\": 3");
    letter.message.body = Some(redrive::letter::base64::encode(body.as_bytes()).into());
    assert!(one_try(&dialect::read(&letter)));
    // Kombu can also leave the base64 out.
    letter.message.body = Some(body.into());
    assert!(one_try(&dialect::read(&letter)));
    assert_eq!(sent(&letter).body, letter.message.body);
}

#[test]
fn celery_would_drop_an_expired_task() {
    let mut letter = letter("celery-5.7.0-reject-after-retries");
    letter.message.headers.replace("expires", Value::from_text("2020-01-01T00:00:00+00:00"));
    assert!(refused(&letter).0.contains("expired"));
    letter.message.headers.replace("expires", Value::from_text("2099-01-01T00:00:00+00:00"));
    sent(&letter);
    let context = dialect::read(&letter);
    let at = |text: &str| redrive::clock::Time::parse(text).unwrap();
    assert_eq!(context.expired(at("2098-12-31T23:59:59Z")), None);
    let dropped = context.expired(at("2099-01-01T00:00:00Z")).unwrap().refusal();
    assert!(dropped.contains("expired at 2099-01-01"), "{dropped}");
}

#[test]
fn celerys_delayed_tasks_go_to_the_queue_not_through_the_delay_chain() {
    let context = dialect::read(&letter("celery-5.7.0-native-delayed-retries-rabbitmq-4.0.5"));
    assert_eq!(to_queue(&context), Some("orders.celery"));
    assert!(
        context.readings.iter().any(|reading| reading.dialect == "rabbitmq" && !reading.ignored.is_empty())
    );
}

#[test]
fn node_ts_counts_by_x_death_which_never_travels() {
    for capture in all(&["node-ts-bus"]) {
        let message = sent(&capture.letter);
        assert_eq!(names(&message.headers), ["attributes", "stickyAttributes"]);
    }
}

#[test]
fn r13_to_the_queue_that_failed_not_to_its_exchange() {
    let context = dialect::read(&letter("rabbitmq-pika-4.0.5-reject-classic"));
    assert_eq!(to_queue(&context), Some("orders.process"));
    // Exchange and key stay visible.
    let origin = context.origin.unwrap();
    assert_eq!(
        (origin.exchange.as_deref(), origin.routing_key.as_deref()),
        (Some("orders"), Some("order.created"))
    );
    for (name, queue) in [
        ("nservicebus-rabbitmq-9-error-queue-after-servicecontrol-retry", "Shop.Billing"),
        ("rebus-rabbitmq-8-error-queue", "orders.process"),
        ("wolverine-4-dead-letter-queue", "orders-process"),
        ("masstransit-8-error-queue", "orders-process"),
        ("easynetq-7-default-error-queue", "Shop.Messages.OrderCreated, Shop.Messages_billing"),
        ("kicks-3-maxretry-error", "orders.process"),
    ] {
        assert_eq!(to_queue(&dialect::read(&letter(name))), Some(queue), "{name}");
    }
}

/// Everything that the producer wrote, with its types; nothing of the broker.
#[test]
fn the_brokers_own_stays_behind_and_every_type_travels() {
    for capture in all(&["rabbitmq-", "aio-pika", "faststream"]) {
        let before = &capture.letter.message;
        let message = sent(&capture.letter);
        let own = |header: &&Header| {
            !["x-death", "x-delivery-count", "CC"].contains(&header.name.as_str())
                && !header.name.starts_with("x-first-death-")
                && !header.name.starts_with("x-last-death-")
        };
        let expected: Vec<_> = before.headers.iter().filter(own).cloned().collect();
        assert_eq!(message.headers.iter().cloned().collect::<Vec<_>>(), expected, "{}", capture.name);
        assert_eq!(message.body, before.body);
        let properties: Vec<_> =
            before.properties.iter().filter(|property| property.name != "user_id").cloned().collect();
        assert_eq!(message.properties.iter().cloned().collect::<Vec<_>>(), properties, "{}", capture.name);
    }
    let amqp10 = sent(&letter("rabbitmq-amqp10-4.0.5-modified"));
    assert_eq!(amqp10.headers.last_text("x-opt-error"), Some("card declined for order o-1401"));
}

/// Failure headers of the others; what is not listed travels.
#[test]
fn what_travels_of_each_framework() {
    for (name, kept) in [
        ("spring-amqp-3.2.8-republish", &["schema", "tenant"][..]),
        ("spring-cloud-stream-rabbit-4.3.0-republish-to-dlq", &["schema", "eventId", "tenant"]),
        ("masstransit-8-error-queue", &["Content-Type", "publishId", "tenant"]),
        ("masstransit-8-skipped-queue", &["Content-Type", "publishId", "tenant"]),
        ("masstransit-sqs-8-error-queue", &["Content-Type"]),
        ("laravel-rabbitmq-13-failed-reroute", &[]),
        ("wolverine-4-dead-letter-queue", &["id", "conversation-id", "message-type", "source"]),
        ("eventbridge-2015-10-07-rule-target-dlq-retries", &[]),
        ("eventbridge-scheduler-2021-06-30-target-dlq", &[]),
        ("aws-lambda-2015-03-31-async-dlq", &[]),
        ("sns-subscription-dlq-2010-03-31-https-endpoint-with-error-attributes", &[]),
        ("shoryuken-6-activejob-max-receive", &["shoryuken_class"]),
        (
            "rebus-rabbitmq-8-error-queue",
            &[
                "rbs2-msg-id",
                "rbs2-msg-type",
                "rbs2-corr-id",
                "rbs2-corr-seq",
                "rbs2-intent",
                "rbs2-content-type",
                "rbs2-senttime",
                "rbs2-sender-address",
                "rbs2-return-address",
            ],
        ),
        (
            "nservicebus-rabbitmq-9-error-queue-after-servicecontrol-retry",
            &[
                "NServiceBus.MessageId",
                "NServiceBus.CorrelationId",
                "NServiceBus.ConversationId",
                "NServiceBus.MessageIntent",
                "NServiceBus.EnclosedMessageTypes",
                "NServiceBus.ContentType",
                "NServiceBus.TimeSent",
                "NServiceBus.OriginatingEndpoint",
                "NServiceBus.OriginatingMachine",
                "NServiceBus.ReplyToAddress",
                "NServiceBus.Version",
                "$.diagnostics.originating.hostid",
                "ServiceControl.Retry.UniqueMessageId",
                "ServiceControl.RetryTo",
            ],
        ),
    ] {
        let before = letter(name);
        let message = sent(&before);
        assert_eq!(names(&message.headers), kept, "{name}");
        assert_eq!(message.body, before.message.body, "{name}");
    }
}

#[test]
fn nservicebus_on_sqs_keeps_its_envelope_and_drops_the_failure_from_its_attribute() {
    let envelope = letter("nservicebus-sqs-9-error-queue-envelope");
    assert_eq!(sent(&envelope).body, envelope.message.body);
    let native = sent(&letter("nservicebus-sqs-9-error-queue-native-headers-attribute"));
    let kept: serde_json::Value =
        serde_json::from_str(native.headers.last_text("NServiceBus.AmazonSQS.Headers").unwrap()).unwrap();
    let kept: Vec<&String> = kept.as_object().unwrap().keys().collect();
    assert_eq!(
        kept,
        [
            "NServiceBus.MessageId",
            "NServiceBus.CorrelationId",
            "NServiceBus.ConversationId",
            "NServiceBus.EnclosedMessageTypes",
            "NServiceBus.ContentType",
            "NServiceBus.TimeSent",
        ]
    );
}

#[test]
fn r21_an_envelope_is_opened_to_the_exact_bytes() {
    let mut old = letter("rabbitmq-pika-3.10.8-reject-classic");
    old.message.headers = Headers::new();
    let original: Vec<u8> = (0..=255).chain(b"{\"orderId\":\"o-1\"}".iter().copied()).collect();
    let properties = serde_json::json!({
        "content_type": "application/octet-stream",
        "delivery_mode": 2,
        "message_id": "m-1",
        "user_id": "guest",
        "headers": {"tenant": "acme", "n": 7, "x-death": [{"queue": "orders", "reason": "rejected", "count": 2}]},
    });
    for width in [60, 76, usize::MAX] {
        let broken = |bytes: &[u8]| {
            let text = redrive::letter::base64::encode(bytes);
            let lines: Vec<String> =
                text.as_bytes().chunks(width).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
            lines.join("\n") + "\n"
        };
        let body = serde_json::json!({
            "error": "reject",
            "num_attempts": 4,
            "failed_at": "2026-03-01T12:00:00Z",
            "payload": broken(&original),
            "properties": broken(properties.to_string().as_bytes()),
            "error_class": "PaymentDeclined",
            "error_message": "card declined",
        });
        old.message.body = Some(body.to_string().into());
        let context = dialect::read(&old);
        assert_eq!(context.readings[0].dialect, "sneakers");
        assert_eq!(context.attempts, Some(4));
        assert_eq!(to_queue(&context), Some("orders"));
        let message = sent(&old);
        assert_eq!(message.body.as_deref(), Some(original.as_slice()));
        assert_eq!(names(&message.headers), ["tenant", "n"]);
        assert_eq!(message.properties.last_text("message_id"), Some("m-1"));
        assert_eq!(message.properties.last("delivery_mode"), Some(&Value::U8(2)));
        assert!(!message.properties.has("user_id"));
    }
    old.message.body = Some(
        br#"{"error":"reject","num_attempts":4,"failed_at":"2026-03-01T12:00:00Z","payload":"{not base64}"}"#
            .as_slice()
            .into(),
    );
    refused(&old);
}

#[test]
fn kicks_has_properties_and_headers_inside_its_header() {
    let before = letter("kicks-3-maxretry-error");
    let message = sent(&before);
    assert_eq!(names(&message.headers), ["tenant"]);
    assert_eq!(names(&message.properties), ["content_type", "delivery_mode", "message_id"]);
    assert_eq!(message.properties.last_text("message_id"), Some("m-7701"));
    assert_eq!(message.body, before.message.body);
    // A list of them, newest first.
    let one = before.message.headers.last_text("retry_info").unwrap().to_owned();
    let older = one.replace("\"num_attempts\": 3", "\"num_attempts\": 2").replace("12:00:00.123", "11:00:00");
    let mut two = before;
    two.message.headers.replace("retry_info", Value::from_text(format!("[{one},{older}]")));
    let context = dialect::read(&two);
    assert_eq!(context.attempts, Some(3));
    let times: Vec<_> = context.deaths.iter().map(|death| death.at.unwrap().rfc3339()).collect();
    assert_eq!(times, ["2026-03-01T11:00:00Z", "2026-03-01T12:00:00.123Z"]);
}

#[test]
fn easynetq_is_unwrapped_to_body_and_properties() {
    let mut letter = letter("easynetq-7-default-error-queue");
    let message = sent(&letter);
    let body = br#"{"orderId": "o-7701", "customer": "c-17", "amount": 129.9, "currency": "EUR"}"#;
    assert_eq!(message.body.as_deref(), Some(body.as_slice()));
    assert_eq!(names(&message.headers), ["tenant"]);
    assert_eq!(names(&message.properties), ["delivery_mode", "correlation_id", "type"]);
    assert_eq!(message.properties.last_text("type"), Some("Shop.Messages.OrderCreated, Shop.Messages"));

    let with = |text: &str| {
        let body = letter.message.body.as_ref().unwrap();
        let mut json: serde_json::Value = serde_json::from_slice(body).unwrap();
        json["Message"] = text.into();
        json.to_string()
    };
    // The other serializer writes base64; bytes that UTF-8 has lost cannot be sent.
    let (encoded, lost) = (with(&redrive::letter::base64::encode(&[0, 159, 146, 150])), with("a\u{fffd}b"));
    letter.message.body = Some(encoded.into());
    assert_eq!(sent(&letter).body.as_deref(), Some([0, 159, 146, 150].as_slice()));
    letter.message.body = Some(lost.into());
    refused(&letter);
}

#[test]
fn lambdas_record_is_unwrapped_to_the_events_own_bytes() {
    let before = letter("aws-lambda-2015-03-31-on-failure-destination");
    let message = sent(&before);
    let body = br#"{"orderId": "o-9701", "customer": "c-17", "amount": "129.90", "currency": "EUR"}"#;
    assert_eq!(message.body.as_deref(), Some(body.as_slice()));
    // A record about a batch of a stream points at it.
    let mut stream = before;
    stream.message.body = Some(
        br#"{"requestContext":{"functionArn":"arn:f","condition":"RetryAttemptsExhausted"},"KinesisBatchInfo":{"shardId":"shardId-1","startSequenceNumber":"49"}}"#
            .as_slice()
            .into(),
    );
    refused(&stream);
    assert!(
        dialect::read(&stream)
            .prospects
            .iter()
            .any(|p| matches!(p, Prospect::Pointer { at } if at.contains("shardId-1")))
    );
}

#[test]
fn s10_attributes_keep_their_labels_and_the_trace_header_travels() {
    let before = letter("sqs-2012-11-05-max-receive-standard");
    let message = sent(&before);
    assert_eq!(message.headers, before.message.headers);
    assert_eq!(message.headers.last("price").unwrap().type_name(), "Number.decimal");
    assert_eq!(message.headers.last("id").unwrap().type_name(), "String.uuid");
    assert_eq!(names(&message.properties), ["AWSTraceHeader"]);
    assert_eq!(dialect::read(&before).trace.as_deref(), Some("1-65e1c2a0-aabbccddeeff001122334455"));
}

#[test]
fn s16_three_passes_leave_the_body_as_it_was() {
    let mut letter = letter("sqs-2012-11-05-max-receive-standard");
    letter.message.body = Some(br#"{"submissionID":"s-1"}"#.as_slice().into());
    for _ in 0..3 {
        letter.message = sent(&letter);
    }
    assert_eq!(letter.message.body.as_deref(), Some(br#"{"submissionID":"s-1"}"#.as_slice()));
    // An SNS envelope is what its consumer expects.
    let mut sns = self::letter("sns-sqs-2010-03-31-envelope");
    let body = sns.message.body.clone();
    for _ in 0..3 {
        sns.message = sent(&sns);
    }
    assert_eq!(sns.message.body, body);
}

#[test]
fn s17_a_pointer_is_named_and_left_alone() {
    let before = letter("sqs-extended-client-2-s3-pointer");
    let message = sent(&before);
    assert_eq!((&message.body, &message.headers), (&before.message.body, &before.message.headers));
    let pointer =
        Prospect::Pointer { at: "s3://orders-payloads/4f6d0000-0000-4000-8000-000000000001".to_owned() };
    assert!(dialect::read(&before).prospects.contains(&pointer));
}

#[test]
fn s28_every_letter_names_its_own_source_or_none() {
    let queue = |name: &str| dialect::read(&letter(name)).origin.and_then(|origin| origin.queue);
    assert_eq!(queue("sns-sqs-2010-03-31-envelope").as_deref(), Some("orders-process"));
    assert_eq!(queue("sns-sqs-2010-03-31-raw-delivery").as_deref(), Some("orders-audit"));
    assert_eq!(queue("sqs-2012-11-05-sent-to-dlq-by-consumer"), None);
}

#[test]
fn s03_the_dedup_id_of_a_dead_letter_is_no_event_id() {
    for name in ["sqs-2012-11-05-max-receive-fifo-as-documented", "sqs-2012-11-05-max-receive-fifo"] {
        let before = letter(name);
        assert_eq!(dialect::read(&before).event_id, None);
        let message = sent(&before);
        assert_eq!(names(&message.properties), ["MessageGroupId"], "{name}");
    }
}

#[test]
fn what_is_not_the_message_is_refused() {
    let mut cut = letter("eventbridge-scheduler-2021-06-30-target-dlq");
    cut.message.headers.replace("IS_PAYLOAD_TRUNCATED", Value::from_text("true"));
    refused(&cut);
    let mut record = letter("sqs-2012-11-05-sent-to-dlq-by-consumer");
    record.message.body = Some(
        br#"{"version":"1","busArn":"arn:b","subscriberArn":"arn:s","errorCode":"X","retryAttempts":4,"failedMessages":[{"eventId":"e-1"}]}"#
            .as_slice()
            .into(),
    );
    let context = dialect::read(&record);
    assert_eq!((context.attempts, context.event_id.as_deref()), (Some(5), Some("e-1")));
    assert!(context.value_unavailable);
    refused(&record);
}

/// What an earlier redrive wrote lies inside the envelope, and so do the headers that name the event.
#[test]
fn identity_and_the_count_of_redrives_are_found_inside_an_envelope() {
    let channel = Channel {
        event_id: At::nowhere(EventIdRule::Header("event-id".to_owned())),
        group: At::nowhere(GroupRule::Body("/customer".to_owned())),
        ..Channel::default()
    };
    let mut letter = letter("easynetq-7-default-error-queue");
    let mut body: serde_json::Value = serde_json::from_slice(letter.message.body.as_ref().unwrap()).unwrap();
    body["BasicProperties"]["Headers"] =
        serde_json::json!({"event-id": "ev-1", "redrive-count": "3", "redrive-run": "r7/12", "x-death": []});
    letter.message.body = Some(body.to_string().into());
    let letter = DeadLetter::of(letter, &channel);
    assert_eq!(letter.redriven, 3);
    assert_eq!(letter.sent_by, Some(("r7".to_owned(), 12)));
    assert_eq!(letter.event_id.value.as_deref(), Some("ev-1"));
    assert_eq!(letter.group.value.as_deref(), Some("c-17"));
}
