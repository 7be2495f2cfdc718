//! The functions of the environment on values (`docs/spec/cel.md` §2).

mod arithmetic;
mod conversion;
mod formats;
mod formatting;
pub(crate) mod lists;
mod network;
pub(crate) mod pattern;
mod quantities;
mod strings;
mod times;
mod url;

pub(crate) use formatting::{Clause, read_clauses};

use self::pattern::Regex;
use crate::declarations::Function;
use crate::error::Fault;
use crate::meter::Meter;
use crate::value::{Value, equal};

/// What a function may use besides its arguments.
pub(crate) struct Context<'c> {
    pub(crate) meter: &'c Meter,
    /// The function's name, for messages.
    pub(crate) name: &'static str,
    /// The pattern, if it was compiled before.
    pub(crate) pattern: Option<&'c Regex>,
}

/// `None`: the function is not made for such values.
pub(crate) type CallResult<'a> = Option<Result<Value<'a>, Fault>>;

/// Calls the function.
pub(crate) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> Result<Value<'a>, Fault> {
    dispatch(function, arguments, context)
        .unwrap_or_else(|| Err(no_overload(function, arguments, context)))
}

fn dispatch<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> CallResult<'a> {
    use Function as F;
    match function {
        F::Not
        | F::NotStrictlyFalse
        | F::Add
        | F::Divide
        | F::Modulo
        | F::Multiply
        | F::Negate
        | F::Subtract
        | F::Less
        | F::LessEqual
        | F::Greater
        | F::GreaterEqual
        | F::In
        | F::Size => arithmetic::call(function, arguments, context),
        F::TypeOf
        | F::Dyn
        | F::Bool
        | F::Bytes
        | F::Double
        | F::Duration
        | F::Int
        | F::String
        | F::Timestamp
        | F::Uint => conversion::call(function, arguments),
        F::FullYear
        | F::Month
        | F::DayOfYear
        | F::DayOfMonth
        | F::Date
        | F::DayOfWeek
        | F::Hours
        | F::Minutes
        | F::Seconds
        | F::Milliseconds => times::call(function, arguments),
        F::Matches | F::Find | F::FindAll => pattern::call(function, arguments, context),
        F::Contains
        | F::EndsWith
        | F::StartsWith
        | F::CharAt
        | F::LowerAscii
        | F::UpperAscii
        | F::Replace
        | F::Split
        | F::Substring
        | F::Trim
        | F::Quote
        | F::Join => strings::call(function, arguments, context),
        F::IndexOf | F::LastIndexOf => match arguments {
            [Value::List(_), ..] => lists::call(function, arguments, context),
            _ => strings::call(function, arguments, context),
        },
        _ => dispatch_library(function, arguments, context),
    }
}

/// The functions that are no part of the language itself.
fn dispatch_library<'a>(
    function: Function,
    arguments: &[Value<'a>],
    context: &Context<'_>,
) -> CallResult<'a> {
    use Function as F;
    match function {
        F::Format => formatting::call(arguments, context),
        F::Url
        | F::IsUrl
        | F::UrlScheme
        | F::UrlHost
        | F::UrlHostname
        | F::UrlPort
        | F::UrlPath
        | F::UrlQuery => url::call(function, arguments, context),
        F::Ip
        | F::IsIp
        | F::IsCanonicalIp
        | F::Family
        | F::IsUnspecified
        | F::IsLoopback
        | F::IsLinkLocalMulticast
        | F::IsLinkLocalUnicast
        | F::IsGlobalUnicast
        | F::Cidr
        | F::IsCidr
        | F::ContainsIp
        | F::ContainsCidr
        | F::PrefixLength
        | F::Masked => network::call(function, arguments),
        F::FormatNamed | F::Validate | F::NamedFormat(_) => formats::call(function, arguments),
        F::Quantity
        | F::IsQuantity
        | F::Sign
        | F::IsGreaterThan
        | F::IsLessThan
        | F::CompareTo
        | F::AsApproximateFloat
        | F::AsInteger
        | F::IsInteger
        | F::QuantityAdd
        | F::QuantitySub
        | F::Semver
        | F::IsSemver
        | F::Major
        | F::Minor
        | F::Patch => quantities::call(function, arguments),
        _ => lists::call(function, arguments, context),
    }
}

/// What the reference says when no overload fits the values.
fn no_overload(function: Function, arguments: &[Value<'_>], context: &Context<'_>) -> Fault {
    use Function as F;
    use Value as V;
    let first = arguments.first();
    let name = context.name;
    let types: Vec<_> = arguments.iter().map(Value::type_name).collect();
    if let (F::Flatten, [receiver, rest @ ..]) = (function, types.as_slice()) {
        let receiver = if *receiver == "map" { "map(dyn, dyn)" } else { receiver };
        return Fault::text(format!("no such overload: {receiver}.{name}({})", rest.join(", ")));
    }
    // Which values the operator is for at all; others with methods of their own get the short message.
    let (knows, has_methods) = match function {
        F::Add => (
            matches!(
                first,
                Some(
                    V::Int(_)
                        | V::Uint(_)
                        | V::Double(_)
                        | V::String(_)
                        | V::Bytes(_)
                        | V::List(_)
                        | V::Duration(_)
                        | V::Timestamp(_)
                )
            ),
            true,
        ),
        F::Divide | F::Multiply => {
            (matches!(first, Some(V::Int(_) | V::Uint(_) | V::Double(_))), true)
        }
        F::Modulo => (matches!(first, Some(V::Int(_) | V::Uint(_))), true),
        F::Negate => (matches!(first, Some(V::Int(_) | V::Double(_) | V::Duration(_))), true),
        F::Subtract => (
            matches!(
                first,
                Some(V::Int(_) | V::Uint(_) | V::Double(_) | V::Duration(_) | V::Timestamp(_))
            ),
            true,
        ),
        F::Less | F::LessEqual | F::Greater | F::GreaterEqual => (
            matches!(
                first,
                Some(
                    V::Int(_)
                        | V::Uint(_)
                        | V::Double(_)
                        | V::String(_)
                        | V::Bytes(_)
                        | V::Bool(_)
                        | V::Duration(_)
                        | V::Timestamp(_)
                )
            ),
            true,
        ),
        F::Size | F::Sort | F::SortByKeys => (false, true),
        F::Matches => (context.pattern.is_some() || matches!(first, Some(V::String(_))), true),
        F::Not | F::In | F::Contains | F::StartsWith | F::EndsWith => (true, true),
        // Patterns that were compiled before are not looked up by types.
        F::Find | F::FindAll => (context.pattern.is_some(), false),
        _ => (false, false),
    };
    let has_receiver = matches!(first, Some(V::String(_) | V::Duration(_) | V::Timestamp(_)));
    if knows || has_methods && has_receiver {
        return Fault::NO_OVERLOAD;
    }
    if has_methods {
        return Fault::text(format!("no such overload: {name}"));
    }
    Fault::text(format!("no such overload: {name}({})", types.join(", ")))
}

/// Whether values are equal; what cannot be compared is not.
pub(crate) fn is_equal<'a>(a: &Value<'a>, b: &Value<'a>, meter: &Meter) -> Result<bool, Fault> {
    match equal(a, b, meter) {
        Err(Fault::Error(_)) => Ok(false),
        other => other,
    }
}
