//! Java: `Caused by:` at the line's beginning is a cause; indented ones belong to suppressed errors.

use super::lines::{CAUSED, WRAPPED, causes, end, has};
use super::{Link, header_of};

/// The innermost cause, looked for from the end.
pub(super) fn root(text: &str) -> Option<Link<'_>> {
    let found: Vec<_> = causes(text).collect();
    for cause in found.into_iter().rev() {
        if cause.wrapped {
            return links(text).into_iter().next_back();
        }
        if let Some(link) = link(&text[cause.rest..]).0 {
            return Some(link);
        }
    }
    first(text).0
}

/// All, the outermost first.
pub(super) fn links(text: &str) -> Vec<Link<'_>> {
    let mut found: Vec<Link<'_>> = Vec::with_capacity(4);
    let (outermost, quoted) = first(text);
    found.extend(outermost);
    let mut reversed = false;
    // What a message quotes is skipped.
    let mut from = quoted;
    for cause in causes(text) {
        // The newline before the line counts, as it may be the first byte behind a quoted message.
        if cause.start <= from {
            continue;
        }
        reversed |= cause.wrapped;
        if let (Some(link), quoted) = link(&text[cause.rest..]) {
            found.push(link);
            from = cause.start + quoted;
        }
    }
    if reversed {
        found.reverse();
    }
    found
}

/// The outermost error, and where what its message quotes ends. A trace that begins in the middle of its frames
/// has none.
fn first(text: &str) -> (Option<Link<'_>>, usize) {
    let whole = text;
    let text = match text.strip_prefix("Exception in thread \"") {
        Some(rest) => rest.split_once("\" ").map_or(text, |(_, rest)| rest),
        None => text,
    };
    let text = text.strip_prefix(CAUSED).unwrap_or(text);
    let (link, quoted) = link(text);
    (link, if quoted == 0 { 0 } else { quoted + (whole.len() - text.len()) })
}

/// Reads `class: message` and the frames behind it, and says where what the message quotes ends. A circular
/// reference repeats an outer error: no link.
fn link(text: &str) -> (Option<Link<'_>>, usize) {
    let line = end(text, 0);
    let quoted = after_quoted_message(text, line);
    if text.starts_with("[CIRCULAR REFERENCE") || text.starts_with('\t') {
        return (None, quoted);
    }
    let head = if quoted == 0 { frames_at(text, line) } else { quoted + frames_at_line(&text[quoted..]) };
    let link = header_of(&text[..head], line.min(head)).map(|(class, message)| Link {
        class: Some(class),
        message: message.map(|m| m.trim_end_matches('\n')),
    });
    (link, quoted)
}

/// Where the frames begin behind the rest of a line.
fn frames_at_line(text: &str) -> usize {
    frames_at(text, end(text, 0))
}

/// Where the frames of the error begin at whose header the text begins, a line that ends at `line`: at the first
/// line of a frame.
fn frames_at(text: &str, line: usize) -> usize {
    let mut next = line + 1;
    loop {
        let Some(line) = text.get(next..) else { return text.len() };
        if line.starts_with("\tat ")
            || line.starts_with("\t... ")
            || line.starts_with("\tSuppressed: ")
            || line.starts_with(CAUSED)
            || line.starts_with(WRAPPED)
        {
            return next;
        }
        next = end(text, next) + 1;
    }
}

/// Spring prints a failed message with all its headers into the error's own message, an older stack trace
/// among them: the header of such an error ends behind its closing bracket, not at the first newline.
fn after_quoted_message(text: &str, line: usize) -> usize {
    const OPEN: &str = "failedMessage=";
    const CLOSE: &str = "}]";
    let line = &text[..line];
    // One byte first: few lines of a trace hold it, and a search for text costs more than the line.
    if !has(b'=', line) || !line.contains(OPEN) {
        return 0;
    }
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        let open = text[at..].find(OPEN);
        let close = text[at..].find(CLOSE);
        match (open, close) {
            (Some(open), Some(close)) if open < close => {
                depth += 1;
                at += open + OPEN.len();
            }
            (_, Some(close)) => {
                at += close + CLOSE.len();
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            (_, None) => return if depth == 0 { at } else { 0 },
        }
    }
}
