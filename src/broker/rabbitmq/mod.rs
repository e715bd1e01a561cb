//! RabbitMQ: provisioning, looking and moving over AMQP 0-9-1, with the management API where it is given.
//!
//! [`kind`] is pure and always compiled in; the rest needs the feature `rabbitmq`. What a server does was
//! measured on 3.10.8 and 4.0.5; `docs/rabbitmq.md` has what each version does differently, the rights per
//! verb and what a look costs.

mod address;
mod kind;

#[cfg(feature = "rabbitmq")]
mod client;
#[cfg(feature = "rabbitmq")]
mod connect;
#[cfg(feature = "rabbitmq")]
mod cycle;
#[cfg(feature = "rabbitmq")]
mod feed;
#[cfg(feature = "rabbitmq")]
mod letters;
#[cfg(feature = "rabbitmq")]
mod lock;
#[cfg(feature = "rabbitmq")]
mod look;
#[cfg(feature = "rabbitmq")]
mod management;
#[cfg(feature = "rabbitmq")]
mod policies;
#[cfg(feature = "rabbitmq")]
mod provision;
#[cfg(feature = "rabbitmq")]
mod publish;
#[cfg(feature = "rabbitmq")]
mod reading;
#[cfg(feature = "rabbitmq")]
mod refused;
#[cfg(feature = "rabbitmq")]
mod relocate;
#[cfg(feature = "rabbitmq")]
mod rescue;
#[cfg(feature = "rabbitmq")]
mod rights;
#[cfg(feature = "rabbitmq")]
mod routes;
#[cfg(feature = "rabbitmq")]
mod settings;
#[cfg(feature = "rabbitmq")]
mod shelf;
#[cfg(feature = "rabbitmq")]
mod state;
#[cfg(feature = "rabbitmq")]
mod stream;
#[cfg(feature = "rabbitmq")]
mod version;
#[cfg(feature = "rabbitmq")]
mod want;
#[cfg(feature = "rabbitmq")]
mod wire;

pub use kind::RabbitKind;

use super::{OpenContext, Opening};
use crate::topology::BrokerDecl;

#[cfg(feature = "rabbitmq")]
fn open<'a>(broker: &'a BrokerDecl, context: &'a OpenContext) -> Opening<'a> {
    Box::pin(async move {
        let client = client::Client::open(broker, context).await?;
        Ok(Box::new(client) as Box<dyn super::Broker>)
    })
}

#[cfg(not(feature = "rabbitmq"))]
fn open<'a>(_broker: &'a BrokerDecl, _context: &'a OpenContext) -> Opening<'a> {
    Box::pin(async {
        Err(super::BrokerError::new(
            super::ErrorKind::Unsupported,
            "connect to RabbitMQ",
            "this build has no RabbitMQ client",
        )
        .hint("install a build with the feature rabbitmq"))
    })
}
