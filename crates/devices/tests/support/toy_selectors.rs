//! A small part of CEL, enough for most recorded selectors: comparisons, `in`, `has`, optional fields, quantities.
//!
//! What it does not know it refuses when compiling, so that a test can leave such data out.

use std::collections::BTreeMap;

use kube_scheduler_api_types::Quantity;
use kube_scheduler_devices::api::Attribute;
use kube_scheduler_devices::{DeviceFacts, Selector, SelectorCompiler};

pub(crate) struct ToySelectors;

/// The text of the error for what is not supported here.
pub(crate) const UNSUPPORTED: &str = "not supported by the test";

#[derive(Clone, Debug, PartialEq)]
enum Expr {
    Or(Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Compare(&'static str, Box<Expr>, Box<Expr>),
    In(Box<Expr>, Box<Expr>),
    Literal(Value),
    List(Vec<Expr>),
    Device,
    Field(Box<Expr>, String),
    /// `.?name.orValue(default)`.
    FieldOr(Box<Expr>, String, Box<Expr>),
    Index(Box<Expr>, String),
    Has(Box<Expr>, String),
    Quantity(String),
    Call(Box<Expr>, &'static str, Box<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Int(i64),
    Bool(bool),
    Version(String),
    Quantity(Quantity),
    Map(BTreeMap<String, Value>),
    /// Unknown domains read as empty.
    Domains(BTreeMap<String, Value>),
    List(Vec<Value>),
}

struct Compiled(Expr);

impl SelectorCompiler for ToySelectors {
    fn compile(&self, expression: &str) -> Result<Box<dyn Selector>, String> {
        let tokens = tokens(expression).ok_or(UNSUPPORTED)?;
        let mut parser = Parser { tokens, at: 0 };
        let expr = parser.or().ok_or(UNSUPPORTED)?;
        if parser.at != parser.tokens.len() {
            return Err(UNSUPPORTED.into());
        }
        Ok(Box::new(Compiled(expr)))
    }
}

fn tokens(text: &str) -> Option<Vec<String>> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let start = at;
        if c.is_whitespace() {
            at += 1;
            continue;
        } else if c == '"' {
            at += 1;
            while *chars.get(at)? != '"' {
                if chars[at] == '\\' {
                    return None;
                }
                at += 1;
            }
            at += 1;
        } else if c.is_alphanumeric() || c == '_' {
            while chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                at += 1;
            }
        } else {
            let two: String = chars[at..chars.len().min(at + 2)].iter().collect();
            at += if ["&&", "||", "==", "!=", ">=", "<=", ".?"].contains(&&*two) { 2 } else { 1 };
        }
        tokens.push(chars[start..at].iter().collect());
    }
    Some(tokens)
}

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", |token| token)
    }

    fn next(&mut self) -> Option<String> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned()
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        (self.next()? == token).then_some(())
    }

    fn or(&mut self) -> Option<Expr> {
        let mut left = self.and()?;
        while self.peek() == "||" {
            self.at += 1;
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Some(left)
    }

    fn and(&mut self) -> Option<Expr> {
        let mut left = self.comparison()?;
        while self.peek() == "&&" {
            self.at += 1;
            left = Expr::And(Box::new(left), Box::new(self.comparison()?));
        }
        Some(left)
    }

    fn comparison(&mut self) -> Option<Expr> {
        let left = self.unary()?;
        let operator = ["==", "!=", ">=", "<=", ">", "<"].into_iter().find(|op| *op == self.peek());
        if let Some(operator) = operator {
            self.at += 1;
            return Some(Expr::Compare(operator, Box::new(left), Box::new(self.unary()?)));
        }
        if self.peek() == "in" {
            self.at += 1;
            return Some(Expr::In(Box::new(left), Box::new(self.unary()?)));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        if self.peek() == "!" {
            self.at += 1;
            return Some(Expr::Not(Box::new(self.unary()?)));
        }
        let mut expr = self.primary()?;
        loop {
            match self.peek() {
                "." => {
                    self.at += 1;
                    let name = self.next()?;
                    if self.peek() == "(" {
                        let method = ["compareTo", "isGreaterThan", "isLessThan"]
                            .into_iter()
                            .find(|method| *method == name)?;
                        self.at += 1;
                        let argument = self.or()?;
                        self.eat(")")?;
                        expr = Expr::Call(Box::new(expr), method, Box::new(argument));
                    } else {
                        expr = Expr::Field(Box::new(expr), name);
                    }
                }
                ".?" => {
                    self.at += 1;
                    let name = self.next()?;
                    self.eat(".")?;
                    self.eat("orValue")?;
                    self.eat("(")?;
                    let default = self.or()?;
                    self.eat(")")?;
                    expr = Expr::FieldOr(Box::new(expr), name, Box::new(default));
                }
                "[" => {
                    self.at += 1;
                    let key = text_of(&self.next()?)?;
                    self.eat("]")?;
                    expr = Expr::Index(Box::new(expr), key);
                }
                _ => return Some(expr),
            }
        }
    }

    fn primary(&mut self) -> Option<Expr> {
        let token = self.next()?;
        match &*token {
            "(" => {
                let inner = self.or()?;
                self.eat(")")?;
                Some(inner)
            }
            "[" => {
                let mut list = Vec::new();
                while self.peek() != "]" {
                    list.push(self.or()?);
                    if self.peek() == "," {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Some(Expr::List(list))
            }
            "device" => Some(Expr::Device),
            "true" => Some(Expr::Literal(Value::Bool(true))),
            "false" => Some(Expr::Literal(Value::Bool(false))),
            "has" => {
                self.eat("(")?;
                let inner = self.or()?;
                self.eat(")")?;
                match inner {
                    Expr::Field(of, name) => Some(Expr::Has(of, name)),
                    _ => None,
                }
            }
            "quantity" => {
                self.eat("(")?;
                let text = text_of(&self.next()?)?;
                self.eat(")")?;
                Some(Expr::Quantity(text))
            }
            _ if token.starts_with('"') => {
                text_of(&token).map(|text| Expr::Literal(Value::Text(text)))
            }
            _ => token.parse().ok().map(|number| Expr::Literal(Value::Int(number))),
        }
    }
}

fn text_of(token: &str) -> Option<String> {
    Some(token.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

impl Selector for Compiled {
    fn matches(&self, device: DeviceFacts<'_>) -> Result<bool, String> {
        let root = device_value(device)?;
        match evaluate(&self.0, &root)? {
            Value::Bool(result) => Ok(result),
            Value::Text(_) => Err(
                "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'".into(),
            ),
            Value::Int(_) => Err(
                "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to 'bool'".into(),
            ),
            other => Err(format!("{UNSUPPORTED}: {other:?}")),
        }
    }
}

fn by_domain(
    driver: &str,
    values: impl Iterator<Item = (String, Value)>,
) -> BTreeMap<String, Value> {
    let mut domains: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for (name, value) in values {
        let (domain, id) = name.split_once('/').unwrap_or((driver, &name));
        domains.entry(domain.to_owned()).or_default().insert(id.to_owned(), value);
    }
    domains.into_iter().map(|(domain, values)| (domain, Value::Map(values))).collect()
}

fn device_value(device: DeviceFacts<'_>) -> Result<Value, String> {
    let mut attributes = Vec::new();
    for (name, attribute) in device.attributes.iter() {
        let value = match attribute {
            Attribute::String(text) => Value::Text(text.to_string()),
            Attribute::Int(number) => Value::Int(*number),
            Attribute::Bool(truth) => Value::Bool(*truth),
            Attribute::Version(text) => Value::Version(text.to_string()),
            _ => return Err(format!("attribute {name}: unsupported attribute value")),
        };
        attributes.push((name.to_string(), value));
    }
    let capacity = device.capacity.iter();
    let capacity = capacity
        .map(|(name, capacity)| (name.to_string(), Value::Quantity(capacity.value.clone())));
    let fields = [
        ("driver", Value::Text(device.driver.to_owned())),
        ("allowMultipleAllocations", Value::Bool(device.allow_multiple_allocations)),
        ("attributes", Value::Domains(by_domain(device.driver, attributes.into_iter()))),
        ("capacity", Value::Domains(by_domain(device.driver, capacity))),
    ];
    Ok(Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

fn evaluate(expr: &Expr, device: &Value) -> Result<Value, String> {
    let truth = |expr: &Expr| match evaluate(expr, device)? {
        Value::Bool(truth) => Ok(truth),
        _ => Err("no such overload".to_owned()),
    };
    Ok(match expr {
        Expr::Literal(value) => value.clone(),
        Expr::Device => device.clone(),
        Expr::List(list) => {
            Value::List(list.iter().map(|e| evaluate(e, device)).collect::<Result<_, _>>()?)
        }
        Expr::Not(inner) => Value::Bool(!truth(inner)?),
        Expr::Or(left, right) => match (truth(left), truth(right)) {
            (Ok(true), _) | (_, Ok(true)) => Value::Bool(true),
            (Err(error), _) | (_, Err(error)) => return Err(error),
            _ => Value::Bool(false),
        },
        Expr::And(left, right) => match (truth(left), truth(right)) {
            (Ok(false), _) | (_, Ok(false)) => Value::Bool(false),
            (Err(error), _) | (_, Err(error)) => return Err(error),
            _ => Value::Bool(true),
        },
        Expr::Compare(operator, left, right) => {
            let (left, right) = (evaluate(left, device)?, evaluate(right, device)?);
            let order = match (&left, &right) {
                (Value::Int(a), Value::Int(b)) => a.cmp(b),
                _ if *operator == "==" => return Ok(Value::Bool(left == right)),
                _ if *operator == "!=" => return Ok(Value::Bool(left != right)),
                _ => return Err("no such overload".into()),
            };
            Value::Bool(match *operator {
                "==" => order.is_eq(),
                "!=" => order.is_ne(),
                ">=" => order.is_ge(),
                "<=" => order.is_le(),
                ">" => order.is_gt(),
                _ => order.is_lt(),
            })
        }
        Expr::In(left, right) => match (evaluate(left, device)?, evaluate(right, device)?) {
            (value, Value::List(list)) => Value::Bool(list.contains(&value)),
            (Value::Text(key), Value::Map(map) | Value::Domains(map)) => {
                Value::Bool(map.contains_key(&key))
            }
            _ => return Err("no such overload".into()),
        },
        Expr::Field(of, name) | Expr::Index(of, name) => match evaluate(of, device)? {
            Value::Map(map) => map.get(name).cloned().ok_or(format!("no such key: {name}"))?,
            Value::Domains(map) => map.get(name).cloned().unwrap_or(Value::Map(BTreeMap::new())),
            _ => return Err("no such overload".into()),
        },
        Expr::FieldOr(of, name, default) => match evaluate(of, device)? {
            Value::Map(map) => match map.get(name) {
                Some(value) => value.clone(),
                None => evaluate(default, device)?,
            },
            _ => return Err("no such overload".into()),
        },
        Expr::Has(of, name) => match evaluate(of, device)? {
            Value::Map(map) => Value::Bool(map.contains_key(name)),
            _ => return Err("no such overload".into()),
        },
        Expr::Quantity(text) => {
            Value::Quantity(Quantity::parse(text).map_err(|error| error.to_string())?)
        }
        Expr::Call(of, method, argument) => {
            let (Value::Quantity(of), Value::Quantity(argument)) =
                (evaluate(of, device)?, evaluate(argument, device)?)
            else {
                return Err("no such overload".into());
            };
            match *method {
                "compareTo" => Value::Int(of.cmp(&argument) as i64),
                "isGreaterThan" => Value::Bool(of > argument),
                _ => Value::Bool(of < argument),
            }
        }
    })
}
