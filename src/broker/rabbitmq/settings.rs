//! What a broker declaration asks of a connection: the login, certificates, time limits and management url.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::Address;
use crate::broker::{BrokerError, ErrorKind};
use crate::clock;
use crate::topology::{BrokerDecl, Secret};

/// How to log in.
#[derive(Debug, Clone)]
pub(super) enum Login {
    /// User and password.
    Plain {
        /// Shown in errors.
        user: String,
        /// Never shown.
        password: Secret,
    },
    /// By the client certificate.
    External,
}

/// A declaration read.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// What the topology calls it.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// How to log in.
    pub login: Login,
    /// Own certificate authorities, PEM.
    pub ca: Option<String>,
    /// Own certificate and key, PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Url of the management API without a slash at its end.
    pub management: Option<String>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest wait for a confirm.
    pub publish_timeout: Duration,
    /// Heartbeat.
    pub heartbeat: Duration,
}

impl Settings {
    /// Reads a declaration; relative paths start at `base`.
    ///
    /// # Errors
    /// Denied for a login that is not complete, Other for an option or file that cannot be used.
    pub fn read(broker: &BrokerDecl, base: &Path) -> Result<Self, BrokerError> {
        let action = || format!("read the settings of {}", broker.name.value);
        let wrong = |what: String| BrokerError::new(ErrorKind::Other, action(), what);
        let address = Address::parse(&broker.url.value).map_err(|why| wrong(format!("its url: {why}")))?;
        let option = |key: &str| -> Result<Option<String>, BrokerError> {
            let Some((_, value)) = broker.options.iter().find(|(name, _)| name.value == key) else {
                return Ok(None);
            };
            match value.value.expose() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(wrong(format!("option {key}: {} is not set", value.value.source()))),
            }
        };
        let file = |key: &str| -> Result<Option<Vec<u8>>, BrokerError> {
            let Some(path) = option(key)? else { return Ok(None) };
            let path = base.join(PathBuf::from(path));
            std::fs::read(&path)
                .map(Some)
                .map_err(|error| wrong(format!("{key} {}: {error}", path.display())))
        };
        let wait = |key: &str, default: u64| -> Result<Duration, BrokerError> {
            match option(key)? {
                None => Ok(Duration::from_secs(default)),
                Some(text) => clock::parse_duration(&text)
                    .filter(|wait| !wait.is_zero())
                    .ok_or_else(|| wrong(format!("option {key} is no duration with a unit, like 10s"))),
            }
        };
        let login = match option("auth")?.as_deref() {
            Some("external") => Login::External,
            None | Some("plain") => plain(broker, &address)?,
            Some(_) => return Err(wrong("option auth is neither plain nor external".to_owned())),
        };
        let identity = match (file("client_cert_file")?, file("client_key_file")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(wrong("client_cert_file and client_key_file go together".to_owned())),
        };
        let ca = match file("ca_file")? {
            None => None,
            Some(bytes) => {
                Some(String::from_utf8(bytes).map_err(|_| wrong("ca_file is no PEM text".to_owned()))?)
            }
        };
        let management = option("management")?.map(|url| url.trim_end_matches('/').to_owned());
        if let Some(url) = &management
            && !url.starts_with("http://")
            && !url.starts_with("https://")
        {
            return Err(wrong("option management is no http or https url".to_owned()));
        }
        if management.as_ref().is_some_and(|url| url.contains('@')) {
            return Err(wrong("option management holds a login: it uses the broker's own".to_owned()));
        }
        Ok(Self {
            name: broker.name.value.clone(),
            address,
            login,
            ca,
            identity,
            management,
            connect_timeout: wait("connect_timeout", 10)?,
            publish_timeout: wait("publish_timeout", 30)?,
            heartbeat: wait("heartbeat", 30)?,
        })
    }

    /// Where and as whom, for errors: `amqps://mq.internal:5671, user redrive`.
    pub fn shown(&self) -> String {
        match &self.login {
            Login::Plain { user, .. } => format!("{}, user {user}", self.address.shown()),
            Login::External => format!("{}, user of the client certificate", self.address.shown()),
        }
    }
}

fn plain(broker: &BrokerDecl, address: &Address) -> Result<Login, BrokerError> {
    let missing = |what: &str, secret: &Secret| {
        BrokerError::new(
            ErrorKind::Denied,
            format!("log in to {}", broker.name.value),
            format!("{what}: {} is not set", secret.source()),
        )
    };
    let user = match (&broker.username, &address.user) {
        (Some(written), _) => {
            written.value.expose().ok_or_else(|| missing("username", &written.value))?.to_owned()
        }
        (None, Some(user)) => user.clone(),
        (None, None) => "guest".to_owned(),
    };
    let password = match &broker.password {
        Some(written) if written.value.expose().is_none() => {
            return Err(missing("password", &written.value));
        }
        Some(written) => written.value.clone(),
        // The account of a fresh server; it is let in from the same machine only.
        None if user == "guest" => Secret::new("guest", "the default password of guest"),
        None => {
            return Err(BrokerError::new(
                ErrorKind::Denied,
                format!("log in to {}", broker.name.value),
                format!("user {user} has no password"),
            )
            .hint("write `password: ${NAME}` under the broker"));
        }
    };
    Ok(Login::Plain { user, password })
}
