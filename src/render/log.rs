//! Logs (`-v`) and the message of a bug, on stderr: escaped like everything else, and without secrets.

use std::io::{self, Write};

use tracing_subscriber::filter::LevelFilter;

use super::escape::escape;

/// Takes the secrets out of a text.
type Redact = fn(&str) -> String;

/// Sends log records to stderr: `-v` what redrive and its clients do, `-vv` and `-vvv` more of it.
pub fn log_to_stderr(verbosity: u8, redact: Redact) {
    let level = match verbosity {
        0 => return,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // A second subscriber in one process is refused; then the first goes on.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(move || SafeLog(redact))
        .try_init();
}

/// Escapes and redacts what a log record says, line by line.
struct SafeLog(Redact);

impl Write for SafeLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(safe(bytes, self.0).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn safe(bytes: &[u8], redact: Redact) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut safe = String::with_capacity(text.len());
    for line in text.trim_end_matches('\n').split('\n') {
        safe.push_str(&escape(&redact(line)));
        safe.push('\n');
    }
    safe
}

/// Says where the program broke. What the panic said stays out: it may hold a secret or a message (X01).
pub fn report_bug(place: &str) {
    let text = format!(
        "error: a bug in redrive {}, at {}\n  A run can be resumed; nothing is lost. Please report this line.\n",
        env!("CARGO_PKG_VERSION"),
        escape(place)
    );
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn x01_logs_are_redacted_and_escaped() {
        let record = b"DEBUG lapin: dial amqp://ops:S3cr3t-Canary@h:5672/prod\n\x1b[2J\xff\n";
        let shown = safe(record, crate::redact::text);
        assert_eq!(shown, "DEBUG lapin: dial amqp://ops:****@h:5672/prod\n\\u{1b}[2J\u{fffd}\n");
    }
}
