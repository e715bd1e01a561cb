//! What brokers ask for, by case number; no network.

use super::*;

/// One channel called `name` on a broker with this url, with these lines in it.
fn on(url: &str, name: &str, lines: &str) -> String {
    let mut text = format!("version: 1\nbrokers:\n  b: {{url: \"{url}\"}}\nchannels:\n  {name}:\n");
    for line in lines.lines() {
        text.push_str("    ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn kafka(lines: &str) -> Vec<&'static str> {
    codes_of(&loaded(&on(
        "kafka://k1:9092",
        "orders",
        &format!("return_to: source\nconsumer: billing\n{lines}"),
    )))
}

fn rabbit(lines: &str) -> Vec<&'static str> {
    codes_of(&loaded(&on("amqp://mq", "orders", lines)))
}

fn sqs(name: &str, lines: &str) -> Vec<&'static str> {
    codes_of(&loaded(&on("sqs://eu-west-1", name, lines)))
}

fn names(text: &str) -> crate::broker::Names {
    let topology = good(text);
    crate::broker::kind_of(&topology.brokers[0]).unwrap().names(&topology.channels[0])
}

fn helps(text: &str) -> String {
    loaded(text)
        .diagnostics
        .iter()
        .map(|d| format!("{} {:?} {}\n", d.title, d.labels, d.help.join(" ")))
        .collect()
}

#[test]
fn y05_the_same_delay_twice_in_different_spelling() {
    let tiers = |list: &str| {
        let items: Vec<String> = list.split(' ').map(|delay| format!("{{delay: {delay}}}")).collect();
        format!("retry: {{tiers: [{}]}}", items.join(", "))
    };
    let same =
        on("kafka://k", "o", &format!("source: o\nreturn_to: source\nshared: true\n{}", tiers("60s 1m 10m")));
    assert_eq!(codes_of(&loaded(&same)), ["RD0141"]);
    assert!(helps(&same).contains("tiers 1 and 2 both wait 1m"));
    assert_eq!(codes_in_channel(&tiers("10m 1m")), ["RD0140"]);
    for more in ["5s", "5s 1m", "5s 1m 10m"] {
        assert_eq!(good(&in_channel(&tiers(more))).channels[0].tiers[0].name.value, "retry-5s");
    }
}

#[test]
fn y14_durations_are_compared_as_times() {
    assert_eq!(codes_in_channel("retry: {tiers: [{delay: 900ms}, {delay: 5s}, {delay: 1m}]}"), [""; 0]);
    assert_eq!(codes_in_channel("retry: {tiers: [{delay: 90m}]}\ndead_letter: {retention: 1h}"), ["RD0143"]);
    assert_eq!(
        kafka("source: orders\nretry: {tiers: [{delay: 90m}]}\nkafka: {config: {retention.ms: 3600000}}"),
        ["RD0143"]
    );
    assert_eq!(
        kafka("source: orders\nretry: {tiers: [{delay: 90m}]}\nkafka: {config: {retention.ms: 86400000}}"),
        [""; 0]
    );
}

#[test]
fn y15_a_tier_longer_than_the_consumer_may_be_silent() {
    let served = |delay: &str| {
        format!(
            "source: orders\nretry: {{served_by: consumer, tiers: [{{delay: {delay}}}]}}\nkafka: {{max_poll_interval: 300000ms}}"
        )
    };
    assert_eq!(kafka(&served("10m")), ["RD0216"]);
    assert_eq!(kafka(&served("1m")), [""; 0]);
    let text = on("kafka://k", "o", &format!("return_to: source\nconsumer: c\n{}", served("10m")));
    let said = helps(&text);
    assert!(said.contains("10m") && said.contains("5m") && said.contains("pause the partition"), "{said}");
}

#[test]
fn n01_sqs_names_have_80_characters_with_fifo_in_them() {
    let lines =
        |base: &str| format!("source: {base}.fifo\nsqs: {{fifo: true}}\nretry: {{tiers: [{{delay: 5s}}]}}");
    for (length, code) in [(65, None), (66, None), (67, Some("RD0204"))] {
        let base = "a".repeat(length);
        assert_eq!(sqs(&base, &lines("short")), code.into_iter().collect::<Vec<_>>(), "{length}");
    }
    let long = "a".repeat(67);
    assert!(helps(&on("sqs://eu-west-1", &long, &lines("short"))).contains("this has 81"));
}

#[test]
fn n02_the_suffix_goes_before_fifo_and_other_dots_are_errors() {
    let fifo = names(&on("sqs://eu-west-1", "orders", "source: orders.fifo\nretry: {tiers: [{delay: 5s}]}"));
    assert_eq!(
        (fifo.dead_letter.as_str(), fifo.tiers[0].as_str()),
        ("orders-dlq.fifo", "orders-retry-5s.fifo")
    );
    let named = names(&on("sqs://eu-west-1", "orders.fifo", "source: orders.fifo"));
    assert_eq!(named.dead_letter, "orders-dlq.fifo");
    for (bad, letter) in [("orders.v1", "`.`"), ("orders v1", "a blank"), ("orders/v1", "`/`")] {
        let lines = format!("source: \"{bad}\"");
        assert_eq!(sqs("orders", &lines), ["RD0203"], "{bad}");
        assert!(helps(&on("sqs://eu-west-1", "orders", &lines)).contains(letter));
    }
    assert_eq!(sqs("orders", "source: orders.fifo\ndead_letter: {name: dead}"), ["RD0214"]);
    assert_eq!(sqs("orders", "source: orders\ndead_letter: {name: dead.fifo}"), ["RD0214"]);
}

#[test]
fn n03_kafka_dots_and_underscores_collide() {
    assert_eq!(kafka("source: a.b\ndead_letter: {name: a_b}"), ["RD0207"]);
    assert_eq!(kafka("source: a.b_c"), ["RD0215"]);
    let two = "version: 1\nbrokers: {b: {url: \"kafka://k\"}}\nchannels:\n  x: {source: a.b, return_to: source, consumer: c}\n  y: {source: a_b, return_to: source, consumer: c}\n";
    assert_eq!(codes_of(&loaded(two)), ["RD0207"]);
}

#[test]
fn kafka_names_are_at_most_249_and_not_its_own() {
    assert_eq!(kafka(&format!("source: {}", "a".repeat(249))), [""; 0]);
    assert_eq!(kafka(&format!("source: {}", "a".repeat(250))), ["RD0204"]);
    assert_eq!(kafka("source: __consumer_offsets"), ["RD0205"]);
    assert_eq!(kafka("source: \"..\""), ["RD0203"]);
}

#[test]
fn n05_look_alike_letters_are_shown_by_code_point_and_position() {
    let text = on("kafka://k", "orders", "source: \u{443}\u{441}.orders\nreturn_to: source\nconsumer: c");
    assert_eq!(codes_of(&loaded(&text)), ["RD0203"]);
    let said = helps(&text);
    assert!(said.contains("U+0443 at 1") && said.contains("U+0441 at 2"), "{said}");
    let channel = on("sqlite:a.db", "\u{441}hannel", "source: a");
    assert_eq!(codes_of(&loaded(&channel)), ["RD0147"]);
}

#[test]
fn n06_rabbitmq_names_have_255_bytes_not_characters() {
    let euros = |n: usize| "€".repeat(n);
    assert_eq!(rabbit(&format!("source: {}\ndead_letter: {{name: d}}", euros(85))), [""; 0]);
    assert_eq!(rabbit(&format!("source: {}", euros(86))), ["RD0204"]);
    let text = on("amqp://mq", &"a".repeat(250), "source: a\nretry: {tiers: [{delay: 5s}]}");
    assert_eq!(codes_of(&loaded(&text)), ["RD0204"]);
    assert!(helps(&text).contains("this has 259"));
    let suffixed = on("amqp://mq", &euros(85), "source: a");
    assert!(helps(&suffixed).contains("this has 259 in 89 characters"), "{}", helps(&suffixed));
}

#[test]
fn n07_the_prefix_amq_is_reserved() {
    let text = on("amqp://mq", "orders", "source: amq.gen-abc123\ndead_letter: {name: amq.dead}");
    assert_eq!(codes_of(&loaded(&text)), ["RD0205", "RD0205"]);
    assert!(helps(&text).contains("give the source a name of its own"));
}

#[test]
fn r31_delays_fit_32_bits_of_milliseconds() {
    for delay in ["128ms", "130ms", "30d", "49d"] {
        assert_eq!(rabbit(&format!("source: a\nretry: {{tiers: [{{delay: {delay}}}]}}")), [""; 0]);
    }
    assert_eq!(rabbit("source: a\nretry: {tiers: [{delay: 50d}]}"), ["RD0201"]);
}

#[test]
fn r33_queues_of_ours_never_expire() {
    for key in ["expires", "x-expires"] {
        assert_eq!(rabbit(&format!("source: a\nrabbitmq: {{{key}: 5m}}")), ["RD0217"]);
    }
}

#[test]
fn s30_sqs_delays_are_whole_seconds_up_to_900() {
    for good in ["5s", "1m", "10m", "15m"] {
        assert_eq!(
            sqs("orders", &format!("source: orders\nretry: {{tiers: [{{delay: {good}}}]}}")),
            [""; 0],
            "{good}"
        );
    }
    for (bad, word) in [("16m", "at most 15m"), ("1h", "at most 15m"), ("1500ms", "whole seconds")] {
        let lines = format!("source: orders\nretry: {{tiers: [{{delay: {bad}}}]}}");
        assert_eq!(sqs("orders", &lines), ["RD0201"], "{bad}");
        assert!(helps(&on("sqs://eu-west-1", "orders", &lines)).contains(word));
    }
}

#[test]
fn s31_fifo_tiers_are_queues_with_a_delay_of_their_own() {
    let text = on("sqs://eu-west-1", "orders", "source: orders.fifo\nretry: {tiers: [{delay: 1m}]}");
    assert_eq!(names(&text).tiers, ["orders-retry-1m.fifo"]);
    let topology = good(&text);
    let capabilities =
        crate::broker::kind_of(&topology.brokers[0]).unwrap().capabilities(&topology.channels[0]);
    assert!(matches!(capabilities.delay, crate::broker::Delay::Native { max, .. } if max.as_secs() == 900));
}

#[test]
fn x04_percent_encoding_and_the_virtual_host() {
    let codes = |url: &str| codes_of(&loaded(&on(url, "orders", "source: orders")));
    for right in ["amqp://h", "amqp://h/%2F", "amqp://h/prod", "amqp://h/%2Fprod", "amqps://h:5671/prod"] {
        assert_eq!(codes(right), [""; 0], "{right}");
    }
    assert_eq!(codes("amqp://h/"), ["RD0213"]);
    assert_eq!(codes("amqp://h//prod"), ["RD0212"]);
    let place = |url: &str| {
        let topology = good(&on(url, "orders", "source: orders"));
        crate::broker::kind_of(&topology.brokers[0]).unwrap().place(&topology.brokers[0])
    };
    assert_eq!(place("amqp://h"), "amqp://h:5672, virtual host /");
    assert_eq!(place("amqp://h/%2Fprod"), "amqp://h:5672, virtual host /prod");
    let text = on("${AMQP_URL}", "orders", "source: orders");
    let topology = loaded_with(&text, &[("AMQP_URL", "amqp://u%40x:p%40ss%2F@h/prod")]).topology.unwrap();
    let broker = &topology.brokers[0];
    assert_eq!(broker.url.value, "amqp://h/prod");
    assert_eq!(broker.username.as_ref().unwrap().expose(), Some("u@x"));
    assert_eq!(broker.password.as_ref().unwrap().expose(), Some("p@ss/"));
}

#[test]
fn kafka_says_where_messages_return_to() {
    let text = on("kafka://k", "orders", "source: orders\nconsumer: billing");
    assert_eq!(codes_of(&loaded(&text)), ["RD0206"]);
    let named = names(&on("kafka://k", "orders", "source: orders\nreturn_to: {name: orders.billing}"));
    assert_eq!((named.source.as_str(), named.return_to.as_str()), ("orders", "orders.billing"));
    assert_eq!(codes_of(&loaded(&on("kafka://k", "o", "source: o\nreturn_to: source"))), ["RD0145"]);
}

#[test]
fn kafka_options_are_an_allow_list() {
    let codes = |options: &str| {
        codes_of(&loaded(&format!(
            "version: 1\nbrokers:\n  b: {{url: \"kafka://k\", options: {{{options}}}}}\nchannels:\n  o: {{source: o, return_to: source, consumer: c}}\n"
        )))
    };
    assert_eq!(
        codes("security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, ssl.ca.location: ca.pem"),
        [""; 0]
    );
    for refused in [
        "plugin.library.paths",
        "ssl.engine.location",
        "sasl.kerberos.kinit.cmd",
        "acks",
        "enable.idempotence",
        "isolation.level",
        "enable.auto.commit",
        "auto.offset.reset",
        "partitioner",
        "transactional.id",
    ] {
        assert_eq!(codes(&format!("{refused}: x")), ["RD0209"], "{refused}");
    }
    assert_eq!(codes("security.protocl: SSL"), ["RD0208"]);
    assert_eq!(codes("security.protocol: TLS"), ["RD0210"]);
    assert_eq!(codes("sasl.password: hunter2"), ["RD0121"]);
    assert_eq!(codes("ssl.key.pem: \"-----BEGIN\""), ["RD0121"]);
}

#[test]
fn retention_on_rabbitmq_is_said_not_to_be_enforced() {
    assert_eq!(rabbit("source: a\ndead_letter: {retention: 14d}"), ["RD0211"]);
}

#[test]
fn who_serves_the_tiers_follows_the_broker() {
    assert_eq!(rabbit("source: a\nretry: {served_by: relay}"), ["RD0202"]);
    assert_eq!(kafka("source: a\nretry: {served_by: broker}"), ["RD0202"]);
    assert_eq!(rabbit("source: a\nretry: {served_by: broker}"), [""; 0]);
}

#[test]
fn a_queue_is_not_two_things() {
    assert_eq!(rabbit("source: a\ndead_letter: {name: a}"), ["RD0142"]);
    assert_eq!(
        rabbit("source: a\nretry: {tiers: [{delay: 5s, name: d}]}\ndead_letter: {name: d}"),
        ["RD0142"]
    );
    assert_eq!(rabbit("source: orders.retry-5s\nretry: {tiers: [{delay: 5s}]}"), ["RD0142"]);
    assert_eq!(rabbit("source: a\nreturn_to: {name: orders.dlq}"), ["RD0142"]);
    let shared = "version: 1\nbrokers: {b: {url: \"amqp://h\"}}\nchannels:\n  x: {source: a}\n  y: {source: a}\n  z: {source: x.dlq}\n";
    assert_eq!(codes_of(&loaded(shared)), ["RD0142"]);
}

#[test]
fn brokers_are_declared_chosen_and_known() {
    let text = |default: &str, channel: &str, url: &str| {
        format!(
            "version: 1\n{default}brokers:\n  one: {{url: \"amqp://a\"}}\n  two: {{url: \"{url}\"}}\nchannels:\n  o: {{source: o{channel}}}\n"
        )
    };
    assert_eq!(codes_of(&loaded(&text("", "", "amqp://b"))), ["RD0131"]);
    assert_eq!(codes_of(&loaded(&text("", ", broker: tow", "amqp://b"))), ["RD0130"]);
    assert_eq!(codes_of(&loaded(&text("default_broker: three\n", ", broker: one", "amqp://b"))), ["RD0130"]);
    assert_eq!(codes_of(&loaded(&text("default_broker: one\n", "", "amqb://b"))), ["RD0132"]);
}
