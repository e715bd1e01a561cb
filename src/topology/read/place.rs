//! Places in a letter: `header NAME`, `body /POINTER`, with how the value is written there in brackets; or a
//! map of one key, for names that hold brackets.

use std::ops::Range;

use super::super::keys::{self, Key};
use super::super::yaml::{Node, Value};
use super::super::{At, codes, nearest::nearest, scalars};
use super::{Checked, Reader};
use crate::diagnostic::Diagnostic;

impl Reader<'_> {
    pub(super) fn place(
        &mut self,
        key: &'static Key,
        forms: &'static [&'static str],
        node: &Node,
    ) -> Option<Checked> {
        if !matches!(node.value, Value::Scalar { .. }) {
            return match self.choice(key, keys::PLACE, node)? {
                Checked::Choice(place) => Some(Checked::Place(place, Vec::new())),
                _ => None,
            };
        }
        let written = self.text(key.name, node)?;
        match short(key, forms, &written) {
            Ok((place, forms)) => Some(Checked::Place(place, forms)),
            Err(problem) => {
                self.problem(*problem);
                None
            }
        }
    }
}

/// A place, and how the value is written there.
type Short = (At<(&'static str, String)>, Vec<At<&'static str>>);

fn short(key: &Key, forms: &'static [&'static str], written: &At<String>) -> Result<Short, Box<Diagnostic>> {
    let text = written.value.as_str();
    let spot = |part: &str| spot(written, part);
    let form = if forms.is_empty() { String::new() } else { format!(" ({})", forms[forms.len() - 1]) };
    let choices = format!("write header NAME{form}, or body /POINTER{form}");
    let wrong = |part: &str, title: String, label: &str, help: String| {
        Box::new(Diagnostic::error(codes::WORD, title).at(spot(part), label).help(help))
    };
    let whole = text.trim();
    let (place, brackets) = match whole.find('(') {
        Some(open) => (whole[..open].trim_end(), Some(&whole[open..])),
        None => (whole, None),
    };
    let (word, name) = match place.split_once(char::is_whitespace) {
        Some((word, name)) => (word, name.trim_start()),
        None => (place, ""),
    };
    let Some(variant) = keys::PLACE.iter().find(|variant| variant.word == word) else {
        let help = match nearest(word, keys::PLACE.iter().map(|variant| variant.word)) {
            Some(near) => format!("did you mean {near}?"),
            None => choices,
        };
        let title = format!("`{}` cannot be `{whole}`", key.name);
        return Err(wrong(
            if word.is_empty() { whole } else { word },
            title,
            "neither header nor body",
            help,
        ));
    };
    if name.is_empty() {
        let title = format!("`{}: {word}` needs to know which", key.name);
        return Err(wrong(word, title, &format!("which {word}?"), choices));
    }
    if variant.takes == keys::Takes::Pointer && !scalars::is_pointer(name) {
        return Err(Box::new(
            Diagnostic::error(codes::POINTER, format!("`{name}` is not a JSON pointer"))
                .at(spot(name), "a place in the body")
                .help("a pointer begins with a slash: /order/id; ~ is written ~0, / in a name ~1"),
        ));
    }
    let at = At { value: (variant.word, name.to_owned()), span: written.span.clone() };
    let Some(brackets) = brackets else { return Ok((at, Vec::new())) };
    let long = format!("a name with brackets is written {{{word}: \"{name} …\"}}");
    let Some(inside) = brackets.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        let title = format!("the bracket in `{}` is not closed at the end", key.name);
        return Err(wrong(brackets, title, "not `(FORM)`", format!("{choices}; {long}")));
    };
    if forms.is_empty() {
        let title = format!("`{}` is text; no form is said of it", key.name);
        return Err(wrong(brackets, title, "nothing to say here", format!("take it away; {long}")));
    }
    let mut found: Vec<At<&'static str>> = Vec::new();
    for piece in inside.split('|') {
        let word = piece.trim();
        let Some(form) = forms.iter().find(|form| **form == word) else {
            let help = match nearest(word, forms.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("forms: {}; {long}", forms.join(", ")),
            };
            let title = format!("`{}` cannot be written as `{word}`", key.name);
            return Err(wrong(
                if word.is_empty() { brackets } else { word },
                title,
                "not one of the forms",
                help,
            ));
        };
        if !found.iter().any(|known| known.value == *form) {
            found.push(At { value: form, span: spot(word) });
        }
    }
    Ok((at, found))
}

/// Where a part of the text stands in the file; the whole text, if that was written with escapes or
/// references.
fn spot(written: &At<String>, part: &str) -> Range<usize> {
    let text = &written.value;
    let length = written.span.end - written.span.start;
    let quote = match length.checked_sub(text.len()) {
        Some(0) => 0,
        Some(2) => 1,
        _ => return written.span.clone(),
    };
    // Every part is a piece of the text, so its address tells where.
    let offset = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    if offset > text.len() || offset + part.len() > text.len() {
        return written.span.clone();
    }
    let start = written.span.start + quote + offset;
    start..start + part.len()
}
