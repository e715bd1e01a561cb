//! Who holds a lock, so that a successor on the same machine can see at once that the holder is dead.
//!
//! A process is named by boot, pid namespace, pid and start time: any of them differing says nothing or
//! says dead, never wrongly alive. Where the system does not tell, the lease decides alone.

use std::fs;

/// This process, as a lock row names it; `None` where the system does not tell.
pub fn this_process() -> Option<String> {
    let (boot, namespace) = machine()?;
    let pid = std::process::id();
    Some(format!("{boot} {namespace} {pid} {}", started(pid)?))
}

/// Is the process of a lock row surely dead? Only the same boot and pid namespace can be judged.
pub fn surely_dead(process: &str) -> bool {
    let mut parts = process.split(' ');
    let (Some(boot), Some(namespace), Some(pid), Some(start)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Some((our_boot, our_namespace)) = machine() else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    // Where other people's processes are hidden (`hidepid`), not seeing one says nothing.
    if started(1).is_none() {
        return false;
    }
    boot == our_boot && namespace == our_namespace && started(pid).is_none_or(|now| now != start)
}

fn machine() -> Option<(String, String)> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some((boot.trim().to_owned(), namespace.to_str()?.to_owned()))
}

/// Start time in the kernel's ticks; `None` if there is no such process, or it only waits to be buried.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, spaces and parentheses too.
    let mut after = stat.rsplit_once(") ")?.1.split(' ');
    let state = after.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    after.nth(18).map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_is_not_dead_and_a_reused_pid_is_not_the_same() {
        let Some(me) = this_process() else { return };
        assert!(!surely_dead(&me));
        let mut parts: Vec<&str> = me.split(' ').collect();
        let other = format!("{}0", parts[3]);
        parts[3] = &other;
        assert!(surely_dead(&parts.join(" ")), "same pid, other start");
        parts[0] = "another-boot";
        assert!(!surely_dead(&parts.join(" ")), "another machine cannot be judged");
        assert!(!surely_dead("nonsense"));
    }
}
