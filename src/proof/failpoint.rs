//! Named places in engine and relay at which a test may let the process die: `REDRIVE_FAILPOINT=<name>[:<nth>]`.
//! Only in builds with debug assertions; a release has none.

/// Every name of a run, in the order of a batch. Tests go through them.
pub const ALL: &[&str] = &[
    "begun",
    "claimed",
    "before_commit",
    "after_commit",
    "before_send",
    "after_send",
    "before_transfer",
    "after_transfer",
    "recovered",
    "before_release",
    "before_end",
    "after_end",
];

/// A run whose selection is in place, before it is on record.
pub const STARTING: &[&str] = &["frozen"];

/// A run that waits for its rate.
pub const PACED: &[&str] = &["pause"];

/// Every name between two passes of a run.
pub const PASSES: &[&str] = &["pass_before_ledger", "pass_after_ledger", "pass_in_place"];

/// Every name of a relay that moves in one transaction.
pub const RELAY: &[&str] = &["relay_opened", "relay_before_commit", "relay_after_commit", "relay_closing"];

/// Every name of a relay that publishes, then settles.
pub const RELAY_BY_HAND: &[&str] = &[
    "relay_opened",
    "relay_taken",
    "relay_before_send",
    "relay_after_send",
    "relay_after_settle",
    "relay_closing",
];

/// Dies here, without a last word, if it was asked to.
#[inline]
pub(crate) fn hit(name: &'static str) {
    debug_assert!(
        [ALL, STARTING, PACED, PASSES, RELAY, RELAY_BY_HAND].iter().any(|names| names.contains(&name))
    );
    #[cfg(debug_assertions)]
    armed::hit(name);
}

#[cfg(debug_assertions)]
mod armed {
    //! The counting and the dying.

    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ARMED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static HITS: AtomicU64 = AtomicU64::new(0);

    pub(super) fn hit(name: &str) {
        let armed = ARMED.get_or_init(|| {
            let text = std::env::var("REDRIVE_FAILPOINT").ok()?;
            let (name, nth) = text.split_once(':').unwrap_or((&text, "1"));
            Some((name.to_owned(), nth.parse().unwrap_or(1)))
        });
        if let Some((wanted, nth)) = armed
            && wanted == name
            && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *nth
        {
            // SIGKILL, as the kernel or an operator would: no destructor runs.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }
}
