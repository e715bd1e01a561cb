//! How other systems write down why a message died: one file each, one line in [`DIALECTS`].
//!
//! A dialect recognises its own letters, says what stands in them ([`Testimony`]), which headers must not
//! travel back, and what a redrive would do. It knows no broker, YAML or terminal. Several may speak about
//! one letter; `merge.rs` joins what they say into one history.

mod amqp10;
mod amqp_json;
mod arroyo;
mod brighter;
mod bunnybus;
mod camel;
mod celery;
mod cloudevents;
mod dapr;
mod debezium;
mod declared;
mod dramatiq;
mod easynetq;
mod eventbridge;
mod faststream;
mod gate;
mod kafka_connect;
mod kafka_streams;
mod kafkaflow;
mod karafka;
mod kicks;
mod lambda;
mod laravel;
mod large_payload;
mod look;
mod masstransit;
mod merge;
mod moleculer;
mod native;
mod node_ts;
mod nservicebus;
mod rabbitmq;
mod rascal;
mod rebus;
mod redpanda_connect;
mod share_group;
mod shoryuken;
mod shovel;
mod smallrye;
mod sns;
mod splice;
mod spring;
mod spring_amqp;
mod spring_kafka;
mod spring_stream;
mod sqs;
mod symfony;
mod symfony_php;
mod testimony;
mod thrown;
mod trace;
mod uforwarder;
mod watermill;
mod when;
mod wolverine;
mod x_death;

use std::fmt;
use std::sync::LazyLock;

pub use look::Look;
pub use testimony::{Buried, Form, Testimony, last_index, number_of, raw_of, text_of};

use crate::failure::{FailureContext, Prospect, Sureness};
use crate::letter::{Header, Message, RawLetter};
use crate::topology::FailureConvention;

/// Something by which letters of a dialect are known, or that it reads. A dialect is asked about a letter
/// only if one of its marks is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A header of this name.
    Header(&'static str),
    /// A header whose name begins so.
    Prefix(&'static str),
    /// A broker property of this name.
    Property(&'static str),
    /// A field at the first level of a JSON body.
    Field(&'static str),
    /// The body begins so.
    Start(&'static str),
    /// Something else, in words: the dialect is asked about every letter, so it has to decide fast.
    Other(&'static str),
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Property(name) => write!(f, "property {name}"),
            Self::Field(name) => write!(f, "body field {name}"),
            Self::Start(start) => write!(f, "body begins with {start}"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

/// How close to the failure a writer stands. The closer one wins a field, others fill what it left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Declared by the topology for this very channel.
    Declared,
    /// redrive's own headers.
    Own,
    /// The framework or service that gave up on the message.
    Framework,
    /// The broker, which moved it without knowing why.
    Broker,
    /// Says nothing of a failure: an event envelope, an outbox.
    Envelope,
}

/// One writer of dead letters.
pub trait Dialect: Sync {
    /// The word in output, tests and docs: `spring-kafka`.
    fn name(&self) -> &'static str;

    /// One line for `explain dialects`: who writes it, and where.
    fn about(&self) -> &'static str;

    /// What it is known by and reads: shown by `explain dialects`, and the gate to [`Dialect::recognise`].
    fn marks(&self) -> &'static [Mark];

    /// Decides who wins a field, see `merge.rs`.
    fn layer(&self) -> Layer {
        Layer::Framework
    }

    /// Is this letter its own, how surely, and by what mark (`header dead-letter-topic`)? `None`: no.
    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)>;

    /// Reads the letter; called only if recognised. What the letter does not carry stays `None`; what cannot
    /// be read becomes a doubt.
    fn read(&self, letter: &Look<'_>, says: &mut Testimony);

    /// Is this header the failing framework's or broker's own bookkeeping, which must stay behind on a
    /// redrive? A left-over attempt counter sends a letter straight back (K05).
    fn owns(&self, header: &Header) -> bool;

    /// The same for a broker property (`expiration`, `user_id`).
    fn owns_property(&self, _property: &Header) -> bool {
        false
    }

    /// Do its letters hold the message inside an envelope? Then identity is looked for in what
    /// [`Dialect::restore`] takes out.
    fn unwraps(&self) -> bool {
        false
    }

    /// Takes the original message out of an envelope, or mends what must be mended, after the bookkeeping
    /// is gone. `Err` names why the letter must not be sent.
    ///
    /// # Errors
    /// What would happen to the message, and the way round.
    fn restore(&self, _letter: &Look<'_>, _message: &mut Message) -> Result<(), Prospect> {
        Ok(())
    }
}

/// Every dialect. Of two that are equally close and sure, the earlier wins.
pub static DIALECTS: &[&dyn Dialect] = &[
    &native::Native,
    &easynetq::EasyNetQ,
    &kicks::Kicks,
    &spring_amqp::SpringCloudStreamRabbit,
    &spring_amqp::SpringAmqp,
    &masstransit::MassTransit,
    &nservicebus::NServiceBus,
    &rebus::Rebus,
    &wolverine::Wolverine,
    &brighter::Brighter,
    &celery::Celery,
    &dramatiq::Dramatiq,
    &faststream::FastStream,
    &symfony::Symfony,
    &laravel::Laravel,
    &rascal::Rascal,
    &bunnybus::BunnyBus,
    &node_ts::NodeTs,
    &lambda::LambdaDestination,
    &lambda::LambdaDlq,
    &eventbridge::EventBridge,
    &eventbridge::Scheduler,
    &eventbridge::EventBus,
    &sns::SnsSubscription,
    &shoryuken::Shoryuken,
    &rabbitmq::RabbitMq,
    &sqs::Sqs,
    &sns::Sns,
    &large_payload::LargePayload,
    &shovel::Shovel,
    &amqp10::Amqp10,
    // Kafka
    &spring_kafka::SpringKafka,
    &spring_kafka::SpringRetryTopic,
    &spring_stream::SpringStream,
    &kafka_connect::KafkaConnect,
    &kafka_streams::KafkaStreams,
    &share_group::ShareGroup,
    &smallrye::SmallRye,
    &smallrye::SmallRyeRetry,
    &camel::Camel,
    &karafka::Karafka,
    &kafkaflow::KafkaFlow,
    &watermill::Watermill,
    &moleculer::Moleculer,
    &arroyo::Arroyo,
    &dapr::Dapr,
    &redpanda_connect::RedpandaConnect,
    &uforwarder::UForwarder,
    // Envelopes
    &debezium::Debezium,
    &cloudevents::CloudEvents,
    &eventbridge::Event,
];

/// Reads a letter with every dialect that recognises it.
pub fn read(letter: &RawLetter) -> FailureContext {
    read_declared(letter, None)
}

/// Reads a letter of a channel that declares how its failures are written down (`failure:`).
pub fn read_declared(letter: &RawLetter, convention: Option<&FailureConvention>) -> FailureContext {
    let renamed = convention.and_then(|convention| declared::renamed(letter, convention));
    let look = Look::new(renamed.as_ref().unwrap_or(letter));
    // One speaks about most letters, and its word is long: no room for four.
    let mut spoken = Vec::with_capacity(1);
    if let Some((why, says)) = convention.and_then(|convention| declared::read(&look, convention)) {
        spoken.push(merge::Spoken::new(&declared::Declared, (Sureness::Sure, why), says));
    }
    for index in gate::to_ask(&look) {
        let dialect = DIALECTS[index];
        if let Some(known) = dialect.recognise(&look) {
            // Its words are put where they stay: they are long.
            spoken.push(merge::Spoken::new(dialect, known, Testimony::default()));
            if let Some(word) = spoken.last_mut() {
                dialect.read(&look, &mut word.says);
            }
        }
    }
    let mut context = merge::merge(&look, spoken);
    if let Some(convention) = convention {
        context.declared_to_stay = convention.strip.iter().map(|name| name.value.clone()).collect();
        for (theirs, known) in &convention.names {
            let header = Header { name: known.value.as_str().into(), value: crate::letter::Value::Null };
            if stays_behind(&header, &context).is_some() {
                context.declared_to_stay.push(theirs.value.clone());
            }
        }
    }
    context
}

/// Does this header stay behind when the letter is sent back, and whose is it?
pub fn stays_behind(header: &Header, context: &FailureContext) -> Option<&'static str> {
    if context.declared_to_stay.iter().any(|name| header.name == name.as_str()) {
        return Some(declared::NAME);
    }
    speaking(context).find(|dialect| dialect.owns(header)).map(|dialect| dialect.name())
}

/// The same for a broker property.
pub fn property_stays_behind(property: &Header, context: &FailureContext) -> Option<&'static str> {
    speaking(context).find(|dialect| dialect.owns_property(property)).map(|dialect| dialect.name())
}

/// Room for the headers that a run puts on a copy.
const STAMPS: usize = 5;

/// The message as it goes back: bookkeeping off, envelope open. The caller adds redrive's own headers.
///
/// # Errors
/// The prospect that forbids sending: what would happen, and the way round.
pub fn outgoing(letter: &RawLetter, context: &FailureContext) -> Result<Message, Prospect> {
    // A pointer is no message: what it points at has to be fetched first (K15).
    let forbids =
        |prospect: &&Prospect| matches!(prospect, Prospect::Refused { .. } | Prospect::Pointer { .. });
    if let Some(forbidden) = context.prospects.iter().find(forbids)
        && (context.value_unavailable || matches!(forbidden, Prospect::Refused { .. }))
    {
        return Err(forbidden.clone());
    }
    // Found once: a million letters of a dozen headers come through here.
    let speaking: Vec<&dyn Dialect> = speaking(context).collect();
    let declared = |header: &Header| context.declared_to_stay.iter().any(|name| header.name == name.as_str());
    let goes = |header: &Header| !declared(header) && !speaking.iter().any(|it| it.owns(header));
    let goes_too = |property: &Header| !speaking.iter().any(|it| it.owns_property(property));
    let mut message = Message {
        key: letter.message.key.clone(),
        body: letter.message.body.clone(),
        headers: letter.message.headers.kept(goes, STAMPS),
        properties: letter.message.properties.kept(goes_too, 0),
    };
    let look = Look::new(letter);
    for dialect in speaking {
        dialect.restore(&look, &mut message)?;
    }
    Ok(message)
}

/// The message inside an envelope, if a dialect that spoke unwraps one: there the producer's headers are, and
/// those of an earlier redrive. `None`: the letter is no envelope, or cannot be opened.
pub fn original(letter: &RawLetter, context: &FailureContext) -> Option<Message> {
    // Few unwrap, so they are known beforehand: a million letters come through here.
    static UNWRAPPING: LazyLock<Vec<&dyn Dialect>> =
        LazyLock::new(|| DIALECTS.iter().copied().filter(|dialect| dialect.unwraps()).collect());
    let spoke = |name: &str| context.readings.iter().any(|reading| reading.dialect == name);
    let dialect = UNWRAPPING.iter().find(|dialect| spoke(dialect.name()))?;
    let mut message = letter.message.clone();
    dialect.restore(&Look::new(letter), &mut message).ok()?;
    Some(message)
}

/// The native dialect always has a say over its own headers, the others if they recognised the letter.
fn speaking(context: &FailureContext) -> impl Iterator<Item = &'static dyn Dialect> + '_ {
    static NAMES: LazyLock<Vec<&str>> =
        LazyLock::new(|| DIALECTS.iter().map(|dialect| dialect.name()).collect());
    DIALECTS.iter().zip(NAMES.iter()).filter_map(|(dialect, name)| {
        let speaks = *name == native::NAME || context.readings.iter().any(|reading| reading.dialect == *name);
        speaks.then_some(*dialect)
    })
}
