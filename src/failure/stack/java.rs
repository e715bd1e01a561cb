//! Java: `Caused by:` at the line's beginning is a cause; indented ones belong to suppressed errors.

use super::lines::{CAUSED, WRAPPED, causes, end};
use super::{Link, header};

/// The innermost cause, looked for from the end.
pub(super) fn root(text: &str) -> Option<Link<'_>> {
    let found: Vec<_> = causes(text).collect();
    for cause in found.into_iter().rev() {
        if cause.wrapped {
            return links(text).into_iter().next_back();
        }
        if let Some(link) = link(&text[cause.rest..]) {
            return Some(link);
        }
    }
    first(text)
}

/// All, the outermost first.
pub(super) fn links(text: &str) -> Vec<Link<'_>> {
    let mut found: Vec<Link<'_>> = first(text).into_iter().collect();
    let mut reversed = false;
    // What a message quotes is skipped.
    let mut from = after_quoted_message(text);
    for cause in causes(text) {
        // The newline before the line counts, as it may be the first byte behind a quoted message.
        if cause.start <= from {
            continue;
        }
        reversed |= cause.wrapped;
        let rest = &text[cause.rest..];
        if let Some(link) = link(rest) {
            found.push(link);
            from = cause.start + after_quoted_message(rest);
        }
    }
    if reversed {
        found.reverse();
    }
    found
}

/// The outermost error. A trace that begins in the middle of its frames has none.
fn first(text: &str) -> Option<Link<'_>> {
    let text = match text.strip_prefix("Exception in thread \"") {
        Some(rest) => rest.split_once("\" ").map_or(text, |(_, rest)| rest),
        None => text,
    };
    link(text.strip_prefix(CAUSED).unwrap_or(text))
}

/// Reads `class: message` and the frames behind it. A circular reference repeats an outer error: no link.
fn link(text: &str) -> Option<Link<'_>> {
    if text.starts_with("[CIRCULAR REFERENCE") || text.starts_with('\t') {
        return None;
    }
    let quoted = after_quoted_message(text);
    let head_end = quoted + frames_at(&text[quoted..]);
    let (class, message) = header(&text[..head_end])?;
    Some(Link { class: Some(class), message: message.map(|m| m.trim_end_matches('\n')) })
}

/// Where the frames of the error begin at whose header the text begins: at the first line of a frame.
fn frames_at(text: &str) -> usize {
    let mut at = 0;
    loop {
        let next = end(text, at) + 1;
        let Some(line) = text.get(next..) else { return text.len() };
        if line.starts_with("\tat ")
            || line.starts_with("\t... ")
            || line.starts_with("\tSuppressed: ")
            || line.starts_with(CAUSED)
            || line.starts_with(WRAPPED)
        {
            return next;
        }
        at = next;
    }
}

/// Spring prints a failed message with all its headers into the error's own message, an older stack trace
/// among them: the header of such an error ends behind its closing bracket, not at the first newline.
fn after_quoted_message(text: &str) -> usize {
    const OPEN: &str = "failedMessage=";
    const CLOSE: &str = "}]";
    let line = &text[..end(text, 0)];
    // One byte first: few lines of a trace hold it, and a search for text costs more than the line.
    if !line.as_bytes().contains(&b'=') || !line.contains(OPEN) {
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
