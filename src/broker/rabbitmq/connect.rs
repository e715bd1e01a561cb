//! Connections: greeting (what server is there), login, channels, and closing without hanging.

use std::time::Duration;

use futures_util::{AsyncReadExt, AsyncWriteExt};
use lapin::tcp::{AMQPUriTcpExt, OwnedIdentity, OwnedTLSConfig};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{Channel, Connection, ConnectionProperties};

use super::refused::{answer, code, failed, reply_code, reply_text, timed_out};
use super::settings::{Login, Settings};
use super::version::Version;
use crate::broker::{BrokerError, ErrorKind, Result};

/// Longest wait for a channel or connection to close; a close that hangs must not fail a command.
const CLOSE: Duration = Duration::from_secs(5);
/// More than any server says about itself.
const GREETING_MAX: u32 = 64 * 1024;

/// Largest frame that is agreed to, which is what servers propose unless told otherwise. Named here because the
/// client library holds 32 frames for each direction: without a number of ours it fills that memory with zeros
/// when the server's is known, and asks for 128 GiB of it from a server that sets no limit.
const FRAME_MAX: u32 = 131_072;

/// One connection, without automatic recovery: delivery tags do not survive one, and a hidden retry is a
/// silent duplicate (m13).
pub(super) struct Link {
    connection: Connection,
}

impl Link {
    /// Connects and logs in under a name that people see in the management UI.
    pub async fn open(settings: &Settings, name: &str) -> Result<Self> {
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let runtime = lapin::runtime::default_runtime().map_err(|error| refused(settings, &error))?;
        let connecting =
            Connection::connect_uri_with_config(uri(settings), properties, tls(settings), runtime);
        match tokio::time::timeout(settings.connect_timeout, connecting).await {
            Ok(Ok(connection)) => Ok(Self { connection }),
            Ok(Err(error)) => Err(refused(settings, &error)),
            Err(_) => Err(silent(settings)),
        }
    }

    /// A new channel.
    pub async fn channel(&self) -> Result<Channel> {
        answer("open a channel", "", self.connection.create_channel()).await
    }

    /// Still there?
    pub fn alive(&self) -> bool {
        self.connection.status().connected()
    }

    /// Has the server stopped taking messages (`connection.blocked`)?
    pub fn blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// Largest frame: all properties and headers of a message must fit into one.
    pub fn frame_max(&self) -> usize {
        match self.connection.configuration().frame_max() {
            0 => usize::MAX,
            // A frame has eight bytes around its payload.
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(8),
        }
    }

    /// Closes; channels must be closed first, or the client library may hang.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(CLOSE, self.connection.close(200, "bye".into())).await;
    }
}

/// Closes a channel: what it holds unacknowledged goes back in order.
///
/// # Errors
/// The server did not say that it is closed; it gives back all the same when the connection ends.
pub(super) async fn close_channel(channel: &Channel) -> Result<()> {
    match tokio::time::timeout(CLOSE, channel.close(200, "bye".into())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed("give letters back", "", &error)),
        Err(_) => Err(timed_out("give letters back", CLOSE)),
    }
}

/// What the server says about itself before anybody logs in. The client library throws it away, and peeking
/// depends on the version.
pub(super) async fn greet(settings: &Settings) -> Result<Version> {
    let runtime = lapin::runtime::default_runtime().map_err(|error| refused(settings, &error))?;
    let greeting = async {
        let mut stream = uri(settings).connect_with_config_async(tls(settings).as_ref(), &runtime).await?;
        stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
        stream.flush().await?;
        let mut head = [0; 7];
        stream.read_exact(&mut head).await?;
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
        if head[0] != 1 || size > GREETING_MAX {
            return Ok(None);
        }
        let mut payload = vec![0; size as usize];
        stream.read_exact(&mut payload).await?;
        Ok::<_, std::io::Error>(Some(payload))
    };
    let not_amqp = || {
        BrokerError::new(
            ErrorKind::Unsupported,
            format!("connect to {}", settings.name),
            format!("{} does not answer as a RabbitMQ server", settings.address.shown()),
        )
        .hint(if settings.address.tls {
            "check the port: amqps is 5671 by default, 15672 is the management UI"
        } else {
            "check the port: amqp is 5672 by default; 5671 wants an amqps:// url"
        })
    };
    match tokio::time::timeout(settings.connect_timeout, greeting).await {
        Ok(Ok(Some(payload))) => server_version(&payload).ok_or_else(not_amqp),
        Ok(Ok(None)) => Err(not_amqp()),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(not_amqp()),
        Ok(Err(error)) => Err(unreachable(settings, &error)),
        Err(_) => Err(silent(settings)),
    }
}

/// Nobody said anything within the time that is allowed.
fn silent(settings: &Settings) -> BrokerError {
    let action = format!("connect to {} ({})", settings.name, settings.address.shown());
    timed_out(action, settings.connect_timeout).hint(format!(
        "{NOBODY}: a firewall may drop what is sent there; `options: {{connect_timeout: 30s}}` waits longer"
    ))
}

/// The text `version` among the server's properties in a connection.start.
fn server_version(payload: &[u8]) -> Option<Version> {
    let table = payload.get(6..)?;
    if payload.get(..4)? != [0, 10, 0, 10] {
        return None;
    }
    let length = u32::from_be_bytes(table.get(..4)?.try_into().ok()?) as usize;
    let mut rest = table.get(4..4 + length)?;
    while !rest.is_empty() {
        let name_length = usize::from(*rest.first()?);
        let name = rest.get(1..=name_length)?;
        let tag = *rest.get(1 + name_length)?;
        let value = rest.get(2 + name_length..)?;
        let size = match tag {
            b't' => 1,
            b'S' | b'F' => 4 + u32::from_be_bytes(value.get(..4)?.try_into().ok()?) as usize,
            b'I' | b'i' => 4,
            b'V' => 0,
            _ => return None,
        };
        if name == b"version" && tag == b'S' {
            return Version::parse(std::str::from_utf8(value.get(4..size)?).ok()?);
        }
        rest = value.get(size..)?;
    }
    None
}

fn uri(settings: &Settings) -> AMQPUri {
    let (userinfo, mechanism) = match &settings.login {
        Login::Plain { user, password } => (
            AMQPUserInfo {
                username: user.clone(),
                password: password.expose().unwrap_or_default().to_owned(),
            },
            SASLMechanism::Plain,
        ),
        Login::External => {
            (AMQPUserInfo { username: String::new(), password: String::new() }, SASLMechanism::External)
        }
    };
    AMQPUri {
        scheme: if settings.address.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo,
            host: settings.address.host.clone(),
            port: settings.address.port,
        },
        vhost: settings.address.vhost.clone(),
        query: AMQPQueryString {
            frame_max: Some(FRAME_MAX),
            channel_max: None,
            heartbeat: u16::try_from(settings.heartbeat.as_secs().max(1)).ok(),
            connection_timeout: u64::try_from(settings.connect_timeout.as_millis()).ok(),
            auth_mechanism: Some(mechanism),
        },
    }
}

fn tls(settings: &Settings) -> OwnedTLSConfig {
    OwnedTLSConfig {
        identity: settings
            .identity
            .as_ref()
            .map(|(certificate, key)| OwnedIdentity::PKCS8 { pem: certificate.clone(), key: key.clone() }),
        cert_chain: settings.ca.clone(),
    }
}

/// The network said no.
fn unreachable(settings: &Settings, error: &std::io::Error) -> BrokerError {
    let action = format!("connect to {} ({})", settings.name, settings.address.shown());
    let text = error.to_string();
    if settings.address.tls
        && let Some((kind, hint)) = about_tls(&text)
    {
        return BrokerError::new(kind, action, format!("TLS was refused: {text}")).hint(hint);
    }
    BrokerError::new(ErrorKind::Unreachable, action, text).hint(NOBODY)
}

/// What to do where nobody answers.
const NOBODY: &str = "check host and port in the broker's url, and that the server runs";

/// What to do about a connection that failed over TLS, by the library's words; `None`: it was not for TLS.
fn about_tls(text: &str) -> Option<(ErrorKind, &'static str)> {
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    Some(match text.contains("received fatal alert") {
        true if has(&["certificate", "unknownca", "accessdenied"]) => (
            ErrorKind::Denied,
            "the server wants a certificate of this client, by an authority that it knows: `options: \
             {client_cert_file: PATH, client_key_file: PATH}`",
        ),
        true => (
            ErrorKind::Unsupported,
            "the server takes none of TLS 1.2 and 1.3 with the ciphers of today, or it wants a client certificate \
             (client_cert_file, client_key_file)",
        ),
        false if has(&["not valid for name", "notvalidforname"]) => {
            (ErrorKind::Denied, "the host in the broker's url has to be a name in the server's certificate")
        }
        false if has(&["expired", "not valid yet"]) => (
            ErrorKind::Denied,
            "the server's certificate is not valid today: renew it there, or set this machine's clock right",
        ),
        false if has(&["certificate", "unknownissuer"]) => (
            ErrorKind::Denied,
            "name the authority that signed the server's certificate: `options: {ca_file: PATH}`; a server \
             that asks for a client certificate wants client_cert_file and client_key_file too",
        ),
        false if has(&["corrupt message", "handshake"]) => {
            (ErrorKind::Unsupported, "check the port: amqps is 5671 by default, and 5672 does not speak TLS")
        }
        false => return None,
    })
}

/// The server said no to the login or the virtual host.
fn refused(settings: &Settings, error: &lapin::Error) -> BrokerError {
    let text = reply_text(error);
    let shown = settings.shown();
    match reply_code(error) {
        Some(code::ACCESS_REFUSED) => {
            let source = match &settings.login {
                Login::Plain { password, .. } => {
                    format!("check user and password; the password comes from {}", password.source())
                }
                Login::External => {
                    "the user is named by the client certificate; the server needs the plugin \
                     rabbitmq_auth_mechanism_ssl and EXTERNAL among its auth_mechanisms"
                        .to_owned()
                }
            };
            BrokerError::new(ErrorKind::Denied, format!("log in to {} ({shown})", settings.name), text)
                .code("403")
                .hint(source)
        }
        Some(code::NOT_ALLOWED) => {
            let vhost = &settings.address.vhost;
            let (kind, hint) = if text.contains("not found") {
                (ErrorKind::NotFound, "the path of the url names it; / in a name is %2F".to_owned())
            } else {
                (ErrorKind::Denied, format!("give the user rights on the virtual host `{vhost}`"))
            };
            BrokerError::new(
                kind,
                format!("open virtual host `{vhost}` of {} ({shown})", settings.name),
                text,
            )
            .code("530")
            .hint(hint)
        }
        Some(code) => {
            BrokerError::new(ErrorKind::Other, format!("connect to {} ({shown})", settings.name), text)
                .code(code.to_string())
                .hint("the server's log has more on it")
        }
        None => match error.kind() {
            lapin::ErrorKind::IOError(io) => unreachable(settings, io),
            _ => BrokerError::new(
                ErrorKind::Unreachable,
                format!("connect to {} ({shown})", settings.name),
                text,
            )
            .hint(NOBODY),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn start(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
        let mut table = Vec::new();
        for (name, tag, value) in entries {
            table.push(u8::try_from(name.len()).unwrap());
            table.extend(name.as_bytes());
            table.push(*tag);
            table.extend(*value);
        }
        let mut payload = vec![0, 10, 0, 10, 0, 9];
        payload.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
        payload.extend(table);
        payload
    }

    /// Words of rustls 0.23, and what each asks for.
    #[test]
    fn x01_what_to_do_about_a_refused_tls_depends_on_who_refused_and_why() {
        for (text, kind, says) in [
            ("invalid peer certificate: UnknownIssuer", ErrorKind::Denied, "ca_file: PATH"),
            (
                "invalid peer certificate: certificate not valid for name \"mq.example\"; certificate is only \
                 valid for DnsName(\"localhost\")",
                ErrorKind::Denied,
                "has to be a name in the server's certificate",
            ),
            (
                "invalid peer certificate: certificate expired: verification time 2 (UNIX), but certificate is \
                 not valid after 1 (1 seconds ago)",
                ErrorKind::Denied,
                "renew it",
            ),
            ("received fatal alert: CertificateRequired", ErrorKind::Denied, "client_cert_file"),
            ("received fatal alert: UnknownCA", ErrorKind::Denied, "client_cert_file"),
            ("received fatal alert: ProtocolVersion", ErrorKind::Unsupported, "TLS 1.2 and 1.3"),
            ("received corrupt message of type InvalidContentType", ErrorKind::Unsupported, "5671"),
        ] {
            let (told, hint) = about_tls(text).unwrap();
            assert_eq!(told, kind, "{text}");
            assert!(hint.contains(says), "{text}: {hint}");
        }
        assert!(about_tls("Connection refused (os error 111)").is_none());
    }

    #[test]
    fn the_version_stands_in_the_greeting() {
        let text = b"\x00\x00\x00\x063.10.8";
        let capabilities = b"\x00\x00\x00\x04\x01at\x01";
        let payload = start(&[("capabilities", b'F', capabilities), ("version", b'S', text)]);
        assert_eq!(server_version(&payload), Version::parse("3.10.8"));
    }

    #[test]
    fn a_hostile_greeting_never_panics() {
        let whole = start(&[("version", b'S', b"\x00\x00\x00\x063.10.8")]);
        for cut in 0..whole.len() {
            assert_eq!(server_version(&whole[..cut]), None);
        }
        assert_eq!(server_version(&start(&[("version", b'S', b"\xff\xff\xff\xff")])), None);
        assert_eq!(server_version(&start(&[("version", b'?', b"")])), None);
    }
}
