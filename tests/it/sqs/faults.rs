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

/// Ten letters per call and eight calls at once: what may be in doubt after one fault.
const MOST_IN_DOUBT: u64 = 80;

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
    assert!(count(&run, "in_doubt") <= MOST_IN_DOUBT, "{run}");
    After { run, arrived: arrived.len(), left: left.len() }
}

fn rule(action: &'static str, nth: usize, times: usize, fault: Fault) -> Rule {
    Rule::on(action, nth, times, fault)
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

/// S21: the answer to a send takes longer than the letters are hidden. They come into view again, and are neither
/// sent again nor left behind.
#[test]
fn s21_a_slow_send_outlasts_the_visibility_and_nothing_is_sent_twice() {
    for (endpoint, fifo) in [(endpoint_or_return!(MINISTACK), false), (endpoint_or_return!(ELASTICMQ), true)]
    {
        let after = after(&endpoint, fifo, rule("SendMessageBatch", 1, 1, Fault::Slow(3_000)));
        let letters = if fifo { 10 } else { 12 };
        assert_eq!((count(&after.run, "moved"), after.arrived), (letters, letters as usize), "{}", after.run);
    }
}

#[test]
fn s21_a_receipt_that_ran_out_before_the_delete_is_found_again() {
    for (endpoint, fifo) in [(endpoint_or_return!(MINISTACK), false), (endpoint_or_return!(ELASTICMQ), true)]
    {
        let after = after(&endpoint, fifo, rule("DeleteMessageBatch", 1, 1, Fault::RunOut));
        assert_eq!(count(&after.run, "failed") + count(&after.run, "in_doubt"), 0, "{}", after.run);
        assert!(
            after.left == 0 || after.run["unsettled"] == after.left as u64,
            "{} left: {}",
            after.left,
            after.run
        );
    }
}

/// SQS hands a message out twice: one copy.
#[test]
fn a_letter_that_is_delivered_twice_is_sent_once() {
    for (endpoint, fifo) in [(endpoint_or_return!(MINISTACK), false), (endpoint_or_return!(ELASTICMQ), true)]
    {
        let nth = if fifo { 1 } else { 2 };
        let after = after(&endpoint, fifo, rule("ReceiveMessage", nth, 1, Fault::Again).of_run());
        assert!(count(&after.run, "moved") > 0, "{}", after.run);
        let unsettled = after.run["unsettled"].as_u64().unwrap_or(0);
        let untouched = count(&after.run, "untouched");
        assert!(after.left as u64 <= unsettled + untouched, "{} left: {}", after.left, after.run);
    }
}

/// Somebody takes a letter between the look and the claim: not seen, named, and the run ends by itself.
#[test]
fn a_letter_that_vanished_is_named_and_the_others_go() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let vanished = rule("ReceiveMessage", 1, 1, Fault::Vanished).of_run();
    let proxy = Proxy::start(&endpoint, vec![vanished], Some(2));
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    shop.bury(12);
    let run = shop.run();
    assert_eq!(
        (count(&run, "moved"), count(&run, "untouched")),
        (11, 1),
        "m15, not visible is not gone: {run}"
    );
    assert_eq!(run["exit"], 12, "{run}");
    assert_eq!(shop.arrived().0.len(), 11);
}

#[test]
fn throttled_receives_and_deletes_are_waited_out() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    for (action, code) in [("ReceiveMessage", "OverLimit"), ("DeleteMessageBatch", "KMS.ThrottlingException")]
    {
        let after = after(&endpoint, false, rule(action, 1, 1, Fault::Refused(400, code)).of_run());
        assert_eq!((count(&after.run, "moved"), after.left), (12, 0), "{action}, {code}: {}", after.run);
    }
}

/// No bound rests on SQS's estimates.
#[test]
fn wrong_counts_change_neither_the_bound_nor_the_end() {
    let endpoint = endpoint_or_return!(MINISTACK);
    for counts in [Fault::Counts(0, 0), Fault::Counts(3, 0)] {
        let after = after(&endpoint, false, rule("GetQueueAttributes", 1, 99, counts.clone()));
        assert_eq!((count(&after.run, "moved"), after.left), (12, 0), "{counts:?}: {}", after.run);
    }
}

/// S23: nothing comes, nothing fails, and 130,000 are there.
#[test]
fn s23_the_in_flight_limit_is_not_an_empty_queue() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let rules = vec![
        rule("ReceiveMessage", 1, 999, Fault::Empty),
        rule("GetQueueAttributes", 1, 999, Fault::Counts(130_000, 120_000)),
    ];
    let proxy = Proxy::start(&endpoint, rules, None);
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    shop.bury(1);
    for line in [vec!["inspect", &shop.channel], shop.line(&["--limit", "all", "--yes"])] {
        let ended = shop.env.run(&line).exits(1);
        assert!(ended.says("blocked: about 120000 letters are in flight"), "{ended}");
        assert!(ended.says("visibility timeout is over"), "what to do: {ended}");
    }
}

/// Each action denied alone: the run ends with the action named, and no letter is lost or hidden for long.
#[test]
fn access_denied_on_one_action_ends_a_run_in_order() {
    let endpoint = endpoint_or_return!(MINISTACK);
    for action in ["ReceiveMessage", "SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]
    {
        let denied = rule(action, 1, 999, Fault::Refused(403, "AccessDenied"));
        let proxy = Proxy::start(&endpoint, vec![denied], Some(2));
        let shop = Shop::new(&endpoint, &proxy.endpoint, false);
        shop.bury(3);
        let run = shop.env.run(&shop.line(&["--limit", "all", "--yes"]));
        assert!(matches!(run.code, Some(1 | 12)), "{action}: {run}");
        std::thread::sleep(std::time::Duration::from_millis(2_500));
        let arrived = shop.arrived().1;
        let left = shop.app.depth(&shop.dead) as usize;
        let lost = (0..3).filter(|n| !arrived.contains_key(&body(*n))).count();
        assert!(lost <= left, "{action}: {run}");
        assert!(arrived.values().all(|copies| *copies == 1), "{action}: {run}");
    }
}
