//! The form of the file: spans, all problems at once.

use super::*;

pub(super) const DESIGN: &str = r#"version: 1
default_broker: local
brokers:
  local: {url: "sqlite:redrive.db"}
  mq:    {url: "amqp://mq.internal:5672/payments", username: "${MQ_USER}", password: "${MQ_PASSWORD}"}
  kafka: {url: "kafka://k1:9092,k2:9092", options: {security.protocol: SASL_SSL}, protected: true}
  aws:   {url: "sqs://eu-west-1", account: "012345678901"}
channels:
  orders:
    broker: local
    owner: team-orders                  # who is called
    source: orders
    consumer: billing
    return_to: source
    event_id: {header: event-id}
    group: key
    retry:
      served_by: relay
      tiers:
        - {delay: 5s}
        - {delay: 1m}
        - {delay: 10m}
    dead_letter: {name: orders.dlq, retention: 14d, alert: {depth: 1, age: 15m}}
    redrive: {rate: 50/s, max_redrives: 3, dedup_window: 7d}
    kafka:    {partitions: 12, replication_factor: 3, config: {min.insync.replicas: 2}}
    rabbitmq: {queue_type: quorum}
    sqs:      {fifo: true, visibility_timeout: 60s, max_receive_count: 5, tags: {team: orders}}
defaults: {redrive: {rate: 50/s}}
"#;

#[test]
fn the_design_example_loads_with_its_places() {
    let loaded = loaded_with(DESIGN, &[("MQ_USER", "ops"), ("MQ_PASSWORD", "pw")]);
    let topology = loaded.topology.clone().unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    let orders = topology.channel("orders").unwrap();
    assert_eq!(&DESIGN[orders.source.span.clone()], "orders");
    assert_eq!(orders.tiers[2].delay.value, std::time::Duration::from_secs(600));
    assert_eq!(&DESIGN[orders.tiers[1].delay.span.clone()], "1m");
    assert_eq!(orders.tiers[0].name.value, "retry-5s");
    assert_eq!(orders.event_id.value, EventIdRule::Header("event-id".into()));
    assert_eq!(orders.group.value, GroupRule::Key);
    assert_eq!(orders.redrive.rate.value, Rate::PerSecond(50.0));
    assert_eq!(orders.setting("kafka", "partitions").unwrap().value, Setting::Number(12));
    assert_eq!(topology.broker_of(orders).unwrap().name.value, "local");
    let mq = topology.broker("mq").unwrap();
    assert_eq!(mq.password.as_ref().unwrap().expose(), Some("pw"));
    assert!(!format!("{topology:?}").contains("pw\""));
}

#[test]
fn twelve_faults_give_twelve_diagnostics_in_line_order() {
    let text = r#"version: 2
brokers:
  local: {url: "sqlite:redrive.db", protected: yes}
channels:
  orders:
    owner: [a]
    source: orders
    source: orders.v2
    dead_leter: {name: orders.dlq}
    retry:
      served_by: nobody
      tiers:
        - {delay: 60}
        - {name: retry-1m}
    dead_letter:
      alert: {depth: many}
    redrive: {rate: 50, max_redrives: 0}
    shared:
"#;
    let loaded = loaded(text);
    let found = problems(&loaded, text);
    let expected = [
        ("RD0110", 1, "2"),
        ("RD0112", 3, "yes"),
        ("RD0102", 6, "a"),
        ("RD0104", 8, "source"),
        ("RD0107", 9, "dead_leter"),
        ("RD0114", 11, "nobody"),
        ("RD0103", 13, "60"),
        ("RD0105", 14, "name"),
        ("RD0113", 16, "many"),
        ("RD0115", 17, "50"),
        ("RD0113", 17, "0"),
        ("RD0106", 18, "shared"),
    ];
    let expected: Vec<_> = expected.iter().map(|(c, l, t)| (c.to_string(), *l, t.to_string())).collect();
    assert_eq!(found, expected);
    assert!(loaded.topology.is_none());
}
