//! From the bytes of a file to a topology or all that is wrong with it, with a source text that may be
//! shown: secrets in it are overwritten before anything is reported.

use std::ops::Range;
use std::path::Path;

use super::outside::Outside;
use super::read::Reader;
use super::{Topology, build, codes, rules, yaml};
use crate::diagnostic::{Diagnostic, Severity};
use crate::redact;

/// What came of reading a file.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Its name, for messages.
    pub file: String,
    /// Its text as it may be shown, each byte where it was.
    pub source: String,
    /// What it declares; `None` if it has errors.
    pub topology: Option<Topology>,
    /// Errors and warnings, in line order.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// How many errors and warnings.
    pub fn counts(&self) -> (usize, usize) {
        let errors = self.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        (errors, self.diagnostics.len() - errors)
    }
}

/// Reads a topology file. References start from its folder.
///
/// # Errors
/// The file cannot be read; problems of its content are diagnostics.
pub fn load_file(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> std::io::Result<Loaded> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // One byte more than allowed, so that `load` can tell.
    std::fs::File::open(path)?.take(yaml::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
    Ok(load(&path.display().to_string(), &bytes, &Outside { variable, base }))
}

/// Reads a topology from bytes; `file` is its name for messages. No network, no broker.
pub fn load(file: &str, bytes: &[u8], outside: &Outside<'_>) -> Loaded {
    let mut loaded = Loaded { file: file.to_owned(), ..Loaded::default() };
    if bytes.len() > yaml::MAX_BYTES {
        loaded.diagnostics.push(
            Diagnostic::error(codes::TOO_BIG, "the file is longer than 1 MiB")
                .help("a topology is a small file: is this the right one?"),
        );
        return loaded;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
            loaded.source = redact::in_place(&good, &[]);
            let line = good.matches('\n').count() + 1;
            loaded.diagnostics.push(
                Diagnostic::error(
                    codes::NOT_TEXT,
                    format!("the file is not UTF-8 text: byte {} on line {line}", error.valid_up_to() + 1),
                )
                .at(good.len()..good.len(), "the first byte that is not text")
                .help("save it as UTF-8"),
            );
            return loaded;
        }
    };
    let mut secrets = redact::url_passwords(text);
    let mut problems: Vec<Diagnostic> = secrets
        .iter()
        .filter(|range| !redact::looks_like_port(&text[Range::clone(range)]))
        .map(|range| password_in_url(text, range))
        .collect();
    let (tree, form) = yaml::tree(text);
    if tree.is_none() && form.is_empty() {
        problems.push(
            Diagnostic::error(codes::EMPTY, "the file is empty")
                .help("a topology begins with version: 1, brokers: and channels:"),
        );
    }
    problems.extend(form);
    let mut topology = None;
    if let Some(tree) = tree {
        let mut reader = Reader::new(outside);
        let fields = reader.file(&tree);
        problems.extend(reader.problems);
        secrets.extend(reader.secret_places);
        topology = fields.map(|fields| build::topology(fields, &mut problems));
    }
    if let Some(topology) = &topology {
        problems.extend(rules::check(topology));
    }
    loaded.source = redact::in_place(text, &secrets);
    loaded.diagnostics = in_order(problems);
    if loaded.counts().0 == 0 {
        loaded.topology = topology;
    }
    loaded
}

fn password_in_url(text: &str, range: &Range<usize>) -> Diagnostic {
    let start = text[..range.start].rfind("//").map_or(range.start, |at| at + 2);
    let before = text[..start].rsplit('\n').next().unwrap_or_default();
    // The key that the url is the value of; an endpoint of AWS has no login of its own.
    let key = before.rsplit([',', '{']).next().unwrap_or_default();
    let help = match key.contains("endpoint_url") {
        true => {
            "take it out: credentials come from the environment or a profile; and change the password: it is in this \
                 file's history"
        }
        false => {
            "write username: and password: \"${VARIABLE}\" beside url:, and change the password: it is in this \
                  file's history"
        }
    };
    Diagnostic::error(codes::URL_CREDENTIAL, "a url holds a password")
        .at(start..range.end, "not shown")
        .help(help)
}

/// In line order; of equal places the error first; the same problem once.
fn in_order(mut problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    problems.sort_by_key(|problem| (problem.start(), problem.severity));
    let mut once: Vec<Diagnostic> = Vec::new();
    for problem in problems {
        if !once.contains(&problem) {
            once.push(problem);
        }
    }
    once
}
