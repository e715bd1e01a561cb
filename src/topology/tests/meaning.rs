//! What `check` says a topology means.

use super::*;

fn shown(text: &str) -> String {
    let meanings = meaning(&good(text));
    let mut out = String::new();
    for one in &meanings {
        out.push_str(&format!("{}\n", one.head()));
        for (left, right) in one.rows() {
            out.push_str(&format!("  {left:<9}  {right}\n"));
        }
    }
    for note in notes(&meanings) {
        out.push_str(&format!("note  {note}\n"));
    }
    out
}

#[test]
fn y16_the_schedule_is_5_65_665_seconds_and_four_tries() {
    let text = "version: 1\nbrokers: {kafka: {url: \"kafka://k1:9092\"}}\nchannels:\n  orders:\n    source: orders\n    return_to: source\n    consumer: billing\n    owner: team-orders\n    retry: {tiers: [{delay: 5s}, {delay: 1m}, {delay: 10m}]}\n    dead_letter: {retention: 14d, alert: {depth: 1, age: 15m}}\n";
    insta::assert_snapshot!(shown(text), @r#"
    orders on kafka, a message that always fails
      at 0s      1st try
      at 5s      2nd try, after 5s in orders.retry-5s
      at 1m 5s   3rd try, after 1m in orders.retry-1m
      at 11m 5s  last try, after 10m in orders.retry-10m
      then       orders.dlq, kept 14d; alert at 1 letter or 15m; owner team-orders
    note  Earliest times: each try's own time comes on top. On kafka the tiers need redrive relay.
    note  Moved letters stay in orders.dlq, marked and out of sight, until retention takes them.
    "#);
    let meanings = meaning(&good(text));
    let at: Vec<u64> = meanings[0].tries.iter().map(|one| one.at_ms / 1000).collect();
    assert_eq!(at, [0, 5, 65, 665]);
}

#[test]
fn order_looking_and_duplicates_are_said_where_they_matter() {
    let text = "version: 1\nbrokers: {mq: {url: \"amqp://mq/p\"}, aws: {url: \"sqs://eu-west-1\"}}\nchannels:\n  pay: {broker: mq, source: pay, group: {header: account}, retry: {tiers: [{delay: 5s}]}}\n  refunds: {broker: aws, source: refunds.fifo, group: key}\n  plain: {broker: aws, source: plain, group: key}\n";
    insta::assert_snapshot!(shown(text), @r#"
    pay on mq, a message that always fails
      at 0s      1st try
      at 5s      last try, after 5s in pay.retry-5s
      then       pay.dlq, kept until somebody takes them
    refunds on aws, a message that always fails
      at 0s      only try
      then       refunds-dlq.fifo
    plain on aws, a message that always fails
      at 0s      only try
      then       plain-dlq
    note  Earliest times: each try's own time comes on top. On mq the broker serves the tiers by itself.
    note  pay: a message that waits in a tier is passed by later ones of its group. Order within a group holds up to the first failure; runs keep it.
    note  Looking at pay.dlq is not free on mq: delivery count +1 on each letter looked at.
    note  Looking at refunds-dlq.fifo is not free on aws: receive count +1 on each letter looked at.
    note  aws drops a second message of one deduplication id within 5m.
    note  plain: aws keeps no order of its own; only runs keep the order of a group.
    note  Looking at plain-dlq is not free on aws: receive count +1 on each letter looked at.
    "#);
}
