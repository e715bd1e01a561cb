//! Watches a program that is measured until it ends: the most memory that it had resident, and whatever else
//! a part wants to know of it.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// How it ended, and the most KiB that it had resident. `look` is called `every` so often with its folder
/// in `/proc`.
pub fn until_end(child: &mut Child, every: Duration, mut look: impl FnMut(&Path)) -> (ExitStatus, u64) {
    let folder = PathBuf::from(format!("/proc/{}", child.id()));
    let mut peak = 0;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status, peak);
        }
        let text = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        let high = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(high.unwrap_or(0));
        look(&folder);
        std::thread::sleep(every);
    }
}
