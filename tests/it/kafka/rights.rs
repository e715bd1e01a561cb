//! Users with just the rights that docs/kafka.md lists, and users that lack one of them: a broker that asks for
//! logins, certificates and rights.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::bench::App;
use super::program::Shop;
use super::server::Server;
use crate::cli::{Run, TestEnv};

/// Gives rights, one JVM for all.
fn grant(server: &Server, lines: &[String]) {
    let mut child = Command::new("java")
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &format!("{}/*", server.said("JARS"))])
        .args(["tests/it/kafka/java/Rights.java", server.url().trim_start_matches("kafka://")])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "rights were not given");
}

/// The shop's topology as a user sees it.
fn as_user(shop: &Shop, broker: &str, password: &str) -> TestEnv {
    let mut env = shop.elsewhere();
    let text = std::fs::read_to_string(env.path("redrive.yaml")).unwrap();
    let text: String = text
        .lines()
        .map(|line| match line.trim_start().starts_with("kafka: {url") {
            true => format!("  kafka: {broker}\n"),
            false => format!("{line}\n"),
        })
        .collect();
    env.topology(&text);
    env.set("KAFKA_PASSWORD", password);
    env
}

fn login(shop: &Shop, server: &Server, user: &str) -> TestEnv {
    let broker = format!(
        "{{url: \"kafka://{}\", username: {user}, password: \"${{KAFKA_PASSWORD}}\", \
         options: {{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN}}}}",
        server.said("LOGINS")
    );
    as_user(shop, &broker, &format!("{user}-secret"))
}

/// What `run` needs, each right by itself.
fn of_runner(name: &str) -> Vec<String> {
    [
        "Read TOPIC NAME.dlq",
        "DescribeConfigs TOPIC NAME.dlq",
        "Read TOPIC NAME.dlq.marks",
        "Write TOPIC NAME.dlq.marks",
        "DescribeConfigs TOPIC NAME.dlq.marks",
        "Write TOPIC NAME.billing",
        "DescribeConfigs TOPIC NAME.billing",
        "Read GROUP redrive",
        "Write TRANSACTIONAL_ID redrive.*",
    ]
    .map(|line| line.replace("NAME", name))
    .to_vec()
}

fn send(env: &TestEnv, shop: &Shop) -> Run {
    let name = shop.name.as_str();
    env.run(&["run", name, "--limit", "all", "--rate", "500/s", "--reason", "INC-1", "--yes"])
}

#[test]
fn each_verb_does_with_the_rights_of_the_page_and_names_the_one_that_is_missing() {
    let Some(server) = Server::start(&["--secure"]) else { return };
    let shop = Shop::through(server.url(), server.url(), "1s");
    let made = Shop::through(server.url(), server.url(), "1s");
    let name = shop.name.as_str();
    App::at(server.url()).forget(&made.name);
    let mut lines: Vec<String> = Vec::new();
    let mut give =
        |user: &str, rights: &[String]| lines.extend(rights.iter().map(|right| format!("{user} {right}")));
    let texts = |rights: &[&str]| rights.iter().map(|right| right.replace("NAME", name)).collect::<Vec<_>>();
    let looking = texts(&[
        "Read TOPIC NAME.dlq",
        "DescribeConfigs TOPIC NAME.dlq",
        "Read TOPIC NAME.dlq.marks",
        "Read GROUP redrive",
    ]);
    give("reader", &looking);
    // What `plan` and `status` want beside that.
    give("u11", &looking);
    give(
        "u11",
        &texts(&["Describe TOPIC NAME*", "DescribeConfigs TOPIC NAME*", "Describe CLUSTER kafka-cluster"]),
    );
    give("runner", &of_runner(name));
    give(
        "relayer",
        &texts(&[
            "Read TOPIC NAME.retry-1s",
            "DescribeConfigs TOPIC NAME.retry-1s",
            "Write TOPIC NAME.billing",
            "DescribeConfigs TOPIC NAME.billing",
            "Read GROUP redrive-relay-*",
            "Write TRANSACTIONAL_ID redrive.relay.*",
        ]),
    );
    let provisioning = ["Create", "Alter", "AlterConfigs", "Describe", "DescribeConfigs"];
    give("provisioner", &provisioning.map(|right| format!("{right} TOPIC {}*", made.name)));
    for (n, _) in of_runner(name).iter().enumerate() {
        let but_one: Vec<String> = of_runner(name)
            .into_iter()
            .enumerate()
            .filter(|(at, _)| *at != n)
            .map(|(_, right)| right)
            .collect();
        give(&format!("u{n}"), &but_one);
    }
    grant(&server, &lines);
    shop.bury(0..40);

    let seen = login(&shop, &server, "reader").line(&format!("inspect {name}"));
    assert_eq!(seen.code, Some(0), "{seen}");
    assert!(seen.out.contains("TimeoutException"), "{seen}");
    for verb in [format!("status {name}"), "plan".to_owned()] {
        let told = login(&shop, &server, "u11").line(&verb);
        assert_eq!(told.code, Some(0), "{verb}: {told}");
    }
    let applied = login(&made, &server, "provisioner").line("apply --yes");
    assert_eq!(applied.code, Some(0), "{applied}");

    for (n, right) in of_runner(name).iter().enumerate() {
        let run = send(&login(&shop, &server, &format!("u{n}")), &shop);
        let words = format!("{}{}", run.out, run.err);
        let resource = right.split(' ').nth(2).unwrap().trim_end_matches(".*");
        assert!(matches!(run.code, Some(1 | 12)), "without {right}: {run}");
        assert!(words.to_lowercase().contains("authoriz"), "without {right}: {words}");
        assert!(words.contains(resource), "without {right}: {words}");
        assert!(words.contains("docs/kafka.md"), "without {right}, the way on: {words}");
        assert!(!words.contains("-secret"), "{words}");
        assert_eq!(shop.app.read(&shop.target()).len(), 0, "without {right}");
    }
    let run = send(&login(&shop, &server, "runner"), &shop);
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(shop.app.read(&shop.target()).len(), 40);
    let tier = [super::bench::message("k1", "{\"n\":1}")];
    shop.app.produce(&format!("{name}.retry-1s"), &tier, std::time::Duration::ZERO);
    let relayer = login(&shop, &server, "relayer");
    let mut relay = relayer.command(&["relay", name]);
    let mut relay = relay.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while shop.app.read(&shop.target()).len() < 41 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    relay.kill().unwrap();
    relay.wait().unwrap();
    assert_eq!(shop.app.read(&shop.target()).len(), 41, "the relayer carries");
}

#[test]
fn logins_and_certificates_that_are_wrong_are_told_apart() {
    let Some(server) = Server::start(&["--secure"]) else { return };
    let shop = Shop::through(server.url(), server.url(), "5s");
    shop.bury(0..3);
    let tls = |options: &str, port: &str| {
        as_user(&shop, &format!("{{url: \"kafka://{port}\", options: {{{options}}}}}"), "x")
            .line(&format!("inspect {}", shop.name))
    };
    let ca = |name: &str| {
        format!(
            "security.protocol: SSL, ssl.ca.location: \"{}\"",
            server.folder().join("tls").join(name).display()
        )
    };
    let (with_tls, logins) = (server.said("TLS"), server.said("LOGINS"));
    let right = tls(&ca("ca.pem"), with_tls);
    assert_eq!(right.code, Some(0), "{right}");
    let says = |run: &Run, words: &[&str]| {
        assert_eq!(run.code, Some(1), "{run}");
        let text = format!("{}{}", run.out, run.err);
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("-secret"), "{text}");
    };
    says(&tls(&ca("other.pem"), with_tls), &["certificate verify failed", "ssl.ca.location"]);
    says(&tls("client.id: x", with_tls), &["security.protocol"]);
    says(&tls("client.id: x", logins), &["security.protocol"]);
    let login = |user: &str, mechanism: &str, password: &str| {
        let broker = format!(
            "{{url: \"kafka://{logins}\", username: {user}, password: \"${{KAFKA_PASSWORD}}\", \
             options: {{security.protocol: SASL_PLAINTEXT, sasl.mechanism: {mechanism}}}}}"
        );
        as_user(&shop, &broker, password).line(&format!("inspect {}", shop.name))
    };
    says(&login("reader", "PLAIN", "wrong-secret"), &["username and password", "reader"]);
    says(&login("scram", "SCRAM-SHA-512", "wrong-secret"), &["username and password", "scram"]);
    // The right password gets in, and lacks the rights.
    says(&login("scram", "SCRAM-SHA-512", "scram-secret"), &["authoriz", "scram", "docs/kafka.md"]);
    let missing = as_user(&shop, &format!("{{url: \"{}\"}}", server.url()), "x");
    let text = std::fs::read_to_string(missing.path("redrive.yaml")).unwrap();
    missing.topology(&text.replace(&format!("{}.dlq", shop.name), &format!("{}.dql", shop.name)));
    says(
        &missing.line(&format!("inspect {}", shop.name)),
        &["no topic", &format!("near: {}.dlq", shop.name)],
    );
}
