//! A run that begins at once goes on with the letters that its look holds: the queue is read once.

use redrive::broker::{Broker, Holding, Outgoing, Receipt, Settled, Want};
use redrive::letter::{Position, RawLetter};

use super::program::{Stage, topology};
use super::relocate::{claim, copy, numbered, task};
use super::server::{Host, Server, bodies, channel, look};

/// Looks at all, and leaves those that `goes` to a run.
async fn held(
    broker: &dyn Broker,
    goes: impl Fn(usize) -> bool,
) -> (Vec<RawLetter>, Option<Box<dyn Holding>>) {
    let mut pages = broker.snapshot(&channel(), Want { bodies: true, moved: false }).await.unwrap();
    let mut letters: Vec<RawLetter> = Vec::new();
    loop {
        let page = pages.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        for letter in page {
            if goes(letters.len()) {
                pages.keep(letter.clone());
            }
            letters.push(letter);
        }
    }
    let (cost, held) = pages.hold().await.unwrap();
    assert_eq!(cost.read, letters.len() as u64);
    (letters, held)
}

fn chosen(letters: &[RawLetter], goes: impl Fn(usize) -> bool) -> Vec<(u64, Position)> {
    numbered(letters).into_iter().enumerate().filter(|(at, _)| goes(*at)).map(|(_, one)| one).collect()
}

/// How often each letter that is left was handed out before.
async fn returned(host: &Host) -> Vec<u32> {
    let (letters, _) = look(&*host.broker(false).await, &channel()).await.unwrap();
    letters.iter().map(|letter| letter.facts.deliveries.unwrap_or(1) - 1).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_look_holds_is_sent_and_the_rest_goes_back_once_and_in_order() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        // Of many consumers, on several channels.
        let sent = host.fill_large(kind).await;
        let goes = |at: usize| at % 40 == 7;
        let broker = host.broker(true).await;
        let (letters, mut left) = held(&*broker, goes).await;
        assert!(bodies(&letters) == sent, "{kind}: seen in order");
        assert!(left.is_some(), "{kind}");
        assert_eq!(host.ready("orders.dlq").await, 0, "{kind}: held until the run has ended");
        // Somebody's letter comes in meanwhile: not this run's.
        host.fill("orders.dlq", ["late".to_owned()]).await;
        let wanted = chosen(&letters, goes);
        let mut mover = broker.go_on(&channel(), &task("r1"), &mut left).await.unwrap();
        assert!(left.is_none());
        let mut moved = Vec::new();
        for part in wanted.chunks(8) {
            let claims = claim(&mut *mover, part, part.len()).await;
            assert_eq!(claims.got.len(), part.len(), "{kind}: {:?}", claims.missing);
            let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
            assert!(mover.publish(&batch).await.iter().all(Result::is_ok));
            let receipts: Vec<Receipt> = batch.iter().map(|one| one.receipt.clone()).collect();
            let settled = mover.settle(&receipts).await;
            assert!(settled.iter().all(|outcome| matches!(outcome, Settled::Settled)));
            moved.extend(batch.iter().map(|one| one.seq));
        }
        assert!(claim(&mut *mover, &[], 10).await.exhausted);
        mover.end().await.unwrap();
        assert_eq!(moved, wanted.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), "{kind}");
        host.until("orders.dlq", 900 - u32::try_from(wanted.len()).unwrap() + 1).await;
        if kind == "quorum" {
            let counts = returned(&host).await;
            assert!(counts[..counts.len() - 1].iter().all(|count| *count == 1), "counted once: {counts:?}");
            host.until("orders.dlq", 900 - u32::try_from(wanted.len()).unwrap() + 1).await;
        }
        let mut rest: Vec<String> = (0..900).filter(|at| !goes(*at)).map(|at| sent[at].clone()).collect();
        rest.push("late".to_owned());
        let left = host.texts("orders.dlq").await;
        let begins: Vec<&str> = left.iter().map(|text| &text[..4]).collect();
        assert!(left == rest, "{kind}: the rest is not in order: {begins:?}");
        let there = host.texts("orders").await;
        assert!(there == (0..900).filter(|at| goes(*at)).map(|at| sent[at].clone()).collect::<Vec<_>>());
        // The broker is as good as before.
        assert_eq!(broker.depths(&channel()).await.unwrap().dead_letter.count.number(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_run_takes_goes_back_in_order() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        let sent = host.fill_large(kind).await;
        let broker = host.broker(false).await;
        // Given back, as by a run that was refused.
        let (_, left) = held(&*broker, |at| at.is_multiple_of(100)).await;
        left.unwrap().give_back().await.unwrap();
        host.until("orders.dlq", 900).await;
        // All of them, most in a file.
        let (_, left) = held(&*broker, |_| true).await;
        left.unwrap().give_back().await.unwrap();
        host.until("orders.dlq", 900).await;
        // Nothing to be sent.
        let (_, left) = held(&*broker, |_| false).await;
        assert!(left.is_none());
        host.until("orders.dlq", 900).await;
        assert!(host.texts("orders.dlq").await == sent, "{kind}: not in order");
    }
}

/// More than is kept in memory: all of a large queue is read once, and sent as it was and in order.
#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_queue_is_sent_from_what_its_look_kept() {
    let Some(server) = Server::get() else { return };
    for kind in ["quorum", "classic"] {
        let host = server.host().await;
        let sent = host.fill_large(kind).await;
        let broker = host.broker(false).await;
        let (letters, mut left) = held(&*broker, |_| true).await;
        let wanted = numbered(&letters);
        let mut mover = broker.go_on(&channel(), &task("r1"), &mut left).await.unwrap();
        // A claim that is given back comes again, as it was.
        let first = claim(&mut *mover, &wanted[..2], 2).await.got;
        mover.release(&first.iter().map(|one| one.receipt.clone()).collect::<Vec<_>>()).await.unwrap();
        let mut settling = Vec::new();
        for part in wanted.chunks(150) {
            let claims = claim(&mut *mover, part, part.len()).await;
            assert_eq!(claims.got.len(), part.len(), "{kind}: {:?}", claims.missing);
            for claimed in &claims.got {
                let looked = &letters[usize::try_from(claimed.seq).unwrap() - 1];
                assert!(claimed.letter == *looked, "{kind}: {} is another", claimed.seq);
            }
            let batch: Vec<Outgoing> = claims.got.iter().map(|claimed| copy("r1", claimed)).collect();
            let (published, settled) = mover.step(&batch, &settling).await;
            assert!(published.iter().all(Result::is_ok), "{kind}");
            assert!(settled.iter().all(|outcome| matches!(outcome, Settled::Settled)), "{kind}");
            settling = batch.iter().map(|one| one.receipt.clone()).collect();
        }
        let settled = mover.settle(&settling).await;
        assert!(settled.iter().all(|outcome| matches!(outcome, Settled::Settled)), "{kind}");
        assert!(claim(&mut *mover, &[], 10).await.exhausted);
        mover.end().await.unwrap();
        host.until("orders.dlq", 0).await;
        assert!(host.texts("orders").await == sent, "{kind}: not what was there, or not in order");
    }
}

/// Where nothing can be written beside, the run reads its letters from the queue again.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_folder_for_temporary_files_the_queue_is_read_twice() {
    let Some(server) = Server::get() else { return };
    for (folder, looks) in [("/nowhere/at/all", 2), ("", 1)] {
        let stage = stage(&server, 1).await;
        for n in 0..40u8 {
            let properties = lapin::BasicProperties::default().with_message_id(format!("large-{n}").into());
            stage.host.send("orders.dlq", &vec![n; 40_000], properties).await;
        }
        let run = ["run", "orders", "--where", "not id = ev-0", "--limit", "all", "--rate", "500/s"];
        let mut command =
            stage.command(&[&run[..], &["--order", "none", "--reason", "test", "--yes"]].concat());
        if !folder.is_empty() {
            command.env("TMPDIR", folder);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(returned(&stage.host).await, [looks], "{folder}: {output:?}");
        stage.host.until("orders", 40).await;
    }
}

/// A channel that the server ends takes back what it held; the run reads anew and finds its letters.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_whose_connection_broke_is_read_anew_and_a_look_of_another_queue_is_not_taken() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    let sent: Vec<String> = (0..30).map(|n| format!("{n:02}")).collect();
    host.fill("orders.dlq", sent.clone()).await;
    let broker = host.broker(false).await;
    let goes = |at: usize| at.is_multiple_of(3);
    let (letters, mut left) = held(&*broker, goes).await;
    let wanted = chosen(&letters, goes);
    let mut mover = broker.go_on(&channel(), &task("r1"), &mut left).await.unwrap();
    let got = claim(&mut *mover, &wanted[..4], 4).await.got;
    let batch: Vec<Outgoing> = got.iter().map(|claimed| copy("r1", claimed)).collect();
    assert!(mover.publish(&batch).await.iter().all(Result::is_ok));
    let receipts: Vec<Receipt> = batch.iter().map(|one| one.receipt.clone()).collect();
    assert!(mover.settle(&receipts[..2]).await.iter().all(|one| matches!(one, Settled::Settled)));
    // The look's connection, and with it what it held.
    host.end_those(|name| name == "redrive").await;
    host.until("orders.dlq", 28).await;
    for outcome in mover.settle(&receipts[2..]).await {
        assert!(!matches!(outcome, Settled::Settled), "{outcome:?}");
    }
    let got = claim(&mut *mover, &wanted[2..], 10).await.got;
    assert_eq!(got.iter().map(|one| one.seq).collect::<Vec<_>>(), [7, 10, 13, 16, 19, 22, 25, 28]);
    // Sent before the cut: only removed now.
    let receipts: Vec<Receipt> = got[..2].iter().map(|one| one.receipt.clone()).collect();
    assert!(mover.settle(&receipts).await.iter().all(|one| matches!(one, Settled::Settled)));
    mover.end().await.unwrap();
    host.until("orders.dlq", 26).await;
    let gone = [0, 3, 6, 9];
    let rest: Vec<String> = (0..30).filter(|at| !gone.contains(at)).map(|at| sent[at].clone()).collect();
    assert_eq!(host.texts("orders.dlq").await, rest);
    assert_eq!(host.texts("orders").await, ["00", "03", "06", "09"]);
}

async fn stage(server: &Server, letters: usize) -> Stage {
    let host = server.host().await;
    let url = format!("{}/{}", server.url, host.name);
    let stage = Stage::of(host, &topology(&url, "", "    event_id: {property: message_id}\n"));
    stage.done(&["apply", "--yes", "--reason", "test"]);
    for n in 0..letters {
        let properties =
            lapin::BasicProperties::default().with_delivery_mode(2).with_message_id(format!("ev-{n}").into());
        stage.host.send("orders.dlq", n.to_string().as_bytes(), properties).await;
    }
    stage
}

/// The program: with consent given before, the letters that stay are handed out once; killed at any step before the
/// first one is sent, or refused after its look, everything is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_selective_run_with_consent_reads_the_queue_once_and_leaves_it_as_it_was_when_it_ends_early() {
    let Some(server) = Server::get() else { return };
    let stage = stage(&server, 60).await;
    let all: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let run = |consent| {
        let filter = "id = ev-7 or id = ev-31 or id = ev-58";
        let start = ["run", "orders", "--where", filter, "--limit", "all", "--rate", "500/s"];
        [&start[..], &["--order", "none", "--reason", "test", consent]].concat()
    };
    let mut looks = 0;
    for step in ["frozen", "begun", "claimed", "before_send"] {
        // What it left open is its own until it is resumed: on record in a ledger that nobody else reads.
        let ledger = stage.folder.path().join(format!("{step}.db"));
        let mut command = stage.command(&run("--yes"));
        let killed = command.env("REDRIVE_FAILPOINT", step).env("REDRIVE_LEDGER", ledger).output().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&killed.status),
            Some(9),
            "{step}: {killed:?}"
        );
        stage.host.until("orders.dlq", 60).await;
        looks += 1;
    }
    let refused = stage.redrive(&run("--yes=2"));
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    stage.host.until("orders.dlq", 60).await;
    looks += 1;
    stage.done(&run("--yes=3"));
    looks += 1;
    let counts = returned(&stage.host).await;
    assert!(counts.iter().all(|count| *count == looks), "{looks} looks: {counts:?}");
    stage.host.until("orders.dlq", 57).await;
    let rest: Vec<String> =
        all.iter().filter(|n| !["7", "31", "58"].contains(&n.as_str())).cloned().collect();
    assert_eq!(stage.host.texts("orders.dlq").await, rest);
    assert_eq!(stage.host.texts("orders").await, ["7", "31", "58"]);
}
