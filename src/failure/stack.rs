//! Stack traces as text: which errors hide in one another, and where the application's own code was.
//!
//! Nothing is parsed as an object, nothing is matched by a regular expression over the whole text: lines are
//! looked at from the end that is needed, so that a 2 KiB trace costs well under a microsecond. A text that
//! is no stack trace gives no links, never a guess.

mod dotnet;
mod frames;
mod java;
mod lines;
mod python;
mod scripts;

pub use frames::{Frame, own_frame};

/// Most links of a chain; what is deeper is cut in the middle, never the outermost or the innermost.
pub const MOST_LINKS: usize = 32;
/// What is looked at of a trace, from its end and its beginning: more than any framework writes whole.
const MOST_TEXT: usize = 256 << 10;

/// One error of a chain of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// Its class as written, `None` in languages whose errors have none (Go, Rust).
    pub class: Option<&'a str>,
    /// Its message; `None` if there is none. May have several lines.
    pub message: Option<&'a str>,
}

/// Who writes traces like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Java, Kotlin, Scala.
    Java,
    /// Python, chained.
    Python,
    /// C#, F#.
    DotNet,
    /// Go panics.
    Go,
    /// JavaScript.
    JavaScript,
    /// PHP.
    Php,
    /// Ruby.
    Ruby,
    /// Rust panics and error reports.
    Rust,
}

/// The language of a trace, by the look of its frames; `None`: it is no trace.
pub fn language(text: &str) -> Option<Language> {
    let text = bounded(text);
    // Java first: it is the most frequent, and its mark is found after the first line.
    if text.contains("\n\tat ") || text.starts_with("\tat ") || text.contains("\n\t... ") {
        return Some(Language::Java);
    }
    if text.contains("Traceback (most recent call last)") || text.contains("\n  File \"") {
        return Some(Language::Python);
    }
    if text.contains("\n   at ") || text.starts_with("   at ") || text.contains("\n ---> ") {
        return Some(Language::DotNet);
    }
    if text.contains("goroutine ") && (text.contains(" [running]") || text.contains(".go:")) {
        return Some(Language::Go);
    }
    if text.contains("\n    at ") || text.starts_with("    at ") {
        return Some(Language::JavaScript);
    }
    if text.contains("\n#0 ") || text.starts_with("#0 ") {
        return Some(Language::Php);
    }
    if text.contains(":in `") || text.contains(":in '") {
        return Some(Language::Ruby);
    }
    if text.contains("stack backtrace:") || text.contains(" panicked at ") || text.contains("\nCaused by:\n")
    {
        return Some(Language::Rust);
    }
    if dotnet::is_trace(text) {
        return Some(Language::DotNet);
    }
    if text.contains("\nCaused by: ") {
        return Some(Language::Java);
    }
    None
}

/// The innermost cause: what really went wrong, behind all wrappers.
pub fn root(text: &str) -> Option<Link<'_>> {
    root_in(language(text)?, text)
}

/// The same where the writer's language is known, so that an error without any frame is read too.
pub fn root_in(language: Language, text: &str) -> Option<Link<'_>> {
    let text = bounded(text);
    match language {
        Language::Java => java::root(text),
        Language::Python => python::links(text).into_iter().next_back(),
        Language::DotNet => dotnet::links(text).into_iter().next_back(),
        other => scripts::links(other, text).into_iter().next_back(),
    }
}

/// All errors of the chain, the outermost first: what the framework caught, down to what really went wrong.
pub fn chain(text: &str) -> Vec<Link<'_>> {
    language(text).map(|language| chain_in(language, text)).unwrap_or_default()
}

/// The same where the writer's language is known.
pub fn chain_in(language: Language, text: &str) -> Vec<Link<'_>> {
    let text = bounded(text);
    let mut links = match language {
        Language::Java => java::links(text),
        Language::Python => python::links(text),
        Language::DotNet => dotnet::links(text),
        other => scripts::links(other, text),
    };
    if links.len() > MOST_LINKS {
        let inner = links.split_off(links.len() - MOST_LINKS / 2);
        links.truncate(MOST_LINKS / 2);
        links.extend(inner);
    }
    links
}

/// What the application threw: the first error of the chain whose class is not one of a framework's own
/// wrappers. If every one is, the innermost.
pub fn behind(text: &str, is_wrapper: impl Fn(&str) -> bool) -> Option<Link<'_>> {
    behind_in(&chain(text), is_wrapper)
}

/// The same of a chain.
pub fn behind_in<'a>(links: &[Link<'a>], is_wrapper: impl Fn(&str) -> bool) -> Option<Link<'a>> {
    // From the inside outwards: the message of a wrapper may quote an older trace, wrappers included.
    let last_wrapper = links.iter().rposition(|link| link.class.is_some_and(&is_wrapper));
    match last_wrapper {
        None => links.first().copied(),
        Some(at) => links.get(at + 1).or(links.last()).copied(),
    }
}

/// A trace without its middle, if it is longer than any that a framework writes whole.
fn bounded(text: &str) -> &str {
    if text.len() <= MOST_TEXT {
        return text;
    }
    let mut start = text.len() - MOST_TEXT;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Does this look like the name of a class: letters, digits, `_`, `$`, with `.`, `\`, `::`, `/` between?
fn is_class(text: &str) -> bool {
    text.len() <= 512
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'\\' || b >= 0x80)
        // No way out in the middle: so it is looked at several bytes at a time.
        && text.bytes().fold(true, |all, b| all & IN_CLASS[usize::from(b)])
        && !text.ends_with(':')
        && !(lines::has(b'/', text) && text.contains("//"))
}

/// The bytes that [`is_class`] lets pass.
const IN_CLASS: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = at >= 0x80 || (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    let marks = b"_$.\\:/`+[],<>-";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

/// `class: message`, `class` alone, split; the message keeps what follows on later lines.
fn header(text: &str) -> Option<(&str, Option<&str>)> {
    header_of(text, lines::end(text, 0))
}

/// The same of a text whose first line ends at `line`.
fn header_of(text: &str, line: usize) -> Option<(&str, Option<&str>)> {
    let first = &text[..line];
    match lines::colon(first).or_else(|| first.ends_with(':').then(|| first.len() - 1)) {
        Some(colon) if is_class(&first[..colon]) => {
            let message = text.get(colon + 2..).unwrap_or_default();
            Some((&first[..colon], some(message)))
        }
        Some(_) => None,
        None => {
            let class = first.trim_end();
            is_class(class).then_some((class, None))
        }
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
