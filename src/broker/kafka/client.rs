//! The connection: configuration of librdkafka's clients, the last thing that their callbacks said (calls only
//! time out, kafka-real §10), and one place that turns their errors into ours.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::client::Client as RdClient;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::raw::{Handle, RawError};
use super::unjoined::Unjoined;
use crate::broker::{BrokerError, ErrorKind, OpenContext, Result};
use crate::clock::Clock;
use crate::topology::BrokerDecl;

/// How long a metadata or admin call may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What to look at when nobody answers.
const NOBODY: &str =
    "check that a broker listens there, and that security.protocol in its options fits the listener";

/// What to say of a broker that lacks a call or an answer that is needed.
pub(super) const OLD: &str = "redrive works with Apache Kafka 2.8 and later (docs/kafka.md)";

/// What every role shares.
#[derive(Clone)]
pub(super) struct Client {
    config: ClientConfig,
    pub(super) heard: Heard,
    pub(super) clock: Arc<dyn Clock>,
    servers: Arc<str>,
    user: Option<Arc<str>>,
    /// A consumer that never joins or reads: metadata, watermarks and admin calls go through it.
    pub(super) asking: Arc<Unjoined>,
}

/// Remembers the last error of the callbacks.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Option<(RDKafkaErrorCode, String)>>>);

impl Heard {
    /// Has anything said why nobody answers?
    fn why(&self) -> bool {
        use RDKafkaErrorCode as C;
        self.last().is_some_and(|(code, _)| !matches!(code, C::BrokerTransportFailure | C::AllBrokersDown))
    }

    /// The last thing worth telling.
    pub(super) fn last(&self) -> Option<(RDKafkaErrorCode, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Heard {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "kafka", "{facility}: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        // The end of a partition comes through here as well.
        if code == RDKafkaErrorCode::PartitionEOF {
            return;
        }
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // "All brokers down" follows whatever the reason was and says less.
        let vague = matches!(code, RDKafkaErrorCode::AllBrokersDown);
        let broken = code == RDKafkaErrorCode::BrokerTransportFailure;
        let known = last.as_ref().map(|(code, _)| *code);
        let told = known
            .is_some_and(|code| matches!(code, RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SSL));
        if !(vague && known.is_some() || broken && told) {
            *last = Some((code, reason.to_owned()));
        }
    }
}

impl ConsumerContext for Heard {}

impl Client {
    /// Configures the clients and asks once whether a broker is there.
    pub(super) async fn open(broker: &BrokerDecl, context: &OpenContext) -> Result<Self> {
        let servers = broker.url.value.trim_start_matches("kafka://").trim_end_matches('/').to_owned();
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &servers)
            .set("client.id", "redrive")
            .set("broker.address.family", "v4")
            .set("allow.auto.create.topics", "false")
            .set("socket.keepalive.enable", "true")
            .set("topic.metadata.propagation.max.ms", "1000")
            // While a broker comes back the client may take a partition from it just after it has learnt that the broker
            // leads it, and asks again only with the next refresh: after five minutes, if nothing is said.
            .set("topic.metadata.refresh.interval.ms", "10000")
            .set_log_level(RDKafkaLogLevel::Warning);
        let mut user = None;
        if let Some(name) = broker.username.as_ref().and_then(|at| at.expose()) {
            config.set("sasl.username", name);
            user = Some(Arc::from(name));
        }
        if let Some(password) = broker.password.as_ref().and_then(|at| at.expose()) {
            config.set("sasl.password", password);
        }
        for (name, value) in &broker.options {
            let Some(value) = value.expose() else {
                return Err(BrokerError::new(
                    ErrorKind::Denied,
                    "connect",
                    format!("{} of {} is not set: {}", name.value, broker.name.value, value.source()),
                ));
            };
            let path = name.value.ends_with(".location");
            let value = if path { context.base.join(value).display().to_string() } else { value.to_owned() };
            config.set(&name.value, value);
        }
        let heard = Heard::default();
        let mut asking = config.clone();
        asking.set("group.id", "redrive").set("enable.auto.commit", "false");
        let asking = Unjoined::of(&asking, heard.clone()).map_err(|error| {
            BrokerError::new(ErrorKind::Denied, "set up the Kafka client", error.to_string())
        })?;
        let client = Self {
            config,
            heard,
            clock: Arc::clone(&context.clock),
            servers: servers.into(),
            user,
            asking: Arc::new(asking),
        };
        client
            .ask("connect", |consumer| {
                consumer.fetch_metadata(Some("__consumer_offsets"), PATIENCE).map(|_| ())
            })
            .await?;
        Ok(client)
    }

    /// A blocking call of librdkafka, on a thread for such.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        action: &str,
        call: impl FnOnce(&BaseConsumer<Heard>) -> rdkafka::error::KafkaResult<T> + Send + 'static,
    ) -> Result<T> {
        let asking = Arc::clone(&self.asking);
        match tokio::task::spawn_blocking(move || call(&asking)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.error(action, &error)),
            Err(error) => Err(BrokerError::new(ErrorKind::Other, action, error.to_string())),
        }
    }

    /// A blocking admin call.
    pub(super) async fn admin<T: Send + 'static>(
        &self,
        action: &str,
        call: impl FnOnce(&Handle) -> std::result::Result<T, RawError> + Send + 'static,
    ) -> Result<T> {
        let asking = Arc::clone(&self.asking);
        let done = tokio::task::spawn_blocking(move || {
            let native: &RdClient<Heard> = asking.client();
            call(&Handle::of(native.native_ptr()))
        });
        match done.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.raw_error(action, &error)),
            Err(error) => Err(BrokerError::new(ErrorKind::Other, action, error.to_string())),
        }
    }

    /// The same, reading as this group, which need not be joined.
    pub(super) fn of_group(&self, group: &str) -> Self {
        let mut of = self.clone();
        of.config.set("group.id", group);
        of
    }

    /// The configuration that every client starts from.
    pub(super) fn config(&self) -> ClientConfig {
        self.config.clone()
    }

    /// An error of librdkafka in our words.
    pub(super) fn error(&self, action: &str, error: &KafkaError) -> BrokerError {
        match error.rdkafka_error_code() {
            Some(code) => self.coded(action, code, &error.to_string()),
            None => BrokerError::new(ErrorKind::Other, action, error.to_string()),
        }
    }

    /// An error of an admin call in our words.
    pub(super) fn raw_error(&self, action: &str, error: &RawError) -> BrokerError {
        self.coded(action, error.code, &error.text)
    }

    /// Where and as whom: for the end of a message.
    fn place(&self) -> String {
        let protocol = self.config.get("security.protocol").unwrap_or("PLAINTEXT").to_ascii_uppercase();
        match &self.user {
            Some(user) => format!("{}, {protocol}, user {user}", self.servers),
            None => format!("{}, {protocol}", self.servers),
        }
    }

    /// Nobody answers a reader: nothing says so but the callbacks, which also know why.
    pub(super) fn silence(&self, action: &str) -> BrokerError {
        let heard = self.heard.last();
        let why = heard.map(|(_, reason)| format!(": {}", tidy(&reason))).unwrap_or_default();
        let message = format!("nothing comes, and records are missing{why} ({})", self.place());
        BrokerError::new(ErrorKind::Unreachable, action, message).hint(NOBODY)
    }

    fn coded(&self, action: &str, code: RDKafkaErrorCode, text: &str) -> BrokerError {
        use RDKafkaErrorCode as C;
        let kind = kind(code);
        let silent = matches!(
            code,
            C::OperationTimedOut
                | C::RequestTimedOut
                | C::BrokerTransportFailure
                | C::AllBrokersDown
                | C::Resolve
        );
        // A call that only timed out says nothing; the callbacks have heard why, once they are asked.
        let until = Instant::now() + Duration::from_millis(300);
        while silent && !self.heard.why() && Instant::now() < until {
            let _ = self.asking.poll(Duration::from_millis(20));
        }
        if silent && let Some((heard, reason)) = self.heard.last() {
            let (kind, hint) = match heard {
                // No password was looked at: the listener does not do logins, or not of this kind.
                C::Authentication if reason.contains("handshake") => (
                    ErrorKind::Denied,
                    Some("check security.protocol and sasl.mechanism in its options".to_owned()),
                ),
                C::Authentication | C::SaslAuthenticationFailed => (
                    ErrorKind::Denied,
                    Some("check username and password of this broker in the topology".to_owned()),
                ),
                C::SSL => (
                    ErrorKind::Denied,
                    Some("check security.protocol and ssl.ca.location in its options".to_owned()),
                ),
                C::Resolve => (ErrorKind::Unreachable, Some("check the host names in its url".to_owned())),
                _ => (ErrorKind::Unreachable, Some(NOBODY.to_owned())),
            };
            let mut error = BrokerError::new(kind, action, format!("{} ({})", tidy(&reason), self.place()))
                .code(format!("{heard:?}"));
            error.hint = hint;
            return error;
        }
        let mut error = BrokerError::new(kind, action, format!("{} ({})", tidy(text), self.place()))
            .code(format!("{code:?}"));
        error.hint = match code {
            C::TopicAuthorizationFailed => {
                Some("which rights on which topics: docs/kafka.md, Rights".to_owned())
            }
            C::GroupAuthorizationFailed => Some(
                "reading needs Read on group redrive, also where no group is joined; a relay needs \
                 redrive-relay-CHANNEL (docs/kafka.md, Rights)"
                    .to_owned(),
            ),
            C::UnsupportedVersion | C::UnsupportedFeature => Some(OLD.to_owned()),
            C::ClusterAuthorizationFailed => Some(
                "the user may write to none of the topics, or not ask for groups (docs/kafka.md, Rights)"
                    .to_owned(),
            ),
            _ => None,
        };
        if silent && kind == ErrorKind::Unreachable {
            error.hint = Some(NOBODY.to_owned());
        }
        error
    }
}

/// Is it a word about a broker that is away, or a group that meets anew, which passes by itself? Nothing is asked for it.
pub(super) fn passes(error: &KafkaError) -> bool {
    let kind = error.rdkafka_error_code().map(kind);
    kind.is_some_and(|kind| kind.transient() || kind == ErrorKind::Unknown)
}

/// Is it a word about a broker that is away, of which nobody has told why?
pub(super) fn away(error: &KafkaError, heard: &Heard) -> bool {
    error.rdkafka_error_code().map(kind) == Some(ErrorKind::Unreachable) && !heard.why()
}

fn kind(code: RDKafkaErrorCode) -> ErrorKind {
    use RDKafkaErrorCode as C;
    match code {
        C::OperationTimedOut | C::RequestTimedOut | C::MessageTimedOut => ErrorKind::Unknown,
        C::BrokerTransportFailure
        | C::AllBrokersDown
        | C::Resolve
        | C::NotLeaderForPartition
        | C::LeaderNotAvailable
        | C::CoordinatorNotAvailable
        | C::NotCoordinator
        | C::CoordinatorLoadInProgress
        | C::NetworkException
        // A node that has just started, or a partition that has just moved: the client asks anew.
        | C::FencedLeaderEpoch
        | C::UnknownLeaderEpoch
        | C::OffsetNotAvailable
        | C::ReplicaNotAvailable
        | C::BrokerNotAvailable
        | C::PreferredLeaderNotAvailable
        | C::ListenerNotFound
        | C::KafkaStorageError
        | C::NotEnoughReplicas
        | C::NotEnoughReplicasAfterAppend
        | C::NotController
        | C::UnstableOffsetCommit
        | C::ConcurrentTransactions
        // The group meets anew: its members go on where it left off.
        | C::RebalanceInProgress
        | C::IllegalGeneration
        | C::UnknownMemberId
        | C::StaleMemberEpoch
        | C::FencedMemberEpoch
        | C::AssignmentLost
        | C::PollExceeded => ErrorKind::Unreachable,
        C::ThrottlingQuotaExceeded => ErrorKind::Throttled,
        C::UnknownTopicOrPartition | C::UnknownTopic | C::UnknownPartition => ErrorKind::NotFound,
        C::TopicAuthorizationFailed
        | C::GroupAuthorizationFailed
        | C::ClusterAuthorizationFailed
        | C::TransactionalIdAuthorizationFailed
        | C::SaslAuthenticationFailed
        | C::Authentication
        | C::SSL => ErrorKind::Denied,
        C::MessageSizeTooLarge
        | C::InvalidMessage
        | C::InvalidMessageSize
        | C::InvalidTimestamp
        | C::InvalidRecord
        | C::PolicyViolation => ErrorKind::Rejected,
        C::Fenced | C::InvalidProducerEpoch | C::ProducerFenced => ErrorKind::Fenced,
        C::UnsupportedVersion | C::UnsupportedFeature => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
        }
}

/// librdkafka's text without its thread and client names.
fn tidy(text: &str) -> String {
    let text = text.split("]: ").last().unwrap_or(text);
    text.split(" (after ").next().unwrap_or(text).trim().chars().take(300).collect()
}
