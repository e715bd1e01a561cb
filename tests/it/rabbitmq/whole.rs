//! The built program against the server: `topologies/payments-rabbitmq.yaml` applied, filled, broken and
//! redriven.

use std::process::{Command, Output};

use lapin::BasicProperties;

use super::server::{Host, Server, arguments, text};

struct Stage {
    host: Host,
    folder: tempfile::TempDir,
}

impl Stage {
    async fn new(server: &Server) -> Self {
        let host = server.host().await;
        let folder = tempfile::tempdir().unwrap();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/topologies/payments-rabbitmq.yaml");
        // The test's server instead of mq.internal, by a path of the same shape, and the source made too.
        let yaml = std::fs::read_to_string(file)
            .unwrap()
            .replace("amqps://mq.internal:5671/payments", &format!("{}/{}", server.url, host.name))
            .replace("    source: payments\n", "    source: payments\n    create_source: true\n")
            .replace(
                "    password: \"${MQ_PASSWORD}\"\n",
                &format!(
                    "    password: \"${{MQ_PASSWORD}}\"\n    options: {{management: \"{}\"}}\n",
                    server.management
                ),
            );
        assert!(yaml.contains(&server.url) && yaml.contains("create_source") && yaml.contains("management"));
        std::fs::write(folder.path().join("redrive.yaml"), yaml).unwrap();
        Self { host, folder }
    }

    fn redrive(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_redrive"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("MQ_USER", &self.host.server.user)
            .env("MQ_PASSWORD", &self.host.server.password)
            .env("REDRIVE_LEDGER", self.folder.path().join("ledger.db"))
            .output()
            .unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.redrive(arguments);
        let all =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {:?}\n{all}", output.status.code());
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_is_applied_filled_broken_and_redriven() {
    let Some(server) = Server::get() else { return };
    let stage = Stage::new(&server).await;
    let applied = stage.done(&["apply", "--yes", "--reason", "test"]);
    assert!(applied.contains("Proof: planned again, nothing left to change."), "{applied}");
    assert_eq!(stage.redrive(&["plan", "--check"]).status.code(), Some(0));
    for n in 0..40 {
        let headers = arguments(&[("account", text(&format!("acc-{}", n % 4)))]);
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(format!("ev-{n}").into())
            .with_headers(headers);
        stage.host.send("payments", format!("{{\"n\": {n}}}").as_bytes(), properties).await;
    }
    stage.host.reject("payments", 40).await;
    stage.host.until("payments.dlq", 40).await;
    let inspected = stage.done(&["inspect", "payments"]);
    assert!(inspected.contains("40 dead letters"), "{inspected}");
    assert!(inspected.contains("held and put back in order"), "{inspected}");
    let run = ["run", "payments", "--limit", "all", "--rate", "500/s", "--reason", "test", "--yes"];
    let ran = stage.done(&run);
    assert!(ran.contains("40 of 40 moved") || ran.contains("moved 40"), "{ran}");
    assert_eq!(stage.host.ready("payments.dlq").await, 0);
    let back = stage.host.drain("payments").await;
    let ids: Vec<String> =
        back.iter().map(|got| got.properties.message_id().clone().unwrap().as_str().to_owned()).collect();
    assert_eq!(ids.len(), 40);
    for group in 0..4 {
        let of: Vec<usize> = ids
            .iter()
            .map(|id| id.trim_start_matches("ev-").parse().unwrap())
            .filter(|n: &usize| n % 4 == group)
            .collect();
        assert!(of.is_sorted(), "group {group}: {of:?}");
    }
    for got in &back {
        assert!(got.header("x-death").is_none() && got.header("redrive-run").is_some());
        assert_eq!(got.properties.delivery_mode(), &Some(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_says_that_none_is_needed_and_that_is_no_failure() {
    let Some(server) = Server::get() else { return };
    let stage = Stage::new(&server).await;
    let said = stage.done(&["relay"]);
    assert!(said.contains("no relay") || said.contains("by itself"), "{said}");
}
