//! From the text of an expression to its tokens.

use std::ops::Range;

use super::fault::Fault;

/// Longest expression, in bytes.
pub(super) const LONGEST: usize = 4_096;

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A run of word characters: field, value, keyword.
    Word(String),
    /// A prefix that takes a name (`header.`), with the name that was in quotes.
    Dotted(String, String),
    /// Text in quotes.
    Quoted(String),
    /// An operator: `=`, `!=`, `<`, `<=`, `>`, `>=`, `~`, `!~`.
    Operator(&'static str),
    /// `(`
    Open,
    /// `)`
    Close,
}

impl Token {
    /// In words, for messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(word) => format!("`{word}`"),
            Self::Dotted(prefix, name) => format!("`{prefix}\"{name}\"`"),
            Self::Quoted(_) => "text in quotes".to_owned(),
            Self::Operator(operator) => format!("`{operator}`"),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
        }
    }
}

/// May stand in a word: names of headers, ids, times, numbers, JSON pointers, classes with `$`.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '+' | '@' | '#' | '$' | '%' | '*' | ',')
}

const OPERATORS: [&str; 8] = ["!=", "<=", ">=", "!~", "=", "<", ">", "~"];

/// Cuts `text` into tokens with their places.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, Fault> {
    if text.len() > LONGEST {
        let problem = format!("the expression has {} bytes", text.len());
        return Err(Fault::new(0..0, problem, format!("at most {LONGEST}")));
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
        } else if c == '(' || c == ')' {
            found.push((if c == '(' { Token::Open } else { Token::Close }, at..at + 1));
            at += 1;
        } else if c == '"' || c == '\'' {
            let (content, end) = quoted(text, at, c)?;
            found.push((Token::Quoted(content), at..end));
            at = end;
        } else if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            let mut end = at + operator.len();
            // `==` and `=~` are habits of other languages.
            if *operator == "=" && (text[end..].starts_with('=') || text[end..].starts_with('~')) {
                end += 1;
                let right = if text[at..end].ends_with('~') { "~" } else { "=" };
                let problem = format!("`{}` is no operator", &text[at..end]);
                return Err(Fault::new(at..end, problem, format!("`{right}`")));
            }
            found.push((Token::Operator(operator), at..end));
            at = end;
        } else if is_word(c) {
            let end = rest.find(|c| !is_word(c)).map_or(text.len(), |length| at + length);
            let word = &text[at..end];
            match text[end..].chars().next() {
                Some(quote @ ('"' | '\'')) if word.ends_with('.') => {
                    let (name, close) = quoted(text, end, quote)?;
                    found.push((Token::Dotted(word.to_owned(), name), at..close));
                    at = close;
                }
                _ => {
                    found.push((Token::Word(word.to_owned()), at..end));
                    at = end;
                }
            }
        } else {
            let expected = match c {
                '&' => "`and`",
                '|' => "`or`",
                '!' => "`not`, `!=` or `!~`",
                _ => "a field, an operator, a value, `and`, `or`, `not` or a parenthesis",
            };
            return Err(Fault::new(
                at..at + c.len_utf8(),
                format!("`{}` has no meaning here", c.escape_default()),
                expected,
            ));
        }
    }
    Ok(found)
}

/// Reads text in quotes that begins at `start`; gives it with the end of its place.
fn quoted(text: &str, start: usize, quote: char) -> Result<(String, usize), Fault> {
    let mut content = String::new();
    let mut chars = text[start + 1..].char_indices();
    while let Some((offset, c)) = chars.next() {
        let at = start + 1 + offset;
        if c == quote {
            return Ok((content, at + 1));
        }
        if c != '\\' {
            content.push(c);
            continue;
        }
        match chars.next() {
            Some((_, 'n')) => content.push('\n'),
            Some((_, 'r')) => content.push('\r'),
            Some((_, 't')) => content.push('\t'),
            Some((_, 'u')) => {
                let rest = &text[at + 2..];
                let code =
                    rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).and_then(|(hex, _)| {
                        let short = hex.len() <= 6 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
                        short
                            .then(|| u32::from_str_radix(hex, 16).ok().and_then(char::from_u32))
                            .flatten()
                            .map(|c| (c, hex.len()))
                    });
                let Some((c, digits)) = code else {
                    return Err(Fault::new(at..at + 2, "`\\u` names no character", "`\\u{` hex digits `}`"));
                };
                content.push(c);
                for _ in 0..digits + 2 {
                    chars.next();
                }
            }
            Some((_, c @ ('"' | '\'' | '\\'))) => content.push(c),
            // Patterns are full of `\d` and `\.`: any other backslash stays what it is.
            Some((_, c)) => {
                content.push('\\');
                content.push(c);
            }
            None => break,
        }
    }
    Err(Fault::new(start..text.len(), "the text has no end", format!("a closing `{quote}`")))
}
