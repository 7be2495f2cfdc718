//! Expressions in template files, in the part of Go's text/template that benchmark definitions use.
//!
//! `{{ .Index }}` and `{{ .Count }}` are the number of the object and how many there are; other fields are what an operation
//! names in its `templateParams`. Functions are AddInt,
//! SubtractInt, MultiplyInt, DivideInt, AddFloat, SubtractFloat, MultiplyFloat, DivideFloat and Mod; arguments are numbers,
//! quoted texts, fields, and calls in brackets. `{{-` and `-}}` take the white space beside them away.
//!
//! Parity: all arithmetic is that of 64-bit floating point numbers, and the Int functions cut fractions off afterwards, as
//! in the reference. Its templates know control structures and variables too; nothing uses them, and they are errors here.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// The values of fields that operations name.
pub(crate) type Fields = BTreeMap<String, Number>;

/// What fields of a template stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    pub(crate) index: usize,
    pub(crate) count: usize,
    /// `Index` and `Count` stand for the numbers above, whatever is here.
    pub(crate) fields: &'a Fields,
}

/// A template that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub(crate) struct TemplateError {
    line: usize,
    what: String,
}

const FUNCTIONS: [&str; 9] = [
    "AddFloat",
    "AddInt",
    "DivideFloat",
    "DivideInt",
    "Mod",
    "MultiplyFloat",
    "MultiplyInt",
    "SubtractFloat",
    "SubtractInt",
];

/// Fills a template in.
pub(crate) fn render(text: &str, env: Env<'_>) -> Result<String, TemplateError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut line = 1;
    let mut trims = false;
    while let Some(begin) = rest.find("{{") {
        let mut literal = &rest[..begin];
        line += literal.matches('\n').count();
        let inner = &rest[begin + 2..];
        let end = inner
            .find("}}")
            .ok_or_else(|| TemplateError { line, what: "`{{` without `}}`".to_owned() })?;
        let mut action = &inner[..end];
        rest = &inner[end + 2..];
        if trims {
            literal = literal.trim_start();
        }
        if let Some(trimmed) = action.strip_prefix('-') {
            action = trimmed;
            literal = literal.trim_end();
        }
        out.push_str(literal);
        trims = action.ends_with('-');
        let action = action.strip_suffix('-').unwrap_or(action).trim();
        if !(action.starts_with("/*") && action.ends_with("*/")) {
            let located =
                |what| TemplateError { line, what: format!("{{{{ {action} }}}}: {what}") };
            let tokens = tokens(action).map_err(located)?;
            let mut reader = Reader { tokens: &tokens, env };
            let value = reader.call().map_err(located)?;
            if let Some(extra) = reader.tokens.first() {
                return Err(located(format!("{extra} is not expected here")));
            }
            out.push_str(&value.to_string());
        }
        line += inner[..end].matches('\n').count();
    }
    out.push_str(if trims { rest.trim_start() } else { rest });
    Ok(out)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Field(String),
    Name(String),
    Literal(Number),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("("),
            Self::Close => f.write_str(")"),
            Self::Field(name) => write!(f, ".{name}"),
            Self::Name(name) => f.write_str(name),
            Self::Literal(number) => number.fmt(f),
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// A number of a file.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        value.as_i64().map(Self::Int).or_else(|| value.as_f64().map(Self::Float))
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            // As Go prints them: with an exponent from 1e+21 on and below 1e-4.
            Self::Float(number) if *number != 0.0 && !(1e-4..1e21).contains(&number.abs()) => {
                let text = format!("{number:e}");
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, digits) = match exponent.strip_prefix('-') {
                    Some(digits) => ('-', digits),
                    None => ('+', exponent),
                };
                write!(f, "{mantissa}e{sign}{digits:0>2}")
            }
            Self::Float(number) => number.fmt(f),
        }
    }
}

fn tokens(action: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = action.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |rest: &str| {
            let is_part =
                |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '-' || c == '+';
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        };
        let length = match first {
            '(' => {
                tokens.push(Token::Open);
                1
            }
            ')' => {
                tokens.push(Token::Close);
                1
            }
            '"' => {
                let end = rest[1..].find('"').ok_or("a text without its closing quote")?;
                let text = &rest[1..=end];
                let number = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
                tokens.push(Token::Literal(Number::Float(number)));
                end + 2
            }
            '.' => {
                let end = 1 + word(&rest[1..]);
                tokens.push(Token::Field(rest[1..end].to_owned()));
                end
            }
            c if c.is_ascii_digit() || c == '-' || c == '+' => {
                let end = word(rest);
                let text = &rest[..end];
                let number = match text.parse() {
                    Ok(number) => Number::Int(number),
                    Err(_) => {
                        Number::Float(text.parse().map_err(|_| format!("{text} is not a number"))?)
                    }
                };
                tokens.push(Token::Literal(number));
                end
            }
            c if c.is_alphabetic() => {
                let end = word(rest);
                tokens.push(Token::Name(rest[..end].to_owned()));
                end
            }
            other => return Err(format!("{other:?} is not known here")),
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Reader<'a> {
    tokens: &'a [Token],
    env: Env<'a>,
}

impl Reader<'_> {
    /// A function with its arguments, or a single value.
    fn call(&mut self) -> Result<Number, String> {
        if let Some((Token::Name(name), rest)) = self.tokens.split_first() {
            self.tokens = rest;
            let mut args = Vec::new();
            while !matches!(self.tokens.first(), None | Some(Token::Close)) {
                args.push(self.value()?);
            }
            return apply(name, &args);
        }
        self.value()
    }

    fn value(&mut self) -> Result<Number, String> {
        let (first, rest) = self.tokens.split_first().ok_or("a value is missing")?;
        self.tokens = rest;
        match first {
            Token::Literal(number) => Ok(*number),
            Token::Field(name) => self.field(name),
            Token::Open => {
                let value = self.call()?;
                match self.tokens.split_first() {
                    Some((Token::Close, rest)) => {
                        self.tokens = rest;
                        Ok(value)
                    }
                    _ => Err("`(` without `)`".to_owned()),
                }
            }
            Token::Close => Err("`)` without `(`".to_owned()),
            Token::Name(name) => {
                Err(format!("function {name} is an argument only in brackets: ({name} …)"))
            }
        }
    }

    fn field(&self, name: &str) -> Result<Number, String> {
        let number = match name {
            "Index" => self.env.index,
            "Count" => self.env.count,
            _ => match self.env.fields.get(name) {
                Some(number) => return Ok(*number),
                None => return Err(self.unknown(name)),
            },
        };
        i64::try_from(number).map(Number::Int).map_err(|error| error.to_string())
    }

    fn unknown(&self, name: &str) -> String {
        let others: Vec<String> =
            self.env.fields.keys().map(|known| format!(".{known}, ")).collect();
        format!("field .{name} is not known; there are {}.Index and .Count", others.concat())
    }
}

fn apply(name: &str, args: &[Number]) -> Result<Number, String> {
    let floats: Vec<f64> = args.iter().map(|arg| arg.as_f64()).collect();
    let two = || match floats[..] {
        [a, b] => Ok((a, b)),
        _ => Err(format!("{name} takes 2 arguments, not {}", floats.len())),
    };
    let quotient = || match two()? {
        (_, 0.0) => Err("division by zero".to_owned()),
        (a, b) => Ok(a / b),
    };
    // Rust and Go cut fractions off alike.
    let int = |number: f64| Number::Int(number as i64);
    Ok(match name {
        "AddFloat" => Number::Float(floats.iter().sum()),
        "AddInt" => int(floats.iter().sum()),
        "MultiplyFloat" => Number::Float(floats.iter().product()),
        "MultiplyInt" => int(floats.iter().product()),
        "SubtractFloat" => two().map(|(a, b)| Number::Float(a - b))?,
        "SubtractInt" => two().map(|(a, b)| int(a - b))?,
        "DivideFloat" => Number::Float(quotient()?),
        "DivideInt" => int(quotient()?),
        "Mod" => {
            let (a, b) = two()?;
            match (a as i64).checked_rem(b as i64) {
                Some(rest) => Number::Int(rest),
                None => return Err("division by zero".to_owned()),
            }
        }
        _ => {
            return Err(format!(
                "function {name} is not known; there are {}",
                FUNCTIONS.join(", ")
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        let fields =
            [("perGroup".to_owned(), Number::Int(5)), ("half".to_owned(), Number::Float(0.5))];
        let env = Env { index: 27, count: 100, fields: &fields.into() };
        render(text, env).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_and_functions_are_filled_in() {
        let cases = [
            ("a{{.Index}}b", "a27b"),
            ("{{ .Index }}/{{ .Count }}", "27/100"),
            ("{{ Mod .Index 12 }}", "3"),
            ("{{DivideInt .Index .perGroup}} of {{.half}}", "5 of 0.5"),
            ("{{DivideInt .Index 5}}", "5"),
            ("{{ DivideInt 30000 .Count }}", "300"),
            ("{{ AddInt .Index 1 2.9 }}", "30"),
            ("{{ SubtractInt 5 .Index }}", "-22"),
            ("{{ MultiplyInt .Index \"2\" }}", "54"),
            ("{{ DivideFloat .Index 2 }}", "13.5"),
            ("{{ DivideFloat .Count 2 }}", "50"),
            ("{{ AddFloat 0.5 1 }}", "1.5"),
            ("{{ MultiplyFloat 1e30 1 }}", "1e+30"),
            ("{{ SubtractFloat 0.00002 0.00001 }}", "1e-05"),
            ("{{ Mod (AddInt .Index 1) (MultiplyInt 2 5) }}", "8"),
            ("a {{- .Index -}} b", "a27b"),
            ("a{{/* nothing */}}b", "ab"),
            ("no expression", "no expression"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn errors_name_line_expression_and_what_there_is() {
        let cases = [
            (
                "a\n{{ .Name }}",
                "line 2: {{ .Name }}: field .Name is not known; there are .half, .perGroup, .Index and .Count",
            ),
            ("{{ Mod 1 }}", "line 1: {{ Mod 1 }}: Mod takes 2 arguments, not 1"),
            ("{{ Mod 1 0 }}", "line 1: {{ Mod 1 0 }}: division by zero"),
            ("{{ DivideInt 1 0 }}", "line 1: {{ DivideInt 1 0 }}: division by zero"),
            ("\n\n{{ .Index", "line 3: `{{` without `}}`"),
            ("{{ (AddInt 1 2 }}", "line 1: {{ (AddInt 1 2 }}: `(` without `)`"),
            ("{{ .Index .Count }}", "line 1: {{ .Index .Count }}: .Count is not expected here"),
            ("{{ }}", "line 1: {{  }}: a value is missing"),
            ("{{ $x }}", "line 1: {{ $x }}: '$' is not known here"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), Err(expected.to_owned()), "{text}");
        }
        let unknown = shown("{{ if .Index }}").unwrap_err();
        assert!(
            unknown.contains("function if is not known; there are AddFloat, AddInt"),
            "{unknown}"
        );
    }
}
