//! RabbitMQ itself: what the broker notes when it dead-letters a message, on 3.x and 4.x, and the headers and
//! properties that are the broker's and never travel.
//!
//! It speaks about every letter that came through an exchange, also if there is no `x-death` (R06): its
//! bookkeeping must stay behind even when a framework published the letter.

use super::x_death::{self, Deaths, Record};
use super::{Dialect, Layer, Look, Mark, Testimony, native};
use crate::failure::{Death, Origin, Prospect, Sureness};
use crate::letter::Header;

/// Name of this dialect; frameworks overrule it where `x-death` is about their own delay queues.
pub(super) const NAME: &str = "rabbitmq";

/// See the file's head.
pub(super) struct RabbitMq;

impl Dialect for RabbitMq {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "RabbitMQ's own dead-lettering, 3.x and 4.x"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Header(x_death::NAME),
            Mark::Prefix("x-first-death-"),
            Mark::Prefix("x-last-death-"),
            Mark::Header("x-delivery-count"),
            Mark::Header("x-acquired-count"),
            Mark::Other("read from a queue behind an exchange"),
        ]
    }

    fn layer(&self) -> Layer {
        Layer::Broker
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let headers = letter.headers();
        if headers.has(x_death::NAME) {
            return Some((Sureness::Sure, "header x-death".to_owned()));
        }
        if headers.has("x-first-death-queue") {
            return Some((Sureness::Likely, "header x-first-death-queue".to_owned()));
        }
        let why = "it came through an exchange; no x-death, so the broker recorded no death";
        letter.facts.route.as_ref().map(|_| (Sureness::Maybe, why.to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        match Deaths::of(headers) {
            Some(deaths) => {
                refuse_forgeries(&deaths, says);
                if deaths.only_waits() && native::tells_its_deaths(letter) {
                    // The consumer published it to its tiers and to the dead-letter queue: it was never
                    // rejected, and what the broker noted are the waits between its tries.
                } else if deaths.records.is_empty() {
                    first_death_only(letter, says);
                } else {
                    read(letter, &deaths, says);
                }
            }
            None => first_death_only(letter, says),
        }
    }

    fn owns(&self, header: &Header) -> bool {
        let name = header.name.as_str();
        matches!(
            name,
            x_death::NAME | "x-delivery-count" | "x-acquired-count" | "x-stream-offset" | "CC" | "BCC"
        ) || name.starts_with("x-first-death-")
            || name.starts_with("x-last-death-")
    }

    fn owns_property(&self, property: &Header) -> bool {
        matches!(property.name.as_str(), "user_id" | "expiration" | "cluster_id")
    }
}

fn refuse_forgeries(deaths: &Deaths, says: &mut Testimony) {
    if deaths.skipped > 0 {
        let entries = if deaths.skipped == 1 { "entry" } else { "entries" };
        says.doubt("deaths", format!("{} unreadable {entries} of x-death skipped", deaths.skipped));
    }
    if deaths.left_out > 0 {
        says.doubt(
            "deaths",
            format!("{} more pairs of queue and reason in x-death left out", deaths.left_out),
        );
    }
}

fn read(letter: &Look<'_>, deaths: &Deaths, says: &mut Testimony) {
    let failures = deaths.failures();
    says.deaths = failures.iter().map(|record| record.death()).collect();
    if let Some(first) = deaths.origin() {
        says.origin = Some(origin(letter, deaths, first, says));
        says.attempts = attempts(letter, deaths, first, says);
        if first.exchange.as_deref().is_some_and(|exchange| !exchange.is_empty()) {
            says.prospect(Prospect::ToQueue {
                queue: first.queue.clone(),
                why: "its exchange may hand it to other queues too".to_owned(),
            });
        }
    }
    let newest = deaths.newest.and_then(|at| deaths.records.get(at));
    if newest.is_some_and(Record::expired) && !deaths.only_waits() {
        says.doubt("deaths", "it has waited since the last one in x-death: a later failure may be missing");
    }
    if failures.last().is_some_and(|last| last.reason == "maxlen") {
        says.doubt(
            "deaths",
            "maxlen: if the queue refuses what is over its limit, the publisher was told so and may have sent \
             it again",
        );
    }
}

/// Where it first lived. A message that was published straight to its queue may have been sent back there:
/// then exchange and key of its first life are gone (R04).
fn origin(letter: &Look<'_>, deaths: &Deaths, first: &Record, says: &mut Testimony) -> Origin {
    let headers = letter.headers();
    let mut place = first.place();
    if first.exchange.is_none() {
        says.doubt("origin.exchange", "x-death names none, which is the default exchange");
    }
    if first.straight_to_queue() {
        place.exchange = None;
        place.routing_key = None;
        says.doubt(
            "origin.exchange",
            "it came straight to its queue, as a message does that was sent back: its first exchange and key \
             may have been others",
        );
    }
    if let Some(named) = headers.last_text("x-first-death-queue")
        && named != first.queue
        && !deaths.records.iter().any(|record| record.queue == named && record.expired())
    {
        says.doubt("origin.queue", "x-first-death-queue names another one: it may not be the first");
    } else if headers.has("x-first-death-queue") && !headers.has("x-first-death-exchange") {
        says.doubt("origin.queue", "it may not be the first: the message was republished");
    }
    place
}

/// Deliveries that failed, as far as the broker counts them: rejections. What waited or was pushed out was
/// perhaps never seen by a consumer.
fn attempts(letter: &Look<'_>, deaths: &Deaths, first: &Record, says: &mut Testimony) -> Option<u32> {
    let headers = letter.headers();
    if deaths.count(None, "delivery_limit") > 0 {
        // It travels with the message since 4.0, which also writes x-last-death-*; before, each queue began
        // anew, and it counts looks at this queue only.
        let deliveries = headers
            .last("x-delivery-count")
            .filter(|_| headers.has("x-last-death-queue"))
            .and_then(crate::letter::Value::integer_or_digits)
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0);
        says.doubt(
            "attempts",
            match deliveries {
                Some(_) => "x-delivery-count, which looks at this queue raise too",
                None => "it was delivered up to its limit; how often is not in the letter",
            },
        );
        return deliveries;
    }
    let rejected = deaths.count(None, "rejected");
    if rejected == 0 {
        return None;
    }
    if first.straight_to_queue() && (rejected == 1 || headers.has("x-shovelled")) {
        says.doubt(
            "attempts",
            format!("at least {rejected}: what x-death counted before it was sent back is gone"),
        );
        return None;
    }
    // Spring names the class of what its converter wrote. Its listeners try again inside and reject at the end,
    // so that the one rejection is no count of tries.
    if rejected == 1 && headers.has("__TypeId__") {
        says.doubt("attempts", "at least 1: Spring wrote it, whose listeners try inside and keep no count");
        return None;
    }
    if rejected == 1 {
        says.doubt("attempts", "at least 1: requeues, and tries inside the consumer, leave no trace");
    }
    Some(rejected)
}

/// Without a readable x-death: what `x-first-death-*` and `x-last-death-*` say.
fn first_death_only(letter: &Look<'_>, says: &mut Testimony) {
    for (queue, exchange, reason) in [
        ("x-first-death-queue", "x-first-death-exchange", "x-first-death-reason"),
        ("x-last-death-queue", "x-last-death-exchange", "x-last-death-reason"),
    ] {
        let text = |name: &str| letter.headers().last_text(name).filter(|text| text.len() <= 255);
        let Some(queue) = text(queue).filter(|queue| !queue.is_empty()) else { continue };
        let place = Origin {
            queue: Some(queue.to_owned()),
            exchange: Some(text(exchange).unwrap_or_default().to_owned()),
            ..Origin::default()
        };
        let death = Death {
            reason: text(reason).map(str::to_owned),
            place: Some(place.clone()),
            count: 1,
            ..Death::default()
        };
        if says.origin.is_none() {
            says.doubt("origin.queue", "only x-first-death-queue tells: it may not be the first");
            says.origin = Some(place);
        }
        if !says.deaths.contains(&death) {
            says.deaths.push(death);
        }
    }
}
