//! Calls that fail, by a proxy before the emulator: after each nothing is lost, nothing is there twice unless it
//! was named in doubt, and the counts are true.

use serde_json::Value;

use super::proxy::{Fault, Proxy, Rule};
use super::{Shop, body, count, endpoint_or_return};

struct After {
    run: Value,
    /// Bodies in the target.
    arrived: usize,
    /// Letters left in the dead-letter queue.
    left: usize,
}

/// A run of twelve (FIFO: ten) letters with one fault; checks what holds after every fault.
fn after(endpoint: &str, fifo: bool, rule: Rule) -> After {
    let letters = if fifo { 10 } else { 12 };
    // A delete whose answer was lost leaves a letter out of sight: for two seconds here.
    let proxy = Proxy::start(endpoint, vec![rule.clone()], Some(2));
    let shop = Shop::new(endpoint, &proxy.endpoint, fifo);
    shop.bury(letters);
    let run = shop.run();
    assert!(proxy.count(rule.action) >= rule.nth, "{rule:?} had no occasion");
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let (all, arrived) = shop.arrived();
    let left: Vec<String> = shop.app.take_all(&shop.dead).into_iter().map(|got| got.body).collect();
    for n in 0..letters {
        let body = body(n);
        assert!(arrived.contains_key(&body) || left.contains(&body), "{rule:?}: {body} is lost: {run}");
    }
    assert_eq!(all.len(), arrived.len(), "{rule:?}: there twice: {run}");
    let in_both = left.iter().filter(|body| arrived.contains_key(*body)).count() as u64;
    let unsettled = run["unsettled"].as_u64().unwrap_or(0);
    assert!(in_both <= count(&run, "in_doubt") + unsettled, "{rule:?}: {in_both} in both: {run}");
    assert_eq!(count(&run, "planned"), letters as u64, "{run}");
    After { run, arrived: arrived.len(), left: left.len() }
}

fn rule(action: &'static str, nth: usize, times: usize, fault: Fault) -> Rule {
    Rule { action, nth, times, fault }
}

#[test]
fn s20_one_entry_refused_for_good_stays_and_the_others_go() {
    for fifo in [false, true] {
        let after = after(
            &endpoint_or_return!(MINISTACK),
            fifo,
            rule("SendMessageBatch", 1, 1, Fault::Entry(0, true)),
        );
        assert_eq!((count(&after.run, "failed"), after.left), (1, 1), "{}", after.run);
        assert_eq!(after.run["exit"], 11, "{}", after.run);
    }
}

#[test]
fn s20_one_entry_that_the_service_failed_is_sent_again() {
    for fifo in [false, true] {
        let after = after(
            &endpoint_or_return!(ELASTICMQ),
            fifo,
            rule("SendMessageBatch", 1, 1, Fault::Entry(0, false)),
        );
        assert_eq!(after.left, 0, "{}", after.run);
        assert_eq!(count(&after.run, "moved"), after.arrived as u64, "{}", after.run);
    }
}

#[test]
fn a_send_without_an_answer_is_in_doubt_on_standard_and_sent_again_on_fifo() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let standard = after(&endpoint, false, rule("SendMessageBatch", 1, 1, Fault::Lost));
    let doubt = count(&standard.run, "in_doubt");
    assert!((1..=10).contains(&doubt), "at most the batch: {}", standard.run);
    // Ten at once are more errors in a row than a run bears (12); which batch it was is not ours to say (11).
    assert!(standard.run["exit"] == 11 || standard.run["exit"] == 12, "{}", standard.run);
    assert_eq!(standard.left as u64, doubt, "m13: in both, named, and no hidden retry: {}", standard.run);
    let fifo = after(&endpoint, true, rule("SendMessageBatch", 1, 1, Fault::Lost));
    assert_eq!((count(&fifo.run, "moved"), fifo.left), (10, 0), "{}", fifo.run);
}

#[test]
fn throttling_and_unavailability_are_waited_out() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    for (status, code) in
        [(400, "RequestThrottled"), (400, "ThrottlingException"), (503, "ServiceUnavailable")]
    {
        let after = after(&endpoint, false, rule("SendMessageBatch", 1, 2, Fault::Refused(status, code)));
        assert_eq!((count(&after.run, "moved"), after.left), (12, 0), "{code}: {}", after.run);
    }
}

/// The error of a service that failed inside says nothing about the messages.
#[test]
fn an_internal_error_of_a_send_is_in_doubt_on_standard() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let after =
        after(&endpoint, false, rule("SendMessageBatch", 1, 1, Fault::Refused(500, "InternalFailure")));
    let doubt = count(&after.run, "in_doubt");
    assert!((1..=10).contains(&doubt), "{}", after.run);
    assert_eq!(after.left as u64, doubt, "{}", after.run);
}

#[test]
fn s23_empty_answers_are_not_the_end_of_a_queue() {
    let endpoint = endpoint_or_return!(MINISTACK);
    for nth in [1, 3] {
        let after = after(&endpoint, false, rule("ReceiveMessage", nth, 2, Fault::Empty));
        assert_eq!((count(&after.run, "moved"), after.left), (12, 0), "from {nth}: {}", after.run);
    }
}

#[test]
fn a_delete_that_is_not_done_is_not_counted_as_done() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let one = after(&endpoint, false, rule("DeleteMessageBatch", 1, 1, Fault::Entry(0, true)));
    assert_eq!(count(&one.run, "moved"), 12, "the copies are there: {}", one.run);
    assert!(one.left == 0 || one.run["unsettled"] == one.left as u64, "{} left: {}", one.left, one.run);
    let lost = after(&endpoint, false, rule("DeleteMessageBatch", 1, 1, Fault::Lost));
    assert_eq!(count(&lost.run, "moved"), 12, "{}", lost.run);
    assert_eq!(lost.left, 0, "{}", lost.run);
}

#[test]
fn a_right_that_is_missing_stops_the_run_with_the_right_words() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(
        &endpoint,
        vec![rule("SendMessageBatch", 1, 99, Fault::Refused(403, "AccessDenied"))],
        None,
    );
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    shop.bury(3);
    let line = ["run", &shop.channel, "--limit", "all", "--rate", "1000/s", "--reason", "INC-1", "--yes"];
    let run = shop.env.run(&line);
    assert_eq!(run.code, Some(12), "{run}");
    assert!(run.out.contains("AccessDenied") && run.out.contains("docs/sqs.md"), "{run}");
    assert_eq!(shop.app.take_all(&shop.dead).len(), 3, "given back at once");
    assert_eq!(shop.arrived().0.len(), 0);
}

/// SQS says "deleted", and the letter comes back. On FIFO the next run's copy of it is dropped, being the same
/// letter; on standard nothing could tell.
#[test]
fn a_deleted_letter_that_comes_back_is_not_delivered_twice_on_fifo() {
    for endpoint in [endpoint_or_return!(MINISTACK), endpoint_or_return!(ELASTICMQ)] {
        let proxy = Proxy::start(&endpoint, vec![rule("DeleteMessageBatch", 1, 1, Fault::Dropped)], Some(2));
        let shop = Shop::new(&endpoint, &proxy.endpoint, true);
        shop.bury(1);
        assert_eq!(count(&shop.run(), "moved"), 1);
        std::thread::sleep(std::time::Duration::from_millis(2_500));
        assert_eq!(shop.app.depth(&shop.dead), 1, "it is back");
        let again = shop.run();
        assert_eq!(shop.app.depth(&shop.dead), 0, "{again}");
        assert_eq!(shop.arrived().0.len(), 1, "{again}");
    }
}
