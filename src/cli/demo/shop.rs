//! Two weeks of trouble in a small shop: about two hundred dead letters with six causes of very different
//! sizes, and a few that are there to try the tool: a poison message, an event twice, an event id with two
//! bodies, an empty body, a hostile one, one that came back twice.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::clock::Time;
use crate::letter::{Headers, Message, Value};
use crate::stamp;

/// A dead letter and where it lies since when.
pub(super) struct Buried {
    /// Dead-letter queue.
    pub queue: &'static str,
    /// When it died.
    pub at: Time,
    /// As it lies there.
    pub message: Message,
}

/// What a channel's failures look like.
struct Flow {
    source: &'static str,
    queue: &'static str,
    consumer: &'static str,
    /// Queues that a failing message waited in, with their delays in seconds.
    tiers: &'static [(&'static str, u64)],
}

const ORDERS: Flow = Flow {
    source: "orders",
    queue: "orders.dlq",
    consumer: "billing",
    tiers: &[("orders.retry-5s", 5), ("orders.retry-1m", 60), ("orders.retry-10m", 600)],
};
const PAYMENTS: Flow = Flow {
    source: "payments",
    queue: "payments.dlq",
    consumer: "ledger",
    tiers: &[("payments.retry-10s", 10), ("payments.retry-5m", 300)],
};
const EMAILS: Flow = Flow {
    source: "emails",
    queue: "emails.dlq",
    consumer: "mailer",
    tiers: &[("emails.retry-1m", 60), ("emails.retry-1h", 3600)],
};

/// Why something failed.
struct Why {
    class: &'static str,
    root_class: Option<&'static str>,
    message: String,
    root_message: Option<String>,
    stack: String,
}

/// One letter before it is written down.
struct Letter<'f> {
    flow: &'f Flow,
    died: Time,
    event: String,
    key: Option<String>,
    body: Option<Bytes>,
    why: Why,
    redriven: u32,
}

impl Letter<'_> {
    /// As the consumer contract has it: the history in one header, the counters beside it.
    fn bury(self, number: u64) -> Buried {
        let flow = self.flow;
        let waits: Duration = flow.tiers.iter().map(|(_, delay)| Duration::from_secs(*delay)).sum();
        let mut at = self.died.minus(waits);
        let first = at;
        let mut deaths: Vec<Json> = Vec::new();
        for tier in 0..=flow.tiers.len() {
            deaths.push(self.death(at));
            at = at.plus(Duration::from_secs(flow.tiers.get(tier).map_or(0, |(_, delay)| *delay)));
        }
        let mut headers = Headers::new();
        let mut text = |name: &str, value: String| headers.push(name, Value::from_text(value));
        text("event-id", self.event.clone());
        text("content-type", "application/json".to_owned());
        text(
            "traceparent",
            format!(
                "00-{:016x}{:016x}-{:016x}-01",
                mixed(number),
                mixed(number + 1000),
                mixed(number + 2000)
            ),
        );
        text(stamp::DEATHS, Json::from(deaths).to_string());
        text(stamp::ATTEMPT, (flow.tiers.len() + 1).to_string());
        text(stamp::FIRST_FAILED_AT, first.rfc3339());
        text(stamp::TIER, flow.tiers.last().map_or(String::new(), |(name, _)| (*name).to_owned()));
        text(stamp::ORIGINAL_TIME, first.minus(Duration::from_millis(340)).rfc3339());
        if self.redriven > 0 {
            text(stamp::COUNT, self.redriven.to_string());
            text(stamp::RUN, "r5b1c0wq8t/14".to_owned());
            text(stamp::FROM, format!("{}/m3", flow.queue));
        }
        let message =
            Message { key: self.key.map(Bytes::from), body: self.body, headers, properties: Headers::new() };
        Buried { queue: flow.queue, at: self.died, message }
    }

    fn death(&self, at: Time) -> Json {
        let mut entry = json!({
            "at": at.rfc3339(),
            "queue": self.flow.source,
            "consumer": self.flow.consumer,
            "class": self.why.class,
            "message": self.why.message,
            "stack": self.why.stack,
        });
        if let (Some(class), Some(message)) = (self.why.root_class, &self.why.root_message) {
            entry["root_class"] = class.into();
            entry["root_message"] = message.clone().into();
        }
        entry
    }
}

/// Every dead letter of the shop as of `now`, oldest first.
pub(super) fn dead_letters(now: Time) -> Vec<Buried> {
    let mut letters: Vec<Letter<'static>> = Vec::new();
    timeouts(now, &mut letters);
    currencies(now, &mut letters);
    nulls(now, &mut letters);
    deadlocks(now, &mut letters);
    poison(now, &mut letters);
    refused_mails(now, &mut letters);
    letters.sort_by_key(|letter| letter.died);
    letters.into_iter().zip(0..).map(|(letter, number)| letter.bury(number)).collect()
}

fn ago(now: Time, minutes: u64, spread: u64) -> Time {
    now.minus(Duration::from_secs(minutes * 60 + spread % 60))
}

/// Most troubles hit other customers; a few customers have letters of two causes, and order decides there.
fn customer(n: u64) -> String {
    let pool = if n < 100 || mixed(n).is_multiple_of(8) { 1200 } else { 1300 };
    format!("C-{}", pool + mixed(n) % 60)
}

fn order(n: u64, currency: &str) -> Bytes {
    let total = format!("{}.{:02}", 9 + mixed(n) % 180, mixed(n + 3) % 100);
    let body = json!({
        "orderId": 5000 + n,
        "customer": customer(n),
        "currency": currency,
        "total": total,
        "items": 1 + mixed(n) % 4,
    });
    Bytes::from(body.to_string())
}

fn timeout(order: u64) -> Why {
    Why {
        class: "com.shop.billing.OrderProcessingException",
        root_class: Some("java.net.SocketTimeoutException"),
        message: format!("cannot bill order {order}"),
        root_message: Some("payment gateway: no answer in 3000 ms".to_owned()),
        stack: include_str!("timeout.java.txt").replace("{order}", &order.to_string()),
    }
}

/// The gateway was down for an hour this night: 96 letters in a burst.
fn timeouts(now: Time, letters: &mut Vec<Letter<'static>>) {
    for n in 0..96 {
        letters.push(Letter {
            flow: &ORDERS,
            died: ago(now, 40 + n * 2 / 3, n * 17),
            event: format!("ev-{}", 70_400 + n),
            key: Some(customer(n)),
            body: Some(order(n, "EUR")),
            why: timeout(5000 + n),
            redriven: 0,
        });
    }
    // The same event published twice, and an event id used again for another order.
    for (died, event, n) in [(55, 70_412, 12), (52, 70_431, 299)] {
        letters.push(Letter {
            flow: &ORDERS,
            died: ago(now, died, 5),
            event: format!("ev-{event}"),
            key: Some(customer(n)),
            body: Some(order(n, "EUR")),
            why: timeout(5000 + n),
            redriven: 0,
        });
    }
}

/// Currencies that billing does not know: a drip over two weeks. One came back twice already.
fn currencies(now: Time, letters: &mut Vec<Letter<'static>>) {
    for n in 100..138 {
        let currency = ["XBT", "HRK", "ZWL"][usize::try_from(mixed(n) % 3).unwrap_or(0)];
        letters.push(Letter {
            flow: &ORDERS,
            died: ago(now, 90 + (n - 100) * 480, n * 29),
            event: format!("ev-{}", 61_000 + n),
            key: Some(customer(n)),
            body: Some(order(n, currency)),
            why: Why {
                class: "java.lang.IllegalArgumentException",
                root_class: None,
                message: format!("unsupported currency \"{currency}\""),
                root_message: None,
                stack: include_str!("currency.java.txt").replace("{currency}", currency),
            },
            redriven: if n == 104 { 2 } else { 0 },
        });
    }
}

/// Orders without what the mapper takes for granted; one has an empty body.
fn nulls(now: Time, letters: &mut Vec<Letter<'static>>) {
    for n in 200..207 {
        let body = json!({"orderId": 5000 + n, "customer": customer(n), "currency": null});
        let body = if n == 203 { Bytes::new() } else { Bytes::from(body.to_string()) };
        letters.push(Letter {
            flow: &ORDERS,
            died: ago(now, 300 + (n - 200) * 700, n * 13),
            event: format!("ev-{}", 66_000 + n),
            key: Some(customer(n)),
            body: Some(body),
            why: Why {
                class: "java.lang.NullPointerException",
                root_class: None,
                message: String::new(),
                root_message: None,
                stack: include_str!("null.java.txt").to_owned(),
            },
            redriven: 0,
        });
    }
}

/// Two jobs of the ledger stood in each other's way yesterday evening.
fn deadlocks(now: Time, letters: &mut Vec<Letter<'static>>) {
    for n in 0..22 {
        let payment = format!("P-{}", 88_000 + n);
        let stack = include_str!("deadlock.python.txt")
            .replace("{process}", &(2000 + n * 3).to_string())
            .replace("{transaction}", &(918_200 + n * 11).to_string())
            .replace("{other}", &(2001 + n * 3).to_string())
            .replace("{payment}", &payment);
        let body = json!({"payment": payment, "account": format!("A-{}", 310 + mixed(n) % 9), "cents": 500 + mixed(n) % 90_000});
        letters.push(Letter {
            flow: &PAYMENTS,
            died: ago(now, 610 + n * 4, n * 7),
            event: format!("pay-{}", 88_000 + n),
            key: Some(format!("A-{}", 310 + mixed(n) % 9)),
            body: Some(Bytes::from(body.to_string())),
            why: Why {
                class: "ledger.errors.BookingError",
                root_class: Some("psycopg2.errors.DeadlockDetected"),
                message: format!("could not book payment {payment}"),
                root_message: Some("deadlock detected".to_owned()),
                stack,
            },
            redriven: 0,
        });
    }
}

/// A body that no consumer will ever read.
fn poison(now: Time, letters: &mut Vec<Letter<'static>>) {
    letters.push(Letter {
        flow: &PAYMENTS,
        died: ago(now, 4 * 1440 + 77, 0),
        event: "pay-87112".to_owned(),
        key: Some("A-314".to_owned()),
        body: Some(Bytes::from_static(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff{\"payment\": \"P-871")),
        why: Why {
            class: "json.decoder.JSONDecodeError",
            root_class: None,
            message: "Expecting value: line 1 column 1 (char 0)".to_owned(),
            root_message: None,
            stack: include_str!("poison.python.txt").to_owned(),
        },
        redriven: 0,
    });
}

/// Full mailboxes; and one subject that somebody made to fool whoever looks at it.
fn refused_mails(now: Time, letters: &mut Vec<Letter<'static>>) {
    for n in 0..33 {
        let address = format!("{}{}@example.net", ["ana", "bo", "chi", "dimitri"][(n % 4) as usize], 10 + n);
        let hostile = n == 20;
        let subject = if hostile {
            "\u{1b}[2J\u{1b}[31mALL PAYMENTS LOST\u{1b}[0m\u{7}\r\nredrive: 0 dead letters\u{202e}gpj.eciovni"
        } else {
            "Your order is on its way"
        };
        let mut why = Why {
            class: "smtplib.SMTPRecipientsRefused",
            root_class: None,
            message: format!("{{'{address}': (452, b'4.2.2 mailbox full')}}"),
            root_message: None,
            stack: include_str!("mail.python.txt").replace("{address}", &address),
        };
        if hostile {
            let fools = format!("{address}\u{1b}]0;pwned\u{7}");
            why.message = why.message.replace(&address, &fools);
        }
        letters.push(Letter {
            flow: &EMAILS,
            died: ago(now, 130 + n * 190, n * 11),
            event: format!("mail-{}", 4400 + n),
            key: None,
            body: Some(Bytes::from(
                json!({"to": address, "subject": subject, "order": 5000 + n}).to_string(),
            )),
            why,
            redriven: 0,
        });
    }
}

/// A number that looks like chance and is the same on every machine.
fn mixed(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 29;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const NOW: Time = Time::from_seconds(1_796_000_000);

    #[test]
    fn the_shop_has_two_hundred_letters_within_retention() {
        let letters = dead_letters(NOW);
        assert_eq!(letters.len(), 199);
        let day = Duration::from_secs(86_400);
        for letter in &letters {
            let kept = if letter.queue == "emails.dlq" { day * 7 } else { day * 14 };
            assert!(letter.at < NOW && NOW.since(letter.at) < kept);
            assert!(letter.message.headers.last_text(stamp::DEATHS).unwrap().len() <= stamp::DEATHS_MAX);
        }
        assert!(letters.is_sorted_by_key(|letter| letter.at));
    }

    #[test]
    fn there_is_one_of_each_oddity() {
        let letters = dead_letters(NOW);
        let mut bodies: BTreeMap<&str, Vec<&Bytes>> = BTreeMap::new();
        for letter in &letters {
            let event = letter.message.headers.first_text("event-id").unwrap();
            bodies.entry(event).or_default().push(letter.message.body.as_ref().unwrap());
        }
        let twice: Vec<bool> =
            bodies.values().filter(|all| all.len() == 2).map(|all| all[0] == all[1]).collect();
        assert_eq!(twice, [true, false], "one duplicate, one event id with two bodies");
        let count = |odd: &dyn Fn(&Buried) -> bool| letters.iter().filter(|letter| odd(letter)).count();
        assert_eq!(count(&|letter| letter.message.body.as_ref().unwrap().is_empty()), 1);
        assert_eq!(count(&|letter| letter.message.headers.first_text(stamp::COUNT) == Some("2")), 1);
        assert_eq!(count(&|letter| std::str::from_utf8(letter.message.body.as_ref().unwrap()).is_err()), 1);
        assert_eq!(
            count(&|letter| letter.message.headers.first_text(stamp::DEATHS).unwrap().contains("\\u001b")),
            1
        );
    }
}
