//! Finding lines in a trace, many bytes at a time: a look reads a million traces.

use std::sync::LazyLock;

use memchr::{memchr, memchr_iter, memmem, memrchr};

pub(super) const CAUSED: &str = "Caused by: ";
/// Logback's root-cause-first layout.
pub(super) const WRAPPED: &str = "Wrapped by: ";

/// What both marks end with: one search finds either.
const SHARED: &str = "ed by: ";
static SEARCH: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(SHARED));

/// A line that begins with one of the marks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cause {
    /// Where the line begins; never at 0.
    pub(super) start: usize,
    /// What is behind the mark.
    pub(super) rest: usize,
    /// Is it [`WRAPPED`]?
    pub(super) wrapped: bool,
}

/// The lines of causes in a Java trace but for the first line, in the text's order.
pub(super) fn causes(text: &str) -> impl Iterator<Item = Cause> + '_ {
    SEARCH.find_iter(text.as_bytes()).filter_map(|at| {
        let rest = at + SHARED.len();
        [(CAUSED, false), (WRAPPED, true)].into_iter().find_map(|(mark, wrapped)| {
            let start = rest.checked_sub(mark.len()).filter(|start| *start > 0)?;
            let begins = text.as_bytes()[start - 1] == b'\n';
            (begins && text.as_bytes()[start..rest] == *mark.as_bytes()).then_some(Cause {
                start,
                rest,
                wrapped,
            })
        })
    })
}

/// Where the line ends that `from` is in: at its newline, or at the end of the text.
pub(super) fn end(text: &str, from: usize) -> usize {
    memchr(b'\n', &text.as_bytes()[from..]).map_or(text.len(), |at| from + at)
}

/// Where the first colon stands that a blank follows.
pub(super) fn colon(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    memchr_iter(b':', bytes).find(|at| bytes.get(at + 1) == Some(&b' '))
}

/// Is this byte, which is ASCII, in it?
pub(super) fn has(byte: u8, line: &str) -> bool {
    memchr(byte, line.as_bytes()).is_some()
}

/// Where the first opening bracket stands.
pub(super) fn open(line: &str) -> Option<usize> {
    memchr(b'(', line.as_bytes())
}

/// Where this byte, which is ASCII, stands last.
pub(super) fn last(byte: u8, line: &str) -> Option<usize> {
    memrchr(byte, line.as_bytes())
}
