//! The relay, killed at each of its steps by means of an answer that does not come, and started again; several
//! relays at once; what an idle one costs.

use std::time::{Duration, Instant};

use serde_json::json;

use super::proxy::{Fault, Proxy, Rule};
use super::{Shop, body, endpoint_or_return};

const MESSAGES: usize = 12;

fn fill(shop: &Shop) {
    for n in 0..MESSAGES {
        shop.app.send(&shop.tier, &body(n), Some(&format!("g{}", n % 3)), &format!("d{n}"), &json!({}));
    }
}

/// Nothing lost; on FIFO nothing twice, and each group as it was sent.
fn check(shop: &Shop, fifo: bool, may_be_twice: usize) {
    let (all, counts) = shop.arrived();
    assert_eq!(counts.len(), MESSAGES, "lost: {counts:?}");
    assert_eq!(shop.app.depth(&shop.tier), 0);
    let twice = all.len() - counts.len();
    assert!(twice <= if fifo { 0 } else { may_be_twice }, "{twice} twice: {counts:?}");
    if fifo {
        for group in ["g0", "g1", "g2"] {
            let numbers: Vec<usize> = all
                .iter()
                .filter(|got| got.group() == group)
                .map(|got| (0..MESSAGES).find(|n| body(*n) == got.body).unwrap())
                .collect();
            assert!(numbers.is_sorted(), "{group}: {numbers:?}");
        }
    }
}

fn killed_in(endpoint: &str, fifo: bool, action: &'static str) {
    let slow = Rule::on(action, 1, 1, Fault::Slow(20_000));
    // What the dead one held is in view again after two seconds.
    let proxy = Proxy::start(endpoint, vec![slow], Some(2));
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    fill(&shop);
    let mut relay = shop.env.command(&["relay", &shop.channel]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while proxy.count(action) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The call has taken effect at the emulator by then; its answer has not come.
    std::thread::sleep(Duration::from_millis(400));
    relay.kill().unwrap();
    relay.wait().unwrap();
    std::thread::sleep(Duration::from_millis(2_200));
    let mut relay = shop.env.command(&["relay", &shop.channel]).spawn().unwrap();
    while shop.app.depth(&shop.tier) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    relay.kill().unwrap();
    relay.wait().unwrap();
    // Only what was sent without an answer, which are the ten of one call and the calls beside it.
    check(&shop, fifo, if action == "SendMessageBatch" { MESSAGES } else { 0 });
}

macro_rules! killed {
    ($($name:ident: $emulator:ident, $fifo:literal, $action:literal;)*) => {
        $(
            #[test]
            fn $name() {
                killed_in(&endpoint_or_return!($emulator), $fifo, $action);
            }
        )*
    };
}

killed! {
    standard_relay_killed_while_it_receives_on_elasticmq: ELASTICMQ, false, "ReceiveMessage";
    standard_relay_killed_while_it_sends_on_ministack: MINISTACK, false, "SendMessageBatch";
    standard_relay_killed_while_it_deletes_on_elasticmq: ELASTICMQ, false, "DeleteMessageBatch";
    fifo_relay_killed_while_it_receives_on_elasticmq: ELASTICMQ, true, "ReceiveMessage";
    fifo_relay_killed_while_it_sends_on_elasticmq: ELASTICMQ, true, "SendMessageBatch";
    fifo_relay_killed_while_it_deletes_on_ministack: MINISTACK, true, "DeleteMessageBatch";
}

/// Two relays on one tier: FIFO keeps each group's order, since SQS locks a group.
#[test]
fn two_relays_share_a_fifo_tier_and_keep_its_order_on_elasticmq() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    let shop = Shop::new(&endpoint, &endpoint, true);
    fill(&shop);
    let mut relays: Vec<_> =
        (0..2).map(|_| shop.env.command(&["relay", &shop.channel]).spawn().unwrap()).collect();
    let until = Instant::now() + Duration::from_secs(20);
    while shop.app.depth(&shop.tier) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    for relay in &mut relays {
        relay.kill().unwrap();
        relay.wait().unwrap();
    }
    check(&shop, true, 0);
}

/// What docs/sqs.md says an idle relay costs: one long poll and now and then one count.
#[test]
fn an_idle_relay_costs_at_most_the_documented_requests_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(&endpoint, Vec::new(), None);
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    let mut relay = shop.env.command(&["relay", &shop.channel]).spawn().unwrap();
    while proxy.count("ReceiveMessage") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = proxy.calls().len();
    let seconds = 6;
    std::thread::sleep(Duration::from_secs(seconds));
    let calls = (proxy.calls().len() - before) as u64;
    relay.kill().unwrap();
    relay.wait().unwrap();
    let per_hour = calls * 3_600 / seconds;
    println!("idle: {calls} requests in {seconds} s, {per_hour} an hour for one tier of one second");
    assert!(per_hour <= 5_400, "{per_hour}");
}
