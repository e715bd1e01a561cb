//! Provisioning with the management API and without it, over queues that were there before.

use redrive::broker::{Broker, ErrorKind};
use redrive::plan::{Change, Role};
use redrive::topology::{At, Channel};

use super::relocate::{numbered, send_all};
use super::server::{Host, Server, bodies, channel, look, number, text, tier, typed};

async fn plan(broker: &dyn Broker, channel: &Channel) -> Vec<Change> {
    let observed = broker.observe(&[channel]).await.unwrap();
    let mut changes = Vec::new();
    for change in redrive::plan::diff(&broker.desired(&[channel]), &observed) {
        changes.push(broker.judge(change).await.unwrap());
    }
    changes
}

async fn apply(broker: &dyn Broker, channel: &Channel) {
    for change in plan(broker, channel).await {
        if matches!(change, Change::Create { .. } | Change::Update { .. }) {
            broker.make(&change).await.unwrap();
        }
    }
    let left = plan(broker, channel).await;
    assert!(left.iter().all(|change| matches!(change, Change::Keep { .. })), "{left:#?}");
}

fn owned() -> Channel {
    Channel { create_source: true, ..channel() }
}

fn of<'a>(changes: &'a [Change], name: &str) -> &'a Change {
    changes
        .iter()
        .find(|change| match change {
            Change::Keep { resource }
            | Change::Create { resource }
            | Change::Update { resource, .. }
            | Change::Refused { resource, .. }
            | Change::Undeclared { resource } => resource.name == name,
        })
        .unwrap()
}

fn refusal(change: &Change) -> &str {
    match change {
        Change::Refused { refusal, .. } => &refusal.why,
        other => panic!("not refused: {other:?}"),
    }
}

/// A message fails twice and comes back, dies, is redriven, and dies again where it should.
async fn the_whole_way(host: &Host, broker: &dyn Broker, channel: &Channel) {
    host.fill("orders.retry-200ms", ["waits".to_owned()]).await;
    host.until("orders", 1).await;
    assert_eq!(host.texts("orders").await, ["waits"]);
    host.fill("orders", ["bad".to_owned()]).await;
    host.reject("orders", 1).await;
    host.until("orders.dlq", 1).await;
    let (letters, _) = look(broker, channel).await.unwrap();
    let answers = send_all(broker, "r1", &numbered(&letters)).await;
    assert!(answers[&1].is_ok());
    host.reject("orders", 1).await;
    host.until("orders.dlq", 1).await;
    let (letters, _) = look(broker, channel).await.unwrap();
    assert_eq!(bodies(&letters), ["bad"], "the second death was caught");
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_by_policy_and_by_arguments_the_tiers_carry_and_second_deaths_are_caught() {
    let Some(server) = Server::get() else { return };
    for management in [true, false] {
        for kind in ["quorum", "classic"] {
            let host = server.host().await;
            let broker = host.broker(management).await;
            let channel = Channel { blocks: typed(kind).blocks, ..owned() };
            let said = plan(&*broker, &channel).await;
            let tier = of(&said, "orders.retry-200ms").resource().note.clone().unwrap();
            assert!(tier.starts_with(&format!("{kind}, waits 200ms, returns to orders")), "{tier}");
            apply(&*broker, &channel).await;
            the_whole_way(&host, &*broker, &channel).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_a_delay_is_changed_live_by_policy_and_refused_as_an_argument() {
    let Some(server) = Server::get() else { return };
    let slower = Channel {
        tiers: vec![redrive::topology::Tier {
            delay: At::nowhere(std::time::Duration::from_secs(20)),
            ..tier(200)
        }],
        ..owned()
    };
    // By policy.
    let host = server.host().await;
    let broker = host.broker(true).await;
    apply(&*broker, &owned()).await;
    let changes = plan(&*broker, &slower).await;
    match of(&changes, "orders.retry-200ms") {
        Change::Update { fields, .. } => {
            let field = &fields[0];
            assert_eq!((field.from.as_deref(), field.to.as_deref()), (Some("200"), Some("20000")));
        }
        other => panic!("{other:?}"),
    }
    apply(&*broker, &slower).await;
    // As an argument, seen both ways: nothing else changes and nothing is half made.
    let host = server.host().await;
    apply(&*host.broker(false).await, &owned()).await;
    for management in [true, false] {
        let broker = host.broker(management).await;
        let changes = plan(&*broker, &slower).await;
        assert!(refusal(of(&changes, "orders.retry-200ms")).contains("cannot be changed in place"));
        let refused = changes.iter().filter(|change| matches!(change, Change::Refused { .. })).count();
        assert_eq!(refused, 1, "{changes:#?}");
        let error = broker.make(of(&changes, "orders.retry-200ms")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        let again = plan(&*broker, &owned()).await;
        assert!(again.iter().all(|change| matches!(change, Change::Keep { .. })), "{again:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r31_long_delays_are_read_back_as_they_were_written() {
    let Some(server) = Server::get() else { return };
    for management in [true, false] {
        let host = server.host().await;
        let broker = host.broker(management).await;
        let delays = [128, 130, 2_592_000_000, 4_233_600_000];
        let channel = Channel { tiers: delays.map(tier).to_vec(), ..owned() };
        apply(&*broker, &channel).await;
        for delay in delays {
            let name = format!("orders.retry-{delay}ms");
            let (_, queue) = server.api("GET", &format!("queues/{}/{name}", host.name), "");
            let policy = server.api("GET", &format!("policies/{}/redrive.{name}", host.name), "").1;
            assert!(queue.contains(&delay.to_string()) || policy.contains(&delay.to_string()), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r36_lost_second_deaths_are_found_and_a_route_that_holds_is_kept() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let broker = host.broker(true).await;
    host.declare("orders", "quorum", &[("x-dead-letter-exchange", text("dlx"))]).await;
    let changes = plan(&*broker, &channel()).await;
    assert!(refusal(of(&changes, "orders")).contains("`dlx` is not there: dead letters would be lost"));
    let exchange = format!("exchanges/{}/dlx", host.name);
    server.api("PUT", &exchange, r#"{"type":"direct","durable":true}"#);
    host.declare("orders.dlq", "quorum", &[]).await;
    let bind = format!("bindings/{}/e/dlx/q/orders.dlq", host.name);
    server.api("POST", &bind, r#"{"routing_key":"orders.created"}"#);
    let changes = plan(&*broker, &channel()).await;
    let why = refusal(of(&changes, "orders"));
    assert!(why.contains("no binding of `dlx` takes `orders`"), "{why}");
    // With the key that a redriven message dies with, the queue's own route is as good.
    server.api("POST", &bind, r#"{"routing_key":"orders"}"#);
    match of(&plan(&*broker, &channel()).await, "orders") {
        Change::Keep { resource } => {
            assert!(resource.note.as_deref().unwrap().contains("own exchange dlx"), "{resource:?}");
        }
        // Strategy and overflow can still be set by policy.
        Change::Update { fields, .. } => {
            assert!(fields.iter().all(|field| !field.name.contains("exchange")), "{fields:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r33_r37_settings_that_destroy_letters_are_named() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let broker = host.broker(true).await;
    let limit = [("x-max-length", number(10)), ("x-message-ttl", number(60_000))];
    host.declare("orders.dlq", "classic", &limit).await;
    host.declare("orders.retry-200ms", "quorum", &[("x-expires", number(300_000))]).await;
    let changes = plan(&*broker, &owned()).await;
    assert!(refusal(of(&changes, "orders.dlq")).contains("type of a queue cannot be changed"));
    assert!(refusal(of(&changes, "orders.retry-200ms")).contains("expire with the messages that wait"));
    let classic = Channel { blocks: typed("classic").blocks, ..owned() };
    let changes = plan(&*broker, &classic).await;
    assert!(refusal(of(&changes, "orders.dlq")).contains("destroyed"), "{changes:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_a_cycle_without_a_rejection_is_named_with_its_path() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let broker = host.broker(true).await;
    let work = [
        ("x-message-ttl", number(5_000)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("orders.retry-200ms")),
    ];
    let back = [
        ("x-message-ttl", number(200)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("orders")),
    ];
    host.declare("orders", "quorum", &work).await;
    host.declare("orders.retry-200ms", "quorum", &back).await;
    let observed = broker.observe(&[&channel()]).await.unwrap();
    let notes: Vec<_> = observed.iter().filter_map(|resource| resource.note.clone()).collect();
    assert!(
        notes.iter().any(|note| note.contains("cycle without rejection: messages will be dropped")
            && note.contains("orders.retry-200ms → orders")),
        "{notes:?}"
    );
    // Said below a plan too, where nothing of it is to be changed.
    let seen = broker.observe(&[&channel()]).await.unwrap();
    let remarks = broker.remarks(&[&channel()], &seen).await.unwrap();
    assert!(remarks.iter().any(|said| said.contains("cycle without rejection")), "{remarks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_somebody_else_is_not_put_out_of_force() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let broker = host.broker(true).await;
    host.declare("orders", "quorum", &[]).await;
    let policy = format!("policies/{}/theirs", host.name);
    let body = r#"{"pattern":"^ord","definition":{"max-length":1000},"apply-to":"queues","priority":1}"#;
    assert_eq!(server.api("PUT", &policy, body).0, 201);
    let changes = plan(&*broker, &channel()).await;
    let why = refusal(of(&changes, "orders"));
    assert!(why.contains("`theirs`") && why.contains("max-length"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_source_gets_a_policy_and_nothing_else() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.declare("orders", "quorum", &[("x-max-length", number(1_000))]).await;
    host.fill("orders", ["live".to_owned()]).await;
    let broker = host.broker(true).await;
    let changes = plan(&*broker, &channel()).await;
    assert!(
        matches!(of(&changes, "orders"), Change::Update { resource, .. } if resource.role == Role::Source)
    );
    apply(&*broker, &channel()).await;
    assert_eq!(host.texts("orders").await, ["live"]);
    the_whole_way(&host, &*broker, &channel()).await;
    // Without the management API it is only observed, and that is said.
    let blind = host.broker(false).await;
    match of(&plan(&*blind, &channel()).await, "orders") {
        Change::Keep { resource } => assert!(resource.note.as_deref().unwrap().contains("management")),
        other => panic!("{other:?}"),
    }
    let seen = blind.observe(&[&channel()]).await.unwrap();
    let remarks = blind.remarks(&[&channel()], &seen).await.unwrap();
    assert!(
        remarks.iter().any(|said| said.starts_with("orders: ") && said.contains("management")),
        "{remarks:?}"
    );
}
