//! Quantities and semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_scheduler_api_types::Quantity;

use super::CallResult;
use crate::declarations::Function;
use crate::error::Fault;
use crate::semver::Version;
use crate::value::{SharedRef, Value};

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>]) -> CallResult<'a> {
    use Function as F;
    Some(match (function, arguments) {
        (F::Quantity, [Value::String(text)]) => Quantity::parse(text)
            .map(|quantity| Value::Quantity(SharedRef::Owned(Arc::new(quantity)), false))
            .map_err(|error| Fault::text(error.to_string())),
        (F::IsQuantity, [Value::String(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        (F::Semver | F::IsSemver, [Value::String(text), rest @ ..]) => {
            let tolerant = match rest {
                [] => false,
                [Value::Bool(tolerant)] => *tolerant,
                _ => return None,
            };
            let read =
                if tolerant { Version::parse_tolerantly(text) } else { Version::parse(text) };
            match function {
                F::IsSemver => Ok(Value::Bool(read.is_ok())),
                _ => read
                    .map(|version| Value::Semver(SharedRef::Owned(Arc::new(version))))
                    .map_err(|error| Fault::text(error.to_string())),
            }
        }
        (F::QuantityAdd | F::QuantitySub, [Value::Quantity(quantity, _), other]) => {
            let other = match other {
                Value::Quantity(other, _) => (**other).clone(),
                Value::Int(other) => Quantity::from_units(*other),
                _ => return None,
            };
            let mut result = (**quantity).clone();
            if function == F::QuantityAdd {
                result.add(&other);
            } else {
                result.subtract(&other);
            }
            Ok(Value::Quantity(SharedRef::Owned(Arc::new(result)), true))
        }
        (_, [Value::Quantity(a, _), Value::Quantity(b, _)]) => {
            return comparison(function, (**a).cmp(b));
        }
        (_, [Value::Semver(a), Value::Semver(b)]) => return comparison(function, (**a).cmp(b)),
        (_, [Value::Quantity(quantity, _)]) => return of_quantity(function, quantity),
        (_, [Value::Semver(version)]) => {
            let [major, minor, patch] = version.numbers();
            let number = match function {
                F::Major => major,
                F::Minor => minor,
                F::Patch => patch,
                _ => return None,
            };
            // Wraps around, as in the reference.
            Ok(Value::Int(number.cast_signed()))
        }
        _ => return None,
    })
}

fn comparison<'a>(function: Function, order: Ordering) -> CallResult<'a> {
    Some(Ok(match function {
        Function::IsGreaterThan => Value::Bool(order == Ordering::Greater),
        Function::IsLessThan => Value::Bool(order == Ordering::Less),
        Function::CompareTo => Value::Int(order as i64),
        _ => return None,
    }))
}

fn of_quantity<'a>(function: Function, quantity: &Quantity) -> CallResult<'a> {
    Some(Ok(match function {
        Function::Sign => Value::Int(quantity.sign().into()),
        Function::AsApproximateFloat => Value::Double(quantity.approximate()),
        Function::IsInteger => Value::Bool(quantity.as_integer().is_some()),
        Function::AsInteger => match quantity.as_integer() {
            Some(number) => Value::Int(number),
            None => return Some(Err("cannot convert value to integer".into())),
        },
        _ => return None,
    }))
}
