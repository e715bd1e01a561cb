//! What breaks in the middle: the connection, the confirm, the server. Nothing is lost; what may be twice is
//! named in doubt.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lapin::BasicProperties;
use redrive::broker::{ErrorKind, Outgoing, Receipt, Settled};
use redrive::letter::Position;
use redrive::topology::{At, BrokerDecl, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::own;
use super::program::{Stage, topology};
use super::relocate::{claim, copy, numbered, task};
use super::server::{Host, Server, arguments, channel, look, open, text};

/// A TCP proxy that can fall silent towards the client, and cut everything.
struct Proxy {
    port: u16,
    /// Answers of the server are swallowed from now on.
    swallow: Arc<AtomicBool>,
    cut: tokio::sync::watch::Sender<u64>,
    delay: Arc<AtomicU64>,
}

impl Proxy {
    async fn to(url: &str) -> Self {
        let place = url.split_once("://").unwrap().1.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, cuts) = tokio::sync::watch::channel(0);
        let swallow = Arc::new(AtomicBool::new(false));
        let delay = Arc::new(AtomicU64::new(0));
        let (quiet, late) = (Arc::clone(&swallow), Arc::clone(&delay));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&place).await.unwrap();
                let (quiet, late, mut cuts) = (Arc::clone(&quiet), Arc::clone(&late), cuts.clone());
                tokio::spawn(async move {
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_server, mut to_server) = server.into_split();
                    cuts.mark_unchanged();
                    let up = async {
                        let mut bytes = vec![0; 64 * 1024];
                        while let Ok(n @ 1..) = from_client.read(&mut bytes).await {
                            if to_server.write_all(&bytes[..n]).await.is_err() {
                                break;
                            }
                        }
                    };
                    let down = async {
                        let mut bytes = vec![0; 64 * 1024];
                        while let Ok(n @ 1..) = from_server.read(&mut bytes).await {
                            tokio::time::sleep(Duration::from_millis(late.load(Ordering::SeqCst))).await;
                            if quiet.load(Ordering::SeqCst) {
                                continue;
                            }
                            if to_client.write_all(&bytes[..n]).await.is_err() {
                                break;
                            }
                        }
                    };
                    tokio::select! {
                        () = up => {}
                        () = down => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { port, swallow, cut, delay }
    }

    fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }
}

fn through(proxy: &Proxy, host: &Host) -> BrokerDecl {
    let wait = (At::nowhere("publish_timeout".to_owned()), At::nowhere(Secret::new("2s", "")));
    let mut decl = host.decl(false);
    decl.url = At::nowhere(format!("amqp://127.0.0.1:{}/{}", proxy.port, host.name));
    decl.options.push(wait);
    decl
}

async fn filled(server: &Server, letters: usize) -> (Host, Vec<(u64, Position)>) {
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", (0..letters).map(|n| n.to_string())).await;
    let (seen, _) = host.inspect(false).await;
    let wanted = numbered(&seen);
    (host, wanted)
}

/// What renewing says once the cut is noticed.
async fn lost(mover: &mut dyn redrive::broker::Mover) -> ErrorKind {
    for _ in 0..100 {
        if let Err(error) = mover.renew(&[]).await {
            return error.kind;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a cut connection is not noticed");
}

/// Every letter is in the dead-letter queue, in the target, or in both and named.
async fn assert_nothing_lost(host: &Host, letters: usize, in_doubt: usize) {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let left = host.texts("orders.dlq").await;
    let there = host.texts("orders").await;
    let all: BTreeSet<&String> = left.iter().chain(&there).collect();
    assert_eq!(all.len(), letters, "lost");
    let twice = left.len() + there.len() - letters;
    assert!(twice <= in_doubt, "{twice} are twice, and {in_doubt} were named");
    let numbers: Vec<u64> = left.iter().map(|text| text.parse().unwrap()).collect();
    assert!(numbers.is_sorted(), "the rest is out of order: {numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m14_a_confirm_that_does_not_come_is_unknown_and_the_letter_stays() {
    let Some(server) = Server::get() else { return };
    let (host, wanted) = filled(&server, 20).await;
    let proxy = Proxy::to(&server.url).await;
    let broker = open(&through(&proxy, &host)).await.unwrap();
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &wanted, 10).await;
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    proxy.swallow.store(true, Ordering::SeqCst);
    let answers = mover.publish(&batch).await;
    assert_eq!(answers.len(), 10);
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind, ErrorKind::Unknown);
    }
    proxy.cut();
    assert_eq!(lost(&mut *mover).await, ErrorKind::Fenced);
    let _ = mover.end().await;
    proxy.swallow.store(false, Ordering::SeqCst);
    assert_nothing_lost(&host, 20, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_loses_nothing_and_a_lost_lock_stops_the_run() {
    let Some(server) = Server::get() else { return };
    let (host, wanted) = filled(&server, 300).await;
    let proxy = Proxy::to(&server.url).await;
    proxy.delay.store(2, Ordering::SeqCst);
    let broker = open(&through(&proxy, &host)).await.unwrap();
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &wanted, 100).await;
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    let (first, rest) = batch.split_at(50);
    assert!(mover.publish(first).await.iter().all(Result::is_ok));
    let receipts: Vec<Receipt> = first.iter().map(|one| one.receipt.clone()).collect();
    assert!(mover.settle(&receipts).await.iter().all(|one| matches!(one, Settled::Settled)));
    let (answers, ()) = tokio::join!(mover.publish(rest), async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        proxy.cut();
    });
    let unknown = answers.iter().filter(|answer| answer.is_err()).count();
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(error.kind, ErrorKind::Unknown | ErrorKind::Fenced), "{error}");
    }
    let receipts: Vec<Receipt> = rest.iter().map(|one| one.receipt.clone()).collect();
    for settled in mover.settle(&receipts).await {
        assert!(!matches!(settled, Settled::Settled), "{settled:?}");
    }
    assert_eq!(lost(&mut *mover).await, ErrorKind::Fenced);
    let _ = mover.end().await;
    assert_nothing_lost(&host, 300, 50.max(unknown)).await;
}

/// What was reported as settled is gone, even if the connection dies at that moment (m22).
#[tokio::test(flavor = "multi_thread")]
async fn m22_settled_letters_do_not_come_back_when_the_connection_dies_at_once() {
    let Some(server) = Server::get() else { return };
    for round in 0..3 {
        let (host, wanted) = filled(&server, 2_000).await;
        let proxy = Proxy::to(&server.url).await;
        let broker = open(&through(&proxy, &host)).await.unwrap();
        let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
        let claims = claim(&mut *mover, &wanted, 2_000).await;
        // Every second one: acknowledged one by one, the hard case.
        let receipts: Vec<Receipt> =
            claims.got.iter().step_by(2).map(|claimed| claimed.receipt.clone()).collect();
        assert!(mover.settle(&receipts).await.iter().all(|one| matches!(one, Settled::Settled)));
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(500)).await;
        host.until("orders.dlq", 1_000).await;
        drop(mover);
        assert_eq!(host.ready("orders.dlq").await, 1_000, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_at_once_and_a_consumer_that_takes_part_meanwhile() {
    let Some(server) = Server::get() else { return };
    let (host, wanted) = filled(&server, 200).await;
    // Somebody else has taken the first twenty before the run, and takes no more.
    let wire = host.connection.create_channel().await.unwrap();
    for _ in 0..20 {
        wire.basic_get("orders.dlq".into(), lapin::options::BasicGetOptions { no_ack: true }).await.unwrap();
    }
    let broker = host.broker(false).await;
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let other = host.broker(false).await.begin(&channel(), &task("r2")).await.err().unwrap();
    assert_eq!(other.kind, ErrorKind::Locked);
    let claims = claim(&mut *mover, &wanted, 500).await;
    assert_eq!((claims.got.len(), claims.missing.len()), (180, 20), "m15: not seen, and not gone");
    assert!(claims.missing.iter().all(|(_, why)| *why == redrive::broker::Missing::NotSeen));
    mover.end().await.unwrap();
    host.until("orders.dlq", 180).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_stopped_and_started_again_loses_nothing() {
    let Some(_) = Server::get() else { return };
    let folder = tempfile::tempdir().unwrap();
    let variables = own::start(folder.path());
    let _guard = own::Guard(folder.path());
    let server = own::server(&variables);
    let (host, wanted) = filled(&server, 400).await;
    own::names_written(folder.path());
    let broker = host.broker(false).await;
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &wanted, 200).await;
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    assert!(mover.publish(&batch[..100]).await.iter().all(Result::is_ok));
    let receipts: Vec<Receipt> = batch[..100].iter().map(|one| one.receipt.clone()).collect();
    assert!(mover.settle(&receipts[..50]).await.iter().all(|one| matches!(one, Settled::Settled)));
    // Stopped for a moment: everything waits, and goes on.
    rustix::process::kill_process(own::pid(folder.path()), rustix::process::Signal::STOP).unwrap();
    let resumed = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        rustix::process::kill_process(own::pid(folder.path()), rustix::process::Signal::CONT).unwrap();
    };
    let (answers, ()) = tokio::join!(mover.publish(&batch[100..150]), resumed);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // Killed: nothing more is confirmed.
    own::kill(folder.path());
    let answers = mover.publish(&batch[150..]).await;
    assert!(answers.iter().all(Result::is_err));
    let settled = mover.settle(&receipts[50..]).await;
    assert!(settled.iter().all(|one| !matches!(one, Settled::Settled)));
    let _ = mover.end().await;
    let error = broker.depths(&channel()).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    own::start_again(folder.path());
    // A quorum queue answers a moment later; each try is a command of its own, as a person makes it.
    let mut seen = None;
    for _ in 0..40 {
        if let Ok(again) = open(&host.decl(false)).await
            && let Ok((left, _)) = look(&*again, &channel()).await
            && left.len() == 350
        {
            let depths = again.depths(&channel()).await.unwrap();
            // Both queues say 0 until they have a leader again, each at its own time.
            seen = Some(depths.source.count.number());
            if seen == Some(150) {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(seen, Some(150), "50 of 400 were settled, and all else is there");
}

/// The server is killed under a run of the program and started again: `resume` finishes, once alone and once
/// with what was in doubt.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_server_was_killed_is_finished_by_resume_once_the_server_is_back() {
    let Some(_) = Server::get() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = own::server(&own::start(folder.path()));
    let _guard = own::Guard(folder.path());
    let host = server.host().await;
    let url = format!("{}/{}", server.url, host.name);
    let stage = Stage::of(host, &topology(&url, "", "    group: {header: customer}\n"));
    stage.done(&["apply", "--yes", "--reason", "test"]);
    for n in 0..600 {
        let headers = arguments(&[("customer", text(&format!("C-{}", n % 50)))]);
        let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
        stage.host.send("orders.dlq", n.to_string().as_bytes(), properties).await;
    }
    own::names_written(folder.path());
    let run = ["run", "orders", "--limit", "all", "--rate", "300/s", "--reason", "test", "--yes"];
    let running = stage.command(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while stage.host.ready("orders").await < 100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    own::kill(folder.path());
    let output = tokio::task::spawn_blocking(|| running.wait_with_output().unwrap()).await.unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(12), "stopped early, can be resumed: {words}");
    let list = stage.done(&["runs", "list", "orders"]);
    let id = list.lines().nth(1).and_then(|row| row.split_whitespace().last()).unwrap().to_owned();
    assert!(words.contains(&format!("redrive resume {id}")), "{words}");

    own::start_again(folder.path());
    let resumed = stage.redrive(&["resume", &id, "--yes", "-o", "json"]);
    let words = String::from_utf8_lossy(&resumed.stderr).into_owned();
    let report: serde_json::Value = serde_json::from_slice(&resumed.stdout).expect(&words);
    let count = |name: &str| report["counts"][name].as_u64().unwrap();
    assert_eq!(count("planned"), 600, "{report}");
    assert_eq!(count("untouched"), 0, "{report} {words}");
    let doubts = count("in_doubt");
    // What the server had removed when it died, without its answer having come, is not there to be removed again: not
    // seen is not gone (m15), so the run says that it cannot tell, and stays one that can be resumed.
    let unsettled = report["unsettled"].as_u64().unwrap();
    assert!(
        matches!(
            (resumed.status.code(), doubts, unsettled),
            (Some(0), 0, 0) | (Some(11), 1.., 0) | (Some(12), _, 1..)
        ),
        "{report} {words}"
    );
    if doubts > 0 {
        stage.redrive(&["resume", &id, "--resend-in-doubt", "--yes", "--reason", "the server was killed"]);
    }
    let wire = super::server::connect(&server.url, &stage.host.name, "guest", "guest").await;
    let channel = wire.create_channel().await.unwrap();
    let mut left = Vec::new();
    let mut there = Vec::new();
    for (queue, texts) in [("orders.dlq", &mut left), ("orders", &mut there)] {
        let options = lapin::options::BasicGetOptions { no_ack: true };
        while let Some(message) = channel.basic_get(queue.into(), options).await.unwrap() {
            texts.push(String::from_utf8(message.delivery.data.clone()).unwrap().parse::<u64>().unwrap());
        }
    }
    let every: BTreeSet<u64> = left.iter().chain(&there).copied().collect();
    assert_eq!(every.len(), 600, "lost");
    assert!(left.is_empty(), "resume finished, and {} are left", left.len());
    let twice = there.len() as u64 - 600;
    assert!(twice <= doubts, "{twice} are twice and {doubts} were named in doubt");
    if twice == 0 {
        for group in 0..50 {
            let of: Vec<u64> = there.iter().copied().filter(|n| n % 50 == group).collect();
            assert!(of.is_sorted(), "group {group}: {of:?}");
        }
    }
}

/// Publishes until the server takes it; a refusal names the alarm.
async fn published_at_last(mover: &mut dyn redrive::broker::Mover, batch: &[Outgoing]) {
    for _ in 0..100 {
        let answers = mover.publish(batch).await;
        if answers.iter().all(Result::is_ok) {
            return;
        }
        for error in answers.into_iter().filter_map(Result::err) {
            assert!(error.to_string().contains("connection.blocked"), "{error}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the alarm is off, and nothing is taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_of_the_server_and_its_consumer_timeout_are_named_bounded_and_lose_nothing() {
    let Some(_) = Server::get() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = own::server(&own::start(folder.path()));
    let _guard = own::Guard(folder.path());
    let (host, wanted) = filled(&server, 60).await;
    let mut decl = host.decl(false);
    decl.options.push((At::nowhere("publish_timeout".to_owned()), At::nowhere(Secret::new("1s", ""))));
    let broker = open(&decl).await.unwrap();
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let claims = claim(&mut *mover, &wanted, 30).await;
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
    let receipts: Vec<Receipt> = batch.iter().map(|one| one.receipt.clone()).collect();
    // Memory is said to be short: the server takes no more messages, and says so only when one comes.
    own::ctl(folder.path(), &["set_vm_memory_high_watermark", "0"]);
    let begun = std::time::Instant::now();
    for answer in mover.publish(&batch[..10]).await {
        assert_eq!(answer.unwrap_err().kind, ErrorKind::Unknown, "it may be taken later");
    }
    for answer in mover.publish(&batch[10..20]).await {
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Throttled, "surely not there");
        assert!(error.to_string().contains("connection.blocked"), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    own::ctl(folder.path(), &["set_vm_memory_high_watermark", "0.6"]);
    published_at_last(&mut *mover, &batch[10..20]).await;
    assert!(mover.settle(&receipts[10..20]).await.iter().all(|one| matches!(one, Settled::Settled)));
    mover.end().await.unwrap();
    host.until("orders.dlq", 50).await;

    // A consumer may hold letters for half a second: then the server takes them back.
    let (seen, _) = host.inspect(false).await;
    let wanted = numbered(&seen);
    for setting in ["consumer_timeout", "channel_tick_interval"] {
        own::ctl(folder.path(), &["eval", &format!("application:set_env(rabbit, {setting}, 500).")]);
    }
    let mut mover = broker.begin(&channel(), &task("r2")).await.unwrap();
    let claims = claim(&mut *mover, &wanted, 10).await;
    let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r2", claimed)).collect();
    assert!(mover.publish(&batch).await.iter().all(Result::is_ok));
    host.until("orders.dlq", 50).await;
    let receipts: Vec<Receipt> = batch.iter().map(|one| one.receipt.clone()).collect();
    for settled in mover.settle(&receipts).await {
        assert!(!matches!(settled, Settled::Settled), "they are in the queue again");
    }
    // Recorded as published: claimed again by identity, and settled without being sent.
    let again = claim(&mut *mover, &wanted[..10], 10).await;
    assert_eq!(again.got.len(), 10);
    let receipts: Vec<Receipt> = again.got.iter().map(|claimed| claimed.receipt.clone()).collect();
    assert!(mover.settle(&receipts).await.iter().all(|one| matches!(one, Settled::Settled)));
    mover.end().await.unwrap();
    host.until("orders.dlq", 40).await;
    let left = host.texts("orders.dlq").await;
    let there: BTreeSet<String> = host.texts("orders").await.into_iter().collect();
    let all: BTreeSet<String> = left.into_iter().chain(there).collect();
    assert_eq!(all.len(), 60, "lost");
}

/// Letters larger than what a run holds unread: another consumer gets some of them in mid-run.
#[tokio::test(flavor = "multi_thread")]
async fn m15_a_consumer_that_takes_part_in_mid_run_is_noticed_and_nothing_is_lost() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", (0..300).map(|n| format!("{n:05}{}", "x".repeat(60_000)))).await;
    let (seen, _) = host.inspect(false).await;
    let wanted = numbered(&seen);
    let broker = host.broker(false).await;
    let mut mover = broker.begin(&channel(), &task("r1")).await.unwrap();
    let first = claim(&mut *mover, &wanted, 20).await;
    assert_eq!(first.got.len(), 20);
    let wire = host.connection.create_channel().await.unwrap();
    let mut taken = BTreeSet::new();
    for _ in 0..30 {
        let options = lapin::options::BasicGetOptions { no_ack: true };
        let got = wire.basic_get("orders.dlq".into(), options).await.unwrap().unwrap();
        taken.insert(got.delivery.data[..5].to_vec());
    }
    let rest = claim(&mut *mover, &wanted, 1_000).await;
    assert_eq!((rest.got.len(), rest.missing.len()), (250, 30), "not seen, and not said to be gone");
    let claimed = first.got.iter().chain(&rest.got);
    for one in claimed {
        assert!(!taken.contains(&one.letter.message.body.as_deref().unwrap()[..5]));
    }
    mover.end().await.unwrap();
    host.until("orders.dlq", 270).await;
}
