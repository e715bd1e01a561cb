//! The management API: what AMQP cannot tell. Optional; never used to read a message, which it would change
//! (R22).
//!
//! The only file that knows the HTTP client.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::address::encode;
use super::settings::{Login, Settings};
use crate::broker::{BrokerError, ErrorKind, Result};

/// More than any answer that is asked for here.
const ANSWER_MAX: u64 = 64 * 1024 * 1024;

/// A client for one virtual host.
#[derive(Clone)]
pub(super) struct Management {
    agent: ureq::Agent,
    base: Arc<str>,
    vhost: Arc<str>,
    authorization: Arc<str>,
    user: Arc<str>,
    name: Arc<str>,
}

impl Management {
    /// The client, if the declaration has a management url.
    ///
    /// # Errors
    /// A login that the API does not take, or certificates that cannot be read.
    pub fn of(settings: &Settings) -> Result<Option<Self>> {
        let Some(base) = &settings.management else { return Ok(None) };
        let Login::Plain { user, password } = &settings.login else {
            return Err(BrokerError::new(
                ErrorKind::Unsupported,
                format!("use the management API of {}", settings.name),
                "it takes user and password, and this broker logs in by certificate",
            )
            .hint("leave `management` out, or log in with username and password"));
        };
        use base64::Engine as _;
        let login = format!("{user}:{}", password.expose().unwrap_or_default());
        let authorization =
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login)).into();
        let mut tls = TlsConfig::builder();
        if let Some(ca) = &settings.ca {
            let own: Vec<Certificate<'static>> = ureq::tls::parse_pem(ca.as_bytes())
                .filter_map(|item| match item {
                    Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                })
                .collect();
            tls = tls.root_certs(RootCerts::new_with_certs(&own));
        }
        let agent = ureq::Agent::config_builder()
            .timeout_connect(Some(settings.connect_timeout))
            .timeout_global(Some(settings.connect_timeout + Duration::from_secs(20)))
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(tls.build())
            .build()
            .into();
        Ok(Some(Self {
            agent,
            base: base.as_str().into(),
            vhost: encode(&settings.address.vhost).into(),
            authorization,
            user: user.as_str().into(),
            name: settings.name.as_str().into(),
        }))
    }

    /// Is it there, and does it take the login?
    pub async fn check(&self) -> Result<()> {
        self.get("whoami").await.map(|_| ())
    }

    /// A queue; `None` if there is none of this name.
    pub async fn queue(&self, name: &str) -> Result<Option<Json>> {
        self.get(&format!("queues/{}/{}", self.vhost, encode(name))).await
    }

    /// Names of all queues of the virtual host.
    pub async fn queue_names(&self) -> Result<Vec<String>> {
        let all = self.get(&format!("queues/{}?columns=name&disable_stats=true", self.vhost)).await?;
        Ok(names(all.as_ref()))
    }

    /// An exchange; `None` if there is none of this name.
    pub async fn exchange(&self, name: &str) -> Result<Option<Json>> {
        self.get(&format!("exchanges/{}/{}", self.vhost, encode(name))).await
    }

    /// Bindings that lead out of an exchange.
    pub async fn bindings_from(&self, exchange: &str) -> Result<Vec<Json>> {
        let path = format!("exchanges/{}/{}/bindings/source", self.vhost, encode(exchange));
        Ok(self.get(&path).await?.and_then(|list| list.as_array().cloned()).unwrap_or_default())
    }

    /// All policies of the virtual host.
    pub async fn policies(&self) -> Result<Vec<Json>> {
        let all = self.get(&format!("policies/{}", self.vhost)).await?;
        Ok(all.and_then(|list| list.as_array().cloned()).unwrap_or_default())
    }

    /// Sets a policy.
    pub async fn put_policy(&self, name: &str, policy: &Json) -> Result<()> {
        self.put(&format!("policies/{}/{}", self.vhost, encode(name)), policy).await
    }

    /// Declares a queue. One that is there with other arguments is refused and left as it is.
    pub async fn put_queue(&self, name: &str, queue: &Json) -> Result<()> {
        self.put(&format!("queues/{}/{}", self.vhost, encode(name)), queue).await
    }

    async fn get(&self, path: &str) -> Result<Option<Json>> {
        let (status, body) = self.ask(path, None).await?;
        match status {
            200 => serde_json::from_slice(&body).map(Some).map_err(|error| {
                self.failed(path, ErrorKind::Other, format!("its answer is no JSON: {error}"))
            }),
            404 => Ok(None),
            _ => Err(self.refused(path, status, &body)),
        }
    }

    async fn put(&self, path: &str, body: &Json) -> Result<()> {
        let (status, answer) = self.ask(path, Some(body.to_string().into_bytes())).await?;
        match status {
            201 | 204 => Ok(()),
            _ => Err(self.refused(path, status, &answer)),
        }
    }

    async fn ask(&self, path: &str, body: Option<Vec<u8>>) -> Result<(u16, Vec<u8>)> {
        let this = self.clone();
        let url = format!("{}/api/{path}", self.base);
        let asked = tokio::task::spawn_blocking(move || {
            let authorization = &*this.authorization;
            let mut answer = match body {
                None => this.agent.get(&url).header("authorization", authorization).call(),
                Some(body) => this
                    .agent
                    .put(&url)
                    .header("authorization", authorization)
                    .content_type("application/json")
                    .send(&body[..]),
            }?;
            let status = answer.status().as_u16();
            let body = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec()?;
            Ok::<_, ureq::Error>((status, body))
        })
        .await;
        match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self
                .failed(path, ErrorKind::Unreachable, error.to_string())
                .hint("check `options: {management: URL}`; without it plans come from AMQP alone")),
            Err(error) => Err(self.failed(path, ErrorKind::Other, error.to_string())),
        }
    }

    fn refused(&self, path: &str, status: u16, body: &[u8]) -> BrokerError {
        let text = serde_json::from_slice::<Json>(body)
            .ok()
            .and_then(|json| json.get("reason").and_then(Json::as_str).map(str::to_owned))
            .unwrap_or_else(|| format!("HTTP status {status}"));
        let (kind, hint) = match status {
            401 => (
                ErrorKind::Denied,
                Some(format!(
                    "user {} needs the tag `management` for reading, `policymaker` for policies",
                    self.user
                )),
            ),
            403 => (ErrorKind::Denied, Some(format!("user {} lacks a right on it", self.user))),
            404 => (ErrorKind::NotFound, None),
            _ => (ErrorKind::Other, None),
        };
        let error = self.failed(path, kind, text).code(status.to_string());
        if let Some(hint) = hint { error.hint(hint) } else { error }
    }

    fn failed(&self, path: &str, kind: ErrorKind, text: String) -> BrokerError {
        let what = path.split('?').next().unwrap_or(path);
        BrokerError::new(kind, format!("ask the management API of {} for {what}", self.name), text)
    }
}

fn names(list: Option<&Json>) -> Vec<String> {
    list.and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(|item| item.get("name")?.as_str().map(str::to_owned))
        .collect()
}
