//! `inspect`, `show`, `status` and `alert` as the built program prints them, over the embedded broker.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive::broker::OpenContext;
use redrive::broker::sqlite::Application;
use redrive::clock::{Time, VirtualClock};
use redrive::letter::{Message, Value};
use redrive::topology::{At, BrokerDecl};

use super::TestEnv;

pub(super) const TOPOLOGY: &str = "version: 1
brokers: {local: {url: \"sqlite:redrive.db\"}}
channels:
  orders:
    owner: team-orders
    source: orders
    create_source: true
    consumer: billing
    event_id: {header: event-id}
    group: key
    retry: {tiers: [{delay: 5s}, {delay: 1m}, {delay: 10m}]}
    dead_letter: {name: orders.dlq, retention: 14d, alert: {depth: 2, age: 15m}}
";

/// An empty, provisioned broker.
pub(super) fn empty() -> TestEnv {
    let env = TestEnv::new();
    env.topology(TOPOLOGY);
    let _ = env.line("apply --yes").ok();
    env
}

/// Buries messages at `at`.
pub(super) fn bury(env: &TestEnv, at: &str, messages: &[Message]) {
    let decl = BrokerDecl { url: At::nowhere("sqlite:redrive.db".to_owned()), ..BrokerDecl::default() };
    let clock = Arc::new(VirtualClock::new(Time::parse(at).unwrap()));
    let context = OpenContext { clock, base: env.folder().to_owned(), writes: true };
    let mut application = Application::open(&decl, &context).unwrap();
    application.send("orders.dlq", messages, Duration::ZERO).unwrap();
}

/// A letter of event `n`, group `group`, dead of `class`.
pub(super) fn letter(n: u32, group: &str, class: &str, message: &str) -> Message {
    let mut made = Message {
        key: Some(Bytes::copy_from_slice(group.as_bytes())),
        body: Some(Bytes::from(format!(
            "{{\"orderId\": {n}, \"currency\": \"EUR\", \"total\": \"119.90\"}}"
        ))),
        ..Message::default()
    };
    made.headers.push("event-id", Value::from_text(format!("ev-{n}")));
    made.headers.push("tenant", Value::from_text(if n.is_multiple_of(2) { "north" } else { "south" }));
    made.headers.push("redrive-attempt", Value::from_text("4"));
    let deaths = serde_json::json!([
        {"at": "2026-11-30T01:52:43Z", "queue": "orders", "consumer": "billing", "class": class, "message": message},
        {"at": "2026-11-30T02:03:58Z", "queue": "orders", "consumer": "billing", "class": class, "message": message},
    ]);
    made.headers.push("redrive-deaths", Value::from_text(deaths.to_string()));
    made
}

/// Two causes in a few groups, one letter without any headers.
pub(super) fn night() -> TestEnv {
    let mut env = empty();
    let timeout =
        |n, group| letter(n, group, "java.net.SocketTimeoutException", "no answer from the gateway");
    let currency = |n, group| letter(n, group, "java.lang.IllegalArgumentException", "unsupported currency");
    bury(&env, "2026-11-17T08:02:00Z", &[currency(1, "C-1"), currency(2, "C-2")]);
    let bare = Message { body: Some(Bytes::from_static(b"\xff\xfe\x00\x01")), ..Message::default() };
    bury(&env, "2026-11-26T09:00:00Z", &[bare]);
    bury(&env, "2026-11-30T02:03:59Z", &[timeout(11, "C-1"), timeout(12, "C-3"), timeout(13, "C-3")]);
    bury(&env, "2026-11-30T02:44:00Z", &[timeout(14, "C-4")]);
    for (name, letter) in [("91be4d", "m4"), ("2e07aa", "m1")] {
        let shown = env.run(&["show", "orders", letter, "-o", "json"]).ok().json();
        let id = shown["cause"]["id"].as_str().unwrap().to_owned();
        env.hide(&id, name);
    }
    env
}

/// The id behind a name of [`night`].
fn cause_of(env: &TestEnv, letter: &str) -> String {
    let bytes = env.run(&["show", "orders", letter, "-o", "json"]).ok().bytes;
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    json["cause"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn inspect_shows_causes_with_what_why_and_what_expires() {
    let env = night();
    insta::assert_snapshot!(env.line("inspect orders").ok(), @r"
    orders · local · orders.dlq · 2026-11-30 03:12Z
    7 dead letters, 3 causes, 4 groups · oldest 12d 19h, newest 28m ago

    LETTERS  CAUSE                             GROUPS  LAST         PAST 24H      EXPIRES  ID
          4  SocketTimeoutException                 3  28m ago      ...........█  13d 22h  91be4d
        57%  no answer from the gateway                from 02:03Z                         m4
          2  IllegalArgumentException               2  12d 19h ago  ............  1d 4h    2e07aa
        29%  unsupported currency                      from 17 Nov                         m1
          1  unknown                                0  3d 18h ago   ............  10d 5h   none
        14%  no failure headers in the letter          from 26 Nov                         m3

    --- stderr
    note  2 letters of 2e07aa expire within 2d, the first at 2026-12-01 08:02Z.
    note  1 group holds letters of two causes: order decides which may go first.
    note  1 letter has no group: order says nothing about them.
    note  Looking changed nothing.
    next  redrive show orders m4
    ");
}

#[test]
fn inspect_on_a_narrow_terminal_and_in_a_pipe() {
    let mut env = night();
    env.set("REDRIVE_WIDTH", "66");
    insta::assert_snapshot!(env.line("inspect orders").ok().out, @r"
    orders · local · orders.dlq · 2026-11-30 03:12Z
    7 dead letters, 3 causes, 4 groups · oldest 12d 19h, newest 28m ago

    LETTERS  CAUSE                        LAST         EXPIRES  ID
          4  SocketTimeoutException       28m ago      13d 22h  91be4d
        57%  no answer from the gateway   from 02:03Z           m4
          2  IllegalArgumentException     12d 19h ago  1d 4h    2e07aa
        29%  unsupported currency         from 17 Nov           m1
          1  unknown                      3d 18h ago   10d 5h   none
        14%  no failure headers in the …  from 26 Nov           m3
    ");
    env.set("REDRIVE_WIDTH", "");
    insta::assert_snapshot!(env.line("inspect orders").ok().out, @r"
    orders · local · orders.dlq · 2026-11-30T03:12:08Z
    7 dead letters, 3 causes, 4 groups · oldest 12d 19h, newest 28m ago

    LETTERS  SHARE  CAUSE                               MESSAGE                           GROUPS  FIRST                 LAST                  EXPIRES               ID      SAMPLE
          4    57%  java.net.SocketTimeoutException     no answer from the gateway             3  2026-11-30T02:03:59Z  2026-11-30T02:44:00Z  2026-12-14T02:03:59Z  91be4d  m4
          2    29%  java.lang.IllegalArgumentException  unsupported currency                   2  2026-11-17T08:02:00Z  2026-11-17T08:02:00Z  2026-12-01T08:02:00Z  2e07aa  m1
          1    14%  unknown                             no failure headers in the letter       0  2026-11-26T09:00:00Z  2026-11-26T09:00:00Z  2026-12-10T09:00:00Z  none    m3
    ");
}

#[test]
fn inspect_lists_letters_oldest_first_and_limits_after_filtering() {
    let env = night();
    insta::assert_snapshot!(env.line("inspect orders --letters").ok(), @r"
    DIED              AGE      TRIES  GROUP   SIZE  ERROR                       EVENT ID  LETTER
    17 Nov 08:02:00Z  12d 19h      4  C-1    401 B  unsupported currency        ev-1      m1
    17 Nov 08:02:00Z  12d 19h      4  C-2    401 B  unsupported currency        ev-2      m2
    26 Nov 09:00:00Z  3d 18h       -  -        4 B  unknown                     -         m3
    30 Nov 02:03:59Z  1h 8m        4  C-1    409 B  no answer from the gateway  ev-11     m4
    30 Nov 02:03:59Z  1h 8m        4  C-3    409 B  no answer from the gateway  ev-12     m5
    30 Nov 02:03:59Z  1h 8m        4  C-3    409 B  no answer from the gateway  ev-13     m6
    30 Nov 02:44:00Z  28m          4  C-4    409 B  no answer from the gateway  ev-14     m7
    --- stderr
    note  7 of 7 shown, oldest first, as a run sends them
    note  Looking changed nothing.
    next  redrive show orders m1
    ");
    let id = cause_of(&env, "m4");
    insta::assert_snapshot!(env.run(&["inspect", "orders", "--letters", "--cause", &id[..4], "--limit", "2"]).ok(), @r"
    DIED              AGE    TRIES  GROUP   SIZE  ERROR                       EVENT ID  LETTER
    30 Nov 02:03:59Z  1h 8m      4  C-1    409 B  no answer from the gateway  ev-11     m4
    30 Nov 02:03:59Z  1h 8m      4  C-3    409 B  no answer from the gateway  ev-12     m5
    --- stderr
    note  2 of 4 shown, oldest first, as a run sends them
    note  Looking changed nothing.
    next  redrive show orders m4
    ");
    insta::assert_snapshot!(env.run(&["inspect", "orders", "--letters", "--where", "header.tenant = north and age > 1h"]).ok(), @r"
    DIED              AGE      TRIES  GROUP   SIZE  ERROR                       EVENT ID  LETTER
    17 Nov 08:02:00Z  12d 19h      4  C-2    401 B  unsupported currency        ev-2      m2
    30 Nov 02:03:59Z  1h 8m        4  C-3    409 B  no answer from the gateway  ev-12     m5
    --- stderr
    note  2 of 2 shown, oldest first, as a run sends them
    note  1 letter lacks what was asked for and is left out.
    note  Looking changed nothing.
    next  redrive show orders m2
    ");
    let lines = env.line("inspect orders --letters -o jsonl --limit 2").ok().out;
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.lines().all(
        |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["schema"] == "redrive.letter.v1"
    ));
}

#[test]
fn inspect_as_json_says_the_same() {
    let env = night();
    let json = env.line("inspect orders -o json").ok().json();
    assert_eq!(json["schema"], "redrive.inspect.v1");
    assert_eq!(
        (&json["letters"], &json["groups"], &json["counted"]),
        (&7.into(), &4.into(), &"exact".into())
    );
    assert_eq!(json["causes"][0]["letters"], 4);
    assert_eq!(json["causes"][0]["error_class"], "java.net.SocketTimeoutException");
    assert_eq!(json["causes"][0]["histogram"]["counts"][11], 4);
    assert_eq!(json["next"][1], "show");
    let codes: Vec<_> = json["notes"].as_array().unwrap().iter().map(|note| note["code"].clone()).collect();
    assert_eq!(codes, ["expires_soon", "shared_groups", "ungrouped", "looking_changed_nothing"]);
}

#[test]
fn inspect_puts_letters_together_by_other_things_and_tells_causes_apart() {
    let env = night();
    insta::assert_snapshot!(env.line("inspect orders --by header.tenant").ok().out, @r"
    orders · local · orders.dlq · 2026-11-30 03:12Z
    7 dead letters, 3 values, 4 groups · oldest 12d 19h, newest 28m ago

    LETTERS  VALUE  GROUPS  LAST        PAST 24H      EXPIRES  ID
          3  south       2  1h 8m ago   ...........█  1d 4h    m1
          3  north       3  28m ago     ...........█  1d 4h    m2
          1  none        0  3d 18h ago  ............  10d 5h   m3
    ");
    let id = cause_of(&env, "m4");
    insta::assert_snapshot!(env.run(&["inspect", "orders", "--diff", &id]).ok(), @r"
    orders · local · orders.dlq · 2026-11-30 03:12Z
    4 letters of cause 91be4d, against 3 of other causes
    died from 2026-11-30 02:03:59Z to 2026-11-30 02:44:00Z; about 0 others died then

     THESE  OTHERS  FIELD            VALUE
    4 100%  2  67%  body./currency   EUR
    4 100%  2  67%  body./total      119.90
    4 100%  2  67%  consumer         billing
    4 100%  2  67%  origin           orders
    4 100%  2  67%  body./orderId    is there
    4 100%  2  67%  header.event-id  is there
    4 100%  2  67%  header.tenant    is there
    2  50%  1  33%  header.tenant    north
    2  50%  1  33%  header.tenant    south

    --- stderr
    next  redrive inspect orders --letters --cause 91be4d
    ");
}

#[test]
fn inspect_of_an_empty_queue() {
    let env = empty();
    insta::assert_snapshot!(env.line("inspect orders").ok(), @r"
    orders · local · orders.dlq · 2026-11-30 03:12Z
    0 dead letters
    --- stderr
    note  Looking changed nothing.
    next  redrive status orders
    ");
    insta::assert_snapshot!(env.line("inspect orders --letters").ok(), @r"
    orders · local · orders.dlq · 2026-11-30 03:12Z
    0 of 0 dead letters shown
    --- stderr
    note  Looking changed nothing.
    next  redrive inspect orders
    ");
}

#[test]
fn inspect_refuses_what_does_not_read() {
    let env = night();
    insta::assert_snapshot!(env.run(&["inspect", "orders", "--where", "age > 2h and eror ~ x"]), @r"
    --- stderr
    error: --where, column 14: `eror` is no field of a letter
        age > 2h and eror ~ x
                     ^^^^ expected a field; did you mean `error`?
    next  redrive inspect --help
    [2]
    ");
    insta::assert_snapshot!(env.run(&["inspect", "orders", "--where", "id = 'ev"]), @r"
    --- stderr
    error: --where, column 6: the text has no end
        id = 'ev
             ^^^ expected a closing `'`
    next  redrive inspect --help
    [2]
    ");
    insta::assert_snapshot!(env.line("inspect orders --cause SocketTimeout"), @r"
    --- stderr
    error: --cause: `SocketTimeout` is no cause; an id has six digits of 0-9a-f, or is `none`; any unique beginning does
    next  redrive inspect --help
    [2]
    ");
    insta::assert_snapshot!(env.line("inspect orders --limit none"), @r"
    --- stderr
    error: --limit: `none` is no limit; a number from 1, or `all`
    next  redrive inspect --help
    [2]
    ");
    insta::assert_snapshot!(env.line("inspect orders --by colour"), @r"
    --- stderr
    error: --by: `colour` is none of cause, error, frame, message, origin, group, header.NAME
    next  redrive inspect --help
    [2]
    ");
    insta::assert_snapshot!(env.line("inspect ordres"), @r"
    --- stderr
    error: no channel ordres in redrive.yaml; near: orders
      There: orders
    next  redrive check
    [2]
    ");
    insta::assert_snapshot!(env.line("inspect orders --diff 000000"), @r"
    --- stderr
    error: no letter of cause 000000 in orders.dlq
    next  redrive inspect orders
    [1]
    ");
}

#[test]
fn t02_times_without_a_zone_are_refused_with_the_way_to_write_them() {
    let env = night();
    for time in ["2025-07-21T23:28:00", "2025-07-21T23:28:00+00:00Z", "1753140480", "yesterday"] {
        let run = env.run(&["inspect", "orders", "--since", time]).exits(2);
        assert!(run.err.starts_with("error: --since: "), "{run}");
    }
    insta::assert_snapshot!(env.line("inspect orders --since 2025-07-21T23:28:00"), @r"
    --- stderr
    error: --since: `2025-07-21T23:28:00` has no zone; `2025-07-21T23:28:00Z` is UTC, `2025-07-21T23:28:00+01:00` an hour ahead
    next  redrive inspect --help
    [2]
    ");
}

#[test]
fn t01_z_means_utc_in_every_zone_of_the_machine() {
    let mut env = night();
    for zone in ["Europe/Berlin", "UTC", "America/Los_Angeles"] {
        env.set("TZ", zone);
        let json = env.line("inspect orders --since 2026-11-30T02:03:59Z -o json").ok().json();
        assert_eq!(
            (&json["letters"], &json["selection"]["since"]),
            (&4.into(), &"2026-11-30T02:03:59Z".into())
        );
        let json = env.line("inspect orders --since 30m -o json").ok().json();
        assert_eq!(json["letters"], 1);
    }
}

#[test]
fn show_says_what_died_why_and_what_a_redrive_would_do() {
    let env = night();
    insta::assert_snapshot!(env.line("show orders m6").ok(), @r#"
    orders · local · orders.dlq, letter m6

    SocketTimeoutException: no answer from the gateway  cause 91be4d

    event id   ev-13  header event-id
    group      C-3    key
    origin     orders
    died       2026-11-30 02:03:59Z, 1h 8m ago, says the broker
    tried      4 times
    redriven   never; 3 times allowed
    expires    2026-12-14 02:03Z, in 13d 22h
    read as    redrive, sure (--why)

    deaths, oldest first, all in consumer billing
      1  died 01:52:43Z  orders  SocketTimeoutException: no answer from the gateway
      2  died 02:03:58Z  orders  SocketTimeoutException

    headers, 4: 3 travel, 1 stays behind (redrive's own)
      travel  event-id         text  ev-13
      travel  tenant           text  south
      travel  redrive-deaths   text  [{"at":"2026-11-30T01:52:43Z","queue":"orders","consumer":"billing…
      stay    redrive-attempt  text  4

    body, 53 B, JSON
      {"orderId": 13, "currency": "EUR", "total": "119.90"}

    a redrive would
      send to  orders, read by billing
      start    afresh: 4 tries
      order    behind 1 earlier letter of C-3, from m5 on: held until they went
      add      redrive-run, redrive-count 1, redrive-from
    --- stderr
    next  redrive select orders --cause 91be4d --limit 200 --out orders-91be4d.jsonl --reason TEXT
    "#);
    insta::assert_snapshot!(env.line("show orders m3 --why").ok(), @r"
    orders · local · orders.dlq, letter m3

    unknown: no failure headers in the letter  cause none

    event id   unknown  no header event-id
    group      unknown  no key
    origin     unknown: the letter does not say
    died       2026-11-26 09:00:00Z, 3d 18h ago, says the broker
    redriven   never; 3 times allowed
    expires    2026-12-10 09:00Z, in 10d 5h
    read as    nothing known: no dialect recognises it

    why, the dialect that wins first
      none of the dialects knows a mark of this letter: redrive explain dialects

    deaths: the letter records none

    body, 4 B, binary, begins like UTF-16
      00000000  ff fe 00 01                                       |....|

    a redrive would
      send to  orders, read by billing
      start    afresh: 4 tries
      order    none to keep: no key
      add      redrive-run, redrive-count 1, redrive-from
    --- stderr
    next  redrive select orders --cause none --limit 200 --out orders-none.jsonl --reason TEXT
    ");
}

#[test]
fn show_refuses_what_is_no_letter_or_several() {
    let env = night();
    insta::assert_snapshot!(env.line("show orders m99"), @r"
    --- stderr
    error: no letter m99 in the dead-letter queue of orders
      It may have been redriven, or taken by retention.
    next  redrive inspect orders --letters
    [1]
    ");
    insta::assert_snapshot!(env.line("show orders P3/41"), @r"
    --- stderr
    error: P3/41 is no letter id; ids are of a-z and 0-9
    next  redrive inspect orders --letters
    [2]
    ");
    insta::assert_snapshot!(env.line("show orders m"), @r"
    --- stderr
    error: m begins several ids, m1, m2, m3 among them
    next  redrive inspect orders --letters
    [2]
    ");
    insta::assert_snapshot!(env.line("show orders m1 --raw -o json"), @r#"
    --- stderr
    {"schema":"redrive.error.v1","code":"usage","exit":2,"message":"--raw is the bytes alone; -o json has them with their encoding","hints":[],"next":["redrive","show","--help"]}
    [2]
    "#);
    // What was an id once names no other letter that begins with it: m1 is gone, m10 and m11 are there.
    let db = rusqlite::Connection::open(env.path("redrive.db")).unwrap();
    db.execute_batch("DELETE FROM letter WHERE id = 1").unwrap();
    for n in 0..12 {
        let _ = env.run(&["dev", "send", "orders.dlq", "--body", &format!("more {n}")]).ok();
    }
    let gone = env.line("show orders m1").exits(1);
    assert!(gone.says("error: no letter m1 in the dead-letter queue of orders"), "{gone}");
    let _ = env.line("show orders m11").ok();
}

/// What `--raw` writes.
pub(super) fn raw_body(env: &TestEnv, letter: &str) -> Vec<u8> {
    let output = env.command(&["show", "orders", letter, "--raw"]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn o07_raw_bytes_come_out_as_they_are() {
    let env = night();
    assert_eq!(raw_body(&env, "m3"), b"\xff\xfe\x00\x01");
    let json = env.line("show orders m3 -o json").ok().json();
    assert_eq!((&json["body"]["encoding"], &json["body"]["base64"]), (&"base64".into(), &"//4AAQ==".into()));
}
