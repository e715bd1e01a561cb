//! May a user publish? The server is asked before a letter is in hand.
//!
//! A passive declare tells that a queue is there, and nothing of rights. What tells is a message through the default
//! exchange to a queue that nobody has: who may write gets it back at once (`mandatory`), who may not gets `403`. Nobody
//! else sees it. To another exchange there is no such way: any key may be bound there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};

use super::connect::{Link, close_channel};
use super::refused::{code, failed, reply_code};
use super::settings::Settings;
use super::wire;
use crate::broker::{BrokerError, Result};

/// A server that takes no messages does not answer; a run finds that out by itself, and what to do then.
const WAIT: Duration = Duration::from_secs(3);

/// Looks whether the user may publish to a queue. On a connection of its own: a server with an alarm for memory or disk
/// reads nothing more from one that has published.
///
/// # Errors
/// `Denied`. What cannot be found out is no error.
pub(super) async fn may_publish(settings: &Settings, target: &str) -> Result<()> {
    let Ok(link) = Link::open(settings, "redrive asks for its rights").await else { return Ok(()) };
    match tokio::time::timeout(WAIT, ask(&link)).await {
        Ok(Ok(())) => {
            link.close().await;
            Ok(())
        }
        Ok(Err(error)) => {
            link.close().await;
            match reply_code(&error) {
                Some(code::ACCESS_REFUSED) => Err(denied(target, &error)),
                _ => Ok(()),
            }
        }
        Err(_) => Ok(()),
    }
}

async fn ask(link: &Link) -> lapin::Result<()> {
    let Ok(channel) = link.channel().await else { return Ok(()) };
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let Ok(nobody) = wire::short(&format!("redrive.nobody.{}.{now}", std::process::id())) else {
        return Ok(());
    };
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    channel.basic_publish("".into(), nobody, options, b"", BasicProperties::default()).await?.await?;
    let _ = close_channel(&channel).await;
    Ok(())
}

/// The right that is missing to publish to a queue.
pub(super) fn denied(target: &str, error: &lapin::Error) -> BrokerError {
    failed(format!("publish to {target}"), target, error).hint(format!(
        "the user needs write on the default exchange (named amq.default) to reach `{target}`: `rabbitmqctl \
         set_permissions`, or the page of the user in the management UI"
    ))
}
