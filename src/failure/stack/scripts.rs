//! Go, JavaScript, PHP, Ruby and Rust.

use super::{Language, Link, header, is_class, some};

/// All, the outermost first.
pub(super) fn links(language: Language, text: &str) -> Vec<Link<'_>> {
    match language {
        Language::Go => go(text).into_iter().collect(),
        Language::JavaScript => javascript(text),
        Language::Php => php(text),
        Language::Ruby => ruby(text),
        Language::Rust => rust(text),
        Language::Java | Language::Python | Language::DotNet => Vec::new(),
    }
}

/// `panic: what`, a blank line, `goroutine 1 [running]:`. Errors have no class.
fn go(text: &str) -> Option<Link<'_>> {
    let frames_at = text.find("goroutine ")?;
    let head = text[..frames_at].trim();
    let message = head.strip_prefix("panic: ").unwrap_or(head);
    let message = message.split("\n[signal ").next().unwrap_or(message);
    let message = message.split(" [recovered").next().unwrap_or(message);
    Some(Link { class: None, message: some(message.trim()) })
}

/// `Class: message`, frames of four blanks; causes as `[cause]: Class: message`, deeper indented.
fn javascript(text: &str) -> Vec<Link<'_>> {
    const CAUSES: [&str; 2] = ["[cause]: ", "\ncaused by: "];
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let next = CAUSES.iter().filter_map(|mark| rest.find(mark).map(|at| (at, at + mark.len()))).min();
        let part = &rest[..next.map_or(rest.len(), |(at, _)| at)];
        let frames_at = ["\n    at ", "\n      at ", "\n        at "]
            .iter()
            .filter_map(|mark| part.find(mark))
            .min()
            .map_or(part.len(), |at| at + 1);
        let head = part[..frames_at].trim().trim_start_matches("Uncaught ");
        if let Some((class, message)) = header(head) {
            found.push(Link { class: Some(class), message });
        }
        match next {
            Some((_, after)) => rest = &rest[after..],
            None => break,
        }
    }
    found
}

/// `Class: message in FILE:LINE`, `Stack trace:`, `#0 …`; outer errors follow behind `Next `.
fn php(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for part in text.split("\n\nNext ").take(super::MOST_LINKS * 2) {
        let frames_at = part.find("\n#0 ").map_or(part.len(), |at| at + 1);
        let frames_at = if part.starts_with("#0 ") { 0 } else { frames_at };
        let head = part[..frames_at].trim_end();
        let head = head.strip_suffix("Stack trace:").unwrap_or(head).trim_end();
        let head = head.strip_prefix("PHP Fatal error:  Uncaught ").unwrap_or(head);
        let head = match head.rfind(" in /").or_else(|| head.rfind(" in \\")) {
            Some(at) => &head[..at],
            None => head,
        };
        if let Some((class, message)) = header(head) {
            found.push(Link { class: Some(class), message });
        }
    }
    found.reverse();
    found
}

/// `file:line:in 'method': message (Class)`, then frames; causes follow in the same form, unindented.
fn ruby(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with(['\t', ' ']) {
            continue;
        }
        let Some(open) = line.rfind(" (").filter(|_| line.trim_end().ends_with(')')) else { continue };
        let class = &line[open + 2..line.trim_end().len() - 1];
        let Some(message_at) = line.find("': ").map(|at| at + 3).filter(|at| *at <= open) else { continue };
        if is_class(class) && found.len() < super::MOST_LINKS * 2 {
            let message = some(&line[message_at..open]);
            found.push(Link { class: Some(class), message });
        }
    }
    found
}

/// `thread 'x' panicked at src/a.rs:1:2:` and the message on the next line; or a report with `Caused by:`.
fn rust(text: &str) -> Vec<Link<'_>> {
    if let Some(at) = text.find(" panicked at ") {
        let rest = &text[at..];
        let after = rest.find('\n').map_or(rest.len(), |newline| newline + 1);
        let end = ["\nstack backtrace:", "\nnote: "]
            .iter()
            .filter_map(|mark| rest[after..].find(mark))
            .min()
            .map_or(rest.len(), |end| after + end);
        // Before Rust 1.73 the message stood in quotes on the same line.
        let message = match rest[..after].split_once('\'').and_then(|(_, tail)| tail.split_once("', ")) {
            Some((message, _)) => message,
            None => rest[after..end].trim(),
        };
        return vec![Link { class: None, message: some(message) }];
    }
    let (head, causes) = text.split_once("\nCaused by:\n").unwrap_or((text, ""));
    let mut found = Vec::new();
    let head = head.trim().trim_start_matches("Error: ");
    if !head.is_empty() {
        found.push(Link { class: None, message: some(head) });
    }
    for line in causes.lines().take_while(|line| line.starts_with("    ")).take(super::MOST_LINKS * 2) {
        let line = line.trim();
        let line = match line.split_once(": ") {
            Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => rest,
            _ => line,
        };
        found.push(Link { class: None, message: some(line) });
    }
    found
}
