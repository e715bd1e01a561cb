//! Tests that need a real server, where there is none: a failure where servers are required
//! (`REDRIVE_TEST_REQUIRE=1`, or a CI), else said in a way that nobody overlooks. A test that was not run looks
//! like one that passed; so what is said goes past the harness, which keeps to itself what passing tests print.

#[cfg(any(feature = "kafka", feature = "rabbitmq", feature = "sqs"))]
pub use with_servers::missing;

#[cfg(any(feature = "kafka", feature = "rabbitmq", feature = "sqs"))]
mod with_servers {
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::sync::Mutex;

    /// Variables that were not set, and how many tests wanted them.
    static MISSING: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

    fn say(line: &str) {
        // In one piece, and not by a macro that the harness listens to.
        let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
    }

    /// Called by a test that returns at once since `variable` does not name a server.
    pub fn missing(variable: &str, start: &str) {
        let set = |name: &str, to: &str| std::env::var(name).is_ok_and(|value| value == to);
        let required = set("REDRIVE_TEST_REQUIRE", "1") || set("CI", "true");
        assert!(!required, "{variable} is not set: `{start}` starts a server and says its address");
        let mut missing = MISSING.lock().unwrap();
        let count = missing.entry(variable.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            say(&format!("NOT RUN, though reported as ok: tests that need {variable} (`{start}`)."));
        }
    }

    /// The last test by name, and so the last that is begun.
    pub(super) fn sum_up() {
        let missing = MISSING.lock().unwrap();
        let total: u32 = missing.values().sum();
        if total > 0 {
            let each: Vec<String> = missing.iter().map(|(name, n)| format!("{n} without {name}")).collect();
            say(&format!(
                "NOT RUN, though reported as ok: {total} tests ({}). `scripts/test` runs all.",
                each.join(", ")
            ));
        }
    }
}

/// See the file's head.
#[cfg(any(feature = "kafka", feature = "rabbitmq", feature = "sqs"))]
#[test]
fn what_was_not_run() {
    with_servers::sum_up();
}
