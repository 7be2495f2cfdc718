//! From text to the words of one statement after the other.

use serde_json::Value;

use super::GrammarError;

/// A word with its quotes removed. If it ends in a JSON object, or is one, `text` is what stands before that.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) json: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    /// How many bytes have been read.
    at: usize,
    /// Where the statement starts that was read last.
    start: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, start: 0 }
    }

    /// The line of the statement that was read last, from 1.
    pub(super) fn line(&self) -> usize {
        1 + self.text[..self.start].matches('\n').count()
    }

    pub(super) fn error(&self, word: &str, problem: impl Into<String>) -> GrammarError {
        GrammarError { line: self.line(), word: word.to_owned(), problem: problem.into() }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip(&mut self, skips: impl Fn(char) -> bool) {
        self.at = self.text.len() - self.rest().trim_start_matches(skips).len();
    }

    /// The next statement that has words.
    pub(super) fn next_statement(&mut self) -> Result<Option<Vec<Token>>, GrammarError> {
        let mut tokens = Vec::new();
        loop {
            self.skip(|c| c.is_whitespace() && c != '\n');
            match self.rest().chars().next() {
                Some('#') => self.skip(|c| c != '\n'),
                Some('\n' | ';') if tokens.is_empty() => self.at += 1,
                None if tokens.is_empty() => return Ok(None),
                None | Some('\n' | ';') => return Ok(Some(tokens)),
                Some(_) => {
                    if tokens.is_empty() {
                        self.start = self.at;
                    }
                    tokens.push(self.word()?);
                }
            }
        }
    }

    /// One word; JSON starts with a brace at its start or behind its first `=`.
    fn word(&mut self) -> Result<Token, GrammarError> {
        let mut text = String::new();
        while let Some(next) = self.rest().chars().next() {
            match next {
                '{' if text.is_empty() || text.find('=') == Some(text.len() - 1) => {
                    let json = Some(self.json(&text)?);
                    return Ok(Token { text, json });
                }
                '\'' | '"' => {
                    let quoted = &self.rest()[1..];
                    let Some(end) = quoted
                        .find([next, '\n'])
                        .filter(|end| quoted.as_bytes().get(*end) != Some(&b'\n'))
                    else {
                        return Err(self.error(&text, format!("the quote {next} is not closed")));
                    };
                    text.push_str(&quoted[..end]);
                    self.at += end + 2;
                }
                ';' => break,
                next if next.is_whitespace() => break,
                next => {
                    text.push(next);
                    self.at += next.len_utf8();
                }
            }
        }
        Ok(Token { text, json: None })
    }

    fn json(&mut self, before: &str) -> Result<Value, GrammarError> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        match values.next() {
            Some(Ok(json)) => {
                self.at += values.byte_offset();
                Ok(json)
            }
            Some(Err(error)) => Err(self.error(before, format!("no JSON object: {error}"))),
            None => Err(self.error(before, "no JSON object")),
        }
    }
}
