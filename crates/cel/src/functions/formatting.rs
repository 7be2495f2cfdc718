//! `format`: values in the places of a text that `%` marks.

use kube_scheduler_api_types::float_text;

use super::{CallResult, Context};
use crate::error::Fault;
use crate::quote::quoted;
use crate::time;
use crate::value::Value;

/// Digits after the point where none are asked for.
const DEFAULT_PRECISION: usize = 6;
/// More digits after the point are refused. Parity: the reference has no limit.
const MAX_PRECISION: usize = 1000;

/// How one value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex { is_upper: bool },
    Octal,
}

impl Clause {
    /// The error about a value of the wrong type.
    pub(crate) fn refusal(self, type_name: &str) -> String {
        let why = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {why}, was given {type_name}")
    }
}

/// Reads the template: `literal` gets the text between the clauses, `clause` each clause with its number.
pub(crate) fn read_clauses<E: From<String>>(
    template: &str,
    count: usize,
    mut literal: impl FnMut(&str),
    mut clause: impl FnMut(usize, Clause) -> Result<String, E>,
) -> Result<usize, E> {
    let mut rest = template;
    let mut used = 0;
    while let Some(at) = rest.find('%') {
        literal(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            literal("%");
            rest = after;
            continue;
        }
        if used >= count {
            return Err(format!("index {used} out of range").into());
        }
        let (read, after) = read_clause(rest)?;
        literal(&clause(used, read)?);
        used += 1;
        rest = after;
    }
    literal(rest);
    Ok(used)
}

fn read_clause(text: &str) -> Result<(Clause, &str), String> {
    let fails = |why: &str| Err(format!("could not parse formatting clause: {why}"));
    let mut rest = text;
    let mut precision = DEFAULT_PRECISION;
    if let Some(after) = rest.strip_prefix('.') {
        let Some(end) = after.find(|c: char| !c.is_ascii_digit()) else {
            return fails(
                "error while parsing precision: could not find end of precision specifier",
            );
        };
        precision = match after[..end].parse() {
            Ok(precision) if precision <= MAX_PRECISION => precision,
            _ => return fails("error while parsing precision: not a number that is allowed"),
        };
        rest = &after[end..];
    }
    let Some(c) = rest.chars().next() else {
        return Err("unexpected end of string".to_owned());
    };
    let clause = match c {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' | 'X' => Clause::Hex { is_upper: c == 'X' },
        'o' => Clause::Octal,
        other => return fails(&format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, &rest[c.len_utf8()..]))
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::text(message)
    }
}

pub(super) fn call<'a>(arguments: &[Value<'a>], context: &Context<'_>) -> CallResult<'a> {
    let [Value::String(template), Value::List(values)] = arguments else { return None };
    let mut out = String::new();
    let written = read_clauses(
        template,
        values.len(),
        |text| out.push_str(text),
        |index, clause| {
            let value = values.get(index).unwrap_or(Value::Null);
            let text = write(&value, clause, context)?;
            context.meter.allocate(text.len() as u64)?;
            Ok::<_, Fault>(text)
        },
    );
    Some(written.map(|_| Value::text(out)))
}

fn write(value: &Value<'_>, clause: Clause, context: &Context<'_>) -> Result<String, Fault> {
    let text = match (clause, value) {
        (Clause::String, value) => string(value, context)?,
        (Clause::Decimal, Value::Int(value)) => Some(value.to_string()),
        (Clause::Decimal, Value::Uint(value)) => Some(value.to_string()),
        (Clause::Binary, Value::Int(value)) => Some(signed(*value, |value| format!("{value:b}"))),
        (Clause::Binary, Value::Uint(value)) => Some(format!("{value:b}")),
        (Clause::Binary, Value::Bool(value)) => Some(u8::from(*value).to_string()),
        (Clause::Octal, Value::Int(value)) => Some(signed(*value, |value| format!("{value:o}"))),
        (Clause::Octal, Value::Uint(value)) => Some(format!("{value:o}")),
        (Clause::Hex { .. }, Value::Int(value)) => {
            Some(signed(*value, |value| format!("{value:x}")))
        }
        (Clause::Hex { .. }, Value::Uint(value)) => Some(format!("{value:x}")),
        (Clause::Hex { .. }, Value::String(text)) => Some(hex(text.as_bytes())),
        (Clause::Hex { .. }, Value::Bytes(bytes)) => Some(hex(bytes)),
        (Clause::Fixed(precision), value) => number(value).map(|number| fixed(number, precision)),
        (Clause::Scientific(precision), value) => {
            number(value).map(|number| scientific(number, precision))
        }
        _ => None,
    };
    let text = text.ok_or_else(|| Fault::text(clause.refusal(value.type_name())))?;
    Ok(if clause == (Clause::Hex { is_upper: true }) { text.to_uppercase() } else { text })
}

fn signed(value: i64, write: impl FnOnce(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", write(value.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn not_finite(number: f64) -> Option<&'static str> {
    match number {
        n if n.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// American English: commas between thousands.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    let text = format!("{number:.precision$}");
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits
        .split_once('.')
        .map_or((digits, String::new()), |(whole, fraction)| (whole, format!(".{fraction}")));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{}{grouped}{fraction}", &text[..text.len() - digits.len()])
}

/// American English: the exponent as a power of ten.
fn scientific(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        // As in Go's library for languages, the precision is the width here.
        return format!("{text:>precision$}");
    }
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("⁻", exponent),
        None => ("", exponent),
    };
    let superscript =
        |c: char| c.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize));
    let raised: String = format!("{exponent:0>2}").chars().filter_map(superscript).collect();
    format!("{digits}\u{202f}×\u{202f}10{sign}{raised}")
}

/// A value by `%s`.
fn string(value: &Value<'_>, context: &Context<'_>) -> Result<Option<String>, Fault> {
    context.meter.step(1)?;
    Ok(Some(match value {
        Value::String(text) => text.to_string(),
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => float_text(*value),
        Value::Duration(nanos) => time::duration_text(*nanos),
        Value::Timestamp(time) => time.text(),
        Value::Type(name) => (*name).to_owned(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err("invalid UTF-8 in bytes, cannot convert to string".into()),
        },
        Value::List(list) => {
            let items: Result<Vec<_>, _> =
                list.iter().map(|item| element(&item, context)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for key in map.keys() {
                if !matches!(
                    key,
                    Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)
                ) {
                    return Err(Fault::text(format!(
                        "error during formatting: no formatting function for map key of type {}",
                        key.type_name()
                    )));
                }
                let value = map.find(&key).unwrap_or(Value::Null);
                entries.push((element(&key, context)?, element(&value, context)?));
            }
            entries.sort();
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => return Ok(None),
    }))
}

/// A value within a list or map.
fn element(value: &Value<'_>, context: &Context<'_>) -> Result<String, Fault> {
    let text = match value {
        Value::Double(value) if value.is_finite() => format!("{value:.6}"),
        value => string(value, context)?.ok_or_else(|| {
            let name = value.type_name();
            Fault::text(format!("error during formatting: no formatting function for {name}"))
        })?,
    };
    context.meter.allocate(text.len() as u64)?;
    Ok(match value {
        Value::String(_) | Value::Double(f64::INFINITY | f64::NEG_INFINITY) => quoted(&text),
        Value::Double(value) if value.is_nan() => quoted(&text),
        Value::Bytes(_) => format!("b{}", quoted(&text)),
        Value::Timestamp(_) => format!("timestamp({})", quoted(&text)),
        Value::Duration(_) => format!("duration({})", quoted(&text)),
        _ => text,
    })
}
