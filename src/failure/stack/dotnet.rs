//! .NET: ` ---> ` opens an inner error; its frames come first, up to `--- End of inner exception`.

use super::{Link, header, some};

const ARROW: &str = " ---> ";

/// All, the outermost first. Of an aggregate's siblings (`(Inner Exception #1)`) the first is followed.
pub(super) fn links(text: &str) -> Vec<Link<'_>> {
    let mut found: Vec<Link<'_>> = Vec::new();
    let frames_at = frames_at(text);
    let mut rest = text[..frames_at].trim_start_matches(['\r', '\n']);
    if rest.starts_with("   at ") || text.starts_with("   at ") {
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

fn frames_at(text: &str) -> usize {
    let marks = ["\n   at ", "\n   --- End of inner"];
    marks.iter().filter_map(|mark| text.find(mark)).min().map_or(text.len(), |at| at + 1)
}
