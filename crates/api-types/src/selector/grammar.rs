//! The textual form of label selectors, as in `kubectl get -l`.

use std::sync::Arc;

use super::error::SelectorError;
use super::requirement::{OperatorName, Requirement, new_requirement};
use crate::validation::{FieldPath, quoted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    Comma,
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
    Word(&'a str),
}

const SYMBOLS: &[char] = &['(', ')', ',', '!', '=', '>', '<'];

/// The tokens of a text, with one token of look-ahead.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        Tokens { rest: self.rest }.next()
    }

    fn unexpected(&self, expected: &str) -> SelectorError {
        let found = self.rest.trim_start();
        let found = if found.is_empty() { "the end".to_owned() } else { quoted(found) };
        SelectorError::Syntax(format!("found {found}, expected {expected}"))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let first = text.chars().next()?;
        let second = text[first.len_utf8()..].chars().next();
        let (token, len) = match (first, second) {
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            (',', _) => (Token::Comma, 1),
            ('!', Some('=')) => (Token::NotEqual, 2),
            ('!', _) => (Token::Not, 1),
            ('=', Some('=')) => (Token::Equal, 2),
            ('=', _) => (Token::Equal, 1),
            ('>', _) => (Token::Greater, 1),
            ('<', _) => (Token::Less, 1),
            _ => {
                let ends = |c: char| SYMBOLS.contains(&c) || matches!(c, ' ' | '\t' | '\r' | '\n');
                let end = text.find(ends).unwrap_or(text.len());
                (Token::Word(&text[..end]), end)
            }
        };
        self.rest = &text[len..];
        Some(token)
    }
}

/// The requirements of `text`, sorted by key as the reference has them.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut tokens = Tokens { rest: text };
    let mut requirements = Vec::new();
    if tokens.peek().is_none() {
        return Ok(requirements);
    }
    loop {
        requirements.push(requirement(&mut tokens)?);
        match tokens.peek() {
            None => break,
            Some(Token::Comma) => {
                tokens.next();
                // A comma must be followed by another requirement.
                if tokens.peek().is_none() {
                    return Err(tokens.unexpected("identifier after ','"));
                }
            }
            Some(_) => return Err(tokens.unexpected("',' or the end")),
        }
    }
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(requirements)
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, SelectorError> {
    let is_negated = tokens.peek() == Some(Token::Not);
    if is_negated {
        tokens.next();
    }
    let Some(Token::Word(key)) = tokens.peek() else {
        return Err(tokens.unexpected("identifier"));
    };
    tokens.next();
    let (operator, values) = match tokens.peek() {
        None | Some(Token::Comma) if is_negated => (OperatorName::DoesNotExist, Vec::new()),
        None | Some(Token::Comma) => (OperatorName::Exists, Vec::new()),
        Some(_) if is_negated => return Err(tokens.unexpected("',' or the end")),
        Some(token) => {
            let operator = match token {
                Token::Equal | Token::Word("in") => OperatorName::In,
                Token::NotEqual | Token::Word("notin") => OperatorName::NotIn,
                Token::Greater => OperatorName::Gt,
                Token::Less => OperatorName::Lt,
                _ => return Err(tokens.unexpected("in, notin, =, ==, !=, >, <")),
            };
            tokens.next();
            if matches!(token, Token::Word(_)) {
                (operator, set(tokens)?)
            } else {
                (operator, vec![exact(tokens)])
            }
        }
    };
    let values: Vec<Arc<str>> = values.into_iter().map(Arc::from).collect();
    new_requirement(&Arc::from(key), operator, Some(&values), &FieldPath::root())
        .map_err(SelectorError::Fields)
}

/// The value after `=`, `!=`, `<` or `>`; may be missing, which is the empty value.
fn exact<'a>(tokens: &mut Tokens<'a>) -> &'a str {
    match tokens.peek() {
        Some(Token::Word(value)) => {
            tokens.next();
            value
        }
        _ => "",
    }
}

/// A parenthesised list; elements may be empty.
fn set<'a>(tokens: &mut Tokens<'a>) -> Result<Vec<&'a str>, SelectorError> {
    if tokens.peek() != Some(Token::Open) {
        return Err(tokens.unexpected("'('"));
    }
    tokens.next();
    let mut values = Vec::new();
    loop {
        match tokens.peek() {
            Some(Token::Word(value)) => {
                tokens.next();
                values.push(value);
            }
            Some(Token::Comma | Token::Close) => values.push(""),
            _ => return Err(tokens.unexpected("',', ')' or identifier")),
        }
        match tokens.peek() {
            Some(Token::Comma) => tokens.next(),
            Some(Token::Close) => {
                tokens.next();
                return Ok(values);
            }
            _ => return Err(tokens.unexpected("',' or ')'")),
        };
    }
}
