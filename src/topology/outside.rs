//! What a topology file may ask of its surroundings: environment variables and secret files. `${NAME}`,
//! `${NAME:-default}`, `${file:PATH}`; `$${` is a literal `${`.
//!
//! Values are put in after YAML has been read, and once: what a value holds cannot change the document or
//! be expanded again (Y13).

use std::path::{Path, PathBuf};

/// Most bytes of a secret file.
const MAX_SECRET: u64 = 64 * 1024;

/// The surroundings of a topology file.
pub struct Outside<'a> {
    /// An environment variable by name.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Folder of the topology file: relative paths of `${file:…}` start there.
    pub base: PathBuf,
}

/// A text with its references followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// The text; `None` if a reference could not be followed.
    pub text: Option<String>,
    /// What went wrong or is worth saying.
    pub troubles: Vec<Trouble>,
}

/// Something about a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The variable is not set.
    Unset(String),
    /// The variable is set to nothing.
    Empty(String),
    /// The file cannot be read, and why.
    Unreadable(String, String),
    /// Other users can read the file.
    Readable(String),
    /// Not a reference: `${`, `${a b}`.
    Malformed(String),
}

/// Does the text hold a reference?
pub(super) fn has_reference(text: &str) -> bool {
    text.contains("${")
}

/// Is the text nothing but references, without a default in it? Only so may a secret stand in a file: a
/// default, or text around a reference, would be a part of it written out.
pub(super) fn is_only_references(text: &str) -> bool {
    let mut rest = text;
    while let Some(end) = rest.strip_prefix("${").and_then(|inner| inner.find('}')) {
        let reference = &rest[2..2 + end];
        if reference.split_once(":-").is_some_and(|(_, default)| !default.is_empty()) {
            return false;
        }
        rest = &rest[end + 3..];
    }
    rest.is_empty() && !text.is_empty()
}

/// The references in a text, for messages: without what stands around them and without defaults.
pub(super) fn references(text: &str) -> String {
    let ends = |part: &str| {
        part.split_once('}').map(|(inner, _)| inner.split(":-").next().unwrap_or_default().to_owned())
    };
    let found: Vec<String> =
        text.split("${").skip(1).filter_map(ends).map(|name| format!("${{{name}}}")).collect();
    found.join(", ")
}

/// Follows the references of a text.
pub(super) fn follow(text: &str, outside: &Outside<'_>) -> Followed {
    let mut out = String::new();
    let mut done = Followed::default();
    let mut whole = true;
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            done.troubles.push(Trouble::Malformed(rest[at..].chars().take(40).collect()));
            return done;
        };
        let reference = &rest[at + 2..at + end];
        rest = &rest[at + end + 1..];
        let (value, trouble) = one(reference, outside);
        done.troubles.extend(trouble);
        match value {
            Some(value) => out.push_str(&value),
            None => whole = false,
        }
    }
    out.push_str(rest);
    done.text = whole.then_some(out);
    done
}

fn one(reference: &str, outside: &Outside<'_>) -> (Option<String>, Option<Trouble>) {
    if let Some(path) = reference.strip_prefix("file:") {
        return match read_secret(&outside.base.join(path)) {
            Ok((text, false)) => (Some(text), None),
            Ok((text, true)) => (Some(text), Some(Trouble::Readable(path.to_owned()))),
            Err(why) => (None, Some(Trouble::Unreadable(path.to_owned(), why))),
        };
    }
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let named = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !named {
        return (None, Some(Trouble::Malformed(format!("${{{reference}}}"))));
    }
    match ((outside.variable)(name).filter(|value| !value.is_empty() || default.is_none()), default) {
        (Some(value), _) if value.is_empty() => (None, Some(Trouble::Empty(name.to_owned()))),
        (Some(value), _) => (Some(value), None),
        (None, Some(default)) => (Some(default.to_owned()), None),
        (None, None) => (None, Some(Trouble::Unset(name.to_owned()))),
    }
}

/// A secret file without its last line end, and whether users other than the owner's group can read it.
fn read_secret(path: &Path) -> Result<(String, bool), String> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|error| plain(&error))?;
    let meta = file.metadata().map_err(|error| plain(&error))?;
    if !meta.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_SECRET + 1).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    if bytes.len() as u64 > MAX_SECRET {
        return Err("it is longer than 64 KiB".to_owned());
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok((text, open_to_others(&meta)))
}

#[cfg(unix)]
fn open_to_others(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o004 != 0
}

#[cfg(not(unix))]
fn open_to_others(_meta: &std::fs::Metadata) -> bool {
    false
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "no permission to read it".to_owned(),
        _ => error.to_string(),
    }
}
