//! The built program in a folder of its own, at a virtual host of its own.

use std::process::{Command, Output};

use super::server::Host;

/// See the file's head.
pub struct Stage {
    pub host: Host,
    pub folder: tempfile::TempDir,
}

impl Stage {
    pub fn of(host: Host, yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("redrive.yaml"), yaml).unwrap();
        Self { host, folder }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("MQ_USER", &self.host.server.user)
            .env("MQ_PASSWORD", &self.host.server.password)
            .env("REDRIVE_LEDGER", self.folder.path().join("ledger.db"));
        command
    }

    pub fn redrive(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.redrive(arguments);
        let all =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {:?}\n{all}", output.status.code());
        all
    }
}

/// A topology with the channel `orders` at this host; `broker` and `channel` are more lines of each.
pub fn topology(url: &str, broker: &str, channel: &str) -> String {
    format!(
        "version: 1\nbrokers:\n  mq:\n    url: \"{url}\"\n    username: \"${{MQ_USER}}\"\n    \
         password: \"${{MQ_PASSWORD}}\"\n{broker}channels:\n  orders:\n    source: orders\n    \
         create_source: true\n    dead_letter: {{name: orders.dlq}}\n{channel}"
    )
}
