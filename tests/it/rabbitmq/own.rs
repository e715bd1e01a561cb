//! Servers that a test starts for itself, because it stops or kills them.

use std::path::Path;
use std::process::Command;

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/brokers/rabbitmq"))
}

/// Of the same version as the server that all other tests share.
fn starting(folder: &Path) -> Command {
    let mut command = script();
    command.arg("start").arg(folder);
    if let Some(version) = std::env::var_os("REDRIVE_TEST_RABBITMQ_VERSION") {
        command.arg("--version").arg(version);
    }
    command
}

/// Starts one on free ports with its data in `folder`; gives the variables that name it.
pub fn start(folder: &Path) -> Vec<(String, String)> {
    let done = starting(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Starts it again on the ports it had.
pub fn start_again(folder: &Path) {
    let port = std::fs::read_to_string(folder.join("port")).unwrap();
    let done = starting(folder).args(["--port", port.trim()]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Ends the server when the test ends, however it ends.
pub struct Guard<'a>(pub &'a Path);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        stop(self.0);
    }
}

/// Ends it.
pub fn stop(folder: &Path) {
    let _ = script().arg("stop").arg(folder).status();
}

/// As a power cut.
pub fn kill(folder: &Path) {
    assert!(script().arg("kill").arg(folder).status().unwrap().success());
}

/// `rabbitmqctl` of it.
pub fn ctl(folder: &Path, arguments: &[&str]) {
    let done = script().arg("ctl").arg(folder).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Waits until the names of new quorum queues are on disk. The server writes them up to 3 s late (names.dets, a
/// cached write): killed before that, it starts with a new and empty queue of the name that never has a leader,
/// and every reader waits for ever.
pub fn names_written(folder: &Path) {
    ctl(folder, &["eval", "[ok = dets:sync(Table) || Table <- dets:all()]."]);
}

/// As the tests know a server.
pub fn server(variables: &[(String, String)]) -> super::server::Server {
    let value = |name: &str| variables.iter().find(|(key, _)| key == name).unwrap().1.clone();
    super::server::Server {
        url: value("REDRIVE_TEST_RABBITMQ_URL"),
        management: value("REDRIVE_TEST_RABBITMQ_MANAGEMENT"),
        user: "guest".to_owned(),
        password: "guest".to_owned(),
    }
}

/// Process id of the server.
pub fn pid(folder: &Path) -> rustix::process::Pid {
    let text = std::fs::read_to_string(folder.join("beam.pid")).unwrap();
    rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}
