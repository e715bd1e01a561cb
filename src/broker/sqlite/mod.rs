//! The embedded broker: durable queues for several processes in one SQLite file.
//!
//! Not a mock: leases with receipts, groups, delays, dead letters with their history, locks and marks are
//! rows, and every step is a transaction that is on the disk before it is answered. The schema is a
//! contract for programs in other languages: `docs/embedded-broker.md`.

mod application;
mod browse;
mod bulk;
mod deaths;
mod encoding;
mod file;
mod kind;
mod letters;
mod lock;
#[cfg(test)]
mod proof;
mod provision;
mod queues;
mod relocate;
mod schema;
mod serve;
mod shelf;

pub use application::{Application, Delivery, Routed};
pub use deaths::Failure;
pub use kind::SqliteKind;

use file::Place;

use super::{BrokerError, ErrorKind, OpenContext, Result};
use crate::proof::mutation::carried;
use crate::topology::BrokerDecl;

/// An opened file. Each session has a connection of its own, so that none waits for another but at the
/// file's one writer lock.
pub struct Sqlite {
    place: Place,
}

impl Sqlite {
    /// Says whether the file can be used. One that is not there yet is no error: a plan has to begin
    /// somewhere.
    fn open(broker: &BrokerDecl, context: &OpenContext) -> Result<Self> {
        let place = Place::of(broker, context)?;
        if place.path.exists() {
            let read_only = Place { writes: false, ..place.clone() };
            match read_only.read() {
                Err(error) if error.kind == ErrorKind::Version && place.writes => {
                    // An older version is migrated by whoever may write; what is not ours stays refused.
                    place.write()?;
                }
                opened => {
                    let opened = opened?;
                    if !place.writes {
                        *place.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = opened;
                    }
                }
            }
        }
        Ok(Self { place })
    }
}

/// Runs what waits for the disk where it does not keep others from running.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(carried(work)).await {
        Ok(result) => result,
        Err(_) => Err(BrokerError::new(ErrorKind::Unknown, "work on the file", "the work was cut off")),
    }
}
