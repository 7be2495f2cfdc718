//! Text to tokens (spec/cel.md §1).

use crate::parser::SyntaxError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// An operator, bracket or keyword operator, by its text.
    Symbol(&'static str),
    Identifier(&'a str),
    /// Digits, perhaps with `0x`.
    Int(&'a str),
    /// As [`Token::Int`], without the `u`.
    Uint(&'a str),
    Float(&'a str),
    /// A literal with its quotes and prefixes.
    String(&'a str),
    Bytes(&'a str),
    End,
}

/// Longer ones first.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

pub(crate) struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// The next token and where it begins.
    pub(crate) fn next(&mut self) -> Result<(Token<'a>, usize), SyntaxError> {
        self.skip_blanks();
        let start = self.position;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, start));
        };
        if let Some(token) = self.string()? {
            return Ok((token, start));
        }
        let starts_number = first.is_ascii_digit()
            || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        if starts_number {
            return Ok((self.number(), start));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
            let token = match name {
                "in" => Token::Symbol("in"),
                "true" => Token::Symbol("true"),
                "false" => Token::Symbol("false"),
                "null" => Token::Symbol("null"),
                name => Token::Identifier(name),
            };
            return Ok((token, start));
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => {
                self.position += symbol.len();
                Ok((Token::Symbol(symbol), start))
            }
            None => Err(SyntaxError::new(
                start,
                format!("Syntax error: token recognition error at: {first:?}"),
            )),
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take(|c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'));
            if !self.rest().starts_with("//") {
                return;
            }
            self.take(|c| c != '\n');
        }
    }

    fn take(&mut self, allowed: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !allowed(c)).unwrap_or(rest.len());
        self.position += end;
        &rest[..end]
    }

    fn number(&mut self) -> Token<'a> {
        let start = self.position;
        let is_digit = |c: char| c.is_ascii_digit();
        let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let rest = self.rest();
        if rest.starts_with("0x") && rest[2..].starts_with(|c: char| c.is_ascii_hexdigit()) {
            self.position += 2;
            self.take(|c| c.is_ascii_hexdigit());
            return self.integer(start);
        }
        self.take(is_digit);
        let mut is_float = false;
        if self.rest().starts_with('.') && starts_with_digit(&self.rest()[1..]) {
            is_float = true;
            self.position += 1;
            self.take(is_digit);
        }
        let exponent = self.rest().strip_prefix(['e', 'E']);
        let digits = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
        if let Some(digits) = digits.filter(|digits| starts_with_digit(digits)) {
            is_float = true;
            self.position += self.rest().len() - digits.len();
            self.take(is_digit);
        }
        if is_float { Token::Float(&self.text[start..self.position]) } else { self.integer(start) }
    }

    fn integer(&mut self, start: usize) -> Token<'a> {
        let digits = &self.text[start..self.position];
        if self.rest().starts_with(['u', 'U']) {
            self.position += 1;
            return Token::Uint(digits);
        }
        Token::Int(digits)
    }

    /// A string or bytes literal, if one begins here.
    fn string(&mut self) -> Result<Option<Token<'a>>, SyntaxError> {
        let start = self.position;
        let rest = self.rest();
        let without_bytes = rest.strip_prefix(['b', 'B']).unwrap_or(rest);
        let without_raw = without_bytes.strip_prefix(['r', 'R']).unwrap_or(without_bytes);
        let is_bytes = without_bytes.len() < rest.len();
        let is_raw = without_raw.len() < without_bytes.len();
        let Some(quote) = without_raw.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return Ok(None);
        };
        let triple = if quote == '"' { "\"\"\"" } else { "'''" };
        let is_triple = without_raw.starts_with(triple);
        let closing = if is_triple { triple } else { &triple[..1] };
        let mut at = start + (rest.len() - without_raw.len()) + closing.len();
        loop {
            let rest = &self.text[at..];
            if rest.starts_with(closing) {
                self.position = at + closing.len();
                let literal = &self.text[start..self.position];
                return Ok(Some(if is_bytes {
                    Token::Bytes(literal)
                } else {
                    Token::String(literal)
                }));
            }
            at += match rest.chars().next() {
                Some('\\') if !is_raw => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                Some('\n' | '\r') if !is_triple => {
                    return Err(SyntaxError::new(start, "Syntax error: unterminated string"));
                }
                Some(c) => c.len_utf8(),
                None => return Err(SyntaxError::new(start, "Syntax error: unterminated string")),
            };
        }
    }
}

/// The bytes a string or bytes literal stands for.
pub(crate) fn unescape(literal: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let normalized = literal.replace("\r\n", "\n").replace('\r', "\n");
    let text = if is_bytes { &normalized[1..] } else { &normalized };
    let (text, is_raw) = match text.strip_prefix(['r', 'R']) {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let is_triple = text.len() >= 6 && (text.starts_with("\"\"\"") || text.starts_with("'''"));
    let quotes = if is_triple { 3 } else { 1 };
    let mut rest = text.get(quotes..text.len() - quotes).ok_or("unable to unescape string")?;
    if is_raw {
        return Ok(rest.as_bytes().to_vec());
    }
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some(backslash) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..backslash]);
        rest = escape(&rest[backslash + 1..], is_bytes, &mut bytes)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Appends what the escape sequence at the beginning of `text` (after the backslash) stands for; gives the rest.
fn escape<'a>(text: &'a str, is_bytes: bool, bytes: &mut Vec<u8>) -> Result<&'a str, &'static str> {
    const INVALID: &str = "unable to unescape string";
    let kind = text.chars().next().ok_or(INVALID)?;
    let rest = &text[kind.len_utf8()..];
    let simple = match kind {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => kind as u8,
        _ => 0,
    };
    if simple != 0 {
        bytes.push(simple);
        return Ok(rest);
    }
    let (digits, radix, from) = match kind {
        'x' | 'X' => (2, 16, rest),
        'u' if !is_bytes => (4, 16, rest),
        'U' if !is_bytes => (8, 16, rest),
        '0'..='3' => (3, 8, text),
        _ => return Err(INVALID),
    };
    let code = from.get(..digits).ok_or(INVALID)?;
    if !code.chars().all(|c| c.is_digit(radix)) {
        return Err(INVALID);
    }
    let code = u32::from_str_radix(code, radix).map_err(|_| INVALID)?;
    if is_bytes {
        bytes.push(u8::try_from(code).map_err(|_| INVALID)?);
    } else {
        let c = char::from_u32(code).ok_or("invalid unicode code point")?;
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&from[digits..])
}
