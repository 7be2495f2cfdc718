//! What calls cost at run time (`docs/spec/cel.md` §6).

use crate::declarations::Function;
use crate::formats;
use crate::value::{List, Value};

/// Units per character of a text that is passed over.
const PER_CHARACTER: f64 = 0.1;
/// Units per character of a pattern.
const PER_PATTERN_CHARACTER: f64 = 0.25;
/// Units of making a list.
pub(crate) const LIST: u64 = 10;
/// Units of making a map.
pub(crate) const MAP: u64 = 30;

/// How a call's cost follows from its arguments or its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    One,
    /// Passing over the first argument this many times.
    Pass(u8),
    /// Passing twice over the result.
    PassResult,
    /// A pattern on a text.
    Pattern,
    /// A text in a text.
    Substring,
    /// As many as elements in the second argument.
    Elements,
    /// Passing over the shorter one.
    Shorter,
    /// The same, but one unit if the left side is of a type that Kubernetes added.
    Equal,
    /// Passing over both.
    Both,
    /// Passing over everything in a value.
    Everything,
    /// An address in a network; the flag: it must be read from a text.
    ContainsIp(bool),
    /// A network in a network.
    ContainsCidr(bool),
    Validate,
    /// Making a list with as many elements as the result.
    MakeResult,
    Flatten,
    /// Comparing the elements of the list at that place with each other.
    SelfCompare(u8),
    /// Comparing elements of two lists, this many times.
    Sets(u8),
}

pub(crate) fn passing(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

impl Rule {
    pub(crate) fn of(function: Function, overload: Option<&str>) -> Self {
        use Function as F;
        let is = |name: &str| overload == Some(name);
        let is_text =
            overload.is_some_and(|name| name.ends_with("_string") || name.ends_with("_bytes"));
        match function {
            F::Slice | F::Range | F::Reverse => Self::MakeResult,
            F::Flatten => Self::Flatten,
            F::Distinct => Self::SelfCompare(0),
            F::Sort if overload.is_some() => Self::SelfCompare(0),
            F::SortByKeys if overload.is_some() => Self::SelfCompare(1),
            F::SetsContains | F::SetsIntersects => Self::Sets(1),
            F::SetsEquivalent => Self::Sets(2),
            F::IsSorted | F::Sum | F::Max | F::Min | F::IndexOf | F::LastIndexOf => {
                Self::Everything
            }
            F::Ip if is("cidr_ip") => Self::One,
            F::Url
            | F::LowerAscii
            | F::UpperAscii
            | F::Substring
            | F::Trim
            | F::Cidr
            | F::IsIp
            | F::IsCidr
            | F::Ip
            | F::Quantity
            | F::IsQuantity
            | F::Semver
            | F::IsSemver
            | F::StartsWith
            | F::EndsWith
            | F::Quote
            | F::Format => Self::Pass(1),
            F::Bytes if is("string_to_bytes") => Self::Pass(1),
            F::String if is("bytes_to_string") => Self::Pass(1),
            F::Replace | F::Split | F::IsCanonicalIp => Self::Pass(2),
            F::Join => Self::PassResult,
            F::Find | F::FindAll => Self::Pattern,
            F::Matches if is("matches_string") => Self::Pattern,
            F::Contains => Self::Substring,
            F::In if is("in_list") => Self::Elements,
            F::Equal => Self::Equal,
            F::NotEqual => Self::Shorter,
            F::Less | F::LessEqual | F::Greater | F::GreaterEqual if is_text => Self::Shorter,
            F::Add if is_text => Self::Both,
            F::ContainsIp => Self::ContainsIp(is("cidr_contains_ip_string")),
            F::ContainsCidr => Self::ContainsCidr(is("cidr_contains_cidr_string")),
            F::Validate => Self::Validate,
            _ => Self::One,
        }
    }

    /// Whether the cost is known only with the result.
    pub(crate) fn needs_result(self) -> bool {
        matches!(self, Self::PassResult | Self::MakeResult)
    }

    /// The cost; an argument that has no value counts as size 1.
    pub(crate) fn units(self, arguments: &[Option<Value<'_>>], result: Option<&Value<'_>>) -> u64 {
        let argument = |index: usize| arguments.get(index).and_then(Option::as_ref);
        let size = |index: usize| argument(index).map_or(1, Value::size);
        match self {
            Self::One => 1,
            Self::Pass(times) => passing(size(0), PER_CHARACTER * f64::from(times)),
            Self::PassResult => passing(result.map_or(1, Value::size), 2.0 * PER_CHARACTER),
            Self::Pattern => pattern_units(size(0), size(1)),
            Self::Substring => passing(size(0), PER_CHARACTER) * passing(size(1), PER_CHARACTER),
            Self::Elements => size(1),
            Self::Equal if argument(0).is_some_and(Value::is_of_kubernetes) => 1,
            Self::Equal | Self::Shorter => passing(size(0).min(size(1)), PER_CHARACTER),
            Self::Both => passing(size(0) + size(1), PER_CHARACTER),
            Self::Everything => {
                argument(0).map_or(1, |value| everything(value, &mut MAX_VISITS.clone()))
            }
            Self::ContainsIp(is_text) => {
                let other = if is_text { passing(size(1), PER_CHARACTER) } else { 0 };
                passing(2 * size(0), PER_CHARACTER) + other
            }
            Self::ContainsCidr(is_text) => {
                let other = if is_text { passing(size(1), PER_CHARACTER) } else { 0 };
                passing(2 * size(0), PER_CHARACTER) + passing(size(0), PER_CHARACTER) + 1 + other
            }
            Self::Validate => match argument(0) {
                Some(Value::Format(format)) => pattern_units(size(1), format.pattern_size),
                _ => 1,
            },
            Self::MakeResult => made(1.0, result.map_or(1, Value::size)),
            Self::Flatten => {
                let depth = match argument(1) {
                    Some(Value::Int(depth)) => *depth as f64,
                    _ => 1.0,
                };
                made(depth, size(0))
            }
            Self::SelfCompare(place) => match argument(usize::from(place)) {
                Some(Value::List(list)) => self_compare(list),
                _ => 1,
            },
            Self::Sets(times) => {
                1 + (size(0).saturating_mul(size(1)) as f64 * f64::from(times)) as u64
            }
        }
    }
}

fn pattern_units(text: u64, pattern: u64) -> u64 {
    let text = ((1.0 + text as f64) * PER_CHARACTER).ceil() as u64;
    text.saturating_mul(passing(pattern, PER_PATTERN_CHARACTER))
}

/// The cost of making a list of that size, with this many units per element.
pub(crate) fn made(per_element: f64, size: u64) -> u64 {
    ((size as f64 * per_element) as u64).saturating_add(1 + LIST)
}

fn self_compare(list: &List<'_>) -> u64 {
    let size = list.len() as u64;
    let per_pair = match list.get(0) {
        Some(Value::String(_) | Value::Bytes(_)) => 2.0 + PER_CHARACTER,
        _ => 2.0,
    };
    made(per_pair, size.saturating_mul(size))
}

/// Parts of a value that are looked at; one with more costs more than any budget.
const MAX_VISITS: u64 = 2_000_000;

/// The cost of passing over everything that a value is made of.
fn everything(value: &Value<'_>, visits: &mut u64) -> u64 {
    *visits = visits.saturating_sub(1);
    if *visits == 0 {
        return u64::MAX;
    }
    match value {
        Value::String(text) => (text.len() as f64 * PER_CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * PER_CHARACTER) as u64,
        Value::List(list) => {
            let mut sum: u64 = 0;
            for item in list.iter() {
                sum = sum.saturating_add(everything(&item, visits));
                if sum == u64::MAX {
                    break;
                }
            }
            sum
        }
        Value::Map(map) => map.keys().iter().fold(0, |sum: u64, key| {
            let value = map.find(key).map_or(0, |value| everything(&value, visits));
            sum.saturating_add(everything(key, visits)).saturating_add(value)
        }),
        _ => 1,
    }
}

/// The longest pattern of a format, as the estimate assumes it.
pub(crate) const LONGEST_FORMAT_PATTERN: u64 = formats::LONGEST_PATTERN;
