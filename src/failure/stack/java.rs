//! Java: `Caused by:` at the line's beginning is a cause; indented ones belong to suppressed errors.

use super::{Link, header};

const CAUSED: &str = "Caused by: ";
/// Logback's root-cause-first layout.
const WRAPPED: &str = "Wrapped by: ";

/// The innermost cause, looked for from the end.
pub(super) fn root(text: &str) -> Option<Link<'_>> {
    let mut end = text.len();
    loop {
        let start = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
        if text[start..].starts_with(WRAPPED) {
            return links(text).into_iter().next_back();
        }
        if let Some(rest) = text[start..].strip_prefix(CAUSED)
            && let Some(link) = link(rest)
        {
            return Some(link);
        }
        if start == 0 {
            return first(text);
        }
        end = start - 1;
    }
}

/// All, the outermost first.
pub(super) fn links(text: &str) -> Vec<Link<'_>> {
    let mut found: Vec<Link<'_>> = first(text).into_iter().collect();
    let mut reversed = false;
    let mut at = after_quoted_message(text);
    while let Some(newline) = text[at..].find('\n') {
        at += newline + 1;
        let line = &text[at..];
        let rest = line.strip_prefix(CAUSED).or_else(|| {
            let rest = line.strip_prefix(WRAPPED);
            reversed |= rest.is_some();
            rest
        });
        if let Some(rest) = rest
            && let Some(link) = link(rest)
        {
            found.push(link);
            at += after_quoted_message(rest);
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
    let frames = &text[head_end..];
    Some(Link { class: Some(class), message: message.map(|m| m.trim_end_matches('\n')), frames: own(frames) })
}

/// Where the frames of the error begin at whose header the text begins: at the first line of a frame.
fn frames_at(text: &str) -> usize {
    let mut at = 0;
    while let Some(newline) = text[at..].find('\n') {
        let next = at + newline + 1;
        let line = &text[next..];
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
    text.len()
}

/// The frames up to the next error, suppressed ones left out.
fn own(frames: &str) -> &str {
    let mut at = 0;
    while let Some(line) = frames.get(at..).filter(|rest| !rest.is_empty()) {
        if !(line.starts_with("\tat ") || line.starts_with("\t... ")) {
            break;
        }
        match line.find('\n') {
            Some(newline) => at += newline + 1,
            None => return frames,
        }
    }
    &frames[..at]
}

/// Spring prints a failed message with all its headers into the error's own message, an older stack trace
/// among them: the header of such an error ends behind its closing bracket, not at the first newline.
fn after_quoted_message(text: &str) -> usize {
    const OPEN: &str = "failedMessage=";
    const CLOSE: &str = "}]";
    let line = &text[..text.find('\n').unwrap_or(text.len())];
    if !line.contains(OPEN) {
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
