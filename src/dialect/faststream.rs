//! FastStream on RabbitMQ: it rejects and leaves only its name; the broker's `x-death` says the rest. A message
//! that did not fit the handler's model looks like one whose handler failed. Bare aio-pika leaves no mark.

use super::{Buried, Dialect, Look, Mark, Testimony};
use crate::failure::Sureness;
use crate::letter::Header;

/// See the file's head.
pub(super) struct FastStream;

impl Dialect for FastStream {
    fn name(&self) -> &'static str {
        "faststream"
    }

    fn about(&self) -> &'static str {
        "rejected by FastStream; as with aio-pika, only x-death tells"
    }

    fn marks(&self) -> &'static [Mark] {
        &[Mark::Property("app_id")]
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let app = letter.properties().last_text("app_id")?;
        app.starts_with("faststream").then(|| (Sureness::Likely, "property app_id".to_owned()))
    }

    fn read(&self, _letter: &Look<'_>, says: &mut Testimony) {
        says.buried = Buried::ByBroker;
        says.doubt("message", "FastStream writes no error into the letter");
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}
