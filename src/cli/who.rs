//! Who runs this: user and host, as runs and refusals record them, `mira@ops-2`; and why, as far as that is bounded.

use crate::manifest::HEAD_TEXT_MAX;

/// A reason as it is typed, short enough for every record that it goes into.
///
/// # Errors
/// The bound, in words.
pub fn reason(text: &str) -> Result<String, String> {
    match text.len() <= HEAD_TEXT_MAX {
        true => Ok(text.to_owned()),
        false => Err(format!("a reason has at most {HEAD_TEXT_MAX} bytes, this one has {}", text.len())),
    }
}

/// The user and the host of this process.
pub fn who() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("USER")
        .or_else(|| variable("LOGNAME"))
        .unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    let host = variable("REDRIVE_HOST")
        .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let short = host.split('.').next().unwrap_or_default();
    format!("{}@{}", plain(&user), plain(short))
}

/// Both are only labels: what could act on a terminal or break a column is left out.
fn plain(text: &str) -> String {
    let kept: String =
        text.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(64).collect();
    if kept.is_empty() { "unknown".to_owned() } else { kept }
}
