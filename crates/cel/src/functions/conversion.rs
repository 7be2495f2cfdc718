//! Conversions between types.

use kube_scheduler_api_types::float_text;

use super::CallResult;
use crate::declarations::Function;
use crate::error::Fault;
use crate::float;
use crate::time::{self, Timestamp};
use crate::value::{Text, Value};

/// Two to the power of 63 and of 64: the first numbers beyond int and uint.
const BEYOND_INT: f64 = 9_223_372_036_854_775_808.0;
const BEYOND_UINT: f64 = 18_446_744_073_709_551_616.0;

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>]) -> CallResult<'a> {
    use Function as F;
    let [value] = arguments else { return None };
    match function {
        F::TypeOf => Some(Ok(Value::Type(value.type_name()))),
        F::Dyn => Some(Ok(value.clone())),
        F::Bool => to_bool(value),
        F::Bytes => match value {
            Value::Bytes(_) => Some(Ok(value.clone())),
            Value::String(text) => Some(Ok(Value::Bytes(text.as_bytes().into()))),
            _ => None,
        },
        F::Double => to_double(value),
        F::Duration => to_duration(value),
        F::Int => to_int(value),
        F::Uint => to_uint(value),
        F::String => to_string(value),
        F::Timestamp => match value {
            Value::Timestamp(_) => Some(Ok(value.clone())),
            Value::Int(seconds) => Some(Timestamp::from_seconds(*seconds).map(Value::Timestamp)),
            Value::String(text) => Some(Timestamp::parse(text).map(Value::Timestamp)),
            _ => None,
        },
        _ => None,
    }
}

fn to_bool<'a>(value: &Value<'a>) -> CallResult<'a> {
    match value {
        Value::Bool(_) => Some(Ok(value.clone())),
        Value::String(text) => Some(match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(Fault::conversion("string", "bool")),
        }),
        _ => None,
    }
}

fn to_duration<'a>(value: &Value<'a>) -> CallResult<'a> {
    match value {
        Value::Duration(_) => Some(Ok(value.clone())),
        Value::String(text) => Some(time::parse_duration(text).map(Value::Duration)),
        // Declared, but never done.
        Value::Int(_) => Some(Err(Fault::conversion("int", "google.protobuf.Duration"))),
        _ => None,
    }
}

fn to_double<'a>(value: &Value<'a>) -> CallResult<'a> {
    Some(Ok(Value::Double(match value {
        Value::Double(value) => *value,
        Value::Int(value) => *value as f64,
        Value::Uint(value) => *value as f64,
        Value::String(text) => match float::parse(text) {
            Some(value) => value,
            None => return Some(Err(Fault::conversion("string", "double"))),
        },
        _ => return None,
    })))
}

fn to_int<'a>(value: &Value<'a>) -> CallResult<'a> {
    Some(Ok(Value::Int(match value {
        Value::Int(value) | Value::Duration(value) => *value,
        Value::Uint(value) => match i64::try_from(*value) {
            Ok(value) => value,
            Err(_) => return Some(Err("integer overflow".into())),
        },
        Value::Double(value) if *value > -BEYOND_INT && *value < BEYOND_INT => *value as i64,
        Value::Double(_) => return Some(Err("integer overflow".into())),
        Value::Timestamp(time) => time.seconds(),
        Value::String(text) => match text.parse() {
            Ok(value) => value,
            Err(_) => return Some(Err(Fault::conversion("string", "int"))),
        },
        _ => return None,
    })))
}

fn to_uint<'a>(value: &Value<'a>) -> CallResult<'a> {
    Some(Ok(Value::Uint(match value {
        Value::Uint(value) => *value,
        Value::Int(value) => match u64::try_from(*value) {
            Ok(value) => value,
            Err(_) => return Some(Err("unsigned integer overflow".into())),
        },
        Value::Double(value) if *value >= 0.0 && *value < BEYOND_UINT => *value as u64,
        Value::Double(_) => return Some(Err("unsigned integer overflow".into())),
        Value::String(text) => match text.parse::<u64>() {
            Ok(value) if !text.starts_with('+') => value,
            _ => return Some(Err(Fault::conversion("string", "uint"))),
        },
        _ => return None,
    })))
}

fn to_string<'a>(value: &Value<'a>) -> CallResult<'a> {
    Some(Ok(Value::String(Text::from(match value {
        Value::String(_) => return Some(Ok(value.clone())),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Some(Err("invalid UTF-8 in bytes, cannot convert to string".into()));
            }
        },
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => float_text(*value),
        Value::Duration(nanos) => time::duration_text(*nanos),
        Value::Timestamp(time) => time.text(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(cidr) => format!("{}/{}", cidr.address, cidr.bits),
        _ => return None,
    }))))
}
