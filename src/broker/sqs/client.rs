//! The connection: region, endpoint, account and credentials as AWS users know them, one HTTPS client with
//! ring only, and one place that turns the SDK's errors into ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::QueueAttributeName;
use aws_smithy_http_client::tls;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use crate::broker::{BrokerError, ErrorKind, OpenContext, Result};
use crate::clock::Clock;
use crate::topology::BrokerDecl;

/// Most letters held at once, unless written.
const MOST_IN_FLIGHT: usize = 100_000;

/// What every role shares.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) sdk: aws_sdk_sqs::Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) place: Arc<Place>,
    /// Is RedriveAllowPolicy ours to set? `options: {redrive_allow_policy: left}` says no: some emulators refuse it.
    pub(super) sets_allow_policy: bool,
    /// Letters in our hands at once: SQS ends at about 120,000 in flight, and says so on short polls only (S23).
    pub(super) most_in_flight: usize,
    urls: Arc<Mutex<HashMap<String, Option<String>>>>,
    /// The account of the queues, as their own names say it.
    seen: Arc<Mutex<Option<String>>>,
}

/// Where the calls go, shown before a change and in each error.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) region: String,
    pub(super) endpoint: String,
    pub(super) account: Option<String>,
    pub(super) profile: Option<String>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.endpoint)?;
        if !self.endpoint.contains(&self.region) {
            write!(f, ", {}", self.region)?;
        }
        if let Some(account) = &self.account {
            write!(f, ", account {account}")?;
        }
        if let Some(profile) = &self.profile {
            write!(f, ", profile {profile}")?;
        }
        Ok(())
    }
}

/// One of the declared options, or what the environment says.
fn option<'a>(broker: &'a BrokerDecl, name: &str) -> Option<&'a str> {
    broker.options.iter().find(|(key, _)| key.value == name).and_then(|(_, value)| value.expose())
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Client {
    /// Reads the configuration; makes no call yet.
    pub(super) async fn open(broker: &BrokerDecl, context: &OpenContext) -> Result<Self> {
        let profile = option(broker, "profile").map(str::to_owned).or_else(|| environment("AWS_PROFILE"));
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(https(context)?)
            .retry_config(RetryConfig::standard().with_max_attempts(4))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(Duration::from_secs(5))
                    .operation_attempt_timeout(Duration::from_secs(30))
                    .build(),
            );
        if let Some(profile) = &profile {
            loader = loader.profile_name(profile);
        }
        let named = broker.url.value.strip_prefix("sqs://").unwrap_or_default();
        let named = named.split(['/', '?']).next().unwrap_or_default();
        if !named.is_empty() {
            loader = loader.region(Region::new(named.to_owned()));
        }
        let endpoint = option(broker, "endpoint_url").map(str::to_owned);
        if let Some(endpoint) = &endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let shared = loader.load().await;
        let Some(region) = shared.region().map(|region| region.as_ref().to_owned()) else {
            return Err(BrokerError::new(ErrorKind::Denied, "find the AWS region", "none is set")
                .hint("write it into the url, sqs://eu-west-1, or set AWS_REGION"));
        };
        if region.is_empty() {
            return Err(BrokerError::new(
                ErrorKind::Denied,
                "find the AWS region",
                "AWS_REGION is set and empty",
            )
            .hint("unset AWS_REGION, or write the region into the url: sqs://eu-west-1"));
        }
        let endpoint = endpoint.or_else(|| configured(&shared)).unwrap_or_else(|| of_region(&region));
        let mut config = aws_sdk_sqs::config::Builder::from(&shared);
        if let Some(role) = option(broker, "role_arn") {
            let provider = aws_config::sts::AssumeRoleProvider::builder(role)
                .configure(&shared)
                .session_name("redrive")
                .build()
                .await;
            config = config.credentials_provider(provider);
        }
        let account = broker.account.as_ref().map(|account| account.value.clone());
        let place = Place { region, endpoint: crate::redact::url(&endpoint), account, profile };
        Ok(Self {
            sdk: aws_sdk_sqs::Client::from_conf(config.build()),
            clock: Arc::clone(&context.clock),
            place: Arc::new(place),
            sets_allow_policy: option(broker, "redrive_allow_policy") != Some("left"),
            most_in_flight: option(broker, "most_in_flight")
                .and_then(|text| text.parse().ok())
                .unwrap_or(MOST_IN_FLIGHT),
            urls: Arc::default(),
            seen: Arc::default(),
        })
    }

    /// Where the calls go, with the account as far as it is known.
    pub(super) fn whereabouts(&self) -> String {
        let mut place = Place::clone(&self.place);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        place.account = place.account.or(seen);
        place.to_string()
    }

    /// The url of a queue; `None` if there is no such queue. Asked once for a queue that is there.
    pub(super) async fn url(&self, queue: &str) -> Result<Option<String>> {
        if let Some(Some(known)) = self.urls.lock().unwrap_or_else(PoisonError::into_inner).get(queue) {
            return Ok(Some(known.clone()));
        }
        let asked = self
            .sdk
            .get_queue_url()
            .queue_name(queue)
            .set_queue_owner_aws_account_id(self.place.account.clone());
        let url = match asked.send().await {
            Ok(answer) => answer.queue_url,
            Err(error) => {
                let error = self.error(format!("find the queue {queue}"), &error);
                if error.kind != ErrorKind::NotFound {
                    return Err(error);
                }
                None
            }
        };
        self.remember(queue, url.clone());
        Ok(url)
    }

    /// Keeps the url of a queue that was just made.
    pub(super) fn remember(&self, queue: &str, url: Option<String>) {
        self.urls.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.to_owned(), url);
    }

    /// The url of a queue that has to be there.
    pub(super) async fn must(&self, queue: &str) -> Result<String> {
        self.url(queue).await?.ok_or_else(|| {
            BrokerError::new(
                ErrorKind::NotFound,
                format!("find the queue {queue}"),
                format!("there is no such queue ({})", self.whereabouts()),
            )
            .hint(self.elsewhere())
        })
    }

    /// Attributes of a queue, by their names on SQS; `None` if there is no such queue.
    pub(super) async fn attributes(&self, queue: &str) -> Result<Option<HashMap<String, String>>> {
        let Some(url) = self.url(queue).await? else { return Ok(None) };
        let asked = self.sdk.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        match asked.send().await {
            Ok(answer) => {
                let pairs = answer.attributes.unwrap_or_default();
                if let Some(account) =
                    pairs.get(&QueueAttributeName::QueueArn).and_then(|arn| super::policy::account_of(arn))
                {
                    *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(account.to_owned());
                }
                Ok(Some(pairs.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect()))
            }
            Err(error) => {
                let error = self.error(format!("read the attributes of {queue}"), &error);
                if error.kind == ErrorKind::NotFound { Ok(None) } else { Err(error) }
            }
        }
    }

    /// An error of ours, with the place.
    pub(super) fn fault(&self, kind: ErrorKind, action: impl Into<String>, what: &str) -> BrokerError {
        BrokerError::new(kind, action, format!("{what} ({})", self.whereabouts()))
    }

    /// An SDK error in our words, with the place and what to do next.
    pub(super) fn error<E>(&self, action: impl Into<String>, error: &SdkError<E, HttpResponse>) -> BrokerError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let code = error.code().unwrap_or_default().to_owned();
        let kind = match error {
            SdkError::ConstructionFailure(_) => ErrorKind::Denied,
            SdkError::TimeoutError(_) | SdkError::ResponseError(_) => ErrorKind::Unknown,
            SdkError::DispatchFailure(failure) if failure.is_user() => ErrorKind::Denied,
            // A connection that never stood carried nothing; one that broke may have.
            SdkError::DispatchFailure(failure) => match format!("{failure:?}").contains("Connect,") {
                true => ErrorKind::Unreachable,
                false => ErrorKind::Unknown,
            },
            _ => kind_of(&code, error.raw_response().map(|answer| answer.status().as_u16())),
        };
        let whole = DisplayErrorContext(error).to_string();
        let no_credentials =
            whole.contains("CredentialsNotLoaded") || whole.contains("no providers in chain");
        let distrusted = whole.contains("invalid peer certificate");
        let kind = if no_credentials || distrusted { ErrorKind::Denied } else { kind };
        let place = self.whereabouts();
        let message = match error.message() {
            Some(text) => format!("{code}: {text} ({place})"),
            None if no_credentials => format!("no credentials ({place})"),
            None if code.is_empty() => format!("{} ({place})", causes(error)),
            None => format!("{code} ({place})"),
        };
        let mut ours = BrokerError::new(kind, action, message);
        if !code.is_empty() {
            ours = ours.code(code.clone());
        }
        if distrusted {
            return ours.hint(
                "if a proxy of yours stands between: AWS_CA_BUNDLE names a PEM file with the authority that signed its certificate",
            );
        }
        match self.advice(&code, no_credentials) {
            Some(advice) => ours.hint(advice),
            None if matches!(error, SdkError::DispatchFailure(_)) && kind == ErrorKind::Unreachable => {
                ours.hint(self.no_way())
            }
            None => ours,
        }
    }

    /// Nobody answers at the endpoint: it is another one, or there is no way to it.
    fn no_way(&self) -> String {
        if self.place.endpoint == of_region(&self.place.region) {
            return "no way to AWS from here, or there is no such region: url: of the broker names the region, endpoint_url: \
                    among its options another endpoint"
                .to_owned();
        }
        "nobody listens there: the endpoint is named by endpoint_url: among the broker's options, else by \
         AWS_ENDPOINT_URL_SQS, AWS_ENDPOINT_URL or the profile"
            .to_owned()
    }

    /// A queue that is not there may be in another account or region.
    pub(super) fn elsewhere(&self) -> String {
        match &self.place.account {
            Some(account) => format!(
                "looked for in account {account}, region {}: account: and url: of the broker say so",
                self.place.region
            ),
            None => format!(
                "looked for in region {} and the account of these credentials (`aws sts get-caller-identity` tells which); account: names another",
                self.place.region
            ),
        }
    }

    fn advice(&self, code: &str, no_credentials: bool) -> Option<String> {
        let profile = self.place.profile.as_deref();
        match code {
            "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => Some(match profile {
                Some(profile) => format!("aws sso login --profile {profile}"),
                None => "get new credentials (aws sso login, or the environment's)".to_owned(),
            }),
            "InvalidClientTokenId" | "UnrecognizedClientException" | "SignatureDoesNotMatch" => {
                Some("check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile".to_owned())
            }
            _ if kind_of(code, None) == ErrorKind::NotFound => Some(self.elsewhere()),
            "AccessDenied" | "AccessDeniedException" => {
                Some("docs/sqs.md lists the actions that each verb needs".to_owned())
            }
            _ if no_credentials => Some(
                "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; `aws sts get-caller-identity` tells who you are"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// The endpoint that the environment or the profile names, as the SDK finds it: for SQS alone, then for all.
fn configured(shared: &aws_config::SdkConfig) -> Option<String> {
    let key = aws_types::service_config::ServiceConfigKey::builder()
        .service_id("SQS")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()
        .ok()?;
    let own = shared.service_config().and_then(|config| config.load_config(key));
    own.or_else(|| shared.endpoint_url().map(str::to_owned))
}

/// AWS's own endpoint of a region.
fn of_region(region: &str) -> String {
    let end = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://sqs.{region}.amazonaws.com{end}")
}

/// Old and new names alike: the emulators and AWS itself differ in which they send.
pub(super) fn kind_of(code: &str, status: Option<u16>) -> ErrorKind {
    let bare = code.rsplit(['.', '#']).next().unwrap_or(code);
    match bare {
        "NonExistentQueue" | "QueueDoesNotExist" | "ResourceNotFoundException" => ErrorKind::NotFound,
        "RequestThrottled"
        | "ThrottlingException"
        | "Throttling"
        | "TooManyRequestsException"
        | "OverLimit"
        | "RequestLimitExceeded"
        | "SlowDown" => ErrorKind::Throttled,
        "AccessDenied"
        | "AccessDeniedException"
        | "InvalidSecurity"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "OptInRequired"
        | "MissingAuthenticationToken"
        | "IncompleteSignature" => ErrorKind::Denied,
        "ReceiptHandleIsInvalid" | "MessageNotInflight" => ErrorKind::Stale,
        "InvalidMessageContents"
        | "MessageTooLong"
        | "InvalidParameterValue"
        | "InvalidAttributeValue"
        | "BatchRequestTooLong"
        | "MissingParameter"
        | "InvalidAddress" => ErrorKind::Rejected,
        "UnsupportedOperation" | "InvalidAction" | "UnknownOperationException" => ErrorKind::Unsupported,
        "ServiceUnavailable" | "InternalFailure" | "InternalError" | "InternalServerError" => {
            ErrorKind::Unreachable
        }
        _ if code.starts_with("KMS.Throttling") || code.ends_with("KmsThrottled") => ErrorKind::Throttled,
        _ => match status {
            Some(429) => ErrorKind::Throttled,
            Some(500..=599) => ErrorKind::Unreachable,
            Some(401 | 403) => ErrorKind::Denied,
            _ => ErrorKind::Other,
        },
    }
}

/// What lies under an SDK error, innermost last, without its own frame words and debug prints.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut at = error.source();
    while let Some(cause) = at {
        let text = cause.to_string();
        let frame = ["io error", "timeout", "other", "user error"].contains(&text.as_str());
        if !frame && !words.iter().any(|known| known.contains(&text)) {
            words.push(text);
        }
        at = cause.source();
    }
    match words.is_empty() {
        true => error.to_string(),
        false => words.join(": ").chars().take(300).collect(),
    }
}

/// One HTTPS client on ring, with the platform's roots and `AWS_CA_BUNDLE`, which the SDK does not read.
fn https(context: &OpenContext) -> Result<aws_smithy_runtime_api::client::http::SharedHttpClient> {
    let mut roots = tls::TrustStore::default();
    if let Some(path) = environment("AWS_CA_BUNDLE") {
        let pem = std::fs::read(context.base.join(&path)).map_err(|error| {
            BrokerError::new(ErrorKind::Denied, "read AWS_CA_BUNDLE", format!("{path}: {error}"))
        })?;
        if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
            let what = format!("{path}: there is no certificate in PEM form in it");
            return Err(BrokerError::new(ErrorKind::Denied, "read AWS_CA_BUNDLE", what));
        }
        roots = roots.with_pem_certificate(pem);
    }
    let context = tls::TlsContext::builder()
        .with_trust_store(roots)
        .build()
        .map_err(|error| BrokerError::new(ErrorKind::Denied, "set up TLS", error.to_string()))?;
    Ok(aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
        .tls_context(context)
        .build_https())
}
