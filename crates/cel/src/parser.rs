//! Text to tree: precedence climbing with bounded nesting (`docs/spec/cel.md` §1).

mod macros;

use std::sync::Arc;

use crate::ast::{Ast, Element, Entry, Expr, Literal, NodeId, TooLarge};
use crate::lexer::{Lexer, Token, unescape};
use crate::limits;

/// The name macros give what they accumulate.
pub(crate) const ACCUMULATOR: &str = "__result__";

const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A mistake and the byte where it is.
#[derive(Clone, Debug)]
pub(crate) struct SyntaxError {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl SyntaxError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }
}

/// The tree of an expression, macros expanded, and its root.
pub(crate) fn parse(text: &str) -> Result<(Ast, NodeId), SyntaxError> {
    if text.len() > limits::MAX_EXPRESSION_BYTES {
        return Err(SyntaxError::new(
            0,
            format!(
                "expression has {} bytes, at most {} are allowed",
                text.len(),
                limits::MAX_EXPRESSION_BYTES
            ),
        ));
    }
    let mut parser = Parser {
        lexer: Lexer::new(text),
        token: Token::End,
        offset: 0,
        nesting: 0,
        ast: Ast::default(),
    };
    parser.advance()?;
    let root = parser.expression()?;
    if parser.token != Token::End {
        return Err(parser.unexpected("the end of the expression"));
    }
    Ok((parser.ast, root))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token to read next.
    token: Token<'a>,
    /// Where it begins.
    offset: usize,
    nesting: u32,
    ast: Ast,
}

type ParseResult<T = NodeId> = Result<T, SyntaxError>;

/// Function and precedence of a binary operator, higher binds tighter.
fn binary(symbol: &str) -> Option<(&'static str, u8)> {
    Some(match symbol {
        "||" => ("_||_", 1),
        "&&" => ("_&&_", 2),
        "<" => ("_<_", 3),
        "<=" => ("_<=_", 3),
        ">" => ("_>_", 3),
        ">=" => ("_>=_", 3),
        "==" => ("_==_", 3),
        "!=" => ("_!=_", 3),
        "in" => ("@in", 3),
        "+" => ("_+_", 4),
        "-" => ("_-_", 4),
        "*" => ("_*_", 5),
        "/" => ("_/_", 5),
        "%" => ("_%_", 5),
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> ParseResult<()> {
        (self.token, self.offset) = self.lexer.next()?;
        Ok(())
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.token, Token::Symbol(is) if is == symbol)
    }

    fn accept(&mut self, symbol: &str) -> ParseResult<bool> {
        let is = self.is(symbol);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn require(&mut self, symbol: &str) -> ParseResult<()> {
        if self.accept(symbol)? { Ok(()) } else { Err(self.unexpected(&format!("'{symbol}'"))) }
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let found = match self.token {
            Token::Symbol(text)
            | Token::Identifier(text)
            | Token::Float(text)
            | Token::Int(text) => text,
            Token::Uint(_) => "an unsigned number",
            Token::String(_) | Token::Bytes(_) => "a string",
            Token::End => "<EOF>",
        };
        SyntaxError::new(
            self.offset,
            format!("Syntax error: mismatched input '{found}' expecting {wanted}"),
        )
    }

    fn add(&mut self, expr: Expr, offset: usize) -> ParseResult {
        let position = u32::try_from(offset).unwrap_or(u32::MAX);
        self.ast.add(expr, position).map_err(|TooLarge| too_large(offset))
    }

    fn call(&mut self, function: &str, arguments: Vec<NodeId>, offset: usize) -> ParseResult {
        self.add(Expr::Call { function: function.into(), receiver: None, arguments }, offset)
    }

    fn expression(&mut self) -> ParseResult {
        self.nesting += 1;
        if self.nesting > limits::MAX_DEPTH {
            return Err(too_large(self.offset));
        }
        let condition = self.binary_expression(1)?;
        let offset = self.offset;
        let parsed = if self.accept("?")? {
            let if_true = self.binary_expression(1)?;
            self.require(":")?;
            let if_false = self.expression()?;
            self.call("_?_:_", vec![condition, if_true, if_false], offset)
        } else {
            Ok(condition)
        };
        self.nesting -= 1;
        parsed
    }

    fn binary_expression(&mut self, precedence: u8) -> ParseResult {
        let mut left = self.unary()?;
        while let Token::Symbol(symbol) = self.token {
            let Some((function, binds)) = binary(symbol).filter(|(_, binds)| *binds >= precedence)
            else {
                break;
            };
            let offset = self.offset;
            self.advance()?;
            let right = self.binary_expression(binds + 1)?;
            left = match symbol {
                "||" | "&&" => self.logical(symbol, left, right, offset)?,
                _ => self.call(function, vec![left, right], offset)?,
            };
        }
        Ok(left)
    }

    /// Reads the further terms of a chain and keeps it flat.
    fn logical(&mut self, symbol: &str, left: NodeId, right: NodeId, offset: usize) -> ParseResult {
        let mut terms = vec![left, right];
        let tighter = if symbol == "||" { 2 } else { 3 };
        while self.accept(symbol)? {
            terms.push(self.binary_expression(tighter)?);
        }
        self.add(if symbol == "||" { Expr::Or(terms) } else { Expr::And(terms) }, offset)
    }

    fn unary(&mut self) -> ParseResult {
        let offset = self.offset;
        let Some(symbol) = ["!", "-"].into_iter().find(|symbol| self.is(symbol)) else {
            return self.member();
        };
        let mut count = 0;
        while self.accept(symbol)? {
            count += 1;
        }
        if symbol == "-" && count == 1 && matches!(self.token, Token::Int(_) | Token::Float(_)) {
            let number = self.number(true, offset)?;
            return self.postfix(number);
        }
        let operand = self.member()?;
        match (symbol, count % 2) {
            (_, 0) => Ok(operand),
            ("!", _) => self.call("!_", vec![operand], offset),
            _ => self.call("-_", vec![operand], offset),
        }
    }

    fn member(&mut self) -> ParseResult {
        let primary = self.primary()?;
        self.postfix(primary)
    }

    fn postfix(&mut self, mut operand: NodeId) -> ParseResult {
        loop {
            let offset = self.offset;
            if self.accept(".")? {
                let is_optional = self.accept("?")?;
                let name = self.identifier()?;
                let open = self.offset;
                operand = if is_optional {
                    let field = self.add(Expr::Literal(Literal::String(name.into())), open)?;
                    self.call("_?._", vec![operand, field], offset)?
                } else if self.accept("(")? {
                    let arguments = self.arguments(")")?;
                    self.call_or_macro(name, Some(operand), arguments, open)?
                } else {
                    self.add(Expr::Select { operand, field: name.into(), is_test: false }, offset)?
                };
            } else if self.accept("[")? {
                let function = if self.accept("?")? { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.require("]")?;
                operand = self.call(function, vec![operand, index], offset)?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn identifier(&mut self) -> ParseResult<&'a str> {
        let Token::Identifier(name) = self.token else {
            return Err(self.unexpected("IDENTIFIER"));
        };
        self.advance()?;
        Ok(name)
    }

    fn arguments(&mut self, closing: &str) -> ParseResult<Vec<NodeId>> {
        let mut arguments = Vec::new();
        if self.accept(closing)? {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.accept(",")? {
                break;
            }
        }
        self.require(closing)?;
        Ok(arguments)
    }

    fn primary(&mut self) -> ParseResult {
        let offset = self.offset;
        let literal = match self.token {
            Token::Int(_) | Token::Uint(_) | Token::Float(_) => return self.number(false, offset),
            Token::Identifier(_) => return self.name(""),
            Token::String(text) | Token::Bytes(text) => {
                let is_bytes = matches!(self.token, Token::Bytes(_));
                let bytes = unescape(text, is_bytes)
                    .map_err(|message| SyntaxError::new(offset, message))?;
                if is_bytes {
                    Literal::Bytes(bytes.into())
                } else {
                    let text = String::from_utf8(bytes)
                        .map_err(|_| SyntaxError::new(offset, "invalid unicode code point"))?;
                    Literal::String(text.into())
                }
            }
            Token::Symbol("true") => Literal::Bool(true),
            Token::Symbol("false") => Literal::Bool(false),
            Token::Symbol("null") => Literal::Null,
            Token::Symbol("(") => {
                self.advance()?;
                let inner = self.expression()?;
                self.require(")")?;
                return Ok(inner);
            }
            Token::Symbol("[") => return self.list(),
            Token::Symbol("{") => return self.map(),
            Token::Symbol(".") => {
                self.advance()?;
                return self.name(".");
            }
            Token::Symbol(_) | Token::End => return Err(self.unexpected("an expression")),
        };
        self.advance()?;
        self.add(Expr::Literal(literal), offset)
    }

    fn number(&mut self, is_negative: bool, offset: usize) -> ParseResult {
        let sign = if is_negative { "-" } else { "" };
        let radix = |digits: &'a str| match digits.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (digits, 10),
        };
        let literal = match self.token {
            Token::Int(digits) => {
                let (digits, radix) = radix(digits);
                i64::from_str_radix(&format!("{sign}{digits}"), radix)
                    .map(Literal::Int)
                    .map_err(|_| "invalid int literal")
            }
            Token::Uint(digits) => {
                let (digits, radix) = radix(digits);
                u64::from_str_radix(digits, radix)
                    .map(Literal::Uint)
                    .map_err(|_| "invalid uint literal")
            }
            Token::Float(digits) => match format!("{sign}{digits}").parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Literal::Double(number)),
                _ => Err("invalid double literal"),
            },
            _ => return Err(self.unexpected("a number")),
        };
        let literal = literal.map_err(|message| SyntaxError::new(offset, message))?;
        self.advance()?;
        self.add(Expr::Literal(literal), offset)
    }

    /// A variable or the call of a function without receiver.
    fn name(&mut self, dot: &str) -> ParseResult {
        let offset = self.offset;
        let name = self.identifier()?;
        if RESERVED.contains(&name) {
            return Err(SyntaxError::new(offset, format!("reserved identifier: {name}")));
        }
        let open = self.offset;
        if self.accept("(")? {
            let arguments = self.arguments(")")?;
            return self.call_or_macro(name, None, arguments, open);
        }
        self.add(Expr::Identifier(Arc::from(format!("{dot}{name}"))), offset)
    }

    fn list(&mut self) -> ParseResult {
        let offset = self.offset;
        self.require("[")?;
        let mut elements = Vec::new();
        while !self.is("]") {
            if self.is(",") && !elements.is_empty() {
                break;
            }
            let is_optional = self.accept("?")?;
            elements.push(Element { value: self.expression()?, is_optional });
            if !self.accept(",")? {
                break;
            }
        }
        if elements.is_empty() {
            self.accept(",")?;
        }
        self.require("]")?;
        self.add(Expr::List(elements), offset)
    }

    fn map(&mut self) -> ParseResult {
        let offset = self.offset;
        self.require("{")?;
        let mut entries = Vec::new();
        while !self.is("}") && !self.is(",") {
            let is_optional = self.accept("?")?;
            let key = self.expression()?;
            self.require(":")?;
            entries.push(Entry { key, value: self.expression()?, is_optional });
            if !self.accept(",")? {
                break;
            }
        }
        if entries.is_empty() {
            self.accept(",")?;
        }
        self.require("}")?;
        self.add(Expr::Map(entries), offset)
    }
}

fn too_large(offset: usize) -> SyntaxError {
    SyntaxError::new(
        offset,
        format!("expression is nested deeper than {} levels or too large", limits::MAX_DEPTH),
    )
}
