//! From tokens to the typed tree. Every fault has its place and says what was expected there.

use std::iter::Peekable;
use std::ops::Range;

use super::expression::{Compare, Decimal, Expression, Field, Kind, Test, TextTest};
use super::fault::Fault;
use super::lexer::{Token, tokens};
use super::moment;
use super::pattern::Pattern;
use crate::clock::parse_duration;
use crate::topology::nearest;

/// Deepest nesting of parentheses and `not`.
const DEEPEST: usize = 64;

/// Words that are never a bare value.
pub(super) fn is_reserved(word: &str) -> bool {
    matches!(word, "and" | "or" | "not" | "exists")
}

/// Reads an expression.
///
/// # Errors
/// The first fault in `text`.
pub fn parse(text: &str) -> Result<Expression, Fault> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err(Fault::new(
            0..text.len(),
            "the expression is empty",
            "a condition, for instance `age > 2h`",
        ));
    }
    let mut parser = Parser { tokens: tokens.into_iter().peekable(), end: text.trim_end().len() };
    let expression = parser.alternatives(0)?;
    match parser.next() {
        None => Ok(expression),
        Some((Token::Close, at)) => Err(Fault::new(at, "this `)` closes nothing", "`and`, `or` or the end")),
        Some((token, at)) => {
            let problem = format!("{} follows a whole condition", token.describe());
            Err(Fault::new(at, problem, "`and`, `or` or the end; a value of several words needs quotes"))
        }
    }
}

struct Parser {
    tokens: Peekable<std::vec::IntoIter<(Token, Range<usize>)>>,
    end: usize,
}

impl Parser {
    fn next(&mut self) -> Option<(Token, Range<usize>)> {
        self.tokens.next()
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_it = |token: &(Token, Range<usize>)| matches!(&token.0, Token::Word(found) if found == word);
        self.tokens.next_if(is_it).is_some()
    }

    fn ended(&self, expected: &str) -> Fault {
        Fault::new(self.end..self.end, "the expression ends here", expected)
    }

    fn alternatives(&mut self, depth: usize) -> Result<Expression, Fault> {
        let mut parts = vec![self.conditions(depth)?];
        while self.take_word("or") {
            parts.push(self.conditions(depth)?);
        }
        Ok(joined(parts, Expression::Or))
    }

    fn conditions(&mut self, depth: usize) -> Result<Expression, Fault> {
        let mut parts = vec![self.condition(depth)?];
        while self.take_word("and") {
            parts.push(self.condition(depth)?);
        }
        Ok(joined(parts, Expression::And))
    }

    fn condition(&mut self, depth: usize) -> Result<Expression, Fault> {
        const EXPECTED: &str = "a field, `not` or `(`";
        let Some((token, at)) = self.next() else { return Err(self.ended(EXPECTED)) };
        if depth >= DEEPEST {
            return Err(Fault::new(at, "nested too deep", format!("at most {DEEPEST} levels")));
        }
        match token {
            Token::Open => {
                let inner = self.alternatives(depth + 1)?;
                match self.next() {
                    Some((Token::Close, _)) => Ok(inner),
                    Some((token, at)) => {
                        let problem = format!("{} follows a whole condition", token.describe());
                        Err(Fault::new(
                            at,
                            problem,
                            "`and`, `or` or `)`; a value of several words needs quotes",
                        ))
                    }
                    None => Err(Fault::new(at, "this `(` is not closed", "`)` after its conditions")),
                }
            }
            Token::Word(word) if word == "not" => Ok(Expression::Not(Box::new(self.condition(depth + 1)?))),
            Token::Word(word) => {
                let field = field(&word, &at)?;
                self.test(field).map(Expression::Test)
            }
            Token::Dotted(prefix, name) => {
                let field = match prefix.as_str() {
                    "header." => Field::Header(name),
                    "property." => Field::Property(name),
                    "body." => pointer(name, &at)?,
                    _ => {
                        return Err(Fault::new(
                            at,
                            format!("`{prefix}` takes no name"),
                            "`header.`, `property.` or `body.`",
                        ));
                    }
                };
                self.test(field).map(Expression::Test)
            }
            token => {
                Err(Fault::new(at, format!("{} stands where a condition begins", token.describe()), EXPECTED))
            }
        }
    }

    fn test(&mut self, field: Field) -> Result<Test, Fault> {
        let takes = operators(&field);
        let Some((token, at)) = self.next() else {
            return Err(self.ended(&format!("an operator after `{field}`: {takes}")));
        };
        let operator = match token {
            Token::Word(word) if word == "exists" => return Ok(Test::Exists(field)),
            Token::Operator(operator) => operator,
            token => {
                let problem = format!("{} follows `{field}`", token.describe());
                return Err(Fault::new(at, problem, format!("an operator: {takes}")));
            }
        };
        let wrong = Fault::new(at.clone(), format!("`{field}` does not take `{operator}`"), takes);
        let compare = match operator {
            "=" => Some(Compare::Equal),
            "!=" => Some(Compare::NotEqual),
            "<" => Some(Compare::Less),
            "<=" => Some(Compare::LessOrEqual),
            ">" => Some(Compare::Greater),
            ">=" => Some(Compare::GreaterOrEqual),
            _ => None,
        };
        let (value, value_at, was_quoted) = self.value(&field, operator)?;
        let value_fault = |problem: String, expected: &str| Fault::new(value_at.clone(), problem, expected);
        if compare.is_none() {
            if !matches!(field.kind(), Kind::Text | Kind::Dynamic) {
                return Err(wrong);
            }
            let pattern = Pattern::new(&value).map_err(|problem| {
                value_fault(problem, "a regular expression, for instance \"(?i)timeout\"")
            })?;
            let test =
                if operator == "~" { TextTest::Matches(pattern) } else { TextTest::MatchesNot(pattern) };
            return Ok(Test::Text(field, test));
        }
        let Some(compare) = compare else { return Err(wrong) };
        let kind = field.kind();
        let quoted_fault =
            |what: &str| value_fault(format!("`{field}` takes {what}, not text in quotes"), what);
        Ok(match kind {
            Kind::Text => text_test(field, compare, value).ok_or(wrong)?,
            Kind::Dynamic => match Decimal::parse(&value).filter(|_| !was_quoted) {
                Some(number) => Test::Dynamic(field, compare, number),
                None if matches!(compare, Compare::Equal | Compare::NotEqual) => {
                    text_test(field, compare, value).ok_or(wrong)?
                }
                None => {
                    let problem = format!("`{operator}` compares numbers here");
                    return Err(value_fault(problem, "a number without quotes, for instance `100`"));
                }
            },
            Kind::Number if was_quoted => return Err(quoted_fault("a whole number")),
            Kind::Number => {
                let number = value
                    .parse()
                    .map_err(|_| value_fault(format!("`{value}` is no whole number"), "for instance `3`"))?;
                Test::Number(field, compare, number)
            }
            Kind::Size => {
                let bytes = bytes(&value).ok_or_else(|| {
                    value_fault(
                        format!("`{value}` is no size"),
                        "bytes, or a number with B, KiB or MiB: `64KiB`",
                    )
                })?;
                Test::Size(compare, bytes)
            }
            Kind::Duration => {
                let age = parse_duration(&value).ok_or_else(|| {
                    let problem = if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() {
                        format!("`{value}` has no unit")
                    } else {
                        format!("`{value}` is no duration")
                    };
                    value_fault(problem, "a number with ms, s, m, h or d: `90s`, `2h`, `1d12h`")
                })?;
                Test::Age(compare, age)
            }
            Kind::Time => {
                let at = moment::instant(&value).map_err(|problem| {
                    value_fault(problem, "a time with its zone: `2026-11-30T02:00:00Z`; for a span use `age`")
                })?;
                Test::Died(compare, at)
            }
        })
    }

    /// The value after an operator.
    fn value(&mut self, field: &Field, operator: &str) -> Result<(String, Range<usize>, bool), Fault> {
        let expected = match field.kind() {
            Kind::Text => "a word, or text in quotes",
            Kind::Dynamic => "a word, a number, or text in quotes",
            Kind::Number => "a whole number",
            Kind::Size => "a size: `64KiB`",
            Kind::Duration => "a duration: `2h`",
            Kind::Time => "a time with its zone: `2026-11-30T02:00:00Z`",
        };
        match self.next() {
            None => Err(self.ended(&format!("a value after `{operator}`: {expected}"))),
            Some((Token::Word(word), at)) if is_reserved(&word) => Err(Fault::new(
                at,
                format!("`{word}` stands where a value belongs"),
                format!("{expected} (\"{word}\" is one)"),
            )),
            Some((Token::Word(word), at)) => Ok((word, at, false)),
            Some((Token::Quoted(text), at)) => Ok((text, at, true)),
            Some((token, at)) => {
                Err(Fault::new(at, format!("{} stands where a value belongs", token.describe()), expected))
            }
        }
    }
}

fn joined(mut parts: Vec<Expression>, join: fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            join(parts)
        }
        None => join(parts),
    }
}

fn text_test(field: Field, compare: Compare, value: String) -> Option<Test> {
    match compare {
        Compare::Equal => Some(Test::Text(field, TextTest::Is(value))),
        Compare::NotEqual => Some(Test::Text(field, TextTest::IsNot(value))),
        _ => None,
    }
}

/// The operators of a field, for messages.
fn operators(field: &Field) -> &'static str {
    match field.kind() {
        Kind::Text => "`=`, `!=`, `~`, `!~` or `exists`",
        Kind::Dynamic => "`=`, `!=`, `<`, `<=`, `>`, `>=`, `~`, `!~` or `exists`",
        _ => "`=`, `!=`, `<`, `<=`, `>`, `>=` or `exists`",
    }
}

fn field(word: &str, at: &Range<usize>) -> Result<Field, Fault> {
    if let Some((_, field)) = Field::WORDS.iter().find(|(name, _)| *name == word) {
        return Ok(field.clone());
    }
    for (prefix, make) in [("header.", Field::Header as fn(String) -> Field), ("property.", Field::Property)]
    {
        match word.strip_prefix(prefix) {
            Some("") => {
                return Err(Fault::new(
                    at.clone(),
                    format!("`{prefix}` names nothing"),
                    format!("a name after the point, as in `{prefix}tenant`"),
                ));
            }
            Some(name) => return Ok(make(name.to_owned())),
            None => {}
        }
    }
    if let Some(path) = word.strip_prefix("body.") {
        return pointer(path.to_owned(), at);
    }
    let near = nearest(word, Field::WORDS.iter().map(|(name, _)| *name));
    let expected = match (near, word) {
        (_, "header" | "property") => format!("`{word}.` and a name"),
        (Some(near), _) => format!("a field; did you mean `{near}`?"),
        (None, _) => {
            let names: Vec<&str> = Field::WORDS.iter().map(|(name, _)| *name).collect();
            format!("one of {}, header.NAME, property.NAME, body./POINTER", names.join(", "))
        }
    };
    Err(Fault::new(at.clone(), format!("`{word}` is no field of a letter"), expected))
}

fn pointer(path: String, at: &Range<usize>) -> Result<Field, Fault> {
    if path.starts_with('/') {
        return Ok(Field::BodyAt(path));
    }
    let slashed = path.replace('.', "/");
    let expected = format!("a JSON pointer, as in `body./{slashed}`");
    Err(Fault::new(at.clone(), format!("`body.{path}` is no place in the body"), expected))
}

/// Reads `512`, `512B`, `64KiB`, `2MiB`, `1GiB`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}
