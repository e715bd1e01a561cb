//! Where a RabbitMQ server is: host, port, virtual host and user from its url. Pure, so that `check` can say
//! what is wrong with it (X04).

/// Parts of an `amqp://` or `amqps://` url.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// `amqps`?
    pub tls: bool,
    /// Host name or address.
    pub host: String,
    /// 5672, or 5671 for `amqps`, unless written.
    pub port: u16,
    /// Virtual host, decoded; `/` if the url has no path.
    pub vhost: String,
    /// User that stands in the url.
    pub user: Option<String>,
}

impl Address {
    /// Reads a url.
    ///
    /// # Errors
    /// What is wrong with it, in words that hold nothing of a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("it has no `://`")?;
        let tls = match scheme {
            "amqp" => false,
            "amqps" => true,
            _ => return Err(format!("its scheme is {scheme}, not amqp or amqps")),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        if query.is_some_and(|query| !query.is_empty()) {
            return Err("it has parameters behind `?`: write them under `options`".to_owned());
        }
        let (authority, path) =
            rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
        let (login, place) =
            authority.rsplit_once('@').map_or((None, authority), |(login, place)| (Some(login), place));
        let user = match login {
            None => None,
            Some(login) if login.contains(':') => {
                return Err("it holds a password: write `password: ${NAME}` instead".to_owned());
            }
            Some(login) => Some(decode(login).ok_or("its user is not valid percent-encoded text")?),
        };
        let (host, port) = host_and_port(place)?;
        let vhost = match path {
            None => "/".to_owned(),
            Some(path) if path.contains('/') => {
                return Err("its path holds a `/`: in the name of a virtual host write %2F".to_owned());
            }
            Some(path) => decode(path).ok_or("its virtual host is not valid percent-encoded text")?,
        };
        if vhost.len() > 255 {
            return Err("its virtual host is longer than 255 bytes".to_owned());
        }
        Ok(Self { tls, host, port: port.unwrap_or(if tls { 5671 } else { 5672 }), vhost, user })
    }

    /// `amqps://mq.internal:5671`: for people, without user and virtual host.
    pub fn shown(&self) -> String {
        let scheme = if self.tls { "amqps" } else { "amqp" };
        if self.host.contains(':') {
            format!("{scheme}://[{}]:{}", self.host, self.port)
        } else {
            format!("{scheme}://{}:{}", self.host, self.port)
        }
    }
}

fn host_and_port(place: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(inner) = place.strip_prefix('[') {
        let (host, rest) = inner.split_once(']').ok_or("its host has no closing `]`")?;
        (host, rest.strip_prefix(':'))
    } else {
        place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() {
        return Err("it has no host".to_owned());
    }
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte)) {
        return Err("its host holds a character that no host name has".to_owned());
    }
    match port.map(str::parse::<u16>) {
        None => Ok((host.to_owned(), None)),
        Some(Ok(port)) if port > 0 => Ok((host.to_owned(), Some(port))),
        Some(_) => Err("its port is not a number from 1 to 65535".to_owned()),
    }
}

/// Percent-decoding; `None` for a stray `%` or bytes that are not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encoding of everything but letters and digits, for a path of the management API.
#[cfg(feature = "rabbitmq")]
pub(super) fn encode(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn x04_virtual_hosts_and_percent_encoding() {
        let vhost = |url: &str| Address::parse(url).map(|address| address.vhost);
        assert_eq!(vhost("amqp://h").unwrap(), "/");
        assert_eq!(vhost("amqp://h/").unwrap(), "");
        assert_eq!(vhost("amqp://h/%2F").unwrap(), "/");
        assert_eq!(vhost("amqp://h/%2f").unwrap(), "/");
        assert_eq!(vhost("amqp://h/prod").unwrap(), "prod");
        assert_eq!(vhost("amqp://h/%2Fprod").unwrap(), "/prod");
        assert!(vhost("amqp://h//prod").unwrap_err().contains("%2F"));
        assert!(vhost("amqp://h/a%2").is_err());
        assert!(vhost("amqp://h/%ff").is_err());
        assert_eq!(Address::parse("amqp://u%40x@h/p").unwrap().user.as_deref(), Some("u@x"));
    }

    #[test]
    fn ports_and_addresses() {
        let address = Address::parse("amqps://[::1]/v").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.tls), ("::1", 5671, true));
        assert_eq!(address.shown(), "amqps://[::1]:5671");
        assert_eq!(Address::parse("amqp://mq.internal:5673").unwrap().shown(), "amqp://mq.internal:5673");
        for bad in
            ["amqp:/h", "http://h", "amqp://", "amqp://h:0", "amqp://h:99999", "amqp://h h", "amqp://[::1"]
        {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn x01_a_password_in_the_url_is_refused_and_not_shown() {
        let refused = Address::parse("amqp://ops:S3cr3t-Canary@h/prod").unwrap_err();
        assert!(!refused.contains("Canary"));
    }
}
