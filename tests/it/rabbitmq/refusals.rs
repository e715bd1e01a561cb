//! What a person reads when the server is not there, refuses, or lacks something; and least rights per verb.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use redrive::broker::{Broker, BrokerError, ErrorKind};
use redrive::topology::{At, BrokerDecl, Secret};

use super::program::{Stage, topology};
use super::relocate::{numbered, send_all, task};
use super::server::{Host, Server, channel, fresh, look, open};

pub const CANARY: &str = "S3cr3t-Canary";

fn shown(error: &BrokerError) -> String {
    let text = format!("{error} {error:?} {:?}", error.hint);
    assert!(!text.contains(CANARY), "{text}");
    text
}

async fn refused(decl: &BrokerDecl) -> (ErrorKind, String) {
    let error = open(decl).await.err().unwrap();
    assert!(error.hint.is_some(), "what to do next: {error:?}");
    (error.kind, shown(&error))
}

fn secret(value: &str, source: &str) -> Option<At<Secret>> {
    Some(At::nowhere(Secret::new(value, source)))
}

#[tokio::test(flavor = "multi_thread")]
async fn x01_a_server_that_is_not_there_or_no_rabbitmq() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let password = secret(CANARY, "${MQ_PASSWORD}");
    let nobody = BrokerDecl {
        url: At::nowhere("amqp://127.0.0.1:1/prod".to_owned()),
        password: password.clone(),
        ..host.decl(false)
    };
    let (kind, text) = refused(&nobody).await;
    assert_eq!(kind, ErrorKind::Unreachable);
    assert!(text.contains("127.0.0.1:1"), "{text}");
    // The management port answers, but not in AMQP.
    let port = server.management.rsplit_once(':').unwrap().1;
    let url = At::nowhere(format!("amqp://127.0.0.1:{port}/prod"));
    let (kind, text) = refused(&BrokerDecl { url, password: password.clone(), ..host.decl(false) }).await;
    assert_eq!(kind, ErrorKind::Unsupported, "{text}");
    // TLS on a port that does not speak it.
    let url = At::nowhere(server.url.replace("amqp://", "amqps://"));
    let (kind, text) = refused(&BrokerDecl { url, password, ..host.decl(false) }).await;
    assert!(matches!(kind, ErrorKind::Unsupported | ErrorKind::Unreachable), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x01_x04_a_wrong_password_and_a_virtual_host_that_is_not_there() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    let decl = BrokerDecl { password: secret(CANARY, "${MQ_PASSWORD}"), ..host.decl(false) };
    let (kind, text) = refused(&decl).await;
    assert_eq!(kind, ErrorKind::Denied);
    assert!(text.contains("${MQ_PASSWORD}") && text.contains(&server.user), "{text}");
    let url = At::nowhere(format!("{}/pay%2Fment", server.url));
    let (kind, text) = refused(&BrokerDecl { url, ..host.decl(false) }).await;
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("pay/ment") && text.contains("%2F"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x04_a_virtual_host_with_a_slash_is_reached() {
    let Some(server) = Server::get() else { return };
    let name = format!("a/{}", fresh());
    let path = name.replace('/', "%2F");
    assert_eq!(server.api("PUT", &format!("vhosts/{path}"), "{}").0, 201);
    let host = server.host().await;
    let decl = BrokerDecl { url: At::nowhere(format!("{}/{path}", server.url)), ..host.decl(true) };
    let broker = open(&decl).await.unwrap();
    for change in
        redrive::plan::diff(&broker.desired(&[&channel()]), &broker.observe(&[&channel()]).await.unwrap())
    {
        if matches!(change, redrive::plan::Change::Create { .. }) {
            broker.make(&change).await.unwrap();
        }
    }
    assert!(broker.depths(&channel()).await.unwrap().dead_letter.exists);
    server.api("DELETE", &format!("vhosts/{path}"), "");
}

/// A user with just these rights, in a virtual host with both queues.
pub async fn user(host: &Host, configure: &str, write: &str, read: &str, tags: &str) -> BrokerDecl {
    let name = format!("u-{}", fresh());
    let body = format!(r#"{{"password":"{CANARY}","tags":"{tags}"}}"#);
    assert_eq!(host.server.api("PUT", &format!("users/{name}"), &body).0, 201);
    let rights = format!(r#"{{"configure":"{configure}","write":"{write}","read":"{read}"}}"#);
    host.server.api("PUT", &format!("permissions/{}/{name}", host.name), &rights);
    BrokerDecl {
        username: secret(&name, "${MQ_USER}"),
        password: secret(CANARY, "${MQ_PASSWORD}"),
        ..host.decl(!tags.is_empty())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_on_one_queue_is_named() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["a".to_owned()]).await;
    let decl = user(&host, "^$", "^$", "^orders$", "").await;
    let broker = open(&decl).await.unwrap();
    let error = broker.snapshot(&channel(), Default::default()).await.err();
    let error = match error {
        Some(error) => error,
        None => {
            let mut pages = broker.snapshot(&channel(), Default::default()).await.unwrap();
            pages.next().await.unwrap_err()
        }
    };
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(shown(&error).contains("orders.dlq"));
}

/// The rights that docs/rabbitmq.md lists, verb by verb: with just these it works.
#[tokio::test(flavor = "multi_thread")]
async fn least_rights_are_enough_for_each_verb() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["a", "b"].map(str::to_owned)).await;
    // inspect, show, select: read on the dead-letter queue.
    let reader = open(&user(&host, "^$", "^$", "^orders\\\\.dlq$", "").await).await.unwrap();
    let (letters, _) = look(&*reader, &channel()).await.unwrap();
    assert_eq!(letters.len(), 2);
    // status, alert: a login to the virtual host; a passive declare asks for no right.
    let counter = open(&user(&host, "^$", "^$", "^$", "").await).await.unwrap();
    assert_eq!(counter.depths(&channel()).await.unwrap().dead_letter.count.number(), 2);
    // run: read on the dead-letter queue, write on the default exchange, configure on the lock.
    let runner = user(&host, "^redrive\\\\.lock\\\\.", "^(amq\\\\.default|)$", "^orders\\\\.dlq$", "").await;
    let runner = open(&runner).await.unwrap();
    let (letters, _) = look(&*runner, &channel()).await.unwrap();
    let answers = send_all(&*runner, "r1", &numbered(&letters)[..1]).await;
    assert!(answers[&1].is_ok(), "{answers:?}");
    // Who asks before it begins is told who holds the queue, without any right and without disturbing anybody.
    assert!(counter.is_free(&channel(), false).await.is_ok());
    let holding = runner.begin(&channel(), &task("r9")).await.unwrap();
    let held = counter.is_free(&channel(), false).await.unwrap_err();
    assert_eq!(held.kind, ErrorKind::Locked);
    assert!(held.message.starts_with("orders.dlq is held by "), "{held}");
    holding.end().await.unwrap();
    assert!(counter.is_free(&channel(), false).await.is_ok());
    // run without the right to lock: it works, and says so.
    let unlocked = user(&host, "^$", "^(amq\\\\.default|)$", "^orders\\\\.dlq$", "").await;
    let mover = open(&unlocked).await.unwrap().begin(&channel(), &task("r2")).await.unwrap();
    assert!(mover.notes()[0].starts_with("no lock on orders.dlq"), "{:?}", mover.notes());
    mover.end().await.unwrap();
    // plan and apply with the management API: policymaker, and configure on the queues.
    let maker = user(&host, "^orders", "^orders", "^orders", "policymaker").await;
    let maker: Box<dyn Broker> = open(&maker).await.unwrap();
    let observed = maker.observe(&[&channel()]).await.unwrap();
    for change in redrive::plan::diff(&maker.desired(&[&channel()]), &observed) {
        maker.make(&maker.judge(change).await.unwrap()).await.unwrap();
    }
    assert!(maker.depths(&channel()).await.unwrap().tiers[0].exists);
}

/// Each at the built program: exit code 1, what happened, where, and what to do next; no password.
#[tokio::test(flavor = "multi_thread")]
async fn x01_the_program_says_what_to_do_about_a_server_that_refuses() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("quorum").await;
    host.fill("orders.dlq", ["a".to_owned()]).await;
    let narrow = user(&host, "^$", "^$", "^orders$", "").await;
    let narrow = narrow.username.unwrap().value.expose().unwrap().to_owned();
    let here = format!("{}/{}", server.url, host.name);
    let port = server.management.rsplit_once(':').unwrap().1.to_owned();
    let management = format!("    options: {{management: \"{}\"}}\n", server.management);
    let wrong_management = "    options: {management: \"http://127.0.0.1:1\"}\n";
    let guest = server.user.clone();
    let stage = Stage::of(host, "");
    let password = server.password.as_str();
    let cases: [(&str, &str, &str, &str, &[&str]); 8] = [
        ("amqp://127.0.0.1:1/prod", "", &guest, CANARY, &["127.0.0.1:1", "check host and port"]),
        (
            &format!("amqp://127.0.0.1:{port}/x"),
            "",
            &guest,
            CANARY,
            &["does not answer as a RabbitMQ server", "5672"],
        ),
        (&server.url.replace("amqp://", "amqps://"), "", &guest, CANARY, &["TLS was refused", "5671"]),
        (&here, "", &guest, CANARY, &["log in to mq", "${MQ_PASSWORD}"]),
        (&format!("{}/no%2Fsuch", server.url), "", &guest, password, &["no/such", "%2F"]),
        (&format!("{}/%2F", server.url), "", &narrow, CANARY, &["give the user rights on the virtual host"]),
        (&here, "", &narrow, CANARY, &["orders.dlq", "rights"]),
        (
            &here,
            wrong_management,
            &guest,
            password,
            &["management API", "check `options: {management: URL}`"],
        ),
    ];
    for (url, options, name, secret, says) in cases {
        std::fs::write(stage.folder.path().join("redrive.yaml"), topology(url, options, "")).unwrap();
        let inspect = stage
            .command(&["inspect", "orders"])
            .env("MQ_USER", name)
            .env("MQ_PASSWORD", secret)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&inspect.stderr).into_owned();
        assert_eq!(inspect.status.code(), Some(1), "{url}: {text}");
        assert!(inspect.stdout.is_empty(), "{url}");
        for said in says {
            assert!(text.contains(said), "{url}: {said}: {text}");
        }
        assert!(!text.contains(CANARY), "{text}");
    }
    // With the right login and the management API it works.
    std::fs::write(stage.folder.path().join("redrive.yaml"), topology(&here, &management, "")).unwrap();
    assert!(stage.done(&["inspect", "orders"]).contains("1 dead letter"));
}

/// Nothing can be taken out of a stream: said by `check`, and by a run before anything is sent.
#[tokio::test(flavor = "multi_thread")]
async fn r06_a_run_on_a_stream_is_refused_with_the_way_round() {
    let Some(server) = Server::get() else { return };
    let host = server.host().await;
    host.pair("stream").await;
    host.fill("orders.dlq", ["a".to_owned()]).await;
    let url = format!("{}/{}", server.url, host.name);
    let stage = Stage::of(host, &topology(&url, "", "    rabbitmq: {queue_type: stream}\n"));
    let checked = stage.done(&["check"]);
    assert!(checked.contains("RD0225"), "{checked}");
    let run = ["run", "orders", "--limit", "all", "--reason", "test", "--yes"];
    let output = stage.redrive(&run);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("nothing can be taken out of a stream"), "{text}");
    assert!(text.contains("docs/rabbitmq.md"), "{text}");
    assert_eq!(stage.host.ready("orders").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_own_authority_client_certificate_and_external_login() {
    let Some(server) = Server::get() else { return };
    let Some(tls) = Tls::start() else { return };
    let host = server.host().await;
    let option =
        |name: &str, value: &str| (At::nowhere(name.to_owned()), At::nowhere(Secret::new(value, "")));
    let plain = BrokerDecl {
        url: At::nowhere(tls.url.clone()),
        username: secret("guest", ""),
        password: secret("guest", ""),
        ..host.decl(false)
    };
    // The system does not know this authority.
    let (kind, text) = refused(&plain).await;
    assert_eq!(kind, ErrorKind::Denied, "{text}");
    assert!(text.contains("ca_file"), "{text}");
    let ca = option("ca_file", &tls.file("ca.pem"));
    let known = BrokerDecl { options: vec![ca.clone()], ..plain.clone() };
    open(&known).await.unwrap();
    // The same at the built program.
    let host = tls.server.host().await;
    let url = format!("{}/{}", tls.url, host.name);
    let stage = Stage::of(host, "");
    let status = |options: &str| {
        let yaml = topology(&url, options, "");
        let yaml = match options.contains("external") {
            // Nobody logs in by name.
            true => yaml.replace("    username: \"${MQ_USER}\"\n    password: \"${MQ_PASSWORD}\"\n", ""),
            false => yaml,
        };
        std::fs::write(stage.folder.path().join("redrive.yaml"), yaml).unwrap();
        let output = stage.redrive(&["status"]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = status("");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("TLS was refused") && text.contains("ca_file: PATH"), "{text}");
    let authority = format!("    options: {{ca_file: \"{}\"}}\n", tls.file("ca.pem"));
    let (code, text) = status(&authority);
    assert_eq!(code, Some(0), "{text}");
    let certificate = format!(
        "    options: {{ca_file: \"{}\", client_cert_file: \"{}\", client_key_file: \"{}\", auth: external}}\n",
        tls.file("ca.pem"),
        tls.file("client.pem"),
        tls.file("client.key")
    );
    let (code, text) = status(&certificate);
    assert_eq!(code, Some(0), "{text}");
    // A certificate that names nobody is no login.
    let (code, text) = status(&certificate.replace("client.", "server."));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("log in to mq"), "{text}");
    let external = BrokerDecl {
        username: None,
        password: None,
        options: vec![
            ca,
            option("client_cert_file", &tls.file("client.pem")),
            option("client_key_file", &tls.file("client.key")),
            option("auth", "external"),
        ],
        ..plain
    };
    open(&external).await.unwrap();
}

/// A server of its own that speaks TLS, under certificates made here.
struct Tls {
    folder: tempfile::TempDir,
    url: String,
    server: Server,
}

impl Tls {
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("tls");
        std::fs::create_dir(&at).unwrap();
        let openssl = |arguments: &[&str]| {
            let done =
                std::process::Command::new("openssl").args(arguments).current_dir(&at).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        let begun = Instant::now();
        let subject = "/CN=redrive test authority";
        openssl(&[
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days",
            "2", "-subj", subject,
        ]);
        for (name, subject) in [("server", "/CN=localhost"), ("client", "/CN=guest")] {
            let (key, request, certificate) =
                (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
            std::fs::write(at.join("extensions"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
            openssl(&[
                "req", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-out", &request, "-subj", subject,
            ]);
            openssl(&[
                "x509",
                "-req",
                "-in",
                &request,
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-out",
                &certificate,
                "-days",
                "2",
                "-extfile",
                "extensions",
            ]);
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
        let variables = super::own::start(folder.path());
        let url =
            variables.iter().find(|(name, _)| name == "REDRIVE_TEST_RABBITMQ_TLS_URL").unwrap().1.clone();
        Some(Self { url, server: super::own::server(&variables), folder })
    }

    fn file(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join("tls").join(name);
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        super::own::stop(self.folder.path());
    }
}
