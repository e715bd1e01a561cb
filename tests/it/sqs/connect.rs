//! Endpoint, region, account, credentials and certificates as AWS users know them: what is used is shown, and what is
//! missing or wrong says what to do next. Nothing but the endpoint is ever called.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::proxy::{Fault, Proxy, Rule};
use super::{Shop, count, endpoint_or_return};

#[test]
fn no_credentials_and_no_right_say_what_to_do_next() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let mut shop = Shop::new(&endpoint, &endpoint, false);
    shop.env.set("AWS_ACCESS_KEY_ID", "").set("AWS_SECRET_ACCESS_KEY", "");
    let home = shop.env.folder().display().to_string();
    shop.env.set("HOME", &home);
    let none = shop.env.run(&["inspect", &shop.channel]).exits(1);
    assert!(none.says("no credentials") && none.says("AWS_PROFILE") && none.says(&endpoint), "{none}");

    for (code, advice) in [
        ("ExpiredToken", "aws sso login"),
        ("InvalidClientTokenId", "AWS_ACCESS_KEY_ID"),
        ("AccessDenied", "docs/sqs.md"),
    ] {
        let proxy =
            Proxy::start(&endpoint, vec![Rule::on("GetQueueUrl", 1, 99, Fault::Refused(403, code))], None);
        let shop = Shop::new(&endpoint, &proxy.endpoint, false);
        let refused = shop.env.run(&["inspect", &shop.channel]).exits(1);
        for said in [code, advice, &proxy.endpoint, "us-east-1"] {
            assert!(refused.says(said), "{code}, {said}: {refused}");
        }
        assert_eq!(proxy.count("GetQueueUrl"), 1, "{code}: nothing to be tried again");
    }
}

/// A bundle that is not there or is none: said, before any call.
#[test]
fn aws_ca_bundle_is_read_and_named_when_it_cannot_be() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(&endpoint, Vec::new(), None);
    let mut shop = Shop::new(&endpoint, &proxy.endpoint, false);
    shop.env.set("AWS_CA_BUNDLE", "no-such.pem");
    let missing = shop.env.run(&["inspect", &shop.channel]).exits(1);
    assert!(missing.says("AWS_CA_BUNDLE") && missing.says("no-such.pem"), "{missing}");
    assert_eq!(proxy.calls().len(), 0);
}

/// An account that is not the one of the queues: its number is named, and where it comes from. ministack keeps accounts
/// apart by the url of a queue; ElasticMQ has one only.
#[test]
fn a_wrong_account_is_named_with_what_to_do_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::new(&endpoint, &endpoint, false);
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    let url = "url: \"sqs://us-east-1\"\n";
    shop.env.topology(&text.replace(url, &format!("{url}    account: \"999999999999\"\n")));
    let wrong = shop.env.run(&["inspect", &shop.channel]).exits(1);
    for said in ["account 999999999999", "us-east-1", &endpoint, "account: and url: of the broker"] {
        assert!(wrong.says(said), "{said}: {wrong}");
    }
    shop.env.topology(&text.replace("us-east-1", "eu-west-3"));
    let region = shop.env.run(&["inspect", &shop.channel]).exits(1);
    assert!(region.says("region eu-west-3") && region.says("aws sts get-caller-identity"), "{region}");
}

/// Queues are made in the account of the credentials whatever is asked for: a plan under another one is refused before
/// anything is made.
#[test]
fn a_wrong_account_makes_no_queues_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let shop = Shop::unmade(&endpoint, &endpoint, false);
    shop.app.create(&format!("{}-other", shop.channel));
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    let url = "url: \"sqs://us-east-1\"\n";
    shop.env.topology(&text.replace(url, &format!("{url}    account: \"999999999999\"\n")));
    for verb in [&["plan"][..], &["apply", "--yes", "--reason", "INC-1"]] {
        let wrong = shop.env.run(verb).exits(1);
        assert!(wrong.says("credentials are of account 000000000000"), "{wrong}");
        assert!(wrong.says("role_arn of 999999999999"), "{wrong}");
    }
    shop.env.topology(&text);
    assert!(shop.env.run(&["plan"]).ok().says("3 to create"));
}

/// What the calls really reach stands above a plan and before a run is allowed, and no login of it.
#[test]
fn endpoint_region_and_account_are_shown_before_a_change_on_ministack() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let mut shop = Shop::unmade(&endpoint, &endpoint, false);
    let there = format!("{endpoint}, us-east-1");
    assert!(shop.env.run(&["plan"]).ok().says(&there));
    let made = shop.env.run(&["apply", "--yes", "--reason", "INC-1"]).ok();
    assert!(made.says(&there), "{made}");
    let whole = format!("{there}, account 000000000000");
    assert!(shop.env.run(&["plan"]).ok().says(&whole));
    shop.bury(2);
    let dry = shop.env.run(&["run", &shop.channel, "--limit", "1", "--dry-run"]).ok();
    assert!(dry.says(&format!("at        {whole}")), "{dry}");
    // Before a relay carries anything.
    let relay = shop.env.run(&["relay", "--once"]).ok();
    assert!(relay.says(&format!("aws is at {whole}.")), "{relay}");
    // And before a resume is allowed.
    let mut stopped = shop.env.command(&shop.line(&["--limit", "all", "--yes"]));
    drop(stopped.env("REDRIVE_FAILPOINT", "begun").output().unwrap());
    let runs = shop.env.line("runs list -o json").ok().json();
    let resume = shop.env.run(&["resume", runs["runs"][0]["run"].as_str().unwrap()]).exits(4);
    assert!(resume.says(&format!("at        {whole}")) && resume.says("nothing was sent"), "{resume}");
    // And programs read it too.
    let id = runs["runs"][0]["run"].as_str().unwrap();
    let resumed = shop.env.run(&["resume", id, "--yes", "-o", "json"]);
    let run: serde_json::Value = serde_json::from_slice(&resumed.bytes).unwrap();
    assert_eq!((run["place"].as_str(), count(&run, "moved")), (Some(&*whole), 2), "{run}");
    shop.bury(1);
    let run = shop.run_by(&["--limit", "all", "--yes", "--moved-before", "--past-dedup-window"]);
    assert_eq!((run["place"].as_str(), count(&run, "moved")), (Some(&*whole), 1), "{run}");
    let relay = shop.env.run(&["relay", "--once", "-o", "json"]).ok().json();
    assert_eq!(relay["places"], serde_json::json!({"aws": whole}), "{relay}");
    // The profile's own endpoint of SQS, as the SDK takes it; what it holds of a login is not shown.
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    let option = format!("options: {{endpoint_url: \"{endpoint}\"}}");
    assert!(text.contains(&option), "{text}");
    shop.env.topology(&text.replace(&option, "options: {profile: there}"));
    let home = shop.env.folder().display().to_string();
    shop.env.set("HOME", &home);
    let login = endpoint.replace("http://", "http://mira:hunter2@");
    shop.env.write(
        ".aws/config",
        format!("[profile there]\nservices = local\n[services local]\nsqs =\n  endpoint_url = {login}\n"),
    );
    let plan = shop.env.run(&["plan"]).ok();
    let masked = endpoint.replace("http://", "http://mira:****@");
    assert!(plan.says(&masked) && !plan.says("hunter2"), "{plan}");
    assert!(plan.says("profile there"), "{plan}");
}

/// Nobody listens: said with the endpoint and where it is named, after the tries that a call has.
#[test]
fn an_endpoint_where_nobody_listens_says_where_it_is_named() {
    // Bound for a moment, so that it is free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let shop = Shop::unmade(&endpoint, &endpoint, false);
    let nobody = shop.env.run(&["inspect", &shop.channel]).exits(1);
    for said in [&endpoint, "us-east-1", "endpoint_url:", "AWS_ENDPOINT_URL_SQS"] {
        assert!(nobody.says(said), "{said}: {nobody}");
    }
}

/// The region is written: an empty one is found before any call, whatever the environment says.
#[test]
fn a_missing_region_says_where_to_write_it() {
    let endpoint = "http://127.0.0.1:9";
    let shop = Shop::unmade(endpoint, endpoint, false);
    let text = std::fs::read_to_string(shop.env.path("redrive.yaml")).unwrap();
    for url in ["sqs://", "sqs:"] {
        shop.env.topology(&text.replace("sqs://us-east-1", url));
        let missing = shop.env.run(&["inspect", &shop.channel]).exits(3);
        assert!(missing.says("RD0212") && missing.says("sqs://eu-west-1"), "{missing}");
    }
    // By a variable the url is known only when it is used.
    shop.env.topology(&text.replace("sqs://us-east-1", "${QUEUES}"));
    let unset = shop.env.run(&["inspect", &shop.channel]).exits(1);
    assert!(unset.says("QUEUES"), "{unset}");
}

/// A profile of the user's files is used as it is elsewhere, and named in errors.
#[test]
fn a_profile_is_used_and_named() {
    let endpoint = endpoint_or_return!(MINISTACK);
    let proxy = Proxy::start(
        &endpoint,
        vec![Rule::on("GetQueueUrl", 1, 1, Fault::Refused(403, "ExpiredToken"))],
        None,
    );
    let mut shop = Shop::new(&endpoint, &proxy.endpoint, false);
    shop.env.set("AWS_ACCESS_KEY_ID", "").set("AWS_SECRET_ACCESS_KEY", "");
    let home = shop.env.folder().display().to_string();
    shop.env.set("HOME", &home).set("AWS_PROFILE", "payments");
    shop.env.write(".aws/credentials", "[payments]\naws_access_key_id = k\naws_secret_access_key = s\n");
    let expired = shop.env.run(&["inspect", &shop.channel]).exits(1);
    assert!(
        expired.says("profile payments") && expired.says("aws sso login --profile payments"),
        "{expired}"
    );
    drop(shop.env.run(&["inspect", &shop.channel]).ok());
}

/// An authority made by the test, a certificate of it for localhost, and something that speaks TLS before an emulator.
struct Tls {
    folder: tempfile::TempDir,
    server: Child,
    endpoint: String,
}

/// Ends TLS and passes on what is inside, a thread per direction.
const TERMINATOR: &str = r#"
import socket, ssl, sys, threading
host, port = sys.argv[1].split(":")
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def serve(raw):
    try:
        inside = context.wrap_socket(raw, server_side=True)
        upstream = socket.create_connection((host, int(port)))
    except OSError:
        return
    threading.Thread(target=pump, args=(inside, upstream), daemon=True).start()
    pump(upstream, inside)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

fn openssl(at: &Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(at).output().unwrap();
    assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Tls {
    fn before(upstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for authority in ["ca", "other"] {
            openssl(
                at,
                &format!(
                    "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {authority}.key -out {authority}.pem -subj /CN=test-{authority}"
                ),
            );
        }
        std::fs::write(at.join("extensions"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
            .unwrap();
        openssl(at, "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost");
        openssl(
            at,
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.pem",
        );
        let mut server = Command::new("python3")
            .args(["-c", TERMINATOR, upstream.trim_start_matches("http://")])
            .current_dir(at)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let endpoint = format!("https://localhost:{}", port.trim());
        Self { folder, server, endpoint }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Behind a proxy with a certificate of its own: refused without the bundle and with another one, in words that say so;
/// with it everything works.
#[test]
fn aws_ca_bundle_is_honoured_on_elasticmq() {
    let endpoint = endpoint_or_return!(ELASTICMQ);
    let tls = Tls::before(&endpoint);
    let mut shop = Shop::new(&endpoint, &tls.endpoint, false);
    shop.bury(3);
    let begun = std::time::Instant::now();
    let untrusted = shop.env.run(&["inspect", &shop.channel]).exits(1);
    for said in ["UnknownIssuer", "AWS_CA_BUNDLE", &tls.endpoint] {
        assert!(untrusted.says(said), "{said}: {untrusted}");
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    let bundle = tls.file("other.pem").display().to_string();
    shop.env.set("AWS_CA_BUNDLE", &bundle);
    let wrong = shop.env.run(&["inspect", &shop.channel]).exits(1);
    assert!(wrong.says("UnknownIssuer") && wrong.says("AWS_CA_BUNDLE"), "{wrong}");
    let bundle = tls.file("ca.pem").display().to_string();
    shop.env.set("AWS_CA_BUNDLE", &bundle);
    let run = shop.run();
    assert_eq!(count(&run, "moved"), 3, "{run}");
    assert_eq!(shop.arrived().0.len(), 3);
    shop.env.write("none.pem", "no certificate at all");
    shop.env.set("AWS_CA_BUNDLE", "none.pem");
    let none = shop.env.run(&["inspect", &shop.channel]).exits(1);
    assert!(none.says("AWS_CA_BUNDLE") && none.says("none.pem"), "{none}");
}
