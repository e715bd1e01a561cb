//! .NET: ` ---> ` opens an inner error; its frames come first, up to `--- End of inner exception`. The word
//! in front of a frame is that of the machine's language.

use super::{Link, header, some};

const ARROW: &str = " ---> ";

/// `at` as .NET's resources have it.
const AT: [&str; 15] =
    ["bei", "à", "en", "in", "em", "bij", "w", "v", "в", "在", "於", "場所", "위치:", "konum:", "vid"];

/// The call in a line that is a frame.
pub(super) fn call(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(call) = line.strip_prefix("at ") {
        return Some(call);
    }
    let (word, call) = line.split_once(' ')?;
    // A sentence may begin so: only a name with a dot and a parenthesis is a call.
    let name = &call[..call.find('(')?];
    (AT.contains(&word) && name.contains('.') && !name.contains(' ')).then_some(call)
}

/// Has the text frames, in another language than English?
pub(super) fn is_trace(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("   ") && !line.starts_with("    ") && call(line).is_some())
}

/// All, the outermost first. Of an aggregate's siblings (`(Inner Exception #1)`) the first is followed.
pub(super) fn links(text: &str) -> Vec<Link<'_>> {
    let mut found: Vec<Link<'_>> = Vec::new();
    let frames_at = frames_at(text);
    let mut rest = text[..frames_at].trim_start_matches(['\r', '\n']);
    if frames_at == 0 || rest.starts_with("   at ") {
        // Only frames: the class stands elsewhere.
        return found;
    }
    for _ in 0..super::MOST_LINKS * 2 {
        let arrow = arrow(rest);
        let head = rest[..arrow.unwrap_or(rest.len())].trim_end();
        let head = match head.strip_prefix("(Inner Exception #") {
            Some(tail) => tail.split_once(") ").map_or(head, |(_, tail)| tail),
            None => head,
        };
        if let Some((class, message)) = header(head) {
            found.push(Link { class: Some(class), message: message.map(str::trim_end).and_then(some) });
        }
        match arrow {
            Some(at) => {
                rest = rest[at..].trim_start_matches(['\r', '\n']);
                rest = rest.strip_prefix(ARROW).unwrap_or(rest);
            }
            None => break,
        }
    }
    found
}

/// The next arrow, on the same line or the next. `head` holds no frames.
fn arrow(head: &str) -> Option<usize> {
    let at = head.find(ARROW)?;
    // Siblings of an aggregate are no deeper cause.
    let sibling = head[at + ARROW.len()..].starts_with("(Inner Exception #")
        && !head[at + ARROW.len()..].starts_with("(Inner Exception #0)");
    (!sibling).then_some(at)
}

/// Where the first line is that is a frame, or ends those of an inner error.
fn frames_at(text: &str) -> usize {
    let is_one = |line: &str| {
        let line = line.split('\n').next().unwrap_or_default();
        line.starts_with("   at ") || line.starts_with("   --- ") || call(line).is_some()
    };
    if text.starts_with("   ") && !text.starts_with("   --- ") && is_one(text) {
        return 0;
    }
    let mut lines = text.match_indices("\n   ").map(|(at, _)| at + 1);
    lines.find(|at| is_one(&text[*at..])).unwrap_or(text.len())
}
