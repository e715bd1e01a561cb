//! `redrive dev`: a shell script plays an application at the embedded broker: sends, receives, acks, fails.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use clap::Subcommand;
use serde::Serialize;

use super::brokers::Chosen;
use super::topology_file::Loaded;
use super::{CommandError, Context, ExitCode, Outcome};
use crate::broker::sqlite::{Application, Delivery, Failure, SqliteKind};
use crate::broker::{BrokerError, Kind, OpenContext, kind_of};
use crate::clock::{Time, parse_duration};
use crate::letter::{Headers, Message, Value};
use crate::render::{Line, escape_bytes};

/// Arguments of `dev`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example, a message that fails once:\n  redrive dev send orders --key C-1 --header event-id=ev-1 --body '{\"total\": 5}'\n  redrive dev receive orders\n  redrive dev fail RECEIPT --class TimeoutError --message 'no answer'"
)]
pub struct Args {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Send a message
    #[command(
        after_help = "Example:\n  redrive dev send orders --key C-1 --header event-id=ev-1 --body '{\"total\": 5}'"
    )]
    Send(Send),
    /// Take messages, for as long as a lease lasts
    #[command(after_help = "Example:\n  redrive dev receive orders --max 10 --lease 30s -o jsonl")]
    Receive(Receive),
    /// Done with a message: remove it
    #[command(after_help = "Example:\n  redrive dev ack m41.9f3a")]
    Ack(Ack),
    /// Failed with a message: to the next tier, after the last to the dead-letter queue
    #[command(
        after_help = "Example:\n  redrive dev fail m41.9f3a --class TimeoutError --message 'no answer' --stack-file trace.txt"
    )]
    Fail(Fail),
}

#[derive(Debug, clap::Args)]
struct Send {
    /// A channel, for its source; or a queue of the broker
    #[arg(value_name = "CHANNEL|QUEUE")]
    queue: String,
    /// Ordering key
    #[arg(long)]
    key: Option<String>,
    /// A header; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// The body as text; without it the body is null
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// The body from a file, or - for stdin
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Hand it out this much later
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    delay: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct Receive {
    /// A channel, for its source; or a queue of the broker
    #[arg(value_name = "CHANNEL|QUEUE")]
    queue: String,
    /// At most so many; one of each group at a time
    #[arg(long, default_value_t = 1, value_name = "N")]
    max: usize,
    /// Hold them this long, else the queue's own
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    lease: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct Ack {
    /// What `receive` gave
    #[arg(required = true, value_name = "RECEIPT")]
    receipts: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Fail {
    /// What `receive` gave
    #[arg(value_name = "RECEIPT")]
    receipt: String,
    /// Class of the error
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// What the error says
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Stack trace
    #[arg(long, value_name = "TEXT", conflicts_with = "stack_file")]
    stack: Option<String>,
    /// Stack trace from a file, or - for stdin
    #[arg(long, value_name = "FILE")]
    stack_file: Option<PathBuf>,
    /// Trace id
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// Who failed
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
}

#[derive(Serialize)]
struct Sent<'a> {
    schema: &'static str,
    queue: &'a str,
    sent: Vec<String>,
}

/// A message as a script reads it.
#[derive(Serialize)]
struct Received {
    schema: &'static str,
    id: String,
    receipt: String,
    receives: u32,
    until: Time,
    sent_at: Time,
    key: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<String>,
    /// Set where the body is no UTF-8 text; then `body` is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Serialize)]
struct Failed {
    schema: &'static str,
    queue: String,
    id: String,
    failed_tries: u32,
    due: Option<Time>,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is wanted".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a duration with its unit is wanted, such as 5s or 1m".to_owned())
}

/// Runs it.
///
/// # Errors
/// [2]: not an embedded broker. [1]: no such queue, or a receipt that is not valid any more.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let loaded = ctx.topology()?;
    let named = match &args.act {
        Act::Send(send) => Some(send.queue.as_str()),
        Act::Receive(receive) => Some(receive.queue.as_str()),
        Act::Ack(_) | Act::Fail(_) => None,
    };
    let channel = named.and_then(|name| loaded.topology.channel(name));
    let queue =
        channel.map_or_else(|| named.unwrap_or_default().to_owned(), |channel| channel.source.value.clone());
    let chosen = match channel {
        Some(channel) => ctx.broker_for(&loaded, channel)?,
        None => ctx.broker_without_channel(&loaded)?,
    };
    let mut desk = Desk::at(ctx, &loaded, chosen)?;
    match args.act {
        Act::Send(args) => send(ctx, &mut desk, &queue, args),
        Act::Receive(args) => receive(ctx, &mut desk, &queue, &args),
        Act::Ack(args) => ack(ctx, &mut desk, &args),
        Act::Fail(args) => fail(ctx, &mut desk, args),
    }
}

/// An application at its broker.
struct Desk {
    broker: String,
    application: Application,
}

impl Desk {
    fn at(ctx: &Context, loaded: &Loaded, chosen: Chosen<'_>) -> Result<Self, CommandError> {
        if !SqliteKind.schemes().contains(&chosen.decl.scheme()) {
            let title = kind_of(chosen.decl).map_or("no known broker", |kind| kind.title());
            return Err(CommandError::usage(format!(
                "dev plays at the embedded broker; {} is {title}",
                chosen.name()
            ))
            .hint("Its own clients send and receive there."));
        }
        chosen.may_change(ctx.command(&["dev"]))?;
        let context =
            OpenContext { clock: ctx.clock.clone(), base: loaded.folder().to_owned(), writes: true };
        let application = Application::open(chosen.decl, &context)
            .map_err(|error| CommandError::broker(chosen.name(), &error).next(ctx.command(&["apply"])))?;
        Ok(Self { broker: chosen.name().to_owned(), application })
    }

    fn told<T>(&self, result: Result<T, BrokerError>) -> Result<T, CommandError> {
        result.map_err(|error| CommandError::broker(&self.broker, &error))
    }
}

fn send(ctx: &mut Context, desk: &mut Desk, queue: &str, args: Send) -> Outcome {
    let body = match (args.body, args.body_file) {
        (Some(text), _) => Some(Bytes::from(text)),
        (None, Some(file)) => Some(Bytes::from(content(&file)?)),
        (None, None) => None,
    };
    let headers = args.headers.into_iter().map(|(name, value)| (name, Value::from_text(value)));
    let message = Message {
        key: args.key.map(Bytes::from),
        body,
        headers: Headers::from_iter(headers),
        properties: Headers::new(),
    };
    let sent = desk.application.send(queue, &[message], args.delay.unwrap_or_default());
    let ids: Vec<String> = desk.told(sent)?.iter().map(ToString::to_string).collect();
    if ctx.ui.json() {
        ctx.ui.document(&Sent { schema: "redrive.dev.sent.v1", queue, sent: ids });
    } else {
        ctx.ui.say(format!("sent to {queue}  {}", ids.join(" ")));
    }
    Ok(ExitCode::Done)
}

fn receive(ctx: &mut Context, desk: &mut Desk, queue: &str, args: &Receive) -> Outcome {
    let received = desk.application.receive(queue, args.max, args.lease);
    let deliveries = desk.told(received)?;
    if ctx.ui.json() {
        for delivery in &deliveries {
            ctx.ui.document(&as_data(delivery));
        }
        return Ok(ExitCode::Done);
    }
    if deliveries.is_empty() {
        ctx.ui.note(format!("Nothing to receive from {queue} now."));
    }
    for delivery in deliveries {
        let key = delivery.message.key.as_deref().map_or_else(|| "no key".to_owned(), escape_bytes);
        let until = delivery.until.format("%H:%M:%SZ");
        ctx.ui.say(
            Line::new()
                .bold(delivery.receipt.clone())
                .text(format!("  {key}  receive {}  until {until}", delivery.receives)),
        );
        for header in delivery.message.headers.iter() {
            ctx.ui.say(format!("  {}: {}", header.name, shown(&header.value)));
        }
        match &delivery.message.body {
            None => ctx.ui.say(Line::new().dim("  null body")),
            Some(body) => ctx.ui.say(format!("  {}", escape_bytes(body))),
        }
    }
    Ok(ExitCode::Done)
}

fn ack(ctx: &mut Context, desk: &mut Desk, args: &Ack) -> Outcome {
    for receipt in &args.receipts {
        let acked = desk.application.ack(receipt);
        desk.told(acked)?;
        ctx.ui.note(format!("Done: {receipt}"));
    }
    Ok(ExitCode::Done)
}

fn fail(ctx: &mut Context, desk: &mut Desk, args: Fail) -> Outcome {
    let stack = match (args.stack, args.stack_file) {
        (Some(text), _) => Some(text),
        (None, Some(file)) => Some(String::from_utf8_lossy(&content(&file)?).into_owned()),
        (None, None) => None,
    };
    let failure = Failure {
        class: args.class,
        message: args.message,
        stack,
        trace: args.trace,
        consumer: args.consumer,
        ..Failure::default()
    };
    let failed = desk.application.fail(&args.receipt, &failure);
    let routed = desk.told(failed)?;
    if ctx.ui.json() {
        ctx.ui.document(&Failed {
            schema: "redrive.dev.failed.v1",
            queue: routed.queue,
            id: routed.id.to_string(),
            failed_tries: routed.attempt,
            due: routed.due,
        });
    } else {
        let due = routed.due.map(|due| format!(", due {}", due.format("%H:%M:%SZ"))).unwrap_or_default();
        ctx.ui.say(format!("failed try {}: to {}{due}  {}", routed.attempt, routed.queue, routed.id));
    }
    Ok(ExitCode::Done)
}

fn as_data(delivery: &Delivery) -> Received {
    let body = delivery.message.body.as_ref();
    let text = body.and_then(|body| std::str::from_utf8(body).ok()).map(str::to_owned);
    let body_base64 = match (&text, body) {
        (None, Some(body)) => Some(base64::engine::general_purpose::STANDARD.encode(body)),
        _ => None,
    };
    Received {
        schema: "redrive.dev.received.v1",
        id: delivery.id.to_string(),
        receipt: delivery.receipt.clone(),
        receives: delivery.receives,
        until: delivery.until,
        sent_at: delivery.sent_at,
        key: delivery.message.key.as_deref().map(escape_bytes),
        headers: delivery
            .message
            .headers
            .iter()
            .map(|header| (header.name.to_string(), shown(&header.value)))
            .collect(),
        body: text,
        body_base64,
    }
}

fn shown(value: &Value) -> String {
    match (value.text(), value.integer(), value.bytes()) {
        (Some(text), _, _) => text.to_owned(),
        (None, Some(number), _) => number.to_string(),
        (None, None, Some(bytes)) => escape_bytes(bytes),
        _ => format!("({})", value.type_name()),
    }
}

/// A file's bytes; `-` is stdin.
fn content(file: &std::path::Path) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    read.map_err(|error| CommandError::usage(format!("could not read {}: {error}", file.display())))?;
    Ok(bytes)
}
