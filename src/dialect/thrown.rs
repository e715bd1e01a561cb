//! Puts what a stack trace's text says into a death.

use crate::failure::Death;
use crate::failure::stack::{self, Language};

/// Longest message or class that is taken from a text; what is over it is cut by the renderer anyway.
const LONGEST: usize = 64 << 10;

/// Fills class, message, root and stack from `text`, a trace of `language`. `is_wrapper` names the classes of the framework that
/// only hand an error on. What the death says already stays.
pub(super) fn put(death: &mut Death, language: Language, text: &str, is_wrapper: impl Fn(&str) -> bool) {
    if text.trim().is_empty() {
        return;
    }
    let links = stack::chain_in(language, text);
    let error = stack::behind_in(&links, is_wrapper);
    let root = stack::root_in(language, text);
    if death.error_class.is_none() {
        death.error_class = error.and_then(|link| link.class).map(short);
    }
    if death.message.is_none() {
        death.message = error.and_then(|link| link.message).map(short);
    }
    if let Some(root) = root {
        if death.root_class.is_none() {
            death.root_class = root.class.map(short);
        }
        if death.root_message.is_none() {
            death.root_message =
                root.message.map(short).filter(|words| death.message.as_ref() != Some(words));
        }
    }
    death.stack.get_or_insert_with(|| text.to_owned());
}

fn short(text: &str) -> String {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end().to_owned()
}
