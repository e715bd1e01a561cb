//! RabbitMQ's shovel, which people use to send dead letters back: it leaves `x-shovelled` if it was told to.
//! On 4.x this is the only trace that the letter lives for the second time.

use super::{Dialect, Layer, Look, Mark, Testimony, when};
use crate::failure::Sureness;
use crate::letter::{Header, Value};

/// See the file's head.
pub(super) struct Shovel;

impl Dialect for Shovel {
    fn name(&self) -> &'static str {
        "rabbitmq-shovel"
    }

    fn about(&self) -> &'static str {
        "moved by RabbitMQ's shovel before"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Header("x-shovelled"), Mark::Header("x-shovelled-timestamp")]
    }

    fn layer(&self) -> Layer {
        Layer::Envelope
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        letter.headers().has("x-shovelled").then(|| (Sureness::Sure, "header x-shovelled".to_owned()))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        let headers = letter.headers();
        // Each move adds a table; the protocol's own form is a bare true.
        let moves = headers.last("x-shovelled").and_then(Value::list).unwrap_or_default();
        let last = moves.iter().find(|one| one.table().is_some());
        let text = |name: &str| last?.get(name)?.text();
        let route = match (text("src-queue"), text("dest-queue")) {
            (Some(from), Some(to)) => format!(" from `{from}` to `{to}`"),
            (Some(from), None) => format!(" from `{from}`"),
            _ => String::new(),
        };
        let at = headers.last("x-shovelled-timestamp").and_then(when::of);
        let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
        says.doubt("deaths", format!("a shovel moved it{route}{at}: deaths before that may be missing"));
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}
