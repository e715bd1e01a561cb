//! SQS before anything is connected: names, abilities, and the rules that only SQS asks for.

use std::time::Duration;

use super::super::naming::{self, Placed};
use super::super::options;
use super::super::{
    Atomicity, BulkMoves, Capabilities, Dedup, Delay, Kind, Limits, Names, OpenContext, Opening, Order, Peek,
};
use crate::clock;
use crate::diagnostic::Diagnostic;
use crate::topology::{At, BrokerDecl, Channel, EventIdRule, ServedBy, Setting, Topology, codes};

/// Longest name, `.fifo` included (N01).
const NAME_MAX: usize = 80;
/// End of every FIFO queue's name.
const FIFO: &str = ".fifo";
/// Longest `DelaySeconds` (S30).
const DELAY_MAX: Duration = Duration::from_secs(900);
/// Bounds of `MessageRetentionPeriod`.
const RETENTION: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(14 * 86_400));
/// `VisibilityTimeout` unless it is set.
const VISIBILITY: Duration = Duration::from_secs(30);
/// Longest `VisibilityTimeout`.
const VISIBILITY_MAX: Duration = Duration::from_secs(12 * 3_600);
/// Window in which a FIFO queue drops the second of two equal deduplication ids.
const DEDUP_WINDOW: Duration = Duration::from_secs(300);
/// Most bytes of a message, attributes included.
const MESSAGE_MAX: u64 = 1_048_576;

/// Calls of a kind under way at once.
pub(super) const AT_ONCE: usize = 8;
/// Most messages of one call.
pub(super) const IN_A_CALL: usize = 10;
/// Letters held at once: those that are sent, those that are deleted, and the next ones.
const CLAIMS: usize = 5 * AT_ONCE * IN_A_CALL;
/// The same on a FIFO queue, where what is held locks its group. Some hand out ever more slowly the more is held: a run
/// begins with few and finds out.
pub(super) const FIFO_CLAIMS: usize = 3 * AT_ONCE * IN_A_CALL;

/// Most messages a second that SQS's own move can be held to (S27).
const MOVE_MAX: u32 = 500;
/// What SQS's own move does not keep or cannot do (S26).
const MOVE_DROPS: &[&str] = &[
    "each copy gets a new message id and time of sending, and retention starts again",
    "no mark of the run on the copies: max_redrives does not count them, and no ledger names them",
    "no limit and no filter; no rule holds a letter back: max_redrives, dedup_window, origin",
    "letters that arrive while it runs may go too, or may stay",
];

/// Options that the client takes.
const OPTIONS: &[&str] = &["endpoint_url", "most_in_flight", "profile", "redrive_allow_policy", "role_arn"];

/// See the file's head.
pub struct SqsKind;

impl Kind for SqsKind {
    fn schemes(&self) -> &'static [&'static str] {
        &["sqs"]
    }

    fn title(&self) -> &'static str {
        "SQS"
    }

    fn block(&self) -> Option<&'static str> {
        Some("sqs")
    }

    fn capabilities(&self, channel: &Channel) -> Capabilities {
        let fifo = is_fifo(channel);
        Capabilities {
            delay: Delay::Native { max: DELAY_MAX, step: Duration::from_secs(1) },
            peek: Peek::Marks("receive count +1 on each letter looked at"),
            relocate: Atomicity::PublishThenSettle,
            ordered_batch: false,
            bulk: match fifo {
                true => {
                    BulkMoves::No("SQS's own move keeps no order of groups against what is sent meanwhile")
                }
                false => BulkMoves::All { most_per_second: MOVE_MAX, not_kept: MOVE_DROPS },
            },
            batch: AT_ONCE * IN_A_CALL,
            claims: if fifo { FIFO_CLAIMS } else { CLAIMS },
            group_lock: fifo.then_some(10),
            order: if fifo { Order::PerGroup } else { Order::None },
            dedup: if fifo { Dedup::Window(DEDUP_WINDOW) } else { Dedup::None },
            limits: Limits { message: Some(MESSAGE_MAX), headers: None, header_count: Some(10) },
            deletes: true,
            trims: false,
            // A standard queue deletes on several servers, and one of them may have been away.
            deleted_returns: !fifo,
            keeps_times: false,
            sees_later: false,
            fan_out: false,
            enforces_retention: true,
            served_by: &[ServedBy::Relay, ServedBy::Consumer],
        }
    }

    fn names(&self, channel: &Channel) -> Names {
        let end = if is_fifo(channel) { FIFO } else { "" };
        naming::lowered(channel, |base, suffix| {
            let base = base.strip_suffix(FIFO).unwrap_or(base);
            format!("{base}-{suffix}{end}")
        })
    }

    fn check(&self, _topology: &Topology, broker: &BrokerDecl, channels: &[&Channel]) -> Vec<Diagnostic> {
        let mut found: Vec<Diagnostic> = url(broker).into_iter().chain(account(broker)).collect();
        found.extend(options::check(broker, "SQS", OPTIONS, &[]));
        found.extend(most_in_flight(broker));
        for channel in channels {
            let fifo = is_fifo(channel);
            for name in naming::placed(channel, &self.names(channel)) {
                found.extend(queue_name(&name, fifo));
            }
            found.extend(times(channel));
            if let EventIdRule::Property(property) = &channel.event_id.value {
                found.push(
                    Diagnostic::error(codes::PROPERTY, format!("SQS has no property `{property}` for an event id"))
                        .at(channel.event_id.span.clone(), "not a property")
                        .help("SQS gives a message a new id at every send: name a header (an attribute) or a body path"),
                );
            }
        }
        found
    }

    fn options(&self) -> &'static [&'static str] {
        OPTIONS
    }

    fn place(&self, broker: &BrokerDecl) -> String {
        let region = broker.url.trim_start_matches("sqs://");
        match &broker.account {
            Some(account) => format!("{region}, account {}", account.value),
            None => region.to_owned(),
        }
    }

    /// The url is a region: queues of one name are others in another account or at another endpoint.
    fn identity(&self, broker: &BrokerDecl) -> String {
        let option = |name: &str| {
            let (_, value) = broker.options.iter().find(|(key, _)| key.value == name)?;
            value.expose().map(crate::redact::url)
        };
        let account = broker.account.as_ref().map(|account| account.value.clone());
        let parts = [account, option("endpoint_url"), option("profile"), option("role_arn")];
        let url = crate::redact::url(&broker.url.value);
        parts.into_iter().flatten().fold(url, |whole, part| format!("{whole} {part}"))
    }

    fn on_the_line(&self, url: &str) -> Option<Result<String, &'static str>> {
        const HOW: &str = "sqs://REGION/DEAD-LETTERS/SOURCE, or sqs://REGION/ACCOUNT/DEAD-LETTERS/SOURCE";
        let parts: Vec<&str> = url.strip_prefix("sqs://")?.split('/').collect();
        // What a queue's name or a region may hold, and nothing that a login or YAML could be made of.
        let clean = |part: &&str| {
            let right = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !part.is_empty() && part.bytes().all(right)
        };
        let (region, account, dead, source) = match parts.as_slice() {
            [region, dead, source] => (region, None, dead, source),
            [region, account, dead, source] => (region, Some(account), dead, source),
            _ => return Some(Err(HOW)),
        };
        if !parts.iter().all(clean) {
            return Some(Err(HOW));
        }
        let account = account.map(|account| format!(", account: \"{account}\"")).unwrap_or_default();
        let group = if source.ends_with(FIFO) { "key" } else { "none" };
        Some(Ok(format!(
            "version: 1\nbrokers: {{sqs: {{url: \"sqs://{region}\"{account}}}}}\nchannels:\n  \"{dead}\":\n    \
             source: \"{source}\"\n    event_id: none\n    group: {group}\n    dead_letter: {{name: \"{dead}\"}}\n"
        )))
    }

    #[cfg(feature = "sqs")]
    fn open<'a>(&self, broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
        super::roles::open(broker, context)
    }

    #[cfg(not(feature = "sqs"))]
    fn open<'a>(&self, _broker: &'a BrokerDecl, _context: &'a OpenContext) -> Opening<'a> {
        use super::super::{BrokerError, ErrorKind};
        Box::pin(async {
            Err(BrokerError::new(ErrorKind::Unsupported, "connect to SQS", "this build has no SQS client")
                .hint("install a build with the feature sqs"))
        })
    }
}

/// FIFO, as written, else by the name of the source.
pub(super) fn is_fifo(channel: &Channel) -> bool {
    match channel.setting("sqs", "fifo") {
        Some(At { value: Setting::Bool(fifo), .. }) => *fifo,
        _ => channel.source.ends_with(FIFO),
    }
}

fn url(broker: &BrokerDecl) -> Option<Diagnostic> {
    let text = &broker.url.value;
    let region = text.strip_prefix("sqs://").unwrap_or_default();
    let label =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let right = region.split('-').count() >= 3 && region.split('-').all(label);
    (!text.contains("${") && !right).then(|| {
        Diagnostic::error(codes::URL, format!("the url of `{}` is not one for SQS", broker.name.value))
            .at(broker.url.span.clone(), "no region")
            .help("write sqs://REGION, for instance sqs://eu-west-1; another endpoint goes into options: {endpoint_url: …}")
    })
}

fn account(broker: &BrokerDecl) -> Option<Diagnostic> {
    let account = broker.account.as_ref()?;
    let right = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    (!right).then(|| {
        Diagnostic::error(codes::ACCOUNT, format!("`{}` is no AWS account", account.value))
            .at(account.span.clone(), format!("{} characters", account.chars().count()))
            .help("an account has 12 digits; write it in quotes, with its leading zeros")
    })
}

/// Whole tens, so that receives stay full; over the limit of SQS it would never be reached (S23).
fn most_in_flight(broker: &BrokerDecl) -> Option<Diagnostic> {
    let (name, value) = broker.options.iter().find(|(name, _)| name.value == "most_in_flight")?;
    let text = value.expose()?;
    let right = text.parse::<usize>().is_ok_and(|number| (10..=110_000).contains(&number));
    (!right).then(|| {
        Diagnostic::error(codes::SETTING_RANGE, "`most_in_flight` is out of range")
            .at(name.span.clone(), format!("{} characters", text.chars().count()))
            .help("a number from 10 to 110000; SQS hands out about 120,000 letters at once")
    })
}

fn queue_name(placed: &Placed, fifo: bool) -> Option<Diagnostic> {
    let name = &placed.name;
    let error = |code, title: String, label: &str| {
        Diagnostic::error(code, title).at(placed.span.clone(), placed.label(label))
    };
    let stem = name.strip_suffix(FIFO);
    if let Some(strange) =
        naming::strangers(stem.unwrap_or(name), |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    {
        return Some(
            error(
                codes::NAME_LETTERS,
                format!("SQS takes no queue of this name: {strange}"),
                "refused by SQS",
            )
            .help("letters of queues: A-Z a-z 0-9 - _, and .fifo at the end of a FIFO queue"),
        );
    }
    if name.len() > NAME_MAX {
        return Some(
            error(codes::NAME_LENGTH, format!("the name of the {} is too long", placed.part), "too long")
                .help(format!("SQS takes {NAME_MAX} characters, .fifo included; this has {}", name.len())),
        );
    }
    if stem.is_some() != fifo {
        let (what, help) = if fifo {
            (
                "does not end in .fifo, and the channel is FIFO",
                "add .fifo to the name, or write fifo: false under sqs",
            )
        } else {
            (
                "ends in .fifo, and the channel is not FIFO",
                "take .fifo from the name, or write fifo: true under sqs",
            )
        };
        return Some(
            error(
                codes::FIFO_MISMATCH,
                format!("the {} `{name}` {what}", placed.part),
                "other type than the channel",
            )
            .help(help)
            .help("source, tiers and dead-letter queue are of one type"),
        );
    }
    None
}

fn times(channel: &Channel) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let seconds = |time: Duration| time.subsec_nanos() == 0;
    if let Some(retention) = &channel.dead_letter.retention {
        let (least, most) = RETENTION;
        if retention.value < least || retention.value > most || !seconds(retention.value) {
            found.push(
                Diagnostic::error(codes::RETENTION_RANGE, "SQS cannot keep letters for this long")
                    .at(retention.span.clone(), clock::exact(retention.value))
                    .help(format!(
                        "from {} to {}, in whole seconds",
                        clock::exact(least),
                        clock::exact(most)
                    )),
            );
        }
    }
    if let Some(At { value: Setting::Duration(timeout), span }) = channel.setting("sqs", "visibility_timeout")
        && (*timeout > VISIBILITY_MAX || !seconds(*timeout))
    {
        found.push(
            Diagnostic::error(codes::SETTING_RANGE, "`visibility_timeout` is out of range")
                .at(span.clone(), clock::exact(*timeout))
                .help(format!("at most {}, in whole seconds", clock::exact(VISIBILITY_MAX))),
        );
    }
    found.extend(visibility(channel));
    if let Some(At { value: Setting::Number(receives @ 1..=2), span }) =
        channel.setting("sqs", "max_receive_count")
    {
        found.push(
            Diagnostic::warning(codes::FEW_RECEIVES, format!("SQS dead-letters after {receives} receives"))
                .at(span.clone(), "looking at a message counts as one")
                .help("write 3 or more"),
        );
    }
    found
}

/// A message that is handled for longer than it is hidden is handed out again meanwhile.
fn visibility(channel: &Channel) -> Option<Diagnostic> {
    let Some(At { value: Setting::Duration(handler), span }) = channel.setting("sqs", "handler_time") else {
        return None;
    };
    let (hidden, place) = match channel.setting("sqs", "visibility_timeout") {
        Some(At { value: Setting::Duration(hidden), span }) => (*hidden, Some(span.clone())),
        _ => (VISIBILITY, None),
    };
    if *handler < hidden {
        return None;
    }
    let title = "a message comes into view again while it is still handled";
    let mut warning = Diagnostic::warning(codes::SHORT_VISIBILITY, title)
        .at(span.clone(), format!("handled for {}", clock::exact(*handler)));
    if let Some(place) = place {
        warning = warning.near(place, format!("hidden for {}", clock::exact(hidden)));
    }
    let wanted = handler.as_secs() * 2;
    Some(
        warning.help(format!(
            "write visibility_timeout: {wanted}s, or at least more than that; unset it is 30s"
        )),
    )
}

/// A delay as `DelaySeconds` of a queue (S30, S31); `None` if SQS cannot do it.
pub fn delay_seconds(delay: Duration) -> Option<u16> {
    let whole = delay.subsec_nanos() == 0 && delay <= DELAY_MAX;
    whole.then(|| u16::try_from(delay.as_secs()).ok()).flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn y03_a_tier_of_five_seconds_is_a_delay_of_5() {
        assert_eq!(delay_seconds(Duration::from_secs(5)), Some(5));
    }

    #[test]
    fn x05_a_queue_on_the_line_is_names_and_nothing_else() {
        let said = SqsKind
            .on_the_line("sqs://eu-west-1/012345678901/refunds-dlq.fifo/refunds.fifo")
            .unwrap()
            .unwrap();
        assert!(said.contains("account: \"012345678901\"") && said.contains("group: key"), "{said}");
        assert!(SqsKind.on_the_line("sqs://eu-west-1/orders-dlq/orders").unwrap().is_ok());
        for bad in [
            "sqs://eu-west-1",
            "sqs://eu-west-1/orders-dlq",
            "sqs://eu-west-1/orders-dlq/",
            "sqs://mira:hunter2@eu-west-1/orders-dlq/orders",
            "sqs://eu-west-1/a\"}\n/orders",
        ] {
            assert!(SqsKind.on_the_line(bad).unwrap().is_err(), "{bad}");
        }
    }

    #[test]
    fn s30_delays_are_not_rounded_and_end_at_900() {
        assert_eq!(delay_seconds(Duration::from_secs(900)), Some(900));
        for bad in [Duration::from_secs(901), Duration::from_millis(1_500), Duration::from_secs(54_524)] {
            assert_eq!(delay_seconds(bad), None);
        }
    }
}
