//! A broker of a test's own, which may be killed, stopped and started again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::bench::{unique, url};

/// Lives as long as the test; its folder goes with it.
pub struct Server {
    folder: PathBuf,
    said: HashMap<String, String>,
}

impl Server {
    /// `None` where no broker was asked for at all. `kind`: what `scripts/brokers/kafka start` takes.
    pub fn start(kind: &[&str]) -> Option<Self> {
        url()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("kafka"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("scripts/brokers/kafka");
        command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("start").arg(&folder).args(kind);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let said = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Some(Self { folder, said })
    }

    /// What the script said of itself: `URL`, `PROXIED`, `JARS`.
    pub fn said(&self, name: &str) -> &str {
        &self.said[&format!("REDRIVE_TEST_KAFKA_{name}")]
    }

    pub fn url(&self) -> &str {
        self.said("URL")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn signal(&self, signal: Signal) {
        Process { folder: self.folder.clone() }.signal(signal);
    }

    /// Starts it over its data, once the one before is gone.
    pub fn again(&self) {
        Process { folder: self.folder.clone() }.again(self.url().rsplit(':').next().unwrap());
    }

    /// One of three nodes, counted from 1, and its port.
    pub fn node(&self, number: usize) -> (Process, &str) {
        let process = Process { folder: self.folder.join(number.to_string()) };
        let servers = self.url().trim_start_matches("kafka://");
        (process, servers.split(',').nth(number - 1).unwrap().rsplit(':').next().unwrap())
    }
}

/// A broker's process: what it was started from, and its pid.
pub struct Process {
    folder: PathBuf,
}

impl Process {
    fn pid(&self) -> i32 {
        std::fs::read_to_string(self.folder.join("pid")).unwrap().trim().parse().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Starts it over its data, once the one before is gone.
    pub fn again(&self, port: &str) {
        while Path::new(&format!("/proc/{}", self.pid())).exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(Command::new(self.folder.join("run")).status().unwrap().success());
        let mut await_it = Command::new("scripts/brokers/await");
        await_it.current_dir(env!("CARGO_MANIFEST_DIR")).args([port, "90", &self.pid().to_string()]);
        assert!(await_it.status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = Command::new("scripts/brokers/kafka");
        stop.current_dir(env!("CARGO_MANIFEST_DIR")).arg("stop").arg(&self.folder);
        let stopped = stop.status();
        let _ = std::fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            assert!(stopped.unwrap().success());
        }
    }
}
