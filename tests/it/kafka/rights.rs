//! Users with just the rights that docs/kafka.md lists, and users that lack one of them: a broker that asks for
//! logins, certificates and rights.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use super::bench::App;
use super::program::{Shop, assert_once_and_in_order};
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
        if right.contains("TRANSACTIONAL_ID") {
            continue;
        }
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
    assert!(!run.err.contains("may not use transactions"), "{run}");
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

/// What a run needs that may not use transactions, and to look for copies whose answer it did not hear.
fn of_plain(name: &str) -> Vec<String> {
    let mut rights = of_runner(name);
    rights.retain(|right| !right.contains("TRANSACTIONAL_ID"));
    rights.push(format!("Read TOPIC {name}.billing"));
    rights
}

#[test]
fn without_the_right_to_transactions_copies_are_sent_then_marked_and_that_is_said() {
    let Some(server) = Server::start(&["--secure"]) else { return };
    let shop = Shop::through(server.url(), server.url(), "1s");
    let name = shop.name.as_str();
    let mut lines: Vec<String> = of_plain(name).iter().map(|right| format!("plain {right}")).collect();
    lines.extend(of_runner(name).iter().map(|right| format!("trimmer {right}")));
    lines.push(format!("trimmer Delete TOPIC {name}.dlq"));
    grant(&server, &lines);
    let plain = login(&shop, &server, "plain");
    shop.bury(0..60);
    let run = send(&plain, &shop);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.err.contains("may not use transactions"), "said: {run}");
    assert!(run.err.contains("TransactionalId redrive.*"), "which right: {run}");
    assert_once_and_in_order(&shop.app.read(&shop.target()), 60);
    // Marked for everybody.
    let again = send(&plain, &shop);
    assert!(again.says("Nothing") || again.says("nothing"), "{again}");
    let mut count = 60;
    for (step, found) in [("before_send", 0), ("after_send", 20), ("after_commit:2", 20)] {
        shop.bury(count..count + 20);
        let arguments =
            ["run", name, "--limit", "all", "--rate", "unlimited", "--confirm", name, "--order", "none"];
        let arguments: Vec<&str> = arguments.into_iter().chain(["--reason", "INC-1", "-o", "json"]).collect();
        let run = plain.command(&arguments).env("REDRIVE_FAILPOINT", step).output().unwrap();
        assert_eq!(run.status.signal(), Some(9), "{step}: {}", String::from_utf8_lossy(&run.stderr));
        let id = newest_run(&plain);
        let resume = plain.run(&["resume", &id, "--yes", "-o", "json"]);
        assert_eq!(shop.app.read(&shop.target()).len(), count + found, "{step}: nothing twice: {resume}");
        if found == 20 {
            // The copies of this run and number were found in the target: each is surely there.
            assert_eq!(resume.code, Some(0), "{step}: {resume}");
        } else {
            // Not found, and nothing keeps a copy from arriving yet: nobody can say.
            assert_eq!(resume.code, Some(11), "{step}: {resume}");
            assert_eq!(resume.json()["counts"]["in_doubt"].as_u64(), Some(20), "{resume}");
            let resume =
                plain.run(&["resume", &id, "--resend-in-doubt", "--reason", "none is there", "--yes"]);
            assert_eq!(resume.code, Some(0), "{step}: {resume}");
        }
        count += 20;
        assert_eq!(numbers(&shop), (0..count).collect::<Vec<_>>(), "{step}");
    }
    // Whoever may use transactions sees the same marks; and trims with the right to delete.
    shop.bury(count..count + 20);
    let trimmer = login(&shop, &server, "trimmer");
    let run = trimmer
        .run(&["run", name, "--limit", "all", "--rate", "500/s", "--reason", "INC-1", "--yes", "--trim"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.says("trimmed"), "{run}");
    assert!(shop.app.read(&shop.dlq()).is_empty(), "{run}");
    // Without that right the letters are moved, and it is named what was not done.
    shop.bury(count + 20..count + 30);
    let untrimmed = plain
        .run(&["run", name, "--limit", "all", "--rate", "500/s", "--reason", "INC-1", "--yes", "--trim"]);
    assert_eq!(untrimmed.code, Some(0), "{untrimmed}");
    assert!(untrimmed.says("not trimmed") && untrimmed.says("docs/kafka.md"), "{untrimmed}");
    assert_eq!(numbers(&shop), (0..count + 30).collect::<Vec<_>>());
}

#[test]
fn a_run_without_transactions_looks_whether_it_was_taken_over_and_does_not_take_over_what_it_cannot_fence() {
    let Some(server) = Server::start(&["--secure"]) else { return };
    let shop = Shop::through(server.url(), server.url(), "1s");
    let name = shop.name.as_str();
    grant(&server, &of_plain(name).iter().map(|right| format!("plain {right}")).collect::<Vec<_>>());
    shop.bury(0..200);
    let plain = login(&shop, &server, "plain");
    let begin = |env: &TestEnv| {
        let mut command = env.command(&[
            "run", name, "--limit", "all", "--rate", "10/s", "--reason", "INC-1", "--yes", "--order", "none",
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let moved = |count: usize| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while shop.app.read(&shop.target()).len() < count {
            assert!(std::time::Instant::now() < until, "nothing moves");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let first = begin(&plain);
    moved(5);
    let takes = |env: &TestEnv| {
        env.run(&[
            "run",
            name,
            "--limit",
            "all",
            "--rate",
            "500/s",
            "--reason",
            "INC-2",
            "--yes",
            "--take-over",
        ])
    };
    // Another of its kind has no fence either.
    let refused = takes(&login(&shop, &server, "plain"));
    assert_eq!(refused.code, Some(4), "{refused}");
    assert!(refused.says("cannot be fenced"), "{refused}");
    let second = takes(&shop.elsewhere());
    assert!(matches!(second.code, Some(0 | 11)), "{second}");
    let output = first.wait_with_output().unwrap();
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(12), "{words}");
    assert!(words.contains("another run took over"), "{words}");
    assert_eq!(numbers(&shop), (0..200).collect::<Vec<_>>(), "each of them once");
}

fn numbers(shop: &Shop) -> Vec<usize> {
    let mut numbers: Vec<usize> = shop.app.read(&shop.target()).iter().map(super::program::number).collect();
    numbers.sort_unstable();
    numbers
}

fn newest_run(env: &TestEnv) -> String {
    let runs = env.line("runs list -o json").ok().json();
    runs["runs"][0]["id"].as_str().or_else(|| runs["runs"][0]["run"].as_str()).unwrap().to_owned()
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
        assert!(text.contains("\nnext  redrive "), "what to type: {text}");
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
