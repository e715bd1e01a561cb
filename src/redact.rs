//! Takes secrets out of text before anybody sees it: urls, also those that do not parse, and settings whose
//! name says that they are secret (X01, X02, X05).

/// What stands for a secret.
pub const MASK: &str = "****";

/// Does a setting of this name hold a secret: `sasl.password`, `ssl.key.pem`, `AWS_SECRET_ACCESS_KEY`?
///
/// Unknown names that look secret count as secret. Names that only sound like it (`username`, `key`,
/// `keyspace`) do not.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let glued = words.concat();
    let secret_word = words.iter().any(|word| {
        matches!(
            *word,
            "password"
                | "passwd"
                | "passwrod"
                | "pass"
                | "pwd"
                | "secret"
                | "secrets"
                | "token"
                | "tokens"
                | "pem"
                | "jaas"
                | "credential"
                | "credentials"
                | "apikey"
                | "bearer"
                | "authorization"
                | "passphrase"
        )
    });
    secret_word
        || [
            "password",
            "passphrase",
            "secretkey",
            "secretaccesskey",
            "accesstoken",
            "sessiontoken",
            "authtoken",
            "apikey",
            "privatekey",
            "sharedkey",
            "clientsecret",
        ]
        .iter()
        .any(|part| glued.contains(part))
}

/// The value of a setting as it may be shown: masked if its name says that it is secret, with masked parts
/// if it holds some (a url with a password, a JAAS line).
pub fn setting(name: &str, value: &str) -> String {
    if is_secret_name(name) && !name.to_ascii_lowercase().contains("jaas") {
        MASK.to_owned()
    } else {
        text(value)
    }
}

/// Any text with the secrets in it masked: passwords in urls, `password=…` and the like, JAAS lines, bearer
/// tokens. User names, hosts and paths stay.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for range in secrets_in(text) {
        if range.start < from {
            continue;
        }
        out.push_str(&text[from..range.start]);
        out.push_str(MASK);
        from = range.end;
    }
    out.push_str(&text[from..]);
    out
}

/// A url as it may be shown: `amqp://ops:****@host/vhost`. Works on what is no url, too.
pub fn url(url: &str) -> String {
    text(url)
}

/// The same text with each secret overwritten by as many `*` as it had bytes, so that places stay true.
pub fn in_place(text: &str, more: &[std::ops::Range<usize>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for range in secrets_in(text).into_iter().chain(more.iter().cloned()) {
        if text.is_char_boundary(range.start.min(text.len()))
            && text.is_char_boundary(range.end.min(text.len()))
        {
            for byte in bytes.iter_mut().take(range.end).skip(range.start) {
                if *byte != b'\n' && *byte != b'\r' {
                    *byte = b'*';
                }
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where secrets stand in a text, in order, as far as their form shows it.
fn secrets_in(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = url_passwords(text);
    found.extend(assigned(text));
    found.sort_by_key(|range| range.start);
    found
}

/// Passwords between `scheme://user:` and `@`. The last `@` before the address ends counts, so that an
/// unescaped `@`, `/` or `#` in a password does not show its rest; `${…}` is a reference, not a password.
pub fn url_passwords(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(position) = text[at..].find("://") {
        let start = at + position + 3;
        at = start;
        let is_scheme = text[..start - 3].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric());
        if !is_scheme {
            continue;
        }
        let end = text[start..]
            .find(|c: char| {
                c.is_whitespace()
                    || matches!(c, '"' | '\'' | '<' | '>' | '`' | '}') && !closes_reference(&text[start..], c)
            })
            .map_or(text.len(), |offset| start + offset);
        let end = end_of_address(text, start, end);
        // What was looked at is not looked at again: the time stays linear for any text.
        at = end;
        let address = &text[start..end];
        let Some(sign) = address.rfind('@') else { continue };
        let userinfo = &address[..sign];
        let Some(colon) = userinfo.find(':') else { continue };
        let password = &userinfo[colon + 1..];
        if !password.is_empty() && !is_reference(password) {
            found.push(start + colon + 1..start + sign);
        }
    }
    found
}

/// A `}` belongs to the address if a `${` is open before it.
fn closes_reference(rest: &str, character: char) -> bool {
    character == '}' && rest.find("${").is_some_and(|open| rest.find('}').is_none_or(|close| open < close))
}

/// An address ends before a comma that begins another entry of a flow map: `, key:`.
fn end_of_address(text: &str, start: usize, end: usize) -> usize {
    text[start..end].find(", ").map_or(end, |offset| start + offset)
}

/// Is the whole text one `${…}`, without a default that would be a secret written out?
fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.find('}') == Some(text.len() - 1) && !text.contains(":-")
}

/// May the part behind the colon be a port and a path, not a password: `https://host:8443/a@b`?
pub fn looks_like_port(password: &str) -> bool {
    password
        .split_once('/')
        .is_some_and(|(port, _)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Values after a secret-looking name: `password=x`, `secret_key: x`, `Bearer x`.
fn assigned(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    let mut done = 0;
    for (sign, _) in text.match_indices(['=', ':']) {
        // A sign inside a value is part of it; so the time stays linear.
        if sign < done {
            continue;
        }
        let before = text[..sign].trim_end_matches([' ', '"', '\'']);
        let name_start = before
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
            .map_or(0, |i| i + before[i..].chars().next().map_or(1, char::len_utf8));
        let name = &before[name_start..];
        if name.is_empty() || !is_secret_name(name) || text[sign + 1..].starts_with("//") {
            continue;
        }
        if let Some(range) = value_after(text, sign + 1) {
            done = range.end;
            found.push(range);
        }
    }
    for word in ["Bearer ", "bearer "] {
        for (position, _) in text.match_indices(word) {
            if let Some(range) = value_after(text, position + word.len()) {
                found.push(range);
            }
        }
    }
    found
}

/// The value that begins at `from`: a quoted text, else up to a blank, a comma, a semicolon or a bracket; in
/// YAML also the lines below that belong to it.
fn value_after(text: &str, from: usize) -> Option<std::ops::Range<usize>> {
    let rest = &text[from..];
    let start = from + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
    let rest = &text[start..];
    // A block of YAML: `|`, `>-`, and nothing else on the line. Only its first letters are looked at.
    let mark = rest.len() - rest.trim_start_matches(['|', '>', '-', '+']).len();
    let ends = |at: usize| matches!(rest.as_bytes().get(at), None | Some(b'\n' | b'\r'));
    if ends(0) || mark <= 3 && ends(mark) && rest.starts_with(['|', '>']) {
        return lines_below(text, start + mark, mark == 0);
    }
    let (start, end) = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = start + 1;
            (inner, text[inner..].find(quote).map_or(text.len(), |offset| inner + offset))
        }
        _ => {
            let length = rest
                .find(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&' | ')' | ']' | '"' | '\''))
                .unwrap_or(rest.len());
            // The end of a map around it is not part of it.
            (start, start + rest[..length].trim_end_matches('}').len())
        }
    };
    let value = &text[start..end];
    // A map or list of YAML is no value.
    let opens = value.starts_with(['{', '[']) && text[..start].ends_with(": ");
    let nothing = value.is_empty()
        || value.starts_with("${") && !value.contains(":-")
        || value.starts_with(MASK)
        || opens
        || value == "}";
    (!nothing).then_some(start..end)
}

/// The lines below a key that stand further in: the text of a block, or (`plain`) one line that is no map or
/// list.
fn lines_below(text: &str, from: usize, plain: bool) -> Option<std::ops::Range<usize>> {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let key_line = text[..from].rfind('\n').map_or(0, |at| at + 1);
    let key_indent = indent(&text[key_line..from]);
    let mut lines = text[from..].split_inclusive('\n');
    let start = from + lines.next().map_or(0, str::len);
    let mut end = start;
    for line in lines {
        let words = line.trim();
        let inside = words.is_empty() || indent(line) > key_indent;
        let other = plain
            && (words.contains(": ")
                || words.ends_with(':')
                || words.starts_with(['-', '#', '{', '[', '$', '"']));
        if !inside || other {
            break;
        }
        end += line.len();
        if plain {
            break;
        }
    }
    (end > start).then_some(start..end)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    const CANARY: &str = "S3cr3t-Canary";

    #[test]
    fn x01_a_url_keeps_host_vhost_and_user_and_loses_its_password() {
        assert_eq!(url(&format!("amqp://ops:{CANARY}@127.0.0.1:1/prod")), "amqp://ops:****@127.0.0.1:1/prod");
        assert_eq!(
            text(&format!("dial amqps://ops:{CANARY}@h:5671/p: refused")),
            "dial amqps://ops:****@h:5671/p: refused"
        );
        assert_eq!(url("amqp://h:5672/prod"), "amqp://h:5672/prod");
        assert_eq!(url("kafka://k1:9092,k2:9092"), "kafka://k1:9092,k2:9092");
    }

    #[test]
    fn x01_urls_that_do_not_parse_are_redacted_too() {
        for bad in [
            "amqp://ops:{}@",
            "amqp://ops:{}/x@h:99999999/%zz",
            "://amqp://o:{}@[::1",
            "amqp://:{}@h",
            "amqp://a@b:{}#q@h",
            "x amqp://ops:a@{}@h y",
        ] {
            let shown = url(&bad.replace("{}", CANARY));
            assert!(!shown.contains(CANARY), "{shown}");
        }
    }

    #[test]
    fn x02_settings_that_look_secret_are_masked_and_user_names_stay() {
        for name in [
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "AWS_SECRET_ACCESS_KEY",
            "my-token",
            "apiKey",
            "client.secret",
            "ssl_key_passphrase",
            "passwrod",
        ] {
            assert_eq!(setting(name, CANARY), MASK, "{name}");
        }
        for name in ["sasl.username", "username", "key", "ssl.ca.location", "security.protocol", "consumer"] {
            assert_eq!(setting(name, "ops"), "ops", "{name}");
        }
        let jaas = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"ops\" password=\"{CANARY}\";"
        );
        let shown = setting("sasl.jaas.config", &jaas);
        assert!(shown.contains("username=\"ops\"") && !shown.contains(CANARY), "{shown}");
        assert_eq!(
            text(&format!("Authorization: Bearer {CANARY}x").replace("Authorization", "h")),
            "h: Bearer ****"
        );
    }

    #[test]
    fn references_are_not_secrets() {
        for kept in
            ["password: ${MQ_PASSWORD}", "amqp://u:${P}@h/", "{url: \"amqp://h/\", password: \"${P}\"}"]
        {
            assert_eq!(text(kept), kept);
        }
    }

    #[test]
    fn secrets_of_several_lines_are_found_and_maps_are_not() {
        let hidden = |text: &str| in_place(text, &[]);
        for yaml in [
            format!("a:\n  password: |\n    {CANARY}\n    {CANARY}\n  b: 1\n"),
            format!("a:\n  password: >-\n    {CANARY}\nb: 1\n"),
            format!("a:\n  password:\n    {CANARY}\n  b: 1\n"),
        ] {
            let shown = hidden(&yaml);
            assert!(!shown.contains("Canary") && shown.contains("b: 1"), "{shown}");
        }
        for kept in ["tokens: {source: tokens}", "tokens:\n  source: x\n", "password:\n  \"${P}\"\n"] {
            assert_eq!(hidden(kept), kept);
        }
    }

    #[test]
    fn a_port_and_a_path_are_no_password_to_complain_about() {
        assert!(looks_like_port("8443/a") && !looks_like_port("8443") && !looks_like_port("p4/x"));
    }

    #[test]
    fn long_texts_take_linear_time() {
        let started = std::time::Instant::now();
        for piece in ["a://", "password=", "a:", "password: \"", "Bearer ", "a://x:y@", "${", "password:\n  "]
        {
            let _ = in_place(&piece.repeat((1 << 20) / piece.len()), &[]);
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn in_place_keeps_every_byte_where_it_is() {
        let source = format!("a: 1\nb: {{url: \"amqp://u:{CANARY}@h\", é: 2}}\npassword: hünter2\n");
        let shown = in_place(&source, &[]);
        assert_eq!(shown.len(), source.len());
        assert!(!shown.contains(CANARY) && !shown.contains("nter2"), "{shown}");
        assert_eq!(shown.find("@h").unwrap(), source.find("@h").unwrap());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(any in "\\PC*|[a:/@${}\" \n,=password]{0,80}") {
            let _ = text(&any);
            proptest::prop_assert_eq!(in_place(&any, &[]).len(), any.len());
        }
    }
}
