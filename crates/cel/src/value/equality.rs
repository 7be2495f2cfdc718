//! Equality and order.

use std::cmp::Ordering;

use super::Value;
use crate::error::Fault;
use crate::meter::Meter;

fn int_and_uint(a: i64, b: u64) -> Ordering {
    match u64::try_from(a) {
        Ok(a) => a.cmp(&b),
        Err(_) => Ordering::Less,
    }
}

/// `other` as a number of `b`'s type, with bounds that such a number has; `b` is not NaN.
fn double_and(b: f64, other: f64, min: f64, max: f64) -> Ordering {
    if b < min {
        Ordering::Greater
    } else if b > max {
        Ordering::Less
    } else {
        other.partial_cmp(&b).unwrap_or(Ordering::Equal)
    }
}

/// How two numbers relate; `None` if they are no numbers, or one is NaN.
fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    const INT: (f64, f64) = (i64::MIN as f64, i64::MAX as f64);
    const UINT: (f64, f64) = (0.0, u64::MAX as f64);
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Uint(a), Value::Uint(b)) => a.cmp(b),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b)?,
        (Value::Int(a), Value::Uint(b)) => int_and_uint(*a, *b),
        (Value::Uint(a), Value::Int(b)) => int_and_uint(*b, *a).reverse(),
        (Value::Int(a), Value::Double(b)) if !b.is_nan() => double_and(*b, *a as f64, INT.0, INT.1),
        (Value::Uint(a), Value::Double(b)) if !b.is_nan() => {
            double_and(*b, *a as f64, UINT.0, UINT.1)
        }
        (Value::Double(_), Value::Int(_) | Value::Uint(_)) => numbers(b, a)?.reverse(),
        _ => return None,
    })
}

/// How two values relate.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, Fault> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => (**a).cmp(&**b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.instant().cmp(&b.instant()),
        (Value::Double(nan), _) | (Value::Int(_) | Value::Uint(_), Value::Double(nan))
            if nan.is_nan() =>
        {
            return Err("NaN values cannot be ordered".into());
        }
        (Value::Double(_), Value::Double(nan)) if nan.is_nan() => {
            return Err("NaN values cannot be ordered".into());
        }
        _ => numbers(a, b).ok_or(Fault::NO_OVERLOAD)?,
    })
}

/// Whether values are equal as `==` sees them: only null equals null.
pub(crate) fn equal_at_top<'a>(a: &Value<'a>, b: &Value<'a>, meter: &Meter) -> Result<bool, Fault> {
    match (a, b) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Null, _) | (_, Value::Null) => Ok(false),
        _ => equal(a, b, meter),
    }
}

/// Within lists and maps, what cannot be compared counts as equal, as in the reference.
fn equal_within<'a>(a: &Value<'a>, b: &Value<'a>, meter: &Meter) -> Result<bool, Fault> {
    match equal_at_top(a, b, meter) {
        Err(Fault::Error(_)) => Ok(true),
        other => other,
    }
}

/// Whether two values are equal.
pub(crate) fn equal<'a>(a: &Value<'a>, b: &Value<'a>, meter: &Meter) -> Result<bool, Fault> {
    meter.step(1)?;
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            meter.step(a.len().min(b.len()) as u64 / 64)?;
            **a == **b
        }
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(a, b, meter)?,
            _ => false,
        },
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal_within(&a, &b, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for key in a.keys() {
                let (Some(a), Some(b)) = (a.find(&key), b.find(&key)) else { return Ok(false) };
                if !equal_within(&a, &b, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Quantity(a, _), Value::Quantity(b, false)) => **a == **b,
        (Value::Semver(a), Value::Semver(b)) => **a == **b,
        (Value::Url(a), Value::Url(b)) => a == b,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Format(a), Value::Format(b)) => a.name == b.name,
        (a, _) if a.is_of_kubernetes() => return Err(Fault::NO_OVERLOAD),
        _ => numbers(a, b) == Some(Ordering::Equal),
    })
}
