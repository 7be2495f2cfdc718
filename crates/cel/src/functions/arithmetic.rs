//! Operators and sizes.

use std::cmp::Ordering;

use super::lists::contains;
use super::{CallResult, Context};
use crate::declarations::Function;
use crate::error::Fault;
use crate::value::{Value, char_count, compare};

const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";

fn int<'a>(result: Option<i64>) -> CallResult<'a> {
    Some(result.map(Value::Int).ok_or_else(|| INT_OVERFLOW.into()))
}

fn uint<'a>(result: Option<u64>) -> CallResult<'a> {
    Some(result.map(Value::Uint).ok_or_else(|| UINT_OVERFLOW.into()))
}

fn duration<'a>(result: Option<i64>) -> CallResult<'a> {
    Some(result.map(Value::Duration).ok_or_else(|| INT_OVERFLOW.into()))
}

fn fails<'a>(message: &'static str) -> CallResult<'a> {
    Some(Err(message.into()))
}

pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> CallResult<'a> {
    use Function as F;
    match (function, arguments) {
        (F::Not, [Value::Bool(value)]) => Some(Ok(Value::Bool(!value))),
        (F::NotStrictlyFalse, [value]) => {
            Some(Ok(Value::Bool(!matches!(value, Value::Bool(false)))))
        }
        (F::Negate, [Value::Int(value)]) => int(value.checked_neg()),
        (F::Negate, [Value::Duration(value)]) => duration(value.checked_neg()),
        (F::Negate, [Value::Double(value)]) => Some(Ok(Value::Double(-value))),
        (F::Add, [a, b]) => add(a, b, context),
        (F::Subtract, [a, b]) => subtract(a, b),
        (F::Multiply | F::Divide | F::Modulo, [a, b]) => scale(function, a, b),
        (F::Less | F::LessEqual | F::Greater | F::GreaterEqual, [a, b]) => order(function, a, b),
        (F::In, [value, Value::List(list)]) => {
            Some(contains(list, value, context.meter).map(Value::Bool))
        }
        (F::In, [value, Value::Map(map)]) => Some(map.contains(value).map(Value::Bool)),
        (F::Size, [value]) => {
            let size = match value {
                Value::String(text) => char_count(text),
                Value::Bytes(bytes) => bytes.len(),
                Value::List(list) => list.len(),
                Value::Map(map) => map.len(),
                _ => return None,
            };
            Some(Ok(Value::Int(size as i64)))
        }
        _ => None,
    }
}

fn add<'a>(a: &Value<'a>, b: &Value<'a>, context: &Context<'_>) -> CallResult<'a> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => return int(a.checked_add(*b)),
        (Value::Uint(a), Value::Uint(b)) => return uint(a.checked_add(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::Duration(a), Value::Duration(b)) => return duration(a.checked_add(*b)),
        (Value::Duration(a), Value::Timestamp(b)) | (Value::Timestamp(b), Value::Duration(a)) => {
            b.plus(*a).map(Value::Timestamp)
        }
        (Value::String(a), Value::String(b)) => context
            .meter
            .allocate((a.len() + b.len()) as u64)
            .map(|()| Value::text([&**a, &**b].concat())),
        (Value::Bytes(a), Value::Bytes(b)) => context
            .meter
            .allocate((a.len() + b.len()) as u64)
            .map(|()| Value::Bytes([&**a, &**b].concat().into())),
        (Value::List(a), Value::List(b)) => {
            if a.len() == 0 {
                return Some(Ok(Value::List(b.clone())));
            }
            if b.len() == 0 {
                return Some(Ok(Value::List(a.clone())));
            }
            context
                .meter
                .allocate_elements((a.len() + b.len()) as u64)
                .map(|()| Value::list(a.iter().chain(b.iter()).collect()))
        }
        _ => return None,
    })
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> CallResult<'a> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => return int(a.checked_sub(*b)),
        (Value::Uint(a), Value::Uint(b)) => return uint(a.checked_sub(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => return duration(a.checked_sub(*b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.minus(*b).map(Value::Duration),
        (Value::Timestamp(a), Value::Duration(b)) => b
            .checked_neg()
            .ok_or_else(|| Fault::from(INT_OVERFLOW))
            .and_then(|b| a.plus(b))
            .map(Value::Timestamp),
        _ => return None,
    })
}

fn scale<'a>(function: Function, a: &Value<'a>, b: &Value<'a>) -> CallResult<'a> {
    use Function as F;
    match (function, a, b) {
        (F::Multiply, Value::Int(a), Value::Int(b)) => int(a.checked_mul(*b)),
        (F::Multiply, Value::Uint(a), Value::Uint(b)) => uint(a.checked_mul(*b)),
        (F::Multiply, Value::Double(a), Value::Double(b)) => Some(Ok(Value::Double(a * b))),
        (F::Divide, Value::Double(a), Value::Double(b)) => Some(Ok(Value::Double(a / b))),
        (F::Divide, Value::Int(_), Value::Int(0)) | (F::Divide, Value::Uint(_), Value::Uint(0)) => {
            fails("division by zero")
        }
        (F::Modulo, Value::Int(_), Value::Int(0)) | (F::Modulo, Value::Uint(_), Value::Uint(0)) => {
            fails("modulus by zero")
        }
        (F::Divide, Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
        (F::Modulo, Value::Int(a), Value::Int(b)) => int(a.checked_rem(*b)),
        (F::Divide, Value::Uint(a), Value::Uint(b)) => uint(a.checked_div(*b)),
        (F::Modulo, Value::Uint(a), Value::Uint(b)) => uint(a.checked_rem(*b)),
        _ => None,
    }
}

fn order<'a>(function: Function, a: &Value<'a>, b: &Value<'a>) -> CallResult<'a> {
    let is_ordered = matches!(
        a,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    );
    if !is_ordered {
        return None;
    }
    Some(compare(a, b).map(|order| {
        Value::Bool(match function {
            Function::Less => order == Ordering::Less,
            Function::LessEqual => order != Ordering::Greater,
            Function::Greater => order == Ordering::Greater,
            _ => order != Ordering::Less,
        })
    }))
}
