//! Tiers served by real relays, some of them killed: nothing is early, lost or there twice for readers of committed
//! records.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use redrive::letter::Message;
use redrive::proof::failpoint;
use rustix::process::Signal;

use super::bench::{Read, message};
use super::program::Shop;
use super::proxy::Proxy;
use super::server::Server;

const DELAY: Duration = Duration::from_secs(1);

fn relay(shop: &Shop) -> Child {
    shop.env
        .command(&["relay", &shop.name])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(shop.env.path("relay.err")).unwrap())
        .spawn()
        .unwrap()
}

fn wait_for(shop: &Shop, count: usize, within: Duration) -> Vec<Read> {
    let until = Instant::now() + within;
    loop {
        let read = shop.app.read(&shop.target());
        if read.len() >= count || Instant::now() > until {
            return read;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn end(mut relay: Child) {
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(&relay),
        rustix::process::Signal::TERM,
    );
    let until = Instant::now() + Duration::from_secs(20);
    while relay.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            relay.kill().unwrap();
            relay.wait().unwrap();
            panic!("the relay does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn messages(numbers: std::ops::Range<usize>) -> Vec<Message> {
    numbers
        .map(|n| {
            let key = if n % 5 == 4 { String::new() } else { format!("k{}", n % 9) };
            message(&key, &format!("{n}"))
        })
        .collect()
}

fn body(read: &Read) -> usize {
    String::from_utf8(read.message.body.as_ref().unwrap().to_vec()).unwrap().parse().unwrap()
}

#[test]
fn relays_that_are_killed_and_joined_carry_each_message_once_in_order_and_never_early() {
    let Some(shop) = Shop::new("1s") else { return };
    let tier = format!("{}.retry-1s", shop.name);
    let first = relay(&shop);
    shop.app.produce(&tier, &messages(0..400), Duration::ZERO);
    let read = wait_for(&shop, 400, Duration::from_secs(40));
    assert_eq!(read.len(), 400, "one relay");
    // A second one joins, the first is killed with its arms full.
    let second = relay(&shop);
    shop.app.produce(&tier, &messages(400..800), Duration::ZERO);
    std::thread::sleep(Duration::from_millis(1_050));
    let mut first = first;
    first.kill().unwrap();
    first.wait().unwrap();
    shop.app.produce(&tier, &messages(800..1_000), Duration::ZERO);
    let read = wait_for(&shop, 1_000, Duration::from_secs(90));
    end(second);
    assert_carried(&shop, &tier, &read, 1_000);
}

#[test]
fn l06_a_relay_killed_at_each_step_and_the_one_after_it_carry_each_message_once() {
    let steps = failpoint::RELAY.iter().map(|step| (*step).to_owned());
    let again = ["relay_before_commit:2", "relay_after_commit:2"].map(str::to_owned);
    // Each in a shop of its own: the next relay waits until the group and the transaction of the dead one have ended.
    std::thread::scope(|all| {
        for step in steps.chain(again) {
            all.spawn(move || {
                let Some(shop) = Shop::new("1s") else { return };
                let tier = format!("{}.retry-1s", shop.name);
                shop.app.produce(&tier, &messages(0..60), Duration::ZERO);
                std::thread::sleep(DELAY + Duration::from_millis(300));
                // A relay for once ends; one that goes on comes to a second batch.
                let second = step.ends_with(":2");
                let line = ["relay", &shop.name, "--once"];
                let mut dying = shop.env.command(if second { &line[..2] } else { &line });
                dying.env("REDRIVE_FAILPOINT", &step).stdin(Stdio::null());
                let mut dying = dying.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                let (mut done, until) = (60, Instant::now() + Duration::from_secs(60));
                while dying.try_wait().unwrap().is_none() {
                    if second {
                        shop.app.produce(&tier, &messages(done..done + 5), Duration::ZERO);
                        done += 5;
                    }
                    assert!(Instant::now() < until, "{step}: it neither dies nor ends");
                    std::thread::sleep(Duration::from_millis(200));
                }
                assert_eq!(dying.wait().unwrap().signal(), Some(9), "{step}: it was not killed there");
                let next = relay(&shop);
                let read = wait_for(&shop, done, Duration::from_secs(90));
                end(next);
                assert_carried(&shop, &tier, &read, done);
            });
        }
    });
}

#[test]
fn a_broker_that_is_stopped_killed_or_restarted_under_a_relay_neither_loses_nor_repeats() {
    let Some(server) = Server::start(&[]) else { return };
    let shop = Shop::through(server.url(), server.url(), "1s");
    let tier = format!("{}.retry-1s", shop.name);
    let relay = relay(&shop);
    let mut done = 0;
    let mut through = |what: &str, fault: &mut dyn FnMut()| {
        shop.app.produce(&tier, &messages(done..done + 300), Duration::ZERO);
        // While they are carried, or about to be.
        std::thread::sleep(Duration::from_millis(1_000));
        fault();
        done += 300;
        let read = wait_for(&shop, done, Duration::from_secs(90));
        let words = std::fs::read_to_string(shop.env.path("relay.err")).unwrap();
        assert_eq!(read.len(), done, "{what}: {}: {words}", told(&read));
    };
    through("nothing", &mut || {});
    through("stopped for a while", &mut || {
        server.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(3));
        server.signal(Signal::CONT);
    });
    through("killed", &mut || {
        server.signal(Signal::KILL);
        server.again();
    });
    through("restarted in order", &mut || {
        server.signal(Signal::TERM);
        server.again();
    });
    // Longer than a record may take: the transaction is given up, and of all that the client said meanwhile of a broker
    // that is away nothing holds up what it says of the group afterwards.
    let mut back = Instant::now();
    through("away for long", &mut || {
        server.signal(Signal::KILL);
        std::thread::sleep(Duration::from_secs(20));
        server.again();
        back = Instant::now();
    });
    assert!(
        back.elapsed() < Duration::from_secs(60),
        "carried again {:?} after the broker was back",
        back.elapsed()
    );
    end(relay);
    assert_carried(&shop, &tier, &shop.app.read(&shop.target()), done);
}

#[test]
fn a_relay_for_once_waits_until_its_group_has_met_and_carries_all_that_is_due() {
    let Some(shop) = Shop::new("1s") else { return };
    let tier = format!("{}.retry-1s", shop.name);
    let line = format!("relay {} --once", shop.name);
    let nothing = shop.line(&line).ok();
    assert!(nothing.says("Nothing was due"), "{nothing}");
    shop.app.produce(&tier, &messages(0..100), Duration::ZERO);
    std::thread::sleep(DELAY + Duration::from_millis(200));
    let carried = shop.line(&line).ok();
    assert!(carried.says("100 carried"), "{carried}");
    assert_carried(&shop, &tier, &shop.app.read(&shop.target()), 100);
    let nothing = shop.line(&line).ok();
    assert!(nothing.says("Nothing was due"), "{nothing}");
}

#[test]
fn a_relay_that_hears_nothing_of_what_lies_in_a_tier_says_so_and_begins_anew() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.said("PROXY_PORT"), server.said("PROXIED"));
    let shop = Shop::through(&proxy.url, server.url(), "1s");
    let tier = format!("{}.retry-1s", shop.name);
    let relay = relay(&shop);
    shop.app.produce(&tier, &messages(0..100), Duration::ZERO);
    assert_eq!(wait_for(&shop, 100, Duration::from_secs(60)).len(), 100);
    // Its group and all else are well; the client by itself would wait for a minute.
    proxy.deafen();
    shop.app.produce(&tier, &messages(100..200), Duration::ZERO);
    let read = wait_for(&shop, 200, Duration::from_secs(120));
    let words = std::fs::read_to_string(shop.env.path("relay.err")).unwrap();
    assert_eq!(read.len(), 200, "{}: {words}", told(&read));
    assert!(words.contains("is made anew; trying again"), "{words}");
    end(relay);
    assert_carried(&shop, &tier, &read, 200);
}

/// How many places of the topic were read, how many messages are in them, and where one is twice.
fn told(read: &[Read]) -> String {
    let mut places: BTreeMap<(i32, i64), usize> = BTreeMap::new();
    let mut bodies: BTreeMap<usize, Vec<(i32, i64)>> = BTreeMap::new();
    for one in read {
        *places.entry((one.partition, one.offset)).or_default() += 1;
        bodies.entry(body(one)).or_default().push((one.partition, one.offset));
    }
    let twice: Vec<_> = bodies.iter().filter(|(_, places)| places.len() > 1).take(5).collect();
    format!("{} places, {} messages, twice {twice:?}", places.len(), bodies.len())
}

/// Each once, each key in order, none before its time.
fn assert_carried(shop: &Shop, tier: &str, read: &[Read], count: usize) {
    let mut copies: BTreeMap<usize, usize> = BTreeMap::new();
    let mut last: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let waited: BTreeMap<usize, _> =
        shop.app.read(tier).iter().map(|read| (body(read), read.timestamp.unwrap())).collect();
    for one in read {
        let n = body(one);
        *copies.entry(n).or_default() += 1;
        if let Some(key) = &one.message.key {
            assert!(last.insert(key.to_vec(), n).is_none_or(|before| before < n), "order of {n}");
        }
        let late = one.timestamp.unwrap().millis() - waited[&n].plus(DELAY).millis();
        assert!(late >= 0, "{n} came {} ms early", -late);
    }
    assert_eq!((copies.len(), read.len()), (count, count), "lost, or there twice");
}
