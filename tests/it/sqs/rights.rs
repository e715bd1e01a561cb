//! What AWS is asked for: the actions of each verb against the table of docs/sqs.md, and the
//! example of the repository. The proxy sees every call; nothing but the endpoint is ever called.

use std::collections::BTreeSet;

use serde_json::json;

use super::proxy::Proxy;
use super::{Shop, endpoint_or_return};

/// Rights that a verb may need, by the documented table: batches need the right of the single action.
fn documented(verbs: &[&str]) -> BTreeSet<String> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sqs.md")).unwrap();
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let mut rights = BTreeSet::new();
    let mut current = String::new();
    for line in table {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if !cells[0].is_empty() {
            cells[0].clone_into(&mut current);
        }
        let Some(actions) = cells.get(2) else { continue };
        for (verb, of) in [("`plan`", "plan"), ("`inspect`", "inspect"), ("`run`", "run")] {
            if verbs.iter().any(|verb| current.contains(&format!("`{verb}`"))) && actions.contains("as `run`")
            {
                rights.extend(documented(&["run"]));
            }
            if verbs.iter().any(|verb| current.contains(&format!("`{verb}`")))
                && actions.contains(&format!("those of {verb}"))
            {
                rights.extend(documented(&[of]));
            }
        }
        if verbs.iter().any(|verb| current.contains(&format!("`{verb}`"))) {
            rights.extend(actions.split('`').filter_map(|part| part.strip_prefix("sqs:")).map(str::to_owned));
        }
    }
    rights
}

fn rights(calls: &[String]) -> BTreeSet<String> {
    calls.iter().map(|call| call.strip_suffix("Batch").unwrap_or(call).to_owned()).collect()
}

#[test]
fn each_verb_asks_for_no_right_beyond_the_documented_ones_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(&endpoint, Vec::new(), None);
    let shop = Shop::unmade(&endpoint, &proxy.endpoint, false);
    let channel = shop.channel.clone();
    let mut from = 0;
    let mut check = |verb: &str, line: &[&str]| {
        let ended = shop.env.run(line);
        assert!(matches!(ended.code, Some(0 | 10)), "{verb}: {ended}");
        let calls = proxy.calls();
        let (asked, allowed) = (rights(&calls[from..]), documented(&[verb]));
        from = calls.len();
        assert!(asked.is_subset(&allowed), "{verb} asked for {asked:?}, documented are {allowed:?}");
        asked
    };
    assert!(check("check", &["check"]).is_empty());
    assert!(check("plan", &["plan"]).contains("ListQueues"));
    let made = check("apply", &["apply", "--yes"]);
    assert!(made.contains("CreateQueue") && made.contains("SetQueueAttributes"), "{made:?}");
    shop.bury(3);
    check("status", &["status", &channel]);
    let ended = shop.env.run(&["alert", &channel]);
    assert!(matches!(ended.code, Some(0 | 13)), "{ended}");
    let looked = check("inspect", &["inspect", &channel]);
    assert!(looked.contains("ReceiveMessage") && !looked.contains("DeleteMessage"), "{looked:?}");
    check("select", &["select", &channel, "--limit", "all", "--reason", "INC-1", "--out", "x.jsonl"]);
    let line = ["run", &channel, "--limit", "all", "--rate", "1000/s", "--reason", "INC-1", "--yes"];
    let sent = check("run", &line);
    assert!(sent.contains("SendMessage") && sent.contains("DeleteMessage"), "{sent:?}");
    shop.app.send(&shop.tier, "{}", None, "", &json!({}));
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    let carried = check("relay", &["relay", &channel, "--once"]);
    assert!(carried.contains("SendMessage") && carried.contains("DeleteMessage"), "{carried:?}");
    assert_eq!(shop.app.depth(&shop.tier), 0);
}

/// The same for SQS's own move: started, watched and cancelled.
#[test]
fn a_native_move_asks_for_no_right_beyond_the_documented_ones_on_local_aws_sqs() {
    let endpoint = endpoint_or_return!(LOCAL);
    let proxy = Proxy::start(&endpoint, Vec::new(), None);
    let shop = Shop::new(&endpoint, &proxy.endpoint, false);
    super::native::feeds(&shop, &shop.source);
    shop.bury(30);
    let from = proxy.calls().len();
    super::native::cancelled(&shop);
    let (asked, allowed) = (rights(&proxy.calls()[from..]), documented(&["run --native"]));
    assert!(asked.is_subset(&allowed), "asked for {asked:?}, documented are {allowed:?}");
    for action in ["StartMessageMoveTask", "ListMessageMoveTasks", "CancelMessageMoveTask"] {
        assert!(asked.contains(action), "{action}: {asked:?}");
    }
}

/// The example of the repository as it is, but for the account, which an emulator does not have: applied, filled, broken
/// and redriven. ministack keeps regions apart.
#[test]
fn the_fifo_example_is_applied_filled_broken_and_redriven_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let text = include_str!("../../../topologies/refunds-sqs-fifo.yaml");
    let (account, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("account:"));
    assert_eq!(account.len(), 1);
    let mut shop = Shop::unmade(&endpoint, &endpoint, true);
    shop.env.topology(&rest.join("\n"));
    assert_eq!(shop.env.line("check").code, Some(0));
    shop.env.set("AWS_ENDPOINT_URL_SQS", &endpoint);
    let app = super::App::in_region(&endpoint, "eu-west-1");
    app.create("refunds.fifo");
    for line in ["apply --yes", "plan"] {
        let ended = shop.env.line(line);
        assert_eq!(ended.code, Some(0), "{ended}");
    }
    for queue in ["refunds.fifo", "refunds-dlq.fifo"] {
        app.take_all(queue);
    }
    let unique = &shop.channel;
    for n in 0..12 {
        let body = json!({"refund": {"id": format!("r-{n:02}")}}).to_string();
        app.send("refunds.fifo", &body, Some(&format!("c{}", n % 4)), &format!("{unique}-{n}"), &json!({}));
    }
    // Five failed receives each, as the example says, and one more that moves them.
    for _ in 0..60 {
        let got = app.receive("refunds.fifo", 30);
        app.fail("refunds.fifo", &got);
        if app.depth("refunds-dlq.fifo") == 12 {
            break;
        }
    }
    assert_eq!(app.depth("refunds-dlq.fifo"), 12);
    let line = ["run", "refunds", "--limit", "all", "--reason", "INC-1", "--yes", "-o", "json"];
    let run = shop.env.run(&line).ok().json();
    assert_eq!(super::count(&run, "moved"), 12, "{run}");
    let all = app.take_all("refunds.fifo");
    assert_eq!(all.len(), 12);
    for group in ["c0", "c1", "c2", "c3"] {
        let bodies: Vec<&str> =
            all.iter().filter(|got| got.group() == group).map(|got| got.body.as_str()).collect();
        assert!(bodies.len() == 3 && bodies.is_sorted(), "{group}: {bodies:?}");
    }
}
