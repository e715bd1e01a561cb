//! `redrive relay`: serves the tiers until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{CommandError, Context, ExitCode, Outcome, Target, listen, signals};
use crate::broker::{Broker, BrokerError, kind_of};
use crate::clock::{Clock, Time, rough};
use crate::relay::metrics::Metrics;
use crate::relay::{self, Settings};
use crate::render::{self, Progress};
use crate::topology::{Channel, Rate, ServedBy};

/// How often a line is printed off a terminal, and the length of a period in the table.
const PERIOD: Duration = Duration::from_secs(10);
/// A relay whose last step is older than this is not healthy.
const STALLED: Duration = Duration::from_secs(60);

/// Arguments of `relay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  redrive relay\n  redrive relay orders --once\n  redrive relay --listen 127.0.0.1:9464"
)]
pub struct Args {
    /// Serve this channel only; else all of the topology
    #[arg(value_name = "CHANNEL")]
    channel: Option<String>,
    /// Carry what is due now, then end
    #[arg(long)]
    once: bool,
    /// Publish, then settle, even where the broker has transactions
    #[arg(long, hide = true)]
    without_transactions: bool,
    /// Serve /healthz and /metrics at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

/// One channel that is to be served.
struct Served<'t> {
    channel: &'t Channel,
    broker: String,
    carrier: Box<dyn crate::broker::Carrier>,
}

/// Runs it.
///
/// # Errors
/// [4] for a protected broker that the line does not name, or a target that others read; [1] for what a
/// broker refuses.
pub async fn run(ctx: &mut Context, args: Args) -> Outcome {
    let loaded = ctx.topology()?;
    let targets = ctx.targets(&loaded, args.channel.as_deref())?;
    let owner = format!("{}-{}", ctx.who, ctx.new_id(10));
    let mut served: Vec<Served<'_>> = Vec::new();
    let mut brokers: Vec<Box<dyn Broker>> = Vec::new();
    let mut titles = Vec::new();
    let mut places = Vec::new();
    for target in &targets {
        let channels = needing_a_relay(ctx, target);
        if channels.is_empty() {
            continue;
        }
        let mut typed = ctx.command(&["relay"]);
        typed.extend(args.channel.clone());
        typed.extend(ctx.typed_but(&["channel"]));
        target.broker.may_change(typed)?;
        let broker = ctx.open(&loaded, target.broker, true).await?;
        for channel in channels {
            super::readers::guard(&*broker, target.broker, channel).await?;
            let serving = [channel];
            let carrier = match args.without_transactions {
                true => broker.serve_by_hand(&serving, &owner),
                false => broker.serve(&serving, &owner),
            };
            match ctx.answer_of(target.broker, broker.whereabouts(), carrier).await {
                Ok(carrier) => {
                    served.push(Served { channel, broker: target.broker.name().to_owned(), carrier })
                }
                Err(error) if relay::serves_itself(&error) => {
                    ctx.ui.note(format!("{}: {}; no relay needed.", channel.name.value, error.message));
                }
                Err(error) => return Err(CommandError::broker(target.broker.name(), &error)),
            }
        }
        // Before the first message is carried: where calls really go, where the topology alone does not say it.
        if let Some(place) = broker.whereabouts() {
            ctx.ui.note(format!("{} is at {place}.", target.broker.title()));
            places.push((target.broker.name().to_owned(), place));
        }
        titles.push(target.broker.title());
        brokers.push(broker);
    }
    if served.is_empty() {
        ctx.ui.note("Nothing to serve: no channel here has tiers that wait for a relay.");
        return Ok(ExitCode::Done);
    }
    let served_count = served.len();
    let outcome = serve(ctx, &args, served, (&titles.join(", "), &places)).await;
    tracing::debug!(channels = served_count, "relay ended");
    outcome
}

/// Channels with tiers that nobody else serves.
fn needing_a_relay<'t>(ctx: &mut Context, target: &Target<'t>) -> Vec<&'t Channel> {
    let kind = kind_of(target.broker.decl);
    let mut needing = Vec::new();
    for channel in &target.channels {
        let by_default = kind.and_then(|kind| kind.capabilities(channel).served_by.first().copied());
        let served_by = channel.served_by.as_ref().map_or(by_default.unwrap_or_default(), |at| at.value);
        let name = &channel.name.value;
        match served_by {
            _ if channel.tiers.is_empty() => ctx.ui.note(format!("{name} has no tiers.")),
            ServedBy::Relay => needing.push(*channel),
            ServedBy::Broker => {
                ctx.ui.note(format!(
                    "{name}: {} serves its tiers itself; no relay needed.",
                    target.broker.name()
                ));
            }
            ServedBy::Consumer => {
                ctx.ui.note(format!("{name}: its consumer serves the tiers; no relay needed."))
            }
        }
    }
    needing
}

/// Brokers, and where calls to them really go.
type Places = [(String, String)];

async fn serve(
    ctx: &mut Context,
    args: &Args,
    served: Vec<Served<'_>>,
    (title, places): (&str, &Places),
) -> Outcome {
    let metrics = Arc::new(Metrics::default());
    let mut told = signals::listen()
        .map_err(|error| CommandError::failed(format!("could not wait for signals: {error}")))?;
    let (stop, stopping) = watch::channel(false);
    let pages = match args.listen {
        None => None,
        Some(address) => {
            let listener = listen::bind(address).await.map_err(|error| {
                CommandError::failed(format!("could not listen at {address}: {error}"))
                    .hint("Another relay may hold the port; --listen takes any free one.")
            })?;
            ctx.ui.note(format!("Serving /healthz and /metrics at http://{address}."));
            let pages = Arc::new(Page { metrics: Arc::clone(&metrics), clock: Arc::clone(&ctx.clock) });
            Some(tokio::spawn(listen::serve(listener, pages)))
        }
    };
    let clock = Arc::clone(&ctx.clock);
    let work = served.into_iter().map(|one| {
        let settings = Settings {
            shortest_delay: one.channel.tiers.iter().map(|tier| tier.delay.value).min().unwrap_or(PERIOD),
            rate: one.channel.retry_rate.as_ref().map_or(Rate::Unlimited, |at| at.value),
            once: args.once,
        };
        let (metrics, stopping, clock) = (Arc::clone(&metrics), stopping.clone(), Arc::clone(&clock));
        let broker = one.broker;
        async move {
            let result = relay::serve(one.carrier, &settings, clock, &metrics, stopping).await;
            (broker, result)
        }
    });
    // A channel whose broker refuses for good ends the others in order too: half a relay is easily overlooked.
    let work = async {
        let mut running: futures_util::stream::FuturesUnordered<_> = work.collect();
        let mut failure: Option<(String, BrokerError)> = None;
        while let Some((broker, result)) = futures_util::StreamExt::next(&mut running).await {
            if let Err(error) = result {
                failure.get_or_insert((broker, error));
                let _ = stop.send(true);
            }
        }
        failure
    };
    tokio::pin!(work);
    let mut progress = Progress::new();
    let mut code = ExitCode::Done;
    let mut reported = clock.elapsed();
    let every = if ctx.ui.animates() { Duration::from_millis(500) } else { Duration::from_millis(200) };
    let failure = loop {
        tokio::select! {
            failure = &mut work => break failure,
            _ = told.changed() => {
                let now = *told.borrow();
                code = now.code.unwrap_or(ExitCode::Interrupted);
                if now.times > 1 {
                    progress.clear(&mut ctx.ui);
                    ctx.ui.note("Left at once: what was in flight stays in its tier and comes again.");
                    return Ok(code);
                }
                let _ = stop.send(true);
            }
            () = tokio::time::sleep(every) => show(ctx, &mut progress, &metrics, (title, places), &mut reported),
        }
    };
    progress.clear(&mut ctx.ui);
    if let Some(pages) = pages {
        pages.abort();
    }
    last_words(ctx, &metrics, places);
    match failure {
        None => Ok(code),
        Some((broker, error)) => {
            Err(CommandError::broker(&broker, &error).with_code(code.and(ExitCode::Failed)))
        }
    }
}

/// A period's end prints lines off a terminal; on one the table is drawn again.
fn show(
    ctx: &mut Context,
    progress: &mut Progress,
    metrics: &Metrics,
    (title, places): (&str, &Places),
    reported: &mut Duration,
) {
    let elapsed = ctx.clock.elapsed();
    let over = elapsed.saturating_sub(*reported) >= PERIOD;
    if let Some(error) = metrics.take_error() {
        progress.clear(&mut ctx.ui);
        ctx.ui.note(format!("{error}; trying again."));
    }
    let now = ctx.clock.now();
    if ctx.ui.animates() && !ctx.ui.json() {
        let tiers = metrics.snapshot();
        let head = format!("relay · {title}");
        let lines = render::relay::table(&ctx.ui, &head, now, &tiers);
        progress.show(&mut ctx.ui, elapsed, &lines);
    }
    if over {
        *reported = elapsed;
        let tiers = metrics.report();
        if ctx.ui.json() {
            render::relay::document(&mut ctx.ui, now, metrics.next_due(), places, &tiers);
        } else if !ctx.ui.animates() {
            render::relay::lines(&mut ctx.ui, now, &tiers);
        }
    }
}

fn last_words(ctx: &mut Context, metrics: &Metrics, places: &Places) {
    let now = ctx.clock.now();
    let tiers = metrics.report();
    if ctx.ui.json() {
        render::relay::document(&mut ctx.ui, now, metrics.next_due(), places, &tiers);
    } else {
        render::relay::lines(&mut ctx.ui, now, &tiers);
    }
    let total: u64 = tiers.iter().map(|tier| tier.total).sum();
    match metrics.late_p99() {
        None => ctx.ui.note("Nothing was due, and nothing was carried."),
        // `rough` knows nothing below a second.
        Some(late) => ctx.ui.note(format!(
            "{total} carried; 99 of 100 were at most {:.2}s late{}.",
            late.as_secs_f64(),
            if tiers.len() > 1 { ", in the tier that was latest" } else { "" }
        )),
    }
    if metrics.maybe_twice() > 0 {
        let count = metrics.maybe_twice();
        ctx.ui.note(format!(
            "{count} of them may be there twice: the broker's answer was lost. Their event ids are kept."
        ));
    }
}

/// What `--listen` serves.
struct Page {
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

impl listen::Pages for Page {
    fn metrics(&self) -> String {
        self.metrics.prometheus()
    }

    fn health(&self) -> Result<String, String> {
        let now: Time = self.clock.now();
        health(&self.metrics, now)
    }
}

/// `Err` if nothing comes to an end any more, or what is due is not carried.
fn health(metrics: &Metrics, now: Time) -> Result<String, String> {
    let Some(step) = metrics.last_step() else { return Err("no step has ended yet".to_owned()) };
    if now.since(step) > STALLED {
        return Err(format!("the last step ended {} ago", rough(now.since(step))));
    }
    let (overdue, moved) = metrics.behind();
    if overdue <= STALLED {
        return Ok("ok".to_owned());
    }
    // A relay that was away for long has much to catch up with, and is well as long as it does.
    match moved {
        Some(at) if now.since(at) <= STALLED => Ok(format!("ok, overdue by {}", rough(overdue))),
        Some(at) => Err(format!(
            "overdue by {}, and nothing was carried for {}",
            rough(overdue),
            rough(now.since(at))
        )),
        None => Err(format!("overdue by {}, and nothing was carried yet", rough(overdue))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::broker::{Carried, TierState};

    #[test]
    fn a_relay_that_carries_nothing_of_what_is_due_is_not_healthy() {
        let metrics = Metrics::default();
        let at = |seconds: i64| Time::from_millis(seconds * 1_000);
        assert!(health(&metrics, at(0)).is_err());
        let place = metrics.joined();
        let step = |seconds, moved: usize, overdue| {
            let moved = vec![("t".to_owned(), vec![Duration::from_secs(overdue); moved])];
            metrics.carried(place, &Carried { moved, ..Carried::default() }, at(seconds));
            let state = TierState {
                queue: "t".to_owned(),
                waiting: 5,
                due: 5,
                overdue: Duration::from_secs(overdue),
            };
            metrics.counted(vec![state]);
        };
        step(1, 0, 0);
        assert_eq!(health(&metrics, at(1)).unwrap(), "ok");
        step(70, 0, 65);
        assert_eq!(health(&metrics, at(70)).unwrap_err(), "overdue by 1m 5s, and nothing was carried yet");
        step(71, 1, 66);
        assert_eq!(health(&metrics, at(71)).unwrap(), "ok, overdue by 1m 6s");
        step(140, 0, 135);
        assert!(health(&metrics, at(140)).unwrap_err().contains("nothing was carried for 1m 9s"));
        // Steps that come to no end.
        assert!(health(&metrics, at(201)).unwrap_err().contains("the last step ended"));
    }
}
