//! Python: blocks joined by a sentence, the innermost FIRST; in a block the error stands behind its frames.

use super::{Link, MOST_LINKS, is_class, some};

const JOINS: [&str; 2] = [
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
];

/// All, the outermost first.
pub(super) fn links(text: &str) -> Vec<Link<'_>> {
    let mut found: Vec<Link<'_>> = blocks(text).filter_map(block_link).collect();
    found.reverse();
    found
}

/// The blocks in the text's order: the innermost first. Of very many the middle is left out.
pub(super) fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut joins: Vec<(usize, usize)> = JOINS
        .iter()
        .flat_map(|join| text.match_indices(join).map(|(at, join)| (at, at + join.len())))
        .collect();
    joins.sort_unstable();
    let ends = joins.iter().map(|(at, _)| *at).chain([text.len()]).collect::<Vec<_>>();
    let starts = [0].into_iter().chain(joins.into_iter().map(|(_, after)| after));
    let many = ends.len();
    starts
        .zip(ends)
        .enumerate()
        .filter(move |(index, _)| *index < MOST_LINKS || index + MOST_LINKS > many)
        .map(|(_, (start, end))| &text[start..end])
}

/// The error of one block: the first line behind the frames that is not indented.
fn block_link(block: &str) -> Option<Link<'_>> {
    let frames_start = match block.find("Traceback (most recent call last)") {
        Some(at) => at + block[at..].find('\n')? + 1,
        None => block.find("  File \"")?,
    };
    let mut at = frames_start;
    loop {
        let line = block.get(at..).filter(|rest| !rest.is_empty())?;
        let end = line.find('\n').unwrap_or(line.len());
        let indented = line.starts_with([' ', '\t', '|']) || line[..end].trim().is_empty();
        if !indented {
            break;
        }
        at += end + 1;
    }
    let head = block[at..].trim_end();
    let first = head.lines().next()?;
    let (class, message) = match first.split_once(':') {
        Some((class, _)) if is_class(class) => (class, some(head[class.len() + 1..].trim_start())),
        _ if is_class(first.trim()) => (first.trim(), None),
        _ => return None,
    };
    Some(Link { class: Some(class), message })
}
